"""Memories in the designs' files for all sessions come into a context; a query says that it did not search them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.store import foreign_files


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


def test_query_says_how_many_memories_of_the_files_it_did_not_search(root: Path) -> None:
    with smp_memory.open(root) as memory:
        assert memory.query("totals").shared_not_searched == 2
        assert memory.query("totals", include_archived=True).shared_not_searched == 2
        assert memory.find_similar("totals").shared_not_searched == 2
        assert memory.create_session("s2").query("totals").shared_not_searched == 0
    told = smp_command(root, "query", "totals", "--all").stdout
    assert "2 memories in global/ or shared/ were not searched" in told
    assert json.loads(smp_command(root, "query", "totals", "--all", "--json").stdout)["shared_not_searched"] == 2
    assert "tone = dry" in smp_command(root, "context").stdout


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


def test_query_reads_the_files_for_all_sessions_again_only_when_they_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with smp_memory.open(root) as memory:
        before = memory.query("totals").shared_not_searched
        reads: list[str] = []
        original = foreign_files._records
        monkeypatch.setattr(foreign_files, "_records", lambda *given: reads.append(given[2]) or original(*given))
        assert memory.query("totals").shared_not_searched == before
        assert reads == []
        name = "learned-patterns.yaml" if (root / "global").exists() else "agent-knowledge.json"
        (path,) = root.glob(f"*/{name}")
        more = 'patterns:\n  - "Totals differ"\n  - "Carts expire"\n'
        path.write_text(more if name.endswith(".yaml") else '["Totals differ", "Carts expire"]')
        assert memory.query("totals").shared_not_searched == before + 1
        assert reads
