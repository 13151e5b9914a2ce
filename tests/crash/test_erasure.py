"""The machine stops before any disk call of an erasure or a purge: the memory is unchanged, or gone and named in the audit log.

After the store was opened again, no byte of an erased memory is left."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from smp_memory.files.disk import Disk
from smp_memory.files.memory_system import MemorySystem
from smp_memory.lifecycle.clock_trust import NO_EVIDENCE
from smp_memory.lifecycle.purge import purged_ids
from smp_memory.memory import Memory
from smp_memory.model.deletions import PurgeNotes
from smp_memory.store.session_edits import scan_folder
from tests.crash.scenarios import (
    LAYOUTS,
    ROOT,
    SESSION,
    Scenario,
    Step,
    Wrong,
    crashes_of,
    depth,
    full_base,
    open_on,
    some,
)

pytestmark = pytest.mark.crash

NEEDLE = b"platypus orchestra"
PLACES: dict[str, Callable[[Memory], None]] = {
    "live": lambda memory: None,
    "archived": lambda memory: memory.archive_session(SESSION, "old") and None,
    "deleted": lambda memory: memory.delete_session(SESSION, "old") and None,
    "archived, deleted": lambda memory: (
        memory.archive_session(SESSION, "old") and memory.delete_session(SESSION, "old") and None
    ),
}


@functools.cache
def base_with_needle(layout: str, place: str = "live") -> MemorySystem:
    system = MemorySystem(disk=full_base(layout))
    with open_on(system) as memory:
        session = memory.session(SESSION)
        session.add_decision(f"The {NEEDLE.decode()} plays", rationale=f"{NEEDLE.decode()} again")
        with session.transaction() as transaction:
            transaction.update("DEC-0004", rationale=f"a better {NEEDLE.decode()}")
            transaction.add_finding("with it in a transaction", severity="low")
        session.delete("DEC-0004", f"no {NEEDLE.decode()}")
        PLACES[place](memory)
    return MemorySystem(disk=system)


def place_of(memory: Memory) -> str:
    if SESSION in [session.id for session in memory.sessions()]:
        return "live"
    if SESSION in [away.session for away in memory.archived_sessions()]:
        return "archived"
    [away] = memory.deleted_sessions()
    return "archived, deleted" if away.metadata["state"] == "archived" else "deleted"


def named(memory: Memory, *actions: str) -> set[str]:
    """The memories that the audit log names."""
    lines = [line for line in memory.store.audit.entries() if line["action"] in actions]
    return {id for line in lines for id in line.get("ids", [line["session"]])}


def brought_back(system: MemorySystem, place: str) -> Memory:
    """A copy of it, on which the session is live."""
    memory = open_on(MemorySystem(disk=system))
    if "deleted" in place:
        memory.undelete_session(SESSION)
    return memory


def check(system: MemorySystem, place: str) -> None:
    """Open it, and look: what is not there any more must not be on the disk."""
    with open_on(system) as memory:
        if place_of(memory) != place:
            raise Wrong(f"it was {place} and is {place_of(memory)}")
        if memory.store.audit.problems():
            raise Wrong(str(memory.store.audit.problems()))
        told = "DEC-0004" in named(memory, "erase")
    with brought_back(system, place) as memory:
        session = memory.session(SESSION)
        there, validity = session.find("DEC-0004"), session.validate()
        if there is not None and (not there.deleted or len(session.history("DEC-0004")) != 3):
            raise Wrong(f"neither whole nor gone: {there.to_dict()}")
        if not validity.ok or len(session.records(include_deleted=True)) < 9:
            raise Wrong(f"not all of the others are there: {session.records()}, {validity.problems}")
    if there is None:
        found = scan_folder(Disk(system), ROOT, [NEEDLE])
        if found.found or found.unreadable:
            raise Wrong(f"erased, and still in {found}")
        if not told:
            raise Wrong("gone, and the audit log does not say so")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_is_unchanged_or_erased_everywhere(layout: str, place: str) -> None:
    def erase(memory: Memory) -> None:
        memory.erase(f"{SESSION}/DEC-0004", reason="asked to")

    scenario = Scenario("erase", layout, base_with_needle(layout, place), [Step(erase)])
    for crash in some(crashes_of(scenario), f"{layout} {place}", 20):
        states = crash.machine.crash_states(limit=depth(1 if crash.call % 2 else 2, 8), seed=crash.call)
        for state in (crash.machine.kill_state(), *states):
            try:
                check(state, place)
            except Wrong as error:
                how = getattr(state, "story", "killed")
                raise Wrong(f"{layout}, {place}: stopped before call {crash.call} ({how}): {error}") from error
    with open_on(MemorySystem(disk=scenario.base)) as memory:
        assert memory.erase(f"{SESSION}/DEC-0004").complete


@pytest.mark.parametrize("layout", LAYOUTS)
def test_purge_is_always_in_the_audit_log(layout: str) -> None:
    def purge(memory: Memory) -> None:
        memory.session(SESSION).purge(older_than=0, now="2026-02-02T00:00:00Z", evidence=NO_EVIDENCE)

    base = MemorySystem(disk=base_with_needle(layout))
    with open_on(base) as memory:
        memory.session(SESSION).purge(older_than=0, now="2026-02-01T00:00:00Z", evidence=NO_EVIDENCE)
    scenario = Scenario("purge", layout, MemorySystem(disk=base), [Step(purge)])
    for crash in crashes_of(scenario):
        for state in (crash.machine.kill_state(), *crash.machine.crash_states(limit=depth(1, 8), seed=crash.call)):
            with open_on(state) as memory:
                session = memory.session(SESSION)
                files = session._storage
                there = session.find("DEC-0004") is not None
                files.run_locked("finishing what was under way", lambda: None)
                told = {*named(memory, "purge"), *purged_ids(files, PurgeNotes(memory.store.state, SESSION))}
                assert there or {"DEC-0002", "DEC-0004"} <= told
                session.purge(older_than=0, now="2026-02-03T00:00:00Z", evidence=NO_EVIDENCE)
                assert session.find("DEC-0004") is None
                assert {"DEC-0002", "DEC-0004"} <= named(memory, "purge")
                assert purged_ids(files, PurgeNotes(memory.store.state, SESSION)) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_purge_of_a_session_is_always_in_the_audit_log(layout: str) -> None:
    def purge(memory: Memory) -> None:
        memory.purge_session(SESSION, "for good")

    scenario = Scenario("purge session", layout, base_with_needle(layout, "deleted"), [Step(purge)])
    for crash in crashes_of(scenario):
        for state in (crash.machine.kill_state(), *crash.machine.crash_states(limit=depth(1, 8), seed=crash.call)):
            with open_on(state) as memory:
                gone = not memory.deleted_sessions()
                memory.create_session(SESSION)  # or anything else that looks after this name
                memory.delete_session(SESSION)
                assert gone == (SESSION in named(memory, "purge_session"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_erase_reaches_leftovers_of_an_interrupted_archiving(layout: str) -> None:
    """The half of an archive, and a summary, were found beside a live session from which a memory was erased."""

    def archive(memory: Memory) -> None:
        memory.archive_session(SESSION)

    scenario = Scenario("archive", layout, base_with_needle(layout), [Step(archive)])
    for crash in crashes_of(scenario):
        state = crash.machine.kill_state()
        with open_on(state) as memory:
            place = place_of(memory)
            assert memory.erase(f"{SESSION}/DEC-0004").complete
            assert place_of(memory) == place
        assert scan_folder(Disk(state), ROOT, [NEEDLE]).found == []
