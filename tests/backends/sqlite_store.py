"""A second backend, for tests: all sessions of a store in one SQLite file.

It shows that the port (`smp_memory.store.port`) is complete: nothing above it changes. It is deliberately simple. A batch is
one SQLite transaction; a change by anybody makes every process read the session again; the search index is made anew in RAM
from the histories after each change. No claims about speed.

    session   metadata, state (active, archived, deleted), the largest numbers given out
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

from smp_memory.config import Config
from smp_memory.config_file import check_removal
from smp_memory.errors import (
    LayoutMismatch,
    NotSupported,
    SessionArchived,
    SessionExists,
    SessionNotFound,
    SMPError,
    StorageCorrupt,
    StorageError,
    StoreClosed,
    StoreNotFound,
)
from smp_memory.files.activity import SESSION_USES, AccessLog
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import open_user_state
from smp_memory.index.access_counts import PendingAccesses
from smp_memory.index.full_text_index import FullTextIndex
from smp_memory.index.history_index import HistoryFeed, history_index
from smp_memory.model import ids
from smp_memory.model.entry import Entry
from smp_memory.model.history import SessionHistory
from smp_memory.model.reports import Problem
from smp_memory.model.session_info import SessionInfo
from smp_memory.model.storage_reports import (
    ArchivedSession,
)
from smp_memory.model.times import EPOCH, to_moment, to_text
from smp_memory.policies.compaction_plan import AUTHOR, covers, without_quotes
from smp_memory.policies.purge import purge_due
from smp_memory.store.examination import PlainExamination
from smp_memory.store.session_erasure import pieces_of
from tests.backends.sqlite_session import (
    ACTIVE,
    ARCHIVED,
    DELETED,
    SqliteSession,
    decode_entry,
    encode_entry,
    encode_info,
)

if TYPE_CHECKING:
    from smp_memory.index.full_text_index import IndexFeed
    from smp_memory.store.port import AuditLog, SessionStore, Store

    def _provides_port(
        store: SqliteStore, session: SqliteSession, feed: SqliteFeed, audit: SqliteAudit
    ) -> tuple[Store, SessionStore, IndexFeed, AuditLog]:
        return store, session, feed, audit  # checked by mypy


NAME = "sqlite-test"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS session (
    no INTEGER PRIMARY KEY, id TEXT NOT NULL, state TEXT NOT NULL, info TEXT NOT NULL, about TEXT NOT NULL DEFAULT '{}',
    version INTEGER NOT NULL DEFAULT 1, seq INTEGER NOT NULL DEFAULT 0, numbers TEXT NOT NULL DEFAULT '{}',
    written REAL NOT NULL, announced TEXT NOT NULL DEFAULT '{}'
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
        self.clock: object = None
        self.path = path
        self.mutex = threading.RLock()  # one thread at a time uses the connection, its cursors and the index
        self._db, self._pid = connect(path), os.getpid()
        self._depth = 0  # of nested transactions
        self._sessions: weakref.WeakValueDictionary[str, SqliteSession] = weakref.WeakValueDictionary()
        self._workers: list[threading.Thread] = []
        self.state = open_user_state(path, Disk(RealSystem(os.path.dirname(path))))
        self.access = AccessLog(self.state)
        self.session_uses = AccessLog(self.state, SESSION_USES, exact=True)
        self.audit = SqliteAudit(self)
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

    def session_ids(self) -> list[str]:
        return [id for (id,) in self.all("SELECT id FROM session WHERE state = 'active' ORDER BY id")]

    def sessions_with_deletion_records(self) -> list[str]:
        return []

    def has_one_session(self) -> bool:
        return len(self.session_ids()) == 1

    def _numbers(self, session: str, *states: str) -> list[int]:
        marks = ", ".join("?" * len(states))
        sql = f"SELECT no FROM session WHERE id = ? AND state IN ({marks}) ORDER BY no"
        return [no for (no,) in self.all(sql, session, *states)]

    def has_session(self, session: str) -> bool:
        return bool(self._numbers(session, ACTIVE))

    def session(self, session: str) -> SqliteSession:
        ids.check(session, "session")
        numbers = self._numbers(session, ACTIVE)
        if not numbers:
            raise self.session_not_found(session)
        with self.mutex:
            known = self._sessions.get(session)
            if known is None or known.no != numbers[0]:
                known = self._sessions[session] = SqliteSession(self, numbers[0], session)
            return known

    existing_session = session

    def session_not_found(self, session: str) -> SMPError:
        self.check_open()
        if self.is_archived(session):
            return SessionArchived(f"Session {session} is archived; restore it first.", session=session)
        return SessionNotFound(f"There is no session {session}.", session=session)

    def create(self, info: SessionInfo) -> SqliteSession:
        return self.import_session(info, [], self.config.quota_bytes)

    def import_session(self, info: SessionInfo, entries: list[Entry], quota_bytes: int) -> SqliteSession:
        info.uid = info.uid or ids.new_uid()
        with self.transaction():
            if self._numbers(info.id, ACTIVE, ARCHIVED):
                raise SessionExists(f"There is already a session {info.id}.", session=info.id)
            history = SessionHistory()
            history.add(entries)
            numbers = {**history.numbers, **info.numbers}
            seq = max([info.seq, *(entry.seq for entry in entries)])
            sql = "INSERT INTO session (id, state, info, seq, numbers, written) VALUES (?, 'active', ?, ?, ?, ?)"
            self.run(sql, info.id, encode_info(info), seq, json.dumps(numbers), time.time())
            session = self.session(info.id)
            lines = [encode_entry(entry) for entry in entries]
            self.admit(info.id, 0, sum(len(line.encode()) for line in lines), quota_bytes)
            session._append(entries, lines)
        return session

    def metadata_version(self, session: str) -> object | None:
        row = self.one("SELECT info FROM session WHERE id = ? AND state = 'active'", session)
        return row["info"] if row is not None else None

    def written_at(self, session: str) -> datetime:
        row = self.one("SELECT written FROM session WHERE id = ? AND state = 'active'", session)
        return datetime.fromtimestamp(row["written"], UTC) if row is not None else EPOCH

    def is_in_use(self, session: str) -> bool:
        known = self._sessions.get(session)
        return known is not None and known.is_held()

    # -- archived and deleted sessions

    def archived_count(self) -> int:
        return int(self.one("SELECT count(*) FROM session WHERE state = 'archived'")[0])

    def archived_sessions(self) -> list[ArchivedSession]:
        return [self._archived(row) for row in self.all("SELECT * FROM session WHERE state = 'archived' ORDER BY id")]

    def deleted_sessions(self) -> list[ArchivedSession]:
        sql = "SELECT * FROM session WHERE state = 'deleted' ORDER BY id, no"
        return [self._archived(row) for row in self.all(sql)]

    def _archived(self, row: sqlite3.Row) -> ArchivedSession:
        about = json.loads(row["about"])
        inner = next((each for each in about.values() if isinstance(each, dict) and "archived_at" in each), about)
        when = about.get("deleted_at") or about.get("archived") or inner.get("archived_at")
        size = self.one("SELECT coalesce(sum(length(line)), 0) FROM entry WHERE session = ?", row["no"])[0]
        return ArchivedSession(
            row["id"],
            row["state"],
            to_moment(when) if when else None,
            about.get("reason") or inner.get("reason"),
            f"{self.root}#{row['id']}.{row['no']}",
            size,
            about,
            version=row["version"],
        )

    def is_archived(self, session: str) -> bool:
        return bool(self._numbers(session, ARCHIVED))

    def archived_copy(self, session: str, max_bytes: int | None = None) -> SqliteSession:
        numbers = self._numbers(session, ARCHIVED)
        if not numbers:
            raise SessionNotFound(f"There is no archived session {session}.", session=session)
        copy = SqliteSession(self, numbers[0], session, (ARCHIVED,))
        if max_bytes is not None and sum(copy.sizes().values()) > max_bytes:
            raise StorageCorrupt(f"Archived session {session} is larger than {max_bytes} bytes.", session=session)
        return copy

    def archive_session(self, session: str, summary: Callable[..., dict[str, Any]]) -> ArchivedSession:
        with self.transaction():
            if self.is_archived(session):
                raise SessionExists(f"Session {session} is archived already.", session=session)
            found = self.session(session)
            records = found.view(lambda history: [each.record(session) for each in history.histories.values()])
            figures = {
                "layout": NAME,
                "memories": sum(1 for record in records if not record.deleted),
                "deleted_memories": sum(1 for record in records if record.deleted),
                "original_size_bytes": sum(found.sizes().values()),
                "earlier_conversation": [
                    record.text for record in records if record.type == "summary" and not record.deleted
                ],
            }
            self._set_state(found.no, ARCHIVED, summary(records, found.info(), figures))
            return self._archived(self.one("SELECT * FROM session WHERE no = ?", found.no))

    def _set_state(self, no: int, state: str, about: dict[str, Any]) -> None:
        sql = "UPDATE session SET state = ?, about = ?, version = version + 1 WHERE no = ?"
        self.run(sql, state, json.dumps(about, ensure_ascii=False), no)

    def restore_session(self, session: str) -> None:
        with self.transaction():
            numbers = self._numbers(session, ARCHIVED)
            if numbers:
                self._set_state(numbers[0], ACTIVE, {})
            elif not self.has_session(session):
                raise SessionNotFound(f"There is no archived session {session}.", session=session)

    def delete_session(
        self, session: str, now: datetime, kept: timedelta, by: str | None, reason: str | None
    ) -> ArchivedSession:
        with self.transaction():
            row = self.one("SELECT * FROM session WHERE id = ? AND state != 'deleted'", session)
            if row is None:
                raise self.session_not_found(session)
            record = {
                "session_id": session,
                "deleted_at": to_text(now),
                "deleted_by": by,
                "reason": reason,
                "recovery_deadline": to_text(now + kept),
                "state": row["state"],
                "bytes": self._archived(row).bytes,
                "before": json.loads(row["about"]),
            }
            self._set_state(row["no"], DELETED, record)
            return self._archived(self.one("SELECT * FROM session WHERE no = ?", row["no"]))

    def undelete_session(self, session: str) -> str:
        with self.transaction():
            deleted = [each for each in self.deleted_sessions() if each.session == session]
            if not deleted:
                raise SessionNotFound(f"There is no deleted session {session}.", session=session)
            if self._numbers(session, ACTIVE, ARCHIVED):
                raise SessionExists(f"There is a session {session} by now; nothing was changed.", session=session)
            record = deleted[-1].metadata
            self._set_state(_number_of(deleted[-1]), record["state"], record["before"])
            return str(record["state"])

    def announce_session_purge(self, deleted: ArchivedSession, now: datetime, passed: timedelta | None = None) -> None:
        seconds = passed.total_seconds() if passed is not None else None
        record = {**deleted.metadata, "purge_announced": to_text(now), "passed_seconds": seconds}
        self._set_state(_number_of(deleted), DELETED, record)

    def purge_session(
        self, session: str, at: str, note: Callable[[ArchivedSession], object], path: str | None = None
    ) -> ArchivedSession:
        with self.transaction():
            named = [each for each in self.deleted_sessions() if each.session == session and path in (None, each.path)]
            if not named:
                raise SessionNotFound(f"There is no deleted session {session}.", session=session)
            note(named[0])
            self.run("DELETE FROM session WHERE no = ?", _number_of(named[0]))
        self.vacuum()
        return named[0]

    def purge_archives(
        self,
        now: datetime,
        evidence: Any,
        by: str | None,
        kept: timedelta | None = None,
        *,
        automatic: bool = False,
    ) -> Iterator[tuple[str, Any]]:
        for each in self.archived_sessions():
            found = self.archived_copy(each.session)
            config = found.config
            if automatic and not config["lifecycle.auto_purge"]:
                continue
            days = kept if kept is not None else timedelta(days=config["lifecycle.purge_days"])

            def note(names: list[str], session: str = each.session) -> bool:
                return self.audit.note("purge", at=to_text(now), by=by, session=session, ids=names)

            yield each.session, purge_due(found, now, days, evidence, note)

    # -- erasure

    def _any_state(self, session: str) -> list[SqliteSession]:
        states = (ACTIVE, ARCHIVED, DELETED)
        return [SqliteSession(self, no, session, states) for no in self._numbers(session, *states)]

    def check_memories_exist(self, session: str, names: list[str]) -> None:
        found = self._any_state(session)
        if not found:
            raise self.session_not_found(session)
        known = {entry.id for each in found for entry in each.entries_of(names)}
        missing = next((name for name in names if name not in known), None)
        if missing is not None:
            raise found[0].memory_not_found(missing)

    def erase(
        self,
        targets: dict[str, list[str]],
        receipt: Any,
        note: Callable[[], object],
        renew_digests: Callable[[], tuple[list[str], list[str]]],
    ) -> None:
        values: list[Any] = []
        receipt.bytes_before = os.path.getsize(self.path)
        with self.transaction():
            for session, names in targets.items():
                for found in self._any_state(session):
                    values += [entry.data for entry in found.entries_of(names)]
                    receipt.summaries += erase_quotes(self, found, names, values)
                    found.remove(names)
                    announced = json.loads(found._row()["announced"])
                    left = {id: each for id, each in announced.items() if id not in names}
                    self.run("UPDATE session SET announced = ? WHERE no = ?", json.dumps(left), found.no)
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

    def finish_erasure(self) -> bool:
        return False  # an erasure is one transaction

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

    def report_unused_settings(self) -> None:
        pass

    def report_other_stores(self, line: str) -> None:
        pass

    # -- what only a store in files has

    def refresh_written(self) -> None:
        pass

    def unindexed_memories(self, sessions: Any = None) -> dict[str, Any]:
        return {}

    def unread_sessions(self) -> list[Any]:
        return []

    def unread_notice(self) -> str:
        return ""

    def convert(self, to: str, progress: Any = None) -> None:
        raise NotSupported("A store in SQLite has no layouts.", path=self.root)

    def quarantined(self) -> list[Any]:
        return []

    def quarantined_data(self, entry: Any) -> bytes:
        raise NotSupported("A store in SQLite has no quarantine.", path=self.root)

    def restore_quarantined(self, entry: Any, now: str) -> list[str]:
        raise NotSupported("A store in SQLite has no quarantine.", path=self.root)

    # -- the process

    def boot_id(self) -> str:
        return RealSystem(os.path.dirname(self.path)).boot_id()

    def examine(
        self,
        now: datetime,
        *,
        environ: Mapping[str, str],
        arguments: Mapping[str, Any] | None = None,
        quick: bool = False,
    ) -> PlainExamination:
        return PlainExamination(self, now, quick=quick)

    def check_open(self) -> None:
        if self.closed:
            raise StoreClosed("This store was closed; open it again with smp_memory.open().", path=self.root)

    def sync(self) -> None:
        self.check_open()

    def start_worker(self, worker: threading.Thread) -> None:
        self._workers.append(worker)
        worker.start()

    def close(self) -> None:
        if self.closed:
            return
        for worker in self._workers:
            if worker is not threading.current_thread():
                worker.join()
        self.indexer.close()
        self.access.flush()
        self.session_uses.flush()
        with self.mutex:
            self._db.close()
            self.closed = True


def _number_of(archived: ArchivedSession) -> int:
    return int(archived.path.rpartition(".")[2])


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


class SqliteAudit:
    """The audit log as rows of a table."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.failure: str | None = None
        self.path = store.path

    def note(self, action: str, **fields: Any) -> bool:
        fields.pop("sync", None)
        names = list(fields.pop("ids", ()))
        count = fields.pop("count", None)
        line = {
            "at": fields.pop("at", None) or to_text(datetime.now(UTC)),
            "action": action,
            "session": fields.pop("session", None),
            "count": len(names) if count is None else count,
            "ids": names or None,
            **fields,
        }
        text = json.dumps({name: value for name, value in line.items() if value is not None}, ensure_ascii=False)
        self._store.run("INSERT INTO audit (line) VALUES (?)", text)
        return True

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for (line,) in self._store.all("SELECT line FROM audit ORDER BY no")]

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
        sql = "SELECT no, version FROM session WHERE state = 'active' ORDER BY no"
        with self._store.reading():
            state = [tuple(row) for row in self._store.all(sql)]
            if self._made is None or self._made[0] != state:
                self.close()
                found = [self._store.session(name) for name in self._store.session_ids()]
                histories = {each.session: each.view(lambda history: dict(history.histories)) for each in found}
                problems = {each.session: each.unreadable() for each in found}
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
    path = where.removeprefix(f"{NAME}://")
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
