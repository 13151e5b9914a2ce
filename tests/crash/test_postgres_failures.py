"""A store in PostgreSQL under failure: every acknowledged write is there once, whatever breaks; nothing else is acknowledged.

Connections are cut at chosen statements by a proxy; servers and clients are killed; a replica is promoted under load. Writers keep a list of what was
acknowledged, and it is compared with what is stored. With SMP_SOAK=1 the numbers are those of the long test.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import DurabilityUnknown, StorageError
from smp_memory.session import SessionMemory
from tests.crash.postgres_proxy import CUTS, HALF_ANSWER, LATE, NEVER_SENT, NO_ANSWER, Proxy
from tests.crash.scenarios import depth
from tests.postgres_server import Server

psycopg = pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")
pytestmark = pytest.mark.crash
COMMIT = "COMMIT\0"  # the whole statement
QUICK = {"concurrency": {"lock_timeout_ms": 700}}  # how long a writer waits before the outcome is unknown


@pytest.fixture
def proxy(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    proxy = Proxy(postgres, tmp_path_factory.mktemp("p"))
    yield proxy
    proxy.close()


class Writer:
    """A session with one memory, seen through a proxy and directly."""

    def __init__(self, server: Server, proxy: Proxy) -> None:
        self.server, self.proxy = server, proxy
        self.address = server.new_schema_address()
        schema = self.address.rpartition("schema=")[2]
        self.direct = smp_memory.open(self.address)
        self.direct.create_session("s1").add_decision("first")
        self.memory = smp_memory.open(proxy.endpoint.address(schema=schema), config=QUICK)
        self.session = self.memory.session("s1")

    def be_overtaken(self) -> None:
        """The next write finds that another process wrote, and is made again in a transaction."""
        self.session.add_decision("mine")
        self.direct.session("s1").add_decision("others")

    def stored(self) -> Counter[str]:
        """How often each text is stored, as a new process reads it, which must equal what this one reads."""
        with smp_memory.open(self.address) as fresh:
            found = texts(fresh.session("s1"))
        assert texts(self.session) == found
        assert self.session.validate().problems == []
        return Counter(found)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Another program holds the row of the session."""
        schema = self.address.rpartition("schema=")[2]
        with psycopg.connect(self.server.address()) as connection:
            connection.execute(f"SELECT 1 FROM {schema}.session FOR UPDATE")
            yield

    def close(self) -> None:
        self.direct.close()
        self.memory.close()


@pytest.fixture
def writer(postgres: Server, proxy: Proxy) -> Iterator[Writer]:
    writer = Writer(postgres, proxy)
    yield writer
    writer.close()


def texts(session: SessionMemory) -> list[str]:
    return [record.decision for record in session.records()]


