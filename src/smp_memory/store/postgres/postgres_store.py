"""A store in one schema of a PostgreSQL database.

Guarantees: those of `store.port`. A write is acknowledged when its transaction has committed; how safe that is depends on the server's
`synchronous_commit`, which `smp doctor` reports. Changes of a session as a whole are one transaction. An erasure removes the
rows and rewrites the table where that is quick; the receipt names what only the operator of the server can reach.
"""

from __future__ import annotations

import json
import os
import weakref
from threading import RLock
from typing import TYPE_CHECKING, Any

from smp_memory.config.config_file import check_removal, read_settings, with_setting
from smp_memory.errors import InvalidConfig, SessionExists, SMPError, StorageCorrupt
from smp_memory.files.activity import ACCESSES, SESSION_USES, AccessLog, StateLog
from smp_memory.health.examination import NOTE, PROBLEM, WARNING, Check, HealthIssue
from smp_memory.index.full_text_index import FullTextIndex
from smp_memory.index.history_index import HistoryFeed
from smp_memory.index.index import discard_all
from smp_memory.index.stored_feed import StoredFeed
from smp_memory.model import ids
from smp_memory.model.history import IdAllocator, SessionHistory
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE, PURGED, SessionHead
from smp_memory.model.times import to_moment
from smp_memory.privacy.audit import Audit, decoded
from smp_memory.store.postgres import schema
from smp_memory.store.postgres.erasure import Erasure, clean_tables
from smp_memory.store.postgres.feed import PostgresSource
from smp_memory.store.postgres.postgres_session import PostgresSession
from smp_memory.store.postgres.tables import LAYOUT, Tables, column_text, decode_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from psycopg import Connection

    from smp_memory.config.settings import Config
    from smp_memory.files.user_state import UserState
    from smp_memory.health.examination import Examination
    from smp_memory.model.deletions import Receipt
    from smp_memory.model.entry import Entry
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.model.storage_reports import AppendLog
    from smp_memory.store.port import Histories, Note, SessionStore, Store
    from smp_memory.store.postgres.connection import Connections

    def _provides_port(
        store: PostgresStore, session: PostgresSession, log: TableLog
    ) -> tuple[Store, SessionStore, AppendLog]:
        return store, session, log  # checked by mypy


NAME = "postgresql"
# Python knows no time before year 1 or after 9999.
_WRITTEN = "least(greatest(written, timestamptz '0001-01-02'), timestamptz '9999-01-01')"
_HEAD = f"number, id, state, changes, {_WRITTEN}, bytes, about, archived"
_ORDER = "state = 'deleted', state = 'archived', id, moved"


_OLDEST_SERVER = 15
_FACTS = """
SELECT current_setting('synchronous_commit'), current_setting('synchronous_standby_names') <> '', current_setting('fsync') = 'on',
    current_setting('full_page_writes') = 'on', current_setting('server_version_num')::int / 10000, pg_encoding_to_char(encoding),
    pg_is_in_recovery(), NOT row_security_active('{schema}.session') AND has_table_privilege('{schema}.access', 'SELECT'), session_user, (SELECT value::int FROM {schema}.meta WHERE name = 'schema_version')
FROM pg_database WHERE datname = current_database()
"""
_RISKS = {  # of synchronous_commit: severity, whether a replica must wait for it, what is at risk
    "off": (
        PROBLEM,
        False,
        "a crash of the server loses the writes of the last moments, although they were acknowledged",
    ),
    "local": (WARNING, True, "a failover loses acknowledged writes that had not reached the replica"),
    "remote_write": (WARNING, True, "a power loss of the replica before a failover loses acknowledged writes"),
}


