"""The calls of design 004, with values of our own."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path

import pytest

import smp_memory


@pytest.fixture
def session() -> smp_memory.SessionMemory:
    return smp_memory.open(":memory:", layout="log").create_session("s", user_id="u-1")


def test_memory_with_its_fields_in_content_is_added(session: smp_memory.SessionMemory) -> None:
    turn = session.add(
        {
            "type": "conversation",
            "content": {"role": "user", "message": "Which queue?"},
            "importance": 0.8,
            "tags": ["q"],
        }
    )
    decision = session.add(
        {
            "type": "decision",
            "content": {"decision": "Use NATS", "rationale": "Small", "alternatives": ["Kafka"]},
            "importance": 0.9,
            "references": [turn.id],
        }
    )
    finding = session.add({"type": "finding", "content": {"role": "assistant", "message": "No retry"}, "tags": ["q"]})
    assert (turn.content, decision.alternatives_considered, finding.finding) == ("Which queue?", ["Kafka"], "No retry")
    assert session.by_topic("q").ids == [finding.id, turn.id]


def test_query_of_the_design_is_understood(session: smp_memory.SessionMemory) -> None:
    session.add_decision("A", tags=["safe"], importance=0.9, created="2026-02-03T00:00:00Z")
    session.add_decision("B", tags=["safe", "deprecated"], importance=0.9, created="2026-02-03T00:00:00Z")
    session.add_decision("C", tags=["safe"], importance=0.2, created="2026-02-03T00:00:00Z")
    session.add_decision("D", tags=["safe"], importance=0.9, created="2026-05-03T00:00:00Z")
    found = session.query(
        {
            "types": ["decision", "finding"],
            "tags": {"include": ["safe"], "exclude": ["deprecated"]},
            "timeRange": {"start": datetime(2026, 2, 1), "end": datetime(2026, 3, 1)},  # noqa: DTZ001
            "minImportance": 0.7,
            "sortBy": "relevance",
            "limit": 10,
        }
    )
    assert [record.decision for record in found.records] == ["A"]


def test_references_are_followed_as_deep_as_asked(session: smp_memory.SessionMemory) -> None:
    session.add_decision("A")
    session.add_decision("B", references=["DEC-0001"])
    session.add_decision("C", references=["DEC-0002"])
    session.add_decision("D", references=["DEC-0003"])
    for name in ("maxDepth", "depth"):
        assert sorted(session.query({"references": ["DEC-0001"], name: 2}).ids) == ["DEC-0002", "DEC-0003"]
    assert session.query(references="DEC-0001").ids == ["DEC-0002"]


def test_references_do_not_pass_through_a_hidden_memory(session: smp_memory.SessionMemory) -> None:
    session.add_decision("A")
    session.agent("veritas").add_finding("Hidden", references=["DEC-0001"], visibility="private")
    session.add_decision("C", references=["FIND-0001"])
    assert session.agent("architect").query(references="DEC-0001", depth=2).ids == []


def test_session_is_exported_and_memories_of_a_topic_are_deleted(session: smp_memory.SessionMemory) -> None:
    session.add_decision("A", tags=["private"])
    session.add_decision("B")
    assert session.delete(topic="private").count == 1
    assert '"B"' in session.export(format="json")


@pytest.mark.parametrize("form", ["line", "sorted fields"])
def test_checksum_of_64_digits_is_verified(tmp_path: Path, form: str) -> None:
    fields = {"id": "mem_1", "timestamp": "2026-02-03T08:00:00Z", "type": "finding", "content": {"finding": "No retry"}}
    line = json.dumps(fields, separators=(",", ":"))[:-1]
    signed = line if form == "line" else json.dumps(fields, sort_keys=True, separators=(",", ":"))
    checksum = "sha256:" + hashlib.sha256(signed.encode()).hexdigest()
    path = tmp_path / "sessions" / "s1" / "memory.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(f'{line},"checksum":"{checksum}"}}\n')
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        assert not session.get("mem_1").edited
        assert [each.code for each in session.validate().problems if each.code == "edited"] == []
    path.write_text(f'{line.replace("No", "A")},"checksum":"{checksum}"}}\n')
    with smp_memory.open(tmp_path) as memory:
        assert memory.session("s1").get("mem_1").edited


def test_checksum_over_the_names_of_the_entry_is_verified(tmp_path: Path) -> None:
    """`JSON.stringify(entry, Object.keys(entry).sort())` leaves the names inside of `content` out, and writes 1.0 as 1."""
    signed = (
        '{"content":{},"decay_factor":1,"id":"mem_1","importance":0.85,"tags":["net"],'
        '"timestamp":"2026-02-03T08:00:00Z","type":"finding"}'
    )
    checksum = "sha256:" + hashlib.sha256(signed.encode()).hexdigest()
    path = tmp_path / "sessions" / "s1" / "memory.jsonl"
    path.parent.mkdir(parents=True)
    line = (
        '{"id":"mem_1","timestamp":"2026-02-03T08:00:00Z","type":"finding","content":{"finding":"No retry"},'
        f'"importance":0.85,"decay_factor":1.0,"tags":["net"],"checksum":"{checksum}"}}\r\n'
    )
    path.write_text(line, newline="")
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        assert not session.get("mem_1").edited
        session.update("mem_1", finding="No retry at all")
        assert [each.code for each in session.validate().problems] == ["unsigned"]
    path.write_text(line.replace("0.85", "0.95"), newline="")
    with smp_memory.open(tmp_path) as memory:
        assert memory.session("s1").get("mem_1").edited


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_repair_leaves_no_blank_lines_between_entries(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "sessions" / "s1" / "memory.jsonl"
    path.parent.mkdir(parents=True)
    entry = '{{"id":"mem_{}","timestamp":"2026-02-03T08:00:00Z","type":"decision","content":{{"decision":"D"}},"checksum":"sha256:{}"}}'
    path.write_text(ending.join([entry.format(number, "0" * 64) for number in range(3)]) + ending, newline="")
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        session.repair()
        assert session.validate().problems == []
        assert len(session.records()) == 3
    assert path.read_bytes().count(b"\n") == 3


def test_entries_with_a_wrong_checksum_keep_their_place_in_the_order(tmp_path: Path) -> None:
    path = tmp_path / "sessions" / "s1" / "memory.jsonl"
    path.parent.mkdir(parents=True)
    entry = '{{"id":"mem_{0}","timestamp":"2026-02-03T08:0{0}:00Z","type":"conversation","content":{{"role":"user","message":"M{0}"}}{1}}}\n'
    wrong = f',"checksum":"sha256:{"0" * 64}"'
    path.write_text("".join(entry.format(number, wrong if number % 2 else "") for number in range(5)))
    wanted = [f"mem_{number}" for number in range(5)]
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        assert [record.id for record in session.records()] == wanted
        session.repair()
        assert [record.id for record in session.records()] == wanted
