"""Change archived and deleted sessions, which stay archived or deleted: plans of the port, and erasure.

The session is copied to RAM, changed there, and written back. An archive is packed beside the old one, read back and
compared, and renamed onto it; then the summary beside it is rewritten. Of a deleted session, the changed files are replaced one
after the other.

Guarantees: a crash leaves the old archive or the new one, and of a deleted session each file old or new; the next process that opens
the store repeats an erasure that was interrupted (`erasing.json`). A plan is not carried out in an archive
of another program, or in one that cannot be read (`smp doctor` reports it).
Non-guarantees: of several deleted sessions of one name, the last is changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import StorageError
from smp_memory.files import archive
from smp_memory.files.disk import TEMPORARY
from smp_memory.overview.extractive_summary import session_summary
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
    from smp_memory.model.rewrite_plan import RewritePlan, RewriteReport
    from smp_memory.model.storage_reports import SessionHead
    from smp_memory.store.archive import SessionCopy
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.session_edits import ErasedEntries


def copy_of(archives: ArchiveIndex, session: str) -> SessionCopy:
    """A copy in RAM of the archived session of this name, else of the one deleted last."""
    if archives.is_archived(session):
        return copy_of_archive(archives.store, archives.archive_path(session), session)
    return _deleted_copy(archives, _last(archives, session))


def rewrite_archive(store: FileStore, session: str, plan: RewritePlan, *, dry_run: bool = False) -> RewriteReport:
    """Carry out a plan in an archived session, and pack it again with a new summary."""
    archives = ArchiveIndex(store)
    with archives.locked(session, plan.operation):
        if not archives.is_archived(session):
            raise store.session_not_found(session)
        path, beside = archives.pair(session)
        copy = copy_of_archive(store, path, session)
        if not is_own_summary(copy.summary):
            raise StorageError(f"{path} was made by another program. Nothing was changed.", path=path)
        report = copy.files.rewrite(plan, dry_run=dry_run)
        if not dry_run:
            archives.write_summary(beside, pack_again(archives, copy, path), path)
        return report


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
