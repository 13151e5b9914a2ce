"""Clients of a server (`smp mcp --http`, `smp web`): who a request comes from, what it may do, how often, and what is logged of it.

Each request carries the secret of a token. A token of the store (`smp token`) gives its client a memory limited to it
(`smp_memory.clients`). The secret of the server itself, the token file or the one-time link of a person at this machine, is a token like the
others, for everything; it holds only on a server that is not shared: the store never had tokens, and nobody but this machine can reach it.

Guarantees: tokens are read again when the log has grown, at most `_FRESH_SECONDS` after it did, so a revocation holds within a second in
every server process. If they cannot be read, no request is admitted. Audit lines name the client, the operation, sessions and ids,
never content or search words; they are collected and written once a second, so no request waits for them. The token of the server itself is in a file
that only its owner can read; it is never printed or logged, only the path of its file is. A file that others may read or write, or that holds no token, is refused.
Non-guarantees: rate limits count in one process. The last second of audit lines is lost if the process is killed.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

from smp_memory.clients.client_store import ClientStore
from smp_memory.errors import InvalidConfig, NotAllowed, SMPError, from_os_error
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.memory import seen_through
from smp_memory.model.times import to_text
from smp_memory.observe import telemetry
from smp_memory.privacy.client_tokens import ClientToken, RateLimit, TokenBook, digest_of
from smp_memory.scope import join_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.memory import Memory

T = TypeVar("T")
KEY = "smp.client"  # of a request's ASGI scope
LOCAL = "local"
READ, WRITE = "read", "write"
_FRESH_SECONDS = 0.5
_FLUSH_SECONDS = 1.0
_MOST_IDS = 50  # of one line of the audit log
_MOST_LINES = 10_000  # that wait to be written


class Client:
    """One client: its token, and the memory as it may use it."""

    def __init__(self, token: ClientToken, memory: Memory, notes: AuditNotes) -> None:
        self.token = token
        self.is_local = token.id == LOCAL
        self._store = None if self.is_local else ClientStore(memory.store, token)
        self.memory = memory if self._store is None else seen_through(memory, self._store)
        self.limit = RateLimit(token.rate)
        self._notes = notes
        self._kept: dict[str, Any] = {}
        self._lock = threading.RLock()

    @property
    def name(self) -> str | None:
        """Its name as an author of what it writes; None: the server's own."""
        return None if self.is_local else self.token.name

    def run(self, work: Callable[[], T]) -> T:
        """Run a request of the client in this thread."""
        return work() if self._store is None else self._store.run(work)

    def keep(self, name: str, make: Callable[[], T]) -> T:
        """An object of a server for this client, made once: a context of requests, an inspector."""
        with self._lock:
            if name not in self._kept:
                self._kept[name] = make()
            kept: T = self._kept[name]
            return kept

    def note(
        self, action: str, operation: str, session: str | None = None, ids: Iterable[str] = (), **facts: Any
    ) -> None:
        """Log what was done, READ or WRITE. Nothing is logged of the person at this machine."""
        if not self.is_local:
            self._notes.add(self.token.name, action, operation, session, ids, facts)


