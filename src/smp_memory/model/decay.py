"""Decay: the priority of a memory, which falls with age and rises with use; four policies, each exactly as one of the designs states it.

| policy | design | in short |
|---|---|---|
| `smp` | 003, floors of 002 | base × e^(-rate × days since last touched) × e^(-0.01 × days of age) + use, and floors |
| `half-life` | 004 | 0.5^(hours of age ÷ half-life), at least 0.1; preferences do not decay |
| `boosted` | 001 | 0.5^(hours of age ÷ half-life) × (1 + 0.1 × uses + 0.2 × importance), at least 0.1 |
| `simple` | 000 | base × e^(-rate × whole days of age) + use |

Where a design leaves something open:
- A change counts as touching, as a reading does; 003 counts from the last access alone.
- "Unresolved decisions maintain higher priority" (003): those whose status says that they are open stay at 0.7, which
  003 calls high priority. A decision that is merely `active`, as all are at first, decays by its rate.
- Preferences stay at 0.6 (002, 003), but those that are inferred, or of no more confidence than that, may decay to
  0.3 (003).
- 001 states its boost twice, differently; its formula holds, and its half-lives do. Importance is the memory's own,
  or else derived from type, severity, impact and approval.
- Types that a design does not have: by half-life 168 hours, its default; else a learning decays as slowly as a
  preference ("learnings persist longer"), an artifact like a finding, a summary like a decision.

Guarantees: pure; every result is in 0..1; a pinned memory has 1; a memory from the future counts as new; the same inputs at
the same time give the same number; `explain` gives the parts of exactly the number that `priority` gives. Decay alone
never deletes or hides anything. See docs/reference/designs.md.

Times are integer microseconds since 1970 UTC. Confidence is a number or one of the words of `model.types`; impact is
a word such as `high`, or None where a memory describes its impact otherwise.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp

from smp_memory.errors import InvalidConfig
from smp_memory.model.times import to_microseconds, to_moment
from smp_memory.model.types import (
    CONFIDENCE_WORDS,
    CRITICAL,
    IF_CRITICAL,
    IF_HIGH_IMPACT,
    IF_INFERRED,
    IF_UNRESOLVED,
    KINDS,
    RESOLVED_STATUSES,
    PerKind,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol, TypeAlias

    from smp_memory.config.settings import Config
    from smp_memory.model.candidates import Candidate
    from smp_memory.model.record import Record
    from smp_memory.model.types import Kind

    Inputs: TypeAlias = "DecayInputs | Candidate"

    class Policy(Protocol):
        """A decay policy."""

        name: str
        is_joint: bool  # whether a memory ages with those that it is related to: with the latest times among them

        def priority(self, inputs: Inputs, now: int) -> float:
            """The priority of a memory at a time, from 0 to 1."""

        def without_floor(self, inputs: Inputs, now: int) -> float:
            """The priority without the floor that keeps it from falling further; compaction uses it."""

        def explain(self, inputs: Inputs, now: int) -> dict[str, Any]:
            """The parts of its priority, by name."""


_DAY = 86_400_000_000
_HOUR = 3_600_000_000

AGE_PENALTY = 0.01  # per day, design 003
MAX_BOOST = 0.2
RESOLVED_RATE_FACTOR = 1.5
HIGH_IMPACT_FLOOR = 0.9
CRITICAL_FLOOR = 0.8
UNRESOLVED_FLOOR = 0.7
INFERRED_FLOOR = 0.3
INFERRED = 0.6  # the confidence of the word `inferred`
_HIGH_IMPACT = frozenset(("high", "critical"))

OTHER_HALF_LIFE_HOURS = 168  # of types without one of their own
MINIMUM_FACTOR = 0.1
_LEVELS = frozenset(("low", "medium", "high", "critical"))


class DecayInputs:
    """The values that policies read."""

    __slots__ = (
        "access_count", "approved", "confidence", "created", "impact", "importance", "last_access", "pinned", "severity", "status",
        "type", "updated",
    )  # fmt: skip

    def __init__(
        self,
        type: str,
        created: int,
        updated: int | None = None,
        importance: float | None = None,
        pinned: bool = False,
        status: str | None = None,
        severity: str | None = None,
        impact: str | None = None,
        confidence: float | str | None = None,
        approved: bool = False,
        access_count: int = 0,
        last_access: int | None = None,
    ) -> None:
        self.type = type
        self.created = created
        self.updated = created if updated is None else updated
        self.importance = importance
        self.pinned = pinned
        self.status = status
        self.severity = severity
        self.impact = impact
        self.confidence = CONFIDENCE_WORDS.get(confidence) if isinstance(confidence, str) else confidence
        self.approved = approved
        self.access_count = access_count
        self.last_access = last_access

    @classmethod
    def of(cls, record: Record, access_count: int | None = None, last_access: int | None = None) -> DecayInputs:
        """The inputs from a record; access count and last access are the record's, unless given."""
        access = record.access
        return cls(
            record.type,
            to_microseconds(record.created),
            to_microseconds(record.updated),
            importance=_number(record.importance),
            pinned=bool(record.pinned),
            status=_word(record, "status"),
            severity=_word(record, "severity"),
            impact=impact_level(getattr(record, "impact", None)),
            confidence=_number(record.confidence_value),
            approved=bool(getattr(record, "approved_by", None)),
            access_count=_count(access.get("count")) if access_count is None else access_count,
            last_access=_moment(access.get("last")) if last_access is None else last_access,
        )


