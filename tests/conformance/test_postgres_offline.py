"""Reading a store in PostgreSQL while the server cannot be reached: through the public API, and by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import SessionNotFound, StorageError, StorageReadOnly
from smp_memory.observe import incomplete
from tests.postgres_server import Server

pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")


@pytest.fixture
def address(postgres: Server) -> Iterator[str]:
    """A store that was read once, of a server that is stopped."""
    address = postgres.new_schema_address()
    with smp_memory.open(address) as memory:
        session = memory.create_session("review", project="shop")
        session.add_turn("user", "Which database shall we take?")
        session.add_decision("Use PostgreSQL for orders", author="architect")
        session.update("DEC-0001", decision="Use PostgreSQL for all orders")
        session.add_finding("to be deleted")
        session.delete("FIND-0001")
        assert memory.query("orders").ids == ["DEC-0001"]
        session.add_decision("written after the last query")
    postgres.stop()
    yield address
    postgres.start()


def smp(address: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "smp_memory", "--root", address, *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, check=False)


def test_error_says_what_is_wrong_and_offers_the_index(address: str) -> None:
    with pytest.raises(StorageError, match=r"cannot be reached.*SMP_OFFLINE=1"):
        smp_memory.open(address)
    done = smp(address, "query", "orders")
    assert done.returncode
    assert "cannot be reached" in done.stderr
    assert "SMP_OFFLINE=1" in done.stderr
    assert "Traceback" not in done.stderr


def test_status_is_answered_by_the_index(address: str) -> None:
    done = smp(address, "status", SMP_OFFLINE="1")
    assert "1 session" in done.stdout
    assert "given twice" not in done.stdout


def test_index_is_not_offered_if_there_is_none(postgres: Server) -> None:
    address = postgres.new_schema_address()
    postgres.stop()
    try:
        with pytest.raises(StorageError) as caught:
            smp_memory.open(address)
        assert "SMP_OFFLINE" not in str(caught.value)
        with (
            smp_memory.open(address, config={"offline": True}) as memory,
            pytest.raises(StorageError, match="no complete index"),
        ):
            memory.query("orders")
    finally:
        postgres.start()


def test_answers_come_from_the_index_and_say_as_of_when(address: str) -> None:
    incomplete.take_reported()
    with smp_memory.open(address, config={"offline": True}) as memory:
        hits = memory.query("orders")
        assert [(hit.record.ref, hit.record.decision, hit.record.revision) for hit in hits] == [
            ("review/DEC-0001", "Use PostgreSQL for all orders", 2)
        ]
        (problem,) = incomplete.take_reported()
        assert "as of 20" in incomplete.describe([problem])
        assert [session.id for session in memory.sessions()] == ["review"]
        session = memory.session("review")
        assert [record.type for record in session.records()] == ["conversation", "decision"]
        assert session.get("DEC-0001").decision == "Use PostgreSQL for all orders"
        assert len(session.history("DEC-0001")) == 2
        assert "orders" in str(memory.context("database for orders"))
        assert memory.archived_sessions() == []
        with pytest.raises(SessionNotFound):
            memory.session("missing")


def test_nothing_can_be_changed_offline(address: str) -> None:
    with smp_memory.open(address, config={"offline": True}) as memory:
        session = memory.session("review")
        changes: list[Any] = [
            lambda: session.add_decision("new"),
            lambda: session.update("DEC-0001", decision="other"),
            lambda: session.delete("DEC-0001"),
            lambda: memory.create_session("other"),
            lambda: memory.archive_session("review"),
            lambda: memory.delete_session("review"),
            lambda: memory.set_config("durability", "os"),
            lambda: session.change_info(project="bank"),
        ]
        for change in changes:
            with pytest.raises(StorageReadOnly, match="offline"):
                change()


@pytest.mark.parametrize("words", [["query", "orders"], ["list"], ["context", "--task", "orders"]])
def test_commands_mark_what_they_print_offline(address: str, words: list[str]) -> None:
    done = smp(address, *words, SMP_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert "orders" in done.stdout
    assert "as of 20" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_hook_is_silent_and_in_time_without_the_server(address: str) -> None:
    event = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "x",
        "cwd": "/",
        "prompt": "which database for the orders?",
    }
    done = subprocess.run(
        [sys.executable, "-m", "smp_memory", "hook", "--wait"],
        input=json.dumps(event), capture_output=True, text=True, env={**os.environ, "SMP_ROOT": address}, check=False, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0
    assert "orders" not in done.stdout
    assert done.stderr == ""
