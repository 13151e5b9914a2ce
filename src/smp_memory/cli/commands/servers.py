"""Commands that serve a store to others: web for people, mcp for agents, metrics for Prometheus."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import plural
from smp_memory.errors import StoreNotFound, UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation

# The packages of the extra `web`. `pip install smp[web]` would install another project of that name.
WEB_INSTALL = "pip install 'starlette>=1,<2' 'uvicorn>=0.50'"


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
        message = f"The package `{error.name}` is not installed. In the environment of smp: {WEB_INSTALL}"
        raise UserError(message, module=error.name) from None

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    serve(memory, call.options.port, call.author, say, not call.options.no_browser)


# The package of the extra `mcp`. `pip install smp[mcp]` would install another project of that name.
MCP_INSTALL = "pip install 'mcp>=2.3,<3'"

_ONLY_HTTP = ("host", "port", "token_file", "allow_remote", "allow_host")


def mcp_arguments(parser: Parser) -> None:
    parser.add_argument("--http", action="store_true", help="serve over HTTP instead of standard input and output")
    parser.add_argument("--host", help="with --http: the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="with --http: the port (default: a free one)")
    parser.add_argument("--token-file", metavar="FILE", help="with --http: the file of the bearer token; created if it is missing (default: a file in the user's state, printed at the start)")  # fmt: skip
    parser.add_argument("--allow-remote", action="store_true", help="with --http: allow other machines to reach --host")
    parser.add_argument("--allow-host", metavar="NAME", action="append", help="with --http: a further accepted host name")  # fmt: skip
    parser.add_argument("--create", action="store_true", help="create the store if there is none, as `smp init` does")
    parser.add_argument("--allow-erase", action="store_true", help="agents may erase memories for good")
    parser.add_argument("--compat", choices=("memory",), help="memory: the tools of the reference memory server")


def run_mcp(call: Invocation) -> None:
    """Serve the memory to an agent over MCP, the Model Context Protocol. A client such as a coding agent starts it.

    Over standard input and output there is one server for each client; any number of them, and of other commands, may use
    the same store. With --http one server serves many clients, which need the bearer token. Needs SMP's extra `mcp`.

    With --compat memory it replaces the reference memory server, with its nine tools; the file that MEMORY_FILE_PATH
    names is imported once.

    Examples:
      claude mcp add memory -- smp mcp --root "$PWD/.bmad/memory"
      smp mcp --http --port 8765
      smp mcp --compat memory
    """
    options = call.options
    if not options.http and any(getattr(options, name) for name in _ONLY_HTTP):
        raise UserError("--host, --port, --token-file, --allow-remote and --allow-host require --http.")
    if options.create:
        _create_store(call)
    memory = call.memory  # first: a missing store is reported at once, and loading the rest takes a second
    try:
        from smp_memory.integrations.mcp.transport import ServerOptions, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "smp_memory":
            raise
        message = f"The package `mcp` is not installed. In the environment of smp: {MCP_INSTALL}"
        raise UserError(message, module=error.name) from None
    except ImportError as error:  # it is installed, but a part of it does not load
        message = f"The package `mcp` cannot be loaded ({error}). Reinstall it: {MCP_INSTALL}"
        raise UserError(message, module=error.name) from None
    server = ServerOptions(
        session=call.session_name,
        author=call.author,
        may_erase=options.allow_erase,
        compat=options.compat is not None,
        http=options.http,
        host=options.host or "127.0.0.1",
        port=options.port or 0,
        token_file=options.token_file,
        remote=options.allow_remote,
        names=tuple(options.allow_host or ()),
    )
    serve(memory, server)


def _create_store(call: Invocation) -> None:
    """Create the store where `smp init` does, unless there is one."""
    from smp_memory.config.settings import DEFAULT_ROOTS
    from smp_memory.memory import open_memory

    try:
        call.memory.config  # noqa: B018 - opens it
    except StoreNotFound:
        call.use_store(open_memory(call.root or os.path.join(os.getcwd(), DEFAULT_ROOTS["jsonl"])))


# -- metrics

_FORMATS = ("prometheus", "openmetrics")


def metrics_arguments(parser: Parser) -> None:
    parser.is_about_store = True
    parser.add_argument(
        "--output", metavar="FILE", help="write to this file, for node_exporter's textfile collector; - prints them"
    )
    parser.add_argument("--format", choices=_FORMATS, default=_FORMATS[0], help="the text format (default: prometheus)")


def run_metrics(call: Invocation) -> None:
    """Print metrics of the store for Prometheus: sessions, memories, sizes, damage, maintenance, hooks.

    They are computed from the store now. Durations and errors of operations are counted by each process for itself, and
    this one has just begun: `smp mcp --http` serves those of the server, with these, at /metrics. No metric names a
    session or contains text of a memory.

    The text needs SMP's extra `metrics`; --json does not.

    FILE is replaced as a whole, and only if it holds metrics of SMP. Its name must end in .prom for node_exporter.

    Examples:
      smp metrics
      smp metrics --output smp.prom
      smp metrics --json
    """
    from smp_memory.integrations.prometheus import metrics_dict, render, write_text_file
    from smp_memory.integrations.store_metrics import store_samples

    options = call.options
    families = store_samples(call.memory)
    if options.output in (None, "-"):
        lines = [] if options.json else render(families, options.format).removesuffix("\n").split("\n")
        call.answer(metrics_dict(families), lines)
        return
    text = render(families, options.format)
    path, count = write_text_file(options.output, text), len(families)
    data = {"path": path, "bytes": len(text.encode()), "metrics": count}
    call.answer(data, [f"Wrote {plural(count, 'metric')} to {path}"])
