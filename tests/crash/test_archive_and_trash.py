"""The machine stops before any disk call of archiving, restoring, deleting or undeleting: the session is complete, in one place."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import Memory
from tests.crash.scenarios import (
    LAYOUTS,
    SESSION,
    SOAK,
    Scenario,
    Step,
    Wrong,
    crashes_of,
    depth,
    full_base,
    open_on,
    some,
    view_of,
)

pytestmark = pytest.mark.crash

Do = Callable[[Memory], Any]


def archive(memory: Memory) -> None:
    memory.archive_session(SESSION, "old")


def restore(memory: Memory) -> None:
    memory.restore_session(SESSION)


def delete(memory: Memory) -> None:
    memory.delete_session(SESSION, "wrong")


def undelete(memory: Memory) -> None:
    memory.undelete_session(SESSION)


def purge(memory: Memory) -> None:
    memory.purge_session(SESSION)


PLACES = {archive: "archived", restore: "live", delete: "deleted", undelete: "live", purge: ""}
SCENARIOS: dict[str, tuple[list[Do], Do, str]] = {  # what came before, what is done, where the session is then
    "archive": ([], archive, "archived"),
    "archive again": ([archive, restore], archive, "archived"),
    "restore": ([archive], restore, "live"),
    "delete": ([], delete, "deleted"),
    "delete archived": ([archive], delete, "deleted"),
    "undelete": ([delete], undelete, "live"),
    "undelete archived": ([archive, delete], undelete, "archived"),
    "purge": ([delete], purge, ""),
    "purge archived": ([archive, delete], purge, ""),
}
PARAMETERS = [(layout, name) for layout in LAYOUTS for name in SCENARIOS]


def where(memory: Memory) -> str:
    """The one place where the session is."""
    found = {
        "live": SESSION in [session.id for session in memory.sessions()],
        "archived": SESSION in [away.session for away in memory.archived_sessions()],
        "deleted": SESSION in [away.session for away in memory.deleted_sessions()],
    }
    places = [place for place, there in found.items() if there]
    if len(places) > 1:
        raise Wrong(f"in several places: {places}")
    return "".join(places)


@functools.cache
def base_of(layout: str, name: str) -> MemorySystem:
    system = MemorySystem(disk=full_base(layout))
    with open_on(system) as memory:
        for step in SCENARIOS[name][0]:
            step(memory)
    return system


@functools.cache
def expected(layout: str) -> dict[str, Any]:
    return view_of(open_on(MemorySystem(disk=full_base(layout))).session(SESSION))


def check(layout: str, name: str, system: MemorySystem, done: bool, *, thorough: bool) -> None:
    """Where it was or where it should be, whole; if `thorough`, every way to put it away and bring it back still works."""
    before, _, after = SCENARIOS[name]
    allowed = {after} if done else {after, PLACES[before[-1]] if before else "live"}
    memory = open_on(system)
    place = where(memory)
    if place not in allowed:
        raise Wrong(f"it is {place or 'gone'}, expected {allowed}")
    if not place:
        memory.create_session(SESSION).add_decision("a new one of this name")
        assert [record.id for record in memory.session(SESSION).records()] == ["DEC-0001"]
        return
    for step in ([undelete] if place == "deleted" else []) + [lambda memory: memory.session(SESSION)]:
        step(memory)
    if view_of(memory.session(SESSION)) != expected(layout):
        raise Wrong("not as it was")
    for step in (archive, restore, delete, undelete) if thorough else ():
        step(memory)
        if where(open_on(system)) != PLACES[step]:
            raise Wrong(f"after {step.__name__} it is {where(open_on(system))}")
    if view_of(memory.session(SESSION)) != expected(layout):
        raise Wrong("not as it was in the end")
    leftover = thorough and [each for each in system.listdir("/store/.smp") if each.startswith(("leaving-", "coming-"))]
    if leftover:
        raise Wrong(f"left over: {leftover}")


@pytest.mark.parametrize(("layout", "name"), PARAMETERS)
def test_crash_before_every_disk_call(layout: str, name: str) -> None:
    scenario = Scenario(name, layout, base_of(layout, name), [Step(SCENARIOS[name][1])])
    for crash in some(crashes_of(scenario), f"{layout} {name}", 20):
        states = [*crash.machine.crash_states(limit=depth(2, 20), seed=crash.call)]
        for number, system in enumerate([crash.machine.kill_state(), *states]):
            try:
                check(layout, name, system, crash.done == 1, thorough=number == 0 and (crash.call % 4 == 0 or SOAK > 0))
            except Exception as error:
                how = getattr(system, "story", "killed")
                raise Wrong(f"{layout}, {name}: stopped before call {crash.call} ({how}): {error}") from error


@pytest.mark.parametrize(("layout", "to"), some([*permutations(LAYOUTS, 2)], "undelete", 6))
def test_crash_before_every_disk_call_of_an_undelete_in_another_layout(layout: str, to: str) -> None:
    """A session deleted before a conversion was live and in the trash after a crash."""
    base = MemorySystem(disk=full_base(layout))
    with open_on(base) as memory:
        delete(memory)
        memory.convert(to)
    scenario = Scenario("undelete", to, base, [Step(undelete)])
    for crash in some(crashes_of(scenario), f"{layout} {to}", 24):
        for system in (crash.machine.kill_state(), *crash.machine.crash_states(limit=depth(2, 20), seed=crash.call)):
            try:
                memory = open_on(system)
                place = where(memory)
                if place not in ({"live"} if crash.done else {"live", "deleted"}):
                    raise Wrong(f"it is {place or 'gone'}")
                if place == "deleted":
                    undelete(memory)
                if where(open_on(system)) != "live" or view_of(memory.session(SESSION)) != expected(layout):
                    raise Wrong("not as it was")
                memory.delete_session(SESSION)
                memory.erase(f"{SESSION}/DEC-0001")
                undelete(memory)
            except Exception as error:
                how = getattr(system, "story", "killed")
                raise Wrong(f"{layout}, {to}: stopped before call {crash.call} ({how}): {error}") from error
