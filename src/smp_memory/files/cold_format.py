"""What are the bytes of a cold segment? Gzip members that carry their own length, so that each can be found and read alone.

    block, block, …, index, end      all of them together are one gzip file: `zcat` shows everything

A block is a line that lists its entries, followed by their bytes. The index repeats the lines of all blocks with their
places. The end is empty, always `END_BYTES` long, and says where the index begins. Kind, length and size of the content
stand in the extra field of each member's gzip header.

Guarantees: pure; decoding takes at most as much memory as `LARGEST_RAW`, whatever a header claims, and gives None for
anything that is not exactly what was encoded.
"""

from __future__ import annotations

import json
import struct
import zlib
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import StorageCorrupt
from smp_memory.files.json_lines import to_json
from smp_memory.files.sha256 import sha256_hex

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
BLOCK_RAW = 128 << 10  # so much is decompressed to read one entry
_LEVEL = 3  # half the time of 6, and texts get a tenth larger
_WORK_PER_BYTE = 50
_quoted = json.encoder.encode_basestring  # a text as JSON; `to_json` is for everything else


class ColdEntry(NamedTuple):
    """An entry as it stood in a session's file, and what a list should say of it without reading it."""

    id: str
    seq: int
    file: str
    data: bytes
    about: dict[str, Any] = {}  # noqa: RUF012  # type, time, why it went; small JSON values, no content


class ColdRow(NamedTuple):
    """Where an entry stands, and what is known of it."""

    id: str
    seq: int
    file: str
    start: int  # in the content of its block
    length: int
    checksum: str
    about: dict[str, Any]


class BlockSpan(NamedTuple):
    """Where a block stands in the file, and how long its content is."""

    offset: int
    length: int
    raw_bytes: int


class Block(NamedTuple):
    """A block as it stands in the file."""

    member: bytes
    raw_bytes: int
    rows: str  # what is in it, as the index has it: JSON


class Header(NamedTuple):
    kind: bytes
    length: int
    raw_bytes: int
    index_offset: int  # of the end: where the index begins


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
    """The content of a whole member; None if it is damaged or is not whole."""
    header = decode_header(member)
    if header is None or header.length != len(member):
        return None
    engine = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        raw = engine.decompress(member[HEADER_BYTES:-8], header.raw_bytes + 1)
    except zlib.error:
        return None
    right = struct.pack("<II", zlib.crc32(raw), len(raw) & 0xFFFFFFFF)
    whole = engine.eof and not engine.unused_data and len(raw) == header.raw_bytes
    return raw if whole and member[-8:] == right else None


# -- blocks and the index


def batches(entries: Sequence[ColdEntry]) -> Iterator[list[ColdEntry]]:
    """Entries in the order in which they came, so many that they make a block."""
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


def encoded(entries: Sequence[ColdEntry]) -> Iterator[Block]:
    """The blocks of these entries."""
    for batch in batches(entries):
        rows = list(map(_around_start, batch))
        starts = list(accumulate([len(entry.data) for entry in batch[:-1]], initial=0))
        head = f'{{"smp_cold":{FORMAT},"entries":{_listed(rows, starts, 0)}}}\n'.encode()
        raw = b"".join([head, *(entry.data for entry in batch)])
        member = encode_member(BLOCK, raw)
        if decode_member(member) != raw:
            raise StorageCorrupt("A block of a cold segment did not read back as it should; nothing was changed.")
        yield Block(member, len(raw), _listed(rows, starts, len(head)))


def _around_start(entry: ColdEntry) -> tuple[str, str]:
    """The row of an entry as JSON, before and behind its start, which is one number in the block and another in the index."""
    digest, size = checksum(entry.data), len(entry.data)
    before = f"[{_quoted(entry.id)},{entry.seq},{_quoted(entry.file)},"
    return before, f',{size},"{digest}",{to_json(entry.about)}]'


def _listed(rows: list[tuple[str, str]], starts: list[int], base: int) -> str:
    parts = [f"{before}{base + start}{behind}" for (before, behind), start in zip(rows, starts, strict=True)]
    return f"[{','.join(parts)}]"


def decode_rows(raw: bytes) -> list[ColdRow] | None:
    """The list at the beginning of a block's content, with starts counted from the beginning of the content."""
    end = raw.find(b"\n") + 1
    fields = parsed(raw[:end]) if end else None
    rows = fields.get("entries") if fields else None
    return checked_rows(rows, end, len(raw)) if isinstance(rows, list) else None


def checked_rows(rows: list[Any], base: int, raw_bytes: int) -> list[ColdRow] | None:
    """Rows of a list that may say anything; None if one of them is none."""
    found = []
    for row in rows:
        if not isinstance(row, list) or [type(value) for value in row] != [str, int, str, int, int, str, dict]:
            return None
        id, seq, file, start, length, digest, about = row
        if not 0 <= start <= start + length <= raw_bytes - base:
            return None
        found.append(ColdRow(id, seq, file, base + start, length, digest, about))
    return found


def encode_index(blocks: Sequence[Block]) -> bytes:
    """The index and the end, for a file that begins with these blocks."""
    listed, offset = [], 0
    for member, raw_bytes, rows in blocks:
        listed.append(f"[{offset},{len(member)},{raw_bytes},{rows}]")
        offset += len(member)
    index = f'{{"smp_cold":{FORMAT},"blocks":[{",".join(listed)}]}}\n'
    return encode_member(INDEX, index.encode()) + encode_member(END, b"", offset)


def decode_index(raw: bytes) -> list[tuple[BlockSpan, list[ColdRow]]] | None:
    fields = parsed(raw)
    listed = fields.get("blocks") if fields else None
    found = []
    for each in listed if isinstance(listed, list) else [None]:
        if not isinstance(each, list) or [type(value) for value in each] != [int, int, int, list]:
            return None
        place = BlockSpan(*each[:3])
        rows = checked_rows(each[3], 0, place.raw_bytes)
        if rows is None or min(place) < 0:
            return None
        found.append((place, rows))
    return found


def salvaged(data: bytes) -> tuple[list[tuple[BlockSpan, list[ColdRow]]], list[str]]:
    """The whole blocks of a file without a whole index, and what is said of the rest. The work is bounded."""
    blocks: list[tuple[BlockSpan, list[ColdRow]]] = []
    unreadable: list[str] = []
    offset, work = 0, _WORK_PER_BYTE * len(data) + LARGEST_RAW
    while offset < len(data):
        header = decode_header(data, offset)
        work -= header.raw_bytes + min(header.length, len(data)) if header else 0
        if work < 0:
            return blocks, [*unreadable, f"the bytes from {offset} on are made to be read for ever"]
        raw = decode_member(data[offset : offset + header.length]) if header else None
        if header is None or raw is None:
            there = data.find(MAGIC, offset + 1)
            there = there if there >= 0 else len(data)
            unreadable.append(f"the bytes from {offset} to {there} cannot be read")
            offset = there
            continue
        rows = decode_rows(raw) if header.kind == BLOCK else None
        if rows is not None:
            blocks.append((BlockSpan(offset, header.length, header.raw_bytes), rows))
        offset += header.length
    return blocks, unreadable


def parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(raw, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and fields.get("smp_cold") == FORMAT else None


def _finite(text: str) -> float:
    """A number that can be written again; `NaN` and `1e999` cannot."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is no number")
    return value
