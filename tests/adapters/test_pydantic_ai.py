"""Memory of Pydantic AI agents in a store: the library's store in RAM as an oracle, runs of an agent, several processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai_harness", reason="needs pydantic-ai-harness; ./dev test-adapters installs it")

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness import Memory
from pydantic_ai_harness.memory import (
    InMemoryStore,
    MemoryConflictError,
    MemoryOperation,
    MetadataMemoryStore,
    SearchableMemoryStore,
)

import smp_memory
from smp_memory.adapters.pydantic_ai import SMPNotebookStore
from smp_memory.errors import SizeLimitExceeded
from tests.adapters.pages import run_page
from tests.adapters.stores import KINDS, make_address

PATHS = st.sampled_from(["a", "a/b", "main/MEMORY.md", "main/x.md", "A", "..", "a//b", "", "main/sub/y"])
OPERATIONS = st.builds(MemoryOperation, id=st.sampled_from("pqrs"), fingerprint=st.sampled_from("12"))
TEXTS = st.sampled_from(["", "x", "hello world", "x\r\ny"])
METADATA = st.none() | st.dictionaries(st.sampled_from(["by", "run", "\0"]), st.text("abc\0", max_size=4), max_size=2)
VERSIONS = st.sampled_from(["current", "current", "current", "none", "stale", "first"])
STEPS = st.one_of(
    st.tuples(st.just("read"), PATHS, st.integers(0, 8)),
    st.tuples(st.just("write"), PATHS, TEXTS, VERSIONS, st.none() | OPERATIONS),
    st.tuples(st.just("describe"), PATHS, TEXTS, VERSIONS, st.none() | OPERATIONS, METADATA),
    st.tuples(st.just("delete"), PATHS, VERSIONS, st.none() | OPERATIONS),
    st.tuples(st.just("list"), st.sampled_from(["", "a", "main/", "main", "..", "a/"]), st.integers(0, 3)),
    st.tuples(st.just("operation"), OPERATIONS),
)


class Side:
    """A store, and the versions that it gave: those of two stores differ, but must be used alike."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self._given: dict[str, list[str | None]] = {}

    async def run(self, name: str, *given: Any) -> Any:
        try:
            return await getattr(self, f"_{name}")(*given)
        except (ValueError, RuntimeError, TypeError) as error:
            return type(error).__name__

    def _version(self, path: str, which: str) -> str | None:
        given = self._given.get(path) or [None]
        known = [version for version in given if version is not None]
        found = {"current": given[-1], "none": None, "stale": "".join(known[-2:-1]) or "?", "first": known[0] if known else None}  # fmt: skip
        return found[which]

    def _keep(self, path: str, mutation: Any) -> tuple[bool, ...]:
        if not mutation.replayed:
            self._given.setdefault(path, []).append(mutation.version)
        return mutation.version is not None, mutation.replayed, mutation.existed

    async def _read(self, path: str, most: int) -> Any:
        file = await self.store.read(path, max_chars=most)
        if file is None:
            return None
        is_current = file.version == self._version(path, "current")
        return file.content, file.operation_id, file.truncated, file.metadata and dict(file.metadata), is_current

    async def _write(self, path: str, text: str, which: str, operation: Any) -> Any:
        expected = self._version(path, which)
        return self._keep(path, await self.store.write(path, text, expected_version=expected, operation=operation))

    async def _describe(self, path: str, text: str, which: str, operation: Any, metadata: Any) -> Any:
        write, expected = self.store.write_with_metadata, self._version(path, which)
        return self._keep(
            path, await write(path, text, expected_version=expected, operation=operation, metadata=metadata)
        )

    async def _delete(self, path: str, which: str, operation: Any) -> Any:
        expected = self._version(path, which)
        return self._keep(path, await self.store.delete(path, expected_version=expected, operation=operation))

    async def _list(self, prefix: str, limit: int) -> Any:
        return await self.store.list_paths(prefix, limit=limit)

    async def _operation(self, operation: Any) -> Any:
        found = await self.store.get_operation(operation)
        return found and (found.replayed, found.existed, found.version is None)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=20))
def test_answers_are_those_of_the_store_of_the_library(steps: list[Any]) -> None:
    async def run(memory: smp_memory.Memory) -> None:
        theirs, ours = Side(InMemoryStore()), Side(SMPNotebookStore(memory))
        for step in steps:
            assert await ours.run(*step) == await theirs.run(*step), step

    with smp_memory.open(":memory:") as memory:
        asyncio.run(run(memory))


