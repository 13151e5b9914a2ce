"""Preferences in the metadata of a session of design 004 reach contexts and queries."""

from __future__ import annotations

import json
from pathlib import Path

import smp_memory

METADATA = {
    "session_id": "sess_1",
    "user_id": "user123",
    "created_at": "2026-01-10T14:00:00.000Z",
    "preferences": {"language": "en", "verbosity": "medium", "custom": {"editor": {"theme": "dark"}}},
}


def store(root: Path) -> Path:
    folder = root / "sessions" / "sess_1"
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(json.dumps(METADATA))
    (folder / "memory.jsonl").write_text("")
    return root


def test_preferences_of_a_session_are_told_and_found(tmp_path: Path) -> None:
    with smp_memory.open(store(tmp_path)) as memory:
        session = memory.session("sess_1")
        told = str(session.context())
        for line in ("language = en", "verbosity = medium", "custom.editor.theme = dark"):
            assert line in told
        for asked in (memory, session):
            (hit,) = asked.query("verbosity")
            assert (hit.record.ref, hit.record.value, hit.record.author) == ("sess_1/metadata-2", "medium", "user123")
        assert memory.get("sess_1/metadata-2").value == "medium"
        other = memory.create_session("sess_2")
        assert list(other.query("verbosity")) == []


def test_preference_that_is_set_later_comes_before_the_one_in_the_metadata(tmp_path: Path) -> None:
    with smp_memory.open(store(tmp_path)) as memory:
        session = memory.session("sess_1")
        session.add_preference("verbosity", "low")
        told = str(session.context())
        assert "verbosity = low" in told
        assert "verbosity = medium" not in told
        stored = json.loads((tmp_path / "sessions" / "sess_1" / "metadata.json").read_text())
    assert stored["preferences"] == METADATA["preferences"]
