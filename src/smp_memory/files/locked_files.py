"""The files of a session and its writer state while its lock is held, and changes of several files together by a plan in the journal.

The base of `smp_memory.files.writer`. A file may be opened for appending only if it has the identity that the writer state records, or
that was read under this lock; otherwise `StaleFile` is raised and the caller reconciles first.

Plans: a transaction over several files whose plan is committed is stored; one that fails before is rolled back. A rewrite of whole files
is refused if another program has changed a file since it was read: before the plan is committed, and once more after that, when the
plan is withdrawn. A version that appears later is copied to quarantine (`smp_memory.files.journal`).
"""

from __future__ import annotations

import os
import time
from functools import partial

from smp_memory.errors import DurabilityUnknown, StorageError, StorageFull
from smp_memory.files import reconciliation
from smp_memory.files.disk import TEMPORARY, identity
from smp_memory.files.file_state import FileState
from smp_memory.files.journal import Plan, is_part
from smp_memory.files.lock import WriterState, read_state, write_state
from smp_memory.files.reconciliation import KnownEntries
from smp_memory.model.ids import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.files.disk import OpenFile
    from smp_memory.files.lock import SessionLock
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import BatchPort

_KEPT_LIMIT = 8 if os.name == "posix" else 0  # Windows cannot replace a file that anybody has open


class StaleFile(Exception):
    """A file differs from what the writer state records of it."""


