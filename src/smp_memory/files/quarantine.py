"""Quarantine of a session: torn ends of files, and entries that another program removed from them.

Another program (git, an editor, a restored backup) may remove stored entries from a file. The first writer that sees the change
records a new *epoch* for the file (`smp_memory.files.writer_state`); it need not be a process that knows the entries. So each process
remembers the epoch under which it wrote or read them (`KnownEntries`). When the writer state has another one, the process reads the
files and writes the missing entries to quarantine.

Guarantees
- A torn end is cut off only after it was read, decoded, recognised as torn and copied to quarantine in one step, and only if
  the file still ends in the same bytes. If the file changes meanwhile (git, an editor, rsync) it is read again.
- A complete entry is never cut off, except the parts of a one-file transaction whose rest was never written.
- Entries that this process knows and that vanished without SMP having removed them are written to a file
  `NAME.missing-after-change.TIME` in the layout's own format, each once.
- Written entries (the last MiB) are forgotten only after the reader of this process has them, or they are in quarantine, or SMP itself
  removed entries (the lineage differs): erased entries are never brought back. Entries that the reader had are compared too.
Non-guarantees: between the last comparison and the cut lies one system call; a program that writes to the same file in place in that
moment loses what it wrote. A file that another program replaces is safe. What a process knows is lost if it is killed, or if it never
writes to the session.
"""

from __future__ import annotations

import os
import time
from collections import deque

from smp_memory import event_log
from smp_memory.errors import StorageError
from smp_memory.files.codec import EDITED
from smp_memory.files.disk import identity
from smp_memory.files.file_state import FileState
from smp_memory.files.journal import MISSING, QUARANTINE, write_to_quarantine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.files.reader import SessionReader
    from smp_memory.files.writer_state import WriterState
    from smp_memory.model.entry import Entry
    from smp_memory.store.port import BatchPort

    Key = tuple[int, str, str, str, str]

STABLE_SECONDS = 0.02  # a file that is older is stable: programs that write one make shorter pauses
_TRIES = 50
_RECENT_BYTES = 1 << 20
_UNKNOWN_EPOCH = 0  # the writer state did not record the file after the write


class ConcurrentFileChange(StorageError):
    """Another program is changing a file that SMP wants to write. Nothing was changed; the caller may retry. The code is StorageError's."""


def cut_torn_end(reader: SessionReader, name: str) -> None:
    """Move the rest of an unfinished write at the end of a file to quarantine. The session's lock is held."""
    path = os.path.join(reader.folder, name)
    for _ in range(_TRIES):
        data = _read_stable(reader, path)
        if data is None:
            continue
        state = FileState()
        reader.decode(name, data, state)
        tail = data[state.end :]
        if not tail:
            return
        copy = write_to_quarantine(reader.disk, reader.private, f"{name}.{state.end}", tail)
        if reader.disk.truncate_tail(path, state.end, tail):
            text = f"{path}: {len(tail):,} bytes of an unfinished write were moved to {copy}."
            event_log.emit(
                "recovery", event_log.WARNING, "torn_end_set_aside", text, reader.session, path=path, bytes=len(tail)
            )
            return
        reader.disk.remove(copy)
    raise concurrent_change(path)


def replace_suspect(reader: SessionReader, path: str, tries: int) -> None:
    """Replace a file whose sync failed by a copy of it."""
    if not any(reader.disk.recreate(path) for _ in range(tries)):
        raise concurrent_change(path)
    text = f"{path} was copied to a new file, because an earlier sync of it failed."
    event_log.emit("recovery", event_log.WARNING, "file_renewed", text, reader.session, path=path)


def concurrent_change(path: str) -> ConcurrentFileChange:
    return ConcurrentFileChange(
        f"{path} is being changed by another program while SMP writes. Nothing was changed; try again.",
        path=path,
        recoverable=True,
    )


def _read_stable(reader: SessionReader, path: str) -> bytes | None:
    """The bytes of a file that nobody is writing to; empty if it does not exist, None if it changed meanwhile."""
    status = reader.disk.stat(path)
    if status is None:
        return b""
    age_seconds = time.time() - max(status.st_mtime_ns, status.st_ctime_ns) / 1e9
    if age_seconds < STABLE_SECONDS:
        time.sleep(STABLE_SECONDS)
    try:
        data = reader.disk.read(path)
    except FileNotFoundError:
        return None
    now = reader.disk.stat(path)
    return data if now is not None and identity(now) == identity(status) and len(data) == status.st_size else None


def find_missing(reader: SessionReader, known: dict[str, list[Entry]]) -> dict[str, dict[Key, Entry]]:
    """Entries that are in no file of the session any more, nor in quarantine already; by file."""
    if not known:
        return {}
    stored = [entry for state in reader.states.values() for entry in state.entries]
    stored_keys = {entry.key for entry in stored}
    # Entries that lost their machine line have no uid.
    bare = {entry.bare_key for entry in stored if entry.state == EDITED and not entry.uid}
    missing: dict[str, dict[Key, Entry]] = {}
    for name, entries in known.items():
        vanished = {
            entry.key: entry for entry in entries if entry.key not in stored_keys and entry.bare_key not in bare
        }
        kept = _keys_in_quarantine(reader, name) if vanished else set()
        vanished = {key: entry for key, entry in vanished.items() if key not in kept}
        if vanished:
            missing[name] = vanished
    return missing


