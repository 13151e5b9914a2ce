"""Handing sessions out and taking them in: export, import, anonymise."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import paint, plural
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.privacy.anonymisation import Placeholders

_FORMATS = ("json", "jsonl", "yaml", "markdown")


# -- export


def export_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="where to (default: the output)")
    parser.add_argument("--format", choices=(*_FORMATS, "mcp-memory"), help="default: what FILE ends in, else json; mcp-memory: the knowledge graph as a memory.jsonl")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="all sessions of the store")
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    parser.add_argument("--anonymise", action="store_true", help="names of people, projects, paths, hosts and sessions become placeholders")  # fmt: skip
    parser.add_argument("--agents", action="store_true", help="with --anonymise: names of agents, too")
    parser.add_argument("--key", metavar="KEY", help="with --anonymise: keep what stands for what in this file")
    parser.add_argument("--restore-key", metavar="KEY", help="turn placeholders back, with the file that --key made")


def run_export(call: Call) -> None:
    """Write a session with its whole history into one file; `smp import` gives the same back.

    Deleted memories and earlier states are in it. The file appears when it is complete, readable for you alone.

    With --anonymise, names become User-1, Project-A, /path/dir-1/file-1.py and so on, the same everywhere. Only with
    --key can that be turned back; the key holds the names, so keep it at home. A key that is there is used and added to.

    Examples:
      smp export review.yaml
      smp export --all everything.jsonl
      smp export --format markdown
      smp export for-others.json --anonymise --key names.key
      smp export memory.jsonl --format mcp-memory
    """
    options = call.options
    if options.format == "mcp-memory":
        from smp_memory.cli.commands.mcp import hand_out_graph

        return hand_out_graph(call)
    if (options.key or options.agents) and not options.anonymise:
        raise UserError("--key and --agents go with --anonymise. See: smp export --help")
    known = _known(options.key, make=True) if options.anonymise else None
    back = _known(options.restore_key) if options.restore_key else None
    source = call.memory if options.all else call.session()
    result = source.export(
        options.file, options.format, anonymise=known, restore=back, agents=options.agents, force=options.force
    )
    if options.key and known is not None:
        _keep(options.key, known)
    sessions = call.memory.store.session_ids() if options.all else [call.session().id]
    if options.file is None and not options.json:
        _print(call, result)
        return
    facts: dict[str, Any] = {"sessions": sessions, "anonymised": known is not None, "key": options.key}
    facts |= {"text": result} if options.file is None else {"path": result, "bytes": os.path.getsize(result)}
    call.answer(facts, _written(facts))


def _print(call: Call, text: str) -> None:
    if call.screen.is_terminal:  # what others wrote must not steer it
        for line in text.splitlines():
            call.screen.line(line)
        return
    sys.stdout.flush()
    binary = getattr(sys.stdout, "buffer", None)
    if binary is None:
        sys.stdout.write(text)
    else:
        binary.write(text.encode())


def _written(facts: dict[str, Any]) -> Iterator[str]:
    what = facts["sessions"][0] if len(facts["sessions"]) == 1 else plural(len(facts["sessions"]), "session")
    how = ", with placeholders" if facts["anonymised"] else ""
    yield f"{paint('green', '✓')} {what}{how}: {facts['path']} ({facts['bytes']:,} bytes)"
    if facts["key"]:
        yield f"What stands for what is in {facts['key']}. Keep it at home."


# -- import


def import_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="what `smp export` wrote; - reads the input; of BMAD, the project's folder (default: here)")  # fmt: skip
    parser.add_argument("--format", choices=_FORMATS, help="default: what it looks like")
    parser.add_argument("--from", dest="origin", choices=("smp", "mcp-memory", "bmad"), help="mcp-memory: the memory.jsonl of the reference MCP memory server; bmad: what BMAD's workflows and agents wrote (default: bmad for a folder, else smp)")  # fmt: skip
    parser.add_argument("--as", dest="name", metavar="ID", help="another id for the session")
    parser.add_argument(
        "--dry-run", action="store_true", help="with --from bmad: say what would come in; write nothing"
    )
    parser.add_argument(
        "--key", metavar="KEY", help="turn placeholders back, with the file that `smp export --key` made"
    )


def run_import(call: Call) -> None:
    """Take in sessions that `smp export` wrote, with their whole history.

    Everything is checked first: a file that is damaged, cut off or makes no sense changes nothing, and the message names
    the line. A session whose id is there already is refused; --as gives it another. Secrets are taken out as always.

    With --from mcp-memory, entities, observations and relations that are not there yet are added to the knowledge graph
    (the session knowledge-graph, or --as); lines that are not understood are named. Repeating it adds nothing twice.

    With --from bmad, memlogs, agents' own notes, decision logs, sprint status, retrospectives and notes in stories become
    memories of the session bmad-import (or --as), each with its file and line. BMAD's files are only read; import only
    adds. Repeating it adds what is new. What was not understood is named with file and line.

    Examples:
      smp import review.yaml
      smp import review.yaml --as review-again
      smp import for-others.json --key names.key
      smp import memory.jsonl --from mcp-memory
      smp import --from bmad --dry-run
    """
    options = call.options
    if options.origin == "bmad" or (options.origin is None and options.file and os.path.isdir(options.file)):
        from smp_memory.cli.commands.bmad import take_in_project

        return take_in_project(call)
    if options.file is None or options.dry_run:
        raise UserError("Which file? --dry-run goes with --from bmad. See: smp import --help" if options.dry_run else "Which file? See: smp import --help")  # fmt: skip
    if options.origin == "mcp-memory":
        from smp_memory.cli.commands.mcp import take_in_graph

        return take_in_graph(call)
    source: Any = sys.stdin.buffer.read() if options.file == "-" else os.path.abspath(options.file)
    if not isinstance(source, bytes):
        source = _Path(source)
    back = _known(options.key) if options.key else None
    made = call.memory.import_(source, options.format, options.name, restore=back)
    rows: list[dict[str, Any]] = [
        {"id": session.id, "memories": len(session.records(include_deleted=True))} for session in made
    ]
    call.answer(rows, (f"{paint('green', '✓')} {row['id']}: {plural(row['memories'], 'memory')}" for row in rows))


class _Path:
    """A name that is a file's, whatever it looks like."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path


