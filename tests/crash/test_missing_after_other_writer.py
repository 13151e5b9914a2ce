"""Stored entries vanish by an outside change, and a process that does not know them is the first to write afterwards.

The process that knows them (it wrote or read them) must write them to quarantine, whatever it does next: write, read,
close, drop the session object, or exit. Two stores in one process behave as two processes do: nothing is shared.
"""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files import reconciliation as set_aside
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from tests.crash.scenarios import LAYOUTS, SESSION, depth
from tests.crash.test_files_change_underneath import (
    Writer,
    _renamed_over,
    _saved_in_place,
    check_nothing_lost,
    decisions_file,
    grown,
    ids_on_disk,
    quarantine,
)

pytestmark = pytest.mark.crash


def kept(root: Path) -> list[str]:
    """Ids in quarantine as missing after a change, in order; an id that was written twice is there twice."""
    with smp_memory.open(root) as memory:
        found = quarantine(memory.session(SESSION))
        return sorted(id for name, ids, _ in found if set_aside.MISSING in name for id in ids)


def _writes(memory: Memory, session: SessionMemory) -> None:
    for number in range(3):
        session.add_decision(f"later {number}")


def _writes_to_another_file(memory: Memory, session: SessionMemory) -> None:
    session.add_finding("elsewhere", severity="low")


def _reads_and_writes(memory: Memory, session: SessionMemory) -> None:
    session.records()
    session.add_decision("later")


def _reads(memory: Memory, session: SessionMemory) -> None:
    session.records()


def _nothing(memory: Memory, session: SessionMemory) -> None:
    pass


