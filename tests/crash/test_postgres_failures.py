"""A store in PostgreSQL under failure: every acknowledged write is there once, whatever breaks; nothing else is acknowledged.

Connections are cut at chosen statements by a proxy; servers and clients are killed; a replica is promoted under load. Writers keep a list of what was
acknowledged, and it is compared with what is stored. With SMP_SOAK=1 the numbers are those of the long test.
"""

from __future__ import annotations

import logging
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import smp_memory
from smp_memory.errors import DurabilityUnknown, SessionNotFound, StorageError
from smp_memory.session import SessionMemory
from tests.crash.processes import Worker, run_all
from tests.crash.scenarios import depth
from tests.postgres_proxy import CUTS, HALF_ANSWER, LATE, NEVER_SENT, NO_ANSWER, Proxy
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


def report(outcomes: Counter[str]) -> None:
    """Show the numbers of outcomes with `pytest -rP`."""
    logging.getLogger(__name__).warning("outcomes: %s", dict(outcomes))


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
        self.check()

    def is_running(self) -> bool:
        return self._thread.is_alive()

    def check(self) -> None:
        """Wait for the end. Raises what the function raised, once."""
        self._thread.join(60)
        error, self._error = self._error, None
        if error is not None:
            raise error


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
    for number in range(depth(10, 200)):
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


@pytest.mark.parametrize("operation", ["add", "add a secret", "delete", "create", "archive"])
def test_stored_write_is_not_reported_as_failed_because_a_later_read_fails(writer: Writer, operation: str) -> None:
    """After a lost connection, the size of the session was read; if that failed, so did the write, and it was repeated."""
    session, memory = writer.session, writer.memory
    first = session.add_decision("to be deleted")
    writer.proxy.cut(".append(", NO_ANSWER)
    writer.proxy.meanwhile(COMMIT, lambda: writer.proxy.cut("SELECT", *[NEVER_SENT] * 1000))
    work: Callable[[], object] = {
        "add": lambda: session.add_decision("x"),
        "add a secret": lambda: session.add_decision("The key is AKIAIOSFODNN7EXAMPLE."),
        "delete": lambda: session.delete(first.id),
        "create": lambda: memory.create_session("s2"),
        "archive": lambda: memory.archive_session("s1"),
    }[operation]
    work()
    assert writer.proxy.cuts or operation in ("create", "archive")
    writer.proxy.cut("")


# -- a server, a connection or a client ends in the middle


class Load:
    """Processes that write one session, and the comparison of what they acknowledged with what is stored."""

    def __init__(
        self, address: str, processes: int, writes: int, through: str = "", within: Sequence[str] = ()
    ) -> None:
        """The processes use the address `through`, and are started by the command `within`."""
        self.address, self.expected = address, processes * 2 * writes
        with smp_memory.open(address) as memory:
            memory.create_session("s1")
        names = [f"w{number}" for number in range(processes)]
        self.workers = [Worker("insist", through or address, "s1", name, writes, within) for name in names]

    def is_running(self) -> bool:
        return any(worker.process.poll() is None for worker in self.workers)

    def acknowledged(self) -> int:
        return sum(len(worker.heard("done")) for worker in self.workers)

    def wait_for(self, number: int) -> None:
        """Wait until every process has written, and so many writes are acknowledged."""
        while self.is_running() and (
            self.acknowledged() < number or not all(each.heard("done") for each in self.workers)
        ):
            time.sleep(0.01)

    def check(self, *, may_lose: bool = False) -> Counter[str]:
        """Wait for the end; every acknowledged write is stored once, with its id, and nothing else is. The numbers of outcomes.

        may_lose: acknowledged writes may be missing, but nothing is there twice.
        """
        run_all(self.workers)
        said = [what for worker in self.workers for what in worker.said]
        done = {what["text"]: what["done"] for what in said if "done" in what}
        unknown = {what["unknown"] for what in said if "unknown" in what} - set(done)
        with smp_memory.open(self.address) as memory:
            session = memory.session("s1")
            stored = {record.id: record.decision for record in session.records()}
            assert session.validate().problems == []
            copies = Counter(stored.values())
            missing = {text: stored.get(id) for text, id in done.items() if stored.get(id) != text}
            assert may_lose or missing == {}
            wrong = [text for text, count in copies.items() if count != 1 or text not in done.keys() | unknown]
            assert wrong == [], [what for what in said if wrong[0] in what.values()]
            assert len(done) + len(unknown) == self.expected
        kinds = [next(iter(what)) for what in said if not what.keys() & {"ended"}]
        return Counter(kinds + ["lost"] * len(missing))


