"""Undeleting a session that was deleted before the store changed its layout, whatever happened to its folder in the trash."""

from __future__ import annotations

import os
import re
from itertools import permutations
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import LayoutMismatch, SessionCorrupt, StorageCorrupt
from smp_memory.files.layouts import NAMES
from smp_memory.memory import Memory
from smp_memory.model.rewrite_plan import ColdMove, RewritePlan
from smp_memory.store.archive_index import ArchiveIndex

TEXT = "Use passkeys for the zyxwombat login"
PAIRS = [*permutations(NAMES, 2)]


def deleted_and_converted(root: Path, layout: str, to: str, *, note: bool = False) -> Memory:
    """A store with a session in the trash that was deleted in another layout."""
    with smp_memory.open(root, layout=layout) as memory:
        session = memory.create_session("s")
        session.add_decision(TEXT)
        if note:
            (Path(session.folder) / "notes.txt").write_text("mine")
        memory.delete_session("s", "by mistake")
        return memory.convert(to) if to != layout else smp_memory.open(root)


def trash_of(memory: Memory) -> Path:
    return Path(memory.root) / "deleted" / "s"


def record_of(memory: Memory) -> Path:
    (path,) = trash_of(memory).glob("deletion-record.*")
    return path


def files_with(memory: Memory, word: str) -> list[str]:
    root = Path(memory.root)
    return [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]  # fmt: skip


def check_is_back(memory: Memory) -> None:
    assert memory.undelete_session("s") == "active"
    with smp_memory.open(memory.root) as again:
        assert [record.text for record in again.session("s").records()] == [TEXT]
        assert again.deleted_sessions() == []


@pytest.mark.parametrize("damage", ["missing", "empty", "names the layout of the store", "names another layout"])
@pytest.mark.parametrize(("layout", "to"), PAIRS)
def test_layout_is_that_of_the_files_whatever_the_record_says(
    tmp_path: Path, layout: str, to: str, damage: str
) -> None:
    """The files were moved in the wrong layout: the session was empty or lost."""
    memory = deleted_and_converted(tmp_path, layout, to)
    record = record_of(memory)
    if damage == "missing":
        record.unlink()
    elif damage == "empty":
        record.write_text("")
    else:
        stated = to if damage == "names the layout of the store" else next(x for x in NAMES if x not in (layout, to))
        record.write_text(re.sub(rf'(layout"?: ?"?){layout}', rf"\g<1>{stated}", record.read_text()))
    check_is_back(memory)


@pytest.mark.parametrize(("layout", "to"), PAIRS)
def test_memory_is_erased_from_the_trash_without_a_record(tmp_path: Path, layout: str, to: str) -> None:
    memory = deleted_and_converted(tmp_path, layout, to)
    record_of(memory).unlink()
    assert memory.erase("s/DEC-0001").complete
    assert files_with(memory, "zyxwombat") == []


@pytest.mark.parametrize(("layout", "to"), [pair for pair in PAIRS if pair[0] != "single"])
def test_files_of_other_programs_are_kept(tmp_path: Path, layout: str, to: str) -> None:
    """They were removed with the files that had been converted."""
    memory = deleted_and_converted(tmp_path, layout, to, note=True)
    if to == "single":
        with pytest.raises(LayoutMismatch, match=r"notes\.txt"):
            memory.undelete_session("s")
        assert (trash_of(memory) / "session" / "notes.txt").read_text() == "mine"
        (trash_of(memory) / "session" / "notes.txt").unlink()
        check_is_back(memory)
        return
    check_is_back(memory)
    assert (Path(memory.session("s").folder) / "notes.txt").read_text() == "mine"


