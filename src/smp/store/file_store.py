"""Where do records live? In files. This module joins reading, writing, locking and syncing into sessions and a store.

Guarantees: those of `smp.store.port`. Threads may share everything here. A child made by `fork` starts with locks of
its own and holds none of its parent's.
Non-guarantees: several machines on one network folder (use PostgreSQL for that).
"""

from __future__ import annotations

import json
import os
import re
import threading
import weakref
from functools import partial

from smp.errors import (
    DurabilityUnknown,
    FormatTooNew,
    InvalidFormat,
    InvalidRecord,
    LayoutMismatch,
    LockTimeout,
    SessionCorrupt,
    SessionExists,
    SessionNotFound,
    SMPError,
    StorageCorrupt,
    StoreClosed,
    StoreNotFound,
    from_os_error,
)
from smp.files.access_log import AccessLog
from smp.files.disk import TEMPORARY, Disk, identity
from smp.files.layouts.layout import PRIVATE
from smp.files.lock import SessionLock
from smp.files.marks import Marks
from smp.files.session_reader import SessionReader
from smp.files.session_writer import SessionWriter
from smp.model import ids
from smp.model.session_info import FORMAT, SessionInfo
from smp.store.group_commit import GroupCommit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp.config import Config
    from smp.files.layouts.layout import Layout
    from smp.files.system import System
    from smp.model.fold import Fold
    from smp.model.report import Report
    from smp.privacy.audit import Audit
    from smp.store.indexer import Indexer
    from smp.store.port import Batch

CONFIG_FILE = "config.json"
FLAG = "converting"
STAGING = os.path.join(PRIVATE, FLAG)  # where a conversion puts the new files
JOURNAL = os.path.join(PRIVATE, "journal.json")  # its plan
_HEAD_LIMIT_BYTES = 1 << 20
_FORMAT_IN_HEAD = re.compile(rb'format"?: ?([0-9]{1,9})')
_HEAD_MARK = b'"type":"session"'

_open_sessions: weakref.WeakSet[FileSession] = weakref.WeakSet()


