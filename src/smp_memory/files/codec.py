"""Interface of a file format (codec), signatures of entries, recognition of unfinished writes, and the codec of `.jsonl` files.

A file is a header followed by *entries*, each appended whole and never changed in place. A codec turns the fields of one entry into
bytes and a file's bytes into *pieces*: entries, and byte ranges that are none.

Guarantees: `decode(encode(fields))` gives equal fields for any JSON value; an entry that `encode` wrote carries a signature as its last
part, so that a cut at any byte is recognised (`TORN`), and a change of any byte makes it `EDITED` or `DAMAGED`, never a different entry
unnoticed. Damage to one entry never affects its neighbours. Hand-written entries without a signature are `UNSIGNED` and count as valid.
Non-guarantees: a signature is not a defence against somebody who recomputes it.

JSON lines: one JSON object per line, its signature last, which covers the bytes of the line before `,"checksum"`.

    {"id":"DEC-0001","seq":1,"timestamp":"…","decision":"Use OAuth",…,"schema":1,"checksum":"sha256:9f86d081884c7d65"}

Lines end in LF; CRLF is understood. A line that does not parse is searched for complete signed objects (a lost line end, a byte order
mark, a splice), so that damage affects only one entry. Control characters are JSON escapes, everything else is written as it is.
"""

from __future__ import annotations

import json
import re

from smp_memory.model.entry import transaction_range
from smp_memory.model.ids import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn, Protocol

    from smp_memory.model.entry import Entry

    Fields = dict[str, Any]
else:
    Protocol, Fields = object, dict

SIGNED, EDITED, UNSIGNED = "signed", "edited", "unsigned"  # entries
DAMAGED, TORN, CONFLICT = "damaged", "torn", "conflict"  # not entries

VERIFIED = "another program wrote it, and its checksum is right"  # the message of an unsigned entry

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


# -- JSON lines

