"""Where do the records of one session live? In its files. Joins reading, writing, locking and the threads' shared sync.

Guarantees: those of `smp_memory.store.port`. Threads may share a session. A child made by `fork` starts with locks of its own
and holds none of its parent's.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import threading
import weakref
from functools import partial

from smp_memory import event_log
from smp_memory.errors import (
    FormatTooNew,
    InvalidConfig,
    InvalidFormat,
    InvalidRecord,
    MemoryNotFound,
    SessionCorrupt,
    SessionNotFound,
    SMPError,
    StorageCorrupt,
    from_os_error,
)
from smp_memory.files.lock import SessionLock
from smp_memory.files.partial_reader import read_tail
from smp_memory.files.reader import SessionReader
from smp_memory.files.writer import SessionWriter
from smp_memory.git.metadata_conflicts import decode_metadata, find_conflict, last_metadata_line
from smp_memory.model.session_info import FORMAT, SessionInfo
from smp_memory.store import incomplete
from smp_memory.store.group_commit import GroupCommit
from smp_memory.store.session_start import UNKNOWN, first_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.git.metadata_conflicts import MetadataConflict
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.record import Records
    from smp_memory.model.reports import Problem, Report
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.port import BatchPort

_HEAD_LIMIT_BYTES = 1 << 20
_LOOKS = 20
_FORMAT_IN_HEAD = re.compile(rb'format"?: ?([0-9]{1,9})')

_told_of_conflict: set[str] = set()
_open_sessions: weakref.WeakSet[FileSession] = weakref.WeakSet()


class FileSession:
    """One session in files."""

    def __init__(self, store: FileStore, session: str) -> None:
        self.session = session
        self.archive = ""  # the file that this is a copy of, if it is one in RAM
        self._store = store
        self.reader = SessionReader(store.disk, store.layout, store.root, session)
        self._lock = SessionLock(store.disk, self.reader.private, f"session {session}", session)
        self.writer = SessionWriter(self.reader, self._lock, self._info_or_none, store.check_current)
        self._writing = threading.Lock()  # the kernel's lock tells processes apart, not the threads of one
        self._group = GroupCommit(self._commit_group)
        self._config: Config | None = None
        self._sync_always, self._sync_later = True, False  # these until the session's own settings are read
        self._timeout_seconds = 5.0
        self._suspects: set[str] = set()  # files whose sync failed, as long as other processes were not told
        self._admit = partial(store.admit, session, quota_bytes=0)
        self.filling_bytes = float("inf")  # from this size on it is compacted by itself
        self.warning_bytes = float("inf")  # from this size on a write says how full it is
        self.warned_percent = 0  # the share of the quota that the log was told of
        self.compacted_at, self.compaction_pause_seconds = -1e9, 60.0
        self.holders: weakref.WeakSet[Any] = weakref.WeakSet()  # what callers hold of it: `SessionMemory`
        _open_sessions.add(self)
        while store.dropped:
            store.dropped.pop().close()

    def after_fork(self) -> None:
        """In the child. What another thread was in the middle of when the process forked is only half there: forget it."""
        self._lock.close()
        self.writer.close_files()
        self.writer = SessionWriter(self.reader, self._lock, self._info_or_none, self._store.check_current)
        if not self.reader.mutex.acquire(blocking=False):
            self.reader.forget()
        self.reader.mutex = threading.RLock()
        self._writing = threading.Lock()
        self._group = GroupCommit(self._commit_group, self._group.patience_seconds)

    # -- writing

    def commit(self, batch: BatchPort) -> None:
        if self._store.closed:
            self._store.check_open()
        if self._sync_later:
            self._store.check_synced()
            self._tell_of_suspects()
        if batch.needs_histories:
            batch.read_version = self.writer.changes
            self.reader.catch_up()  # before the lock is taken; under it only if somebody has written meanwhile
        try:
            self._group.commit(batch)
        except MemoryNotFound as error:
            known = (
                error.details.get("id") in self.reader.session_history.histories
            )  # hidden or deleted: the error says all
            raise error if known else incomplete.explained(error, self.unreadable()) from None

    @property
    def config(self) -> Config:
        """The store's settings with those of the session above them, as they were when it was first written to."""
        if self._config is None:
            config = self._store.config
            info = self._info_or_none() if self._may_have_settings() else None
            self._config = self.settings_above(config, info.config) if info and info.config else config
            self._sync_always = self._config.durability == "always"
            self._sync_later = self._config.durability == "interval"
            self._timeout_seconds = self._config.lock_timeout_seconds
            quota = self._config.quota_bytes
            self._admit = partial(self._store.admit, self.session, quota_bytes=quota)
            self.warning_bytes = quota * self._config["storage.warning_percent"] / 100
            if self._config["compaction.enabled"]:
                self.filling_bytes = self.warning_bytes
            if not self._sync_always:
                self._group.patience_seconds = 0.0  # there is no sync to share
        return self._config

    def settings_above(self, config: Config, own: dict[str, Any]) -> Config:
        """The settings with the session's own above them; a wrong one is named with the file that it stands in."""
        try:
            return config.override_session(own, self.session)
        except InvalidConfig as error:
            where = f"It stands in {self.info_path()}; correct it there. Until then the session can only be read."
            raise InvalidConfig(f"{error.message} {where}", **{**error.details, "path": self.info_path()}) from None

    def settings_are_right(self) -> bool:
        try:
            return self.config is not None
        except InvalidConfig:
            return False

    def usable_config(self) -> Config:
        """The settings for what must also work when the session's own are wrong; nothing is taken away by these."""
        return self.config if self.settings_are_right() else self._store.config

    def _may_have_settings(self) -> bool:
        """Whether the head is worth a proper look: reading a YAML head costs 50 ms."""
        try:
            head = self._store.disk.read(self.info_path(), 0, _HEAD_LIMIT_BYTES)
        except (FileNotFoundError, StorageCorrupt):
            return False
        found = _FORMAT_IN_HEAD.search(head)
        return b"config" in head or found is None or int(found[1]) != FORMAT

    def _commit_group(self, batches: list[BatchPort]) -> None:
        if self._config is None:
            self.config  # noqa: B018 - reads the settings
        with self._writing:
            try:
                if self._lock.descriptor < 0:
                    self._make_private()
                names = self.writer.commit(batches, self._sync_always, self._timeout_seconds, self._admit)
            except FileNotFoundError:
                raise self._store.no_session(self.session) from None
            except OSError as error:
                raise from_os_error(error, self.reader.folder, batches[0].operation_name) from error
        self._store.marks.mark_changed(self.session)
        if self._sync_later:
            self._store.sync_later(self, names)

    def distrust(self, name: str) -> None:
        """The disk did not confirm what was written to a file: the next writer copies it to a new one first."""
        self._suspects.add(name)
        try:
            self._tell_of_suspects()
        except (SMPError, OSError):
            pass  # the lock is held, or the disk refuses; the next write of this process tries it again

    def _tell_of_suspects(self) -> None:
        if self._suspects:
            with self._writing:
                names = list(self._suspects)
                self.writer.mark_suspect(names, self._timeout_seconds)
                self._suspects.difference_update(names)

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
                timeout = self.usable_config().lock_timeout_seconds
                return self.writer.run_locked(doing, timeout, work, check=not while_converting)
            except FileNotFoundError:
                raise self._store.no_session(self.session) from None
            except StorageCorrupt:
                if not self._store.layout.exists(self._store.disk, self._store.root, self.session):
                    raise self._store.no_session(self.session) from None  # put away while its lock was taken
                raise
            except OSError as error:
                raise from_os_error(error, self.reader.folder, doing) from error
            finally:
                self._store.marks.mark_changed(self.session)

    # -- reading

    def view(self, look: Callable[[SessionHistory], Any]) -> Any:
        """Look at the session's memories as they stand."""
        self._store.check_open()
        with self.reader.mutex:
            session_history = self.reader.catch_up()
            self.unreadable()
            return look(session_history if session_history.histories else self._fold_in_place())

    def unreadable(self) -> list[Problem]:
        """Entries that cannot be read, as of the last read of this process; each is logged once."""
        found = [problem for state in list(self.reader.states.values()) if state.problems for problem in state.problems]
        return incomplete.met(self._named(incomplete.errors(found))) if found else []

    def _named(self, problems: list[Problem]) -> list[Problem]:
        """Problems of a copy in RAM, named by the archive that it was made from."""
        if not self.archive:
            return problems
        return incomplete.in_archive(problems, self.session, self.reader.folder, self.archive)

    def no_memory(self, id: str) -> MemoryNotFound:
        """The error for an id that is not in the session, with the entries that cannot be read."""
        error = MemoryNotFound(f"{id} does not exist in session {self.session}.", id=id, session=self.session)
        return incomplete.explained(error, self.unreadable())

    def _fold_in_place(self) -> SessionHistory:
        """The memories of a session that seems to have none: it may be put away and brought back just now."""
        for _ in range(_LOOKS):
            place = self._store.place_of(self.session)
            session_history = self.reader.catch_up()
            if session_history.histories or (place is not None and place == self._store.place_of(self.session)):
                return session_history
            self._store.check_there(self.session)
        return session_history

    def view_tail(self, kind: str, count: int, look: Callable[[SessionHistory], Any]) -> Any:
        """The same, but only the last memories of a type need to be there."""
        self._store.check_open()
        with self.reader.mutex:
            session_history = read_tail(self.reader, kind, count)
            return look(session_history) if session_history is not None else self.view(look)

    def refresh_overviews(self, records: Records, users: dict[str, str]) -> None:
        """Write the overview files of the session again, where the layout has some."""
        if self._store.layout.name == "markdown":
            from smp_memory.store.overview_files import write_overviews

            write_overviews(self._store.disk, self.reader.folder, records, users)

    def sizes(self) -> dict[str, int]:
        disk, folder = self._store.disk, self.reader.folder
        found = {
            name: disk.stat(os.path.join(folder, name)) for name in self._store.layout.files(disk, folder, self.session)
        }
        sizes = {name: state.st_size for name, state in found.items() if state is not None}
        if not sizes:
            self._store.check_there(self.session)
        return sizes

    # -- the head

    def info(self) -> SessionInfo:
        layout, disk = self._store.layout, self._store.disk
        self._store.check_open()
        try:
            info = self._read_info()
            if info.format > FORMAT:
                raise FormatTooNew(
                    f"Session {self.session} has format {info.format}; this SMP knows {FORMAT}. Install a newer one.",
                    session=self.session,
                    path=self.info_path(),
                    format=info.format,
                    limit=FORMAT,
                )
            if info.created_text == UNKNOWN:
                info.created_text = first_time(self.reader)
            return info
        except FileNotFoundError:
            if not layout.exists(disk, self._store.root, self.session):
                raise self._store.no_session(self.session) from None
            info = SessionInfo(self.session, first_time(self.reader))
            info.is_assumed = True
            return info
        except (
            ValueError,
            TypeError,
            AttributeError,
            RecursionError,
            InvalidFormat,
            InvalidRecord,
            StorageCorrupt,
        ) as error:
            raise SessionCorrupt(
                f"The head of session {self.session} cannot be read: {self.info_path()}: {error}. Its memories are fine; "
                "correct the file, or let `smp repair` set it aside.",
                session=self.session,
                path=self.info_path(),
            ) from error

    def info_path(self) -> str:
        """The file that holds the session's head."""
        layout = self._store.layout
        return os.path.join(self.reader.folder, layout.info_file or f"{self.session}.jsonl")

    def _read_info(self) -> SessionInfo:
        layout, data = self._store.layout, self._store.disk.read(self.info_path())
        conflict = find_conflict(layout, data)
        if conflict is not None and conflict.is_open:
            self._tell_of_conflict(conflict.line)
        if layout.info_file:
            return decode_metadata(layout, data, self.session, conflict)
        fields = conflict.fields if conflict is not None else last_metadata_line(layout, data)
        if fields is None:
            raise FileNotFoundError(self.info_path())
        return layout.decode_info(json.dumps(fields).encode(), self.session)

    def _tell_of_conflict(self, line: int) -> None:
        """Once in a process."""
        path = self.info_path()
        if path not in _told_of_conflict:
            _told_of_conflict.add(path)
            text = f"{path}:{line}: git left a merge conflict in the session's metadata; `smp validate` says what differs and what to do"
            event_log.emit("corruption", event_log.WARNING, "head_conflict", text, self.session, path=path, line=line)

    def head_conflict(self) -> MetadataConflict | None:
        """What git left in the head for a person to decide."""
        try:
            found = find_conflict(self._store.layout, self._store.disk.read(self.info_path()))
        except (FileNotFoundError, StorageCorrupt):
            return None
        return found if found is not None and (found.is_open or self._store.layout.info_file) else None

    def info_to_change(self) -> SessionInfo:
        """The head for whoever writes it anew. Raises SessionCorrupt if that would settle a conflict that git left."""
        info, conflict = self.info(), self.head_conflict()
        if conflict is not None:
            path = self.info_path()
            text = f"{path}:{conflict.line}: {conflict.message()}"
            raise SessionCorrupt(text, session=self.session, path=path, line=conflict.line)
        return info

    def _info_or_none(self) -> SessionInfo | None:
        try:
            return self.info()
        except (SessionCorrupt, SessionNotFound):
            return None

    def change_info(self, info: SessionInfo) -> None:
        self.exclusively("changing the session's head", lambda: self.write_info(info))

    def write_info(self, info: SessionInfo) -> None:
        """Replace the head; the lock is held."""
        data = self._store.layout.encode_info(info)
        if self._store.layout.info_file:
            self._store.disk.replace(self.info_path(), data)
        else:
            self.writer.append_metadata(f"{self.session}.jsonl", data)

    # -- checking

    def validate(self) -> Report:
        from smp_memory.store.verification import validate

        return validate(self)

    def repair(self) -> Report:
        from smp_memory.store.verification import repair

        return repair(self)

    @property
    def store(self) -> FileStore:
        return self._store

    def close(self) -> None:
        self.compare_known()
        self._close_files()

    def compare_known(self) -> None:
        """Before this process forgets its entries: those that another program took out of the files go to quarantine."""
        try:
            with self._writing:
                self.writer.quarantine_missing(self._timeout_seconds)
        except FileNotFoundError:
            pass  # the session was moved or removed
        except (OSError, SMPError) as error:
            folder = self.reader.folder
            text = f"{folder} changed and could not be compared with what this process stored there ({error}); run validate"
            event_log.emit("corruption", event_log.WARNING, "not_compared", text, self.session, path=folder)
        self.writer.forget_known()

    def _close_files(self) -> None:
        self.writer.close_files()
        self._lock.close()

    def __del__(self) -> None:
        """Called at any moment, maybe while this thread holds the lock: the comparison is left to the store, if it lives on."""
        self._close_files()
        if self.writer.has_known_entries:
            _open_sessions.add(self)
            self._store.dropped.append(self)


@atexit.register
def _compare_at_exit() -> None:
    for session in list(_open_sessions):
        try:
            session.compare_known()
        except BaseException:  # noqa: S112 - nobody is left to be told
            continue


def _after_fork_in_child() -> None:
    for session in list(_open_sessions):
        session.after_fork()
        session.store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
