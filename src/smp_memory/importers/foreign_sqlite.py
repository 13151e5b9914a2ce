"""Read an SQLite database of another program that may be running, without changing it.

Guarantees: neither the database nor the files beside it are written, created or locked. If a write-ahead log has content, a copy of both
files in a temporary folder is read, so that what the other program wrote last is seen.
Non-guarantee: a database that changes all the time while it is copied cannot be read; it is noted as unread.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from smp_memory.files.ownership import plain_bytes
from smp_memory.importers.registry import size_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.importers.source import Source

_MAGIC = b"SQLite format 3\0"
_TRIES = 3


@contextmanager
def opened(source: Source) -> Iterator[sqlite3.Connection | None]:
    """A connection to the database of a source; None if it cannot be opened, which is noted. Errors of queries end the block and are noted."""
    with tempfile.TemporaryDirectory(prefix="smp-import-") as folder:
        try:
            plain_bytes(source.path, 1)  # a pipe would block
            path = _copied(source.path, folder) if size_of(source.path + "-wal") else source.path
            connection = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable={int(path == source.path)}", uri=True)
        except (OSError, ValueError, sqlite3.Error) as error:
            source.cannot_read(1, f"cannot be opened: {error}")
            yield None
            return
        connection.text_factory = _decoded
        try:
            yield connection
        except sqlite3.Error as error:
            source.cannot_read(1, f"not a database that can be read: {error}")
        finally:
            connection.close()


def is_database(path: str) -> bool:
    """Whether a file begins like an SQLite database."""
    try:
        return plain_bytes(path, len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def rows(connection: sqlite3.Connection, table: str, source: Source) -> Iterator[dict[str, Any]]:
    """All rows of a table in the order in which they were written; none if it does not exist. Damage ends them and is noted."""
    if table not in tables(connection):
        return
    try:
        cursor = connection.execute(f'SELECT * FROM "{table}" ORDER BY rowid')  # noqa: S608 - a table that exists
        names = [each[0] for each in cursor.description]
        for row in cursor:
            source.count_bytes(sum(len(value) for value in row if isinstance(value, str | bytes)))
            yield dict(zip(names, row, strict=True))
    except sqlite3.Error as error:
        source.cannot_read(1, f"{table} cannot be read to its end: {error}")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _copied(path: str, folder: str) -> str:
    """The path of a copy of the database and its log, taken while the database did not change."""
    copy = os.path.join(folder, "copy.db")
    for _ in range(_TRIES):
        before = _state(path)
        shutil.copyfile(path, copy)
        shutil.copyfile(path + "-wal", copy + "-wal")
        if _state(path) == before:
            return copy
    raise OSError(0, "it is being written all the time; close the program and try again")


def _state(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns
