"""Decay policies: the figures of the designs, each named after its source."""

from __future__ import annotations

from datetime import UTC, datetime
from math import exp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.config.settings import Config
from smp_memory.errors import InvalidConfig
from smp_memory.model.decay import POLICIES, DecayInputs, impact_level, importance_of, policy_of
from smp_memory.model.entry import PUT, Entry
from smp_memory.model.record import CLASSES, Record
from smp_memory.model.types import KINDS

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOW = 1_768_127_400_000_000  # 2026-01-11T10:30:00Z
NAMES = ("smp", "half-life", "boosted", "simple")
every_policy = pytest.mark.parametrize("name", NAMES)
every_type = pytest.mark.parametrize("type", KINDS)

smp, half_life, boosted, simple = (policy_of({"policy": name}) for name in NAMES)


def old(type: str, days: float = 0, *, read_days_ago: float | None = None, **facts: Any) -> DecayInputs:
    """A memory made so many days ago, and not read since unless said."""
    last = None if read_days_ago is None else NOW - round(read_days_ago * DAY)
    return DecayInputs(type, NOW - round(days * DAY), last_access=last, **facts)


def close(value: float) -> Any:
    return pytest.approx(value, abs=1e-12)


# -- 000 §5: simple


@pytest.mark.parametrize(
    ("type", "base"), [("conversation", 1.0), ("decision", 0.95), ("finding", 0.9), ("preference", 0.85)]
)
def test_seed_000_1_a_new_memory_has_its_base_priority(type: str, base: float) -> None:
    assert simple.priority(old(type), NOW) == base


@pytest.mark.parametrize(
    ("type", "base", "rate"),
    [("conversation", 1.0, 0.05), ("decision", 0.95, 0.03), ("finding", 0.9, 0.04), ("preference", 0.85, 0.02)],
)
@pytest.mark.parametrize("days", [1, 7, 30, 365])
def test_seed_000_5_decay_priority(type: str, base: float, rate: float, days: int) -> None:
    assert simple.priority(old(type, days), NOW) == close(base * exp(-rate * days))


def test_seed_000_5_days_are_whole() -> None:
    assert simple.priority(old("conversation", 1.99), NOW) == close(exp(-0.05))
    assert simple.priority(old("conversation", 0.99), NOW) == 1.0


def test_seed_000_5_boost_by_access() -> None:
    assert simple.priority(old("finding", 30, access_count=3), NOW) == close(0.9 * exp(-1.2) + 0.06)
    assert simple.priority(old("finding", 30, access_count=10), NOW) == close(0.9 * exp(-1.2) + 0.2)
    assert simple.priority(old("finding", 30, access_count=500), NOW) == close(0.9 * exp(-1.2) + 0.2)


def test_seed_000_5_has_no_floor() -> None:
    assert simple.priority(old("preference", 3650), NOW) < 1e-9


# -- 001 §6: boosted


@pytest.mark.parametrize(
    ("type", "hours"), [("conversation", 168), ("decision", 720), ("finding", 336), ("preference", 1440)]
)
def test_seed_001_6_2_half_lives(type: str, hours: int) -> None:
    fresh = 1 + 0.2 * 0.5
    facts = DecayInputs(type, NOW - hours * HOUR, importance=0.5)
    assert boosted.priority(facts, NOW) == close(0.5 * fresh)
    assert boosted.priority(facts, NOW + hours * HOUR) == close(0.25 * fresh)


def test_seed_001_6_1_boost_multiplier() -> None:
    facts = DecayInputs("conversation", NOW - 336 * HOUR, access_count=3, importance=0.5)
    assert boosted.priority(facts, NOW) == close(0.25 * (1 + 3 * 0.1 + 0.5 * 0.2))


def test_seed_001_6_2_minimum_decay_factor() -> None:
    assert boosted.priority(old("conversation", 365), NOW) == 0.1
    assert boosted.priority(old("conversation", 365, access_count=5), NOW) == 0.1


def test_seed_001_glossary_a_decay_factor_is_at_most_1() -> None:
    assert boosted.priority(old("decision", access_count=50), NOW) == 1.0


def test_spec_17_the_rates_of_001_are_per_day() -> None:
    by_rate = exp(-0.1 * 7)  # 0.1 a day for 168 hours
    assert boosted.priority(old("conversation", 7, importance=0), NOW) == pytest.approx(by_rate, abs=0.01)


