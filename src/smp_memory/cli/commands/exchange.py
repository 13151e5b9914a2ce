"""Commands that write sessions to files: export, anonymise."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.arguments import add_scope
from smp_memory.cli.render import one_line, paint, plural, value_text
from smp_memory.errors import UserError
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.privacy.anonymisation import Placeholders

FORMATS = ("json", "jsonl", "yaml", "markdown")


# -- export


def export_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="the file to write (default: standard output)")
    parser.add_argument("--format", choices=(*FORMATS, "mcp-memory"), help="the format (default: from the ending of FILE, else json); mcp-memory: the knowledge graph as memory.jsonl")  # fmt: skip
    add_scope(parser)
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--anonymise", action="store_true", help="replace names of people, projects, paths, hosts and sessions with placeholders")  # fmt: skip
    parser.add_argument("--agents", action="store_true", help="with --anonymise: replace names of agents, too")
    parser.add_argument("--names", metavar="FILE", help="with --anonymise: write placeholders and names to this file")
    parser.add_argument("--restore-names", metavar="FILE", help="replace placeholders with the names in this file")


def run_export(call: Invocation) -> None:
    """Export all sessions, or the one named by --session, with their whole history to one file; `smp import` restores them.

    Deleted memories and earlier revisions are included. The file appears when it is complete, readable for you alone.

    With --anonymise, names become User-1, Project-A, /path/dir-1/file-1.py and so on, consistently. Only with --names can
    this be reversed; do not share that file. An existing one is used and extended.

    Examples:
      smp export everything.jsonl
      smp export review.yaml --session checkout-review
      smp export --format markdown
      smp export for-others.json --anonymise --names names.json
      smp export memory.jsonl --format mcp-memory
    """
    options = call.options
    if options.format == "mcp-memory":
        return _export_graph(call)
    if (options.names or options.agents) and not options.anonymise:
        raise UserError("--names and --agents require --anonymise. See: smp export --help")
    placeholders = load_names(options.names, create=True) if options.anonymise else None
    restored = load_names(options.restore_names) if options.restore_names else None
    result = call.read_scope.export(
        options.file,
        options.format,
        anonymise=placeholders,
        restore=restored,
        agents=options.agents,
        force=options.force,
    )
    if options.names and placeholders is not None:
        _save_names(options.names, placeholders)
    sessions = [session.id for session in call.read_sessions]
    if options.file is None and not options.json:
        _print_export(call, result)
        return
    data: dict[str, Any] = {"sessions": sessions, "anonymised": placeholders is not None, "names": options.names}
    data |= {"text": result} if options.file is None else {"path": result, "bytes": os.path.getsize(result)}
    call.answer(data, _export_lines(data))


def _print_export(call: Invocation, text: str) -> None:
    if call.screen.is_terminal:  # escaped: text of others must not control the terminal
        call.answer(None, text.splitlines())
        return
    call.stop_waiting()
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(text)
    else:
        binary.write(text.encode())


def _export_lines(data: dict[str, Any]) -> Iterator[str]:
    names = data["sessions"]
    what = f"session {names[0]}" if len(names) == 1 else f"all {len(names):,} sessions"
    how = ", anonymised" if data["anonymised"] else ""
    yield f"{paint('green', '✓')} {what}{how}: {data['path']} ({data['bytes']:,} bytes)"
    if data["names"]:
        yield f"{data['names']} contains the names of all placeholders. Do not share it."


# -- anonymise


def anonymise_arguments(parser: Parser) -> None:
    parser.add_argument("memory", metavar="ID", nargs="?", help="show this one memory with placeholders instead")
    parser.add_argument("--as", dest="name", metavar="ID", help="the id of the copy (default: Session-1)")
    parser.add_argument("--agents", action="store_true", help="replace names of agents, too")
    parser.add_argument("--names", metavar="FILE", help="write placeholders and names to this file")


def run_anonymise(call: Invocation) -> None:
    """Copy a session with placeholders in place of the names of people, projects, paths, hosts and sessions.

    The original session is not changed; delete it if you want to keep only the copy. With --names, `smp export
    --restore-names` can reverse the replacement; without it nothing can. With the id of a memory, that memory is printed with
    placeholders and nothing is stored.

    Examples:
      smp anonymise --session checkout-review --names names.json
      smp anonymise DEC-0001
    """
    options = call.options
    placeholders = load_names(options.names, create=True)
    lines: Iterator[str]
    if options.memory:
        session, memory_id = call.resolve(options.memory)
        data = session.anonymised_record(memory_id, placeholders=placeholders, agents=options.agents)
        lines = (f"{name}: {one_line(value_text(value))}" for name, value in data.items())
    else:
        session = call.session()
        copy = session.anonymised(options.name, placeholders=placeholders, agents=options.agents)
        count = len(copy.records(include_deleted=True))
        data = {
            "session": session.id,
            "copy": copy.id,
            "memories": count,
            "placeholders": len(placeholders),
            "names": options.names,
        }
        lines = iter([f"{paint('green', '✓')} {copy.id}: {plural(count, 'memory')} of {session.id}, {plural(len(placeholders), 'placeholder')}."])  # fmt: skip
    if options.names:
        _save_names(options.names, placeholders)
    call.answer(data, lines)


# -- files of names


def load_names(path: str | None, *, create: bool = False) -> Placeholders:
    """Read a file of names. With `create` a missing one is created at once, before anything is exported that needs it."""
    from smp_memory.privacy.anonymisation import Placeholders

    if path is None:
        return Placeholders()
    try:
        return Placeholders.from_key(Disk(RealSystem()).read(os.path.abspath(path)).decode("utf-8", "replace"))
    except FileNotFoundError:
        if not create:
            raise UserError(f"The file of names {path} does not exist.", path=path) from None
    _save_names(path, Placeholders())
    return Placeholders()


def _save_names(path: str, placeholders: Placeholders) -> None:
    Disk(RealSystem()).replace(os.path.abspath(path), (placeholders.key() + "\n").encode())


# -- the file of the reference memory server


def _export_graph(call: Invocation) -> None:
    from smp_memory.integrations.mcp.graph_file import export_file, export_text

    options = call.options
    if options.all or options.anonymise or options.names or options.agents or options.restore_names:
        raise UserError(
            "--all, --anonymise, --agents, --names and --restore-names cannot be used with --format mcp-memory."
        )
    if options.file is None:
        text = export_text(call.memory, call.session_name, call.author)
        call.answer({"text": text}, text.split("\n"))
        return
    path = export_file(call.memory, options.file, call.session_name, call.author, force=options.force)
    size = os.path.getsize(path)
    call.answer({"path": path, "bytes": size}, [f"{paint('green', '✓')} {path} ({size:,} bytes)"])
