"""Archived and deleted sessions below the store's root: listing, moving and recovering them.

    archived/…, archive/…            the archive (`files.archive`) and its summary, named by layout (`archive_names`)
    deleted/{session}/deletion-record.json, or .yaml
    deleted/{session}/session/…      the files as they were, or `session.tar.gz` of an archived session
    deleted/{session}/session.{layout}/…   the files converted, if an undelete was interrupted after it had converted them

Archiving, restoring, deleting and undeleting hold the root's lock (`locked`). A live session is the truth: an archive
beside it was left by an interrupted step if the session has all of the archive's entries. Otherwise another program put
the session there (git, a restored backup), and the archive is kept as `….tar.gz.kept-{time}`. When the name of a deleted
session was used and deleted again, the second one is `deleted/{session}.2`; the last one is undeleted first.

Guarantees: every step takes effect at one rename. `recover`, which every later step of that session begins with, detects
what an interrupted step left and removes or completes it. Listing writes nothing.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from smp_memory.errors import (
    DurabilityUnknown,
    SessionCorrupt,
    SMPError,
    StorageCorrupt,
    done_before_failure,
    from_os_error,
)
from smp_memory.files.disk import TEMPORARY, identity
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.lock import SessionLock
from smp_memory.model import ids
from smp_memory.model.session_info import ARCHIVED, DELETED, SessionHead
from smp_memory.observe import telemetry
from smp_memory.store import archive_names
from smp_memory.store.archive_names import layout_in, names_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.files.layouts.layout import Layout
    from smp_memory.store.archive_names import ArchivePaths
    from smp_memory.store.file_store import FileStore

CONTENT, PACKED = "session", "session.tar.gz"
_LOCKS = (f"{PRIVATE}/lock", f"{PRIVATE}/queue")
_BACKUP = "backup.tar.gz"  # of a session that another program deleted
_REMOVAL, _STAGING = "leaving-", "coming-"  # prefixes of names in the root's private folder


class ArchiveIndex:
    """The archives and the trash of one store."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.disk = store.disk
        self.trash = os.path.join(store.root, DELETED)
        self.private = os.path.join(store.root, PRIVATE)
        self.kept: dict[str, str] = {}  # by session: an archive that `recover` kept beside the live session

    def pairs(self, session: str) -> list[ArchivePaths]:
        """Possible paths of a session's archive and summary; those of the store's own layout first."""
        return archive_names.pairs(self.store.root, self.store.layout.name, session)

    def pair(self, session: str) -> ArchivePaths:
        """The paths of the existing archive and its summary; without an archive, those that this store would use."""
        pairs = self.pairs(session)
        return next((pair for pair in pairs if self.disk.exists(pair.archive)), pairs[0])

    def archive_path(self, session: str) -> str:
        return self.pair(session).archive

    def removal_path(self, session: str) -> str:  # where files are moved before they are removed
        return os.path.join(self.private, f"{_REMOVAL}{session}{TEMPORARY}")

    def staging_path(self, session: str) -> str:
        """Where the files of a restored session are prepared."""
        return os.path.join(self.private, f"{_STAGING}{session}")

    def is_live(self, session: str) -> bool:
        return self.store.has_session(session)

    def is_archived(self, session: str) -> bool:
        return not self.is_live(session) and self.disk.exists(self.archive_path(session))

    # -- listing

    def archived(self, session: str | None = None) -> list[SessionHead]:
        """The archived sessions, or that of this name, by id. Of some, another program left only a summary."""
        if session is None:
            listing = self.store.archive_listing
            if listing is None:
                listing = archive_names.ArchiveListing(self.disk, self.store.root, self.store.layout.sessions)
                self.store.archive_listing = listing
            archives, summaries = listing.read(self.store.session_ids)
        elif self.is_live(session):
            return []
        else:
            found = archive_names.foreign_summary(self.disk, self.store.root, session)
            archives = [session] if self.disk.exists(self.archive_path(session)) else []
            summaries = {session: found} if found and not archives else {}
        return sorted(
            [*map(self.archived_session, archives), *(self._summarised(*each) for each in summaries.items())],
            key=lambda each: each.session,
        )

    def archived_session(self, session: str) -> SessionHead:
        return SessionHead(session, ARCHIVED, None, self._read_archived)  # every search counts the archived sessions

    def _summarised(self, session: str, path: str) -> SessionHead:
        return SessionHead(session, ARCHIVED, path, self._read_archived, has_memories=False, bytes=0, version=None)

    def _read_archived(self, head: SessionHead, name: str) -> Any:
        """Find an archive, read its size or its summary. Another process may have restored it already; then its size is 0."""
        if name == "path":
            return self.archive_path(head.session)
        if name in ("archived", "written"):  # fields of sessions in other states
            return None
        if name in ("version", "bytes"):
            found = self.disk.stat(head.path)
            head.version, head.bytes = (identity(found), found.st_size) if found else (None, 0)
        else:
            summary = self.pair(head.session).summary if head.has_memories else head.path
            head.metadata = fields = archive_names.read(self.disk, summary)
            nested = (value for value in fields.values() if isinstance(value, dict) and "archived_at" in value)
            inner = next(nested, fields)
            head.when = archive_names.moment_of(fields.get("archived") or inner.get("archived_at"))
            head.reason = archive_names.text_of(inner.get("reason"))
        return getattr(head, name)

    def deleted(self, session: str | None = None) -> list[SessionHead]:
        """The deleted sessions, or those of this name, in the order of deletion."""
        return sorted(
            (each for folder in self.trash_folders(session) if (each := self._deleted(folder)) is not None),
            key=lambda each: (each.session, len(each.path), each.path),
        )

    def content_path(self, folder: str) -> str:
        """The folder with the files of a deleted session: as they were, or in another layout."""
        paths = [os.path.join(folder, CONTENT), *self._converted_paths(folder)]
        return next((path for path in paths if self._content_layout(path) is not None), paths[0])

    def content_layout(self, deleted: SessionHead) -> Layout:
        """The layout of these files. Raises `SessionCorrupt` if they are not those of a session."""
        path = self.content_path(deleted.path)
        layout = self._content_layout(path, deleted.metadata.get("layout"))
        if layout is None:
            raise SessionCorrupt(
                f"{path} has no files of session {deleted.session} in any layout. Nothing was changed.",
                session=deleted.session,
                path=path,
            )
        return layout

    def _content_layout(self, path: str, stated: object = None) -> Layout | None:
        session = os.path.basename(os.path.dirname(path)).partition(".")[0]
        converted = os.path.basename(path).partition(".")[2]
        return layout_in(self.disk, path, session, converted or stated, self.store.layout)

    def converted_path(self, folder: str) -> str:
        """Where an undelete puts the files after it has converted them to the store's layout."""
        return os.path.join(folder, f"{CONTENT}.{self.store.layout.name}")

    def _converted_paths(self, folder: str) -> list[str]:
        return [os.path.join(folder, f"{CONTENT}.{name}") for name in NAMES]

    def trash_folders(self, session: str | None = None) -> list[str]:
        names = [name for name in self.disk.folders(self.trash) if ids.is_valid(name.partition(".")[0])]
        return [os.path.join(self.trash, name) for name in names if session in (None, name.partition(".")[0])]

    def _deleted(self, folder: str) -> SessionHead | None:
        """The deleted session in a trash folder; None if its files were not moved there, because the deletion was interrupted."""
        session = os.path.basename(folder).partition(".")[0]
        record = self.read_record(folder)
        if not self._has_content(folder, bool(record)) and not self.disk.exists(self.trash_archive_path(folder)):
            return None
        when, reason = archive_names.moment_of(record.get("deleted_at")), archive_names.text_of(record.get("reason"))
        size = archive_names.count_of(record.get("bytes"))
        return SessionHead(
            session, DELETED, folder, self._read_deleted, when=when, reason=reason, bytes=size, metadata=record
        )

    def _read_deleted(self, head: SessionHead, name: str) -> object:
        """A field of a deleted session that is read when it is asked for."""
        packed = self.trash_archive_path(head.path)
        return self.store.archive_summary(packed) if name == "archived" and self.disk.exists(packed) else None

    def _has_content(self, folder: str, has_record: bool) -> bool:
        """Whether a trash folder has the files of a session, or what its record says is one. An undelete reports what is wrong."""
        try:
            content = self.content_path(folder)
            return self._content_layout(content) is not None or (has_record and bool(self.disk.names(content)))
        except StorageCorrupt:  # a symbolic link
            return True

    def trash_archive_path(self, folder: str) -> str:
        """The archive in a trash folder. Another program's backup counts only if its record is about the whole session."""
        backup = os.path.join(folder, _BACKUP)
        if self.disk.exists(backup):
            record = self.read_record(folder)
            if record and "state" not in record and not record.get("deleted_items"):
                return backup
        return os.path.join(folder, PACKED)

    def record_path(self, folder: str) -> str:
        """The deletion record in a trash folder; the path that this store would use if there is none."""
        own = archive_names.FORMS[self.store.layout.name].record
        paths = [os.path.join(folder, name) for name in dict.fromkeys((own, *archive_names.RECORDS))]
        return next((path for path in paths if self.disk.exists(path)), paths[0])

    def read_record(self, folder: str) -> dict[str, Any]:
        record = archive_names.read(self.disk, self.record_path(folder)).get("deletion")
        return record if isinstance(record, dict) else {}

    # -- under the root's lock

    @contextmanager
    def locked(self, session: str, operation: str) -> Iterator[None]:
        """Hold the root's lock, after recovering interrupted steps of this session.

        An error after the session was moved is DurabilityUnknown: `recover` completes that step.
        """
        ids.check(session, "session")
        try:
            with self.locked_root(operation):
                self.recover(session)
                before = self._places(session)
                try:
                    yield
                except (OSError, SMPError) as error:
                    if isinstance(error, DurabilityUnknown) or self._places(session) == before:
                        raise
                    raise done_before_failure(
                        error, f"Session {session} was moved while {operation}", self.store.root
                    ) from error
        finally:
            self.store.mark_changed(session)

    def _places(self, session: str) -> tuple[bool, bool, list[str]]:
        """Where sessions of this name are: live, archived, in the trash."""
        is_archived = self.disk.exists(self.archive_path(session))
        return self.is_live(session), is_archived, [each.path for each in self.deleted(session)]

    @contextmanager
    def locked_root(self, operation: str, timeout_seconds: float | None = None) -> Iterator[None]:
        """Hold the root's lock; no session is recovered."""
        store = self.store
        store.check_open()
        lock = SessionLock(self.disk, self.private, f"the store {store.root}")
        try:
            self.disk.make_folder(self.private)
            lock.acquire(store.config.lock_timeout_seconds if timeout_seconds is None else timeout_seconds)
            lock.sign(operation)
            try:
                store.complete_conversion()  # files must be moved in the layout that is in force
                store.check_current()
                yield
            finally:
                lock.release()
                lock.close()
        except SMPError:
            raise
        except OSError as error:
            raise from_os_error(error, store.root, operation) from error

    def recover(self, session: str) -> None:
        """Remove what interrupted steps left behind, and complete those that moved only some of a session's files."""
        for name in self.disk.names(self.private):
            if name.startswith((_REMOVAL, _STAGING)):
                self._note_purge(os.path.join(self.private, name))
                self.disk.remove_tree(os.path.join(self.private, name))
        for folder in self.trash_folders(session):
            if self._deleted(folder) is not None:
                self._remove_unused_conversions(folder)
                self.disk.remove(os.path.join(folder, PACKED) + TEMPORARY)
            elif self._is_unfinished_deletion(folder):
                self.remove(folder)  # a record whose session was never moved here
        for pair in self.pairs(session):
            self._recover_archive(session, pair)
        self._recover_beside(session)

    def _is_unfinished_deletion(self, folder: str) -> bool:
        """Whether the folder holds nothing but a record of SMP, maybe that of single memories. Files of other programs stay."""
        own = {*archive_names.RECORDS, *(name + TEMPORARY for name in archive_names.RECORDS)}
        if not own.issuperset(names_below(self.disk, folder)):
            return False
        record = self.read_record(folder)
        return "state" in record or "written_by" in record or not self.disk.exists(self.record_path(folder))

    def _remove_unused_conversions(self, folder: str) -> None:
        """Remove converted files beside those that they were made from: the undelete did not get far enough to need them."""
        if self.content_path(folder) == os.path.join(folder, CONTENT):
            for path in self._converted_paths(folder):
                if self._content_layout(path) is not None:  # others are files of other programs
                    self.remove(path)

    def _recover_archive(self, session: str, pair: ArchivePaths) -> None:
        for path in pair:
            self.disk.remove(path + TEMPORARY)  # of an interrupted write
        if not self.disk.exists(pair.archive):
            if self._is_own_summary(pair.summary):
                self.remove_archive(pair)
            else:
                self._remove_empty_folder(pair)
        elif self.is_live(session):
            self._resolve_live_archive(session, pair)

    def _is_own_summary(self, path: str) -> bool:
        return self.disk.exists(path) and archive_names.is_own_summary(archive_names.read(self.disk, path))

    def _remove_empty_folder(self, pair: ArchivePaths) -> None:
        """Remove the archive's folder, in a layout where each archive has one."""
        folder = os.path.dirname(pair.archive)
        parent = os.path.dirname(folder)
        if parent != self.store.root and self.disk.is_folder(folder) and not self.disk.names(folder):
            self.disk.system.rmdir(folder)
            self.disk.sync_folder(parent)

    def _resolve_live_archive(self, session: str, pair: ArchivePaths) -> None:
        """Remove the archive of a live session, or keep it under another name if it holds entries that the session lacks."""
        if self.store.holds_all_of_archive(pair.archive, session):
            self.remove_archive(pair)
            return
        kept = self.rename_as_kept(pair.archive)
        self.remove_summary(pair.summary)
        self.kept[session] = kept
        text = f"{session}: its archive holds entries that the session lacks; kept as {kept}"
        telemetry.emit("recovery", telemetry.WARNING, "archive_kept", text, session, path=kept)

    def rename_as_kept(self, path: str) -> str:
        """Rename a file or folder so that no later step removes it; returns the new path."""
        kept = f"{path}{archive_names.KEPT}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(2).hex()}"
        self.move(path, kept)
        return kept

    def _note_purge(self, path: str) -> None:
        """Write the audit record of a purge whose process died before writing it."""
        record = self.read_record(path)
        if record.get("purged_at"):
            self.store.audit.note(
                "purge_session", at=record["purged_at"], session=record.get("session_id"), count=1, interrupted=True
            )

    def remove_archive(self, pair: ArchivePaths) -> None:
        """Remove an archive and its summary, after its session was restored or moved elsewhere."""
        self.disk.remove(pair.archive)
        self.remove_summary(pair.summary)
        self._remove_empty_folder(pair)

    def remove_summary(self, path: str) -> None:
        """Remove a summary written by SMP; one of another program is kept under another name."""
        if self._is_own_summary(path):
            self.disk.remove(path)
        elif self.disk.exists(path):
            self.rename_as_kept(path)
        if self.disk.exists(os.path.dirname(path)):
            self.disk.sync_folder(os.path.dirname(path))

    def _recover_beside(self, session: str) -> None:
        """Move or remove a private folder and a cold segment that were left behind, in layouts where they are moved after the session's file.

        A cold segment also if the store has another layout by now.
        """
        if self.is_live(session):
            return
        cold = layout_named("single").cold_file(session)
        has_folders = bool(self.store.layout.info_file)
        left = {cold: os.path.join(self.store.root, cold)} if has_folders else self._beside(session)
        for name, path in left.items():
            if not self.disk.exists(path):
                continue
            last = next(reversed(self.deleted(session)), None)
            content = self.content_path(last.path) if last is not None else ""
            inside = os.path.join(content, name)
            belongs = self.disk.exists(os.path.join(content, f"{session}.jsonl")) if has_folders else True
            if content and belongs and self.disk.exists(content) and not self.disk.exists(inside):
                self.move(path, inside)
            elif self.disk.exists(self.archive_path(session)):
                if self.store.archive_holds(self.archive_path(session), path, name):
                    self.remove(path)
                else:
                    self.rename_as_kept(path)

    def _beside(self, session: str) -> dict[str, str]:
        """The private folder and the cold segment of a session without a folder of its own: by name inside an archive, the path."""
        layout, root = self.store.layout, self.store.root
        cold = layout.cold_file(session)
        return {cold: os.path.join(layout.folder(root, session), cold), PRIVATE: layout.private(root, session)}

    def move_in(self, prepared: str, session: str) -> None:
        """Move a folder with a session's files to where live sessions are. The last rename decides."""
        store = self.store
        target = store.layout.folder(store.root, session)
        if store.layout.info_file:
            self.disk.make_folder(os.path.dirname(target))
            # A process that still has the session open expects its lock in this folder.
            self.disk.make_folder(os.path.join(prepared, PRIVATE))
            self._clear(target)
            self.move(prepared, target)
            return
        for name, path in self._beside(session).items():
            if self.disk.exists(os.path.join(prepared, name)):
                if name == PRIVATE:
                    self.disk.remove_tree(path)
                elif self.disk.exists(path):  # a cold segment that another clone left: its memories may be nowhere else
                    self.rename_as_kept(path)
                self.move(os.path.join(prepared, name), path)
        self.disk.make_folder(store.layout.private(store.root, session))
        for name in store.layout.files(self.disk, prepared, session):
            self.move(os.path.join(prepared, name), os.path.join(target, name))

    def _clear(self, folder: str) -> None:
        """Make room for a session where a conversion or a crash left files: locks and new overviews go, all others are kept beside it."""
        if not self.disk.is_folder(folder):
            return
        removable = {*_LOCKS, *(name for name, _ in self.store.layout.first_files)}
        if removable.issuperset(names_below(self.disk, folder)):
            self.remove(folder)
        else:
            self.rename_as_kept(folder)

    def move_out(self, session: str, target: str) -> None:
        """Move a session's files into a new folder. The first rename decides."""
        store = self.store
        if store.layout.info_file:
            self.move(store.layout.folder(store.root, session), target)
            return
        self.disk.make_folder(target)
        folder = store.layout.folder(store.root, session)
        for name in store.layout.files(self.disk, folder, session):
            self.move(os.path.join(folder, name), os.path.join(target, name))
        for name, path in self._beside(session).items():
            if self.disk.exists(path):
                self.move(path, os.path.join(target, name))

    def move(self, source: str, target: str) -> None:
        """Rename and fsync both folders."""
        self.disk.move(source, target)
        for folder in dict.fromkeys((os.path.dirname(target), os.path.dirname(source))):
            self.disk.sync_folder(folder)

    def remove(self, path: str) -> None:
        """Remove a file or folder at once: readers never see a part of it."""
        self.disk.remove_tree(self.stage_removal(path))

    def remove_trash(self, folder: str) -> None:
        """Remove what SMP wrote into a trash folder after its session has left it. Files of other programs stay."""
        self.disk.remove(self.record_path(folder))
        for path in (os.path.join(folder, CONTENT), *self._converted_paths(folder)):
            if self.disk.is_folder(path) and not any(True for _ in names_below(self.disk, path)):
                self.disk.remove_tree(path)
        if not self.disk.names(folder):
            self.remove(folder)

    def stage_removal(self, path: str) -> str:
        """Move a file or folder to where it can be removed step by step; returns the new path."""
        waiting = self.removal_path(os.path.basename(path))
        self.disk.remove_tree(waiting)
        self.move(path, waiting)
        return waiting

    def write(self, path: str, fields: dict[str, Any]) -> None:
        self.disk.make_folder(os.path.dirname(path))
        self.disk.replace(path, archive_names.encode(path, fields))

    def write_summary(self, path: str, summary: dict[str, Any], archive: str) -> None:
        """Write the summary beside an archive, with the archive's size."""
        found = self.disk.stat(archive)
        when = {"archived_at": summary["archived"]} if summary.get("archived") else {}
        self.write(path, {**summary, **when, "compressed_size_bytes": found.st_size if found else 0})