NEXT = [_writes, _writes_to_another_file, _reads_and_writes, _reads, _nothing]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("save", [_renamed_over, _saved_in_place])
@pytest.mark.parametrize("then", NEXT)
def test_written_entries_are_kept_when_another_process_writes_first(
    tmp_path: Path,
    layout: str,
    save: Callable[[Path, bytes], None],
    then: Callable[[Memory, SessionMemory], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    path = decisions_file(root)
    backup = path.read_bytes()
    with smp_memory.open(root) as other, caplog.at_level(logging.WARNING, "smp_memory"):
        with smp_memory.open(root) as memory:
            session = memory.session(SESSION)
            gone = [session.add_decision(f"precious {number}").id for number in range(5)]
            save(path, backup)
            other.session(SESSION).add_decision("by another process")
            then(memory, session)
        other.session(SESSION).add_decision("at the end")
    assert kept(root) == gone
    assert len(caplog.records) == 1
    assert "precious" not in caplog.text
    with smp_memory.open(root) as memory:
        assert [each.code for each in memory.session(SESSION).validate().problems] == ["missing_after_change"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("then", NEXT)
def test_read_entries_are_kept_when_another_process_writes_first(
    tmp_path: Path, layout: str, then: Callable[[Memory, SessionMemory], None]
) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    path = decisions_file(root)
    backup = path.read_bytes()
    with smp_memory.open(root) as other, smp_memory.open(root) as memory:
        session = memory.session(SESSION)
        session.add_finding("this process writes", severity="low")
        if layout in ("single", "log"):
            backup = path.read_bytes()
        with smp_memory.open(root) as third:
            gone = third.session(SESSION).add_decision("precious").id
        assert session.get(gone)
        _renamed_over(path, backup)
        other.session(SESSION).add_decision("by another process")
        then(memory, session)
        memory.close()
    assert kept(root) == [gone]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_entries_are_kept_at_close_without_a_later_write(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    path = decisions_file(root)
    backup = path.read_bytes()
    with smp_memory.open(root) as memory:
        gone = memory.session(SESSION).add_decision("precious").id
        _renamed_over(path, backup)
    assert kept(root) == [gone]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_entries_are_kept_when_the_session_object_is_dropped(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    path = decisions_file(root)
    backup = path.read_bytes()
    with smp_memory.open(root) as other, smp_memory.open(root) as memory:
        gone = memory.session(SESSION).add_decision("precious").id
        _renamed_over(path, backup)
        other.session(SESSION).add_decision("by another process")
        gc.collect()
        memory.session(SESSION).add_decision("by a new session object")
    assert kept(root) == [gone]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_entries_are_kept_when_the_process_exits_without_closing(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    path = decisions_file(root)
    program = """
        import sys, smp_memory
        session = smp_memory.open(sys.argv[1]).session(sys.argv[2])
        print(session.add_decision("precious").id, flush=True)
        sys.stdin.readline()
    """
    backup = path.read_bytes()
    command = [sys.executable, "-c", textwrap.dedent(program), str(root), SESSION]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        gone = process.stdout.readline().strip()
        _renamed_over(path, backup)
        with smp_memory.open(root) as other:
            other.session(SESSION).add_decision("by another process")
        process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert kept(root) == [gone]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_entries_that_several_processes_know_are_kept_once(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    path = decisions_file(root)
    backup = path.read_bytes()
    with smp_memory.open(root) as one, smp_memory.open(root) as two, smp_memory.open(root) as other:
        gone = [one.session(SESSION).add_decision("precious").id, two.session(SESSION).add_decision("precious").id]
        assert len(one.session(SESSION).records()) == len(two.session(SESSION).records())
        _renamed_over(path, backup)
        other.session(SESSION).add_decision("by another process")
    assert kept(root) == gone


@pytest.mark.parametrize("layout", LAYOUTS)
def test_entries_of_a_file_that_was_removed_after_its_first_write_are_kept(tmp_path: Path, layout: str) -> None:
    """With durability `os`, the notes do not mention a new file until its second write."""
    root = tmp_path / "store"
    with smp_memory.open(root, layout=layout, config={"durability": "os"}) as memory:
        session = memory.create_session(SESSION)
        before = set(root.rglob("*"))
        gone = session.add_decision("precious").id
        new = [path for path in set(root.rglob("*")) - before if path.is_file() and b"precious" in path.read_bytes()]
        for path in new:
            path.unlink()
        session.add_decision("later")
    assert kept(root) == ([gone] if new else [])  # the log of a session is there from the beginning


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("then", NEXT)
def test_entries_erased_by_another_process_are_not_reported_as_missing(
    tmp_path: Path, layout: str, then: Callable[[Memory, SessionMemory], None]
) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    with smp_memory.open(root) as other:
        with smp_memory.open(root) as memory:
            session = memory.session(SESSION)
            gone = session.add_decision("a secret", rationale="tapir").id
            assert session.get(gone)
            other.erase([f"{SESSION}/{gone}"])
            other.session(SESSION).add_decision("by another process")
            then(memory, session)
        other.session(SESSION).add_decision("at the end")
    assert kept(root) == []
    assert not any(b"tapir" in path.read_bytes() for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_close_does_not_wait_for_the_lock_when_nothing_changed(
    tmp_path: Path, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    with (
        smp_memory.open(root) as other,
        smp_memory.open(root, config={"concurrency": {"lock_timeout_ms": 50}}) as memory,
    ):
        memory.session(SESSION).add_decision("stored")
        memory.session(SESSION).records()
        other.session(SESSION).add_decision("by another process")
        with caplog.at_level(logging.WARNING, "smp_memory"):
            other.store.session(SESSION).run_locked("holding the lock", memory.close)
    assert caplog.records == []
    assert kept(root) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_comparison_that_fails_at_close_is_logged(
    tmp_path: Path, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    path = decisions_file(root)
    backup = path.read_bytes()
    with (
        smp_memory.open(root) as other,
        smp_memory.open(root, config={"concurrency": {"lock_timeout_ms": 50}}) as memory,
    ):
        memory.session(SESSION).add_decision("precious")
        _renamed_over(path, backup)
        with caplog.at_level(logging.WARNING, "smp_memory"):
            other.store.session(SESSION).run_locked("holding the lock", memory.close)
    told = [record.getMessage() for record in caplog.records if record.name == "smp_memory.corruption"]
    assert ["could not be compared" in message for message in told] == [True]
    assert "precious" not in caplog.text


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_restored_backup_while_two_processes_write_loses_nothing(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "store"
    grown(root, layout, 40)
    path = decisions_file(root)
    backup, first = path.read_bytes(), ids_on_disk(root)
    writers = [Writer(root), Writer(root)]
    for writer in writers:
        writer.start()
    for _ in writers[0].rounds(depth(15, 300)):
        _renamed_over(path, backup)
        time.sleep(0.004)
    for writer in writers:
        writer.finish()
    for writer in writers:
        writer.memory.close()
    acknowledged = [id for writer in writers for id in writer.acknowledged]
    check_nothing_lost(smp_memory.open(root).session(SESSION), acknowledged, first)
