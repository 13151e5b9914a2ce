"""Inspect the index on disk without changing it: sessions, rows, damage.

Guarantees: nothing is created, removed or written. The rows are opened read-only; tantivy's files are read as plain
bytes, each checked against the checksum in its footer. Damage is a list of sentences, or `IndexUnusable` if nothing
can be read.
Non-guarantees: while a process has the index open, or died with it open, SQLite may touch its own `rows.sqlite-shm`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from urllib.parse import quote
from zlib import crc32

from smp_memory.index.index import ROWS_FILE, index_folders
from smp_memory.index.rows import COLUMNS, VERSION, IndexedSession, IndexUnusable, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

_FOOTER_MAGIC = 1337  # each tantivy file ends with: JSON with the checksum, its length, this number
_MAX_FOOTER = 4096
_CHUNK = 1 << 20


class IndexInspection:
    """One index opened read-only. Close it after use."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        path = os.path.join(folder, ROWS_FILE)
        wal = f"{path}-wal"
        if not _is_plain_file(path):  # opening a planted pipe would block for ever
            raise IndexUnusable(f"{ROWS_FILE} is not a plain file")
        is_idle = not os.path.exists(wal) or not os.path.getsize(wal)  # then no process is writing to it
        try:
            self._db = sqlite3.connect(
                f"file:{quote(path)}?mode=ro{'&immutable=1' if is_idle else ''}",
                uri=True,
                timeout=0.2,
                isolation_level=None,
            )
            self._opened_state = self._file_state() if is_idle else ()
            self._db.execute("BEGIN")  # all reads see one state, whatever is written meanwhile
        except (sqlite3.Error, OSError) as error:
            raise IndexUnusable(str(error)) from error

    def _file_state(self) -> tuple[int, ...]:
        found = os.stat(os.path.join(self.folder, ROWS_FILE))
        return (
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            os.path.exists(os.path.join(self.folder, f"{ROWS_FILE}-wal")),
        )

    @property
    def has_changed(self) -> bool:
        """Whether a process began to write after all, so that what was read may be of two states."""
        try:
            return bool(self._opened_state) and self._file_state() != self._opened_state
        except OSError:
            return True

    def close(self) -> None:
        self._db.close()

    @property
    def version(self) -> int:
        return int(self._one("PRAGMA user_version") or 0)

    @property
    def is_current(self) -> bool:
        return self.version == VERSION

    def damage(self) -> Iterator[str]:
        """The damage that SQLite and tantivy's checksums report."""
        reported = self._one("PRAGMA quick_check(1)")
        if reported != "ok":
            yield f"the rows are damaged ({str(reported)[:80]})"
            return
        generation = int(self._meta("generation") or 0)
        if generation:
            yield from self._text_damage(os.path.join(self.folder, str(self._meta("text_folder") or "")))

    def sessions(self) -> dict[str, IndexedSession]:
        """Each indexed session, with the cursors of its files."""
        rows = self._all("SELECT no, id, files, seq, size, whole, last, names FROM session")
        return {row[1]: IndexedSession(*row) for row in rows}

    def memories_of(self, session: IndexedSession) -> dict[str, Row]:
        """The rows of a session's memories, by id."""
        found = self._all(f"SELECT {COLUMNS} FROM memory WHERE doc >> 24 = ?", (session.number,))
        return {row.id: row for row in map(Row._make, found)}

    def names(self) -> dict[int, str]:
        """Names of authors and files, by number."""
        return dict(self._all("SELECT no, name FROM name"))

    # -- text

    def _text_damage(self, folder: str) -> Iterator[str]:
        try:
            with _open_plain(os.path.join(folder, "meta.json")) as file:
                meta = json.loads(file.read())
            indexed = sum(
                each["max_doc"] - (each["deletes"] or {}).get("num_deleted_docs", 0) for each in meta["segments"]
            )
            names = [each["segment_id"].replace("-", "") for each in meta["segments"]]
            stamp = int(meta["opstamp"])
            present = os.listdir(folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            yield "the text index cannot be read (meta.json)"
            return
        if stamp != self._meta("stamp"):
            yield "the text index has another state than the rows"
        for segment in names:
            files = [name for name in present if name.startswith(f"{segment}.")]
            if not files:
                yield "a segment of the text index is missing"
            for name in files:
                if not _has_valid_checksum(os.path.join(folder, name)):
                    yield f"the text index is damaged ({name})"
        count = int(
            self._one("SELECT count(*) FROM memory WHERE digest >= 0") or 0
        )  # the others are to be indexed again
        recent = int(self._one("SELECT count(*) FROM recent") or 0)
        if indexed + recent < count:
            yield f"it has {count:,} memories, but the text of {indexed + recent:,}"

    # -- SQL

    def _meta(self, key: str) -> Any:
        return self._one("SELECT value FROM meta WHERE key = ?", (key,))

    def _one(self, sql: str, values: tuple[Any, ...] = ()) -> Any:
        found = self._all(sql, values)
        return found[0][0] if found else None

    def _all(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return self._db.execute(sql, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise IndexUnusable(str(error)) from error


def inspect_index(base: str) -> IndexInspection | None:
    """The index that all processes use, below `base`; None if there is none."""
    names = index_folders(base) if os.path.isdir(base) else []
    folder = os.path.join(base, names[0]) if names else ""
    return IndexInspection(folder) if names and os.path.lexists(os.path.join(folder, ROWS_FILE)) else None


def _is_plain_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _open_plain(path: str) -> BinaryIO:
    if not _is_plain_file(path):
        raise OSError(f"{path} is not a plain file")
    return open(path, "rb")


def _has_valid_checksum(path: str) -> bool:
    """Whether a tantivy file matches the checksum in its footer."""
    try:
        with _open_plain(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 8, 0))
            end = file.read(8)
            length, magic = int.from_bytes(end[:4], "little"), int.from_bytes(end[4:], "little")
            if magic != _FOOTER_MAGIC or not 0 < length <= min(_MAX_FOOTER, size - 8):
                return False
            body = size - 8 - length
            file.seek(body)
            reported = json.loads(file.read(length))["crc"]
            file.seek(0)
            found = 0
            while body > 0 and (part := file.read(min(_CHUNK, body))):
                found = crc32(part, found)
                body -= len(part)
            return bool(found == reported)
    except (OSError, ValueError, KeyError, TypeError):
        return False
