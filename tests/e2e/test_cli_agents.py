"""Agents on the command line: context, promote, workflow check, macp."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.privacy.fence import find
from tests.e2e.terminal import Terminal

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    cli = Terminal(capsys)
    cli.ok("init")
    cli.ok("session", "new", "shop", "--user", "ada")
    cli.ok("add", "decision", "Use PostgreSQL for orders", "--author", "architect")
    cli.ok("add", "finding", "Login has no rate limit", "--severity", "high", "--author", "veritas")
    cli.ok("add", "learning", "Reviews find more before lunch", "--author", "veritas")
    return cli


def test_context_command(cli: Terminal) -> None:
    text = cli.ok("context", "--agent", "architect", "--task", "which database for orders", "--max-tokens", "500")
    assert find(text.rstrip()) == [(0, len(text.rstrip()))]
    assert "DEC-0001 (architect): Use PostgreSQL for orders" in text
    found = cli.json("context", "--agent", "architect", "--session", "shop", "--topic", "login")
    assert found["agent"] == "architect"
    assert found["tokens"] <= found["max_tokens"] == 1500
    assert {item["ref"] for item in found["items"]} == {"shop/FIND-0001"}


def test_context_of_an_empty_store(cli: Terminal) -> None:
    code, out, err = cli("context", "--max-tokens", "1")
    assert (code, out) == (0, "")
    assert "Nothing to recall" in err
    assert cli("context", "--max-tokens", "0")[0] == 2
    assert cli("context", "--session", "nowhere")[0] == 8


def test_promote_command(cli: Terminal) -> None:
    assert "No memory applies to all sessions yet" in cli.ok("promote")
    assert "global/LEARN-0001" in cli.ok("promote", "LEARN-0001", "--author", "ada")
    cli.ok("promote", "--profile", "role=platform engineer")
    shown = cli.ok("promote")
    assert "role = platform engineer" in shown
    assert "Reviews find more before lunch" in shown
    cli.ok("session", "new", "next")
    assert "Reviews find more before lunch" in cli.ok("context", "--session", "next")
    assert "removed" in cli.ok("promote", "--undo", "LEARN-0001")
    assert cli.json("promote")["patterns"] == []
    assert cli("promote", "shop/LEARN-9999")[0] == 11
    assert cli("promote", "--profile", "nothing")[0] == 2


def test_workflow_check_command(cli: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "flow.md"
    path.write_text("---\nname: check\nmemory_requirements:\n  write_access: [findings]\n---\n# Check\n")
    assert "may write: findings (line 4)" in cli.ok("workflow", "check", str(path))
    assert cli.json("workflow", "check", str(path))["write_access"] == [{"declaration": "findings", "line": 4}]
    path.write_text("memory_requirements:\n  write_access: [bananas]\n")
    code, _, err = cli("workflow", "check", str(path))
    assert code == 4
    assert f"{path}:2" in err


MESSAGE = {
    "header": {"message_id": "m-1", "session_id": "shop"},
    "routing": {"source_agent": "veritas"},
    "payload": {"intent": "REQUEST_CONTEXT", "content": {}},
}


@pytest.mark.parametrize(
    ("text", "intents"),
    [
        (json.dumps(MESSAGE), ["PROVIDE_INPUT"]),
        (json.dumps(MESSAGE, indent=2), ["PROVIDE_INPUT"]),
        (f"{json.dumps(MESSAGE)}\n\n{json.dumps(MESSAGE)}\n", ["PROVIDE_INPUT", "PROVIDE_INPUT"]),
        (f"{json.dumps(MESSAGE)}\nnot json\n", ["PROVIDE_INPUT", "PROCESSING_FAILED"]),
        ("{bad", ["PROCESSING_FAILED"]),
        ("", []),
    ],
)
def test_macp_command_answers_messages(
    cli: Terminal, monkeypatch: pytest.MonkeyPatch, text: str, intents: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    answers = [json.loads(line) for line in cli.ok("macp").splitlines()]
    assert [answer["payload"]["intent"] for answer in answers] == intents


def test_macp_over_pipes(cli: Terminal, tmp_path: Path) -> None:
    """An agent that talks to `smp macp` over a pipe, one message at a time."""
    update = {**MESSAGE, "payload": {"intent": "UPDATE_CONTEXT", "content": {"updates": [{"path": "findings", "value": "Tokens never expire"}]}}}  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "smp_memory", "macp"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(update) + "\n")
        child.stdin.flush()
        first = json.loads(child.stdout.readline())
        assert first["payload"]["intent"] == "TASK_COMPLETE"
        child.stdin.close()
        rest = [json.loads(line)["payload"]["intent"] for line in child.stdout]
    assert rest == ["SESSION_CONTEXT_UPDATED", "FINDING_DISCOVERED"]
    assert "Tokens never expire" in cli.ok("query", "tokens")


def test_examples_of_the_docs_run() -> None:
    """In one go: what comes later in the document builds on what came before."""
    text = (SOURCE.parent / "docs" / "agents.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    names: dict[str, Any] = {}
    exec(code, names)
    assert [item.record.id for item in names["context"].items][:2] == ["FIND-0001", "DEC-0001"]
    for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        assert smp_memory.Workflow.load(block).id == "deep-verify-v6"
