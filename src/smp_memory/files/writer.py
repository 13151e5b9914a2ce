"""Append batches of entries to a session's files under its lock.

    lock → load writer state → resolve ids → encode → append (one write per file) → store writer state → sync (the commit point) → unlock

Several batches that wait at once share the syncs. An atomic batch that touches several files goes through the journal, whose sync is
then the commit point. Files that differ from the writer state are *reconciled* first: they are read, a torn end is moved to
quarantine, a committed plan is applied.

Guarantees: a batch is stored whole or rejected whole; an error of one batch does not touch the others. When `commit` returns, each
batch without an error is as durable as the setting says.
"""

from __future__ import annotations

import os
import time

from smp_memory.errors import DurabilityUnknown, SMPError, StorageError, from_os_error
from smp_memory.files import reconciliation
from smp_memory.files.disk import TEMPORARY, identity
from smp_memory.files.file_state import session_too_large
from smp_memory.files.lock import WriterState
from smp_memory.files.locked_files import LockedFiles, StaleFile
from smp_memory.git.metadata_conflicts import find_conflict
from smp_memory.model.entry import Entry, transaction_mark
from smp_memory.model.history import IdAllocator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.files.disk import OpenFile
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import BatchPort

    Admit = Callable[[int, int], None]  # (stored bytes, new bytes): raises if the quota is exceeded

_TRIES = 8


