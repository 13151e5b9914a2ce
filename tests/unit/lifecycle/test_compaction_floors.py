"""Compaction of memories whose priority has a floor: settled decisions, inferred preferences, artifacts, learnings."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import SizeLimitExceeded
from smp_memory.files.layouts import NAMES
from smp_memory.lifecycle.compaction_plan import FADED, SETTLED, plan
from smp_memory.model.decay import POLICIES, DecayInputs, NoDecayPolicy, policy_of
from smp_memory.testing import MachineClock
from tests.crash.scenarios import some
from tests.unit.lifecycle.records import NOW, record, weighed

TEXT = "The reasons at the time. " * 40
QUOTA = {"storage": {"max_session_size_mb": 1}}


def fill(session: Any, kind: str) -> None:
    """Fill a session to more than three quarters with memories of one kind that nobody needs any more."""
    fields: dict[str, dict[str, Any]] = {
        "settled decisions": {"decision": TEXT, "status": "implemented"},
        "inferred preferences": {"value": TEXT, "confidence": "inferred"},
        "artifacts": {"content": TEXT, "title": "Notes"},
        "learnings": {"learning": TEXT},
    }
    type = {"settled decisions": "decision", "inferred preferences": "preference", "artifacts": "artifact"}.get(
        kind, "learning"
    )
    items = []
    for number in range(640):
        own = {"key": f"key{number}"} if type == "preference" else {"name": f"a{number}"}
        items.append((type, {**fields[kind], **own}))
    session.add_many(items)


def keep(session: Any) -> list[str]:
    """Memories that stay whatever their age."""
    kept = [
        session.add_decision("Active decision"),
        session.add_decision("Open question", status="pending"),
        session.add_decision("Settled, of high impact", status="implemented", impact="high"),
        session.add_finding("Open finding"),
        session.add_finding("Critical, and settled", severity="critical", status="resolved"),
        session.add_preference("style", "explicit"),
    ]
    pinned = session.add_decision("Settled and pinned", status="implemented")
    session.pin(pinned.id)
    return [each.id for each in (*kept, pinned)]


KINDS_AND_AGES = [
    ("settled decisions", 10),
    ("settled decisions", 400),
    ("inferred preferences", 10),
    ("inferred preferences", 400),
    ("artifacts", 60),
    ("learnings", 60),
]
FULL = [(layout, kind, days) for layout in NAMES for kind, days in KINDS_AND_AGES]


@pytest.mark.parametrize(("layout", "kind", "days"), some(FULL, "full sessions", 8))
def test_a_session_full_of_memories_with_a_floor_is_compacted_instead_of_refusing_writes(
    tmp_path: Path, layout: str, kind: str, days: float
) -> None:
    clock = MachineClock(datetime(2026, 1, 1, tzinfo=UTC))
    config = {"durability": "os", **QUOTA}
    with smp_memory.open(tmp_path, layout=layout, clock=clock, config=config) as memory:
        session = memory.create_session("s1")
        stays = keep(session)
        fill(session, kind)
        clock.advance(days=days)
        for number in range(400):
            session.add_decision(f"{number} {TEXT}")
        names = {each.id for each in session.records()}
        assert names.issuperset(stays)
        assert len([name for name in names if name.startswith("DEC")]) >= 400
        assert session.archived()
        assert session.validate().problems == []


def test_recent_settled_decisions_still_stay(tmp_path: Path) -> None:
    clock = MachineClock(datetime(2026, 1, 1, tzinfo=UTC))
    with smp_memory.open(tmp_path, clock=clock, config={"durability": "os", **QUOTA}) as memory:
        session = memory.create_session("s1")
        fill(session, "settled decisions")
        clock.advance(days=1)
        with pytest.raises(SizeLimitExceeded, match="used recently"):
            for number in range(400):
                session.add_decision(f"{number} {TEXT}")
        assert session.archived() == []


def test_stages_take_faded_memories_before_settled_ones() -> None:
    old = weighed(record("decision", 1, 400, status="implemented"), priority=0.4)
    old.priority_without_floor = 0.01
    young = weighed(record("decision", 2, 10, status="implemented"), priority=0.6)
    active = weighed(record("decision", 3, 400), priority=0.4)
    active.priority_without_floor = 0.01
    made = plan([young, active, old], 1 << 30, NOW)
    assert [(removal.id, removal.stage) for removal in made.removed] == [("DEC-0001", FADED), ("DEC-0002", SETTLED)]
    assert made.kept == {"DEC-0003": "an active decision"}


def test_a_superseded_decision_goes_and_the_one_that_supersedes_it_stays() -> None:
    old = weighed(record("decision", 1, 40), priority=0.5)
    new = weighed(record("decision", 2, 40, relations=[{"kind": "supersedes", "target": "DEC-0001"}]), priority=0.5)
    made = plan([old, new], 1 << 30, NOW)
    assert [removal.id for removal in made.removed] == ["DEC-0001"]


@pytest.mark.parametrize("policy", [*(policy_of({"policy": name}) for name in POLICIES), NoDecayPolicy()])
def test_without_a_floor_a_priority_is_never_larger_and_differs_only_below_the_floor(policy: Any) -> None:
    day = 86_400_000_000
    for kind in ("conversation", "decision", "finding", "preference", "agent_state", "artifact", "learning"):
        for pinned in (False, True):
            facts = DecayInputs(kind, 0, pinned=pinned, confidence="inferred", access_count=2, last_access=3 * day)
            for days in (0, 5, 30, 400, 4000):
                with_floor = policy.priority(facts, days * day)
                assert 0 <= policy.without_floor(facts, days * day) <= with_floor <= 1
                assert not pinned or policy.without_floor(facts, days * day) == 1
    fresh = DecayInputs("decision", 0)
    assert policy.without_floor(fresh, 0) == policy.priority(fresh, 0)
