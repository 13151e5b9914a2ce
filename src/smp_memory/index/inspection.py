"""What does the index on disk say, and is it whole? A look that changes nothing in it.

Guarantees: nothing is made, taken away or written: the rows are opened for reading only, tantivy's files are read as plain
bytes, each against the checksum at its end. What is wrong is a list of sentences, or `Unusable` if nothing can be told.
Non-guarantees: while a process has the index open, or died with it open, SQLite may touch its own `rows.sqlite-shm`.
"""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from urllib.parse import quote
from zlib import crc32

from smp_memory.index.index import ROWS_FILE
from smp_memory.index.rows import COLUMNS, VERSION, IndexUnusable, Known, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

_PREFIX = "index-"  # as `smp_memory.index.index` names its folders; the oldest is the one that counts
_FOOTER_MAGIC = 1337  # how every file of tantivy ends: JSON with the checksum, its length, this number
_LONGEST_FOOTER = 4096
_CHUNK = 1 << 20


class IndexInspection:
    """The rows of one index, for reading. Close it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        path = os.path.join(folder, ROWS_FILE)
        waiting = f"{path}-wal"
        if not _is_plain(path):  # to open a pipe that somebody planted would wait for ever
            raise IndexUnusable(f"{ROWS_FILE} is not a plain file")
        still = not os.path.exists(waiting) or not os.path.getsize(waiting)  # then nobody is writing to it
        try:
            self._db = sqlite3.connect(
                f"file:{quote(path)}?mode=ro{'&immutable=1' if still else ''}",
                uri=True,
                timeout=0.2,
                isolation_level=None,
            )
            self._seen = self._look() if still else ()
            self._db.execute("BEGIN")  # all answers are about one state, whatever others write meanwhile
        except (sqlite3.Error, OSError) as error:
            raise IndexUnusable(str(error)) from error

    def _look(self) -> tuple[int, ...]:
        found = os.stat(os.path.join(self.folder, ROWS_FILE))
        return (
            found.st_ino,
            found.st_size,
            found.st_mtime_ns,
            os.path.exists(os.path.join(self.folder, f"{ROWS_FILE}-wal")),
        )

    @property
    def has_changed(self) -> bool:
        """Whether somebody began to write to it after all, so that what was read may be of two states."""
        try:
            return bool(self._seen) and self._look() != self._seen
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
        """What SQLite and tantivy's checksums say is wrong."""
        said = self._one("PRAGMA quick_check(1)")
        if said != "ok":
            yield f"the rows are damaged ({str(said)[:80]})"
            return
        generation = int(self._meta("generation") or 0)
        if generation:
            yield from self._damage_of_text(os.path.join(self.folder, str(self._meta("text_folder") or "")))

    def sessions(self) -> dict[str, Known]:
        """Each session that was taken in, with the cursors of its files."""
        rows = self._all("SELECT no, id, files, seq, size, whole, last, names FROM session")
        return {row[1]: Known(*row) for row in rows}

    def memories_of(self, known: Known) -> dict[str, Row]:
        """What is kept of a session's memories, by id."""
        found = self._all(f"SELECT {COLUMNS} FROM memory WHERE doc >> 24 = ?", (known.number,))
        return {row.id: row for row in map(Row._make, found)}

    def names(self) -> dict[int, str]:
        """Authors and files by the numbers that stand for them."""
        return dict(self._all("SELECT no, name FROM name"))

    # -- the words

    def _damage_of_text(self, folder: str) -> Iterator[str]:
        try:
            with _opened(os.path.join(folder, "meta.json")) as file:
                meta = json.loads(file.read())
            live = sum(
                each["max_doc"] - (each["deletes"] or {}).get("num_deleted_docs", 0) for each in meta["segments"]
            )
            names = [each["segment_id"].replace("-", "") for each in meta["segments"]]
            stamp = int(meta["opstamp"])
            present = os.listdir(folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            yield "the words cannot be read (meta.json)"
            return
        if stamp != self._meta("stamp"):
            yield "the words are of another state than the rows"
        for segment in names:
            files = [name for name in present if name.startswith(f"{segment}.")]
            if not files:
                yield "a part of the words is missing"
            for name in files:
                if not _is_whole(os.path.join(folder, name)):
                    yield f"the words are damaged ({name})"
        count = int(self._one("SELECT count(*) FROM memory WHERE digest >= 0") or 0)  # the others wait for their words
        recent = int(self._one("SELECT count(*) FROM recent") or 0)
        if live + recent < count:
            yield f"it knows {count:,} memories, but the words of {live + recent:,}"

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


def stored_in(base: str) -> IndexInspection | None:
    """The index that all processes use, below a base; None if there is none."""
    names = sorted(name for name in os.listdir(base) if name.startswith(_PREFIX)) if os.path.isdir(base) else []
    folder = os.path.join(base, names[0]) if names else ""
    return IndexInspection(folder) if names and os.path.lexists(os.path.join(folder, ROWS_FILE)) else None


def _is_plain(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _opened(path: str) -> BinaryIO:
    if not _is_plain(path):
        raise OSError(f"{path} is not a plain file")
    return open(path, "rb")


def _is_whole(path: str) -> bool:
    """Whether a file of tantivy has the checksum that it says it has."""
    try:
        with _opened(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 8, 0))
            end = file.read(8)
            length, magic = int.from_bytes(end[:4], "little"), int.from_bytes(end[4:], "little")
            if magic != _FOOTER_MAGIC or not 0 < length <= min(_LONGEST_FOOTER, size - 8):
                return False
            body = size - 8 - length
            file.seek(body)
            said = json.loads(file.read(length))["crc"]
            file.seek(0)
            found = 0
            while body > 0 and (part := file.read(min(_CHUNK, body))):
                found = crc32(part, found)
                body -= len(part)
            return bool(found == said)
    except (OSError, ValueError, KeyError, TypeError):
        return False
