"""Connections to one store in PostgreSQL: its address, a small pool, transactions, and the errors of the database in plain words.

    postgresql://user@host:5432/database?schema=smp        a service file, passfile and PG… variables work as with psql

Guarantees: an address with a password is refused, and no password is part of an error. A thread that is inside a transaction uses its
connection for all that it does. A connection that broke while idle (the server was restarted) is replaced before anything was sent over it. A child
made by `fork` opens connections of its own and leaves those of its parent alone. SQL works behind PgBouncer in
transaction mode: no prepared statements, no settings of a connection, no LISTEN.

Truth: Unreachable means that a statement changed nothing, ConnectionLost that it is not known. A COMMIT counts only if the server says COMMIT and gives no
warning; it warns if it did not wait for the replica that it should wait for. Transactions are READ COMMITTED whatever the server's default is.
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
    DurabilityUnknown,
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
WAIT_SECONDS = 10.0  # for a free connection
IDLE_SECONDS = 120.0  # of a process inside a transaction; a plan for a large session takes that long
_CONNECT_SECONDS = 10
# A peer that does not answer any more is given up after 25 seconds; by default, a lost answer is waited for two hours.
_KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}
_DEFAULTS: dict[str, Any] = {**_KEEPALIVE, "application_name": "smp", "client_encoding": "UTF8"}
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
        parts = {**_DEFAULTS, **parts}
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


class Unreachable(StorageError):
    """There is no connection, or it broke while nothing was being committed: this statement changed nothing."""


class ConnectionLost(DurabilityUnknown):
    """The connection broke while a change was being committed; whether it is stored is not known."""


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

    def after_fork(self) -> None:
        _abandoned.extend(self._idle)
        self._start()

    @property
    def is_in_transaction(self) -> bool:
        return getattr(self._thread, "connection", None) is not None

    def run(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Call `work`, which only reads, with a connection in autocommit mode; again if an idle one turns out to be broken."""
        with self._plain_errors():
            if self.is_in_transaction:
                return work(self._thread.connection)
            while True:
                with self._taken() as (connection, is_new):
                    try:
                        return work(connection)
                    except psycopg.OperationalError:
                        if is_new or not connection.broken:
                            raise

    def execute_once(self, work: Callable[[psycopg.Connection], T]) -> T:
        """Call `work`, one statement that changes something, in autocommit mode. Raises ConnectionLost if its outcome is not known."""
        if self.is_in_transaction:
            return self.run(work)
        with self._plain_errors(), self._taken() as (connection, _):
            return self._confirmed(connection, work)

    @contextmanager
    def transaction(
        self, lock_seconds: float = WAIT_SECONDS, idle_seconds: float | None = None
    ) -> Iterator[psycopg.Connection]:
        """A transaction, or the one in which this thread is already. All that the block changes is stored, or nothing if it raises.

        `idle_seconds`: after so long without a statement (a cut network, a stopped machine) the server rolls it back and frees its locks.
        Raises ConnectionLost if it is not known whether it was committed.
        """
        if self.is_in_transaction:
            with self._plain_errors():
                yield self._thread.connection
            return
        with self._plain_errors(), self._begun(lock_seconds, idle_seconds or IDLE_SECONDS) as connection:
            self._thread.connection = connection
            try:
                yield connection
            except BaseException:
                with suppress(psycopg.Error):  # of a broken connection the server rolls back by itself
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._thread.connection = None
            status = self._confirmed(connection, lambda connection: connection.execute("COMMIT").statusmessage)
            if status != "COMMIT":
                message = f"The server rolled a transaction back: {self.address.shown}. Nothing was stored."
                raise StorageError(message, path=self.address.shown)

    @contextmanager
    def _begun(self, lock_seconds: float, idle_seconds: float) -> Iterator[psycopg.Connection]:
        milliseconds = max(1, int(lock_seconds * 1000))
        statement = (
            f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {milliseconds}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {int(idle_seconds * 1000)}"
        )
        while True:
            with self._taken() as (connection, is_new):
                try:
                    connection.execute(statement)
                except psycopg.OperationalError:
                    if is_new or not connection.broken:
                        raise
                    continue
                yield connection
                return

    def _confirmed(self, connection: psycopg.Connection, work: Callable[[psycopg.Connection], T]) -> T:
        """Call `work`, which commits. A warning with its answer means that the server did not wait for its replica."""
        warnings: list[str] = []

        def note(notice: psycopg.errors.Diagnostic) -> None:
            if notice.severity_nonlocalized == "WARNING":
                warnings.append(str(notice.message_primary))

        connection.add_notice_handler(note)
        try:
            result = work(connection)
        except psycopg.OperationalError as error:
            raise plain_error(error, self.address.shown, is_commit=True) from error
        finally:
            connection.remove_notice_handler(note)
        if warnings:
            raise _lost(self.address.shown, warnings[0])
        return result

    @contextmanager
    def _taken(self) -> Iterator[tuple[psycopg.Connection, bool]]:
        if not self._room.acquire(timeout=WAIT_SECONDS):
            raise Busy(
                f"All {MOST_CONNECTIONS} connections of this process to {self.address.shown} were in use for {WAIT_SECONDS:g} seconds. Repeat it.",
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

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise plain_error(error, self.address.shown) from error

    def close(self) -> None:
        _close_all(self._idle, self._process)


def _close_all(idle: list[psycopg.Connection], process: int) -> None:
    with suppress(IndexError):
        while os.getpid() == process:
            idle.pop().close()


_NO_ROOM = "The server has no free connection"
_REFUSED = "The server refused the login"
_NO_PASSWORD = f"{_REFUSED}; see the passfile ~/.pgpass"
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
        "The database role lacks a right, or was not allowed this project or user (`--project` names one)",
    ),
    (sql_errors.InvalidAuthorizationSpecification, NotAllowed, _REFUSED),
    (sql_errors.InvalidCatalogName, StoreNotFound, _NO_DATABASE),
    (sql_errors.InvalidSchemaName, StoreNotFound, _NO_STORE),
    (sql_errors.UndefinedTable, StoreNotFound, _NO_STORE),
)
_REFUSALS = (  # of a login; libpq gives their text only
    ("too many clients", Busy, _NO_ROOM),
    ("too many connections", Busy, _NO_ROOM),
    ("remaining connection slots", Busy, _NO_ROOM),
    ("no more connections allowed", Busy, _NO_ROOM),
    ("password", NotAllowed, _NO_PASSWORD),
    ("authentication failed", NotAllowed, _REFUSED),
    ("pg_hba.conf", NotAllowed, _REFUSED),
    ("permission denied for database", NotAllowed, _REFUSED),
    ("not permitted to log in", NotAllowed, _REFUSED),
    ('FATAL: role "', NotAllowed, _REFUSED),
    ('FATAL: database "', StoreNotFound, _NO_DATABASE),
    ("definition of service", StoreNotFound, "The service file lacks the service"),
)


def plain_error(error: psycopg.Error, address: str, *, is_commit: bool = False) -> SMPError:
    """An error of the database as one that a caller can act on. `is_commit`: a change may be stored although there was no answer."""
    reason = " ".join(str(error.diag.message_primary or error).split()).rstrip(".")
    for kind, ours, text in _KINDS:
        if isinstance(error, kind):
            return ours(f"{text}: {address} ({reason}).", path=address)
    if not isinstance(error, psycopg.OperationalError | sql_errors.IdleInTransactionSessionTimeout):
        return StorageError(f"The server failed: {address} ({reason}). Nothing was half-written.", path=address)
    if is_commit:
        return _lost(address, reason)
    for part, ours, text in _REFUSALS if error.sqlstate is None else ():
        if part in reason:
            return ours(f"{text}: {address} ({reason.rpartition('FATAL: ')[2]}).", path=address)
    message = f"The server cannot be reached: {address} ({reason})."
    return Unreachable(message, path=address, reason=reason, recoverable=True)


def _lost(address: str, reason: str) -> ConnectionLost:
    message = f"The server did not confirm a change: {address} ({reason}). It is not known whether the change is stored; look before you repeat it."
    return ConnectionLost(message, path=address, reason=reason, recoverable=True)
