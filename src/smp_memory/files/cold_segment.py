"""Where are memories that are out of the way but not gone? In a cold segment: a compressed, checksummed, listed file.

Entries lie in it byte for byte as they stood in the session's files, in blocks (`cold_block`) with an index at the end.

Guarantees
- `append`, `without` and `rewrite` change the file as a whole (new file, sync, rename): at every moment it is the old or the new one.
  Entries are unique by id and number: appending one that is there already changes nothing, so that a step that was
  interrupted can be repeated, and one with other bytes replaces it. Taking out takes all copies that older files may hold.
- Reading one entry reads the index and one block, and compares its checksum. Lists need the index alone.
- A torn or damaged file still opens: what is whole can be read, what is not is a `Problem`. Before such a file is
  rewritten, a copy is set aside as `….damaged-1`.
- Readers take no lock. If the file is rewritten while one reads, it gets its entries or a `Conflict`, never fewer entries.
Non-guarantees: the caller holds the session's lock while it changes a segment. The file is held in memory meanwhile.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import Conflict, StorageCorrupt
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
    encode_index,
    encoded,
    salvaged,
)
from smp_memory.files.disk import identity
from smp_memory.files.json_lines import to_json
from smp_memory.model.reports import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from smp_memory.files.disk import Disk

    Listed = list[tuple[BlockSpan, list[ColdRow]]]
    Key = tuple[str, int, str, int]

FILE = "cold.gz"  # beside the session's files
_DAMAGED = ".damaged-"


class ColdMatch(NamedTuple):
    """An entry of a segment and its bytes."""

    row: ColdRow
    data: bytes


class ColdSegment:
    """A segment as it was when it was opened. A file that is not there is an empty segment."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.problems: list[Problem] = []
        self.blocks = self._load()
        while self._was_rewritten():
            self.problems = []
            self.blocks = self._load()
        self._places = {row: place for place, rows in self.blocks for row in map(key_of, rows)}

    def rows(self) -> list[ColdRow]:
        """What is in it, in the order in which it came."""
        return [row for _, rows in self.blocks for row in rows]

    def rows_of(self, id: str) -> list[ColdRow]:
        return [row for row in self.rows() if row.id == id]

    def read(self, row: ColdRow) -> bytes:
        """One entry; `StorageCorrupt` if it is damaged."""
        data = _cut(self._raw(self._places[key_of(row)]), row)
        if data is None:
            self._refuse_if_rewritten()
            raise StorageCorrupt(f"{row.id} in {self.path} is damaged; the other entries are not.", path=self.path)
        return data

    def entries(self) -> Iterator[ColdMatch]:
        """All that can be read; each block is decompressed once."""
        for listed in self.blocks:
            yield from self.found_in(listed)

    def found_in(self, listed: tuple[BlockSpan, list[ColdRow]]) -> Iterator[ColdMatch]:
        """What can be read of one block."""
        raw = self._raw(listed[0])
        for row in listed[1]:
            data = _cut(raw, row)
            if data is not None:
                yield ColdMatch(row, data)
            else:
                self._refuse_if_rewritten()

    def block(self, listed: tuple[BlockSpan, list[ColdRow]]) -> Block:
        """One block as it stands, damaged or not."""
        place, rows = listed
        return Block(self._disk.read(self.path, place.offset, place.length), place.raw_bytes, to_json(rows))

    def verify(self) -> list[Problem]:
        """Everything that is wrong with the file; every block is read and every checksum compared."""
        found = list(self.problems)
        readable = {key_of(each.row) for each in self.entries()}
        for row in self.rows():
            if key_of(row) not in readable:
                found.append(Problem(self.path, 0, "cold_damaged", f"{row.id} cannot be read.", "error", row.id))
        return found

    def _raw(self, place: BlockSpan) -> bytes | None:
        try:
            return decode_member(self._disk.read(self.path, place.offset, place.length))
        except FileNotFoundError:  # its last entries were taken out
            return None

    def _was_rewritten(self) -> bool:
        found = self._disk.stat(self.path)
        return (found and identity(found)) != self._identity

    def _refuse_if_rewritten(self) -> None:
        if self._was_rewritten():
            raise Conflict(f"{self.path} was rewritten meanwhile. Open it again.", path=self.path)

    def _load(self) -> Listed:
        found = self._disk.stat(self.path)
        self._identity = found and identity(found)
        if found is None:
            return []
        try:
            indexed = self._indexed(found.st_size)
            return indexed if indexed is not None else self._scanned()
        except FileNotFoundError:
            return []

    def _indexed(self, size: int) -> Listed | None:
        """What the index says; None if there is no whole one."""
        end = decode_header(self._disk.read(self.path, size - END_BYTES, END_BYTES)) if size >= END_BYTES else None
        if end is None or end.kind != END or not 0 <= end.index_offset < size:
            return None
        member = self._disk.read(self.path, end.index_offset, size - END_BYTES - end.index_offset)
        header = decode_header(member)
        raw = decode_member(member) if header is not None and header.kind == INDEX else None
        return decode_index(raw) if raw is not None else None

    def _scanned(self) -> Listed:
        blocks, unreadable = salvaged(self._disk.read(self.path))
        count = sum(len(rows) for _, rows in blocks)
        for what in (*unreadable, f"the index is missing or damaged; {count} entries were found without it"):
            self.problems.append(Problem(self.path, 0, "cold_damaged", f"{what}.", "error"))
        return blocks


# -- changing