_START = b'{"id":"'
_SIGNATURE = b',"checksum":"'
_CONFLICT_MARKERS = (b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")
_FULL_CHECKSUM_LENGTH = len("sha256:") + 64
_BOM = b"\xef\xbb\xbf"
LINE_LIMIT_BYTES = 16 << 20  # of an entry; with every character escaped, one of the largest allowed memories has 7 MiB
_SALVAGE_WORK_PER_BYTE = 50
_ESCAPE = b"\\u"

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_make_encoder = getattr(json.encoder, "c_make_encoder", None)
_encode_chunks = _make_encoder and _make_encoder(  # what `_encoder.encode` would make again for every line
    None, _encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False
)


def to_json(value: Any) -> str:
    return "".join(_encode_chunks(value, 0)) if _encode_chunks else _encoder.encode(value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name is given twice in one object")
    return fields


_raw_decode = json.JSONDecoder(parse_constant=_no_constant).raw_decode
_strict = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_no_duplicates)


class JsonLines:
    """The codec of `.jsonl` files."""

    def header(self, title: str) -> bytes:
        return b""

    def encode(self, fields: Fields) -> bytes:
        body = to_json(fields).encode()[:-1]
        return b"".join((body, _SIGNATURE, signature(body).encode(), b'"}\n'))

    def decode(self, data: bytes, offset: int = 0, line: int = 1, stored: Stored = NOT_KNOWN) -> list[Piece]:
        pieces: list[Piece] = []
        start, end = len(_BOM) if offset == 0 and data.startswith(_BOM) else 0, len(data)
        while start < end:
            stop = data.find(b"\n", start)
            last = stop < 0
            if last:
                stop = end
            if stop - start > LINE_LIMIT_BYTES:
                message = f"longer than {LINE_LIMIT_BYTES >> 20} MiB, the most that SMP reads of one entry"
                pieces.append(Piece(offset + start, offset + stop, line, DAMAGED, None, message))
                start, line = stop + 1, line + 1
                continue
            text = data[start:stop]
            piece = _decode_line(text, offset + start, offset + stop, line)
            if piece is not None:
                pieces.append(piece)
            elif text.strip():
                self._decode_invalid_line(text, offset + start, line, last, pieces)
            start = stop + 1
            line += 1
        return pieces

    def span(self, data: bytes, start: int, end: int) -> tuple[int, int]:
        """The entry with its line end, if it is alone on its line."""
        alone = start == 0 or data[start - 1 : start] == b"\n" or data[:start] == _BOM
        return start, end + (alone and data[end : end + 1] == b"\n")

    def boundary(self, data: bytes) -> int:
        newline = data.find(b"\n")
        return newline + 1 if 0 <= newline < len(data) - 1 else -1

    def _decode_invalid_line(self, text: bytes, start: int, line: int, last: bool, pieces: list[Piece]) -> None:
        """Add the pieces of a line that is not an entry."""
        end = start + len(text)
        if text.startswith(_CONFLICT_MARKERS):
            pieces.append(Piece(start, end, line, CONFLICT, None, "an unresolved merge conflict"))
        elif last and not text.startswith(_BOM) and not text.rstrip(b"\0").strip():
            pieces.append(Piece(start, end, line, TORN, None, "an unfinished write"))
        else:
            self._salvage(text, start, line, last, pieces)

    def _salvage(self, text: bytes, start: int, line: int, last: bool, pieces: list[Piece]) -> None:
        """Find complete signed objects inside a line that is not one. The work is bounded."""
        rest, work = 0, _SALVAGE_WORK_PER_BYTE * len(text)
        position = text.find(_START)
        while position >= 0 and work > 0:
            end = _signed_end(text, position)
            work -= (end or len(text)) - position
            piece = _decode_line(text[position:end], start + position, start + end, line) if end else None
            if piece is None or piece.state != SIGNED:
                position = text.find(_START, position + 1)
                continue
            if text[rest:position].strip(b"\0 \r" + _BOM):
                pieces.append(Piece(start + rest, start + position, line, DAMAGED, None, "not a JSON object"))
            pieces.append(piece)
            rest = end
            position = text.find(_START, end)
        if text[rest:].strip(b"\0 \r" + _BOM):
            state, reason = (TORN, "an unfinished write") if last else (DAMAGED, "not a JSON object")
            pieces.append(Piece(start + rest, start + len(text), line, state, None, reason))


def _signed_end(text: bytes, position: int) -> int:
    """The end of a signed object that starts at this position, or 0."""
    mark = text.find(_SIGNATURE, position)
    close = text.find(b'"}', mark + len(_SIGNATURE)) if mark >= 0 else -1
    return close + 2 if close >= 0 else 0


def _decode_line(text: bytes, start: int, end: int, line: int) -> Piece | None:
    """The entry that fills this line; None if it is not a JSON value."""
    try:
        decoded = text.decode().strip(" \t\r")
        fields, stop = _raw_decode(decoded)
    except (ValueError, RecursionError):
        return None
    if stop < len(decoded):
        return None
    if type(fields) is not dict:
        return Piece(start, end, line, DAMAGED, None, "not a JSON object")
    checksum = fields.pop("checksum", None)
    if checksum is not None:
        mark = text.rfind(_SIGNATURE)
        if mark >= 0 and signature(text[:mark]) == checksum:
            # `\\u` is a control character or, not written by SMP, half a surrogate pair; one byte is found much faster than two
            if b"\\" in text and _ESCAPE in text:
                return _decode_strictly(text, start, end, line, SIGNED)
            return Piece(start, end, line, SIGNED, fields)
        if (
            isinstance(checksum, str)
            and len(checksum) == _FULL_CHECKSUM_LENGTH
            and _is_full_checksum(checksum, fields, text[:mark])
        ):
            piece = _decode_strictly(text, start, end, line, UNSIGNED)
            piece.message = piece.message or VERIFIED
            return piece
    return _decode_strictly(text, start, end, line, EDITED if checksum is not None else UNSIGNED)


def _is_full_checksum(checksum: str, fields: Fields, before: bytes) -> bool:
    """Whether a checksum of 64 digits (design 004) is that of the line, or of its fields sorted by name.

    The design sorts with a list of names given to JavaScript's `JSON.stringify`, which leaves all other names out, also of inner
    objects, and writes 1.0 as 1. Such a checksum says nothing about what it leaves out.
    """
    names = sorted(fields)
    forms = (fields, _stringify_form(fields, names))
    texts = [json.dumps(form, sort_keys=True, ensure_ascii=False, separators=(",", ":")) for form in forms]
    texts.append(to_json({name: fields[name] for name in names}))  # sorted at the top only
    checksums = [sha256_hex(data) for data in (before, *(text.encode(errors="replace") for text in texts))]
    return checksum.removeprefix("sha256:") in checksums


def _stringify_form(value: Any, names: list[str]) -> Any:
    """What JavaScript's `JSON.stringify` writes of a value if it is given a list of names."""
    if isinstance(value, dict):
        return {name: _stringify_form(value[name], names) for name in names if name in value}
    if isinstance(value, list):
        return [_stringify_form(item, names) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _decode_strictly(text: bytes, start: int, end: int, line: int, state: str) -> Piece:
    try:
        fields = _strict.decode(text.decode())
        to_json(fields).encode()
    except (ValueError, RecursionError) as error:
        return Piece(start, end, line, DAMAGED, None, f"not a JSON object that SMP can store: {error}")
    fields.pop("checksum", None)
    return Piece(start, end, line, state, fields)
