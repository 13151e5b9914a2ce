"""Connections to one store in PostgreSQL: its address, a small pool, transactions, and the errors of the database in plain words.

    postgresql://user@host:5432/database?schema=smp        a service file, passfile and PG… variables work as with psql

Guarantees: an address with a password is refused, and no password is part of an error. A thread that is inside a transaction uses its
connection for all that it does. A connection that broke while idle (the server was restarted) is replaced before anything was sent over it. A child
made by `fork` opens connections of its own and leaves those of its parent alone. SQL works behind PgBouncer in
transaction mode: no prepared statements, no settings of a connection, no LISTEN.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors as sql_errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from smp_memory.errors import (
    Busy,
    Conflict,
    InvalidFormat,
    LockTimeout,
    NotAllowed,
    QueryTimeout,
    SMPError,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StoreNotFound,
)
from smp_memory.model.ids import without_password

T = TypeVar("T")

MOST_CONNECTIONS = 10  # of a process
_WAIT_SECONDS = 10.0  # for a free connection
_CONNECT_SECONDS = 10
_SCHEMA = "smp"
_LONGEST_NAME = 56  # PostgreSQL's limit is 63; roles are named after the schema
_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_abandoned: list[Any] = []  # connections of the parent of this process; they must not be closed here


class Address:
    """Where a store is: what libpq needs, the schema, and the address as people may see it."""

    def __init__(self, address: str) -> None:
        place, _, options = address.partition("?")
        given = [each for each in options.split("&") if each]
        names = [each.removeprefix("schema=") for each in given if each.startswith("schema=")]
        others = [each for each in given if not each.startswith("schema=")]
        self.schema = names[-1] if names else _SCHEMA
        if not _is_name(self.schema):
            message = (
                f"where: schema={self.schema[:80]!r} is not a name; use small letters, digits and _, not a digit first."
            )
            raise InvalidFormat(message, field="where")
        try:
            parts = conninfo_to_dict(place + ("?" + "&".join(others) if others else ""))
        except psycopg.ProgrammingError as error:
            raise _invalid_address(address, str(error)) from None
        if any(parts.get(name) for name in _SECRETS):
            raise InvalidFormat(
                "where: the address contains a password, which logs and process lists would show. "
                "Put it into the passfile (~/.pgpass), a service file or PGPASSWORD.",
                field="where",
            )
        if not str(parts.get("port") or "").replace(",", "").isdigit() and parts.get("port"):
            raise _invalid_address(address, "the port is not a number")
        parts.setdefault("application_name", "smp")
        if "PGCONNECT_TIMEOUT" not in os.environ:
            parts.setdefault("connect_timeout", _CONNECT_SECONDS)
        self.conninfo = make_conninfo("", **parts)
        self.shown = without_password(address)


def _invalid_address(address: str, reason: str) -> InvalidFormat:
    """The error about an address that cannot be read; without libpq's reason, which quotes the address, if it may have a password."""
    has_password = ":" in address.partition("://")[2].rpartition("@")[0]
    if has_password:
        reason = "is it postgresql://user@host:5432/database, without a password?"
    return InvalidFormat(f"where: this is not a PostgreSQL address: {reason}".rstrip(), field="where")


def _is_name(text: str) -> bool:
    is_word = text.isascii() and text.replace("_", "a").isalnum() and text == text.lower()
    return is_word and not text[0].isdigit() and len(text) <= _LONGEST_NAME


class ConnectionLost(StorageError):
    """The connection broke; whether a change that was being committed is stored is not known."""


