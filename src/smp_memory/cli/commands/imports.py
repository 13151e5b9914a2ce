"""The command `smp import`: exported sessions, and what other tools wrote."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.commands.exchange import FORMATS, load_names
from smp_memory.cli.render import paint, plural, size_text, table
from smp_memory.errors import InvalidFormat, UserError
from smp_memory.importers.registry import CONVERSATIONS, IMPORTERS, importer_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.importers.import_run import IngestReport, Progress
    from smp_memory.importers.registry import Found, Importer

_MAX_UNREAD = 20
_MAX_LEFT_OUT = 5
_MAX_REVIEWED = 200  # sessions in which proposals are counted
_KINDS = {"conversation": "turn"}  # what people call a type


def import_arguments(parser: Parser) -> None:
    names = ("smp", *(each.name for each in IMPORTERS))
    parser.add_argument("file", metavar="PATH", nargs="?", help="an export; - reads standard input; with --from a file or folder of that tool (default: its usual place)")  # fmt: skip
    parser.add_argument("--from", dest="origin", metavar="NAME", choices=names, help=f"the tool that wrote it: {', '.join(names)} (default: bmad for a folder, else smp)")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="list the importers")
    parser.add_argument("--scan", action="store_true", help="show what other tools have on this machine, and offer to import it")  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="with --scan: import everything, without asking")
    parser.add_argument("--format", choices=FORMATS, help="of an export of SMP (default: detected from the content)")
    parser.add_argument("--as", dest="name", metavar="ID", help="another id for the session")
    parser.add_argument("--dry-run", action="store_true", help="report what would be imported; write nothing")
    parser.add_argument(
        "--no-backup", action="store_true", help="do not save the store to a file before the first write"
    )
    parser.add_argument(
        "--map", metavar="FIELD=COLUMN,…", help="with --from jsonl or csv: which column has which field"
    )
    parser.add_argument("--no-proposals", action="store_true", help="propose nothing from the imported conversations")
    parser.add_argument(
        "--names", metavar="FILE", help="replace placeholders by the names in the file of `smp export --names`"
    )


def run_import(call: Invocation) -> None:
    """Import sessions that `smp export` wrote, with their whole history, or what another tool wrote.

    An export is validated first: a file that is damaged, truncated or invalid changes nothing, and the message names
    the line. A session whose id exists is rejected; --as gives it another id. Secrets are redacted as at every write.

    --list shows the tools whose files can be read, --scan what they have on this machine.

    With --from NAME, files of another tool are read and never changed. The store is saved to a file before the first write.
    Each memory records its file and line. Repeating the import adds what is new. What is not understood is reported with
    file and line.

    With --from mcp-memory, new entities, observations and relations are added to the knowledge graph (the session
    knowledge-graph, or --as).

    Examples:
      smp import review.yaml
      smp import review.yaml --as review-again
      smp import for-others.json --names names.json
      smp import --from mcp-memory memory.jsonl
      smp import --scan
      smp import --from claude-code
      smp import --from chatgpt ~/Downloads/export.zip --dry-run
    """
    options = call.options
    if options.list or options.scan:
        return _list_importers(call) if options.list else _scan(call)
    origin = options.origin or ("bmad" if options.file and os.path.isdir(options.file) else "smp")
    if origin != "smp" and (options.format or options.names):
        raise UserError(f"--format and --names cannot be used with --from {origin}.")
    if options.map and origin not in ("jsonl", "csv"):
        raise UserError("--map requires --from jsonl or --from csv. See: smp import --help")
    if origin != "smp":
        return _import_from(call, importer_named(origin))
    if options.dry_run:
        raise UserError("--dry-run requires --from and another tool. See: smp import --help")
    if options.file is None:
        raise UserError("PATH is missing. See: smp import --help")
    return _import_export(call)


def _import_export(call: Invocation) -> None:
    options = call.options
    source: Any = _standard_input(call) if options.file == "-" else _Path(os.path.abspath(options.file))
    restored = load_names(options.names) if options.names else None
    try:
        imported = call.memory.import_(source, options.format, options.name, restore=restored)
    except InvalidFormat as error:
        if options.origin or options.format:
            raise
        advice = "If another tool wrote it, name the tool with --from; smp import --list shows them."
        raise InvalidFormat(f"{error.message} {advice}", **error.details) from error
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


# -- files of other tools


def _import_from(call: Invocation, importer: Importer) -> None:
    options = call.options
    report = _imported(call, importer, options.file, not options.no_backup)
    if importer.name == "bmad" and not report.dry_run:
        return _migrated(call, report, importer)
    return call.answer(report.to_dict(), _report_lines(call, report, importer))


def _migrated(call: Invocation, report: IngestReport, importer: Importer) -> None:
    """Validate an import from BMAD, and report its steps."""
    from smp_memory import __version__
    from smp_memory.importers.migration import steps_of

    options = call.options
    session = options.name or options.session or importer.session
    steps = steps_of(call.memory, report, options.file, session, __version__)
    width = max(len(step.name) for step in steps)
    lines = [
        f"{number} {paint('green', '✓') if step.ok else paint('red', '✗')} {step.name:{width}}  {step.result}"
        for number, step in enumerate(steps, 1)
    ]
    data = {**report.to_dict(), "steps": [step.to_dict() for step in steps]}
    call.answer(data, [*lines, *_unread_lines(report)])


def _imported(call: Invocation, importer: Importer, path: str | None, backup: bool) -> IngestReport:
    from smp_memory.importers import import_from

    options = call.options
    line = call.progress_line()
    report = import_from(
        call.memory,
        importer.name,
        path,
        session=options.name or (None if importer.kind == CONVERSATIONS else options.session),
        author=call.author,
        dry_run=options.dry_run,
        backup=backup,
        proposals=not options.no_proposals,
        progress=None if options.json else _shown(line.show),
        settings={"map": options.map} if options.map else None,
    )
    line.clear()
    return report


def _shown(show: Callable[[str], None]) -> Callable[[Progress], None]:
    def progress(done: Progress) -> None:
        share = (
            f"{size_text(done.bytes)} of {size_text(done.all_bytes)}, {done.number:,} of {plural(done.files, 'file')}"
        )
        show(f"{share}, {plural(done.sessions, 'session')}, {plural(done.memories, 'memory')}: {done.file}")

    return progress


def _report_lines(call: Invocation, report: IngestReport, importer: Importer) -> Iterator[str]:
    added = "would be added" if report.dry_run else "added"
    kinds = ", ".join(
        plural(count, _KINDS.get(type, type.replace("_", " "))) for type, count in sorted(report.added.items())
    )
    names = list(report.sessions)
    where = f" to {names[0] if len(names) == 1 else plural(len(names), 'session')}" if names else ""
    yield f"{paint('green', '✓')} {importer.title}, {plural(len(report.files), 'file')} ({size_text(report.bytes)}): {plural(report.count, 'memory')} {added}{where}" + (f" ({kinds})" if kinds else "")  # fmt: skip
    if report.known:
        updated = f", {report.followed:,} of them updated" if report.followed else ""
        yield f"  {plural(report.known, 'memory')} imported or recorded before{updated}"
    yield from _unread_lines(report)
    if report.backup:
        yield f"The store was saved before: {report.backup}"
    if not report.dry_run and importer.kind == CONVERSATIONS and names:
        yield from _proposal_lines(call, report)
    yield from _undo_lines(report, importer)


def _undo_lines(report: IngestReport, importer: Importer) -> Iterator[str]:
    names = list(report.sessions)
    if len(names) == 1 and names == report.new_sessions:
        yield f"The files of {importer.title} were not changed. To undo the import: smp session delete {names[0]}"


def _unread_lines(report: IngestReport) -> Iterator[str]:
    for text in report.left_out[:_MAX_LEFT_OUT]:
        yield paint("yellow", f"  left out: {text}")
    if len(report.left_out) > _MAX_LEFT_OUT:
        yield f"  … and {len(report.left_out) - _MAX_LEFT_OUT:,} more left out; --json lists them all"
    for each in report.unread[:_MAX_UNREAD]:
        yield paint("yellow", f"  {each.file}:{each.line} not understood: {each.why}")
    if len(report.unread) > _MAX_UNREAD:
        yield f"  … and {len(report.unread) - _MAX_UNREAD:,} more places; --json lists them all"


def _proposal_lines(call: Invocation, report: IngestReport) -> Iterator[str]:
    """How many memories the imported conversations propose; of many conversations only some are read."""
    some = list(report.sessions)[:_MAX_REVIEWED]
    count = sum(len(call.memory.session(name).proposals()) for name in some)
    if count:
        at_least = "" if len(some) == len(report.sessions) else "at least "
        yield f"They propose {at_least}{plural(count, 'memory')} to write down: smp review"


# -- what can be imported


def _list_importers(call: Invocation) -> None:
    rows = [
        {"name": each.name, "about": each.about, "path": each.formats, "default": each.has_default}
        for each in IMPORTERS
    ]
    cells = ([each.name, each.about, each.formats] for each in IMPORTERS)
    call.answer(rows, table(("name", "what", "path"), cells, call.screen.width))


def _scan(call: Invocation) -> None:
    """Show what the importers find on this machine, and import what the user wants."""
    from smp_memory.importers.registry import places_here

    options, places = call.options, places_here()
    offers = [(importer, each) for importer in IMPORTERS for each in importer.load().found(places)]
    rows: list[dict[str, Any]] = [
        {"from": importer.name, **each.to_dict(), "command": _command(importer, each.path)} for importer, each in offers
    ]
    if not options.json:
        call.answer(None, _offer_lines(call, offers))
    has_backup = options.no_backup
    for row, (importer, each) in zip(rows, offers, strict=True):
        question = f"Import {each.title}, {plural(each.count, 'file')} ({size_text(each.bytes)})?"
        if options.yes or (call.is_interactive and call.confirm(question)):
            report = _imported(call, importer, each.path, not has_backup)
            has_backup = has_backup or report.count > 0  # before the first write of all
            row["report"] = report.to_dict()
            if not options.json:
                call.answer(None, _report_lines(call, report, importer))
    if options.json:
        call.answer(rows, ())


def _offer_lines(call: Invocation, offers: list[tuple[Importer, Found]]) -> Iterator[str]:
    if not offers:
        yield "Nothing was found on this machine. `smp import --list` shows what can be imported."
        return
    cells = (
        [each.title, f"{each.count:,}", size_text(each.bytes), _command(importer, each.path)]
        for importer, each in offers
    )
    yield from table(("found", ">files", ">size", "command"), cells, None)


def _command(importer: Importer, path: str) -> str:
    import shlex

    return f"smp import --from {importer.name} {shlex.quote(path)}"
