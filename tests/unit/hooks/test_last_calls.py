"""Last calls of hosts: noted for trusted stores, without content, and shown by `smp doctor` and `smp` alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.integrations.hooks.hosts import PROJECT, USER, InstallTarget
from smp_memory.integrations.hooks.installation import TableHost
from smp_memory.integrations.hooks.last_calls import MCP, TITLES, WITH_HOOKS, hosts_with_hooks, last_calls, note_call
from tests.e2e.terminal import Terminal
from tests.user_state import state_folder, user_state


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SMP_ROOT", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with smp_memory.open(tmp_path / ".bmad/memory") as memory:
        memory.create_session("shop").add_decision("Use OAuth 2.0")
    return tmp_path


def root(project: Path) -> Path:
    return project / ".bmad/memory"


def call_hook(project: Path, client: str, fields: dict[str, str] | None = None, **environment: str) -> None:
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "a secret plan", "cwd": str(project)}
    event |= fields or {}
    source = str(Path(smp_memory.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-m", "smp_memory", "hook", "--client", client, "--wait"],
        input=json.dumps(event).encode(),
        cwd=project,
        env={**os.environ, "PYTHONPATH": source, **environment},
        check=True,
        capture_output=True,
    )


def test_hook_leaves_the_time_of_its_call_and_no_content(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_hook(project, "codex")
    assert list(last_calls(user_state(root(project)))) == ["codex"]
    [path] = (state_folder(root(project)) / "calls").iterdir()
    assert (path.name, path.read_bytes()) == ("codex", b"")
    assert "Codex: last call just now" in Terminal(capsys).ok("doctor")
    assert "Codex: last call just now" in Terminal(capsys).ok()


def test_claude_code_is_named_by_its_own_call(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that is installed for Claude Code does not name it, because other hosts run the same hooks."""
    cli = Terminal(capsys)
    cli.ok("install", "claude-code", "--yes")
    call_hook(project, "auto", {"transcript_path": "/home/ada/.claude/projects/-w-shop/s1.jsonl"})
    assert "Claude Code: last call just now" in cli.ok("doctor")
    call_hook(project, "auto")
    assert sorted(last_calls(user_state(root(project)))) == ["claude-code", "other"]


def test_call_for_a_store_that_is_not_trusted_is_not_noted(project: Path) -> None:
    with smp_memory.open(root(project), trust=False) as memory:
        memory.distrust()
    call_hook(project, "codex")
    assert last_calls(user_state(root(project))) == {}


def test_noting_a_call_never_raises(project: Path) -> None:
    state = user_state(root(project))
    note_call(state, "../../evil")
    note_call(state, MCP)
    assert list(last_calls(state)) == [MCP]
    calls = state_folder(root(project)) / "calls"
    (calls / MCP).unlink()
    calls.rmdir()
    calls.write_text("in the way")
    note_call(state, MCP)
    assert last_calls(state) == {}


def test_installed_host_that_never_called_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = Terminal(capsys)
    assert "No coding agent has hooks for this store: smp install" in cli.ok("doctor")
    cli.ok("install", "claude-code", "--yes")
    assert "Claude Code: installed, never called" in cli.ok("doctor")
    assert cli.json("doctor")["hosts"] == [
        {"host": "claude-code", "title": "Claude Code", "installed": True, "last_call": None}
    ]


@pytest.mark.parametrize("host", WITH_HOOKS)
@pytest.mark.parametrize("scope", [PROJECT, USER])
def test_hooks_are_found_where_they_are_installed(project: Path, host: str, scope: str) -> None:
    target = InstallTarget(scope, str(project), str(project / "home"), {})
    assert hosts_with_hooks(str(project), {}) == []
    edit = next(edit for edit in TableHost(host).edits(target, "smp") if "hooks" in edit.about)
    Path(edit.path).parent.mkdir(parents=True)
    Path(edit.path).write_text(edit.installed())
    assert hosts_with_hooks(str(project), {}) == [host]
    assert TITLES[host] == TableHost(host).TITLE


def test_settings_that_are_a_pipe_do_not_block(project: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no pipes in folders here")
    (project / ".claude").mkdir()
    os.mkfifo(project / ".claude/settings.json")
    assert hosts_with_hooks(str(project), {}) == []
