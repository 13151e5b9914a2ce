"""Reads that fail for a transient reason are retried; calls that change something are not."""

from __future__ import annotations

import errno
import logging

import pytest

from smp_memory.errors import DurabilityUnknown, SMPError, StorageError
from smp_memory.files.disk import PAUSES_SECONDS, TRANSIENT, Disk, retry
from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import open_memory
from smp_memory.testing import FaultySystem

READS = ("open", "lstat", "pread", "listdir")


def filled(layout: str = "jsonl") -> MemorySystem:
    system = MemorySystem()
    with open_memory("/store", layout=layout, system=system) as memory:
        memory.create_session("s").add_decision("kept")
    return system


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
@pytest.mark.parametrize("code", sorted(TRANSIENT), ids=lambda code: errno.errorcode[code])
def test_single_transient_read_error_is_not_seen_by_the_caller(layout: str, code: int) -> None:
    base = filled(layout)
    call, calls = 0, 1
    while call < calls:
        call += 1
        system = FaultySystem(disk=MemorySystem(disk=base), calls=READS, error=code)
        with open_memory("/store", system=system) as memory:
            system.calls, system.fail_at = 0, call
            assert [record.decision for record in memory.session("s").records()] == ["kept"]
            calls = max(calls, system.calls)
            system.heal()
    assert calls > 3


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC, errno.EROFS])
def test_permanent_read_error_is_not_retried(code: int) -> None:
    system = FaultySystem(disk=filled(), calls=READS, error=code, sticky=True)
    disk = Disk(system)
    system.fail_at = 1
    with pytest.raises(StorageError):
        disk.stat("/store/config.json")
    assert system.calls == 1


def test_persistent_error_is_raised_after_three_retries(caplog: pytest.LogCaptureFixture) -> None:
    system = FaultySystem(disk=filled(), calls=("lstat",), error=errno.EMFILE, sticky=True)
    disk = Disk(system)
    system.fail_at = 1
    with caplog.at_level(logging.WARNING, "smp_memory"), pytest.raises(StorageError) as caught:
        disk.stat("/store/config.json")
    assert caught.value.recoverable
    assert system.calls == 1 + len(PAUSES_SECONDS) == 4
    assert [record.smp_event for record in caplog.records] == ["io_retry"] * 3  # type: ignore[attr-defined]
    assert [record.name for record in caplog.records] == ["smp_memory.storage"] * 3


@pytest.mark.parametrize("call", ["write", "sync", "replace", "unlink", "ftruncate"])
def test_calls_that_change_something_are_never_retried(call: str) -> None:
    system = FaultySystem(disk=filled(), calls=(call,), error=errno.EIO)
    disk = Disk(system)
    system.fail_at = 1
    with pytest.raises((SMPError, OSError)):
        if call == "unlink":
            disk.remove("/store/config.json")
        elif call == "ftruncate":
            disk.truncate_tail("/store/config.json", 1, disk.read("/store/config.json", 1))
        else:
            disk.replace("/store/new", b"data")
    assert system.calls == 1


def test_failed_sync_is_not_retried_on_the_same_file() -> None:
    system = FaultySystem(disk=filled(), calls=("sync",), error=errno.EINTR)
    with open_memory("/store", system=system) as memory:
        session = memory.session("s")
        system.calls, system.fail_at = 0, 1
        with pytest.raises(DurabilityUnknown):
            session.add_decision("not confirmed")
        assert system.calls == 1


def test_file_that_vanished_meanwhile_is_missing_and_not_an_error() -> None:
    def gone() -> bytes:
        raise FileNotFoundError(errno.ENOENT, "gone")

    with pytest.raises(FileNotFoundError):
        retry(OSError(errno.EINTR, "interrupted"), "/x", gone)
