"""One session of a store in files: joins reader, writer, lock and group commit.

Guarantees: those of `smp_memory.store.port`. Threads may share a session. A child made by `fork` starts with locks of its own
and holds none of its parent's.
"""

from __future__ import annotations

import atexit
import os
import weakref
from _thread import RLock, allocate_lock
from functools import partial

from smp_memory import files, store
from smp_memory.errors import (
    MemoryNotFound,
    SessionCorrupt,
    SessionNotFound,
    SMPError,
    StorageCorrupt,
    from_os_error,
)
from smp_memory.files.disk import identity
from smp_memory.files.lock import SessionLock
from smp_memory.files.partial_reader import read_tail
from smp_memory.files.reader import SessionReader
from smp_memory.files.user_state import PlanApproval
from smp_memory.import_lock import held_at_no_fork
from smp_memory.model.history import COLD, HOT, SessionHistory
from smp_memory.model.session_info import FORMAT
from smp_memory.observe import incomplete, telemetry
from smp_memory.privacy.settings import session_settings
from smp_memory.store import session_metadata
from smp_memory.store.durability import GroupCommit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from smp_memory.config.settings import Config
    from smp_memory.files.writer import SessionWriter
    from smp_memory.git.metadata_conflicts import MetadataConflict
    from smp_memory.model.record import Records
    from smp_memory.model.reports import Problem, Report
    from smp_memory.model.rewrite_plan import RewritePlan, RewriteReport
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.model.storage_reports import RecordedDeletion, TidyReport
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.port import BatchPort, FileEdit

_TRIES = 20
_LARGE_BYTES = 1 << 20  # reading a smaller session takes no longer than opening the index

_open_sessions: weakref.WeakSet[FileSession] = weakref.WeakSet()


