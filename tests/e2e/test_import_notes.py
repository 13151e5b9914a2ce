"""`smp import --from` for notes and tables as a person uses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from smp_memory.cli.main import main
from tests.unit.importers import planted


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = planted.put(tmp_path / "shop", planted.RULES)
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert main(["init"]) == 0
    return root


def test_rules_of_the_project_are_found_by_their_words(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["import", "--from", "markdown", "--dry-run"]) == 0
    assert "8 memories would be added to markdown-shop (1 learning, 7 preferences)" in capsys.readouterr().out
    assert main(["import", "--from", "markdown"]) == 0
    assert "To undo the import: smp session delete markdown-shop" in capsys.readouterr().out
    assert main(["import", "--from", "markdown", str(planted.put(project / "notes", {"a.md": "Tea at four"}))]) == 0
    said = capsys.readouterr().out
    assert "1 memory added to markdown-notes" in said
    assert "To undo the import: smp session delete markdown-notes" in said
    assert main(["query", "mock database", "--json"]) == 0
    assert "Never mock the database" in json.loads(capsys.readouterr().out)["hits"][0]["record"]["preference"]


def test_table_is_imported_by_its_map(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted.put(project, {"chat.csv": "what,at\nTea,2026-01-05\nMilk,never\n"})
    capsys.readouterr()
    assert main(["import", "--from", "csv", "chat.csv"]) == 4  # nothing could be read
    assert "chat.csv:2 not understood: no content; the columns are: what, at" in capsys.readouterr().out
    assert main(["import", "--from", "csv", "chat.csv", "--map", "content=what,created=at"]) == 0
    said = capsys.readouterr().out
    assert "2 memories added to csv-import (2 learnings)" in said
    assert "chat.csv:3 not understood: created: 'never' is not a time" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--from", "csv", "none.csv"], "does not exist"),
        (["--from", "csv"], "PATH is missing"),
        (["--from", "jsonl", "CLAUDE.md", "--map", "colour=x"], "--map: colour is not a field"),
        (["--from", "markdown", "--map", "content=x"], "--map requires"),
        (["--from", "claude-mem"], "no database of claude-mem"),
        (["--from", "basic-memory"], "no project of basic-memory"),
        (["--from", "mem0", "."], "get_all"),
        (["--from", "conversation-log"], "no conversation log"),
        (["--from", "mcp-memory", "."], "not a file"),
    ],
)
def test_wrong_call_is_an_error_without_traceback(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert main(["import", *words]) != 0
    assert why in capsys.readouterr().err
