"""BMAD's working memory: memlog init, append, set. The same words and the same answer as its own script.

What BMAD's workflows and agents wrote, for `smp import --from bmad`.
"""

from __future__ import annotations

import os
import sys

from smp_memory.cli.render import paint, plural
from smp_memory.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.cli.arguments import Parser
    from smp_memory.cli.invocation import Call
    from smp_memory.importers.ingest import IngestReport


def _add_target(parser: Parser) -> None:
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--workspace", metavar="DIR", help="the run folder; its memlog is DIR/.memlog.md")
    target.add_argument("--path", metavar="FILE", help="the memlog itself")


def _path(call: Call) -> str:
    from pathlib import Path  # writes paths as BMAD's script does

    from smp_memory.integrations.bmad.memlog import NAME

    return str(Path(call.options.path) if call.options.path else Path(call.options.workspace) / NAME)


def _say(path: str, entries: int) -> None:
    import json

    sys.stdout.write(json.dumps({"ok": True, "memlog": path, "entries": entries}) + "\n")


def memlog_init_arguments(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument("--field", action="append", metavar="KEY=VALUE", help="a field of its head; repeat for more")


def run_memlog_init(call: Call) -> None:
    """Make a memlog: BMAD's working memory of a piece of work. One that is there is refused.

    Examples:
      smp memlog init --workspace _bmad-output/specs/spec-login --field topic="Login"
    """
    from smp_memory.integrations.bmad.memlog import Memlog

    fields = []
    for pair in call.options.field or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"--field expects key=value, not {pair!r}.", field="field")
        fields.append((name, value))
    path = _path(call)
    _say(path, Memlog(path).init(fields))


def memlog_append_arguments(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument("--text", required=True, help="what is to be remembered; it becomes one line")
    parser.add_argument("--type", help="what kind it is: decision, idea, question, …")
    parser.add_argument("--by", metavar="WHO", help="who it came from")


def run_memlog_append(call: Call) -> None:
    """Append one entry to a memlog. It takes the place of BMAD's memlog.py: the same options, the same file, the same
    answer; but when several processes append at once, no entry is lost.

    Examples:
      smp memlog append --workspace _bmad-output/specs/spec-login --type decision --text "use OAuth 2.0" --by architect
    """
    from smp_memory.integrations.bmad.memlog import Memlog

    options, path = call.options, _path(call)
    _say(path, Memlog(path).append(options.text, options.type, options.by))


def memlog_set_arguments(parser: Parser) -> None:
    _add_target(parser)
    parser.add_argument("--key", required=True, help="the name of the field")
    parser.add_argument("--value", required=True, help="its value")


def run_memlog_set(call: Call) -> None:
    """Set or replace a field in the head of a memlog.

    Examples:
      smp memlog set --workspace _bmad-output/specs/spec-login --key status --value complete
    """
    from smp_memory.integrations.bmad.memlog import Memlog

    path = _path(call)
    _say(path, Memlog(path).set(call.options.key, call.options.value))


_SHOWN = 20


def take_in_project(call: Call) -> None:
    from smp_memory.importers.bmad_files import find_memory_files
    from smp_memory.importers.ingest import ingest_files
    from smp_memory.integrations.bmad.project import find_project

    options = call.options
    if options.format or options.key:
        raise UserError("--format and --key do not go with --from bmad.")
    start = os.path.abspath(options.file or os.getcwd())
    if not os.path.isdir(start):
        raise UserError(f"{options.file} is not a folder; --from bmad reads a whole project.", path=options.file)
    project = find_project(start)
    if project is None:
        raise UserError(f"There is no BMAD project in {start} or above it: no _bmad, .bmad-core, bmad/_cfg or .bmad/_cfg.", path=start)  # fmt: skip
    found = find_memory_files(project, call.memory.store.root)
    places = {holder.name: number for number, holder in enumerate(found, 1)}

    def progress(name: str, count: int) -> None:
        call.screen.passing(f"{places[name]} of {len(found)} files, {plural(count, 'memory')}: {name}")

    done = ingest_files(
        call.memory,
        found,
        "bmad",
        options.name or options.session,
        project=os.path.basename(project.folder),
        author=call.author,
        dry_run=options.dry_run,
        progress=None if options.json else progress,
    )
    call.screen.passing("")
    call.answer({"project": project.folder, "bmad": project.version or project.generation, **done.to_dict()}, _told(done, str(project)))  # fmt: skip


def _told(done: IngestReport, project: str) -> Iterator[str]:
    would = "would be added" if done.dry_run else "added"
    kinds = ", ".join(plural(count, type.replace("_", " ")) for type, count in sorted(done.added.items()))
    yield f"{paint('green', '✓')} {project}, {plural(len(done.files), 'file')}: {plural(done.count, 'memory')} {would} to {done.session}" + (f" ({kinds})" if kinds else "")  # fmt: skip
    if done.known:
        changed = f", {done.followed:,} of them brought up to date" if done.followed else ""
        yield f"  {plural(done.known, 'memory')} known already{changed}"
    for each in done.unread[:_SHOWN]:
        yield paint("yellow", f"  {each.file}:{each.line} was not understood: {each.why}")
    if len(done.unread) > _SHOWN:
        yield f"  … and {len(done.unread) - _SHOWN:,} more places; --json names them all"
    if not done.dry_run and done.count:
        yield f"Import only adds, and BMAD's files were not touched. To take it back: smp session delete {done.session}"