class Connections:
    """The connections of this process to one store. Threads share them."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._idle: list[psycopg.Connection] = []
        weakref.finalize(self, _close_all, self._idle, self._process)  # of a store that nobody closed
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._thread = threading.local()  # `connection`: that of the transaction which this thread is in

    @property
    def is_in_transaction(self) -> bool:
        return getattr(self._thread, "connection", None) is not None

    def run(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Call `work`, which only reads, with a connection in autocommit mode; again if an idle one turns out to be broken."""
        if self.is_in_transaction:
            with self._plain_errors():
                return work(self._thread.connection)
        with self._plain_errors(), self._taken() as (connection, is_new):
            try:
                return work(connection)
            except psycopg.OperationalError:
                if is_new or not connection.broken:
                    raise
        self._forget_idle()
        with self._plain_errors(), self._taken() as (connection, _):
            return work(connection)

    def execute_once(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Call `work`, one statement that changes something, in autocommit mode. Raises ConnectionLost if its outcome is not known."""
        if self.is_in_transaction:
            with self._plain_errors():
                return work(self._thread.connection)
        with self._plain_errors(), self._taken() as (connection, _):
            return work(connection)

    @contextmanager
    def transaction(self, lock_seconds: float | None = None) -> Iterator[psycopg.Connection]:
        """A transaction, or the one in which this thread is already. All that the block changes is stored, or nothing if it raises.

        Raises ConnectionLost if it is not known whether it was committed.
        """
        if self.is_in_transaction:
            with self._plain_errors():
                yield self._thread.connection
            return
        with self._plain_errors(), self._begun() as connection:
            if lock_seconds is not None:
                connection.execute(f"SET LOCAL lock_timeout = {max(1, int(lock_seconds * 1000))}")
            self._thread.connection = connection
            try:
                yield connection
            except BaseException:
                self._thread.connection = None
                if not connection.closed:
                    connection.execute("ROLLBACK")
                raise
            self._thread.connection = None
            if connection.execute("COMMIT").statusmessage != "COMMIT":  # an error inside was swallowed
                raise StorageError(f"The server undid the transaction: {self.address.shown}.", path=self.address.shown)

    @contextmanager
    def _begun(self) -> Iterator[psycopg.Connection]:
        with self._taken() as (connection, is_new):
            try:
                connection.execute("BEGIN")
                is_broken = False
            except psycopg.OperationalError:
                is_broken = not is_new and connection.broken
                if not is_broken:
                    raise
            if not is_broken:
                yield connection
                return
        self._forget_idle()
        with self._taken() as (connection, _):
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def _taken(self) -> Iterator[tuple[psycopg.Connection, bool]]:
        if os.getpid() != self._process:
            _abandoned.extend(self._idle)
            self._start()
        if not self._room.acquire(timeout=_WAIT_SECONDS):
            raise Busy(
                f"All {MOST_CONNECTIONS} connections of this process to {self.address.shown} were in use for {_WAIT_SECONDS:g} seconds. Repeat it.",
                limit=MOST_CONNECTIONS,
            )
        try:
            connection = self._pop()
            is_new = connection is None
            if connection is None:
                connection = psycopg.connect(self.address.conninfo, autocommit=True, prepare_threshold=None)
            try:
                yield connection, is_new
            finally:
                is_usable = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
                if is_usable and self._process == os.getpid():
                    self._idle.append(connection)
                else:
                    connection.close()
        finally:
            self._room.release()

    def _pop(self) -> psycopg.Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _forget_idle(self) -> None:
        _close_all(self._idle, self._process)

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise plain_error(error, self.address.shown) from error

    def close(self) -> None:
        self._forget_idle()


def _close_all(idle: list[psycopg.Connection], process: int) -> None:
    with suppress(IndexError):
        while os.getpid() == process:
            idle.pop().close()


_NO_ROOM = "The server has no free connection"
_REFUSED = "The server refused the login"
_NO_PASSWORD = f"{_REFUSED} (see the passfile ~/.pgpass)"
_NO_DATABASE = "The database does not exist; its administrator makes it with `createdb`"
_NO_STORE = "There is no store at this address; `smp init` makes one"
_KINDS: tuple[tuple[type[psycopg.Error], type[SMPError], str], ...] = (
    (sql_errors.LockNotAvailable, LockTimeout, "Another process holds the session for too long"),
    (sql_errors.QueryCanceled, QueryTimeout, "The server cancelled a statement that took too long"),
    (sql_errors.SerializationFailure, Conflict, "Another process changed the same rows"),
    (sql_errors.DeadlockDetected, Conflict, "Another process changed the same rows"),
    (sql_errors.TooManyConnections, Busy, _NO_ROOM),
    (sql_errors.DiskFull, StorageFull, "The server has no room left"),
    (
        sql_errors.ReadOnlySqlTransaction,
        StorageReadOnly,
        "This server is a replica or read-only; give the address of the primary",
    ),
    (
        sql_errors.InsufficientPrivilege,
        NotAllowed,
        "The database role lacks a right, or row-level security hides the session",
    ),
    (sql_errors.InvalidAuthorizationSpecification, NotAllowed, _REFUSED),
    (sql_errors.InvalidCatalogName, StoreNotFound, _NO_DATABASE),
    (sql_errors.InvalidSchemaName, StoreNotFound, _NO_STORE),
    (sql_errors.UndefinedTable, StoreNotFound, _NO_STORE),
)
# While connecting, the server's words are all that is known; those of another language count as a failed connection.
_WORDS: tuple[tuple[str, type[SMPError], str], ...] = (
    ("too many clients", Busy, _NO_ROOM),
    ("too many connections", Busy, _NO_ROOM),
    ("connection slots", Busy, _NO_ROOM),
    ("no more connections allowed", Busy, _NO_ROOM),
    ("no password supplied", NotAllowed, _NO_PASSWORD),
    ("password authentication", NotAllowed, _NO_PASSWORD),
    ("authentication failed", NotAllowed, _REFUSED),
    ("no pg_hba.conf entry", NotAllowed, _REFUSED),
    ("is not permitted to log in", NotAllowed, _REFUSED),
    ('FATAL: role "', NotAllowed, _REFUSED),
    ("permission denied for database", NotAllowed, _REFUSED),
    ('FATAL: database "', StoreNotFound, _NO_DATABASE),
    ("definition of service", StoreNotFound, "The service file lacks the service"),
)


def plain_error(error: psycopg.Error, address: str) -> SMPError:
    """An error of the database as one that a caller can act on."""
    reason = " ".join(str(error.diag.message_primary or error).split())
    for kind, ours, text in _KINDS:
        if isinstance(error, kind):
            return ours(f"{text}: {address} ({reason}).", path=address)
    for words, ours, text in _WORDS if isinstance(error, psycopg.OperationalError) else ():
        if words in reason:
            return ours(f"{text}: {address} ({reason.rpartition('FATAL: ')[2]}).", path=address)
    if isinstance(error, psycopg.OperationalError):
        return ConnectionLost(f"The server cannot be reached: {address} ({reason}).", path=address, recoverable=True)
    return StorageError(f"The server failed: {address} ({reason}). Nothing was half-written.", path=address)
