"""Suggested decay settings by type, estimated from the age at which memories are used. Pure.

Kept of each memory are the number of its uses and the time of the last one. So of a memory that was used once, the age at its use is
known, and those memories are the sample. If use did not fall with age, they would on average have been used at half their present age.
If it falls by the rate r per day, the ages of use follow e^(-r·age), cut off at the present age. The estimate is the rate at which this
distribution has the mean age that was observed, which is also the most likely rate; the interval of 95 % is 1.96 standard errors to
each side. Memories that were used more often are left out: of their uses only the last one is known, and uses come in bursts.

A setting is suggested only if all of this holds; otherwise the reason is given:
- at least 30 memories of the type were used once; pinned ones, those younger than a day, and those whose use is before their time
  do not count;
- the interval lies above 0, and its upper end is at most 3 times the lower one;
- the ages of use look like the model: the Kolmogorov-Smirnov statistic √n·D is at most 1.31, the limit of 1 % for an exponential
  distribution with an estimated rate;
- the present setting lies outside the interval.

As a setting: `simple` has r itself; `smp` has r - 0.01, because its age penalty of 0.01 per day is added (of a memory that
nobody touches, age and time since the last touch are the same); `half-life` and `boosted` have ln 2 ÷ r in hours.

Non-guarantees: uses before an import, which are not counted, and uses that only happen because a memory ranks high contradict the
model. A suggestion is a starting point and changes nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, expm1, log, sqrt
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.facts import DAY, MemoryFacts, dicts
from smp_memory.model.decay import AGE_PENALTY
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from smp_memory.model.reports import Problem

SUGGESTED, AGREES, NOT_ENOUGH, NO_FADING, NO_FIT, NO_SETTING = (
    "suggested", "agrees", "not enough evidence", "no fading", "does not fit", "no setting",
)  # fmt: skip
MIN_USED = 30
MAX_RATIO = 3.0
MAX_MISFIT = 1.31
MAX_SAMPLES = 1000  # of a type enter the estimate
_MAX_RATE = 20.0  # per day
_LN2 = log(2)
_BY_HALF_LIFE = ("half-life", "boosted")


class UseSample(NamedTuple):
    """A memory that was used once: its age in days at the use and now."""

    used: float
    now: float


class RateEstimate(NamedTuple):
    """The rate per day at which use falls, with its interval of 95 %, and the misfit of the model."""

    rate: float
    low: float
    high: float
    misfit: float


@dataclass(slots=True)
class RateSuggestion:
    """The evidence for one setting, and what it suggests."""

    types: list[str]
    setting: str | None  # None: the policy has no setting for this type
    current: float | None
    memories: int = 0
    used_once: int = 0  # memories that say something about the rate
    median_age_days: float | None = None  # at that use
    estimate: RateEstimate | None = None
    suggested: float | None = None  # None: no suggestion
    low: float | None = None  # the interval as values of the setting
    high: float | None = None
    verdict: str = NOT_ENOUGH
    reason: str = ""
    command: str | None = None  # that would apply the suggestion

    def to_dict(self) -> dict[str, Any]:
        estimate = self.estimate
        return {
            "types": self.types,
            "setting": self.setting,
            "current": self.current,
            "verdict": self.verdict,
            "reason": self.reason,
            "suggested": self.suggested,
            "interval": None if self.low is None else [self.low, self.high],
            "command": self.command,
            "evidence": {
                "memories": self.memories,
                "used_once": self.used_once,
                "sampled": 0 if estimate is None else min(self.used_once, MAX_SAMPLES),
                "median_age_days_at_use": _rounded(self.median_age_days),
                "rate_per_day": None if estimate is None else _rounded(estimate.rate),
                "rate_interval": None if estimate is None else [_rounded(estimate.low), _rounded(estimate.high)],
                "misfit": None if estimate is None else _rounded(estimate.misfit),
            },
        }


@dataclass(slots=True)
class DecayAdvice:
    """Suggestions for the decay settings of a scope."""

    policy: str
    suggestions: list[RateSuggestion]
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # entries that could not be read

    def __iter__(self) -> Any:
        return iter(self.suggestions)

    def refs(self) -> list[str]:
        return []  # no memory is listed

    def set_texts(self, texts: Mapping[str, str]) -> None:
        pass

    def to_dict(self) -> dict[str, Any]:
        return {"policy": self.policy, "settings": dicts(self.suggestions), "notes": self.notes}


def decay_advice(
    facts: Iterable[MemoryFacts], now: int, settings: Mapping[str, Any], session: str | None = None
) -> DecayAdvice:
    """What use suggests for the section `decay` of the settings; `session`: the command is for this session's own settings."""
    policy = str(settings.get("policy", "smp"))
    made = DecayAdvice(policy, [])
    if not settings.get("enabled", True):
        made.policy = "off"
        made.notes.append("Decay is off (setting decay.enabled), so no rate has an effect.")
        return made
    by_type: dict[str, list[MemoryFacts]] = {}
    for each in facts:
        by_type.setdefault(each.type, []).append(each)
    for suggestion in _groups(policy, settings):
        those = [each for name in suggestion.types for each in by_type.get(name, ())]
        if those:
            _judge(suggestion, those, now, policy)
            if suggestion.verdict == SUGGESTED:
                narrowed = f" --session {session}" if session else ""
                suggestion.command = f"smp config set {suggestion.setting} {suggestion.suggested}{narrowed}"
            made.suggestions.append(suggestion)
    made.notes.append("Nothing was changed. A command that is shown applies its suggestion.")
    return made


