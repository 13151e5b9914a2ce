"""How present is it still, and by which rule? Four policies, each exactly as one of the designs states it.

| policy | seed | in short |
|---|---|---|
| `smp` | 003 §7, 002 §4 | base × e^(-rate × days since it was touched) × e^(-0.01 × days of age) + use, and floors |
| `half-life` | 004 §4.4 | 0.5^(hours of age ÷ half-life), at least 0.1; preferences do not fade |
| `boosted` | 001 §6 | 0.5^(hours of age ÷ half-life) × (1 + 0.1 × uses + 0.2 × importance), at least 0.1 |
| `simple` | 000 §5 | base × e^(-rate × whole days of age) + use |

Where a design leaves something open:
- A change counts as being touched, as a reading does; 003 counts from the last access alone.
- "Unresolved decisions maintain higher priority" (003 §7.2): those whose status says that they are open stay at 0.7,
  which 003 §7.3 calls high priority. A decision that is merely `active`, as all are at first, fades by its rate.
- Preferences stay at 0.6 (002, 003), but those that are inferred, or no surer than that, may fade to 0.3 (003).
- 001 states its boost twice, differently; the formula of §6.1 holds, and its half-lives do. Importance is what
  the memory says, or else what §5.3 derives from type, severity, impact and approval.
- Types that a design does not know: by half-life 168 hours, its default; else a learning fades as slowly as a preference
  ("learnings persist longer"), an artifact like a finding, a summary like a decision.

Guarantees: pure; every result lies in 0..1; a memory from the future is new; `explain` gives the parts of exactly the
number that `priority` gives.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp

from smp_memory.errors import InvalidConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from smp_memory.config import Config
    from smp_memory.decay.inputs import DecayInputs

    class Policy(Protocol):
        """A rule of fading."""

        name: str

        def priority(self, facts: DecayInputs, now: int) -> float:
            """How present a memory is at a time, from 0 to 1."""

        def without_floor(self, facts: DecayInputs, now: int) -> float:
            """The same as if nothing kept it from fading further; compaction judges by it."""

        def explain(self, facts: DecayInputs, now: int) -> dict[str, Any]:
            """The parts of its priority, by name."""


_DAY = 86_400_000_000
_HOUR = 3_600_000_000

# base priority, rate per day, boost per access (003 §7.2), floor (002 §4.2)
RULES: dict[str, tuple[float, float, float, float]] = {
    "conversation": (1.0, 0.05, 0.01, 0.1),
    "decision": (0.95, 0.03, 0.02, 0.4),
    "finding": (0.90, 0.04, 0.015, 0.3),
    "preference": (0.85, 0.02, 0.03, 0.6),
    "agent_state": (0.80, 0.06, 0.01, 0.0),
    "artifact": (0.90, 0.04, 0.015, 0.3),
    "learning": (0.80, 0.02, 0.01, 0.3),
    "summary": (0.95, 0.03, 0.02, 0.4),
}
AGE_PENALTY = 0.01  # per day, 003 §7.1
MOST_BOOST = 0.2
RESOLVED_FASTER = 1.5
HIGH_IMPACT_FLOOR = 0.9
CRITICAL_FLOOR = 0.8
UNRESOLVED_FLOOR = 0.7
INFERRED_FLOOR = 0.3
INFERRED = 0.6  # the confidence that the word inferred stands for
_UNRESOLVED = frozenset(("open", "unresolved", "pending", "proposed", "in_progress"))
_RESOLVED = frozenset(("resolved", "closed", "fixed", "done"))
_GREAT = frozenset(("high", "critical"))

HALF_LIFE_HOURS = {"conversation": 168, "decision": 720, "finding": 336, "preference": 1440, "other": 168}
MINIMUM_FACTOR = 0.1
_TYPE_IMPORTANCE = {"decision": 1.0, "finding": 0.8, "preference": 0.7}  # 001 §5.3; 0.5 for all others


class SmpPolicy:
    """003 §7 with the rules by type of §7.2 and the floors of 002 §4.2."""

    name = "smp"
    __slots__ = ("_rules",)

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._rules = _rules_with(settings)

    def priority(self, facts: DecayInputs, now: int) -> float:
        if facts.pinned:
            return 1.0
        rule = self._rule(facts)
        least = rule[3] if facts.type == "conversation" else _floor(facts, rule[3])[0]
        return min(1.0, max(least, self._faded(facts, now, rule)))

    def without_floor(self, facts: DecayInputs, now: int) -> float:
        return 1.0 if facts.pinned else min(1.0, self._faded(facts, now, self._rule(facts)))

    @staticmethod
    def _faded(facts: DecayInputs, now: int, rule: tuple[float, float, float, float]) -> float:
        base, rate, boost, _ = rule
        touched, age = _touched(facts), _days(facts.created, now)
        since = age if touched == facts.created else _days(touched, now)
        faded = base * exp(-rate * since - AGE_PENALTY * age)
        return faded + _boost(facts, boost) if facts.access_count else faded

    def explain(self, facts: DecayInputs, now: int) -> dict[str, Any]:
        base, rate, boost, floor = self._rule(facts)
        least, why = _floor(facts, floor)
        since, age = _days(_touched(facts), now), _days(facts.created, now)
        parts = {
            "base": base,
            "rate_per_day": rate,
            "days_since_touched": since,
            "time_factor": exp(-rate * since),
            "days_of_age": age,
            "age_penalty": exp(-AGE_PENALTY * age),
            "access_boost": _boost(facts, boost),
            "floor": least,
            "floor_because": why,
        }
        return _explained(self, facts, now, parts)

    def _rule(self, facts: DecayInputs) -> tuple[float, float, float, float]:
        base, rate, boost, floor = self._rules[facts.type]
        if facts.type == "finding" and facts.status in _RESOLVED:
            rate *= RESOLVED_FASTER
        return base, rate, boost, floor


class HalfLifePolicy:
    """004 §4.4: half as present after each half-life, never below the minimum; preferences do not fade."""

    name = "half-life"
    __slots__ = ("_hours", "_minimum")

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._hours, self._minimum = _half_lives(settings)

    def priority(self, facts: DecayInputs, now: int) -> float:
        if facts.pinned or facts.type == "preference":
            return 1.0
        return max(self._minimum, self.without_floor(facts, now))

    def without_floor(self, facts: DecayInputs, now: int) -> float:
        if facts.pinned or facts.type == "preference":
            return 1.0
        return _halved(facts, now, self._hours.get(facts.type) or self._hours["other"])

    def explain(self, facts: DecayInputs, now: int) -> dict[str, Any]:
        fades = facts.type != "preference"
        half_life = self._hours.get(facts.type) or self._hours["other"]
        parts = {
            "half_life_hours": half_life if fades else None,
            "hours_of_age": _hours(facts.created, now),
            "time_factor": _halved(facts, now, half_life) if fades else 1.0,
            "floor": self._minimum,
        }
        return _explained(self, facts, now, parts)


class BoostedPolicy:
    """001 §6: fading by half-life, slowed by use and importance."""

    name = "boosted"
    __slots__ = ("_hours", "_minimum")

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._hours, self._minimum = _half_lives(settings)

    def priority(self, facts: DecayInputs, now: int) -> float:
        if facts.pinned:
            return 1.0
        return max(self._minimum, self.without_floor(facts, now))

    def without_floor(self, facts: DecayInputs, now: int) -> float:
        if facts.pinned:
            return 1.0
        half_life = self._hours.get(facts.type) or self._hours["other"]
        return min(1.0, _halved(facts, now, half_life) * _multiplier(facts))

    def explain(self, facts: DecayInputs, now: int) -> dict[str, Any]:
        half_life = self._hours.get(facts.type) or self._hours["other"]
        parts = {
            "half_life_hours": half_life,
            "hours_of_age": _hours(facts.created, now),
            "time_factor": _halved(facts, now, half_life),
            "importance": importance_of(facts),
            "boost_multiplier": _multiplier(facts),
            "floor": self._minimum,
        }
        return _explained(self, facts, now, parts)


class SimplePolicy:
    """000 §5: by whole days of age, with a little for each use."""

    name = "simple"
    __slots__ = ("_rules",)

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._rules = _rules_with(settings)

    def priority(self, facts: DecayInputs, now: int) -> float:
        if facts.pinned:
            return 1.0
        base, rate, *_ = self._rules[facts.type]
        return min(1.0, base * exp(-rate * int(_days(facts.created, now))) + _boost(facts, 0.02))

    def without_floor(self, facts: DecayInputs, now: int) -> float:
        return self.priority(facts, now)  # it has none

    def explain(self, facts: DecayInputs, now: int) -> dict[str, Any]:
        base, rate, *_ = self._rules[facts.type]
        days = int(_days(facts.created, now))
        parts = {
            "base": base,
            "rate_per_day": rate,
            "days_of_age": days,
            "time_factor": exp(-rate * days),
            "access_boost": _boost(facts, 0.02),
        }
        return _explained(self, facts, now, parts)


class NoDecayPolicy:
    """Fading is turned off: everything is as present as on its first day."""

    name = "off"
    __slots__ = ()

    def priority(self, facts: DecayInputs, now: int) -> float:
        return 1.0

    def without_floor(self, facts: DecayInputs, now: int) -> float:
        return 1.0

    def explain(self, facts: DecayInputs, now: int) -> dict[str, Any]:
        return _explained(self, facts, now, {})


POLICIES = {policy.name: policy for policy in (SmpPolicy, HalfLifePolicy, BoostedPolicy, SimplePolicy)}


def policy_of(settings: Mapping[str, Any] | None = None) -> Policy:
    """The policy that the section `decay` of the settings asks for; what it leaves out is as the designs have it."""
    given = settings or {}
    name = given.get("policy", SmpPolicy.name)
    if name not in POLICIES:
        raise InvalidConfig(
            f"Bad value for the setting 'decay.policy': {repr(name)[:80]}. Allowed: one of {', '.join(POLICIES)}.",
            key="decay.policy",
        )
    return POLICIES[name](given) if given.get("enabled", True) else NoDecayPolicy()


@lru_cache(16)
def policy_in(config: Config) -> Policy:
    """The policy of settings, which never change; made once for those that are asked with again and again."""
    return policy_of(config.decay)


def importance_of(facts: DecayInputs) -> float:
    """How important a memory is: as it says, or else by its type, severity, impact and approval (001 §5.3)."""
    if facts.importance is not None:
        return facts.importance
    score = _TYPE_IMPORTANCE.get(facts.type, 0.5)
    if facts.severity == "critical" or facts.impact == "high":
        score *= 1.3
    if facts.approved:
        score *= 1.2
    return min(score, 1.0)


# -- parts


def _days(since: int, now: int) -> float:
    return (now - since) / _DAY if now > since else 0.0


def _hours(since: int, now: int) -> float:
    return (now - since) / _HOUR if now > since else 0.0


def _halved(facts: DecayInputs, now: int, half_life: float) -> float:
    return float(0.5 ** (_hours(facts.created, now) / half_life))


def _touched(facts: DecayInputs) -> int:
    """When it was last written or read."""
    read = facts.last_access
    return facts.updated if read is None or read < facts.updated else read


def _boost(facts: DecayInputs, each: float) -> float:
    return min(MOST_BOOST, facts.access_count * each)


def _multiplier(facts: DecayInputs) -> float:
    return 1 + 0.1 * facts.access_count + 0.2 * importance_of(facts)


def _floor(facts: DecayInputs, floor: float) -> tuple[float, str]:
    """Below what it does not fade, and why: the largest floor that applies."""
    kind = facts.type
    if kind == "finding" and facts.severity == "critical":
        return max(floor, CRITICAL_FLOOR), "a critical finding"
    if kind == "decision" and facts.impact in _GREAT:
        return max(floor, HIGH_IMPACT_FLOOR), "a decision of high impact"
    if kind == "decision" and facts.status in _UNRESOLVED:
        return max(floor, UNRESOLVED_FLOOR), "an unresolved decision"
    if kind == "preference" and facts.confidence is not None and facts.confidence <= INFERRED:
        return min(floor, INFERRED_FLOOR), "an inferred preference"
    return floor, "its type"


def _rules_with(settings: Mapping[str, Any]) -> dict[str, tuple[float, float, float, float]]:
    rates, floors = settings.get("rates", {}), settings.get("floors", {})
    return {
        kind: (base, rates.get(kind, rate), boost, floors.get(kind, floor))
        for kind, (base, rate, boost, floor) in RULES.items()
    }


def _half_lives(settings: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    return {**HALF_LIFE_HOURS, **settings.get("half_life_hours", {})}, settings.get("minimum_factor", MINIMUM_FACTOR)


def _explained(policy: Policy, facts: DecayInputs, now: int, parts: dict[str, Any]) -> dict[str, Any]:
    shown = {"pinned": True} if facts.pinned else parts
    return {"policy": policy.name, **shown, "priority": policy.priority(facts, now)}
