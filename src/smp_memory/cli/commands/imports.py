"""The command `smp import`: exported sessions, and what other tools wrote."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.commands.exchange import FORMATS, load_names
from smp_memory.cli.render import paint, plural, size_text, wrap
from smp_memory.errors import InvalidFormat, StoreNotFound, UserError
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
_MAX_UNDONE = 5  # sessions in the line that undoes an import
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
        "--names", metavar="FILE", help="replace placeholders with the names in the file of `smp export --names`"
    )


def run_import(call: Invocation) -> int | None:
    """Import sessions that `smp export` wrote, with their whole history, or what another tool wrote.

    An export is validated first: a file that is damaged, truncated or invalid changes nothing, and the message names
    the line. A session whose id exists is rejected; --as gives it another id. Secrets are redacted as at every write.

    --list shows the tools whose files can be read, --scan what they have on this machine.

    With --from NAME, files of another tool are read and never changed. The store is saved to a file before the first write.
    Each memory records its file and line. Repeating the import adds what is new. What is not understood is reported with
    file and line; if nothing at all could be read, the exit code is 4.

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
        (_list_importers if options.list else _scan)(call)
        return None
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
    _import_export(call)
    return None


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


def _import_from(call: Invocation, importer: Importer) -> int | None:
    options = call.options
    report = _imported(call, importer, options.file, not options.no_backup)
    if importer.name == "bmad" and not report.dry_run:
        _migrated(call, report, importer)
    else:
        call.answer(report.to_dict(), _report_lines(call, report, importer))
    return InvalidFormat.exit_code if _is_unreadable(report) else None


def _is_unreadable(report: IngestReport) -> bool:
    """Whether nothing at all could be read."""
    return bool(report.unread) and not (report.count or report.known or report.followed)


def _migrated(call: Invocation, report: IngestReport, importer: Importer) -> None:
    """Validate an import from BMAD, and report its steps."""
    from smp_memory import __version__
    from smp_memory.importers.ingest import steps_of

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
    mark = paint("yellow", "!") if _is_unreadable(report) else paint("green", "✓")
    yield f"{mark} {importer.title}, {plural(len(report.files), 'file')} ({size_text(report.bytes)}): {plural(report.count, 'memory')} {added}{where}" + (f" ({kinds})" if kinds else "")  # fmt: skip
    if report.known:
        updated = f", {report.followed:,} of them updated" if report.followed else ""
        yield f"  {plural(report.known, 'memory')} imported or recorded before{updated}"
    yield from _unread_lines(report)
    if report.backup:
        yield f"The store was saved before: {report.backup}"
    if not report.dry_run and importer.kind == CONVERSATIONS and names:
        yield from _proposal_lines(call, report)
    if names and not report.dry_run:
        yield from _undo_lines(report, importer)


def _undo_lines(report: IngestReport, importer: Importer) -> Iterator[str]:
    new, extended = report.new_sessions, len(set(report.sessions) - set(report.new_sessions))
    unchanged = f"The files of {importer.title} were not changed."
    if len(new) > _MAX_UNDONE:
        yield f"{unchanged} To undo the import: smp session delete with the {len(new):,} new sessions, which have the tag {importer.name}"
    elif new:
        yield f"{unchanged} To undo the import: smp session delete {' '.join(new)}"
    if extended:
        before = f" go back to {report.backup}, or" if report.backup else ""
        yield f"{plural(extended, 'session')} existed before. To undo what was added there:{before} delete the new memories: smp delete ID"


def _unread_lines(report: IngestReport) -> Iterator[str]:
    for text in report.notes[:_MAX_LEFT_OUT]:
        yield paint("yellow", f"  {text}")
    if report.fenced:
        yield f"  text that SMP had recalled itself was removed from {plural(report.fenced, 'memory')}"
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
    call.answer(rows, (line for each in IMPORTERS for line in _importer_lines(each, call.screen.width)))


def _importer_lines(importer: Importer, columns: int | None) -> Iterator[str]:
    first, *others = wrap(f"{importer.name}: {importer.about}", columns and columns - 4)
    yield paint("bold", importer.name) + first.removeprefix(importer.name)
    path = f"PATH: {importer.formats}{' (may be left out)' if importer.has_default else ''}"
    yield from (f"    {line}" for line in (*others, *wrap(path, columns and columns - 4)))


def _scan(call: Invocation) -> None:
    """Show what the importers find on this machine, and import what the user wants."""
    options, offers = call.options, _offers(call)
    rows: list[dict[str, Any]] = [
        {"from": importer.name, **each.to_dict(), "command": _command(importer, each.path)} for importer, each in offers
    ]
    if not options.json:
        call.answer(None, _offer_lines(offers))
    has_backup = options.no_backup
    for row, (importer, each) in zip(rows, offers, strict=True) if offers and _has_store(call) else ():
        question = f"Import {each.title}, {plural(each.count, 'file')} ({size_text(each.bytes)})?"
        if options.yes or (call.is_interactive and call.confirm(question)):
            try:
                report = _imported(call, importer, each.path, not has_backup)
            except UserError as error:
                call.notify(f"{each.title} could not be imported: {error.message}")
                continue
            has_backup = has_backup or report.count > 0  # before the first write of all
            row["report"] = report.to_dict()
            if not options.json:
                call.answer(None, _report_lines(call, report, importer))
    if options.json:
        call.answer(rows, ())


def _offers(call: Invocation) -> list[tuple[Importer, Found]]:
    """What the importers find; one that fails is named and costs only itself."""
    from smp_memory.importers.registry import places_here

    places, offers = places_here(), []
    for importer in IMPORTERS:
        try:
            offers += [(importer, each) for each in importer.load().found(places)]
        except Exception as error:  # files of other tools may be in any state
            call.notify(f"{importer.title} was left out, because looking for its files failed: {error!r}")
    return offers


def _has_store(call: Invocation) -> bool:
    """Whether there is a store to import into; says which one, before the first question."""
    try:
        root = call.memory.root
    except StoreNotFound:
        if call.options.yes:
            raise
        call.notify("There is no store here to import into. Create one with `smp init`, then repeat this command.")
        return False
    if not call.options.json:
        call.notify(
            f"Imports go to the store {_short(str(root))}. Conversations are those of all projects on this machine."
        )
    return True


def _offer_lines(offers: list[tuple[Importer, Found]]) -> Iterator[str]:
    if not offers:
        yield "Nothing was found on this machine. `smp import --list` shows what can be imported."
    for importer, each in offers:
        is_usual = importer.has_default and [name for name, _ in offers].count(importer) == 1
        path = "" if is_usual and importer.kind == CONVERSATIONS else each.path
        yield f"{paint('bold', each.title)}: {plural(each.count, 'file')}, {size_text(each.bytes)}"
        yield f"    {_command(importer, path and _short(path))}"


def _short(path: str) -> str:
    """A path with `~` for the home folder."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path.startswith(home + os.sep) else path


def _command(importer: Importer, path: str) -> str:
    import shlex

    quoted = f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path) if path else ""
    return f"smp import --from {importer.name} {quoted}".rstrip()
