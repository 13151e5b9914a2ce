"""Commands that exchange sessions: export, import, anonymise."""

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
    from smp_memory.importers.ingest import IngestReport
    from smp_memory.integrations.mcp.graph_file import GraphImportResult
    from smp_memory.privacy.anonymisation import Placeholders

_FORMATS = ("json", "jsonl", "yaml", "markdown")


# -- export


def export_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="the file to write (default: standard output)")
    parser.add_argument("--format", choices=(*_FORMATS, "mcp-memory"), help="default: by the name of FILE, else json; mcp-memory: the knowledge graph as a memory.jsonl")  # fmt: skip
    add_scope(parser)
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    parser.add_argument("--anonymise", action="store_true", help="replace names of people, projects, paths, hosts and sessions by placeholders")  # fmt: skip
    parser.add_argument("--agents", action="store_true", help="with --anonymise: replace names of agents, too")
    parser.add_argument("--names", metavar="FILE", help="with --anonymise: write placeholders and names to this file")
    parser.add_argument("--restore-names", metavar="FILE", help="replace placeholders by the names in this file")


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
    placeholders = _load_names(options.names, create=True) if options.anonymise else None
    restored = _load_names(options.restore_names) if options.restore_names else None
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


# -- import


def import_arguments(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="an export; - reads standard input; with --from bmad the project's folder (default: this one)")  # fmt: skip
    parser.add_argument("--format", choices=_FORMATS, help="default: detected from the content")
    parser.add_argument("--from", dest="origin", choices=("smp", "mcp-memory", "bmad"), help="mcp-memory: the memory.jsonl of the reference MCP memory server; bmad: what BMAD's workflows and agents wrote (default: bmad for a folder, else smp)")  # fmt: skip
    parser.add_argument("--as", dest="name", metavar="ID", help="another id for the session")
    parser.add_argument(
        "--dry-run", action="store_true", help="with --from bmad: report what would be imported; write nothing"
    )
    parser.add_argument(
        "--names", metavar="FILE", help="replace placeholders by the names in the file of `smp export --names`"
    )


def run_import(call: Invocation) -> None:
    """Import sessions that `smp export` wrote, with their whole history.

    Everything is validated first: a file that is damaged, truncated or invalid changes nothing, and the message names
    the line. A session whose id exists is rejected; --as gives it another id. Secrets are redacted as at every write.

    With --from mcp-memory, new entities, observations and relations are added to the knowledge graph (the session
    knowledge-graph, or --as); lines that cannot be read are reported. Repeating the import adds nothing twice.

    With --from bmad, memlogs, agents' notes, decision logs, sprint status, retrospectives and notes in stories become
    memories of the session bmad-import (or --as), each with its file and line. BMAD's files are only read. Repeating the
    import adds what is new. What cannot be read is reported with file and line.

    Examples:
      smp import review.yaml
      smp import review.yaml --as review-again
      smp import for-others.json --names names.json
      smp import memory.jsonl --from mcp-memory
      smp import --from bmad --dry-run
    """
    options = call.options
    if options.origin == "bmad" or (options.origin is None and options.file and os.path.isdir(options.file)):
        return _import_project(call)
    if options.dry_run:
        raise UserError("--dry-run requires --from bmad. See: smp import --help")
    if options.file is None:
        raise UserError("FILE is missing. See: smp import --help")
    if options.origin == "mcp-memory":
        return _import_graph(call)
    source: Any = _standard_input(call) if options.file == "-" else os.path.abspath(options.file)
    if not isinstance(source, bytes):
        source = _Path(source)
    restored = _load_names(options.names) if options.names else None
    imported = call.memory.import_(source, options.format, options.name, restore=restored)
    rows: list[dict[str, Any]] = [
        {"id": session.id, "memories": len(session.records(include_deleted=True))} for session in imported
    ]
    call.answer(rows, (f"{paint('green', '✓')} {row['id']}: {plural(row['memories'], 'memory')}" for row in rows))