def _groups(policy: str, settings: Mapping[str, Any]) -> list[RateSuggestion]:
    """One for each setting of the policy, and one for each type without."""
    if policy not in _BY_HALF_LIFE:
        rates = settings.get("rates", {})
        return [
            RateSuggestion([name], f"decay.rates.{name}" if name in rates else None, rates.get(name, kind.decay[1]))
            for name, kind in KINDS.items()
        ]
    hours = settings.get("half_life_hours", {})
    groups, others = [], []
    for name, kind in KINDS.items():
        if policy == "half-life" and not kind.fades_by_half_life:
            groups.append(RateSuggestion([name], None, None))
        elif name in hours:
            groups.append(RateSuggestion([name], f"decay.half_life_hours.{name}", hours[name]))
        else:
            others.append(name)
    return [*groups, RateSuggestion(others, "decay.half_life_hours.other", hours.get("other"))]


def _judge(suggestion: RateSuggestion, facts: Sequence[MemoryFacts], now: int, policy: str) -> None:
    samples = samples_of(facts, now)
    suggestion.memories, suggestion.used_once = len(facts), len(samples)
    suggestion.median_age_days = median(each.used for each in samples) if samples else None
    if len(samples) < MIN_USED:
        suggestion.reason = (
            f"{len(samples):,} memories used once, not pinned and older than a day; {MIN_USED} are needed"
        )
        return
    estimate = suggestion.estimate = estimate_rate(selected(samples))
    if estimate.low <= 0:
        suggestion.verdict = NO_FADING
        suggestion.reason = f"use falls by at most {max(estimate.high, 0):.2g} per day, if at all"
    elif estimate.misfit > MAX_MISFIT:
        suggestion.verdict = NO_FIT
        suggestion.reason = (
            f"use does not fall exponentially with age: misfit {estimate.misfit:.2f}, at most {MAX_MISFIT}"
        )
    elif estimate.high > MAX_RATIO * estimate.low:
        suggestion.reason = f"the rate may be {estimate.low:.2g} to {estimate.high:.2g} per day: too wide an interval"
    elif suggestion.setting is None:
        suggestion.verdict, suggestion.reason = NO_SETTING, f"the policy {policy} has no setting for this type"
    else:
        _compare(suggestion, estimate, _setting_of(policy))


