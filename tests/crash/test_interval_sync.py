"""Durability `interval`: a failed sync is reported, and the file is not trusted any more."""

from __future__ import annotations

import errno

import pytest

from smp_memory.errors import DurabilityUnknown
from smp_memory.memory import Memory, open_memory
from smp_memory.testing import FaultySystem, FrozenClock
from tests.crash.scenarios import LAYOUTS, ROOT, SESSION, full_base, view

pytestmark = pytest.mark.crash


def opened(system: FaultySystem) -> Memory:
    config = {"durability": "interval", "sync_interval_seconds": 60}
    return open_memory(ROOT, system=system, clock=FrozenClock(), config=config)


class Synced(FaultySystem):
    """A machine that notes which inodes were synced."""

    def sync(self, fd: int, /) -> None:
        self.inodes.append(self.fstat(fd).st_ino)
        super().sync(fd)

    inodes: list[int]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_failed_sync_is_raised_and_the_file_is_copied_before_the_next_write(layout: str) -> None:
    system = Synced(disk=full_base(layout), calls=["sync"], error=errno.EIO)
    system.inodes = []
    memory = opened(system)
    session = memory.session(SESSION)
    new = [session.add_decision("acknowledged").id]
    system.fail_at = system.calls + 1
    with pytest.raises(DurabilityUnknown) as failed:
        memory.sync()
    path = str(failed.value.details["path"])
    suspect = system.lstat(path).st_ino
    system.heal()
    system.inodes.clear()
    memory.sync()
    assert suspect not in system.inodes, "a file whose sync failed was synced again"
    other = opened(system).session(SESSION)
    new.append(other.add_decision("of another process").id)
    assert system.lstat(path).st_ino != suspect
    assert suspect not in system.inodes
    new.append(session.add_decision("of the same process").id)
    memory.sync()
    memory.close()
    found = view(open_memory(ROOT, system=system))[SESSION]
    assert set(new) <= found.keys()
    assert len(set(new)) == 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_file_that_could_not_be_opened_is_synced_later(layout: str) -> None:
    system = Synced(disk=full_base(layout), calls=["open"], error=errno.EMFILE)
    system.inodes = []
    memory = opened(system)
    session = memory.session(SESSION)
    session.add_decision("acknowledged")
    system.fail_at = system.calls + 1
    with pytest.raises(DurabilityUnknown) as failed:
        memory.sync()
    written = system.lstat(str(failed.value.details["path"])).st_ino
    assert written not in system.inodes
    system.heal()
    memory.sync()
    assert written in system.inodes
    memory.close()


def test_failed_background_sync_is_raised_by_sync_and_by_the_next_write() -> None:
    for tell in (lambda memory: memory.sync(), lambda memory: memory.session(SESSION).add_decision("next")):
        system = FaultySystem(disk=full_base("jsonl"), calls=["sync"], error=errno.EIO)
        memory = opened(system)
        memory.session(SESSION).add_decision("acknowledged")
        system.fail_at = system.calls + 1
        memory.store.syncer.sync_now()
        system.heal()
        with pytest.raises(DurabilityUnknown):
            tell(memory)
        memory.session(SESSION).add_decision("later")
        memory.close()
