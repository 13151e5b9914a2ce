"""A folder that is no store stays unchanged, for Python, the command line, MCP and hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.discovery import find_root, is_store
from smp_memory.errors import SMPError
from smp_memory.integrations.hooks.entry_point import find_store
from tests.e2e.hook_host import ENVIRONMENT

CONFIGS = {
    "another-layout": '{"layout": "grid", "theme": "dark"}',
    "other-settings": '{"theme": "dark", "cells": 3}',
    "layout-inside": '{"view": {"layout": "jsonl"}}',
    "layout-in-a-text": '{"about": "the \\"layout\\" of a page"}',
    "list": "[1, 2]",
    "no-json": "layout: log",
}
EVENTS = (
    {"hook_event_name": "SessionStart", "source": "startup"},
    {"hook_event_name": "UserPromptSubmit", "prompt": "which database do we use here"},
    {"hook_event_name": "Stop", "last_assistant_message": "PostgreSQL"},
    {"hook_event_name": "SessionEnd"},
)
COMMANDS = (
    ["stats"],
    ["add", "finding", "Something"],
    ["init", "--layout", "log"],
    ["--root", "memory", "add", "finding", "Something"],
    ["--root", "memory", "session", "new", "mine"],
    ["trust"],
    ["install", "claude-code", "--yes"],
)


@pytest.fixture(params=CONFIGS)
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with somebody else's `memory/config.json`."""
    project = tmp_path / "project"
    for place in ("memory", ".bmad/memory"):
        (project / place).mkdir(parents=True)
        (project / place / "config.json").write_text(CONFIGS[request.param])
        (project / place / "weights.bin").write_bytes(b"\0\1")
    monkeypatch.chdir(project)
    return project


def contents(project: Path) -> dict[str, bytes | None]:
    places = [path for place in ("memory", ".bmad") for path in (project / place).rglob("*")]
    return {str(path): path.read_bytes() if path.is_file() else None for path in places}


def test_python_does_not_write_into_a_foreign_folder(project: Path) -> None:
    before = contents(project)
    assert not is_store(str(project / "memory"))
    for where in (None, project / "memory", project / ".bmad" / "memory"):
        with pytest.raises(SMPError):
            smp_memory.open(where).create_session("mine")
    assert contents(project) == before


def test_commands_do_not_write_into_a_foreign_folder(project: Path) -> None:
    before = contents(project)
    for words in COMMANDS:
        command = [sys.executable, "-m", "smp_memory", *words]
        subprocess.run(command, cwd=project, env=ENVIRONMENT, capture_output=True, check=False)
        assert contents(project) == before, words


@pytest.mark.parametrize("named", ["", "memory"])
def test_hooks_neither_use_nor_write_into_a_foreign_folder(project: Path, named: str) -> None:
    before = contents(project)
    environ = {**ENVIRONMENT, **({"SMP_ROOT": str(project / named)} if named else {})}
    for event in EVENTS:
        said = json.dumps({**event, "session_id": "one", "cwd": str(project)})
        done = subprocess.run(
            [sys.executable, "-m", "smp_memory", "hook", "--wait"],
            input=said.encode(),
            cwd=project,
            env=environ,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert contents(project) == before


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
@pytest.mark.parametrize("below", ["", "src/deep"])
def test_hooks_find_the_store_that_python_finds(tmp_path: Path, layout: str, below: str) -> None:
    from smp_memory.config.settings import DEFAULT_ROOTS

    root = tmp_path / DEFAULT_ROOTS[layout]
    smp_memory.open(root, layout=layout).close()
    folder = tmp_path / below
    folder.mkdir(parents=True, exist_ok=True)
    assert find_store(str(folder), {}) == find_root(None, str(folder)) == str(root)
    assert find_store("/", {"SMP_ROOT": str(root)}) == str(root)


def test_hooks_understand_a_config_with_a_byte_order_mark(tmp_path: Path) -> None:
    root = tmp_path / ".bmad" / "memory"
    smp_memory.open(root).close()
    path = root / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert find_store(str(tmp_path), {}) == find_root(None, str(tmp_path)) == str(root)


def test_hooks_print_nothing_in_a_removed_folder(tmp_path: Path) -> None:
    assert find_store(os.fspath(tmp_path / "gone"), {}) is None