def _compare(suggestion: RateSuggestion, estimate: RateEstimate, setting: Callable[[float], float]) -> None:
    """Compare the interval, as values of the setting, with the present value."""
    values = [float(f"{setting(rate):.3g}") for rate in (estimate.rate, estimate.low, estimate.high)]
    suggestion.low, suggestion.high = sorted(values[1:])
    if suggestion.current is not None and suggestion.low <= suggestion.current <= suggestion.high:
        suggestion.verdict, suggestion.reason = AGREES, "the present setting is inside the interval"
        return
    suggestion.verdict, suggestion.suggested = SUGGESTED, values[0]
    suggestion.reason = (
        f"the present setting is outside the interval of 95 %, from {suggestion.low:g} to {suggestion.high:g}"
    )


def _setting_of(policy: str) -> Callable[[float], float]:
    """A rate of use per day as the value of a setting of the policy."""
    if policy in _BY_HALF_LIFE:
        return lambda rate: min(24 * _LN2 / rate, 10_000_000.0)
    penalty = AGE_PENALTY if policy == "smp" else 0.0
    return lambda rate: min(max(rate - penalty, 0.0), 10.0)


# -- the estimate


def samples_of(facts: Iterable[MemoryFacts], now: int) -> list[UseSample]:
    """The memories that say something about the rate."""
    return [
        UseSample((each.last_use - each.created) / DAY, (now - each.created) / DAY)
        for each in facts
        if each.uses == 1 and each.last_use and not each.pinned and each.created > 0
        and each.created <= each.last_use <= now and now - each.created >= DAY
    ]  # fmt: skip


def selected(samples: Sequence[UseSample]) -> Sequence[UseSample]:
    """An even selection of very many."""
    step = len(samples) / MAX_SAMPLES
    return samples if step <= 1 else [samples[int(number * step)] for number in range(MAX_SAMPLES)]


def estimate_rate(samples: Sequence[UseSample]) -> RateEstimate:
    """The rate at which the ages of use have the observed mean, by bisection: the mean falls with the rate."""
    observed = sum(each.used for each in samples)
    low, high = -_MAX_RATE, _MAX_RATE
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if sum(_moments(middle, each.now)[0] for each in samples) > observed:
            low = middle
        else:
            high = middle
    rate = (low + high) / 2
    error = 1.96 / sqrt(sum(_moments(rate, each.now)[1] for each in samples))
    return RateEstimate(rate, rate - error, rate + error, misfit(samples, rate))


_STEPS = 40
_FLAT = 1e-3  # below this, rate × age counts as 0
_STEEP = 500.0  # above this, the distribution is not cut off


def _moments(rate: float, now: float) -> tuple[float, float]:
    """The mean and the variance of the age of a use until now."""
    product = rate * now
    if abs(product) < _FLAT:
        return now / 2 - product * now / 12, now * now / 12
    if product > _STEEP:
        return 1 / rate, 1 / rate**2
    if product < -_STEEP:
        return now + 1 / rate, 1 / rate**2
    cut = now / expm1(product)
    return 1 / rate - cut, max(1 / rate**2 - cut * (cut + now), 0.0)


def misfit(samples: Sequence[UseSample], rate: float) -> float:
    """√n·D of Kolmogorov and Smirnov: how far the shares of uses up to the observed ages are from uniform."""
    shares = sorted(_share(rate, each.used, each.now) for each in samples)
    count = len(shares)
    largest = max(max((place + 1) / count - share, share - place / count) for place, share in enumerate(shares))
    return sqrt(count) * largest


def _share(rate: float, age: float, now: float) -> float:
    """The share of the uses up to an age, of those until now."""
    if abs(rate * now) < _FLAT:
        return age / now
    if rate > 0:
        return expm1(-rate * age) / expm1(-rate * now)
    return exp(rate * (now - age)) * expm1(rate * age) / expm1(rate * now)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
