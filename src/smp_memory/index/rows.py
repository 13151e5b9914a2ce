"""The rows of the index, in SQLite: memories, sessions with their cursors, entries that are not in files, tags, relations, standing instructions, echoes, access counts.

Guarantees: cursors and rows change together or not at all, across processes and crashes. A database of another
version, or one that SQLite reports as damaged, raises `IndexUnusable`; its owner deletes it.
Non-guarantees: after a power loss the last changes may be missing; then the cursors are old, too, and the files are
read again.

A memory's *doc* is its session's number and its position in the session: `number << 24 | position`. Neighbours in a
conversation have neighbouring docs.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections import namedtuple
from functools import partial
from stat import S_ISREG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, NamedTuple


VERSION = 14
POSITION_BITS, AUTHOR_SHIFT = 24, 26  # of a doc, and of the author in `facts`
_PAGE_BYTES = 2048  # an index of few memories takes a tenth less room than with 4096, one of many as much
PROBLEMS = "unreadable/"  # keys in `meta`, with the session: its unreadable entries
CURSOR = "feed"  # key in `meta`: what a source that tells changes has told; without it, all sessions are compared
LISTED = "listed"  # key in `meta`: identity of the sessions' folder when the index had all sessions in it
_LARGEST = 2**63 - 1  # integer in SQLite; a person may type a larger one into a file

_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE session(no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, watched BLOB NOT NULL, stats BLOB NOT NULL,
    files TEXT NOT NULL, seq INTEGER NOT NULL, size INTEGER NOT NULL, whole INTEGER NOT NULL, last INTEGER NOT NULL, names TEXT NOT NULL,
    about TEXT NOT NULL);
CREATE TABLE name(no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE memory(doc INTEGER PRIMARY KEY, id TEXT NOT NULL, type INTEGER NOT NULL, created INTEGER NOT NULL,
    updated INTEGER, author INTEGER, importance REAL, confidence REAL, pinned INTEGER, deleted INTEGER,
    status TEXT, severity TEXT, impact TEXT, approved INTEGER, facts INTEGER NOT NULL, digest INTEGER NOT NULL, places TEXT NOT NULL);
CREATE TABLE stored(doc INTEGER PRIMARY KEY, entries TEXT NOT NULL);
CREATE TABLE tag(tag TEXT NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY(tag, doc)) WITHOUT ROWID;
CREATE TABLE topic(topic TEXT NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY(topic, doc)) WITHOUT ROWID;
CREATE TABLE relation(source INTEGER NOT NULL, kind TEXT NOT NULL, session TEXT NOT NULL, target TEXT NOT NULL,
    PRIMARY KEY(source, kind, session, target)) WITHOUT ROWID;
CREATE TABLE wish(turn INTEGER PRIMARY KEY, said INTEGER NOT NULL); CREATE INDEX wish_said ON wish(said);
CREATE TABLE prompt(doc INTEGER PRIMARY KEY, beginning BLOB NOT NULL); CREATE TABLE validity(doc INTEGER PRIMARY KEY, since INTEGER, until INTEGER);
CREATE TABLE succession(session TEXT, id TEXT, new_session TEXT, new_id TEXT, source INTEGER, PRIMARY KEY(session, id, new_session, new_id, source)) WITHOUT ROWID;
CREATE TABLE statement(doc INTEGER PRIMARY KEY, text BLOB NOT NULL);
CREATE TABLE clue(term TEXT NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY(term, doc)) WITHOUT ROWID;
CREATE TABLE uncompared(doc INTEGER PRIMARY KEY);
CREATE TABLE echo(turn INTEGER NOT NULL, memory INTEGER NOT NULL, score REAL NOT NULL, PRIMARY KEY(turn, memory)) WITHOUT ROWID;
CREATE TABLE recent(doc INTEGER PRIMARY KEY, version INTEGER NOT NULL);
CREATE TABLE block(version INTEGER PRIMARY KEY, count INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE gone(doc INTEGER PRIMARY KEY);
CREATE TABLE access(doc INTEGER PRIMARY KEY, count INTEGER NOT NULL, last INTEGER NOT NULL);
CREATE TABLE vector_set(no INTEGER PRIMARY KEY, model TEXT NOT NULL UNIQUE, probe BLOB NOT NULL, files TEXT NOT NULL, filled INTEGER NOT NULL,
    load_ms REAL NOT NULL, generation INTEGER NOT NULL, below INTEGER NOT NULL, tail INTEGER NOT NULL);
CREATE TABLE vector(model INTEGER NOT NULL, doc INTEGER NOT NULL, digest INTEGER NOT NULL, place INTEGER NOT NULL, PRIMARY KEY(model, doc)) WITHOUT ROWID;
CREATE UNIQUE INDEX vector_place ON vector(model, place);
"""

