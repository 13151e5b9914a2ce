"""Regressions: faults that attacks on a hostile clone found, one test for each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.context.digest import renew_digests, write_digest
from smp_memory.discovery import find_root
from smp_memory.errors import SessionArchived, SessionExists, SessionNotFound, StorageCorrupt, UserError
from smp_memory.files.layouts import NAMES
from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.user_state import trusted_stores
from smp_memory.memory import open_memory
from tests.archive_files import archive_files, archive_of
from tests.interrupted_system import interruptions
from tests.user_state import state_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links and pipes")
layouts = pytest.mark.parametrize("layout", NAMES)


def run(*words: str, at: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "smp_memory", *words], cwd=at, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip


def within(seconds: float, act: Any) -> list[Any]:
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(act()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert done, "it waits"
    return done


# -- archives beside sessions


def twin(root: Path, layout: str, text: str) -> smp_memory.Memory:
    """A store in which the session `se` is archived, and another session of that name was put in its place."""
    memory = smp_memory.open(root, layout=layout)
    session = memory.create_session("se")
    session.add_decision("first")
    memory.close()
    shutil.copytree(root, root.parent / "before")
    memory = smp_memory.open(root)
    memory.session("se").add_decision(text)
    memory.archive_session("se")
    memory.close()
    for path in (root.parent / "before").rglob("*"):
        target = root / path.relative_to(root.parent / "before")
        if path.is_file() and ".smp" not in path.parts and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return smp_memory.open(root)


def kept(root: Path) -> list[Path]:
    return [path for path in archive_files(root) if ".kept-" in path.name]


@layouts
@pytest.mark.parametrize("step", ["restore_session", "archive_session", "delete_session"])
def test_archive_that_holds_more_than_the_session_beside_it_is_kept(tmp_path: Path, layout: str, step: str) -> None:
    memory = twin(tmp_path / "store", layout, "precious")
    assert [record.text for record in memory.session("se").records()] == ["first"]
    if step == "restore_session":
        with pytest.raises(SessionExists, match="kept as"):
            memory.restore_session("se")
    else:
        getattr(memory, step)("se")
    [path] = kept(tmp_path / "store")
    import tarfile

    with tarfile.open(path) as archive:
        members = [archive.extractfile(each) for each in archive.getmembers()]
        assert any(b"precious" in member.read() for member in members if member is not None)


@layouts
def test_archive_that_an_interrupted_step_left_is_removed(tmp_path: Path, layout: str) -> None:
    memory = twin(tmp_path / "store", layout, "precious")
    archive = archive_of(tmp_path / "store", layout, "se")
    data = archive.read_bytes()
    with pytest.raises(SessionExists):
        memory.restore_session("se")
    memory.delete_session("se")
    kept(tmp_path / "store")[0].rename(archive)
    memory.restore_session("se")
    assert [record.text for record in memory.session("se").records()] == ["first", "precious"]
    archive.parent.mkdir(exist_ok=True)
    archive.write_bytes(data)  # as if the process had died before it removed the archive
    memory.session("se").add_decision("later")
    memory.restore_session("se")
    assert not archive.exists()
    assert not kept(tmp_path / "store")


def machine(layout: str) -> MemorySystem:
    """A store with the session `se`, and another one that is archived, so that there is an archive folder."""
    system = MemorySystem()
    with open_memory("/store", layout=layout, system=system) as memory:
        memory.create_session("se").add_decision("precious")
        memory.create_session("other")
        memory.archive_session("other")
    return system


def two_stores(system: MemorySystem) -> tuple[smp_memory.Memory, smp_memory.Memory]:
    """The store in two processes; the second one does not wait for locks."""
    patience = {"concurrency": {"lock_timeout_ms": 1}}
    return open_memory("/store", system=system), open_memory("/store", system=system, config=patience)


@layouts
def test_session_that_is_being_archived_cannot_be_created_again(layout: str) -> None:
    for system in interruptions(machine(layout)):
        first, second = two_stores(system)
        system.happens = lambda second=second: second.archive_session("se")
        with pytest.raises(SessionExists):
            first.create_session("se")
        system.happens = None
        assert [record.text for record in first.session("se").records()] == ["precious"], system.at


@layouts
@pytest.mark.parametrize("names", [("delete_session", "undelete_session"), ("archive_session", "restore_session")])
def test_session_archived_and_restored_during_a_read_is_not_empty(layout: str, names: tuple[str, str]) -> None:
    away, back = names
    base = machine(layout)
    for ask in (
        lambda memory, session: len(session.records()),
        lambda memory, session: session.stats().memories,
        lambda memory, session: session.export(format="jsonl").count("precious"),
        lambda memory, session: len(memory.query("precious", sessions=["se"])),
    ):
        for system in interruptions(base):
            first, second = two_stores(system)
            session = first.session("se")
            getattr(second, away)("se")
            system.happens = lambda second=second: getattr(second, back)("se")
            try:
                found = ask(first, session)
            except (SessionArchived, SessionNotFound):
                found = 1
            assert found == 1, system.at


# -- digests


def test_digest_is_not_written_through_a_link(tmp_path: Path) -> None:
    memory = smp_memory.open(tmp_path / "store")
    memory.create_session("s").add_decision("planted")
    (tmp_path / "MEMORY.md").symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(UserError, match="link"):
        write_digest(memory.scope, str(tmp_path / "MEMORY.md"), force=True)
    assert not (tmp_path / "elsewhere.md").exists()


@pytest.mark.parametrize("plant", ["link", "linked folder", "pipe", "device"])
def test_recorded_digest_that_was_replaced_is_not_rewritten(tmp_path: Path, plant: str) -> None:
    memory = smp_memory.open(tmp_path / "store")
    other = smp_memory.open(tmp_path / "other-store")
    for each, text in ((memory, "mine"), (other, "theirs")):
        each.create_session("s").add_decision(text)
    (tmp_path / "docs").mkdir()
    (tmp_path / "other").mkdir()
    write_digest(memory.scope, str(tmp_path / "docs" / "MEMORY.md"))
    write_digest(other.scope, str(tmp_path / "other" / "MEMORY.md"))
    before = (tmp_path / "other" / "MEMORY.md").read_bytes()
    page = tmp_path / "docs" / "MEMORY.md"
    page.unlink()
    if plant == "link":
        page.symlink_to(tmp_path / "other" / "MEMORY.md")
    elif plant == "linked folder":
        page.parent.rmdir()
        page.parent.symlink_to(tmp_path / "other")
    elif plant == "pipe":
        os.mkfifo(page)
    else:
        page.symlink_to("/dev/zero")
    memory.session("s").add_decision("more")
    assert within(20, lambda: renew_digests(memory.scope)) == [[]]
    assert (tmp_path / "other" / "MEMORY.md").read_bytes() == before


# -- trust and discovery


def planted_settings(at: Path) -> None:
    ran = run("install", "claude-code", "--yes", "--command", "smp", at=at)
    assert ran.returncode == 0, ran.stderr


def test_dry_run_of_install_trusts_nothing(tmp_path: Path) -> None:
    root = tmp_path / "clone" / ".bmad" / "memory"
    smp_memory.open(root).close()
    planted_settings(tmp_path / "clone")
    shutil.rmtree(state_folder(root))
    run("install", "claude-code", "--dry-run", "--command", "smp", at=tmp_path / "clone")
    assert str(root) not in trusted_stores()
    ran = run("install", "claude-code", "--yes", "--command", "smp", at=tmp_path / "clone")
    assert str(root) in trusted_stores()
    assert "Claude Code uses the store" in ran.stderr


def test_store_behind_a_linked_folder_has_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".bmad").symlink_to(tmp_path / "real")
    with smp_memory.open(tmp_path / "project" / ".bmad" / "memory") as memory:
        assert memory.is_trusted
    assert (tmp_path / "real" / "memory" / ".smp" / "id").exists()
    shutil.rmtree(tmp_path / "real" / "memory")
    smp_memory.open(tmp_path / "attacker").close()
    shutil.copytree(tmp_path / "attacker", tmp_path / "real" / "memory")
    monkeypatch.chdir(tmp_path / "project")
    with smp_memory.open() as memory:
        assert not memory.is_trusted


@pytest.mark.parametrize("own", ["memory", ".bmad/sessions"])
def test_planted_store_does_not_hide_the_trusted_one_beside_it(tmp_path: Path, own: str) -> None:
    smp_memory.open(tmp_path / own, layout="log" if own == "memory" else "markdown").close()
    smp_memory.open(tmp_path / ".bmad" / "memory").close()
    assert find_root(None, str(tmp_path)) == str(tmp_path / ".bmad" / "memory")
    shutil.rmtree(state_folder(tmp_path / ".bmad" / "memory"))
    assert find_root(None, str(tmp_path)) == str(tmp_path / own)
    from smp_memory.integrations.hooks.entry_point import find_store

    assert find_store(str(tmp_path), {}) == str(tmp_path / own)


@pytest.mark.parametrize("link", [".bmad", ".bmad/memory"])
def test_init_makes_no_store_through_a_planted_link(tmp_path: Path, link: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "clone" / link).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "clone" / link).symlink_to(tmp_path / "home")
    ran = run("init", at=tmp_path / "clone")
    assert ran.returncode == StorageCorrupt.exit_code
    assert "is a link" in ran.stderr
    assert list((tmp_path / "home").iterdir()) == []


# -- files that make SMP wait or work


@pytest.mark.parametrize("place", [".claude/settings.json", "_bmad/config.toml", ".bmad/memory/config.json"])
@pytest.mark.parametrize("plant", ["pipe", "device"])
def test_pipes_and_devices_are_not_read(tmp_path: Path, place: str, plant: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    if plant == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    for words in (["install"], ["install", "claude-code", "--dry-run"], ["digest"], ["stats"]):
        ran = run(*words, at=tmp_path)
        assert "Internal error:" not in ran.stderr


@layouts
def test_repeated_ids_take_linear_time(tmp_path: Path, layout: str) -> None:
    """Counted in names that were tried, not in seconds."""
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import SessionHistory

    session_history = SessionHistory()
    tried = 0

    class Counting(dict[str, Any]):
        def __contains__(self, name: object) -> bool:
            nonlocal tried
            tried += 1
            return super().__contains__(name)

    session_history.histories = Counting()
    session_history.add(
        [Entry("put", "decision", "DEC-0001", "2026-01-01T00:00:00Z", {"decision": str(i)}, i + 1) for i in range(2000)]
    )
    assert len(session_history.histories) == 2000
    assert tried < 20_000
