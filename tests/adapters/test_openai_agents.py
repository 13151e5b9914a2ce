"""Sessions of the OpenAI Agents SDK in a store: the protocol, runs with a scripted model, several processes, a kill, odd items."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="needs openai-agents; ./dev test-adapters installs it")

from agents import Agent, Runner, Session, SessionSettings, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory.adapters.openai_agents import SMPSession
from smp_memory.errors import InvalidRecord
from tests.adapters.pages import run_page
from tests.adapters.stores import KINDS, make_address

set_tracing_disabled(True)


@pytest.fixture
def session() -> Iterator[SMPSession]:
    with smp_memory.open(":memory:") as memory:
        yield SMPSession(memory, "talk")


def _item(text: str, role: str = "user") -> Any:
    return {"role": role, "content": text}


ITEMS: list[Any] = [
    _item("Which database holds the invoices?"),
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": base64.b64encode(bytes(2000)).decode()},
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"at": "docs"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "PostgreSQL"},
    {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [{"type": "output_text", "text": "In PostgreSQL.", "annotations": []}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64," + "QUJD" * 600_000}]},
    _item("👋 ü\x00\u2028 \ud83d"),
    _item(""),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_items_come_back_equal_and_in_order(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address = make_address(kind, tmp_path, request)

    async def run(session: SMPSession) -> None:
        assert isinstance(session, Session)
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items(ITEMS[:3])
        await session.add_items(ITEMS[3:])
        again = SMPSession(session.bridge.memory, "talk")
        assert await again.get_items() == ITEMS
        assert [await again.get_items(limit) for limit in (0, -1, 2, 100)] == [[], [], ITEMS[-2:], ITEMS]
        assert [await session.pop_item() for _ in range(3)] == ITEMS[:-4:-1]
        assert await SMPSession(session.bridge.memory, "other").get_items() == []
        await session.clear_session()
        assert await session.get_items() == []

    with smp_memory.open(address, config={"durability": "os"}) as memory:
        asyncio.run(run(SMPSession(memory, "talk")))
        assert len(memory.sessions()) == 1
        assert (
            len([trashed for trashed in memory.sessions()[0].deleted() if trashed.record.type == "conversation"]) == 8
        )


def test_limit_of_the_settings_holds_unless_another_is_given() -> None:
    with smp_memory.open(":memory:") as memory:
        session = SMPSession(memory, "talk", session_settings={"limit": 1})
        assert session.session_settings == SessionSettings(limit=1)
        asyncio.run(session.add_items([_item("a"), _item("b"), _item("c")]))
        assert asyncio.run(session.get_items()) == [_item("c")]
        assert asyncio.run(session.get_items(2)) == [_item("b"), _item("c")]


def test_words_of_a_conversation_are_found_by_queries(session: SMPSession) -> None:
    asyncio.run(session.add_items(ITEMS[:6]))
    hits = session.bridge.memory.query("postgresql")
    assert {hit.record.content for hit in hits} == {"In PostgreSQL.", "[tool result: PostgreSQL]"}


def test_item_that_is_not_json_is_refused_and_nothing_is_added(session: SMPSession) -> None:
    for wrong in ({"role": "user", "content": "x", "at": object()}, {"role": "user", "content": float("nan")}):
        with pytest.raises(InvalidRecord, match="exact"):
            asyncio.run(session.add_items([_item("first"), wrong]))  # type: ignore[list-item]
    assert asyncio.run(session.get_items()) == []


def test_secrets_are_redacted(session: SMPSession) -> None:
    asyncio.run(session.add_items([_item("password = hunter2hunter2"), {"role": "user", "content": [{"api_key": "hunter2hunter2"}]}]))  # type: ignore[list-item]  # fmt: skip
    assert "hunter2" not in json.dumps(asyncio.run(session.get_items()))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.just("pop"), st.dictionaries(st.text(max_size=5), JSON, max_size=4)), max_size=8))
def test_any_items_behave_as_in_a_list(steps: list[Any]) -> None:
    async def run(session: SMPSession) -> None:
        expected: list[Any] = []
        for step in steps:
            if step == "pop":
                assert await session.pop_item() == (expected.pop() if expected else None)
            else:
                await session.add_items([step])
                expected.append(step)
        assert await session.get_items() == expected

    with smp_memory.open(":memory:", config={"privacy": {"redaction": {"enabled": False}}}) as memory:
        asyncio.run(run(SMPSession(memory)))


# -- runs with a scripted model

_RUN = """
import asyncio, json, sys
from agents import Agent, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message
from smp_memory.adapters.openai_agents import SMPSession
set_tracing_disabled(True)
model = ScriptedModel([[assistant_message(sys.argv[3])]])
asyncio.run(Runner.run(Agent(name="a", model=model), sys.argv[2], session=SMPSession(sys.argv[1], "ada")))
print(json.dumps(model.last_call.input))
"""


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_second_process_remembers_the_first(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address = make_address(kind, tmp_path, request)

    def ask(question: str, answer: str) -> str:
        words = [sys.executable, "-c", _RUN, address, question, answer]
        return subprocess.run(words, capture_output=True, text=True, timeout=100, check=True).stdout

    assert len(json.loads(ask("I am Ada.", "Hello Ada."))) == 1
    told = ask("Who am I?", "You are Ada.")
    assert "I am Ada." in told
    assert "Hello Ada." in told
    assert len(json.loads(told)) == 3


def test_run_with_a_tool_and_with_a_stream(session: SMPSession) -> None:
    @function_tool
    def look(what: str) -> str:
        """Look something up."""
        return f"{what}: 42"

    async def run() -> None:
        call = function_call("look", {"what": "rows"}, call_id="call_1")
        model = ScriptedModel([[call], [assistant_message("42 rows.")], [assistant_message("As I said: 42.")]])
        agent = Agent(name="a", model=model, tools=[look])
        assert (await Runner.run(agent, "How many rows?", session=session)).final_output == "42 rows."
        streamed = Runner.run_streamed(agent, "How many?", session=session)
        async for _ in streamed.stream_events():
            pass
        assert streamed.final_output == "As I said: 42."
        assert "rows: 42" in json.dumps(model.last_call.input)  # type: ignore[union-attr]
        assert len(await session.get_items()) == 6

    asyncio.run(run())


# -- several processes

_ADDER = """
import asyncio, sys
from smp_memory.adapters.openai_agents import SMPSession
async def run():
    session = SMPSession(sys.argv[1], "talk")
    for number in range(int(sys.argv[3])):
        await session.add_items([{"role": "user", "content": f"{sys.argv[2]} {number} {part}"} for part in range(3)])
        print(number, flush=True)