def inputs_of(candidate: Candidate) -> Candidate:
    """The inputs from what an index knows of a memory: the candidate itself, or its latest times among those related, if they were asked for."""
    if candidate.latest is None:
        return candidate
    created, updated, last_access = candidate.latest
    return candidate._replace(created=created, updated=updated, last_access=last_access)


def impact_level(impact: Any) -> str | None:
    """The level of an impact given as a word: `"high"` or `{"level": "high"}`; else None."""
    if isinstance(impact, dict):
        impact = impact.get("level")
    word = impact.strip().lower() if isinstance(impact, str) else ""
    return word if word in _LEVELS else None


def _moment(text: Any) -> int | None:
    """A time from a file that a person may have edited; None if it cannot be read."""
    try:
        return to_microseconds(to_moment(text)) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _word(record: Record, field: str) -> str | None:
    value = getattr(record, field, None)
    return value if isinstance(value, str) else None


class SmpPolicy:
    """Design 003 with its rules by type, and the floors of design 002."""

    name = "smp"
    __slots__ = ("_rules", "is_joint")

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._rules = _rules_with(settings)
        self.is_joint = bool(settings.get("related"))

    def priority(self, inputs: Inputs, now: int) -> float:
        if inputs.pinned:
            return 1.0
        rule = self._rule(inputs)
        kind = KINDS[inputs.type]
        least = _floor(inputs, kind, rule[3])[0] if kind.floors else rule[3]
        return min(1.0, max(least, self._decayed(inputs, now, rule)))

    def without_floor(self, inputs: Inputs, now: int) -> float:
        return 1.0 if inputs.pinned else min(1.0, self._decayed(inputs, now, self._rule(inputs)))

    @staticmethod
    def _decayed(inputs: Inputs, now: int, rule: tuple[float, float, float, float]) -> float:
        base, rate, boost, _ = rule
        touched, age = _touched(inputs), _days(inputs.created, now)
        since = age if touched == inputs.created else _days(touched, now)
        faded = base * exp(-rate * since - AGE_PENALTY * age)
        return faded + _boost(inputs, boost) if inputs.access_count else faded

    def explain(self, inputs: Inputs, now: int) -> dict[str, Any]:
        base, rate, boost, floor = self._rule(inputs)
        kind = KINDS[inputs.type]
        least, why = _floor(inputs, kind, floor)
        since, age = _days(_touched(inputs), now), _days(inputs.created, now)
        parts = {
            "base": base,
            "rate_per_day": rate,
            "days_since_touched": since,
            "time_factor": exp(-rate * since),
            "days_of_age": age,
            "age_penalty": exp(-AGE_PENALTY * age),
            "access_boost": _boost(inputs, boost),
            "floor": least,
            "floor_because": _BECAUSE[why].format(kind.noun) if why else "its type",
        }
        return _explained(self, inputs, now, parts)

    def _rule(self, inputs: Inputs) -> tuple[float, float, float, float]:
        base, rate, boost, floor = self._rules[inputs.type]
        if inputs.status in RESOLVED_STATUSES and KINDS[inputs.type].is_faster_resolved:
            rate *= RESOLVED_RATE_FACTOR
        return base, rate, boost, floor


