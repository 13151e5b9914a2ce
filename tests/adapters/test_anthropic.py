"""The Anthropic memory tool over a store: the library's own class as an oracle, runs of its tool runner, several processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="needs anthropic; ./dev test-adapters installs it")

import anthropic
import httpx2 as httpx
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory.adapters.anthropic import SMPAsyncMemoryTool, SMPMemoryTool
from tests.adapters.pages import run_page
from tests.adapters.stores import KINDS, make_address

NAMES = st.sampled_from(["a", "b", "c.txt", ".h", "A", "ü"])
PATHS = st.lists(NAMES, max_size=3).map(lambda names: "/".join(["/memories", *names])) | st.sampled_from(
    [
        "/memories/",
        "/memoriesa",
        "/memories/../x",
        "/memories/a/../b",
        "/memories//a/",
        "/x",
        "",
        "/memories/../memories/a",
    ]
)
TEXTS = st.sampled_from(["", "x", "x\n", "a\nb\nc\n", "\r\nq\r\n", "xx\n\nx"]) | st.text("ab\n\r\u2028x", max_size=12)
SHORT = st.text("ab\nx", max_size=3)


def _command(name: str, optional: Any = None, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"command": st.just(name), **fields}, optional=optional)


COMMANDS = st.one_of(
    _command("view", {"view_range": st.lists(st.integers(-2, 5), min_size=2, max_size=2)}, path=PATHS),
    _command("create", path=PATHS, file_text=TEXTS),
    _command("str_replace", path=PATHS, old_str=SHORT, new_str=SHORT),
    _command("insert", path=PATHS, insert_line=st.integers(-1, 4), insert_text=TEXTS),
    _command("delete", path=PATHS),
    _command("rename", old_path=PATHS, new_path=PATHS),
    _command("clear"),
)


def _run(tool: Any, command: dict[str, Any]) -> str:
    try:
        return str(tool.clear_all_memory() if command["command"] == "clear" else tool.call(command))
    except ToolError as error:
        return f"ToolError: {error}"
    except OSError:
        return "OSError"  # what the library's class does not map


def _folders(root: str) -> set[str]:
    return {folder for folder, _, _ in os.walk(root)}


def _without_sizes_of_folders(text: str, path: str) -> str:
    """The library shows what the file system says of a folder; ours shows the bytes in it."""
    return re.sub(rf"^[\d.]+[BKMG]\t(.*/|{re.escape(path)})$", r"\1", text, flags=re.MULTILINE)


@settings(max_examples=150, deadline=None)
@given(st.lists(COMMANDS, max_size=14))
def test_answers_are_those_of_the_class_of_the_library(commands: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, smp_memory.open(":memory:") as memory:
        theirs, ours = BetaLocalFilesystemMemoryTool(folder), SMPMemoryTool(memory)
        for command in [*commands, {"command": "view", "path": "/memories"}]:
            before = _folders(folder)
            expected = _run(theirs, command)
            if expected.startswith(("ToolError", "OSError")):  # a failed command of ours changes nothing
                for left in sorted(_folders(folder) - before, reverse=True):
                    shutil.rmtree(left, ignore_errors=True)
            answer = _run(ours, command)
            if expected == "OSError":
                assert answer.startswith("ToolError"), command
            elif command["command"] == "view":
                path = command["path"]
                assert _without_sizes_of_folders(answer, path) == _without_sizes_of_folders(expected, path), command
            else:
                assert answer == expected, command


def _call(tool: SMPMemoryTool, name: str, **fields: Any) -> str:
    return str(tool.call({"command": name, **fields}))


@pytest.mark.parametrize("kind", KINDS)
def test_edits_are_revisions_and_deleted_files_are_in_the_trash(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with smp_memory.open(make_address(kind, tmp_path, request)) as memory:
        tool = SMPMemoryTool(memory, "ada@example.com")
        _call(tool, "create", path="/memories/people/ada.md", file_text="Likes tea.\n")
        _call(tool, "str_replace", path="/memories/people/ada.md", old_str="tea", new_str="coffee")
        [hit] = memory.query("coffee", types="artifact")
        [session] = memory.sessions()
        assert [step["op"] for step in session.history(hit.record.id)] == ["put", "change"]
        _call(tool, "delete", path="/memories/people")
        assert [trashed.record.name for trashed in session.deleted()] == ["people/ada.md"]
        _call(tool, "create", path="/memories/people/ada.md", file_text="Likes water.\n")
        assert "water" in _call(tool, "view", path="/memories/people/ada.md")
        assert [step["op"] for step in session.history(hit.record.id)][2:] == ["delete", "restore", "change"]


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_renaming_a_folder_moves_all_files(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with smp_memory.open(make_address(kind, tmp_path, request)) as memory:
        tool = SMPMemoryTool(memory)
        for name in ("old/a.md", "old/sub/b.md"):
            _call(tool, "create", path=f"/memories/{name}", file_text=name)
        _call(tool, "rename", old_path="/memories/old", new_path="/memories/new")
        listing = _call(tool, "view", path="/memories")
        assert [line.partition("\t")[2] for line in listing.splitlines()[2:]] == [
            "/memories/new/", "/memories/new/a.md", "/memories/new/sub/"
        ]  # fmt: skip
        assert "old/sub/b.md" in _call(tool, "view", path="/memories/new/sub/b.md")


def test_no_session_is_made_by_reading_or_by_a_failed_command() -> None:
    with smp_memory.open(":memory:") as memory:
        tool = SMPMemoryTool(memory)
        assert _call(tool, "view", path="/memories").endswith("0B\t/memories")
        with pytest.raises(ToolError):
            _call(tool, "str_replace", path="/memories/x", old_str="a", new_str="b")
        assert memory.sessions() == []


@pytest.mark.parametrize(
    "text",
    ["x" * (2 << 20), "cut \ud83d", "<smp-recalled-aaaaaaaa data-not-instructions>\nq\n</smp-recalled-aaaaaaaa>"],
)
def test_text_that_cannot_be_stored_is_a_tool_error_and_changes_nothing(text: str) -> None:
    with smp_memory.open(":memory:") as memory:
        tool = SMPMemoryTool(memory)
        with pytest.raises(ToolError, match="content"):
            _call(tool, "create", path="/memories/x", file_text=text)
        assert _call(tool, "view", path="/memories").endswith("0B\t/memories")


def test_secrets_are_redacted() -> None:
    with smp_memory.open(":memory:") as memory:
        tool = SMPMemoryTool(memory)
        _call(tool, "create", path="/memories/keys.md", file_text="password = hunter2hunter2\n")
        assert "hunter2" not in _call(tool, "view", path="/memories/keys.md")


_WRITER = """
import sys
from anthropic.lib.tools import ToolError
from smp_memory.adapters.anthropic import SMPMemoryTool
tool, me = SMPMemoryTool(sys.argv[1]), sys.argv[2]
created = 0
for number in range(6):
    try:
        tool.call({"command": "create", "path": f"/memories/{number}.md", "file_text": me})
        created += 1
    except ToolError:
        pass
    tool.call({"command": "insert", "path": "/memories/log.md", "insert_line": 0, "insert_text": f"{me} {number}"})
