"""A store in one schema of a PostgreSQL database.

Guarantees: those of `store.port`. A write is acknowledged when its transaction has committed; how safe that is depends on the server's
`synchronous_commit`, which `smp doctor` reports. Changes of a session as a whole are one transaction. An erasure removes the
rows and rewrites the table where that is quick; the receipt names what only the operator of the server can reach.
"""

from __future__ import annotations

import json
import os
import weakref
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

from smp_memory.config.config_file import check_removal, with_setting
from smp_memory.errors import (
    NotAllowed,
    SessionArchived,
    SessionExists,
    SessionNotFound,
    SMPError,
    StorageCorrupt,
    StoreClosed,
)
from smp_memory.files.activity import ACCESSES, SESSION_USES, AccessLog, StateLog
from smp_memory.index.full_text_index import FullTextIndex
from smp_memory.index.history_index import HistoryFeed
from smp_memory.index.inspection import scrub
from smp_memory.model import ids
from smp_memory.model.deletions import PurgeNotes
from smp_memory.model.history import IdAllocator, SessionHistory
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE, PURGED, SessionHead
from smp_memory.model.times import to_moment
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.overview.extractive_summary import AUTHOR, covers, without_quotes
from smp_memory.privacy.audit import Audit, decoded
from smp_memory.store.postgres.connection import Connections
from smp_memory.store.postgres.feed import PostgresFeed
from smp_memory.store.postgres.postgres_session import _LAYOUT, PostgresSession, Rows, encode_entry
from smp_memory.store.session_edits import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import TypeVar

    from psycopg import Connection
    from psycopg.errors import Diagnostic

    from smp_memory.config.settings import Config
    from smp_memory.files.user_state import UserState
    from smp_memory.model.deletions import Receipt
    from smp_memory.model.entry import Entry
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.model.storage_reports import AppendLog
    from smp_memory.store.port import Histories, Note, SessionStore, Store

    T = TypeVar("T")

    def _provides_port(
        store: PostgresStore, session: PostgresSession, log: TableLog
    ) -> tuple[Store, SessionStore, AppendLog]:
        return store, session, log  # checked by mypy


NAME = "postgresql"
BEYOND_REACH = (
    "copies of the rows in the server's write-ahead log, in replicas that lag, in backups and in archived log files are removed by the "
    "operator of the server: see docs/scale.md"
)
_VACUUM_FULL_BYTES = 64 << 20  # a table up to this size is rewritten within a second; others are cleaned by autovacuum
_AT_ONCE = 5000  # rows of one statement
_HEAD = "number, id, state, changes, written, bytes, about, archived"
_ORDER = "state = 'deleted', state = 'archived', id, moved"


