"""Cold segment: a compressed file with checksums and an index, for compacted memories of a session.

Entries are stored byte for byte as they were in the session's files, in blocks (`cold_format`) with an index at the end.

Guarantees
- `rewrite` changes the file as a whole (new file, sync, rename): at every moment it is the old or the new one. `encode_extended` and
  `encode_reduced` return the new bytes for a caller that puts them in place together with other files.
- Entries are unique by id and number: adding one that exists already changes nothing, so that an interrupted step can be repeated, and
  one with other bytes replaces it. Removing removes all copies that older files may hold.
- Reading one entry reads the index and one block, and compares its checksum. Lists need the index alone.
- A torn or damaged file still opens: what is complete can be read, what is not is a `Problem`. Before such a file is rewritten, it is
  copied to `….damaged-1`.
- Readers take no lock. If the file is rewritten while one reads, it gets its entries or a `Conflict`, never fewer entries.
Non-guarantees: the caller holds the session's lock while it changes a segment. The file is held in memory meanwhile.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import Conflict, SMPError, StorageCorrupt
from smp_memory.files.codec import SIGNED, to_json
from smp_memory.files.cold_format import (
    END,
    END_BYTES,
    INDEX,
    Block,
    BlockSpan,
    ColdEntry,
    ColdRow,
    checksum,
    decode_header,
    decode_index,
    decode_member,
    encode_blocks,
    encode_index,
    salvage,
)
from smp_memory.files.disk import identity
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.model.reports import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from smp_memory.files.disk import Disk
    from smp_memory.model.entry import Entry

    Blocks = list[tuple[BlockSpan, list[ColdRow]]]
    Key = tuple[str, int, str, int]

FILE = "cold.gz"  # beside the session's files
_DAMAGED = ".damaged-"


class ColdMatch(NamedTuple):
    """An entry of a segment and its bytes."""

    row: ColdRow
    data: bytes


class ColdSegment:
    """A segment as it was when it was opened. A file that does not exist is an empty segment."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.problems: list[Problem] = []
        self.blocks = self._load()
        while self._was_rewritten():
            self.problems = []
            self.blocks = self._load()
        self._spans = {row: span for span, rows in self.blocks for row in map(key_of, rows)}

    def rows(self) -> list[ColdRow]:
        """The entries in the order in which they were added."""
        return [row for _, rows in self.blocks for row in rows]

    def read(self, row: ColdRow) -> bytes:
        """The bytes of one entry; `StorageCorrupt` if it is damaged."""
        data = _extract(self._raw(self._spans[key_of(row)]), row)
        if data is None:
            self._raise_if_rewritten()
            raise StorageCorrupt(f"{row.id} in {self.path} is damaged; the other entries are not.", path=self.path)
        return data

    def entries(self) -> Iterator[ColdMatch]:
        """All readable entries; each block is decompressed once."""
        for listed in self.blocks:
            yield from self.entries_in(listed)

    def entries_in(self, listed: tuple[BlockSpan, list[ColdRow]]) -> Iterator[ColdMatch]:
        """The readable entries of one block."""
        raw = self._raw(listed[0])
        for row in listed[1]:
            data = _extract(raw, row)
            if data is not None:
                yield ColdMatch(row, data)
            else:
                self._raise_if_rewritten()

    def block(self, listed: tuple[BlockSpan, list[ColdRow]]) -> Block:
        """One block as encoded in the file, damaged or not."""
        span, rows = listed
        return Block(self._disk.read(self.path, span.offset, span.length), span.raw_bytes, to_json(rows))

    def verify(self) -> list[Problem]:
        """All defects of the file; every block is read and every checksum compared."""
        problems = list(self.problems)
        readable = {key_of(match.row) for match in self.entries()}
        for row in self.rows():
            if key_of(row) not in readable:
                problems.append(Problem(self.path, 0, "cold_damaged", f"{row.id} cannot be read.", "error", row.id))
        return problems

    def _raw(self, span: BlockSpan) -> bytes | None:
        try:
            return decode_member(self._disk.read(self.path, span.offset, span.length))
        except FileNotFoundError:  # its last entries were removed
            return None

    def _was_rewritten(self) -> bool:
        status = self._disk.stat(self.path)
        return (status and identity(status)) != self._identity

    def _raise_if_rewritten(self) -> None:
        if self._was_rewritten():
            raise Conflict(f"{self.path} was rewritten meanwhile. Open it again.", path=self.path)

    def _load(self) -> Blocks:
        status = self._disk.stat(self.path)
        self._identity = status and identity(status)
        if status is None:
            return []
        try:
            indexed = self._read_index(status.st_size)
            return indexed if indexed is not None else self._scan_blocks()
        except FileNotFoundError:
            return []

    def _read_index(self, size: int) -> Blocks | None:
        """The blocks by the index; None if there is no valid one."""
        end = decode_header(self._disk.read(self.path, size - END_BYTES, END_BYTES)) if size >= END_BYTES else None
        if end is None or end.kind != END or not 0 <= end.index_offset < size:
            return None
        member = self._disk.read(self.path, end.index_offset, size - END_BYTES - end.index_offset)
        header = decode_header(member)
        raw = decode_member(member) if header is not None and header.kind == INDEX else None
        return decode_index(raw) if raw is not None else None

    def _scan_blocks(self) -> Blocks:
        blocks, unreadable = salvage(self._disk.read(self.path))
        count = sum(len(rows) for _, rows in blocks)
        for message in (*unreadable, f"the index is missing or damaged; {count} entries were found without it"):
            self.problems.append(Problem(self.path, 0, "cold_damaged", f"{message}.", "error"))
        return blocks


