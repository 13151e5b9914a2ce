"""The calls of design 000, with values of our own: one session, `add`, `query`, `delete`, `get_context`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import StoreNotFound


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


# -- the code of the design itself, on files that SMP wrote


def _query_of_the_design(
    path: Path, type: str | None = None, topic: str | None = None, min_priority: float = 0
) -> list[dict[str, Any]]:
    """Read the file as §4 of the design does: every line has `priority`, and `data` if a topic is asked for."""
    results = []
    for line in path.read_text().splitlines():
        memory = json.loads(line)
        if memory.get("deleted"):
            continue
        if type and memory["type"] != type:
            continue
        if min_priority and memory["priority"] < min_priority:
            continue
        if topic and topic not in str(memory["data"]):
            continue
        results.append(memory)
    return sorted(results, key=lambda memory: -memory["priority"])


def _fill(session: smp_memory.SessionMemory) -> None:
    session.add("finding", {"issue": "No retry in the queue", "severity": "critical"})
    session.add("preference", {"key": "tone", "value": "dry"})
    session.add("conversation", {"role": "user", "content": "Which queue?"})
    session.add("decision", {"decision": "Use NATS", "by": "architect", "priority": 0.1})


def test_query_of_the_design_reads_files_of_smp(session: smp_memory.SessionMemory) -> None:
    _fill(session)
    path = Path(session.folder) / "planning.jsonl"
    found = _query_of_the_design(path, min_priority=0.01)
    assert [(each["id"], each["priority"], each["access"]) for each in found] == [
        ("TURN-0001", 1.0, 0),
        ("DEC-0001", 0.95, 0),
        ("FIND-0001", 0.9, 0),
        ("PREF-0001", 0.85, 0),
    ]
    assert [each["id"] for each in _query_of_the_design(path, topic="queue")] == ["TURN-0001", "FIND-0001"]
    assert [each["data"]["by"] for each in _query_of_the_design(path, type="decision")] == ["architect"]


def test_query_of_the_design_reads_lines_that_are_no_memories(session: smp_memory.SessionMemory) -> None:
    """Metadata, changes and restorations come last and hold nothing that a topic could find."""
    _fill(session)
    session.update("DEC-0001", rationale="a queue")
    session.delete("PREF-0001")
    session.restore("PREF-0001")
    session.change_info(project="queue")
    path = Path(session.folder) / "planning.jsonl"
    found = _query_of_the_design(path)
    assert [each["id"] for each in found[:4]] == ["TURN-0001", "DEC-0001", "FIND-0001", "PREF-0001"]
    assert {each["priority"] for each in found[4:]} == {0}
    assert [each["id"] for each in _query_of_the_design(path, topic="queue")] == ["TURN-0001", "FIND-0001"]


def test_figures_of_a_line_are_not_fields_of_the_memory(session: smp_memory.SessionMemory) -> None:
    _fill(session)
    session.add("finding", {"issue": "Used before", "access_count": 4})
    line = _query_of_the_design(Path(session.folder) / "planning.jsonl", topic="Used before")[0]
    assert (line["priority"], line["access"]) == (0.98, 4)
    with smp_memory.SessionMemory("planning") as again:
        turn, decision, used = again.get("TURN-0001"), again.get("DEC-0001"), again.get("FIND-0002")
        assert "priority" not in turn.to_dict()
        assert turn.access["count"] == 0
        assert decision.priority == 0.1
        assert used.access["count"] == 4


def test_access_of_a_line_that_another_program_wrote_counts(session: smp_memory.SessionMemory) -> None:
    with (Path(session.folder) / "planning.jsonl").open("a") as file:
        file.write(
            '{"id":"m1","type":"decision","ts":"2026-01-11T14:31:00Z","data":{"decision":"Use OAuth","by":"architect"},"priority":0.4,"access":3}\n'
        )
    record = session.get("m1")
    assert (record.access["count"], record.priority) == (3, 0.4)


def test_query_without_text_sorts_by_priority_like_the_design(session: smp_memory.SessionMemory) -> None:
    _fill(session)
    path = Path(session.folder) / "planning.jsonl"
    assert session.query().ids == [each["id"] for each in _query_of_the_design(path, min_priority=0.01)]
    assert session.query(topic="queue").ids == ["TURN-0001", "FIND-0001"]
    assert session.query(sort="newest").ids[0] == "DEC-0001"
    assert session.query({"sortBy": "oldest"}).ids[0] == "FIND-0001"
    assert session.query("NATS").ids == ["DEC-0001"]


def test_oldest_of_equal_priorities_comes_first(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path / "s", layout="single", config={"decay.enabled": False}) as memory:
        session = memory.create_session("s")
        for number in range(3):
            session.add_turn("user", f"Turn {number}")
        assert session.query().ids == ["TURN-0001", "TURN-0002", "TURN-0003"]


@pytest.mark.parametrize("folder", ["", "below/it"])
def test_session_memory_makes_a_store_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    if folder:
        (tmp_path / ".bmad").mkdir()
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / folder)
    with smp_memory.SessionMemory("planning") as session:
        session.add("decision", {"decision": "Use NATS"})
    path = tmp_path / ".bmad" / "sessions" / "planning.jsonl"
    assert [each["data"]["decision"] for each in _query_of_the_design(path, type="decision")] == ["Use NATS"]
    with smp_memory.SessionMemory("planning") as session:
        assert len(session.records()) == 1
    with smp_memory.open() as memory:
        assert memory.layout == "single"


def test_session_memory_does_not_make_a_store_beside_one_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smp_memory.open(tmp_path / ".bmad" / "memory").close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("smp_memory.discovery.is_ours", lambda *_: False)
    with pytest.raises(StoreNotFound, match="another user"):
        smp_memory.SessionMemory("planning")
    assert not (tmp_path / ".bmad" / "sessions").exists()
