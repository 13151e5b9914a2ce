"""Byte format of a cold segment: gzip members that carry their own length, so that each can be found and read alone.

    block, block, …, index, end      all of them together are one gzip file: `zcat` shows everything

A block is a line that lists its entries, followed by their bytes. The index repeats the lines of all blocks with their offsets. The end
is empty, always `END_BYTES` long, and holds the offset of the index. Kind, length and size of the content are in the extra field of each
member's gzip header.

Guarantees: pure; decoding takes at most `LARGEST_RAW` bytes of memory, whatever a header claims, and gives None for anything that is not
exactly what was encoded.
"""

from __future__ import annotations

import json
import struct
import zlib
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import StorageCorrupt
from smp_memory.files.codec import to_json
from smp_memory.model.ids import sha256_hex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FORMAT = 1
BLOCK, INDEX, END = b"B", b"I", b"E"
_START = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"
_EXTRA = struct.Struct("<H2sHcQQQ")  # length of the extra field, `SM`, length of ours, kind, member, raw, index
_EXTRA_BYTES, _OUR_BYTES = _EXTRA.size - 2, _EXTRA.size - 6
MAGIC = _START + struct.pack("<H2sH", _EXTRA_BYTES, b"SM", _OUR_BYTES)
HEADER_BYTES = len(_START) + _EXTRA.size
END_BYTES = HEADER_BYTES + 2 + 8
LARGEST_RAW = 64 << 20
BLOCK_RAW = 128 << 10  # the bytes to decompress for reading one entry
_LEVEL = 3  # takes half the time of level 6, for output a tenth larger
_WORK_PER_BYTE = 50
_quoted = json.encoder.encode_basestring  # a text as JSON; `to_json` is for everything else


class ColdEntry(NamedTuple):
    """An entry with its bytes from the session's file, and the facts that a list shows without reading it."""

    id: str
    seq: int
    file: str
    data: bytes
    about: dict[str, Any] = {}  # noqa: RUF012  # type, time, reason of its move; small JSON values, no content


class ColdRow(NamedTuple):
    """Position and facts of an entry in a block."""

    id: str
    seq: int
    file: str
    start: int  # in the content of its block
    length: int
    checksum: str
    about: dict[str, Any]


class BlockSpan(NamedTuple):
    """Position of a block in the file, and the length of its content."""

    offset: int
    length: int
    raw_bytes: int


class Block(NamedTuple):
    """A block as encoded in the file."""

    member: bytes
    raw_bytes: int
    rows: str  # its rows as the index lists them, in JSON


class Header(NamedTuple):
    kind: bytes
    length: int
    raw_bytes: int
    index_offset: int  # in the end member: where the index begins


def checksum(data: bytes) -> str:
    return "sha256:" + sha256_hex(data)[:16]


def encode_member(kind: bytes, raw: bytes, index: int = 0) -> bytes:
    engine = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = engine.compress(raw) + engine.flush()
    length = HEADER_BYTES + len(body) + 8
    extra = _EXTRA.pack(_EXTRA_BYTES, b"SM", _OUR_BYTES, kind, length, len(raw), index)
    return b"".join((_START, extra, body, struct.pack("<II", zlib.crc32(raw), len(raw) & 0xFFFFFFFF)))


def decode_header(data: bytes, offset: int = 0) -> Header | None:
    if data[offset : offset + len(MAGIC)] != MAGIC or len(data) < offset + HEADER_BYTES:
        return None
    _, _, _, kind, length, raw, index = _EXTRA.unpack_from(data, offset + len(_START))
    return Header(kind, length, raw, index) if raw <= LARGEST_RAW and length > HEADER_BYTES else None


def decode_member(member: bytes) -> bytes | None:
    """The content of a member; None if it is damaged or incomplete."""
    header = decode_header(member)
    if header is None or header.length != len(member):
        return None
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        raw = engine.decompress(member[HEADER_BYTES:-8], header.raw_bytes + 1)
    except zlib.error:
        return None
    trailer = struct.pack("<II", zlib.crc32(raw), len(raw) & 0xFFFFFFFF)
    is_complete = engine.eof and not engine.unused_data and len(raw) == header.raw_bytes
    return raw if is_complete and member[-8:] == trailer else None


# -- blocks and the index


def split_into_batches(entries: Sequence[ColdEntry]) -> Iterator[list[ColdEntry]]:
    """Entries in their order, in batches that fill a block."""
    batch: list[ColdEntry] = []
    size = 0
    for entry in entries:
        if batch and size + len(entry.data) > BLOCK_RAW:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.data)
    if batch:
        yield batch


