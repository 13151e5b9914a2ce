"""Transcripts of the Claude Agent SDK in a store: its conformance suite, large and odd entries, several processes, a kill."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="needs claude-agent-sdk; ./dev test-adapters installs it")

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ResultMessage,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
    query,
)
from claude_agent_sdk.testing import run_session_store_conformance

import smp_memory
from smp_memory.adapters.claude_agent_sdk import SMPSessionStore
from tests.adapters.pages import run_page
from tests.adapters.stores import KINDS, make_address

KEY: Any = {"project_key": "-home-ada-shop", "session_id": "5c3a1e52-6a0e-4d53-9d7e-3f7b2f4d9a10"}


@pytest.fixture
def store() -> Iterator[SMPSessionStore]:
    with smp_memory.open(":memory:") as memory:
        yield SMPSessionStore(memory)


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _entry(number: int, role: str, content: Any, **fields: Any) -> Any:
    """A line of a transcript, in the form that the SDK's command line writes."""
    return {
        "type": role,
        "uuid": _uuid(number),
        "parentUuid": _uuid(number - 1) if number > 1 else None,
        "sessionId": KEY["session_id"],
        "timestamp": f"2026-01-31T14:00:{number % 60:02d}.000Z",
        "cwd": "/home/ada/shop",
        "message": {"role": role, "content": content},
        **fields,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_conformance_suite_of_the_sdk_passes(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    opened = []

    def new_store() -> SMPSessionStore:
        place = tmp_path / str(len(opened))
        opened.append(smp_memory.open(make_address(kind, place, request), config={"durability": "os"}))
        return SMPSessionStore(opened[-1])

    asyncio.run(run_session_store_conformance(new_store))
    for memory in opened:
        memory.close()


def test_entry_with_known_uuid_is_not_added_again(store: SMPSessionStore) -> None:
    first, second = _entry(1, "user", "Hello"), _entry(2, "assistant", [{"type": "text", "text": "Hi"}])

    async def run() -> None:
        await store.append(KEY, [first, second])
        await store.append(KEY, [first, second, _entry(3, "user", "More")])
        assert [entry["uuid"] for entry in await store.load(KEY) or []] == [_uuid(1), _uuid(2), _uuid(3)]

    asyncio.run(run())


def test_words_of_a_conversation_are_found_by_queries(store: SMPSessionStore) -> None:
    said = [
        _entry(1, "user", "Which database holds the invoices?"),
        _entry(2, "assistant", [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "PostgreSQL."}]),
        _entry(3, "user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "42 rows"}]),
        {"type": "custom-title", "customTitle": "Invoices", "sessionId": KEY["session_id"]},
    ]  # fmt: skip
    asyncio.run(store.append(KEY, said))
    memory = store.bridge.memory
    [hit] = memory.query("postgresql", types="conversation")
    assert (hit.record.role, hit.record.content) == ("assistant", "PostgreSQL.")
    assert hit.record.created.isoformat() == "2026-01-31T14:00:02+00:00"
    [session] = memory.sessions()
    assert [(turn.role, turn.visibility) for turn in session.records("turn")] == [
        ("user", "shared"), ("assistant", "shared"), ("tool", "shared"), ("system", "private"),
    ]  # fmt: skip
    assert session.records("summary")[0].summary == "Invoices"


IMAGE = base64.b64encode(bytes(range(256)) * 12_000).decode()  # 4 MB
RECALLED = "<smp-recalled-aaaaaaaa data-not-instructions>\nOld news.\n</smp-recalled-aaaaaaaa>"
ODD = {
    "image": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}],
    "large tool result": [{"type": "tool_result", "tool_use_id": "t", "content": "line ü\n" * 400_000}],
    "lone surrogate": "cut \ud83d",
    "NUL": "a\x00b",
    "recalled memories alone": RECALLED,
    "deep": json.loads("[" * 60 + "]" * 60),
    "large number": [{"type": "x", "n": 10**900}],
    "no text": [],
    "null": None,
}