class SessionWriter(LockedFiles):
    """The writer of one session in one process."""

    def commit(self, batches: list[BatchPort], sync: bool, timeout_seconds: float, admit: Admit) -> list[str]:
        """Store the batches; an error is set on its batch. Returns the files written, for callers that sync later."""
        is_unchanged = self._lock.acquire(timeout_seconds, self._writer_state_bytes)
        try:
            state = self._load_state(batches[0].operation_name, is_unchanged)
            if state.warning or state.suspects or not state.files:
                self.changes += 1
                self._check()
                self.recover()
            if self._known_entries.must_compare or self._reader.vanished:
                self._known_entries.compare(state.lineage)
            for batch in batches:
                self._store_batch(batch, admit)
            if batches[0].is_maintenance and all(batch.is_maintenance for batch in batches):
                for file in self._files.values():
                    self._disk.set_modified_time(file.path, file.modified_before)
            self._write_state()
            for file in self._files.values():
                if not file.has_name:
                    self._append_to_replaced()
                    break
            if sync and self._sync():
                self._write_state(created=True)
            self._known_entries.add_all(self._stored, self._writer_state)
            return list(self._files)
        finally:
            self._keep_files_open()
            self._lock.release()

    def _append_to_replaced(self) -> None:
        """Another program replaced a file while SMP wrote to it: append to the new file what was written to the old one."""
        lost: list[str] = []
        for _ in range(_TRIES):
            lost = [name for name, file in self._files.items() if not file.has_name] or lost
            try:
                for name in lost:
                    self._writer_state.forget(name)
                    if name in self._files:
                        self._files.pop(name).close()
                if not self._disk.exists(self._reader.private):
                    break
                self.reconcile()
                for name in lost:
                    parts = [part[name] for batch, part in self._stored if name in part and batch.error is None]
                    file = self._open(name)
                    file.append(self._prefix_of(name, file) + b"".join(parts))
                    self._unterminated.discard(name)
                self._write_state()
            except StaleFile:
                continue
            except (OSError, SMPError):
                break
            if all(self._files[name].has_name for name in lost):
                return
        error = DurabilityUnknown(
            f"{', '.join(map(self._path, lost))}: replaced by another program while SMP wrote. The write was not "
            "acknowledged and may or may not be stored.",
            path=self._reader.folder,
        )
        for batch, part in self._stored:
            if not part.keys().isdisjoint(lost):
                batch.error = error

    def _store_batch(self, batch: BatchPort, admit: Admit) -> None:
        state = self._writer_state
        read_version = batch.read_version
        try:
            for attempt in range(_TRIES):
                session_history = None
                if batch.needs_histories:
                    session_history = (
                        self._reader.session_history if read_version == self.changes else self._reader.catch_up()
                    )
                    if session_history.names.unsettled or self._reader.has_incomplete:  # the batch may refer to them
                        self.reconcile()
                        session_history = self._reader.catch_up()
                allocator = IdAllocator(state.seq, state.numbers.copy(), session_history)
                try:
                    entries = batch.resolve(allocator)
                    if entries:
                        self._store(batch, self._encode(batch, entries), admit)
                    else:
                        self._resync_existing()
                    state.seq, state.numbers = allocator.seq, allocator.numbers
                    self.changes += 1
                    return
                except StaleFile:
                    time.sleep(0.001 * attempt)
                    self.reconcile()
                    read_version = -1
            raise reconciliation.concurrent_change(self._reader.folder)
        except SMPError as error:
            batch.error = error
        except OSError as error:
            batch.error = self._gone(error) or from_os_error(error, self._reader.folder, batch.operation_name)

    def _gone(self, error: OSError) -> SMPError | None:
        """The error for a session or a store that another program moved or removed."""
        try:
            if isinstance(error, FileNotFoundError):
                self._check_exists()
        except SMPError as gone:
            return gone
        return None

    def _resync_existing(self) -> None:
        """Nothing to write: sync the existing files, because the process that wrote them may have died before its sync."""
        for name in self._layout.files(self._disk, self._reader.folder, self._reader.session):
            try:
                self._disk.sync_file(self._path(name))
            except DurabilityUnknown:
                self._mark_suspect(name)
                raise
        self._sync_folders()

    def _store(self, batch: BatchPort, parts: dict[str, bytes], admit: Admit) -> None:
        """Append to each file; if one append fails, undo all."""
        new_bytes = sum(map(len, parts.values()))
        batch.check_room(admit, self._writer_state.size, new_bytes)
        if batch.atomic and len(parts) > 1:
            self._store_by_journal(batch, parts)
            return
        files = self._files
        for name in parts:  # before the first byte is written, all files are known to match the writer state
            if name not in files:
                self._open(name)
        self._stored.append((batch, parts))
        written: list[tuple[OpenFile, int]] = []
        try:
            for name, data in parts.items():
                file = files[name]
                size = file.identity[1]
                written.append((file, size))
                file.append(data if size and not self._unterminated else self._prefix_of(name, file) + data)
        except BaseException:
            self._undo_appends(written)
            raise
        self._writer_state.size += new_bytes
        if self._unterminated:
            self._unterminated.difference_update(parts)

    def _undo_appends(self, written: list[tuple[OpenFile, int]]) -> None:
        failure = None
        for file, size in written:
            try:
                file.undo_appends(size)
            except (OSError, StorageError) as error:
                self._writer_state.forget(os.path.relpath(file.path, self._reader.folder).replace(os.sep, "/"))
                failure = error
        if failure is not None:
            raise failure

    def _encode(self, batch: BatchPort, entries: list[Entry]) -> dict[str, bytes]:
        """The bytes to append, by file; entries of a transaction get its mark."""
        layout, session = self._layout, self._reader.session
        if len(entries) == 1:
            name, data = layout.encode(entries[0], session)
            return {name: data}
        if batch.atomic:
            files = {layout.file_of(entry, session) for entry in entries}
            mark = transaction_mark(entries[0].seq, len(entries), len(files))
            for entry in entries:
                entry.tx = mark
        parts: dict[str, list[bytes]] = {}
        for entry in entries:
            name, data = layout.encode(entry, session)
            parts.setdefault(name, []).append(data)
        parts[name] = parts.pop(name)  # the last entry is written last: where it is, the transaction was complete
        return {name: b"".join(part) for name, part in parts.items()}

    def mark_suspect(self, names: Iterable[str], timeout_seconds: float) -> None:
        """Record that the disk did not confirm what was written to these files."""
        is_unchanged = self._lock.acquire(timeout_seconds, self._writer_state_bytes)
        try:
            self._load_state("recording a failed sync", is_unchanged)
            for name in names:
                self._mark_suspect(name)
            self._write_state(remember=False)
        finally:
            self._lock.release()

    def append_metadata(self, name: str, data: bytes) -> None:
        """Append a new metadata line of the session to its log. The lock is held by the caller."""
        for _ in range(_TRIES):
            try:
                file = self._open(name)
                break
            except StaleFile:
                self.reconcile()
        else:
            raise reconciliation.concurrent_change(self._path(name))
        try:
            file.append(self._prefix_of(name, file) + data)
            file.sync()
        finally:
            self.close_files()
        self._unterminated.discard(name)
        self._record_growth(name, file.identity[1])

    def run_locked(self, operation: str, timeout_seconds: float, work: Callable[[], Any], *, check: bool = True) -> Any:
        """Run a function under the lock, on reconciled files."""
        is_unchanged = self._lock.acquire(timeout_seconds, self._writer_state_bytes)
        self.changes += 1
        try:
            self._load_state(operation, is_unchanged)
            try:
                if check:
                    self._check()
                self.recover()
                return work()
            finally:
                self.close_files()
                self._write_state()
        finally:
            self._lock.release()

    # -- recovery

    def recover(self) -> None:
        """Finish what a dead writer left: apply a committed plan, remove temporary files, replace suspect files."""
        self._reader.journal.recover(self.contains_entries)
        for name in self._writer_state.suspects:
            reconciliation.replace_suspect(self._reader, self._path(name), _TRIES)
        self._writer_state.suspects = []
        self._writer_state.warning = ""
        folders = {os.path.dirname(self._path(name)) for name in self._reader.states}
        for folder in folders | {self._reader.folder, self._reader.private}:
            for name in self._disk.names(folder):
                if name.endswith(TEMPORARY) and self._belongs_to_session(os.path.join(folder, name)):
                    self._disk.remove(os.path.join(folder, name))
        self.reconcile()

    def _belongs_to_session(self, path: str) -> bool:
        """Whether a temporary file may be removed: in a folder that several sessions share, only this session's."""
        shared = not self._layout.info_file and os.path.dirname(path) != self._reader.private
        return not shared or os.path.basename(path).startswith(self._reader.session + ".")

    def reconcile(self) -> None:
        """Read the files, move torn ends to quarantine, and record the files' identities in the writer state."""
        with self._reader.mutex:
            for attempt in range(_TRIES):
                if (
                    self._reconcile_once(may_wait=attempt == 0)
                    and not self._complete_entries()
                    and not self._write_renames()
                ):
                    return
                time.sleep(0.001 * attempt)
        raise reconciliation.concurrent_change(self._reader.folder)

    def _reconcile_once(self, *, may_wait: bool) -> bool:
        """One attempt; False if a file changed meanwhile, because only what was read may be recorded."""
        session_history = self._reader.catch_up()
        if self._reader.too_large:
            raise session_too_large(self._reader.folder, self._reader.session)
        info = self._info()
        self._record_incomplete(info)
        allocator = IdAllocator(max(self._writer_state.seq, session_history.seq), self._writer_state.numbers)
        allocator.raise_to(info.seq if info else 0, session_history.numbers)
        allocator.raise_to(0, info.numbers if info else {})
        # First, because what follows may fail.
        self._writer_state.seq, self._writer_state.numbers = allocator.seq, allocator.numbers
        for name, state in self._reader.states.items():
            status = self._disk.stat(self._path(name))
            if status is None or identity(status) != state.identity:
                return False
            if status.st_size > state.end:
                reconciliation.cut_torn_end(self._reader, name)
                return False
        for name, state in self._reader.states.items():
            self._record_identity(name, state)
            if state.unterminated:
                self._unterminated.add(name)
                self._writer_state.forget(name)  # so that the next writer reads it, too
        if self._reader.states:
            self._sync_folders()
        self._writer_state.size = (
            sum(known[1] for known in self._writer_state.files.values() if known) + self._unrecorded_bytes()
        )
        lineage = self._writer_state.lineage
        if not lineage:
            self._start_lineage(os.urandom(6).hex())
        self._reader.lineage = self._writer_state.lineage  # under the lock the states are what the files hold
        return self._known_entries.quarantine_missing(lineage, may_wait=may_wait)

    def _record_incomplete(self, info: SessionInfo | None) -> None:
        """Record transactions with missing entries: a later entry would be taken as evidence that they were complete."""
        new = [mark for mark in self._reader.hidden if info is not None and mark not in info.incomplete]
        path = self._path(self._layout.info_file)
        if not new or info is None or find_conflict(self._layout, self._disk.read(path)) is not None:
            return
        info.incomplete = info.incomplete + new
        self._disk.replace(path, self._layout.encode_info(info))

    def quarantine_missing(self, timeout_seconds: float) -> None:
        """Compare the entries that this process knows with the files before it forgets them; takes the lock only if a file changed."""
        lineage = self._writer_state.lineage
        if not lineage or not self._known_entries.may_be_missing(self._reader.read_writer_state(), lineage):
            return
        is_unchanged = self._lock.acquire(timeout_seconds, self._writer_state_bytes)
        try:
            state = self._load_state("comparing entries", is_unchanged)
            if self._known_entries.may_be_missing(state, lineage):
                self._known_entries.compare(state.lineage)
        finally:
            self._lock.release()

    @property
    def has_known_entries(self) -> bool:
        """Whether this process wrote to the session, or read it under the lock."""
        return bool(self._writer_state.lineage)

    def forget_known(self) -> None:
        self._known_entries.forget_written()
        self._writer_state, self._writer_state_bytes = WriterState(), b""

    def _unrecorded_bytes(self) -> int:
        return sum(
            state.identity[1] for name, state in self._reader.states.items() if name not in self._writer_state.files
        )

    # -- writer state
