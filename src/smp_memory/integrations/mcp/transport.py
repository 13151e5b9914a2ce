"""Run the server over standard input and output, or over HTTP, until the client leaves.

Guarantees: standard output carries the protocol and nothing else; what a library prints goes to standard error. Logs hold
neither memories nor tokens nor tracebacks (`SMP_DEBUG=1` shows those). When the client leaves, running calls are
finished before the store is closed; a server that is killed loses nothing that was acknowledged.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from smp_memory.errors import UserError
from smp_memory.integrations.mcp.request_context import RequestContext
from smp_memory.integrations.mcp.server import create_server

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from smp_memory.integrations.clients import Clients
    from smp_memory.memory import Memory

_LONE_SURROGATE = re.compile(r"\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)


class ServerOptions(NamedTuple):
    """The options of `smp mcp`."""

    session: str | None = None
    author: str | None = None
    may_erase: bool = False
    compat: bool = False
    http: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    token_file: str | None = None
    remote: bool = False
    names: tuple[str, ...] = ()


def serve(memory: Memory, options: ServerOptions) -> None:
    """Answer until the client leaves, or until interrupted."""
    configure_logging()
    if not options.http:
        anyio.run(_serve_stdio, build_server(memory, options))
        return
    from smp_memory.integrations.mcp.http import check_host, serve_http

    check_host(options.host, options.remote)
    clients, about_tokens = _clients(memory, options)
    server = build_server(memory, options)
    serve_http(server, clients, about_tokens, options.host, options.port, options.names, memory)


def _clients(memory: Memory, options: ServerOptions) -> tuple[Clients, str]:
    """The clients of a server over HTTP, and a line that says which tokens open it."""
    from smp_memory.integrations.clients import FILE, Clients, read_token
    from smp_memory.integrations.mcp.http import is_local

    path = options.token_file or memory.store.state.path(FILE)
    clients = Clients(memory, read_token(path) if is_local(options.host) else None, may_erase=options.may_erase)
    clients.refresh()
    if not clients.is_shared:
        return clients, f"the bearer token is in {path}"
    if not clients.has_tokens:
        raise UserError("Beyond this machine, each client needs a token of its own. Create one: smp token create NAME")
    if options.token_file:
        raise UserError(
            "--token-file: this store has client tokens (`smp token list`), and its servers accept only those."
        )
    return clients, "clients need a token of `smp token create`"


def build_server(memory: Memory, options: ServerOptions) -> Server[Any]:
    """The server for these options. The library's tracing middleware is removed: the server reports to nobody."""
    server = _build_server(memory, options)
    server.middleware.clear()
    return server


def _build_server(memory: Memory, options: ServerOptions) -> Server[Any]:
    if not options.compat:
        import smp_memory.search.path  # noqa: F401 - now, not at the first query

        return create_server(
            RequestContext(memory, session=options.session, author=options.author, may_erase=options.may_erase)
        )
    from smp_memory.integrations.mcp.graph import KnowledgeGraph
    from smp_memory.integrations.mcp.graph_tools import graph_server

    graph = KnowledgeGraph(memory, options.session, options.author)
    _import_reference_file(graph)
    return graph_server(graph, one_client=not options.http)


def _import_reference_file(graph: Any) -> None:
    """Import the file that the reference server would use, once."""
    path = os.environ.get("MEMORY_FILE_PATH")
    if not path:
        return
    from smp_memory.integrations.mcp.graph_file import import_once

    done = import_once(graph, path)
    if done is not None:
        counts, problems = done
        imported = ", ".join(f"{count} {name}" for name, count in counts.items())
        sys.stderr.write(f"smp mcp: imported {imported} from MEMORY_FILE_PATH; {len(problems)} lines were not valid.\n")


async def _serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(_MessageStream(read, write), write, server.create_initialization_options())


class _MessageStream:
    """The messages of a client. A malformed one is answered with an error: without an answer the client would wait for ever."""

    def __init__(self, read: Any, write: Any) -> None:
        self._read = read
        self._write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._read, name)

    async def receive(self) -> Any:
        while isinstance(item := await self._read.receive(), ValidationError):
            inputs = [each["input"] for each in item.errors(include_url=False)]
            line = next((each for each in inputs if isinstance(each, dict) and "id" in each), inputs[0])
            if not isinstance(line, str) or line.strip():
                await self._write.send(SessionMessage(_message_error(line)))
        return item

    def __aiter__(self) -> _MessageStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _MessageStream:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._read.aclose()


def _message_error(line: Any) -> JSONRPCError:
    """The error for a line, or for the value parsed from it, that is not a message; with the request's id if it has one."""
    try:
        value = json.loads(line) if isinstance(line, str) else line
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "This line is not JSON.")
    given = value.get("id") if isinstance(value, dict) else None
    request_id = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    if isinstance(line, str) and _LONE_SURROGATE.search(line):
        return _error(request_id, PARSE_ERROR, "A text holds half of a surrogate pair (\\ud800 to \\udfff alone), which is no character.")  # fmt: skip
    return _error(request_id, INVALID_REQUEST, "This is not a message of JSON-RPC 2.0.")


def _error(request_id: str | int | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def configure_logging() -> None:
    """Log warnings to standard error, one line each, without tracebacks."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s") if os.environ.get("SMP_DEBUG") else _OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        what = f": {record.exc_info[0].__name__}" if record.exc_info and record.exc_info[0] else ""
        return f"{record.name}: {' '.join(record.getMessage().split())[:300]}{what}"
