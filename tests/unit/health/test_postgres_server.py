"""`smp doctor` on a store in PostgreSQL: settings of the server by which acknowledged writes may be lost, and what else does not fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.health.examination import NOTE, PROBLEM, WARNING
from tests.postgres_server import Server

pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")


@pytest.fixture(scope="module")
def safe() -> Iterator[Server]:
    server = Server.new(fsync=True)
    yield server
    server.remove()


def issues(address: str) -> list[tuple[str, str]]:
    """Severity and first words of what the check of the server found."""
    with smp_memory.open(address) as memory:
        report = memory.doctor()
        assert not [issue for issue in report.findings if issue.check != "server"]
        return [(issue.severity, issue.message) for issue in report.of("server")]


def kinds(address: str) -> list[tuple[str, str]]:
    return [(severity, message.partition(" ")[0]) for severity, message in issues(address)]


def test_safe_server_has_no_issue(safe: Server) -> None:
    address = safe.new_schema_address()
    assert kinds(address) == []
    with smp_memory.open(address) as memory:
        (check,) = [check for check in memory.doctor().checks if check.name == "server"]
        assert memory.doctor().ok
        assert check.title == "the database server keeps what it acknowledges"
        assert "synchronous_commit=on" in check.said


@pytest.mark.parametrize(
    ("value", "has_replica", "severity"),
    [
        ("off", False, PROBLEM),
        ("off", True, PROBLEM),
        ("local", True, WARNING),
        ("local", False, None),
        ("remote_write", True, WARNING),
        ("remote_write", False, None),
        ("remote_apply", True, None),
    ],
)
def test_synchronous_commit(safe: Server, value: str, has_replica: bool, severity: str | None) -> None:
    address = safe.new_schema_address()
    smp_memory.open(address).close()
    safe.sql(f"ALTER DATABASE smp SET synchronous_commit = '{value}'", "postgres")
    if has_replica:  # nothing is written while no replica answers
        safe.sql("ALTER SYSTEM SET synchronous_standby_names = '*'; ", "postgres")
        safe.sql("SELECT pg_reload_conf(), pg_sleep(0.2)", "postgres")
    try:
        found = kinds(address)
    finally:
        safe.sql("ALTER SYSTEM RESET synchronous_standby_names", "postgres")
        safe.sql("SELECT pg_reload_conf()", "postgres")
        safe.sql("ALTER DATABASE smp RESET synchronous_commit", "postgres")
    assert found == ([(severity, "synchronous_commit")] if severity else [])


def test_fsync_and_full_page_writes(postgres: Server) -> None:
    address = postgres.new_schema_address()
    assert (PROBLEM, "fsync") in kinds(address)
    postgres.sql("ALTER SYSTEM SET full_page_writes = off")
    postgres.sql("SELECT pg_reload_conf()")
    try:
        while (WARNING, "full_page_writes") not in kinds(address):
            pass
    finally:
        postgres.sql("ALTER SYSTEM RESET full_page_writes")
        postgres.sql("SELECT pg_reload_conf()")


def test_encoding(safe: Server) -> None:
    safe.sql("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'", "postgres")
    found = issues(safe.address("latin", schema="smp"))
    assert [message for severity, message in found if severity == PROBLEM and "LATIN1" in message]


def test_tables_of_a_newer_version(safe: Server) -> None:
    address = safe.new_schema_address()
    smp_memory.open(address).close()
    safe.sql(f"UPDATE {address.rpartition('schema=')[2]}.meta SET value = '99' WHERE name = 'schema_version'")
    assert (NOTE, "The tables are of version 99, this SMP knows 1; it can use them.") in issues(address)


def test_owner_of_tables_with_rights_per_role(safe: Server) -> None:
    address = safe.new_schema_address()
    smp_memory.open(address).close()
    safe.sql(f"INSERT INTO {address.rpartition('schema=')[2]}.access (role, project) VALUES ('smp', 'shop')")
    assert kinds(address) == [(NOTE, "Rights")]


def test_replica(safe: Server) -> None:
    address = safe.new_schema_address()
    smp_memory.open(address).close()
    replica = safe.replica()
    found = kinds(replica.address(schema=address.rpartition("schema=")[2]))
    replica.stop()
    assert (NOTE, "This") in found


def test_command_line_names_the_risk(postgres: Server) -> None:
    address = postgres.new_schema_address()
    with smp_memory.open(address) as memory:
        memory.create_session("s1").add_decision("x")
    source = str(Path(smp_memory.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "smp_memory", "doctor", "--json"],
        env={**os.environ, "PYTHONPATH": source, "SMP_ROOT": address},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["findings"]
    assert [issue for issue in found if issue["check"] == "server" and "fsync is off" in issue["message"]]