class LockedFiles:
    """The part of a session's writer that opens, records and rewrites files."""

    def __init__(
        self,
        reader: SessionReader,
        lock: SessionLock,
        info: Callable[[], SessionInfo | None],
        check: Callable[[], None],
        check_exists: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._disk = reader.disk
        self._layout = reader.layout
        self._lock = lock
        self._info = info
        self._check = check
        self._check_exists = check_exists
        self._writer_state = WriterState()
        self._writer_state_bytes = b""
        self._files: dict[str, OpenFile] = {}  # of this commit
        self._kept: dict[str, OpenFile] = {}  # still open from an earlier commit
        self._stored: list[tuple[BatchPort, dict[str, bytes]]] = []
        self._identities: dict[str, list[int]] = {}  # of the files that were read under this lock
        self._unterminated: set[str] = set()  # files whose last line has no line end
        self._known_entries = KnownEntries(reader)
        self._to_arrange: dict[str, bool] = {}  # files in a form that cannot be appended to; False: it was tried
        self.completed: list[str] = []  # what was done to incomplete entries, for the report of a repair
        self.changes = 0  # a counter of all writes that this process knows of, its own and others'

    @property
    def numbers(self) -> dict[str, int]:
        """The largest numbers ever given out, by prefix, when the lock was last held."""
        return dict(self._writer_state.numbers)

    @property
    def seq(self) -> int:
        """The largest sequence number of an entry when the lock was last held."""
        return self._writer_state.seq

    @property
    def size_bytes(self) -> int:
        """The size of all files of the session together when the lock was last held."""
        return self._writer_state.size

    def _path(self, name: str) -> str:
        return f"{self._reader.folder}{os.sep}{name}"

    # -- files

    def _open(self, name: str) -> OpenFile:
        known = self._writer_state.files.get(name)
        kept = self._kept.pop(name, None)
        if kept is not None:
            if known is not None and kept.is_unchanged(known):
                self._files[name] = kept
                return kept
            kept.close()
        path = self._path(name)
        try:
            file = self._disk.open_append(path, create=False)
        except FileNotFoundError:
            if known is not None:  # another program removed it, or is about to replace it
                self._writer_state.forget(name)
                time.sleep(reconciliation.STABLE_SECONDS)
                raise StaleFile from None
            file = self._create(path)
        if file.created and self._known_entries.holds(name):  # another program removed it
            file.close()
            raise StaleFile
        if not file.created and file.identity not in (known[:4] if known else None, self._identities.get(name)):
            self._to_arrange.pop(name, None)
            file.close()
            raise StaleFile
        if file.identity[1] and self._must_arrange(name, file):
            file.close()
            raise StaleFile
        self._files[name] = file
        return file

    def _create(self, path: str) -> OpenFile:
        """A new file of a session that still exists: a session or a store that was moved or removed is not made again."""
        self._check_exists()
        self._disk.make_folder(os.path.dirname(path), within=self._reader.folder)
        return self._disk.open_append(path)

    def _must_arrange(self, name: str, file: OpenFile) -> bool:
        """Whether a file in another form must be rewritten before an entry can be appended to it; `reconcile` does so."""
        size, read = file.identity[1], partial(self._disk.read, file.path)
        if name not in self._to_arrange and self._layout.arranged(name, size, read) is not None:
            self._to_arrange[name] = True
        return self._to_arrange.get(name, False)

    def _prefix_of(self, name: str, file: OpenFile) -> bytes:
        """The bytes to write before the next entry: the header of a new file, or a missing line end."""
        if file.identity[1] == 0:
            return self._layout.codec_of(name).header(self._layout.title_of(name, self._reader.session))
        return b"\n" if name in self._unterminated else b""

    def _sync(self) -> bool:
        """Sync the files of this commit. Returns whether one of them is new: its name is on the disk only now."""
        created = False
        for name, file in self._files.items():
            created = created or file.created
            try:
                file.sync()
            except DurabilityUnknown as error:
                for batch, parts in self._stored:
                    if name in parts:
                        batch.error = error
                self._mark_suspect(name)
                self._write_state(remember=False)
        return created

    def _sync_folders(self) -> None:
        """Sync the folders of all files, because a writer that died may not have done so."""
        for folder in sorted(
            {os.path.dirname(self._path(name)) for name in self._reader.states} | {self._reader.folder}
        ):
            self._disk.sync_folder(folder)

    def _mark_suspect(self, name: str) -> None:
        """Record that a sync failed: the file is not synced again, the next writer copies it to a new one first."""
        self._writer_state.forget(name)
        if name not in self._writer_state.suspects:
            self._writer_state.suspects.append(name)

    def _keep_files_open(self) -> None:
        """Keep the files for the next commit: opening one costs more than writing to it."""
        self._stored.clear()
        self._kept.update(self._files)
        self._files.clear()
        while len(self._kept) > _KEPT_LIMIT:
            self._kept.pop(next(iter(self._kept))).close()

    def close_files(self) -> None:
        for files in (self._files, self._kept):
            for file in files.values():
                file.close()
            files.clear()
        self._stored.clear()

    # -- writer state

    def _load_state(self, operation: str, is_unchanged: bool) -> WriterState:
        """Read the writer state, unless this process stored it last, and write the holder's name into the lock file."""
        self._lock.sign(operation, is_unchanged)
        if self._identities:
            self._identities.clear()
            self._unterminated.clear()
        if not is_unchanged:
            self.changes += 1
            lineage = self._writer_state.lineage
            self._writer_state = self._reader.decode_writer_state(read_state(self._disk, self._lock.descriptor))
            self._known_entries.compare_epochs(self._writer_state, lineage)
        return self._writer_state

    def _write_state(self, *, remember: bool = True, created: bool = False) -> None:
        """Store the writer state. A new file is recorded only when its folder is synced: until then others must read it."""
        state = self._writer_state
        for name, file in self._files.items() if remember else ():
            if (created or not file.created) and name not in state.suspects:
                known, size = state.files.get(name), file.identity[1]
                try:
                    now = file.refresh_identity()
                except OSError:
                    now = [0, -1]
                if now[1] != size or not file.has_name:
                    state.forget(name)  # another program wrote to it meanwhile: the next writer reads it
                elif known is not None:
                    known[:4] = now
                else:
                    state.remember(name, now, time.time_ns())
        self._writer_state_bytes = data = state.encode()
        write_state(self._disk.system, self._lock.descriptor, data)

    def _record_identity(self, name: str, state: FileState) -> None:
        """Record a file's identity when it was read; if it differs from the writer state, a new epoch begins."""
        epoch = self._writer_state.unchanged(name, state.identity)
        if epoch is None:
            epoch = time.time_ns()
        self._writer_state.remember(name, state.identity, epoch)
        self._identities[name] = state.identity
        state.epoch = state.recorded_epoch = epoch

    def _record_growth(self, name: str, size: int) -> None:
        """Record a file's identity after an append; if its size is not the expected one, the next writer reads it."""
        known = self._writer_state.files.get(name)
        try:
            status = self._disk.stat(self._path(name))
        except StorageError:  # what was written is stored nevertheless
            status = None
        if status is None or status.st_size != size or (known is not None and known[0] != status.st_ino):
            self._writer_state.forget(name)
            self._identities.pop(name, None)
            return
        now = identity(status)
        self._writer_state.remember(name, now, known[4] if known else time.time_ns())
        self._identities[name] = now

    def _start_lineage(self, name: str) -> None:
        """Begin a new lineage. SMP does so when it removes entries itself: they must not come back."""
        self._writer_state.lineage = name
        self._known_entries.forget_written()

    # -- writes that need a plan

    def _write_renames(self) -> bool:
        """Store the ids under which memories are shown whose id was given out twice; False if there is nothing to do."""
        renames = self._reader.session_history.renames(self._writer_state.seq)
        parts: dict[str, bytes] = {}
        for entry in renames:
            name, data = self._reader.layout.encode(entry, self._reader.session)
            parts[name] = parts.get(name, b"") + data
            self._writer_state.seq = entry.seq
        for name, data in parts.items():
            try:
                file = self._files.get(name) or self._open(name)
            except StaleFile:
                return True  # another program changed it since it was reconciled: read it again
            file.append(self._prefix_of(name, file) + data)
            file.sync()
            self._writer_state.size += len(data)
            self._unterminated.discard(name)
            self._record_growth(name, file.identity[1])
        return bool(renames)

    def _store_by_journal(self, batch: BatchPort, parts: dict[str, bytes]) -> None:
        self._sync()  # the plan's offsets rely on it
        if self._writer_state.suspects:
            raise StorageError(
                "The disk does not confirm writes; the transaction was not started.", path=self._reader.folder
            )
        plan = Plan()
        for name, data in parts.items():
            file = self._files.get(name) or self._open(name)
            plan.appends.append((name, file.identity[1], self._prefix_of(name, file) + data))
        self.close_files()
        self._set_warning("plan")
        try:
            self._reader.journal.commit(plan)
            self._reader.journal.apply(plan, self.contains_entries)
        except (OSError, StorageError) as error:
            self._roll_back(plan, error)
        self._clear_journal()
        for name, offset, data in plan.appends:
            self._unterminated.discard(name)
            self._writer_state.size += len(data)
            self._record_growth(name, offset + len(data))
        self._stored.append((batch, parts))

    def _roll_back(self, plan: Plan, error: OSError | StorageError) -> None:
        """The plan cannot be written or applied (the disk is full): undo it, or raise that it may still be completed."""
        try:
            for name, offset, data in plan.appends:
                if not self._remove_appended(self._path(name), offset, data):
                    raise self._unfinished_plan(error) from error
            self._reader.journal.clear()
        except (OSError, StorageError):
            raise self._unfinished_plan(error) from error
        self._writer_state.warning = ""
        self._writer_state.forget_all()  # the files were touched: the next writer reads them
        raise error

    def _remove_appended(self, path: str, offset: int, data: bytes) -> bool:
        """Cut off what a plan has appended; False if another program wrote behind it."""
        try:
            appended = self._disk.read(path, offset)
        except FileNotFoundError:
            return True
        if appended and is_part(appended, data):
            return self._disk.truncate_tail(path, offset, appended)
        return not appended or data not in appended

    def contains_entries(self, name: str, data: bytes) -> bool:
        """Whether a file already contains these entries, wherever a person may have moved them."""
        expected, stored = FileState(), FileState()
        self._reader.decode(name, data, expected)
        if self._disk.exists(self._path(name)):
            self._reader.decode(name, self._disk.read(self._path(name)), stored)
        return {entry.seq for entry in expected.entries} <= {entry.seq for entry in stored.entries}

    def rewrite(self, contents: dict[str, bytes | None], *, destroys: bool = False) -> dict[str, list[int]]:
        """Replace whole files together; None removes one. Returns the identities of the new files.

        `destroys`: what is taken out is nowhere else afterwards; a process that finds the plan after a crash must know that.

        The lock is held by the caller, who made the new contents from what was read under it; if a file has changed since, nothing
        is done.
        """
        plan = Plan()
        folders = set()
        identities: dict[str, list[int]] = {}
        written = max((state.identity[2] for state in self._reader.states.values()), default=0)
        for name, data in contents.items():
            path = self._path(name)
            if data is None:
                plan.removes.append(name)
                continue
            self._disk.make_folder(os.path.dirname(path), within=self._reader.folder)
            identities[name] = self._disk.write_replacement(path, data, written)
            folders.add(os.path.dirname(path))
            plan.moves.append((name + TEMPORARY, name))
        for folder in sorted(folders):
            self._disk.sync_folder(folder)
        self._start_lineage("")
        self._set_warning("plan")
        plan.moves.sort(
            key=lambda move: self._shrinks(*move)
        )  # files that gain memories first: each is always somewhere
        plan.before = self._digests(contents)
        self._refuse_if_changed(contents)
        try:
            self._reader.journal.commit(plan, destroys=destroys)
            self._refuse_if_changed(contents)  # the commit took time, and nothing is moved yet
        except (OSError, StorageError) as error:
            self._withdraw_plan(error)
            raise
        try:
            self._reader.journal.apply(plan, self.contains_entries)
        except (OSError, StorageError) as error:
            self._writer_state.forget_all()
            raise self._unfinished_plan(error) from error
        self._clear_journal()
        for name in contents:
            self._writer_state.forget(name)
        return identities

    def _shrinks(self, source: str, target: str) -> bool:
        new, old = self._disk.stat(self._path(source)), self._disk.stat(self._path(target))
        return new is not None and old is not None and bool(new.st_size < old.st_size)

    def _complete_entries(self) -> bool:
        """Write ids and times into entries that a person wrote without them, and arrange files that are to be written.

        False if there is nothing to do.
        """
        names = [name for name, is_open in self._to_arrange.items() if is_open and name not in self._files]
        if not self._reader.has_incomplete and not names:
            return False
        contents, done = reconciliation.complete_files(self._reader, skip=self._files)
        contents = contents or reconciliation.arrange_files(self._reader, names)
        self._to_arrange.update(dict.fromkeys(names, False))
        if not contents:
            return False
        try:
            self.rewrite(contents)
        except reconciliation.ConcurrentFileChange:
            return True  # read again
        self.completed += done
        return True

    def _digests(self, names: Iterable[str]) -> dict[str, str]:
        """Digests of the files that people may edit, synced first: a file with another digest after a crash was changed."""
        digests: dict[str, str] = {}
        for name in names:
            path = self._path(name)
            if not self._disk.exists(path):
                digests[name] = ""
            elif name in self._reader.states or name == self._reader.layout.info_file:
                try:
                    self._disk.sync_file(path)
                except DurabilityUnknown:
                    self._mark_suspect(name)
                    raise
                digests[name] = sha256_hex(self._disk.read(path))
        return digests

    def _refuse_if_changed(self, names: Iterable[str]) -> None:
        for name in names:
            state = self._reader.states.get(name)
            status = self._disk.stat(self._path(name)) if state is not None else None
            if state is not None and (status is None or identity(status)[:3] != state.identity[:3]):
                raise reconciliation.concurrent_change(self._path(name))

    def _withdraw_plan(self, error: OSError | StorageError) -> None:
        """Remove a plan that could not be committed; if that fails, raise that it may still be completed."""
        try:
            self._reader.journal.clear()
        except OSError:
            raise self._unfinished_plan(error) from error
        self._writer_state.warning = ""

    def _unfinished_plan(self, error: OSError | StorageError) -> DurabilityUnknown:
        return DurabilityUnknown(
            f"A transaction was committed but not yet applied ({error}). The next write or read completes it.",
            path=self._reader.journal.path,
        )

    def _clear_journal(self) -> None:
        try:
            self._reader.journal.clear()
            self._writer_state.warning = ""
        except OSError:
            pass  # the plan is applied; the next writer sees the warning, finds it applied and clears it

    def end_lineage(self, descriptor: int) -> None:
        """Record that SMP may remove entries from now on. The descriptor is that of the lock, held by the caller."""
        state = self._reader.decode_writer_state(read_state(self._disk, descriptor))
        if state.lineage:
            state.lineage = ""
            write_state(self._disk.system, descriptor, state.encode())

    def mark_converting(self) -> None:
        """Make every later writer check first whether this is still the store that it opened."""
        self._start_lineage("")
        self._set_warning("converting")

    def _set_warning(self, warning: str) -> None:
        """Store a warning for the next writer, before the change that it warns of; without it the change must not happen."""
        self._writer_state.warning = warning
        data = self._writer_state.encode()
        self._writer_state_bytes = data
        if not write_state(self._disk.system, self._lock.descriptor, data):
            raise StorageFull(
                f"No space left for the writer state in {self._reader.private}. Nothing was written.",
                path=self._reader.private,
            )
