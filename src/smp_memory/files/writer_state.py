"""Writer state kept in the lock file, behind the holder's name: last sequence number, file identities, epochs.

It records which numbers are taken and the identity of each file after the last write. A file with the same identity was touched by
nobody else, its last entry is complete, and it only grew since an earlier state of the same *epoch*. So a writer need not read a
session to append to it, and a reader need only read what is new.

The writer state is a cache: missing, damaged or from before a reboot it is ignored and the files are read instead; only the numbers
still count, because numbers may be skipped but never used twice. It comes from a file that anybody may have written: a wrong type, a
number out of range or a name that is not one of the layout's files makes it damaged.

The *lineage* is a random name that holds until SMP itself removes entries from the files (repair, purge, erasure, compaction,
conversion). An entry that is missing while the lineage is the same was removed by another program.
"""

from __future__ import annotations

import json
import zlib

from smp_memory.files.json_lines import to_json
from smp_memory.files.lock import HOLDER_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.files.disk import Disk
    from smp_memory.files.system import System


_FILE_LIMIT = 12
LIMIT_BYTES = 4096
_COUNT_LIMIT = 10**12  # a larger number is damage
_STAT_LIMIT = 1 << 64  # of an inode, a size or a time in nanoseconds
_TEXT_LIMIT = 200


class WriterState:
    __slots__ = ("boot", "files", "lineage", "numbers", "seq", "size", "suspects", "warning")

    def __init__(self) -> None:
        self.boot = ""
        self.seq = 0
        self.size = 0  # bytes of all files together
        self.numbers: dict[str, int] = {}
        self.files: dict[str, list[int]] = {}  # name -> identity (4 numbers) + epoch
        self.suspects: list[str] = []  # files whose last sync failed
        self.lineage = ""  # empty: unknown, or SMP is removing entries
        self.warning = ""  # why the next writer must check before it writes: a "plan" under way, the store "converting"

    def remember(self, name: str, identity: list[int], epoch: int) -> None:
        files = self.files
        if name not in files and len(files) >= _FILE_LIMIT:
            self.forget(next(iter(files)))
        files[name] = [*identity, epoch]

    def forget(self, name: str) -> None:
        self.files.pop(name, None)

    def forget_all(self) -> None:
        self.files.clear()

    def unchanged(self, name: str, identity: list[int]) -> int | None:
        """The epoch of a file that has the identity recorded after the last write; None if it has another."""
        known = self.files.get(name)
        return known[4] if known is not None and known[:4] == identity else None

    def epoch(self, name: str) -> int | None:
        known = self.files.get(name)
        return known[4] if known is not None else None

    def encode(self) -> bytes:
        """One line of JSON behind its checksum."""
        values = [self.boot, self.seq, self.size, self.warning, self.numbers, self.suspects, self.files, self.lineage]
        text = to_json(values).encode()
        return b"%08x %b\n" % (zlib.crc32(text), text)


def decode(data: bytes, boot: str, is_session_file: Callable[[str], bool]) -> WriterState:
    """The writer state from the bytes behind the holder's name; an empty one if they cannot be trusted."""
    state = WriterState()
    state.boot = boot
    line = data.partition(b"\n")[0]
    try:
        if len(line) < 10 or int(line[:8], 16) != zlib.crc32(line[9:]):
            return state
        written_boot, seq, size, warning, numbers, suspects, files, *more = json.loads(line[9:])
        lineage = more[0] if more else ""
        is_valid = (
            type(written_boot) is type(warning) is type(lineage) is str
            and len(written_boot) + len(warning) + len(lineage) <= _TEXT_LIMIT
            and _are_counts(seq, size, *numbers.values())
            and type(suspects) is list
            and all(map(is_session_file, suspects))
            and all(map(is_session_file, files))
            and all(_is_file_record(*known) for known in files.values())
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return state
    if not is_valid:
        return state
    state.seq, state.size, state.warning, state.numbers, state.suspects = seq, size, warning, numbers, suspects
    state.lineage = lineage
    if written_boot == boot and len(files) <= _FILE_LIMIT:
        state.files = files
    return state


def _are_counts(*values: Any) -> bool:
    return all(type(value) is int and 0 <= value <= _COUNT_LIMIT for value in values)


def _is_file_record(inode: Any, size: Any, modified: Any, changed: Any, epoch: Any) -> bool:
    """Whether this is a valid identity and epoch of a file; its times may be before 1970."""
    return (
        type(inode) is type(size) is type(modified) is type(changed) is type(epoch) is int
        and 0 <= inode <= _STAT_LIMIT
        and 0 <= size <= _STAT_LIMIT
        and -_STAT_LIMIT <= modified <= _STAT_LIMIT
        and -_STAT_LIMIT <= changed <= _STAT_LIMIT
        and 0 <= epoch <= _STAT_LIMIT
    )


def read(disk: Disk, descriptor: int) -> bytes:
    return disk.read_open(descriptor, HOLDER_BYTES, LIMIT_BYTES)


def write(system: System, descriptor: int, data: bytes) -> bool:
    """Store the state; False if the disk is full. Then the next writer reads the files instead."""
    try:
        done = system.pwrite(descriptor, data, HOLDER_BYTES)
        while done < len(data):
            done += system.pwrite(descriptor, data[done:], HOLDER_BYTES + done)
    except OSError:
        return False
    return True
