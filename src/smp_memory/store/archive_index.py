"""Where are sessions that are put away? Archived ones in `archived/`, deleted ones in `deleted/`, below the store's root.

    archived/…, archive/…            the session (`files.archive`) and a summary, named as its layout does (`away_places`)
    deleted/{session}/deletion-record.json, or .yaml
    deleted/{session}/session/…      its files as they were, or `session.tar.gz` of an archived one

Who puts away or brings back holds the root's lock, `shelved`. A session that stands in its own place is the truth: an
archive beside it is what an interrupted step has left, if the session has all of its entries; otherwise somebody put the
session there (git, a restored backup), and the archive is kept as `….tar.gz.kept-{time}`. A deleted session whose name was used again and deleted again is
`deleted/{session}.2`; the last one is brought back first.

Guarantees: every step has one rename at which it happens. What an interrupted step left is recognised and taken away,
or completed, by `tidy`, which every later step of that session begins with. Listing writes nothing.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory import event_log
from smp_memory.errors import SessionArchived, SessionExists, SessionNotFound, SMPError, from_os_error
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.layouts.layout import ARCHIVED, PRIVATE
from smp_memory.files.lock import SessionLock
from smp_memory.model import ids
from smp_memory.model.times import to_moment
from smp_memory.store import archive_names
from smp_memory.store.archive_names import foreign_summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.store.archive_names import Pair
    from smp_memory.store.file_store import FileStore

DELETED = "deleted"
CONTENT, PACKED = "session", "session.tar.gz"
_BACKUP = "backup.tar.gz"  # of a session that another program deleted
ERASING = "erasing-plan.json"  # in a deleted session's private folder: how its files are to change
_LEAVING, _COMING = "leaving-", "coming-"


class StoredAway(NamedTuple):
    """A session that is put away."""

    session: str
    state: str  # archived or deleted
    when: datetime | None
    reason: str | None
    path: str  # its archive, or its folder below `deleted/`
    bytes: int
    said: dict[str, Any]  # the summary or the deletion record
    redacted: dict[str, int] | None = None  # what redaction took out of the reason that was just given

    @property
    def is_foreign(self) -> bool:
        """Whether another program deleted it: SMP does not purge it by itself, and leaves its record."""
        return self.state == DELETED and bool(self.said) and "state" not in self.said

    def to_dict(self) -> dict[str, Any]:
        """As `smp session list` shows it."""
        when = self.when.isoformat().replace("+00:00", "Z") if self.when else None
        data = {"id": self.session, "state": self.state, "since": when, "reason": self.reason, "bytes": self.bytes}
        return {**data, "redacted": self.redacted} if self.redacted else data


class ArchiveIndex:
    """The places, and what stands there."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.disk = store.disk
        self.trash = os.path.join(store.root, DELETED)
        self.private = os.path.join(store.root, PRIVATE)
        self.kept: dict[str, str] = {}  # archives that `tidy` kept beside a session, by session

    def pairs(self, session: str) -> list[Pair]:
        """Where an archive of this session and its summary may lie; first where this store puts them."""
        return archive_names.pairs(self.store.root, self.store.layout.name, session)

    def pair(self, session: str) -> Pair:
        """Where they lie; without an archive, where this store would put them."""
        pairs = self.pairs(session)
        return next((pair for pair in pairs if self.disk.exists(pair.archive)), pairs[0])

    def archive_of(self, session: str) -> str:
        return self.pair(session).archive

    def summary_of(self, session: str) -> str:
        return self.pair(session).summary

    def leaving(self, session: str) -> str:
        """Where something waits that is about to be removed."""
        return os.path.join(self.private, f"{_LEAVING}{session}{TEMPORARY}")

    def coming(self, session: str) -> str:
        """Where something is made ready to be moved into its place."""
        return os.path.join(self.private, f"{_COMING}{session}")

    def is_live(self, session: str) -> bool:
        return self.store.layout.exists(self.disk, self.store.root, session)

    def is_archived(self, session: str) -> bool:
        return not self.is_live(session) and self.disk.exists(self.archive_of(session))

    # -- what is there

    def archived(self) -> list[StoredAway]:
        """The archived sessions, by id."""
        return [self.archived_as(name) for name in self.archived_names()]

    def archived_names(self) -> list[str]:
        live = set(self.store.session_ids())
        return [name for name in archive_names.archived_names(self.disk, self.store.root) if name not in live]

    def archived_as(self, session: str) -> StoredAway:
        """One archived session; another process may have brought it back already."""
        path, summary = self.pair(session)
        said = archive_names.read(self.disk, summary)
        found = self.disk.stat(path)
        size = found.st_size if found else 0
        inner = next((value for value in said.values() if isinstance(value, dict) and "archived_at" in value), said)
        when = _moment(said.get("archived") or inner.get("archived_at"))
        return StoredAway(session, ARCHIVED, when, inner.get("reason"), path, size, said)

    def deleted(self, session: str | None = None) -> list[StoredAway]:
        """The deleted sessions, or those of this name; the one deleted last comes last."""
        return sorted(
            (away for folder in self.trash_folders(session) if (away := self._deleted(folder)) is not None),
            key=lambda away: (away.session, len(away.path), away.path),
        )

    def trash_folders(self, session: str | None = None) -> list[str]:
        names = [name for name in self.disk.folders(self.trash) if ids.is_valid(name.partition(".")[0])]
        return [os.path.join(self.trash, name) for name in names if session in (None, name.partition(".")[0])]

    def _deleted(self, folder: str) -> StoredAway | None:
        """A deletion whose content has come; before that the session is still where it was."""
        if not self.disk.names(os.path.join(folder, CONTENT)) and not self.disk.exists(self.packed_in(folder)):
            return None
        session = os.path.basename(folder).partition(".")[0]
        said = self.record_in(folder)
        return StoredAway(
            session, DELETED, _moment(said.get("deleted_at")), said.get("reason"), folder, said.get("bytes", 0), said
        )

    def packed_in(self, folder: str) -> str:
        """The archive in a folder of the trash. A record that names single memories does not mean the whole session."""
        backup = os.path.join(folder, _BACKUP)
        if self.disk.exists(backup):
            said = self.record_in(folder)
            if said and "state" not in said and not said.get("deleted_items"):
                return backup
        return os.path.join(folder, PACKED)

    def record_of(self, folder: str) -> str:
        """The deletion record in a folder of the trash; where this store would put it, if there is none."""
        own = archive_names.FORMS[self.store.layout.name].record
        paths = [os.path.join(folder, name) for name in dict.fromkeys((own, *archive_names.RECORDS))]
        return next((path for path in paths if self.disk.exists(path)), paths[0])

    def record_in(self, folder: str) -> dict[str, Any]:
        said = archive_names.read(self.disk, self.record_of(folder)).get("deletion")
        return said if isinstance(said, dict) else {}

    # -- under the root's lock

    @contextmanager
    def shelved(self, session: str, doing: str) -> Iterator[None]:
        """Hold the root's lock, with everything of this session that was interrupted put right."""
        ids.check(session, "session")
        try:
            with self.held(doing):
                self.tidy(session)
                yield
        finally:
            self.store.marks.mark_changed(session)

    @contextmanager
    def held(self, doing: str, timeout_seconds: float | None = None) -> Iterator[None]:
        """Hold the root's lock, without a look at any session."""
        store = self.store
        store.check_open()
        lock = SessionLock(self.disk, self.private, f"the store {store.root}")
        try:
            self.disk.make_folder(self.private)
            lock.acquire(store.config.lock_timeout_seconds if timeout_seconds is None else timeout_seconds)
            lock.sign(doing)
            try:
                self._complete_conversion()
                store.check_current()
                yield
            finally:
                lock.release()
                lock.close()
        except SMPError:
            raise
        except OSError as error:
            raise from_os_error(error, store.root, doing) from error

    def _complete_conversion(self) -> None:
        """One that died while this store was open: what is put away or brought back must be in the layout that holds."""
        from smp_memory.store.file_store import conversion_has_left_something

        if conversion_has_left_something(self.disk, self.store.root):
            from smp_memory.store.convert import complete

            complete(self.disk, self.store.root)

    def tidy(self, session: str) -> None:
        """Take away what waited to be removed; complete a step that moved only a part."""
        for name in self.disk.names(self.private):
            if name.startswith((_LEAVING, _COMING)):
                self._note_purge(os.path.join(self.private, name))
                self.disk.remove_tree(os.path.join(self.private, name))
        for folder in self.trash_folders(session):
            if self._deleted(folder) is not None:
                self._finish_plan(folder)
            elif self._is_unfinished_deletion(folder):
                self.remove(folder)  # a record whose session never came
        for pair in self.pairs(session):
            self._tidy_archive(session, pair)
        self._tidy_private(session)

    def _is_unfinished_deletion(self, folder: str) -> bool:
        """Whether nothing is there but a record of SMP. What another program wrote stays."""
        own = {CONTENT, *archive_names.RECORDS, *(name + TEMPORARY for name in archive_names.RECORDS)}
        if not own.issuperset(self.disk.names(folder)):
            return False
        return "state" in self.record_in(folder) or not self.disk.exists(self.record_of(folder))

    def _tidy_archive(self, session: str, pair: Pair) -> None:
        for path in pair:
            self.disk.remove(path + TEMPORARY)  # what came to nothing
        if not self.disk.exists(pair.archive):
            if self._is_own_summary(pair.summary):
                self.forget_archive(pair)
            else:
                self._remove_empty_folder(pair)
        elif self.is_live(session):
            self._settle_archive(session, pair)

    def _is_own_summary(self, path: str) -> bool:
        return self.disk.exists(path) and archive_names.is_own_summary(archive_names.read(self.disk, path))

    def _remove_empty_folder(self, pair: Pair) -> None:
        """In a layout where each archive has a folder of its own, that goes with it."""
        folder = os.path.dirname(pair.archive)
        parent = os.path.dirname(folder)
        if parent != self.store.root and self.disk.is_folder(folder) and not self.disk.names(folder):
            self.disk.system.rmdir(folder)
            self.disk.sync_folder(parent)

    def _settle_archive(self, session: str, pair: Pair) -> None:
        """An archive beside its session was left by an interrupted step, unless it holds what the session lacks."""
        from smp_memory.store.archive import is_in_place

        if is_in_place(self.store, pair.archive, session):
            self.forget_archive(pair)
            return
        kept = self.keep_aside(pair.archive)
        self.remove_summary(pair.summary)
        self.kept[session] = kept
        text = f"{session}: its archive holds entries that the session lacks; kept as {kept}"
        event_log.emit("recovery", event_log.WARNING, "archive_kept", text, session, path=kept)

    def keep_aside(self, path: str) -> str:
        """Give a file or folder another name beside it, under which nothing takes it away."""
        kept = f"{path}{archive_names.KEPT}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(2).hex()}"
        self.move(path, kept)
        return kept

    def _note_purge(self, path: str) -> None:
        """A session that was purged by somebody who died before he could say so."""
        said = self.record_in(path)
        if said.get("purged_at"):
            self.store.audit.note(
                "purge_session", at=said["purged_at"], session=said.get("session_id"), count=1, interrupted=True
            )

    def _finish_plan(self, folder: str) -> None:
        """What an erasure has committed and not carried out."""
        self.disk.remove(os.path.join(folder, PACKED) + TEMPORARY)
        content = os.path.join(folder, CONTENT)
        if self.disk.exists(os.path.join(content, PRIVATE, ERASING)):
            from smp_memory.store.archive_erasure import finish_plan

            finish_plan(self.disk, content)

    def forget_archive(self, pair: Pair) -> None:
        """Take away an archive whose session is back in its place, or was moved elsewhere."""
        self.disk.remove(pair.archive)
        self.remove_summary(pair.summary)
        self._remove_empty_folder(pair)

    def remove_summary(self, path: str) -> None:
        """Remove a summary of SMP; one of another program is kept under another name."""
        if self._is_own_summary(path):
            self.disk.remove(path)
        elif self.disk.exists(path):
            self.keep_aside(path)
        if self.disk.exists(os.path.dirname(path)):
            self.disk.sync_folder(os.path.dirname(path))

    def _tidy_private(self, session: str) -> None:
        """In a layout where a session is one file, its private folder follows the file in a second step."""
        store = self.store
        if store.layout.info_file or self.is_live(session):
            return
        private = store.layout.private(store.root, session)
        if not self.disk.exists(private):
            return
        last = next(reversed(self.deleted(session)), None)
        inside = os.path.join(last.path, CONTENT, PRIVATE) if last is not None else ""
        if last is not None and self.disk.exists(os.path.join(last.path, CONTENT)) and not self.disk.exists(inside):
            self.move(private, inside)
        elif self.disk.exists(self.archive_of(session)):
            from smp_memory.store.archive import holds_private_files

            if holds_private_files(self.store, self.archive_of(session), private):
                self.remove(private)
            else:
                self.keep_aside(private)

    def put_in_place(self, prepared: str, session: str) -> None:
        """Give a folder with a session's files the session's name; the last rename is the one that counts."""
        store = self.store
        target = store.layout.folder(store.root, session)
        if store.layout.info_file:
            self.disk.make_folder(os.path.dirname(target))
            self.disk.make_folder(os.path.join(prepared, PRIVATE))  # who has the session open looks for its lock there
            self.move(prepared, target)
            return
        private = store.layout.private(store.root, session)
        if self.disk.exists(os.path.join(prepared, PRIVATE)):
            self.disk.remove_tree(private)
            self.move(os.path.join(prepared, PRIVATE), private)
        else:
            self.disk.make_folder(private)
        for name in store.layout.files(self.disk, prepared, session):
            self.move(os.path.join(prepared, name), os.path.join(target, name))

    def take_out(self, session: str, target: str) -> None:
        """Move a session's files into a folder that is not there yet; the first rename is the one that counts."""
        store = self.store
        if store.layout.info_file:
            self.move(store.layout.folder(store.root, session), target)
            return
        self.disk.make_folder(target)
        folder = store.layout.folder(store.root, session)
        for name in store.layout.files(self.disk, folder, session):
            self.move(os.path.join(folder, name), os.path.join(target, name))
        self.move(store.layout.private(store.root, session), os.path.join(target, PRIVATE))

    def move(self, source: str, target: str) -> None:
        """Rename, durably."""
        self.disk.move(source, target)
        for folder in dict.fromkeys((os.path.dirname(target), os.path.dirname(source))):
            self.disk.sync_folder(folder)

    def remove(self, path: str) -> None:
        """Remove all of it: nobody sees a part of it."""
        self.disk.remove_tree(self.put_out_of_sight(path))

    def put_out_of_sight(self, path: str) -> str:
        """Where it waits to be removed."""
        waiting = self.leaving(os.path.basename(path))
        self.disk.remove_tree(waiting)
        self.move(path, waiting)
        return waiting

    def write(self, path: str, fields: dict[str, Any]) -> None:
        self.disk.make_folder(os.path.dirname(path))
        self.disk.replace(path, archive_names.encode(path, fields))

    def write_summary(self, path: str, said: dict[str, Any], archive: str) -> None:
        """Write the summary of an archive, with what only the finished archive can tell."""
        found = self.disk.stat(archive)
        when = {"archived_at": said["archived"]} if said.get("archived") else {}
        self.write(path, {**said, **when, "compressed_size_bytes": found.st_size if found else 0})


