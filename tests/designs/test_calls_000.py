"""The calls of design 000, with values of our own: one session, `add`, `query`, `delete`, `get_context`."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> smp_memory.SessionMemory:
    (tmp_path / ".bmad").mkdir()
    monkeypatch.chdir(tmp_path)
    smp_memory.open(layout="single").close()
    return smp_memory.SessionMemory("planning")


def test_session_memory_with_an_id_opens_or_creates_the_session(session: smp_memory.SessionMemory) -> None:
    session.add("decision", {"decision": "Ship on Fridays", "by": "ada"})
    with smp_memory.SessionMemory("planning") as again:
        assert [record.decision for record in again.records()] == ["Ship on Fridays"]
    with smp_memory.open() as memory:
        assert [each.id for each in memory.sessions()] == ["planning"]


def test_each_type_is_added_with_the_fields_of_the_design(session: smp_memory.SessionMemory) -> None:
    turn = session.add("conversation", {"role": "user", "content": "Which queue?"})
    decision = session.add("decision", {"decision": "Use NATS", "by": "architect", "rationale": "Small"})
    finding = session.add("finding", {"issue": "No retry", "severity": "critical", "status": "open"})
    preference = session.add("preference", {"key": "tone", "value": "dry"})
    assert (turn.content, decision.author, finding.finding) == ("Which queue?", "architect", "No retry")
    assert (preference.key, preference.value) == ("tone", "dry")


def test_topic_is_a_part_of_the_text(session: smp_memory.SessionMemory) -> None:
    session.add("finding", {"issue": "The queue has no retry", "severity": "low"})
    session.add("finding", {"issue": "Logs are empty", "severity": "low"})
    assert session.query(type="finding", topic="queue", min_priority=0).records[0].finding == "The queue has no retry"
    assert len(session.query(topic="has no ret")) == 1
    assert session.query(topic="nothing of this").ids == []
    assert session.query(type="finding", count_by="type", topic="queue").counts == {"type": {"finding": 1}}


def test_topic_of_a_deletion_is_never_a_part_of_the_text(session: smp_memory.SessionMemory) -> None:
    session.add("finding", {"issue": "The queue has no retry"})
    session.add("finding", {"issue": "Slow", "topic": "queue"})
    assert session.delete(topic="queue").ids == ["FIND-0002"]


def test_get_context_gives_the_memories_of_highest_priority(session: smp_memory.SessionMemory) -> None:
    for number in range(5):
        session.add("conversation", {"role": "user", "content": f"Turn {number}"})
    session.add("preference", {"key": "tone", "value": "dry"})
    found = session.get_context(limit=3)
    assert len(found) == 3
    assert {record.type for record in found} == {"conversation"}
    assert len(session.get_context()) == 6


def test_delete_hides_a_memory(session: smp_memory.SessionMemory) -> None:
    record = session.add("finding", {"issue": "No retry"})
    session.delete(record.id)
    assert session.query(type="finding").ids == []
