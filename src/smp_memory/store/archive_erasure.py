"""How do the bytes of a memory leave a session that is put away? It is changed in RAM and put in the old one's place.

An archive is unpacked in RAM, erased from, packed beside the old one, read back and compared, and moved onto it; then the
summary beside it is written anew. Of a deleted session the files that change are written beside the old ones and a plan
that moves them into place is committed. The session is never brought back: it is where it was, in the same state.

Guarantees: a crash leaves all of it as it was, or nothing of the memory in the archive or the files; what is left of a plan
or an old summary is completed by whoever opens the store, or does anything with that session, next.
Non-guarantees: which session is meant is for the caller to say; of several deleted ones of a name it is the last.

Purge deleted memories of archived sessions: the archive is changed in RAM and replaced by one without them.

Announcing and taking follow `store.purging`: two looks at least a day apart, noted in `purge.json`, here inside the archive.

Guarantees: the session stays archived. A crash leaves the old archive or the new one, and what went is named in it until
the audit log has it. An archive of another program is not changed, nor one that cannot be read (`smp doctor` names it).
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SMPError
from smp_memory.files import archive
from smp_memory.files.archive_reader import read_archive
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.journal import Journal, Plan
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.model.deletions import Purged
from smp_memory.model.times import to_text
from smp_memory.policies.summaries import archive_summary
from smp_memory.store import purge
from smp_memory.store.archive import packed, summary_of
from smp_memory.store.archive_copy import SessionCopy, files_in, of_archive, of_folder
from smp_memory.store.archive_index import CONTENT, ERASING, ArchiveIndex
from smp_memory.store.archive_names import is_own_summary
from smp_memory.store.session_erasure import erase_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from smp_memory.config import Config
    from smp_memory.files.disk import Disk
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.policies.clock_trust import Evidence
    from smp_memory.store.archive_copy import SessionCopy
    from smp_memory.store.archive_index import StoredAway
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.session_erasure import ErasedEntries


def copy_of(shelf: ArchiveIndex, session: str) -> SessionCopy:
    """The session that is put away under this name, in RAM: the archived one, else the one deleted last."""
    if shelf.is_archived(session):
        return of_archive(shelf.store, shelf.archive_of(session), session)
    return _deleted_copy(shelf, _last(shelf, session))


def erase_away(shelf: ArchiveIndex, session: str, ids: list[str]) -> tuple[ErasedEntries, list[str]]:
    """Erase from it; also which files were changed. Hold the root's lock."""
    if shelf.is_archived(session):
        path, beside = shelf.pair(session)
        copy = of_archive(shelf.store, path, session)
        erased = erase_in(copy.files, ids)
        said = pack_again(shelf, copy, path)
        shelf.write_summary(beside, said, path)
        return erased, [path, beside]
    away = _last(shelf, session)
    copy = _deleted_copy(shelf, away)
    inside = shelf.packed_in(away.path)
    if shelf.disk.exists(inside):
        erased = erase_in(copy.files, ids)
        pack_again(shelf, copy, inside)
        return erased, [inside]
    erased = erase_in(copy.files, ids)
    return erased, _put_back(shelf, copy, os.path.join(away.path, CONTENT))


def _last(shelf: ArchiveIndex, session: str) -> StoredAway:
    found = shelf.deleted(session)
    if not found:
        raise shelf.store.no_session(session)
    return found[-1]


def _deleted_copy(shelf: ArchiveIndex, away: StoredAway) -> SessionCopy:
    inside = shelf.packed_in(away.path)
    if shelf.disk.exists(inside):
        return of_archive(shelf.store, inside, away.session)
    said = away.said.get("layout")
    layout = layout_named(said) if said in NAMES else shelf.store.layout
    return of_folder(shelf.store, os.path.join(away.path, CONTENT), layout, away.session)


def pack_again(shelf: ArchiveIndex, copy: SessionCopy, path: str) -> dict[str, Any]:
    """Replace an archive by a changed copy of it; the summary, made as it was when the session was packed."""
    old, ram = copy.summary, copy.files.store.disk

    def summary(records: list[Record], info: SessionInfo | None, figures: dict[str, Any]) -> dict[str, Any]:
        return archive_summary(records, info, archived=old.get("archived"), reason=old.get("reason"), figures=figures)

    said = summary_of(copy.files, summary)
    archive.pack_files(shelf.disk, dict(packed(copy.files)), path, said, replace=True, source=ram)
    return said


# -- files of a deleted session


