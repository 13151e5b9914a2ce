"""Cold segment: the memories that compaction moved out of a session, as gzipped JSON lines beside the session's files.

    cold.jsonl.gz      in the layout `single` SESSION.cold.jsonl.gz; `zcat` shows it

    {"id":"TURN-0001","seq":3,"type":"conversation","timestamp":"…","data":{"content":"…"},"uid":"…","schema":1,
     "cold":{"moved":"2026-01-31T14:30:00Z","why":"faded: priority below 0.1"},"checksum":"sha256:…"}

Each line is an entry as JSON lines hold it, with when and why it was moved. The form is the same in every layout, so a
conversion moves the file as it is. The file is a sequence of gzip members of about 128 KiB of text each.

Guarantees: encoding is deterministic. A damaged file still opens: lines outside of the damage are read, inside of it those with a
right checksum; the rest is a `Problem`. Bytes that cannot be read are kept when the file is changed, unless something in
their member is to be destroyed. Decompression is bounded, whatever the file claims.
Non-guarantees: the caller holds the session's lock while it changes a segment, and puts the new bytes in place itself.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError, StorageCorrupt
from smp_memory.files.codec import SIGNED, JsonLines
from smp_memory.files.entry_fields import FieldNames
from smp_memory.model.reports import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from smp_memory.files.disk import Disk
    from smp_memory.model.entry import Entry

_MAGIC = b"\x1f\x8b\x08"
_MEMBER_BYTES = 128 << 10  # of text; damage affects one member, and a change encodes only members that it touches
_LARGEST_MEMBER = 64 << 20
LARGEST_TEXT = 1 << 30  # of all lines
_MOST_LINES = 20_000  # of a member; an honest one has some thousand at most
_STEP = 4 << 10  # bytes decompressed at once
_WORK_PER_BYTE = 50
_LEVEL = 3  # takes half the time of level 6, for output a tenth larger
_ID_START = b'{"id":"'
_CODEC, _NAMES = JsonLines(), FieldNames(time="timestamp", names={}, nest="data", writes_type=True)


class ColdEntry(NamedTuple):
    """An entry with the facts of its move: `moved`, `why`, and `history` for an earlier state of a memory that stayed."""

    entry: Entry
    about: dict[str, Any]


class _Member(NamedTuple):
    """A part of the file: a gzip member, or bytes that cannot be decompressed completely."""

    data: bytes
    lines: list[bytes]
    text: bytes | None = None  # of a damaged one: what could be decompressed

    @property
    def is_intact(self) -> bool:
        return self.text is None


def encode_line(found: ColdEntry) -> bytes:
    return _CODEC.encode({**_NAMES.encode(found.entry, ""), "cold": found.about}).rstrip(b"\n")


def decode_line(line: bytes, path: str = "", number: int = 0, *, only_signed: bool = False) -> ColdEntry | None:
    """The entry of a line; None if it cannot be read."""
    if b"\n" in line:  # what was left undivided of a member with too many lines
        return None
    pieces = _CODEC.decode(line + b"\n", 1)
    if len(pieces) != 1 or pieces[0].fields is None or (only_signed and pieces[0].state != SIGNED):
        return None
    about = pieces[0].fields.pop("cold", None)
    try:
        entry = _NAMES.decode(pieces[0].fields, None, pieces[0].state, path, number, 0)
    except SMPError:
        return None
    if entry.lacks:
        return None
    entry.place, entry.state, entry.tx = (0, len(line)), SIGNED, ""  # it is encoded again when it is restored
    return ColdEntry(entry, about if isinstance(about, dict) else {})


def id_in(line: bytes) -> str | None:
    """The id that a line begins with; None if it begins otherwise."""
    end = line.find(b'"', len(_ID_START)) if line.startswith(_ID_START) else -1
    return line[len(_ID_START) : end].decode("utf-8", "replace") if end >= 0 else None


class ColdSegment:
    """A segment as it was when it was read. A file that does not exist is an empty segment."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self.problems: list[Problem] = []
        self._reported: set[int] = set()  # numbers of lines
        self._members = list(self._split())

    @classmethod
    def read(cls, disk: Disk, path: str) -> ColdSegment:
        try:
            return cls(path, disk.read(path))
        except FileNotFoundError:
            return cls(path, b"")
        except StorageCorrupt as error:  # no plain file, or too large
            segment = cls(path, b"")
            segment._report(error.message)
            return segment

    def entries(self, is_wanted: Callable[[bytes], bool] | None = None) -> Iterator[ColdEntry]:
        """The readable entries, in the order of the file; `is_wanted` tells by its bytes whether a line is decoded.

        Lines that cannot be read are added to `problems`.
        """
        number = 0
        for member in self._members:
            for line in member.lines:
                number += 1
                if is_wanted is not None and not is_wanted(line):
                    continue
                found = decode_line(line, self.path, number, only_signed=not member.is_intact)
                if found is not None:
                    yield found
                elif number not in self._reported:
                    self._reported.add(number)
                    self.problems.append(
                        _problem(self.path, "this line cannot be read as an entry", number, id_in(line))
                    )

    def verify(self) -> list[Problem]:
        """All that cannot be read."""
        for _ in self.entries():
            pass
        return self.problems

    def text(self) -> bytes:
        """All lines."""
        return b"\n".join([line for member in self._members for line in member.lines])

    def undecoded(self) -> list[bytes]:
        """Bytes that are not in `entries`, as they must be found again after a change."""
        damaged = [member.data for member in self._members if not member.is_intact]
        intact = (line for member in self._members if member.is_intact for line in member.lines)
        return damaged + [line for line in intact if decode_line(line) is None]

    def changed(
        self,
        change: Callable[[bytes], bytes | None],
        added: Iterable[ColdEntry] = (),
        *,
        destroys: Callable[[bytes], bool] | None = None,
    ) -> bytes:
        """The bytes of the file with each line changed or removed (None) and entries added; empty if nothing is left.

        A damaged member stays as it is, because a change would lose the rest of it; what is in it and in the session's files as
        well does not count. `destroys` says that lines are removed for good, so that such a member is changed, too, and
        whether the rest of one, by its text, must go.
        """
        parts: list[bytes] = []
        for member in self._members:
            lines: list[bytes | None] = [change(line) for line in member.lines]
            is_changed = lines != member.lines or (
                member.text is not None and destroys is not None and destroys(member.text)
            )
            if not is_changed or not (member.is_intact or destroys is not None):
                parts.append(member.data)
            else:
                parts += _encode([line for line in lines if line is not None])
        parts += _encode([encode_line(each) for each in added])
        return b"".join(parts)

    def _split(self) -> Iterator[_Member]:
        data, start, text, work = self.data, 0, 0, _WORK_PER_BYTE * len(self.data) + _LARGEST_MEMBER
        damaged = -1  # where the damaged bytes before `start` begin
        while start < len(data):
            raw, end = _decompress(data, start, min(work, LARGEST_TEXT - text))
            work -= len(raw) + _STEP
            if end:
                if damaged >= 0:
                    yield self._damaged(damaged, start)
                    damaged = -1
                yield _Member(data[start:end], _lines(raw))
                start, text = end, text + len(raw)
                continue
            damaged = damaged if damaged >= 0 else start
            start = data.find(_MAGIC, start + 1) if work > 0 else -1
            start = start if start >= 0 else len(data)
        if damaged >= 0:
            yield self._damaged(damaged, len(data))

    def _damaged(self, start: int, end: int) -> _Member:
        raw, _ = _decompress(self.data, start, LARGEST_TEXT)
        lines = [line for line in _lines(raw) if decode_line(line, only_signed=True) is not None]
        self._report(f"the bytes from {start} to {end} are damaged; {len(lines)} entries in them can be read")
        return _Member(self.data[start:end], lines, raw)

    def _report(self, text: str) -> None:
        self.problems.append(_problem(self.path, text))


