"""A second backend, for tests: all sessions of a store in one SQLite file.

It shows that the port (`smp_memory.store.port`) is complete: nothing above it changes. It is deliberately simple. A batch is
one SQLite transaction; a change by anybody makes every process read the session again; the search index is made anew in RAM
from the histories after each change. No claims about speed.

    session   metadata, state (live, archived, deleted), the largest numbers given out
    entry     one line of JSON for each entry; `cold` is set for entries in the cold segment
    setting   the stored settings; audit: the lines of the audit log

SQLite's lock is the session's lock, and `synchronous=FULL` makes a committed transaction durable.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from smp_memory.config.config_file import check_removal
from smp_memory.config.settings import Config
from smp_memory.errors import (
    LayoutMismatch,
    SessionArchived,
    SessionExists,
    SessionNotFound,
    SMPError,
    StorageCorrupt,
    StorageError,
    StoreClosed,
    StoreNotFound,
)
from smp_memory.files.activity import ACCESSES, SESSION_USES, AccessLog, StateLog
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import open_user_state
from smp_memory.index.access_counts import PendingAccesses
from smp_memory.index.full_text_index import FullTextIndex
from smp_memory.index.history_index import HistoryFeed, history_index
from smp_memory.lifecycle.compaction_plan import AUTHOR, covers, without_quotes
from smp_memory.lifecycle.purge import PurgeNotes, purge_due
from smp_memory.model import ids
from smp_memory.model.entry import Entry
from smp_memory.model.history import SessionHistory
from smp_memory.model.ids import without_password
from smp_memory.model.reports import Problem
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE, PURGED, SessionHead, SessionInfo, names_of
from smp_memory.model.times import to_moment, to_text
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.privacy.audit import Audit
from smp_memory.store.remnants import pieces_of
from tests.backends.sqlite_session import (
    SqliteSession,
    decode_entry,
    encode_entry,
    encode_info,
)

if TYPE_CHECKING:
    from smp_memory.index.full_text_index import IndexFeed
    from smp_memory.model.storage_reports import AppendLog
    from smp_memory.store.port import SessionStore, Store

    def _provides_port(
        store: SqliteStore, session: SqliteSession, feed: SqliteFeed, log: SqliteLog
    ) -> tuple[Store, SessionStore, IndexFeed, AppendLog]:
        return store, session, feed, log  # checked by mypy


NAME = "sqlite-test"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS session (
    no INTEGER PRIMARY KEY, id TEXT NOT NULL, state TEXT NOT NULL, info TEXT NOT NULL, about TEXT NOT NULL DEFAULT '{}',
    version INTEGER NOT NULL DEFAULT 1, seq INTEGER NOT NULL DEFAULT 0, numbers TEXT NOT NULL DEFAULT '{}',
    written REAL NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_name ON session (id) WHERE state != 'deleted';
CREATE TABLE IF NOT EXISTS entry (
    session INTEGER NOT NULL REFERENCES session (no) ON DELETE CASCADE, seq INTEGER NOT NULL, id TEXT NOT NULL, line TEXT NOT NULL,
    cold TEXT, PRIMARY KEY (session, seq)
);
CREATE TABLE IF NOT EXISTS audit (no INTEGER PRIMARY KEY, line TEXT NOT NULL);
"""


