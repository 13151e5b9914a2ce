"""A store in files: finds, creates and opens sessions below one folder (`file_session` is one of them).

Guarantees: those of `smp_memory.store.port`. Threads may share everything here. A child made by `fork` starts with locks of
its own and holds none of its parent's.
Non-guarantees: several machines on one network folder (use PostgreSQL for that).
"""

from __future__ import annotations

import json
import os
import weakref
from _thread import allocate_lock
from itertools import islice

from smp_memory import store
from smp_memory.config.config_file import check_removal, read_settings, with_setting
from smp_memory.config.settings import setting_advice
from smp_memory.config.sources import CONVERTING
from smp_memory.errors import (
    InvalidConfig,
    LayoutMismatch,
    LockTimeout,
    SessionArchived,
    SessionNotFound,
    SMPError,
    StoreClosed,
    from_os_error,
)
from smp_memory.files.activity import ACCESSES, SESSION_USES, TOKENS, AccessLog, ChangeTable, StateLog
from smp_memory.files.disk import Disk, identity, moved_store_error
from smp_memory.files.layouts import JOURNAL, NAMES, unread_sessions
from smp_memory.files.layouts.layout import ARCHIVE_FOLDERS, CONFIG_FILE, PRIVATE, STAGING
from smp_memory.files.user_state import ERASING, open_user_state
from smp_memory.import_lock import held_at_no_fork, loading
from smp_memory.model import ids
from smp_memory.model.session_info import ARCHIVED, DELETED, FORMAT, GLOBAL_SESSION, LIVE, PURGED, SessionHead
from smp_memory.store.durability import IntervalSync

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.config.settings import Config
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.files.system import System
    from smp_memory.files.user_state import UserState
    from smp_memory.index.full_text_index import FullTextIndex
    from smp_memory.model.deletions import Receipt
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.model.storage_reports import QuarantinedEntry, UnreadSession
    from smp_memory.privacy.audit import Audit
    from smp_memory.store.archive_names import ArchiveListing
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.port import Histories, Note

_TRIES = 5