# -- changing


def encode_extended(
    segment: ColdSegment, entries: Iterable[ColdEntry], is_removed: Callable[[ColdRow], bool] = lambda row: False
) -> bytes | None:
    """The bytes of the file with these entries and without the removed ones, for a caller that puts them in place itself.

    Entries are unique by id and number: an entry replaces older copies of itself. None if nothing changes.
    """
    existing = {(row.id, row.seq): row for row in segment.rows() if not is_removed(row)}
    new = []
    for entry in entries:
        row = existing.get((entry.id, entry.seq))
        if row is None or row.checksum != checksum(entry.data):  # most are new, and a checksum takes time
            new.append(entry)
    replaced = {(entry.id, entry.seq) for entry in new}
    gone, _, kept = _rewrite_blocks(
        segment, lambda row: (row.id, row.seq) in replaced or is_removed(row), lambda match: None
    )
    return _join_blocks([*kept, *encode_blocks(new)]) if new or gone else None


def copy_if_lossy(segment: ColdSegment, is_touched: Callable[[ColdRow], bool]) -> dict[str, bytes]:
    """A copy of the file to keep, by its name, if a rewrite of these entries would lose others that cannot be read."""
    if not segment.problems and not any(_loses_entries(segment, listed, is_touched) for listed in segment.blocks):
        return {}
    path = _free_copy_name(segment._disk, segment.path)
    return {os.path.basename(path): segment._disk.read(segment.path)}


def _loses_entries(
    segment: ColdSegment, listed: tuple[BlockSpan, list[ColdRow]], is_touched: Callable[[ColdRow], bool]
) -> bool:
    if not any(map(is_touched, listed[1])):
        return False
    readable = {key_of(match.row) for match in segment.entries_in(listed)}
    return not all(is_touched(row) or key_of(row) in readable for row in listed[1])


def rewrite(
    disk: Disk, path: str, is_touched: Callable[[ColdRow], bool], change: Callable[[ColdMatch], bytes | None]
) -> int:
    """Replace the bytes of entries, or remove them (None). Returns how many were touched.

    Only the blocks that hold them are encoded anew. A touched entry that cannot be read is removed. If such a block holds other
    entries that cannot be read, a copy of the old file is kept, which an erasure must remove.
    """
    segment = ColdSegment(disk, path)
    touched, is_lossy, kept = _rewrite_blocks(segment, is_touched, change)
    if touched:
        _replace_file(disk, segment, _join_blocks(kept) if kept else None, keep_copy=is_lossy)
    return touched


