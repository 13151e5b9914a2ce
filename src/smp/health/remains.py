"""What did crashes leave behind? Unfinished files, plans and conversions, and what was set aside for a person to look at.

What recovery knows how to finish or take away has the fix `recovery`. What was set aside in quarantine is never touched:
it may be the only copy of something.

Guarantees: what is younger than a minute, or belongs to a session whose lock is held, is taken for work in progress.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smp.files.disk import TEMPORARY
from smp.files.journal import QUARANTINE, Journal
from smp.files.layouts.layout import PRIVATE
from smp.health.check import Check
from smp.health.report import NOTE, WARNING, Finding, named
from smp.model import ids
from smp.store.away_places import folders_of_archives
from smp.store.file_store import FLAG
from smp.store.indexer import FOLDER
from smp.store.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.health.subject import SessionSubject, Subject

RECOVERY = "recovery"
_FIX = "The next write does it, or: smp doctor --fix"
_PLAN = "journal.json"
_ERASING = "erasing.json"
_DAMAGED = "cold.gz.damaged-"


class Remains(Check):
    name = "leftovers"
    title = "nothing is left over"

    def session(self, session: SessionSubject) -> Iterator[Finding]:
        reader, subject = session.reader, session.subject
        path = reader.journal.path
        if reader.journal.exists() and not subject.is_young(path):
            plan = reader.journal.load()
            what = "A change was committed and not carried out yet; it is read as if it had been."
            message = what if plan is not None else "A plan was begun and never committed; nothing of it counts."
            if reader.journal.is_foreign:
                message = "A journal was not written by a user of this machine, and is not carried out: the next write sets it aside."
            yield Finding(self.name, WARNING, message, _FIX, session.id, path=path, fix=RECOVERY)
        left = [path for path in _temporary(session) if not subject.is_young(path)]
        if left:
            message = (
                f"{_count(left, 'unfinished file')} of a crashed rewrite: {_names(left)}. No reader looks at them."
            )
            yield Finding(self.name, NOTE, message, _FIX, session.id, path=left[0], fix=RECOVERY, details=_paths(left))
        yield from self._set_aside(session)

    def _set_aside(self, session: SessionSubject) -> Iterator[Finding]:
        disk, folder = session.subject.disk, os.path.join(session.reader.private, QUARANTINE)
        found = [os.path.join(folder, name) for name in disk.names(folder)]
        if found:
            message = f"{_count(found, 'piece')} set aside after a crash or a repair: {_names(found)}."
            advice = (
                f"`smp quarantine` shows them and puts them back. Delete them in {folder} when you do not need them."
            )
            yield Finding(self.name, NOTE, message, advice, session.id, path=found[0], details=_paths(found))
        names = [name for name in disk.names(session.reader.private) if name.startswith(_DAMAGED)]
        if names:
            paths = [os.path.join(session.reader.private, name) for name in names]
            message = f"{_count(paths, 'copy', 'copies')} of a damaged cold segment, kept before it was rewritten."
            advice = "Delete them when nothing in them is missed."
            yield Finding(self.name, NOTE, message, advice, session.id, path=paths[0], details=_paths(paths))

    def store(self, subject: Subject) -> Iterator[Finding]:
        yield from self._whole_store(subject)
        left = [path for path in _temporary_of_store(subject) if not subject.is_young(path)]
        if left:
            message = f"{_count(left, 'unfinished file or folder', 'unfinished files or folders')}: {_names(left)}. Nobody reads them."
            advice = "smp doctor --fix takes them away."
            yield Finding(self.name, NOTE, message, advice, path=left[0], fix=RECOVERY, details=_paths(left))
        yield from self._shelf(subject)
        yield from self._old_indexes(subject)

    def _whole_store(self, subject: Subject) -> Iterator[Finding]:
        private = os.path.join(subject.root, PRIVATE)
        plan = Journal(subject.disk, os.path.join(private, _PLAN), subject.root, "the store")
        staging = os.path.join(private, FLAG)
        flag = (subject.stored or {}).get(FLAG)
        if (plan.exists() or subject.disk.exists(staging) or flag) and not subject.is_young(subject.config_path):
            done = "it will be finished" if plan.load() is not None else "it will be taken back, and nothing is lost"
            message = f"A conversion to another layout was interrupted; {done} when the store is next opened."
            yield Finding(
                self.name, WARNING, message, "smp doctor --fix, or any other command.", path=private, fix=RECOVERY
            )
        erasing = subject.state.path(_ERASING)
        if subject.state.has(_ERASING) and not subject.is_young(erasing):
            message = "An erasure or a redaction was interrupted; the rest is done when the store is next opened."
            yield Finding(
                self.name, WARNING, message, "smp doctor --fix, or any other command.", path=erasing, fix=RECOVERY
            )

    def _shelf(self, subject: Subject) -> Iterator[Finding]:
        shelf = Shelf(subject.store)
        both = [name for name in subject.session_ids() if not subject.is_young(shelf.archive_of(name))]
        for name in both:
            message = f"{name} is in its place, and an archive of it is there as well: archiving or restoring was interrupted."
            path = shelf.archive_of(name)
            advice = "The session in its place counts. smp doctor --fix takes the archive away."
            yield Finding(self.name, NOTE, message, advice, name, path=path, fix=RECOVERY)
        live = {*subject.session_ids(), *(away.session for away in (*shelf.archived(), *shelf.deleted()))}
        if not subject.store.layout.info_file:
            private = os.path.join(subject.root, PRIVATE)
            lost = [name for name in subject.disk.folders(private) if _is_sessions(subject, private, name, live)]
            if lost:
                message = f"The files of {named(lost)} are not there any more, but what SMP kept beside them is."
                advice = "Somebody removed the session by hand. Delete the folder when nothing in it is missed."
                path = os.path.join(private, lost[0])
                yield Finding(self.name, NOTE, message, advice, lost[0], path=path)

    def _old_indexes(self, subject: Subject) -> Iterator[Finding]:
        base, disk = subject.state.path(FOLDER), subject.state.disk
        if not subject.state.on_disk or not disk.is_folder(base):
            return
        names = disk.names(base)
        kept = next((name for name in names if name.startswith("index-")), "")
        old = [os.path.join(base, name) for name in names if name != kept]
        old = [path for path in old if not subject.is_young(path)]
        if old:
            message = f"{_count(old, 'index', 'indexes')} that nobody uses any more: {_names(old)}."
            advice = "smp doctor --fix takes them away, and makes the index anew."
            yield Finding(self.name, NOTE, message, advice, path=old[0], fix="index", details=_paths(old))


def _temporary(session: SessionSubject) -> Iterator[str]:
    """Unfinished files of a session, where its recovery looks for them."""
    reader, disk = session.reader, session.subject.disk
    folders = {os.path.dirname(os.path.join(reader.folder, name)) for name in reader.states}
    is_shared = not reader.layout.info_file
    for folder in sorted(folders | {reader.folder, reader.private}):
        for name in disk.names(folder):
            ours = not is_shared or folder == reader.private or name.startswith(f"{session.id}.")
            if name.endswith(TEMPORARY) and ours:
                yield os.path.join(folder, name)


def _temporary_of_store(subject: Subject) -> Iterator[str]:
    """What waits below the root for a name that it never got, or to be removed."""
    private = os.path.join(subject.root, PRIVATE)
    for name in subject.disk.names(private):
        if name.endswith(TEMPORARY) or name.startswith(("leaving-", "coming-")):
            yield os.path.join(private, name)
    archives = [(folder, "") for folder in folders_of_archives(subject.disk, subject.root)]
    for folder, start in ((subject.root, "config.json"), *archives):
        for name in subject.disk.names(folder):
            if name.endswith(TEMPORARY) and name.startswith(start):
                yield os.path.join(folder, name)


def _is_sessions(subject: Subject, private: str, name: str, live: set[str]) -> bool:
    if not ids.is_valid(name) or name in live or name in (FOLDER, FLAG):
        return False
    return subject.disk.exists(os.path.join(private, name, "lock"))


def _count(paths: list[str], one: str, many: str = "") -> str:
    return f"1 {one}" if len(paths) == 1 else f"{len(paths):,} {many or one + 's'}"


def _names(paths: list[str]) -> str:
    return named(os.path.basename(path) for path in paths)


def _paths(paths: list[str]) -> tuple[dict[str, str], ...]:
    return tuple({"path": path} for path in paths)