# -- anonymise


def anonymise_arguments(parser: Parser) -> None:
    parser.add_argument("memory", metavar="ID", nargs="?", help="show this one memory with placeholders instead")
    parser.add_argument("--as", dest="name", metavar="ID", help="the id of the copy (default: Session-1)")
    parser.add_argument("--agents", action="store_true", help="names of agents, too")
    parser.add_argument("--key", metavar="KEY", help="keep what stands for what in this file")


def run_anonymise(call: Call) -> None:
    """Make a copy of a session in which people, projects, paths, hosts and sessions have placeholders.

    The session itself stays: delete it when the copy is what you want to keep. With --key, `smp export --restore-key`
    turns the copy back; without it nothing can. With the id of a memory, that memory is shown with placeholders and
    nothing is stored.

    Examples:
      smp anonymise --session checkout-review --key names.key
      smp anonymise DEC-0001
    """
    options = call.options
    known = _known(options.key, make=True)
    lines: Iterator[str]
    if options.memory:
        session, memory_id = call.place(options.memory)
        data = session.anonymised_record(memory_id, placeholders=known, agents=options.agents)
        lines = (f"{name}: {_shown(value)}" for name, value in data.items())
    else:
        session = call.session()
        made = session.anonymised(options.name, placeholders=known, agents=options.agents)
        count = len(made.records(include_deleted=True))
        data = {
            "session": session.id,
            "copy": made.id,
            "memories": count,
            "placeholders": len(known),
            "key": options.key,
        }
        lines = iter([f"{paint('green', '✓')} {made.id}: {plural(count, 'memory')} of {session.id}, {plural(len(known), 'placeholder')}."])  # fmt: skip
    if options.key:
        _keep(options.key, known)
    call.answer(data, lines)


def _shown(value: Any) -> str:
    from smp_memory.cli.render import one_line, value_text

    return one_line(value_text(value))


# -- keys


def _known(path: str | None, *, make: bool = False) -> Placeholders:
    """What a key file says; with `make` it may be missing, and is made at once: nothing goes out that cannot come back."""
    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem
    from smp_memory.privacy.anonymisation import Placeholders

    if path is None:
        return Placeholders()
    try:
        return Placeholders.from_key(Disk(RealSystem()).read(os.path.abspath(path)).decode("utf-8", "replace"))
    except FileNotFoundError:
        if not make:
            raise UserError(f"There is no key {path}.", path=path) from None
    _keep(path, Placeholders())
    return Placeholders()


def _keep(path: str, placeholders: Placeholders) -> None:
    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem

    Disk(RealSystem()).replace(os.path.abspath(path), (placeholders.key() + "\n").encode())
