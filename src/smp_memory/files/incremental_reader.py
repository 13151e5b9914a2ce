"""What is new in a session since somebody last looked? Reading on from cursors, also in another process.

A *cursor* says how far a file was read and how to know that what was read is still there: the file's identity and
epoch (see `smp_memory.files.writer_state`), and a digest of its bytes up to there. If the epoch vouches for it, or the bytes have the
same digest, only the rest is read. Otherwise `reread` says that the whole session must be read anew.

A file that was changed within the same tick of the clock in which it was read looks the same afterwards. So a cursor
made in such a moment is not `settled`: the next look compares the digest once.
"""

from __future__ import annotations

import time
import zlib

from smp_memory.files.reader import FileState, SessionReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.disk import Disk
    from smp_memory.files.journal import Plan
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.clone_merge import ReadableIds
    from smp_memory.model.entry import Entry

Cursor = list[int | None]  # inode, size, two times, epoch, end, line, digest, settled
TICK_NS = 50_000_000  # more than the coarsest clock of a file system that SMP is used on
_CHUNK = 1 << 20


class IncrementReader(SessionReader):
    """A reader that begins where cursors point. Its fold holds what is new; changes of older memories are its orphans."""

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
        self._digests: dict[str, int] = {}
        self._begun: dict[str, tuple[int, int]] = {}
        for name, cursor in (cursors or {}).items():
            state = self.states[name] = FileState()
            state.identity = [number or 0 for number in cursor[:4]]
            state.epoch = cursor[4]
            state.end, state.line = cursor[5] or 0, cursor[6] or 1
            self._digests[name] = cursor[7] or 0
            self._begun[name] = (state.end, self._digests[name])

    def cursors(self) -> dict[str, Cursor]:
        """Where the next one shall begin."""
        now = time.time_ns()
        return {
            name: [
                *state.identity,
                state.epoch,
                state.end,
                state.line,
                self._digests.get(name, 0),
                _settled(state, now),
            ]
            for name, state in self.states.items()
        }

    def identities(self) -> dict[str, list[int]]:
        return self._identities(None)

    def has_digest(self, name: str) -> bool:
        """Whether the bytes that were there when the cursor was made are still the same ones."""
        end, digest = self._begun[name]
        return self._digest_of(name, end) == digest

    @property
    def is_overlaid(self) -> bool:
        """Whether part of what was read stands in a plan, not yet in its file."""
        return self._overlaid

    def decode(self, name: str, data: bytes, state: FileState) -> None:
        start = state.end
        super().decode(name, data, state)
        if state is self.states.get(name):
            before = self._digests.get(name, 0) if start else 0
            self._digests[name] = zlib.crc32(memoryview(data)[: state.end - start], before)

    def _read_changed(self, identities: dict[str, list[int]], plan: Plan | None) -> tuple[list[Entry], bool]:
        fresh, rebuild = super()._read_changed(identities, plan)
        self.reread = self.reread or rebuild
        return fresh, rebuild

    def _only_grew(self, name: str, state: FileState, found: list[int], epoch: int | None) -> bool:
        if super()._only_grew(name, state, found, epoch):
            return True
        if name not in self._begun or found[1] < state.end or not self._has_read(name, state):
            return False
        state.epoch = epoch
        return True

    def _has_read(self, name: str, state: FileState) -> bool:
        return self._digest_of(name, state.end) == self._digests[name]

    def _digest_of(self, name: str, end: int) -> int:
        digest, offset = 0, 0
        while offset < end:
            data = self.disk.read(self._path(name, None), offset, min(_CHUNK, end - offset))
            if not data:
                return -1
            digest = zlib.crc32(data, digest)
            offset += len(data)
        return digest


def _settled(state: FileState, now_ns: int) -> int:
    return int(now_ns - max(state.identity[2], state.identity[3]) > TICK_NS)
