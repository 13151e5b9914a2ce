"""Delete, undelete and purge sessions; carry out plans and erasures in archived and deleted sessions, which stay so.

Deleting a session, under the root's lock and the session's: a deletion record is written, then the session's files are moved
beside it; they are not read, so their size does not matter. Undeleting moves them back, or into the archive folder if the
session was archived. Purging moves them to a removal folder, then removes them.

To change its memories, the session is copied to RAM, changed there, and written back. An archive is packed beside the old one, read back and
compared, and renamed onto it; then the summary beside it is rewritten. Of a deleted session, the changed files are replaced one
after the other.

Guarantees: deleting, undeleting and purging take effect at one rename. A deleted session can be undeleted until it is purged,
unchanged, also if the store changed its layout meanwhile. The id of a deleted session may be used again at once. Of a change, a crash leaves the old archive or the new one, and of a deleted session each file old or new; the next process that opens
the store repeats an erasure that was interrupted (`erasing.json`). A plan is not carried out in an archive
of another program, or in one that cannot be read (`smp doctor` reports it).
Non-guarantees: purging frees the blocks on disk, it does not overwrite them. Of several deleted sessions of one name, the last is changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SessionExists, SessionNotFound, StorageError
from smp_memory.files import archive
from smp_memory.files.archive import read_archive
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.lock import SessionLock
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE, SessionHead
from smp_memory.overview.extractive_summary import session_summary
from smp_memory.store.archive import (
    content_of,
    copy_of_archive,
    copy_of_folder,
    files_in,
    in_store_layout,
    session_files,
    with_manifest,
)
from smp_memory.store.archive_index import CONTENT, PACKED, ArchiveIndex
from smp_memory.store.archive_names import is_own_summary
from smp_memory.store.session_edits import erase_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.model.rewrite_plan import RewritePlan, RewriteReport
    from smp_memory.store.archive import SessionCopy
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.port import Note
    from smp_memory.store.session_edits import ErasedEntries


def delete_session(store: FileStore, session: str, note: Note) -> SessionHead:
    """Move a session, live or archived, to the trash; `note` makes its deletion record."""
    archives = ArchiveIndex(store)
    with archives.locked(session, "deleting a session"):
        archived = archives.is_archived(session)
        if not archived and not archives.is_live(session):
            raise store.session_not_found(session)
        head = archives.archived_session(session) if archived else store.sessions(id=session)[0]
        folder = _free_folder(archives, session)
        record = {
            **note(head, []),
            "layout": store.layout.name,
            "deleted_items": [{"type": "session", "id": session}],
            "backup_location": "/".join((DELETED, os.path.basename(folder), PACKED if archived else CONTENT)),
        }
        archives.write(archives.record_path(folder), {"deletion": record})
        archives.disk.sync_folder(archives.trash)
        if archived:
            pair = archives.pair(session)
            archives.move(pair.archive, os.path.join(folder, PACKED))
            archives.remove_archive(pair)
        else:
            _move_out_live(archives, session, os.path.join(folder, CONTENT))
        return archives.deleted(session)[-1]  # under the lock, before another process can undelete it


def _free_folder(archives: ArchiveIndex, session: str) -> str:
    folder, number = os.path.join(archives.trash, session), 1
    while archives.disk.exists(folder):
        number += 1
        folder = os.path.join(archives.trash, f"{session}.{number}")
    return folder


def _move_out_live(archives: ArchiveIndex, session: str, target: str) -> None:
    """Wait for running writers, then move the files. An unfinished write is moved along, and finished after an undelete."""
    store, disk = archives.store, archives.disk
    files = store.session(session)
    private = store.layout.private(store.root, session)
    disk.make_folder(private)
    lock = SessionLock(disk, private, f"session {session}", session)
    try:
        lock.acquire(store.config.lock_timeout_seconds)
        lock.sign("deleting the session")
        files.writer.close_files()
        files.writer.end_lineage(lock.descriptor)  # so that entries erased meanwhile are not taken for lost ones
        archives.move_out(session, target)
    finally:
        lock.release()
        lock.close()


def undelete_session(store: FileStore, session: str) -> SessionHead:
    """Restore the session of this name that was deleted last, live or archived as it was."""
    archives = ArchiveIndex(store)
    with archives.locked(session, "undeleting a session"):
        deleted = _all_deleted(archives, session)[-1]
        if archives.is_live(session) or archives.is_archived(session):
            raise SessionExists(
                f"There is now another session {session}; delete or rename that one first. Nothing was changed.",
                session=session,
            )
        packed = archives.trash_archive_path(deleted.path)
        if archives.disk.exists(packed):
            pair = archives.pairs(session)[0]
            summary = read_archive(archives.disk, packed).summary
            archives.disk.make_folder(os.path.dirname(pair.archive))
            if is_own_summary(summary):
                archives.write_summary(pair.summary, summary, packed)
            archives.move(packed, pair.archive)
        else:
            archives.move_in(_in_store_layout(archives, deleted), session)
        if not deleted.is_foreign:
            archives.remove_trash(deleted.path)
        archives.recover(session)
        return store.sessions(LIVE, ARCHIVED, id=session)[0]


def _in_store_layout(archives: ArchiveIndex, deleted: SessionHead) -> str:
    """The folder in the trash with the files in the store's layout, after those of another layout were replaced by it.

    So the files leave the trash when they are moved in, whatever their layout: no crash leaves a second copy.
    """
    content = archives.content_path(deleted.path)
    made = in_store_layout(archives, content, archives.content_layout(deleted), deleted.session)
    if made == content:
        return content
    converted = archives.converted_path(deleted.path)
    archives.move(made, converted)
    archives.remove(content)  # from here on the converted files are those of the session
    return converted


def change_deletion_record(store: FileStore, session: str, note: Note, path: str | None) -> SessionHead:
    """Change the deletion record of a session, if it is still in the trash."""
    archives = ArchiveIndex(store)
    with archives.locked(session, "announcing a purge"):
        found = _deleted(archives, session, path)
        archives.write(archives.record_path(found.path), {"deletion": note(found, [])})
    return found


def purge_session(
    store: FileStore, session: str, note: Note, audit: Callable[[], object], path: str | None = None
) -> SessionHead:
    """Remove a deleted session for good; `path` selects one if several of this name were deleted.

    `audit` is called before the files are removed, so no purge goes unrecorded.
    """
    archives = ArchiveIndex(store)
    with archives.locked(session, "purging a session"):
        found = _deleted(archives, session, path)
        archives.write(archives.record_path(found.path), {"deletion": note(found, [])})
        waiting = archives.stage_removal(found.path)
        audit()
        archives.disk.remove(archives.record_path(waiting))  # `recover` must not write the audit record again
        archives.disk.remove_tree(waiting)
    return found


def _deleted(archives: ArchiveIndex, session: str, path: str | None) -> SessionHead:
    """The session of this name that was deleted first, or the one in this folder."""
    found = [each for each in _all_deleted(archives, session) if path in (None, each.path)]
    if not found:
        raise SessionNotFound(
            f"{path} is gone: another process undeleted or purged session {session}.", session=session
        )
    return found[0]


def _all_deleted(archives: ArchiveIndex, session: str) -> list[SessionHead]:
    found = archives.deleted(session)
    if not found:
        raise SessionNotFound(
            f"No session {session} was deleted. `smp session list --all` shows those that were.", session=session
        )
    return found


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


def deleted_copy(store: FileStore, session: str, path: str | None) -> FileSession:
    """A copy in RAM of the deleted session in this folder, else of the one deleted last."""
    archives = ArchiveIndex(store)
    return _deleted_copy(
        archives, _last(archives, session) if path is None else _deleted(archives, session, path)
    ).files


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
