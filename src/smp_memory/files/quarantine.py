"""Quarantine of a session: torn ends of files, and entries that another program took out of them.

Guarantees
- A torn end is cut off only after it was read, decoded, found torn and copied to quarantine in one step, and only if
  the file still ends in the same bytes. If the file changes meanwhile (git, an editor, rsync) it is read again.
- A whole entry is never cut off, except the parts of a one-file transaction whose rest was never written.
- Entries that this process knows and that vanished without SMP having removed them are written to a file
  `NAME.missing-after-change.TIME` in the layout's own format, each once.
Non-guarantees: between the last comparison and the cut lies one system call; a program that writes to the same file in
place in that moment loses what it wrote. A file that another program replaces is safe.
"""

from __future__ import annotations

import os
import time
from collections import deque

from smp_memory import event_log
from smp_memory.errors import StorageError
from smp_memory.files.codec import EDITED
from smp_memory.files.disk import identity
from smp_memory.files.journal import MISSING, QUARANTINE
from smp_memory.files.reader import FileState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.files.reader import SessionReader
    from smp_memory.files.writer_state import WriterState
    from smp_memory.model.entry import Entry
    from smp_memory.store.port import BatchPort

    Key = tuple[int, str, str, str, str]

STILL_SECONDS = 0.02  # a program that writes a file makes shorter pauses
_TRIES = 50
_RECENT_BYTES = 1 << 20
_UNKNOWN_EPOCH = 0  # the notes did not vouch for the file after the write


class FileChangedUnderneath(StorageError):
    """Another program changes a file that SMP wants to write; nothing was changed. The same error code: it may be tried again."""


def cut_torn_end(reader: SessionReader, name: str) -> None:
    """Move what an unfinished write left at the end of a file to quarantine. The session's lock is held."""
    path = os.path.join(reader.folder, name)
    for _ in range(_TRIES):
        data = _still_content(reader, path)
        if data is None:
            continue
        state = FileState()
        reader.decode(name, data, state)
        tail = data[state.end :]
        if not tail:
            return
        copy = _new_file(reader, f"{_flat(name)}.{state.end}", tail)
        if reader.disk.cut(path, state.end, tail):
            text = f"{path}: {len(tail):,} bytes of an unfinished write were moved to {copy}."
            event_log.emit(
                "recovery", event_log.WARNING, "torn_end_set_aside", text, reader.session, path=path, bytes=len(tail)
            )
            return
        reader.disk.remove(copy)
    raise being_changed(path)


def renew(reader: SessionReader, path: str, tries: int) -> None:
    """Copy a file whose sync failed to a new one, which takes its place."""
    if not any(reader.disk.renew(path) for _ in range(tries)):
        raise being_changed(path)
    text = f"{path} was copied to a new file, because an earlier sync of it failed."
    event_log.emit("recovery", event_log.WARNING, "file_renewed", text, reader.session, path=path)


def being_changed(path: str) -> FileChangedUnderneath:
    return FileChangedUnderneath(
        f"{path} is being changed by something else while SMP writes. Nothing was changed; try again.",
        path=path,
        recoverable=True,
    )


def _still_content(reader: SessionReader, path: str) -> bytes | None:
    """The bytes of a file that nobody is writing to; empty if it is gone, None if it changed meanwhile."""
    found = reader.disk.stat(path)
    if found is None:
        return b""
    age_seconds = time.time() - max(found.st_mtime_ns, found.st_ctime_ns) / 1e9
    if age_seconds < STILL_SECONDS:
        time.sleep(STILL_SECONDS)
    try:
        data = reader.disk.read(path)
    except FileNotFoundError:
        return None
    again = reader.disk.stat(path)
    return data if again is not None and identity(again) == identity(found) and len(data) == found.st_size else None


def find_missing(reader: SessionReader, known: dict[str, list[Entry]]) -> dict[str, dict[Key, Entry]]:
    """Entries that are in no file of the session any more, nor in quarantine already; by file."""
    if not known:
        return {}
    stored = [entry for state in reader.states.values() for entry in state.entries]
    there = {entry.key for entry in stored}
    bare = {entry.bare_key for entry in stored if entry.state == EDITED and not entry.uid}  # lost their machine line
    found: dict[str, dict[Key, Entry]] = {}
    for name, entries in known.items():
        gone = {entry.key: entry for entry in entries if entry.key not in there and entry.bare_key not in bare}
        kept = _kept(reader, name) if gone else set()
        gone = {key: entry for key, entry in gone.items() if key not in kept}
        if gone:
            found[name] = gone
    return found


def write_missing(reader: SessionReader, missing: dict[str, dict[Key, Entry]]) -> None:
    """Write entries to quarantine, in the layout's own format. The session's lock is held."""
    for name, entries in missing.items():
        lines = [reader.layout.encode(entries[key], reader.session)[1] for key in sorted(entries)]
        path = _new_file(reader, _flat(name) + MISSING.rstrip("."), b"".join(lines))
        _log(os.path.join(reader.folder, name), len(entries), path)


