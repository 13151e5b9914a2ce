"""`smp import` of conversations as a person uses it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests import host_transcripts as hosts
from tests.e2e.terminal import Screenplay, Terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the places of tools are those of Linux")


@pytest.fixture
def smp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """A new user with conversations of all tools, in a new project."""
    home = hosts.whole_home(tmp_path / "home")
    for name in [name for name in os.environ if name.startswith(("CLAUDE", "CODEX", "GEMINI", "XDG_CONFIG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")
    terminal = Terminal(capsys)
    terminal.ok("init")
    return terminal


def test_list_names_every_importer(smp: Terminal) -> None:
    listed = smp.json("import", "--list")
    assert {"claude-code", "codex", "gemini", "cursor", "chatgpt", "claude-ai", "bmad"} <= {
        row["name"] for row in listed
    }
    assert "conversations of Codex" in smp.ok("import", "--list")


def test_scan_shows_commands_that_import_what_it_found(smp: Terminal) -> None:
    offers = smp.json("import", "--scan")
    conversations = [offer for offer in offers if offer["from"] in ("claude-code", "codex", "gemini", "cursor", "chatgpt", "claude-ai")]  # fmt: skip
    assert len(conversations) == 7
    assert smp.json("session", "list") == []  # nothing was imported without a yes
    for offer in conversations:
        assert offer["bytes"] > 0
        smp.ok(*offer["command"].split()[1:])
    assert len(smp.json("session", "list")) == 7
    assert "Which login" in smp.ok("query", "which login do we use")


def test_scan_with_yes_imports_everything_once(smp: Terminal) -> None:
    said = smp.ok("import", "--scan", "--yes")
    assert "5 memories added to claude-code-2026-01-31" in said
    assert "4 turns, 1 summary" in said
    assert "smp review" in said
    again = smp.json("import", "--scan", "--yes")
    assert sum(sum(row["report"]["added"].values()) for row in again if row["from"] != "notes") == 0


def test_scan_of_an_empty_home_says_what_can_be_imported(
    smp: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    assert "smp import --list" in smp.ok("import", "--scan")


def test_scan_asks_on_a_terminal(smp: Terminal, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "smp_memory", "import", "--scan", "--no-color"]
    with Screenplay(command, tmp_path / "shop", {"COLUMNS": "300"}) as screen:
        screen.wait_for("Import conversations of Claude Code, 1 file")
        screen.type("y\n")
        screen.wait_for("Import conversations of Codex")
        screen.type("n\n")
        screen.wait_for("Import conversations of Gemini")
        said = screen.until_the_end("\n")
    assert screen.exit_code == 0, said
    assert [each["id"].rsplit("-", 4)[0] for each in smp.json("session", "list")] == ["claude-code"]


def test_import_reports_the_backup_and_what_was_not_understood(smp: Terminal, tmp_path: Path) -> None:
    smp.ok("import", "--from", "codex")
    path = hosts.claude_home(tmp_path / "home")
    path.write_bytes(path.read_bytes() + b"{half")
    said = smp.ok("import", "--from", "claude-code")
    assert f"{path.name}:12 not understood: half-written" in said
    saved = next(line.split(": ", 1)[1] for line in said.splitlines() if "was saved before" in line)
    smp.ok("--root", str(tmp_path / "restored"), "init")
    smp.ok("--root", str(tmp_path / "restored"), "import", saved)
    assert [each["id"][:6] for each in smp.json("--root", str(tmp_path / "restored"), "session", "list")] == ["codex-"]


def test_dry_run_and_no_proposals(smp: Terminal) -> None:
    assert "5 memories would be added" in smp.ok("import", "--from", "claude-code", "--dry-run")
    assert smp.json("session", "list") == []
    assert "smp review" not in smp.ok("import", "--from", "claude-code", "--no-proposals")


def test_wrong_paths_and_options_are_named(smp: Terminal, tmp_path: Path) -> None:
    assert "does not exist" in smp.fails(2, "import", "--from", "codex", "nowhere")
    assert "PATH is missing" in smp.fails(2, "import", "--from", "chatgpt")
    assert "session of its own" in smp.fails(2, "import", "--from", "codex", "--as", "mine")
    assert "--from" in smp.fails(4, "import", str(tmp_path / "home/Downloads/chatgpt.zip"))
    (tmp_path / "empty").mkdir()
    assert "nothing to import" in smp.fails(2, "import", "--from", "codex", str(tmp_path / "empty"))
    assert "another service" in smp.fails(2, "import", "--from", "chatgpt", str(tmp_path / "home/Downloads/claude.zip"))


def test_title_is_shown_with_the_session(smp: Terminal) -> None:
    smp.ok("import", "--from", "claude-code")
    [session] = smp.json("session", "list")
    assert "Login of the shop" in smp.ok("session", "show", session["id"])
    assert json.loads(smp.ok("session", "show", session["id"], "--json"))["context"]["title"] == "Login of the shop"


def test_import_of_which_nothing_could_be_read_fails_with_a_warning_mark(smp: Terminal, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{damaged\n", "utf-8")
    code, said, _ = smp("import", "--from", "jsonl", str(tmp_path / "rows.jsonl"))
    assert (code, said[0], "1 not understood: not JSON" in said) == (4, "!", True)
    (tmp_path / "rows.jsonl").write_text('{damaged\n{"text": "tea"}\n', "utf-8")
    assert "✓" in smp.ok("import", "--from", "jsonl", str(tmp_path / "rows.jsonl"))


def test_scan_without_a_store_says_so_before_the_first_question(
    smp: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare").mkdir()
    command = [sys.executable, "-m", "smp_memory", "import", "--scan", "--no-color"]
    with Screenplay(command, tmp_path / "bare", {"COLUMNS": "80"}) as screen:
        said = screen.until_the_end("\n")
    assert "smp init" in said
    assert "[y/N]" not in said
    monkeypatch.chdir(tmp_path / "bare")
    code, _, why = smp("import", "--scan", "--yes")
    assert (code, "smp init" in why) == (7, True)


def test_scan_names_the_home_folder_by_a_tilde_and_no_usual_path(smp: Terminal, tmp_path: Path) -> None:
    said = smp.ok("import", "--scan")
    assert "    smp import --from claude-code\n" in said
    assert "    smp import --from chatgpt ~/Downloads/chatgpt.zip\n" in said
    assert str(tmp_path / "home") not in said


def test_scan_survives_an_importer_that_fails(smp: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    from smp_memory.importers import codex

    def broken(places: object) -> list[object]:
        raise RecursionError("too deep")

    monkeypatch.setattr(codex, "found", broken)
    assert {row["from"] for row in smp.json("import", "--scan")} >= {"claude-code", "gemini"}


def test_line_that_undoes_an_import_of_several_sessions_can_be_pasted(smp: Terminal, tmp_path: Path) -> None:
    rows = "".join(f'{{"text": "tea {name}", "session": "{name}"}}\n' for name in ("one", "two"))
    (tmp_path / "rows.jsonl").write_text(rows, "utf-8")
    said = smp.ok("import", "--from", "jsonl", str(tmp_path / "rows.jsonl"))
    command = next(line.partition("undo the import: ")[2] for line in said.splitlines() if "undo the import" in line)
    smp.ok(*command.split()[1:])
    assert smp.json("session", "list") == []
