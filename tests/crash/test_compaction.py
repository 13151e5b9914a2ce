"""The machine stops before any disk call of a compaction or of a return: every memory is in the files or in the segment."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from smp.files.memory_system import MemorySystem
from smp.memory import Memory
from tests.crash.stories import (
    LAYOUTS,
    SESSION,
    Step,
    Story,
    Wrong,
    check_durable,
    check_survivor,
    crashes_of,
    depth,
    full_base,
    open_on,
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
def test_crash_before_every_call(layout: str, name: str) -> None:
    story = Story(name, layout, base_of(layout, name), [Step(STEPS[name])])
    assert story.views[0] != story.views[1]
    for crash in crashes_of(story):
        machine = crash.machine
        try:
            check(layout, machine.kill_state())
            check_survivor(story, machine.kill_state(), crash.done)
            check_durable(story, machine.kill_state(), crash.done, limit=2)
            for system in machine.crash_states(limit=depth(2, 20), seed=crash.call):
                check(layout, system)
        except Exception as error:
            raise Wrong(f"{layout}, {name}: stopped before call {crash.call}: {error}") from error