class ServerCheck(Check):
    name = "server"
    title = "the database server keeps what it acknowledges"
    failed = "the database server may lose or refuse writes"
    fails_from = WARNING

    def store(self, subject: Examination) -> Iterator[HealthIssue]:
        tables = subject.store.tables  # type: ignore[attr-defined]
        (facts,) = tables.rows(_FACTS)
        commit, has_replica, syncs, writes_pages, version, encoding, is_replica, sees_all, role, found = facts
        self.summary = f"PostgreSQL {version}, synchronous_commit={commit}"
        yield from self._durability(commit, has_replica, syncs, writes_pages)
        if version < _OLDEST_SERVER:
            message = f"The server is PostgreSQL {version}; SMP is tested with {_OLDEST_SERVER} and newer."
            yield HealthIssue(self.name, WARNING, message, "Upgrade the server.")
        if encoding != "UTF8":
            message = f"The encoding of the database is {encoding}; memories with characters that it lacks are refused."
            yield HealthIssue(
                self.name, PROBLEM, message, "Create a database with ENCODING 'UTF8' and copy the store there."
            )
        if is_replica:
            message = "This server is a replica: memories can be read here, but not written."
            yield HealthIssue(self.name, NOTE, message, "Give the address of the primary to those who write.")
        if sees_all and tables.rows("SELECT 1 FROM {schema}.access LIMIT 1"):
            message = f"Rights per role are in use, and do not hold for the role {role}: it owns the tables or may bypass them."
            yield HealthIssue(self.name, NOTE, message, "Let agents log in with roles of their own; see docs/scale.md.")
        if found != schema.VERSION:
            message = f"The tables are of version {found}, this SMP knows {schema.VERSION}; it can use them."
            yield HealthIssue(self.name, NOTE, message, "Install the newer SMP here, too.")

    def _durability(self, commit: str, has_replica: bool, syncs: bool, writes_pages: bool) -> Iterator[HealthIssue]:
        severity, needs_replica, risk = _RISKS.get(commit, (NOTE, True, ""))
        if risk and (has_replica or not needs_replica):
            advice = "Set synchronous_commit = on for this database or role."
            yield HealthIssue(self.name, severity, f"synchronous_commit is {commit}: {risk}.", advice)
        if not syncs:
            message = "fsync is off: a power loss or a crash of the machine can destroy the whole database."
            yield HealthIssue(self.name, PROBLEM, message, "Set fsync = on in the server's configuration.")
        if not writes_pages:
            message = "full_page_writes is off: a power loss can leave pages half written, unless the file system rules that out."
            yield HealthIssue(self.name, WARNING, message, "Set full_page_writes = on in the server's configuration.")


