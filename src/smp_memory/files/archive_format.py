"""Byte format of archives: the names that may stand in one, a bounded gunzip, and a strict subset of tar.

Guarantees
- Names: a path that passes `unsafe_because` has no `..`, is not absolute, has no drive, no stream, no control character and no
  name that Windows reads in another way, is valid and normalised Unicode, and fits into a tar header. A set of paths that passes
  `colliding` has no two that a case-insensitive or Unicode-normalising disk would take for one, and no file where another one needs
  a folder.
- Gunzip: reading takes memory for one chunk, whatever the archive claims; it stops as soon as the output exceeds `ArchiveLimits`,
  in total or relative to the input. One gzip stream with nothing after it; its checksum and length hold.
- Tar: only `ustar`, plain files, sizes in octal digits, a correct header checksum and two empty blocks at the end are accepted.
  Links, devices, folders, sparse files, extended headers (PAX, GNU) and everything else are rejected by name.
- Each rejection is a `StorageCorrupt` with `reason`, one word for it.
"""

from __future__ import annotations

import unicodedata
import zlib
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from smp_memory.errors import StorageCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from smp_memory.files.disk import Disk

LONGEST_PATH_BYTES = 240
LONGEST_NAME_BYTES = 100
LONGEST_PREFIX_BYTES = 155
DEEPEST = 8
PRIVATE = ".smp"
LEFT_OUT = frozenset(("lock", "queue"))  # of SMP's own folder: they belong to processes, not to the session
PLAN = "journal.json"  # what is to be done to a session; never taken from an archive
_DEVICES = frozenset(["con", "prn", "aux", "nul"] + [f"{name}{n}" for name in ("com", "lpt") for n in range(10)])
_FORBIDDEN = frozenset('\\:*?"<>|')

BLOCK = 512
CHUNK = 1 << 16
_GZIP = 31  # zlib's window bits for a gzip header
_PLAIN = b"0"
_KINDS = {
    b"1": "link", b"2": "link", b"3": "device", b"4": "device", b"5": "folder", b"6": "pipe", b"7": "contiguous",
    b"g": "extended_header", b"x": "extended_header", b"X": "extended_header", b"L": "extended_header",
    b"K": "extended_header", b"N": "extended_header", b"S": "sparse", b"D": "extended_header", b"M": "multi_volume",
    b"V": "volume_label", b"\0": "old_format", b"A": "extended_header", b"I": "extended_header",
}  # fmt: skip
_MOST_PADDING = 20 * BLOCK


# -- names


def unsafe_because(path: str) -> str:
    """Why this path may not stand in an archive; empty if it may."""
    if not path or path.startswith("/"):
        return "absolute" if path else "empty"
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        return "not_unicode"
    parts = path.split("/")
    if length > LONGEST_PATH_BYTES or len(parts) > DEEPEST:
        return "too_long" if length > LONGEST_PATH_BYTES else "too_deep"
    if is_private(path, LEFT_OUT | {PLAN}):
        return "reserved"
    return next((why for part in parts if (why := _unsafe_part(part))), "") or ("" if split(path) else "too_long")


def split(path: str) -> tuple[bytes, bytes] | None:
    """A path as a tar header takes it, in a prefix and a rest; None if it fits no header."""
    name = path.encode()
    if len(name) <= LONGEST_NAME_BYTES:
        return b"", name
    slash = name.find(b"/", len(name) - LONGEST_NAME_BYTES - 1)
    return (name[:slash], name[slash + 1 :]) if 0 < slash <= LONGEST_PREFIX_BYTES else None


def is_private(path: str, names: Iterable[str]) -> bool:
    """Whether this is one of SMP's own files of these names."""
    *folders, name = path.lower().split("/")
    return PRIVATE in folders and name in names


def _unsafe_part(part: str) -> str:
    if part in ("", ".", ".."):
        return "traversal" if part == ".." else "empty_part"
    if len(part.encode()) > LONGEST_NAME_BYTES:
        return "too_long"
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in part):
        return "control_character"
    if not _FORBIDDEN.isdisjoint(part) or part[-1] in ". " or part[0] == " ":
        return "not_portable"
    if part.partition(".")[0].rstrip().lower() in _DEVICES:
        return "device_name"
    return "" if unicodedata.normalize("NFC", part) == part else "not_normalised"


def colliding(paths: Iterable[str]) -> str:
    """A path that a disk might take for another one of these; empty if there is none."""
    names: dict[str, str] = {}  # as a disk that ignores case sees it, and as it is written; folders end in a slash
    for path in paths:
        parts = path.split("/")
        folders = ["/".join(parts[:count]) + "/" for count in range(1, len(parts))]
        if any(names.setdefault(_seen(folder), folder) != folder for folder in folders):
            return path
        if any(_seen(folder[:-1]) in names for folder in folders) or _seen(path) + "/" in names or _seen(path) in names:
            return path
        names[_seen(path)] = path
    return ""


def _seen(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())


# -- gunzip


class ArchiveLimits(NamedTuple):
    """How much an archive may hold."""

    files: int = 10_000
    file_bytes: int = 256 << 20
    total_bytes: int = 512 << 20
    ratio: int = 200  # of what comes out to what went in, once more than `ratio_from_bytes` came out
    ratio_from_bytes: int = 64 << 20


DEFAULT_LIMITS = ArchiveLimits()


