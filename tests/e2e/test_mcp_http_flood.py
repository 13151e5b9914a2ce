"""Clients that send more than `smp mcp --http` accepts are cut off, and others are served meanwhile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

from tests.e2e.test_mcp_http_slow import LONG, TOKEN, WAIT_SECONDS, Web, all_of, received

TINY = b"1\r\na\r\n" * 20_000
LARGE = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
EXTENDED = b"40;" + b"x" * 4000 + b"\r\n" + b"a" * 64 + b"\r\n"


@pytest.fixture
def web() -> Iterator[Web]:
    with Web(LONG) as web:
        yield web


def chunked(web: Web, token: str = TOKEN, host: str = "") -> bytes:
    host = host or f"127.0.0.1:{web.port}"
    head = f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()


def send_until_closed(made: socket.socket, data: bytes) -> None:
    """Send for ever; returns when the server has closed the connection."""
    try:
        while True:
            made.sendall(data)
    except (ConnectionError, BrokenPipeError):
        pass


@pytest.mark.parametrize("data", [TINY, LARGE, EXTENDED], ids=["tiny", "large", "extended"])
@pytest.mark.parametrize("token", [TOKEN, "wrong"], ids=["token", "no token"])
def test_endless_chunked_body_is_cut_off_and_others_are_served(web: Web, token: str, data: bytes) -> None:
    flooding = [web.connect(chunked(web, token)) for _ in range(4)]
    threads = [threading.Thread(target=send_until_closed, args=(made, data)) for made in flooding]
    for thread in threads:
        thread.start()
    assert all(web.is_served() for _ in range(3))
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive(), "the server still reads"
    for made in flooding:
        made.close()


@pytest.mark.parametrize("data", [TINY, LARGE * 65], ids=["tiny", "large"])
def test_chunked_body_beyond_a_limit_is_answered_413(web: Web, data: bytes) -> None:
    with web.connect(chunked(web)) as made:
        made.sendall(data)
        answer = all_of(made)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in answer.lower()


def test_chunked_bodies_within_the_limits_are_served_on_one_connection(web: Web) -> None:
    with web.connect() as made:
        for chunk in (
            LARGE * 63,
            b"1\r\na\r\n" * 900,
            b"80\r\n" + b"a" * 128 + b"\r\n",
            b"80\r\n" + b"a" * 128 + b"\r\n" * 1,
        ):
            made.sendall(chunked(web) + chunk + b"0\r\n\r\n")
            assert b"served" in received(made, b"served")


@pytest.mark.parametrize(("host", "token", "status"), [("", "wrong", 401), ("elsewhere.example", TOKEN, 421)])
def test_refused_request_closes_its_connection_before_the_body_arrives(
    web: Web, host: str, token: str, status: int
) -> None:
    with web.connect(chunked(web, token, host)) as made:
        answer = all_of(made)  # ends because the server closes
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"connection: close" in answer.lower()


def test_refused_request_with_a_large_body_gets_its_answer(web: Web) -> None:
    with web.connect() as made:
        made.sendall(web.request(body=b"x" * 6_000_000, token="wrong"))
        assert all_of(made).startswith(b"HTTP/1.1 401 ")


def test_only_the_first_of_pipelined_requests_without_a_token_is_answered(web: Web) -> None:
    with web.connect(web.request(token="wrong") * 500) as made:
        assert all_of(made).count(b"HTTP/1.1 401 ") == 1
    assert web.is_served()