class FileSession:
    """One session in files."""

    def __init__(self, store: FileStore, session: str) -> None:
        self.session = session
        self._store = store
        self.reader = SessionReader(store.disk, store.layout, store.root, session)
        self._lock = SessionLock(store.disk, self.reader.private, f"session {session}", session)
        self.writer = SessionWriter(self.reader, self._lock, self._info_or_none, store.check_current)
        self._writing = threading.Lock()  # the kernel's lock tells processes apart, not the threads of one
        self._group = GroupCommit(self._commit_group)
        self._config: Config | None = None
        self._sync_always, self._sync_later = True, False  # these until the session's own settings are read
        self._timeout_seconds = 5.0
        self._admit = partial(store.admit, session, quota_bytes=0)
        self.filling_bytes = float("inf")  # from this size on it is compacted by itself
        self.compacted_at, self.compaction_pause_seconds = -1e9, 60.0
        _open_sessions.add(self)

    def after_fork(self) -> None:
        self._lock.close()
        self.writer.close_files()
        self.reader.mutex = threading.RLock()
        self._writing = threading.Lock()
        self._group = GroupCommit(self._commit_group, self._group.patience_seconds)

    # -- writing

    def commit(self, batch: Batch) -> None:
        if self._store.closed:
            self._store.check_open()
        if self._sync_later:
            self._store.check_synced()
        if batch.needs_trails:
            self.reader.catch_up()  # the bulk of the reading, before the lock is taken
        self._group.commit(batch)

    @property
    def config(self) -> Config:
        """The store's settings with those of the session above them, as they were when it was first written to."""
        if self._config is None:
            config = self._store.config
            info = self._info_or_none() if self._may_have_settings() else None
            self._config = config.override_session(info.config, self.session) if info and info.config else config
            self._sync_always = self._config.durability == "always"
            self._sync_later = self._config.durability == "interval"
            self._timeout_seconds = self._config.lock_timeout_seconds
            quota = self._config.quota_bytes
            self._admit = partial(self._store.admit, self.session, quota_bytes=quota)
            if self._config["compaction.enabled"]:
                self.filling_bytes = quota * self._config["storage.warning_percent"] / 100
            if not self._sync_always:
                self._group.patience_seconds = 0.0  # there is no sync to share
        return self._config

    def _may_have_settings(self) -> bool:
        """Whether the head is worth a proper look: reading a YAML head costs 50 ms."""
        try:
            head = self._store.disk.read(self._info_path(), 0, _HEAD_LIMIT_BYTES)
        except (OSError, StorageCorrupt):
            return False
        found = _FORMAT_IN_HEAD.search(head)
        return b"config" in head or found is None or int(found[1]) != FORMAT

    def _commit_group(self, batches: list[Batch]) -> None:
        if self._config is None:
            self.config  # noqa: B018 - reads the settings
        with self._writing:
            try:
                if self._lock.descriptor < 0:
                    self._make_private()
                paths = self.writer.commit(batches, self._sync_always, self._timeout_seconds, self._admit)
            except FileNotFoundError:
                raise self._store.no_session(self.session) from None
            except OSError as error:
                raise from_os_error(error, self.reader.folder, batches[0].doing) from error
        self._store.marks.set(self.session)
        if self._sync_later:
            self._store.sync_later(paths)

    def _make_private(self) -> None:
        """A session that a person or another tool made has no private folder yet."""
        if not self._store.disk.exists(self.reader.private):
            if not self._store.layout.exists(self._store.disk, self._store.root, self.session):
                raise self._store.no_session(self.session)
            self._store.make_folder(self.reader.private)

    def exclusively(self, doing: str, work: Callable[[], Any], *, while_converting: bool = False) -> Any:
        """Do something under the session's lock, on settled files."""
        self._store.check_open()
        with self._writing:
            try:
                self._make_private()
                return self.writer.locked(doing, self.config.lock_timeout_seconds, work, check=not while_converting)
            except FileNotFoundError:
                raise self._store.no_session(self.session) from None
            except OSError as error:
                raise from_os_error(error, self.reader.folder, doing) from error
            finally:
                self._store.marks.set(self.session)

    # -- reading

    def view(self, look: Callable[[Fold], Any]) -> Any:
        """Look at the session's memories as they stand."""
        self._store.check_open()
        with self.reader.mutex:
            fold = self.reader.catch_up()
            if not fold.trails and not self._store.layout.exists(self._store.disk, self._store.root, self.session):
                raise self._store.no_session(self.session)
            return look(fold)

    def view_tail(self, kind: str, count: int, look: Callable[[Fold], Any]) -> Any:
        """The same, but only the last memories of a type need to be there."""
        self._store.check_open()
        with self.reader.mutex:
            fold = self.reader.tail(kind, count)
            return look(fold) if fold is not None else self.view(look)

    def sizes(self) -> dict[str, int]:
        disk, folder = self._store.disk, self.reader.folder
        found = {
            name: disk.stat(os.path.join(folder, name)) for name in self._store.layout.files(disk, folder, self.session)
        }
        return {name: state.st_size for name, state in found.items() if state is not None}

    # -- the head

    def info(self) -> SessionInfo:
        layout, disk = self._store.layout, self._store.disk
        self._store.check_open()
        try:
            if layout.info_file:
                info = layout.decode_info(disk.read(self._info_path()), self.session)
            else:
                info = self._info_from_log()
            if info.format > FORMAT:
                raise FormatTooNew(
                    f"Session {self.session} has format {info.format}; this SMP knows {FORMAT}. Install a newer one.",
                    session=self.session,
                    path=self._info_path(),
                    format=info.format,
                    limit=FORMAT,
                )
            return info
        except FileNotFoundError:
            if not layout.exists(disk, self._store.root, self.session):
                raise self._store.no_session(self.session) from None
            return SessionInfo(self.session, "1970-01-01T00:00:00Z")
        except (
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
            OSError,
            InvalidFormat,
            InvalidRecord,
            StorageCorrupt,
        ) as error:
            raise SessionCorrupt(
                f"The head of session {self.session} cannot be read: {self._info_path()}: {error}. Its memories are fine; "
                "correct the file, or let `smp repair` set it aside.",
                session=self.session,
                path=self._info_path(),
            ) from error

    def _info_path(self) -> str:
        layout = self._store.layout
        return os.path.join(self.reader.folder, layout.info_file or f"{self.session}.jsonl")

    def _info_from_log(self) -> SessionInfo:
        """The last head in a session's log; found from its end without reading the entries."""
        data = self._store.disk.read(self._info_path())
        end = len(data)
        while (mark := data.rfind(_HEAD_MARK, 0, end)) >= 0:
            end = data.rfind(b"\n", 0, mark) + 1
            line = data[end : (data.find(b"\n", mark) + 1) or len(data)]
            pieces = self._store.layout.codec_of("").decode(line, 1)
            if pieces and (pieces[0].fields or {}).get("type") == "session":
                return self._store.layout.decode_info(json.dumps(pieces[0].fields).encode(), self.session)
        raise FileNotFoundError(self._info_path())

    def _info_or_none(self) -> SessionInfo | None:
        try:
            return self.info()
        except (SessionCorrupt, SessionNotFound, OSError):
            return None

    def change_info(self, info: SessionInfo) -> None:
        self.exclusively("changing the session's head", lambda: self.write_info(info))

    def write_info(self, info: SessionInfo) -> None:
        """Replace the head; the lock is held."""
        data = self._store.layout.encode_info(info)
        if self._store.layout.info_file:
            self._store.disk.replace(self._info_path(), data)
        else:
            self.writer.append_head(f"{self.session}.jsonl", data)

    # -- checking

    def validate(self) -> Report:
        from smp.store.check import validate

        return validate(self)

    def repair(self) -> Report:
        from smp.store.check import repair

        return repair(self)

    @property
    def store(self) -> FileStore:
        return self._store

    def close(self) -> None:
        self.writer.close_files()
        self._lock.close()

    def __del__(self) -> None:
        self.close()


