"""Figures in the metadata and the overviews in files, as the designs show them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

import smp_memory
from smp_memory.files.yaml_text import load_mapping
from smp_memory.git.merge import merge

METADATA = {
    "jsonl": "sessions/s1/manifest.json",
    "log": "sessions/s1/metadata.json",
    "markdown": "active/s1/metadata.yaml",
}
START = datetime(2026, 1, 11, 10, tzinfo=UTC)


def metadata(root: Path, layout: str) -> Any:
    text = (root / METADATA[layout]).read_text()
    return yaml.safe_load(text)["session"] if layout == "markdown" else json.loads(text)


def write_some(session: Any) -> None:
    session.add_turn("user", "How do we log in?", author="ada")
    session.add_turn("assistant", "With OAuth", author="architect")
    session.add_decision("Use OAuth", author="architect")
    session.add_finding("No MFA", author="veritas")
    session.add_preference("style", "concise")


def as_of(found: Any) -> str:
    parts = [found.get(name) for name in ("statistics", "storage")]
    return str(next(part["as_of"] for part in parts if isinstance(part, dict)))


@pytest.mark.parametrize("layout", ["jsonl", "log", "markdown"])
def test_metadata_have_the_figures_of_the_design_after_closing(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path, create=True, layout=layout) as memory:
        session = memory.create_session("s1", user="ada", agents=["architect", "idle"])
        write_some(session)
        bytes_stored = session.stats()["bytes"]
    found = metadata(tmp_path, layout)
    if layout == "jsonl":
        statistics = found["statistics"]
        assert (statistics["total_messages"], statistics["total_decisions"], statistics["total_findings"]) == (2, 1, 1)
        assert statistics["size_bytes"] == bytes_stored
        assert statistics["last_accessed"] == found["updated_at"]
    elif layout == "log":
        assert (found["total_entries"], found["total_size_bytes"]) == (5, bytes_stored)
        counts = {name: value for name, value in found["statistics"].items() if name != "as_of"}
        assert counts == {"conversations": 2, "decisions": 1, "findings": 1, "preferences": 1}
    else:
        assert found["storage"]["total_bytes"] == bytes_stored
        assert found["storage"]["quota_bytes"] == 10 * 1024 * 1024
        agents = {each["agent_id"]: each for each in found["participants"]["agents"]}
        assert agents["architect"]["message_count"] == 1
        assert agents["veritas"]["message_count"] == 0
        assert "message_count" not in agents["idle"]
    assert as_of(found)
    with smp_memory.open(tmp_path) as memory:
        assert memory.session("s1").info.agents == ["architect", "idle"]
        assert memory.session("s1").config["storage.max_session_size_mb"] == 10


@pytest.mark.parametrize("layout", ["jsonl", "log", "markdown"])
def test_figures_are_renewed_by_maintenance_and_only_if_they_changed(tmp_path: Path, layout: str) -> None:
    now = [START]
    memory = smp_memory.open(tmp_path, create=True, layout=layout, clock=lambda: now[0])
    session = memory.create_session("s1")
    write_some(session)
    memory.maintain(only=["index"])
    first = metadata(tmp_path, layout)
    now[0] += timedelta(hours=1)
    memory.maintain(only=["index"])
    assert metadata(tmp_path, layout) == first
    session.add_decision("Another one")
    assert metadata(tmp_path, layout) == first  # an add does not write the metadata; `as_of` says how old they are
    memory.maintain(only=["index"])
    assert as_of(metadata(tmp_path, layout)) > as_of(first)
    memory.close()


@pytest.mark.parametrize("layout", ["jsonl", "log", "markdown"])
def test_figures_follow_a_rewrite_and_a_change_of_the_metadata(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path, create=True, layout=layout) as memory:
        session = memory.create_session("s1")
        write_some(session)
        session.change_info(project="shop")
        assert as_of(metadata(tmp_path, layout))
        memory.erase("s1/FIND-0001")
    found = metadata(tmp_path, layout)
    counted = found.get("statistics", {})
    assert 1 not in (counted.get("total_findings"), counted.get("findings"))


def test_merge_of_figures_is_no_conflict(tmp_path: Path) -> None:
    def side(layout: str, count: int) -> tuple[bytes, str]:
        root = tmp_path / f"{layout}-{count}"
        with smp_memory.open(root, create=True, layout=layout) as memory:
            session = memory.create_session("s1", agents=["architect"])
            for number in range(count):
                session.add_turn("assistant", f"Number {number}", author="architect")
        return (root / METADATA[layout]).read_bytes(), METADATA[layout]

    for layout in ("jsonl", "log", "markdown"):
        ours, name = side(layout, 2)
        theirs = ours.replace(b": 2", b": 5").replace(b"T0", b"T1")
        merged = merge(ours.replace(b": 2", b": 1"), ours, theirs, name)
        assert merged.conflicts == []
        if layout == "markdown":
            agents = yaml.safe_load(merged.data)["session"]["participants"]["agents"]
            assert [each["agent_id"] for each in agents] == ["architect"]


def overview(root: Path, name: str) -> Any:
    return load_mapping((root / "active" / "s1" / "indexes" / f"{name}.yaml").read_bytes())


def test_overviews_exist_from_the_start_and_hold_what_the_calls_return(tmp_path: Path) -> None:
    with smp_memory.open(tmp_path, create=True, layout="markdown") as memory:
        session = memory.create_session("s1", user="ada")
        for name in ("topics", "timeline", "agents"):
            assert overview(tmp_path, name) == getattr(session, name)().to_dict()
        turn = session.add_turn("user", "Let us review the authentication requirements.")
        session.add_turn("assistant", "Done", references=["DEC-0001"], author="veritas")
        session.add_decision("Use OAuth", tags=["authentication"], importance=0.9, author="veritas")
        session.add_preference("mfa", "for admins", applies_to={"projects": ["shop"], "domains": ["security"]})
        assert turn.id == "TURN-0001"
        memory.maintain(only=["index"])
        kept = {name: overview(tmp_path, name) for name in ("topics", "timeline", "agents")}
        for name, found in kept.items():
            assert found == getattr(session, name)().to_dict()
        topics = kept["topics"]["topic_index"]["topics"]
        assert topics["authentication"]["related_memories"]["turns"] == ["TURN-0001", "TURN-0002"]
        assert topics["authentication"]["mentions"] == 3
        assert topics["security"]["related_memories"] == {"preferences": ["PREF-0001"]}
