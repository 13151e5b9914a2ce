"""Versions of the tables in PostgreSQL: older processes beside newer tables, migrations, and who may carry them out."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import FormatTooNew, NotAllowed, SMPError, StorageCorrupt
from smp_memory.store.postgres import schema
from tests.postgres_server import Server

NEWER = """
import sys, smp_memory
from smp_memory.store.postgres import schema
schema.VERSION = 2
schema.MIGRATIONS[2] = "ALTER TABLE {schema}.session ADD mood text; SELECT pg_sleep(0.3)"
with smp_memory.open(sys.argv[1]) as memory:
    memory.session("s1").add_decision(f"Written by {sys.argv[2]}")
"""


class Store:
    def __init__(self, server: Server) -> None:
        self.server, self.address = server, server.new_schema_address()
        self.schema = self.address.rpartition("schema=")[2]
        with smp_memory.open(self.address) as memory:
            memory.create_session("s1").add_decision("Use tea")

    def sql(self, text: str) -> list[tuple[object, ...]]:
        return self.server.sql(text.replace("{schema}", self.schema))

    def set(self, name: str, value: str) -> None:
        self.sql(f"UPDATE {self.schema}.meta SET value = '{value}' WHERE name = '{name}'")


@pytest.fixture
def store(postgres: Server) -> Store:
    return Store(postgres)


def test_newer_tables_that_an_older_version_can_use_are_used(store: Store) -> None:
    store.set("schema_version", "7")
    store.sql("ALTER TABLE {schema}.session ADD mood text; ALTER TABLE {schema}.entry ADD mood text DEFAULT 'good'")
    with smp_memory.open(store.address) as memory:
        memory.session("s1").add_decision("Use coffee")
        memory.archive_session("s1")
        assert [record.decision for record in memory.restore_session("s1").records()] == ["Use tea", "Use coffee"]
    assert store.sql("SELECT value FROM {schema}.meta WHERE name = 'schema_version'") == [("7",)]


def test_newer_tables_that_an_older_version_cannot_use_are_refused(store: Store) -> None:
    store.set("schema_version", "7")
    store.set("readable_by", "6")
    for create in (True, False):
        with pytest.raises(FormatTooNew, match="tables of version 7; this SMP knows 1"):
            smp_memory.open(store.address, create=create)


def test_processes_that_migrate_at_once_migrate_once_and_older_ones_go_on(store: Store) -> None:
    with smp_memory.open(store.address) as older:
        words = [sys.executable, "-c", NEWER, store.address]
        newer = [subprocess.Popen([*words, name], cwd=Path.cwd()) for name in ("ada", "bob")]
        assert [process.wait(60) for process in newer] == [0, 0]
        older.session("s1").add_decision("Written by the older one")
        written = {record.decision for record in older.session("s1").records()}
    assert written == {"Use tea", "Written by ada", "Written by bob", "Written by the older one"}
    assert store.sql("SELECT value FROM {schema}.meta WHERE name = 'schema_version'") == [("2",)]
    with smp_memory.open(store.address) as older:
        assert len(older.session("s1").records()) == 4


def test_migration_that_fails_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "VERSION", 3)
    monkeypatch.setitem(schema.MIGRATIONS, 2, "ALTER TABLE {schema}.session ADD mood text")
    monkeypatch.setitem(schema.MIGRATIONS, 3, "ALTER TABLE {schema}.nosuch ADD mood text")
    with pytest.raises(SMPError):
        smp_memory.open(store.address)
    assert store.sql("SELECT value FROM {schema}.meta WHERE name = 'schema_version'") == [("1",)]
    assert "mood" not in str(store.sql("SELECT column_name FROM information_schema.columns WHERE table_schema = '{schema}'"))  # fmt: skip


def test_role_that_is_not_the_owner_is_told_who_must_migrate(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    role = f"role_{secrets.token_hex(4)}"
    store.sql(f"CREATE ROLE {role} LOGIN; SELECT {{schema}}.allow('{role}', 'writer')")
    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setitem(schema.MIGRATIONS, 2, "ALTER TABLE {schema}.session ADD mood text")
    with pytest.raises(NotAllowed, match="open the store as the owner once"):
        smp_memory.open(store.server.address(user=role, schema=store.schema))


@pytest.mark.parametrize("change", ["DELETE FROM {schema}.meta", "UPDATE {schema}.meta SET value = 'x'"])
def test_tables_without_a_version_are_refused_with_a_reason(store: Store, change: str) -> None:
    store.sql(change)
    with pytest.raises(StorageCorrupt, match="which version the tables have"):
        smp_memory.open(store.address)
