"""The PostgreSQL of the tests: it survives being killed, and leaves no process, folder or shared memory behind."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.postgres_server import Endpoint, Server

psycopg = pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    server = Server.new()
    yield server
    server.remove()


@pytest.fixture
def table(own: Server) -> str:
    own.new_schema_address()  # starts a server that another test left killed
    name = parse_qs(urlsplit(own.new_schema_address()).query)["schema"][0]
    own.sql(f"CREATE SCHEMA {name}; CREATE TABLE {name}.row(number int)")
    return f"{name}.row"


def socket_folder(server: Server) -> str:
    return parse_qs(urlsplit(server.address()).query)["host"][0]


def processes_in(folder: str) -> list[str]:
    found = []
    for path in glob.glob("/proc/[0-9]*/cwd"):
        try:
            if os.readlink(path).startswith(folder):
                found.append(path)
        except OSError:
            pass
    return found


def segments() -> set[str]:
    """The numbers of all segments of shared memory."""
    lines = Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()
    return {line.split()[1] for line in lines[1:]}


def segments_in(workplace: str) -> set[str]:
    """Those that belong to the servers of a workplace; running or killed, they say it in line 7 of a file."""
    files = [Path(path) for path in glob.glob(f"{workplace}/*/data/postmaster.pid")]
    return {file.read_text(encoding="utf-8").splitlines()[6].split()[1] for file in files}


def test_address_has_database_user_and_schema() -> None:
    endpoint = Endpoint("postgresql://smp@/smp?host=/run/x")
    assert endpoint.address() == "postgresql://smp@/smp?host=/run/x"
    assert endpoint.address("other", "reader", "s") == "postgresql://reader@/other?host=/run/x&schema=s"
    existing = Endpoint("postgresql://me@db.example:5433/mine")
    assert existing.address() == "postgresql://me@db.example:5433/mine"
    assert existing.address(user="you", schema="s") == "postgresql://you@db.example:5433/mine?schema=s"


def test_session_server_answers_and_gives_a_new_schema_each_time(postgres: Server) -> None:
    assert postgres.sql("SELECT 1; SELECT 2, 3") == [(2, 3)]
    assert postgres.sql("SELECT current_setting('server_version_num')::int >= 150000") == [(True,)]
    assert postgres.new_schema_address() != postgres.new_schema_address()


def test_committed_rows_survive_a_killed_server(own: Server, table: str) -> None:
    with psycopg.connect(own.address()) as connection:
        connection.execute(f"INSERT INTO {table} VALUES (1)")
        connection.commit()
        connection.execute(f"INSERT INTO {table} VALUES (2)")
        own.kill()
        assert not processes_in(socket_folder(own))
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    own.start()
    assert own.sql(f"SELECT * FROM {table}") == [(1,)]


def test_server_can_be_stopped_and_started(own: Server, table: str) -> None:
    own.sql(f"INSERT INTO {table} VALUES (1)")
    own.stop()
    with pytest.raises(psycopg.OperationalError):
        own.sql("SELECT 1")
    own.start()
    own.restart()
    assert own.sql(f"SELECT * FROM {table}") == [(1,)]


def test_pgbouncer_shares_one_connection_between_transactions_of_clients(own: Server, table: str) -> None:
    bouncer = own.pgbouncer()
    with psycopg.connect(bouncer.address()) as first, psycopg.connect(bouncer.address()) as second:
        backends = []
        for connection in (first, second, first):
            backends.append(connection.execute("SELECT pg_backend_pid()").fetchone())
            connection.execute(f"INSERT INTO {table} VALUES (1)")
            connection.commit()
    assert backends[0] == backends[1] == backends[2]
    assert own.sql(f"SELECT count(*) FROM {table}") == [(3,)]
    own.sql("CREATE ROLE reader LOGIN")
    with psycopg.connect(bouncer.address(user="reader")) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("reader",)


def test_replica_follows_and_can_be_promoted(own: Server, table: str) -> None:
    replica = own.replica()
    own.sql(f"INSERT INTO {table} VALUES (1)")
    while not replica.sql(f"SELECT * FROM {table}"):
        time.sleep(0.01)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        replica.sql(f"INSERT INTO {table} VALUES (2)")
    own.kill()
    replica.promote()
    replica.sql(f"INSERT INTO {table} VALUES (2)")
    assert replica.sql(f"SELECT * FROM {table} ORDER BY 1") == [(1,), (2,)]


def test_fsync_is_on_if_asked_for() -> None:
    server = Server.new(fsync=True)
    assert server.sql("SHOW fsync") == [("on",)]
    server.remove()


@pytest.mark.parametrize("is_killed", [False, True], ids=["running", "killed"])
def test_nothing_is_left_behind(is_killed: bool) -> None:
    server = Server.new()
    workplace = os.path.dirname(socket_folder(server))
    server.replica()
    if is_killed:
        server.kill()
    mine = segments_in(workplace)
    assert processes_in(workplace)
    assert len(mine & segments()) == 2
    server.remove()
    assert not processes_in(workplace)
    assert not os.path.exists(workplace)
    assert not mine & segments()


@pytest.mark.usefixtures("own")  # skips without a server
def test_server_ends_with_the_process_that_started_it() -> None:
    code = "import os, signal\nfrom tests.postgres_server import Server\n"
    code += "server = Server.new()\nprint(server.address(), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    workplace = os.path.dirname(parse_qs(urlsplit(done.stdout.strip()).query)["host"][0])
    while os.path.exists(workplace):  # the guard needs a moment; pytest's timeout is the limit
        time.sleep(0.01)
    assert not processes_in(workplace)
