"""Deletion, restoration and purge of memories by id and by criteria, with exact counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import InvalidQuery, MemoryNotFound
from smp_memory.lifecycle import clock_state
from smp_memory.lifecycle.clock_trust import NO_EVIDENCE, Evidence
from smp_memory.memory import Memory
from smp_memory.model.deletions import Deletion, Restoration
from smp_memory.session import SessionMemory
from smp_memory.testing import FrozenClock

DAY = 86_400


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def memory(tmp_path: Path, clock: FrozenClock) -> Memory:
    return smp_memory.open(str(tmp_path / "store"), clock=clock, config={"durability": "os"})


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    session = memory.create_session("s", author="ada")
    session.add_decision("Bill in euros", topic="billing", tags=["money"])
    session.add_decision("Bill monthly", topic="billing", author="bob")
    session.add_finding("Bills are late", severity="high", topic="billing")
    session.add_decision("Use OAuth", topic="auth", tags=["security"])
    session.add_turn("user", "The old password must go")
    session.add_turn("user", "The old house is nice")
    return session


def ids(session: SessionMemory) -> list[str]:
    return [record.id for record in session.records()]


def test_delete_by_id_returns_the_record(session: SessionMemory) -> None:
    record = session.delete("DEC-0001", "wrong")
    assert record.deleted
    assert record.id == "DEC-0001"
    assert not session.restore("DEC-0001").deleted
    with pytest.raises(MemoryNotFound):
        session.restore("DEC-0001")
    with pytest.raises(MemoryNotFound):
        session.delete("DEC-0099")


def test_delete_accepts_a_record_or_a_hit(memory: Memory, session: SessionMemory) -> None:
    session.delete(session.get("DEC-0001"))
    session.delete(session.query("monthly")[0])
    memory.delete(session.get("DEC-0003"))
    assert ids(session) == ["FIND-0001", "TURN-0001", "TURN-0002"]


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        ({"topic": "billing"}, ["DEC-0001", "DEC-0002", "FIND-0001"]),
        ({"tags": "money"}, ["DEC-0001"]),
        ({"agents": "bob"}, ["DEC-0002"]),
        ({"types": "finding"}, ["FIND-0001"]),
        ({"time": "2026-01-01"}, ["DEC-0001", "DEC-0002", "DEC-0003", "FIND-0001", "TURN-0001", "TURN-0002"]),
        ({"time": "2025-01"}, []),
        ({"where": {"severity": "high"}}, ["FIND-0001"]),
        ({"text": "old password"}, ["TURN-0001"]),
        ({"text": "old"}, ["TURN-0001", "TURN-0002"]),
        ({"topic": "billing", "types": "decision"}, ["DEC-0001", "DEC-0002"]),
        ({"id": ["DEC-0001", "DEC-0003"]}, ["DEC-0001", "DEC-0003"]),
    ],
)
def test_delete_by_criteria(session: SessionMemory, criteria: dict[str, object], expected: list[str]) -> None:
    before = ids(session)
    preview = session.delete(**criteria, preview=True)  # type: ignore[arg-type]
    assert sorted(preview.ids) == expected
    assert ids(session) == before
    done = session.delete(**criteria, reason="asked to")  # type: ignore[arg-type]
    assert isinstance(done, Deletion)
    assert (sorted(done.ids), done.count) == (expected, len(expected))
    assert ids(session) == [name for name in before if name not in expected]
    assert sorted(each.id for each in session.deleted()) == expected
    assert session.restore(**criteria, preview=True).count == len(expected)  # type: ignore[arg-type]
    back = session.restore(**criteria)  # type: ignore[arg-type]
    assert isinstance(back, Restoration)
    assert sorted(back.ids) == expected
    assert ids(session) == before


@pytest.mark.parametrize("criteria", [{}, {"topic": None}, {"text": ""}, {"where": {}}, {"include_decayed": True}])
def test_delete_without_ids_and_criteria_is_refused(session: SessionMemory, criteria: dict[str, object]) -> None:
    for act in (session.delete, session.restore, session.erase):
        with pytest.raises(InvalidQuery, match="Name the memories"):
            act(**criteria)  # type: ignore[operator]
    with pytest.raises(InvalidQuery, match="limit"):
        session.delete(topic="billing", limit=1)
    assert len(ids(session)) == 6


def test_delete_of_several_ids_is_atomic(session: SessionMemory) -> None:
    with pytest.raises(MemoryNotFound):
        session.delete(["DEC-0001", "DEC-0099"])
    assert "DEC-0001" in ids(session)


def test_deletion_report_names_records_author_and_reason(session: SessionMemory) -> None:
    told = session.delete(topic="billing", reason="Privacy", by="user-123").to_dict()
    assert told["count"] == 3
    (record,) = told["deletions"]
    assert record["session_id"] == "s"
    assert record["deleted_at"] == "2026-01-01T12:00:00Z"
    assert record["deleted_by"] == "user-123"
    assert record["reason"] == "Privacy"
    assert record["recovery_deadline"] == "2026-01-31T12:00:00Z"
    assert {"type": "decision", "id": "DEC-0001", "timestamp": "2026-01-01T12:00:00Z"} in record["deleted_items"]
    assert "euros" not in str(told)


def test_store_deletes_in_all_sessions(memory: Memory, session: SessionMemory) -> None:
    other = memory.create_session("t")
    other.add_decision("Bill yearly", topic="billing")
    done = memory.delete(topic="billing", reason="gone")
    assert sorted(done.refs) == ["s/DEC-0001", "s/DEC-0002", "s/FIND-0001", "t/DEC-0001"]
    assert len(memory.deleted()) == 4
    assert memory.restore("t/DEC-0001").id == "DEC-0001"
    assert memory.restore(topic="billing").count == 3
    with pytest.raises(InvalidQuery, match="session"):
        memory.delete("DEC-0001")


def test_trash_lists_author_time_reason_and_purge_time(session: SessionMemory) -> None:
    session.delete("DEC-0001", "wrong", by="eve")
    (trashed,) = session.deleted()
    assert (trashed.id, trashed.by, trashed.reason) == ("DEC-0001", "eve", "wrong")
    assert trashed.at == datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert trashed.purged_from == datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_deleted_memory_can_be_added_again(session: SessionMemory) -> None:
    first = session.add_decision("Once", idempotency_key="k")
    session.delete(first.id)
    second = session.add_decision("Once", idempotency_key="k")
    assert second.id != first.id
    assert not second.deleted
    assert session.add_decision("Once", idempotency_key="k").id == second.id
    session.add_preference("style", "brief")
    session.delete("PREF-0001")
    assert session.add_preference("style", "brief").id == "PREF-0002"


def test_reference_to_a_deleted_memory_is_marked(session: SessionMemory) -> None:
    session.relate("DEC-0001", "FIND-0001", "resolves")
    session.delete("FIND-0001")
    (problem,) = [each for each in session.validate().problems if each.code == "deleted_reference"]
    assert (problem.severity, problem.id) == ("note", "DEC-0001")
    assert [each.id for each in session.find_related("DEC-0001")] == []
    assert [each.record.deleted for each in session.find_related("DEC-0001", include_deleted=True)] == [True]


def test_deletions_are_in_the_audit_log(memory: Memory, session: SessionMemory) -> None:
    session.delete("DEC-0001", "why", by="eve")
    session.delete(topic="billing")
    session.restore("DEC-0001")
    with session.transaction() as transaction:
        transaction.delete("DEC-0003")
    session.erase("TURN-0001", reason="secret")
    noted = [(each["action"], each["ids"]) for each in memory.store.audit.entries()]
    assert noted == [
        ("delete", ["DEC-0001"]),
        ("delete", ["DEC-0002", "FIND-0001"]),
        ("restore", ["DEC-0001"]),
        ("delete", ["DEC-0003"]),
        ("erase", ["TURN-0001"]),
    ]
    assert memory.store.audit.problems() == []
    assert "password" not in Path(memory.store.audit.path).read_text()


# -- purge


def test_purge_takes_two_runs(session: SessionMemory, clock: FrozenClock) -> None:
    session.delete("DEC-0001")
    clock.advance(29 * DAY)
    session.delete("DEC-0002")
    assert session.purge(evidence=NO_EVIDENCE).to_dict()["announced"] == []
    clock.advance(1 * DAY)
    first = session.purge(evidence=NO_EVIDENCE)
    assert (first.ids, first.announced, first.waiting) == ([], ["s/DEC-0001"], 2)
    clock.advance(DAY - 1)
    assert session.purge(evidence=NO_EVIDENCE).ids == []
    (_, trashed) = session.deleted()
    assert trashed.purged_from == trashed.announced + timedelta(days=1)  # type: ignore[operator]
    clock.advance(1)
    done = session.purge(evidence=NO_EVIDENCE)
    assert (done.ids, done.waiting) == (["s/DEC-0001"], 1)
    assert session.find("DEC-0001") is None
    assert session.find("DEC-0002") is not None
    assert session.add_decision("new").id == "DEC-0004"
    assert session.validate().ok


def test_restored_memory_is_not_purged(session: SessionMemory, clock: FrozenClock) -> None:
    session.delete("DEC-0001")
    clock.advance(31 * DAY)
    assert session.purge(evidence=NO_EVIDENCE).announced == ["s/DEC-0001"]
    session.restore("DEC-0001")
    clock.advance(2 * DAY)
    assert session.purge(evidence=NO_EVIDENCE).ids == []
    session.delete("DEC-0001")
    clock.advance(31 * DAY)
    again = session.purge(evidence=NO_EVIDENCE)
    assert (again.ids, again.announced) == ([], ["s/DEC-0001"])
    assert session.find("DEC-0001") is not None


def test_purge_accepts_a_shorter_age(memory: Memory, session: SessionMemory, clock: FrozenClock) -> None:
    session.delete("DEC-0001")
    assert memory.purge(older_than=0, evidence=NO_EVIDENCE).announced == ["s/DEC-0001"]
    clock.advance(DAY)
    assert memory.purge(older_than=0, evidence=NO_EVIDENCE).ids == ["s/DEC-0001"]
    (noted,) = [each for each in memory.store.audit.entries() if each["action"] == "purge"]
    assert noted["ids"] == ["DEC-0001"]


def test_purge_is_refused_after_a_clock_jump(
    session: SessionMemory, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = [1000.0]
    monkeypatch.setattr(clock_state, "uptime_seconds", lambda: up[0])
    session.delete("DEC-0001")
    assert not session.purge().refused
    clock.advance(40 * DAY)
    up[0] += 60  # the other clock says: a minute
    refused = session.purge()
    assert "only" in refused.refused
    assert refused.announced == []
    up[0] += 60
    clock.advance(60)
    assert session.purge().announced == []
    up[0] += DAY
    clock.advance(DAY)
    assert session.purge().announced == ["s/DEC-0001"]  # a clock that stays for a day is trusted
    clock.advance(-45 * DAY)
    assert "already seen" in session.purge().refused
    up[0] += 2 * DAY
    clock.advance(2 * DAY)
    assert session.purge().ids == []
    assert session.find("DEC-0001") is not None


def test_announcement_in_the_future_does_not_count(session: SessionMemory, clock: FrozenClock) -> None:
    session.delete("DEC-0001")
    clock.advance(400 * DAY)
    session.purge(evidence=NO_EVIDENCE)
    clock.advance(-360 * DAY)
    assert session.purge(evidence=NO_EVIDENCE).ids == []
    clock.advance(DAY / 2)
    assert session.purge(evidence=NO_EVIDENCE).ids == []
    clock.advance(DAY / 2)
    assert session.purge(evidence=NO_EVIDENCE).ids == ["s/DEC-0001"]


def test_long_gap_after_a_reboot_is_not_trusted_at_once(session: SessionMemory, clock: FrozenClock) -> None:
    session.delete("DEC-0001")
    last = clock()
    clock.advance(40 * DAY)
    assert "nothing confirms it" in session.purge(evidence=Evidence(last, None)).refused
