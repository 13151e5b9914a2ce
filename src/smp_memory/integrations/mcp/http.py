"""The HTTP transport: requests are checked for host, origin and token before the app sees them; connections have limits.

Guarantees: every request is checked before anything of it is read: its Host must be one that was configured (so that no web
page can reach the server under a name of its own), its Origin, if any, must be of this machine or allowed, and it must
carry a token (`integrations.clients`), which must not have made too many requests. A refusal says nothing else, and ends the connection. The server listens on
loopback unless told otherwise, and then only under names that were given, and for tokens of the store. Headers that a proxy adds (`Forwarded`, `X-Forwarded-*`) are not read.
`/metrics` is behind the same checks; a token that is limited to some sessions does not open it.
Not guaranteed: secrecy on the wire; use a tunnel or a proxy with TLS beyond this machine.

uvicorn has no limit for the time in which a request must arrive, so a client that sends a byte now and then, or nothing, would
keep its connection for ever; nor for its size, and the smallest chunks cost the most to parse. Its `limit_concurrency` refuses new requests as long
as silent connections are open, and a client that does not read its answer is never disconnected. (With all limits of uvicorn 0.54 instead,
15 of the 25 tests of slow and flooding clients fail.) `Connection` is uvicorn's HTTP/1.1 protocol with the limits of `ConnectionLimits`,
for this server and the inspector. A body that exceeds one is answered 413, and the connection closed. A connection is also closed when a
request was answered before all of it arrived; further bytes are dropped unparsed, for `_LINGER_SECONDS` at most, because a connection
that is closed with unread bytes is reset, and the client would not get its answer. A connection that exceeds a time limit is closed, with
a 408 if no answer was begun. When the maximum of connections is reached, the one that has waited longest without a complete request is
closed for a new one; if all are being served, the new one is answered 503. An answer that has begun is not limited in time, so event
streams stay open as long as the client reads them.
"""

from __future__ import annotations

import ipaddress
import math
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import h11
import uvicorn
from anyio.to_thread import run_sync
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from smp_memory.errors import UserError
from smp_memory.integrations.clients import KEY, bearer
from smp_memory.integrations.store_metrics import PATH as METRICS_PATH
from smp_memory.integrations.store_metrics import with_metrics

if TYPE_CHECKING:
    import asyncio

    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from smp_memory.integrations.clients import Client, Clients
    from smp_memory.memory import Memory

MOST_BYTES = 4 * 1024 * 1024
_HEADERS, _BODY = "headers", "body"
_LATE = b"The request did not arrive in time.\n"
_TOO_LARGE = b"The request is larger than this server accepts, or comes in too many small pieces.\n"
_CLOSING = b"HTTP/1.1 %s\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s"
_TIMEOUT = _CLOSING % (b"408 Request Timeout", len(_LATE), _LATE)
_EXCESS = _CLOSING % (b"413 Content Too Large", len(_TOO_LARGE), _TOO_LARGE)
_HEADER_BYTES = 16 * 1024
_TINY_BYTES = 64
_LINGER_SECONDS = 2.0


class ConnectionLimits(NamedTuple):
    headers_seconds: float = 10  # from the connection, or the first byte of the next request, to the end of the headers
    body_seconds: float = 30  # from there to the end of the body, also of a request that was refused meanwhile
    idle_seconds: float = 30  # between two requests of one connection
    write_seconds: float = 30  # in which a client must read more of an answer, once its buffers are full
    connections: int = 256  # open at once
    body_bytes: int = MOST_BYTES  # of one request; twice as much on the wire
    tiny_pieces: int = 1000  # of which a body may consist, if they have less than 64 bytes on average


class _Parser(h11.Connection):
    """h11's parser, which stops for good when a body exceeds the limits."""

    def __init__(self, limits: ConnectionLimits, max_header_bytes: int) -> None:
        super().__init__(h11.SERVER, max_header_bytes)
        self._limits = limits
        self._wire_bytes = self._body_bytes = self._pieces = 0

    @property
    def is_exceeded(self) -> bool:
        limits = self._limits
        if self._body_bytes > limits.body_bytes or self._wire_bytes > 2 * limits.body_bytes:
            return True
        return self._pieces > limits.tiny_pieces and self._body_bytes < self._pieces * _TINY_BYTES

    def receive_data(self, data: bytes) -> None:
        if self.their_state is h11.SEND_BODY:
            self._wire_bytes += len(data)
        super().receive_data(data)

    def next_event(self) -> Any:
        if self.is_exceeded:
            return h11.PAUSED
        event = super().next_event()
        if isinstance(event, h11.Data):
            self._body_bytes += len(event.data)
            self._pieces += 1
        elif isinstance(event, (h11.Request, h11.EndOfMessage)):
            self._wire_bytes = self._body_bytes = self._pieces = 0
        return event


