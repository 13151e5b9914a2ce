"""A proxy before PostgreSQL that cuts a connection at a chosen statement: what a client sees when a network or a server fails in the middle.

never sent     the statement does not reach the server
no answer      the server carries it out, its answer is lost
half answer    the client gets the first bytes of the answer
late           the client's connection breaks, and the server gets the statement only when the test calls `deliver`
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.postgres_server import Endpoint, Server

NEVER_SENT, NO_ANSWER, HALF_ANSWER, LATE = "never sent", "no answer", "half answer", "late"
CUTS = (NEVER_SENT, NO_ANSWER, HALF_ANSWER, LATE)
_MOST_BYTES = 1 << 20


class Proxy:
    """Forwards all connections to a server. `cut` arms it for the next statements that contain a text."""

    def __init__(self, server: Server, folder: Path | None = None, host: str = "") -> None:
        """Listens on a Unix socket in a folder, or on a free port of a host."""
        self.cuts = 0  # how often a connection was cut
        self._server = parse_qs(urlsplit(server.address()).query)["host"][0] + "/.s.PGSQL.5432"
        self._mutex = threading.Lock()
        self._armed: tuple[bytes, list[str]] = (b"", [])
        self._meanwhile: tuple[bytes, Callable[[], object]] | None = None
        self._links: list[_Link] = []
        self._listener = socket.socket(socket.AF_UNIX if folder else socket.AF_INET)
        self._listener.bind(str(folder / ".s.PGSQL.5432") if folder else (host, 0))
        self._listener.listen(128)
        place = f"/smp?host={folder}" if folder else f"{host}:{self._listener.getsockname()[1]}/smp"
        self.endpoint = Endpoint(f"postgresql://smp@{place}")
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, statement: str, *hows: str) -> None:
        """Cut the next connections over which a statement with this text is sent, each in its way; none given: cut no more."""
        with self._mutex:
            self._armed = (statement.encode(), [*hows])

    def meanwhile(self, statement: str, work: Callable[[], object]) -> None:
        """Call `work` before the next statement that contains a text is forwarded."""
        self._meanwhile = (statement.encode(), work)

    def how_for(self, data: bytes) -> str | None:
        """How to cut the connection over which a client sent this."""
        if self._meanwhile is not None and self._meanwhile[0] in data:
            work, self._meanwhile = self._meanwhile[1], None
            work()
        with self._mutex:
            statement, hows = self._armed
            if not hows or statement not in data:
                return None
            self.cuts += 1
            return hows.pop(0)

    def deliver(self) -> bytes:
        """Send the server what is late; the answers, which no client gets."""
        return b"".join(link.deliver() for link in self._links if link.late)

    def close(self) -> None:
        _end(self._listener)
        for link in self._links:
            link.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(self._server)
                except OSError:
                    client.close()
                    server.close()
                    continue
                self._links.append(_Link(self, client, server))


class _Link:
    """One connection of a client and the one to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.late = b""  # what the server is to get later
        self._proxy, self._client, self._server = proxy, client, server
        self._how: str | None = None
        self._answer: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        for work in (self._send, self._answer_client):
            threading.Thread(target=work, daemon=True).start()

    def _send(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(_MOST_BYTES):
                how = self._proxy.how_for(data)
                self._how = how or self._how
                if how == LATE:
                    self.late = data
                    _end(self._client)
                    return
                if how == NEVER_SENT:
                    break
                self._server.sendall(data)
        self.close()

    def _answer_client(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(_MOST_BYTES):
                if self.late:
                    self._answer.put(data)
                    continue
                if self._how in (NO_ANSWER, HALF_ANSWER):
                    self._client.sendall(data[: len(data) // 2] if self._how == HALF_ANSWER else b"")
                    break
                self._client.sendall(data)
        self._answer.put(b"")
        self.close()

    def deliver(self) -> bytes:
        with suppress(OSError):  # the server ended the connection meanwhile
            self._server.sendall(self.late)
        answer = self._answer.get(timeout=60)
        self.close()
        self.late = b""
        return answer

    def close(self) -> None:
        _end(self._client)
        _end(self._server)


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
