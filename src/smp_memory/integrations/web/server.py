"""Serve the inspector on this machine: the socket, the one-time link, the loop.

Guarantees: the socket is bound to 127.0.0.1, whatever the settings say. Connections have the limits of the MCP server's
(`smp_memory.integrations.http_connection`). Links are printed to the terminal only; nothing is logged.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import uvicorn

from smp_memory.errors import SMPError
from smp_memory.integrations.http_connection import ConnectionLimits, settings
from smp_memory.integrations.mcp.http import FILE, listening_socket, read_token
from smp_memory.integrations.web.access import Access
from smp_memory.integrations.web.app import create_app
from smp_memory.integrations.web.request import Inspector

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.memory import Memory

HOST = "127.0.0.1"


def serve(memory: Memory, port: int, author: str | None, say: Callable[[str], None], open_browser: bool) -> None:
    """Serve until interrupted. `say` prints a line for the person who started it."""
    listener = listening_socket(HOST, port)
    port = listener.getsockname()[1]
    base = f"http://{HOST}:{port}"
    access = Access(port, _metrics_token(memory.store.state.path(FILE)))
    app = create_app(Inspector(memory, access, author))
    limits = ConnectionLimits(connections=128, body_bytes=2 * 1024 * 1024)
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, log_config=None, timeout_graceful_shutdown=1, **settings(limits)
    )
    link = access.new_link(base)
    say(
        f"Inspector of {memory.root}\n\n  {link}\n\nThe link opens one browser, once, within ten minutes. Ctrl-C stops the inspector."
    )
    if open_browser:
        _open(link)
    if sys.stdin is not None and sys.stdin.isatty():
        say("Press Enter for another link.")
        threading.Thread(target=_offer_links, args=(access, base, say), name="smp-web-links", daemon=True).start()
    uvicorn.Server(config).run(sockets=[listener])


def _metrics_token(path: str) -> str:
    """The bearer token of the MCP server, with which /metrics can be read; empty if there is none that can be used."""
    try:
        return read_token(path)
    except SMPError:
        return ""


def _open(link: str) -> None:
    import webbrowser

    try:
        webbrowser.open(link)
    except webbrowser.Error:
        pass  # the link is printed


def _offer_links(access: Access, base: str, say: Callable[[str], None]) -> None:
    for _ in sys.stdin:
        say(f"  {access.new_link(base)}")
