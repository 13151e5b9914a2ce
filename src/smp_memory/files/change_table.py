"""Change table: one small file that shows which sessions were written since a reader last checked.

A store may have thousands of files, and a stat of each before every answer takes milliseconds. So a writer, before it acknowledges,
stores a new value in its session's slot of `.smp/changes`; a reader compares the whole table with the one it read last. Two sessions may
share a slot: then both are checked.

Guarantees: a reader that reads the table before the files misses nothing that was acknowledged before.
Non-guarantees: edits by hand leave the table unchanged, and so does a writer on a full disk; a reader that must know checks the files
themselves. A lost or damaged table costs a check of all files, nothing else.
"""

from __future__ import annotations

import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.system import System

_SLOTS = 4096
_SLOT_BYTES = 8
_CHECKED_EVERY = 64  # writes after which the table is checked to have its name still
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

    def mark_changed(self, session: str) -> None:
        """Mark a session as written. A failure here does not fail the write."""
        if self._pid != os.getpid():  # also after a fork: parent and child must not store the same values
            self._value, self._pid = int.from_bytes(os.urandom(7), "little"), os.getpid()
        self._value += 1
        try:
            if self._descriptor < 0 or not self._value % _CHECKED_EVERY:
                self._open(os.O_RDWR | os.O_CREAT)
            offset = self._offsets.get(session)
            if offset is None:
                offset = self._offsets[session] = slot_of(session) * _SLOT_BYTES
            self._system.pwrite(self._descriptor, self._value.to_bytes(_SLOT_BYTES, "little"), offset)
        except OSError:
            pass

    def read(self) -> bytes:
        """The current table; two equal ones mean that nothing was written between the two reads."""
        try:
            try:
                descriptor = self._open(os.O_RDWR)
            except PermissionError:  # others may write even if we may not
                descriptor = self._open(os.O_RDONLY)
            return self._system.pread(descriptor, _SLOTS * _SLOT_BYTES, 0)
        except OSError:
            return b""

    def _open(self, flags: int) -> int:
        """The descriptor of the table that has its name now; the one that is open may have been removed."""
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
