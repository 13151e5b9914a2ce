"""The HTTP server for the conformance suite, whose programs cannot send a token.

    python -m tests.e2e.mcp_conformance_server ROOT

The token is added to every request before `RequestGuard` checks it; all other checks are unchanged. Two more tools, which the
conformance suite calls, are served like all others.
"""

from __future__ import annotations

import sys
from typing import Any

import smp_memory
from smp_memory.integrations.clients import FILE, read_token
from smp_memory.integrations.mcp import http
from smp_memory.integrations.mcp.answers import Reply
from smp_memory.integrations.mcp.arguments import Answer, Arguments
from smp_memory.integrations.mcp.server import READS, TOOLS, ToolSpec
from smp_memory.integrations.mcp.transport import ServerOptions, serve


class WithToken:
    """Adds the token to every request."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._header = (b"authorization", f"Bearer {token}".encode())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], self._header]}
        await self._app(scope, receive, send)


def simple_text(caller: Any, given: Any) -> Reply:
    return Reply({}, "This is a simple text response for testing.")


def error_handling(caller: Any, given: Any) -> Reply:
    raise smp_memory.errors.UserError("This tool intentionally returns an error for testing")


def main() -> None:
    for run in (simple_text, error_handling):
        TOOLS[f"test_{run.__name__}"] = ToolSpec("Test", "For the suite.", Arguments, Answer, run, READS)
    guarded_app = http.guarded_app
    with smp_memory.open(sys.argv[1]) as memory:
        token = read_token(memory.store.state.path(FILE))
        http.guarded_app = lambda *given: WithToken(guarded_app(*given), token)
        serve(memory, ServerOptions(http=True))


if __name__ == "__main__":
    main()