def encode_blocks(entries: Sequence[ColdEntry]) -> Iterator[Block]:
    """The blocks of these entries."""
    for batch in split_into_batches(entries):
        rows = list(map(_row_parts, batch))
        starts = list(accumulate([len(entry.data) for entry in batch[:-1]], initial=0))
        head = f'{{"smp_cold":{FORMAT},"entries":{_join_rows(rows, starts, 0)}}}\n'.encode()
        raw = b"".join([head, *(entry.data for entry in batch)])
        member = encode_member(BLOCK, raw)
        if decode_member(member) != raw:
            raise StorageCorrupt("A block of a cold segment did not read back as it was written; nothing was changed.")
        yield Block(member, len(raw), _join_rows(rows, starts, len(head)))


def _row_parts(entry: ColdEntry) -> tuple[str, str]:
    """The row of an entry as JSON, before and after its start offset, which differs between the block and the index."""
    digest, size = checksum(entry.data), len(entry.data)
    before = f"[{_quoted(entry.id)},{entry.seq},{_quoted(entry.file)},"
    return before, f',{size},"{digest}",{to_json(entry.about)}]'


def _join_rows(rows: list[tuple[str, str]], starts: list[int], base: int) -> str:
    parts = [f"{before}{base + start}{behind}" for (before, behind), start in zip(rows, starts, strict=True)]
    return f"[{','.join(parts)}]"


def decode_rows(raw: bytes) -> list[ColdRow] | None:
    """The list at the beginning of a block's content, with starts counted from the beginning of the content."""
    end = raw.find(b"\n") + 1
    fields = parse_json(raw[:end]) if end else None
    rows = fields.get("entries") if fields else None
    return validate_rows(rows, end, len(raw)) if isinstance(rows, list) else None


def validate_rows(rows: list[Any], base: int, raw_bytes: int) -> list[ColdRow] | None:
    """Validate untrusted rows; None if any is malformed."""
    decoded = []
    for row in rows:
        if not isinstance(row, list) or [type(value) for value in row] != [str, int, str, int, int, str, dict]:
            return None
        id, seq, file, start, length, digest, about = row
        if not 0 <= start <= start + length <= raw_bytes - base:
            return None
        decoded.append(ColdRow(id, seq, file, base + start, length, digest, about))
    return decoded


def encode_index(blocks: Sequence[Block]) -> bytes:
    """The index and the end, for a file that begins with these blocks."""
    listed, offset = [], 0
    for member, raw_bytes, rows in blocks:
        listed.append(f"[{offset},{len(member)},{raw_bytes},{rows}]")
        offset += len(member)
    index = f'{{"smp_cold":{FORMAT},"blocks":[{",".join(listed)}]}}\n'
    return encode_member(INDEX, index.encode()) + encode_member(END, b"", offset)


def decode_index(raw: bytes) -> list[tuple[BlockSpan, list[ColdRow]]] | None:
    fields = parse_json(raw)
    listed = fields.get("blocks") if fields else None
    decoded = []
    for each in listed if isinstance(listed, list) else [None]:
        if not isinstance(each, list) or [type(value) for value in each] != [int, int, int, list]:
            return None
        span = BlockSpan(*each[:3])
        rows = validate_rows(each[3], 0, span.raw_bytes)
        if rows is None or min(span) < 0:
            return None
        decoded.append((span, rows))
    return decoded


def salvage(data: bytes) -> tuple[list[tuple[BlockSpan, list[ColdRow]]], list[str]]:
    """The complete blocks of a file without a valid index, and messages about the rest. The work is bounded."""
    blocks: list[tuple[BlockSpan, list[ColdRow]]] = []
    unreadable: list[str] = []
    offset, work = 0, _WORK_PER_BYTE * len(data) + LARGEST_RAW
    while offset < len(data):
        header = decode_header(data, offset)
        work -= header.raw_bytes + min(header.length, len(data)) if header else 0
        if work < 0:
            return blocks, [*unreadable, f"the bytes from {offset} on would take too long to search"]
        raw = decode_member(data[offset : offset + header.length]) if header else None
        if header is None or raw is None:
            next_offset = data.find(MAGIC, offset + 1)
            next_offset = next_offset if next_offset >= 0 else len(data)
            unreadable.append(f"the bytes from {offset} to {next_offset} cannot be read")
            offset = next_offset
            continue
        rows = decode_rows(raw) if header.kind == BLOCK else None
        if rows is not None:
            blocks.append((BlockSpan(offset, header.length, header.raw_bytes), rows))
        offset += header.length
    return blocks, unreadable


def parse_json(raw: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(raw, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and fields.get("smp_cold") == FORMAT else None


def _finite(text: str) -> float:
    """A finite number; `NaN` and `1e999` cannot be written as JSON again."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value
