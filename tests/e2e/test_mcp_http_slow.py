"""Slow, silent or too many clients do not keep connections of `smp mcp --http`, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import uvicorn
from starlette.responses import PlainTextResponse, StreamingResponse

import smp_memory
from smp_memory.integrations.clients import Clients
from smp_memory.integrations.mcp.http import ConnectionLimits, RequestGuard, listening_socket, settings

TOKEN = "t" * 32
WAIT_SECONDS = 60  # a busy machine
SHORT = ConnectionLimits(headers_seconds=1, body_seconds=1, idle_seconds=1, write_seconds=1, connections=40)
LONG = ConnectionLimits(headers_seconds=600, body_seconds=600, idle_seconds=600, write_seconds=600, connections=12)


class Web:
    """The doorkeeper and a small app under limits, in a thread of this process, on a real socket."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.door = listening_socket("127.0.0.1", 0)
        self.port = self.door.getsockname()[1]
        self.streams: list[asyncio.Event] = []
        app = RequestGuard(self._app, Clients(smp_memory.open(":memory:"), TOKEN), {f"127.0.0.1:{self.port}"}, set())
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1, **settings(limits)
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self.door]})

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/stream":
            await StreamingResponse(self._events(), media_type="text/event-stream")(scope, receive, send)
            return
        if scope["path"] == "/large":
            await PlainTextResponse(b"x" * 50_000_000)(scope, receive, send)
            return
        while (await receive()).get("more_body"):
            pass
        await PlainTextResponse("served")(scope, receive, send)

    async def _events(self) -> Any:
        go_on = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.streams.append(go_on)
        yield "data: first\n\n"
        await go_on.wait()
        yield "data: last\n\n"

    def __enter__(self) -> Web:
        self._thread.start()
        until(lambda: self._server.started)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT_SECONDS)
        self.door.close()

    def connect(self, sent: bytes = b"") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)
        made.sendall(sent)
        return made

    def request(self, path: str = "/mcp", body: bytes = b"", *, token: str = TOKEN, length: int | None = None) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {token}\r\n"
        return f"{head}Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body

    def is_served(self) -> bool:
        with self.connect(self.request(body=b"hello")) as made:
            return b"served" in received(made, b"served")

    def end_streams(self) -> None:
        for go_on in self.streams:
            self._loop.call_soon_threadsafe(go_on.set)

    @property
    def open(self) -> int:
        return len(self._server.server_state.connections)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def received(made: socket.socket, last: bytes) -> bytes:
    """What the server sends, up to these bytes or until it closes; it may also reset."""
    found = b""
    try:
        while last not in found and (piece := made.recv(65536)):
            found += piece
    except ConnectionResetError:
        pass
    return found


@pytest.fixture
def web() -> Iterator[Web]:
    with Web(SHORT) as web:
        yield web


def all_of(made: socket.socket) -> bytes:
    return received(made, b"never sent")


def dribble(connections: list[socket.socket], byte: bytes) -> int:
    """Send a byte on each; how many were closed by the server."""
    closed = 0
    for made in connections:
        try:
            made.sendall(byte)
        except OSError:
            closed += 1
    return closed


SLOW = {
    "silent": (b"", b""),
    "headers": (b"POST /mcp HTTP/1.1\r\nX-Slow: ", b"x"),
    "body": ("length", b"x"),
    "refused body": ("refused", b"x"),
    "kept and silent": ("kept", b""),
    "kept, then headers": ("kept", b"P"),
}


@pytest.mark.parametrize("kind", SLOW)
def test_slow_connections_are_closed_and_others_are_served_meanwhile(web: Web, kind: str) -> None:
    start, byte = SLOW[kind]
    whole = {
        "length": web.request(length=1_000_000),
        "refused": web.request(token="wrong", length=1_000_000),
        "kept": web.request(body=b"once"),
    }
    slow = [web.connect(whole[start] if isinstance(start, str) else start) for _ in range(30)]
    try:
        assert web.is_served()
        closed: list[bool] = []

        def are_closed() -> bool:
            if byte and dribble(slow, byte) == len(slow):
                return True
            if web.open == 0:  # asked first: the server needs a moment to see that the connection below was closed
                return True
            closed.append(web.is_served())
            return False

        until(are_closed)
        assert all(closed)
        for made in slow:
            answer = all_of(made)
            if kind in ("silent", "headers", "body") and answer:
                assert b" 408 " in answer
            elif kind == "refused body" and answer:
                assert b" 401 " in answer
    finally:
        for made in slow:
            made.close()


def test_late_request_is_answered_408(web: Web) -> None:
    with web.connect(b"POST /mcp HT") as made:
        answer = all_of(made)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not arrive in time" in answer


def test_two_requests_on_one_connection_are_served() -> None:
    with Web(LONG) as web, web.connect(web.request(body=b"one")) as made:
        assert b"served" in received(made, b"served")
        made.sendall(web.request(body=b"two"))
        assert b"served" in received(made, b"served")


def test_event_stream_is_not_limited_in_time(web: Web) -> None:
    with web.connect(web.request("/stream")) as made:
        first = received(made, b"first")
        with web.connect(b"POST") as slow:  # whose time is as long as that of a request
            all_of(slow)
        with web.connect(web.request(body=b"once")) as kept:
            all_of(kept)
        web.end_streams()
        assert b"last" in received(made, b"last"), "the stream was cut off"
    assert b"200 OK" in first


def test_client_that_does_not_read_its_answer_is_disconnected(web: Web) -> None:
    with web.connect(web.request("/large")):
        until(lambda: web.open == 1)
        until(lambda: web.open == 0)
    assert web.is_served()


def test_idle_connections_are_closed_when_the_maximum_is_reached() -> None:
    with Web(LONG) as web:
        silent = [web.connect() for _ in range(3 * LONG.connections)]
        assert all(web.is_served() for _ in range(5))
        until(lambda: web.open <= LONG.connections)
        for made in silent:
            made.close()


def test_connection_above_the_maximum_is_answered_503_when_all_are_served() -> None:
    with Web(LONG) as web:
        streams = []
        for number in range(LONG.connections):
            streams.append(web.connect(web.request("/stream")))
            until(lambda number=number: len(web.streams) > number)  # type: ignore[misc]
        with web.connect(web.request(body=b"one more")) as made:
            answer = all_of(made)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Too many connections: this server takes 12 at once" in answer
        assert b"retry-after" in answer.lower()
        streams.pop().close()
        until(web.is_served)
        web.end_streams()
        for made in streams:
            made.close()
