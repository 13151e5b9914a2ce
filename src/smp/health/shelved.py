"""Are archives whole, and what in the trash will go soon? Sessions that are put away, and memories that are deleted.

Guarantees: every byte of every archive is read and compared with its manifest, nothing is unpacked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp.errors import SMPError
from smp.files.foreign_tar import read_archive
from smp.health.check import Check
from smp.health.report import NOTE, PROBLEM, Finding, counted, named, several
from smp.lifecycle.states import PURGED, announces_purge, due_step
from smp.model.time import to_moment
from smp.store.clock_notes import evidence
from smp.store.foreign_archives import foreign_files
from smp.store.shelf import Shelf
from smp.store.standings import marks_of, times_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import SessionSubject, Subject

_MOST = 10


class Archives(Check):
    name = "archives"
    title = "archives are whole"
    is_heavy = True

    def store(self, subject: Subject) -> Iterator[Finding]:
        for each in foreign_files(subject.disk, subject.root):
            yield Finding(self.name, NOTE, each.message, each.advice, each.session, path=each.path)
        shelf = Shelf(subject.store)
        archives = [(away.session, away.path, bool(away.said)) for away in shelf.archived()]
        for away in shelf.deleted():
            path = shelf.packed_in(away.path)
            if subject.disk.exists(path):
                archives.append((away.session, path, True))
        self.said = counted(len(archives), "archive")
        for session, path, has_summary in archives:
            try:
                read_archive(subject.disk, path)
            except (SMPError, OSError) as error:
                if not subject.disk.exists(path):
                    continue  # it was brought back meanwhile
                message = f"The archive of {session} is damaged: {getattr(error, 'message', error)}"
                advice = (
                    "Bring the file back from a backup before the session is needed; do not delete what is left of it."
                )
                yield Finding(self.name, PROBLEM, message, advice, session, path=path)
                continue
            if not has_summary:
                message = f"The archive of {session} is whole, but the summary beside it is missing or cannot be read."
                yield Finding(self.name, NOTE, message, "Nothing needs to be done.", session, path=path)


class Trash(Check):
    name = "trash"
    title = "nothing waits to be purged"

    def __init__(self) -> None:
        self._deleted = 0
        self._due: list[Finding] = []

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        kept = times_of(session.subject.store).purge
        due = []
        for id, trail in session.fold.trails.items():
            if trail.deletion is None:
                continue
            self._deleted += 1
            try:
                if to_moment(trail.deletion.at) + kept <= session.subject.now:
                    due.append(id)
            except (ValueError, OverflowError):
                continue
        if due:
            deleted = counted(len(due), "deleted memory", "deleted memories")
            has = "has" if len(due) == 1 else "have"
            message = f"{deleted} of {session.id} {has} been in the trash for {kept.days} days: {named(due)}."
            advice = "smp deleted shows them, smp restore brings them back; smp purge --all takes them out for good."
            self._due.append(Finding(self.name, NOTE, message, advice, session.id, tuple(due)))
        yield from ()

    def store(self, subject: Subject) -> Iterator[Finding]:
        away = Shelf(subject.store).deleted()
        self.said = (
            f"{counted(self._deleted, 'deleted memory', 'deleted memories')}, {counted(len(away), 'deleted session')}"
        )
        times, seen = times_of(subject.store), evidence(subject.store)
        for each in away:
            if each.is_foreign:
                continue
            marks = marks_of(each, subject.now)
            step = due_step(None, subject.now, marks, times, seen)
            is_due = step is not None and step.state == PURGED
            if is_due or announces_purge(None, subject.now, marks, times, seen):
                message = f"The deleted session {each.session} will be purged by the next maintenance{'' if is_due else ' but one'}."
                advice = f"smp session undelete {each.session} brings it back."
                self._due.append(Finding(self.name, NOTE, message, advice, each.session, path=each.path))
        yield from several(self._due, _MOST, "{} more sessions have something in the trash that is due.")
