"""Where are sessions that are put away? Archived ones in `archived/`, deleted ones in `deleted/`, below the store's root.

    archived/{session}.tar.gz        the session (`files.archive`)
    archived/{session}.json          what it was about, to be read without unpacking it
    deleted/{session}/deletion-record.json
    deleted/{session}/session/…      its files as they were, or `session.tar.gz` of an archived one

Who puts away or brings back holds the root's lock, `shelved`. A session that stands in its own place is the truth: an
archive beside it is what an interrupted step has left, if the session has all of its entries; otherwise somebody put the
session there (git, a restored backup), and the archive is kept as `{session}.tar.gz.kept-{time}`. A deleted session whose name was used again and deleted again is
`deleted/{session}.2`; the last one is brought back first.

Guarantees: every step has one rename at which it happens. What an interrupted step left is recognised and taken away,
or completed, by `tidy`, which every later step of that session begins with. Listing writes nothing.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from smp import event_log
from smp.errors import SessionArchived, SessionExists, SessionNotFound, SMPError, StorageCorrupt, from_os_error
from smp.files.disk import TEMPORARY
from smp.files.layouts.layout import ARCHIVED, PRIVATE
from smp.files.lock import SessionLock
from smp.model import ids
from smp.model.time import to_moment
from smp.store.foreign_archives import foreign_archive, how_to_restore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.store.file_store import FileStore

DELETED = "deleted"
RECORD = "deletion-record.json"
CONTENT, PACKED = "session", "session.tar.gz"
_ARCHIVE_ENDING, _SUMMARY_ENDING = ".tar.gz", ".json"
ERASING = "erasing-plan.json"  # in a deleted session's private folder: how its files are to change
KEPT = ".kept-"
_LARGEST_BYTES = 16 << 20  # of a summary or a deletion record
_LEAVING, _COMING = "leaving-", "coming-"


class Away(NamedTuple):
    """A session that is put away."""

    session: str
    state: str  # archived or deleted
    when: datetime | None
    reason: str | None
    path: str  # its archive, or its folder below `deleted/`
    bytes: int
    said: dict[str, Any]  # the summary or the deletion record

    def to_dict(self) -> dict[str, Any]:
        """As `smp session list` shows it."""
        when = self.when.isoformat().replace("+00:00", "Z") if self.when else None
        return {"id": self.session, "state": self.state, "since": when, "reason": self.reason, "bytes": self.bytes}


class Shelf:
    """The places, and what stands there."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.disk = store.disk
        self.archives = os.path.join(store.root, ARCHIVED)
        self.trash = os.path.join(store.root, DELETED)
        self.private = os.path.join(store.root, PRIVATE)
        self.kept: dict[str, str] = {}  # archives that `tidy` kept beside a session, by session

    def archive_of(self, session: str) -> str:
        return os.path.join(self.archives, session + _ARCHIVE_ENDING)

    def summary_of(self, session: str) -> str:
        return os.path.join(self.archives, session + _SUMMARY_ENDING)

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

    def archived(self) -> list[Away]:
        """The archived sessions, by id."""
        return [self.archived_as(name) for name in self.archived_names()]

    def archived_names(self) -> list[str]:
        live = set(self.store.session_ids())
        names = (name.removesuffix(_ARCHIVE_ENDING) for name in _named(self.disk.names(self.archives)))
        return [name for name in names if ids.is_valid(name) and name not in live]

    def archived_as(self, session: str) -> Away:
        """One archived session; another process may have brought it back already."""
        path = self.archive_of(session)
        said = self._said(self.summary_of(session))
        found = self.disk.stat(path)
        size = found.st_size if found else 0
        return Away(session, ARCHIVED, _moment(said.get("archived")), said.get("reason"), path, size, said)

    def deleted(self, session: str | None = None) -> list[Away]:
        """The deleted sessions, or those of this name; the one deleted last comes last."""
        return sorted(
            (away for folder in self.trash_folders(session) if (away := self._deleted(folder)) is not None),
            key=lambda away: (away.session, len(away.path), away.path),
        )

    def trash_folders(self, session: str | None = None) -> list[str]:
        names = [name for name in self.disk.folders(self.trash) if ids.is_valid(name.partition(".")[0])]
        return [os.path.join(self.trash, name) for name in names if session in (None, name.partition(".")[0])]

    def _deleted(self, folder: str) -> Away | None:
        """A deletion whose content has come; before that the session is still where it was."""
        if not self.disk.names(os.path.join(folder, CONTENT)) and not self.disk.exists(os.path.join(folder, PACKED)):
            return None
        session = os.path.basename(folder).partition(".")[0]
        said = self._said(os.path.join(folder, RECORD)).get("deletion", {})
        return Away(
            session, DELETED, _moment(said.get("deleted_at")), said.get("reason"), folder, said.get("bytes", 0), said
        )

    def _is_bare_record(self, folder: str) -> bool:
        """Whether a folder without a session holds only what an interrupted deletion leaves, and no files of another program."""
        left = {RECORD, RECORD + TEMPORARY, CONTENT, PACKED + TEMPORARY}
        return all(name in left for name in self.disk.names(folder))

    def _said(self, path: str) -> dict[str, Any]:
        try:
            said = json.loads(self.disk.read(path, 0, _LARGEST_BYTES))
        except (OSError, ValueError, RecursionError, StorageCorrupt):
            return {}  # a person may have removed or edited it; the session itself counts
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
            self.store.marks.set(session)

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
        from smp.store.file_store import conversion_has_left_something

        if conversion_has_left_something(self.disk, self.store.root):
            from smp.store.convert import complete

            complete(self.disk, self.store.root)

    def tidy(self, session: str) -> None:
        """Take away what waited to be removed; complete a step that moved only a part."""
        for name in self.disk.names(self.private):
            if name.startswith((_LEAVING, _COMING)):
                self._note_purge(os.path.join(self.private, name))
                self.disk.remove_tree(os.path.join(self.private, name))
        for path in (self.archive_of(session), self.summary_of(session)):
            self.disk.remove(path + TEMPORARY)  # what came to nothing
        for folder in self.trash_folders(session):
            if self._deleted(folder) is not None:
                self._finish_plan(folder)
            elif self._is_bare_record(folder):
                self.remove(folder)  # a record whose session never came
        archive, summary = (self.disk.exists(path) for path in (self.archive_of(session), self.summary_of(session)))
        if archive and self.is_live(session):
            self._settle_archive(session)
        elif summary and not archive:
            self.forget_archive(session)
        self._tidy_private(session)

    def _settle_archive(self, session: str) -> None:
        """An archive beside its session was left by an interrupted step, unless it holds what the session lacks."""
        from smp.store.archive_compare import is_in_place

        if is_in_place(self.store, self.archive_of(session), session):
            self.forget_archive(session)
            return
        kept = self.keep_aside(self.archive_of(session))
        self.disk.remove(self.summary_of(session))
        self.disk.sync_folder(self.archives)
        self.kept[session] = kept
        text = f"{session}: its archive holds entries that the session lacks; kept as {kept}"
        event_log.emit("recovery", event_log.WARNING, "archive_kept", text, session, path=kept)

    def keep_aside(self, path: str) -> str:
        """Give a file or folder another name beside it, under which nothing takes it away."""
        kept = f"{path}{KEPT}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(2).hex()}"
        self.move(path, kept)
        return kept

    def _note_purge(self, path: str) -> None:
        """A session that was purged by somebody who died before he could say so."""
        said = self._said(os.path.join(path, RECORD)).get("deletion", {})
        if said.get("purged_at"):
            self.store.audit.note(
                "purge_session", at=said["purged_at"], session=said.get("session_id"), count=1, interrupted=True
            )

    def _finish_plan(self, folder: str) -> None:
        """What an erasure has committed and not carried out."""
        self.disk.remove(os.path.join(folder, PACKED) + TEMPORARY)
        content = os.path.join(folder, CONTENT)
        if self.disk.exists(os.path.join(content, PRIVATE, ERASING)):
            from smp.store.erasing_away import finish_plan

            finish_plan(self.disk, content)

    def forget_archive(self, session: str) -> None:
        """Take away an archive whose session is back in its place, or was moved elsewhere."""
        self.disk.remove(self.archive_of(session))
        self.disk.remove(self.summary_of(session))
        self.disk.sync_folder(self.archives)

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
            from smp.store.archive_compare import holds_private_files

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
        self.disk.replace(path, (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode())


def why_not_here(store: FileStore, session: str) -> SMPError:
    """Where a session is that is not in its place, and what to do about it."""
    shelf = Shelf(store)
    if shelf.disk.exists(shelf.archive_of(session)):
        return SessionArchived(
            f"Session {session} is archived. `smp session restore {session}` or memory.session({session!r}) brings it back.",
            session=session,
            path=shelf.archive_of(session),
        )
    deleted = shelf.deleted(session)
    hint = f"It was deleted; `smp session undelete {session}` brings it back." if deleted else ""
    foreign = None if deleted else foreign_archive(store.disk, store.root, session)
    if foreign is not None:
        restoring = how_to_restore(foreign, store.root, store.layout, session)
        hint = f"Another program archived it in {foreign}, which SMP does not read. {restoring}"
    return SessionNotFound(
        f"No session {session} in {store.root}. {hint or f'`smp session list` shows those that are there, `smp session new {session}` starts it.'}",
        session=session,
        path=store.root,
    )


def free_name(store: FileStore, session: str) -> None:
    """See that a new session may have this name: nothing archived has it, and nothing of a deleted one is in the way."""
    shelf = Shelf(store)
    if shelf.is_archived(session):
        raise SessionExists(
            f"There is an archived session {session}; memory.session({session!r}) brings it back.", session=session
        )
    if not store.layout.info_file and not shelf.is_live(session) and shelf.deleted(session):
        with shelf.shelved(session, "creating a session"):
            pass


def _named(names: list[str]) -> list[str]:
    return sorted(name for name in names if name.endswith(_ARCHIVE_ENDING))


def _moment(text: Any) -> datetime | None:
    try:
        return to_moment(text) if isinstance(text, str) else None
    except ValueError:
        return None