def write_missing(reader: SessionReader, missing: dict[str, dict[Key, Entry]]) -> None:
    """Write entries to quarantine, in the layout's own format. The session's lock is held."""
    for name, entries in missing.items():
        lines = [reader.layout.encode(entries[key], reader.session)[1] for key in sorted(entries)]
        path = write_to_quarantine(reader.disk, reader.private, name + MISSING.rstrip("."), b"".join(lines))
        _log_missing(os.path.join(reader.folder, name), len(entries), path)


def _keys_in_quarantine(reader: SessionReader, name: str) -> set[Key]:
    """The entries of a file that are in quarantine already."""
    folder = os.path.join(reader.private, QUARANTINE)
    keys: set[Key] = set()
    for file in reader.disk.names(folder):
        if file.startswith(name.replace("/", "_") + MISSING):
            state = FileState()
            reader.decode(name, reader.disk.read(os.path.join(folder, file)), state)
            keys.update(entry.key for entry in state.entries)
    return keys


def _log_missing(path: str, count: int, kept: str) -> None:
    text = f"{path} was changed by another program and lacks {count} stored entries; they were copied to {kept}"
    event_log.emit("corruption", event_log.WARNING, "entries_missing", text, path=path, entries=count)


# -- what this process knows


class KnownEntries:
    """The entries of one session that this process wrote or read. All methods but `may_be_missing` are called under the session's lock."""

    __slots__ = ("_bytes", "_epochs", "_must_compare", "_parts", "_reader")

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._parts: deque[tuple[str, bytes]] = deque()  # written by this process, perhaps not read back yet
        self._bytes = 0
        self._epochs: dict[str, int] = {}  # of the files in `_parts`, after the last write
        self._must_compare = False  # a file has another epoch: compare before forgetting anything

    def add_all(self, stored: list[tuple[BatchPort, dict[str, bytes]]], state: WriterState) -> None:
        """Remember acknowledged entries, and the epochs of their files."""
        for batch, parts in stored:
            if batch.error is None:
                for name, data in parts.items():
                    self._parts.append((name, data))
                    self._bytes += len(data)
                    known = state.files.get(name)
                    self._epochs[name] = known[4] if known is not None else _UNKNOWN_EPOCH
        while self._bytes > _RECENT_BYTES:
            self._bytes -= len(self._parts.popleft()[1])

    def forget_written(self) -> None:
        self._parts.clear()
        self._epochs.clear()
        self._bytes = 0

    def holds(self, name: str) -> bool:
        """Whether this process wrote to the file, or read entries in it."""
        state = self._reader.states.get(name)
        return name in self._epochs or (state is not None and bool(state.entries))

    @property
    def must_be_compared(self) -> bool:
        return self._must_compare or bool(self._reader.vanished)

    def compare_epochs(self, state: WriterState, earlier_lineage: str) -> None:
        """Compare the known epochs with those in a state that another process stored."""
        if state.lineage != earlier_lineage:
            self.forget_written()
        files = state.files
        for name, epoch in self._known_epochs(state.lineage):
            known = files.get(name)
            if known is not None and known[4] != epoch:
                self._must_compare = True
                return

    def _known_epochs(self, lineage: str) -> Iterator[tuple[str, int | None]]:
        yield from self._epochs.items()
        if lineage and self._reader.lineage == lineage:
            for name, state in list(self._reader.states.items()):
                if state.entries:
                    yield name, state.recorded_epoch

    def may_be_missing(self, state: WriterState, lineage: str) -> bool:
        """Whether a file with known entries changed since, by the writer state or by its identity. `lineage` is the last known one."""
        reader = self._reader
        if not state.lineage or state.lineage not in (lineage, reader.lineage):
            return False
        if self.must_be_compared:
            return True
        for name, epoch in self._known_epochs(state.lineage):
            known = state.files.get(name)
            status = reader.disk.stat(os.path.join(reader.folder, name))
            if known is None or status is None or known[4] != epoch or known[:4] != identity(status):
                return True
        return False

    def compare(self, lineage: str) -> None:
        """Read the files, and write known entries that another program removed to quarantine."""
        with self._reader.mutex:
            self._reader.catch_up()
            if not self.quarantine_missing(lineage, may_wait=True):
                self._reader.catch_up()
                self.quarantine_missing(lineage, may_wait=False)

    def quarantine_missing(self, lineage: str, *, may_wait: bool) -> bool:
        """Write known entries that are in no file to quarantine. The reader has just caught up, and its mutex is held.

        False if something is missing and another program may still be writing: then the files must be read again.
        """
        reader = self._reader
        known = self._written_entries()
        if reader.vanished_lineage == lineage:
            for name, entries in reader.vanished.items():
                known.setdefault(name, []).extend(entries)
        missing = find_missing(reader, known)
        if missing and may_wait:
            time.sleep(STABLE_SECONDS)
            return False
        write_missing(reader, missing)
        reader.vanished = {}
        self.forget_written()
        self._must_compare = False
        return True

    def _written_entries(self) -> dict[str, list[Entry]]:
        """The entries that this process wrote, by file."""
        entries: dict[str, list[Entry]] = {}
        for name, data in self._parts:
            state = FileState()
            self._reader.decode(name, data, state)
            entries.setdefault(name, []).extend(state.entries)
        return entries
