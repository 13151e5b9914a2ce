"""Where do sessions live? Below one folder: opened, made and found here; what is in one is `file_session`'s business.

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
_UNUSED_SETTINGS, _OTHER_STORES = "unused-settings", "other-stores"  # in the user's state: what was reported last
_LOOKS = 5
FLAG = "converting"
STAGING = os.path.join(PRIVATE, FLAG)  # where a conversion puts the new files
JOURNAL = os.path.join(PRIVATE, "journal.json")  # its plan


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
        self.dropped: list[FileSession] = []  # objects that nobody uses, whose entries were not compared with the files
        self._mutex = threading.Lock()
        self._unsynced: dict[str, tuple[FileSession, str]] = {}  # by path: the session, and the file's name in it
        self._sync_failure: DurabilityUnknown | None = None
        self._syncer: threading.Timer | None = None
        self.closed = False
        self._config_seen: list[int] = []
        self._archives_seen: tuple[object, int] = (None, 0)
        self._shared_seen: tuple[object, list[Record]] = (None, [])
        self.marks = ChangeTable(system, os.path.join(root, PRIVATE))
        self.state = state or open_user_state(root, self.disk)
        self.access = AccessLog(self.state)
        self.session_uses = AccessLog(self.state, SESSION_USES, exact=True)
        self._indexer: Indexer | None = None
        self._audit: Audit | None = None
        self._workers: list[threading.Thread] = []
        self.clock: object = None  # what the store was opened with, for `clock_notes`

    @property
    def indexer(self) -> Indexer:
        """What finds memories; loaded when somebody asks for it."""
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
        """How many sessions are archived. Listed again only when a folder has changed that archiving and restoring change."""
        from smp_memory.store.archive_names import ARCHIVE_FOLDERS

        found = [self.disk.stat(os.path.join(self.root, name)) for name in ARCHIVE_FOLDERS]
        if not any(found):
            return 0
        found += [self.disk.stat(os.path.join(self.root, name)) for name in (self.layout.sessions, "deleted")]
        look = [(state.st_mtime_ns, state.st_ino) if state is not None else None for state in found]
        if look != self._archives_seen[0]:
            from smp_memory.store.archive_index import ArchiveIndex

            self._archives_seen = (look, len(ArchiveIndex(self).archived_names()))
        return self._archives_seen[1]

    def shared_count(self, sees: Callable[[Record], bool] | None = None) -> int:
        """How many memories are in files of the designs for all sessions. Read again only when a file has changed."""
        from smp_memory.store.design_shared_files import FILES, FOLDERS, all_shared

        if not any(self.disk.is_folder(os.path.join(self.root, name)) for name in FOLDERS):
            return 0
        found = [self.disk.stat(os.path.join(self.root, *name.split("/"))) for name in FILES]
        look = [identity(state) if state is not None else None for state in found]
        if look != self._shared_seen[0]:
            self._shared_seen = (look, all_shared(self))
        return sum(1 for record in self._shared_seen[1] if sees is None or sees(record))

    def session(self, session: str) -> FileSession:
        self.check_open()
        ids.check(session, "session")
        with self._mutex:
            known = self._sessions.get(session)
            if known is None:
                self.check_there(session)
                known = self._sessions[session] = FileSession(self, session)
            return known

    def existing_session(self, session: str) -> FileSession:
        """The same; raises also if the session was archived or deleted since it was first opened here."""
        found = self.session(session)
        if not self.layout.exists(self.disk, self.root, session):
            raise self.no_session(session)
        return found

    def check_there(self, session: str) -> None:
        """Raise if a session is not in its place. One that is just being put away and brought back is looked for again."""
        for look in range(_LOOKS):
            if self.layout.exists(self.disk, self.root, session):
                return
            error = self.no_session(session)
            if look + 1 == _LOOKS or not isinstance(error, SessionNotFound) or isinstance(error, SessionArchived):
                raise error

    def place_of(self, session: str) -> tuple[int, int] | None:
        """Identity of the folder or file in a session's place: it differs after the session was put away and came back."""
        folder = self.layout.folder(self.root, session)
        found = self.disk.stat(folder if self.layout.info_file else os.path.join(folder, f"{session}.jsonl"))
        return None if found is None else (found.st_ino, found.st_ctime_ns)

    def opened_ids(self) -> list[str]:
        """The sessions that this process has looked at."""
        return list(self._sessions)

    def is_in_use(self, session: str) -> bool:
        """Whether a caller in this process holds the session open. Looking at its files or settings is not use."""
        known = self._sessions.get(session)
        return known is not None and bool(known.holders)

    def create(self, info: SessionInfo) -> FileSession:
        """Make a session appear whole: prepared aside, then given its name."""
        self.check_open()
        self.check_current()
        self.check_in_place()
        self._check_name(info.id)
        info.uid = info.uid or new_uid()
        try:
            if self.layout.info_file:
                self._create_folder(info)
            else:
                self._create_file(info)
        except OSError as error:
            raise from_os_error(error, self.layout.folder(self.root, info.id), "creating a session") from error
        self.marks.mark_changed(info.id)
        event_log.emit("session", event_log.INFO, "session_created", f"Session {info.id} was created.", info.id)
        try:
            self.check_current()  # a conversion that began meanwhile may not have seen it
            return self.session(info.id)
        except StorageError as error:
            raise DurabilityUnknown(
                f"Session {info.id} was created, but could not be looked at ({error}). Do not count on it.",
                session=info.id,
            ) from error

    def check_in_place(self) -> None:
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
        """Make the names of a new session durable, and those above it: who made them may have died before their sync."""
        try:
            for folder in (*folders, self.root, os.path.dirname(self.root)):
                self.disk.sync_folder(folder)
        except OSError as error:
            raise DurabilityUnknown(
                f"Session {session} was created, but the disk did not confirm it ({error.strerror}). Do not count on it.",
                session=session,
                errno=error.errno,
            ) from error

    def make_folder(self, path: str) -> None:
        """Create a folder below the root; no part of the way may be a link."""
        self.disk.make_folder(path)

    def _check_name(self, session: str) -> None:
        """An archived session keeps its name; what an interrupted deletion left under it is put right first."""
        from smp_memory.store.archive_names import ARCHIVE_FOLDERS

        private = self.layout.private(self.root, session)
        if self.layout.exists(self.disk, self.root, session):
            raise self._taken(session)  # before the look for an archive: one that is being archived is in both places
        has_archives = any(self.disk.exists(os.path.join(self.root, name)) for name in ARCHIVE_FOLDERS)
        if not has_archives and not (not self.layout.info_file and self.disk.exists(private)):
            return
        from smp_memory.store.archive_index import free_name

        free_name(self, session)

    @staticmethod
    def _taken(session: str) -> SessionExists:
        return SessionExists(f"There is already a session {session}.", session=session)

    def check_current(self) -> None:
        """Called under a session's lock: is this still the store we opened? Another process may have converted it."""
        found = self.disk.stat(os.path.join(self.root, CONFIG_FILE))
        now = identity(found) if found is not None else []
        if now == self._config_seen:
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
        self._config_seen = now

    def _stored_config(self) -> dict[str, Any]:
        try:
            stored = json.loads(self.disk.read(os.path.join(self.root, CONFIG_FILE)).decode("utf-8-sig"))
        except (FileNotFoundError, ValueError, RecursionError):
            return {}  # a person is editing it; the layout cannot have changed without a whole file
        return with_store_facts_at_top(stored) if isinstance(stored, dict) else {}

    def _finish_conversion(self) -> bool:
        """Put right what a conversion has left that died while this store was open; False if one is under way."""
        from smp_memory.store.convert import finish_conversion

        try:
            finish_conversion(self.disk, self.root, 0.0)
        except (LockTimeout, OSError):
            return False
        return True

    def no_session(self, session: str) -> SMPError:
        try:
            self.check_current()
        except SMPError as error:
            return error
        from smp_memory.store.archive_index import why_not_here

        return why_not_here(self, session)

    def report_unused_settings(self) -> None:
        """Log which settings of a design have no effect here; once for a store and the keys that it has."""
        from smp_memory.design_settings import report

        self._report_once(_UNUSED_SETTINGS, report(self.config.unused))

    def report_other_stores(self, line: str) -> None:
        """Log that the project has other stores, which are not read; once for a store and those beside it."""
        self._report_once(_OTHER_STORES, line)

    def _report_once(self, name: str, line: str) -> None:
        try:
            if self.state.has(name) and self.state.read(name) == line.encode():
                return
            self.state.write(name, line.encode())
        except (OSError, SMPError):
            pass  # no place for the user's state: it is said again
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
        """Sync what the setting `interval` left unsynced; a failure is told to whoever asks next.

        A file whose sync failed is not synced again: the next write copies it to a new one first.
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
            except OSError as error:  # it could not be opened, so it can be tried again
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
        """Raise, once, what went wrong with a sync in the background."""
        failure, self._sync_failure = self._sync_failure, None
        if failure is not None:
            raise failure

    # -- the end

    def start(self, worker: threading.Thread) -> None:
        """Let something work in the background that `close` waits for: it may hold a lock."""
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
        self.marks.close()
        self.check_synced()

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
        self._syncer = None
        self._workers = []
        self.dropped = []


def last_written_ns(store: FileStore, session: str) -> int:
    """When a session's files were last written, by their own times; upkeep leaves these as they were."""
    folder = store.layout.folder(store.root, session)
    names = [*store.layout.files(store.disk, folder, session), store.layout.info_file]
    found = [store.disk.stat(os.path.join(folder, name)) for name in names if name]
    return max((state.st_mtime_ns for state in found if state), default=0)


def conversion_has_left_something(disk: Disk, root: str) -> bool:
    """Whether a conversion is under way, or died; a store that is opened looks for that first."""
    return disk.exists(os.path.join(root, STAGING)) or disk.exists(os.path.join(root, JOURNAL))