asyncio.run(run())
"""


def _start(address: str, me: str, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", _ADDER, address, me, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_processes_add_to_one_session(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address, count = make_address(kind, tmp_path, request), 10
    started = [_start(address, me, count) for me in ("a", "b")]
    assert [len(process.communicate(timeout=100)[0].split()) for process in started] == [count, count]
    session = SMPSession(address, "talk")
    items: list[Any] = asyncio.run(session.get_items())
    for me in "ab":
        mine = [item["content"] for item in items if item["content"].startswith(me)]
        assert mine == [f"{me} {number} {part}" for number in range(count) for part in range(3)]
    session.close()


def test_killed_process_loses_no_acknowledged_item(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address = make_address("jsonl", tmp_path, request)
    process = _start(address, "a", 10_000)
    assert process.stdout is not None
    for _ in range(5):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    rest = process.communicate(timeout=100)[0].split()
    acknowledged = 3 * ((int(rest[-1]) if rest else 4) + 1)
    session = SMPSession(address, "talk")
    items: list[Any] = asyncio.run(session.get_items())
    assert len(items) >= acknowledged
    assert [item["content"] for item in items[:3]] == ["a 0 0", "a 0 1", "a 0 2"]
    asyncio.run(session.add_items([_item("after")]))
    assert asyncio.run(session.get_items(1)) == [_item("after")]
    session.close()


def test_tasks_of_one_process_add_to_one_session(session: SMPSession) -> None:
    async def run() -> None:
        await asyncio.gather(*(session.add_items([_item(f"{number} a"), _item(f"{number} b")]) for number in range(20)))
        items: list[Any] = await session.get_items()
        assert len(items) == 40
        popped = await asyncio.gather(*(session.pop_item() for _ in range(50)))
        assert sorted(str(item) for item in popped if item) == sorted(map(str, items))

    asyncio.run(run())


def test_example_of_the_page_runs(tmp_path: Path) -> None:
    assert run_page("openai-agents.md", tmp_path) == "You are Ada. 4\n['assistant']\n"
