"""Files in the shapes of designs 000, 001 and 004, with values of our own: read as they are, written to, and not rewritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import smp_memory


def lines(*entries: dict[str, Any]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


OF_000 = [
    {"id": "m1", "type": "conversation", "ts": "2026-02-03T08:00:00Z", "data": {"role": "user", "content": "Which unit?"}, "priority": 1.0, "access": 0},
    {"id": "m2", "type": "decision", "ts": "2026-02-03T08:01:00Z", "data": {"decision": "Use cents", "by": "ada"}, "priority": 0.95, "access": 3},
    {"id": "m3", "type": "finding", "ts": "2026-02-03T08:02:00Z", "data": {"issue": "No unit", "severity": "critical"}, "priority": 0.9, "access": 9},
    {"id": "m4", "type": "preference", "ts": "2026-02-03T08:03:00Z", "data": {"key": "depth", "value": "full"}, "priority": 0.85, "access": 5},
    {"id": "m1", "deleted": True, "ts": "2026-02-04T08:00:00Z"},
]  # fmt: skip
OF_001 = {
    "conversation.jsonl": [
        {
            "id": "msg-1",
            "timestamp": "2026-02-03T08:00:00Z",
            "agent_id": "architect",
            "role": "assistant",
            "content": "Cents avoid rounding.",
            "context": {"conversation_id": "c-1", "parent_message_id": "msg-0", "topic": "units"},
            "metadata": {"tokens": 4, "processing_time_ms": 9, "references": ["dec-1"]},
            "decay_factor": 1.0,
        }
    ],
    "decisions.jsonl": [
        {
            "id": "dec-1",
            "timestamp": "2026-02-03T08:01:00Z",
            "made_by": "architect",
            "approved_by": ["ada"],
            "decision": "Use cents",
            "alternatives_considered": [{"option": "Floats", "rejected_reason": "Rounding"}],
            "impact": "high",
            "tags": ["money"],
            "references": {"conversations": ["msg-1"], "findings": ["finding-1"]},
            "decay_factor": 1.0,
        }
    ],
    "findings.jsonl": [
        {
            "id": "finding-1",
            "timestamp": "2026-02-03T08:02:00Z",
            "discovered_by": "analyst",
            "severity": "high",
            "description": "No unit is named",
            "status": "open",
            "access_count": 6,
            "last_accessed": "2026-02-03T09:00:00Z",
        }
    ],
    "preferences.jsonl": [
        {"id": "pref-1", "timestamp": "2026-02-03T08:03:00Z", "key": "style", "value": "short", "context": "Said so", "confidence": 0.9}
    ],
}  # fmt: skip
OF_004 = [
    {"id": "mem_1", "session_id": "s1", "timestamp": "2026-02-03T08:00:00Z", "type": "conversation", "content": {"role": "user", "message": "Which unit?"}, "importance": 0.5, "decay_factor": 1.0, "tags": [], "references": []},
    {"id": "mem_2", "session_id": "s1", "timestamp": "2026-02-03T08:01:00Z", "type": "finding", "content": {"role": "assistant", "message": "No unit", "metadata": {}}, "importance": 0.9, "decay_factor": 1.0, "tags": ["money"], "references": ["mem_1"]},
    {"id": "mem_3", "session_id": "s1", "timestamp": "2026-02-03T08:02:00Z", "type": "decision", "content": {"decision": "Use cents", "alternatives": ["Floats"]}, "importance": 0.9, "tags": ["money"], "references": ["mem_2"]},
]  # fmt: skip


def test_single_file_of_000_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_text(lines(*OF_000))
    before = path.read_text()
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        assert [record.id for record in session.records()] == ["m2", "m3", "m4"]
        assert (session.get("m2").author, session.get("m3").finding) == ("ada", "No unit")
        assert session.query(sort="access", track_access=False).ids == ["m3", "m4", "m2"]
        assert session.query(topic="unit").ids == ["m3"]
        assert session.validate().ok
        session.add("decision", {"decision": "Round up", "by": "ada"})
    assert path.read_text().startswith(before)


def test_stated_uses_raise_the_priority(tmp_path: Path) -> None:
    used, unused = ({**OF_000[2], "id": name, "access": count} for name, count in (("used", 9), ("unused", 0)))
    for each in (used, unused):
        each["data"] = {"issue": "No unit", "severity": "low"}
    (tmp_path / "s1.jsonl").write_text(lines(used, unused))
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        at = "2026-02-20T00:00:00Z"
        assert session.priority("used", at=at) > session.priority("unused", at=at)


def test_files_of_001_are_read_and_written(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    for name, entries in OF_001.items():
        (folder / name).write_text(lines(*entries))
    (folder / "index.json").write_text('{"inverted_index": {}}')
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        turn, decision, finding = (session.get(name) for name in ("msg-1", "dec-1", "finding-1"))
        assert (turn.topic, turn.author, turn.references) == ("units", "architect", ["dec-1"])
        assert decision.references == ["msg-1", "finding-1"]
        assert (finding.finding, finding.access) == ("No unit is named", {"count": 6, "last": "2026-02-03T09:00:00Z"})
        assert session.query(topic="units").ids == ["msg-1"]
        assert {each.id for each in session.find_related("dec-1")} == {"msg-1", "finding-1"}
        assert session.validate().ok
    assert (folder / "decisions.jsonl").read_text() == lines(*OF_001["decisions.jsonl"])


def test_log_of_004_with_tombstones_is_read_and_written(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    (folder / "memory.jsonl").write_text(lines(*OF_004))
    (folder / "tombstones.jsonl").write_text(
        lines({"id": "mem_1", "timestamp": "2026-02-05T08:00:00Z", "reason": "asked to"})
    )
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        assert [record.id for record in session.records()] == ["mem_2", "mem_3"]
        assert (session.get("mem_2").finding, session.get("mem_3").alternatives_considered) == ("No unit", ["Floats"])
        assert session.query(references="mem_1", depth=2, include_deleted=False).ids == ["mem_3", "mem_2"]
        assert session.validate().ok


@pytest.mark.parametrize("to", ["jsonl", "markdown", "single", "log"])
def test_store_of_001_is_converted_without_a_loss(tmp_path: Path, to: str) -> None:
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    for name, entries in OF_001.items():
        (folder / name).write_text(lines(*entries))
    with smp_memory.open(tmp_path) as memory:
        before = {record.id: fields_of(record) for record in memory.session("s1").records()}
        assert len(before) == len(OF_001)
        with memory.convert(to) if to != memory.layout else memory as converted:
            assert {record.id: fields_of(record) for record in converted.session("s1").records()} == before


def fields_of(record: smp_memory.Record) -> dict[str, Any]:
    """All fields, without the mark that another program wrote the entry: a conversion writes it anew."""
    return {name: value for name, value in record.to_dict().items() if name != "typed_by_hand"}
