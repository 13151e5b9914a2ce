"""The trash: whole sessions that were deleted, and deleted memories that are purged from a session's files.

Deleting a session, under the root's lock and the session's: a deletion record is written, then the session's files are moved
beside it; they are not read, so their size does not matter. Undeleting moves them back, or into the archive folder if the
session was archived. Purging moves them to a removal folder, then removes them.

Purging memories (`policies.purge` decides which) removes all their entries from the files in one rewrite (`store.rewrite`).
What was announced is in the user's state, because announcements that came with a repository must not count:

    purges/SESSION.json     {"announced": {"DEC-0001": [deleted at, announced at, passed seconds]}, "begun": ["DEC-0002"]}

Guarantees: each step of a session takes effect at one rename. A deleted session can be undeleted until it is purged,
unchanged, also if the store changed its layout meanwhile. The id of a deleted session may be used again at once.
A crash leaves all of a session's purge of memories done or none of it. Numbers of purged memories are never reused. Ids are in
`begun` from before the purge until the audit log has those that are gone.
Non-guarantees: purging frees the blocks on disk, it does not overwrite them. Without a state folder no purge is ever due, because
announcements end with the process.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any

from smp_memory.errors import Corrupt, SessionExists, SessionNotFound, SMPError, UserError
from smp_memory.files.archive import read_archive
from smp_memory.files.cold_segment import FILE as COLD
from smp_memory.files.cold_segment import ColdSegment, encode_reduced
from smp_memory.files.lock import SessionLock
from smp_memory.model.storage_reports import ARCHIVED, DELETED, LIVE, SessionHead
from smp_memory.model.times import to_moment, to_text
from smp_memory.policies.purge import AnnouncedPurge
from smp_memory.store.archive import in_store_layout
from smp_memory.store.archive_index import CONTENT, PACKED, ArchiveIndex
from smp_memory.store.archive_names import is_own_summary
from smp_memory.store.rewrite import SessionEdit, entries_of, private_name, rewrite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.files.reader import SessionReader
    from smp_memory.files.user_state import UserState
    from smp_memory.model.history import SessionHistory
    from smp_memory.policies.purge import PurgeCheck
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.port import Note


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
                f"There is a session {session} by now; delete or rename that one first. Nothing was changed.",
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


# -- purging memories


class PurgeNotes:
    """Announced purges of a session, and memories whose purge began and is not in the audit log yet; in the user's state."""

    def __init__(self, state: UserState, session: str) -> None:
        self._state = state
        self._name = os.path.join("purges", f"{session}.json")

    def announced(self) -> dict[str, AnnouncedPurge]:
        try:
            return {
                name: AnnouncedPurge(str(deleted), to_moment(at), timedelta(seconds=passed[0]) if passed else None)
                for name, (deleted, at, *passed) in self._load()["announced"].items()
            }
        except (UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            return {}

    def begun(self) -> list[str]:
        names = self._load().get("begun")
        return [str(name) for name in names] if isinstance(names, list) else []

    def _load(self) -> dict[str, Any]:
        try:
            fields = json.loads(self._state.read(self._name))
        except (FileNotFoundError, Corrupt, ValueError, RecursionError):
            return {}
        return fields if isinstance(fields, dict) else {}

    def write(self, announced: dict[str, AnnouncedPurge], begun: list[str]) -> None:
        """Durably if a purge begins: the audit record is written from it after a crash."""
        if not announced and not begun:
            self._state.remove(self._name)
            return
        fields = {
            name: [
                each.deleted,
                to_text(each.at),
                *([] if each.passed is None else [round(each.passed.total_seconds(), 3)]),
            ]
            for name, each in sorted(announced.items())
        }
        data = json.dumps({"announced": fields, "begun": begun})
        self._state.write(self._name, data.encode() + b"\n", durable=bool(begun))

    def audited(self, ids: list[str]) -> None:
        """The audit log has these memories now."""
        self.write(self.announced(), [name for name in self.begun() if name not in ids])

    def forget(self, ids: list[str]) -> None:
        """Remove memories that were erased."""
        announced = self.announced()
        if not announced.keys().isdisjoint(ids):
            left = {name: each for name, each in announced.items() if name not in ids}
            self.write(left, self.begun())


def announced_purges(session: FileSession) -> dict[str, AnnouncedPurge]:
    """The announced memories of a session, by id."""
    return PurgeNotes(session.state, session.session).announced()


def purged_ids(session: FileSession) -> list[str]:
    """Ids that were purged and are not in the audit log yet."""
    begun = PurgeNotes(session.state, session.session).begun()
    if not begun:
        return []
    cold = {row.id for row in ColdSegment(session.store.disk, os.path.join(session.reader.private, COLD)).rows()}
    present: set[str] = session.view(lambda session_history: {*session_history.histories} | cold)
    return [name for name in begun if name not in present]


def purge(
    session: FileSession,
    check: Callable[[SessionHistory, dict[str, AnnouncedPurge]], PurgeCheck],
    note: Callable[[list[str]], bool],
) -> PurgeCheck:
    """Announce and purge what `check` says, in one rewrite; `note` writes the audit record."""
    notes = PurgeNotes(session.state, session.session)
    checks: list[PurgeCheck] = [session.view(lambda session_history: check(session_history, notes.announced()))]

    def edit(reader: SessionReader) -> SessionEdit | None:
        before = notes.announced()
        checks[0] = found = check(reader.session_history, before)
        notes.write({**before, **found.announced}, list(dict.fromkeys([*notes.begun(), *found.due])))
        return removal_edit(reader, found.due) if found.due else None

    if checks[0].due:
        rewrite(session, "purging", edit)
    if checks[0].due:
        session.write_deletion_record()
    try:
        if checks[0].due or checks[0].announced != notes.announced():
            notes.write(checks[0].announced, notes.begun())
        purged = purged_ids(session)
        if purged and note(purged):
            notes.audited(purged)
    except (OSError, SMPError):
        if not checks[0].due:
            raise
        # The memories are gone, and stay noted as begun: the next check writes the audit record.
    return checks[0]


def removal_edit(reader: SessionReader, ids: list[str]) -> SessionEdit:
    """An edit that removes all entries of these memories from the session's files and its cold segment."""
    edit = SessionEdit()
    edit.destroys = True
    for entry in entries_of(reader, ids):
        edit.remove(entry)
    path = os.path.join(reader.private, COLD)
    if ids and reader.disk.exists(path):
        removed, data = encode_reduced(ColdSegment(reader.disk, path), lambda row: row.id in ids)
        if removed:
            edit.files[private_name(reader, COLD)] = data
    return edit
