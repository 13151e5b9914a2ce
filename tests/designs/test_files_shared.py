"""Files for all sessions and metadata of sessions, in the shapes of the designs, with values of our own."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

import smp_memory


def test_global_files_of_003_are_read_and_shown(tmp_path: Path) -> None:
    folder = tmp_path / "global"
    folder.mkdir()
    (folder / "cross-session-preferences.yaml").write_text(
        'preferences:\n  - id: "PREF-001"\n    timestamp: "2026-02-03T09:00:00Z"\n    topic: tone\n'
        '    preference: "Short answers"\n    confidence: explicit\n'
    )
    (folder / "learned-patterns.yaml").write_text(
        'patterns:\n  - "Check totals first"\n  - pattern: "Ask for units"\n    category: review\n'
    )
    (folder / "user-profile.yaml").write_text('profile:\n  language: "de"\n  name: "Ada"\n')
    with smp_memory.open(tmp_path) as memory:
        assert memory.layout == "markdown"
        shared = memory.global_memory
        assert [(each.id, each.preference) for each in shared.preferences()] == [("PREF-001", "Short answers")]
        assert [each.learning for each in shared.patterns()] == ["Check totals first", "Ask for units"]
        assert shared.profile() == {"language": "de", "name": "Ada"}
        shared.set_profile("language", "en")
        assert shared.profile() == {"language": "en", "name": "Ada"}


def test_shared_files_of_001_are_read_and_shown(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "sessions" / "s1").mkdir(parents=True)
    (tmp_path / "sessions" / "s1" / "manifest.json").write_text('{"session_id": "s1"}')
    (tmp_path / "shared" / "user-preferences.json").write_text('{"tone": "dry", "units": {"value": "metric"}}')
    (tmp_path / "shared" / "agent-knowledge.json").write_text('{"learnings": [{"lesson": "Totals differ"}]}')
    with smp_memory.open(tmp_path) as memory:
        shared = memory.global_memory
        assert {each.key: each.value for each in shared.preferences()} == {"tone": "dry", "units": "metric"}
        assert [each.learning for each in shared.patterns()] == ["Totals differ"]


def test_shared_file_that_cannot_be_read_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "global").mkdir()
    (tmp_path / "global" / "user-profile.yaml").write_text("profile: [unclosed\n")
    with smp_memory.open(tmp_path) as memory, caplog.at_level(logging.WARNING, logger="smp_memory"):
        assert memory.global_memory.profile() == {}
    assert "user-profile.yaml" in caplog.text


def test_figures_of_a_head_are_not_kept_when_they_could_be_stale(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    manifest = {
        "session_id": "s1",
        "created_at": "2026-02-03T09:00:00Z",
        "updated_at": "2026-02-03T10:00:00Z",
        "user_id": "u-1",
        "agent_ids": ["architect"],
        "metadata": {"project_name": "ledger", "session_type": "audit"},
        "statistics": {"total_messages": 9, "size_bytes": 4711},
        "version": "1.0",
        "owner_team": "books",
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with smp_memory.open(tmp_path) as memory:
        session = memory.session("s1")
        session.change_info(project="books")
        stored = json.loads((folder / "manifest.json").read_text())
    assert "statistics" not in stored
    assert "updated_at" not in stored
    assert (stored["owner_team"], stored["version"], stored["metadata"]["session_type"]) == ("books", "1.0", "audit")


def test_settings_in_the_head_of_004_hold_for_the_session(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    head = {
        "session_id": "s1",
        "user_id": "u-1",
        "created_at": "2026-02-03T09:00:00Z",
        "decay_config": {"enabled": True, "half_life_hours": 99, "min_decay_factor": 0.3},
        "compaction_config": {"auto_compact": False, "threshold": 0.9},
        "total_entries": 3,
    }
    (folder / "metadata.json").write_text(json.dumps(head))
    (folder / "memory.jsonl").write_text("")
    with smp_memory.open(tmp_path) as memory:
        config = memory.session("s1").config
        assert (config["decay.half_life_hours.decision"], config["compaction.enabled"]) == (99, False)
        memory.session("s1").add_decision("Written")


def test_metadata_of_003_keeps_its_agents(tmp_path: Path) -> None:
    folder = tmp_path / "active" / "s1"
    folder.mkdir(parents=True)
    (folder / "metadata.yaml").write_text(
        "session:\n  id: s1\n  participants:\n    user_id: u-1\n    observers: [eve]\n    agents:\n"
        "      - agent_id: architect\n        role: lead\n        message_count: 4\n"
    )
    with smp_memory.open(tmp_path) as memory:
        memory.session("s1").change_info(project="books")
        assert memory.session("s1").info.agents == ["architect"]
    text = (folder / "metadata.yaml").read_text()
    for kept in ("role: lead", "observers", "eve"):
        assert kept in text
    assert "message_count" not in text
