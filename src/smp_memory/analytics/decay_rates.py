"""Suggested decay settings by type, estimated from how use falls with age. Pure.

Model: the uses of a memory are a Poisson process whose intensity is λ·e^(-r·age). The rate r is the same for all memories of a
type, λ differs from memory to memory. Kept of each memory: n, the number of uses, and the age ℓ at the last one; T is its
age now. Given n, the ages of the uses are independent and follow an exponential distribution cut off at T, whatever λ is, so

    F(a) = (1 - e^(-r·a)) / (1 - e^(-r·T))        the distribution of the age of a use
    L(r, c) = Π m·F(ℓ)^(m-1)·F'(ℓ)                ℓ is the largest of m such ages, m = 1 + c·(n - 1)

Uses come in bursts: one piece of work finds a memory several times. So of the uses after the first only the share c, from 0 to 1,
counts as independent; it is estimated as well. Estimate: the r and c that maximise L; interval of 95 %: the values of r with
2·(log L(max) - max over c of log L(r, c)) ≤ 3.84. Memories that were never used say nothing about r and are left out, as are
pinned ones, those younger than a day, and those whose last use is before their time.

A setting is suggested only if all of this holds; otherwise the reason is given:
- at least 30 memories of the type were used;
- the interval lies above 0, and its upper end is at most 3 times the lower one;
- the model fits: F(ℓ)^m is uniform between 0 and 1 if it does; its Kolmogorov-Smirnov statistic √n·D is at most 1.31, which is the 1 %
  limit for an exponential distribution with an estimated rate;
- the present setting lies outside the interval.

As a setting: `simple` has r itself; `smp` has r - 0.01, because its age penalty of 0.01 per day is added (of a memory that
nobody touches, age and time since the last touch are the same); `half-life` and `boosted` have ln 2 ÷ r in hours.

Non-guarantees: uses before an import (which are not counted), and uses that only happen because a memory ranks high, contradict the
model. The fit finds gross cases. A suggestion is a starting point and changes nothing by itself.
"""

from __future__ import annotations

from math import exp, expm1, log, sqrt
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.facts import DAY, MemoryFacts, dicts
from smp_memory.decay import AGE_PENALTY
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
MAX_SAMPLES = 100  # of a type enter the estimate: with more, its interval would be narrower than the error of the model
_LIKELIHOOD_DROP = 3.841 / 2
_LOWEST, _HIGHEST = -1.0, 20.0  # per day
_MIN_AGE_DAYS = 1 / 1440  # uses are counted at most once a minute
_LN2 = log(2)
_BY_HALF_LIFE = ("half-life", "boosted")


class UseSample(NamedTuple):
    """The uses of one memory: how many, and its age in days at the last one and now."""

    uses: int
    last: float
    now: float


class RateEstimate(NamedTuple):
    """The rate per day at which use falls, with its interval of 95 %, the share of independent uses, and the misfit of the model."""

    rate: float
    low: float
    high: float
    independent: float
    misfit: float


class RateSuggestion:
    """The evidence for one setting, and what it suggests."""

    __slots__ = (
        "command", "current", "estimate", "high", "low", "median_age_days", "memories", "reason", "setting", "suggested",
        "types", "used", "uses", "verdict",
    )  # fmt: skip

    def __init__(self, types: list[str], setting: str | None, current: float | None) -> None:
        self.types = types
        self.setting = setting  # None: the policy has no setting for this type
        self.current = current
        self.memories = self.used = self.uses = 0  # `used`: memories that say something about the rate
        self.median_age_days: float | None = None  # at the last use
        self.estimate: RateEstimate | None = None
        self.suggested: float | None = None  # None: no suggestion
        self.low: float | None = None  # the interval as values of the setting
        self.high: float | None = None
        self.verdict = NOT_ENOUGH
        self.reason = ""
        self.command: str | None = None  # that would apply the suggestion

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
                "used": self.used,
                "uses": self.uses,
                "sampled": 0 if estimate is None else min(self.used, MAX_SAMPLES),
                "median_age_days_at_last_use": _rounded(self.median_age_days),
                "rate_per_day": None if estimate is None else _rounded(estimate.rate),
                "rate_interval": None if estimate is None else [_rounded(estimate.low), _rounded(estimate.high)],
                "independent_uses": None if estimate is None else _rounded(estimate.independent),
                "misfit": None if estimate is None else _rounded(estimate.misfit),
            },
        }


class DecayAdvice:
    """Suggestions for the decay settings of a scope."""

    __slots__ = ("notes", "policy", "problems", "suggestions")

    def __init__(self, policy: str, suggestions: list[RateSuggestion]) -> None:
        self.policy = policy
        self.suggestions = suggestions
        self.notes: list[str] = []
        self.problems: list[Problem] = []  # entries that could not be read

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
                narrowed = f"--session {session} " if session else ""
                suggestion.command = f"smp config {narrowed}--set {suggestion.setting}={suggestion.suggested}"
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
    suggestion.memories, suggestion.used = len(facts), len(samples)
    suggestion.uses = sum(each.uses for each in samples)
    suggestion.median_age_days = median(each.last for each in samples) if samples else None
    if len(samples) < MIN_USED:
        suggestion.reason = (
            f"{len(samples):,} used memories that are not pinned and older than a day; {MIN_USED} are needed"
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
        UseSample(each.uses, max((each.last_use - each.created) / DAY, _MIN_AGE_DAYS), (now - each.created) / DAY)
        for each in facts
        if each.uses and each.last_use and not each.pinned and each.created > 0
        and each.created <= each.last_use <= now and now - each.created >= DAY
    ]  # fmt: skip


