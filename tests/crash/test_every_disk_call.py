"""The machine stops before any disk call of any protocol: everything acknowledged is there, the rest is whole or absent."""

from __future__ import annotations

import random

import pytest

from smp_memory.files.memory_system import MemorySystem
from smp_memory.testing import CrashingSystem
from tests.crash.stories import (
    SESSION,
    STORIES,
    Crash,
    Story,
    Wrong,
    check_durable,
    check_recovery,
    check_survivor,
    crashes_of,
    depth,
    fingerprint,
    open_on,
    story_named,
    view,
)

pytestmark = pytest.mark.crash

STATES = depth(60, 120)  # per story, at least two per crash point: nothing un-synced survived, everything did
LONG = 60  # calls; of a longer story (a conversion) every crash is looked at, and after some of them work goes on
SOME = depth(24, 40)  # see the slow test for all of them


def where_work_goes_on(story: Story, crashes: list[Crash]) -> list[Crash]:
    if len(crashes) <= LONG:
        return crashes
    return random.Random(f"{story.layout} {story.name}").sample(crashes, SOME)


def look_at(story: Story, crash: Crash, system: MemorySystem) -> None:
    """What was acknowledged is there, and the rest whole or not at all."""
    try:
        story.check_view(view(open_on(system)), crash.done)
    except Exception as error:
        how = getattr(system, "story", "killed")
        raise Wrong(f"{story.layout}, {story.name}: stopped before call {crash.call} ({how}): {error}") from error


def power_loss_at(story: Story, crash: Crash, states: int, seen: set[tuple[int, int]] | None = None) -> int:
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
            check_survivor(story, state, crash.done)
        except Exception as error:
            raise Wrong(
                f"{story.layout}, {story.name}: power lost before call {crash.call} ({state.story}): {error}"
            ) from error
    return looked


def kill_at(story: Story, crash: Crash) -> None:
    """Kill the process before a call; another one goes on, and then the power fails."""
    try:
        check_survivor(story, crash.machine.kill_state(), crash.done)
        check_durable(story, crash.machine.kill_state(), crash.done)
    except Exception as error:
        raise Wrong(f"{story.layout}, {story.name}: killed before call {crash.call}: {error}") from error


@pytest.mark.parametrize(("layout", "name"), STORIES)
def test_power_loss_before_every_call(layout: str, name: str) -> None:
    story = story_named(layout, name)
    crashes = crashes_of(story)
    chosen = where_work_goes_on(story, crashes)
    states = max(2, min(depth(8, 8), STATES // len(chosen)))
    seen: set[tuple[int, int]] = set()
    for crash in crashes:
        if crash in chosen:
            assert power_loss_at(story, crash, states, seen)
        else:
            look_at(story, crash, next(crash.machine.crash_states(limit=1)))


@pytest.mark.parametrize(("layout", "name"), STORIES)
def test_kill_before_every_call(layout: str, name: str) -> None:
    story = story_named(layout, name)
    crashes = crashes_of(story)
    chosen = where_work_goes_on(story, crashes)
    for crash in crashes:
        if crash in chosen:
            kill_at(story, crash)
        else:
            look_at(story, crash, crash.machine.kill_state())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("layout", "name"), STORIES)
def test_many_states_of_every_call(layout: str, name: str) -> None:
    story = story_named(layout, name)
    for crash in crashes_of(story):
        power_loss_at(story, crash, 60)
        kill_at(story, crash)


@pytest.mark.parametrize(("layout", "name"), STORIES)
def test_crash_during_recovery(layout: str, name: str) -> None:
    story = story_named(layout, name)
    chance = random.Random(f"{layout} {name}")
    crashes = crashes_of(story)
    for crash in chance.sample(crashes, min(len(crashes), depth(2, 3))):
        states = list(crash.machine.crash_states(limit=12, seed=crash.call))
        for state in chance.sample(states, min(len(states), 2)):
            try:
                check_recovery(story, state, crash.done, chance, tries=depth(2, 2))
                check_durable(story, CrashingSystem(disk=state), crash.done)
            except Exception as error:
                raise Wrong(
                    f"{layout}, {name}: power lost before call {crash.call} ({state.story}): {error}"
                ) from error


def test_the_stories_change_something() -> None:
    """A story whose steps change nothing would prove nothing."""
    for layout, name in STORIES:
        story = story_named(layout, name)
        assert story.calls >= story.first_call, (layout, name)
        if not name.startswith(("convert", "repair")):
            for before, after in zip(story.views, story.views[1:], strict=False):
                assert before != after, (layout, name)
        assert SESSION in story.views[0]
