"""Time limits and a maximum number of connections for the HTTP server.

uvicorn has no limit for the time in which a request must arrive, so a client that sends a byte now and then, or nothing, would
keep its connection for ever. `Connection` is uvicorn's HTTP/1.1 protocol with these limits:

    headers_seconds   from the connection, or the first byte of the next request, to the end of the headers
    body_seconds      from there to the end of the body; also of a request that was refused meanwhile
    idle_seconds      between two requests of one connection
    write_seconds     in which a client must take more of an answer, once its buffers are full
    connections       open at once

Guarantees: a connection that exceeds a limit is closed, with a 408 if no answer was begun. When all connections are taken, the one that
has waited longest without a complete request makes room for a new one; if all are being served, the new one is answered 503.
An answer that has begun is not limited in time, so event streams stay open as long as the client reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import h11
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

_HEADERS, _BODY = "headers", "body"
_LATE = b"The request did not arrive in time.\n"
_TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s" % (len(_LATE), _LATE)  # fmt: skip


class Limits(NamedTuple):
    headers_seconds: float = 10
    body_seconds: float = 30
    idle_seconds: float = 30
    write_seconds: float = 30
    connections: int = 256


class Connection(H11Protocol):
    """One connection under the limits. Made by `protocol`."""

    limits = Limits()
    _phase = ""  # which part of a request is awaited; empty: none, or a new request of a connection that is kept
    _since = 0.0
    _arrival: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await(_HEADERS)
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._await("")
        self._stop_taking()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_taking()
        self._taking = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_taking()

    # -- which part of a request is awaited

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being served: one is awaited, or is arriving."""
        return not self.transport.is_closing() and (bool(self._phase) or self.timeout_keep_alive_task is not None)

    def _follow(self) -> None:
        """Set the limit of the part that is awaited now. Within one part it is not extended by single bytes."""
        state = self.conn.their_state
        if self.transport.is_closing():
            self._await("")
        elif state is h11.SEND_BODY:
            self._await(_BODY)
        else:
            self._await(_HEADERS if state is h11.IDLE and self.timeout_keep_alive_task is None else "")

    def _await(self, phase: str) -> None:
        if phase == self._phase:
            return
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        self._phase = phase
        self._since = self.loop.time()
        if phase:
            seconds = self.limits.headers_seconds if phase == _HEADERS else self.limits.body_seconds
            self._arrival = self.loop.call_later(seconds, self.give_up)

    def give_up(self) -> None:
        """Close a connection whose request did not arrive in time."""
        is_answered = self._phase == _BODY and self.cycle.response_started
        self._await("")
        if is_answered or self._is_kept:
            self.transport.abort()
        else:
            self.transport.write(_TIMEOUT)
            self.transport.close()

    @property
    def _is_kept(self) -> bool:
        """Whether this is a connection between two requests."""
        return self.timeout_keep_alive_task is not None

    def _stop_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    # -- how many

    def _make_room(self) -> None:
        waiting = [each for each in self.connections if isinstance(each, Connection) and each is not self]
        waiting = [each for each in waiting if each.is_waiting]
        if waiting:
            min(waiting, key=lambda each: each._since).give_up()
        elif len(self.connections) > 2 * self.limits.connections:
            self.transport.abort()  # even to refuse it would cost too much
        else:
            said = f"Too many connections: this server takes {self.limits.connections} at once. Try again later.\n"
            self.app = PlainTextResponse(said, 503, {"Retry-After": "5", "Connection": "close"})


def protocol(limits: Limits) -> type[Connection]:
    """The protocol class with these limits, as `uvicorn.Config(http=…)` takes it."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


def settings(limits: Limits) -> dict[str, Any]:
    """The settings of `uvicorn.Config` that belong to the limits. No WebSockets: MCP does not use them."""
    return {"http": protocol(limits), "ws": "none", "timeout_keep_alive": limits.idle_seconds}