# Created at the end of a large build: then each is sorted once, instead of being kept in order row by row.
_INDEXES = (
    "UNIQUE INDEX IF NOT EXISTS memory_id ON memory(doc >> 24, id)",
    "INDEX IF NOT EXISTS memory_created ON memory(created)",
)
_INDEXES_OF_MANY = (  # with few memories they cost more space than the time they save is worth
    "INDEX IF NOT EXISTS memory_session ON memory(doc >> 24, created)",
    "INDEX IF NOT EXISTS memory_type ON memory(type, created, doc, deleted)",
    "INDEX IF NOT EXISTS memory_author ON memory(author, created)",
    "INDEX IF NOT EXISTS tag_doc ON tag(doc)",
    "INDEX IF NOT EXISTS topic_doc ON topic(doc)",
    "INDEX IF NOT EXISTS relation_target ON relation(session, target)",
    "INDEX IF NOT EXISTS succession_source ON succession(source)",
    "INDEX IF NOT EXISTS clue_doc ON clue(doc)",
    "INDEX IF NOT EXISTS echo_memory ON echo(memory)",
)
FEW = 2000  # memories
TABLES_OF_A_MEMORY = (
    ("memory", "doc"), ("stored", "doc"), ("tag", "doc"), ("topic", "doc"), ("validity", "doc"), ("relation", "source"), ("succession", "source"), ("wish", "turn"), ("prompt", "doc"),
    ("statement", "doc"), ("clue", "doc"), ("uncompared", "doc"), ("echo", "turn"), ("echo", "memory"),
)  # fmt: skip

COLUMNS = (
    "doc, id, type, created, updated, author, importance, confidence, pinned, deleted, status, severity, "
    "impact, approved, facts, digest, places"
)

NULL = ""  # in values to insert: binding a None takes Python's sqlite3 longer than all other values of a row together
_MAY_BE_NULL = "updated, author, importance, confidence, pinned, deleted, status, severity, impact, approved"
_VALUES = ",".join(f"nullif(?, '{NULL}')" if each in _MAY_BE_NULL.split(", ") else "?" for each in COLUMNS.split(", "))
_SESSION = "no, id, files, seq, size, whole, last, names, watched, stats, about"
_WANTED = "WITH wanted(no) AS (SELECT value FROM json_each(?))"
_WANTED_NAMES = (
    "WITH wanted(place, name) AS (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))"
)
_PLACES_OF_DOCS = "SELECT doc, id, places FROM wanted CROSS JOIN memory ON doc = wanted.no"


class IndexUnusable(Exception):
    """The index cannot be used: damaged, of another version, or on a disk that cannot be written."""


class IndexBusy(Exception):
    """Another process is changing the index."""


if TYPE_CHECKING:

    class Row(NamedTuple):
        """One memory in the index."""

        doc: int
        id: str
        type: int
        created: int
        updated: int | None
        author: int | None
        importance: float | None
        confidence: float | None
        pinned: int | None
        deleted: int | None  # when, in microseconds
        status: str | None
        severity: str | None
        impact: str | None
        approved: int | None
        facts: int
        digest: int
        places: str

else:  # `typing` takes a new process 5 ms to load
    Row = namedtuple("Row", COLUMNS)

_row = partial(tuple.__new__, Row)  # a Row from a tuple of SQLite


if TYPE_CHECKING:

    class PlacedRow(NamedTuple):
        """Where the entries of a memory are, for the reader of records."""

        doc: int
        id: str
        places: str

else:
    PlacedRow = namedtuple("PlacedRow", "doc id places")

_placed_row = partial(tuple.__new__, PlacedRow)


