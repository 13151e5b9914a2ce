"""Deletion records of single memories (design 003 §8.3), archives that have only a summary, and the manifest of an archive (001 §8.3)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

import smp_memory
from smp_memory.errors import SessionNotFound
from smp_memory.lifecycle.clock_trust import NO_EVIDENCE

NOW = datetime(2026, 3, 1, 10, 30, tzinfo=UTC)
FOREIGN = """\
deletion:
  session_id: "talk"
  deleted_at: "2026-02-15T10:30:00Z"
  deleted_by: "user-123"
  reason: "Privacy"
  deleted_items:
    - type: "conversation_turn"
      id: "turn-1"
      timestamp: "2026-02-11T15:30:00Z"
      reason_specific: "Contained personal information"
    - type: "decision"
      id: "DEC-0001"
      timestamp: "2026-02-11T15:35:00Z"
    - type: "decision"
      id: "DEC-0099"
  recovery_deadline: "2026-03-17T10:30:00Z"
  backup_location: "deleted/talk/backup.tar.gz"
"""


def opened(root: Path, layout: str = "markdown") -> smp_memory.Memory:
    return smp_memory.open(root, layout=layout, clock=lambda: NOW)


def filled(root: Path, layout: str = "markdown") -> smp_memory.Memory:
    memory = opened(root, layout)
    session = memory.create_session("talk", user="ada")
    session.add_turn("user", "My number is secret")
    session.add_decision("Call back", author="architect")
    session.add_decision("Keep totals in cents", author="architect")
    return memory


def record_in(root: Path) -> dict[str, Any]:
    found = yaml.load((root / "deleted/talk/deletion-record.yaml").read_text(), yaml.BaseLoader)
    return dict(found["deletion"])


def test_deleted_memories_are_in_the_record(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        session = memory.session("talk")
        session.delete("TURN-0001", "private", by="ada")
        session.delete(types="decision", text="cents", reason="wrong", by="bob")
    record = record_in(tmp_path)
    assert (record["session_id"], record["deleted_by"], record["reason"]) == ("talk", "bob", "wrong")
    assert [(item["type"], item["id"], item["reason_specific"]) for item in record["deleted_items"]] == [
        ("conversation_turn", "TURN-0001", "private"),
        ("decision", "DEC-0002", "wrong"),
    ]
    assert {item["deleted_by"] for item in record["deleted_items"]} == {"ada", "bob"}
    assert record["deleted_at"] == record["deleted_items"][0]["deleted_at"] == "2026-03-01T10:30:00Z"
    assert record["recovery_deadline"] == "2026-03-31T10:30:00Z"
    assert (tmp_path / record["backup_location"]).is_dir()


def test_record_goes_when_nothing_is_deleted_any_more(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        session = memory.session("talk")
        session.delete("TURN-0001")
        session.delete("DEC-0001")
        session.restore("TURN-0001")
        assert [item["id"] for item in record_in(tmp_path)["deleted_items"]] == ["DEC-0001"]
        session.restore("DEC-0001")
    assert not (tmp_path / "deleted/talk").exists()


def test_purged_and_erased_memories_are_not_in_the_record(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        session = memory.session("talk")
        session.delete("TURN-0001")
        session.delete("DEC-0001")
        later = [NOW + timedelta(days=days) for days in (40, 42)]
        session.purge(now=later[0], evidence=NO_EVIDENCE)
        assert session.purge(now=later[1], evidence=NO_EVIDENCE).ids == ["talk/TURN-0001", "talk/DEC-0001"]
        assert not (tmp_path / "deleted/talk").exists()
        session.delete("DEC-0002", "the word zebrafish")
        session.erase("DEC-0002")
    assert not any("zebrafish" in path.read_text() for path in tmp_path.glob("deleted/**/*.yaml"))


def test_session_with_a_record_is_deleted_archived_and_brought_back(tmp_path: Path) -> None:
    with filled(tmp_path) as memory:
        memory.session("talk").delete("TURN-0001", "private")
        memory.delete_session("talk")
        assert [item["type"] for item in record_in(tmp_path)["deleted_items"]] == ["session"]
        memory.undelete_session("talk")
        memory.archive_session("talk")
        memory.restore_session("talk")
        memory.maintain(only=["index"])
        assert [item["id"] for item in record_in(tmp_path)["deleted_items"]] == ["TURN-0001"]
        assert memory.doctor().of("archives") == []
        assert memory.deleted_sessions() == []
        assert memory.session("talk").restore("TURN-0001").content == "My number is secret"


def test_other_layouts_keep_deletions_beside_the_memories(tmp_path: Path) -> None:
    with filled(tmp_path, "jsonl") as memory:
        memory.session("talk").delete("TURN-0001")
    assert not (tmp_path / "deleted").exists()


def test_record_of_another_program_hides_the_memories_that_it_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "smp_memory")
    filled(tmp_path).close()
    path = tmp_path / "deleted/talk/deletion-record.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(FOREIGN)
    with opened(tmp_path) as memory:
        assert "TURN-0001, DEC-0001" in memory.doctor().of("archives")[0].message
        session = memory.session("talk")
        assert [record.id for record in session.records()] == ["DEC-0002"]
        assert memory.query().ids == ["DEC-0002"]
        found = {each.record.id: (each.by, each.reason) for each in session.deleted()}
        assert found == {
            "TURN-0001": ("user-123", "Contained personal information"),
            "DEC-0001": ("user-123", "Privacy"),
        }
        logged = [each for each in caplog.records if getattr(each, "smp_event", "") == "recorded_deletions_hidden"]
        assert [getattr(each, "smp_figures", None) for each in logged] == [{"memories": 2}]
        session.restore("DEC-0001")
    with opened(tmp_path) as memory:
        assert [record.id for record in memory.session("talk").records()] == ["DEC-0001", "DEC-0002"]
        assert "DEC-0099" in memory.doctor().of("archives")[0].message
    assert path.read_text() == FOREIGN


@pytest.mark.parametrize(
    "text",
    [
        "deletion: 3",
        "deletion:\n  deleted_items: 5\n",
        "deletion:\n  deleted_items:\n    - 5\n    - id: [1]\n    - id: ../x\n    - id: turn-x\n      type: conversation_turn\n",
        "deletion:\n  deleted_items:\n    - id: DEC-0001\n  deleted_by: [1]\n  reason: {a: 1}\n",
        "a: [",
    ],
)
def test_odd_record_of_another_program_is_no_error(tmp_path: Path, text: str) -> None:
    filled(tmp_path).close()
    path = tmp_path / "deleted/talk/deletion-record.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with opened(tmp_path) as memory:
        session = memory.session("talk")
        assert len(session.records()) == (2 if "DEC-0001" in text else 3)
        session.delete("DEC-0002")
    assert path.read_text() == text


def test_archive_that_has_only_a_summary_is_listed(tmp_path: Path) -> None:
    opened(tmp_path).close()
    path = tmp_path / "archived/old/summary.yaml"
    path.parent.mkdir(parents=True)
    path.write_text('summary:\n  archived_at: "2026-02-01T00:00:00Z"\n  outcome: Totals agreed\n')
    with opened(tmp_path) as memory:
        [away] = memory.archived_sessions()
        assert (away.session, away.state, away.path, away.bytes) == ("old", "archived", str(path), 0)
        assert away.when is not None
        assert away.metadata["summary"]["outcome"] == "Totals agreed"
        assert memory.query("Totals", include_archived=True).ids == []
        for open_it in (memory.session, memory.restore_session):
            with pytest.raises(SessionNotFound, match=r"summary\.yaml"):
                open_it("old")
        assert [each.state for each in memory.session_states(include_archived=True)] == ["archived"]
        memory.create_session("old").add_decision("A new one")
        assert memory.archived_sessions() == []
    assert path.exists()


def test_manifest_of_an_archive_has_the_fields_of_the_design(tmp_path: Path) -> None:
    with opened(tmp_path, "jsonl") as memory:
        session = memory.create_session("talk", user="ada", agents=["architect"], project="ledger", phase="audit")
        session.add_turn("user", "Hello")
        session.add_decision("Keep totals in cents")
        session.add_finding("No index")
        size = session.stats().bytes
        memory.archive_session("talk", "done")
    manifest = json.loads((tmp_path / "archive/talk.manifest.json").read_text())
    packed = (tmp_path / "archive/talk.tar.gz").stat().st_size
    expected = {
        "session_id": "talk",
        "created_at": "2026-03-01T10:30:00Z",
        "updated_at": "2026-03-01T10:30:00Z",
        "user_id": "ada",
        "agent_ids": ["architect"],
        "metadata": {"project_name": "ledger", "phase": "audit"},
        "version": "1.0",
        "archived_at": "2026-03-01T10:30:00Z",
        "original_size_bytes": size,
        "compressed_size_bytes": packed,
    }
    assert {name: manifest[name] for name in expected} == expected
    assert manifest["statistics"] == {
        "total_messages": 1,
        "total_decisions": 1,
        "total_findings": 1,
        "size_bytes": size,
        "last_accessed": "2026-03-01T10:30:00Z",
    }
    with opened(tmp_path, "jsonl") as memory:
        assert memory.session("talk").info.project == "ledger"