def encode_reduced(segment: ColdSegment, is_removed: Callable[[ColdRow], bool]) -> tuple[int, bytes | None]:
    """How many entries are removed, and the bytes of the file without them (None: nothing is left), for a caller that puts them
    in place itself. Unreadable entries of the blocks that hold them are removed, too.
    """
    gone, _, kept = _rewrite_blocks(segment, is_removed, lambda match: None)
    return gone, _join_blocks(kept) if kept else None


def _rewrite_blocks(
    segment: ColdSegment, is_touched: Callable[[ColdRow], bool], change: Callable[[ColdMatch], bytes | None]
) -> tuple[int, bool, list[Block]]:
    """How many entries are touched, whether others are lost with them, and the resulting blocks."""
    touched, is_lossy, kept = 0, False, []
    for listed in segment.blocks:
        chosen = {key_of(row) for row in listed[1] if is_touched(row)}
        touched += len(chosen)
        if not chosen:
            kept.append(segment.block(listed))
            continue
        readable = list(segment.entries_in(listed))
        is_lossy = is_lossy or not chosen.union(key_of(match.row) for match in readable).issuperset(
            map(key_of, listed[1])
        )
        kept += encode_blocks([entry for match in readable for entry in _change_entry(match, chosen, change)])
    return touched, is_lossy, kept


def _change_entry(
    match: ColdMatch, chosen: set[Key], change: Callable[[ColdMatch], bytes | None]
) -> Iterator[ColdEntry]:
    row = match.row
    data = change(match) if key_of(row) in chosen else match.data
    if data is not None:
        yield ColdEntry(row.id, row.seq, row.file, data, row.about)


def _replace_file(disk: Disk, segment: ColdSegment, data: bytes | None, *, keep_copy: bool) -> None:
    if segment.problems or keep_copy:
        disk.write_new(_free_copy_name(disk, segment.path), disk.read(segment.path))
    if data is not None:
        disk.replace(segment.path, data)
    else:
        disk.remove(segment.path)
        disk.sync_folder(os.path.dirname(segment.path))


def _free_copy_name(disk: Disk, path: str) -> str:
    number = 1
    while disk.exists(f"{path}{_DAMAGED}{number}"):
        number += 1
    return f"{path}{_DAMAGED}{number}"


def _join_blocks(blocks: list[Block]) -> bytes:
    return b"".join([*(block.member for block in blocks), encode_index(blocks)])


def key_of(row: ColdRow) -> Key:
    """The identity of one copy of an entry."""
    return row.id, row.seq, row.checksum, row.start


def _extract(raw: bytes | None, row: ColdRow) -> bytes | None:
    """The bytes of an entry in its block's content; None if its checksum differs."""
    if raw is None:
        return None
    data = raw[row.start : row.start + row.length]
    return data if checksum(data) == row.checksum else None


def decode_cold_entry(found: ColdMatch, layout_name: str) -> Entry | None:
    """The entry of a row; None if it cannot be decoded."""
    row = found.row
    name = row.about.get("layout", layout_name)
    layout = layout_named(name if name in NAMES else layout_name)
    try:
        pieces = layout.codec_of(row.file).decode(found.data, 0, 1)
        piece = next((piece for piece in pieces if piece.fields is not None), None)
        if piece is None or piece.fields is None:
            return None
        entry = layout.field_names.decode(piece.fields, layout.kind_of(row.file), piece.state, row.file, 0, row.seq)
    except SMPError:
        return None
    entry.seq, entry.tx, entry.state = row.seq, "", SIGNED  # it is encoded again when it is restored
    entry.id = row.id
    return entry
