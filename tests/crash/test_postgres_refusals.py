"""What a PostgreSQL server refuses, and limits of it: each is an error of the right kind in plain words, without a password and without a traceback."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

import smp_memory
from smp_memory.errors import (
    Busy,
    LockTimeout,
    NotAllowed,
    QueryTimeout,
    SMPError,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StoreNotFound,
)
from tests.crash.processes import SOURCE, Worker, run_all
from tests.postgres_server import Server

psycopg = pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")
pytestmark = pytest.mark.crash
SECRET = "hunter2-secret"


@pytest.fixture
def address(postgres: Server) -> str:
    return postgres.new_schema_address()


@pytest.fixture
def own() -> Iterator[Server]:
    server = Server.new()
    yield server
    server.remove()


def folder_of(server: Server) -> Path:
    return Path(parse_qs(urlsplit(server.address()).query)["host"][0])


def command_line(address: str, *words: str) -> tuple[int, str]:
    """The exit code of a command, and what it said."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SMP_") or "STATE" in name}
    done = subprocess.run(
        [sys.executable, "-m", "smp_memory", *words],
        env={**kept, "PYTHONPATH": str(SOURCE), "SMP_ROOT": address, "PGPASSWORD": SECRET},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def assert_refused(address: str, kind: type[SMPError], words: str) -> None:
    """Python raises this error, and the command line says the same in few lines."""
    with pytest.raises(SMPError, match=words) as caught:
        smp_memory.open(address, create=False)
    assert type(caught.value) is kind or (kind is StorageError and isinstance(caught.value, kind)), repr(caught.value)
    code, said = command_line(address, "list")
    assert code == caught.value.exit_code, said
    assert words.split(".*", maxsplit=1)[0] in said
    assert "Traceback" not in said
    assert SECRET not in said + str(caught.value)


@contextmanager
def setting(server: Server, **settings: str) -> Iterator[None]:
    """Settings of all new connections to the database."""
    for name, value in settings.items():
        server.sql(f"ALTER DATABASE smp SET {name} = '{value}'", "postgres")
    try:
        yield
    finally:
        server.sql("ALTER DATABASE smp RESET ALL", "postgres")


# -- opening


def test_missing_store_database_and_server(postgres: Server, address: str, tmp_path: Path) -> None:
    assert_refused(address, StoreNotFound, "There is no store at this address")
    assert_refused(postgres.address("no_such_database"), StoreNotFound, "The database does not exist")
    assert_refused(f"postgresql://smp@/smp?host={tmp_path}", StorageError, "The server cannot be reached")


def test_server_that_is_down(own: Server) -> None:
    address = own.new_schema_address()
    smp_memory.open(address).close()
    own.kill()
    assert_refused(address, StorageError, "The server cannot be reached")


def test_wrong_password_and_missing_role(own: Server) -> None:
    address = own.new_schema_address()
    smp_memory.open(address).close()
    own.sql("CREATE ROLE agent LOGIN PASSWORD 'another'")
    rules = folder_of(own) / "data" / "pg_hba.conf"
    rules.write_text("local all agent scram-sha-256\nlocal all stranger reject\nlocal all all trust\n")
    own.sql("SELECT pg_reload_conf()")
    place = address.replace("smp@", "agent@")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", SECRET)
        assert_refused(place, NotAllowed, "The server refused the login")
        assert_refused(address.replace("smp@", "nobody@"), NotAllowed, "The server refused the login")
        assert_refused(address.replace("smp@", "stranger@"), NotAllowed, "The server refused the login")


def test_too_many_connections(own: Server) -> None:
    address = own.new_schema_address()
    smp_memory.open(address).close()
    own.sql("CREATE ROLE agent LOGIN CONNECTION LIMIT 0")
    assert_refused(address.replace("smp@", "agent@"), Busy, "no free connection")
    with ExitStack() as held:
        with pytest.raises(psycopg.OperationalError):
            while True:
                held.enter_context(psycopg.connect(own.address()))
        assert_refused(address, Busy, "no free connection")


# -- limits while writing


def test_replica_can_be_read_and_refuses_writes(own: Server) -> None:
    address = own.new_schema_address()
    with smp_memory.open(address) as memory:
        memory.create_session("s1").add_decision("on the primary")
    replica = own.replica()
    schema = address.rpartition("schema=")[2]
    with smp_memory.open(replica.address(schema=schema)) as memory:
        session = memory.session("s1")
        assert [record.decision for record in session.records()] == ["on the primary"]
        assert [hit.record.decision for hit in memory.query("primary")] == ["on the primary"]
        with pytest.raises(StorageReadOnly, match="address of the primary"):
            session.add_decision("on the replica")
        with pytest.raises(StorageReadOnly):
            memory.create_session("s2")
    code, said = command_line(replica.address(schema=schema), "add", "decision", "x", "--session", "s1")
    assert code == StorageReadOnly.exit_code, said
    assert "Traceback" not in said


def test_statement_timeout(postgres: Server, address: str) -> None:
    with smp_memory.open(address) as memory:
        memory.create_session("s1").add_decision("first")
    with setting(postgres, statement_timeout="300ms"), smp_memory.open(address) as memory:
        session = memory.session("s1")
        with locked(postgres, address), pytest.raises(QueryTimeout, match="took too long"):
            session.add_decision("second")
        session.add_decision("third")
        assert [record.decision for record in session.records()] == ["first", "third"]


def test_lock_timeout(postgres: Server, address: str) -> None:
    with smp_memory.open(address, config={"concurrency": {"lock_timeout_ms": 200}}) as memory:
        session = memory.create_session("s1")
        with locked(postgres, address), pytest.raises(LockTimeout):
            session.add_decision("waits")
        with locked(postgres, address), pytest.raises(LockTimeout):
            memory.archive_session("s1")
        assert session.records() == []


def test_lock_timeout_of_zero_does_not_wait_for_ever(postgres: Server, address: str) -> None:
    with smp_memory.open(address, config={"concurrency": {"lock_timeout_ms": 0}}) as memory:
        session = memory.create_session("s1")
        with locked(postgres, address), pytest.raises(LockTimeout):
            session.add_decision("waits")


def test_log_that_is_locked_is_not_waited_for_for_ever(postgres: Server, address: str) -> None:
    with smp_memory.open(address, config={"concurrency": {"lock_timeout_ms": 200}}) as memory:
        schema = address.rpartition("schema=")[2]
        with psycopg.connect(postgres.address()) as connection:
            connection.execute(f"LOCK TABLE {schema}.audit")
            with pytest.raises(LockTimeout):
                memory.store.audit.log.append([b"{}"])


@contextmanager
def locked(server: Server, address: str) -> Iterator[None]:
    """Another program holds the rows of all sessions."""
    schema = address.rpartition("schema=")[2]
    with psycopg.connect(server.address()) as connection:
        connection.execute(f"SELECT 1 FROM {schema}.session FOR UPDATE")
        yield


def test_erasure_does_not_make_all_others_wait_for_a_long_transaction(postgres: Server, address: str) -> None:
    """The server waited for the table to be free, and everybody else waited behind it."""
    schema = address.rpartition("schema=")[2]
    with smp_memory.open(address, config={"concurrency": {"lock_timeout_ms": 500}}) as memory:
        session = memory.create_session("s1")
        ids = [session.add_decision(f"a secret plan of the company, number {number}").id for number in range(2)]
        with psycopg.connect(postgres.address()) as connection:
            connection.execute(f"SELECT 1 FROM {schema}.entry").fetchall()
            receipt = session.erase(ids[0])
            session.add_decision("others go on")
        assert [each for each in receipt.pending if "lock not available" in each], receipt.pending
        assert not [each for each in session.erase(ids[1]).pending if "server" in each]


def test_processes_that_create_a_store_at_once_make_one(address: str) -> None:
    workers = [Worker("create", address, "postgresql", f"w{number}", 3) for number in range(6)]
    run_all(workers)
    created = Counter(name for worker in workers for name in worker.heard("created"))
    assert created == Counter(f"common-{serial}" for serial in range(3))
    with smp_memory.open(address) as memory:
        assert len(memory.sessions()) == 6 * 3 + 3


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_full_disk_of_the_server(own: Server) -> None:
    """A tablespace on a small disk is full."""
    place = folder_of(own) / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=777", "tmpfs", str(place)], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        os.chmod(place, 0o700)
        subprocess.run(["chown", "nobody:nogroup", str(place)], check=True)
        own.sql(f"CREATE TABLESPACE small LOCATION '{place}'")
        own.sql("ALTER DATABASE smp SET default_tablespace = small", "postgres")
        with smp_memory.open(own.new_schema_address()) as memory:
            session = memory.create_session("s1")
            done = []
            with pytest.raises(StorageFull, match="no room left"):
                for number in range(1000):
                    text = f"{number} " + os.urandom(30_000).hex()
                    session.add_decision(text)
                    done.append(text)
            assert [record.decision for record in session.records()] == done
    finally:
        own.kill()
        subprocess.run(["umount", "-l", str(place)], check=False)


# -- the pool of a process


def test_more_threads_than_connections_wait_for_each_other(address: str) -> None:
    with smp_memory.open(address) as memory:
        sessions = [memory.create_session(f"s{number}") for number in range(40)]
        with ThreadPoolExecutor(40) as pool:
            list(pool.map(lambda session: [session.add_decision(f"d{number}") for number in range(5)], sessions))
        assert [len(session.records()) for session in sessions] == [5] * 40


def test_exhausted_pool_says_so(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smp_memory.store.postgres.connection.WAIT_SECONDS", 0.1)
    with smp_memory.open(address) as memory, ThreadPoolExecutor(10) as pool:
        end = threading.Event()
        busy = threading.Semaphore(0)

        def hold() -> None:
            with memory.store.tables.transaction():
                busy.release()
                end.wait(60)

        held = [pool.submit(hold) for _ in range(10)]
        for _ in held:
            busy.acquire()
        with pytest.raises(Busy, match="All 10 connections of this process"):
            memory.sessions()
        end.set()
        for each in held:
            each.result()
        assert memory.sessions() == []


# -- fork


def _write(session: smp_memory.SessionMemory, name: str) -> None:
    for number in range(10):
        session.add_decision(f"{name} {number}")


def test_parent_and_children_go_on_after_a_fork(address: str) -> None:
    with smp_memory.open(address) as memory:
        session = memory.create_session("s1")
        with ThreadPoolExecutor(4) as pool:  # several connections, some of them in use
            writing = [pool.submit(_write, session, f"thread {number}") for number in range(4)]
            context = multiprocessing.get_context("fork")
            children = [context.Process(target=_write, args=(session, f"child {number}")) for number in range(3)]
            for child in children:
                child.start()
            _write(session, "parent")
            for child in children:
                child.join(60)
            for each in writing:
                each.result()
        assert [child.exitcode for child in children] == [0, 0, 0]
        names = [f"thread {number}" for number in range(4)] + [f"child {number}" for number in range(3)] + ["parent"]
        expected = Counter(f"{name} {number}" for name in names for number in range(10))
        assert Counter(record.decision for record in session.records()) == expected
        assert session.validate().problems == []