class FileSession:
    """One session in files."""

    def __init__(self, store: FileStore, session: str) -> None:
        self.session = session
        self.is_closing = False  # then nothing waits for the lock
        self.archive_path = ""  # for a copy in RAM: the archive that it was made from
        self.archiving_store: FileStore | None = None  # of a copy of an archived session: where a plan changes it
        self._store = store
        self.reader = SessionReader(store.disk, store.layout, store.root, session)
        self.reader.journal.approval = PlanApproval(store.state, session)
        slow = store.config.slow_seconds
        self._lock = SessionLock(store.disk, self.reader.private, f"session {session}", session, slow)
        self._writer: SessionWriter | None = None
        self._writing = allocate_lock()  # the kernel's lock separates processes, not threads of one process
        self._group = GroupCommit(self._commit_group)
        self._config: Config | None = None
        self._sync_always, self._sync_later = True, False  # until the session's settings are read
        self._timeout_seconds = 5.0
        self._suspects: set[str] = set()  # files whose fsync failed, until that is recorded for other processes
        self._admit = partial(store.admit, session, quota_bytes=0)
        _open_sessions.add(self)
        while store.dropped:
            store.dropped.pop().close()

    def after_fork(self) -> None:
        """In the child: discard state that another thread may have been changing when the process forked."""
        self._close_files()
        self._writer = None
        if not self.reader.mutex.acquire(blocking=False):
            self.reader.forget()
        self.reader.mutex = RLock()
        self._writing = allocate_lock()
        self._group = GroupCommit(self._commit_group, self._group.patience_seconds)

    @property
    def writer(self) -> SessionWriter:
        """Made at its first use, because most processes only read; the same for all threads."""
        if self._writer is None:
            checks = self._store.check_current, partial(self._store.check_exists, self.session)
            made = files.writer.SessionWriter(self.reader, self._lock, self._info_or_none, *checks)
            with held_at_no_fork:
                if self._writer is None:
                    self._writer = made
        return self._writer

    @property
    def has_known_entries(self) -> bool:
        """Whether this process wrote to the session, or read it under the lock."""
        return self._writer is not None and self._writer.has_known_entries

    @property
    def location(self) -> str:
        return self.reader.folder

    @property
    def size_bytes(self) -> int:
        return self.writer.size_bytes

    # -- writing

    def commit(self, batch: BatchPort) -> None:
        if self._store.closed:
            self._store.check_open()
        if self._sync_later:
            self._store.syncer.raise_failure()
            self._mark_suspects()
        if batch.needs_histories:
            batch.read_version = self.writer.changes
            self.reader.catch_up()  # before the lock is taken; under it only if another process wrote meanwhile
        try:
            self._group.commit(batch)
        except MemoryNotFound as error:
            self._store.check_exists(self.session)  # it may have been moved or removed with its memories
            is_known = error.details.get("id") in self.reader.session_history.histories  # hidden or deleted
            raise error if is_known else incomplete.with_unreadable(error, self.unreadable()) from None

    @property
    def config(self) -> Config:
        """The store's settings overridden by the session's own, as they were when they were first asked for."""
        if self._config is None:
            config = self._store.config
            has_own = session_metadata.may_have_settings(self._store.disk, self.info_path())
            info = self._info_or_none() if has_own else None
            self._config = session_settings(config, info) if info is not None else config
            self._sync_always = self._config.durability == "always"
            self._sync_later = self._config.durability == "interval"
            self._timeout_seconds = self._config.lock_timeout_seconds
            quota = self._config.quota_bytes
            self._admit = partial(self._store.admit, self.session, quota_bytes=quota)
            if not self._sync_always:
                self._group.patience_seconds = 0.0  # there is no sync to share
        return self._config

    def _commit_group(self, batches: list[BatchPort]) -> None:
        if self._config is None:
            self.config  # noqa: B018 - reads the settings
        with self._writing:
            try:
                if self._lock.descriptor < 0:
                    self._make_private()
                names = self.writer.commit(batches, self._sync_always, self._timeout_seconds, self._admit)
            except FileNotFoundError:
                raise self._store.session_not_found(self.session) from None
            except OSError as error:
                raise from_os_error(error, self.reader.folder, batches[0].operation_name) from error
        self._store.mark_changed(self.session)
        if self._sync_later:
            self._store.syncer.sync_later(self.reader.folder, names, self.distrust)

    def distrust(self, name: str) -> None:
        """Mark a file whose fsync failed: the next writer copies it to a new one first."""
        self._suspects.add(name)
        try:
            self._mark_suspects()
        except (SMPError, OSError):
            pass  # locked or not writable; the next write of this process tries it again

    def _mark_suspects(self) -> None:
        if self._suspects:
            with self._writing:
                names = list(self._suspects)
                self.writer.mark_suspect(names, self._timeout_seconds)
                self._suspects.difference_update(names)

    def _make_private(self) -> None:
        """Create the private folder of a session that a person or another tool made."""
        if not self._store.disk.exists(self.reader.private):
            if not self._store.has_session(self.session):
                raise self._store.session_not_found(self.session)
            self._store.make_folder(self.reader.private)

    def run_locked(self, operation: str, work: Callable[[], Any], *, while_converting: bool = False) -> Any:
        """Call `work` under the session's lock, with settled files; `operation` is shown to processes that wait."""
        try:
            return self.run_unmarked(operation, work, while_converting=while_converting)
        finally:
            (self._store.change_table if while_converting else self._store).mark_changed(self.session)

    def run_unmarked(self, operation: str, work: Callable[[], Any], *, while_converting: bool = False) -> Any:
        """The same for work that changes no memory."""
        self._store.check_open()
        with self._writing:
            try:
                self._make_private()
                timeout = 0.0 if self.is_closing else self.config.lock_timeout_seconds
                return self.writer.run_locked(operation, timeout, work, check=not while_converting)
            except (StorageCorrupt, OSError) as error:
                if isinstance(error, FileNotFoundError | StorageCorrupt) and not self._store.has_session(self.session):
                    # It was archived or deleted while the lock was acquired.
                    raise self._store.session_not_found(self.session) from None
                if isinstance(error, OSError):
                    raise from_os_error(error, self.reader.folder, operation) from error
                raise

    # -- reading

    def history(
        self,
        ids: Iterable[str] | None = None,
        *,
        kind: str | None = None,
        last: int | None = None,
        key: str | None = None,
        segment: str = HOT,
    ) -> SessionHistory:
        self._store.check_open()
        if segment == COLD:
            return self._cold_history(ids, key)
        if ids is not None:
            ids = list(ids)
            found = self._histories_by_index(ids) if self._is_index_faster() else None
            if found is not None:
                return found
        with self.reader.mutex:
            tail = read_tail(self.reader, kind, last) if kind is not None and last is not None else None
            if tail is None:
                known = self.reader.catch_up()
                known = known if known.histories else self._reread_if_moved()
                tail = known.snapshot() if ids is None else known.subset(ids)
            if not tail.histories:
                self._store.check_layout()
            tail.unreadable = self.unreadable()
            return tail

    def _histories_by_index(self, ids: list[str]) -> SessionHistory | None:
        """These memories without reading the session; None if one of them is not where the index says."""
        session_history = SessionHistory()
        for id in ids:
            history = store.record_reader.history_by_index(self._store, self.session, id)
            if history is None:
                return None
            session_history.histories[id] = history
        return session_history

    def _is_index_faster(self) -> bool:
        """Whether reading the session takes longer than opening the index. No index is built for it."""
        if self.reader.states or sum(self.sizes().values()) < _LARGE_BYTES:
            return False
        return self._store.disk.exists(self._store.indexer.folder)

    def unreadable(self) -> list[Problem]:
        """Unreadable entries at the last read of this process; each is logged once."""
        found = [problem for state in list(self.reader.states.values()) if state.problems for problem in state.problems]
        found += self.reader.hidden_problems()
        return incomplete.report(self._named(incomplete.errors(found))) if found else []

    def _named(self, problems: list[Problem]) -> list[Problem]:
        """The problems, with paths in the archive if this is a copy of one."""
        if not self.archive_path:
            return problems
        return incomplete.located_in_archive(problems, self.session, self.reader.folder, self.archive_path)

    def _reread_if_moved(self) -> SessionHistory:
        """The history of a session that seems to be empty: it may be archived and restored at this moment."""
        for _ in range(_TRIES):
            identity = self._store.session_identity(self.session)
            session_history = self.reader.catch_up()
            if session_history.histories or (
                identity is not None and identity == self._store.session_identity(self.session)
            ):
                return session_history
            self._store.check_exists(self.session)
        return session_history

    def version(self, segment: str = HOT) -> object | None:
        found = self._stats(segment)
        return [(name, *identity(each)) for name, each in found.items() if each is not None] or None

    def _stats(self, segment: str) -> dict[str, os.stat_result | None]:
        disk, folder, layout = self._store.disk, self.reader.folder, self._store.layout
        if segment == COLD:
            return {layout.cold_file(self.session): disk.stat(store.cold_storage.cold_path(self))}
        return {name: disk.stat(os.path.join(folder, name)) for name in layout.files(disk, folder, self.session)}

    def sizes(self, segment: str = HOT) -> dict[str, int]:
        found = self._stats(segment)
        sizes = {name: state.st_size for name, state in found.items() if state is not None}
        if not sizes and segment == HOT:
            self._store.check_exists(self.session)
        return sizes

    # -- metadata

    def info(self) -> SessionInfo:
        return session_metadata.load(self)

    def info_path(self) -> str:
        """The file with the session's metadata."""
        layout = self._store.layout
        return os.path.join(self.reader.folder, layout.info_file or f"{self.session}.jsonl")

    def metadata_conflict(self) -> MetadataConflict | None:
        """The merge conflict that git left in the metadata for a person to resolve."""
        return session_metadata.open_conflict(self)

    def info_for_update(self) -> SessionInfo:
        info, conflict = self.info(), self.metadata_conflict()
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

    def update_info(self, change: Callable[[SessionInfo], None]) -> SessionInfo:
        def update() -> SessionInfo:
            info = self.info_for_update()
            change(info)
            self.write_info(info)
            return info

        info: SessionInfo = self.run_locked("changing the session's metadata", update)
        return info

    def write_info(self, info: SessionInfo) -> None:
        """Replace the metadata, with the figures of now. Hold the lock."""
        info.figures, info.format = store.tidy.current_figures(self, info), FORMAT
        data = self._store.layout.encode_info(info)
        if self._store.layout.info_file:
            self._store.disk.replace(self.info_path(), data)
        else:
            self.writer.append_metadata(f"{self.session}.jsonl", data)

    # -- the cold segment and rewrites

    def _cold_history(self, ids: Iterable[str] | None, key: str | None) -> SessionHistory:
        if self.version(COLD) is None:
            return SessionHistory()
        found = store.cold_storage.cold_history(self, ids, key)
        found.unreadable = incomplete.report(self._named(found.unreadable))
        return found

    def rewrite(self, plan: RewritePlan, *, dry_run: bool = False) -> RewriteReport:
        if self.archiving_store is not None:
            return store.inactive_sessions.rewrite_archive(self.archiving_store, self.session, plan, dry_run=dry_run)
        if plan.redactor is not None:
            return store.erasure.redact(self, plan, dry_run=dry_run)
        return store.session_edits.carry_out(self, plan)

    # -- what only files have

    @property
    def files(self) -> FileSession:
        return self

    def tidy(self, *, dry_run: bool = False) -> TidyReport:
        return store.tidy.tidy_session(self, dry_run=dry_run)

    def show_overviews(self, records: Records, users: dict[str, str]) -> None:
        if self._store.layout.name == "markdown":
            store.tidy.write_overviews(self._store.disk, self.reader.folder, records, users)

    def recorded_deletions(self) -> list[RecordedDeletion]:
        if self._store.layout.name != "markdown":
            return []
        return store.tidy.recorded_deletions(self)

    def write_deletion_record(self) -> None:
        if self._store.layout.name == "markdown":
            store.tidy.write_record(self)

    def refresh(self, *, dry_run: bool = False) -> bool:
        return store.tidy.refresh(self, dry_run=dry_run)

    # -- verification

    def validate(self) -> Report:
        return store.verification.validate(self)

    def repair(self) -> Report:
        return store.verification.repair(self)

    def stored_files(self) -> Iterator[tuple[str, bytes, Any]]:
        return store.verification.stored_files(self)

    def edit_files(self, edit: FileEdit) -> list[str]:
        return store.verification.edit_files(self, edit)

    @property
    def store(self) -> FileStore:
        return self._store

    def close(self) -> None:
        self.compare_known()
        self._close_files()

    def compare_known(self) -> None:
        """Quarantine stored entries that another program removed from the files, before this process forgets them."""
        if self._writer is None:
            return
        try:
            with self._writing:
                self.writer.quarantine_missing(self._timeout_seconds)
        except FileNotFoundError:
            pass  # the session was moved or removed
        except (OSError, SMPError) as error:
            folder = self.reader.folder
            text = f"{folder} changed and could not be compared with what this process stored there ({error}); run validate"
            telemetry.emit("corruption", telemetry.WARNING, "not_compared", text, self.session, path=folder)
        self.writer.forget_known()

    def _close_files(self) -> None:
        if self._writer is not None:
            self._writer.close_files()
        self._lock.close()

    def __del__(self) -> None:
        """May run while this thread holds the lock, so `compare_known` is left to the store."""
        self._close_files()
        if self.has_known_entries:
            _open_sessions.add(self)
            self._store.dropped.append(self)


@atexit.register
def _compare_at_exit() -> None:
    for session in list(_open_sessions):
        try:
            session.compare_known()
        except BaseException:  # noqa: S112 - the process ends
            continue


def _after_fork_in_child() -> None:
    for session in list(_open_sessions):
        session.after_fork()
        session.store.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