class _Transport:
    """A connection's transport. It lingers when it is closed while a request is still arriving."""

    def __init__(self, real: asyncio.Transport, connection: Connection) -> None:
        self._real = real
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def is_closing(self) -> bool:
        return self._connection.is_lingering or self._real.is_closing()

    def close(self) -> None:
        if self.is_closing():
            return
        if self._connection.conn.their_state is h11.SEND_BODY:
            self._connection.linger(self._real)
        else:
            self._real.close()


class Connection(H11Protocol):
    """One connection under the limits. Made by `protocol`."""

    limits = ConnectionLimits()
    _phase = ""  # the part of a request that is awaited; empty: none, or a new request of a kept-alive connection
    _since = 0.0
    _arrival_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    is_lingering = False
    _dropped = 0
    conn: _Parser

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.conn = _Parser(self.limits, self.config.h11_max_incomplete_event_size or _HEADER_BYTES)
        super().connection_made(_Transport(transport, self))  # type: ignore[arg-type]
        self._await(_HEADERS)
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_arrival_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.is_lingering:
            self._dropped += len(data)
            if self._dropped > 2 * self.limits.body_bytes:
                self.transport.abort()
            return
        super().data_received(data)
        self._update_phase()

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.is_exceeded:
            self._refuse_body()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._unset_keepalive_if_required()
            self.transport.close()
        self._update_phase()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    # -- requests that exceed the limits or were refused

    def _refuse_body(self) -> None:
        if self.transport.is_closing():
            return
        if self.cycle.response_started:
            self.transport.abort()
            return
        self.cycle.disconnected = True  # the app can neither read nor answer any more
        self.cycle.message_event.set()
        self.transport.write(_EXCESS)
        self.transport.close()

    def linger(self, transport: asyncio.Transport) -> None:
        """Send the rest of the answer and its end, and drop what arrives for a while."""
        self._await("")
        self.is_lingering = True
        transport.write_eof()
        transport.resume_reading()
        seconds = min(_LINGER_SECONDS, self.limits.body_seconds)
        self._arrival_timer = self.loop.call_later(seconds, transport.abort)

    # -- the part of a request that is awaited

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being served: one is awaited or arriving."""
        if self.is_lingering:
            return True
        return not self.transport.is_closing() and (bool(self._phase) or self.timeout_keep_alive_task is not None)

    def _update_phase(self) -> None:
        """Set the time limit of the part that is awaited now. Within one part it is not extended by single bytes."""
        state = self.conn.their_state
        if self.transport.is_closing():
            self._await("")
        elif state is h11.SEND_BODY:
            self._await(_BODY)
        else:
            self._await(_HEADERS if state is h11.IDLE and self.timeout_keep_alive_task is None else "")

    def _await(self, phase: str) -> None:
        if phase == self._phase or self.is_lingering:
            return
        self._stop_arrival_timer()
        self._phase = phase
        self._since = self.loop.time()
        if phase:
            seconds = self.limits.headers_seconds if phase == _HEADERS else self.limits.body_seconds
            self._arrival_timer = self.loop.call_later(seconds, self.give_up)

    def give_up(self) -> None:
        """Close a connection whose request did not arrive in time."""
        is_answered = self.is_lingering or (self._phase == _BODY and self.cycle.response_started)
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

    def _stop_arrival_timer(self) -> None:
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # -- the number of connections

    def _make_room(self) -> None:
        waiting = [each for each in self.connections if isinstance(each, Connection) and each is not self]
        waiting = [each for each in waiting if each.is_waiting]
        if waiting:
            min(waiting, key=lambda each: each._since).give_up()
        elif len(self.connections) > 2 * self.limits.connections:
            self.transport.abort()  # even a refusal would cost too much
        else:
            text = f"Too many connections: this server takes {self.limits.connections} at once. Try again later.\n"
            self.app = PlainTextResponse(text, 503, {"Retry-After": "5", "Connection": "close"})


def protocol(limits: ConnectionLimits) -> type[Connection]:
    """The protocol class with these limits, as `uvicorn.Config(http=…)` takes it."""
    return type("LimitedConnection", (Connection,), {"limits": limits})


def settings(limits: ConnectionLimits) -> dict[str, Any]:
    """The settings of `uvicorn.Config` that belong to the limits. No WebSockets: MCP does not use them."""
    return {"http": protocol(limits), "ws": "none", "timeout_keep_alive": limits.idle_seconds}


# -- requests

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class RequestGuard:
    """Passes on requests with an allowed host and origin and a token; refuses all others."""

    def __init__(self, app: ASGIApp, clients: Clients, hosts: set[str], origins: set[str]) -> None:
        self._app = app
        self._clients = clients
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp | None = None
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            answer = self._refusal(headers) or await self._admit(scope, bearer(headers.get("authorization")))
        await (answer or self._app)(scope, receive, _close_after_errors(send))

    async def _admit(self, scope: Scope, secret: str) -> PlainTextResponse | None:
        """Note the client in the scope, or return the refusal."""
        if self._clients.is_due:
            await run_sync(self._clients.refresh)
        if not self._clients.is_readable:
            return not_ready()
        client = self._clients.find(secret)
        if client is None:
            needs = {"WWW-Authenticate": 'Bearer realm="smp"'}
            about = "`smp token create` makes one" if self._clients.is_shared else "`smp mcp --http` says where it is"
            return PlainTextResponse(f"A bearer token is needed; {about}.\n", 401, needs)
        if client.token.is_limited and scope["path"] == METRICS_PATH:
            return PlainTextResponse("This token is limited to some sessions; metrics cover all of them.\n", 403)
        scope[KEY] = client
        return too_many(client)

    def _refusal(self, headers: Headers) -> PlainTextResponse | None:
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This host is not served here.\n", 421)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            return PlainTextResponse("Requests from this origin are not served.\n", 403)
        return None


def not_ready() -> PlainTextResponse:
    """The answer while the store cannot be reached: the token of the client may be right."""
    return PlainTextResponse("The store cannot be reached. Repeat the request later.\n", 503, {"Retry-After": "5"})


def too_many(client: Client) -> PlainTextResponse | None:
    """The refusal of a request beyond the rate of its token."""
    seconds = client.limit.wait_seconds(time.monotonic())
    if not seconds:
        return None
    text = f"Too many requests with this token; it allows {client.token.rate:g} a second.\n"
    return PlainTextResponse(text, 429, {"Retry-After": str(math.ceil(seconds))})


def _close_after_errors(send: Send) -> Send:
    """Add `Connection: close` to error responses: the rest of the request is not read."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
        await send(message)

    return sending


