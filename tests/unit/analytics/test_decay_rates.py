"""Suggested decay rates: the estimator recovers known rates, and is silent without evidence."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import smp_memory
from smp_memory.analytics.decay_rates import (
    MAX_RATIO,
    UseSample,
    decay_advice,
    estimate_rate,
    misfit,
    samples_of,
    selected,
)
from smp_memory.analytics.facts import DAY, MemoryFacts

NOW = 10_000 * DAY
SETTINGS: dict[str, Any] = {
    "enabled": True,
    "policy": "smp",
    "rates": {"finding": 0.04, "decision": 0.03},
    "half_life_hours": {"finding": 336, "other": 168},
}


def ages_of_uses(rng: random.Random, rate: float, age: float, mean: float) -> list[float]:
    """The ages at which a memory of this age was used, by a Poisson process that falls at this rate."""
    expected = mean * rng.expovariate(1) * (1 - math.exp(-rate * age)) if rate else mean * age / 60
    count, product = 0, rng.random()
    while product > math.exp(-expected):
        count += 1
        product *= rng.random()
    draws = [rng.random() for _ in range(count)]
    if not rate:
        return [draw * age for draw in draws]
    return [-math.log(1 - draw * (1 - math.exp(-rate * age))) / rate for draw in draws]


def simulated(seed: int, rate: float, count: int, *, burst: int = 1) -> list[MemoryFacts]:
    """Used memories of which the use falls at this rate, so many of them used once; `burst`: uses of each piece of work, in the mean."""
    rng = random.Random(seed)
    found: list[MemoryFacts] = []
    while sum(each.uses == 1 for each in found) < count:
        age = rng.uniform(2, 120)
        ages = ages_of_uses(rng, rate, age, 2)
        if ages:
            uses = sum(1 + (int(rng.expovariate(1 / (burst - 1))) if burst > 1 else 0) for _ in ages)
            created = NOW - round(age * DAY)
            last = created + round(max(ages) * DAY)
            found.append(MemoryFacts(len(found), "s", f"F-{len(found)}", "finding", "", created, False, uses, last))
    return found


def coverage(rate: float, count: int, runs: int, *, burst: int = 1) -> tuple[float, float]:
    """The share of simulated stores whose interval holds the true rate, and the median of the estimates."""
    made = [estimate_rate(selected(samples_of(simulated(seed, rate, count, burst=burst), NOW))) for seed in range(runs)]
    inside = sum(each.low <= rate <= each.high for each in made)
    return inside / runs, sorted(each.rate for each in made)[runs // 2]


@pytest.mark.parametrize("rate", [0.02, 0.05, 0.2])
def test_known_rate_is_in_the_interval_in_most_stores(rate: float) -> None:
    inside, middle = coverage(rate, 100, 25)
    assert inside >= 0.8
    assert middle == pytest.approx(rate, rel=0.15)


def test_bursts_of_use_do_not_feign_a_faster_decay() -> None:
    inside, middle = coverage(0.05, 100, 25, burst=4)
    assert inside >= 0.8
    assert middle == pytest.approx(0.05, rel=0.15)


def test_use_that_does_not_fall_gives_no_suggestion() -> None:
    for seed in range(10):
        advice = decay_advice(simulated(seed, 0.0, 80), NOW, SETTINGS)
        assert advice.suggestions[0].command is None
        assert advice.suggestions[0].verdict in ("no fading", "not enough evidence", "does not fit")


def test_few_used_memories_are_not_enough_evidence() -> None:
    (finding,) = decay_advice(simulated(1, 0.2, 29), NOW, SETTINGS).suggestions
    assert (finding.verdict, finding.suggested, finding.command) == ("not enough evidence", None, None)
    assert finding.reason == "29 memories used once, not pinned and older than a day; 30 are needed"


def test_wide_interval_is_not_enough_evidence() -> None:
    verdicts = [decay_advice(simulated(seed, 0.03, 30), NOW, SETTINGS).suggestions[0] for seed in range(12)]
    wide = [each for each in verdicts if each.estimate and 0 < each.estimate.low < each.estimate.high / MAX_RATIO]
    assert wide
    assert all(each.verdict == "not enough evidence" and "too wide" in each.reason for each in wide)


def test_suggestion_is_the_command_that_applies_it() -> None:
    (finding,) = decay_advice(simulated(3, 0.15, 150), NOW, SETTINGS).suggestions
    assert finding.verdict == "suggested"
    assert finding.estimate is not None
    assert finding.suggested == pytest.approx(finding.estimate.rate - 0.01, rel=0.01)  # the age penalty is added by smp
    assert finding.command == f"smp config set decay.rates.finding {finding.suggested}"
    name, _, value = finding.command.partition("config set ")[2].partition(" ")
    changed = {**SETTINGS, "rates": {**SETTINGS["rates"], name.rpartition(".")[2]: float(value)}}
    assert decay_advice(simulated(3, 0.15, 150), NOW, changed).suggestions[0].verdict == "agrees"


def test_setting_inside_the_interval_agrees() -> None:
    settings = {**SETTINGS, "rates": {"finding": 0.14}}
    (finding,) = decay_advice(simulated(3, 0.15, 150), NOW, settings).suggestions
    assert (finding.verdict, finding.command) == ("agrees", None)


def test_half_life_is_suggested_in_hours() -> None:
    settings = {**SETTINGS, "policy": "half-life"}
    found = decay_advice(simulated(3, 0.15, 150), NOW, settings, "shop").suggestions[0]
    assert found.estimate is not None
    assert found.suggested == pytest.approx(24 * math.log(2) / found.estimate.rate, rel=0.01)
    assert found.command is not None
    assert found.command.startswith("smp config set decay.half_life_hours.finding ")
    assert found.command.endswith(" --session shop")
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.suggested < found.high


def test_type_without_a_setting_gets_no_command() -> None:
    facts = [each._replace(type="learning") for each in simulated(3, 0.15, 150)]
    (learning,) = decay_advice(facts, NOW, SETTINGS).suggestions
    assert (learning.setting, learning.verdict, learning.command) == (None, "no setting", None)
    halved = decay_advice(facts, NOW, {**SETTINGS, "policy": "boosted"}).suggestions
    assert [each.setting for each in halved] == ["decay.half_life_hours.other"]


def test_decay_that_is_off_gets_no_suggestion() -> None:
    advice = decay_advice(simulated(3, 0.15, 150), NOW, {**SETTINGS, "enabled": False})
    assert (advice.policy, advice.suggestions) == ("off", [])
    assert "off" in advice.notes[0]


def test_uses_against_the_model_are_not_fitted() -> None:
    """Half of the memories are used at once only, the others only after two months: no exponential fits both."""
    rng = random.Random(5)
    samples = [UseSample(rng.uniform(0.01, 0.2), 90) for _ in range(60)]
    samples += [UseSample(rng.uniform(60, 62), 90) for _ in range(60)]
    facts = []
    for number, each in enumerate(samples):
        created = NOW - round(each.now * DAY)
        last = created + round(each.used * DAY)
        facts.append(MemoryFacts(number, "s", f"F-{number}", "finding", "", created, False, 1, last))
    (finding,) = decay_advice(facts, NOW, SETTINGS).suggestions
    assert finding.verdict == "does not fit"
    assert finding.command is None


def test_only_memories_used_once_at_a_possible_time_are_in_the_estimate() -> None:
    good = MemoryFacts(1, "s", "F-1", "finding", "", NOW - 10 * DAY, False, 1, NOW - DAY)
    facts = [
        good,
        good._replace(pinned=True),
        good._replace(uses=0, last_use=None),
        good._replace(uses=2),  # the time of the first use is not known
        good._replace(created=0),
        good._replace(created=NOW - DAY // 2),
        good._replace(last_use=NOW - 20 * DAY),  # before its time: imported
        good._replace(last_use=NOW + DAY),
    ]
    assert samples_of(facts, NOW) == [UseSample(9.0, 10.0)]


def test_estimate_is_finite_for_odd_ages() -> None:
    for samples in (
        [UseSample(0.0, 30_000.0)] * 40,  # all at once after writing
        [UseSample(30_000.0, 30_000.0)] * 40,  # all just now
        [UseSample(5.0, 10.0)] * 40,
    ):
        made = estimate_rate(samples)
        assert all(math.isfinite(each) for each in made)
        assert made.low <= made.rate <= made.high
        assert math.isfinite(misfit(samples, made.rate))


@pytest.mark.parametrize("policy", ["smp", "simple", "half-life", "boosted"])
def test_every_suggested_setting_exists(policy: str) -> None:
    config = smp_memory.open(":memory:").config
    names = {name for name, *_ in config.rows()}
    types = ("finding", "decision", "conversation", "preference", "learning")
    facts = [each._replace(type=name) for name in types for each in simulated(3, 0.15, 40)]
    advice = decay_advice(facts, NOW, {**config.decay, "policy": policy})
    assert {name for each in advice for name in each.types} >= set(types)
    assert all(each.setting is None or each.setting in names for each in advice)
