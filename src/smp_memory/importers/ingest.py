"""Add what readers find in files of other tools to sessions.

Memories go to the session that the reader named last, else to the session of the importer. A session is created when its first memory
is stored. A conversation that hooks recorded is found by its host and the host's id, and continued.

Guarantees
- Nothing twice: each memory has an idempotency key made of the reader's key, and of the file unless the session has keys of its own. What
  hooks recorded under another key is recognised by its text. What a person deleted stays deleted; a conversation in the trash is left out.
- The store is exported to a file of the user's state before the first write, unless nothing is stored in it yet.
- Memories that are rejected are reported with file and line; the rest is stored. Everything goes through the write path, so secrets are redacted.
- A dry run writes nothing.
Non-guarantee: an import is no transaction. One that was interrupted has stored whole batches, and the next one goes on.

`smp import --from bmad` has the steps of a migration, as the original design lists them: backup, install, migrate, validate, clean up. `steps_of`
reports each. Validation reads BMAD's files again: nothing of them may be
missing in the store, every memory must be readable, and a search must find it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import UserError
from smp_memory.importers.import_run import ImportRun, IngestReport, Progress
from smp_memory.importers.registry import CONVERSATIONS, ImportOptions, importer_named, places_here, size_of
from smp_memory.importers.source import IngestedSession, LineTimes, Source
from smp_memory.importers.target import TargetSession
from smp_memory.importers.values import session_id
from smp_memory.model.ids import without_password
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from smp_memory.importers.registry import Importer, Places
    from smp_memory.importers.source import ImportFile
    from smp_memory.memory import Memory


def import_from(
    memory: Memory,
    name: str,
    path: str | os.PathLike[str] | None = None,
    *,
    session: str | None = None,
    author: str | None = None,
    dry_run: bool = False,
    backup: bool = True,
    proposals: bool = True,
    progress: Callable[[Progress], None] | None = None,
    places: Places | None = None,
    settings: Mapping[str, str] | None = None,
) -> IngestReport:
    """Import what the importer `name` finds at `path`, or in its usual place.

    session    for memories that belong to no conversation; else `NAME-import`, and for Markdown `markdown-FOLDER`.
    dry_run    report what would be imported; write nothing.
    backup     export the store to a file in the user's state before the first write; the report names it.
    proposals  False: nothing is proposed for review from the sessions that this import creates.
    settings   options of one importer, such as the columns of a table.
    """
    importer, given = importer_named(name), None if path is None else os.fspath(path)
    if session and importer.kind == CONVERSATIONS:
        message = f"{importer.title}: each conversation is a session of its own, so another id cannot be given."
        raise UserError(message, field="session")
    if given is None and not importer.has_default:
        raise UserError(f"PATH is missing. {importer.title}: {importer.formats}.", field="path")
    absolute = None if given is None else os.path.abspath(os.path.expanduser(given))
    if absolute is not None and not os.path.exists(absolute):
        raise UserError(f"{given} does not exist.", path=given)
    options = ImportOptions(places or places_here(), memory.store.root, settings or {})
    run = ImportRun(memory, importer.name, author, dry_run=dry_run, backup=backup, proposals=proposals)
    module = importer.load()
    if hasattr(module, "merge"):
        module.merge(run, absolute, session)
        return run.report
    listed = module.files(absolute, options)
    return ingest_files(run, listed, session or _session_for(importer, listed), progress)


def _session_for(importer: Importer, files: list[ImportFile]) -> str:
    """The session of memories that belong to no conversation. Notes have one for each vault, repository or folder, so that it can be deleted alone."""
    project = next((file.project for file in files if file.project), "")
    return (
        session_id(f"{importer.name}-{project.lstrip('.')}")
        if importer.name == "markdown" and project
        else importer.session
    )


def ingest_files(
    run: ImportRun,
    files: Iterable[ImportFile],
    session: str,
    progress: Callable[[Progress], None] | None = None,
) -> IngestReport:
    """Read the files one by one and add new memories; `session` takes those that belong to no other."""
    listed = list(files)
    run.is_single = len(listed) == 1
    project = next((file.project for file in listed if file.project), "")
    own = TargetSession(run, IngestedSession(session, project=project))
    meter = _Meter(listed, run.report, progress)
    for file in listed:
        meter.begin(file)
        _read_file(run, file, own, meter.advance)
    own.finish()
    run.report.left_out += [f"{count:,} × {kind}" for kind, count in sorted(run.left_out.items()) if kind]
    return run.report


class _Meter:
    """Counts the bytes that were read, and reports the progress."""

    def __init__(
        self, files: list[ImportFile], report: IngestReport, progress: Callable[[Progress], None] | None
    ) -> None:
        self._files = len(files)
        self._all_bytes = sum(size_of(file.path) for file in files)
        self._report = report
        self._progress = progress
        self._name, self._number = "", 0
        self._done = self._end = 0

    def begin(self, file: ImportFile) -> None:
        self._name, self._number = file.name, self._number + 1
        self._done, self._end = self._end, self._end + size_of(file.path)
        self.advance(0)

    def advance(self, count: int) -> None:
        """Note that bytes were read; of a packed file they are more than it has."""
        self._done = min(self._done + count, self._end)
        self._report.bytes += count
        if self._progress is not None:
            done = Progress(
                self._name,
                self._number,
                self._files,
                self._done,
                self._all_bytes,
                len(self._report.sessions),
                self._report.count,
            )
            self._progress(done)


def _read_file(run: ImportRun, file: ImportFile, own: TargetSession, on_bytes: Callable[[int], None]) -> None:
    source = Source(file.path, file.name, file.member, on_bytes)
    times = LineTimes(file.path, run.memory.now(), file.has_git_times)
    target, count = own, 0
    for found in file.reader(source):
        if isinstance(found, IngestedSession):
            if target is not own:
                target.finish()
            target = TargetSession(run, run.allowed(found)) if found.id else own
        else:
            count += 1
            target.add(found, file.name, times)
    if target is not own:
        target.finish()
    own.end_file()
    run.report.unread += source.unread
    run.left_out[source.kind_left_out] += 1
    run.report.left_out += source.left_out
    if count or source.unread:
        run.report.files[file.name] = count


_MOST_SEARCHED = 10_000


class MigrationStep(NamedTuple):
    name: str
    ok: bool
    result: str

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


def steps_of(memory: Memory, report: IngestReport, path: str | None, session: str, version: str) -> list[MigrationStep]:
    """The steps of an import that was done, with their results."""
    saved = report.backup or ("not needed: the store is unchanged" if not report.count else "nothing was stored before")
    kinds = ", ".join(
        f"{count:,} {KINDS[type].noun if count == 1 else KINDS[type].plural}"
        for type, count in sorted(report.added.items())
    )
    added = f"{report.count:,} memories added to {session}" + (f" ({kinds})" if kinds else "")
    added += f", {report.known:,} known before" if report.known else ""
    left = f"; lines that were not understood: {len(report.unread):,}" if report.unread else ""
    undo = f". To undo: smp session delete {session}" if session in report.new_sessions else ""
    return [
        MigrationStep("backup", True, saved),
        MigrationStep("install", True, f"SMP {version}, store {without_password(str(memory.store.root))}"),
        MigrationStep("migrate", True, added + left),
        _validated(memory, path, session),
        MigrationStep("clean up", True, f"BMAD's files were not changed{undo}"),
    ]


def _validated(memory: Memory, path: str | None, session: str) -> MigrationStep:
    again = import_from(memory, "bmad", path, session=session, dry_run=True)
    missing = again.count
    if not again.known and not missing:
        return MigrationStep("validate", True, "nothing to validate: no memories in BMAD's files")
    opened = memory.session(session)
    records, readable = opened.records(), opened.validate()
    some = records[:_MOST_SEARCHED]
    found = len(opened.query(limit=len(some))) if some else 0
    problems = [
        f"{missing:,} memories are missing" if missing else "",
        f"{len(readable.problems):,} problems in the session's files; see `smp doctor`" if not readable.ok else "",
        f"only {found:,} of {len(some):,} are found by a search" if found < len(some) else "",
    ]
    wrong = "; ".join(filter(None, problems))
    result = wrong or f"{len(records):,} memories are stored, readable and found; a second run would add nothing"
    return MigrationStep("validate", not wrong, result)