@pytest.mark.parametrize(
    ("facts", "importance"),
    [
        (old("decision"), 1.0),
        (old("finding"), 0.8),
        (old("preference"), 0.7),
        (old("conversation"), 0.5),
        (old("agent_state"), 0.5),
        (old("finding", severity="critical"), 1.0),
        (old("finding", severity="high"), 0.8),
        (old("conversation", impact="high"), 0.65),
        (old("conversation", approved=True), 0.6),
        (old("conversation", approved=True, impact="high"), 0.78),
        (old("decision", impact="high", approved=True), 1.0),
        (old("decision", importance=0.2), 0.2),
        (old("decision", importance=0), 0),
    ],
)
def test_seed_001_5_3_calculate_importance(facts: DecayInputs, importance: float) -> None:
    assert importance_of(facts) == close(importance)


# -- 002 §4


RULES_OF_002 = [
    ("conversation", 1.0, 0.05, 0.1),
    ("decision", 0.95, 0.03, 0.4),
    ("finding", 0.90, 0.04, 0.3),
    ("preference", 0.85, 0.02, 0.6),
]


@pytest.mark.parametrize(("type", "base", "rate", "floor"), RULES_OF_002)
def test_seed_002_4_2_base_rate_and_floor(type: str, base: float, rate: float, floor: float) -> None:
    assert smp.priority(old(type), NOW) == base
    assert smp.priority(old(type, 5), NOW) == close(base * exp(-rate * 5) * exp(-0.01 * 5))
    assert smp.priority(old(type, 3650), NOW) == floor


def test_seed_002_4_1_decay_function() -> None:
    facts = old("conversation", 20, read_days_ago=4, access_count=3)
    assert smp.priority(facts, NOW) == close(1.0 * exp(-0.05 * 4) * exp(-0.01 * 20) + 0.03)


def test_seed_002_2_2_agent_states_fade_by_0_06_a_day() -> None:
    assert smp.priority(old("agent_state", 10), NOW) == close(0.8 * exp(-0.6) * exp(-0.1))


# -- 003 §7: smp


RULES_OF_003 = [
    ("conversation", 1.0, 0.05, 0.01),
    ("decision", 0.95, 0.03, 0.02),
    ("finding", 0.90, 0.04, 0.015),
    ("preference", 0.85, 0.02, 0.03),
    ("agent_state", 0.80, 0.06, 0.01),
]


@pytest.mark.parametrize(("type", "base", "rate", "boost"), RULES_OF_003)
def test_seed_003_7_2_rules_by_type(type: str, base: float, rate: float, boost: float) -> None:
    facts = old(type, 9, read_days_ago=3, access_count=2)
    assert smp.priority(facts, NOW) == close(base * exp(-rate * 3) * exp(-0.01 * 9) + 2 * boost)


@pytest.mark.parametrize(("type", "base", "rate", "boost"), RULES_OF_003)
def test_seed_003_7_1_access_boost_is_at_most_0_2(type: str, base: float, rate: float, boost: float) -> None:
    facts = old(type, 9, access_count=1000)
    assert smp.priority(facts, NOW) == close(min(1.0, base * exp(-(rate + 0.01) * 9) + 0.2))


def test_seed_003_7_1_even_accessed_memories_age() -> None:
    assert smp.priority(old("conversation", 100, read_days_ago=0), NOW) == close(exp(-1))


def test_seed_003_7_1_never_above_1() -> None:
    assert smp.priority(old("conversation", access_count=20), NOW) == 1.0


@pytest.mark.parametrize("status", ["open", "unresolved", "pending"])
def test_seed_003_7_2_unresolved_decisions_maintain_higher_priority(status: str) -> None:
    assert smp.priority(old("decision", 3650, status=status), NOW) == 0.7
    assert smp.priority(old("decision", 3650, status="active"), NOW) == 0.4
    assert smp.priority(old("decision", 3650, status="resolved"), NOW) == 0.4


def test_seed_003_7_2_decisions_with_high_impact_maintain_0_9() -> None:
    assert smp.priority(old("decision", 3650, impact="high"), NOW) == 0.9
    assert smp.priority(old("decision", 3650, impact="high", status="open"), NOW) == 0.9
    assert smp.priority(old("decision", 0, impact="high"), NOW) == 0.95
    assert smp.priority(old("decision", 3650, impact="low"), NOW) == 0.4
    assert smp.priority(old("finding", 3650, impact="high"), NOW) == 0.3


def test_seed_003_7_2_critical_findings_maintain_0_8() -> None:
    assert smp.priority(old("finding", 3650, severity="critical"), NOW) == 0.8
    assert smp.priority(old("finding", 3650, severity="critical", status="resolved"), NOW) == 0.8
    assert smp.priority(old("finding", 3650, severity="high"), NOW) == 0.3
    assert smp.priority(old("conversation", 3650, severity="critical"), NOW) == 0.1