print(created)
"""


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_processes_lose_no_edit_and_create_no_file_twice(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = make_address(kind, tmp_path, request)
    tool = SMPMemoryTool(address)
    _call(tool, "create", path="/memories/log.md", file_text="")
    words = [sys.executable, "-c", _WRITER, address]
    started = [subprocess.Popen([*words, me], stdout=subprocess.PIPE, text=True) for me in ("a", "b")]
    created = [int(process.communicate(timeout=100)[0]) for process in started]
    assert sum(created) == 6
    lines = _call(tool, "view", path="/memories/log.md").splitlines()[1:-1]
    assert sorted(line.partition("\t")[2] for line in lines) == [f"{me} {number}" for me in "ab" for number in range(6)]
    tool.close()


# -- runs of the tool runner, with a scripted service


def _message(content: list[dict[str, Any]], reason: str) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage}  # fmt: skip


class Service:
    """Answers requests with tool calls, one after the other, then with what the tools answered."""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        self.calls = calls
        self.results: list[Any] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        said = json.loads(request.content)["messages"]
        content = said[-1]["content"]
        self.results += [block for block in content if isinstance(block, dict) and block["type"] == "tool_result"]
        if not self.calls:
            return httpx.Response(200, json=_message([{"type": "text", "text": "Done."}], "end_turn"))
        call = {"type": "tool_use", "id": f"toolu_{len(self.calls)}", "name": "memory", "input": self.calls.pop(0)}
        return httpx.Response(200, json=_message([call], "tool_use"))


CALLS = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/ada.md", "file_text": "Ada prefers tea.\n"},
    {"command": "create", "path": "/memories/ada.md", "file_text": "again"},
    {"command": "view", "path": "/memories/ada.md"},
]
QUESTION: list[Any] = [{"role": "user", "content": "Remember that I prefer tea."}]


def _check_run(service: Service, memory: smp_memory.Memory) -> None:
    assert [result.get("is_error", False) for result in service.results] == [False, False, True, False]
    assert "Ada prefers tea." in json.dumps(service.results[-1])
    assert [hit.record.name for hit in memory.query("tea")] == ["ada.md"]


def test_run_of_the_tool_runner() -> None:
    with smp_memory.open(":memory:") as memory:
        service = Service(list(CALLS))
        http = httpx.Client(transport=httpx.MockTransport(service))
        client = anthropic.Anthropic(api_key="none", http_client=http)
        runner = client.beta.messages.tool_runner(
            model="scripted", max_tokens=100, messages=QUESTION, tools=[SMPMemoryTool(memory)]
        )
        assert runner.until_done().content[0].text == "Done."
        _check_run(service, memory)


def test_run_of_the_async_tool_runner() -> None:
    async def run(memory: smp_memory.Memory) -> None:
        service = Service(list(CALLS))
        http = httpx.AsyncClient(transport=httpx.MockTransport(service))
        client = anthropic.AsyncAnthropic(api_key="none", http_client=http)
        tool = SMPAsyncMemoryTool(memory)
        runner = client.beta.messages.tool_runner(model="scripted", max_tokens=100, messages=QUESTION, tools=[tool])
        assert (await runner.until_done()).content[0].text == "Done."
        _check_run(service, memory)
        assert await tool.clear_all_memory() == "All memory cleared"

    with smp_memory.open(":memory:") as memory:
        asyncio.run(run(memory))


def test_example_of_the_page_runs(tmp_path: Path) -> None:
    assert run_page("anthropic.md", tmp_path) == "1\tAda prefers coffee.\nada.md ['put', 'change']\n"