def test_files_of_other_programs_in_an_archive_are_kept(tmp_path: Path) -> None:
    """They were dropped when the archive was restored in another layout."""
    with smp_memory.open(tmp_path, layout="jsonl") as memory:
        session = memory.create_session("s")
        session.add_decision(TEXT)
        (Path(session.folder) / "notes.txt").write_text("mine")
        memory.archive_session("s")
        memory = memory.convert("single")
    with pytest.raises(LayoutMismatch, match=r"notes\.txt"):
        memory.restore_session("s")
    memory = memory.convert("log")
    memory.restore_session("s")
    assert [record.text for record in memory.session("s").records()] == [TEXT]
    assert (Path(memory.session("s").folder) / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_folder", [True, False])
def test_files_of_other_programs_in_the_trash_are_kept(tmp_path: Path, name: str, is_folder: bool) -> None:
    memory = deleted_and_converted(tmp_path, "jsonl", "markdown")
    planted = trash_of(memory) / f"session.{name}"
    if is_folder:
        planted.mkdir()
    mine = planted / "mine.txt" if is_folder else planted
    mine.write_text("mine")
    if planted.is_file() and name == "markdown":
        with pytest.raises(smp_memory.errors.SMPError):
            memory.undelete_session("s")
        assert files_with(memory, "zyxwombat")
        return
    memory.erase("s/DEC-0001")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("to", ["markdown", "single", "log"])
def test_stray_file_after_an_interrupted_undelete_does_no_harm(
    tmp_path: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The converted files were taken for superfluous ones and removed."""
    memory = deleted_and_converted(tmp_path, "jsonl", to)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ArchiveIndex, "move_in", stop)
        with pytest.raises(KeyboardInterrupt):
            memory.undelete_session("s")
    stray = trash_of(memory) / "session" / ".DS_Store"
    stray.parent.mkdir()
    stray.write_text("x")
    assert [each.session for each in memory.deleted_sessions()] == ["s"]
    check_is_back(memory)
    assert stray.exists()


def test_folder_without_files_of_a_session_is_refused(tmp_path: Path) -> None:
    memory = deleted_and_converted(tmp_path, "jsonl", "jsonl")
    content = trash_of(memory) / "session"
    for path in content.glob("*.json*"):
        path.rename(tmp_path / path.name)
    (content / "other.txt").write_text("mine")
    with pytest.raises(SessionCorrupt, match="no files of session s"):
        memory.undelete_session("s")
    assert (content / "other.txt").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="links")
def test_link_in_the_trash_hides_no_other_deleted_session(tmp_path: Path) -> None:
    memory = deleted_and_converted(tmp_path / "store", "jsonl", "jsonl")
    memory.create_session("t").add_decision("Another")
    memory.delete_session("t")
    content = trash_of(memory) / "session"
    content.rename(tmp_path / "elsewhere")
    content.symlink_to(tmp_path / "elsewhere")
    assert [each.session for each in memory.deleted_sessions()] == ["s", "t"]
    with pytest.raises(StorageCorrupt, match="symbolic link"):
        memory.undelete_session("s")
    assert memory.undelete_session("t") == "active"


@pytest.mark.parametrize("to", [name for name in NAMES if name != "markdown"])
def test_session_archived_after_a_conversion_is_restored_after_the_conversion_back(tmp_path: Path, to: str) -> None:
    """The folder of overviews stayed behind in the old place, and the restored session could not take it."""
    with smp_memory.open(tmp_path / "store", layout="markdown") as memory:
        memory.create_session("s").add_decision(TEXT)
        memory = memory.convert(to)
        assert not (tmp_path / "store" / "active").exists()
        memory.archive_session("s")
        memory = memory.convert("markdown")
        assert memory.session("s").get("DEC-0001").decision == TEXT
        memory.close()


@pytest.mark.parametrize("to", NAMES)
def test_cold_segment_that_a_crashed_deletion_left_behind_is_undeleted(tmp_path: Path, to: str) -> None:
    root = tmp_path / "store"
    with smp_memory.open(root, layout="single") as memory:
        session = memory.create_session("s")
        session.add_decision(TEXT)
        plan = RewritePlan("compacting", "2026-01-01T00:00:00Z", to_cold={"DEC-0001": ColdMove(1, "a test")})
        assert memory.store.session("s").rewrite(plan).moved == ["DEC-0001"]
        memory.delete_session("s")
        (segment,) = (root / "deleted").rglob("s.cold.jsonl.gz")
        segment.rename(root / segment.name)  # the machine stopped when only the session's file was moved
        if to != "single":
            memory = memory.convert(to)
        memory.undelete_session("s")
        assert memory.session("s").restore_archived("DEC-0001").decision == TEXT
        assert memory.session("s").validate().ok
        memory.close()


@pytest.mark.parametrize("put_away", ["delete_session", "archive_session"])
@pytest.mark.parametrize("note", [False, True])
@pytest.mark.parametrize("to", [name for name in NAMES if name != "markdown"])
def test_session_comes_back_after_a_conversion_there_and_back(
    tmp_path: Path, to: str, put_away: str, note: bool
) -> None:
    with smp_memory.open(tmp_path, layout="markdown") as memory:
        session = memory.create_session("s")
        session.add_decision(TEXT)
        if note:
            (Path(session.folder) / "notes.txt").write_text("mine")
        memory = memory.convert(to)
    with memory:
        getattr(memory, put_away)("s")
        memory = memory.convert("markdown")
    with memory:
        if put_away == "delete_session":
            memory.undelete_session("s")
        assert [record.decision for record in memory.session("s").records()] == [TEXT]
    assert len([*tmp_path.rglob("notes.txt")]) == note


@pytest.mark.parametrize("put_away", ["delete_session", "archive_session"])
@pytest.mark.parametrize("left", [".smp/lock", ".smp/journal.json", "notes.txt"])
def test_files_left_in_the_folder_of_a_session_do_not_stop_its_return(tmp_path: Path, put_away: str, left: str) -> None:
    """A crash, or a process that still had the session open, left a folder in its place, and undeleting failed."""
    with smp_memory.open(tmp_path / "store", layout="jsonl") as memory:
        memory.create_session("s").add_decision(TEXT)
        getattr(memory, put_away)("s")
        path = tmp_path / "store" / "sessions" / "s" / left
        path.parent.mkdir(parents=True)
        path.write_text("x")
        (memory.undelete_session if put_away == "delete_session" else memory.restore_session)("s")
        assert memory.session("s").get("DEC-0001").decision == TEXT
    kept = [each for each in (tmp_path / "store").rglob(path.name) if ".kept-" in str(each)]
    assert len(kept) == (left != ".smp/lock")