class PostgresStore:
    """Sessions, index, logs and settings of one schema."""

    files, layout_name = None, NAME
    checks = (ServerCheck,)  # of `smp doctor`

    def __init__(
        self,
        connections: Connections,
        config: Config,
        configured_at: float | None,
        uid: str,
        admit: Callable[..., None],
        state: UserState,
    ) -> None:
        self.tables = Tables(connections, config, admit, self._clean_after_redaction)
        self.root, self.check_open = self.tables.root, self.tables.check_open
        self._configured_at, self.uid = configured_at, uid
        self._mutex = RLock()
        self._sessions: weakref.WeakValueDictionary[tuple[int, str], PostgresSession] = weakref.WeakValueDictionary()
        self.state = state
        self.access = AccessLog(StateLog(self.state, ACCESSES))
        self.session_uses = AccessLog(StateLog(self.state, SESSION_USES), exact=True)
        self.audit = Audit(TableLog(self.tables, "audit"))
        self.tokens = TableLog(self.tables, "token")
        self.indexer = FullTextIndex(StoredFeed(self, PostgresSource(self.tables)))
        _open_stores.add(self)

    @property
    def config(self) -> Config:
        return self.tables.config

    @config.setter
    def config(self, config: Config) -> None:
        self.tables.config = config

    # -- live sessions

    def sessions(self, *states: str, id: str | None = None, limit: int | None = None) -> list[SessionHead]:
        self.check_open()
        if id is not None and not ids.is_valid(id):
            return []
        found = self.tables.rows(
            f"SELECT {_HEAD} FROM {{schema}}.session WHERE state = ANY(%s) AND (%s::text IS NULL OR id = %s) ORDER BY {_ORDER} LIMIT %s",
            list(states or (LIVE,)), id, id, limit,
        )  # fmt: skip
        return [self._head(*row) for row in found if ids.is_valid(row[1])]

    def _path(self, session: str, number: int) -> str:
        return f"{self.root}#{session}.{number}"

    def _head(
        self, number: int, id: str, state: str, changes: int, written: Any, size: int, about: str, archived: str | None
    ) -> SessionHead:
        facts = decode_object(about) or {}
        inner = next((each for each in facts.values() if isinstance(each, dict) and "archived_at" in each), facts)
        when = facts.get("deleted_at") or facts.get("archived") or inner.get("archived_at")
        return SessionHead(
            id, state, self._path(id, number), archived=decode_object(archived) if archived else None, version=[number, changes], written=written, bytes=size,
            when=_moment(when), reason=_text(facts.get("reason") or inner.get("reason")), metadata=facts,
        )  # fmt: skip

    def session(
        self, session: str, state: str = LIVE, *, path: str | None = None, max_bytes: int | None = None
    ) -> PostgresSession:
        ids.check(session, "session")
        query = "SELECT number, bytes FROM {schema}.session WHERE id = %s AND state = %s ORDER BY moved DESC"
        found = self.tables.rows(query, session, state)
        found = [row for row in found if path in (None, self._path(session, row[0]))]
        if not found:
            raise self.tables.session_not_found(session)
        number, size = found[0]
        if max_bytes is not None and size > max_bytes:
            raise StorageCorrupt(f"Archived session {session} is larger than {max_bytes} bytes.", session=session)
        opened = PostgresSession(self.tables, number, session, state)
        return self._kept(opened) if state == LIVE else opened

    def _kept(self, opened: PostgresSession) -> PostgresSession:
        with self._mutex:
            return self._sessions.setdefault((opened.number, opened.session), opened)

    def create(
        self,
        info: SessionInfo,
        entries: list[Entry] | None = None,
        quota_bytes: int = 0,
        *,
        cold: Mapping[str, tuple[str, str]] | None = None,
        written: datetime | None = None,
    ) -> PostgresSession:
        info.uid = info.uid or ids.new_uid()
        history = SessionHistory()
        history.add([entry.copy() for entry in entries or ()])
        given = IdAllocator(history.seq, dict(history.numbers))
        given.raise_to(info.seq, info.numbers)
        info.seq, info.numbers = given.seq, given.numbers
        statement = (
            "INSERT INTO {schema}.session (id, project, person, info, seq, numbers, written) "
            "VALUES (%s, %s, %s, %s, %s, %s, coalesce(%s, clock_timestamp())) ON CONFLICT DO NOTHING RETURNING number"
        )
        text, numbers = LAYOUT.encode_info(info).decode(), json.dumps(info.numbers)
        with self.tables.transaction() as connection:
            values = (info.id, column_text(info.project), column_text(info.user), text, info.seq, numbers, written)
            row = connection.execute(self.tables.sql(statement), values).fetchone()
            if row is None:
                raise SessionExists(f"There is already a session {info.id}.", session=info.id)
            if entries:
                end = self.tables.insert_entries(connection, row[0], 0, entries)
                for id, facts in (cold or {}).items():
                    self.tables.move_to_cold(connection, row[0], id, *facts)
                self.tables.admit(
                    info.id, 0, self.tables.change(connection, row[0], generation=1, ending=end), quota_bytes
                )
        return self._kept(PostgresSession(self.tables, row[0], info.id))

    # -- archived and deleted sessions

    def move(
        self,
        session: str,
        origin: str,
        state: str,
        note: Note = lambda head, _: head.metadata,
        audit: Callable[[], object] = lambda: None,
        *,
        path: str | None = None,
    ) -> SessionHead:
        ids.check(session, "session")
        with self.tables.transaction(self.config.lock_timeout_seconds) as connection:
            query = f"SELECT {_HEAD} FROM {{schema}}.session WHERE id = %s AND (state IN ('live', 'archived') OR state = 'deleted') ORDER BY {_ORDER} FOR UPDATE"
            heads = [self._head(*row) for row in connection.execute(self.tables.sql(query), (session,)).fetchall()]
            origins = (LIVE, ARCHIVED) if state == DELETED and origin == LIVE else (origin,)
            found = [head for head in heads if head.state in origins and path in (None, head.path)]
            other = next((head for head in heads if head.state in (LIVE, ARCHIVED)), None)
            if origin == ARCHIVED and other is not None and other.state == LIVE:
                return other
            if state not in (DELETED, PURGED) and other is not None and other.state != origin:
                raise SessionExists(f"There is a session {session} that is {other.state}.", session=session)
            if not found:
                raise self.tables.session_not_found(session)
            head = found[-1] if origin == DELETED and state == LIVE else found[0]
            number = head.version[0]  # type: ignore[index]
            if state == PURGED:
                self._purge(connection, number)
            else:
                self._set_state(connection, number, head, state, note)
            audit()
            if state == PURGED:
                return head
            query = f"SELECT {_HEAD} FROM {{schema}}.session WHERE number = %s"
            return self._head(*connection.execute(self.tables.sql(query), (number,)).fetchone())  # type: ignore[misc]

    def _purge(self, connection: Connection, number: int) -> None:
        """Remove all that a session holds; a row without content tells readers that it is gone."""
        connection.execute(self.tables.sql("DELETE FROM {schema}.entry WHERE session = %s"), (number,))
        if not self.tables.is_restricted(connection):  # else the row would leave the rows that the role may write
            self.tables.change(connection, number, project=None, person=None)
        empty = {"info": "{}", "about": "{}", "archived": None, "numbers": "{}"}
        self.tables.change(connection, number, generation=1, state=PURGED, **empty)

    def _set_state(self, connection: Connection, number: int, head: SessionHead, state: str, note: Note) -> None:
        archived = json.dumps(head.archived) if head.archived else None
        if state == LIVE:  # archived again if it was deleted as such
            about, state, archived = archived or "{}", ARCHIVED if archived else LIVE, None
        else:
            records = self._records(number, head) if state == ARCHIVED else []
            about = json.dumps(note(head, records))
            archived = json.dumps(head.metadata) if head.state == ARCHIVED else archived
        move = connection.execute(self.tables.sql("SELECT nextval('{schema}.moves'::regclass)")).fetchone()
        assert move is not None
        self.tables.change(connection, number, state=state, about=about, archived=archived, moved=move[0])

    def _records(self, number: int, head: SessionHead) -> list[Any]:
        histories = PostgresSession(self.tables, number, head.session, head.state).history().histories.values()
        return [record for each in histories if (record := each.record(head.session)) is not None]

    def erase(
        self,
        targets: dict[str, list[str]],
        receipt: Receipt,
        note: Callable[[], object],
        renew_digests: Callable[[], tuple[list[str], list[str]]],
    ) -> None:
        work = Erasure(self.tables, targets, receipt)
        work.erase_rows(note)
        if not receipt.preview:
            self.access.flush()
            work.clean_up(self.state, self.indexer)
            receipt.pending += renew_digests()[1]

    def _clean_after_redaction(self) -> list[str]:
        """Remove this user's index, because free pages of its files may hold the text, and the old rows; returns what is left to be done."""
        with self.indexer.feed.mutex:
            self.indexer.close()
            if os.path.isdir(self.indexer.folder):
                discard_all(self.indexer.folder)
        return clean_tables(self.tables, "entry", "session")

    # -- search

    def index_of(self, histories: Histories, problems: Mapping[str, list[Problem]]) -> FullTextIndex:
        return FullTextIndex(HistoryFeed(histories, problems, self.access))

    # -- settings and notices

    def write_setting(self, name: str, value: Any) -> None:
        with self.tables.transaction(self.config.lock_timeout_seconds) as connection:
            query = self.tables.sql("SELECT value FROM {schema}.meta WHERE name = 'settings' FOR UPDATE")
            row = connection.execute(query).fetchone()
            settings = read_settings(lambda: row[0].encode() if row else b"{}", f"{self.root}#settings") or {}
            if isinstance(settings, InvalidConfig):
                raise settings
            if value is None:
                check_removal(settings, name)
            text = json.dumps(with_setting(settings, name, value))
            statement = (
                "INSERT INTO {schema}.meta VALUES ('settings', %s), ('configured_at', extract(epoch FROM clock_timestamp())::text) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            )
            connection.execute(self.tables.sql(statement), (text,))

    def configured_at(self) -> float | None:
        return self._configured_at

    # -- the process

    def sync(self) -> None:
        self.check_open()  # what is acknowledged is committed

    def after_fork(self) -> None:
        self._mutex = RLock()
        self.tables.connections.after_fork()
        for session in list(self._sessions.values()):
            session.after_fork()

    def close(self) -> None:
        if self.tables.is_closed:
            return
        self.access.flush()
        self.session_uses.flush()
        self.indexer.close()
        self.tables.is_closed = True
        self.tables.connections.close()


def _moment(text: object) -> datetime | None:
    try:
        return to_moment(str(text)) if text else None
    except (ValueError, OverflowError, SMPError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


class TableLog:
    """A log of lines in a table; appends wait for each other, so that an offset never passes a line that is still to come."""

    def __init__(self, tables: Tables, table: str) -> None:
        self._tables, self._table = tables, table
        self.path = f"{tables.root}#{table}"

    def append(self, lines: list[bytes], *, sync: bool = False) -> None:
        seconds = self._tables.config.lock_timeout_seconds
        # The savepoint: whoever goes on without the line, because the log cannot be written, must not lose the rest.
        with self._tables.transaction(seconds) as connection, connection.transaction():
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s::text, 1::bigint))",
                (self._tables.sql("{schema}.") + self._table,),
            )
            statement = f"INSERT INTO {{schema}}.{self._table} (line) SELECT pg_catalog.unnest(%s::bytea[])"
            connection.execute(self._tables.sql(statement), (lines,))

    def read(self, offset: int = 0) -> tuple[list[bytes], int]:
        query = f"SELECT position, line FROM {{schema}}.{self._table} WHERE position > %s ORDER BY position"
        rows = self._tables.rows(query, offset)
        return [bytes(line) for _, line in rows], rows[-1][0] if rows else offset

    def replace_before(self, offset: int, lines: list[bytes]) -> None:
        """Lines that stay keep their positions: only those that are to go are deleted."""
        kept = set(lines)
        with self._tables.transaction() as connection:
            statement = f"DELETE FROM {{schema}}.{self._table} WHERE position <= %s AND NOT line = ANY(%s::bytea[])"
            connection.execute(self._tables.sql(statement), (offset, list(kept)))

    def size_bytes(self) -> int:
        query = f"SELECT coalesce(sum(octet_length(line) + 1), 0)::bigint FROM {{schema}}.{self._table}"
        return int(self._tables.rows(query)[0][0])

    def problems(self) -> list[str]:
        lines = self.read()[0]
        damaged = sum(decoded(line) is None for line in lines)
        return [f"{self.path}: {damaged} of {len(lines)} lines cannot be read."] if damaged else []


_open_stores: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_open_stores):
        store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
