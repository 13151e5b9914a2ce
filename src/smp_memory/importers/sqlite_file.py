"""Read tables of another program's SQLite database from a private copy, so that its file, log and locks are not touched.

Guarantees: the database and its write-ahead log are copied into a temporary folder and read there; what was committed up to the copy is
read, also if it is only in the log. Nothing is created, locked or changed beside the original. If the program folds its log into the
database during the copy, the copy is made again. Tables and columns that do not exist are missing in the answer and no error. A
database that is damaged, encrypted or something else is `UnreadableDatabase`; rows before the damage are given first.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 32  # of the log; holds the salt that changes when it begins anew
_TRIES = 5
_BATCH = 200


class UnreadableDatabase(Exception):
    """Not an SQLite database, damaged, or changed all the time. Its text says why."""


class DatabaseCopy:
    """An open copy of a database; the copy is removed at the end."""

    def __init__(self, path: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="smp-import-")
        try:
            copy = os.path.join(self._folder.name, "copy.db")
            _copy(path, copy)
            self.bytes = os.path.getsize(copy)
            self._connection = sqlite3.connect(copy)
            self._connection.row_factory = sqlite3.Row
            self._connection.text_factory = _text
        except BaseException:
            self._folder.cleanup()
            raise

    def tables(self) -> set[str]:
        return {str(row["name"]) for row in self._rows("sqlite_master") if row["type"] == "table"}

    def columns(self, table: str) -> set[str]:
        try:
            return {str(row["name"]) for row in self._connection.execute(f'PRAGMA table_info("{table}")')}
        except sqlite3.Error as error:
            raise UnreadableDatabase(str(error)) from None

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """All rows of a table in the order in which they were written; none if the table does not exist."""
        if table in self.tables():
            yield from (dict(row) for row in self._rows(table, " ORDER BY rowid"))

    def _rows(self, table: str, order: str = "") -> Iterator[sqlite3.Row]:
        try:
            cursor = self._connection.execute(f'SELECT * FROM "{table}"{order}')  # noqa: S608 - a name of ours
            while found := cursor.fetchmany(_BATCH):
                yield from found
        except sqlite3.Error as error:
            raise UnreadableDatabase(str(error)) from None

    def __enter__(self) -> DatabaseCopy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._folder.cleanup()


def is_database(path: str) -> bool:
    """Whether a file begins like an SQLite database."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _copy(path: str, copy: str) -> None:
    if not os.path.isfile(path):
        raise UnreadableDatabase("there is no such file")
    if not is_database(path):
        raise UnreadableDatabase("not an SQLite database")
    log = f"{path}-wal"
    for _ in range(_TRIES):
        try:
            before = _state(path, log)
            shutil.copyfile(path, copy)
            if before[1]:
                shutil.copyfile(log, f"{copy}-wal")
            if _state(path, log) == before:
                return
        except OSError as error:
            raise UnreadableDatabase(f"cannot be read: {error.strerror}") from None
    raise UnreadableDatabase("it is being written all the time; stop its program and try again")


def _state(path: str, log: str) -> tuple[Any, bytes]:
    """What changes when the log is folded into the database. New entries in the log do no harm to a copy."""
    status = os.stat(path)
    try:
        with open(log, "rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        header = b""
    return (status.st_mtime_ns, status.st_size, status.st_ino), header


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
