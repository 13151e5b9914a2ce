"""Expiry of memories by age (design 001)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from smp_memory.lifecycle.clock_trust import Evidence
from smp_memory.lifecycle.retention import days_of, due, upcoming
from tests.unit.lifecycle.records import NOW, ago, record


def ids(found: list[Any]) -> list[str]:
    return [expiry.id for expiry in found]


@pytest.mark.parametrize(
    ("type", "days", "data"),
    [
        ("conversation", 90, {"content": "x"}),
        ("decision", 365, {"decision": "x"}),
        ("finding", 180, {"finding": "x", "status": "resolved"}),
        ("preference", 730, {"preference": "x"}),
    ],
)
def test_memory_is_due_after_the_days_of_its_type(type: str, days: int, data: dict[str, Any]) -> None:
    assert ids(due([record(type, 1, days - 0.1, **data)], NOW)) == []
    found = due([record(type, 1, days, **data)], NOW)
    assert len(found) == 1
    assert found[0].why == f"retention: kept for {days} days"
    assert found[0].to_dict()["due"] == "2026-06-01T12:00:00Z"


@pytest.mark.parametrize("type", ["agent_state", "artifact", "learning", "summary"])
def test_other_types_are_kept(type: str) -> None:
    assert due([record(type, 1, 9999)], NOW) == []


def test_pinned_and_open_ones_are_exempt() -> None:
    old = [
        record("conversation", 1, 9999, pinned=True),
        record("finding", 2, 9999, finding="x"),
        record("finding", 3, 9999, finding="x", resolution={"status": "open"}),
        record("finding", 4, 9999, finding="x", status="a word nobody knows"),
        record("decision", 5, 9999, decision="x", status="pending"),
        record("decision", 6, 9999, decision="x", resolution={"status": "open"}),
    ]
    assert due(old, NOW) == []


def test_settled_and_merely_active_memories_expire() -> None:
    old = [
        record("finding", 1, 9999, finding="x", resolution={"status": "resolved"}),
        record("finding", 2, 9999, finding="x", status="Fixed"),
        record("decision", 3, 9999, decision="x"),
    ]
    assert ids(due(old, NOW)) == ["FIND-0001", "FIND-0002", "DEC-0003"]


def test_days_count_from_the_last_change() -> None:
    assert due([record("conversation", 1, 900, changed_days=10)], NOW) == []
    assert due([record("decision", 1, 900, changed_days=400, decision="x")], NOW)


def test_deleted_memories_do_not_expire_again() -> None:
    assert due([record("conversation", 1, 900, deleted_days=5)], NOW) == []


def test_settings_change_and_lift_limits() -> None:
    assert days_of({"conversation": 0})["conversation"] is None
    old = [record("conversation", 1, 9999), record("artifact", 2, 50)]
    assert due(old, NOW, {"conversation": 0}) == []
    assert ids(due(old, NOW, {"conversation": None, "artifact": 30})) == ["ART-0002"]


def test_nothing_is_due_after_a_clock_jump() -> None:
    old = [record("conversation", 1, 9999)]
    assert due(old, NOW, None, Evidence(ago(100), timedelta(hours=1))) == []
    assert due(old, NOW, None, Evidence(NOW + timedelta(days=1), None)) == []
    assert due(old, NOW, None, Evidence(ago(1), timedelta(days=1)))


def test_upcoming_expiry_is_announced() -> None:
    soon = [
        record("conversation", 1, 85),
        record("conversation", 2, 80),
        record("conversation", 3, 10),
        record("conversation", 4, 95),
    ]
    assert ids(upcoming(soon, NOW, timedelta(days=12))) == ["TURN-0001", "TURN-0002"]
    assert ids(due(soon, NOW)) == ["TURN-0004"]


def test_longest_overdue_comes_first() -> None:
    assert ids(due([record("conversation", 1, 100), record("conversation", 2, 300)], NOW)) == ["TURN-0002", "TURN-0001"]