class FileStore:
    """Sessions below one folder."""

    uid = ""

    def __init__(
        self,
        root: str,
        layout: Layout,
        system: System,
        config: Config,
        admit: Callable[..., None],
        state: UserState | None = None,
    ) -> None:
        self.root = root
        self.layout = layout
        self.disk = Disk(system, root)
        self.config = config
        self.admit = admit
        self._sessions: weakref.WeakValueDictionary[str, FileSession] = weakref.WeakValueDictionary()
        self.dropped: list[FileSession] = []  # unused objects whose entries were not compared with the files yet
        self._mutex = allocate_lock()
        self.syncer = IntervalSync(self.disk, config.sync_interval_seconds)
        self.closed = False
        self.has_synced_root = False  # by this process, see `session_creation`
        self.defers_file_checks = False  # see `open_read_only`
        self._config_identity: list[int] = []
        self.archive_listing: ArchiveListing | None = None  # see `archive_index`
        self.preferences: tuple[int, float, dict[str, Mapping[str, RecordHistory]]] = (
            -1,
            0.0,
            {},
        )  # see `shared_files`
        self.known_unindexed: dict[str, tuple[object, Mapping[str, RecordHistory]]] = {}  # see `shared_files`
        self.change_table = ChangeTable(self.disk, os.path.join(root, PRIVATE))
        self.state = state or open_user_state(root, self.disk)
        self.access = AccessLog(StateLog(self.state, ACCESSES))
        self.session_uses = AccessLog(StateLog(self.state, SESSION_USES), exact=True)
        self._indexer: FullTextIndex | None = None
        self._checked_sessions: Callable[[], list[str] | None] = lambda: None  # those of the index
        self._audit: Audit | None = None
        self.clock: Callable[[], datetime] | None = None  # that the store was opened with

    @property
    def files(self) -> FileStore:
        return self

    @property
    def layout_name(self) -> str:
        return self.layout.name

    @property
    def indexer(self) -> FullTextIndex:
        """The search index, fed by `store.indexer` and `index.stored_feed`; loaded at first use."""
        if self._indexer is None:
            with loading:
                from smp_memory.index.full_text_index import FullTextIndex
                from smp_memory.index.stored_feed import StoredFeed

            source = store.indexer.FileSource(self)
            feed = StoredFeed(self, source)
            made = FullTextIndex(feed)
            with held_at_no_fork:
                if self._indexer is None:
                    self._indexer = made
                    self._checked_sessions = lambda: source.live_sessions() if feed.has_shared_index else None
        return self._indexer

    @property
    def tokens(self) -> StateLog:
        return StateLog(self.state, TOKENS)

    @property
    def audit(self) -> Audit:
        if self._audit is None:
            from smp_memory.privacy.audit import Audit, AuditFile

            self._audit = Audit(AuditFile(self.disk, os.path.join(self.root, PRIVATE)))
        return self._audit

    def sessions(self, *states: str, id: str | None = None, limit: int | None = None) -> list[SessionHead]:
        self.check_open()
        found: list[SessionHead] = []
        if id is not None and not ids.is_valid(id):
            return found
        if not states or LIVE in states:
            found += [SessionHead(name, LIVE, read=self._read_head) for name in self._live(id, limit)]
        if (ARCHIVED in states and self._has_archives()) or (DELETED in states and self._has_folder(DELETED)):
            archives = store.archive_index.ArchiveIndex(self)
            found += archives.archived(id) if ARCHIVED in states else []
            found += archives.deleted(id) if DELETED in states else []
        return found[:limit]

    def _live(self, id: str | None, limit: int | None) -> Iterable[str]:
        if id is not None:
            return [id] if self.has_session(id) else []
        known = self._checked_sessions()
        if known is not None or limit is None:
            return self.session_ids() if known is None else known[:limit]
        names = self.layout.names(self.disk, self.root)
        return islice((name for name in names if ids.is_valid(name) and self.has_session(name)), limit)

    def _has_archives(self) -> bool:
        return any(map(self._has_folder, ARCHIVE_FOLDERS))

    def _has_folder(self, name: str) -> bool:
        return self.disk.exists(os.path.join(self.root, name))

    def _read_head(self, head: SessionHead, name: str) -> object:
        if name == "version":
            return self.metadata_version(head.session)
        if name == "written":
            return self.written_at(head.session)
        return sum(self.session(head.session).sizes().values()) if name == "bytes" else None

    def session_ids(self) -> list[str]:
        """The live sessions, sorted."""
        self.check_open()
        found = self.layout.session_ids(self.disk, self.root)
        if not found:
            self.check_layout()
        return found

    def sessions_with_deletion_records(self) -> list[str]:
        names = self.disk.names(os.path.join(self.root, DELETED)) if self.layout.name == "markdown" else []
        return [name for name in names if self.has_session(name) and self.session(name).recorded_deletions()]

    def unindexed_memories(self, sessions: list[str] | None = None) -> Histories:
        has_files = any(self.disk.is_folder(os.path.join(self.root, name)) for name in ("global", "shared"))
        if not has_files and self.layout.name != "log":
            return {}
        return store.shared_files.unindexed_memories(self, sessions)

    def mark_changed(self, session: str) -> None:
        """Tell other processes that a session has changed, and show it in the files for all sessions if it is `global`."""
        self.change_table.mark_changed(session)
        if session == GLOBAL_SESSION:
            store.shared_files.renew(self)

    def has_session(self, session: str) -> bool:
        return self.layout.exists(self.disk, self.root, session)

    def session(
        self, session: str, state: str = LIVE, *, path: str | None = None, max_bytes: int | None = None
    ) -> FileSession:
        self.check_open()
        ids.check(session, "session")
        if state == ARCHIVED:
            return store.archive.archived_copy(self, session, max_bytes)
        if state == DELETED:
            return store.inactive_sessions.deleted_copy(self, session, path)
        self.check_exists(session)
        with self._mutex:
            known = self._sessions.get(session)
            if known is None:
                known = self._sessions[session] = store.file_session.FileSession(self, session)
            return known

    def check_exists(self, session: str) -> None:
        """Raise if a session is not live. Tried again, because it may be archived and restored at this moment."""
        for attempt in range(_TRIES):
            if self.has_session(session):
                return
            error = self.session_not_found(session)
            if attempt + 1 == _TRIES or not isinstance(error, SessionNotFound) or isinstance(error, SessionArchived):
                raise error

    def session_identity(self, session: str) -> tuple[int, int] | None:
        """Identity of a live session's folder or file; it changes when the session is archived or deleted and restored."""
        folder = self.layout.folder(self.root, session)
        found = self.disk.stat(folder if self.layout.info_file else os.path.join(folder, f"{session}.jsonl"))
        return None if found is None else (found.st_ino, found.st_ctime_ns)

    def metadata_version(self, session: str) -> object | None:
        if not self.layout.info_file:
            return None  # the metadata is an entry of the log, which every write changes
        found = self.disk.stat(f"{self.layout.folder(self.root, session)}{os.sep}{self.layout.info_file}")
        return identity(found) if found is not None else ()

    def written_at(self, session: str) -> datetime:
        from datetime import UTC, datetime

        return datetime.fromtimestamp(self.last_written_ns(session) / 1e9, UTC)

    def last_written_ns(self, session: str) -> int:
        """When a session's files were last written, by modification time; maintenance preserves it."""
        folder = self.layout.folder(self.root, session)
        names = [*self.layout.files(self.disk, folder, session), self.layout.info_file]
        found = [self.disk.stat(os.path.join(folder, name)) for name in names if name]
        return max((state.st_mtime_ns for state in found if state), default=0)

    def opened_session_ids(self) -> list[str]:
        """The sessions that this process has opened."""
        return [each.session for each in self._opened()]

    def _opened(self) -> list[FileSession]:
        with self._mutex:  # another thread may open a session during the iteration
            return list(self._sessions.values())

    def create(
        self,
        info: SessionInfo,
        entries: list[Entry] | None = None,
        quota_bytes: int = 0,
        *,
        cold: Mapping[str, tuple[str, str]] | None = None,
        written: datetime | None = None,
    ) -> FileSession:
        if entries is None:
            return store.session_creation.create_session(self, info)
        return store.session_creation.import_session(self, info, entries, quota_bytes, cold or {}, written)

    def check_not_moved(self) -> None:
        if not self.disk.exists(os.path.join(self.root, CONFIG_FILE)):
            raise moved_store_error(self.root)

    def make_folder(self, path: str) -> None:
        """Create a folder below the root; no part of the path may be a link."""
        self.disk.make_folder(path)

    def check_current(self) -> None:
        """Raise if another process has converted the store since it was opened. Called under a session's lock."""
        found = self.disk.stat(os.path.join(self.root, CONFIG_FILE))
        now = identity(found) if found is not None else []
        if now == self._config_identity:
            return
        stored = self._stored_config()
        if stored.get(CONVERTING) and self._finish_conversion():
            return self.check_current()
        self._refuse_other_layout(stored)
        if stored.get(CONVERTING):
            raise LockTimeout(
                f"{self.root} is being converted to another layout; try again in a moment. Nothing was written.",
                path=self.root,
            )
        self._config_identity = now

    def check_layout(self) -> None:
        """Raise LayoutMismatch if another process has converted the store: what seems to be empty here is elsewhere."""
        found = self.disk.stat(os.path.join(self.root, CONFIG_FILE))
        if found is not None and identity(found) != self._config_identity:
            self._refuse_other_layout(self._stored_config())

    def _refuse_other_layout(self, stored: dict[str, Any]) -> None:
        layout = stored.get("layout")
        if layout in NAMES and layout != self.layout.name:
            raise LayoutMismatch(
                f"{self.root} was converted to the layout {layout}; open it again. Nothing was written.",
                path=self.root,
                layout=layout,
            )

    def _stored_config(self) -> dict[str, Any]:
        path = os.path.join(self.root, CONFIG_FILE)
        stored = read_settings(lambda: self.disk.read_small(path), path)
        return stored if isinstance(stored, dict) else {}  # else a person is editing it; the layout cannot have changed

    def _finish_conversion(self) -> bool:
        """Finish a conversion that died while this store was open; False if one is running."""
        try:
            store.convert.finish_conversion(self.disk, self.root, 0.0)
        except (LockTimeout, OSError):
            return False
        return True

    def complete_conversion(self) -> None:
        """Finish a conversion that died while this store was open. The root's lock is held."""
        if has_unfinished_conversion(self.disk, self.root):
            store.convert.complete(self.disk, self.root)

    def recover_session(self, session: str, operation: str) -> None:
        """Complete what an interrupted step left of a session that is not live."""
        with store.archive_index.ArchiveIndex(self).locked(session, operation):
            pass

    def archive_summary(self, archive: str) -> dict[str, Any]:
        return store.archive.summary_of(self, archive)

    def holds_all_of_archive(self, archive: str, session: str) -> bool:
        return store.archive.holds_all_of_archive(self, archive, session)

    def archive_holds(self, archive: str, path: str, inside: str) -> bool:
        return store.archive.holds_files(self, archive, path, inside)

    def session_not_found(self, session: str) -> SMPError:
        """The error for a session that is not live: archived, deleted or unknown, and what to do."""
        if not self.disk.exists(self.root):
            return moved_store_error(self.root)
        try:
            self.check_current()
        except SMPError as error:
            return error
        archives = store.archive_index.ArchiveIndex(self)
        if self.disk.exists(archives.archive_path(session)):
            return SessionArchived(
                f"Session {session} is archived. `smp session restore {session}` or memory.session({session!r}) restores it.",
                session=session,
                path=archives.archive_path(session),
            )
        deleted = archives.deleted(session)
        hint = f"It was deleted; `smp session restore {session}` restores it." if deleted else ""
        if not deleted and (summary := store.archive_names.foreign_summary(self.disk, self.root, session)):
            hint = f"Another program left a summary of it, {summary}; the memories themselves are not there."
        return SessionNotFound(
            f"No session {session} in {self.root}. {hint or f'`smp session list` lists the sessions, `smp session new {session}` starts a new one.'}",
            session=session,
            path=self.root,
        )

    # -- archived and deleted sessions

    def move(
        self,
        session: str,
        origin: str,
        state: str,
        note: Note = lambda head, _: head.metadata,
        audit: Callable[[], object] = lambda: None,
        *,
        path: str | None = None,
    ) -> SessionHead:
        archive, inactive = store.archive, store.inactive_sessions
        if state == PURGED:
            purged = inactive.purge_session(self, session, note, audit, path)
            store.erasure.clean_index(self, {session: None})
            return purged
        if state == DELETED and origin == DELETED:
            moved = inactive.change_deletion_record(self, session, note, path)
        elif state == DELETED:
            moved = inactive.delete_session(self, session, note)
        elif state == ARCHIVED:
            moved = archive.archive_session(self, session, note)
        else:
            moved = (inactive.undelete_session if origin == DELETED else archive.restore_session)(self, session)
        audit()
        return moved

    # -- erasure

    def erase(
        self,
        targets: dict[str, list[str]],
        receipt: Receipt,
        note: Callable[[], object],
        renew_digests: Callable[[], tuple[list[str], list[str]]],
    ) -> None:
        store.erasure.erase(self, targets, receipt, note, renew_digests)

    def finish_erasure(self) -> bool:
        try:
            if not self.state.has(ERASING):
                return False
        except SMPError:
            return False  # the user's state cannot be reached; memories can be read and written all the same
        return store.erasure.finish_erasing(self)

    # -- the index of other memories, settings

    def index_of(self, histories: Histories, problems: Mapping[str, list[Problem]]) -> FullTextIndex:
        from smp_memory.index.history_index import history_index

        return history_index(histories, problems, self.access)

    def write_setting(self, name: str, value: Any) -> None:
        from smp_memory.files.lock import SessionLock  # rare

        disk, path = self.disk, os.path.join(self.root, CONFIG_FILE)
        self.check_open()
        self.check_not_moved()
        disk.make_folder(os.path.join(self.root, PRIVATE))
        lock = SessionLock(disk, os.path.join(self.root, PRIVATE), f"the store {self.root}")
        lock.acquire(self.config.lock_timeout_seconds)
        try:
            stored = read_settings(lambda: disk.read_small(path), path) or {}
            if isinstance(stored, InvalidConfig):
                raise InvalidConfig(f"{stored.message} {setting_advice(stored)}", **stored.details)
            if value is None:
                check_removal(stored, name)
                value = {"layout": self.layout_name, "format": FORMAT}.get(name)
            stored = with_setting(stored, name, value)
            disk.replace(path, (json.dumps(stored, ensure_ascii=False, indent=2) + "\n").encode())
        except OSError as error:
            raise from_os_error(error, path, "changing the configuration") from error
        finally:
            lock.release()
            lock.close()

    def configured_at(self) -> float | None:
        found = self.disk.stat(os.path.join(self.root, CONFIG_FILE))
        return found.st_mtime_ns / 1e9 if found is not None else None

    # -- files of other programs and layouts, quarantine

    def unread_sessions(self) -> list[UnreadSession]:
        return unread_sessions(self.disk, self.root, self.layout)

    def unread_notice(self) -> str:
        found = unread_sessions(self.disk, self.root, self.layout, opened=self.opened_session_ids())
        return store.unread_files.describe_unread(found, self.layout.name) if found else ""

    def convert(self, to: str, progress: Callable[[str], None] | None = None) -> None:
        store.convert.convert(self, to, progress)
        self.mark_changed(GLOBAL_SESSION)

    def quarantined(self) -> list[QuarantinedEntry]:
        return store.unread_files.list_quarantined(self)

    def quarantined_data(self, entry: QuarantinedEntry) -> bytes:
        return self.disk.read(entry.path)

    def restore_quarantined(self, entry: QuarantinedEntry, now: str) -> list[str]:
        return store.unread_files.restore_quarantined(self, entry, now)

    # -- closing

    def sync(self) -> None:
        self.syncer.sync_now()
        self.syncer.raise_failure()

    def check_open(self) -> None:
        if self.closed:
            raise StoreClosed("This store was closed; open it again with smp_memory.open().", path=self.root)

    def refresh_written(self) -> None:
        if self.closed:
            return
        written = [each for each in (*self._opened(), *self.dropped) if each.has_known_entries]
        if written:
            for session in written:
                session.is_closing = True
            store.tidy.refresh_small(written)

    def close(self) -> None:
        if self.closed:
            return
        self.syncer.stop()
        self.closed = True
        for session in [*self._opened(), *self.dropped]:
            session.close()
        self.dropped.clear()
        if self._indexer is not None:
            self._indexer.close()
        self.access.flush()
        self.session_uses.flush()
        self.change_table.close()
        self.syncer.raise_failure()

    def after_fork(self) -> None:
        self._mutex = allocate_lock()
        self.syncer.after_fork()
        self.dropped = []


def has_unfinished_conversion(disk: Disk, root: str) -> bool:
    """Whether a conversion is running or died. Checked first when a store is opened."""
    return disk.exists(os.path.join(root, STAGING)) or disk.exists(os.path.join(root, JOURNAL))