def test_seed_003_7_2_resolved_findings_decay_faster() -> None:
    resolved = smp.priority(old("finding", 10, status="resolved"), NOW)
    assert resolved == close(0.9 * exp(-0.04 * 1.5 * 10) * exp(-0.01 * 10))
    assert smp.priority(old("finding", 10, status="open"), NOW) == close(0.9 * exp(-0.04 * 10) * exp(-0.01 * 10))


@pytest.mark.parametrize("confidence", ["explicit", 1.0, "high", 0.7, None])
def test_seed_003_7_2_explicit_preferences_never_decay_below_0_6(confidence: Any) -> None:
    assert smp.priority(old("preference", 3650, confidence=confidence), NOW) == 0.6


@pytest.mark.parametrize("confidence", ["inferred", 0.6, "uncertain", "low", 0.1])
def test_seed_003_7_2_inferred_preferences_can_decay_to_0_3(confidence: Any) -> None:
    assert smp.priority(old("preference", 3650, confidence=confidence), NOW) == 0.3


def test_seed_003_7_2_learnings_persist_longer() -> None:
    for days in (1, 10, 100, 1000):
        assert smp.priority(old("learning", days), NOW) > smp.priority(old("agent_state", days), NOW)


def test_change_counts_as_a_touch() -> None:
    changed = DecayInputs("agent_state", NOW - 50 * DAY, NOW - DAY)
    assert smp.priority(changed, NOW) == close(0.8 * exp(-0.06) * exp(-0.5))
    read_before = DecayInputs("agent_state", NOW - 50 * DAY, NOW - DAY, last_access=NOW - 20 * DAY)
    assert smp.priority(read_before, NOW) == smp.priority(changed, NOW)


RECORDS_OF_003 = [
    # the priority in the file, what was known of the memory at its last access
    ("DEC-001", 1.0, "decision", "14:30:05", "16:45:00", {"access_count": 3}),
    ("DEC-002", 1.0, "decision", "14:40:00", "16:45:00", {"access_count": 5, "impact": "high"}),
    ("PREF-001", 1.0, "preference", "14:35:00", "16:45:00", {"access_count": 7, "confidence": "explicit"}),
    ("PREF-002", 0.9, "preference", "15:00:00", "15:00:00", {"access_count": 1, "confidence": "inferred"}),
]


@pytest.mark.parametrize(("id", "priority", "type", "created", "read", "facts"), RECORDS_OF_003)
def test_seed_003_2_2_records(id: str, priority: float, type: str, created: str, read: str, facts: Any) -> None:
    first, last = (int(datetime.fromisoformat(f"2026-01-11T{t}Z").timestamp()) * 1_000_000 for t in (created, read))
    assert round(smp.priority(DecayInputs(type, first, last_access=last, **facts), last), 1) == priority


def test_seed_003_2_2_4_find_001_stays_at_its_0_8() -> None:
    facts = old("finding", 3650, severity="critical", status="resolved", access_count=2)
    assert smp.priority(facts, NOW) == 0.8


# -- 004 §4.4: half-life


