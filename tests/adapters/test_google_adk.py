"""Google ADK: the memory service beside the framework's own, and a real Runner with a scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory

pytest.importorskip("google.adk", reason="needs the extra google-adk")

from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.tools import load_memory, preload_memory
from google.genai import types

from smp_memory.adapters.google_adk import SMPMemoryService
from tests.adapters.pages import run_page
from tests.adapters.processes import run_killed, run_together

ADA = {"app_name": "shop", "user_id": "ada"}
SECRET = "sk-ant-api03-" + "x9Kq2" * 8


def run(awaitable: Any) -> Any:
    return asyncio.run(awaitable)


def content(text: str, role: str = "user") -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def event(id: str, text: str, author: str = "user", timestamp: float = 1_700_000_000.25) -> Event:
    return Event(id=id, author=author, content=content(text), timestamp=timestamp)


def session(*events: Event, id: str = "one", user: str = "ada") -> Session:
    return Session(id=id, app_name="shop", user_id=user, events=list(events))


def found(service: Any, query: str, **who: str) -> list[MemoryEntry]:
    return list(run(service.search_memory(query=query, **{**ADA, **who})).memories)


def texts(entries: list[MemoryEntry]) -> list[str]:
    return [entry.content.parts[0].text for entry in entries]


def test_session_is_found_by_another_process(store_address: str) -> None:
    run(SMPMemoryService(store_address).add_session_to_memory(session(event("e1", "We chose PostgreSQL."), event("e2", "Noted.", "assistant"))))  # fmt: skip
    entry = found(SMPMemoryService(store_address), "PostgreSQL")[0]
    assert (entry.id, entry.author, entry.content) == ("e1", "user", content("We chose PostgreSQL."))
    assert entry.timestamp == "2023-11-14T22:13:20.250000+00:00"


def test_session_that_is_added_again_adds_its_new_events_only() -> None:
    service = SMPMemoryService(smp_memory.open(":memory:"))
    run(service.add_session_to_memory(session(event("e1", "We chose PostgreSQL."))))
    run(service.add_session_to_memory(session(event("e1", "We chose PostgreSQL."), event("e2", "PostgreSQL it is."))))
    run(service.add_events_to_memory(events=[event("e2", "PostgreSQL it is.")], session_id="one", **ADA))
    assert sorted(texts(found(service, "PostgreSQL"))) == ["PostgreSQL it is.", "We chose PostgreSQL."]


def test_deleted_memory_stays_deleted_when_its_session_is_added_again() -> None:
    service = SMPMemoryService(smp_memory.open(":memory:"))
    talk = session(event("e1", "We chose PostgreSQL."))
    run(service.add_session_to_memory(talk))
    run(service.delete_memory(memory_id="e1", **ADA))
    run(service.add_session_to_memory(talk))
    assert found(service, "PostgreSQL") == []
    run(service.delete_memory(memory_id="e1", **ADA))
    run(service.delete_memory(memory_id="never", **ADA))
    run(service.delete_memory(**ADA))


def test_users_and_apps_are_apart() -> None:
    service = SMPMemoryService(smp_memory.open(":memory:"))
    run(service.add_session_to_memory(session(event("e1", "Ada chose PostgreSQL."))))
    run(service.add_session_to_memory(session(event("e1", "Bob chose PostgreSQL."), user="bob")))
    assert texts(found(service, "PostgreSQL", user_id="bob")) == ["Bob chose PostgreSQL."]
    assert found(service, "PostgreSQL", app_name="other") == []
    run(service.delete_memory(memory_id="e1", app_name="shop", user_id="bob"))
    assert texts(found(service, "PostgreSQL")) == ["Ada chose PostgreSQL."]


def test_searching_makes_no_session() -> None:
    memory = smp_memory.open(":memory:")
    assert found(SMPMemoryService(memory), "anything") == []
    run(SMPMemoryService(memory).delete_memory(memory_id="e1", **ADA))
    assert memory.sessions() == []


def test_direct_memories_are_found_and_deleted() -> None:
    service = SMPMemoryService(smp_memory.open(":memory:"))
    written = MemoryEntry(content=content("Ada likes tea."), author="host", custom_metadata={"kind": "taste"})
    run(service.add_memory(memories=[written], **ADA))
    [entry] = found(service, "tea")
    assert (entry.content, entry.author, entry.custom_metadata) == (written.content, "host", {"kind": "taste"})
    run(service.add_memory(memories=[entry.model_copy(update={"content": content("Ada likes green tea.")})], **ADA))
    assert texts(found(service, "tea")) == ["Ada likes green tea."]
    assert entry.id
    run(service.delete_memory(memory_id=entry.id, **ADA))
    assert found(service, "tea") == []


def test_attached_bytes_are_named_and_not_stored() -> None:
    service = SMPMemoryService(smp_memory.open(":memory:"))
    parts = [
        types.Part(text="Our logo."),
        types.Part(inline_data=types.Blob(data=b"x" * 3_000_000, mime_type="image/png")),
    ]
    run(
        service.add_session_to_memory(
            session(Event(id="e1", author="user", content=types.Content(role="user", parts=parts)))
        )
    )
    [entry] = found(service, "logo")
    assert [part.text for part in entry.content.parts] == ["Our logo.", "[image/png, 3000000 bytes, not stored]"]


@pytest.mark.parametrize("id", ["é" * 200, "a/../b", "", "TURN-0001", "con", "x y\n"])
def test_any_id_of_events_sessions_and_users(id: str) -> None:
    service = SMPMemoryService(smp_memory.open(":memory:"))
    run(service.add_events_to_memory(events=[Event(id=id, author=id or "user", content=content("We chose PostgreSQL."))], app_name=id, user_id=id, session_id=id))  # fmt: skip
    [entry] = found(service, "PostgreSQL", app_name=id, user_id=id)
    assert entry.id
    run(service.delete_memory(memory_id=entry.id, app_name=id, user_id=id))
    assert found(service, "PostgreSQL", app_name=id, user_id=id) == []


def test_secret_comes_back_redacted() -> None:
    service = SMPMemoryService(smp_memory.open(":memory:"))
    run(service.add_session_to_memory(session(event("e1", f"The token of PostgreSQL is {SECRET}."))))
    assert SECRET not in texts(found(service, "PostgreSQL"))[0]


WORDS = st.sampled_from(["falcon", "granite", "lantern", "orchard", "violin"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("st"), st.lists(st.tuples(st.integers(0, 5), WORDS), max_size=3)),
        st.tuples(st.just("delete"), st.just(""), st.integers(0, 5)),
    ),
    max_size=8,
)


@settings(max_examples=25)
@given(steps=STEPS)
def test_each_word_finds_first_what_the_own_service_of_adk_finds(steps: list[Any]) -> None:
    own, ours = InMemoryMemoryService(), SMPMemoryService(smp_memory.open(":memory:"))
    for name, place, argument in steps:
        for service in (own, ours):
            if (
                name == "add"
            ):  # the text of an event follows from its id: ids of events are unique and events do not change
                events = [event(f"{place}{number}", f"The {word} number {number}") for number, word in argument]
                unique = {each.id: each for each in events}
                run(service.add_events_to_memory(events=list(unique.values()), session_id=place, **ADA))
            else:
                run(service.delete_memory(memory_id=f"s{argument}", **ADA))
    for word in ("falcon", "granite", "lantern", "orchard", "violin"):
        expected = {entry.id for entry in found(own, word)}
        best = [entry.id for entry in found(ours, word)][: len(expected)]  # SMP adds what was said beside it
        assert set(best) == expected


class Scripted(BaseLlm):
    model: str = "scripted"
    script: list[Any]
    seen: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        self.seen.append(llm_request.model_dump_json(include={"contents"}))
        yield LlmResponse(content=types.Content(role="model", parts=[self.script.pop(0)]))


async def talk(address: str, id: str, text: str, script: list[Any], tool: Any) -> Scripted:
    """One conversation in a program of its own: its sessions are forgotten, its memory is not."""
    model = Scripted(script=script, seen=[])
    sessions, memories = InMemorySessionService(), SMPMemoryService(address)
    agent = LlmAgent(name="assistant", model=model, instruction="Help.", tools=[tool])
    runner = Runner(app_name="shop", agent=agent, session_service=sessions, memory_service=memories)
    await sessions.create_session(**ADA, session_id=id)
    async for _ in runner.run_async(user_id="ada", session_id=id, new_message=content(text)):
        pass
    stored = await sessions.get_session(**ADA, session_id=id)
    assert stored
    await memories.add_session_to_memory(stored)
    return model


def test_runner_answers_from_an_earlier_session(store_address: str) -> None:
    run(talk(store_address, "one", "We chose PostgreSQL as the database.", [types.Part(text="Noted.")], load_memory))
    call = types.Part(function_call=types.FunctionCall(name="load_memory", args={"query": "which database"}))
    model = run(talk(store_address, "two", "Which database?", [call, types.Part(text="PostgreSQL.")], load_memory))
    assert "We chose PostgreSQL as the database." in model.seen[-1]


def test_runner_preloads_what_an_earlier_session_said(store_address: str) -> None:
    run(talk(store_address, "one", "We chose PostgreSQL as the database.", [types.Part(text="Noted.")], preload_memory))
    model = run(talk(store_address, "two", "Which database?", [types.Part(text="PostgreSQL.")], preload_memory))
    assert "PAST_CONVERSATIONS" in model.seen[0]
    assert "We chose PostgreSQL as the database." in model.seen[0]


_ADD = """
import asyncio, sys
from google.adk.events import Event
from google.genai import types
from smp_memory.adapters.google_adk import SMPMemoryService
def event(name, number):
    return Event(id=f"{name}{number}", author="user", content=types.Content(parts=[types.Part(text=f"falcon {name} {number}")]))
async def main():
    service = SMPMemoryService(sys.argv[1], limit=1000)
    for number in range(int(sys.argv[3])):
        events = [event(sys.argv[2], number), event("both", number)]
        await service.add_events_to_memory(app_name="shop", user_id="ada", events=events, session_id="one")
        print(number, flush=True)
asyncio.run(main())
"""


def test_processes_add_events_of_one_session(store_address: str) -> None:
    run_together(_ADD, store_address, ["one", "two"], 10)
    ids = [entry.id for entry in found(SMPMemoryService(store_address, limit=1000), "falcon")]
    assert sorted(ids) == sorted(f"{name}{number}" for name in ("one", "two", "both") for number in range(10))


@pytest.mark.crash
def test_acknowledged_events_survive_a_kill(store_address: str) -> None:
    acknowledged = run_killed(_ADD, store_address)
    ids = {entry.id for entry in found(SMPMemoryService(store_address, limit=1000), "falcon")}
    assert {f"{name}{number}" for name in ("one", "both") for number in range(acknowledged)} <= ids


def test_example_of_the_page(tmp_path: Path) -> None:
    assert run_page("google-adk.md", tmp_path).splitlines()[-1] == "PostgreSQL."
