"""LangChain's chat history, retriever and key-value store on SMP, in real chains with a scripted model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from tests.adapters.pages import run_page
from tests.adapters.stores import KINDS, make_address

pytest.importorskip("langchain_core", reason="LangChain is not installed; ./dev test-adapters has it")

from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableWithMessageHistory

from smp_memory.adapters.langchain import SMPChatMessageHistory, SMPKeyValueStore, SMPRetriever

MESSAGES = [
    SystemMessage("You are helpful."),
    HumanMessage("Hello", id="h1", name="ada"),
    HumanMessage([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]),
    AIMessage("", tool_calls=[{"name": "search", "args": {"q": "tea"}, "id": "c1"}], usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}),
    ToolMessage("green", tool_call_id="c1", artifact={"rows": [1, 2]}, status="error"),
    AIMessage("Tea.", response_metadata={"model": "scripted"}, additional_kwargs={"x": {"y": None}}),
    ChatMessage("Hm", role="critic"),
    FunctionMessage("4", name="add"),
    HumanMessage(""),
]  # fmt: skip


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return make_address(request.param, tmp_path, request)


@pytest.fixture
def ram() -> Any:
    with smp_memory.open(":memory:") as memory:
        yield memory


def test_messages_come_back_equal(address: str) -> None:
    with smp_memory.open(address) as memory:
        history = SMPChatMessageHistory(memory, "ada@example.org")
        assert history.messages == []
        history.add_messages(MESSAGES)
        assert SMPChatMessageHistory(memory, "ada@example.org").messages == MESSAGES
        assert SMPChatMessageHistory(memory, "ada@example.org", limit=2).messages == MESSAGES[-2:]
        assert SMPChatMessageHistory(memory, "bob").messages == []
        history.add_user_message("Bye")
        history.add_ai_message("See you")
        assert [each.content for each in history.messages[-2:]] == ["Bye", "See you"]
        history.clear()
        assert history.messages == []


def test_chunks_are_stored_as_messages(ram: Any) -> None:
    history = SMPChatMessageHistory(ram, "x")
    history.add_message(AIMessageChunk("Hel") + AIMessageChunk("lo"))
    assert history.messages == [AIMessage("Hello")]


def test_turns_of_others_are_messages(ram: Any) -> None:
    history = SMPChatMessageHistory(ram, "x")
    history.add_user_message("Hello")
    ram.session("langchain-x").add_turn("assistant", "Written by hand")
    ram.session("langchain-x").add_turn("tool", "42")
    assert history.messages[1:] == [AIMessage("Written by hand"), ChatMessage("42", role="tool")]


def test_conversation_is_found_by_smp(ram: Any) -> None:
    SMPChatMessageHistory(ram, "x").add_messages([HumanMessage("Ada prefers green tea"), AIMessage("Noted.")])
    [hit] = ram.query("green tea")
    assert (hit.record.type, hit.record.role, hit.record.text) == ("conversation", "user", "Ada prefers green tea")


def test_secret_comes_back_redacted(ram: Any) -> None:
    history = SMPChatMessageHistory(ram, "x")
    history.add_user_message("My mail is ada@example.org")
    assert history.messages == [HumanMessage("My mail is [REDACTED:email]")]


def chain(memory: Any, answers: list[str]) -> Any:
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{question}")]
    )
    model = FakeListChatModel(responses=answers)
    return RunnableWithMessageHistory(
        prompt | model,
        lambda session_id: SMPChatMessageHistory(memory, session_id),
        input_messages_key="question",
        history_messages_key="history",
    )


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_chain_remembers_conversations(tmp_path: Path) -> None:
    config = {"configurable": {"session_id": "trip to Rome"}}
    with smp_memory.open(tmp_path / "store") as memory:
        assert chain(memory, ["By train."]).invoke({"question": "How do I get there?"}, config).content == "By train."
    with smp_memory.open(tmp_path / "store") as memory:
        asyncio.run(chain(memory, ["Tomorrow."]).ainvoke({"question": "When?"}, config))
        said = [each.content for each in SMPChatMessageHistory(memory, "trip to Rome").messages]
    assert said == ["How do I get there?", "By train.", "When?", "Tomorrow."]


# -- the retriever


@pytest.fixture
def notes(ram: Any) -> Any:
    session = ram.create_session("notes", user="ada")
    session.add_decision("Use PostgreSQL as database", tags=["storage"], author="architect")
    session.add_finding("The database has no backup", severity="high")
    session.add_learning("A database needs an index")
    session.add_learning("Tea helps")
    return ram


def test_retriever_finds_memories(notes: Any) -> None:
    found = SMPRetriever(memory=notes).invoke("which database")
    assert {each.id for each in found} == {"notes/DEC-0001", "notes/FIND-0001", "notes/LEARN-0001"}
    [decision] = [each for each in found if each.id == "notes/DEC-0001"]
    assert decision.page_content == "Use PostgreSQL as database"
    assert decision.metadata["type"] == "decision"
    assert decision.metadata["tags"] == ["storage"]
    assert 0 < decision.metadata["relevance"] <= 1


def test_retriever_takes_number_and_options(notes: Any) -> None:
    assert len(SMPRetriever(memory=notes, k=2).invoke("database")) == 2
    assert len(SMPRetriever(memory=notes).invoke("database", k=1)) == 1
    retriever = SMPRetriever(memory=notes, options={"types": "finding"})
    assert [each.id for each in retriever.invoke("database")] == ["notes/FIND-0001"]
    assert [each.id for each in asyncio.run(retriever.ainvoke("database"))] == ["notes/FIND-0001"]


def test_retriever_in_chain(notes: Any) -> None:
    prompt = ChatPromptTemplate.from_template("Answer from this:\n{context}\n\n{question}")
    asked = []

    def scripted(value: Any) -> str:
        asked.append(value.to_string())
        return "PostgreSQL"

    def joined(documents: list[Document]) -> str:
        return "\n".join(each.page_content for each in documents)

    question = "Which database do we use?"
    steps = {"context": SMPRetriever(memory=notes) | joined, "question": lambda text: text}
    assert (steps | prompt | scripted).invoke(question) == "PostgreSQL"
    assert "Use PostgreSQL as database" in asked[0]


# -- the key-value store


def test_key_value_store(address: str) -> None:
    with smp_memory.open(address) as memory:
        store = SMPKeyValueStore(memory, "documents")
        store.mset([("a/1", {"text": "one"}), ("a/2", [1, 2]), ("b", None)])
        assert store.mget(["a/1", "a/2", "b", "c"]) == [{"text": "one"}, [1, 2], None, None]
        assert list(store.yield_keys(prefix="a/")) == ["a/1", "a/2"]
        store.mdelete(["a/1", "unknown"])
        assert list(SMPKeyValueStore(memory, "documents").yield_keys()) == ["a/2", "b"]
        assert list(SMPKeyValueStore(memory, "other").yield_keys()) == []


def test_example_of_page_runs(tmp_path: Path) -> None:
    assert run_page("langchain.md", tmp_path).splitlines() == [
        "['Hello!', 'Which database do we use?', 'PostgreSQL.']",
        "Use PostgreSQL as database",
    ]


def test_missing_framework_names_the_extra() -> None:
    code = "import sys; sys.modules['langchain_core'] = None; import smp_memory.adapters.langchain"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "pip install 'smp-memory[langchain]'" in found.stderr


def test_retriever_finds_no_private_memories_of_others(tmp_path):
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.session("s", create=True)
        session.add_learning("The walnut diary is in the drawer", author="ada", visibility="private")
        session.add_learning("The walnut tree is in the garden", author="ada")
        assert [each.page_content for each in SMPRetriever(memory=memory).invoke("walnut")] == [
            "The walnut tree is in the garden"
        ]
        assert len(SMPRetriever(memory=memory, agent="ada").invoke("walnut")) == 2
