"""Answers say that they are incomplete when an entry of a session's files cannot be read."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.cli.main import main
from smp_memory.files.layouts import NAMES
from tests.conformance.layout_files import decisions_file, filled, line_of, opened

pytestmark = pytest.mark.parametrize("layout", NAMES)


def damaged(root: Path, layout: str) -> tuple[Path, int]:
    """A session of which the second decision cannot be read; its file and line."""
    filled(root, layout)
    path = decisions_file(root, layout)
    if layout == "markdown":
        text = path.read_text().replace("decision: Use Postgres", 'decision: "Use Postgres')
    else:
        lines = path.read_text().splitlines(keepends=True)
        text = "".join(line[:-20] + "\n" if "Use Postgres" in line else line for line in lines)
    path.write_text(text)
    line = line_of(path, "Use Postgres")
    if layout == "markdown":
        line = max(n for n, each in enumerate(text.splitlines(), 1) if each.startswith("  - id") and n < line)
    return path, line


def test_lists_queries_contexts_and_figures_name_an_unreadable_line(tmp_path: Path, layout: str) -> None:
    path, line = damaged(tmp_path, layout)
    for _ in range(2):  # the second time the index knows the session already
        memory = smp_memory.open(tmp_path)
        session = memory.session("s1")
        found = [
            session.query("python").problems,
            memory.query("python").problems,
            memory.query(types="decision").problems,
            memory.context(task="python").problems,
            session.context(task="python").problems,
            session.records().problems,
            session.records("decision", last=2).problems,
        ]
        for problems in found:
            assert [(each.path, each.line, each.severity) for each in problems] == [(str(path), line, "error")]
        assert session.stats().problems == 1
        memory.close()


def test_undamaged_sessions_have_no_problems(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    assert session.query("python").problems == []
    assert session.records().problems == []
    assert session.stats().problems == 0
    assert session.context(task="python").problems == []


def test_problems_vanish_from_answers_when_the_line_is_corrected(tmp_path: Path, layout: str) -> None:
    path, _ = damaged(tmp_path, layout)
    before = path.read_bytes()
    session = opened(tmp_path)
    assert len(session.query("python").problems) == 1
    session.add_decision("Added later")
    assert len(session.query("later").problems) == 1
    assert before in path.read_bytes() or layout == "markdown"
    session.repair()
    assert session.query("python").problems == []
    assert session.records().problems == []
    assert session.stats().problems == 0


def test_unreadable_line_is_logged_once_in_a_process_without_content(
    tmp_path: Path, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, line = damaged(tmp_path, layout)
    with caplog.at_level(logging.WARNING, logger="smp_memory"):
        for _ in range(2):
            session = opened(tmp_path)
            session.records()
            session.query("python")
            session.stats()
    told = [record.getMessage() for record in caplog.records if str(path) in record.getMessage()]
    assert len(told) == 1
    assert f"{path}:{line}" in told[0]
    assert "Postgres" not in told[0]


@pytest.mark.parametrize("command", [["list"], ["query", "python"], ["context"], ["stats"], ["list", "--json"]])
def test_command_line_reports_unreadable_entries_in_one_line_on_stderr(
    tmp_path: Path, layout: str, command: list[str]
) -> None:
    path, line = damaged(tmp_path, layout)
    words = [sys.executable, "-m", "smp_memory", *command, "--root", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    told = done.stderr.strip().splitlines()
    assert len(told) == 1, done.stderr
    assert f"{path}:{line}" in told[0]
    assert "smp repair" in told[0]
    assert str(path) not in done.stdout or "--json" in command or command == ["stats"]


def test_json_answers_list_unreadable_entries(tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    path, line = damaged(tmp_path, layout)
    for command in (["query", "python"], ["context"]):
        assert main([*command, "--json", "--root", str(tmp_path)]) == 0
        problems = json.loads(capsys.readouterr().out)["problems"]
        assert [(each["path"], each["line"]) for each in problems] == [(str(path), line)]
    assert main(["stats", "--json", "--root", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == 1


def test_mcp_answers_list_unreadable_entries(tmp_path: Path, layout: str) -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import TOOLS

    path, line = damaged(tmp_path, layout)
    with smp_memory.open(tmp_path) as memory:
        caller = RequestContext(memory).caller("tester")
        recalled = TOOLS["recall"].call(caller, {"query": "python"})
        again = TOOLS["recall"].call(caller, {"query": "python"})
        context = TOOLS["context"].call(caller, {"task": "python"})
    for reply in (recalled, again, context):
        assert f"{path}:{line}" in reply.data["problems"][0]
    assert f"{path}:{line}" in recalled.text
    assert f"{path}:{line}" not in again.text  # never twice in a session
