"""Session files as a merge sees them: split into units, and folded entries taken apart.

A file is a header, its entries with the comments before them, and a trailer. A folded entry (`smp tidy`) is a new text of the memory's
first entry. Compared as such, it would be in conflict with what the other side folded, or did not fold if git knows no common version
of the file, although the sides changed different fields. Taken apart into the first entry and its changes, they merge like entries
that nobody folded; the next `tidy` folds the result.

Guarantees: `header + lead + text + ... + trailer` of all units is the file again, apart from blank lines between lines of
JSON, duplicate entries, CRLF and a byte order mark. A file with an entry that cannot be read raises `CannotMerge`, because
the end of such an entry is unknown; only in JSON lines, where every entry is one line, it is kept unchanged. Taking folded entries
apart leaves the entries of a memory the same. Left folded: entries that a person edited, entries that the other side left as they
were and whose changes it has not, and what does not read back as it should.
"""

from __future__ import annotations

import re

from smp_memory.errors import SMPError
from smp_memory.files.codec import CONFLICT, DAMAGED, SIGNED, TORN, JsonLines
from smp_memory.files.entry_fields import decode_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.files.codec import Codec, Fields
    from smp_memory.files.layouts.layout import Layout

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


# -- folded entries


def unfold(base: UnitFile, ours: UnitFile, theirs: UnitFile, layout: Layout, name: str) -> None:
    """Take folded entries apart that would be in conflict as such, also in the base."""
    for key, unit in list(ours.units.items()):
        other, known = theirs.units.get(key), base.units.get(key)
        if other is None or other.text == unit.text:
            continue
        mine, its = _parts(unit, layout, name), _parts(other, layout, name)
        if not (mine or its) or not all(parts or _is_plain(each) for parts, each in ((mine, unit), (its, other))):
            continue
        is_left = known is not None and known.text in (unit.text, other.text)  # by one side
        if is_left and not _stands_in(mine, theirs, base) and not _stands_in(its, ours, base):
            continue
        if known is not None:
            _replace(base, known, _parts(known, layout, name), ours, theirs)
        _replace(ours, unit, mine, base, theirs)
        _replace(theirs, other, its, base, ours)


def _stands_in(parts: list[Unit], file: UnitFile, base: UnitFile) -> bool:
    """Whether a folded change stands on the other side as an entry of its own that is new there, as after a cherry-pick."""
    return any(part.key in file.units and part.key not in base.units for part in parts[1:])


def _is_plain(unit: Unit) -> bool:
    return unit.op == PUT and unit.state == SIGNED and "history" not in unit.fields


def _parts(unit: Unit, layout: Layout, name: str) -> list[Unit]:
    """The units of a folded entry's first entry and its changes; none if it is not a folded entry as SMP wrote it."""
    if unit.op != PUT or unit.state != SIGNED or "history" not in unit.fields:
        return []
    codec: Codec = layout.codec_of(name)
    try:
        entries = decode_entries(layout.field_names, unit.fields, layout.kind_of(name), SIGNED, name, 0, 0)
        text = b"".join(codec.encode(layout.field_names.encode(entry, "")) for entry in entries)
        found = list(split_entries(codec.header("") + text, codec).units.values())
    except (SMPError, CannotMerge):
        return []
    return found if len(found) == len(entries) > 1 and found[0].key == unit.key else []


def _replace(file: UnitFile, unit: Unit, parts: list[Unit], *others: UnitFile) -> None:
    if not parts:
        return
    parts[0].lead = unit.lead
    for part in parts:
        part.text = next(
            (each.text for other in others if (each := other.units.get(part.key)) and _is_same(each, part)), part.text
        )
    units = [each for known in file.units.values() for each in (parts if known is unit else [known])]
    file.units = {}
    for each in units:
        file.add(each)


def _is_same(unit: Unit, part: Unit) -> bool:
    """Whether an entry that nobody folded says the same; folding takes off the marks of transactions."""
    return unit.state == SIGNED and _without_mark(unit.fields) == _without_mark(part.fields)


def _without_mark(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if name != "tx"}
