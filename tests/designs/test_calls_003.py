"""The calls of designs 002 and 003, with values of our own."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

import smp_memory
from smp_memory.errors import InvalidQuery, InvalidRecord


@pytest.fixture
def session() -> smp_memory.SessionMemory:
    return smp_memory.open(":memory:", layout="markdown").create_session("s")


def test_create_session_takes_the_context_of_the_design() -> None:
    memory = smp_memory.open(":memory:")
    info = memory.create_session(
        user_id="u-1", context={"project_name": "ledger", "project_phase": "build", "tags": ["books"]}
    ).info
    assert (info.user, info.project, info.tags, info.context) == (
        "u-1",
        "ledger",
        ["books"],
        {"project_phase": "build"},
    )


def test_findings_of_the_same_turn_are_related(session: smp_memory.SessionMemory) -> None:
    session.add_turn("user", "Look at the queue")
    first = session.add("finding", {"finding": "No retry", "turn_ref": 1})
    second = session.add("finding", {"finding": "No limit", "turn_ref": 1})
    session.add("finding", {"finding": "Elsewhere", "turn_ref": 2})
    session.add("decision", {"decision": "Retry", "turn_ref": 1})
    found = {each.id: each.kind for each in session.find_related(first.id)}
    assert found == {"TURN-0001": "turn", second.id: "same_turn"}
    assert first.turn_ref == 1


def test_hidden_finding_of_the_same_turn_is_not_related(session: smp_memory.SessionMemory) -> None:
    session.add("finding", {"finding": "No retry", "turn_ref": 1})
    session.agent("veritas").add_finding("Secret", turn_ref=1, visibility="private")
    assert [each.id for each in session.agent("architect").find_related("FIND-0001")] == []


def test_filters_sort_and_options_of_the_design(session: smp_memory.SessionMemory) -> None:
    session.add_decision("Old", tags=["queue"], created="2026-01-01T00:00:00Z", confidence="low")
    session.add_decision("New", tags=["queue"], created="2026-03-01T00:00:00Z", confidence="high")
    asked = {
        "filters": [
            {"field": "type", "operator": "equals", "value": "decision"},
            {"field": "tags", "operator": "contains", "value": "queue"},
        ],
        "sort": [{"field": "decay.priority", "direction": "desc"}, {"field": "timestamp", "direction": "desc"}],
        "includeRelated": True,
        "at": "2026-03-02T00:00:00Z",
    }
    assert session.query(asked).ids == ["DEC-0002", "DEC-0001"]
    options = {"limit": 5, "offset": 0, "sortBy": "decay.priority", "includeDecayed": True, "minPriority": 0.1}
    assert len(session.by_topic("queue", **options)) == 2
    assert session.by_topic("queue", confidenceFilter=["high"]).ids == ["DEC-0002"]
    in_january = session.by_topic("queue", dateFilter={"start": "2026-01-01", "end": "2026-01-31"}, agentFilter=[])
    assert in_january.ids == ["DEC-0001"]


def test_second_order_decides_between_equals(session: smp_memory.SessionMemory) -> None:
    for text, severity, importance in (
        ("a", "low", 0.1),
        ("b", "critical", 0.2),
        ("c", "critical", 0.9),
        ("d", "low", 0.5),
    ):
        session.add_finding(text, severity=severity, importance=importance)
    by = [{"field": "severity", "direction": "desc"}, {"field": "importance", "direction": "asc"}]
    assert [record.finding for record in session.query(sort=by).records] == ["b", "c", "a", "d"]
    assert [record.finding for record in session.query(sort=[*by[1:], by[0]]).records] == ["a", "b", "d", "c"]


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("severity", "cab"),
        ({"field": "severity", "direction": "asc"}, "bac"),
        ({"field": "importance", "direction": "asc"}, "bca"),
        ("importance", "acb"),
        ({"field": "decay.access_count", "direction": "desc"}, "bac"),
        ({"field": "access_count", "direction": "asc"}, "cab"),
    ],
)
def test_sort_by_severity_importance_and_access_count(
    session: smp_memory.SessionMemory, sort: object, expected: str
) -> None:
    session.add_finding("a", severity="important", importance=0.9, access_count=3)
    session.add_finding("b", severity="minor", importance=0.1, access_count=7)
    session.add_finding("c", severity="critical", importance=0.5)
    assert "".join(record.finding for record in session.query(sort=sort).records) == expected


def test_unknown_order_is_refused(session: smp_memory.SessionMemory) -> None:
    with pytest.raises(InvalidQuery, match="sort"):
        session.query(sort=[{"field": "severity"}, {"field": "shoe size"}])


def test_aggregations_count_and_average_fields(session: smp_memory.SessionMemory) -> None:
    for severity, importance in (("high", 0.2), ("high", 0.4), ("low", 0.9)):
        session.add_finding("x", severity=severity, importance=importance)
    session.add_decision("y")
    found = session.query(
        types="finding",
        limit=1,
        aggregations=[
            {"field": "type", "op": "count"},
            {"field": "severity", "op": "count"},
            {"field": "importance", "op": "avg"},
            {"field": "importance", "op": "max"},
            {"field": "cost", "op": "sum"},
        ],
    )
    assert found.counts == {"type": {"finding": 3}}
    assert found.aggregations["severity"] == {"count": {"high": 2, "low": 1}}
    assert found.aggregations["importance"] == {"avg": pytest.approx(0.5), "max": 0.9}
    assert found.aggregations["cost"] == {"sum": None}
    with pytest.raises(InvalidQuery, match="count_by"):
        session.query(aggregations=[{"field": "severity", "op": "median"}])


@pytest.mark.parametrize("older_than", ["2026-03-01", date(2026, 3, 1), datetime(2026, 3, 1, tzinfo=UTC), 31])
def test_purge_removes_memories_deleted_before_a_date(older_than: object) -> None:
    now = [datetime(2026, 2, 1, tzinfo=UTC)]
    session = smp_memory.open(":memory:", clock=lambda: now[0]).create_session("s")
    session.add_turn("user", "old")
    session.delete("TURN-0001")
    now[0] = datetime(2026, 3, 20, tzinfo=UTC)
    session.add_turn("user", "new")
    session.delete("TURN-0002")
    now[0] = datetime(2026, 4, 1, tzinfo=UTC)
    assert session.purge(older_than=older_than).announced == ["s/TURN-0001"]


def test_purge_rejects_future_and_invalid_dates(session: smp_memory.SessionMemory) -> None:
    for wrong in ("2999-01-01", "soon", object()):
        with pytest.raises(InvalidRecord, match="older_than"):
            session.purge(older_than=wrong)


def test_memory_is_written_as_one_object(session: smp_memory.SessionMemory) -> None:
    with session.transaction() as tx:
        tx.add({"type": "finding", "finding": "No retry", "decay": {"priority": 1.0, "access_count": 0}})
        tx.update_agent_state("veritas", {"findings_created": ["FIND-0001"]})
    assert session.get("FIND-0001").finding == "No retry"
