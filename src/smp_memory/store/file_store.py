"""A store in files: finds, creates and opens sessions below one folder (`file_session` is one of them).

Guarantees: those of `smp_memory.store.port`. Threads may share everything here. A child made by `fork` starts with locks of
its own and holds none of its parent's.
Non-guarantees: several machines on one network folder (use PostgreSQL for that).
"""

from __future__ import annotations

import json
import os
import threading
import weakref

from smp_memory import event_log
from smp_memory.config_file import with_store_facts_at_top
from smp_memory.errors import (
    DurabilityUnknown,
    LayoutMismatch,
    LockTimeout,
    SessionArchived,
    SessionExists,
    SessionNotFound,
    SMPError,
    StorageError,
    StoreClosed,
    StoreNotFound,
    from_os_error,
)
from smp_memory.files.access_log import SESSION_USES, AccessLog
from smp_memory.files.change_table import ChangeTable
from smp_memory.files.disk import TEMPORARY, Disk, identity
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.user_state import open_user_state
from smp_memory.model import ids
from smp_memory.store.file_session import FileSession
from smp_memory.uids import new_uid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.files.system import System
    from smp_memory.files.user_state import UserState
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.audit import Audit
    from smp_memory.store.indexer import Indexer

CONFIG_FILE = "config.json"
_UNUSED_SETTINGS, _OTHER_STORES = "unused-settings", "other-stores"  # files in the user's state: what was reported last
_TRIES = 5
FLAG = "converting"
STAGING = os.path.join(PRIVATE, FLAG)  # new files of a conversion
JOURNAL = os.path.join(PRIVATE, "journal.json")  # plan of a conversion