class IndexedSession:
    """One session in the index: its number, and the cursors of its files."""

    __slots__ = ("about", "files", "id", "last", "names", "number", "seq", "size", "stats", "watched", "whole")

    def __init__(
        self,
        number: int,
        id: str,
        files: str,
        seq: int,
        size: int,
        whole: int,
        last: int,
        names: str = "[]",
        watched: bytes = b"",
        stats: bytes = b"",
        about: str = "",
    ) -> None:
        self.number = number
        self.id = id
        self.files: dict[str, list[Any]] = json.loads(files)
        self.seq = seq  # the largest sequence number of an indexed entry
        self.size = size  # how many positions are assigned
        self.last = last  # the last write to it in microseconds; maintenance does not count
        self.names: list[Any] = (
            json.loads(names) if names != "[]" else []
        )  # ids that were assigned twice, see `smp_memory.model.clone_merge`
        self.watched = watched  # its files and folders, and their stat data, see `smp_memory.store.change_detection`
        self.about = about  # version of its metadata, user, project, title and settings, as JSON; empty: not known
        self.stats = stats  # empty: they must be compared with the cursors
        self.whole = bool(whole)  # False: the whole session must be read again when it changes


class Rows:
    """The database of one index."""

    def __init__(self, path: str) -> None:
        """Open or create the database; `:memory:` for one in RAM."""
        self.path = path
        self._pid = os.getpid()
        try:
            if path != ":memory:":
                _create(path)
            self._db = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
        except (sqlite3.Error, OSError) as error:
            raise IndexUnusable(str(error)) from error
        try:
            self._set_up()
        except (sqlite3.Error, IndexUnusable) as error:
            self.close()
            if _is_lock(error):
                raise IndexBusy from error
            raise IndexUnusable(str(error)) from error
        self._has_indexes = False
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._sessions: dict[int, str] = {}

    def _set_up(self) -> None:
        self._db.execute("PRAGMA busy_timeout = 200")
        self._db.execute("PRAGMA mmap_size = 268435456")
        self._db.execute("PRAGMA cache_size = -16000")
        self._db.execute("PRAGMA wal_autocheckpoint = 2000")
        if self.version() == 0:
            self._db.execute("PRAGMA synchronous = OFF")  # an empty database damaged by a power loss is deleted
            self._db.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("BEGIN IMMEDIATE")
            if self.version() == 0:  # another process may have created it meanwhile
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {VERSION}")
            self._db.execute("COMMIT")
        if self.version() != VERSION:
            raise IndexUnusable(f"the index has version {self.version()}, not {VERSION}")
        self._db.execute("PRAGMA synchronous = NORMAL")

    def version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def data_version(self) -> int:
        """Changes when another connection has committed."""
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        self._db.close()

    def __del__(self) -> None:
        """Close the connection of a store that was never closed; a forked child leaves its parent's alone."""
        if self._pid == os.getpid() and hasattr(self, "_db"):
            self._db.close()

    # -- transactions

    def begin(self) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if _is_lock(error):
                raise IndexBusy from error
            raise

    def commit(self) -> None:
        self._db.execute("COMMIT")

    def make_indexes(self) -> None:
        """Create the missing SQL indexes."""
        if not self._has_indexes:
            self._has_indexes = self.one("SELECT 1 FROM memory LIMIT 1 OFFSET ?", (FEW,)) is not None
            for index in (*_INDEXES, *_INDEXES_OF_MANY) if self._has_indexes else _INDEXES:
                self._db.execute(f"CREATE {index}")

    def truncate_wal(self) -> None:
        """Checkpoint the write-ahead log into the database and truncate it, after a large write."""
        if self.path != ":memory:":
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    # -- SQL

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._db.execute(sql, values).fetchall()

    def each(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        return self._db.execute(sql, values)

    def one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first value of the first row, or None."""
        row = self._db.execute(sql, values).fetchone()
        return row[0] if row is not None else None

    def do(self, sql: str, values: Sequence[Any] = ()) -> None:
        self._db.execute(sql, values)

    def do_many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        self._db.executemany(sql, values)

    # -- meta

    def meta(self, key: str, default: Any = None) -> Any:
        value = self.one("SELECT value FROM meta WHERE key = ?", (key,))
        return default if value is None else value

    def set_meta(self, key: str, value: Any) -> None:
        self.do("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def save_hints(self, values: dict[str, Any], version: int | None) -> None:
        """Save values that are not needed for an answer, unless another process has written since the `data_version`, or on a full disk."""
        try:
            self.begin()
            for key, value in values.items() if self.data_version() == version else ():
                self.set_meta(key, value)
            self.commit()
        except (IndexBusy, sqlite3.Error):
            self.roll_back()

    # -- sessions

    def session_ids(self) -> list[str]:
        return [row[0] for row in self.each("SELECT id FROM session")]

    def stats_of_sessions(self) -> list[tuple[str, bytes, bytes]]:
        """Id, `watched` and `stats` of every session."""
        return self.all("SELECT id, watched, stats FROM session")

    def metadata_of_sessions(self, id: str | None = None) -> list[tuple[str, str]]:
        """Id and `about` of this session (None: all), if its metadata is known."""
        one = " AND id = ?" if id is not None else ""
        return self.all(f"SELECT id, about FROM session WHERE about != ''{one}", (id,) if one else ())

    def session(self, id: str) -> IndexedSession | None:
        found = self.all(f"SELECT {_SESSION} FROM session WHERE id = ?", (id,))
        return IndexedSession(*found[0]) if found else None

    def has_session(self, id: str) -> bool:
        return self.one("SELECT 1 FROM session WHERE id = ?", (id,)) is not None

    def new_session(self, id: str) -> IndexedSession:
        number = int(self.meta("last_session", 0)) + 1
        self.set_meta("last_session", number)  # numbers are never reused: tantivy may still have the old ones
        self.do("INSERT INTO session VALUES (?, ?, x'', x'', '{}', 0, 0, 1, 0, '[]', '')", (number, id))
        return IndexedSession(number, id, "{}", 0, 0, 1, 0)

    def save_session(self, known: IndexedSession) -> None:
        self.do(
            "UPDATE session SET watched = ?, stats = ?, files = ?, seq = ?, size = ?, whole = ?, last = ?, names = ?, about = ? WHERE no = ?",
            (
                known.watched,
                known.stats,
                json.dumps(known.files, separators=(",", ":")),
                min(known.seq, _LARGEST),
                known.size,
                int(known.whole),
                known.last,
                json.dumps(known.names, separators=(",", ":")),
                known.about,
                known.number,
            ),
        )

    def remove_session(self, number: int) -> None:
        self.do("DELETE FROM session WHERE no = ?", (number,))
        self.do("DELETE FROM meta WHERE key = ?", (LISTED,))

    def session_name(self, number: int) -> str | None:
        name = self._sessions.get(number)
        if name is None:
            name = self.one("SELECT id FROM session WHERE no = ?", (number,))
            if name is not None:
                self._sessions[number] = name  # numbers are never reused
        return name

    def session_of(self, doc: int) -> str | None:
        """The session of a memory."""
        return self.session_name(doc >> POSITION_BITS)

    def session_names(self) -> dict[int, str]:
        return dict(self.each("SELECT no, id FROM session"))

    # -- names of authors and files, stored as numbers

    def number_of(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self.known_number(name)
            if number is None:
                number = self._db.execute("INSERT INTO name(name) VALUES (?)", (_storable(name),)).lastrowid
            self._numbers[name] = int(number or 0)
        return int(number or 0)

    def known_number(self, name: str) -> int | None:
        found = self.one("SELECT no FROM name WHERE name = ?", (_storable(name),))
        return None if found is None else int(found)

    def name_of(self, number: int) -> str:
        name = self._names.get(number)
        if name is None:
            found = self.one("SELECT name FROM name WHERE no = ?", (number,))
            name = found.decode(errors="surrogatepass") if isinstance(found, bytes) else str(found)
            self._names[number] = name
        return name

    def remove_unused_names(self) -> None:
        """Remove names that no memory has: of authors of memories that were erased, or changed before."""
        used = {number for (number,) in self.each("SELECT DISTINCT author FROM memory")}
        for (places,) in self.each("SELECT places FROM memory"):
            used.update(int(number) for number in re.findall("([0-9]+):[0-9]+:", places))
        numbers = [number for (number,) in self.each("SELECT no FROM name") if number not in used]
        self.do_many("DELETE FROM name WHERE no = ?", [(number,) for number in numbers])
        self.forget_names()

    def forget_names(self) -> None:
        """Drop the caches: numbers assigned in a transaction that was rolled back are not valid."""
        self._numbers.clear()
        self._names.clear()
        self._sessions.clear()

    # -- memories

    def put(self, values: Iterable[Sequence[Any]]) -> None:
        """Insert new memories, with `NULL` for missing values. Looking for existing ones would take three times as long."""
        self.do_many(f"INSERT INTO memory({COLUMNS}) VALUES ({_VALUES})", values)

    def has_any(self, number: int, ids: Sequence[str]) -> bool:
        """Whether a session has a memory with one of these ids."""
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            placeholders = ",".join("?" * len(part))
            if self.one(
                f"SELECT 1 FROM memory WHERE doc >> 24 = ? AND id IN ({placeholders}) LIMIT 1", (number, *part)
            ):
                return True
        return False

    def by_id(self, number: int, id: str) -> Row | None:
        found = self.all(f"SELECT {COLUMNS} FROM memory WHERE doc >> 24 = ? AND id = ?", (number, id))
        return _row(found[0]) if found else None

    def places(self, docs: Sequence[int]) -> list[PlacedRow]:
        """Where the entries of these memories are."""
        return list(map(_placed_row, self.of(_PLACES_OF_DOCS, docs)))

    def of(self, selection: str, numbers: Sequence[int | str]) -> Iterable[Any]:
        """The rows of a selection that joins these numbers or texts, as the table `wanted(no)`.

        They are one parameter, so that SQLite compiles a selection once, whatever their number is.
        """
        return self._db.execute(f"{_WANTED} {selection}", (json.dumps(numbers),)) if numbers else ()

    def of_names(self, selection: str, names: Sequence[tuple[str, str]]) -> Iterable[Any]:
        """The same for session and id of memories, as the table `wanted(place, name)`."""
        return self._db.execute(f"{_WANTED_NAMES} {selection}", (json.dumps(names),)) if names else ()

    def select(
        self, where: str, values: Sequence[Any], order: str, limit: int, offset: int = 0, source: str = "memory"
    ) -> list[Row]:
        sql = f"SELECT {COLUMNS} FROM {source} WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
        return list(map(_row, self.each(sql, (*values, limit, offset))))

    def remove_range(self, first: int, last: int) -> dict[int, int]:
        """Remove the memories of a range of docs; return their docs with the digests of their terms."""
        docs = dict(self.each("SELECT doc, digest FROM memory WHERE doc BETWEEN ? AND ?", (first, last)))
        for table, column in TABLES_OF_A_MEMORY if docs else ():
            self.do(f"DELETE FROM {table} WHERE {column} BETWEEN ? AND ?", (first, last))
        return docs

    def remove_accesses(self, first: int, last: int) -> dict[str, tuple[int, int]]:
        """Remove the access counts and last accesses of a range of docs, and return them by id."""
        found = {
            id: (count, used)
            for id, count, used in self.each(
                "SELECT m.id, a.count, a.last FROM access a JOIN memory m ON m.doc = a.doc WHERE a.doc BETWEEN ? AND ?",
                (first, last),
            )
        }
        self.do("DELETE FROM access WHERE doc BETWEEN ? AND ?", (first, last))
        return found

    def restore_accesses(self, number: int, accesses: dict[str, tuple[int, int]]) -> None:
        """Store access counts by id again, for the docs that these memories of a session have now."""
        rows = ((self.by_id(number, id), used) for id, used in accesses.items())
        self.merge_accesses([(row.doc, *used) for row, used in rows if row is not None])

    def merge_accesses(self, accesses: list[tuple[int, int, int]]) -> None:
        """Store doc, count and last access; of two values the larger one is kept."""
        self.do_many(
            "INSERT INTO access VALUES (?,?,?) ON CONFLICT(doc) DO UPDATE SET count = max(count, excluded.count), "
            "last = max(last, excluded.last)",
            accesses,
        )

    def remove_memory(self, doc: int) -> None:
        """Remove a memory's row, tags, topic and relations, before it is inserted again."""
        for table, column in TABLES_OF_A_MEMORY:
            self.do(f"DELETE FROM {table} WHERE {column} = ?", (doc,))


def _create(path: str) -> None:
    """Create the file if it is missing; SQLite gives its other files the same permissions.

    An existing file is not opened: closing it would drop the locks that SQLite holds on it in this process.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        for each in (path, f"{path}-wal", f"{path}-shm"):
            _check_plain(each)


def _check_plain(path: str) -> None:
    """Raise IndexUnusable for a link or a file with a second name: SQLite would write into the other file."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not S_ISREG(status.st_mode) or status.st_nlink > 1:
        raise IndexUnusable(f"{path} is not a plain file with one name")


def _is_lock(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and ("locked" in str(error) or "busy" in str(error))


def _storable(name: str) -> str | bytes:
    """A name as SQLite takes it; one that is not valid text, such as a file name in another encoding, as bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode(errors="surrogatepass")
    return name
