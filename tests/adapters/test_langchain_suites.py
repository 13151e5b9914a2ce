"""The public suites of langchain-tests for SMP's retriever and key-value store. `./dev test-adapters` has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import smp_memory

pytest.importorskip("langchain_tests", reason="langchain-tests is not installed; ./dev test-adapters has it")

from langchain_tests.integration_tests.base_store import BaseStoreAsyncTests, BaseStoreSyncTests
from langchain_tests.integration_tests.retrievers import RetrieversIntegrationTests

from smp_memory.adapters.langchain import SMPKeyValueStore, SMPRetriever


@pytest.fixture(autouse=True)
def memory(request: pytest.FixtureRequest) -> Iterator[Any]:
    with smp_memory.open(":memory:") as opened:
        if request.instance is not None:
            request.instance.memory = opened
        yield opened


class TestRetriever(RetrieversIntegrationTests):
    memory: Any

    @property
    def retriever_constructor(self) -> type[SMPRetriever]:
        return SMPRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        session = self.memory.session("notes", create=True)
        for number in range(5):
            session.add_learning(f"Note {number} about the database")
        return {"memory": self.memory}

    @property
    def retriever_query_example(self) -> str:
        return "database"


class TestKeyValueStore(BaseStoreSyncTests[Any]):
    @pytest.fixture
    def kv_store(self, memory: Any) -> SMPKeyValueStore:
        return SMPKeyValueStore(memory)

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return {"text": "one"}, "two", [3]


class TestAsyncKeyValueStore(BaseStoreAsyncTests[Any]):
    @pytest.fixture
    async def kv_store(self, memory: Any) -> SMPKeyValueStore:
        return SMPKeyValueStore(memory)

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return {"text": "one"}, "two", [3]
