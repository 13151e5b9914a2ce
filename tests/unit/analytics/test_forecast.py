"""Forecasts of fading, from decay inputs alone."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from smp_memory.analytics.facts import DAY, MemoryFacts
from smp_memory.analytics.forecast import (
    PurgeForecast,
    SessionForecast,
    effect_texts,
    fading_forecast,
    planned_tasks,
    time_below,
)
from smp_memory.model.decay import DecayInputs, policy_of

NOW = 20_000 * DAY
POLICIES = ("smp", "half-life", "boosted", "simple")


def inputs(type: str = "conversation", age: float = 0, **more: object) -> DecayInputs:
    created = NOW - round(age * DAY)
    made = DecayInputs(type, created, None, None, False, None, None, None, None, False, 0, None)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def aging(number: int, made: DecayInputs) -> tuple[MemoryFacts, DecayInputs]:
    return MemoryFacts(number, "s", f"M-{number:05d}", made.type, "", made.created), made


@pytest.mark.parametrize("name", POLICIES)
def test_time_of_fading_is_that_of_the_policy_itself(name: str) -> None:
    policy = policy_of({"policy": name})
    for age in (0, 0.5, 3):
        made = inputs(age=age)
        when = time_below(made, policy, NOW, 0.3)
        assert when is not None
        assert policy.priority(made, when) < 0.3 <= policy.priority(made, when - 61_000_000)


def test_pinned_memories_and_those_on_a_floor_never_fade() -> None:
    policy = policy_of()
    assert time_below(inputs(pinned=True), policy, NOW, 0.3) is None
    assert time_below(inputs("decision"), policy, NOW, 0.3) is None  # its floor is 0.4
    assert time_below(inputs("decision"), policy, NOW, 0.5) is not None


def test_faded_memory_is_below_now() -> None:
    assert time_below(inputs(age=300), policy_of(), NOW, 0.3) == NOW


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("limit", [1, 7, 500])
def test_next_to_fade_are_the_first_of_all(name: str, limit: int) -> None:
    rng = random.Random(4)
    policy = policy_of({"policy": name})
    types = ("conversation", "agent_state", "finding", "decision", "preference")
    those = [
        aging(
            n, inputs(rng.choice(types), rng.uniform(0, 60), access_count=rng.randrange(4), pinned=rng.random() < 0.1)
        )
        for n in range(300)
    ]
    made = fading_forecast(those, policy, NOW, 0.3, limit)
    times = [time_below(each, policy, NOW, 0.3) for _, each in those]
    expected = sorted(when for when in times if when is not None and when > NOW)
    assert [each.when for each in made.fading] == expected[:limit]
    assert made.faded == sum(when == NOW for when in times)
    assert made.horizons == {days: sum(when <= NOW + days * DAY for when in expected) for days in (7, 30, 90)}


def test_forecast_without_memories_is_empty() -> None:
    made = fading_forecast([], policy_of(), NOW, 0.3, 10)
    assert (made.faded, made.fading, made.horizons) == (0, [], {7: 0, 30: 0, 90: 0})


def test_forecast_says_that_nothing_will_fade() -> None:
    made = fading_forecast([aging(1, inputs("decision"))], policy_of(), NOW, 0.3, 10)
    assert "No memory will fade below 0.3" in made.notes[0]


# -- maintenance

TODAY = datetime(2026, 3, 1, tzinfo=UTC)


def test_overdue_task_is_due_now_and_comes_first() -> None:
    runs = {"purge": TODAY + timedelta(days=3), "archive": TODAY - timedelta(days=2)}
    assert [(each.name, each.due) for each in planned_tasks(runs, TODAY, {})] == [
        ("archive", TODAY),
        ("purge", TODAY + timedelta(days=3)),
    ]


def test_effects_count_what_is_due_at_the_next_run() -> None:
    def session(name: str, days: int) -> SessionForecast:
        return SessionForecast(name, "decaying", "archived", TODAY + timedelta(days=days), "", 1, 1, 2, None)

    runs = {"archive": TODAY + timedelta(days=1), "purge": TODAY}
    trash = [PurgeForecast("s/A", TODAY, TODAY), PurgeForecast("s/B", TODAY, TODAY + timedelta(days=9)), PurgeForecast("s/C", TODAY, None)]  # fmt: skip
    effects = effect_texts([session("a", 0), session("b", 5)], trash, runs, TODAY)
    assert effects == {"archive": "archives 1 session", "purge": "announces or removes 1 memory"}
