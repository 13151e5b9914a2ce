"""Read a part of a session: what is new since a cursor, the last memories of a type.

A *cursor* says how far a file was read and how to know that what was read is still there: the file's identity and epoch
(see `smp_memory.files.lock`), and a checksum of its bytes up to there. Cursors are valid in another process too. If the epoch
is the same, or the bytes have the same checksum, only the rest is read. Otherwise `reread` says that the whole session must be read anew.

A file that was changed within the same tick of the clock in which it was read looks the same afterwards. So a cursor made in such
a moment is not `settled`: the next read compares the checksum once.
"""

from __future__ import annotations

import os
import time
import zlib

from smp_memory.files.disk import TICK_NS, identity
from smp_memory.files.file_state import FileState
from smp_memory.files.reader import SessionReader
from smp_memory.model.entry import Entry
from smp_memory.model.history import SessionHistory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.disk import Disk
    from smp_memory.files.journal import Plan
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.clone_merge import ReadableIds

Cursor = list[int | None]  # inode, size, two times, epoch, end, line, checksum, settled
_CHUNK = 1 << 20


class IncrementReader(SessionReader):
    """A reader that starts at cursors. Its history holds what is new; changes of older memories are its orphans."""

    def __init__(
        self,
        disk: Disk,
        layout: Layout,
        root: str,
        session: str,
        cursors: dict[str, Cursor] | None = None,
        names: ReadableIds | None = None,
    ) -> None:
        """`names`: the ids of memories that were read before, where two had the same one."""
        super().__init__(disk, layout, root, session)
        self.session_history.names = names or self.session_history.names
        self.reread = False
        self._checksums: dict[str, int] = {}
        self._started: dict[str, tuple[int, int]] = {}
        for name, cursor in (cursors or {}).items():
            state = self.states[name] = FileState()
            state.identity = [number or 0 for number in cursor[:4]]
            state.epoch = cursor[4]
            state.end, state.line = cursor[5] or 0, cursor[6] or 1
            self._checksums[name] = cursor[7] or 0
            self._started[name] = (state.end, self._checksums[name])

    def cursors(self) -> dict[str, Cursor]:
        """The cursors to continue from."""
        now = time.time_ns()
        return {
            name: [
                *state.identity,
                state.epoch,
                state.end,
                state.line,
                self._checksums.get(name, 0),
                _is_settled(state, now),
            ]
            for name, state in self.states.items()
        }

    def identities(self) -> dict[str, list[int]]:
        return self._identities(None)

    def has_checksum(self, name: str) -> bool:
        """Whether the bytes before the cursor that this reader started from are unchanged."""
        end, checksum = self._started[name]
        return self._checksum_of(name, end) == checksum

    def decode(self, name: str, data: bytes, state: FileState) -> None:
        start = state.end
        super().decode(name, data, state)
        if state is self.states.get(name):
            before = self._checksums.get(name, 0) if start else 0
            self._checksums[name] = zlib.crc32(memoryview(data)[: state.end - start], before)

    def _read_changed(self, identities: dict[str, list[int]], plan: Plan | None) -> tuple[list[Entry], bool]:
        fresh, rebuild = super()._read_changed(identities, plan)
        self.reread = self.reread or rebuild
        return fresh, rebuild

    def _hide_incomplete_transactions(self) -> bool:
        if not self._started:
            return super()._hide_incomplete_transactions()
        if self.session_history.unfinished():
            self.reread = True  # the other entries may be before the cursors
        return False

    def _only_grew(self, name: str, state: FileState, found: list[int], epoch: int | None) -> bool:
        if super()._only_grew(name, state, found, epoch):
            return True
        if name not in self._started or found[1] < state.end or not self._is_unchanged(name, state):
            return False
        state.epoch = epoch
        return True

    def _is_unchanged(self, name: str, state: FileState) -> bool:
        return self._checksum_of(name, state.end) == self._checksums[name]

    def _checksum_of(self, name: str, end: int) -> int:
        """The checksum of the first bytes of a file; -1 if it is shorter, or gone since the files were listed."""
        checksum, offset = 0, 0
        while offset < end:
            try:
                data = self.disk.read(self._path(name, None), offset, min(_CHUNK, end - offset))
            except FileNotFoundError:
                return -1
            if not data:
                return -1
            checksum = zlib.crc32(data, checksum)
            offset += len(data)
        return checksum


def _is_settled(state: FileState, now_ns: int) -> int:
    return int(now_ns - max(state.identity[2], state.identity[3]) > TICK_NS)


# -- the last memories of a type


def read_tail(reader: SessionReader, kind: str, count: int) -> SessionHistory | None:
    """A history that ends with the last memories of a type, from the end of their file alone; None if that is not enough."""
    if reader.states or reader.journal.exists():
        return None
    probe = Entry("put", kind, "probe", "", {})
    name = reader.layout.file_of(probe, reader.session)
    path = os.path.join(reader.folder, name)
    status = reader.disk.stat(path)
    # After a change by another program, such as a merge, only the whole session tells equal ids apart.
    if status is None or "probe" in name or reader.read_writer_state().unchanged(name, identity(status)) is None:
        return None
    others = [
        file
        for file in reader.layout.files(reader.disk, reader.folder, reader.session)
        if file != name and reader.layout.kind_of(file) in (None, kind)  # they may hold changes
    ]
    size = 65536
    while True:
        session_history = _tail_history(reader, name, max(status.st_size - size, 0), others)
        histories = session_history.histories.values() if session_history else ()
        live = [history for history in histories if history.first.type == kind and history.deletion is None]
        if session_history is None or len(live) >= count or size >= status.st_size:
            return session_history if size < status.st_size else None
        size *= 4


def _tail_history(reader: SessionReader, name: str, start: int, others: list[str]) -> SessionHistory | None:
    """The entries of a file from the first one behind `start` on, with all entries of the other files."""
    chunk = reader.disk.read(os.path.join(reader.folder, name), start)
    boundary = reader.layout.codec_of(name).boundary(chunk) if start else 0
    if boundary < 0:
        return None if start == 0 else SessionHistory()
    state = FileState()
    state.end = start + boundary
    reader.decode(name, chunk[boundary:], state)
    entries = list(state.entries)
    for file in others:
        other = FileState()
        reader.decode(file, reader.disk.read(os.path.join(reader.folder, file)), other)
        entries += other.entries
    if any(entry.tx or entry.lacks for entry in entries) or any(
        problem.severity == "error" for problem in state.problems
    ):
        return None  # only the whole session tells whether a transaction is complete
    session_history = reader.new_history()
    session_history.add(entries)
    if session_history.is_rebuilt or any(entry.uids for entry in entries):
        return None  # an id may have been given out twice
    session_history.problems = []
    return session_history


# -- byte ranges
