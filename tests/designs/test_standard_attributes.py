"""The attributes that design 003 gives every memory, and its relationships, in files and in calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import smp_memory

ATTRIBUTES = {
    "id": "DEC-002",
    "timestamp": "2026-01-11T14:40:00Z",
    "turn_ref": 8,
    "created_by": "architect",
    "content": "Use OAuth 2.0 with JWT tokens",
    "tags": ["security"],
    "confidence": "high",
    "decay": {"priority": 0.9, "last_accessed": "2026-01-11T16:45:00Z", "access_count": 3, "base_priority": 1.0},
}


def fields(**given: Any) -> dict[str, Any]:
    return {**ATTRIBUTES, **given}


def session_files(root: Path, layout: str, stem: str, items: list[dict[str, Any]]) -> Path:
    if layout == "markdown":
        folder = root / "active" / "s1"
        folder.mkdir(parents=True)
        (folder / "metadata.yaml").write_text("session:\n  id: s1\n")
        listed = "".join(f"  - {json.dumps(item)}\n" for item in items)
        (folder / f"{stem}.yaml").write_text(f"{stem}:\n{listed}")
    else:
        folder = root / "sessions" / "s1"
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text('{"session_id": "s1"}')
        (folder / f"{stem}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    return root


@pytest.mark.parametrize("layout", ["markdown", "jsonl"])
@pytest.mark.parametrize("type", ["decision", "finding", "preference", "learning", "summary"])
def test_content_in_a_file_is_the_text_of_any_type(tmp_path: Path, layout: str, type: str) -> None:
    stem = {"summary": "summaries"}.get(type, f"{type}s")
    root = session_files(tmp_path, layout, stem, [fields(id="M-1"), fields(id="M-2", content={"note": "nested"})])
    with smp_memory.open(root) as memory:
        session = memory.session("s1")
        record = session.get("M-1")
        assert (record.type, record.text, record.author) == (type, "Use OAuth 2.0 with JWT tokens", "architect")
        assert record.access["count"] == 3
        assert [hit.id for hit in session.query("JWT tokens")] == ["M-1"]
        session.repair()
        assert session.get("M-1").text == "Use OAuth 2.0 with JWT tokens"


@pytest.mark.parametrize("type", ["decision", "finding", "preference", "learning", "summary"])
def test_content_in_a_call_is_the_text_of_any_type(tmp_path: Path, type: str) -> None:
    with smp_memory.open(tmp_path, create=True) as memory:
        session = memory.create_session("s1")
        session.add(type, fields(id="M-1"))
        record = session.get("M-1")
        assert (record.text, record.author) == ("Use OAuth 2.0 with JWT tokens", "architect")
        assert record.created.isoformat() == "2026-01-11T14:40:00+00:00"


def test_object_in_content_of_a_file_holds_the_fields(tmp_path: Path) -> None:
    item = fields(id="M-1", content={"decision": "Use OAuth", "rationale": "Standard"})
    with smp_memory.open(session_files(tmp_path, "jsonl", "decisions", [item])) as memory:
        record = memory.session("s1").get("M-1")
        assert (record.text, record.rationale) == ("Use OAuth", "Standard")


def test_content_of_a_state_is_the_state(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, create=True) as memory:
        session = memory.create_session("s1")
        session.add("agent_state", {"agent_id": "veritas", "content": {"task": "review"}})
        assert session.get("STATE-veritas").state == {"task": "review"}


def test_field_of_that_name_stays_beside_the_text(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, create=True) as memory:
        record = memory.create_session("s1").add("decision", {"decision": "Use OAuth", "content": "see the minutes"})
        assert (record.text, record.given["content"]) == ("Use OAuth", "see the minutes")


RELATED = [
    fields(id="FIND-001", content="No MFA"),
    fields(id="FIND-002", content="No timeout", relations=[{"target": "FIND-001", "relationship": "led_to"}]),
    fields(
        id="FIND-003",
        content="Weak passwords",
        memory_relationships=[
            {"source": "FIND-003", "target": "FIND-001", "relationship": "influenced"},
            {"target": "FIND-002", "relationship": "resolves"},
        ],
    ),
]


@pytest.mark.parametrize("layout", ["markdown", "jsonl", "call"])
def test_relationships_of_a_memory_are_its_relations(tmp_path: Path, layout: str) -> None:
    if layout == "call":
        with smp_memory.open(tmp_path, create=True) as memory:
            session = memory.create_session("s1")
            for item in RELATED:
                session.add("finding", item)
    else:
        session_files(tmp_path, layout, "findings", RELATED)
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        assert session.get("FIND-002").relations == [{"kind": "led_to", "target": "FIND-001"}]
        assert session.get("FIND-003").relations == [
            {"kind": "influenced", "target": "FIND-001"},
            {"kind": "resolves", "target": "FIND-002"},
        ]
        assert {hit.id for hit in session.find_related("FIND-001")} >= {"FIND-002", "FIND-003"}
        assert not [each for each in session.validate().problems if each.severity == "error"]


def test_relationship_of_the_design_in_a_call(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, create=True) as memory:
        session = memory.create_session("s1")
        session.add_decision("Use OAuth", id="DEC-002")
        session.add_finding("No MFA", id="FIND-001")
        session.relate({"source": "DEC-002", "target": "FIND-001", "relationship": "resolves"})
        assert session.get("DEC-002").relations == [{"kind": "resolves", "target": "FIND-001"}]


def test_relationships_below_a_list_relate_memories_of_any_file(tmp_path: Path) -> None:
    session_files(tmp_path, "markdown", "decisions", [fields(id="DEC-002"), fields(id="DEC-003")])
    folder = tmp_path / "active" / "s1"
    (folder / "findings.yaml").write_text(
        "findings:\n  - id: FIND-001\n    finding: No MFA\n  - id: FIND-002\n    finding: No timeout\n"
    )
    path = folder / "decisions.yaml"
    listed = (
        'memory_relationships:\n  - source: "DEC-002"\n    target: "FIND-001"\n    relationship: "resolves"\n\n'
        '  - source: "FIND-002"\n    target: "DEC-003"\n    relationship: "led_to"\n'
    )
    path.write_text(path.read_text() + listed)
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        assert len(session.records("decision")) == 2
        assert {hit.id for hit in session.find_related("FIND-001")} >= {"DEC-002"}
        session.repair()
        assert session.get("DEC-002").relations == [{"kind": "resolves", "target": "FIND-001"}]
        assert session.get("FIND-002").relations == [{"kind": "led_to", "target": "DEC-003"}]
        session.add_decision("Another one")
        assert session.get("FIND-002").relations == [{"kind": "led_to", "target": "DEC-003"}]
        assert not list(folder.glob(".smp/quarantine/*"))
        assert not [each for each in session.validate().problems if each.severity == "error"]
