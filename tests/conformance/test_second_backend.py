"""The contract of every backend: for the naive store with brute force as its search index, and for a store in PostgreSQL."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import LayoutMismatch, NotSupported, StoreNotFound
from smp_memory.index.full_text_index import FullTextIndex
from smp_memory.model.ids import scheme_of
from smp_memory.store.opening import register_backend
from tests.backends.naive_store import NAME, open_naive
from tests.backends.store_feed import StoreFeed
from tests.contract import BackendContract
from tests.postgres_server import Server

POSTGRES = "postgresql"

WRITER = """
import sys, smp_memory
from smp_memory.store.opening import register_backend
from tests.backends.naive_store import NAME, open_naive
register_backend(NAME, open_naive)
with smp_memory.open(sys.argv[1]) as memory:
    session = memory.session("s1")
    for number in range(10):
        session.add_decision(f"{sys.argv[2]} decides {number}")
"""


@pytest.fixture
def naive_address(tmp_path: Path) -> str:
    register_backend(NAME, open_naive)
    return f"{NAME}://{tmp_path / 'store.db'}"


@pytest.fixture(params=[NAME, POSTGRES])
def address(request: pytest.FixtureRequest) -> str:
    if request.param == NAME:
        return request.getfixturevalue("naive_address")  # type: ignore[no-any-return]
    return request.getfixturevalue("postgres").new_schema_address()  # type: ignore[no-any-return]


class TestNaiveStore(BackendContract):
    @pytest.fixture(autouse=True)
    def _place(self, naive_address: str) -> None:
        self.where = naive_address

    def open_store(self, **options: Any) -> smp_memory.Memory:
        return smp_memory.open(self.where, **options)


def open_with_full_text(*options: Any) -> Any:
    store, is_new = open_naive(*options)
    store.indexer = FullTextIndex(StoreFeed(store))
    return store, is_new


class TestNaiveStoreWithFullTextIndex(TestNaiveStore):
    """The full-text index fed by a store that is not in files."""

    @pytest.fixture(autouse=True)
    def _full_text(self, naive_address: str) -> None:
        register_backend(NAME, open_with_full_text)


class TestPostgresStore(BackendContract):
    @pytest.fixture(autouse=True)
    def _place(self, postgres: Server) -> Iterator[None]:
        self.where = postgres.new_schema_address()
        self.opened: list[smp_memory.Memory] = []
        yield
        for memory in self.opened:
            memory.close()

    def open_store(self, **options: Any) -> smp_memory.Memory:
        self.opened.append(smp_memory.open(self.where, **options))
        return self.opened[-1]


def test_processes_that_write_at_once_lose_nothing(address: str) -> None:
    with smp_memory.open(address) as memory:
        memory.create_session("s1")
    names = ["ada", "bob", "eve"]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, address, name], cwd=Path.cwd()) for name in names]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with smp_memory.open(address) as memory:
        records = memory.session("s1").records()
        assert [record.id for record in records] == [f"DEC-{number:04}" for number in range(1, 31)]
        assert {record.decision for record in records} == {
            f"{name} decides {number}" for name in names for number in range(10)
        }


def test_threads_and_a_forked_child_share_a_store(address: str) -> None:
    with smp_memory.open(address) as memory:
        session = memory.create_session("s1")
        with ThreadPoolExecutor(4) as pool:
            written = list(pool.map(lambda number: session.add_decision(f"Decision {number}").id, range(20)))
        assert sorted(written) == [f"DEC-{number:04}" for number in range(1, 21)]
        child = multiprocessing.get_context("fork").Process(target=session.add_decision, args=("From the child",))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert session.get("DEC-0021").decision == "From the child"
        assert memory.query("child").ids == ["DEC-0021"]


def test_process_that_is_killed_while_it_writes_leaves_a_complete_store(address: str) -> None:
    with smp_memory.open(address) as memory:
        memory.create_session("s1")
        for attempt in range(3):
            writer = subprocess.Popen([sys.executable, "-c", WRITER, address, f"writer {attempt}"], cwd=Path.cwd())
            before = len(memory.session("s1").records())
            while len(memory.session("s1").records()) == before:
                assert writer.poll() in (None, 0)
            writer.kill()
            writer.wait()
            memory.session("s1").add_decision(f"After {attempt}")
        records = memory.session("s1").records()
        assert [record.id for record in records] == [f"DEC-{number + 1:04}" for number in range(len(records))]
        assert memory.session("s1").validate().ok


def test_operations_that_need_files_are_refused(address: str) -> None:
    with pytest.raises(StoreNotFound):
        smp_memory.open(address, create=False)
    with smp_memory.open(address) as memory:
        assert memory.layout == scheme_of(address)
        with pytest.raises(NotSupported):
            memory.convert("log")
    with pytest.raises(LayoutMismatch):
        smp_memory.open(address, layout="log")


def test_an_agent_gets_its_context_and_a_session_can_be_exported(address: str, tmp_path: Path) -> None:
    with smp_memory.open(address) as memory:
        session = memory.create_session("s1", user="ada")
        session.add_decision("Use PostgreSQL for orders", author="architect")
        assert "PostgreSQL" in memory.context("architect", task="which database holds the orders?").text
        path = memory.export(tmp_path / "all.json")
    with smp_memory.open(tmp_path / "files") as other:
        assert [each.id for each in other.import_(path)] == ["s1"]
        assert other.get("s1/DEC-0001").decision == "Use PostgreSQL for orders"


def test_a_secret_that_is_already_stored_is_redacted(address: str, tmp_path: Path) -> None:
    with smp_memory.open(address, config={"privacy.redaction.enabled": False}) as memory:
        memory.create_session("s1").add_finding("The key is AKIAIOSFODNN7EXAMPL2 here")
    with smp_memory.open(address) as memory:
        [report] = memory.redact()
        assert list(report.memories) == ["FIND-0001"]
        assert "AKIA" not in memory.get("s1/FIND-0001").finding
        assert "AKIA" not in str(memory.session("s1").history("FIND-0001"))
    if scheme_of(address) == NAME:
        assert b"AKIAIOSFODNN7EXAMPL2" not in (tmp_path / "store.db").read_bytes()


def test_doctor_examines_a_store_without_files(address: str) -> None:
    with smp_memory.open(address) as memory:
        memory.create_session("s1").add_decision("x", references=["DEC-0009"])
        report = memory.doctor()
        assert (report.layout, report.sessions, report.memories) == (memory.layout, 1, 1)
        assert [issue.ids for issue in report.findings if "DEC-0009" in str(issue)] == [("DEC-0001",)]