def _kept(reader: SessionReader, name: str) -> set[Key]:
    """The entries of a file that are in quarantine already."""
    folder = os.path.join(reader.private, QUARANTINE)
    found: set[Key] = set()
    for each in reader.disk.names(folder):
        if each.startswith(_flat(name) + MISSING):
            state = FileState()
            reader.decode(name, reader.disk.read(os.path.join(folder, each)), state)
            found.update(entry.key for entry in state.entries)
    return found


def _new_file(reader: SessionReader, base: str, data: bytes) -> str:
    disk, folder = reader.disk, os.path.join(reader.private, QUARANTINE)
    disk.make_folder(folder)
    base = os.path.join(folder, f"{base}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
    path, number = base, 1
    while disk.exists(path):
        number += 1
        path = f"{base}.{number}"
    disk.write_new(path, data)
    disk.sync_folder(folder)
    return path


def _flat(name: str) -> str:
    return name.replace("/", "_")


def _log(path: str, count: int, kept: str) -> None:
    text = f"{path} was changed by another program and lacks {count} stored entries; they are kept in {kept}"
    event_log.emit("corruption", event_log.WARNING, "entries_missing", text, path=path, entries=count)


# -- what this process knows


class KnownEntries:
    """What one process knows of one session. All methods but `may_be_missing` are called under the session's lock."""

    __slots__ = ("_bytes", "_epochs", "_is_behind", "_parts", "_reader")

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._parts: deque[tuple[str, bytes]] = deque()  # written by this process, maybe not read back yet
        self._bytes = 0
        self._epochs: dict[str, int] = {}  # of the files in `_parts`, after the last write
        self._is_behind = False  # a file has another epoch: compare before anything is forgotten

    def add_all(self, stored: list[tuple[BatchPort, dict[str, bytes]]], notes: WriterState) -> None:
        """Remember acknowledged entries, and the epochs of their files."""
        for batch, parts in stored:
            if batch.error is None:
                for name, data in parts.items():
                    self._parts.append((name, data))
                    self._bytes += len(data)
                    known = notes.files.get(name)
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
        return self._is_behind or bool(self._reader.vanished)

    def look_at(self, notes: WriterState, earlier_lineage: str) -> None:
        """Compare epochs with those in another process's notes."""
        if notes.lineage != earlier_lineage:
            self.forget_written()
        files = notes.files
        for name, epoch in self._known_epochs(notes.lineage):
            known = files.get(name)
            if known is not None and known[4] != epoch:
                self._is_behind = True
                return

    def _known_epochs(self, lineage: str) -> Iterator[tuple[str, int | None]]:
        yield from self._epochs.items()
        if lineage and self._reader.lineage == lineage:
            for name, state in list(self._reader.states.items()):
                if state.entries:
                    yield name, state.noted_epoch

    def may_be_missing(self, notes: WriterState, lineage: str) -> bool:
        """Whether a file with known entries changed since, by the notes or by its looks. `lineage` is the last known one."""
        reader = self._reader
        if not notes.lineage or notes.lineage not in (lineage, reader.lineage):
            return False
        if self.must_be_compared:
            return True
        for name, epoch in self._known_epochs(notes.lineage):
            known = notes.files.get(name)
            found = reader.disk.stat(os.path.join(reader.folder, name))
            if known is None or found is None or known[4] != epoch or known[:4] != identity(found):
                return True
        return False

    def compare(self, lineage: str) -> None:
        """Read the files, and write known entries to quarantine that another program took out of them."""
        with self._reader.mutex:
            self._reader.catch_up()
            if not self.keep_missing(lineage, patient=True):
                self._reader.catch_up()
                self.keep_missing(lineage, patient=False)

    def keep_missing(self, lineage: str, *, patient: bool) -> bool:
        """Write known entries that are in no file to quarantine. The reader has just caught up, and its mutex is held.

        False if something is missing and another program may still be writing: then the files must be read again.
        """
        reader = self._reader
        known = self._written()
        if reader.vanished_from == lineage:
            for name, entries in reader.vanished.items():
                known.setdefault(name, []).extend(entries)
        missing = find_missing(reader, known)
        if missing and patient:
            time.sleep(STILL_SECONDS)
            return False
        write_missing(reader, missing)
        reader.vanished = {}
        self.forget_written()
        self._is_behind = False
        return True

    def _written(self) -> dict[str, list[Entry]]:
        """By file."""
        found: dict[str, list[Entry]] = {}
        for name, data in self._parts:
            state = FileState()
            self._reader.decode(name, data, state)
            found.setdefault(name, []).extend(state.entries)
        return found
