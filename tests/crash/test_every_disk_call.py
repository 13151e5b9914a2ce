"""The machine stops before any disk call of any protocol: everything acknowledged is there, the rest is whole or absent."""

from __future__ import annotations

import random

import pytest

from smp.testing import CrashingSystem
from tests.crash.stories import (
    SESSION,
    SOAK,
    STORIES,
    Story,
    Wrong,
    check_durable,
    check_recovery,
    check_survivor,
    story_named,
)

pytestmark = pytest.mark.crash

STATES = 120 * SOAK  # per story, at least two per crash point: nothing un-synced survived, everything did
CALLS = 40 * SOAK  # per story; of a longer one (conversions, repairs) a sample, see the slow test for all of them


def calls_of(story: Story, most: int = CALLS) -> list[int]:
    calls = range(story.first_call, story.calls + 2)
    if len(calls) <= most:
        return list(calls)
    return sorted(random.Random(f"{story.layout} {story.name}").sample(calls, most))


def states_of(story: Story) -> int:
    return max(2, min(8 * SOAK, STATES // len(calls_of(story))))


def power_loss_at(story: Story, call: int, states: int) -> int:
    """Lose power before a call, and look at the disks that this may leave. How many there were."""
    system = CrashingSystem(disk=story.base, crash_at=call)
    done, _ = story.run(system)
    looked = 0
    for state in system.crash_states(limit=states, seed=call):
        try:
            check_survivor(story, state, done)
        except Exception as error:
            raise Wrong(
                f"{story.layout}, {story.name}: power lost before call {call} ({state.story}): {error}"
            ) from error
        looked += 1
    return looked


def kill_at(story: Story, call: int) -> None:
    """Kill the process before a call; another one goes on, and then the power fails."""
    system = CrashingSystem(disk=story.base, crash_at=call)
    done, _ = story.run(system)
    try:
        check_survivor(story, system.kill_state(), done)
        check_durable(story, system.kill_state(), done)
    except Exception as error:
        raise Wrong(f"{story.layout}, {story.name}: killed before call {call}: {error}") from error


@pytest.mark.parametrize(("layout", "name"), STORIES)
def test_power_loss_before_every_call(layout: str, name: str) -> None:
    story = story_named(layout, name)
    calls = calls_of(story)
    assert sum(power_loss_at(story, call, states_of(story)) for call in calls) >= len(calls)


@pytest.mark.parametrize(("layout", "name"), STORIES)
def test_kill_before_every_call(layout: str, name: str) -> None:
    story = story_named(layout, name)
    for call in calls_of(story):
        kill_at(story, call)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("layout", "name"), STORIES)
def test_many_states_of_every_call(layout: str, name: str) -> None:
    story = story_named(layout, name)
    for call in range(story.first_call, story.calls + 2):
        power_loss_at(story, call, 60)
        kill_at(story, call)


@pytest.mark.parametrize(("layout", "name"), STORIES)
def test_crash_during_recovery(layout: str, name: str) -> None:
    story = story_named(layout, name)
    chance = random.Random(f"{layout} {name}")
    calls = range(story.first_call, story.calls + 2)
    for call in chance.sample(calls, min(len(calls), 3 * SOAK)):
        system = CrashingSystem(disk=story.base, crash_at=call)
        done, _ = story.run(system)
        states = list(system.crash_states(limit=12, seed=call))
        for state in chance.sample(states, min(len(states), 2)):
            try:
                check_recovery(story, state, done, chance, tries=2 * SOAK)
                check_durable(story, CrashingSystem(disk=state), done)
            except Exception as error:
                raise Wrong(f"{layout}, {name}: power lost before call {call} ({state.story}): {error}") from error


def test_the_stories_change_something() -> None:
    """A story whose steps change nothing would prove nothing."""
    for layout, name in STORIES:
        story = story_named(layout, name)
        assert story.calls >= story.first_call, (layout, name)
        if not name.startswith(("convert", "repair")):
            for before, after in zip(story.views, story.views[1:], strict=False):
                assert before != after, (layout, name)
        assert SESSION in story.views[0]
