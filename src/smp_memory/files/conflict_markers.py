"""Read files with the conflict markers of an unfinished git merge, in all formats: each side as it was, and both as one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from smp_memory.files.codec import CONFLICT, DAMAGED, EDITED, TORN, Piece

BOM = b"\xef\xbb\xbf"
MARKER = re.compile(rb"^(?:([<|>])\1{6}(?: [^\n]*)?|(=)={6}[ ]*)\r?(?:\n|\Z)", re.MULTILINE)

Read = Callable[[bytes, bool], list[Piece]]


class _Side:
    """A file as one side of a merge has it: chunks of the real file, and where each of them stands there."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._starts: list[int] = []  # in this side's text
        self._origins: list[int] = []  # in the file
        self._length = 0

    def add(self, text: bytes, start: int, end: int) -> None:
        self._chunks.append(text[start:end])
        self._starts.append(self._length)
        self._origins.append(start)
        self._length += end - start

    def read(self, read: Read, at_file_start: bool, other: _Side | None) -> tuple[list[Piece], list[tuple[int, int]]]:
        """The side's pieces, and the stretches of the file that belong to an entry of which they are not the span."""
        pieces: list[Piece] = []
        rests: list[tuple[int, int]] = []
        for piece in read(b"".join(self._chunks), at_file_start):
            spans = self._spans(piece.start, piece.end)
            if piece.fields is None and len(spans) > 1:
                pieces += [Piece(*span, 0, DAMAGED, None, "cut apart by a merge conflict") for span in spans]
                continue
            own = spans[0] if other is None else next((span for span in spans if not other.has(span[0])), spans[0])
            piece.start, piece.end = own
            if len(spans) > 1 and piece.fields is not None:
                rests += [span for span in spans if span != own]
                piece.state, piece.message = EDITED, "put together from the parts of a merge conflict"
            pieces.append(piece)
        return pieces, rests

    def has(self, at: int) -> bool:
        """Whether the byte that stands there in the file is on this side."""
        chunk = bisect_right(self._origins, at) - 1
        return chunk >= 0 and at < self._origins[chunk] + len(self._chunks[chunk])

    def _spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """The stretches of the file that make up a stretch of this side."""
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1) - 1
        spans = []
        for n in range(first, last + 1):
            from_, to = max(start - self._starts[n], 0), min(end - self._starts[n], len(self._chunks[n]))
            spans.append((self._origins[n] + from_, self._origins[n] + to))
        return spans


def read_both_sides(data: bytes, offset: int, line: int, read: Read, lone_divider: bool) -> list[Piece]:
    """All pieces of `data`, which `read` finds in bytes without BOM, zero tail and conflict markers.

    Git moves lines that both sides share out of a conflict, so one entry may start before the marker and end on both
    sides of it. Therefore the file is read as each side had it, and what both have in common is returned once: an
    entry that is whole on its side is found whole, as EDITED, because its bytes do not stand together. Its span is one
    of its stretches; the marker pieces before the others include them. So pieces never overlap, and a file without its
    CONFLICT pieces and with its EDITED ones encoded anew is a good one. Entries of the two sides may share an id.
    A line of seven `=` is a marker inside a conflict only, unless `lone_divider`: in Markdown it underlines a heading.
    """
    text = data.rstrip(b"\0")
    begin = len(BOM) if offset == 0 and text.startswith(BOM) else 0
    if _may_have_markers(text, lone_divider):
        pieces = _merged(text, begin, read, offset == 0, lone_divider)
    else:
        pieces = read(text[begin:] if begin else text, offset == 0)
        for piece in pieces if begin else ():
            piece.start, piece.end = piece.start + begin, piece.end + begin
    if len(text) < len(data):
        start = pieces.pop().start if pieces and pieces[-1].state == TORN else len(text)
        pieces.append(Piece(start, len(data), 0, TORN, None, "the write was cut off and left zero bytes"))
    _place(pieces, data, offset, line)
    return pieces


def _may_have_markers(text: bytes, lone_divider: bool) -> bool:
    kinds = (b"<<<<<<<", b">>>>>>>", b"|||||||", b"=======") if lone_divider else (b"<<<<<<<", b">>>>>>>", b"|||||||")
    return any(b"\n" + kind in text or text.startswith((kind, BOM + kind)) for kind in kinds)


def _merged(text: bytes, begin: int, read: Read, at_file_start: bool, lone_divider: bool) -> list[Piece]:
    ours, theirs, conflicts = _sides(text, begin, lone_divider)
    pieces, rests = ours.read(read, at_file_start, None)
    known = {(piece.start, piece.end): piece for piece in pieces}
    more, more_rests = theirs.read(read, at_file_start, ours)
    for piece in more:
        twin = known.get((piece.start, piece.end))
        if twin is None or twin.state != piece.state or twin.fields != piece.fields:
            pieces.append(piece)
    taken = {piece.start for piece in pieces}
    before = {marker.end: marker for marker in conflicts}
    for start, end in rests + more_rests:
        if start not in taken and start in before:
            before[start].end = max(before[start].end, end)
    for piece in pieces:
        if piece.state == TORN and piece.end < len(text):  # only what ends with the file can be torn
            piece.state, piece.message = DAMAGED, "cut off by a merge conflict"
    torn = [piece for piece in pieces if piece.state == TORN][:1]
    settled = [piece for piece in pieces if piece.state != TORN] + conflicts
    return sorted(settled, key=lambda piece: (piece.start, piece.end)) + torn


def _sides(text: bytes, begin: int, lone_divider: bool) -> tuple[_Side, _Side, list[Piece]]:
    ours, theirs = _Side(), _Side()
    conflicts: list[Piece] = []
    readers: tuple[_Side, ...] = (ours, theirs)  # who has the lines that come next
    at = begin
    for marker in MARKER.finditer(text, begin):
        kind = marker[1] or marker[2]
        if kind == b"=" and len(readers) == 2 and not lone_divider:
            continue
        for side in readers:
            side.add(text, at, marker.start())
        at = marker.end()
        conflicts.append(Piece(marker.start(), at, 0, CONFLICT, None, "conflict marker of an unfinished merge"))
        if kind == b"<":
            readers = (ours,)
        elif kind == b">":
            readers = (ours, theirs)
        elif len(readers) < 2:  # the base (|) is on no side
            readers = (theirs,) if kind == b"=" else ()
    for side in readers:
        side.add(text, at, len(text))
    return ours, theirs, conflicts


def _place(pieces: list[Piece], data: bytes, offset: int, line: int) -> None:
    """Gives pieces their line, and their offsets in the file instead of in the data."""
    counted = 0
    for piece in pieces:
        if piece.start >= counted:
            line += data.count(b"\n", counted, piece.start)
        else:
            line -= data.count(b"\n", piece.start, counted)
        counted = piece.start
        piece.line = line
        piece.start += offset
        piece.end += offset