class Gunzip:
    """What a compressed file holds, from beginning to end, once. A context manager."""

    def __init__(self, disk: Disk, path: str, limits: ArchiveLimits) -> None:
        self.path = path
        self._limits = limits
        self._system = disk.system
        self._descriptor = disk.open_read(path)
        self._offset = 0
        self._engine = zlib.decompressobj(_GZIP)
        self._ready = b""
        self._came_out = 0

    def __enter__(self) -> Gunzip:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._system.close(self._descriptor)

    def take(self, size: int) -> bytes:
        """Exactly so many bytes; only for what is known to be small."""
        return b"".join(self.chunks(size))

    def chunks(self, size: int) -> Iterator[bytes]:
        """Exactly so many bytes, a chunk at a time."""
        while size:
            if not self._ready:
                self._ready = self._more()
                if not self._ready:
                    self.refuse("truncated", "it ends too early")
            part, self._ready = self._ready[:size], self._ready[size:]
            size -= len(part)
            yield part

    def finish(self) -> None:
        """Nothing but a little padding may follow, and nothing at all after the compressed stream."""
        padding = 0
        while part := self._ready or self._more():
            self._ready = b""
            padding += len(part)
            if part.strip(b"\0") or padding > _MOST_PADDING:
                self.refuse("trailing", "something follows its end")
        if self._engine.unused_data or self._system.pread(self._descriptor, 1, self._offset):
            self.refuse("trailing", "something follows its end")

    def _more(self) -> bytes:
        """The next chunk that comes out, empty at the end."""
        while not self._engine.eof:
            fed = self._engine.unconsumed_tail or self._read()
            try:
                part = self._engine.decompress(fed, CHUNK)
            except zlib.error as error:
                self.refuse("damaged", f"it cannot be decompressed ({error})")
            if part:
                self._count(len(part))
                return part
            if not fed:
                self.refuse("truncated", "it ends too early")
        return b""

    def _read(self) -> bytes:
        data = self._system.pread(self._descriptor, CHUNK, self._offset)
        self._offset += len(data)
        return data

    def _count(self, size: int) -> None:
        self._came_out += size
        limits = self._limits
        if self._came_out > limits.total_bytes + 2 * BLOCK * (limits.files + 3) + _MOST_PADDING:
            self.refuse("too_large", f"it holds more than {limits.total_bytes:,} bytes")
        if self._came_out > limits.ratio_from_bytes and self._came_out > limits.ratio * self._offset:
            self.refuse("ratio", f"it holds more than {limits.ratio} times its size")

    def refuse(self, reason: str, what: str) -> NoReturn:
        raise StorageCorrupt(
            f"{self.path} cannot be unpacked: {what}. Nothing was written.", path=self.path, reason=reason
        )


# -- tar


def encode_header(name: str, size: int) -> bytes:
    """The header of a plain file, the same for ever: no owner, no time, readable by its owner only."""
    parts = split(name)
    assert parts is not None  # `unsafe_because` was asked
    prefix, short = parts
    fields = (
        (short, 100), (b"0000600\0", 8), (b"0000000\0", 8), (b"0000000\0", 8), (b"%011o\0" % size, 12),
        (b"00000000000\0", 12), (b" " * 8, 8), (_PLAIN, 1), (b"", 100), (b"ustar\x0000", 8), (b"", 32), (b"", 32),
        (b"0000000\0", 8), (b"0000000\0", 8), (prefix, 155), (b"", 12),
    )  # fmt: skip
    header = b"".join(value.ljust(width, b"\0") for value, width in fields)
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def padding(size: int) -> bytes:
    return b"\0" * (-size % BLOCK)


END = b"\0" * (2 * BLOCK)


def next_header(stream: Gunzip) -> tuple[str, int] | None:
    """Name and size of the next file; None at the end."""
    block = stream.take(BLOCK)
    if block == END[:BLOCK]:
        if stream.take(BLOCK) != END[:BLOCK]:
            stream.refuse("damaged", "an empty block stands in the middle")
        return None
    _check_header(stream, block)
    return header_name(stream, block), header_size(stream, block[124:136])


def check_sum(stream: Gunzip, block: bytes) -> None:
    """See that a block is a header, and that its checksum holds."""
    if block[257:265] not in (b"ustar\x0000", b"ustar  \0"):
        stream.refuse("not_tar", "it is not a tar archive that SMP wrote")
    said = block[148:156].strip(b"\0 ")
    if not _is_octal(said) or int(said, 8) != sum(block) - sum(block[148:156]) + 8 * 32:
        stream.refuse("damaged", "the checksum of a header is wrong")


def refuse_kind(stream: Gunzip, kind: bytes) -> NoReturn:
    found = _KINDS.get(kind, "unknown_type")
    stream.refuse(found, f"it holds something that is not a plain file ({found.replace('_', ' ')})")


def _check_header(stream: Gunzip, block: bytes) -> None:
    check_sum(stream, block)
    kind = block[156:157]
    if kind != _PLAIN:
        refuse_kind(stream, kind)
    if block[257:265] != b"ustar\x0000":
        stream.refuse("gnu_format", "it is in GNU's format")
    if block[157:257].strip(b"\0"):
        stream.refuse("link", "a file in it claims to be a link")
    if block[500:].strip(b"\0"):
        stream.refuse("damaged", "a header has something in its unused part")


def header_name(stream: Gunzip, block: bytes) -> str:
    parts = [field.partition(b"\0") for field in (block[345:500], block[:100])]
    if any(rest.strip(b"\0") for _, _, rest in parts):
        stream.refuse("nul", "a name in it has something behind a zero byte")
    try:
        return b"/".join(part for part, _, _ in parts if part).decode()
    except UnicodeDecodeError:
        stream.refuse("not_unicode", "a name in it is not UTF-8")


def header_size(stream: Gunzip, field: bytes) -> int:
    digits = field.rstrip(b"\0 ")
    if not _is_octal(digits):
        stream.refuse("bad_size", "a size in it is no number")
    return int(digits, 8)


def _is_octal(digits: bytes) -> bool:
    return bool(digits) and not digits.strip(b"01234567")
