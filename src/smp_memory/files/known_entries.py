"""Entries that this process wrote or read, compared with the session's files before the process forgets them.

Another program (git, an editor, a restored backup) may take stored entries out of a file. The first writer that sees the
change notes a new *epoch* for the file (`smp_memory.files.writer_state`); it need not be a process that knows the entries. So each
process remembers the epoch under which it wrote or read them. When the notes carry another one, it reads the files and
writes to quarantine (`smp_memory.files.quarantine`) what is missing.

Guarantees
- Written entries (the last MiB) are forgotten only after the reader of this process has them, or they are in quarantine,
  or SMP itself took entries out (the lineage differs): erased entries are never brought back.
- Entries that the reader had are compared too.
Non-guarantees: what a process knows that is killed, or that never wrote to the session.
"""

from __future__ import annotations

import os
import time
from collections import deque

from smp_memory.files import quarantine
from smp_memory.files.disk import identity
from smp_memory.files.reader import FileState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.files.reader import SessionReader
    from smp_memory.files.writer_state import WriterState
    from smp_memory.model.entry import Entry
    from smp_memory.store.port import BatchPort

_RECENT_BYTES = 1 << 20
_UNKNOWN_EPOCH = 0  # the notes did not vouch for the file after the write


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
        missing = quarantine.missing(reader, known)
        if missing and patient:
            time.sleep(quarantine.STILL_SECONDS)
            return False
        quarantine.keep(reader, missing)
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
