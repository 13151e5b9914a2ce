"""The lock of a session: whatever fails, it is not held afterwards and can be acquired again."""

from __future__ import annotations

import errno
import os

import pytest

from smp_memory.errors import SMPError
from smp_memory.files.disk import Disk
from smp_memory.files.lock import SessionLock
from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import open_memory
from smp_memory.testing import FaultySystem

CALLS = ("open", "fstat", "lstat", "lock", "pread", "unlock")


class Moving(MemorySystem):
    """A machine on which a folder is renamed before a call."""

    def __init__(self, disk: MemorySystem, at: int, source: str, target: str) -> None:
        super().__init__(disk=disk)
        self.calls, self.at = 0, at
        self._source, self._target = source, target

    def _gate(self, call: str, changes: bool) -> None:
        self.calls += 1
        if self.calls == self.at:
            self.replace(self._source, self._target)


def store() -> MemorySystem:
    system = MemorySystem()
    with open_memory("/store", layout="jsonl", system=system) as memory:
        memory.create_session("s").add_decision("kept")
    return system


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ENOMEM, errno.EINTR])
def test_lock_can_be_acquired_again_after_any_failure(code: int, sticky: bool) -> None:
    base = store()
    call, calls = 0, 1
    while call < calls:
        call += 1
        system = FaultySystem(disk=base, calls=CALLS, error=code, sticky=sticky)
        lock = SessionLock(Disk(system), "/store/sessions/s/.smp", "session s")
        system.fail_at = call
        for _ in range(3):
            try:
                lock.acquire(0.0)
                lock.release()
            except (SMPError, FileNotFoundError):
                assert lock.descriptor < 0
        calls = max(calls, system.calls)
        system.heal()
        lock.acquire(0.0)
        other = SessionLock(Disk(system), "/store/sessions/s/.smp", "session s")
        with pytest.raises(SMPError):
            other.acquire(0.0)
        lock.release()
        other.acquire(0.0)
        lock.close()
        other.close()
        assert not system._open, "a descriptor was left open"
    assert calls > 8


def test_session_moved_away_before_any_call_leaves_a_usable_lock() -> None:
    base = store()
    for at in range(1, 200):
        system = Moving(base, 0, "/store/sessions/s", "/store/away")
        with open_memory("/store", system=system) as memory:
            session = memory.session("s")
            system.at = system.calls + at
            for _ in range(3):
                try:
                    session.add_decision("while it moves")
                except SMPError:
                    pass
            if system.calls < system.at:
                break
            system.at = 0
            if "s" in system.listdir("/store/sessions"):  # the file was being opened, so its folder was made again
                continue
            system.replace("/store/away", "/store/sessions/s")
            session.add_decision("it is back")
            texts = [record.decision for record in session.records("decision")]
            assert texts[0] == "kept"
            assert texts[-1] == "it is back"
    else:
        raise AssertionError("the write has more calls than were tried")


def test_lock_with_a_second_name_is_rejected_and_closed() -> None:
    system = store()
    system.link("/store/sessions/s/.smp/lock", "/store/twin")
    lock = SessionLock(Disk(system), "/store/sessions/s/.smp", "session s")
    for _ in range(2):
        with pytest.raises(SMPError, match="second name"):
            lock.acquire(0.0)
        assert lock.descriptor < 0
    system.unlink("/store/twin")
    lock.acquire(0.0)
    lock.close()


def test_queue_that_is_a_folder_is_an_error_each_time() -> None:
    system = store()
    system.unlink("/store/sessions/s/.smp/queue")
    system.mkdir("/store/sessions/s/.smp/queue")
    with open_memory("/store", system=system) as memory:
        for _ in range(3):
            with pytest.raises(SMPError):
                memory.session("s").add_decision("no")
    assert os.path.basename("/store/sessions/s/.smp/queue") in system.listdir("/store/sessions/s/.smp")
