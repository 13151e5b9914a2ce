"""Writer state kept in the lock file, behind the holder's name: last numbers, file identities, epochs.

They say which numbers are taken and what each file looked like after the last write. A file that still looks like
that was touched by nobody else, its last entry is whole, and it only grew since an earlier note of the same *epoch*.
So a writer need not read a session to append to it, and a reader need only read what is new.

Notes are a cache: missing, damaged or from before a reboot they are ignored and the files are read instead; only the
numbers still count, because numbers may be skipped but never used twice. They come from a file that anybody may have
written: a wrong type, a number out of range or a name that is not one of the layout's files makes them damaged.

The *lineage* is a random name that holds until SMP itself takes entries out of the files (repair, purge, erasure,
compaction, conversion). An entry that is gone while the lineage is the same was taken away by another program.

The largest numbers given out in a session, as its head has them since the last rewrite.

They count when an id was given out twice: no memory is shown under the number of one that was purged or compacted.
"""

from __future__ import annotations

import json
import os
import zlib

from smp_memory.errors import SMPError
from smp_memory.files.json_lines import to_json
from smp_memory.files.lock import HOLDER_BYTES
from smp_memory.git.metadata_conflicts import head_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.files.disk import Disk
    from smp_memory.files.reader import SessionReader
    from smp_memory.files.system import System


_REMEMBERED_FILES = 12
LIMIT_BYTES = 4096
_LARGEST = 10**12  # of a number that SMP counts; more is damage
_LARGEST_STAT = 1 << 64  # of an inode, a size or a time in nanoseconds
_LONGEST_TEXTS = 200


class WriterState:
    __slots__ = ("boot", "files", "lineage", "numbers", "seq", "size", "suspects", "warning")

    def __init__(self) -> None:
        self.boot = ""
        self.seq = 0
        self.size = 0  # bytes of all files together
        self.numbers: dict[str, int] = {}
        self.files: dict[str, list[int]] = {}  # name -> identity (4 numbers) + epoch
        self.suspects: list[str] = []  # files whose last sync failed
        self.lineage = ""  # empty: unknown, or SMP is taking entries out
        self.warning = ""  # why the next writer must look before it writes: "plan" under way, store "converting"

    def remember(self, name: str, identity: list[int], epoch: int) -> None:
        files = self.files
        if name not in files and len(files) >= _REMEMBERED_FILES:
            self.forget(next(iter(files)))
        files[name] = [*identity, epoch]

    def forget(self, name: str) -> None:
        self.files.pop(name, None)

    def forget_all(self) -> None:
        self.files.clear()

    def unchanged(self, name: str, identity: list[int]) -> int | None:
        """The epoch of a file that looks as it did after the last write, None if it does not."""
        known = self.files.get(name)
        return known[4] if known is not None and known[:4] == identity else None

    def epoch(self, name: str) -> int | None:
        known = self.files.get(name)
        return known[4] if known is not None else None

    def encode(self) -> bytes:
        """One line of JSON behind its checksum."""
        said = [self.boot, self.seq, self.size, self.warning, self.numbers, self.suspects, self.files, self.lineage]
        text = to_json(said).encode()
        return b"%08x %b\n" % (zlib.crc32(text), text)


def decode(data: bytes, boot: str, is_own_file: Callable[[str], bool]) -> WriterState:
    """Notes from the bytes behind the holder's name; empty ones if they cannot be trusted."""
    notes = WriterState()
    notes.boot = boot
    line = data.partition(b"\n")[0]
    try:
        if len(line) < 10 or int(line[:8], 16) != zlib.crc32(line[9:]):
            return notes
        written_boot, seq, size, warning, numbers, suspects, files, *more = json.loads(line[9:])
        lineage = more[0] if more else ""
        sound = (
            type(written_boot) is type(warning) is type(lineage) is str
            and len(written_boot) + len(warning) + len(lineage) <= _LONGEST_TEXTS
            and _are_counts(seq, size, *numbers.values())
            and type(suspects) is list
            and all(map(is_own_file, suspects))
            and all(map(is_own_file, files))
            and all(_is_known(*known) for known in files.values())
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return notes
    if not sound:
        return notes
    notes.seq, notes.size, notes.warning, notes.numbers, notes.suspects = seq, size, warning, numbers, suspects
    notes.lineage = lineage
    if written_boot == boot and len(files) <= _REMEMBERED_FILES:
        notes.files = files
    return notes


def _are_counts(*values: Any) -> bool:
    return all(type(value) is int and 0 <= value <= _LARGEST for value in values)


def _is_known(inode: Any, size: Any, modified: Any, changed: Any, epoch: Any) -> bool:
    """What is noted of a file; its times may be before 1970."""
    return (
        type(inode) is type(size) is type(modified) is type(changed) is type(epoch) is int
        and 0 <= inode <= _LARGEST_STAT
        and 0 <= size <= _LARGEST_STAT
        and -_LARGEST_STAT <= modified <= _LARGEST_STAT
        and -_LARGEST_STAT <= changed <= _LARGEST_STAT
        and 0 <= epoch <= _LARGEST_STAT
    )


def read(disk: Disk, descriptor: int) -> bytes:
    return disk.read_open(descriptor, HOLDER_BYTES, LIMIT_BYTES)


def write(system: System, descriptor: int, data: bytes) -> bool:
    """Leave the notes. On a full disk they may be lost: then the next writer reads the files instead."""
    try:
        done = system.pwrite(descriptor, data, HOLDER_BYTES)
        while done < len(data):
            done += system.pwrite(descriptor, data[done:], HOLDER_BYTES + done)
    except OSError:
        return False
    return True


def numbers_in_head(reader: SessionReader) -> dict[str, int]:
    """By prefix; empty if the head cannot be read, which `validate` reports."""
    layout, name = reader.layout, reader.layout.info_file
    try:
        if name:
            heads = [reader.disk.read(os.path.join(reader.folder, name))]
        else:
            heads = [json.dumps(head).encode() for state in reader.states.values() for head in state.heads]
        found = [head_of(layout, head, reader.session).numbers for head in heads]
        return {prefix: max(numbers.get(prefix, 0) for numbers in found) for prefix in set().union(*found)}
    except (OSError, SMPError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
