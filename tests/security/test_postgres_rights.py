"""Rights in PostgreSQL: a database role that was allowed one project or person reads and writes nothing else, through SMP or with SQL."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import NotAllowed, SessionExists, SessionNotFound, SMPError
from smp_memory.privacy.client_tokens import TokenBook, add_token, new_token
from tests.postgres_server import Server

psycopg = pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")
SECRET = "The shop of project B opens in Lisbon"


class Rights:
    """A store with sessions of two projects and two people, and login roles with rights in it."""

    def __init__(self, server: Server) -> None:
        self.server, self.owner = server, server.new_schema_address()
        self.schema = self.owner.rpartition("schema=")[2]
        self.roles: list[str] = []
        with smp_memory.open(self.owner) as memory:
            for project, user in (("a", "ada"), ("a", "eve"), ("b", "bob")):
                session = memory.create_session(f"{project}-{user}", project=project, user=user)
                session.add_decision(SECRET if project == "b" else f"Use tea in project {project}", author=user)
                session.add_finding(f"A finding of {user}", severity="high")
            memory.create_session("b-gone", project="b").add_decision(SECRET)
            memory.delete_session("b-gone", f"Reason: {SECRET}")

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        return self.server.sql(text.format(schema=self.schema))

    def allow(self, kind: str, project: str | None = None, person: str | None = None) -> str:
        """The address of the store for a new login role."""
        role = f"role_{secrets.token_hex(4)}"
        self.roles.append(role)
        more = "".join(f", {name} => '{value}'" for name, value in (("project", project), ("person", person)) if value)
        self.sql(f"CREATE ROLE {role} LOGIN; SELECT {self.schema}.allow('{role}', '{kind}'{more})")
        return self.server.address(user=role, schema=self.schema)

    def connect(self, address: str) -> Callable[..., list[tuple[Any, ...]]]:
        """Run SQL as the role of an address; each statement is a transaction."""

        def run(text: str, *values: Any) -> list[tuple[Any, ...]]:
            with psycopg.connect(address.partition("&schema=")[0], autocommit=True) as connection:
                cursor = connection.execute(text.replace("{schema}", self.schema), values or None)
                while cursor.nextset():
                    pass
                return cursor.fetchall() if cursor.description else []

        return run

    def remove(self) -> None:
        self.sql("DROP SCHEMA {schema} CASCADE")
        for role in [*self.roles, *(f"{self.schema}_{kind}" for kind in ("server", "writer", "reader"))]:
            self.sql(f"DROP OWNED BY {role}; DROP ROLE {role}" if self.sql(f"SELECT FROM pg_roles WHERE rolname = '{role}'") else "SELECT")  # fmt: skip


@pytest.fixture(scope="module")
def shared(postgres: Server) -> Iterator[Rights]:
    """For tests that change nothing."""
    rights = Rights(postgres)
    yield rights
    rights.remove()


@pytest.fixture
def rights(postgres: Server) -> Iterator[Rights]:
    rights = Rights(postgres)
    yield rights
    rights.remove()


def everything(memory: smp_memory.Memory) -> str:
    """All that an ordinary user can ask for."""
    sessions = [
        (session.id, session.info.to_dict(), session.records(include_deleted=True)) for session in memory.sessions()
    ]
    found = [
        memory.query("shop tea finding decision"),
        memory.archived_sessions(),
        memory.deleted_sessions(),
        memory.topics(),
        memory.timeline(),
        memory.agents(),
        memory.session_states(include_archived=True),
        memory.validate(),
    ]
    return str(
        [
            sessions,
            *found,
            memory.context("architect", task="where does the shop open?").text,
            memory.store.audit.entries(),
        ]
    )


def test_reader_of_a_project_sees_nothing_of_others(shared: Rights) -> None:
    with smp_memory.open(shared.allow("reader", "a")) as memory:
        assert sorted(session.id for session in memory.sessions()) == ["a-ada", "a-eve"]
        said = everything(memory)
        assert "tea" in said
        assert "b-" not in said
        assert "Lisbon" not in said
        with pytest.raises(SessionNotFound):
            memory.session("b-bob")


def test_reader_of_a_person_sees_nothing_of_others(shared: Rights) -> None:
    with smp_memory.open(shared.allow("reader", person="eve")) as memory:
        assert [session.id for session in memory.sessions()] == ["a-eve"]
        assert "ada" not in everything(memory)


def test_names_that_look_like_keys_of_rights_give_none(rights: Rights) -> None:
    with smp_memory.open(rights.owner) as memory:
        for number, (project, user) in enumerate([("a", "ada"), ("aada", ""), ("*", "x"), ("x", "*"), ("1:aada", "q"), ("pa", "pa"), ("", "1:aada")]):  # fmt: skip
            memory.create_session(f"s{number}", project=project or None, user=user or None)
    address = rights.allow("reader", "a", "ada")
    with smp_memory.open(address) as memory:
        assert sorted(session.id for session in memory.sessions()) == ["a-ada", "s0"]


def test_role_without_a_row_in_access_sees_no_session(shared: Rights) -> None:
    address = shared.allow("reader", "nothing")
    shared.sql("DELETE FROM {schema}.access WHERE project = 'nothing'")
    with smp_memory.open(address) as memory:
        assert memory.sessions() == []
        assert len(memory.query("shop")) == 0


def test_owner_of_a_schema_needs_no_right_to_create_one(postgres: Server) -> None:
    role, address = f"role_{secrets.token_hex(4)}", postgres.new_schema_address()
    schema = address.rpartition("schema=")[2]
    postgres.sql(f"CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {role}")
    with pytest.raises(NotAllowed):
        smp_memory.open(postgres.address(user=role, schema=f"{schema}_other"))
    with smp_memory.open(postgres.address(user=role, schema=schema)) as memory:
        assert memory.create_session("s1").add_decision("Use tea").id == "DEC-0001"
    postgres.sql(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_role_without_rights_is_refused_with_a_reason(shared: Rights) -> None:
    role = f"role_{secrets.token_hex(4)}"
    shared.roles.append(role)
    shared.sql(f"CREATE ROLE {role} LOGIN")
    with pytest.raises(NotAllowed, match="permission denied"):
        smp_memory.open(shared.server.address(user=role, schema=shared.schema))


@pytest.mark.parametrize(
    "change",
    [
        lambda memory: memory.create_session("new", project="a"),
        lambda memory: memory.session("a-ada").add_decision("No"),
        lambda memory: memory.session("a-ada").update("DEC-0001", rationale="No"),
        lambda memory: memory.session("a-ada").delete("DEC-0001"),
        lambda memory: memory.archive_session("a-ada"),
        lambda memory: memory.delete_session("a-ada"),
        lambda memory: memory.session("a-ada").erase("DEC-0001"),
        lambda memory: memory.session("a-ada").change_info(title="No"),
        lambda memory: memory.session("a-ada").redact(),
        lambda memory: memory.set_config("hooks.record", False),
    ],
)
def test_reader_cannot_write(shared: Rights, change: Callable[[smp_memory.Memory], object]) -> None:
    def state() -> list[tuple[Any, ...]]:
        return shared.sql("SELECT s.*, e.* FROM {schema}.session s JOIN {schema}.entry e ON number = session ORDER BY number, start")  # fmt: skip

    before = state()
    with smp_memory.open(shared.allow("reader", "a")) as memory, pytest.raises(SMPError):
        change(memory)
    assert state() == before


def test_writer_of_a_project_can_do_all_that_sessions_need(rights: Rights, tmp_path: Path) -> None:
    with smp_memory.open(rights.allow("writer", "a")) as memory:
        session = memory.create_session("mine", project="a", user="ada")
        session.add_decision("Use tea", idempotency_key="once")
        session.add_decision("Use coffee")
        session.update("DEC-0001", rationale="It is better")
        session.delete("DEC-0002")
        session.restore("DEC-0002")
        assert memory.query("coffee").ids == ["DEC-0002"]
        session.compact("forced")
        memory.archive_session("mine")
        memory.restore_session("mine")
        receipt = memory.session("mine").erase("DEC-0002", by="ada")
        assert any("vacuum" in text for text in receipt.pending), receipt.pending
        assert any("may see" in text for text in receipt.beyond_reach)
        memory.delete_session("mine", "done")
        memory.undelete_session("mine")
        memory.delete_session("mine")
        memory.purge_session("mine")
        assert [entry["action"] for entry in memory.store.audit.entries()][-1]
        assert memory.store.audit.failure is None
        memory.export(tmp_path / "all.json")
        assert memory.doctor(quick=False).sessions == 2
        assert memory.maintain()
    rows = rights.sql(
        "SELECT state, (SELECT count(*) FROM {schema}.entry WHERE session = number) FROM {schema}.session WHERE id = 'mine'"
    )
    assert rows == [("purged", 0)]


def test_writer_of_a_project_cannot_reach_others_through_smp(rights: Rights) -> None:
    with smp_memory.open(rights.allow("writer", "a")) as memory:
        with pytest.raises(NotAllowed):
            memory.create_session("other", project="b")
        with pytest.raises(NotAllowed):
            memory.create_session("none")
        with pytest.raises(SessionExists):  # ids are one space for all projects
            memory.create_session("b-bob", project="a")
        with pytest.raises(NotAllowed):
            memory.session("a-ada").change_info(project="b")
        for action in (memory.archive_session, memory.delete_session, memory.undelete_session, memory.purge_session):
            with pytest.raises(SMPError):
                action("b-bob")
        assert "Lisbon" not in everything(memory)


ATTACKS = [
    "UPDATE {schema}.session SET project = 'b' WHERE id = 'a-ada'",
    "UPDATE {schema}.session SET project = NULL WHERE id = 'a-ada'",
    "INSERT INTO {schema}.session (id, project, info, seq, numbers) VALUES ('x', 'b', '{}', 0, '{}')",
    "INSERT INTO {schema}.session (id, info, seq, numbers) VALUES ('x', '{}', 0, '{}')",
    "INSERT INTO {schema}.entry (session, start, id, line) VALUES (3, 0, 'DEC-0001', '{}')",
    "INSERT INTO {schema}.entry (session, start, id, line) VALUES (3, 0, 'DEC-0001', '{}') ON CONFLICT DO NOTHING",
    "INSERT INTO {schema}.entry (session, start, id, line) VALUES (3, 0, 'DEC-0001', '{}') ON CONFLICT (session, start) DO UPDATE SET line = ''",
    "INSERT INTO {schema}.entry (session, start, id, line) VALUES (999, 0, 'DEC-0001', '{}')",
    "UPDATE {schema}.entry SET session = 3, start = 99999 WHERE session = 1",
    "INSERT INTO {schema}.access VALUES (session_user, NULL, NULL, true)",
    "UPDATE {schema}.access SET project = NULL",
    "SELECT * FROM {schema}.access",
    "SELECT * FROM {schema}.token",
    "INSERT INTO {schema}.token (line) VALUES ('x')",
    "UPDATE {schema}.meta SET value = '{}'",
    "INSERT INTO {schema}.meta VALUES ('settings', '{}')",
    "DELETE FROM {schema}.audit",
    "UPDATE {schema}.audit SET line = ''",
    "INSERT INTO {schema}.audit (line, role) VALUES ('x', 'smp')",
    "INSERT INTO {schema}.audit (position, line) OVERRIDING SYSTEM VALUE VALUES (9223372036854775807, 'x')",
    "INSERT INTO {schema}.session (number, id, project, info, seq, numbers) OVERRIDING SYSTEM VALUE VALUES (99, 'x', 'a', '{}', 0, '{}')",
    "DELETE FROM {schema}.session WHERE id = 'a-eve'",
    "TRUNCATE {schema}.entry",
    "SELECT {schema}.allow(session_user, 'server')",
    "SELECT {schema}.allow(session_user, 'writer', NULL)",
    "CREATE FUNCTION {schema}.allowed(int) RETURNS text[] LANGUAGE sql AS 'SELECT ARRAY[''*'']'",
    "CREATE OR REPLACE FUNCTION {schema}.allowed(writing boolean) RETURNS text[] LANGUAGE sql AS 'SELECT ARRAY[''*'']'",
    "CREATE TABLE {schema}.mine (x int)",
    "CREATE TRIGGER t AFTER INSERT ON {schema}.session EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "ALTER TABLE {schema}.session DISABLE ROW LEVEL SECURITY",
    "DROP POLICY reading ON {schema}.session",
    "SET row_security = off; SELECT * FROM {schema}.session",
    "SET ROLE smp; SELECT * FROM {schema}.session",
    "SET SESSION AUTHORIZATION smp; SELECT * FROM {schema}.session",
    "SELECT setval('{schema}.moves', 1)",
    "SELECT last_value FROM {schema}.session_number_seq",
    "COPY {schema}.entry TO PROGRAM 'cat'",
]


@pytest.mark.parametrize("statement", ATTACKS)
def test_writer_of_a_project_is_refused_with_sql(shared: Rights, statement: str) -> None:
    run = shared.connect(shared.allow("writer", "a"))
    with pytest.raises(psycopg.Error) as raised:
        run(statement)
    assert "Lisbon" not in str(raised.value)
    assert SECRET in str(shared.sql("SELECT line FROM {schema}.entry WHERE session = 3"))


def test_role_cannot_leave_entries_for_the_next_session_of_somebody_else(rights: Rights) -> None:
    run = rights.connect(rights.allow("writer", "a"))
    for statement in (
        "INSERT INTO {schema}.session (number, id, project, info, seq, numbers) OVERRIDING SYSTEM VALUE VALUES (5, 'x', 'a', '{}', 0, '{}')",
        "INSERT INTO {schema}.entry (session, start, id, line) SELECT 5, start, id, line FROM {schema}.entry WHERE session = 1",
        "DELETE FROM {schema}.session WHERE id = 'x'",
    ):
        with suppress(psycopg.Error):
            run(statement)
    with smp_memory.open(rights.owner) as memory:
        session = memory.create_session("b-new", project="b")
        assert rights.sql("SELECT number FROM {schema}.session WHERE id = 'b-new'") == [(5,)]
        assert not session.records()
        session.add_decision("The first one")


SILENT = [
    "UPDATE {schema}.session SET project = 'a' WHERE id = 'b-bob'",
    "UPDATE {schema}.session SET seq = 0 WHERE project = 'b'",
    "UPDATE {schema}.entry SET line = 'x' WHERE session = 3",
    "UPDATE {schema}.entry SET session = 1, start = 99999 WHERE session = 3",
    "DELETE FROM {schema}.entry WHERE session >= 3",
    "SELECT {schema}.append(3, 2, 3, 9, '{}', 999999, false, '999', 'DEC-0099', 'x', '1000')",
    "SET smp.project = 'b'; UPDATE {schema}.session SET seq = 0",
    "SELECT number FROM {schema}.session WHERE number >= 3 FOR UPDATE",
]


@pytest.mark.parametrize("statement", SILENT)
def test_writer_of_a_project_changes_no_row_of_others_with_sql(rights: Rights, statement: str) -> None:
    def others() -> list[tuple[Any, ...]]:
        return rights.sql("SELECT s.*, e.* FROM {schema}.session s JOIN {schema}.entry e ON number = session WHERE number >= 3 ORDER BY number, start")  # fmt: skip

    before = others()
    assert rights.connect(rights.allow("writer", "a"))(statement) in ([], [(False,)])
    assert others() == before


READS = [
    "SELECT * FROM {schema}.session",
    "SELECT * FROM {schema}.entry",
    "SELECT * FROM {schema}.audit",
    "SELECT * FROM {schema}.meta",
    "SET smp.project = 'b'; SELECT * FROM {schema}.session",
    "SET search_path = pg_temp, pg_catalog; CREATE TEMP TABLE access (role name, project text, person text, may_write bool); INSERT INTO access VALUES (session_user, NULL, NULL, true); SELECT * FROM {schema}.session",
    "CREATE TEMP VIEW mine AS SELECT * FROM {schema}.entry; SELECT * FROM pg_temp.mine",
    "SELECT * FROM pg_stats WHERE schemaname = '{schema}'",
    "SELECT * FROM pg_stats_ext_exprs",
    "EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM {schema}.entry",
    "SELECT query FROM pg_stat_activity WHERE usename <> session_user",
    "SELECT {schema}.allowed(false), {schema}.allowed(true)",
    "SELECT e.* FROM {schema}.session s RIGHT JOIN {schema}.entry e ON number = session",
    "SELECT * FROM query_to_xml('SELECT * FROM {schema}.entry', true, true, '')",
    """CREATE FUNCTION pg_temp.leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS $$ BEGIN RAISE NOTICE '%', $1;
       CREATE TEMP TABLE IF NOT EXISTS seen (x text); INSERT INTO seen VALUES ($1); RETURN true; END $$;
       SELECT count(*) FROM {schema}.entry WHERE pg_temp.leak(line); SELECT * FROM pg_temp.seen""",
]  # fmt: skip


@pytest.mark.parametrize("statement", READS)
def test_writer_of_a_project_reads_nothing_of_others_with_sql(shared: Rights, statement: str) -> None:
    shared.sql("ANALYZE {schema}.session; ANALYZE {schema}.entry")
    said = str(shared.connect(shared.allow("writer", "a"))(statement))
    assert "Lisbon" not in said
    assert "b-bob" not in said
    assert "b-gone" not in said


def test_project_of_a_session_is_the_one_of_its_row(rights: Rights) -> None:
    run = rights.connect(rights.allow("writer", "a"))
    run(
        'UPDATE {schema}.session SET info = replace(info, \'"project_name": "a"\', \'"project_name": "b"\') WHERE id = \'a-ada\''
    )
    assert '"b"' in rights.sql("SELECT info FROM {schema}.session WHERE id = 'a-ada'")[0][0]
    with smp_memory.open(rights.owner) as memory:
        assert memory.session("a-ada").info.project == "a"


def test_functions_of_strangers_are_not_called(rights: Rights) -> None:
    rights.sql("CREATE SCHEMA IF NOT EXISTS hostile; CREATE TABLE hostile.calls (what text); GRANT USAGE ON SCHEMA hostile TO PUBLIC; GRANT INSERT ON hostile.calls TO PUBLIC")  # fmt: skip
    overloads = {
        "nextval(text)": "bigint", "pg_total_relation_size(text)": "bigint", "array_position(text[], text)": "int", "octet_length(varchar)": "int",
        "hashtextextended(text, int)": "bigint", "row_security_active(text)": "bool", "set_config(text, text, text)": "text",
        "to_regclass(varchar)": "regclass", "string_to_array(text, varchar)": "text[]",
        "unnest(bytea[])": "bytea", "unnest(bigint[])": "bigint", "unnest(text[])": "text", "format(text, xid8)": "text",
        "concat_ws(text, numeric, oid, name, text, text, text)": "text",
        "json_build_array(text, bigint, bigint, bigint, text, numeric, bigint, text, text, text, text)": "json",
    }  # fmt: skip
    for name, result in overloads.items():
        rights.sql(f"CREATE FUNCTION public.{name} RETURNS {result} LANGUAGE sql AS $$ INSERT INTO hostile.calls VALUES ('{name}'); SELECT NULL::{result} $$")  # fmt: skip
    try:
        with smp_memory.open(rights.owner) as memory:
            everything(memory)
            session = memory.create_session("mine", project="a")
            session.add_decision("Use tea")
            session.erase("DEC-0001")
            memory.archive_session("mine")
            memory.delete_session("mine")
            memory.purge_session("mine")
            assert memory.store.audit.failure is None
        assert rights.sql("SELECT what FROM hostile.calls") == []
    finally:
        for name in overloads:
            rights.sql(f"DROP FUNCTION public.{name}")
        rights.sql("DROP SCHEMA hostile CASCADE")


def test_server_role_reads_tokens_and_reader_of_all_reads_the_audit_log(shared: Rights) -> None:
    assert shared.connect(shared.allow("server"))("SELECT * FROM {schema}.token") == []
    with smp_memory.open(shared.allow("reader")) as memory:
        assert [entry["session"] for entry in memory.store.audit.entries()] == ["b-gone"]
        assert len(memory.sessions()) == 3


def test_erasure_removes_reasons_from_the_audit_log_or_says_who_can(rights: Rights) -> None:
    with smp_memory.open(rights.allow("writer", "a")) as memory:
        for name in ("DEC-0001", "FIND-0001"):
            memory.session("a-ada").delete(name, "It says tea")
        receipt = memory.session("a-ada").erase("DEC-0001")
        assert any("audit log" in text for text in receipt.pending)
    with smp_memory.open(rights.owner) as memory:
        assert not any("audit log" in text for text in memory.session("a-ada").erase("FIND-0001").pending)
        about = [entry for entry in memory.store.audit.entries() if entry["action"] == "delete"]
        assert [entry.get("reason") for entry in about] == ["It says tea", None]


def test_purge_and_erasure_are_stored_although_the_audit_log_cannot_be_written(rights: Rights) -> None:
    address = rights.allow("writer", "a")
    rights.sql("REVOKE INSERT ON {schema}.audit FROM {schema}_reader")
    with smp_memory.open(address) as memory:
        memory.session("a-ada").erase("DEC-0001")
        assert "permission denied" in str(memory.store.audit.failure)
        memory.delete_session("a-eve")
        memory.purge_session("a-eve")
        assert "permission denied" in str(memory.store.audit.failure)
    assert rights.sql("SELECT id FROM {schema}.entry WHERE session = 1") == [("FIND-0001",)]
    assert rights.sql("SELECT state FROM {schema}.session WHERE id = 'a-eve'") == [("purged",)]


def test_lock_of_the_audit_log_that_somebody_keeps_does_not_stop_an_action(rights: Rights) -> None:
    address = rights.allow("writer", "a")
    with psycopg.connect(address.partition("&schema=")[0], autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended(%s, 1))", (f"{rights.schema}.audit",))
        with smp_memory.open(rights.owner, config={"concurrency.lock_timeout_ms": 200}) as memory:
            memory.delete_session("a-eve")
            assert "could not be logged" in str(memory.store.audit.failure)
            assert [head.session for head in memory.deleted_sessions()] == ["a-eve", "b-gone"]


def test_row_with_the_id_of_another_session_hides_it_from_nobody(rights: Rights) -> None:
    run = rights.connect(rights.allow("writer", "a"))
    with smp_memory.open(rights.owner) as memory:
        assert "Lisbon" in str(memory.query("shop opens"))
        for state in ("purged", "deleted"):
            run(f"INSERT INTO {{schema}}.session (id, state, project, info, seq, numbers) VALUES ('b-bob', '{state}', 'a', '{{}}', 0, '{{}}')")  # fmt: skip
            assert "Lisbon" in str(memory.query("shop opens"))
        assert SECRET in str(memory.session("b-bob").records())
    with smp_memory.open(rights.owner) as memory:
        assert "Lisbon" in str(memory.query("shop opens"))
        memory.delete_session("b-bob")
        assert "Lisbon" not in str(memory.query("shop opens"))


def test_index_forgets_what_a_role_may_no_longer_see(rights: Rights) -> None:
    address = rights.allow("reader", person="ada")
    with smp_memory.open(address) as memory:
        assert "tea" in str(memory.query("tea shop"))
        rights.sql("UPDATE {schema}.access SET person = 'bob'")  # as many sessions as before
        found = str(memory.query("tea shop"))
        assert "Lisbon" in found
        assert "tea" not in found
        rights.sql("DELETE FROM {schema}.access")
        assert len(memory.query("tea shop")) == 0


def test_project_in_the_index_is_the_one_of_the_row(rights: Rights) -> None:
    run = rights.connect(rights.allow("writer", "a"))
    run("UPDATE {schema}.session SET info = replace(info, '\"a\"', '\"b\"'), xid = pg_current_xact_id(), changes = changes + 1 WHERE id = 'a-ada'")  # fmt: skip
    with smp_memory.open(rights.owner) as memory:
        memory.query("tea")
        assert memory.store.indexer.saved_metadata("a-ada")["a-ada"][1].project == "a"


def test_tokens_of_clients_are_for_servers_only_and_garbage_among_them_is_skipped(rights: Rights) -> None:
    with smp_memory.open(rights.allow("server")) as memory:
        secret, token = new_token("ada", os.urandom, projects=["a"], created=datetime.now(UTC))
        add_token(memory.store.tokens, token)
        for line in (
            b"no json",
            b"[]",
            b"\xff",
            b'{"id": 7}',
            b'{"id": "x", "hash": []}',
            b'{"at": "x", "action": "revoke", "id": {}}',
        ):
            memory.store.tokens.append([line])
        book = TokenBook(memory.store.tokens.read()[0])
        assert book.find(secret, datetime.now(UTC)) is not None
        assert secret not in str(rights.sql("SELECT line FROM {schema}.token"))
    with smp_memory.open(rights.allow("writer")) as memory:
        for action in (memory.store.tokens.read, lambda: add_token(memory.store.tokens, token)):
            with pytest.raises(NotAllowed):
                action()
