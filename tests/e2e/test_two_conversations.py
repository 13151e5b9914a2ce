"""Two conversations in one store: commands that name no session are refused, and each conversation knows its session's name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import UserError
from tests.e2e.hook_host import ENVIRONMENT, Host, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def run(project: Project, *words: str, **environ: str) -> Any:
    command = [sys.executable, "-m", "smp_memory", *words, "--json"]
    done = subprocess.run(
        command, cwd=project.folder, env={**ENVIRONMENT, **environ}, capture_output=True, check=False, text=True
    )
    return json.loads(done.stdout or done.stderr)


def told_session(project: Project, host: str) -> str:
    """The session that the note at the start of a conversation names, as an agent would pass it on."""
    said = Host.injected(project.call(Host(project, host).payload("start", source="startup"), "--wait").stdout)
    name: str = said.partition("--session ")[2].split()[0]
    return name


def test_each_conversation_can_pass_on_the_session_that_its_note_names(project: Project) -> None:
    names = []
    for host in ("one", "two"):
        names.append(told_session(project, host))
        Host(project, host).prompt(f"Something to do in conversation {host}")
    assert len(set(names)) == 2
    for number, name in enumerate(names):
        assert run(project, "decide", f"Decision {number}", "--session", name)["session"] == name
        assert run(project, "decide", f"Decision {number}", SMP_SESSION=name)["session"] == name


@pytest.mark.parametrize(
    "words",
    [["decide", "Use OAuth"], ["note", "A finding"], ["session", "show"], ["show", "DEC-0001"], ["delete", "DEC-0001"]],
)
def test_command_without_a_session_is_refused_between_two_of_the_last_hour(project: Project, words: list[str]) -> None:
    with project.open() as memory:
        for name in ("first", "second"):
            memory.create_session(name).add_decision(f"Decision of {name}")
    error = run(project, *words)["error"]
    assert error["code"] == "E_USER"
    assert "first" in error["message"]
    assert "second" in error["message"]
    assert "--session" in error["message"]
    with project.open() as memory:
        assert [len(session.records()) for session in memory.sessions()] == [1, 1]


def test_command_without_a_session_means_the_only_one_of_the_last_hour(project: Project) -> None:
    with project.open() as memory:
        for name in ("first", "second", "global"):
            memory.create_session(name).add_decision(f"Decision of {name}")
        folder = Path(memory.session("first").folder)
    for path in folder.iterdir():
        if path.is_file():
            os.utime(path, (path.stat().st_mtime - 3700,) * 2)
    assert run(project, "decide", "Use OAuth")["session"] == "second"


def test_started_session_is_current_until_another_one_is_written(project: Project) -> None:
    assert (
        run(project, "decide", "Use OAuth", "--session", run(project, "session", "new", "first")["id"])["session"]
        == "first"
    )
    run(project, "session", "new", "second")
    for number in range(3):
        assert run(project, "decide", f"Decision {number}")["session"] == "second"
    assert run(project, "session", "show")["id"] == "second"
    run(project, "decide", "Back to the first", "--session", "first")
    assert run(project, "decide", "Which one?")["error"]["sessions"] == ["first", "second"]
    run(project, "session", "new", "third")
    assert run(project, "decide", "Goes into the third")["session"] == "third"


def test_started_session_without_memories_counts_as_in_use(project: Project) -> None:
    for name in ("first", "second"):
        run(project, "session", "new", name)
    run(project, "decide", "Use OAuth", "--session", "first")
    assert run(project, "decide", "Which one?")["error"]["sessions"] == ["first", "second"]


def test_session_created_in_python_is_current_while_it_is_empty(project: Project) -> None:
    with project.open() as memory:
        for name in ("first", "second"):
            memory.create_session(name).add_decision(f"Decision of {name}")
        memory.create_session("third")
    assert run(project, "decide", "Use OAuth")["session"] == "third"


def older_store(root: Path, *names: str) -> None:
    """A store whose sessions were written one after the other, all of them long ago; its files are new, as after a clone."""
    for day, name in enumerate(names, 1):
        with smp_memory.open(root, clock=lambda day=day: datetime(2026, 1, day, tzinfo=UTC)) as memory:
            memory.create_session(name).add_decision(f"Decision of {name}")


def test_command_in_a_fresh_clone_means_the_session_whose_memory_is_the_newest(project: Project) -> None:
    older_store(project.root, "b", "c", "a")
    assert run(project, "session", "show")["id"] == "a"
    assert run(project, "decide", "Use OAuth", "--session", "c")["session"] == "c"
    assert run(project, "decide", "Use OAuth again")["session"] == "c"


def test_import_and_restore_do_not_make_the_session_ambiguous(project: Project, tmp_path: Path) -> None:
    older_store(tmp_path / "elsewhere", "imported", "imported-too")
    with smp_memory.open(tmp_path / "elsewhere") as memory:
        memory.export(tmp_path / "out.json")
    run(project, "session", "new", "own")
    run(project, "decide", "Use OAuth")
    run(project, "import", str(tmp_path / "out.json"))
    assert run(project, "decide", "Goes on")["session"] == "imported-too"
    run(project, "session", "archive", "own")
    run(project, "session", "restore", "own")
    assert run(project, "decide", "Restored")["session"] == "own"


def test_mcp_write_without_a_session_is_refused_between_two_of_the_last_hour() -> None:
    pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")
    from smp_memory.integrations.mcp.request_context import RequestContext
    from smp_memory.integrations.mcp.server import TOOLS

    with smp_memory.open(":memory:") as memory:
        for name in ("first", "second"):
            memory.create_session(name).add_decision(f"Decision of {name}")
        caller = RequestContext(memory).caller("tester")
        with pytest.raises(UserError, match=r"(first.*second|second.*first).*session: "):
            TOOLS["remember"].call(caller, {"type": "decision", "text": "Use OAuth"})
        stored = TOOLS["remember"].call(caller, {"type": "decision", "text": "Use OAuth", "session": "first"})
        assert stored.data["session"] == "first"
        named = RequestContext(memory, session="second").caller("tester")
        assert TOOLS["remember"].call(named, {"type": "decision", "text": "x"}).data["session"] == "second"