class FileStore:
    """Sessions below one folder."""

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
        self.disk = Disk(system)
        self.config = config
        self.admit = admit
        self._sessions: weakref.WeakValueDictionary[str, FileSession] = weakref.WeakValueDictionary()
        self.dropped: list[FileSession] = []  # unused objects whose entries were not compared with the files yet
        self._mutex = threading.Lock()
        self._unsynced: dict[str, tuple[FileSession, str]] = {}  # by path: the session, and the file's relative name
        self._sync_failure: DurabilityUnknown | None = None
        self._syncer: threading.Timer | None = None
        self.closed = False
        self._config_identity: list[int] = []
        self._archived_count: tuple[object, int] = (None, 0)
        self._shared_records: tuple[object, list[Record]] = (None, [])
        self.change_table = ChangeTable(system, os.path.join(root, PRIVATE))
        self.state = state or open_user_state(root, self.disk)
        self.access = AccessLog(self.state)
        self.session_uses = AccessLog(self.state, SESSION_USES, exact=True)
        self._indexer: Indexer | None = None
        self._audit: Audit | None = None
        self._workers: list[threading.Thread] = []
        self.clock: object = None  # the clock that the store was opened with, for `clock_state`

    @property
    def indexer(self) -> Indexer:
        """The index; loaded at first use."""
        if self._indexer is None:
            from smp_memory.store.indexer import Indexer

            self._indexer = Indexer(self)
        return self._indexer

    @property
    def audit(self) -> Audit:
        if self._audit is None:
            from smp_memory.privacy.audit import Audit

            self._audit = Audit(self.disk, os.path.join(self.root, PRIVATE))
        return self._audit

    def session_ids(self) -> list[str]:
        self.check_open()
        return self.layout.session_ids(self.disk, self.root)

    def archived_count(self) -> int:
        """The number of archived sessions; listed again only when one of the folders has changed."""
        from smp_memory.store.archive_names import ARCHIVE_FOLDERS

        found = [self.disk.stat(os.path.join(self.root, name)) for name in ARCHIVE_FOLDERS]
        if not any(found):
            return 0
        found += [self.disk.stat(os.path.join(self.root, name)) for name in (self.layout.sessions, "deleted")]
        stats = [(state.st_mtime_ns, state.st_ino) if state is not None else None for state in found]
        if stats != self._archived_count[0]:
            from smp_memory.store.archive_index import ArchiveIndex

            self._archived_count = (stats, len(ArchiveIndex(self).archived_ids()))
        return self._archived_count[1]

    def shared_count(self, sees: Callable[[Record], bool] | None = None) -> int:
        """The number of memories in the designs' shared files (`design_shared_files`); read again only when a file has changed."""
        from smp_memory.store.design_shared_files import FILES, FOLDERS, all_shared

        if not any(self.disk.is_folder(os.path.join(self.root, name)) for name in FOLDERS):
            return 0
        found = [self.disk.stat(os.path.join(self.root, *name.split("/"))) for name in FILES]
        stats = [identity(state) if state is not None else None for state in found]
        if stats != self._shared_records[0]:
            self._shared_records = (stats, all_shared(self))
        return sum(1 for record in self._shared_records[1] if sees is None or sees(record))

    def session(self, session: str) -> FileSession:
        self.check_open()
        ids.check(session, "session")
        with self._mutex:
            known = self._sessions.get(session)
            if known is None:
                self.check_exists(session)
                known = self._sessions[session] = FileSession(self, session)
            return known

    def existing_session(self, session: str) -> FileSession:
        """Like `session`, but raises also if it was archived or deleted since this process opened it."""
        found = self.session(session)
        if not self.layout.exists(self.disk, self.root, session):
            raise self.session_not_found(session)
        return found

    def check_exists(self, session: str) -> None:
        """Raise if a session is not live. Tried again, because it may be archived and restored at this moment."""
        for attempt in range(_TRIES):
            if self.layout.exists(self.disk, self.root, session):
                return
            error = self.session_not_found(session)
            if attempt + 1 == _TRIES or not isinstance(error, SessionNotFound) or isinstance(error, SessionArchived):
                raise error

    def session_identity(self, session: str) -> tuple[int, int] | None:
        """Identity of a live session's folder or file; it changes when the session is archived or deleted and restored."""
        folder = self.layout.folder(self.root, session)
        found = self.disk.stat(folder if self.layout.info_file else os.path.join(folder, f"{session}.jsonl"))
        return None if found is None else (found.st_ino, found.st_ctime_ns)

    def opened_session_ids(self) -> list[str]:
        """The sessions that this process has opened."""
        return list(self._sessions)

    def is_in_use(self, session: str) -> bool:
        """Whether a caller in this process holds the session open. Reading its files or settings is not use."""
        known = self._sessions.get(session)
        return known is not None and bool(known.holders)

    def create(self, info: SessionInfo) -> FileSession:
        """Create a session at once: its files are prepared elsewhere, then renamed."""
        self.check_open()
        self.check_current()
        self.check_not_moved()
        self._check_name(info.id)
        info.uid = info.uid or new_uid()
        try:
            if self.layout.info_file:
                self._create_folder(info)
            else:
                self._create_file(info)
        except OSError as error:
            raise from_os_error(error, self.layout.folder(self.root, info.id), "creating a session") from error
        self.change_table.mark_changed(info.id)
        event_log.emit("session", event_log.INFO, "session_created", f"Session {info.id} was created.", info.id)
        try:
            self.check_current()  # a conversion that began meanwhile may not have seen it
            return self.session(info.id)
        except StorageError as error:
            raise DurabilityUnknown(
                f"Session {info.id} was created, but could not be read ({error}). It may be lost after a crash.",
                session=info.id,
            ) from error

    def check_not_moved(self) -> None:
        if not self.disk.exists(os.path.join(self.root, CONFIG_FILE)):
            raise StoreNotFound(
                f"The store in {self.root} was moved or removed while it was open. Nothing was written; open it again.",
                path=self.root,
            )

    def _create_folder(self, info: SessionInfo) -> None:
        folder = self.layout.folder(self.root, info.id)
        waiting = os.path.join(self.root, PRIVATE, f"{info.id}-{os.urandom(4).hex()}{TEMPORARY}")
        self.make_folder(os.path.dirname(folder))
        self.make_folder(os.path.join(waiting, PRIVATE))
        self.disk.write_new(os.path.join(waiting, self.layout.info_file), self.layout.encode_info(info))
        self.disk.sync_folder(waiting)
        try:
            if self.disk.exists(folder):
                raise FileExistsError(folder)
            self.disk.move(waiting, folder)
        except (OSError, StorageError) as error:
            self.disk.remove_tree(waiting)
            if self.disk.exists(folder):
                raise self._taken(info.id) from None
            raise error
        self._confirm(info.id, os.path.dirname(folder), os.path.dirname(waiting))

    def _create_file(self, info: SessionInfo) -> None:
        path = os.path.join(self.root, f"{info.id}.jsonl")
        waiting = os.path.join(self.root, PRIVATE, f"{info.id}-{os.urandom(4).hex()}{TEMPORARY}")
        self.make_folder(self.layout.private(self.root, info.id))
        self.disk.write_new(waiting, self.layout.encode_info(info))
        try:
            self.disk.link_new(waiting, path)
        except FileExistsError:
            self.disk.remove(waiting)
            raise self._taken(info.id) from None
        self._confirm(info.id, os.path.dirname(waiting))

    def _confirm(self, session: str, *folders: str) -> None:
        """Fsync the folders of a new session and those above: the process that made them may have died before its fsync."""
        try:
            for folder in (*folders, self.root, os.path.dirname(self.root)):
                self.disk.sync_folder(folder)
        except OSError as error:
            raise DurabilityUnknown(
                f"Session {session} was created, but the disk did not confirm it ({error.strerror}). It may be lost after a crash.",
                session=session,
                errno=error.errno,
            ) from error

    def make_folder(self, path: str) -> None:
        """Create a folder below the root; no part of the path may be a link."""
        self.disk.make_folder(path)

    def _check_name(self, session: str) -> None:
        """Raise SessionExists if a live or archived session has this name; recover an interrupted deletion under it."""
        from smp_memory.store.archive_names import ARCHIVE_FOLDERS

        private = self.layout.private(self.root, session)
        if self.layout.exists(self.disk, self.root, session):
            raise self._taken(session)  # before the check for an archive: a session that is being archived has both
        has_archives = any(self.disk.exists(os.path.join(self.root, name)) for name in ARCHIVE_FOLDERS)
        if not has_archives and not (not self.layout.info_file and self.disk.exists(private)):
            return
        from smp_memory.store.archive_index import check_name_is_free

        check_name_is_free(self, session)

    @staticmethod
    def _taken(session: str) -> SessionExists:
        return SessionExists(f"There is already a session {session}.", session=session)

    def check_current(self) -> None:
        """Raise if another process has converted the store since it was opened. Called under a session's lock."""
        found = self.disk.stat(os.path.join(self.root, CONFIG_FILE))
        now = identity(found) if found is not None else []
        if now == self._config_identity:
            return
        stored = self._stored_config()
        if stored.get(FLAG) and self._finish_conversion():
            return self.check_current()
        if (stored.get("layout") or self.layout.name) != self.layout.name:
            raise LayoutMismatch(
                f"{self.root} was converted to the layout {stored['layout']}; open it again. Nothing was written.",
                path=self.root,
                layout=stored["layout"],
            )
        if stored.get(FLAG):
            raise LockTimeout(
                f"{self.root} is being converted to another layout; try again in a moment. Nothing was written.",
                path=self.root,
            )
        self._config_identity = now

    def _stored_config(self) -> dict[str, Any]:
        try:
            stored = json.loads(self.disk.read(os.path.join(self.root, CONFIG_FILE)).decode("utf-8-sig"))
        except (FileNotFoundError, ValueError, RecursionError):
            return {}  # a person is editing it; the layout cannot have changed without a whole file
        return with_store_facts_at_top(stored) if isinstance(stored, dict) else {}

    def _finish_conversion(self) -> bool:
        """Finish a conversion that died while this store was open; False if one is running."""
        from smp_memory.store.convert import finish_conversion

        try:
            finish_conversion(self.disk, self.root, 0.0)
        except (LockTimeout, OSError):
            return False
        return True

    def session_not_found(self, session: str) -> SMPError:
        try:
            self.check_current()
        except SMPError as error:
            return error
        from smp_memory.store.archive_index import missing_session_error

        return missing_session_error(self, session)

    def report_unused_settings(self) -> None:
        """Log which settings of a design have no effect; once per store and set of keys."""
        from smp_memory.design_settings import report

        self._report_once(_UNUSED_SETTINGS, report(self.config.unused))

    def report_other_stores(self, line: str) -> None:
        """Log that the project has other stores, which are not read; once per store and set of others."""
        self._report_once(_OTHER_STORES, line)

    def _report_once(self, name: str, line: str) -> None:
        try:
            if self.state.has(name) and self.state.read(name) == line.encode():
                return
            self.state.write(name, line.encode())
        except (OSError, SMPError):
            pass  # the user's state cannot be written: it is logged again
        import logging  # rare, and slow to load

        logging.getLogger("smp_memory").warning(line)

    # -- durability "interval"

    def sync_later(self, session: FileSession, names: list[str]) -> None:
        with self._mutex:
            for name in names:
                self._unsynced[os.path.join(session.reader.folder, name)] = session, name
            if self._syncer is None and not self.closed:
                self._syncer = threading.Timer(self.config.sync_interval_seconds, self.sync_now)
                self._syncer.daemon = True
                self._syncer.start()

    def sync_now(self) -> None:
        """Fsync what durability `interval` left unsynced; `check_synced` raises a failure.

        A file whose fsync failed is not synced again: the next write copies it to a new one first.
        """
        with self._mutex:
            files, self._unsynced, self._syncer = self._unsynced, {}, None
        for path, (session, name) in sorted(files.items(), key=lambda item: item[0]):
            try:
                self.disk.sync_file(path)
                self.disk.sync_folder(os.path.dirname(path))
            except DurabilityUnknown as error:
                self._sync_failure = self._not_confirmed(path, error.__cause__ or error)
                session.distrust(name)
            except OSError as error:  # it could not be opened, so trying again is safe
                self._sync_failure = self._not_confirmed(path, error)
                with self._mutex:
                    self._unsynced.setdefault(path, (session, name))

    @staticmethod
    def _not_confirmed(path: str, error: BaseException) -> DurabilityUnknown:
        return DurabilityUnknown(
            f"The disk did not confirm what was written to {path} in the last interval "
            f"({getattr(error, 'strerror', error)}). It was acknowledged with durability `interval`; check the disk.",
            path=path,
            errno=getattr(error, "errno", None),
        )

    def sync(self) -> None:
        """Sync now; raises DurabilityUnknown if the disk did not confirm it, or an earlier sync in the background."""
        self.sync_now()
        self.check_synced()

    def check_synced(self) -> None:
        """Raise the failure of a background sync, once."""
        failure, self._sync_failure = self._sync_failure, None
        if failure is not None:
            raise failure

    # -- closing

    def start_worker(self, worker: threading.Thread) -> None:
        """Start a background thread that `close` waits for, because it may hold a lock."""
        self._workers = [each for each in self._workers if each.is_alive()] + [worker]
        worker.start()

    def check_open(self) -> None:
        if self.closed:
            raise StoreClosed("This store was closed; open it again with smp_memory.open().", path=self.root)

    def close(self) -> None:
        if self.closed:
            return
        for worker in self._workers:
            if worker is not threading.current_thread():
                worker.join()
        self.sync_now()
        self.closed = True
        for session in [*self._sessions.values(), *self.dropped]:
            session.close()
        self.dropped.clear()
        if self._indexer is not None:
            self._indexer.close()
        self.access.flush()
        self.session_uses.flush()
        self.change_table.close()
        self.check_synced()

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
        self._syncer = None
        self._workers = []
        self.dropped = []


def last_written_ns(store: FileStore, session: str) -> int:
    """When a session's files were last written, by modification time; maintenance preserves it."""
    folder = store.layout.folder(store.root, session)
    names = [*store.layout.files(store.disk, folder, session), store.layout.info_file]
    found = [store.disk.stat(os.path.join(folder, name)) for name in names if name]
    return max((state.st_mtime_ns for state in found if state), default=0)


def has_unfinished_conversion(disk: Disk, root: str) -> bool:
    """Whether a conversion is running or died. Checked first when a store is opened."""
    return disk.exists(os.path.join(root, STAGING)) or disk.exists(os.path.join(root, JOURNAL))