class HalfLifePolicy:
    """Design 004: the priority halves with each half-life, never below the minimum; preferences do not decay."""

    name = "half-life"
    __slots__ = ("_hours", "_minimum", "is_joint")

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._hours, self._minimum = _half_lives(settings)
        self.is_joint = bool(settings.get("related"))

    def priority(self, inputs: Inputs, now: int) -> float:
        if inputs.pinned or not KINDS[inputs.type].fades_by_half_life:
            return 1.0
        return max(self._minimum, self.without_floor(inputs, now))

    def without_floor(self, inputs: Inputs, now: int) -> float:
        if inputs.pinned or not KINDS[inputs.type].fades_by_half_life:
            return 1.0
        return _halved(inputs, now, self._hours[inputs.type])

    def explain(self, inputs: Inputs, now: int) -> dict[str, Any]:
        fades = KINDS[inputs.type].fades_by_half_life
        half_life = self._hours[inputs.type]
        parts = {
            "half_life_hours": half_life if fades else None,
            "hours_of_age": _hours(inputs.created, now),
            "time_factor": _halved(inputs, now, half_life) if fades else 1.0,
            "floor": self._minimum,
        }
        return _explained(self, inputs, now, parts)


class BoostedPolicy:
    """Design 001: decay by half-life, raised by use and importance."""

    name = "boosted"
    __slots__ = ("_hours", "_minimum", "is_joint")

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._hours, self._minimum = _half_lives(settings)
        self.is_joint = bool(settings.get("related"))

    def priority(self, inputs: Inputs, now: int) -> float:
        if inputs.pinned:
            return 1.0
        return max(self._minimum, self.without_floor(inputs, now))

    def without_floor(self, inputs: Inputs, now: int) -> float:
        if inputs.pinned:
            return 1.0
        half_life = self._hours[inputs.type]
        return min(1.0, _halved(inputs, now, half_life) * _multiplier(inputs))

    def explain(self, inputs: Inputs, now: int) -> dict[str, Any]:
        half_life = self._hours[inputs.type]
        parts = {
            "half_life_hours": half_life,
            "hours_of_age": _hours(inputs.created, now),
            "time_factor": _halved(inputs, now, half_life),
            "importance": importance_of(inputs),
            "boost_multiplier": _multiplier(inputs),
            "floor": self._minimum,
        }
        return _explained(self, inputs, now, parts)


class SimplePolicy:
    """Design 000: decay by whole days of age, with a small boost for each use."""

    name = "simple"
    __slots__ = ("_rules", "is_joint")

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._rules = _rules_with(settings)
        self.is_joint = bool(settings.get("related"))

    def priority(self, inputs: Inputs, now: int) -> float:
        if inputs.pinned:
            return 1.0
        base, rate, *_ = self._rules[inputs.type]
        return min(1.0, base * exp(-rate * int(_days(inputs.created, now))) + _boost(inputs, 0.02))

    def without_floor(self, inputs: Inputs, now: int) -> float:
        return self.priority(inputs, now)  # it has none

    def explain(self, inputs: Inputs, now: int) -> dict[str, Any]:
        base, rate, *_ = self._rules[inputs.type]
        days = int(_days(inputs.created, now))
        parts = {
            "base": base,
            "rate_per_day": rate,
            "days_of_age": days,
            "time_factor": exp(-rate * days),
            "access_boost": _boost(inputs, 0.02),
        }
        return _explained(self, inputs, now, parts)


