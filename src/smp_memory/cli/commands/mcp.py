"""The command mcp, and import and export of the reference memory server's file."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import paint
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.integrations.mcp.graph_file import GraphImportResult

# The package of the extra `mcp`. `pip install smp[mcp]` would install another project of that name.
HOW_TO_INSTALL = "pip install 'mcp>=2.3,<3'"
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
        message = f"The package `mcp` is not installed. In the environment of smp: {HOW_TO_INSTALL}"
        raise UserError(message, module=error.name) from None
    except ImportError as error:  # it is installed, but a part of it does not load
        message = f"The package `mcp` cannot be loaded ({error}). Reinstall it: {HOW_TO_INSTALL}"
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
    from smp_memory.config import DEFAULT_ROOTS
    from smp_memory.errors import StoreNotFound
    from smp_memory.memory import open_memory

    try:
        call.memory.config  # noqa: B018 - opens it
    except StoreNotFound:
        call.use_store(open_memory(call.root or os.path.join(os.getcwd(), DEFAULT_ROOTS["jsonl"])))


# -- the file of the reference memory server


def import_graph(call: Invocation) -> None:
    from smp_memory.integrations.mcp.graph_file import import_file

    options = call.options
    if options.format or options.key:
        raise UserError("--format and --key cannot be used with --from mcp-memory.")
    data = sys.stdin.buffer.read() if options.file == "-" else os.path.abspath(options.file)
    report = import_file(call.memory, data, options.name or call.session_name, call.author)
    call.answer(report.to_dict(), _import_lines(report))


def _import_lines(report: GraphImportResult) -> Iterator[str]:
    singular = {"entities": "entity", "observations": "observation", "relations": "relation"}
    counts = ", ".join(f"{count:,} {singular[name] if count == 1 else name}" for name, count in report.counts.items())
    yield f"{paint('green', '✓')} {report.session}: {counts} added"
    for line, message in report.problems:
        yield paint("yellow", f"  line {line} could not be read: {message}")


def export_graph(call: Invocation) -> None:
    from smp_memory.integrations.mcp.graph_file import export_file, export_text

    options = call.options
    if options.all or options.anonymise or options.key or options.agents or options.restore_key:
        raise UserError(
            "--all, --anonymise, --agents, --key and --restore-key cannot be used with --format mcp-memory."
        )
    if options.file is None:
        text = export_text(call.memory, call.session_name, call.author)
        call.answer({"text": text}, text.split("\n"))
        return
    path = export_file(call.memory, options.file, call.session_name, call.author, force=options.force)
    size = os.path.getsize(path)
    call.answer({"path": path, "bytes": size}, [f"{paint('green', '✓')} {path} ({size:,} bytes)"])