def why_not_here(store: FileStore, session: str) -> SMPError:
    """Where a session is that is not in its place, and what to do about it."""
    shelf = ArchiveIndex(store)
    if shelf.disk.exists(shelf.archive_of(session)):
        return SessionArchived(
            f"Session {session} is archived. `smp session restore {session}` or memory.session({session!r}) brings it back.",
            session=session,
            path=shelf.archive_of(session),
        )
    deleted = shelf.deleted(session)
    hint = f"It was deleted; `smp session undelete {session}` brings it back." if deleted else ""
    if not deleted and (summary := foreign_summary(store.disk, store.root, session)):
        hint = f"Another program left a summary of it, {summary}; the memories themselves are not there."
    return SessionNotFound(
        f"No session {session} in {store.root}. {hint or f'`smp session list` shows those that are there, `smp session new {session}` starts it.'}",
        session=session,
        path=store.root,
    )


def free_name(store: FileStore, session: str) -> None:
    """See that a new session may have this name: nothing archived has it, and nothing of a deleted one is in the way."""
    shelf = ArchiveIndex(store)
    if shelf.is_archived(session):
        raise SessionExists(
            f"There is an archived session {session}; memory.session({session!r}) brings it back.", session=session
        )
    if not store.layout.info_file and not shelf.is_live(session) and shelf.deleted(session):
        with shelf.shelved(session, "creating a session"):
            pass


def _moment(text: Any) -> datetime | None:
    try:
        return to_moment(text) if isinstance(text, str) else None
    except ValueError:
        return None