@pytest.mark.parametrize(("type", "hours"), [("conversation", 168), ("decision", 720), ("finding", 336)])
def test_seed_004_4_4_half_lives(type: str, hours: int) -> None:
    facts = DecayInputs(type, NOW - hours * HOUR)
    assert half_life.priority(facts, NOW) == close(0.5)
    assert half_life.priority(facts, NOW + hours * HOUR) == close(0.25)
    assert half_life.priority(DecayInputs(type, NOW - hours * HOUR // 2), NOW) == close(0.5**0.5)
    assert half_life.priority(DecayInputs(type, NOW), NOW) == 1.0


def test_seed_004_4_4_preferences_do_not_decay() -> None:
    assert half_life.priority(old("preference", 36500), NOW) == 1.0


def test_seed_004_4_4_minimum_decay_factor() -> None:
    assert half_life.priority(old("conversation", 365), NOW) == 0.1


def test_seed_004_4_4_neither_access_nor_importance_counts() -> None:
    facts = DecayInputs("finding", NOW - 336 * HOUR, NOW, access_count=50, last_access=NOW, importance=1.0)
    assert half_life.priority(facts, NOW) == close(0.5)


@pytest.mark.parametrize("type", ["agent_state", "artifact", "learning", "summary"])
def test_seed_004_6_1_default_half_life(type: str) -> None:
    assert half_life.priority(DecayInputs(type, NOW - 168 * HOUR), NOW) == close(0.5)


def test_seed_004_7_2_another_half_life_and_minimum() -> None:
    policy = policy_of({"policy": "half-life", "half_life_hours": {"conversation": 336}, "minimum_factor": 0.2})
    assert policy.priority(DecayInputs("conversation", NOW - 336 * HOUR), NOW) == close(0.5)
    assert policy.priority(old("conversation", 365), NOW) == 0.2
    assert policy.priority(DecayInputs("decision", NOW - 720 * HOUR), NOW) == close(0.5)


# -- what holds for all


@every_policy
@every_type
def test_spec_6_5_pinned_memories_do_not_fade(name: str, type: str) -> None:
    policy = policy_of({"policy": name})
    facts = old(type, 36500, pinned=True, status="resolved", confidence="inferred")
    assert policy.priority(facts, NOW) == 1.0
    assert policy.explain(facts, NOW) == {"policy": name, "pinned": True, "priority": 1.0}


all_facts = some.builds(
    DecayInputs,
    some.sampled_from(list(KINDS)),
    some.integers(0, 2 * NOW),
    some.none() | some.integers(0, 2 * NOW),
    importance=some.none() | some.floats(0, 1),
    pinned=some.booleans(),
    status=some.sampled_from([None, "open", "resolved", "active", "strange"]),
    severity=some.sampled_from([None, "low", "critical", "strange"]),
    impact=some.sampled_from([None, "low", "high"]),
    confidence=some.none() | some.floats(0, 1) | some.sampled_from(["explicit", "inferred", "strange"]),
    approved=some.booleans(),
    access_count=some.integers(0, 10**6),
    last_access=some.none() | some.integers(0, 2 * NOW),
)


@every_policy
@given(facts=all_facts, now=some.integers(0, 2 * NOW))
def test_a_priority_lies_between_0_and_1_and_its_parts_explain_it(name: str, facts: DecayInputs, now: int) -> None:
    policy = policy_of({"policy": name})
    priority = policy.priority(facts, now)
    assert 0 <= priority <= 1
    parts = policy.explain(facts, now)
    assert (parts["policy"], parts["priority"]) == (name, priority)
    if not facts.pinned:
        assert recombined(parts) == pytest.approx(priority, abs=1e-9)


def recombined(parts: dict[str, Any]) -> float:
    """A priority from its parts, without the policy."""
    faded = parts.get("base", 1.0) * parts["time_factor"] * parts.get("age_penalty", 1.0)
    raised = faded * parts.get("boost_multiplier", 1.0) + parts.get("access_boost", 0.0)
    return min(1.0, max(parts.get("floor", 0.0), raised))


@every_policy
@given(facts=all_facts, earlier=some.integers(0, NOW), later=some.integers(0, NOW))
def test_priority_never_rises_with_time(name: str, facts: DecayInputs, earlier: int, later: int) -> None:
    policy = policy_of({"policy": name})
    first, second = sorted((earlier, later))
    assert policy.priority(facts, first) >= policy.priority(facts, second)


@every_policy
def test_memory_from_the_future_counts_as_new(name: str) -> None:
    policy = policy_of({"policy": name})
    assert policy.priority(old("decision", -30), NOW) == policy.priority(old("decision", 0), NOW)


def test_explanation_names_the_reason_of_the_floor() -> None:
    assert smp.explain(old("finding", severity="critical"), NOW)["floor_because"] == "a critical finding"
    assert smp.explain(old("decision", impact="high"), NOW)["floor_because"] == "a decision of high impact"
    assert smp.explain(old("decision", status="open"), NOW)["floor_because"] == "an unresolved decision"
    assert smp.explain(old("preference", confidence="inferred"), NOW)["floor_because"] == "an inferred preference"
    assert smp.explain(old("decision"), NOW)["floor_because"] == "its type"


# -- settings


def test_the_defaults_of_the_settings_are_those_of_the_policies() -> None:
    section = Config.build(None, "config.json").decay
    for name in NAMES:
        plain, configured = policy_of({"policy": name}), policy_of({**section, "policy": name})
        for type in KINDS:
            for days in (0, 3, 30, 300, 3000):
                facts = old(type, days, access_count=2)
                assert configured.priority(facts, NOW) == plain.priority(facts, NOW)


def test_smp_is_the_default() -> None:
    assert policy_of().name == policy_of({}).name == policy_of(Config.build(None, "c").decay).name == "smp"
    assert tuple(POLICIES) == NAMES


def test_a_policy_by_configuration() -> None:
    config = Config.build(None, "c", arguments={"decay": {"policy": "half-life"}})
    assert policy_of(config.decay).name == "half-life"
    assert Config.build(None, "c", environ={"SMP_DECAY_POLICY": "boosted"}).decay["policy"] == "boosted"


def test_an_unknown_policy_names_the_choices() -> None:
    with pytest.raises(InvalidConfig, match="one of smp, half-life, boosted, simple"):
        Config.build(None, "c", arguments={"decay": {"policy": "exponential"}})
    with pytest.raises(InvalidConfig, match=r"'exponential'\. Allowed: one of smp, half-life, boosted, simple"):
        policy_of({"policy": "exponential"})


def test_decay_can_be_switched_off() -> None:
    policy = policy_of({"enabled": False})
    assert policy.priority(old("conversation", 36500), NOW) == 1.0
    assert policy.explain(old("conversation"), NOW) == {"policy": "off", "priority": 1.0}


def test_rates_and_floors_can_be_set() -> None:
    policy = policy_of({"rates": {"conversation": 1.0}, "floors": {"conversation": 0.05, "preference": 0.2}})
    assert policy.priority(old("conversation", 1), NOW) == close(exp(-1.01))
    assert policy.priority(old("conversation", 365), NOW) == 0.05
    assert policy.priority(old("preference", 3650), NOW) == 0.2
    assert policy.priority(old("preference", 3650, confidence="inferred"), NOW) == 0.2
    assert policy_of({"policy": "simple", "rates": {"conversation": 1.0}}).priority(old("conversation", 1), NOW) == close(exp(-1))  # fmt: skip


# -- facts of a record


def record(type: str, **data: Any) -> Record:
    first = Entry(PUT, type, "X-0001", "2026-01-11T10:30:00.000001Z", data)
    last = Entry(PUT, type, "X-0001", "2026-01-12T10:30:00Z", {})
    return CLASSES[type]("s", first, data, last, 2, None)


def seen(facts: DecayInputs) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in DecayInputs.__slots__}


def test_inputs_of_a_record() -> None:
    facts = DecayInputs.of(record("decision", impact="High", importance=0.4, approved_by=["ada"], confidence="high"))
    assert seen(facts) == {
        "type": "decision",
        "created": NOW + 1,
        "updated": NOW + DAY,
        "importance": 0.4,
        "pinned": False,
        "status": "active",
        "severity": None,
        "impact": "high",
        "confidence": 0.9,
        "approved": True,
        "access_count": 0,
        "last_access": None,
    }


def test_access_count_is_given_or_taken_from_the_record() -> None:
    said = record("conversation", access={"count": 4, "last": "2026-01-11T10:30:00Z"}, pinned=True)
    facts = DecayInputs.of(said)
    assert (facts.access_count, facts.last_access, facts.pinned) == (4, NOW, True)
    facts = DecayInputs.of(said, 7, NOW + 5)
    assert (facts.access_count, facts.last_access) == (7, NOW + 5)


def test_a_status_inside_a_resolution_counts() -> None:
    facts = DecayInputs.of(record("finding", severity="critical", resolution={"status": "resolved"}))
    assert (facts.status, facts.severity) == ("resolved", "critical")


@pytest.mark.parametrize(
    "data",
    [
        {"access": "often", "importance": "very", "impact": ["high"], "status": 5, "severity": {"a": 1}},
        {"access": {"count": None, "last": "soon"}, "impact": None},
        {"access": {"count": "x", "last": 5}, "confidence": ["high"]},
        {"access": {"count": float("nan"), "last": ""}, "confidence": "strange"},
        {"access": {"count": -5}},
    ],
)
def test_unreadable_values_count_as_missing(data: dict[str, Any]) -> None:
    for type in ("finding", "preference", "decision"):
        facts = DecayInputs.of(record(type, **data))
        assert (facts.access_count, facts.last_access, facts.importance, facts.impact) == (0, None, None, None)
        for name in NAMES:
            assert 0 <= policy_of({"policy": name}).priority(facts, NOW) <= 1


@pytest.mark.parametrize(
    ("impact", "level"),
    [
        ("high", "high"),
        (" HIGH ", "high"),
        ({"level": "high"}, "high"),
        ({"score": 3}, None),
        ("Admin accounts could be compromised", None),
        (None, None),
        (3, None),
    ],
)
def test_impact_counts_if_it_is_a_word(impact: Any, level: str | None) -> None:
    assert impact_level(impact) == level


def test_times_are_utc() -> None:
    assert datetime.fromtimestamp(NOW / 1_000_000, UTC) == datetime(2026, 1, 11, 10, 30, tzinfo=UTC)
