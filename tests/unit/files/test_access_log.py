"""Access log: readers append uses without waiting, and never fail because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from smp_memory.files.activity import ACCESSES, AccessLog, StateLog
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import UserState
from smp_memory.testing import FaultySystem


def in_folder(disk: Disk, folder: str) -> UserState:
    return UserState(disk, folder, disk, folder, on_disk=False, is_inside=True)


@pytest.fixture
def log(tmp_path: Path) -> AccessLog:
    return AccessLog(StateLog(in_folder(Disk(RealSystem()), str(tmp_path)), ACCESSES))


def test_recorded_uses_are_read_from_an_offset_on(log: AccessLog) -> None:
    log.record(["s1/DEC-0001", "s2/FIND-0001"], 1000.7)
    log.flush()
    found, end = log.read(0)
    assert found == [("s1/DEC-0001", 1000), ("s2/FIND-0001", 1000)]
    assert end == log.size_bytes() > 0
    assert log.read(end) == ([], end)
    log.record(["s1/DEC-0002"], 1001)
    log.flush()
    assert log.read(end)[0] == [("s1/DEC-0002", 1001)]


def test_use_is_recorded_at_most_once_a_minute(log: AccessLog) -> None:
    for second in (0, 1, 59, 60, 61, 119, 120):
        log.record(["s1/DEC-0001"], second)
    log.flush()
    assert [at for _, at in log.read(0)[0]] == [0, 60, 120]


def test_clock_that_goes_back_is_no_error(log: AccessLog) -> None:
    log.record(["s1/a"], 1000)
    log.record(["s1/a"], 10)
    log.flush()
    assert log.read(0)[0] == [("s1/a", 1000)]


def test_many_uses_are_written_without_a_flush(log: AccessLog) -> None:
    log.record([f"s1/DEC-{number:04}" for number in range(500)], 5)
    assert len(log.read(0)[0]) == 500


def test_names_in_memory_are_bounded(log: AccessLog) -> None:
    for start in range(0, 50_000, 1000):
        log.record([f"s/{number}" for number in range(start, start + 1000)], 5)
    assert len(log._last_recorded) <= 20_000


def test_log_is_not_created_without_a_use(log: AccessLog, tmp_path: Path) -> None:
    log.record([], 5)
    log.flush()
    assert not (tmp_path / ACCESSES).exists()
    assert log.read(0) == ([], 0)
    assert log.size_bytes() == 0


def test_unfinished_line_is_read_later(log: AccessLog, tmp_path: Path) -> None:
    (tmp_path / ACCESSES).write_bytes(b"5 s1/a\n6 s1/b")
    found, end = log.read(0)
    assert (found, end) == ([("s1/a", 5)], 7)
    with (tmp_path / ACCESSES).open("ab") as file:
        file.write(b"\n")
    assert log.read(end)[0] == [("s1/b", 6)]


@pytest.mark.parametrize(
    "data",
    [b"\xff\xfe\n", b"x s1/a\n", b"\n\n\n", b"99999999999999999999 s1/a\n", b"-5 s1/a\n", b"\xd9\xa1 s1/a\n", b"5\n", b"\0" * 100 + b"\n", b"1e5 s1/a\n", b"\xc2\xb2 s1/a\n"],
)  # fmt: skip
def test_invalid_lines_are_skipped(log: AccessLog, tmp_path: Path, data: bytes) -> None:
    (tmp_path / ACCESSES).write_bytes(data + b"7 s1/good\n")
    found, end = log.read(0)
    assert found[-1] == ("s1/good", 7)
    assert all(name != "s1/a" for name, _ in found)
    assert end == len(data) + 10


def test_offset_after_the_end_returns_nothing(log: AccessLog, tmp_path: Path) -> None:
    (tmp_path / ACCESSES).write_bytes(b"5 s1/a\n")
    assert log.read(100) == ([], 100)


def test_failing_disk_does_not_fail_readers() -> None:
    system = FaultySystem(fail_at=1, sticky=True)
    log = AccessLog(StateLog(in_folder(Disk(system), "/"), ACCESSES))
    log.record(["s1/a"], 5)
    log.flush()
    assert log.read(0) == ([], 0)
    system.heal()
    log.record(["s1/b"], 5)
    log.flush()
    assert log.read(0)[0] == [("s1/b", 5)]


def test_folder_in_place_of_the_log_does_not_fail_readers(log: AccessLog, tmp_path: Path) -> None:
    (tmp_path / ACCESSES).mkdir()
    log.record(["s1/a"], 5)
    log.flush()
    assert log.read(0)[0] == []


def test_link_in_place_of_the_log_is_not_followed(log: AccessLog, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"precious")
    (tmp_path / ACCESSES).symlink_to(tmp_path / "other")
    log.record(["s1/a"], 5)
    log.flush()
    assert (tmp_path / "other").read_bytes() == b"precious"
