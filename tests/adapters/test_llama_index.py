"""LlamaIndex: the chat store beside the framework's own, the memory block, and agents with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory

pytest.importorskip("llama_index.core", reason="needs the extra llama-index")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from smp_memory.adapters.llama_index import SMPChatStore, SMPMemoryBlock
from smp_memory.privacy.fence import fence
from tests.adapters.pages import run_page
from tests.adapters.processes import run_killed, run_together

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED
QUICK = {"durability": "os"}
LETTERS_OF_SECRETS = "sk-ant-api03-" + "x9Kq2" * 8


def run(awaitable: Any) -> Any:
    return asyncio.run(awaitable)


def words(messages: Sequence[ChatMessage]) -> list[str]:
    return [message.content or "" for message in messages]


# -- the chat store


def test_messages_come_back_equal(store_address: str) -> None:
    messages = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", blocks=[TextBlock(text="What is this?"), ImageBlock(image=b"\x00\x01", image_mimetype="image/png")]),
        ChatMessage(role="assistant", blocks=[ThinkingBlock(content="Hm."), ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"a": 1})]),
        ChatMessage(role="tool", content="42", additional_kwargs={"tool_call_id": "c1", "deep": {"x": [None, 1.5, "é"]}}),
        ChatMessage(role="user", content=""),
    ]  # fmt: skip
    run(SMPChatStore(store_address).add_messages("thread/1", messages))
    assert run(SMPChatStore(store_address).get_messages("thread/1")) == messages
    assert run(SMPChatStore(store_address).get_keys()) == ["thread/1"]


@pytest.mark.parametrize("key", ["a", "A", "user:1/../2", "ключ 🗝", "x" * 300, "", "con", "-", " a "])
def test_any_key_is_a_key_of_its_own(key: str) -> None:
    store = SMPChatStore(smp_memory.open(":memory:"))
    others = ["a", "A", "a ", "user-1-2", "x" * 299]
    run(store.add_message(key, ChatMessage(role="user", content="mine")))
    for other in others:
        if other != key:
            run(store.add_message(other, ChatMessage(role="user", content="theirs")))
    assert words(run(store.get_messages(key))) == ["mine"]
    assert key in run(store.get_keys())


def test_reading_an_unknown_key_makes_no_session() -> None:
    memory = smp_memory.open(":memory:")
    store = SMPChatStore(memory)
    assert run(store.get_messages("none")) == []
    assert run(store.count_messages("none")) == 0
    assert run(store.delete_message("none", 1)) is None
    assert run(store.delete_oldest_messages("none", 2)) == []
    run(store.delete_messages("none"))
    assert memory.sessions() == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from([ACTIVE, ARCHIVED])),
        st.tuples(st.just("add many"), st.integers(1, 3)),
        st.tuples(st.just("set"), st.integers(0, 3)),
        st.tuples(st.just("archive"), st.integers(0, 4)),
        st.tuples(st.just("delete oldest"), st.integers(0, 3)),
        st.tuples(st.just("delete all"), st.sampled_from([None, ACTIVE, ARCHIVED])),
    ),
    max_size=12,
)


async def _apply(store: Any, name: str, argument: Any, number: int) -> Any:
    def message(place: int) -> ChatMessage:
        return ChatMessage(role=("user", "assistant")[place % 2], content=f"message {number}.{place}")

    match name:
        case "add":
            return await store.add_message("k", message(0), argument)
        case "add many":
            return await store.add_messages("k", [message(place) for place in range(argument)])
        case "set":
            return await store.set_messages("k", [message(place) for place in range(argument)])
        case "archive":
            return words(await store.archive_oldest_messages("k", argument))
        case "delete oldest":
            return words(await store.delete_oldest_messages("k", argument))
        case _:
            return await store.delete_messages("k", argument)


async def _state(store: Any) -> Any:
    listed = [words(await store.get_messages("k", status)) for status in (None, ACTIVE, ARCHIVED)]
    page = words(await store.get_messages("k", None, limit=2, offset=1))
    return listed, page, [await store.count_messages("k", status) for status in (None, ACTIVE, ARCHIVED)]


@settings(max_examples=25)
@given(steps=STEPS)
def test_chat_store_does_what_the_own_one_of_llama_index_does(steps: list[tuple[str, Any]]) -> None:
    async def both() -> None:
        own = SQLAlchemyChatStore("messages")
        ours = SMPChatStore(smp_memory.open(":memory:"))
        for number, (name, argument) in enumerate(steps):
            assert await _apply(ours, name, argument, number) == await _apply(own, name, argument, number)
            assert await _state(ours) == await _state(own)
        if own._async_engine:
            await own._async_engine.dispose()

    run(both())


def test_delete_message_takes_the_number_of_a_message() -> None:
    store = SMPChatStore(smp_memory.open(":memory:"))
    run(store.add_messages("k", [ChatMessage(role="user", content=text) for text in "abc"]))
    assert run(store.delete_message("k", 2)).content == "b"
    assert run(store.delete_message("k", 2)) is None
    assert words(run(store.get_messages("k"))) == ["a", "c"]


def test_secret_comes_back_redacted() -> None:
    store = SMPChatStore(smp_memory.open(":memory:"))
    run(store.add_message("k", ChatMessage(role="user", content=f"The key is {LETTERS_OF_SECRETS}.")))
    assert LETTERS_OF_SECRETS not in run(store.get_messages("k"))[0].content


def test_message_with_recalled_text_alone_breaks_no_chat() -> None:
    store, told = SMPChatStore(smp_memory.open(":memory:")), fence("We use PostgreSQL")
    blocks = [TextBlock(text=told), TextBlock(text=f"Which?\n{told}")]
    run(store.add_messages("k", [ChatMessage(role="tool", content=told), ChatMessage(role="user", blocks=blocks)]))
    read = run(store.get_messages("k"))
    assert [[block.text for block in message.blocks] for message in read] == [[told], [told, f"Which?\n{told}"]]


# -- the memory block


def test_block_recalls_what_the_store_knows_and_is_not_in_the_chat() -> None:
    memory = smp_memory.open(":memory:")
    notes = memory.create_session("notes")
    notes.add_decision("We use PostgreSQL as the database", author="architect")
    notes.add_finding("The canteen closes at two", author="architect")
    block = SMPMemoryBlock(memory)
    chat = [ChatMessage(role="user", content="Which database do we use?")]
    recalled = run(block.aget(chat, session_id="thread"))
    assert "PostgreSQL" in recalled
    assert "canteen" not in recalled
    assert run(block.aget([])) == ""


def test_block_stores_flushed_messages_unless_the_chat_store_has_them() -> None:
    memory = smp_memory.open(":memory:")
    block = SMPMemoryBlock(memory)
    said = [ChatMessage(role="user", content="My cat is called Tibbles.")]
    run(block.aput(said, from_short_term_memory=True, session_id="elsewhere"))
    assert "Tibbles" in run(block.aget([ChatMessage(role="user", content="What is my cat called?")]))
    count = len(memory.query("Tibbles"))
    run(SMPChatStore(memory).add_message("here", said[0]))
    run(block.aput(said, from_short_term_memory=True, session_id="here"))
    assert len(memory.query("Tibbles")) == count + 1  # that of the chat store


def test_messages_leave_the_window_and_are_recalled(store_address: str) -> None:
    async def talk() -> list[ChatMessage]:
        memory = Memory.from_defaults(
            "thread",
            token_limit=200,
            token_flush_size=50,
            chat_store=SMPChatStore(store_address),
            memory_blocks=[SMPMemoryBlock(store_address)],
            tokenizer_fn=str.split,
        )
        await memory.aput(ChatMessage(role="user", content="My cat is called Tibbles and eats fish."))
        for number in range(40):
            await memory.aput(ChatMessage(role="user", content=f"Number {number} of a long list of numbers."))
            await memory.aput(ChatMessage(role="assistant", content=f"I wrote {number} down on my list."))
        return await memory.aget(input="What is my cat called?")

    messages = run(talk())
    assert messages[0].role == "system"
    assert "Tibbles" in messages[0].content
    assert not any("Tibbles" in (message.content or "") for message in messages[1:])


# -- real runs


def agent_with(script: list[str], seen: list[Any]) -> FunctionAgent:
    def answer(messages: Sequence[ChatMessage], **kwargs: Any) -> ChatMessage:
        seen.append([message.model_copy(deep=True) for message in messages])
        return ChatMessage(role="assistant", content=script.pop(0))

    return FunctionAgent(llm=MockFunctionCallingLLM(response_generator=answer, is_chat_model=True), system_prompt="Help.", streaming=False)  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of LlamaIndex about its own code
def test_agent_goes_on_where_it_stopped(store_address: str) -> None:
    seen: list[Any] = []

    async def talk(text: str, reply: str) -> str:
        memory = Memory.from_defaults("thread", chat_store=SMPChatStore(store_address), memory_blocks=[SMPMemoryBlock(store_address)])  # fmt: skip
        return str(await agent_with([reply], seen).run(text, memory=memory))

    assert run(talk("My name is Ada.", "Hello Ada.")) == "Hello Ada."
    assert run(talk("What is my name?", "Ada.")) == "Ada."
    last = words(seen[-1])
    assert [text for text in last if text in ("My name is Ada.", "Hello Ada.", "What is my name?")] == ["My name is Ada.", "Hello Ada.", "What is my name?"]  # fmt: skip


# -- several processes

_ADD = """
import asyncio, sys
from llama_index.core.llms import ChatMessage
from smp_memory.adapters.llama_index import SMPChatStore
async def main():
    store = SMPChatStore(sys.argv[1])
    for number in range(int(sys.argv[3])):
        await store.add_message("shared", ChatMessage(role="user", content=f"{sys.argv[2]} {number}"))
        print(number, flush=True)
asyncio.run(main())
"""


def test_processes_write_to_one_chat(store_address: str) -> None:
    run_together(_ADD, store_address, ["one", "two"], 15)
    got = words(run(SMPChatStore(store_address).get_messages("shared")))
    assert sorted(got) == sorted(f"{name} {number}" for name in ("one", "two") for number in range(15))
    for name in ("one", "two"):
        assert [text for text in got if text.startswith(name)] == [f"{name} {number}" for number in range(15)]


@pytest.mark.crash
def test_acknowledged_messages_survive_a_kill(store_address: str) -> None:
    acknowledged = run_killed(_ADD, store_address)
    got = words(run(SMPChatStore(store_address).get_messages("shared")))
    assert got[:acknowledged] == [f"one {number}" for number in range(acknowledged)]
    assert len(got) <= acknowledged + 1


def test_example_of_the_page(tmp_path: Path) -> None:
    assert run_page("llama-index.md", tmp_path) == "PostgreSQL\n2\n"
