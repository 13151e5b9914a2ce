"""The steps of a migration from BMAD, as the original design lists them: backup, install, migrate, validate, clean up.

`smp import --from bmad` carries them out in this order and reports each. Validation reads BMAD's files again: nothing of them may be
missing in the store, every memory must be readable, and a search must find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.importers.ingest import import_from
from smp_memory.model.ids import without_password
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from smp_memory.importers.import_run import IngestReport
    from smp_memory.memory import Memory

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
