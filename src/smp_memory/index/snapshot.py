"""Figures and newest memories of the index on disk, read without changing it and without loading the index.

For `smp` alone and for shell completion, which must start fast. Nothing is created, caught up or rebuilt: the index may lag behind
the files, and the caller compares (`smp_memory.store.status`).
Guarantees: all answers of one snapshot are from one state of the database. An index that is missing, damaged, locked or of another
version raises `IndexUnusable`. While a process has the index open, or died with it open, SQLite may touch its own `rows.sqlite-shm`.
"""

from __future__ import annotations

import os
import sqlite3
from stat import S_ISREG

from smp_memory.index.rows import COLUMNS, POSITION_BITS, VERSION, IndexedSession, IndexUnusable, Row
from smp_memory.model.types import KINDS, NUMBERED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

ROWS_FILE, INDEX_PREFIX = "rows.sqlite", "index-"
_IS_LIVE = "ifnull(deleted, 0) = 0"
_SESSION = "no, id, files, seq, size, whole, last, names, watched, stats, about"


def index_folders(base: str) -> list[str]:
    """The names of index folders, oldest first. The oldest is in use: two processes may have created one at the same time."""
    return sorted(name for name in os.listdir(base) if name.startswith(INDEX_PREFIX))


class IndexSnapshot:
    """One state of the index in a folder. A context manager."""

    def __init__(self, base: str) -> None:
        """`base` is the folder that holds the folders of indexes; the oldest one is in use."""
        try:
            folders = index_folders(base)
            path = os.path.join(base, folders[0], ROWS_FILE) if folders else base
            if not S_ISREG(os.lstat(path).st_mode):  # opening a planted pipe would block for ever
                raise IndexUnusable("there is no index")
        except OSError as error:
            raise IndexUnusable(str(error)) from error
        try:
            self._db = _connect(path, "")
        except sqlite3.Error:  # on a read-only disk SQLite cannot create its shared memory
            try:
                self._db = _connect(path, "&immutable=1")
            except sqlite3.Error as error:
                raise IndexUnusable(str(error)) from error
        version = self._all("PRAGMA user_version")[0][0]
        if version != VERSION:
            self._db.close()
            raise IndexUnusable(f"the index has version {version}, not {VERSION}")

    def __enter__(self) -> IndexSnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def _all(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise IndexUnusable(str(error)) from error

    def stats_of_sessions(self) -> list[tuple[str, bytes, bytes]]:
        """Id, `watched` and `stats` of every session."""
        return self._all("SELECT id, watched, stats FROM session")

    def session(self, id: str) -> IndexedSession | None:
        found = self._all(f"SELECT {_SESSION} FROM session WHERE id = ?", (id,))
        return IndexedSession(*found[0]) if found else None

    def last_writes(self) -> dict[str, int]:
        """When each session was last written, in microseconds."""
        return dict(self._all("SELECT id, last FROM session"))

    def name_of(self, number: int) -> str:
        """The name of an author or a file."""
        found = self._all("SELECT name FROM name WHERE no = ?", (number,))
        name = found[0][0] if found else ""
        return name.decode(errors="surrogatepass") if isinstance(name, bytes) else str(name)

    def counts(self) -> dict[str, int]:
        """The number of memories by type, without deleted ones."""
        rows = self._all(f"SELECT type, count(*) FROM memory WHERE {_IS_LIVE} GROUP BY type")
        return {NUMBERED[number]: count for number, count in sorted(rows) if number in NUMBERED}

    def open_findings(self) -> dict[str, int]:
        """The number of findings that are not settled, by severity; an empty severity for those without one."""
        found: dict[str, int] = {}
        for kind in (kind for kind in KINDS.values() if kind.is_open_until_closed):
            sql = (
                f"SELECT status, severity, count(*) FROM memory WHERE type = ? AND {_IS_LIVE} GROUP BY status, severity"
            )
            for status, severity, count in self._all(sql, (kind.number,)):
                if str(status or "").lower() not in kind.settled:
                    name = str(severity or "").lower()
                    found[name] = found.get(name, 0) + count
        return found

    def newest(self, limit: int) -> list[tuple[str, Row]]:
        """Session and row of the newest memories, the newest first, without deleted ones."""
        sql = f"SELECT {COLUMNS} FROM memory WHERE {_IS_LIVE} ORDER BY created DESC, doc DESC LIMIT ?"
        names = dict(self._all("SELECT no, id FROM session"))
        rows = [Row._make(row) for row in self._all(sql, (limit,))]
        return [(names[row.doc >> POSITION_BITS], row) for row in rows if row.doc >> POSITION_BITS in names]

    def ids(self, prefix: str, session: str | None, limit: int) -> list[tuple[str, str]]:
        """Session and id of memories whose id begins with a text, the newest first, without deleted ones."""
        sql = f"SELECT session.id, memory.id FROM memory JOIN session ON session.no = memory.doc >> 24 WHERE {_IS_LIVE} AND substr(memory.id, 1, ?) = ?"
        values: list[Any] = [len(prefix), prefix]
        if session is not None:
            sql, values = f"{sql} AND session.id = ?", [*values, session]
        return self._all(f"{sql} ORDER BY created DESC LIMIT ?", [*values, limit])

    def values(self, prefix: str) -> list[Any]:
        """The values in `meta` whose key begins with a text."""
        return [
            row[0] for row in self._all("SELECT value FROM meta WHERE key BETWEEN ? AND ?", (prefix, prefix + "\x7f"))
        ]


def _connect(path: str, options: str) -> sqlite3.Connection:
    database = sqlite3.connect(f"file:{_quoted(path)}?mode=ro{options}", uri=True, timeout=0.2, isolation_level=None)
    try:
        database.execute("BEGIN")
        database.execute("SELECT 1 FROM meta LIMIT 1")  # from now on all reads see one state
    except sqlite3.Error:
        database.close()
        raise
    return database


def _quoted(path: str) -> str:
    """A path in a URI; `urllib` takes longer to load than all the rest."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
