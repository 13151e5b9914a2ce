"""The HTTP transport: requests are checked for host, origin and token before the app sees them; connections are limited (`integrations.http_connection`).

Guarantees: every request is checked before anything of it is read: its Host must be one that was configured (so that no web
page can reach the server under a name of its own), its Origin, if any, must be of this machine or allowed, and it must
carry the token. A refusal says nothing else, and ends the connection. The server listens on loopback unless told otherwise, and
then only under names that were given. `/metrics` is behind the same checks.
Not guaranteed: secrecy on the wire; use a tunnel or a proxy with TLS beyond this machine.

The token is in a file that only its owner can read. It has 256 random bits and is compared in constant time; it is never printed
or logged, only the path of its file is. A file that others may read or write, or that holds no token, is refused.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
import sys
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

from smp_memory.errors import InvalidConfig, UserError, from_os_error
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.integrations.http_connection import MOST_BYTES, ConnectionLimits, settings
from smp_memory.integrations.prometheus import with_metrics

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from smp_memory.memory import Memory

# -- the token

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
            raise InvalidConfig(f"{path}: others may read this token. Make it yours alone: chmod 600 {path}", path=path)
        token = disk.read(target).decode("ascii", "replace").strip()
    except OSError as error:
        raise from_os_error(error, path, "reading the token") from error
    if len(token) < _MIN_TOKEN_CHARACTERS or not token.isprintable() or " " in token or "\ufffd" in token:
        raise InvalidConfig(
            f"{path}: this is no token; it needs {_MIN_TOKEN_CHARACTERS} characters or more. Remove the file, and a new one is made.",
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


def has_token(token: str, header: str | None) -> bool:
    """Whether an Authorization header holds the token."""
    kind, _, given = (header or "").partition(" ")
    matches = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return kind.lower() == "bearer" and matches


# -- requests

PATH = "/mcp"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class RequestGuard:
    """Passes on requests with an allowed host and origin and the token; refuses all others."""

    def __init__(self, app: ASGIApp, token: str, hosts: set[str], origins: set[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, _close_after_errors(send))

    def _refusal(self, headers: Headers) -> PlainTextResponse | None:
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This host is not served here.\n", 421)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            return PlainTextResponse("Requests from this origin are not served.\n", 403)
        if not has_token(self._token, headers.get("authorization")):
            needs = {"WWW-Authenticate": 'Bearer realm="smp"'}
            return PlainTextResponse("A bearer token is needed; `smp mcp --http` says where it is.\n", 401, needs)
        return None


def _close_after_errors(send: Send) -> Send:
    """Add `Connection: close` to error responses: the rest of the request is not read."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            message = {**message, "headers": [*message.get("headers", []), (b"connection", b"close")]}
        await send(message)

    return sending


def check_host(host: str, remote: bool) -> None:
    """Refuse a host that is not loopback unless `remote` was asked for."""
    if remote or host == "localhost":
        return
    try:
        if ipaddress.ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise UserError(
        f"{host}: others could reach the memory there. Use 127.0.0.1, or say --allow-remote if that is what you want "
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


def guarded_app(
    server: Server[Any], token: str, host: str, port: int, names: tuple[str, ...] = (), memory: Memory | None = None
) -> ASGIApp:
    """The server's app behind a `RequestGuard`; with `memory` also its metrics, at `/metrics`."""
    address = f"[{host}]" if ":" in host else host
    allowed = {name.lower() for name in (*_LOOPBACK, address, *names)} - {"0.0.0.0", "[::]"}  # noqa: S104 - not names
    hosts = {f"{name}:{port}" for name in allowed} | {name for name in allowed if port == 80 or name in names}
    origins = {f"http://{name}" for name in hosts} | {f"https://{name}" for name in hosts if name in names}
    from mcp.server.transport_security import TransportSecuritySettings

    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # RequestGuard checks that
    app = server.streamable_http_app(
        streamable_http_path=PATH, max_request_body_size=MOST_BYTES, transport_security=security, host=host
    )
    return RequestGuard(app if memory is None else with_metrics(app, memory), token, hosts, origins)


def serve_http(
    server: Server[Any],
    token: str,
    token_path: str,
    host: str,
    port: int,
    names: tuple[str, ...] = (),
    memory: Memory | None = None,
) -> None:
    """Serve until interrupted."""
    listener = listening_socket(host, port)
    port, address = listener.getsockname()[1], f"[{host}]" if ":" in host else host
    sys.stderr.write(f"smp mcp: http://{address}:{port}{PATH} — the bearer token is in {token_path}\n")
    sys.stderr.flush()
    config = uvicorn.Config(
        guarded_app(server, token, host, port, names, memory),
        log_level="warning",
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=3,
        **settings(ConnectionLimits()),
    )
    uvicorn.Server(config).run(sockets=[listener])