class PostgresStore:
    """Sessions, index, logs and settings of one schema."""

    files, layout_name = None, NAME

    def __init__(
        self,
        connections: Connections,
        config: Config,
        configured_at: float | None,
        admit: Callable[..., None],
        state: UserState,
    ) -> None:
        self.root, self.config, self.admit = connections.address.shown, config, admit
        self.connections = connections
        self._configured_at = configured_at
        self._closed = False
        self._mutex = RLock()
        self._sessions: weakref.WeakValueDictionary[int, PostgresSession] = weakref.WeakValueDictionary()
        self._statements: dict[str, str] = {}
        self.state = state
        self.access = AccessLog(StateLog(self.state, ACCESSES))
        self.session_uses = AccessLog(StateLog(self.state, SESSION_USES), exact=True)
        self.audit = Audit(TableLog(self, "audit"))
        self.tokens = TableLog(self, "token")
        self.indexer = FullTextIndex(PostgresFeed(self))
        _open_stores.add(self)

    def sql(self, statement: str) -> str:
        """A statement with the name of the schema in it; `{{}}` is not needed, because values are parameters."""
        found = self._statements.get(statement)
        if found is None:
            found = self._statements[statement] = statement.replace("{schema}", self.connections.address.schema)
        return found

    def run(self, work: Callable[[Connection], T]) -> T:
        """Call `work`, which only reads, with a connection."""
        self.check_open()
        return self.connections.run(work)

    def transaction(self, lock_seconds: float | None = None) -> AbstractContextManager[Connection]:
        self.check_open()
        return self.connections.transaction(lock_seconds)

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.run(lambda connection: connection.execute(self.sql(statement), values).fetchall())

    # -- changes of rows, inside a transaction

    def change(self, connection: Connection, number: int, *, generation: int = 0, **values: Any) -> int:
        """Set columns of a session and mark it as changed; returns its bytes. With a new generation they are counted again."""
        columns = "".join(f", {name} = %s" for name in values)
        counted = "(SELECT coalesce(sum(octet_length(line) + 1), 0) FROM {schema}.entry AS e WHERE e.session = %s AND segment = 0)"
        size, more = (counted, (number,)) if generation else ("bytes", ())
        statement = (
            "UPDATE {schema}.session SET changes = changes + 1, xid = pg_current_xact_id(), generation = generation + %s, "
            f"bytes = {size}{columns} WHERE number = %s RETURNING bytes"
        )
        row = connection.execute(self.sql(statement), (generation, *more, *values.values(), number)).fetchone()
        return row[0] if row is not None else 0

    def write_info(self, connection: Connection, number: int, info: SessionInfo) -> None:
        text = _LAYOUT.encode_info(info).decode()
        self.change(connection, number, info=text, project=info.project, person=info.user)

    def move_to_cold(self, connection: Connection, number: int, id: str, at: str, why: str) -> None:
        statement = "UPDATE {schema}.entry SET segment = 1, moved = %s WHERE session = %s AND id = %s"
        connection.execute(self.sql(statement), (json.dumps([at, why]), number, id))

    def insert_entries(self, connection: Connection, number: int, end: int, entries: list[Entry]) -> int:
        """Append entries to a session; returns where they end."""
        statement = self.sql(
            "INSERT INTO {schema}.entry (session, start, id, line) "
            "SELECT %s, new.* FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS new"
        )
        for first in range(0, len(entries), _AT_ONCE):
            part = entries[first : first + _AT_ONCE]
            lines = [encode_entry(entry) for entry in part]
            starts = []
            for line in lines:
                starts.append(end)
                end += len(line.encode()) + 1
            names = [entry.id for entry in part]
            connection.execute(statement, (number, starts, names, lines))
        return end

    # -- live sessions

    def sessions(self, *states: str, id: str | None = None, limit: int | None = None) -> list[SessionHead]:
        self.check_open()
        found = self._rows(
            f"SELECT {_HEAD} FROM {{schema}}.session WHERE state = ANY(%s) AND (%s::text IS NULL OR id = %s) ORDER BY {_ORDER} LIMIT %s",
            list(states or (LIVE,)), id, id, limit,
        )  # fmt: skip
        return [self._head(*row) for row in found]

    def _path(self, session: str, number: int) -> str:
        return f"{self.root}#{session}.{number}"

    def _head(
        self, number: int, id: str, state: str, changes: int, written: Any, size: int, about: str, archived: str | None
    ) -> SessionHead:
        facts = json.loads(about)
        inner = next((each for each in facts.values() if isinstance(each, dict) and "archived_at" in each), facts)
        when = facts.get("deleted_at") or facts.get("archived") or inner.get("archived_at")
        return SessionHead(
            id, state, self._path(id, number), archived=json.loads(archived) if archived else None, version=(number, changes), written=written, bytes=size,
            when=to_moment(when) if when else None, reason=facts.get("reason") or inner.get("reason"), metadata=facts,
        )  # fmt: skip

    def session(
        self, session: str, state: str = LIVE, *, path: str | None = None, max_bytes: int | None = None
    ) -> PostgresSession:
        ids.check(session, "session")
        query = "SELECT number, bytes FROM {schema}.session WHERE id = %s AND state = %s ORDER BY moved DESC"
        found = self._rows(query, session, state)
        found = [row for row in found if path in (None, self._path(session, row[0]))]
        if not found:
            raise self.session_not_found(session)
        number, size = found[0]
        if max_bytes is not None and size > max_bytes:
            raise StorageCorrupt(f"Archived session {session} is larger than {max_bytes} bytes.", session=session)
        opened = PostgresSession(self, number, session, state)
        with self._mutex:
            return self._sessions.setdefault(number, opened) if state == LIVE else opened

    def session_not_found(self, session: str) -> SMPError:
        if self._rows("SELECT 1 FROM {schema}.session WHERE id = %s AND state = 'archived'", session):
            return SessionArchived(f"Session {session} is archived; restore it first.", session=session)
        return SessionNotFound(f"There is no session {session}.", session=session)

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
        text, numbers = _LAYOUT.encode_info(info).decode(), json.dumps(info.numbers)
        with self.transaction() as connection:
            values = (info.id, info.project, info.user, text, info.seq, numbers, written)
            row = connection.execute(self.sql(statement), values).fetchone()
            if row is None:
                raise SessionExists(f"There is already a session {info.id}.", session=info.id)
            if entries:
                end = self.insert_entries(connection, row[0], 0, entries)
                for id, facts in (cold or {}).items():
                    self.move_to_cold(connection, row[0], id, *facts)
                self.admit(info.id, 0, self.change(connection, row[0], generation=1, ending=end), quota_bytes)
        return self.session(info.id)

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
        with self.transaction(self.config.lock_timeout_seconds) as connection:
            query = f"SELECT {_HEAD} FROM {{schema}}.session WHERE id = %s AND (state IN ('live', 'archived') OR state = 'deleted') ORDER BY {_ORDER} FOR UPDATE"
            heads = [self._head(*row) for row in connection.execute(self.sql(query), (session,)).fetchall()]
            origins = (LIVE, ARCHIVED) if state == DELETED and origin == LIVE else (origin,)
            found = [head for head in heads if head.state in origins and path in (None, head.path)]
            other = next((head for head in heads if head.state in (LIVE, ARCHIVED)), None)
            if origin == ARCHIVED and other is not None and other.state == LIVE:
                return other
            if state not in (DELETED, PURGED) and other is not None and other.state != origin:
                raise SessionExists(f"There is a session {session} that is {other.state}.", session=session)
            if not found:
                raise self.session_not_found(session)
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
            return self._head(*connection.execute(self.sql(query), (number,)).fetchone())  # type: ignore[misc]

    def _purge(self, connection: Connection, number: int) -> None:
        """Remove all that a session holds; a row without content tells readers that it is gone."""
        connection.execute(self.sql("DELETE FROM {schema}.entry WHERE session = %s"), (number,))
        if not self._is_restricted(connection):  # else the row would leave the rows that the role may write
            self.change(connection, number, project=None, person=None)
        empty = {"info": "{}", "about": "{}", "archived": None, "numbers": "{}"}
        self.change(connection, number, generation=1, state=PURGED, **empty)

    def _is_restricted(self, connection: Connection) -> bool:
        """Whether row-level security applies to the database role."""
        row = connection.execute(self.sql("SELECT row_security_active('{schema}.session'::regclass)")).fetchone()
        return row == (True,)

    def _set_state(self, connection: Connection, number: int, head: SessionHead, state: str, note: Note) -> None:
        archived = json.dumps(head.archived) if head.archived else None
        if state == LIVE:  # archived again if it was deleted as such
            about, state, archived = archived or "{}", ARCHIVED if archived else LIVE, None
        else:
            records = self._records(number, head) if state == ARCHIVED else []
            about = json.dumps(note(head, records))
            archived = json.dumps(head.metadata) if head.state == ARCHIVED else archived
        move = connection.execute(self.sql("SELECT nextval('{schema}.moves'::regclass)")).fetchone()
        assert move is not None
        self.change(connection, number, state=state, about=about, archived=archived, moved=move[0])

    def _records(self, number: int, head: SessionHead) -> list[Any]:
        histories = PostgresSession(self, number, head.session, head.state).history().histories.values()
        return [record for each in histories if (record := each.record(head.session)) is not None]

    # -- erasure

    def erase(
        self,
        targets: dict[str, list[str]],
        receipt: Receipt,
        note: Callable[[], object],
        renew_digests: Callable[[], tuple[list[str], list[str]]],
    ) -> None:
        self.check_open()
        values: list[Any] = []
        with self.transaction(self.config.lock_timeout_seconds) as connection:
            for session, names in targets.items():
                values += self._erased_values(connection, session, names)
            if receipt.preview:
                return
            pieces = pieces_of(values)
            receipt.bytes_before = self._table_bytes(connection)
            for session, names in targets.items():
                self._erase_in(connection, session, names, [piece.decode() for piece in pieces], receipt)
            note()
        for session, names in targets.items():
            PurgeNotes(self.state, session).forget(names)
        self.access.flush()
        self._clean_index(targets, receipt)
        receipt.pending += renew_digests()[1]
        self._clean_table(receipt)
        self._search_rows(pieces, receipt)

    def _erased_values(self, connection: Connection, session: str, names: list[str]) -> list[Any]:
        """All that is stored of these memories. Raises MemoryNotFound if there is nothing of one of them."""
        query = "SELECT number, state FROM {schema}.session WHERE id = %s AND (state IN ('live', 'archived') OR state = 'deleted') ORDER BY number FOR UPDATE"
        found = connection.execute(self.sql(query), (session,)).fetchall()
        if not found:
            raise self.session_not_found(session)
        query = "SELECT start, id, line FROM {schema}.entry WHERE session = ANY(%s) AND id = ANY(%s)"
        rows = connection.execute(self.sql(query), ([number for number, _ in found], names)).fetchall()
        stored = {row[1] for row in rows}
        missing = next((name for name in names if name not in stored), None)
        if missing is not None:
            raise memory_not_found(PostgresSession(self, found[0][0], session, found[0][1]), missing)
        return [entry.data for entry in Rows(rows, self.root).entries] + [row[2] for row in rows]

    def _erase_in(
        self, connection: Connection, session: str, names: list[str], pieces: list[str], receipt: Receipt
    ) -> None:
        query = self.sql(
            "SELECT number FROM {schema}.session WHERE id = %s AND (state IN ('live', 'archived') OR state = 'deleted')"
        )
        for (number,) in connection.execute(query, (session,)).fetchall():
            statement = "DELETE FROM {schema}.entry WHERE session = %s AND id = ANY(%s)"
            connection.execute(self.sql(statement), (number, names))
            changed = self._erase_quotes(connection, number, names, pieces)
            receipt.summaries += [f"{session}/{id}" for id in changed]
            self.change(connection, number, generation=1)
            receipt.rewritten.append(f"{self.root}#{session}")

    def _erase_quotes(self, connection: Connection, number: int, names: list[str], pieces: list[str]) -> list[str]:
        """Take sentences that quote erased memories out of the summaries that compaction made; returns their ids."""
        query = "SELECT start, id, line FROM {schema}.entry WHERE session = %s AND line LIKE '%%\"summary\"%%'"
        changed = []
        for entry in Rows(connection.execute(self.sql(query), (number,)).fetchall(), self.root).entries:
            text = entry.data.get("summary")
            is_ours = entry.type == "summary" and entry.data.get("author") == AUTHOR
            if not is_ours or not text or not any(covers(entry.data.get("covers"), name) for name in names):
                continue
            twin = entry.copy()
            left = without_quotes(text, lambda sentence: any(each in sentence for each in pieces))
            twin.data = {**entry.data, "summary": left}
            statement = "UPDATE {schema}.entry SET line = %s WHERE session = %s AND start = %s"
            connection.execute(self.sql(statement), (encode_entry(twin), number, entry.place[0]))
            changed.append(entry.id)
        return changed

    def _clean_index(self, targets: Mapping[str, list[str] | None], receipt: Receipt) -> None:
        """Erase from this user's index; those of other users drop the memories when they next catch up."""
        with self.indexer.feed.mutex:
            self.indexer.close()
            if os.path.isdir(self.indexer.folder) and scrub(self.indexer.folder, targets):
                receipt.rewritten.append("index")

    def _clean_table(self, receipt: Receipt) -> None:
        """Let the server forget deleted rows: at once if the table is small, else when it next vacuums the table."""
        try:
            is_small = self.run(self._table_bytes) <= _VACUUM_FULL_BYTES
            self.run(partial(_vacuum, statement=self.sql(f"VACUUM {'(FULL) ' if is_small else ''}{{schema}}.entry")))
            if not is_small:
                what = "the freed places in the table are overwritten in time; `VACUUM FULL` of it by its owner does it at once"
                receipt.pending.append(what)
            receipt.bytes_after = self.run(self._table_bytes)
        except SMPError as error:
            receipt.pending.append(f"the server keeps deleted rows until it next vacuums the table ({error.message})")
        receipt.pending.append(BEYOND_REACH)

    def _table_bytes(self, connection: Connection) -> int:
        row = connection.execute(self.sql("SELECT pg_total_relation_size('{schema}.entry'::regclass)")).fetchone()
        return int(row[0]) if row is not None else 0

    def _search_rows(self, pieces: list[bytes], receipt: Receipt) -> None:
        """Search all rows for the text; other memories that have it are named."""
        patterns = ["%" + _escaped(piece.decode()) + "%" for piece in pieces]
        query = "SELECT s.id || '/' || e.id FROM {schema}.entry AS e JOIN {schema}.session AS s ON number = session WHERE line LIKE ANY(%s)"
        counts = self._rows("SELECT count(*), coalesce(sum(octet_length(line)), 0)::bigint FROM {schema}.entry")
        receipt.pieces, receipt.searched_files = len(pieces), 1
        if self.run(self._is_restricted):
            receipt.pending.append("only the sessions that this database role may see were searched for the text")
        receipt.searched_bytes = counts[0][1]
        if patterns:
            receipt.elsewhere += sorted({row[0] for row in self._rows(query, patterns)})

    # -- search

    def index_of(self, histories: Histories, problems: Mapping[str, list[Problem]]) -> FullTextIndex:
        return FullTextIndex(HistoryFeed(histories, problems, self.access))

    # -- settings and notices

    def write_setting(self, name: str, value: Any) -> None:
        with self.transaction(self.config.lock_timeout_seconds) as connection:
            query = self.sql("SELECT value FROM {schema}.meta WHERE name = 'settings' FOR UPDATE")
            row = connection.execute(query).fetchone()
            settings = json.loads(row[0]) if row is not None else {}
            if value is None:
                check_removal(settings, name)
            text = json.dumps(with_setting(settings, name, value))
            statement = (
                "INSERT INTO {schema}.meta VALUES ('settings', %s), ('configured_at', extract(epoch FROM clock_timestamp())::text) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            )
            connection.execute(self.sql(statement), (text,))

    def configured_at(self) -> float | None:
        return self._configured_at

    # -- the process

    def check_open(self) -> None:
        if self._closed:
            raise StoreClosed("This store was closed; open it again with smp_memory.open().", path=self.root)

    def sync(self) -> None:
        self.check_open()  # what is acknowledged is committed

    def after_fork(self) -> None:
        self._mutex = RLock()
        for session in list(self._sessions.values()):
            session.after_fork()

    def close(self) -> None:
        if self._closed:
            return
        self.access.flush()
        self.session_uses.flush()
        self.indexer.close()
        self._closed = True
        self.connections.close()


class TableLog:
    """A log of lines in a table; appends wait for each other, so that an offset never passes a line that is still to come."""

    def __init__(self, store: PostgresStore, table: str) -> None:
        self._store, self._table = store, table
        self.path = f"{store.root}#{table}"

    def append(self, lines: list[bytes], *, sync: bool = False) -> None:
        seconds = self._store.config.lock_timeout_seconds
        # The savepoint: whoever goes on without the line, because the log cannot be written, must not lose the rest.
        with self._store.transaction(seconds) as connection, connection.transaction():
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s::text, 1::bigint))",
                (self._store.sql("{schema}.") + self._table,),
            )
            statement = f"INSERT INTO {{schema}}.{self._table} (line) SELECT unnest(%s::bytea[])"
            connection.execute(self._store.sql(statement), (lines,))

    def read(self, offset: int = 0) -> tuple[list[bytes], int]:
        query = f"SELECT position, line FROM {{schema}}.{self._table} WHERE position > %s ORDER BY position"
        rows = self._store.run(lambda connection: connection.execute(self._store.sql(query), (offset,)).fetchall())
        return [bytes(line) for _, line in rows], rows[-1][0] if rows else offset

    def replace_before(self, offset: int, lines: list[bytes]) -> None:
        """Lines that stay keep their positions: only those that are to go are deleted."""
        kept = set(lines)
        with self._store.transaction() as connection:
            statement = f"DELETE FROM {{schema}}.{self._table} WHERE position <= %s AND NOT line = ANY(%s::bytea[])"
            connection.execute(self._store.sql(statement), (offset, list(kept)))

    def size_bytes(self) -> int:
        query = f"SELECT coalesce(sum(octet_length(line) + 1), 0)::bigint FROM {{schema}}.{self._table}"
        rows = self._store.run(lambda connection: connection.execute(self._store.sql(query)).fetchall())
        return int(rows[0][0])

    def problems(self) -> list[str]:
        lines = self.read()[0]
        damaged = sum(decoded(line) is None for line in lines)
        return [f"{damaged} of {len(lines)} lines cannot be read."] if damaged else []


def _vacuum(connection: Connection, statement: str) -> None:
    """Vacuum a table. The server skips a table of another owner with a warning only; that is an error here."""
    warnings: list[str] = []

    def note(given: Diagnostic) -> None:
        warnings.append(str(given.message_primary))

    connection.add_notice_handler(note)
    try:
        connection.execute(statement)
    finally:
        connection.remove_notice_handler(note)
    if warnings:
        raise NotAllowed("; ".join(warnings))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


_open_stores: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_open_stores):
        store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