def _problem(path: str, text: str, line: int = 0, id: str | None = None) -> Problem:
    return Problem(path, line, "cold_damaged", f"{text}.", "error", id)


def _decompress(data: bytes, start: int, limit: int) -> tuple[bytes, int]:
    """The text of the member that starts here, as far as it can be read, and where the member ends; 0 if it is damaged."""
    engine, parts, size, position = zlib.decompressobj(31), [], 0, start
    limit = min(limit, _LARGEST_MEMBER)
    try:
        while not engine.eof and position < len(data) and size <= limit:
            parts.append(engine.decompress(data[position : position + _STEP]))
            position += _STEP
            size += len(parts[-1])
    except zlib.error:
        return b"".join([*parts, _before_damage(data, start, position)]), 0
    whole = engine.eof and size <= limit
    return b"".join(parts), min(position, len(data)) - len(engine.unused_data) if whole else 0


def _before_damage(data: bytes, start: int, position: int) -> bytes:
    """The text of the step at this position that comes before the damage: the failed call has thrown it away."""
    engine, parts = zlib.decompressobj(31), []
    engine.decompress(data[start:position])
    try:
        for place in range(position, min(position + _STEP, len(data))):
            parts.append(engine.decompress(data[place : place + 1]))
    except zlib.error:
        pass
    return b"".join(parts)


def _lines(raw: bytes) -> list[bytes]:
    return [line for line in raw.split(b"\n", _MOST_LINES) if line]


def _encode(lines: Sequence[bytes]) -> Iterator[bytes]:
    """The members of these lines. Raises StorageCorrupt if one does not read back."""
    batch: list[bytes] = []
    size = 0
    for number, line in enumerate(lines):
        batch.append(line)
        size += len(line)
        if size >= _MEMBER_BYTES or number + 1 == len(lines):
            text = b"\n".join([*batch, b""])
            engine = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
            member = engine.compress(text) + engine.flush()
            if _decompress(member, 0, _LARGEST_MEMBER) != (text, len(member)):
                raise StorageCorrupt("A cold segment did not read back as it was written; nothing was changed.")
            yield member
            batch, size = [], 0


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """The segments of two clones in one: what one side removed is removed, what either added stays. None: one is damaged."""
    sides = [_lines_of(data) for data in (base, ours, theirs)]
    if any(side is None for side in sides):
        return None
    before, one, other = (dict.fromkeys(side or ()) for side in sides)
    kept = [line for line in one if line in other or line not in before]
    kept += [line for line in other if line not in one and line not in before]
    return b"".join(_encode(sorted(kept, key=_order)))


def _order(line: bytes) -> tuple[int, bytes]:
    found = decode_line(line)
    return found.entry.seq if found is not None else 0, line


def _lines_of(data: bytes) -> list[bytes] | None:
    lines: list[bytes] = []
    start = 0
    while start < len(data):
        raw, end = _decompress(data, start, LARGEST_TEXT)
        if not end:
            return None
        lines += _lines(raw)
        start = end
    return lines
