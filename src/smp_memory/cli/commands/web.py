"""The command web: the inspector in a browser."""

from __future__ import annotations

import sys

from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation

# The packages of the extra `web`. `pip install smp[web]` would install another project of that name.
HOW_TO_INSTALL = "pip install 'starlette>=1,<2' 'uvicorn>=0.50'"


def web_arguments(parser: Parser) -> None:
    parser.add_argument("--port", type=int, default=0, metavar="N", help="the port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the link and open no browser")


def run_web(call: Invocation) -> None:
    """Look into the store in a browser: what agents are told, search, sessions, trash, health.

    The page is served on 127.0.0.1 for the browser that opens the one-time link, until Ctrl-C.

    Examples:
      smp web
      smp web --port 8377 --no-browser
    """
    memory = call.memory  # first: a missing store is reported at once
    try:
        from smp_memory.integrations.web.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "smp_memory":
            raise
        message = f"The package `{error.name}` is not installed. In the environment of smp: {HOW_TO_INSTALL}"
        raise UserError(message, module=error.name) from None

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    serve(memory, call.options.port, call.author, say, not call.options.no_browser)
