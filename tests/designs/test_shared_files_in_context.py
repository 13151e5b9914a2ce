"""Memories in the designs' files for all sessions come into a context, and queries find them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.search import path


def smp_command(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "smp_memory", "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(params=["003", "001"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store of a design with one preference, one item of the profile (003) or none, and one pattern."""
    if request.param == "003":
        (tmp_path / "global").mkdir()
        (tmp_path / "global" / "cross-session-preferences.yaml").write_text(
            'preferences:\n  - id: "PREF-001"\n    key: tone\n    value: dry\n'
        )
        (tmp_path / "global" / "learned-patterns.yaml").write_text('patterns:\n  - "Totals differ"\n')
    else:
        (tmp_path / "sessions" / "s1").mkdir(parents=True)
        (tmp_path / "sessions" / "s1" / "manifest.json").write_text('{"session_id": "s1"}')
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared" / "user-preferences.json").write_text('{"tone": "dry"}')
        (tmp_path / "shared" / "agent-knowledge.json").write_text('{"learnings": [{"lesson": "Totals differ"}]}')
    return tmp_path


def test_context_contains_memories_of_shared_files(root: Path) -> None:
    with smp_memory.open(root) as memory:
        for asked in ({}, {"task": "check the totals"}, {"agent": "veritas"}):
            text = str(memory.context(**asked))
            assert "tone = dry" in text
            assert "Totals differ" in text
        session = memory.create_session("s2", user="ada")
        session.add_turn("user", "Good morning")
        assert "tone = dry" in str(memory.context(session=session))


def test_own_preference_replaces_the_one_of_the_files_in_a_context(root: Path) -> None:
    with smp_memory.open(root) as memory:
        memory.global_memory.set_preference("tone", "friendly")
        text = str(memory.context())
        assert "tone = friendly" in text
        assert "dry" not in text


def test_query_over_all_sessions_finds_memories_of_the_files(root: Path) -> None:
    with smp_memory.open(root) as memory:
        memory.create_session("s2").add_decision("Compare the totals of each cart")
        for options in ({}, {"include_archived": True}, {"sessions": None}):
            assert {hit.record.text for hit in memory.query("totals", **options)} >= {
                "Totals differ",
                "Compare the totals of each cart",
            }
        assert [hit.record.session for hit in memory.query("totals differ")][:1] == ["global"]
        assert [hit.record.text for hit in memory.query(types="learning")] == ["Totals differ"]
        assert memory.query("totals", count_by="type").counts["type"] == {"learning": 1, "decision": 1}
        assert memory.query("tone")[0].record.value == "dry"
        assert "Totals differ" in [hit.record.text for hit in memory.find_similar("totals differ")]
        assert [hit.record.text for hit in memory.session("s2").query("totals")] == ["Compare the totals of each cart"]
        found = memory.query("totals differ")[0].record
        assert memory.get(found.ref).text == found.text
        assert memory.query(count_by={"field": "importance", "op": "avg"}).warnings
    assert "Totals differ" in smp_command(root, "query", "totals", "--all").stdout
    assert "tone = dry" in smp_command(root, "context").stdout


def test_pages_of_a_query_hold_each_memory_of_the_files_once(root: Path) -> None:
    with smp_memory.open(root) as memory:
        session = memory.create_session("s2")
        for number in range(7):
            session.add_learning(f"Totals of cart {number}")
        seen: list[str] = []
        for offset in range(0, 12, 3):
            seen += [hit.record.ref for hit in memory.query("totals", limit=3, offset=offset)]
        assert len(seen) == len(set(seen)) == 8


def test_doctor_counts_shared_memories_and_names_unreadable_files(root: Path) -> None:
    with smp_memory.open(root) as memory:
        [checked] = [check for check in memory.doctor().checks if check.name == "shared"]
        assert "2 memories" in checked.said
        next(path for path in root.glob("*/*") if path.suffix in (".yaml", ".json")).write_text("a: [unclosed\n")
        findings = [finding for finding in memory.doctor().findings if finding.check == "shared"]
        assert [finding.severity for finding in findings] == ["warning"]


def test_private_memory_in_a_shared_file_is_visible_to_its_author_only(tmp_path: Path) -> None:
    (tmp_path / "global").mkdir()
    (tmp_path / "global" / "learned-patterns.yaml").write_text(
        'patterns:\n  - pattern: "Totals differ"\n    visibility: private\n    author: veritas\n'
    )
    with smp_memory.open(tmp_path) as memory:
        assert "Totals differ" not in str(memory.context("architect"))
        assert "Totals differ" in str(memory.context("veritas"))


def test_private_memory_in_a_shared_file_is_found_by_its_author_only(tmp_path: Path) -> None:
    (tmp_path / "global").mkdir()
    (tmp_path / "global" / "learned-patterns.yaml").write_text(
        'patterns:\n  - pattern: "Totals differ"\n    visibility: private\n    author: veritas\n'
    )
    with smp_memory.open(tmp_path) as memory:
        assert len(memory.query("totals")) == 1
        for agent, count in (("architect", 0), ("veritas", 1)):
            scope = Scope(memory.store, None, memory.config, memory.scope.clock, viewer=Viewer(agent))
            assert len(path.query(scope, "totals", {})) == count


def test_change_of_a_shared_file_is_found_by_the_next_query(root: Path) -> None:
    with smp_memory.open(root) as memory:
        assert not [hit for hit in memory.query("carts expire") if "expire" in hit.record.text]
        name = "learned-patterns.yaml" if (root / "global").exists() else "agent-knowledge.json"
        (changed,) = root.glob(f"*/{name}")
        more = 'patterns:\n  - "Totals differ"\n  - "Carts expire"\n'
        changed.write_text(more if name.endswith(".yaml") else '["Totals differ", "Carts expire"]')
        assert memory.query("carts expire")[0].record.text == "Carts expire"
