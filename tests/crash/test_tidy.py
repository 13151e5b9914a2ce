"""The machine stops before any disk call of `tidy`: memories are unchanged, and the files are those before or after it."""

from __future__ import annotations

import functools

import pytest

from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import Memory
from tests.crash.scenarios import (
    ROOT,
    SESSION,
    Scenario,
    Step,
    Wrong,
    check_durable,
    check_survivor,
    crashes_of,
    depth,
    files_below,
    full_base,
    open_on,
    read,
    some,
    view_of,
)

pytestmark = pytest.mark.crash


def tidy(memory: Memory) -> None:
    memory.session(SESSION).tidy()


@functools.cache
def base() -> MemorySystem:
    system = MemorySystem(disk=full_base("markdown"))
    with open_on(system) as memory:
        session = memory.session(SESSION)
        session.update("DEC-0001", decision="changed once")
        with session.transaction() as tx:
            tx.update("DEC-0001", decision="changed twice")
            tx.add_finding("of the same transaction", severity="low")
        artifact = session.add_artifact("a.md", "# one")
        session.update(artifact.id, content="# two")
        session.update_agent_state("z", {"step": 1})
        session.update_agent_state("z", {"step": 2})
    return system


def contents(system: MemorySystem) -> dict[str, bytes]:
    names = [name for name in files_below(system) if name.endswith((".yaml", ".md")) and "/.smp/" not in name]
    return {name: read(system, name) for name in names if f"{ROOT}/" in name and "metadata" not in name}


@functools.cache
def after() -> dict[str, bytes]:
    system = MemorySystem(disk=base())
    with open_on(system) as memory:
        tidy(memory)
    return contents(system)


def check(system: MemorySystem) -> None:
    memory = open_on(system)
    session = memory.session(SESSION)
    if view_of(session) != view_of(open_on(MemorySystem(disk=base())).session(SESSION)):
        raise Wrong("a memory or its history changed")
    session.add_decision("goes on")  # finishes or discards what the crash left
    if session.validate().problems:
        raise Wrong(f"not clean: {session.validate().problems}")
    session.tidy()
    if session.tidy().ids:
        raise Wrong("something is left to fold")


def test_tidy_folds_several_files_at_once() -> None:
    before = contents(base())
    changed = {name.rpartition("/")[2] for name, data in after().items() if before.get(name) != data}
    assert {"decisions.yaml", "z.yaml"} <= changed
    assert any(name.startswith("ART-") for name in changed)


def test_crash_before_every_call_of_tidy() -> None:
    scenario = Scenario("tidy", "markdown", base(), [Step(tidy)])
    for crash in some(crashes_of(scenario), "tidy", 24):
        machine = crash.machine
        try:
            check(machine.kill_state())
            check_survivor(scenario, machine.kill_state(), crash.done)
            check_durable(scenario, machine.kill_state(), crash.done, limit=2)
            for system in machine.crash_states(limit=depth(2, 20), seed=crash.call):
                check(system)
        except Exception as error:
            raise Wrong(f"stopped before call {crash.call}: {error}") from error
