"""What does a tar.gz say, byte by byte, when nobody may be trusted? A bounded gunzip and the strictest tar that can be.

Guarantees: reading takes memory for one chunk, whatever the archive claims; it stops as soon as more comes out than
`Limits` allow, in all or in relation to what went in. One gzip stream, nothing after it; its checksum and length hold.
Of tar only this is understood: the format `ustar`, plain files, sizes in octal digits, a correct header checksum, two
empty blocks at the end. Links, devices, folders, sparse files, extended headers (PAX, GNU) and everything else are
refused by name. Each refusal is a `StorageCorrupt` with `reason`, one word for it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from smp_memory.errors import StorageCorrupt
from smp_memory.files.archive_names import split

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from smp_memory.files.disk import Disk

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
