"""Interface of a file format (codec), signatures of entries, and recognition of unfinished writes.

A file is a header followed by *entries*, each appended whole and never changed in place. A codec turns the fields of one entry into
bytes and a file's bytes into *pieces*: entries, and byte ranges that are none.

Guarantees: `decode(encode(fields))` gives equal fields for any JSON value; an entry that `encode` wrote carries a signature as its last
part, so that a cut at any byte is recognised (`TORN`), and a change of any byte makes it `EDITED` or `DAMAGED`, never a different entry
unnoticed. Damage to one entry never affects its neighbours. Hand-written entries without a signature are `UNSIGNED` and count as valid.
Non-guarantees: a signature is not a defence against somebody who recomputes it.
"""

from __future__ import annotations

import re

from smp_memory.files.sha256 import sha256_hex
from smp_memory.model.entry import transaction_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from smp_memory.model.entry import Entry

    Fields = dict[str, Any]
else:  # `typing` takes a new process 5 ms to load
    Protocol, Fields = object, dict

SIGNED, EDITED, UNSIGNED = "signed", "edited", "unsigned"  # entries
DAMAGED, TORN, CONFLICT = "damaged", "torn", "conflict"  # not entries

_TAIL = re.compile(rb"(?:\r?\n)?---[ \t]*\r?(?:\n|\Z)|\r?\n")


class Piece:
    """A byte range of a file: a decoded entry, or the reason why it is none."""

    __slots__ = ("end", "fields", "line", "message", "start", "state")

    def __init__(self, start: int, end: int, line: int, state: str, fields: Fields | None, message: str = "") -> None:
        self.start = start
        self.end = end
        self.line = line
        self.state = state
        self.fields = fields
        self.message = message

    def __repr__(self) -> str:
        return f"Piece({self.start}-{self.end}, line {self.line}, {self.state}, {self.fields or self.message})"


# Up to which number and which byte entries of a file are known to have been written completely.
Stored = tuple[int, int]
NOT_KNOWN: Stored = (0, 0)


class Codec(Protocol):
    """Bytes of a file <-> pieces. Offsets count from the beginning of the data plus `offset`; lines from `line`."""

    def header(self, title: str) -> bytes:
        """The first bytes of a new file; empty if the format needs none."""

    def encode(self, fields: Fields) -> bytes:
        """One entry, whole lines, ending in a newline."""

    def decode(self, data: bytes, offset: int = 0, line: int = 1, stored: Stored = NOT_KNOWN) -> list[Piece]:
        """All pieces of a file, or of its rest from an entry's start on. A torn piece can only be the last.

        An entry within `stored` that lost its end was edited by a person; any other one counts as torn.
        Blank lines, headers and comments give no piece.
        """

    def span(self, data: bytes, start: int, end: int) -> tuple[int, int]:
        """The range of an entry's piece with what `encode` adds around it: line ends, a blank line, a rule.

        A file without that range has one entry less and all others unchanged; the output of `encode` fits into it.
        """

    def boundary(self, data: bytes) -> int:
        """Where the first entry starts in a chunk cut out of the middle of a file, or -1."""


def signature(signed: bytes) -> str:
    """The signature of an entry. Line ends are normalised first, because git may turn LF into CRLF and back."""
    if b"\r" in signed:
        signed = signed.replace(b"\r\n", b"\n")
    return "sha256:" + sha256_hex(signed)[:16]


def was_complete(seq: int, start: int, stored: Stored) -> bool:
    """Whether an entry is known to have been written completely, so that a person must have removed its end."""
    return 0 < seq <= stored[0] and start < stored[1]


def widen_span(data: bytes, start: int, end: int, *, rule: bool = False) -> tuple[int, int]:
    """A range of whole lines with the blank line before it and, if `rule`, the rule after it."""
    blank = next((blank for blank in (b"\r\n", b"\n") if data.endswith(blank, 0, start)), b"")
    if blank and data.endswith(b"\n", 0, start - len(blank)):
        start -= len(blank)
    tail = _TAIL.match(data, end) if rule else None
    return start, tail.end() if tail else end


# -- unfinished writes at the end of a file


def torn_offset(pieces: list[Piece], data: bytes, offset: int) -> float:
    """The start of an unfinished write that a power loss left with zeros in place of some bytes; infinity if there is none.

    That is the last piece, if its signature is wrong and it contains zeros; or the whole one-file transaction at the end of the
    file, if it has zeros in place of missing entries.
    """
    if b"\0" not in data or not pieces:
        return float("inf")
    last = pieces[-1]
    if last.state not in (SIGNED, CONFLICT) and b"\0" in data[last.start - offset : last.end - offset]:
        return last.start
    mark = (last.fields or {}).get("tx")
    limits = transaction_range(mark) if isinstance(mark, str) else None
    if limits is None or limits[2] > 1:
        return float("inf")
    first, missing = len(pieces), limits[1] - limits[0] + 1
    while first and (pieces[first - 1].state == DAMAGED or (pieces[first - 1].fields or {}).get("tx") == mark):
        first -= 1
        missing -= pieces[first].state != DAMAGED
    start = pieces[first - 1].end if first else offset
    if data[start - offset : start - offset + 1] == b"\n":
        start += 1
    return start if missing > 0 and b"\0" in data[start - offset :] else float("inf")


def unfinished_transaction(entries: list[Entry], stored_until: int) -> int | None:
    """The index of the first of the last entries that are part of a one-file transaction whose rest is not written yet.

    A write that was cut off leaves the first entries of a transaction, in order. Anything else was done by a person or by git: the
    rest was written once (`stored_until`), or it is elsewhere in the file. Then the remaining entries count.
    """
    if not entries or not entries[-1].tx:
        return None
    mark, last = entries[-1].tx, entries[-1].seq
    limits = transaction_range(mark)
    if limits is None or limits[2] > 1 or limits[1] <= max(last, stored_until):
        return None
    first = len(entries) - 1
    while first > 0 and entries[first - 1].tx == mark and entries[first - 1].seq == entries[first].seq - 1:
        first -= 1
    is_beginning = entries[first].seq == limits[0]
    rest_is_elsewhere = any(entry.tx == mark for entry in entries[:first])
    return first if is_beginning and not rest_is_elsewhere else None