@pytest.mark.parametrize("kind", KINDS)
def test_writes_are_revisions_that_other_processes_see(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = make_address(kind, tmp_path, request)

    async def run(memory: smp_memory.Memory) -> None:
        store = SMPNotebookStore(memory)
        assert isinstance(store, MetadataMemoryStore)
        assert isinstance(store, SearchableMemoryStore)
        first = await store.write("main/db.md", "We use SQLite.", expected_version=None)
        await store.write_with_metadata("main/db.md", "We use PostgreSQL.", expected_version=first.version, metadata={"by": "ada"})  # fmt: skip
        with pytest.raises(MemoryConflictError):
            await store.write("main/db.md", "lost", expected_version=first.version)
        await store.write("other/db.md", "PostgreSQL elsewhere", expected_version=None)
        found = await SMPNotebookStore(memory).read("main/db.md", max_chars=100)
        assert found is not None
        assert (found.content, found.metadata) == ("We use PostgreSQL.", {"by": "ada"})
        bounds = {"limit": 5, "max_files": 10, "max_chars": 60, "max_file_chars": 100}
        result = await store.search("main/", "which postgresql", **bounds)
        assert [(match.path, match.snippet) for match in result.matches] == [("main/db.md", "We use PostgreSQL.")]
        await store.delete("main/db.md", expected_version=found.version)
        assert await store.list_paths(limit=5) == ["other/db.md"]

    with smp_memory.open(address) as memory:
        asyncio.run(run(memory))
        [session] = memory.sessions()
        [trashed] = session.deleted()
        assert [step["op"] for step in session.history(trashed.record.id)] == ["put", "change", "delete"]


def test_text_that_is_too_large_is_refused_and_nothing_is_kept() -> None:
    async def run(memory: smp_memory.Memory) -> None:
        store, operation = SMPNotebookStore(memory), MemoryOperation("1", "a")
        with pytest.raises(SizeLimitExceeded):
            await store.write("a", "x" * (2 << 20), expected_version=None, operation=operation)
        assert await store.get_operation(operation) is None
        assert await store.list_paths(limit=5) == []

    with smp_memory.open(":memory:") as memory:
        asyncio.run(run(memory))


# -- runs of an agent


def _scripted(calls: list[ToolCallPart]) -> FunctionModel:
    """A model that makes these calls one after the other, then repeats what it was told last."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if calls:
            return ModelResponse(parts=[calls.pop(0)])
        return ModelResponse(parts=[TextPart(str(messages))])

    return FunctionModel(answer)


def test_second_run_of_an_agent_knows_what_the_first_wrote() -> None:
    write = ToolCallPart("write_memory", {"content": "Ada prefers tea.", "file": "MEMORY.md"})
    search = ToolCallPart("search_memory", {"query": "tea"})

    async def run(memory: smp_memory.Memory) -> None:
        store = SMPNotebookStore(memory)
        first = Agent(_scripted([write, search]), capabilities=[Memory(store)])
        assert "Ada prefers tea." in (await first.run("I prefer tea.")).output
        second = Agent(_scripted([]), capabilities=[Memory(SMPNotebookStore(memory))])
        assert "Ada prefers tea." in (await second.run("What do I prefer?")).output  # injected

    with smp_memory.open(":memory:") as memory:
        asyncio.run(run(memory))
        assert [hit.record.name for hit in memory.query("tea", types="artifact")] == ["main/MEMORY.md"]


# -- several processes

_COUNTER = """
import asyncio, sys
from pydantic_ai_harness.memory import MemoryConflictError, MemoryOperation
from smp_memory.adapters.pydantic_ai import SMPNotebookStore
async def run():
    store = SMPNotebookStore(sys.argv[1])
    for number in range(8):
        operation = MemoryOperation(f"shared {number}", "same")
        while True:
            file = await store.read("main/log.md", max_chars=10_000)
            text = (file.content if file else "") + f"{number}\\n"
            try:
                await store.write("main/log.md", text, expected_version=file and file.version, operation=operation)
                break
            except MemoryConflictError:
                pass
asyncio.run(run())
"""


@pytest.mark.parametrize("kind", ["jsonl", "postgresql"])
def test_operation_of_two_processes_counts_once(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    address = make_address(kind, tmp_path, request)
    started = [subprocess.Popen([sys.executable, "-c", _COUNTER, address]) for _ in range(2)]
    assert [process.wait(timeout=100) for process in started] == [0, 0]
    store = SMPNotebookStore(address)
    file = asyncio.run(store.read("main/log.md", max_chars=10_000))
    assert file is not None
    assert sorted(file.content.split()) == [str(number) for number in range(8)]
    asyncio.run(store.close())


def test_example_of_the_page_runs(tmp_path: Path) -> None:
    assert run_page("pydantic-ai.md", tmp_path) == "Tea.\n['main/MEMORY.md']\n"
