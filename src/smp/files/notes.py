"""What did the last writer know? Notes that writers leave for each other in the lock file, behind the holder's name.

They say which numbers are taken and what each file looked like after the last write. A file that still looks like
that was touched by nobody else, its last entry is whole, and it only grew since an earlier note of the same *epoch*.
So a writer need not read a session to append to it, and a reader need only read what is new.

Notes are a cache: missing, damaged or from before a reboot they are ignored and the files are read instead; only the
numbers still count, because numbers may be skipped but never used twice.
"""

from __future__ import annotations

import json
import zlib

from smp.files.json_lines import to_json
from smp.files.lock import HOLDER_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.files.system import System

_REMEMBERED_FILES = 12
_LIMIT_BYTES = 4096


class Notes:
    __slots__ = ("boot", "files", "numbers", "seq", "size", "suspects", "warning")

    def __init__(self) -> None:
        self.boot = ""
        self.seq = 0
        self.size = 0  # bytes of all files together
        self.numbers: dict[str, int] = {}
        self.files: dict[str, list[int]] = {}  # name -> identity (4 numbers) + epoch
        self.suspects: list[str] = []  # files whose last sync failed
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

    def encode(self) -> bytes:
        """One line of JSON behind its checksum."""
        said = [self.boot, self.seq, self.size, self.warning, self.numbers, self.suspects, self.files]
        text = to_json(said).encode()
        return b"%08x %b\n" % (zlib.crc32(text), text)


def decode(data: bytes, boot: str) -> Notes:
    """Notes from the bytes behind the holder's name; empty ones if they cannot be trusted."""
    notes = Notes()
    notes.boot = boot
    line = data.partition(b"\n")[0]
    try:
        if len(line) < 10 or int(line[:8], 16) != zlib.crc32(line[9:]):
            return notes
        written_boot, seq, size, warning, numbers, suspects, files = json.loads(line[9:])
    except (ValueError, TypeError):
        return notes
    notes.seq, notes.size, notes.warning, notes.numbers, notes.suspects = seq, size, warning, numbers, suspects
    if written_boot == boot:
        for name, known in files.items():
            notes.remember(name, known[:4], known[4])
    return notes


def read(system: System, descriptor: int, size: int = _LIMIT_BYTES) -> bytes:
    return system.pread(descriptor, size, HOLDER_BYTES)


def write(system: System, descriptor: int, data: bytes) -> bool:
    """Leave the notes. On a full disk they may be lost: then the next writer reads the files instead."""
    try:
        done = system.pwrite(descriptor, data, HOLDER_BYTES)
        while done < len(data):
            done += system.pwrite(descriptor, data[done:], HOLDER_BYTES + done)
    except OSError:
        return False
    return True
