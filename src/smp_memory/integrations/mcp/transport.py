"""How does the server run? Over standard input and output, or over HTTP, until the client leaves.

Guarantees: standard output carries the protocol and nothing else; what a library prints goes to standard error. Logs hold
neither memories nor tokens nor tracebacks (`SMP_DEBUG=1` shows those). When the client leaves, calls that are under way are
finished before the store is closed; a server that is killed loses nothing that was acknowledged.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from smp_memory.integrations.mcp.request_context import RequestContext
from smp_memory.integrations.mcp.server import server_for

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from smp_memory.memory import Memory

_HALF = re.compile(r"\\ud[89a-f][0-9a-f]{2}", re.IGNORECASE)


class ServerOptions:
    """How the server was asked to run."""

    def __init__(
        self,
        *,
        session: str | None = None,
        author: str | None = None,
        may_erase: bool = False,
        compat: bool = False,
        http: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
        token_file: str | None = None,
        remote: bool = False,
        names: tuple[str, ...] = (),
    ) -> None:
        self.session = session
        self.author = author
        self.may_erase = may_erase
        self.compat = compat
        self.http = http
        self.host = host
        self.port = port
        self.token_file = token_file
        self.remote = remote
        self.names = names


def serve(memory: Memory, wanted: ServerOptions) -> None:
    """Answer until the client leaves, or until interrupted."""
    quiet_logs()
    if not wanted.http:
        anyio.run(_serve_stdio, made_for(memory, wanted))
        return
    from smp_memory.integrations.mcp.http import FILE, check_host, serve_http, token_in

    check_host(wanted.host, wanted.remote)
    path = wanted.token_file or memory.store.state.path(FILE)
    token = token_in(path)
    serve_http(made_for(memory, wanted), token, path, wanted.host, wanted.port, wanted.names)


def made_for(memory: Memory, wanted: ServerOptions) -> Server[Any]:
    """The server that was asked for. It reports to nobody: the library's tracing is taken out."""
    server = _made_for(memory, wanted)
    server.middleware.clear()
    return server


def _made_for(memory: Memory, wanted: ServerOptions) -> Server[Any]:
    if not wanted.compat:
        from smp_memory.search.api import load

        load()  # now, and not when the first question is asked
        return server_for(
            RequestContext(memory, session=wanted.session, author=wanted.author, may_erase=wanted.may_erase)
        )
    from smp_memory.integrations.mcp.graph import KnowledgeGraph
    from smp_memory.integrations.mcp.graph_tools import graph_server

    graph = KnowledgeGraph(memory, wanted.session, wanted.author)
    _take_in_once(graph)
    return graph_server(graph, one_client=not wanted.http)


def _take_in_once(graph: Any) -> None:
    """The file that the reference server would have used comes in, the first time."""
    path = os.environ.get("MEMORY_FILE_PATH")
    if not path:
        return
    from smp_memory.integrations.mcp.graph_file import import_once

    done = import_once(graph, path)
    if done is not None:
        counts, problems = done
        said = ", ".join(f"{count} {name}" for name, count in counts.items())
        sys.stderr.write(f"smp mcp: took in {said} from MEMORY_FILE_PATH; {len(problems)} lines were not understood.\n")


async def _serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(_Answering(read, write), write, server.create_initialization_options())


class _Answering:
    """The messages of a client. One that cannot be read gets an error as its answer: without any the client would wait for ever."""

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
                await self._write.send(SessionMessage(_refusal(line)))
        return item

    def __aiter__(self) -> _Answering:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> _Answering:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._read.aclose()


def _refusal(line: Any) -> JSONRPCError:
    """The error for a line, or for what it holds if it is JSON, that is no message; with the request's id if there is one."""
    try:
        found = json.loads(line) if isinstance(line, str) else line
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "This line is not JSON.")
    asked = found.get("id") if isinstance(found, dict) else None
    is_id = isinstance(asked, str | int) and not isinstance(asked, bool)
    if isinstance(line, str) and _HALF.search(line):
        return _error(asked if is_id else None, PARSE_ERROR, "A text holds half of a surrogate pair (\\ud800 to \\udfff alone), which is no character.")  # fmt: skip
    return _error(asked if is_id else None, INVALID_REQUEST, "This is not a message of JSON-RPC 2.0.")


def _error(asked: str | int | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=asked, error=ErrorData(code=code, message=message))


def quiet_logs() -> None:
    """Warnings go to standard error, one line each, by name and without what a traceback would show."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s") if os.environ.get("SMP_DEBUG") else _OneLine())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        what = f": {record.exc_info[0].__name__}" if record.exc_info and record.exc_info[0] else ""
        return f"{record.name}: {' '.join(record.getMessage().split())[:300]}{what}"
