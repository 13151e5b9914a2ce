"""What are the bytes of one file? The interface that every file format here follows.

A file is a header followed by *entries*, each appended whole and never changed in place. A codec turns the
fields of one entry into bytes and a file's bytes into *pieces*: entries, and stretches that are not one.

Guarantees: `decode(encode(fields))` gives equal fields for any JSON value; an entry that `encode` wrote carries a
signature as its last part, so that a cut at any byte is recognised (`TORN`), and a change of any byte makes it
`EDITED` or `DAMAGED`, never a different entry in silence. Damage to one entry never costs its neighbours.
Hand-written entries without a signature are `UNSIGNED` and count as good.
Non-guarantees: a signature is not a defence against somebody who recomputes it.
"""

from __future__ import annotations

import re

from smp_memory.files.sha256 import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    Fields = dict[str, Any]
else:  # `typing` takes a new process 5 ms to load
    Protocol, Fields = object, dict

SIGNED, EDITED, UNSIGNED = "signed", "edited", "unsigned"  # entries
DAMAGED, TORN, CONFLICT = "damaged", "torn", "conflict"  # not entries

_TAIL = re.compile(rb"(?:\r?\n)?---[ \t]*\r?(?:\n|\Z)|\r?\n")


class Piece:
    """One stretch of a file: an entry, or a reason why it is none."""

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


Stored = tuple[int, int]
NOT_KNOWN: Stored = (0, 0)


class Codec(Protocol):
    """Bytes of a file <-> pieces. Offsets are into the data given plus `offset`; lines count from `line`."""

    def header(self, title: str) -> bytes:
        """The first bytes of a new file; empty if the format needs none."""

    def encode(self, fields: Fields) -> bytes:
        """One entry, whole lines, ending in a newline."""

    def decode(self, data: bytes, offset: int = 0, line: int = 1, stored: Stored = NOT_KNOWN) -> list[Piece]:
        """All pieces of a file, or of its rest from an entry's start on. A torn piece can only be the last.

        `stored` is up to which number and up to which byte entries of this file are known to have been written whole.
        An entry that lost its end since was edited by a person; without that knowledge it counts as torn.
        Blank lines, headers and comments give no piece.
        """

    def span(self, data: bytes, start: int, end: int) -> tuple[int, int]:
        """From where to where an entry's piece reaches with what `encode` puts around it: line ends, a blank line, a rule.

        A file without that stretch has one entry less, and all others as they were; `encode` gives what fits into it.
        """

    def boundary(self, data: bytes) -> int:
        """Where the first entry starts in a chunk cut out of the middle of a file, or -1."""


def signature(signed: bytes) -> str:
    """The check that closes an entry. Line ends are normalised first: git may turn LF into CRLF and back."""
    if b"\r" in signed:
        signed = signed.replace(b"\r\n", b"\n")
    return "sha256:" + sha256_hex(signed)[:16]


def was_whole(seq: int, start: int, stored: Stored) -> bool:
    """Whether an entry is known to have been written whole, so that a person must have taken its end away."""
    return 0 < seq <= stored[0] and start < stored[1]


def around(data: bytes, start: int, end: int, *, rule: bool = False) -> tuple[int, int]:
    """A stretch of whole lines with the blank line before it and, if there may be one, the rule behind it."""
    blank = next((blank for blank in (b"\r\n", b"\n") if data.endswith(blank, 0, start)), b"")
    if blank and data.endswith(b"\n", 0, start - len(blank)):
        start -= len(blank)
    tail = _TAIL.match(data, end) if rule else None
    return start, tail.end() if tail else end
