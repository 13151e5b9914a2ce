"""Change table: no acknowledged write is missed, and damage costs only a check of all files."""

from __future__ import annotations

from pathlib import Path

import pytest

from smp_memory.files.activity import CHANGES, ChangeTable, changed_slots, slot_of
from smp_memory.files.disk import Disk
from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.system import RealSystem
from smp_memory.testing import FaultySystem


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


def test_write_changes_the_slot_of_its_session_only(folder: str) -> None:
    writer, reader = ChangeTable(Disk(RealSystem()), folder), ChangeTable(Disk(RealSystem()), folder)
    seen = b""
    for session in ("s1", "s2", "s1", "Ünïcode", "s1"):
        writer.mark_changed(session)
        now = reader.read()
        assert changed_slots(seen, now) == {slot_of(session)}
        assert changed_slots(now, reader.read()) == set()
        seen = now
    for marks in (writer, reader):
        marks.close()
        marks.close()


def test_writes_of_several_writers_are_seen(folder: str) -> None:
    reader = ChangeTable(Disk(RealSystem()), folder)
    assert reader.read() == b""
    writers = [ChangeTable(Disk(RealSystem()), folder) for _ in range(3)]
    for writer, session in zip(writers, ("a", "b", "c"), strict=True):
        writer.mark_changed(session)
    assert changed_slots(b"", reader.read()) == {slot_of(name) for name in "abc"}
    for marks in (reader, *writers):
        marks.close()


def test_missing_folder_is_no_error(tmp_path: Path) -> None:
    marks = ChangeTable(Disk(RealSystem()), str(tmp_path / "nothing"))
    marks.mark_changed("s1")
    assert marks.read() == b""
    marks.close()


def test_failing_disk_is_no_error() -> None:
    system = FaultySystem(fail_at=1, sticky=True)
    marks = ChangeTable(Disk(system), "/")
    marks.mark_changed("s1")
    assert marks.read() == b""
    system.heal()
    marks.mark_changed("s1")
    assert changed_slots(b"", marks.read()) == {slot_of("s1")}


@pytest.mark.parametrize("size", [0, 1, 7, 8, 13, 4096, 40_000])
def test_table_of_another_size_reports_changes(folder: str, size: int) -> None:
    marks = ChangeTable(Disk(RealSystem()), folder)
    marks.mark_changed("s1")
    before = marks.read()
    path = Path(folder, CHANGES)
    path.write_bytes(bytes([7]) * size)
    now = marks.read()
    slots = changed_slots(before, now)
    assert slots == changed_slots(now, before)
    assert all(0 <= slot < 4096 for slot in slots)
    assert slot_of("s1") in slots or size >= (slot_of("s1") + 1) * 8
    again = path.write_bytes(bytes([9]) * (size + 3))
    assert again
    changed_slots(now, marks.read())
    marks.close()


def test_writes_to_a_table_that_replaces_a_removed_one_are_seen(folder: str) -> None:
    """Also by processes that have the old file open."""
    reader = ChangeTable(Disk(RealSystem()), folder)
    first = ChangeTable(Disk(RealSystem()), folder)
    first.mark_changed("s1")
    before = reader.read()
    Path(folder, CHANGES).unlink()
    second = ChangeTable(Disk(RealSystem()), folder)
    second.mark_changed("s2")
    assert slot_of("s2") in changed_slots(before, reader.read())
    before = reader.read()
    for _ in range(64):  # a writer looks for the new one now and then
        first.mark_changed("s3")
    assert slot_of("s3") in changed_slots(before, reader.read())
    for marks in (reader, first, second):
        marks.close()


def test_table_in_memory() -> None:
    system = MemorySystem()
    one, other = ChangeTable(Disk(system), "/"), ChangeTable(Disk(system), "/")
    one.mark_changed("s1")
    assert changed_slots(b"", other.read()) == {slot_of("s1")}
