"""Read the metadata of a session in which git left conflict markers: what holds until a person decides, and what differs.

Each side of the conflict is the metadata as one clone had it. Both are merged field by field (`smp_memory.git.metadata_merge`); of a field
that both changed differently the value of this clone, the first side, holds. A side that cannot be read does not count.
Metadata without markers is read by the layout alone.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.session_info import SessionInfo

_START = b"<<<<<<<"
_METADATA_MARK = b'"type":"session"'
_SHOWN_CHARACTERS = 60  # of a value


class MetadataConflict:
    """What git left in the metadata of a session."""

    def __init__(
        self,
        line: int,
        fields: dict[str, Any],
        other: dict[str, Any],
        names: list[tuple[str, ...]],
        unreadable: str = "",
    ) -> None:
        self.line = line  # of the first marker
        self.fields = fields  # what holds
        self._other = other
        self._names = names  # of the fields that differ, each with those that it stands in
        self._unreadable = unreadable  # the side that cannot be read
        self.is_derived = False  # only figures differ, which SMP computes anew

    def values(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields that differ, on the side of this clone and on the other."""
        mine, other = (
            {".".join(name): _value(side, name) for name in self._names} for side in (self.fields, self._other)
        )
        return mine, other

    @property
    def is_open(self) -> bool:
        """Whether a person has something to decide."""
        return bool(self._names or self._unreadable)

    def message(self) -> str:
        """What differs, what holds, and what to write."""
        if self._unreadable:
            what = f"{self._unreadable} cannot be read; the other side is used"
        elif self._names:
            differ = [
                f"{'.'.join(name)} is {self._shown(self.fields, name)} or {self._shown(self._other, name)}"
                for name in self._names
            ]
            what = f"{'; '.join(differ)}. Until you choose one, the first value is used"
        else:
            what = "the sides do not contradict each other; both are used"
        return (
            f"git left a merge conflict in the session's metadata: {what}. `smp git resolve` takes "
            "either side. Until then the metadata cannot be changed."
        )

    def resolution(self) -> str:
        """What holds of the fields that differ, for the report of a repair."""
        held = ", ".join(f"{'.'.join(name)} stays {self._shown(self.fields, name)}" for name in self._names)
        return f"{held or 'what both sides say holds'}; both sides are set aside"

    def both_sides(self) -> bytes:
        """The metadata of either side, one line each; they differ only where the sides contradict each other."""
        return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in (self.fields, self._other))

    def _shown(self, fields: dict[str, Any], name: tuple[str, ...]) -> str:
        value = _value(fields, name)
        text = "not there" if value is None else repr(value)
        return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _value(fields: dict[str, Any], name: tuple[str, ...]) -> Any:
    value: Any = fields
    for part in name:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def decode_metadata(layout: Layout, data: bytes, session: str, conflict: MetadataConflict | None = None) -> SessionInfo:
    """The metadata in the bytes of its file, also with the `conflict` that is in them. Raises what `decode_info` raises."""
    found = conflict or find_conflict(layout, data)
    return layout.decode_info(data if found is None else _encode(layout, found.fields), session)


def find_conflict(layout: Layout, data: bytes) -> MetadataConflict | None:
    """The conflict in the bytes of the file that holds the metadata; None without markers, or if no side can be read."""
    if _START not in data:
        return None
    base, ours, theirs, line = _sides(data)
    mine, other = (_decode_side(layout, ours), _decode_side(layout, theirs)) if line else (None, None)
    if mine is None or other is None:
        side = mine if mine is not None else other
        if side is None or not layout.info_file:
            return None  # in a log one side alone may have metadata
        return MetadataConflict(line, side, side, [], "the side of this clone" if mine is None else "the other side")
    from smp_memory.git.metadata_merge import merge_mappings, without_figures

    known = (
        _decode_side(layout, base) if layout.info_file else None
    )  # the lines of a log around the hunk are from either side
    found = MetadataConflict(line, *merge_mappings(known or {}, mine, other))
    found.is_derived = without_figures(mine) == without_figures(other)
    return found


def _sides(data: bytes) -> tuple[bytes, bytes, bytes, int]:
    """What is known of the file before both sides changed it, the file on either side, and the line of the first marker."""
    from smp_memory.files.conflict_markers import MARKER  # rare, as the rest of this

    parts: tuple[list[bytes], ...] = ([], [], [])
    outside: tuple[int, ...] = (0, 1, 2)
    readers = outside
    at, line = 0, 0
    for marker in MARKER.finditer(data):
        kind = marker[1] or marker[2]
        if (kind == b"<") != (readers == outside):
            continue
        for side in readers:
            parts[side].append(data[at : marker.start()])
        at = marker.end()
        line = line or data.count(b"\n", 0, marker.start()) + 1
        readers = {b"<": (1,), b"|": (0,), b"=": (2,), b">": outside}[kind]
    for side in readers:
        parts[side].append(data[at:])
    base, ours, theirs = (b"".join(part) for part in parts)
    return base, ours, theirs, line


def _decode_side(layout: Layout, data: bytes) -> dict[str, Any] | None:
    """What one side says; None if it cannot be read."""
    from smp_memory.git.entry_files import CannotMerge
    from smp_memory.git.metadata_merge import read_json, read_yaml

    if not layout.info_file:
        return last_metadata_line(layout, data)
    try:
        return (read_yaml if layout.info_file.endswith(".yaml") else read_json)(data)
    except CannotMerge:
        return None


def _encode(layout: Layout, fields: dict[str, Any]) -> bytes:
    """Fields in the form that the layout's `decode_info` reads."""
    if not layout.info_file.endswith(".yaml"):
        return json.dumps(fields).encode()
    from smp_memory.files.yaml_text import emit_mapping

    return emit_mapping(fields).encode()


def last_metadata_line(layout: Layout, data: bytes) -> dict[str, Any] | None:
    """The last metadata line in a session's log; found from its end without reading the entries."""
    end = len(data)
    while (mark := data.rfind(_METADATA_MARK, 0, end)) >= 0:
        end = data.rfind(b"\n", 0, mark) + 1
        line = data[end : (data.find(b"\n", mark) + 1) or len(data)]
        pieces = layout.codec_of("").decode(line, 1)
        if pieces and (pieces[0].fields or {}).get("type") == "session":
            return pieces[0].fields
    return None