class SqliteStore:
    """All sessions in one SQLite file."""

    layout_name = NAME

    def __init__(self, root: str, path: str, config: Config, admit: Callable[..., None]) -> None:
        self.root = root
        self.config = config
        self.admit = admit
        self.closed = False
        self.files = None
        self.path = path
        self.mutex = threading.RLock()  # one thread at a time uses the connection, its cursors and the index
        self._db, self._pid = connect(path), os.getpid()
        self._depth = 0  # of nested transactions
        self._sessions: weakref.WeakValueDictionary[str, SqliteSession] = weakref.WeakValueDictionary()
        self.state = open_user_state(root, Disk(RealSystem()))
        self.access = AccessLog(StateLog(self.state, ACCESSES))
        self.session_uses = AccessLog(StateLog(self.state, SESSION_USES), exact=True)
        self.audit = Audit(SqliteLog(self))
        self.indexer = FullTextIndex(SqliteFeed(self))

    # -- SQL

    def run(self, sql: str, *values: Any) -> sqlite3.Cursor:
        self.check_open()
        with self.mutex:
            if self._pid != os.getpid():  # SQLite's connections do not survive a fork
                self._db, self._pid, self._depth = connect(self.path), os.getpid(), 0
            try:
                return self._db.execute(sql, values)
            except sqlite3.DatabaseError as error:
                raise StorageError(f"{self.path}: {error}", path=self.path) from error

    def run_many(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        for row in rows:
            self.run(sql, *row)

    def all(self, sql: str, *values: Any) -> list[Any]:
        with self.mutex:
            return self.run(sql, *values).fetchall()

    def one(self, sql: str, *values: Any) -> Any:
        with self.mutex:
            return self.run(sql, *values).fetchone()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold SQLite's write lock; the changes of the block become visible together, or not at all if it raises."""
        with self.mutex:
            if self._depth == 0:
                self.run("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield
            except BaseException:
                if self._depth == 1:
                    self.run("ROLLBACK")
                raise
            else:
                if self._depth == 1:
                    self.run("COMMIT")
            finally:
                self._depth -= 1

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state of the database."""
        with self.mutex:
            if self._depth:
                yield
                return
            self.run("BEGIN")
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                self.run("ROLLBACK")

    def vacuum(self) -> None:
        """Write the file anew, so that nothing of removed rows is left in it."""
        self.run("VACUUM")
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- live sessions

    def sessions(self, *states: str, id: str | None = None, limit: int | None = None) -> list[SessionHead]:
        named = "" if id is None else "AND id = ?"
        size = "(SELECT coalesce(sum(length(line)), 0) FROM entry WHERE session = no) AS bytes"
        sql = f"SELECT *, {size} FROM session WHERE state = ? {named} ORDER BY id, no"
        wanted = states or (LIVE,)
        rows = [
            row
            for state in (LIVE, ARCHIVED, DELETED)
            if state in wanted
            for row in self.all(sql, *(each for each in (state, id) if each is not None))
        ]
        return [self._head(row) for row in rows[:limit]]

    def _head(self, row: sqlite3.Row) -> SessionHead:
        about = json.loads(row["about"])
        inner = next((each for each in about.values() if isinstance(each, dict) and "archived_at" in each), about)
        when = about.get("deleted_at") or about.get("archived") or inner.get("archived_at")
        return SessionHead(
            row["id"],
            row["state"],
            f"{self.root}#{row['id']}.{row['no']}",
            version=row["info"] if row["state"] == LIVE else row["version"],
            written=datetime.fromtimestamp(row["written"], UTC),
            bytes=row["bytes"],
            when=to_moment(when) if when else None,
            reason=about.get("reason") or inner.get("reason"),
            metadata=about,
        )

    def _numbers(self, session: str, *states: str) -> list[int]:
        marks = ", ".join("?" * len(states))
        sql = f"SELECT no FROM session WHERE id = ? AND state IN ({marks}) ORDER BY no"
        return [no for (no,) in self.all(sql, session, *states)]

    def session(self, session: str, state: str = LIVE, *, max_bytes: int | None = None) -> SqliteSession:
        ids.check(session, "session")
        if state == ARCHIVED:
            return self._archived_copy(session, max_bytes)
        numbers = self._numbers(session, LIVE)
        if not numbers:
            raise self.session_not_found(session)
        with self.mutex:
            known = self._sessions.get(session)
            if known is None or known.no != numbers[0]:
                known = self._sessions[session] = SqliteSession(self, numbers[0], session)
            return known

    def session_not_found(self, session: str) -> SMPError:
        self.check_open()
        if self._numbers(session, ARCHIVED):
            return SessionArchived(f"Session {session} is archived; restore it first.", session=session)
        return SessionNotFound(f"There is no session {session}.", session=session)

    def create(self, info: SessionInfo, entries: list[Entry] | None = None, quota_bytes: int = 0) -> SqliteSession:
        entries = entries or []
        info.uid = info.uid or ids.new_uid()
        with self.transaction():
            if self._numbers(info.id, LIVE, ARCHIVED):
                raise SessionExists(f"There is already a session {info.id}.", session=info.id)
            history = SessionHistory()
            history.add(entries)
            numbers = {**history.numbers, **info.numbers}
            seq = max([info.seq, *(entry.seq for entry in entries)])
            sql = "INSERT INTO session (id, state, info, seq, numbers, written) VALUES (?, 'live', ?, ?, ?, ?)"
            self.run(sql, info.id, encode_info(info), seq, json.dumps(numbers), time.time())
            session = self.session(info.id)
            lines = [encode_entry(entry) for entry in entries]
            self.admit(info.id, 0, sum(len(line.encode()) for line in lines), quota_bytes)
            session._append(entries, lines)
        return session

    # -- archived and deleted sessions

    def _archived_copy(self, session: str, max_bytes: int | None = None) -> SqliteSession:
        numbers = self._numbers(session, ARCHIVED)
        if not numbers:
            raise SessionNotFound(f"There is no archived session {session}.", session=session)
        copy = SqliteSession(self, numbers[0], session, (ARCHIVED,))
        if max_bytes is not None and sum(copy.sizes().values()) > max_bytes:
            raise StorageCorrupt(f"Archived session {session} is larger than {max_bytes} bytes.", session=session)
        return copy

    def _set_state(self, no: int, state: str, about: dict[str, Any]) -> None:
        sql = "UPDATE session SET state = ?, about = ?, version = version + 1 WHERE no = ?"
        self.run(sql, state, json.dumps(about, ensure_ascii=False), no)

    def move(
        self,
        session: str,
        origin: str,
        state: str,
        note: Callable[[SessionHead, list[Any]], dict[str, Any]] = lambda head, _: head.metadata,
        audit: Callable[[], object] = lambda: None,
        *,
        path: str | None = None,
    ) -> SessionHead:
        with self.transaction():
            moved = self._move(session, origin, state, note, path)
            audit()
        if state == PURGED:
            self.vacuum()
        return moved

    def _move(self, session: str, origin: str, state: str, note: Callable[..., Any], path: str | None) -> SessionHead:
        origins = (LIVE, ARCHIVED) if state == DELETED and origin == LIVE else (origin,)
        found = [each for each in self.sessions(*origins, id=session) if path in (None, each.path)]
        others = self.sessions(LIVE, ARCHIVED, id=session)
        if origin == ARCHIVED and others and others[0].state == LIVE:
            return others[0]
        if state not in (DELETED, PURGED) and others and others[0].state != origin:
            raise SessionExists(f"There is a session {session} that is {others[0].state}.", session=session)
        if not found:
            raise self.session_not_found(session)
        head = found[-1] if origin == DELETED and state == LIVE else found[0]
        number = int(head.path.rpartition(".")[2])
        if state == PURGED:
            self.run("DELETE FROM session WHERE no = ?", number)
            return head
        if origin == DELETED and state == LIVE:  # archived again if it was
            state = ARCHIVED if head.metadata["state"] == ARCHIVED else LIVE
            self._set_state(number, state, head.metadata["before"])
        else:
            records = []
            if state == ARCHIVED:
                every = self.session(session).history().histories.values()
                records = [record for each in every if (record := each.record(session)) is not None]
            about = {} if state == LIVE else note(head, records)
            self._set_state(number, state, {"before": head.metadata, **about} if state == DELETED else about)
        return next(each for each in self.sessions(state, id=session) if each.path == head.path)

    def purge_archives(
        self,
        now: datetime,
        evidence: Any,
        by: str | None,
        kept: timedelta | None = None,
        *,
        automatic: bool = False,
    ) -> Iterator[tuple[str, Any]]:
        for each in self.sessions(ARCHIVED):
            found = self._archived_copy(each.session)
            config = found.config
            if automatic and not config["lifecycle.auto_purge"]:
                continue
            days = kept if kept is not None else timedelta(days=config["lifecycle.purge_days"])

            def note(names: list[str], session: str = each.session) -> bool:
                return self.audit.note("purge", at=to_text(now), by=by, session=session, ids=names)

            yield each.session, purge_due(found, PurgeNotes(self.state, each.session), now, days, evidence, note)

    # -- erasure

    def _any_state(self, session: str) -> list[SqliteSession]:
        states = (LIVE, ARCHIVED, DELETED)
        return [SqliteSession(self, no, session, states) for no in self._numbers(session, *states)]

    def _check_memories_exist(self, session: str, names: list[str]) -> None:
        found = self._any_state(session)
        if not found:
            raise self.session_not_found(session)
        known = {entry.id for each in found for entry in each.entries_of(names)}
        missing = next((name for name in names if name not in known), None)
        if missing is not None:
            raise memory_not_found(found[0], missing)

    def erase(
        self,
        targets: dict[str, list[str]],
        receipt: Any,
        note: Callable[[], object],
        renew_digests: Callable[[], tuple[list[str], list[str]]],
    ) -> None:
        values: list[Any] = []
        for session, names in targets.items():
            self._check_memories_exist(session, names)
        if receipt.preview:
            return
        receipt.bytes_before = os.path.getsize(self.path)
        with self.transaction():
            for session, names in targets.items():
                for found in self._any_state(session):
                    values += [entry.data for entry in found.entries_of(names)]
                    receipt.summaries += erase_quotes(self, found, names, values)
                    found.remove(names)
                    PurgeNotes(self.state, session).forget(names)
            note()
        self.vacuum()
        self.indexer.close()
        self.access.flush()
        receipt.pending += renew_digests()[1]
        pieces = pieces_of(values)
        content = read_bytes(self.path)
        receipt.pieces, receipt.searched_files, receipt.searched_bytes = len(pieces), 1, len(content)
        receipt.bytes_after = len(content)
        receipt.rewritten.append(self.path)
        if any(piece in content for piece in pieces):
            receipt.elsewhere.append(self.path)

    # -- search

    def index_of(self, histories: Any, problems: Mapping[str, list[Problem]]) -> FullTextIndex:
        return history_index(histories, problems, self.access)

    # -- settings and notices

    def write_setting(self, name: str, value: Any) -> None:
        with self.transaction():
            if value is None:
                check_removal(stored_settings(self._db), name)
                self.run("DELETE FROM setting WHERE name = ?", name)
            else:
                self.run("INSERT OR REPLACE INTO setting VALUES (?, ?)", name, json.dumps(value))

    def configured_at(self) -> float | None:
        return os.path.getmtime(self.path)

    # -- the process

    def check_open(self) -> None:
        if self.closed:
            raise StoreClosed("This store was closed; open it again with smp_memory.open().", path=self.root)

    def sync(self) -> None:
        self.check_open()

    def close(self) -> None:
        if self.closed:
            return
        self.indexer.close()
        self.access.flush()
        self.session_uses.flush()
        with self.mutex:
            self._db.close()
            self.closed = True


def erase_quotes(store: SqliteStore, session: SqliteSession, names: list[str], values: list[Any]) -> list[str]:
    """Take sentences that quote erased memories out of the summaries that compaction made; returns their ids."""
    pieces = [piece.decode() for piece in pieces_of(values)]
    changed = []
    for seq, line in store.all("SELECT seq, line FROM entry WHERE session = ?", session.no):
        entry = decode_entry(line)
        text = entry.data.get("summary")
        if entry.type != "summary" or entry.data.get("author") != AUTHOR or entry.id in names or not text:
            continue
        if not any(covers(entry.data.get("covers"), name) for name in names):
            continue
        entry.data["summary"] = without_quotes(text, lambda sentence: any(piece in sentence for piece in pieces))
        sql = "UPDATE entry SET line = ? WHERE session = ? AND seq = ?"
        store.run(sql, encode_entry(entry), session.no, seq)
        changed.append(f"{session.session}/{entry.id}")
    return changed


def read_bytes(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


# -- audit log and index


class SqliteLog:
    """The audit log as rows of a table."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.path = store.path

    def append(self, lines: list[bytes], *, sync: bool = False) -> None:
        self._store.run_many("INSERT INTO audit (line) VALUES (?)", ((line.decode(),) for line in lines))

    def read(self, offset: int = 0) -> tuple[list[bytes], int]:
        rows = self._store.all("SELECT no, line FROM audit WHERE no > ? ORDER BY no", offset)
        return [line.encode() for _, line in rows], rows[-1][0] if rows else offset

    def replace_before(self, offset: int, lines: list[bytes]) -> None:
        self._store.run("DELETE FROM audit WHERE no <= ?", offset)

    def size_bytes(self) -> int:
        return sum(map(len, self.read()[0]))

    def problems(self) -> list[str]:
        return []


class SqliteFeed:
    """Feeds an index in RAM with all live sessions, anew when one of them has changed."""

    folder = ""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._made: tuple[object, HistoryFeed] | None = None
        self.pending = PendingAccesses(store.access)
        self.mutex = store.mutex  # held while an index is in use: no other thread may close it meanwhile

    def caught_up(self, sessions: list[str] | None) -> Any:
        sql = "SELECT no, version FROM session WHERE state = 'live' ORDER BY no"
        with self._store.reading():
            state = [tuple(row) for row in self._store.all(sql)]
            if self._made is None or self._made[0] != state:
                self.close()
                sessions_read = [self._store.session(name) for name in names_of(self._store.sessions())]
                found = {each.session: each.history() for each in sessions_read}
                histories = {name: dict(history.histories) for name, history in found.items()}
                problems = {name: history.unreadable for name, history in found.items()}
                self._made = state, HistoryFeed(histories, problems, self._store.access)
            return self._made[1].caught_up(sessions)

    def refresh(self, index: Any) -> None:
        pass

    def add_vectors(self, index: Any) -> None:
        pass

    def read(self, index: Any, rows: Any, gone: Any) -> Any:
        assert self._made is not None
        return self._made[1].read(index, rows, gone)

    def session_not_found(self, session: str) -> SMPError:
        try:
            self._store.session(session)
        except SMPError as error:
            return error
        return SessionNotFound(f"No session {session}.", session=session)

    def recovers(self, index: Any, error: BaseException) -> bool:
        return False

    def private(self, sessions: list[str] | None) -> Any:
        return self.caught_up(sessions)

    def saved_metadata(self) -> dict[str, tuple[object, SessionInfo]]:
        return {}

    def count_accesses(self, *, from_start: bool = False) -> None:
        pass

    def rebuild(self, progress: Callable[[str, int], None] | None = None) -> int:
        self.close()
        return int(self.caught_up(None).count())

    def close(self) -> None:
        if self._made is not None:
            self._made[1].close()
            self._made = None


# -- opening


def connect(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
    db.row_factory = sqlite3.Row
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON"):
        db.execute(f"PRAGMA {setting}")
    db.executescript(_SCHEMA)
    return db


def stored_settings(db: sqlite3.Connection) -> dict[str, Any]:
    return {name: json.loads(value) for name, value in db.execute("SELECT name, value FROM setting")}


def open_sqlite(
    where: str, layout: str | None, config: Mapping[str, Any] | None, admit: Callable[..., None], create: bool
) -> tuple[SqliteStore, bool]:
    """Open the store at `sqlite-test://PATH`, creating it if need be."""
    where = without_password(where)
    path = "/" + where.removeprefix(f"{NAME}://").partition("/")[2]
    is_new = not os.path.exists(path)
    if is_new and not create:
        raise StoreNotFound(f"There is no store at {where}.", path=where)
    if layout not in (None, NAME):
        raise LayoutMismatch(f"{where} has no layouts.", path=where, layout=NAME)
    db = connect(path)
    try:
        settings = Config.build(stored_settings(db), path, environ=os.environ, arguments=config)
    finally:
        db.close()
    return SqliteStore(where, path, settings, admit), is_new