def test_server_killed_again_and_again_loses_nothing_acknowledged(postgres: Server) -> None:
    load = Load(postgres.new_schema_address(), processes=depth(4, 16), writes=depth(50, 320))
    for kill in range(1, depth(3, 12) + 1):
        load.wait_for(load.expected * kill // depth(4, 13))
        postgres.kill()
        postgres.start()
    report(load.check())


def test_terminated_backends_lose_nothing(postgres: Server) -> None:
    load = Load(postgres.new_schema_address(), processes=2, writes=depth(60, 600))
    load.wait_for(1)
    while load.is_running():
        postgres.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'smp' AND random() < 0.2"
        )
    report(load.check())


def test_killed_clients_leave_whole_batches_and_no_lock(postgres: Server) -> None:
    address = postgres.new_schema_address()
    with smp_memory.open(address) as memory:
        session = memory.create_session("s1")
        workers = []
        for turn in range(depth(4, 40)):
            workers.append(worker := Worker("storm", address, "s1", f"w{turn}", turn))
            while len(worker.heard("done")) < 5:
                time.sleep(0.01)
            worker.kill()
        done = [what for worker in workers for what in worker.said if "key" in what and "done" in what]
        begun = {
            what["key"]: what["trying"]
            for worker in workers
            for what in worker.said
            if "key" in what and "trying" in what
        }
        copies = Counter(record.topic for record in session.records())
        sizes = {"add": 1, "update": 1, "several": 3, "one": 3}  # an update of nothing adds
        assert copies - Counter({key: sizes[what] for key, what in begun.items()}) == Counter()
        assert all(copies[key] in (0, sizes[what]) for key, what in begun.items())
        assert all(copies[what["key"]] for what in done)
        assert session.validate().problems == []
        session.add_decision("no lock is left")


def test_restart_while_idle_is_not_noticed(postgres: Server) -> None:
    with smp_memory.open(postgres.new_schema_address()) as memory:
        session = memory.create_session("s1")
        with ThreadPoolExecutor(8) as pool:  # several idle connections
            list(pool.map(lambda number: memory.create_session(f"t{number}").add_decision("by a thread"), range(8)))
        for number, use in enumerate(
            [session.records, lambda: session.add_decision("x"), lambda: memory.create_session("s2"), memory.sessions]
        ):
            postgres.restart() if number % 2 else (postgres.kill(), postgres.start())
            use()
        assert texts(session) == ["x"]


# -- a replica is promoted


@pytest.fixture
def own() -> Iterator[Server]:
    server = Server.new()
    yield server
    server.remove()


def either(first: Server, second: Server, schema: str) -> str:
    """An address that leads to the one of two servers that accepts writes."""
    folders = [parse_qs(urlsplit(server.address()).query)["host"][0] for server in (first, second)]
    return f"postgresql://smp@/smp?host={','.join(folders)}&target_session_attrs=read-write&schema={schema}"


