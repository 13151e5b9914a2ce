"""What SMP says about stores of the designs: status, doctor, checksums, authors, indexes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.store.opening import store_status

ENTRY = {
    "id": "mem_001",
    "session_id": "sess_1",
    "timestamp": "2026-01-10T10:00:00Z",
    "type": "conversation",
    "content": {"role": "user", "message": "Hello"},
    "importance": 0.5,
    "decay_factor": 1.0,
    "tags": ["oauth2"],
    "references": [],
}
CONFIG_004 = {"version": "1.0", "storage": {"root_directory": "./memory", "max_session_size_mb": 10}}


def with_checksum(entry: dict[str, Any], *, deep: bool) -> dict[str, Any]:
    ordered = entry if deep else {name: entry[name] for name in sorted(entry)}
    text = json.dumps(ordered, sort_keys=deep, separators=(",", ":"))
    return {**entry, "checksum": "sha256:" + hashlib.sha256(text.encode()).hexdigest()}


def store_of(root: Path, design: str) -> Path:
    """A store as the design describes it, which SMP never opened: one decision or turn in one session."""
    if design == "000":
        (root / "sess_1.jsonl").write_text(
            '{"id": "m1", "type": "decision", "ts": "2026-01-10T10:00:00Z", "data": {"decision": "Use OAuth", "by": "a"}}\n'
        )
    elif design == "001":
        (root / "sessions" / "sess_1").mkdir(parents=True)
        (root / "sessions" / "sess_1" / "manifest.json").write_text('{"session_id": "sess_1", "version": "1.0"}')
        (root / "sessions" / "sess_1" / "decisions.jsonl").write_text('{"id": "dec-001", "decision": "Use pg"}\n')
        (root / "config.json").write_text('{"memory_config": {"version": "1.0"}}')
    elif design == "003":
        (root / "active" / "sess_1").mkdir(parents=True)
        (root / "active" / "sess_1" / "metadata.yaml").write_text(
            "session:\n  id: sess_1\n  participants:\n    user_id: user-123\n"
        )
        (root / "active" / "sess_1" / "decisions.yaml").write_text(
            'decisions:\n  - id: DEC-001\n    decision: "Use it"\n'
        )
    else:
        (root / "sessions" / "sess_1").mkdir(parents=True)
        (root / "sessions" / "sess_1" / "metadata.json").write_text('{"session_id": "sess_1", "user_id": "u1"}')
        lines = [with_checksum(ENTRY, deep=True)]
        (root / "sessions" / "sess_1" / "memory.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
        (root / "config.json").write_text(json.dumps(CONFIG_004))
    return root


@pytest.mark.parametrize("design", ["000", "001", "003", "004"])
def test_status_of_a_store_that_was_never_opened_counts_its_memories(tmp_path: Path, design: str) -> None:
    root = store_of(tmp_path, design)
    status = store_status(str(root), os.environ)
    assert (status.sessions, sum(status.counts.values()), status.is_indexed) == (1, 1, True)


@pytest.mark.parametrize("deep", [True, False])
def test_checksum_over_sorted_fields_is_verified_and_not_called_missing(tmp_path: Path, deep: bool) -> None:
    root = store_of(tmp_path, "004")
    path = root / "sessions" / "sess_1" / "memory.jsonl"
    right, wrong = with_checksum(ENTRY, deep=deep), with_checksum({**ENTRY, "id": "mem_002"}, deep=deep)
    wrong["content"] = {"role": "user", "message": "Changed"}
    path.write_text(json.dumps(right) + "\n" + json.dumps(wrong) + "\n")
    with smp_memory.open(root) as memory:
        said = {each.id: (each.code, each.message) for each in memory.session("sess_1").validate().problems}
    assert said["mem_001"][0] == "unsigned"
    assert "its checksum is right" in said["mem_001"][1]
    assert "no checksum" not in said["mem_001"][1]
    assert said["mem_002"][0] == "edited"


@pytest.mark.parametrize("design", ["001", "003", "004"])
def test_format_that_doctor_promises_is_written_by_maintenance(tmp_path: Path, design: str) -> None:
    with smp_memory.open(store_of(tmp_path, design)) as memory:
        (found,) = [each for each in memory.doctor().findings if each.check == "format"]
        assert "smp maintain" in found.message
        memory.maintain(only=["index"])
        assert [each for each in memory.doctor().findings if each.check == "format"] == []


def test_author_called_user_is_the_user_of_the_session(tmp_path: Path) -> None:
    with smp_memory.open(store_of(tmp_path, "003")) as memory:
        session = memory.session("sess_1")
        session.add_turn("user", "Without an author")
        session.add_turn("user", "By user", author="user")
        session.add_finding("By name", author="user-123")
        session.add_finding("By another", author="veritas")
        agents = session.agents()
        for agent in agents:
            found = {hit.id for hit in session.by_agent(agent.name)}
            assert found == {ref for refs in agent.ids.values() for ref in refs}
        assert {hit.id for hit in session.by_agent("user")} == {hit.id for hit in session.by_agent("user-123")}


def test_uses_of_a_design_and_of_smp_are_one_count(tmp_path: Path) -> None:
    root = store_of(tmp_path, "003")
    path = root / "active" / "sess_1" / "decisions.yaml"
    path.write_text(
        path.read_text() + "    decay:\n      priority: 0.9\n      access_count: 3\n      base_priority: 1.0\n"
    )
    with smp_memory.open(root) as memory:
        session = memory.session("sess_1")
        session.get("DEC-001")
        memory.maintain(only=["access"])
        record = session.find("DEC-001")
        assert record is not None
        assert record.access["count"] == 4
        assert "access_count" not in record.given["decay"]
        assert record.given["decay"]["base_priority"] == 1.0
        for field in ("decay.access_count", "access.count"):
            assert [hit.id for hit in session.query(where={field: {"greater": 3}})] == ["DEC-001"]


@pytest.mark.parametrize("design", ["001", "004"])
def test_index_is_printed_fresh_and_one_of_another_program_is_named(tmp_path: Path, design: str) -> None:
    root = store_of(tmp_path, design)
    (root / "sessions" / "sess_1" / "index.json").write_text('{"version": 1}')
    with smp_memory.open(root) as memory:
        decision = memory.session("sess_1").add_decision("Database scalability", tags=["architecture"])
        (named,) = [each for each in memory.doctor().findings if each.check == "unread"]
        assert "index.json" in named.message
    command = [sys.executable, "-m", "smp_memory", "--root", str(root), "index", "--json", "--session", "sess_1"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    if design == "001":
        assert found["session_id"] == "sess_1"
        assert found["inverted_index"]["scalability"] == [decision.id]
        assert found["topic_index"] == {"architecture": [decision.id]}
        assert [decision.id in ids for ids in found["temporal_index"].values()].count(True) == 1
    else:
        assert found["tags"] == {"oauth2": ["mem_001"], "architecture": [decision.id]}
        assert found["types"] == {"conversation": ["mem_001"], "decision": [decision.id]}
        data = (root / "sessions" / "sess_1" / "memory.jsonl").read_bytes()
        for id, entry in found["entries"].items():
            assert id in data[entry["byte_offset"] :].decode().splitlines()[0]
            assert id in data.decode().splitlines()[entry["line_number"] - 1]
    assert (root / "sessions" / "sess_1" / "index.json").read_text() == '{"version": 1}'


def test_preview_says_no_room_only_when_there_was_none(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, create=True) as memory:
        session = memory.create_session("s1")
        for number in range(40):
            session.add_turn("user", f"Message {number} about the login of customers and their carts")
        session.add_decision("Customers log in with OAuth")
        for options in ({"max_tokens": 1500}, {"max_tokens": 300}, {"task": "login", "max_tokens": 600}):
            preview = memory.preview(session=session, **options)
            for item in preview.left_out:
                if item.reason == "no room":
                    assert preview.tokens + len(item.record.text) // 4 + 12 > preview.max_tokens
