"""Titles and short ids of sessions on the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import smp_memory
from tests.e2e.terminal import Terminal, on_a_terminal

FIRST, SECOND = "claude-code-2026-11-17-5f0c1a7e", "claude-code-2026-11-18-a7e5f0c1"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    for name in list(os.environ):
        if (name.startswith("SMP_") and name != "SMP_STATE_DIR") or name in ("NO_COLOR", "COLUMNS"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    with smp_memory.open(tmp_path / ".bmad" / "memory") as memory:
        memory.create_session(FIRST, project="shop").add_turn("user", "Fix the login\nof the shop")
        memory.create_session(SECOND, project="shop").add_turn("user", "Why is the export slow?")
    return Terminal(capsys)


def test_list_on_a_terminal_begins_with_titles_and_has_no_column_that_is_the_same_everywhere(
    cli: Terminal, tmp_path: Path
) -> None:
    shown = on_a_terminal(tmp_path, "session", "list", NO_COLOR="1")
    header, *rows = [line for line in shown.splitlines() if line.strip()]
    assert header.split() == ["title", "session", "age", "memories", "size"]
    assert rows[0].startswith("Fix the login of the shop")
    assert "5f0c1a7e" in rows[0]
    assert "claude-code" not in shown
    assert "shop " not in rows[1]


def test_list_in_a_pipe_and_as_json_has_whole_ids(cli: Terminal) -> None:
    assert FIRST in cli.ok("session", "list")
    rows = cli.json("session", "list")
    assert [(row["id"], row["title"]) for row in rows] == [
        (FIRST, "Fix the login of the shop"),
        (SECOND, "Why is the export slow?"),
    ]


def test_title_is_set_and_removed_by_short_id(cli: Terminal) -> None:
    assert "Login" in cli.ok("session", "title", "5f0c1a7e", "Login")
    assert cli.json("session", "show", "5f0c1a7e")["title"] == "Login"
    assert cli.ok("summary", "--session", FIRST).startswith("Login\n")
    assert cli.json("summary", "--session", FIRST)["title"] == "Login"
    assert cli.json("session", "title", FIRST, "")["title"] == "Fix the login of the shop"


def test_wrong_title_changes_nothing_and_names_the_limit(cli: Terminal) -> None:
    code, _, err = cli("session", "title", FIRST, "two\nlines")
    assert code
    assert "title: must be one line of text" in err
    assert "120 characters" in cli("session", "title", FIRST, "x" * 121)[2]
    assert cli.json("session", "show", FIRST)["title"] == "Fix the login of the shop"


def test_secret_in_a_title_is_redacted_and_said(cli: Terminal) -> None:
    _, out, err = cli("session", "title", FIRST, "AKIAIOSFODNN7EXAMPLE")
    assert "AKIAIOSFODNN7EXAMPLE" not in out
    assert "aws_access_key" in err


def test_erased_prompt_is_in_no_list(cli: Terminal) -> None:
    cli.ok("erase", f"{FIRST}/TURN-0001", "--yes")
    for words in (("session", "list"), ("session", "show", FIRST), ("summary", "--session", FIRST), ("session", "list", "--json")):  # fmt: skip
        assert "Fix the login" not in cli.ok(*words)


def test_session_is_archived_restored_and_deleted_by_short_id(cli: Terminal) -> None:
    cli.ok("session", "archive", "5f0c1a7e")
    cli.ok("session", "restore", "5f0c1a7e")
    cli.ok("session", "delete", "5f0c1a7e")
    assert [row["id"] for row in cli.json("session", "list")] == [SECOND]
    cli.ok("session", "erase", "5f0c1a7e", "--yes")
