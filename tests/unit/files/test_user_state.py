"""The user's state of a store is kept outside the store, and belongs to one store at one path."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.user_state import state_home, trusted_stores
from tests.user_state import state_folder, user_state


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def made(root: Path) -> Path:
    with smp_memory.open(root) as memory:
        memory.create_session("s1").add_decision("Use Postgres")
        assert memory.query("Postgres")
    return root


def test_derived_files_are_outside_the_store(tmp_path: Path) -> None:
    root = made(tmp_path / "store")
    assert {path.name for path in (root / ".smp").iterdir()} <= {"lock", "queue", "changes", "id"}
    assert (state_folder(root) / "index").is_dir()


def test_files_of_the_state_are_private(tmp_path: Path, home: Path) -> None:
    made(tmp_path / "store")
    for path in [home, *home.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_state_folder_by_environment() -> None:
    own = os.path.expanduser("~")
    assert state_home({"SMP_STATE_DIR": "/", "HOME": own}) in ("/", None)
    if os.name == "posix" and os.stat(own).st_uid == os.getuid():
        assert state_home({"HOME": own}) == f"{own}/.local/state/smp"
        assert state_home({"HOME": own, "XDG_STATE_HOME": f"{own}/xdg"}) == f"{own}/xdg/smp"
        assert state_home({"HOME": own, "XDG_STATE_HOME": "relative"}) is None


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="gives a folder to another user")
def test_home_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foreign").mkdir()
    os.chown(tmp_path / "foreign", 12345, 12345)
    monkeypatch.setenv("SMP_STATE_DIR", str(tmp_path / "foreign" / "smp"))
    with smp_memory.open(tmp_path / "store") as memory:
        memory.create_session("s1").add_decision("Use Postgres")
        assert [hit.id for hit in memory.query("Postgres")] == ["DEC-0001"]
    assert list((tmp_path / "foreign").iterdir()) == []
    (tmp_path / ".bmad").mkdir()
    shutil.move(tmp_path / "store", tmp_path / ".bmad" / "memory")
    monkeypatch.chdir(tmp_path)
    with smp_memory.open() as memory:
        assert not memory.is_trusted, "trust cannot be kept, so it must not be assumed"
        memory.trust()
        assert memory.is_trusted, "in this process"


def test_memories_are_readable_when_state_cannot_be_written(tmp_path: Path, home: Path) -> None:
    home.write_text("in the way")
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.create_session("s1")
        session.add_decision("Use Postgres")
        assert [hit.id for hit in memory.query("Postgres")] == ["DEC-0001"]
        assert session.get("DEC-0001").text == "Use Postgres"
        memory.maintain()


def test_moved_store_starts_with_empty_state_and_the_old_index_is_removed(tmp_path: Path, home: Path) -> None:
    root = made(tmp_path / "store")
    old = state_folder(root)
    root.rename(tmp_path / "moved")
    os.utime(home / "stores" / "tidied", (0, 0))
    with smp_memory.open(tmp_path / "moved") as memory:
        assert [hit.id for hit in memory.query("Postgres")] == ["DEC-0001"]
    assert not (old / "index").exists()
    assert (old / "store.json").exists(), "trust is kept for a while: a drive may be plugged in again"


def test_erasing_removes_the_index_that_a_moved_store_left(tmp_path: Path) -> None:
    root = made(tmp_path / "store")
    old = state_folder(root)
    root.rename(tmp_path / "moved")
    with smp_memory.open(tmp_path / "moved") as memory:
        memory.session("s1").erase("DEC-0001")
    assert not (old / "index").exists()


def test_removed_store_is_forgotten_after_months(tmp_path: Path, home: Path) -> None:
    root = made(tmp_path / "store")
    old = state_folder(root)
    shutil.rmtree(root)
    ago = time.time() - 100 * 86_400
    os.utime(old / "store.json", (ago, ago))
    os.utime(home / "stores" / "tidied", (0, 0))
    made(tmp_path / "another")
    assert not old.exists()


def test_trust_is_listed_and_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(tmp_path / ".bmad" / "memory")
    assert trusted_stores() == [str(root)]
    monkeypatch.chdir(tmp_path)
    with smp_memory.open() as memory:
        assert memory.is_trusted
        memory.distrust()
        assert not memory.is_trusted
        assert memory.query("Postgres"), "reading works all the same"
        memory.trust()
        assert memory.is_trusted


def test_store_that_was_only_found_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(tmp_path / ".bmad" / "memory")
    shutil.rmtree(state_folder(root))
    monkeypatch.chdir(tmp_path)
    with smp_memory.open() as memory:
        assert not memory.is_trusted
        assert not memory.mark_trust_notice_shown()
        assert memory.mark_trust_notice_shown()
        memory.session("s1").add_decision("Writing is not trusting")
    with smp_memory.open() as memory:
        assert not memory.is_trusted
    with smp_memory.open(root, trust=False) as memory:
        assert not memory.is_trusted
    with smp_memory.open(root) as memory:
        assert memory.is_trusted


def test_new_store_is_trusted_and_one_from_a_repository_without_settings_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new" / ".bmad").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "new")
    with smp_memory.open() as memory:
        assert memory.is_trusted
    root = made(tmp_path / "brought" / ".bmad" / "memory")
    (root / "config.json").unlink()
    shutil.rmtree(state_folder(root))
    monkeypatch.chdir(tmp_path / "brought")
    with smp_memory.open() as memory:
        assert not memory.is_trusted


@pytest.mark.parametrize("text", ["", "{", "[]", '{"root": 5}', '{"root": "x", "id": 1}', '{"trusted": {}}'])
def test_damaged_record_gives_no_trust(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = made(tmp_path / ".bmad" / "memory")
    (state_folder(root) / "store.json").write_text(text)
    monkeypatch.chdir(tmp_path)
    with smp_memory.open() as memory:
        assert not memory.is_trusted
        assert memory.query("Postgres")
        memory.trust()
        assert memory.is_trusted


def test_record_of_another_path_gives_no_trust(tmp_path: Path) -> None:
    root = made(tmp_path / "store")
    path = state_folder(root) / "store.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "root": "/somewhere/else"}))
    assert not user_state(root).is_trusted()