class NoDecayPolicy:
    """No decay: every priority is 1."""

    name = "off"
    is_joint = False
    __slots__ = ()

    def priority(self, inputs: Inputs, now: int) -> float:
        return 1.0

    def without_floor(self, inputs: Inputs, now: int) -> float:
        return 1.0

    def explain(self, inputs: Inputs, now: int) -> dict[str, Any]:
        return _explained(self, inputs, now, {})


POLICIES = {policy.name: policy for policy in (SmpPolicy, HalfLifePolicy, BoostedPolicy, SimplePolicy)}


def policy_of(settings: Mapping[str, Any] | None = None) -> Policy:
    """The policy of the section `decay` of the settings; defaults are the designs'."""
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
    """The policy of a configuration, which never changes; cached."""
    return policy_of(config.decay)


def importance_of(inputs: Inputs) -> float:
    """A memory's own importance, or else the one derived from type, severity, impact and approval (design 001)."""
    if inputs.importance is not None:
        return inputs.importance
    score = KINDS[inputs.type].importance
    if inputs.severity == CRITICAL or inputs.impact == "high":
        score *= 1.3
    if inputs.approved:
        score *= 1.2
    return min(score, 1.0)


def _days(since: int, now: int) -> float:
    return (now - since) / _DAY if now > since else 0.0


def _hours(since: int, now: int) -> float:
    return (now - since) / _HOUR if now > since else 0.0


def _halved(inputs: Inputs, now: int, half_life: float) -> float:
    return float(0.5 ** (_hours(inputs.created, now) / half_life))


def _touched(inputs: Inputs) -> int:
    """The time of the last write or access."""
    read = inputs.last_access
    return inputs.updated if read is None or read < inputs.updated else read


def _boost(inputs: Inputs, each: float) -> float:
    return min(MAX_BOOST, inputs.access_count * each)


def _multiplier(inputs: Inputs) -> float:
    return 1 + 0.1 * inputs.access_count + 0.2 * importance_of(inputs)


_BECAUSE = {
    IF_CRITICAL: "a critical {}",
    IF_HIGH_IMPACT: "a {} of high impact",
    IF_UNRESOLVED: "an unresolved {}",
    IF_INFERRED: "an inferred {}",
}


def _floor(inputs: Inputs, kind: Kind, floor: float) -> tuple[float, str]:
    """The floor of the priority, and the first rule of the type that applies; empty: none does."""
    for rule in kind.floors:
        if rule == IF_CRITICAL and inputs.severity == CRITICAL:
            return max(floor, CRITICAL_FLOOR), rule
        if rule == IF_HIGH_IMPACT and inputs.impact in _HIGH_IMPACT:
            return max(floor, HIGH_IMPACT_FLOOR), rule
        if rule == IF_UNRESOLVED and inputs.status in kind.unresolved:
            return max(floor, UNRESOLVED_FLOOR), rule
        if rule == IF_INFERRED and inputs.confidence is not None and inputs.confidence <= INFERRED:
            return min(floor, INFERRED_FLOOR), rule
    return floor, ""


def _rules_with(settings: Mapping[str, Any]) -> dict[str, tuple[float, float, float, float]]:
    rates, floors = settings.get("rates", {}), settings.get("floors", {})

    def rule(kind: Kind) -> tuple[float, float, float, float]:
        base, rate, boost, floor = kind.decay
        return base, rates.get(kind.name, rate), boost, floors.get(kind.name, floor)

    return PerKind(rule)


def _half_lives(settings: Mapping[str, Any]) -> tuple[dict[str, float], float]:
    given = settings.get("half_life_hours", {})
    other = given.get("other", OTHER_HALF_LIFE_HOURS)
    hours = PerKind(lambda kind: given.get(kind.name) or kind.half_life_hours or other)
    return hours, settings.get("minimum_factor", MINIMUM_FACTOR)


def _explained(policy: Policy, inputs: Inputs, now: int, parts: dict[str, Any]) -> dict[str, Any]:
    details = {"pinned": True} if inputs.pinned else parts
    return {"policy": policy.name, **details, "priority": policy.priority(inputs, now)}
