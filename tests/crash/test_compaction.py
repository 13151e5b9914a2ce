"""The machine stops before any disk call of a compaction or a restore: every memory is in the files or in the segment."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest

from smp_memory.errors import SMPError
from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import Memory, open_memory
from smp_memory.model.history import COLD
from smp_memory.store.cold_storage import cold_path
from smp_memory.testing import FrozenClock
from tests.crash.scenarios import (
    LAYOUTS,
    ROOT,
    SESSION,
    Scenario,
    Step,
    Wrong,
    check_durable,
    check_survivor,
    crashes_of,
    depth,
    fingerprint,
    full_base,
    open_on,
    patch,
    read,
    some,
    view_of,
)

pytestmark = pytest.mark.crash

OLD = "2025-06-01T10:00:00Z"
ALL = 1 << 40


def compact(memory: Memory) -> None:
    memory.session(SESSION).compact(ALL)


def bring_back(memory: Memory) -> None:
    session = memory.session(SESSION)
    session.restore_archived(*(each.id for each in session.archived()))


STEPS = {"compact": compact, "bring back": bring_back}


@functools.cache
def base_of(layout: str, name: str) -> MemorySystem:
    system = MemorySystem(disk=full_base(layout))
    with open_on(system) as memory:
        session = memory.session(SESSION)
        with session.transaction() as tx:  # a part of it goes, a part stays
            tx.add_turn("user", "old and in a transaction", created=OLD)
            tx.add_decision("new and in the same one")
        session.add_many([("turn", {"role": "user", "content": f"old {'words ' * 20}", "created": OLD})] * 24)
        session.add("finding", {"finding": "settled", "status": "resolved", "created": OLD})
        session.update_agent_state("z", {"step": 0}, created=OLD)
        for step in range(3):
            session.update_agent_state("z", {"step": step})
        if name == "bring back":
            session.compact(ALL)
    return system


def facts(memory: Memory) -> dict[str, Any]:
    """All that is known of each memory when everything has come back; summaries tell of others."""
    bring_back(memory)
    session = memory.session(SESSION)
    return {
        record.id: (record.to_dict(), session.history(record.id))
        for record in session.records(include_deleted=True)
        if record.type != "summary"
    }


@functools.cache
def expected(layout: str) -> dict[str, Any]:
    return facts(open_on(MemorySystem(disk=base_of(layout, "compact"))))


def check(layout: str, system: MemorySystem) -> None:
    memory = open_on(system)
    found = facts(memory)
    if found != expected(layout):
        missing = expected(layout).keys() - found.keys()
        raise Wrong(f"not all came back as it was; missing: {sorted(missing)}")
    if memory.session(SESSION).archived():
        raise Wrong("something is left in the segment")
    if not memory.session(SESSION).validate().ok:
        raise Wrong("not valid")


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_crash_before_every_disk_call(layout: str, name: str) -> None:
    scenario = Scenario(name, layout, base_of(layout, name), [Step(STEPS[name])])
    assert scenario.views[0] != scenario.views[1]
    for crash in some(crashes_of(scenario), f"{layout} {name}", 10):
        machine = crash.machine
        try:
            check(layout, machine.kill_state())
            check_survivor(scenario, machine.kill_state(), crash.done)
            check_durable(scenario, machine.kill_state(), crash.done, limit=2)
            for system in machine.crash_states(limit=depth(2, 20), seed=crash.call):
                check(layout, system)
        except Exception as error:
            raise Wrong(f"{layout}, {name}: stopped before call {crash.call}: {error}") from error


# -- what follows a crash

SEQUENCES = (
    "compact restore update compact",
    "compact restore update compact restore compact",
    "restore update compact update compact restore",
    "compact compact restore",
    "update compact restore update compact",
    "restore compact restore update compact",
)


class Worker:
    """Goes on with a session after a crash, and knows what each memory must say."""

    def __init__(self, system: MemorySystem) -> None:
        self.clock = FrozenClock()
        self.session = open_memory(ROOT, system=system, clock=self.clock).session(SESSION)
        self.known = self.found()
        self.updates = 0

    def found(self) -> dict[str, Any]:
        """The newest state of every memory, in the files or in the cold segment; in both is an error."""
        live = {record.id: record for record in self.session.records(include_deleted=True) if record.type != "summary"}
        cold = {
            id: history.record(SESSION) for id, history in self.session._storage.history(segment=COLD).histories.items()
        }
        both = {id for id in live.keys() & cold.keys() if live[id].revision < cold[id].revision}
        if both or any("-dup" in id for id in (*live, *cold)):
            raise Wrong(f"stands twice: {sorted(both)}, {sorted(live)}, {sorted(cold)}")
        everything = {**cold, **live}
        return {id: (record.revision, record.given) for id, record in everything.items() if record.type != "summary"}

    def step(self, name: str) -> None:
        self.clock.advance(days=120)
        if name == "compact":
            self.session.compact(ALL)
        elif name == "restore":
            bring_back_all(self.session)
            if self.session.archived():
                raise Wrong(f"left in the segment: {self.session.archived()}")
        else:
            self.updates += 1
            for id in ("FIND-0003", "STATE-z"):
                if self.session.find(id) is None:
                    self.session.restore_archived(id)
                record = self.session.update(id, tags=[f"update-{self.updates}"])
                self.known[id] = (record.revision, record.given)
        self.check()

    def check(self) -> None:
        now = self.found()
        for id, (revision, given) in self.known.items():
            if id not in now:
                raise Wrong(f"{id} is gone")
            if now[id][1] != given:
                raise Wrong(f"{id} is at revision {now[id][0]} with {now[id][1]}, was {revision} with {given}")
        report = self.session.validate()
        if report.problems:
            raise Wrong(f"not clean: {report.problems}")


def bring_back_all(session: Any) -> None:
    session.restore_archived(*(each.id for each in session.archived()))


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_acknowledged_update_survives_compaction_and_restore_after_a_crash(layout: str, name: str) -> None:
    """A crash inside restore_archived left entries in the files and in the segment; then an old copy won over an update."""
    scenario = Scenario(name, layout, base_of(layout, name), [Step(STEPS[name])])
    chance = random.Random(f"{layout} {name}")
    seen: set[int] = set()
    for crash in some(crashes_of(scenario), f"{name} {layout}", 10):
        states = (crash.machine.kill_state(), *crash.machine.crash_states(limit=depth(1, 10), seed=crash.call))
        for system in states:
            if (look := fingerprint(system)) in seen:
                continue
            seen.add(look)
            for sequence in chance.sample(SEQUENCES, depth(1, len(SEQUENCES))):
                worker = Worker(MemorySystem(disk=system))
                done: list[str] = []
                try:
                    for step in sequence.split():
                        done.append(step)
                        worker.step(step)
                except Exception as error:
                    raise Wrong(f"{layout}, {name}: stopped before call {crash.call}, then {done}: {error}") from error


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_of_an_older_version_in_the_segment_are_ignored(layout: str, sequence: str) -> None:
    """Older versions took entries out of the segment after they had put them into the files: a crash left both."""
    system = MemorySystem(disk=base_of(layout, "bring back"))
    worker = Worker(system)
    path = cold_path(worker.session._storage)
    before = read(system, path)
    bring_back_all(worker.session)
    worker.known = worker.found()
    worker.session._storage.store.disk.replace(path, before)
    for step in sequence.split():
        worker.step(step)
    worker.step("restore")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_restore_refuses_a_memory_of_which_a_part_cannot_be_read(layout: str) -> None:
    """The parts that could be read came back alone, and the segment lost the others."""
    system = MemorySystem(disk=base_of(layout, "bring back"))
    worker = Worker(system)
    path = cold_path(worker.session._storage)
    patch(system, path, lambda data: data[:60] + bytes(8) + data[68:])
    before, seen = read(system, path), view_of(worker.session)
    with pytest.raises(SMPError):
        worker.session.restore_archived("FIND-0003")
    assert read(system, path) == before
    assert view_of(worker.session) == seen