class Background:
    """Runs a function in a thread while the block runs; `result` is what it returned. An error is raised at the end of the block."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Any = None
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self._error = error

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        if self._error is not None:
            raise self._error


def waiting_for_a_lock(server: Server) -> bool:
    return bool(server.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))


# -- a connection is cut


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("key", [None, "k1"])
def test_append_whose_connection_is_cut_is_stored_once(writer: Writer, how: str, key: str | None) -> None:
    writer.session.add_decision("before")
    writer.proxy.cut(".append(", how)
    record = writer.session.add_decision("cut", idempotency_key=key)
    writer.proxy.deliver()
    assert writer.proxy.cuts == 1
    assert writer.session.get(record.id).decision == "cut"
    writer.session.add_decision("after")
    assert writer.stored() == Counter(["first", "before", "cut", "after"])


@pytest.mark.parametrize("statement", ["BEGIN", "FOR UPDATE", ".append(", COMMIT])
@pytest.mark.parametrize("how", [NEVER_SENT, NO_ANSWER, HALF_ANSWER])
def test_transaction_whose_connection_is_cut_is_stored_once(writer: Writer, how: str, statement: str) -> None:
    writer.be_overtaken()
    if statement == ".append(":  # the first one only finds out that another process wrote
        writer.proxy.cut(".append(", how, how)
    else:
        writer.proxy.cut(statement, how)
    with writer.session.transaction() as tx:
        tx.add_decision("cut")
        tx.add_decision("with it")
    assert writer.proxy.cuts
    writer.session.add_decision("after")
    assert writer.stored() == Counter(["first", "mine", "others", "cut", "with it", "after"])


def test_late_commit_during_the_check_is_acknowledged_once(writer: Writer) -> None:
    """The check waits for the row, which the transaction of the late COMMIT has locked."""
    writer.be_overtaken()
    writer.proxy.cut(COMMIT, LATE)
    with Background(lambda: writer.session.add_decision("cut")) as adding:
        while not waiting_for_a_lock(writer.server):
            pass
        writer.proxy.deliver()
    assert adding.result is not None
    assert writer.stored() == Counter(["first", "mine", "others", "cut"])


@pytest.mark.parametrize("how", [NEVER_SENT, NO_ANSWER])
def test_unknown_outcome_is_said_and_the_idempotency_key_resolves_it(writer: Writer, how: str) -> None:
    """The row is locked by somebody else, so the outcome cannot be found out in time."""
    writer.session.add_decision("before")
    writer.proxy.cut(".append(", how)
    with writer.locked(), pytest.raises(DurabilityUnknown, match="idempotency key"):
        writer.session.add_decision("cut", idempotency_key="k1")
    record = writer.session.add_decision("cut", idempotency_key="k1")
    assert writer.session.get(record.id).decision == "cut"
    assert writer.stored() == Counter(["first", "before", "cut"])


def test_connection_that_is_cut_again_and_again_gives_an_error_or_one_copy(writer: Writer) -> None:
    """After the second cut, the write was reported as failed although it was stored."""
    for number in range(depth(20, 200)):
        hows = random.Random(number).choices([NEVER_SENT, NO_ANSWER, HALF_ANSWER], k=1 + number % 6)
        writer.proxy.cut(".append(" if number % 2 else COMMIT, *hows)
        writer.direct.session("s1").add_decision("others")
        try:
            writer.session.add_decision(f"number {number}")
            expected: tuple[int, ...] = (1,)
        except DurabilityUnknown:
            expected = (0, 1)
        except StorageError:
            expected = (0,)
        writer.proxy.cut("")
        assert writer.stored()[f"number {number}"] in expected, hows


@pytest.mark.parametrize("how", [NEVER_SENT, NO_ANSWER, HALF_ANSWER])
def test_entries_of_a_transaction_that_was_not_committed_are_not_read(writer: Writer, how: str) -> None:
    """A process kept the entries of a failed COMMIT in its history, and read memories that were never stored."""
    writer.proxy.meanwhile(".append(", lambda: writer.direct.session("s1").add_decision("others"))
    writer.proxy.cut(COMMIT, *[how] * 1000)
    with pytest.raises(StorageError):
        writer.session.add_decision("cut", idempotency_key="k1")
    writer.proxy.cut("")
    assert writer.stored() - Counter(["first", "others", "cut"]) == Counter()


@pytest.mark.parametrize("how", [NO_ANSWER, HALF_ANSWER])
@pytest.mark.parametrize("operation", ["create", "archive", "delete", "rename", "setting", "erase"])
def test_operation_whose_commit_has_no_answer_says_that_its_outcome_is_unknown(
    writer: Writer, operation: str, how: str
) -> None:
    """The error said that the server could not be reached, as if nothing had been stored."""
    memory = writer.memory
    record = writer.session.add_decision("to be erased")
    work = {
        "create": lambda: memory.create_session("s2"),
        "archive": lambda: memory.archive_session("s1"),
        "delete": lambda: memory.delete_session("s1"),
        "rename": lambda: writer.session.change_info(project="new"),
        "setting": lambda: memory.set_config("maintenance.auto", False),
        "erase": lambda: writer.session.erase(record.id),
    }[operation]
    writer.proxy.cut(COMMIT, how)
    with pytest.raises(DurabilityUnknown, match="not known"):
        work()


@pytest.mark.parametrize("how", [NEVER_SENT, NO_ANSWER, HALF_ANSWER])
def test_reading_goes_on_over_a_new_connection(writer: Writer, how: str) -> None:
    writer.session.add_decision("second")
    writer.proxy.cut("SELECT", how)
    assert texts(writer.session) == ["first", "second"]
    assert writer.proxy.cuts == 1


def test_write_to_a_server_that_is_away_says_that_nothing_was_stored(writer: Writer) -> None:
    """It waited, and said that the outcome was unknown, although no statement had been sent."""
    writer.session.add_decision("before")
    writer.proxy.close()
    with pytest.raises(StorageError, match="cannot be reached") as caught:
        smp_memory.open(writer.memory.root)
    assert type(caught.value) is not DurabilityUnknown
    assert caught.value.recoverable