def selected(samples: Sequence[UseSample]) -> Sequence[UseSample]:
    """An even selection of very many."""
    step = len(samples) / MAX_SAMPLES
    return samples if step <= 1 else [samples[int(number * step)] for number in range(MAX_SAMPLES)]


def estimate_rate(samples: Sequence[UseSample]) -> RateEstimate:
    """The rate that makes these uses most likely, with its interval of 95 % and the misfit."""

    def likelihood(rate: float) -> float:
        return _profile(samples, rate)[0]

    rate = _maximum(likelihood)
    best, independent = _profile(samples, rate)
    low = _crossing(likelihood, best - _LIKELIHOOD_DROP, rate, _LOWEST)
    high = _crossing(likelihood, best - _LIKELIHOOD_DROP, rate, _HIGHEST)
    return RateEstimate(rate, low, high, independent, misfit(samples, rate, independent))


def _profile(samples: Sequence[UseSample], rate: float) -> tuple[float, float]:
    """The log-likelihood of a rate with the best share of independent uses, and that share."""
    total = 0.0
    repeated: list[tuple[int, float]] = []
    for uses, last, now in samples:
        total += _log_density(rate, last, now)
        if uses > 1:
            repeated.append((uses - 1, _log_share(rate, last, now)))
    share = _best_share(repeated)
    for more, log_share in repeated:
        total += log(1 + share * more) + share * more * log_share
    return total, share


def _best_share(repeated: Sequence[tuple[int, float]]) -> float:
    """The share c from 0 to 1 that maximises Σ log(1 + c·k) + c·k·log F, which is concave in c."""

    def slope(share: float) -> float:
        return sum(more / (1 + share * more) + more * log_share for more, log_share in repeated)

    low, high = 0.0, 1.0
    if slope(high) >= 0:
        return high
    for _ in range(_SHARE_STEPS):
        middle = (low + high) / 2
        if slope(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


_SHARE_STEPS = 10


def misfit(samples: Sequence[UseSample], rate: float, independent: float = 1.0) -> float:
    """√n·D of Kolmogorov and Smirnov: how far F(ℓ)^m is from uniform."""
    shares = sorted(exp((1 + independent * (uses - 1)) * _log_share(rate, last, now)) for uses, last, now in samples)
    count = len(shares)
    largest = max(max((place + 1) / count - share, share - place / count) for place, share in enumerate(shares))
    return sqrt(count) * largest


_FLAT = 1e-9  # below this, rate × age counts as 0


def _log_share(rate: float, age: float, now: float) -> float:
    """log F(age): the share of uses up to an age, of those until now."""
    if abs(rate * now) < _FLAT:
        return log(age / now)
    if rate > 0:
        return log(-expm1(-rate * age)) - log(-expm1(-rate * now))
    return -rate * (age - now) + log(-expm1(rate * age)) - log(-expm1(rate * now))


def _log_density(rate: float, age: float, now: float) -> float:
    if abs(rate * now) < _FLAT:
        return -log(now)
    if rate > 0:
        return log(rate) - rate * age - log(-expm1(-rate * now))
    return log(-rate) - rate * (age - now) - log(-expm1(rate * now))


_GRID = (_LOWEST, -0.3, -0.1, -0.03, -0.01, -0.003, 0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, _HIGHEST)
_GOLDEN = (sqrt(5) - 1) / 2
_STEPS = 32


def _maximum(function: Callable[[float], float]) -> float:
    """Where the function is largest: the best of a grid, refined by golden-section search between its neighbours."""
    best = max(range(len(_GRID)), key=lambda place: function(_GRID[place]))
    low, high = _GRID[max(best - 1, 0)], _GRID[min(best + 1, len(_GRID) - 1)]
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_STEPS):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
    return (low + high) / 2


def _crossing(function: Callable[[float], float], value: float, inside: float, edge: float) -> float:
    """Where the function falls to this value, from a place inside towards the edge; the edge if it does not."""
    step = max(abs(inside) / 4, 0.001) * (1 if edge > inside else -1)
    outside = inside + step
    while abs(outside) < abs(edge) and function(outside) > value:  # both bounds are the farthest from 0 on their side
        step *= 2
        outside = inside + step
    if abs(outside) >= abs(edge) and (outside > 0) == (edge > 0):
        if function(edge) > value:
            return edge
        outside = edge
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        if function(middle) > value:
            inside = middle
        else:
            outside = middle
    return (inside + outside) / 2


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