@pytest.mark.parametrize("kind", ["jsonl", "markdown", "postgresql"])
def test_large_and_odd_entries_come_back_equal(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    entries = [_entry(number, "user", content) for number, content in enumerate(ODD.values(), 1)]

    async def run(address: str) -> None:
        store = SMPSessionStore(address)
        await store.append(KEY, entries)
        await store.close()
        store = SMPSessionStore(address)
        loaded = dict(zip(ODD, await store.load(KEY) or [], strict=True))
        assert [name for name, entry in zip(ODD, entries, strict=True) if loaded[name] != entry] == []
        await store.close()

    asyncio.run(run(make_address(kind, tmp_path, request)))


def test_redaction_spares_base64_and_removes_secrets_beside_it(store: SMPSessionStore) -> None:
    token = base64.b64encode(b"\x11" * 900).decode().replace("ERER", "EAACEdEose0cBA", 1)  # looks like a token
    key = "sk-ant-api03-" + "a8Fj2" * 18
    entry = _entry(1, "user", [{"type": "image", "source": {"data": token}}, {"type": "text", "text": f"key {key}"}])

    async def run() -> None:
        await store.append(KEY, [entry])
        [loaded] = await store.load(KEY) or []
        image, text = loaded["message"]["content"]
        assert image["source"]["data"] == token
        assert key not in json.dumps(loaded)
        assert "REDACTED" in text["text"]

    asyncio.run(run())


@pytest.mark.parametrize("name", ["../..", "a/b", "ü" * 300, "CON", "a\x00b", "x@example.com", " ", "A", "a"])
def test_odd_ids_are_kept_apart_and_come_back(store: SMPSessionStore, name: str) -> None:
    other: Any = {"project_key": name, "session_id": f"{name}."}
    key: Any = {"project_key": name, "session_id": name}

    async def run() -> None:
        await store.append(key, [_entry(1, "user", "one")])
        await store.append(other, [_entry(1, "user", "two")])
        await store.append({**key, "subpath": f"subagents/{name}"}, [_entry(1, "user", "three")])
        assert [entry["message"]["content"] for entry in await store.load(key) or []] == ["one"]
        assert sorted(each["session_id"] for each in await store.list_sessions(name)) == sorted([name, f"{name}."])
        assert await store.list_subkeys(key) == [f"subagents/{name}"]

    asyncio.run(run())


@pytest.mark.parametrize("uuid", ["", "u" * 1000, "\ud800", "ü"])
def test_odd_uuids_still_count_once(store: SMPSessionStore, uuid: str) -> None:
    async def run() -> None:
        for _ in range(2):
            await store.append(KEY, [{"type": "x", "uuid": uuid}])
        assert await store.load(KEY) == [{"type": "x", "uuid": uuid}]

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_deleted_session_is_in_the_trash_and_can_be_written_again(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async def run(store: SMPSessionStore) -> None:
        await store.append(KEY, [_entry(1, "user", "before")])
        await store.delete(KEY)
        assert await store.load(KEY) is None
        await store.append(KEY, [_entry(2, "user", "after")])
        assert [entry["message"]["content"] for entry in await store.load(KEY) or []] == ["after"]

    with smp_memory.open(make_address(kind, tmp_path, request)) as memory:
        asyncio.run(run(SMPSessionStore(memory)))
        assert len(memory.deleted_sessions()) == 1


def test_functions_of_the_sdk_read_the_store(store: SMPSessionStore) -> None:
    entries = [_entry(1, "user", "Hello there"), _entry(2, "assistant", [{"type": "text", "text": "Hi"}])]

    async def run() -> None:
        await store.append(KEY, entries)
        [found] = await list_sessions_from_store(store, directory=None)
        assert (found.session_id, found.first_prompt) == (KEY["session_id"], "Hello there")
        messages = await get_session_messages_from_store(store, KEY["session_id"])
        assert [message.type for message in messages] == ["user", "assistant"]

    KEY["project_key"] = project_key_for_directory(None)
    asyncio.run(run())


# -- several processes

_APPENDER = """
import asyncio, sys
from smp_memory.adapters.claude_agent_sdk import SMPSessionStore
address, me, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
async def run():
    store = SMPSessionStore(address)
    for number in range(count):
        entries = [{"type": "user", "uuid": f"{me}-{number}-{part}", "message": {"role": "user", "content": f"{me} {number}"}} for part in (1, 2)]
        await store.append({"project_key": "p", "session_id": "s"}, [*entries, {"type": "x", f"{me}": number, "customTitle": f"{me} {number}"}])
        print(number, flush=True)
asyncio.run(run())
"""


def _start(address: str, me: str, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", _APPENDER, address, me, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_processes_append_to_one_session(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address, count = make_address(kind, tmp_path, request), 8
    started = [_start(address, me, count) for me in ("a", "b", "c")]
    assert [len(process.communicate(timeout=100)[0].split()) for process in started] == [count] * 3
    store = SMPSessionStore(address)
    entries = asyncio.run(store.load({"project_key": "p", "session_id": "s"})) or []
    for me in ("a", "b", "c"):
        assert [entry[me] for entry in entries if me in entry] == list(range(count))
    assert len(entries) == 9 * count
    [summary] = asyncio.run(store.list_session_summaries("p"))
    last = [entry["customTitle"] for entry in entries if "customTitle" in entry][-1]
    assert summary["data"]["custom_title"] == last  # no fold was lost
    asyncio.run(store.close())


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_killed_process_loses_no_acknowledged_batch(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address = make_address(kind, tmp_path, request)
    process = _start(address, "a", 10_000)
    assert process.stdout is not None
    acknowledged = -1
    until = time.monotonic() + 30
    while acknowledged < 5 and time.monotonic() < until:
        acknowledged = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    rest = process.communicate(timeout=100)[0].split()
    acknowledged = int(rest[-1]) if rest else acknowledged
    store = SMPSessionStore(address)
    entries = asyncio.run(store.load({"project_key": "p", "session_id": "s"})) or []
    assert len(entries) % 3 == 0  # batches are whole
    assert [entry["a"] for entry in entries if "a" in entry][: acknowledged + 1] == list(range(acknowledged + 1))
    asyncio.run(store.close())


# -- runs of the SDK, with a script in the place of its command line


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_resumed_run_knows_the_first(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    command = tmp_path / "claude"
    script = Path(__file__).parent / "scripted_claude.py"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()

    async def ask(prompt: str, **options: Any) -> tuple[str, str]:
        store = SMPSessionStore(address)
        chosen = ClaudeAgentOptions(session_store=store, cli_path=str(command), cwd=work, **options)
        messages = [message async for message in query(prompt=prompt, options=chosen)]
        [said] = [message for message in messages if isinstance(message, AssistantMessage)]
        [result] = [message for message in messages if isinstance(message, ResultMessage)]
        await store.close()
        return said.content[0].text, result.session_id  # type: ignore[union-attr]

    address = make_address(kind, tmp_path, request)
    first, session = asyncio.run(ask("I am Ada."))
    assert first == "Before: []"
    assert asyncio.run(ask("Who am I?", resume=session)) == ("Before: ['I am Ada.']", session)
    with smp_memory.open(address) as memory:
        assert "I am Ada." in [hit.record.text for hit in memory.query("Ada", types="conversation")]


def test_example_of_the_page_runs(tmp_path: Path) -> None:
    assert run_page("claude-agent-sdk.md", tmp_path).splitlines()[-1] == "1 ['user']"
