"""The machine stops before any disk call of any protocol: everything acknowledged is there, the rest is whole or absent."""

from __future__ import annotations

import random

import pytest

from smp_memory.files.memory_system import MemorySystem
from smp_memory.testing import CrashingSystem
from tests.crash.scenarios import (
    SCENARIOS,
    SESSION,
    Crash,
    Scenario,
    Wrong,
    check_durable,
    check_recovery,
    check_survivor,
    crashes_of,
    depth,
    fingerprint,
    open_on,
    scenario_named,
    some,
    view,
)

pytestmark = pytest.mark.crash

STATES = depth(16, 120)  # per scenario, at least two per crash point: nothing un-synced survived, everything did
LONG = depth(12, 60)  # calls; of a longer scenario every crash is looked at, and after some of them work goes on
SOME = depth(6, 40)  # see the slow test for all of them


def where_work_goes_on(scenario: Scenario, crashes: list[Crash]) -> list[Crash]:
    if len(crashes) <= LONG:
        return crashes
    return random.Random(f"{scenario.layout} {scenario.name}").sample(crashes, SOME)


def look_at(scenario: Scenario, crash: Crash, system: MemorySystem) -> None:
    """What was acknowledged is there, and the rest whole or not at all."""
    try:
        scenario.check_view(view(open_on(system)), crash.done)
    except Exception as error:
        how = getattr(system, "story", "killed")
        raise Wrong(f"{scenario.layout}, {scenario.name}: stopped before call {crash.call} ({how}): {error}") from error


def power_loss_at(scenario: Scenario, crash: Crash, states: int, seen: set[tuple[int, int]] | None = None) -> int:
    """Lose power before a call, and look at the disks that this may leave. How many there were.

    The calls around one leave some of the same disks. `seen` has those that were looked at.
    """
    looked = 0
    for state in crash.machine.crash_states(limit=states, seed=crash.call):
        looked += 1
        if seen is not None:
            known = len(seen)
            seen.add((crash.done, fingerprint(state)))
            if len(seen) == known:
                continue
        try:
            check_survivor(scenario, state, crash.done)
        except Exception as error:
            raise Wrong(
                f"{scenario.layout}, {scenario.name}: power lost before call {crash.call} ({state.story}): {error}"
            ) from error
    return looked


def kill_at(scenario: Scenario, crash: Crash, seen: set[tuple[int, int]] | None = None) -> None:
    """Kill the process before a call; another one goes on, and then the power fails.

    A sync changes nothing that another process can see. `seen` has the visible files that were checked.
    """
    state = crash.machine.kill_state()
    key = (crash.done, fingerprint(state))
    try:
        if seen is None or key not in seen:
            check_survivor(scenario, state, crash.done)
        if seen is not None:
            seen.add(key)
        check_durable(scenario, crash.machine.kill_state(), crash.done)
    except Exception as error:
        raise Wrong(f"{scenario.layout}, {scenario.name}: killed before call {crash.call}: {error}") from error


@pytest.mark.parametrize(("layout", "name"), some(SCENARIOS, "power loss", 56))
def test_power_loss_before_every_call(layout: str, name: str) -> None:
    scenario = scenario_named(layout, name)
    crashes = crashes_of(scenario)
    chosen = where_work_goes_on(scenario, crashes)
    states = max(2, min(depth(8, 8), STATES // len(chosen)))
    seen: set[tuple[int, int]] = set()
    for crash in crashes:
        if crash in chosen:
            assert power_loss_at(scenario, crash, states, seen)
        else:
            look_at(scenario, crash, next(crash.machine.crash_states(limit=1)))


@pytest.mark.parametrize(("layout", "name"), some(SCENARIOS, "kill", 44))
def test_kill_before_every_call(layout: str, name: str) -> None:
    scenario = scenario_named(layout, name)
    crashes = crashes_of(scenario)
    chosen = where_work_goes_on(scenario, crashes)
    seen: set[tuple[int, int]] = set()
    for crash in crashes:
        if crash in chosen:
            kill_at(scenario, crash, seen)
        else:
            look_at(scenario, crash, crash.machine.kill_state())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("layout", "name"), SCENARIOS)
def test_many_states_of_every_call(layout: str, name: str) -> None:
    scenario = scenario_named(layout, name)
    for crash in crashes_of(scenario):
        power_loss_at(scenario, crash, 60)
        kill_at(scenario, crash)


@pytest.mark.parametrize(("layout", "name"), some(SCENARIOS, "recovery", 44))
def test_crash_during_recovery(layout: str, name: str) -> None:
    scenario = scenario_named(layout, name)
    chance = random.Random(f"{layout} {name}")
    crashes = crashes_of(scenario)
    for crash in chance.sample(crashes, min(len(crashes), depth(1, 3))):
        states = list(crash.machine.crash_states(limit=12, seed=crash.call))
        for state in chance.sample(states, min(len(states), 2)):
            try:
                check_recovery(scenario, state, crash.done, chance, tries=depth(2, 2))
                check_durable(scenario, CrashingSystem(disk=state), crash.done)
            except Exception as error:
                raise Wrong(
                    f"{layout}, {name}: power lost before call {crash.call} ({state.story}): {error}"
                ) from error


def test_scenarios_make_disk_calls() -> None:
    """A scenario whose steps change nothing would prove nothing."""
    for layout, name in SCENARIOS:
        scenario = scenario_named(layout, name)
        assert scenario.calls >= scenario.first_call, (layout, name)
        if not name.startswith(("convert", "repair")):
            for before, after in zip(scenario.views, scenario.views[1:], strict=False):
                assert before != after, (layout, name)
        assert SESSION in scenario.views[0]