def _put_back(shelf: ArchiveIndex, copy: SessionCopy, content: str) -> list[str]:
    """Let the files of a deleted session be those of a copy, all at once; which ones differ."""
    disk, ram = shelf.disk, copy.files.store.disk
    before = dict(files_in(disk, content))
    after = {name: ram.read(path) for name, path in packed(copy.files)}
    plan = Plan()
    folders = set()
    for name, data in after.items():
        if before.get(name) == data:
            continue
        path = os.path.join(content, name)
        disk.make_folder(os.path.dirname(path))
        disk.remove(path + TEMPORARY)
        disk.write_new(path + TEMPORARY, data)
        folders.add(os.path.dirname(path))
        plan.moves.append((name + TEMPORARY, name))
    plan.removes = [name for name in before if name not in after]
    for folder in sorted(folders):
        disk.sync_folder(folder)
    disk.make_folder(os.path.join(content, PRIVATE))
    _journal(disk, content).commit(plan)
    finish_plan(disk, content)
    changed = [name for _, name in plan.moves] + plan.removes
    return [os.path.join(content, name) for name in changed if not name.endswith(TEMPORARY)]


def finish_plan(disk: Disk, content: str) -> None:
    """Carry out what was committed for a deleted session's files, and take away what came to nothing."""
    journal = _journal(disk, content)
    if journal.exists():
        journal.recover(lambda name, data: True)


def _journal(disk: Disk, content: str) -> Journal:
    return Journal(disk, os.path.join(content, PRIVATE, ERASING), content, "a deleted session")


# -- after a crash


def finish(shelf: ArchiveIndex, session: str) -> None:
    """Complete what an erasure that died has left of a session that is put away. Hold the root's lock."""
    for folder in shelf.trash_folders(session):
        finish_plan(shelf.disk, os.path.join(folder, CONTENT))
    if shelf.is_archived(session):
        try:
            pair = shelf.pair(session)
            said = read_archive(shelf.disk, pair.archive).summary
        except SMPError:
            return  # whoever opens the session is told
        if is_own_summary(said):
            shelf.write_summary(pair.summary, said, pair.archive)


TRASH = "deleted_memories"  # in the summary beside an archive: how many it holds


def purge_archives(
    store: FileStore,
    now: datetime,
    evidence: Evidence,
    by: str | None,
    kept: timedelta | None = None,
    *,
    automatic: bool = False,
) -> Iterator[tuple[str, Purged]]:
    """One look at each archive that may hold deleted memories; `kept` replaces the session's `lifecycle.purge_days`."""
    shelf = ArchiveIndex(store)
    for away in shelf.archived():
        if away.said and not (is_own_summary(away.said) and away.said.get(TRASH) != 0):
            continue
        try:
            with shelf.shelved(away.session, "purging"):
                done = _purge_archive(shelf, away.session, now, evidence, by, kept, automatic)
        except SMPError:
            continue  # damaged, or somebody else is at it: the next look
        yield away.session, done


def _purge_archive(
    shelf: ArchiveIndex,
    session: str,
    now: datetime,
    evidence: Evidence,
    by: str | None,
    kept: timedelta | None,
    automatic: bool,
) -> Purged:
    store = shelf.store
    if not shelf.is_archived(session):
        return Purged()
    path, beside = shelf.pair(session)
    copy = of_archive(store, path, session)
    if not is_own_summary(copy.summary):
        return Purged()
    files = copy.files
    if TRASH not in copy.summary and not _trash(copy):  # packed before summaries told of it
        shelf.write_summary(beside, {**copy.summary, TRASH: 0}, path)
        return Purged()
    config = files.usable_config()
    if automatic and not _may_purge(config):
        return Purged()
    purge.sign_again(files, store.disk, files.store.disk)
    before = purge.announced_in(files)
    time_kept = timedelta(days=config["lifecycle.purge_days"]) if kept is None else kept
    done = purge.purge(files, now, time_kept, evidence, lambda names: False)
    taken = purge.taken_by(files.reader)
    if taken or purge.announced_in(files) != before:
        _pack(shelf, copy, session)
    if taken and store.audit.note("purge", at=to_text(now), by=by, session=session, ids=taken):
        purge.sign_again(files, store.disk, files.store.disk)
        purge.forget_taken(files)
        _pack(shelf, copy, session)
    return done


def _pack(shelf: ArchiveIndex, copy: SessionCopy, session: str) -> None:
    path, beside = shelf.pair(session)
    purge.sign_again(copy.files, copy.files.store.disk, shelf.disk)
    said = pack_again(shelf, copy, path)
    shelf.write_summary(beside, said, path)


def _trash(copy: SessionCopy) -> int:
    count: int = copy.files.view(
        lambda session_history: sum(history.deletion is not None for history in session_history.histories.values())
    )
    return count


def _may_purge(config: Config) -> bool:
    return bool(config["lifecycle.auto_purge"])
