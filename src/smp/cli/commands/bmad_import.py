"""What BMAD's workflows and agents wrote, for `smp import --from bmad`."""

from __future__ import annotations

import os

from smp.cli.render import paint, plural
from smp.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.cli.call import Call
    from smp.importers.taking_in import Taken

_SHOWN = 20


def take_in_project(call: Call) -> None:
    from smp.bmad.project import find_project
    from smp.importers.bmad_files import holders
    from smp.importers.taking_in import take_in

    options = call.options
    if options.format or options.key:
        raise UserError("--format and --key do not go with --from bmad.")
    start = os.path.abspath(options.file or os.getcwd())
    if not os.path.isdir(start):
        raise UserError(f"{options.file} is not a folder; --from bmad reads a whole project.", path=options.file)
    project = find_project(start)
    if project is None:
        raise UserError(f"There is no BMAD project in {start} or above it: no _bmad, .bmad-core, bmad/_cfg or .bmad/_cfg.", path=start)  # fmt: skip
    found = holders(project, call.memory.store.root)
    places = {holder.name: number for number, holder in enumerate(found, 1)}

    def progress(name: str, count: int) -> None:
        call.screen.passing(f"{places[name]} of {len(found)} files, {plural(count, 'memory')}: {name}")

    done = take_in(
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


def _told(done: Taken, project: str) -> Iterator[str]:
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
