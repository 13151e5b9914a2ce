"""Split a session file for a merge into units: its header, its entries with the comments before them, and its trailer.

Guarantees: `header + lead + text + ... + trailer` of all units is the file again, apart from blank lines between lines of
JSON, duplicate entries, CRLF and a byte order mark. A file with an entry that cannot be read raises `CannotMerge`, because
the end of such an entry is unknown; only in JSON lines, where every entry is one line, it is kept unchanged.
"""

from __future__ import annotations

import re

from smp_memory.files.codec import CONFLICT, DAMAGED, TORN
from smp_memory.files.json_lines import JsonLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.files.codec import Codec, Fields

    Key = tuple[Any, ...]

_LINES = JsonLines()
_MARKERS = (b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")
_LIST = re.compile(
    rb"(?:[ \t]*(?:#[^\n]*)?\n|---[ ]*\n)*\"?([A-Za-z_][\w-]*)\"?:[ ]*(?:\[\][ ]*)?(?:#[^\n]*)?(?:\n(?P<rest>[\s\S]*))?\Z"
)
_TIMES = ("timestamp", "ts", "created", "created_at")
PUT, CHANGE, METADATA, UNREADABLE = "put", "change", "head", "unreadable"
_TIME_KEYS = ("deleted", "restored")


class CannotMerge(Exception):
    """A file cannot be merged entry by entry. The message says why, without content."""


class NotAStoreFile(CannotMerge):
    """The file is not one of a store; git's text merge handles it."""


class Unit:
    """One entry of a file, and the comments before it."""

    __slots__ = ("fields", "key", "lead", "op", "state", "text")

    def __init__(self, text: bytes, fields: Fields | None, lead: bytes = b"", state: str = "") -> None:
        self.text = text if text.endswith(b"\n") else text + b"\n"
        self.lead = lead
        self.state = state
        self.fields = fields or {}
        self.op = _operation(fields) if fields is not None else UNREADABLE
        self.key = self._key()

    @property
    def memory(self) -> str:
        """The uid or id of the memory that the entry belongs to."""
        return str(self.fields.get("uid") or self.fields.get("id") or "")

    @property
    def name(self) -> str:
        """The id of the memory, for messages."""
        return str(self.fields.get("id") or "an entry without an id")

    @property
    def is_first(self) -> bool:
        """Whether it is the first entry of a memory with a uid, so that no other clone can have created the same one."""
        return self.op == PUT and bool(self.fields.get("uid"))

    @property
    def at(self) -> str:
        if self.op == CHANGE:
            return str(self.fields.get("updated", ""))
        if self.op in _TIME_KEYS:
            return str(self.fields.get(self.op, ""))
        return str(next((self.fields[name] for name in _TIMES if name in self.fields), ""))

    @property
    def order(self) -> tuple[int, str, str, bytes]:
        seq = self.fields.get("seq")
        return seq if type(seq) is int else -1, self.at, self.memory, self.text

    @property
    def tx(self) -> str:
        return str(self.fields.get("tx") or "")

    def _key(self) -> Key:
        if self.is_first:
            return (PUT, self.memory)
        if self.op in (METADATA, UNREADABLE) or not self.fields.get("id"):
            return (self.op, self.text)
        return (self.op, self.memory, str(self.fields.get("seq")), self.at)


class UnitFile:
    """A file in parts: header, units by key in the order of the file, trailer."""

    def __init__(self, header: bytes = b"", trailer: bytes = b"") -> None:
        self.header = header
        self.trailer = trailer
        self.units: dict[Key, Unit] = {}

    def add(self, unit: Unit) -> None:
        """Add a unit; an identical one is added only once."""
        known = self.units.get(unit.key)
        if known is not None and known.text != unit.text:
            unit.key = (*unit.key, unit.text)
            known = self.units.get(unit.key)
        if known is None:
            self.units[unit.key] = unit


def _operation(fields: Fields) -> str:
    if isinstance(fields.get("changes"), dict):
        return CHANGE
    if fields.get("type") == "session" and "seq" not in fields:
        return METADATA
    return next((word for word in _TIME_KEYS if fields.get(word)), PUT)


def normalised(data: bytes) -> bytes:
    """The bytes with LF line ends and without a byte order mark."""
    return data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")


def split_lines(data: bytes, *, is_base: bool = False) -> UnitFile:
    """The units of a `.jsonl` file. A base may hold conflict markers: git merges several common ancestors into one."""
    file = UnitFile()
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if line.startswith(_MARKERS):
            if is_base:
                continue
            raise CannotMerge(f"line {number}: an unresolved merge conflict")
        pieces = _LINES.decode(line + b"\n")
        whole = pieces[0].fields if len(pieces) == 1 and pieces[0].end - pieces[0].start == len(line) else None
        if whole is None and number == len(lines) and not is_base:
            raise CannotMerge(f"line {number}: an unfinished write")
        file.add(Unit(line + b"\n", whole))
    return file


def split_entries(data: bytes, codec: Codec, *, is_base: bool = False) -> UnitFile:
    """The units of a YAML or Markdown file."""
    if not data:
        return UnitFile()
    file: UnitFile | None = None
    done = 0
    for piece in codec.decode(data):
        if piece.fields is None:
            if is_base and piece.state in (CONFLICT, DAMAGED, TORN):
                continue
            raise CannotMerge(f"line {piece.line}: {piece.message}")
        start, end = codec.span(data, piece.start, piece.end)
        start = max(start, done)
        lead, done = data[done:start], end
        if file is None:
            header, lead = _split_header(lead)
            file = UnitFile(header)
        file.add(Unit(data[start:end], piece.fields, lead, piece.state))
    if file is None:
        return UnitFile(data)
    file.trailer = data[done:] if data[done:].strip() else b""
    return file


def _split_header(gap: bytes) -> tuple[bytes, bytes]:
    """The text above the first entry, split into the header of the file and comments that belong to the entry."""
    lines = gap.splitlines(keepends=True)
    last = next(
        (n for n in reversed(range(len(lines))) if lines[n].strip() and not lines[n].lstrip().startswith(b"#")), None
    )
    header = b"".join(lines[: last + 1]) if last is not None else gap
    return header, gap[len(header) :]


def list_key(data: bytes) -> str | None:
    """The key of a YAML file that holds one list of entries; None for a file of another shape."""
    match = _LIST.match(data)
    if match is None:
        return None
    for line in (match["rest"] or b"").split(b"\n"):
        if line.strip() and not line.lstrip().startswith(b"#") and not line.startswith(_MARKERS):
            return match[1].decode() if line.lstrip().startswith(b"-") else None
    return match[1].decode()