class FileStore:
    """Sessions below one folder."""

    def __init__(self, root: str, layout: Layout, system: System, config: Config, admit: Callable[..., None]) -> None:
        self.root = root
        self.layout = layout
        self.disk = Disk(system)
        self.config = config
        self.admit = admit
        self._sessions: weakref.WeakValueDictionary[str, FileSession] = weakref.WeakValueDictionary()
        self._mutex = threading.Lock()
        self._unsynced: set[str] = set()
        self._sync_failure: DurabilityUnknown | None = None
        self._syncer: threading.Timer | None = None
        self.closed = False
        self._config_seen: list[int] = []
        self.marks = Marks(system, os.path.join(root, PRIVATE))
        self.access = AccessLog(self.disk, os.path.join(root, PRIVATE))
        self._indexer: Indexer | None = None
        self._audit: Audit | None = None
        self._workers: list[threading.Thread] = []

    @property
    def indexer(self) -> Indexer:
        """What finds memories; loaded when somebody asks for it."""
        if self._indexer is None:
            from smp.store.indexer import Indexer

            self._indexer = Indexer(self)
        return self._indexer

    @property
    def audit(self) -> Audit:
        if self._audit is None:
            from smp.privacy.audit import Audit

            self._audit = Audit(self.disk, os.path.join(self.root, PRIVATE))
        return self._audit

    def session_ids(self) -> list[str]:
        self.check_open()
        return self.layout.session_ids(self.disk, self.root)

    def session(self, session: str) -> FileSession:
        self.check_open()
        ids.check(session, "session")
        with self._mutex:
            known = self._sessions.get(session)
            if known is None:
                if not self.layout.exists(self.disk, self.root, session):
                    raise self.no_session(session)
                known = self._sessions[session] = FileSession(self, session)
            return known

    def is_in_use(self, session: str) -> bool:
        """Whether somebody in this process has it open."""
        return session in self._sessions

    def create(self, info: SessionInfo) -> FileSession:
        """Make a session appear whole: prepared aside, then given its name."""
        self.check_open()
        self.check_current()
        if not self.disk.exists(os.path.join(self.root, CONFIG_FILE)):
            raise StoreNotFound(
                f"The store in {self.root} was moved or removed while it was open. Nothing was written; open it again.",
                path=self.root,
            )
        self._check_name(info.id)
        try:
            if self.layout.info_file:
                self._create_folder(info)
            else:
                self._create_file(info)
        except OSError as error:
            raise from_os_error(error, self.layout.folder(self.root, info.id), "creating a session") from error
        self.marks.set(info.id)
        return self.session(info.id)

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
        except OSError as error:
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
        archives, private = os.path.join(self.root, "archived"), self.layout.private(self.root, session)
        if not self.disk.exists(archives) and not (not self.layout.info_file and self.disk.exists(private)):
            return
        from smp.store.shelf import free_name

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
        try:
            stored = json.loads(self.disk.read(os.path.join(self.root, CONFIG_FILE)).decode("utf-8-sig"))
        except (FileNotFoundError, ValueError):
            return  # a person is editing it; the layout cannot have changed without a whole file
        if stored.get("layout", self.layout.name) != self.layout.name:
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

    def no_session(self, session: str) -> SMPError:
        try:
            self.check_current()
        except SMPError as error:
            return error
        from smp.store.shelf import why_not_here

        return why_not_here(self, session)

    # -- durability "interval"

    def sync_later(self, paths: list[str]) -> None:
        with self._mutex:
            self._unsynced.update(paths)
            if self._syncer is None and not self.closed:
                self._syncer = threading.Timer(self.config.sync_interval_seconds, self.sync_now)
                self._syncer.daemon = True
                self._syncer.start()

    def sync_now(self) -> None:
        """Sync what the setting `interval` left unsynced; a failure is told to whoever asks next."""
        with self._mutex:
            paths, self._unsynced, self._syncer = self._unsynced, set(), None
        for path in sorted(paths):
            try:
                self.disk.sync_file(path)
                self.disk.sync_folder(os.path.dirname(path))
            except OSError as error:
                self._sync_failure = DurabilityUnknown(
                    f"The disk did not confirm what was written to {path} in the last interval ({error.strerror}). "
                    "It was acknowledged with durability `interval`; check the disk.",
                    path=path,
                    errno=error.errno,
                )

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
            raise StoreClosed("This store was closed; open it again with smp.open().", path=self.root)

    def close(self) -> None:
        if self.closed:
            return
        for worker in self._workers:
            if worker is not threading.current_thread():
                worker.join()
        self.sync_now()
        self.closed = True
        for session in list(self._sessions.values()):
            session.close()
        if self._indexer is not None:
            self._indexer.close()
        self.access.flush()
        self.marks.close()
        self.check_synced()

    def after_fork(self) -> None:
        self._mutex = threading.Lock()
        self._syncer = None
        self._workers = []


def _after_fork_in_child() -> None:
    for session in list(_open_sessions):
        session.after_fork()
        session.store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def conversion_has_left_something(disk: Disk, root: str) -> bool:
    """Whether a conversion is under way, or died; a store that is opened looks for that first."""
    return disk.exists(os.path.join(root, STAGING)) or disk.exists(os.path.join(root, JOURNAL))
