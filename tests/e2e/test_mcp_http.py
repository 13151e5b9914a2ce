"""`smp mcp --http`: which requests are accepted and refused, and many clients at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra smp-memory[mcp]")

import smp_memory
from tests.e2e.mcp_web import WebServer
from tests.user_state import state_folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("mcp-http") / "store"
    with smp_memory.open(root) as memory:
        memory.create_session("web")
    return root


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[WebServer]:
    with WebServer(root) as server:
        yield server
        assert server.stop() in (0, 130)  # interrupted
        assert "Traceback" not in server.log
        assert server.token not in server.said + server.log


def test_token_file_is_readable_by_its_owner_only_and_never_printed(server: WebServer, root: Path) -> None:
    assert server.token_file == state_folder(root) / "mcp-token"
    assert server.token_file.stat().st_mode & 0o777 == 0o600
    assert len(server.token) >= 43
    assert server.token not in server.said


def test_only_requests_with_the_token_are_served(server: WebServer) -> None:
    status, body = server.post()
    assert status == 200
    assert '"serverInfo"' in body
    for token in (None, "wrong", server.token[:-1], server.token + "x", server.token.swapcase()):
        status, body = server.post(token=token)
        assert status == 401
        assert "serverInfo" not in body
    assert server.post(Authorization=f"Basic {server.token}")[0] == 401
    assert server.post(Authorization="Bearer")[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}", "localhost:1", "127.0.0.1", ""])  # fmt: skip
def test_foreign_host_is_refused_even_with_the_token(server: WebServer, host: str) -> None:
    assert server.post(Host=host.format(port=server.port))[0] in (400, 421)


@pytest.mark.parametrize("origin", ["http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "null", "file://", ""])  # fmt: skip
def test_foreign_origin_is_refused_even_with_the_token(server: WebServer, origin: str) -> None:
    assert server.post(Origin=origin.format(port=server.port))[0] == 403


def test_local_names_and_origins_are_accepted(server: WebServer) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        assert server.post(Host=f"{name}:{server.port}")[0] == 200
    assert server.post(Origin=f"http://localhost:{server.port}")[0] == 200


def test_oversized_or_invalid_body_is_refused(server: WebServer) -> None:
    assert server.post(b"x" * 5_000_000)[0] == 413
    assert server.post(b"not json")[0] == 400
    assert server.post()[0] == 200


def test_writes_of_many_concurrent_clients_are_all_stored(server: WebServer, root: Path) -> None:
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async def one(name: str) -> list[str]:
        async with (
            create_mcp_http_client(headers={"Authorization": f"Bearer {server.token}"}) as http,
            Client(streamable_http_client(server.url, http_client=http)) as client,
        ):
            assert len((await client.list_tools()).tools) == 8
            given = [{"session": "web", "type": "finding", "text": f"{name} {number}"} for number in range(10)]
            results = await asyncio.gather(*(client.call_tool("remember", each) for each in given))
            return [str(result.structured_content["id"]) for result in results]

    async def all_of_them() -> list[list[str]]:
        return list(await asyncio.gather(*(one(f"client {number}") for number in range(4))))

    ids = [ref for refs in asyncio.run(all_of_them()) for ref in refs]
    assert len(set(ids)) == 40
    with smp_memory.open(root) as memory:
        assert {record.ref for record in memory.session("web").records()} == set(ids)


def test_token_file_readable_by_others_or_without_a_token_is_refused(tmp_path: Path) -> None:
    from smp_memory.integrations.clients import read_token

    own = tmp_path / "new" / "token"
    made = read_token(str(own))
    assert read_token(str(own)) == made
    assert own.stat().st_mode & 0o777 == 0o600
    own.chmod(0o644)
    with pytest.raises(smp_memory.errors.InvalidConfig, match="chmod 600"):
        read_token(str(own))
    own.chmod(0o600)
    for wrong in ("short", "", "two words that are long enough", "\x00" * 40, "é" * 40):
        own.write_text(wrong)
        with pytest.raises(smp_memory.errors.InvalidConfig, match="this is not a token"):
            read_token(str(own))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.com", "::"])
def test_non_loopback_host_is_refused_unless_allowed(host: str) -> None:
    from smp_memory.integrations.mcp.http import check_host

    with pytest.raises(smp_memory.errors.UserError, match="--allow-remote"):
        check_host(host, remote=False)
    check_host(host, remote=True)
    for here in ("127.0.0.1", "::1", "localhost", "127.0.0.53"):
        check_host(here, remote=False)


def test_port_in_use_is_a_clear_error(server: WebServer) -> None:
    from smp_memory.integrations.mcp.http import listening_socket

    for port in (server.port, 70_000):
        with pytest.raises(smp_memory.errors.UserError, match=f"port {port}"):
            listening_socket("127.0.0.1", port)


def test_remote_server_answers_only_configured_names() -> None:
    from smp_memory.integrations.clients import Clients
    from smp_memory.integrations.mcp.http import RequestGuard, guarded_app

    class Nothing:
        def streamable_http_app(self, **options: Any) -> Any:
            return None

    clients = Clients(smp_memory.open(":memory:"), "t" * 32)
    door = guarded_app(Nothing(), clients, "0.0.0.0", 8765, ("memory.example",))  # type: ignore[arg-type]
    assert isinstance(door, RequestGuard)
    assert {"memory.example", "memory.example:8765", "127.0.0.1:8765"} <= door._hosts
    assert not any("0.0.0.0" in name for name in door._hosts)
    assert "https://memory.example" in door._origins
