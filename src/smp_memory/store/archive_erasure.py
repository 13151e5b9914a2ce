"""Erase and purge memories in archived and deleted sessions, which stay archived or deleted.

The session is copied to RAM, changed there, and written back. An archive is packed beside the old one, read back and
compared, and renamed onto it; then the summary beside it is rewritten. Of a deleted session, the changed files are replaced one
after the other. A purge follows `lifecycle.purge`: two checks at least a day apart.

Guarantees: a crash leaves the old archive or the new one, and of a deleted session each file old or new; the next process that opens
the store repeats an erasure that was interrupted (`erasing.json`). An archive of another program, or one that cannot be read, is not
purged (`smp doctor` reports it).
Non-guarantees: of several deleted sessions of one name, the last is changed.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from smp_memory.config.settings import REMOVE
from smp_memory.errors import SMPError
from smp_memory.files import archive
from smp_memory.files.disk import TEMPORARY
from smp_memory.lifecycle.purge import PurgeNotes, purge_due, write_audit_record
from smp_memory.lifecycle.summaries import session_summary
from smp_memory.model.deletions import Purged
from smp_memory.model.times import to_text
from smp_memory.store.archive import (
    content_of,
    copy_of_archive,
    copy_of_folder,
    files_in,
    session_files,
    with_manifest,
)
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.archive_names import is_own_summary
from smp_memory.store.session_edits import erase_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from smp_memory.lifecycle.clock_trust import Evidence
    from smp_memory.model.session_info import SessionHead
    from smp_memory.store.archive import SessionCopy
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.session_edits import ErasedEntries


def copy_of(archives: ArchiveIndex, session: str) -> SessionCopy:
    """A copy in RAM of the archived session of this name, else of the one deleted last."""
    if archives.is_archived(session):
        return copy_of_archive(archives.store, archives.archive_path(session), session)
    return _deleted_copy(archives, _last(archives, session))


def erase_in_archive(archives: ArchiveIndex, session: str, ids: list[str]) -> tuple[ErasedEntries, list[str]]:
    """Erase memories from an archived or deleted session; also returns the changed files. Hold the root's lock."""
    if archives.is_archived(session):
        path, beside = archives.pair(session)
        copy = copy_of_archive(archives.store, path, session)
        erased = erase_in(copy.files, ids)
        archives.write_summary(beside, pack_again(archives, copy, path), path)
        return erased, [path, beside]
    deleted = _last(archives, session)
    copy = _deleted_copy(archives, deleted)
    inside = archives.trash_archive_path(deleted.path)
    if archives.disk.exists(inside):
        erased = erase_in(copy.files, ids)
        pack_again(archives, copy, inside)
        return erased, [inside]
    erased = erase_in(copy.files, ids)
    return erased, _replace_files(archives, copy, archives.content_path(deleted.path))


def _last(archives: ArchiveIndex, session: str) -> SessionHead:
    found = archives.deleted(session)
    if not found:
        raise archives.store.session_not_found(session)
    return found[-1]


def _deleted_copy(archives: ArchiveIndex, deleted: SessionHead) -> SessionCopy:
    inside = archives.trash_archive_path(deleted.path)
    if archives.disk.exists(inside):
        return copy_of_archive(archives.store, inside, deleted.session)
    content, layout = archives.content_path(deleted.path), archives.content_layout(deleted)
    return copy_of_folder(archives.store, content, layout, deleted.session)


def pack_again(archives: ArchiveIndex, copy: SessionCopy, path: str) -> dict[str, Any]:
    """Replace an archive by a changed copy of it. Returns the new summary, with the old time and reason."""
    old, ram = copy.summary, copy.files.store.disk
    records, info, size = content_of(copy.files)
    summary = session_summary(records, info, size, archived=old.get("archived"), reason=old.get("reason"))
    fields = with_manifest(copy.files, summary)
    archive.pack_files(archives.disk, dict(session_files(copy.files)), path, fields, replace=True, source=ram)
    return fields


# -- files of a deleted session


def _replace_files(archives: ArchiveIndex, copy: SessionCopy, content: str) -> list[str]:
    """Replace the files of a deleted session by those of a copy, one after the other; returns the changed paths."""
    disk, ram = archives.disk, copy.files.store.disk
    before = dict(files_in(disk, content))
    after = {name: ram.read(path) for name, path in session_files(copy.files)}
    changed = [os.path.join(content, name) for name in before if name not in after]
    for name, data in after.items():
        if before.get(name) != data:
            path = os.path.join(content, name)
            disk.make_folder(os.path.dirname(path))
            disk.replace(path, data)
            changed.append(path)
    for name in before.keys() - after.keys():
        disk.remove(os.path.join(content, name))
    for folder in {os.path.dirname(path) for path in changed}:
        disk.sync_folder(folder)
    return [path for path in changed if not path.endswith(TEMPORARY)]


TRASH = "deleted_memories"  # field of an archive's summary: how many deleted memories it holds


def purge_archives(
    store: FileStore,
    now: datetime,
    evidence: Evidence,
    by: str | None,
    kept: timedelta | None = None,
    *,
    automatic: bool = False,
) -> Iterator[tuple[str, Purged]]:
    """Check each archive that may hold deleted memories; `kept` replaces the session's `lifecycle.purge_days`."""
    archives = ArchiveIndex(store)
    for each in archives.archived():
        if not each.has_memories or (
            each.metadata and not (is_own_summary(each.metadata) and each.metadata.get(TRASH) != 0)
        ):
            continue
        try:
            with archives.locked(each.session, "purging"):
                done = _purge_archive(archives, each.session, now, evidence, by, kept, automatic)
        except SMPError:
            continue  # damaged, or locked by another process: left to the next check
        yield each.session, done


def _purge_archive(
    archives: ArchiveIndex,
    session: str,
    now: datetime,
    evidence: Evidence,
    by: str | None,
    kept: timedelta | None,
    automatic: bool,
) -> Purged:
    store = archives.store
    if not archives.is_archived(session):
        return Purged()
    path, beside = archives.pair(session)
    copy = copy_of_archive(store, path, session)
    if not is_own_summary(copy.summary):
        return Purged()
    files = copy.files
    if TRASH not in copy.summary and not _trash_count(copy):  # packed before summaries had this field
        archives.write_summary(beside, {**copy.summary, TRASH: 0}, path)
        return Purged()
    config = files.config
    if automatic and not (config["lifecycle.auto_purge"] and config.allows(REMOVE)):
        return Purged()
    notes = PurgeNotes(store.state, session)
    time_kept = timedelta(days=config["lifecycle.purge_days"]) if kept is None else kept
    done = purge_due(files, notes, now, time_kept, evidence)
    if done.ids:
        archives.write_summary(beside, pack_again(archives, copy, path), path)
    write_audit_record(
        files, notes, lambda ids: store.audit.note("purge", at=to_text(now), by=by, session=session, ids=ids)
    )
    return done


def _trash_count(copy: SessionCopy) -> int:
    return sum(history.deletion is not None for history in copy.files.history().histories.values())