def _standard_input(call: Invocation) -> bytes:
    call.stop_waiting()
    return sys.stdin.buffer.read()


class _Path:
    """A path that `import_` cannot mistake for the text of an export."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path


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
    placeholders = _load_names(options.names, create=True)
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


def _load_names(path: str | None, *, create: bool = False) -> Placeholders:
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


def _import_graph(call: Invocation) -> None:
    from smp_memory.integrations.mcp.graph_file import import_file

    options = call.options
    if options.format or options.names:
        raise UserError("--format and --names cannot be used with --from mcp-memory.")
    data = _standard_input(call) if options.file == "-" else os.path.abspath(options.file)
    report = import_file(call.memory, data, options.name or call.session_name, call.author)
    call.answer(report.to_dict(), _graph_lines(report))


def _graph_lines(report: GraphImportResult) -> Iterator[str]:
    singular = {"entities": "entity", "observations": "observation", "relations": "relation"}
    counts = ", ".join(f"{count:,} {singular[name] if count == 1 else name}" for name, count in report.counts.items())
    yield f"{paint('green', '✓')} {report.session}: {counts} added"
    for line, message in report.problems:
        yield paint("yellow", f"  line {line} could not be read: {message}")


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


# -- import of a BMAD project

_MAX_UNREAD = 20


def _import_project(call: Invocation) -> None:
    """Import what BMAD's workflows and agents wrote, for `smp import --from bmad`."""
    from smp_memory.importers.bmad import find_memory_files
    from smp_memory.importers.ingest import ingest_files
    from smp_memory.integrations.bmad.project import find_project

    options = call.options
    if options.format or options.names:
        raise UserError("--format and --names cannot be used with --from bmad.")
    start = os.path.abspath(options.file or os.getcwd())
    if not os.path.isdir(start):
        raise UserError(f"{options.file} is not a folder; --from bmad reads a whole project.", path=options.file)
    project = find_project(start)
    if project is None:
        raise UserError(f"There is no BMAD project in {start} or above it: no _bmad, .bmad-core, bmad/_cfg or .bmad/_cfg.", path=start)  # fmt: skip
    files = find_memory_files(project, call.memory.store.root)
    numbers = {file.name: number for number, file in enumerate(files, 1)}

    line = call.progress_line()

    def progress(name: str, count: int) -> None:
        line.show(f"{numbers[name]} of {len(files)} files, {plural(count, 'memory')}: {name}")

    report = ingest_files(
        call.memory,
        files,
        "bmad",
        options.name or options.session,
        project=os.path.basename(project.folder),
        author=call.author,
        dry_run=options.dry_run,
        progress=None if options.json else progress,
    )
    line.clear()
    data = {"project": project.folder, "bmad": project.version or project.generation, **report.to_dict()}
    call.answer(data, _project_lines(report, str(project)))


def _project_lines(report: IngestReport, project: str) -> Iterator[str]:
    added = "would be added" if report.dry_run else "added"
    kinds = ", ".join(plural(count, type.replace("_", " ")) for type, count in sorted(report.added.items()))
    yield f"{paint('green', '✓')} {project}, {plural(len(report.files), 'file')}: {plural(report.count, 'memory')} {added} to {report.session}" + (f" ({kinds})" if kinds else "")  # fmt: skip
    if report.known:
        updated = f", {report.followed:,} of them updated" if report.followed else ""
        yield f"  {plural(report.known, 'memory')} imported before{updated}"
    for each in report.unread[:_MAX_UNREAD]:
        yield paint("yellow", f"  {each.file}:{each.line} could not be read: {each.why}")
    if len(report.unread) > _MAX_UNREAD:
        yield f"  … and {len(report.unread) - _MAX_UNREAD:,} more places; --json lists them all"
    if not report.dry_run and report.count:
        yield f"BMAD's files were not changed. To undo the import: smp session delete {report.session}"
