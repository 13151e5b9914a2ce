"""The files of a session and its writer state while its lock is held: what every kind of write needs.

The base of `plan_writer` and `writer`. A file may be opened for appending only if it has the identity that the writer state records, or
that was read under this lock; otherwise `StaleFile` is raised and the caller reconciles first.
"""

from __future__ import annotations

import os
import time

from smp_memory.errors import DurabilityUnknown, StorageError
from smp_memory.files import quarantine, writer_state
from smp_memory.files.disk import identity
from smp_memory.files.quarantine import KnownEntries
from smp_memory.files.writer_state import WriterState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.files.disk import OpenFile
    from smp_memory.files.file_state import FileState
    from smp_memory.files.lock import SessionLock
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import BatchPort

_KEPT_LIMIT = 8 if os.name == "posix" else 0  # Windows cannot replace a file that anybody has open


class StaleFile(Exception):
    """A file differs from what the writer state records of it."""


class LockedFiles:
    def __init__(
        self,
        reader: SessionReader,
        lock: SessionLock,
        info: Callable[[], SessionInfo | None],
        check: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._disk = reader.disk
        self._layout = reader.layout
        self._lock = lock
        self._info = info
        self._check = check
        self._writer_state = WriterState()
        self._writer_state_bytes = b""
        self._files: dict[str, OpenFile] = {}  # of this commit
        self._kept: dict[str, OpenFile] = {}  # still open from an earlier commit
        self._stored: list[tuple[BatchPort, dict[str, bytes]]] = []
        self._identities: dict[str, list[int]] = {}  # of the files that were read under this lock
        self._unterminated: set[str] = set()  # files whose last line has no line end
        self._known_entries = KnownEntries(reader)
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
            file = self._disk.open_append(path, create=known is None)
        except FileNotFoundError:
            if known is not None:  # another program removed it, or is about to replace it
                self._writer_state.forget(name)
                time.sleep(quarantine.STABLE_SECONDS)
                raise StaleFile from None
            self._disk.make_folder(os.path.dirname(path))
            file = self._disk.open_append(path)
        if file.created and self._known_entries.holds(name):  # another program removed it
            file.close()
            raise StaleFile
        if not file.created and file.identity not in (known[:4] if known else None, self._identities.get(name)):
            file.close()
            raise StaleFile
        self._files[name] = file
        return file

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
            self._writer_state = self._reader.decode_writer_state(writer_state.read(self._disk, self._lock.descriptor))
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
        writer_state.write(self._disk.system, self._lock.descriptor, data)

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
