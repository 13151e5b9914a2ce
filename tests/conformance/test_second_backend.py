"""The contract of every backend, for a second one that keeps all sessions in one SQLite file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import LayoutMismatch, NotSupported, StoreNotFound
from smp_memory.store.opening import register_backend
from tests.backends.sqlite_store import NAME, open_sqlite
from tests.contract import BackendContract

WRITER = """
import sys, smp_memory
from smp_memory.store.opening import register_backend
from tests.backends.sqlite_store import NAME, open_sqlite
register_backend(NAME, open_sqlite)
with smp_memory.open(sys.argv[1]) as memory:
    session = memory.session("s1")
    for number in range(10):
        session.add_decision(f"{sys.argv[2]} decides {number}")
"""


@pytest.fixture(autouse=True)
def address(tmp_path: Path) -> str:
    register_backend(NAME, open_sqlite)
    return f"{NAME}://{tmp_path / 'store.db'}"


class TestSqlite(BackendContract):
    @pytest.fixture(autouse=True)
    def _place(self, address: str) -> None:
        self.where = address

    def open_store(self, **options: Any) -> smp_memory.Memory:
        return smp_memory.open(self.where, **options)


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


def test_operations_that_need_files_are_refused(address: str) -> None:
    with pytest.raises(StoreNotFound):
        smp_memory.open(address, create=False)
    with smp_memory.open(address) as memory:
        assert memory.layout == NAME
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


def test_a_secret_that_is_already_stored_is_redacted_in_the_database_file(address: str, tmp_path: Path) -> None:
    with smp_memory.open(address, config={"privacy.redaction.enabled": False}) as memory:
        memory.create_session("s1").add_finding("The key is AKIAIOSFODNN7EXAMPL2 here")
    with smp_memory.open(address) as memory:
        [report] = memory.redact()
        assert list(report.memories) == ["FIND-0001"]
        assert "AKIA" not in memory.get("s1/FIND-0001").finding
    assert b"AKIAIOSFODNN7EXAMPL2" not in (tmp_path / "store.db").read_bytes()


def test_doctor_examines_a_store_without_files(address: str) -> None:
    with smp_memory.open(address) as memory:
        memory.create_session("s1").add_decision("x", references=["DEC-0009"])
        report = memory.doctor()
        assert (report.layout, report.sessions, report.memories) == (NAME, 1, 1)
        assert [issue.ids for issue in report.findings if "DEC-0009" in str(issue)] == [("DEC-0001",)]
