"""Commands for BMAD: memlog init, append and set, with the options and the output of BMAD's own script; import of a project."""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import paint, plural
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Invocation
    from smp_memory.importers.ingest import IngestReport


def _add_target(parser: Parser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--workspace", metavar="DIR", help="the run folder; its memlog is DIR/.memlog.md")
    target.add_argument("--path", metavar="FILE", help="the memlog itself")


def _path(call: Invocation) -> str:
    from pathlib import Path  # writes paths as BMAD's script does

    from smp_memory.integrations.bmad.memlog import NAME

    return str(Path(call.options.path) if call.options.path else Path(call.options.workspace) / NAME)


def _print_result(path: str, entries: int) -> None:
    import json

    sys.stdout.write(json.dumps({"ok": True, "memlog": path, "entries": entries}) + "\n")


def memlog_init_arguments(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument(
        "--field", action="append", metavar="KEY=VALUE", help="a field of its front matter; repeat for more"
    )


def run_memlog_init(call: Invocation) -> None:
    """Create a memlog: BMAD's working memory of a piece of work. An existing one is not overwritten.

    Examples:
      smp memlog init --workspace _bmad-output/specs/spec-login --field topic="Login"
    """
    from smp_memory.integrations.bmad.memlog import Memlog

    fields = []
    for pair in call.options.field or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--field: expected key=value, not {pair!r}.", field="field")
        fields.append((name, value))
    path = _path(call)
    _print_result(path, Memlog(path).init(fields))


def memlog_append_arguments(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument("--text", required=True, help="the text of the entry; it becomes one line")
    parser.add_argument("--type", help="the kind of entry: decision, idea, question, …")
    parser.add_argument("--by", metavar="WHO", help="the author of the entry")


def run_memlog_append(call: Invocation) -> None:
    """Append one entry to a memlog. A replacement of BMAD's memlog.py with the same options, file and output; but when
    several processes append at once, no entry is lost.

    Examples:
      smp memlog append --workspace _bmad-output/specs/spec-login --type decision --text "use OAuth 2.0" --by architect
    """
    from smp_memory.integrations.bmad.memlog import Memlog

    options, path = call.options, _path(call)
    _print_result(path, Memlog(path).append(options.text, options.type, options.by))


def memlog_set_arguments(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument("--key", required=True, help="the name of the field")
    parser.add_argument("--value", required=True, help="its value")


def run_memlog_set(call: Invocation) -> None:
    """Set or replace a field in the front matter of a memlog.

    Examples:
      smp memlog set --workspace _bmad-output/specs/spec-login --key status --value complete
    """
    from smp_memory.integrations.bmad.memlog import Memlog

    path = _path(call)
    _print_result(path, Memlog(path).set(call.options.key, call.options.value))


# -- import of a project

_MAX_UNREAD = 20


def import_project(call: Invocation) -> None:
    """Import what BMAD's workflows and agents wrote, for `smp import --from bmad`."""
    from smp_memory.importers.bmad_files import find_memory_files
    from smp_memory.importers.ingest import ingest_files
    from smp_memory.integrations.bmad.project import find_project

    options = call.options
    if options.format or options.key:
        raise UserError("--format and --key cannot be used with --from bmad.")
    start = os.path.abspath(options.file or os.getcwd())
    if not os.path.isdir(start):
        raise UserError(f"{options.file} is not a folder; --from bmad reads a whole project.", path=options.file)
    project = find_project(start)
    if project is None:
        raise UserError(f"There is no BMAD project in {start} or above it: no _bmad, .bmad-core, bmad/_cfg or .bmad/_cfg.", path=start)  # fmt: skip
    files = find_memory_files(project, call.memory.store.root)
    numbers = {file.name: number for number, file in enumerate(files, 1)}

    def progress(name: str, count: int) -> None:
        call.screen.status(f"{numbers[name]} of {len(files)} files, {plural(count, 'memory')}: {name}")

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
    call.screen.status("")
    data = {"project": project.folder, "bmad": project.version or project.generation, **report.to_dict()}
    call.answer(data, _import_lines(report, str(project)))


def _import_lines(report: IngestReport, project: str) -> Iterator[str]:
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
