"""Decode files with the conflict markers of an unfinished git merge, in all formats: each side as it was, and both as one."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from smp_memory.files.codec import CONFLICT, DAMAGED, EDITED, TORN, Piece

BOM = b"\xef\xbb\xbf"
MARKER = re.compile(rb"^(?:([<|>])\1{6}(?: [^\n]*)?|(=)={6}[ ]*)\r?(?:\n|\Z)", re.MULTILINE)

Decode = Callable[[bytes, bool], list[Piece]]


class _Side:
    """A file as one side of a merge has it: chunks of the real file with their offsets in it."""

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

    def decode(
        self, decode: Decode, at_file_start: bool, other: _Side | None
    ) -> tuple[list[Piece], list[tuple[int, int]]]:
        """The pieces of this side, and the ranges of the file that belong to an entry but are not its span."""
        pieces: list[Piece] = []
        other_spans: list[tuple[int, int]] = []
        for piece in decode(b"".join(self._chunks), at_file_start):
            spans = self._spans(piece.start, piece.end)
            if piece.fields is None and len(spans) > 1:
                pieces += [Piece(*span, 0, DAMAGED, None, "cut apart by a merge conflict") for span in spans]
                continue
            main = (
                spans[0] if other is None else next((span for span in spans if not other.contains(span[0])), spans[0])
            )
            piece.start, piece.end = main
            if len(spans) > 1 and piece.fields is not None:
                other_spans += [span for span in spans if span != main]
                piece.state, piece.message = EDITED, "joined from the parts of a merge conflict"
            pieces.append(piece)
        return pieces, other_spans

    def contains(self, at: int) -> bool:
        """Whether the byte at this offset of the file is on this side."""
        chunk = bisect_right(self._origins, at) - 1
        return chunk >= 0 and at < self._origins[chunk] + len(self._chunks[chunk])

    def _spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """The ranges of the file that make up a range of this side."""
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, end - 1) - 1
        spans = []
        for n in range(first, last + 1):
            from_, to = max(start - self._starts[n], 0), min(end - self._starts[n], len(self._chunks[n]))
            spans.append((self._origins[n] + from_, self._origins[n] + to))
        return spans


def decode_both_sides(data: bytes, offset: int, line: int, decode: Decode, lone_divider: bool) -> list[Piece]:
    """All pieces of `data`; `decode` gets bytes without BOM, zero tail and conflict markers.

    Git moves lines that both sides share out of a conflict, so one entry may start before the marker and end on both
    sides of it. Therefore the file is decoded as each side had it, and what both have in common is returned once: an
    entry that is complete on its side is decoded completely, as EDITED, because its bytes are not contiguous. Its span is one
    of its ranges; the marker pieces before the others include them. So pieces never overlap, and a file without its
    CONFLICT pieces and with its EDITED ones encoded anew is a valid one. Entries of the two sides may share an id.
    A line of seven `=` is a marker inside a conflict only, unless `lone_divider`: in Markdown it underlines a heading.
    """
    text = data.rstrip(b"\0")
    begin = len(BOM) if offset == 0 and text.startswith(BOM) else 0
    if _may_have_markers(text, lone_divider):
        pieces = _decode_sides(text, begin, decode, offset == 0, lone_divider)
    else:
        pieces = decode(text[begin:] if begin else text, offset == 0)
        for piece in pieces if begin else ():
            piece.start, piece.end = piece.start + begin, piece.end + begin
    if len(text) < len(data):
        start = pieces.pop().start if pieces and pieces[-1].state == TORN else len(text)
        pieces.append(Piece(start, len(data), 0, TORN, None, "the write was cut off and left zero bytes"))
    _set_positions(pieces, data, offset, line)
    return pieces


def _may_have_markers(text: bytes, lone_divider: bool) -> bool:
    kinds = (b"<<<<<<<", b">>>>>>>", b"|||||||", b"=======") if lone_divider else (b"<<<<<<<", b">>>>>>>", b"|||||||")
    return any(b"\n" + kind in text or text.startswith((kind, BOM + kind)) for kind in kinds)


def _decode_sides(text: bytes, begin: int, decode: Decode, at_file_start: bool, lone_divider: bool) -> list[Piece]:
    ours, theirs, conflicts = _sides(text, begin, lone_divider)
    pieces, other_spans = ours.decode(decode, at_file_start, None)
    by_span = {(piece.start, piece.end): piece for piece in pieces}
    more, more_spans = theirs.decode(decode, at_file_start, ours)
    for piece in more:
        twin = by_span.get((piece.start, piece.end))
        if twin is None or twin.state != piece.state or twin.fields != piece.fields:
            pieces.append(piece)
    starts = {piece.start for piece in pieces}
    before = {marker.end: marker for marker in conflicts}
    for start, end in other_spans + more_spans:
        if start not in starts and start in before:
            before[start].end = max(before[start].end, end)
    for piece in pieces:
        if piece.state == TORN and piece.end < len(text):  # only a piece at the end of the file can be torn
            piece.state, piece.message = DAMAGED, "cut off by a merge conflict"
    torn = [piece for piece in pieces if piece.state == TORN][:1]
    settled = [piece for piece in pieces if piece.state != TORN] + conflicts
    return sorted(settled, key=lambda piece: (piece.start, piece.end)) + torn


def _sides(text: bytes, begin: int, lone_divider: bool) -> tuple[_Side, _Side, list[Piece]]:
    ours, theirs = _Side(), _Side()
    conflicts: list[Piece] = []
    sides: tuple[_Side, ...] = (ours, theirs)  # that contain the next lines
    at = begin
    for marker in MARKER.finditer(text, begin):
        kind = marker[1] or marker[2]
        if kind == b"=" and len(sides) == 2 and not lone_divider:
            continue
        for side in sides:
            side.add(text, at, marker.start())
        at = marker.end()
        conflicts.append(Piece(marker.start(), at, 0, CONFLICT, None, "conflict marker of an unfinished merge"))
        if kind == b"<":
            sides = (ours,)
        elif kind == b">":
            sides = (ours, theirs)
        elif len(sides) < 2:  # the base (|) is on no side
            sides = (theirs,) if kind == b"=" else ()
    for side in sides:
        side.add(text, at, len(text))
    return ours, theirs, conflicts


def _set_positions(pieces: list[Piece], data: bytes, offset: int, line: int) -> None:
    """Set the lines of pieces, and their offsets in the file instead of in the data."""
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
