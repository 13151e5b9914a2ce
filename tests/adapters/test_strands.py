"""Strands: the session repository beside the framework's own, the memory store, and real agents with a scripted model."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory

pytest.importorskip("strands", reason="needs the extra strands")

from strands import Agent
from strands.memory import MemoryManager
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from smp_memory.adapters.strands import SMPMemoryStore, SMPSessionRepository
from tests.adapters.pages import run_page
from tests.adapters.processes import run_killed, run_together

SECRET = "sk-ant-api03-" + "x9Kq2" * 8
TIMES = {"created_at": "2026-01-31T12:00:00+00:00", "updated_at": "2026-01-31T12:00:01+00:00"}


def new() -> SMPSessionRepository:
    return SMPSessionRepository(smp_memory.open(":memory:"))


def agent(id: str = "architect", **state: Any) -> SessionAgent:
    return SessionAgent(id, state, {"removed": 0}, {"model_state": {"raw": b"\x00\xff"}}, **TIMES)


def message(number: int, text: str = "Hello", role: Any = "user") -> SessionMessage:
    return SessionMessage({"role": role, "content": [{"text": text}]}, number, **TIMES)


def with_agent(repository: Any, session: str = "s") -> Any:
    repository.create_session(Session(session, SessionType.AGENT, **TIMES))
    repository.create_agent(session, agent())
    return repository


def test_session_agent_and_messages_come_back_equal(store_address: str) -> None:
    given = [
        message(0, "What is this?"),
        SessionMessage({"role": "assistant", "content": [{"text": "I look."}, {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"a": [1, None]}}}]}, 1, **TIMES),
        SessionMessage({"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"json": {"é": 1.5}}]}}]}, 2, **TIMES),
        SessionMessage({"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": b"\x00\x01"}}}], "metadata": {"k": "v"}}, 3, **TIMES),
        SessionMessage({"role": "assistant", "content": []}, 4, **TIMES),
    ]  # fmt: skip
    repository = with_agent(SMPSessionRepository(store_address))
    for each in given:
        repository.create_message("s", "architect", each)
    again = SMPSessionRepository(store_address)
    assert again.read_session("s") == Session("s", SessionType.AGENT, **TIMES)
    assert again.read_agent("s", "architect") == agent()
    assert again.list_messages("s", "architect") == given
    assert again.read_message("s", "architect", 1) == given[1]


def test_missing_things_are_none_or_session_exceptions() -> None:
    memory = smp_memory.open(":memory:")
    repository = SMPSessionRepository(memory)
    assert repository.read_session("s") is None
    assert repository.read_agent("s", "architect") is None
    assert repository.read_message("s", "architect", 0) is None
    assert repository.read_multi_agent("s", "graph") is None
    for call in (
        lambda: repository.list_messages("s", "architect"),
        lambda: repository.update_agent("s", agent()),
        lambda: repository.update_message("s", "architect", message(0)),
        lambda: repository.delete_session("s"),
    ):
        with pytest.raises(SessionException):
            call()
    assert memory.sessions() == []


def test_session_is_made_once_and_again_after_it_was_deleted() -> None:
    repository = with_agent(new())
    with pytest.raises(SessionException):
        repository.create_session(Session("s", SessionType.AGENT))
    repository.create_message("s", "architect", message(0, "old"))
    repository.delete_session("s")
    with_agent(repository)
    assert repository.list_messages("s", "architect") == []


def test_replaced_message_shows_its_replacement_only() -> None:
    memory = smp_memory.open(":memory:")
    repository = with_agent(SMPSessionRepository(memory))
    for number, text in enumerate(("one", "a bad word", "three")):
        repository.create_message("s", "architect", message(number, text))
    changed = message(1, "a bad word")
    changed.redact_message = {"role": "user", "content": [{"text": "removed by a guardrail"}]}
    repository.update_message("s", "architect", changed)
    assert repository.read_message("s", "architect", 1) == changed
    assert [each.message_id for each in repository.list_messages("s", "architect")] == [0, 1, 2]
    assert [hit.text for hit in memory.query("guardrail")][:1] == ["removed by a guardrail"]
    assert "a bad word" not in [hit.text for hit in memory.query("bad word")]


def test_agents_of_one_session_are_apart() -> None:
    repository = with_agent(new())
    repository.create_agent("s", agent("tester"))
    repository.create_message("s", "architect", message(0, "mine"))
    repository.create_message("s", "tester", message(0, "theirs"))
    assert repository.list_messages("s", "tester") == [message(0, "theirs")]


@pytest.mark.parametrize("id", ["é" * 200, "a/../b", "", "con", "x y\n", "memories of"])
def test_any_id(id: str) -> None:
    repository = new()
    repository.create_session(Session(id, SessionType.AGENT, **TIMES))
    repository.create_agent(id, agent(id))
    repository.create_message(id, id, message(0, id))
    assert repository.read_agent(id, id) == agent(id)
    assert repository.list_messages(id, id) == [message(0, id)]


def test_states_are_exact_and_messages_are_redacted() -> None:
    repository = with_agent(new())
    repository.update_agent("s", agent(token=SECRET))
    repository.create_message("s", "architect", message(0, f"The token is {SECRET}"))
    read = repository.read_agent("s", "architect")
    assert read
    assert read.state == {"token": SECRET}
    assert SECRET not in str(repository.list_messages("s", "architect"))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from("ab"), st.integers(0, 4)),
        st.tuples(st.just("update"), st.sampled_from("ab"), st.integers(0, 4)),
        st.tuples(st.just("agent"), st.sampled_from("ab"), st.integers(0, 4)),
    ),
    max_size=10,
)


def _apply(repository: Any, name: str, id: str, number: int, place: int) -> Any:
    try:
        if name == "agent":
            return repository.create_agent("s", agent(id, number=number, place=place))
        if name == "create":
            return repository.create_message("s", id, message(number, f"text {place}"))
        return repository.update_message("s", id, message(number, f"text {place}"))
    except SessionException:
        return "refused"


def _state(repository: Any) -> Any:
    shown: list[Any] = []
    for id in "ab":
        shown.append(repository.read_agent("s", id))
        if shown[-1] is not None:
            shown += [repository.list_messages("s", id), repository.list_messages("s", id, limit=1, offset=1)]
        shown += [repository.read_message("s", id, number) for number in range(5)]
    return shown


@settings(max_examples=25)
@given(steps=STEPS)
def test_repository_does_what_the_own_one_of_strands_does(steps: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        own, ours = FileSessionManager("s", folder), new()
        ours.create_session(Session("s", SessionType.AGENT))
        for place, step in enumerate(steps):
            assert _apply(ours, *step, place) == _apply(own, *step, place)
            assert _state(ours) == _state(own)


# -- the memory store


def test_memory_store_recalls_the_store_and_adds_to_it(store_address: str) -> None:
    with smp_memory.open(store_address) as memory:
        memory.create_session("notes").add_decision("We use PostgreSQL as the database", author="architect")
    store = SMPMemoryStore(store_address)
    [entry] = asyncio.run(store.search("Which database do we use?"))
    assert (entry.content, entry.metadata["type"]) == ("We use PostgreSQL as the database", "decision")
    asyncio.run(store.add("Ada prefers green tea", {"source": "chat"}))
    [entry] = asyncio.run(SMPMemoryStore(store_address).search("What does Ada prefer?"))
    assert (entry.content, entry.metadata["source"]) == ("Ada prefers green tea", "chat")
    assert asyncio.run(SMPMemoryStore(store_address, options={"sessions": ["notes"]}).search("Ada tea")) == []
    assert asyncio.run(store.search("")) == []


# -- real agents


class Scripted(Model):
    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.seen: list[str] = []

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.seen.append(str(messages))
        said = self.script.pop(0)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(said, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": said}}}
        else:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "t1", "name": said[0]}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": said[1]}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(said, str) else "tool_use"}}


def test_agent_goes_on_where_it_stopped(store_address: str) -> None:
    def talk(text: str, *script: Any) -> Scripted:
        model = Scripted(*script)
        manager = RepositorySessionManager("talk", SMPSessionRepository(store_address))
        speaker = Agent(model=model, agent_id="helper", session_manager=manager, callback_handler=None)
        speaker.state.set("turns", (speaker.state.get("turns") or 0) + 1)
        assert str(speaker(text)).strip() == script[-1]
        assert len(speaker.messages) == 2 * speaker.state.get("turns")
        return model

    talk("My name is Ada.", "Hello Ada.")
    model = talk("What is my name?", "Ada.")
    assert "My name is Ada." in model.seen[0]
    assert "Hello Ada." in model.seen[0]


def test_agent_is_given_memories_and_adds_one(store_address: str) -> None:
    with smp_memory.open(store_address) as memory:
        memory.create_session("notes").add_decision("We use PostgreSQL as the database", author="architect")

    def ask(text: str, *script: Any) -> Scripted:
        model = Scripted(*script)
        manager = MemoryManager([SMPMemoryStore(store_address)], add_tool_config=True)
        Agent(model=model, memory_manager=manager, callback_handler=None)(text)
        return model

    call = ("add_memory", '{"entries": ["The database has two replicas"]}')
    first = ask("Which database do we use?", call, "PostgreSQL.")
    assert "We use PostgreSQL as the database" in first.seen[0]
    assert "The database has two replicas" in ask("How many replicas has the database?", "Two.").seen[0]


_ADD = """
import sys
from strands.types.session import SessionAgent, SessionMessage
from smp_memory.adapters.strands import SMPSessionRepository
repository = SMPSessionRepository(sys.argv[1])
repository.create_agent("s", SessionAgent(sys.argv[2], {}, {}))
for number in range(int(sys.argv[3])):
    text = {"role": "user", "content": [{"text": f"{sys.argv[2]} {number}"}]}
    repository.create_message("s", sys.argv[2], SessionMessage(text, number))
    print(number, flush=True)
"""


def test_processes_write_as_agents_of_one_session(store_address: str) -> None:
    run_together(_ADD, store_address, ["one", "two"], 10)
    repository = SMPSessionRepository(store_address)
    for name in ("one", "two"):
        texts = [each.message["content"][0]["text"] for each in repository.list_messages("s", name)]
        assert texts == [f"{name} {number}" for number in range(10)]


@pytest.mark.crash
def test_acknowledged_messages_survive_a_kill(store_address: str) -> None:
    acknowledged = run_killed(_ADD, store_address)
    assert len(SMPSessionRepository(store_address).list_messages("s", "one")) in (acknowledged, acknowledged + 1)


def test_example_of_the_page(tmp_path: Path) -> None:
    assert run_page("strands.md", tmp_path) == "PostgreSQL.\n2\n"
