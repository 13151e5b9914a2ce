"""How does a whole session go to the trash, come back, and go for good? It is moved, not copied, so size does not matter.

Deleting, under the root's lock and the session's: a deletion record is written, then the session is moved to it.
Nothing of it is read. Undeleting moves it back, or into `archived/` if it was archived. Purging moves it out of sight,
then removes it.

Guarantees: each of them happens at one rename. What is deleted can be brought back until it is purged, as it was, also
if the store has changed its layout meanwhile. The name of a deleted session may be used again at once.
Non-guarantees: purging frees the blocks, it does not overwrite them.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from smp_memory.errors import SessionExists, SessionNotFound
from smp_memory.files.archive_reader import read_archive
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import ARCHIVED
from smp_memory.files.lock import SessionLock
from smp_memory.model.times import to_text
from smp_memory.store.archive import in_this_layout
from smp_memory.store.archive_index import CONTENT, DELETED, PACKED, ArchiveIndex, StoredAway
from smp_memory.store.archive_names import is_own_summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.store.file_store import FileStore


def delete_session(
    store: FileStore, session: str, now: datetime, kept: timedelta, by: str | None, reason: str | None
) -> StoredAway:
    """Put a session, archived or not, into the trash."""
    shelf = ArchiveIndex(store)
    with shelf.shelved(session, "deleting a session"):
        archived = shelf.is_archived(session)
        if not archived and not shelf.is_live(session):
            raise store.no_session(session)
        folder = _free_folder(shelf, session)
        record = {
            "session_id": session,
            "deleted_at": to_text(now),
            "deleted_by": by,
            "reason": reason,
            "recovery_deadline": to_text(now + kept),
            "state": ARCHIVED if archived else "active",
            "layout": store.layout.name,
            "bytes": _bytes_of(shelf, session, archived),
            "deleted_items": [{"type": "session", "id": session}],
            "backup_location": "/".join((DELETED, os.path.basename(folder), PACKED if archived else CONTENT)),
        }
        shelf.write(shelf.record_of(folder), {"deletion": record})
        shelf.disk.sync_folder(shelf.trash)
        if archived:
            pair = shelf.pair(session)
            shelf.move(pair.archive, os.path.join(folder, PACKED))
            shelf.forget_archive(pair)
        else:
            _take_out_live(shelf, session, os.path.join(folder, CONTENT))
        return shelf.deleted(session)[-1]  # under the lock: nobody else can bring it back before


def _free_folder(shelf: ArchiveIndex, session: str) -> str:
    folder, number = os.path.join(shelf.trash, session), 1
    while shelf.disk.exists(folder):
        number += 1
        folder = os.path.join(shelf.trash, f"{session}.{number}")
    return folder


def _bytes_of(shelf: ArchiveIndex, session: str, archived: bool) -> int:
    if archived:
        found = shelf.disk.stat(shelf.archive_of(session))
        return found.st_size if found else 0
    return sum(shelf.store.session(session).sizes().values())


def _take_out_live(shelf: ArchiveIndex, session: str, target: str) -> None:
    """Writers under way are waited for; what one of them left unfinished goes along, to be finished if it comes back."""
    store, disk = shelf.store, shelf.disk
    files = store.session(session)
    private = store.layout.private(store.root, session)
    disk.make_folder(private)
    lock = SessionLock(disk, private, f"session {session}", session)
    try:
        lock.acquire(store.config.lock_timeout_seconds)
        lock.sign("deleting the session")
        files.writer.close_files()
        files.writer.end_lineage(lock.descriptor)  # what is erased while it is away must not come back
        shelf.take_out(session, target)
    finally:
        lock.release()
        lock.close()


def undelete_session(store: FileStore, session: str) -> str:
    """Bring back the session of this name that was deleted last; in which state it is now."""
    shelf = ArchiveIndex(store)
    with shelf.shelved(session, "undeleting a session"):
        found = _last_deleted(shelf, session)
        if shelf.is_live(session) or shelf.is_archived(session):
            raise SessionExists(
                f"There is a session {session} by now; delete or rename that one first. Nothing was changed.",
                session=session,
            )
        content, packed = os.path.join(found.path, CONTENT), shelf.packed_in(found.path)
        if shelf.disk.exists(packed):
            pair = shelf.pairs(session)[0]
            summary = read_archive(shelf.disk, packed).summary
            shelf.disk.make_folder(os.path.dirname(pair.archive))
            if is_own_summary(summary):
                shelf.write_summary(pair.summary, summary, packed)
            shelf.move(packed, pair.archive)
            state = ARCHIVED
        else:
            said = found.said.get("layout")
            layout = layout_named(said) if said in NAMES else store.layout
            shelf.put_in_place(in_this_layout(shelf, content, layout, session), session)
            state = "active"
        if not found.is_foreign:
            shelf.remove(found.path)
        shelf.tidy(session)
    return state


def announce_purge(store: FileStore, away: StoredAway, now: datetime, passed: timedelta | None = None) -> None:
    """Note that a purge is due; the next look, at least a day later, may carry it out. `passed`: `Evidence.passed`."""
    shelf = ArchiveIndex(store)
    with shelf.shelved(away.session, "announcing a purge"):
        if shelf.disk.exists(away.path):
            said = {**away.said, "purge_announced": to_text(now)}
            if passed is not None:
                said["passed_seconds"] = round(passed.total_seconds(), 3)
            shelf.write(shelf.record_of(away.path), {"deletion": said})


def purge_session(
    store: FileStore, session: str, at: str, note: Callable[[StoredAway], object], path: str | None = None
) -> StoredAway:
    """Remove a deleted session for good; `path` says which, if several of this name were deleted.

    `note` writes down that it was done, before the last byte goes: a session does not vanish without a word.
    """
    shelf = ArchiveIndex(store)
    with shelf.shelved(session, "purging a session"):
        matching = [away for away in shelf.deleted(session) if path in (None, away.path)]
        found = matching[0] if matching else _last_deleted(shelf, session)
        said = {**found.said, "session_id": session, "purged_at": at}
        shelf.write(shelf.record_of(found.path), {"deletion": said})
        waiting = shelf.put_out_of_sight(found.path)
        note(found)
        shelf.disk.remove(shelf.record_of(waiting))  # it need not be noted again
        shelf.disk.remove_tree(waiting)
    return found


def _last_deleted(shelf: ArchiveIndex, session: str) -> StoredAway:
    found = shelf.deleted(session)
    if not found:
        raise SessionNotFound(
            f"No session {session} was deleted. `smp session list --all` shows those that were.", session=session
        )
    return found[-1]