def is_local(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_host(host: str, remote: bool) -> None:
    """Refuse a host that is not loopback unless `remote` was asked for."""
    if remote or is_local(host):
        return
    raise UserError(
        f"{host}: other machines could reach the memory there. Use 127.0.0.1, or --allow-remote if that is what you want "
        "(and --allow-host NAME for each name it is reached by)."
    )


def listening_socket(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's algorithm off; without, every small answer waits 40 ms for an acknowledgement.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error).removesuffix(".")
        raise UserError(f"Cannot listen at {host} port {port}: {reason}. Choose another --port.") from None
    return listener


def allowed_hosts(host: str, port: int, names: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """The values of Host and Origin that are served: of this machine, the address that is listened at, and the names that were given."""
    address, given = f"[{host}]" if ":" in host else host, {name.lower() for name in names}
    allowed = {name.lower() for name in (*_LOOPBACK, address, *given)} - {"0.0.0.0", "[::]"}  # noqa: S104 - not names
    hosts = {f"{name}:{port}" for name in allowed} | {name for name in allowed if port == 80 or name in given}
    return hosts, {f"http://{name}" for name in hosts} | {f"https://{name}" for name in hosts if name in given}


def guarded_app(
    server: Server[Any],
    clients: Clients,
    host: str,
    port: int,
    names: tuple[str, ...] = (),
    memory: Memory | None = None,
) -> ASGIApp:
    """The server's app behind a `RequestGuard`; with `memory` also its metrics, at `/metrics`.

    A shared server keeps nothing between requests, so that several processes can serve one client.
    """
    hosts, origins = allowed_hosts(host, port, names)
    from mcp.server.transport_security import TransportSecuritySettings

    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # RequestGuard checks that
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MOST_BYTES,
        transport_security=security,
        host=host,
        stateless_http=clients.is_shared,
    )
    return RequestGuard(app if memory is None else with_metrics(app, memory), clients, hosts, origins)


def serve_http(
    server: Server[Any],
    clients: Clients,
    about_tokens: str,
    host: str,
    port: int,
    names: tuple[str, ...] = (),
    memory: Memory | None = None,
) -> None:
    """Serve until interrupted. `about_tokens` says which tokens open the server."""
    listener = listening_socket(host, port)
    port, address = listener.getsockname()[1], f"[{host}]" if ":" in host else host
    sys.stderr.write(f"smp mcp: http://{address}:{port}{PATH} — {about_tokens}\n")
    sys.stderr.flush()
    config = uvicorn.Config(
        guarded_app(server, clients, host, port, names, memory),
        log_level="warning",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=3,
        **settings(ConnectionLimits()),
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        clients.close()
