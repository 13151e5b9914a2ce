"""CrewAI: the storage backend beside a plain list, and a real crew with a scripted model and a fake embedder."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
from array import array
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory

pytest.importorskip("crewai", reason="needs the extra crewai")

from crewai import Agent, BaseLLM, Crew, Task
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.storage.factory import set_memory_storage_factory
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory
from pydantic import Field

from smp_memory.adapters.crewai import SMPStorage
from tests.adapters.pages import run_page
from tests.adapters.processes import run_killed, run_together

START = datetime(2026, 1, 31, 12, 0, 0, 123456)  # noqa: DTZ001  # as CrewAI has them, in UTC
SECRET = "sk-ant-api03-" + "x9Kq2" * 8
DIMENSIONS = 64


def embed(texts: list[str]) -> list[list[float]]:
    """Words by their digests: texts with the same words are near."""
    vectors = []
    for text in texts:
        vector = [0.0] * DIMENSIONS
        for word in text.lower().split():
            vector[int(hashlib.sha1(word.strip(".,?!").encode()).hexdigest(), 16) % DIMENSIONS] += 1.0
        length = sum(value * value for value in vector) ** 0.5 or 1.0
        vectors.append(list(array("f", (value / length for value in vector))))
    return vectors


def record(id: str, text: str = "We chose PostgreSQL.", minutes: int = 0, **fields: Any) -> MemoryRecord:
    fields.setdefault("embedding", embed([text])[0])
    when = START + timedelta(minutes=minutes)
    return MemoryRecord(id=id, content=text, created_at=when, last_accessed=when, **fields)


def new() -> SMPStorage:
    return SMPStorage(smp_memory.open(":memory:"))


def test_records_come_back_equal(store_address: str) -> None:
    given = record("r1", scope="/crew/a", categories=["data", "the rest"], metadata={"a": [1, None, {"é": 1.5}]}, importance=0.9, source="ada", private=True)  # fmt: skip
    without = record("r2", embedding=None)
    SMPStorage(store_address).save([given, without])
    storage = SMPStorage(store_address)
    assert storage.get_record("r1") == given
    assert storage.get_record("r2") == without
    assert storage.get_record("r3") is None
    assert isinstance(storage, StorageBackend)


@pytest.mark.parametrize("id", ["", "é" * 300, "a/../b", "LEARN-0001", "con", "x y\n"])
def test_any_id(id: str) -> None:
    storage = new()
    storage.save([record(id), record("other")])
    got = storage.get_record(id)
    assert got
    assert got.id == id
    assert storage.delete(record_ids=[id]) == 1
    assert storage.get_record(id) is None
    storage.save([record(id, "Back again.")])
    assert [each.content for each in storage.list_records() if each.id == id] == ["Back again."]


def test_search_ranks_by_cosine_and_filters() -> None:
    storage = new()
    storage.save([
        record("far", "The canteen closes at two", scope="/crew/a"),
        record("near", "The database is PostgreSQL", scope="/crew/a", categories=["data"], metadata={"kind": 1}),
        record("same", "database PostgreSQL", scope="/crew/b", categories=["data"]),
        record("sibling", "database PostgreSQL", scope="/crew/ab"),
        record("blind", "database PostgreSQL", scope="/crew/a", embedding=None),
    ])  # fmt: skip
    query = embed(["database PostgreSQL"])[0]

    def ids(**options: Any) -> list[str]:
        return [found.id for found, _ in storage.search(query, **options)]

    assert ids()[:2] in (["same", "sibling"], ["sibling", "same"])
    assert ids(scope_prefix="/crew/a")[:1] == ["near"]
    assert "sibling" not in ids(scope_prefix="/crew/a")
    assert ids(categories=["data", "none"]) == ["same", "near"]
    assert ids(metadata_filter={"kind": 1}) == ["near"]
    assert ids(limit=1, scope_prefix="crew/b/") == ["same"]
    assert "far" not in ids(min_score=0.5)
    assert "blind" not in ids()
    assert storage.search(query)[0][1] == pytest.approx(1.0, abs=1e-5)
    assert asyncio.run(storage.asearch(query, limit=1))[0][1] == pytest.approx(1.0, abs=1e-5)


def test_embedding_of_another_size_is_refused() -> None:
    storage = new()
    storage.save([record("r1")])
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.search([1.0, 0.0])
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([record("r2", embedding=[1.0, 0.0])])
    assert storage.count() == 1
    assert storage.search([]) == []
    storage.delete(record_ids=["r1"])
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([record("r2", embedding=[1.0, 0.0]), record("r3", embedding=[1.0])])
    storage.save([record("r2", embedding=[1.0, 0.0])])
    assert storage.count() == 1


def test_infinite_and_empty_embeddings_are_found_by_nothing() -> None:
    storage = new()
    storage.save([record("zero", embedding=[0.0] * DIMENSIONS), record("endless", embedding=[float("inf")] * DIMENSIONS), record("none", embedding=[])])  # fmt: skip
    assert storage.search(embed(["database"])[0], min_score=0.01) == []
    assert storage.count() == 3


def test_secret_comes_back_redacted() -> None:
    storage = new()
    storage.save([record("r1", f"The token is {SECRET}", metadata={"raw": f"token {SECRET}"})])
    got = storage.get_record("r1")
    assert got
    assert SECRET not in got.model_dump_json()


# -- beside a plain list

SCOPES = st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/ab", "/d"])
RECORDS = st.builds(
    lambda id, minutes, scope, categories, kind: record(f"r{id}", f"text {id}", minutes, scope=scope, categories=categories, metadata={"kind": kind}),
    st.integers(0, 5),
    st.integers(0, 9),
    SCOPES,
    st.lists(st.sampled_from(["x", "y"]), unique=True),
    st.integers(0, 1),
)  # fmt: skip
PREFIXES = st.one_of(st.none(), SCOPES, st.sampled_from(["a", "/a/", ""]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.lists(RECORDS, max_size=3, unique_by=lambda each: each.id)),
        st.tuples(st.just("update"), RECORDS),
        st.tuples(
            st.just("delete"),
            st.fixed_dictionaries({}, optional={"scope_prefix": PREFIXES, "categories": st.just(["x"]), "record_ids": st.just(["r1", "r2"]), "older_than": st.just(START + timedelta(minutes=5)), "metadata_filter": st.just({"kind": 1})}),
        ),
        st.tuples(st.just("reset"), PREFIXES),
    ),
    max_size=8,
)  # fmt: skip


class PlainStorage:
    """What the protocol says, on a dictionary."""

    def __init__(self) -> None:
        self.held: dict[str, MemoryRecord] = {}

    def within(self, prefix: str | None) -> list[MemoryRecord]:
        top = "/" + (prefix or "").strip("/")
        return [each for each in self.held.values() if top in ("/", each.scope) or each.scope.startswith(top + "/")]

    def save(self, records: list[MemoryRecord]) -> None:
        self.held |= {each.id: each for each in records}

    def update(self, record: MemoryRecord) -> None:
        self.held[record.id] = record

    def delete(self, scope_prefix: Any = None, categories: Any = None, record_ids: Any = None, older_than: Any = None, metadata_filter: Any = None) -> int:  # fmt: skip
        gone = [
            each.id
            for each in self.within(scope_prefix)
            if (not categories or set(categories) & set(each.categories))
            and (not record_ids or each.id in record_ids)
            and (not older_than or each.created_at < older_than)
            and (not metadata_filter or metadata_filter.items() <= each.metadata.items())
        ]
        for id in gone:
            del self.held[id]
        return len(gone)

    def reset(self, prefix: str | None) -> None:
        self.delete(prefix)


@settings(max_examples=25)
@given(steps=STEPS, prefix=PREFIXES)
def test_storage_does_what_the_protocol_says(steps: list[tuple[str, Any]], prefix: str | None) -> None:
    plain, storage = PlainStorage(), new()
    for name, argument in steps:
        if name == "delete":
            assert storage.delete(**argument) == plain.delete(**argument)
        else:
            assert getattr(storage, name)(argument) == getattr(plain, name)(argument)
    inside = plain.within(prefix)
    listed = storage.list_records(prefix)
    assert {each.id: each for each in listed} == {each.id: each for each in inside}
    assert [each.created_at for each in listed] == sorted((each.created_at for each in inside), reverse=True)
    assert storage.list_records(prefix, limit=2, offset=1) == listed[1:3]
    assert storage.count(prefix) == len(inside)
    assert storage.list_categories(prefix) == {name: count for name in "xy" if (count := sum(name in each.categories for each in inside))}  # fmt: skip
    info = storage.get_scope_info("/a")
    below = plain.within("/a")
    assert (info.record_count, info.oldest_record) == (
        len(below),
        min((each.created_at for each in below), default=None),
    )
    assert info.child_scopes == storage.list_scopes("/a") == (["/a/b"] if any(each.scope.startswith("/a/b") for each in below) else [])  # fmt: skip
    assert storage.list_scopes() == sorted({"/" + each.scope.split("/")[1] for each in plain.held.values() if each.scope != "/"})  # fmt: skip


# -- a real crew


class Scripted(BaseLLM):
    seen: list[str] = Field(default_factory=list)
    answers: list[str] = Field(default_factory=list)

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        text = messages if isinstance(messages, str) else "\n".join(str(message["content"]) for message in messages)
        if "extract discrete" in text:
            return json.dumps({"memories": ["The team chose PostgreSQL as its database."]})
        if "hierarchical memory system" in text:
            return json.dumps({"suggested_scope": "/decisions", "categories": ["data"], "importance": 0.8, "extracted_metadata": {"entities": [], "dates": [], "topics": []}})  # fmt: skip
        self.seen.append(text)
        return f"Thought: I now can give a great answer\nFinal Answer: {self.answers.pop(0)}"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))


@pytest.fixture
def factory() -> Iterator[Any]:
    yield set_memory_storage_factory
    set_memory_storage_factory(None)


def crew_with(model: Scripted, memory: Memory, task: str) -> Crew:
    agent = Agent(role="Architect", goal="Decide", backstory="Experienced.", llm=model)
    work = Task(description=task, expected_output="One sentence.", agent=agent)
    return Crew(agents=[agent], tasks=[work], memory=memory, tracing=False)


@pytest.mark.filterwarnings("ignore")
def test_crew_remembers_what_an_earlier_crew_decided(store_address: str) -> None:
    def kickoff(task: str, answer: str) -> Scripted:
        model = Scripted(model="scripted", answers=[answer], seen=[])
        memory = Memory(llm=model, embedder=embed, storage=SMPStorage(store_address))
        assert str(crew_with(model, memory, task).kickoff()) == answer
        memory.drain_writes()
        memory.close()
        return model

    kickoff("Choose a database for the team.", "We chose PostgreSQL.")
    [kept] = SMPStorage(store_address).list_records()
    assert (kept.content, kept.categories) == ("The team chose PostgreSQL as its database.", ["data"])
    model = kickoff("Which database did the team choose?", "PostgreSQL.")
    assert "The team chose PostgreSQL as its database." in model.seen[0]
    with smp_memory.open(store_address) as memory:  # and everything else that reads the store finds it, too
        assert memory.query("which database did the team choose?")[0].text == kept.content


@pytest.mark.filterwarnings("ignore")
def test_memory_is_built_by_the_factory_and_can_be_copied(factory: Any) -> None:
    storage = new()
    factory(lambda spec: storage if spec == "smp" else None)
    memory = Memory(llm=Scripted(model="scripted"), embedder=embed, storage="smp")
    memory.remember("We chose PostgreSQL.", scope="/a", categories=["data"], importance=0.5, metadata={"a": 1})
    again = Memory(llm=Scripted(model="scripted"), embedder=embed, storage=copy.deepcopy(storage))
    assert [match.record.content for match in again.recall("PostgreSQL", depth="shallow")] == ["We chose PostgreSQL."]
    assert "/a (1 records)" in memory.tree()
    assert memory.forget(scope="/a") == 1
    assert storage.count() == 0


_ADD = """
import sys
from crewai.memory.types import MemoryRecord
from smp_memory.adapters.crewai import SMPStorage
storage = SMPStorage(sys.argv[1])
for number in range(int(sys.argv[3])):
    storage.save([MemoryRecord(id=f"{sys.argv[2]}{number}", content=f"text {number}", embedding=[1.0, 0.5])])
    storage.save([MemoryRecord(id="shared", content=f"{sys.argv[2]} {number}", embedding=[1.0, 0.5])])
    print(number, flush=True)
"""


def test_processes_save_to_one_storage(store_address: str) -> None:
    run_together(_ADD, store_address, ["one", "two"], 10)
    storage = SMPStorage(store_address)
    ids = sorted(each.id for each in storage.list_records())
    assert ids == sorted(["shared", *(f"{name}{number}" for name in ("one", "two") for number in range(10))])
    shared = storage.get_record("shared")
    assert shared
    assert shared.content in ("one 9", "two 9")


@pytest.mark.crash
def test_acknowledged_records_survive_a_kill(store_address: str) -> None:
    acknowledged = run_killed(_ADD, store_address)
    storage = SMPStorage(store_address)
    assert all(storage.get_record(f"one{number}") for number in range(acknowledged))


def test_example_of_the_page(tmp_path: Path) -> None:
    assert run_page("crewai.md", tmp_path).splitlines()[-2:] == ["The team chose PostgreSQL as its database."] * 2
