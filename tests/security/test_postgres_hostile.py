"""Rows that somebody with SQL access planted: treated like hostile files. A problem or a clear error, and nothing else is hidden."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import SMPError
from tests.e2e.terminal import Terminal
from tests.postgres_server import Server

psycopg = pytest.importorskip("psycopg", reason="needs the extra smp-memory[postgres]")
DECISION, OTHER = "Use tea in the kitchen", "Use coffee in the office"
DEEP = '{"a":' * 50_000 + "1" + "}" * 50_000


class Victim:
    """A store with two sessions; rows of the first are attacked."""

    def __init__(self, server: Server) -> None:
        self.server, self.address = server, server.new_schema_address()
        self.schema = self.address.rpartition("schema=")[2]
        with smp_memory.open(self.address) as memory:
            session = memory.create_session("target", project="a", user="ada")
            session.add_decision(DECISION, author="ada")
            session.add_finding("The kettle is broken", severity="high")
            memory.create_session("other", project="a").add_decision(OTHER)
            memory.create_session("archived").add_decision("Archive me")
            memory.archive_session("archived", "old")
            memory.create_session("deleted").add_decision("Delete me")
            memory.delete_session("deleted", "old")

    def sql(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.address.partition("&schema=")[0], autocommit=True) as connection:
            cursor = connection.execute(text.replace("{schema}", self.schema), values or None)
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def drop_checks(self) -> None:
        """As an owner who is hostile, or whose copy of the tables lacks them."""
        names = self.sql(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'c' AND connamespace = %s::regnamespace",
            self.schema,
        )
        for table, name in names:
            self.sql(f"ALTER TABLE {table} DROP CONSTRAINT {name}")

    def plant(self, line: str, id: str = "DEC-0009", start: int = 100_000, session: int = 1) -> None:
        self.sql("INSERT INTO {schema}.entry (session, start, id, line) VALUES (%s, %s, %s, %s)", session, start, id, line)  # fmt: skip
        self.sql("UPDATE {schema}.session SET ending = 200000, changes = changes + 1, xid = pg_current_xact_id() WHERE number = %s", session)  # fmt: skip

    def line(self) -> dict[str, Any]:
        return json.loads(self.sql("SELECT line FROM {schema}.entry WHERE session = 1 AND start = 0")[0][0])  # type: ignore[no-any-return]


@pytest.fixture
def victim(postgres: Server) -> Victim:
    return Victim(postgres)


def attempt(work: Callable[[], object]) -> str:
    """What an operation says; only errors of SMP are expected."""
    try:
        return str(work())
    except SMPError as error:
        assert "Traceback" not in str(error)
        assert len(str(error)) < 5000
        return f"{error.code}: {error}"


def use(address: str, targets: list[str] = ["target"]) -> dict[str, str]:  # noqa: B006 - is not changed
    """What each operation of an API user says."""
    with smp_memory.open(address) as memory:
        doors: dict[str, Callable[[], object]] = {
            "sessions": lambda: [session.id for session in memory.sessions()],
            "states": lambda: memory.session_states(include_archived=True),
            "archived": memory.archived_sessions,
            "deleted": memory.deleted_sessions,
            "query": lambda: memory.query("coffee tea office"),
            "context": lambda: memory.context("architect", task="what do we drink in the office?").text,
            "timeline": memory.timeline,
            "validate": memory.validate,
            "doctor": memory.doctor,
            "maintain": memory.maintain,
            "audit": memory.store.audit.entries,
            "other": lambda: memory.session("other").add_decision("Use milk").id,
            "history": lambda: memory.session("other").history("DEC-0001"),
            "setting": lambda: memory.set_config("hooks.record", False),
        }
        for name in targets:
            doors |= {
                f"{name} records": lambda name=name: memory.session(name).records(include_deleted=True),
                f"{name} info": lambda name=name: memory.session(name).info.to_dict(),
                f"{name} add": lambda name=name: memory.session(name).add_decision("Use water"),
                f"{name} compact": lambda name=name: memory.session(name).compact("forced"),
                f"{name} repair": lambda name=name: memory.session(name).repair(),
                f"{name} archive": lambda name=name: memory.archive_session(name),
                f"{name} delete": lambda name=name: memory.delete_session(name),
                f"{name} undelete": lambda name=name: memory.undelete_session(name),
            }
        said = {name: attempt(work) for name, work in doors.items()}
    assert said["other"] == "DEC-0002"
    for name in ("query", "history"):
        assert "coffee" in said[name]
    for name in ("states", "sessions"):
        assert "other" in said[name]
    assert not [
        name for name in ("archived", "deleted", "validate", "doctor", "timeline") if said[name].startswith("E_")
    ]
    return said


LINES = {
    "no JSON": "no json",
    "empty": "",
    "a list": "[1, 2]",
    "a number": "7",
    "null": "null",
    "deep nesting": DEEP,
    "deep list": "[" * 100_000,
    "NUL escape": '{"id":"DEC-0009","type":"decision","seq":9,"timestamp":"2026-01-01T00:00:00Z","decision":"a\\u0000b"}',
    "lone surrogate": '{"id":"DEC-0009","type":"decision","seq":9,"timestamp":"2026-01-01T00:00:00Z","decision":"\\ud800"}',
    "seq is text": '{"id":"DEC-0009","type":"decision","seq":"x","timestamp":"2026-01-01T00:00:00Z","decision":"x"}',
    "seq is negative": '{"id":"DEC-0009","type":"decision","seq":-9,"timestamp":"2026-01-01T00:00:00Z","decision":"x"}',
    "seq is huge": '{"id":"DEC-0009","type":"decision","seq":1' + "0" * 60 + ',"timestamp":"2026-01-01T00:00:00Z","decision":"x"}',
    "seq is infinite": '{"id":"DEC-0009","type":"decision","seq":1e999,"timestamp":"2026-01-01T00:00:00Z","decision":"x"}',
    "number of many digits": '{"id":"DEC-0009","type":"decision","seq":9,"timestamp":"2026-01-01T00:00:00Z","decision":"x","n":' + "9" * 10_000 + "}",
    "bad time": '{"id":"DEC-0009","type":"decision","seq":9,"timestamp":"99999-01-01","decision":"x"}',
    "no time": '{"id":"DEC-0009","type":"decision","seq":9,"decision":"x"}',
    "time is a list": '{"id":"DEC-0009","type":"decision","seq":9,"timestamp":[],"decision":"x"}',
    "unknown type": '{"id":"DEC-0009","type":"nosuch","seq":9,"timestamp":"2026-01-01T00:00:00Z","decision":"x"}',
    "fields of wrong types": '{"id":"DEC-0009","type":"decision","seq":9,"timestamp":"2026-01-01T00:00:00Z","decision":{"a":[]},"tags":7,"author":[],"references":"x","relations":9}',
    "another id": '{"id":"DEC-0001","type":"decision","seq":9,"timestamp":"2026-01-01T00:00:00Z","decision":"x"}',
    "wrong checksum": '{"id":"DEC-0009","type":"decision","seq":9,"timestamp":"2026-01-01T00:00:00Z","decision":"x","checksum":"sha256:0000000000000000"}',
    "two lines": '{"a":1}\n{"b":2}',
    "line breaks": "\n\n\r\n",
    "terminal codes": '{"id":"DEC-0009","type":"decision","seq":9,"timestamp":"2026-01-01T00:00:00Z","decision":"\\u001b]0;owned\\u0007"}',
    "revision of nothing": '{"id":"DEC-0009","revision":3,"seq":9,"timestamp":"2026-01-01T00:00:00Z","changes":{"decision":"x"}}',
    "transaction of nothing": '{"id":"DEC-0009","type":"decision","seq":9,"tx":"9-99999999999:1","timestamp":"2026-01-01T00:00:00Z","decision":"x"}',
}  # fmt: skip


def test_hostile_lines_hide_nothing_else(victim: Victim) -> None:
    victim.drop_checks()
    for number, line in enumerate(LINES.values()):
        victim.plant(line, start=100_000 + number)
    said = use(victim.address)
    assert DECISION in said["target records"]
    assert "kettle" in said["target records"]


ROWS = {
    "numbers": ["x", "[]", "7", "null", DEEP, '{"decision": "x"}', '{"decision": -5}', '{"decision": 1e400}', '{"decision": 1' + "0" * 100 + "}", '{"../x": 3}'],
    "info": ["", "x", "[]", "7", "null", DEEP, '{"session_id": 7}', '{"created_at": []}', '{"smp": 7}', '{"metadata": "x"}', '{"smp": {"config": {"hooks": {"record": true}}}}'],
    "about": ["", "x", "[]", "7", "null", DEEP, '{"deleted_at": "x"}', '{"archived": {"archived_at": 7}}', '{"reason": []}', '{"archived_at": "99999-01-01"}'],
    "archived": ["", "x", "[]", "7", "null", DEEP, '{"archived_at": "x"}'],
    "project": ["../../x", "\x1b]0;owned\x07", "x" * 100_000],
    "person": ["../../x", "\x1b]0;owned\x07"],
    "seq": ["-5", "9223372036854775807"],
    "ending": ["-5", "9223372036854775807", "0"],
    "bytes": ["-5", "9223372036854775807"],
    "changes": ["-5", "9223372036854775807"],
    "generation": ["-5", "9223372036854775807"],
    "moved": ["-5", "9223372036854775807"],
    "written": ["infinity", "-infinity", "0001-01-01 BC", "290000-01-01"],
    "xid": ["0", "18446744073709551615"],
}  # fmt: skip


@pytest.mark.parametrize("column", ROWS)
def test_hostile_columns_of_sessions_hide_no_other_session(victim: Victim, column: str) -> None:
    victim.drop_checks()
    targets = [f"target{number}" for number in range(len(ROWS[column]))]
    is_away = column in ("about", "archived", "moved")
    with smp_memory.open(victim.address) as memory:
        for number, name in enumerate(targets):
            memory.create_session(name, project="a").add_decision(DECISION)
            if is_away:
                (memory.archive_session if number % 2 else memory.delete_session)(name)
    for name, value in zip(targets, ROWS[column], strict=True):
        victim.sql(f"UPDATE {{schema}}.session SET {column} = %s WHERE id = %s", value, name)
    said = use(victim.address, [*targets, "target"])
    assert DECISION in said["target records"]
    if not is_away:
        assert all(DECISION in said[f"{name} records"] for name in targets)


IDS = [
    "../../../etc/passwd",
    "a/b",
    "..",
    ".",
    "",
    "\x1b]0;owned\x07",
    "a\nb",
    "x" * 2000,
    "ünï",
    "CON",
    "-x",
    "target ",
]


def test_hostile_ids_of_sessions_reach_no_path_and_no_terminal(
    victim: Victim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    victim.drop_checks()
    for id in IDS:
        for state in ("live", "deleted", "purged"):
            victim.sql("INSERT INTO {schema}.session (id, state, info, seq, numbers) SELECT %s, %s, info, seq, numbers FROM {schema}.session WHERE number = 1", id, state)  # fmt: skip
    state_folder = tmp_path / "deep" / "er" / "state"
    monkeypatch.setenv("SMP_STATE_DIR", str(state_folder))
    said = use(victim.address, IDS)
    assert not any(char in "".join(said.values()) for char in "\x1b\x07")
    assert [path for path in tmp_path.rglob("*") if path.is_file() and state_folder not in path.parents] == []
    monkeypatch.setenv("SMP_ROOT", victim.address)
    for words in (["session", "list", "--all"], ["doctor"], ["status"], ["trash"]):
        code, out, err = Terminal(capsys)(*words)
        assert code in (0, 1), err
        assert not any(char in out + err for char in "\x1b\x07")


SETTINGS = ["", "x", "[]", DEEP, '{"hooks": {"record": "x"}}', '{"search": {"embedder": "os:system"}}', '{"nosuch": 1}', '{"format": 99}', '{"layout": "log"}', "x" * 3_000_000]  # fmt: skip


@pytest.mark.parametrize("text", SETTINGS, ids=lambda given: given[:20])
def test_hostile_settings_are_reported_and_run_nothing(victim: Victim, text: str) -> None:
    victim.sql("INSERT INTO {schema}.meta VALUES ('settings', %s)", text)
    victim.sql("INSERT INTO {schema}.meta VALUES ('configured_at', 'x')")
    if "format" in text:
        assert attempt(lambda: smp_memory.open(victim.address)).startswith("E_FORMAT_TOO_NEW")
        return
    with smp_memory.open(victim.address) as memory:
        assert "coffee" in str(memory.query("coffee"))
        assert attempt(lambda: memory.session("other").add_decision("Use milk").id).startswith(
            ("DEC-0002", "E_CONFIG_INVALID")
        )
        attempt(lambda: memory.set_config("hooks.record", False))
        assert attempt(memory.doctor).startswith("HealthReport")


def test_settings_that_others_change_and_that_lower_protection_wait_for_trust(victim: Victim) -> None:
    mail = "ada@example.org"
    victim.sql('INSERT INTO {schema}.meta VALUES (\'settings\', \'{"privacy": {"redaction": {"enabled": false}}}\')')
    with smp_memory.open(victim.address) as memory:
        assert [held.key for held in memory.config.held] == ["privacy.redaction.enabled"]
        key = "AKIAIOSFODNN7EXAMPL2"
        assert key not in memory.session("target").add_finding(f"The key is {key}, of {mail}").finding
        memory.trust()
    with smp_memory.open(victim.address) as memory:
        assert memory.config.held == []
        assert key in memory.session("target").add_finding(f"The key is {key}").finding


def test_own_settings_of_a_session_that_others_change_wait_for_trust(victim: Victim) -> None:
    info = json.loads(victim.sql("SELECT info FROM {schema}.session WHERE number = 1")[0][0])
    with smp_memory.open(victim.address) as memory:
        memory.session("other").set_config("privacy.redaction.enabled", False)
    own = json.loads(victim.sql("SELECT info FROM {schema}.session WHERE id = 'other'")[0][0])
    info["smp"] = {**info["smp"], **{name: value for name, value in own["smp"].items() if name not in info["smp"]}}
    victim.sql("UPDATE {schema}.session SET info = %s WHERE number = 1", json.dumps(info))
    with smp_memory.open(victim.address) as memory:
        key = "AKIAIOSFODNN7EXAMPL2"
        assert key in memory.session("other").add_finding(f"The key is {key}").finding
        assert key not in memory.session("target").add_finding(f"The key is {key}").finding


def test_repair_counts_numbers_again_that_cannot_be_read(victim: Victim) -> None:
    with smp_memory.open(victim.address) as memory:
        memory.session("target").add_decision("Use water")
        memory.session("target").delete("DEC-0002")
    victim.sql("UPDATE {schema}.session SET numbers = 'x', seq = 0, changes = changes + 1 WHERE number = 1")
    with smp_memory.open(victim.address) as memory:
        session = memory.session("target")
        assert attempt(lambda: session.add_decision("Use milk")).startswith("E_SESSION_CORRUPT")
        assert [problem.code for problem in session.validate().problems] == ["numbers"]
        assert session.repair().ok
        assert session.add_decision("Use milk").id == "DEC-0003"
        assert session.validate().ok


def test_audit_lines_that_cannot_be_read_hide_no_other(victim: Victim) -> None:
    for line in (b"no json", b"[]", b"\xff\xfe", DEEP.encode(), b"null"):
        victim.sql("INSERT INTO {schema}.audit (line) VALUES (%s)", line)
    with smp_memory.open(victim.address) as memory:
        assert [entry["action"] for entry in memory.store.audit.entries()] == ["archive_session", "delete_session"]
        assert "5 of 7 lines cannot be read" in memory.store.audit.problems()[0]


REFUSED = [
    "INSERT INTO {schema}.entry (session, start, id, line) VALUES (1, 100000, 'DEC-0009', repeat('x', 20000000))",
    "INSERT INTO {schema}.entry (session, start, id, line) VALUES (1, -5, 'DEC-0009', '{}')",
    "INSERT INTO {schema}.entry (session, start, id, line, segment) VALUES (1, 100000, 'DEC-0009', '{}', 7)",
    "INSERT INTO {schema}.entry (session, start, id, line) VALUES (1, 100000, '../../x', '{}')",
    "UPDATE {schema}.session SET id = '../../x' WHERE number = 1",
    "UPDATE {schema}.session SET id = 'x' || chr(27) WHERE number = 1",
    "UPDATE {schema}.session SET info = repeat('x', 5000000) WHERE number = 1",
    "UPDATE {schema}.session SET numbers = repeat('x', 5000000) WHERE number = 1",
    "UPDATE {schema}.session SET about = repeat('x', 5000000) WHERE number = 1",
    "UPDATE {schema}.session SET archived = repeat('x', 5000000) WHERE number = 1",
    "UPDATE {schema}.session SET project = repeat('x', 5000000) WHERE number = 1",
    "UPDATE {schema}.session SET seq = -1 WHERE number = 1",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_tables_refuse_what_no_writer_stores(victim: Victim, statement: str) -> None:
    role = f"role_{secrets.token_hex(4)}"
    victim.sql(f"CREATE ROLE {role} LOGIN; SELECT {{schema}}.allow('{role}', 'writer')")
    address = victim.server.address(user=role)
    with psycopg.connect(address, autocommit=True) as connection, pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(statement.replace("{schema}", victim.schema))


def test_line_of_more_than_an_entry_may_have_is_a_problem(victim: Victim) -> None:
    victim.drop_checks()
    victim.plant('{"id":"DEC-0009","text":"' + "x" * (17 << 20) + '"}')
    with smp_memory.open(victim.address) as memory:
        assert [record.id for record in memory.session("target").records()] == ["DEC-0001", "FIND-0001"]
        assert [problem.code for problem in memory.session("target").validate().problems] == ["damaged"]


def test_error_text_of_the_server_cannot_control_the_terminal(
    victim: Victim, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    victim.sql(
        "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE E'\\x1b]0;owned\\x07 no\\n room'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON {schema}.session FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()"
    )
    monkeypatch.setenv("SMP_ROOT", victim.address)
    for words in (
        ["session", "new", "more"],
        ["session", "new", "more", "--json"],
        ["session", "new", "more", "--verbose"],
    ):
        code, out, err = Terminal(capsys)(*words)
        assert code
        assert "owned" in out + err
        assert not any(char in out + err for char in "\x1b\x07")