def test_replica_promoted_under_load_has_all_that_was_acknowledged_synchronously(own: Server) -> None:
    replica = own.replica()
    own.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    own.sql("SELECT pg_reload_conf()")
    while own.sql("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
        time.sleep(0.01)
    load = Load(either(own, replica, "smp"), processes=depth(3, 8), writes=depth(50, 400))
    load.wait_for(load.expected // 3)
    own.kill()
    replica.promote()
    report(load.check())


def test_replica_promoted_under_load_without_synchronous_replication_holds_nothing_twice(own: Server) -> None:
    """Acknowledged writes may be lost, as documented. The processes go on from what the replica has."""
    replica = own.replica()
    load = Load(either(own, replica, "smp"), processes=3, writes=depth(50, 400))
    load.wait_for(load.expected // 3)
    replica.stop()  # falls behind for sure
    load.wait_for(load.acknowledged() + 20)
    own.kill()
    replica.start()
    replica.promote()
    outcomes = load.check(may_lose=True)
    report(outcomes)
    assert outcomes["lost"]


def test_commit_that_was_not_replicated_is_not_acknowledged(own: Server) -> None:
    """A cancelled wait for the replica is a warning of the server, and the write counted as acknowledged."""
    address = own.new_schema_address()
    with smp_memory.open(address, config=QUICK) as memory:
        session = memory.create_session("s1")
        own.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        own.sql("SELECT pg_reload_conf()")
        with Background(lambda: session.add_decision("not replicated")) as adding, pytest.raises(DurabilityUnknown):
            while adding.is_running():
                own.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            adding.check()
        own.sql("ALTER SYSTEM RESET synchronous_standby_names")
        own.sql("SELECT pg_reload_conf()")
        assert texts(session) == ["not replicated"]


@pytest.mark.parametrize("size", [10, 200_000])
def test_process_follows_a_replica_that_lost_the_last_writes(own: Server, size: int) -> None:
    """Memories that were lost stayed in the history of a process, and hid those that were written in their place."""
    replica = own.replica()
    address = either(own, replica, "smp")
    with smp_memory.open(address) as memory:
        session = memory.create_session("s1")
        session.add_decision("kept number 0", rationale="because " * (size // 8))
        while own.sql("SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()") != [(1,)]:
            time.sleep(0.01)
        replica.stop()
        lost = [session.add_decision(f"lost number {number}").id for number in range(3)]
        gone = memory.create_session("gone")
        gone.add_decision("lost as well")
        assert len(memory.query("lost")) == 4
        own.kill()
        replica.start()
        replica.promote()
        with smp_memory.open(address) as other:
            for number in range(4):  # as many writes of the same length, and more
                other.session("s1").add_decision(f"kept number {number + 1}")
            other.create_session("new").add_decision("of another session")
        assert texts(session) == [f"kept number {number}" for number in range(5)]
        assert session.get(lost[0]).decision == "kept number 1"
        session.add_decision("after")
        with pytest.raises(SessionNotFound):
            gone.add_decision("into a session that was lost")
        assert texts(memory.session("new")) == ["of another session"]
        assert session.validate().problems == []
        assert len({record.id for record in session.records()}) == 6
        assert [hit.record.decision for hit in memory.query("lost")] == []
        assert len(memory.query("kept")) == 5


# -- the network is cut


class CutNetwork:
    """A network namespace with one link to this one, which can be taken down. Skips the test where that is not allowed."""

    def __init__(self) -> None:
        self.name = f"smp{os.getpid() % 100_000}"
        third = os.getpid() % 250
        self.here, there = f"10.213.{third}.1", f"10.213.{third}.2"
        self._run("ip", "netns", "add", self.name, may_skip=True)
        self._run(
            "ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", self.name, may_skip=True
        )
        self._run("ip", "addr", "add", f"{self.here}/30", "dev", self.name)
        self._run("ip", "link", "set", self.name, "up")
        self._run(*self.within, "ip", "addr", "add", f"{there}/30", "dev", "eth0")
        self._run(*self.within, "ip", "link", "set", "eth0", "up")

    @property
    def within(self) -> tuple[str, ...]:
        return "ip", "netns", "exec", self.name

    def _run(self, *words: str, may_skip: bool = False) -> None:
        try:
            subprocess.run(words, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            if not may_skip:
                raise
            self.remove()
            pytest.skip(f"network namespaces cannot be made here: {error}")

    def set(self, state: str) -> None:
        self._run("ip", "link", "set", self.name, state)

    def remove(self) -> None:
        for words in (["ip", "link", "del", self.name], ["ip", "netns", "del", self.name]):
            with suppress(OSError):
                subprocess.run(words, check=False, capture_output=True)


@pytest.fixture
def network() -> Iterator[CutNetwork]:
    network = CutNetwork()
    yield network
    network.remove()


def test_clients_that_are_cut_off_lose_nothing_and_double_nothing(postgres: Server, network: CutNetwork) -> None:
    address = postgres.new_schema_address()
    proxy = Proxy(postgres, host=network.here)
    quick = "?tcp_user_timeout=700&keepalives_idle=1&keepalives_interval=1&keepalives_count=1&connect_timeout=2"
    through = proxy.endpoint.address() + quick + "&schema=" + address.rpartition("schema=")[2]
    load = Load(address, processes=3, writes=depth(60, 300), through=through, within=network.within)
    for cut in range(1, depth(1, 8) + 1):
        load.wait_for(load.expected * cut // depth(3, 10))
        network.set("down")
        time.sleep(2.5)
        network.set("up")
    report(load.check())
    proxy.close()


@pytest.mark.slow
def test_writer_that_is_cut_off_frees_the_row_and_its_late_commit_has_no_effect(writer: Writer) -> None:
    writer.be_overtaken()
    writer.proxy.cut(COMMIT, LATE)
    with pytest.raises(DurabilityUnknown):
        writer.session.add_decision("cut")
    with smp_memory.open(writer.address, config={"concurrency": {"lock_timeout_ms": 60_000}}) as patient:
        patient.session("s1").add_decision("the row is free")
    writer.proxy.deliver()
    assert writer.stored() == Counter(["first", "mine", "others", "the row is free"])


def test_server_ends_the_transaction_of_a_silent_process(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of a session stayed locked for hours after its writer had been cut off."""
    with smp_memory.open(postgres.new_schema_address()) as memory:
        session = memory.create_session("s1")
        monkeypatch.setattr(
            "smp_memory.store.postgres.connection.IDLE_SECONDS", 0.2
        )  # a busy machine needs more to make tables

        def change(info: Any) -> None:
            info.project = "silent"
            while postgres.sql("SELECT 1 FROM pg_stat_activity WHERE state = 'idle in transaction'"):
                pass

        with pytest.raises(StorageError):
            memory.store.session("s1").update_info(change)
        monkeypatch.undo()
        session.add_decision("the row is free")
        assert session.info.project is None
