"""Which sessions were written since I last looked? A small table in one file that every writer touches.

A store may have thousands of files, and to look at each before every answer costs milliseconds. So a writer, before it
acknowledges, puts a new value into its session's slot of `.smp/changes`; a reader compares the whole table with the one
it saw last. Two sessions may share a slot: then both are looked at.

Guarantees: who reads the table before it looks at the files misses nothing that was acknowledged before.
Non-guarantees: edits by hand leave no mark, nor does a writer on a full disk; who must know looks at the files
themselves. A lost or damaged table costs a look at all files, nothing else.
"""

from __future__ import annotations

import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.system import System

_SLOTS = 4096
_SLOT_BYTES = 8
_CHECKED_EVERY = 64  # writes: whether the table still has its name
FILE = "changes"


def slot_of(session: str) -> int:
    return zlib.crc32(session.encode()) % _SLOTS


class ChangeTable:
    def __init__(self, system: System, folder: str) -> None:
        self._system = system
        self._path = os.path.join(folder, FILE)
        self._descriptor = -1
        self._value, self._pid = 0, 0
        self._offsets: dict[str, int] = {}

    def set(self, session: str) -> None:
        """Tell others that a session was written. A failure is no failure of the write."""
        if self._pid != os.getpid():  # also after a fork: parent and child must not leave the same values
            self._value, self._pid = int.from_bytes(os.urandom(7), "little"), os.getpid()
        self._value += 1
        try:
            if self._descriptor < 0 or not self._value % _CHECKED_EVERY:
                self._opened(os.O_RDWR | os.O_CREAT)
            offset = self._offsets.get(session)
            if offset is None:
                offset = self._offsets[session] = slot_of(session) * _SLOT_BYTES
            self._system.pwrite(self._descriptor, self._value.to_bytes(_SLOT_BYTES, "little"), offset)
        except OSError:
            pass

    def read(self) -> bytes:
        """The table as it stands; two equal ones mean that nothing was written between them."""
        try:
            try:
                descriptor = self._opened(os.O_RDWR)
            except PermissionError:  # others may write even if we may not
                descriptor = self._opened(os.O_RDONLY)
            return self._system.pread(descriptor, _SLOTS * _SLOT_BYTES, 0)
        except OSError:
            return b""

    def _opened(self, flags: int) -> int:
        """The table that has its name now; somebody may have removed the one that is open."""
        if self._descriptor >= 0 and not self._system.fstat(self._descriptor).st_nlink:
            self.close()
        if self._descriptor < 0:
            self._descriptor = self._system.open(self._path, flags)
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                self._system.close(descriptor)
            except OSError:
                pass


def changed_slots(before: bytes, now: bytes) -> set[int]:
    """The slots in which two tables differ."""
    size = -(-max(len(before), len(now)) // _SLOT_BYTES) * _SLOT_BYTES
    old, new = (memoryview(table.ljust(size, b"\0")).cast("Q") for table in (before, now))
    return {slot for slot in range(len(new)) if old[slot] != new[slot]}