class AuditNotes:
    """Lines for the audit log that wait to be written; equal operations of one second are one line."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lines: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._lost = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(
        self, client: str, action: str, operation: str, session: str | None, ids: Iterable[str], facts: dict[str, Any]
    ) -> None:
        key = (client, action, operation, session, *sorted(facts.items()))
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                if len(self._lines) >= _MOST_LINES:
                    self._lost += 1
                    return
                start = {"at": to_text(self._memory.now()), "action": action, "operation": operation, "by": client}
                line = self._lines[key] = {**start, "client": client, "session": session, "ids": {}, "requests": 0, "count": 0, **facts}  # fmt: skip
            line["requests"] += 1
            for id in ids:
                line["count"] += 1
                if len(line["ids"]) < _MOST_IDS:
                    line["ids"][id] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._flush_later, name="smp-audit", daemon=True)
                self._thread.start()

    def _flush_later(self) -> None:
        time.sleep(_FLUSH_SECONDS)
        with self._lock:
            self._thread = None
        self.flush()

    def flush(self) -> None:
        """Write what waits. What cannot be written is reported once, as the audit log does."""
        with self._lock:
            lines, self._lines, lost, self._lost = list(self._lines.values()), {}, self._lost, 0
        if lost:
            telemetry.emit("audit", telemetry.WARNING, "audit_failed", f"{lost} operations of clients were not logged: too many at once.")  # fmt: skip
        self._memory.store.audit.note_all([{**line, "ids": list(line["ids"]) or None} for line in lines])


class Clients:
    """All clients of a server. Threads may share it."""

    def __init__(self, memory: Memory, local_secret: str | None, *, may_erase: bool = True) -> None:
        """`local_secret`: that of the server itself; None: only tokens of the store open it."""
        self._memory = memory
        self._book = TokenBook()
        self._size = -1
        self._read_at = float("-inf")
        self._is_readable = True
        self._lock = threading.Lock()
        self._clients: dict[str, Client] = {}
        self.notes = AuditNotes(memory)
        self._local: Client | None = None
        if local_secret is not None:
            token = ClientToken(LOCAL, LOCAL, digest_of(local_secret), may_write=True, may_erase=may_erase, rate=None)
            self._local = Client(token, memory, self.notes)

    @property
    def is_due(self) -> bool:
        """Whether the tokens must be looked at again; `refresh` may wait for a disk or a database."""
        return time.monotonic() - self._read_at >= _FRESH_SECONDS

    def refresh(self) -> None:
        with self._lock:
            if not self.is_due:
                return
            log = self._memory.store.tokens
            try:
                size = log.size_bytes()
                if size != self._size:
                    self._book, self._size = TokenBook(log.read()[0]), size
                    for problem in self._book.problems:
                        telemetry.emit("tokens", telemetry.WARNING, "token_unreadable", f"{log.path}: {problem}.")
                self._is_readable = True
            except NotAllowed:  # a database role that may not read tokens serves itself alone, with its own rights
                self._book, self._size, self._is_readable = TokenBook(), -1, True
            except (OSError, SMPError) as error:
                self._is_readable, self._size = False, -1
                telemetry.emit("tokens", telemetry.WARNING, "tokens_unreadable", f"The tokens of clients cannot be read: {error}")  # fmt: skip
            self._read_at = time.monotonic()

    @property
    def is_readable(self) -> bool:
        """Whether the tokens could be read; without them nobody is admitted."""
        return self._is_readable

    @property
    def has_tokens(self) -> bool:
        """Whether the store has tokens, or ever had: a server does not open again when the last one is revoked."""
        return bool(self._book.tokens or self._book.problems)

    @property
    def is_shared(self) -> bool:
        """Whether only tokens of the store open the server."""
        return self._local is None or not self._is_readable or self.has_tokens

    @property
    def local(self) -> Client | None:
        """The person at this machine, unless the server is shared."""
        return None if self.is_shared else self._local

    def find(self, secret: str) -> Client | None:
        """The client with this secret, if its token holds."""
        local = self.local
        if local is not None:
            own = TokenBook()
            own.tokens[LOCAL] = local.token
            return local if own.find(secret, self._memory.now()) is not None else None
        token = self._book.find(secret, self._memory.now()) if self._is_readable else None
        return None if token is None else self._client(token)

    def _client(self, token: ClientToken) -> Client:
        with self._lock:
            found = self._clients.get(token.id)
            if found is None:
                found = self._clients[token.id] = Client(token, self._memory, self.notes)
            return found

    def close(self) -> None:
        """Write what waits for the audit log, and wait for work that clients began; before the store is closed."""
        self.notes.flush()
        for client in self._clients.values():
            join_workers(client.memory.store)

    def is_admitted(self, client: Client) -> bool:
        """Whether the token of a client that was admitted holds still."""
        if client.is_local:
            return self.local is client
        token = self._book.tokens.get(client.token.id) if self._is_readable else None
        return token is not None and token.holds(self._memory.now())


def bearer(header: str | None) -> str:
    """The secret in an Authorization header; empty if there is none."""
    kind, _, given = (header or "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else ""


# -- the token of the server itself

FILE = "mcp-token"
_MIN_TOKEN_CHARACTERS = 16


def read_token(path: str) -> str:
    """The token in a file; the file is created with a new one if it does not exist."""
    disk, target = Disk(RealSystem()), os.path.abspath(path)
    try:
        if not disk.exists(target):
            _create_token(disk, target)
        status = disk.stat(target)
        if status is not None and os.name == "posix" and status.st_mode & 0o077:
            raise InvalidConfig(
                f"{path}: other users may read this token. Restrict it to yourself: chmod 600 {path}", path=path
            )
        token = disk.read(target).decode("ascii", "replace").strip()
    except OSError as error:
        raise from_os_error(error, path, "reading the token") from error
    if len(token) < _MIN_TOKEN_CHARACTERS or not token.isprintable() or " " in token or "\ufffd" in token:
        raise InvalidConfig(
            f"{path}: this is not a token; a token has at least {_MIN_TOKEN_CHARACTERS} characters. Remove the file, and a new one is created.",
            path=path,
        )
    return token


def _create_token(disk: Disk, path: str) -> None:
    disk.make_folder(os.path.dirname(path))
    try:
        disk.write_new(path, (secrets.token_urlsafe(32) + "\n").encode())
    except FileExistsError:
        pass  # another process has created it meanwhile; its token holds
    disk.sync_folder(os.path.dirname(path))
