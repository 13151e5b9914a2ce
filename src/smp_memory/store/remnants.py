"""Scan files for pieces of erased text.

A *piece* is a part of the text that every codec writes unchanged: letters, digits, blanks and a few signs on one line.
Fields whose values many memories share (author, tags, status) give no pieces.

Guarantees: a scan reads every file below a folder, whatever its name; compressed content (gzip, also tar.gz and cold
segments) is decompressed and also scanned raw. Files that cannot be read or decompressed are reported.
Non-guarantees: text in another encoding (base64, encrypted, one word per line) is not recognised.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import Any, NamedTuple

from smp_memory.errors import SMPError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.files.disk import Disk

_STRETCH = re.compile(r"[^\W_][\w .,;/@+-]{6,}[^\W_]")
_SHARED = frozenset(  # fields whose values many memories have
    [
        "access",
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
        "valid_from",
        "valid_until",
    ]
)
_MAX_PIECE = 24  # characters: short enough that some pieces of a truncated text are still whole
_MAX_PIECES = 12
_WINDOW, _WINDOWED = 14, 20_000  # bytes of a window; characters of a text that windows are taken from
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
LIMIT_BYTES = 1 << 30  # of decompressed content in one file


class ScanResult(NamedTuple):
    """What was scanned, and where a piece was found."""

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
    """Pieces by which the texts of these fields can be recognised, longest first; empty if they are too short."""
    found: dict[str, None] = {}
    for value in values:
        for text in _texts(value):
            for stretch in _STRETCH.findall(text):
                for piece in (stretch[:_MAX_PIECE], stretch[-_MAX_PIECE:]):
                    found[piece.strip()] = None
    longest = sorted(found, key=len, reverse=True)
    return [piece.encode("utf-8", "replace") for piece in longest[:_MAX_PIECES] if len(piece) >= 8]


def phrases_of(data: bytes) -> list[str]:
    """Phrases of several words in bytes that cannot be read as an entry; single words may be names of fields."""
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


class RemnantMatcher:
    """Recognises torn or damaged remnants of memories by their id or a short part of their text."""

    def __init__(self, ids: Iterable[str], values: Iterable[Any]) -> None:
        names = b"|".join(re.escape(name.encode()) for name in ids)
        self._id = re.compile(rb'(?:"id": ?"|\bid: "?|\*\*Id:\*\* |<!-- end )(?:' + names + rb")(?![0-9A-Za-z_.-])")
        self._windows: set[bytes] = set()
        for value in values:
            for text in _texts(value):
                for stretch in _STRETCH.findall(text[:_WINDOWED]):
                    data = stretch.encode("utf-8", "replace")
                    self._windows |= {data[at : at + _WINDOW] for at in range(0, max(len(data) - _WINDOW, 0) + 1, 4)}

    def matches(self, data: bytes) -> bool:
        return self._id.search(data) is not None or any(window in data for window in self._windows)


def contains_any(data: bytes, pieces: list[bytes]) -> bool:
    return any(piece in data for piece in pieces)


def scan_folder(disk: Disk, folder: str, pieces: list[bytes]) -> ScanResult:
    """Scan every file below a folder."""
    return scan_files(disk, _files_below(disk, folder), pieces)


def scan_files(disk: Disk, paths: Iterable[str], pieces: list[bytes]) -> ScanResult:
    """Scan these files."""
    files, size = 0, 0
    found: list[str] = []
    unreadable: list[str] = []
    for path in paths:
        try:
            data = disk.read(path)
            files += 1
            size += len(data)
            packed = data.startswith(_GZIP) or ".gz" in os.path.basename(path)
            if contains_any(data, pieces) or (packed and _is_inside(data, pieces)):
                found.append(path)
        except FileNotFoundError:
            continue  # replaced by another process meanwhile; the new file holds only current content
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
    """Whether a compressed file of one or several gzip members contains a piece."""
    longest = max(map(len, pieces), default=1)
    start, done = data.find(_GZIP), 0
    while start >= 0:
        machine = zlib.decompressobj(31)
        before, rest = b"", data[start:]
        try:
            while rest and not machine.eof:
                part = machine.decompress(rest, _CHUNK)
                rest = machine.unconsumed_tail
                if contains_any(before + part, pieces):
                    return True
                before = part[-longest:]
                done += len(part)
                if done > LIMIT_BYTES:
                    raise zlib.error("too large to be scanned")
                if not part and not rest:
                    break
            start = len(data) - len(machine.unused_data) if machine.eof else -1
            start = data.find(_GZIP, start) if start >= 0 else -1
        except zlib.error:
            if done > LIMIT_BYTES:
                raise
            start = data.find(_GZIP, start + 1)  # not a member, or a damaged one
    return False


def processes_with_removed_files(*folders: str) -> list[int]:
    """Processes that still have a removed file below these folders open (Linux; elsewhere empty)."""
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
            continue  # of another user, or ended
    return sorted(found)
