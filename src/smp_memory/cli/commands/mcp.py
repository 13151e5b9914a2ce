"""Serving agents over MCP: mcp; and the file of the reference memory server, for import and export."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import paint
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.integrations.mcp.graph_file import GraphImportResult

# What the extra `mcp` brings, by its own name: the name smp belongs to another project where packages are published.
HOW_TO_INSTALL = "pip install 'mcp>=2.3,<3'"
_ONLY_HTTP = ("host", "port", "token_file", "allow_remote", "allow_host")


def mcp_arguments(parser: Parser) -> None:
    parser.add_argument("--http", action="store_true", help="serve over HTTP instead of standard input and output")
    parser.add_argument("--host", help="with --http: where to listen (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="with --http: the port (default: a free one)")
    parser.add_argument("--token-file", metavar="FILE", help="with --http: the bearer token; made if it is missing (default: a file in the user's state, named at the start)")  # fmt: skip
    parser.add_argument("--allow-remote", action="store_true", help="with --http: other machines may reach --host")
    parser.add_argument("--allow-host", metavar="NAME", action="append", help="with --http: a name by which it may be reached, too")  # fmt: skip
    parser.add_argument("--create", action="store_true", help="make the store if there is none, as `smp init` does")
    parser.add_argument("--allow-erase", action="store_true", help="agents may erase memories for good")
    parser.add_argument("--compat", choices=("memory",), help="memory: the tools of the reference memory server")


def run_mcp(call: Call) -> None:
    """Serve the memory to an agent over MCP, the Model Context Protocol. A client such as a coding agent starts it.

    Over standard input and output, one server for each client; any number of them, and of other commands, may share a
    store. With --http, one server for many clients, which need the bearer token. Needs SMP's extra `mcp`.

    With --compat memory it has the nine tools of the reference memory server and takes its place; the file that
    MEMORY_FILE_PATH names is taken in once.

    Examples:
      claude mcp add memory -- smp mcp --root "$PWD/.bmad/memory"
      smp mcp --http --port 8765
      smp mcp --compat memory
    """
    options = call.options
    if not options.http and any(getattr(options, name) for name in _ONLY_HTTP):
        raise UserError("--host, --port, --token-file, --allow-remote and --allow-host go with --http.")
    if options.create:
        _make_store(call)
    memory = call.memory  # first: whether it is there is known at once, and loading the rest takes a second
    try:
        from smp_memory.integrations.mcp.transport import ServerOptions, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "smp_memory":
            raise
        raise UserError(f"MCP is not installed. Where smp is installed: {HOW_TO_INSTALL}", module=error.name) from None
    except ImportError as error:  # it is there, and a part of it does not load
        raise UserError(
            f"MCP cannot be loaded ({error}). Install it anew: {HOW_TO_INSTALL}", module=error.name
        ) from None
    wanted = ServerOptions(
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
    serve(memory, wanted)


def _make_store(call: Call) -> None:
    """The store that is there, else a new one where `smp init` makes it."""
    from smp_memory.config import DEFAULT_ROOTS
    from smp_memory.errors import StoreNotFound
    from smp_memory.memory import open_memory

    try:
        call.memory.config  # noqa: B018 - opens it
    except StoreNotFound:
        call.use(open_memory(call.root or os.path.join(os.getcwd(), DEFAULT_ROOTS["jsonl"])))


# -- the file of the reference memory server


def take_in_graph(call: Call) -> None:
    from smp_memory.integrations.mcp.graph_file import import_file

    options = call.options
    if options.format or options.key:
        raise UserError("--format and --key do not go with --from mcp-memory.")
    data = sys.stdin.buffer.read() if options.file == "-" else os.path.abspath(options.file)
    done = import_file(call.memory, data, options.name or call.session_name, call.author)
    call.answer(done.to_dict(), _taken_in(done))


def _taken_in(done: GraphImportResult) -> Iterator[str]:
    names = {"entities": "entity", "observations": "observation", "relations": "relation"}
    said = ", ".join(f"{count:,} {names[name] if count == 1 else name}" for name, count in done.counts.items())
    yield f"{paint('green', '✓')} {done.session}: {said} added"
    for line, message in done.problems:
        yield paint("yellow", f"  line {line} was not understood: {message}")


def hand_out_graph(call: Call) -> None:
    from smp_memory.integrations.mcp.graph_file import export_file, export_text

    options = call.options
    if options.all or options.anonymise or options.key or options.agents or options.restore_key:
        raise UserError("--all, --anonymise, --agents, --key and --restore-key do not go with --format mcp-memory.")
    if options.file is None:
        text = export_text(call.memory, call.session_name, call.author)
        call.answer({"text": text}, text.split("\n"))
        return
    path = export_file(call.memory, options.file, call.session_name, call.author, force=options.force)
    size = os.path.getsize(path)
    call.answer({"path": path, "bytes": size}, [f"{paint('green', '✓')} {path} ({size:,} bytes)"])
