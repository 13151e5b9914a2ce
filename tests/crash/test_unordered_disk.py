"""Power loss on a file system that writes changes of different folders in any order: nothing acknowledged is lost."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import pytest

from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import Memory
from tests.crash import test_archive_and_trash as archives
from tests.crash import test_compaction as compaction
from tests.crash.scenarios import (
    LAYOUTS,
    SESSION,
    Scenario,
    Step,
    Wrong,
    check_survivor,
    crashes_of,
    depth,
    fingerprint,
    full_base,
    open_on,
    scenarios,
    view_of,
)
from tests.session_files import private_folder

pytestmark = pytest.mark.crash

POINTS = depth(7, 400)  # crashes of a scenario that are looked at
STATES = depth(3, 30)  # disks that each of them may leave
OF_STORIES = ("create session", "transaction in new files", "repair", "rewrite", "purge", "erase")


def everything(memory: Memory) -> dict[str, Any]:
    """All that is known of the session, wherever it is, with what is in its cold segment."""
    if SESSION in [away.session for away in memory.deleted_sessions()]:
        memory.undelete_session(SESSION)
    session = memory.session(SESSION)
    compaction.bring_back_all(session)
    found = view_of(session)
    found.pop("")
    return {id: known for id, known in found.items() if not id.startswith("SUM-")}


@functools.cache
def cold_base(layout: str) -> MemorySystem:
    """A session with a cold segment and something in quarantine."""
    system = MemorySystem(disk=compaction.base_of(layout, "bring back"))
    with open_on(system) as memory:
        private = private_folder(memory.session(SESSION))
        memory.store.disk.make_folder(f"{private}/quarantine")
        memory.store.disk.write_new(f"{private}/quarantine/old.0.1", b"set aside")
    return system


@functools.cache
def put_away_base(layout: str, names: tuple[str, ...]) -> MemorySystem:
    system = MemorySystem(disk=cold_base(layout))
    with open_on(system) as memory:
        for name in names:
            getattr(archives, name)(memory)
    return system


def convert(to: str) -> Callable[[Memory], Any]:
    return lambda memory: memory.convert(to)


LIFECYCLE: dict[str, tuple[tuple[str, ...], Callable[[Memory], Any]]] = {
    **{f"convert to {to}": ((), convert(to)) for to in LAYOUTS},
    "bring back": ((), compaction.bring_back),
    "archive": ((), archives.archive),
    "restore": (("archive",), archives.restore),
    "delete": ((), archives.delete),
    "delete archived": (("archive",), archives.delete),
    "undelete": (("delete",), archives.undelete),
    "undelete archived": (("archive", "delete"), archives.undelete),
}


def states_of(scenario: Scenario) -> Any:
    """Some crashes of a scenario, and some of the disks that each may leave."""
    crashes = crashes_of(scenario, unordered=True)
    chance = random.Random(f"{scenario.layout} {scenario.name}")
    seen: set[int] = set()
    for crash in sorted(chance.sample(crashes, min(POINTS, len(crashes))), key=lambda each: each.call):
        for state in crash.machine.crash_states(limit=STATES, seed=crash.call):
            known = fingerprint(state)
            if known not in seen:
                seen.add(known)
                yield crash, state


@pytest.mark.parametrize("name", LIFECYCLE)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_lost_by_a_lifecycle_step(layout: str, name: str) -> None:
    """A conversion lost the cold segment: its old folder was gone before its move was durable."""
    before, step = LIFECYCLE[name]
    base = put_away_base(layout, before)
    expected = everything(open_on(MemorySystem(disk=base)))
    if name == f"convert to {layout}":
        return
    for crash, state in states_of(Scenario(name, layout, base, [Step(step)])):
        try:
            memory = open_on(state)
            if everything(memory) != expected:
                raise Wrong("not as it was")
            private = private_folder(memory.session(SESSION))
            if memory.store.disk.names(f"{private}/quarantine") != ["old.0.1"]:
                raise Wrong("what was set aside is gone")
        except Exception as error:
            raise Wrong(f"{layout}, {name}: before call {crash.call} ({state.story}): {error}") from error


@pytest.mark.parametrize("name", OF_STORIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scenario_survives(layout: str, name: str) -> None:
    scenario = scenarios(layout)[name]()
    for crash, state in states_of(scenario):
        try:
            check_survivor(scenario, state, crash.done)
        except Exception as error:
            raise Wrong(f"{layout}, {name}: before call {crash.call} ({state.story}): {error}") from error


def test_filled_base_is_checked_too() -> None:
    assert everything(open_on(MemorySystem(disk=cold_base("jsonl")))).keys() > view_of(
        open_on(MemorySystem(disk=full_base("jsonl"))).session(SESSION)
    ).keys() - {""}
