"""Codec of `.jsonl` files: one JSON object per line, its signature last.

    {"id":"DEC-0001","seq":1,"timestamp":"…","decision":"Use OAuth",…,"schema":1,"checksum":"sha256:9f86d081884c7d65"}

The signature covers the bytes of the line before `,"checksum"`. Lines end in LF; CRLF is understood. A line that does not parse is
searched for complete signed objects (a lost line end, a byte order mark, a splice), so that damage affects only one entry. Control
characters are JSON escapes, everything else is written as it is.
"""

from __future__ import annotations

import json

from smp_memory.files.codec import CONFLICT, DAMAGED, EDITED, NOT_KNOWN, SIGNED, TORN, UNSIGNED, Piece, signature
from smp_memory.files.sha256 import sha256_hex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from smp_memory.files.codec import Fields, Stored

_START = b'{"id":"'
_SIGNATURE = b',"checksum":"'
_CONFLICT_MARKERS = (b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")
_FULL_CHECKSUM_LENGTH = len("sha256:") + 64
_BOM = b"\xef\xbb\xbf"

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_make_encoder = getattr(json.encoder, "c_make_encoder", None)
# The C encoder, which JSONEncoder.encode would create for every line.
_encode_chunks = _make_encoder and _make_encoder(
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


# One value and its end; `JSONDecoder.decode` calls it between two searches for white space.
_scan = json.JSONDecoder(parse_constant=_no_constant).scan_once  # type: ignore[attr-defined]
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
        """Find complete signed objects inside a line that is not one."""
        rest = 0
        position = text.find(_START)
        while position >= 0:
            end = _signed_end(text, position)
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
        fields, stop = _scan(decoded, 0)
    except (ValueError, RecursionError, StopIteration):
        return None
    if stop < len(decoded):
        return None
    if type(fields) is not dict:
        return Piece(start, end, line, DAMAGED, None, "not a JSON object")
    checksum = fields.pop("checksum", None)
    if checksum is not None:
        mark = text.rfind(_SIGNATURE)
        if mark >= 0 and signature(text[:mark]) == checksum:
            return Piece(start, end, line, SIGNED, fields)
        if (
            isinstance(checksum, str)
            and len(checksum) == _FULL_CHECKSUM_LENGTH
            and _is_full_checksum(checksum, fields, text[:mark])
        ):
            return _decode_strictly(text, start, end, line, UNSIGNED)  # written by another program, and unchanged since
    return _decode_strictly(text, start, end, line, EDITED if checksum is not None else UNSIGNED)


def _is_full_checksum(checksum: str, fields: Fields, before: bytes) -> bool:
    """Whether a checksum of 64 digits (design 004) is that of the line, or of its fields sorted by name.

    The design sorts with a list of names given to JavaScript's `JSON.stringify`, which leaves all other names out, also of inner
    objects, and writes 1.0 as 1. Such a checksum says nothing about what it leaves out.
    """
    forms = (fields, _stringify_form(fields, sorted(fields)))
    texts = [json.dumps(form, sort_keys=True, ensure_ascii=False, separators=(",", ":")) for form in forms]
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