def append(disk: Disk, path: str, entries: Iterable[ColdEntry]) -> ColdSegment:
    """Add entries, durably and as a whole."""
    segment = ColdSegment(disk, path)
    data = extended(segment, entries)
    if data is not None:
        _put(disk, segment, data)
    return ColdSegment(disk, path)


def extended(
    segment: ColdSegment, entries: Iterable[ColdEntry], goes: Callable[[ColdRow], bool] = lambda row: False
) -> bytes | None:
    """The bytes of the file with these entries and without those that go, for a caller that puts them in place itself.

    Entries are unique by id and number: an entry replaces older copies of itself. None if nothing changes.
    """
    there = {(row.id, row.seq): row for row in segment.rows() if not goes(row)}
    new = []
    for entry in entries:
        row = there.get((entry.id, entry.seq))
        if row is None or row.checksum != checksum(entry.data):  # most are new, and a checksum takes time
            new.append(entry)
    replaced = {(entry.id, entry.seq) for entry in new}
    gone, _, kept = _remade(segment, lambda row: (row.id, row.seq) in replaced or goes(row), lambda found: None)
    return _assembled([*kept, *encoded(new)]) if new or gone else None


def set_aside(segment: ColdSegment, touches: Callable[[ColdRow], bool]) -> dict[str, bytes]:
    """The copy of the file to keep, by its name, if a rewrite of these entries would lose others that cannot be read."""
    if not segment.problems and not any(_loses(segment, listed, touches) for listed in segment.blocks):
        return {}
    path = _free_name(segment._disk, segment.path)
    return {os.path.basename(path): segment._disk.read(segment.path)}


def _loses(segment: ColdSegment, listed: tuple[BlockSpan, list[ColdRow]], touches: Callable[[ColdRow], bool]) -> bool:
    if not any(map(touches, listed[1])):
        return False
    readable = {key_of(found.row) for found in segment.found_in(listed)}
    return not all(touches(row) or key_of(row) in readable for row in listed[1])


def without(disk: Disk, path: str, goes: Callable[[ColdRow], bool]) -> int:
    """Take entries out, their bytes too: after a restore, or to erase them. How many went."""
    return rewrite(disk, path, goes, lambda found: None)


def rewrite(
    disk: Disk, path: str, touches: Callable[[ColdRow], bool], change: Callable[[ColdMatch], bytes | None]
) -> int:
    """Give entries other bytes, or take them out (None). How many were touched.

    Only the blocks that hold them are made anew. A touched entry that cannot be read goes. If such a block holds other
    entries that cannot be read, a copy of the old file is set aside, which whoever erases must take away.
    """
    segment = ColdSegment(disk, path)
    touched, lost, kept = _remade(segment, touches, change)
    if touched:
        _put(disk, segment, _assembled(kept) if kept else None, set_aside=lost)
    return touched


def reduced(segment: ColdSegment, goes: Callable[[ColdRow], bool]) -> tuple[int, bytes | None]:
    """How many entries go, and the bytes of the file without them (None: nothing is left), for a caller that puts them
    in place itself. What cannot be read of the blocks that hold them goes, too.
    """
    gone, _, kept = _remade(segment, goes, lambda found: None)
    return gone, _assembled(kept) if kept else None


def _remade(
    segment: ColdSegment, touches: Callable[[ColdRow], bool], change: Callable[[ColdMatch], bytes | None]
) -> tuple[int, bool, list[Block]]:
    """How many entries are touched, whether others are lost with them, and the blocks that come out."""
    touched, lost, kept = 0, False, []
    for listed in segment.blocks:
        chosen = {key_of(row) for row in listed[1] if touches(row)}
        touched += len(chosen)
        if not chosen:
            kept.append(segment.block(listed))
            continue
        readable = list(segment.found_in(listed))
        lost = lost or not chosen.union(key_of(found.row) for found in readable).issuperset(map(key_of, listed[1]))
        kept += encoded([entry for found in readable for entry in _changed(found, chosen, change)])
    return touched, lost, kept


def _changed(found: ColdMatch, chosen: set[Key], change: Callable[[ColdMatch], bytes | None]) -> Iterator[ColdEntry]:
    row = found.row
    data = change(found) if key_of(row) in chosen else found.data
    if data is not None:
        yield ColdEntry(row.id, row.seq, row.file, data, row.about)


def _put(disk: Disk, segment: ColdSegment, data: bytes | None, set_aside: bool = False) -> None:
    if segment.problems or set_aside:
        disk.write_new(_free_name(disk, segment.path), disk.read(segment.path))
    if data is not None:
        disk.replace(segment.path, data)
    else:
        disk.remove(segment.path)
        disk.sync_folder(os.path.dirname(segment.path))


def _free_name(disk: Disk, path: str) -> str:
    number = 1
    while disk.exists(f"{path}{_DAMAGED}{number}"):
        number += 1
    return f"{path}{_DAMAGED}{number}"


def _assembled(blocks: list[Block]) -> bytes:
    return b"".join([*(block.member for block in blocks), encode_index(blocks)])


def key_of(row: ColdRow) -> Key:
    """What tells one copy of an entry from another."""
    return row.id, row.seq, row.checksum, row.start


def _cut(raw: bytes | None, row: ColdRow) -> bytes | None:
    """An entry out of its block's content; None if it is not what was put there."""
    if raw is None:
        return None
    data = raw[row.start : row.start + row.length]
    return data if checksum(data) == row.checksum else None
