"""Is a text still on the disk? Looking for pieces of it in every file below the store, also inside compressed ones.

A *piece* is a stretch of the text that every codec writes as it is: letters, digits, blanks and a few signs on one line.
Fields whose values many memories share (author, tags, status) give no pieces.

Guarantees: every file is read, whatever it is called; what is compressed (gzip, also tar.gz and cold segments) is
decompressed first, and looked at raw as well. What cannot be read or decompressed is said.
Non-guarantees: text that is encoded in another way (base64, encrypted, a word per line) is not recognised.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.files.disk import Disk

_STRETCH = re.compile(r"[^\W_][\w .,;/@+-]{6,}[^\W_]")
_SHARED = frozenset(  # fields whose values many memories have
    [
        "agent",
        "agents",
        "approved_by",
        "author",
        "author_kind",
        "category",
        "confidence",
        "created",
        "impact",
        "importance",
        "key",
        "kind",
        "project",
        "reason",
        "references",
        "relations",
        "resolved_at",
        "resolved_by",
        "role",
        "session",
        "severity",
        "status",
        "tags",
        "topic",
        "type",
        "user",
    ]
)
_LONGEST = 24  # characters of a piece: of a text that was cut off, some are still whole
_MOST = 12  # pieces
_WINDOW, _WINDOWED = 14, 20_000  # bytes of a window into the text; so many characters of a text have some
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
LIMIT_BYTES = 1 << 30  # of decompressed content in one file


class ScanResult(NamedTuple):
    """What was looked through, and where a piece was found."""

    files: int
    bytes: int
    found: list[str]  # paths
    unreadable: list[str]

    def with_(self, other: ScanResult) -> ScanResult:
        return ScanResult(
            self.files + other.files,
            self.bytes + other.bytes,
            self.found + other.found,
            self.unreadable + other.unreadable,
        )


def pieces_of(values: Iterable[Any]) -> list[bytes]:
    """Pieces of these fields' texts by which they can be recognised, the longest first; none if they are too short."""
    found: dict[str, None] = {}
    for value in values:
        for text in _texts(value):
            for stretch in _STRETCH.findall(text):
                for piece in (stretch[:_LONGEST], stretch[-_LONGEST:]):
                    found[piece.strip()] = None
    longest = sorted(found, key=len, reverse=True)
    return [piece.encode("utf-8", "replace") for piece in longest[:_MOST] if len(piece) >= 8]


def phrases_of(data: bytes) -> list[str]:
    """Stretches of several words of a text that nobody can read as an entry; single words may be names of fields."""
    return [each for each in _STRETCH.findall(data.decode("utf-8", "replace")) if " " in each]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in _SHARED:
                yield from _texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner)


class RemnantScan:
    """What tells a torn or damaged rest of a memory: its own id, or a short stretch of its text."""

    def __init__(self, ids: Iterable[str], values: Iterable[Any]) -> None:
        names = b"|".join(re.escape(name.encode()) for name in ids)
        self._id = re.compile(rb'(?:"id": ?"|\bid: "?|\*\*Id:\*\* |<!-- end )(?:' + names + rb")(?![0-9A-Za-z_.-])")
        self._windows: set[bytes] = set()
        for value in values:
            for text in _texts(value):
                for stretch in _STRETCH.findall(text[:_WINDOWED]):
                    data = stretch.encode("utf-8", "replace")
                    self._windows |= {data[at : at + _WINDOW] for at in range(0, max(len(data) - _WINDOW, 0) + 1, 4)}

    def are_in(self, data: bytes) -> bool:
        return self._id.search(data) is not None or any(window in data for window in self._windows)


def holds(data: bytes, pieces: list[bytes]) -> bool:
    return any(piece in data for piece in pieces)


def look_for(disk: Disk, folder: str, pieces: list[bytes]) -> ScanResult:
    """Look for the pieces in every file below a folder."""
    return look_in(disk, _files_below(disk, folder), pieces)


def look_in(disk: Disk, paths: Iterable[str], pieces: list[bytes]) -> ScanResult:
    """Look for the pieces in these files."""
    files, size = 0, 0
    found: list[str] = []
    unreadable: list[str] = []
    for path in paths:
        try:
            data = disk.read(path)
            files += 1
            size += len(data)
            packed = data.startswith(_GZIP) or ".gz" in os.path.basename(path)
            if holds(data, pieces) or (packed and _is_inside(data, pieces)):
                found.append(path)
        except FileNotFoundError:
            continue  # a file that others replace while we look: theirs holds only what is there now
        except (OSError, SMPError, zlib.error):
            unreadable.append(path)
    return ScanResult(files, size, found, unreadable)


def _files_below(disk: Disk, folder: str) -> Iterator[str]:
    for name in disk.names(folder):
        path = os.path.join(folder, name)
        if disk.is_folder(path):
            yield from _files_below(disk, path)
        else:
            yield path


def _is_inside(data: bytes, pieces: list[bytes]) -> bool:
    """Whether a compressed file of one or several gzip members holds a piece."""
    longest = max(map(len, pieces), default=1)
    start, done = data.find(_GZIP), 0
    while start >= 0:
        machine = zlib.decompressobj(31)
        before, rest = b"", data[start:]
        try:
            while rest and not machine.eof:
                part = machine.decompress(rest, _CHUNK)
                rest = machine.unconsumed_tail
                if holds(before + part, pieces):
                    return True
                before = part[-longest:]
                done += len(part)
                if done > LIMIT_BYTES:
                    raise zlib.error("too large to be looked through")
                if not part and not rest:
                    break
            start = len(data) - len(machine.unused_data) if machine.eof else -1
            start = data.find(_GZIP, start) if start >= 0 else -1
        except zlib.error:
            if done > LIMIT_BYTES:
                raise
            start = data.find(_GZIP, start + 1)  # not a member, or a damaged one
    return False


def open_elsewhere(*folders: str) -> list[int]:
    """Processes that still have a removed file below these folders open, where the system tells (Linux)."""
    found = set()
    below = tuple(folder + os.sep for folder in folders)
    own = os.getpid()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit() or int(name) == own:
            continue
        try:
            for each in os.listdir(f"/proc/{name}/fd"):
                target = os.readlink(f"/proc/{name}/fd/{each}")
                if target.endswith(" (deleted)") and target.startswith(below):
                    found.add(int(name))
        except OSError:
            continue  # another user's, or gone
    return sorted(found)
