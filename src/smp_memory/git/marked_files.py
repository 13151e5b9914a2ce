"""Session files with git's conflict markers: the hunks, the side of a line, and the hunks of which only one side can be kept. Pure.

Most hunks hold changes, or memories, of which both sides can stay: the markers go, and the history has both. Of a hunk with two texts of one
first entry, or with a memory that one side removed, one side has to go.
"""

from __future__ import annotations

from functools import partial

from smp_memory.files.conflict_markers import MARKER
from smp_memory.git.entry_files import METADATA, PUT, CannotMerge, Unit, split_entries
from smp_memory.git.metadata_merge import hunks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.files.codec import Codec

METADATA_MARK = b'"type":"session"'
OURS, THEIRS = "ours", "theirs"


class Hunk:
    """The lines between the markers, as either side has them."""

    def __init__(self, start: int, line: int) -> None:
        self.start = start
        self.line = line  # of the first marker
        self.end = start
        self.last_line = line
        self.divider = line  # the line of the marker between the sides
        self.ours = self.theirs = b""

    def text(self, side: str) -> bytes:
        return self.ours if side == OURS else self.theirs

    def side_of(self, line: int) -> str:
        """The side of a line; empty outside."""
        if not self.line < line < self.last_line:
            return ""
        return OURS if line < self.divider else THEIRS


def hunks_in(data: bytes) -> list[Hunk]:
    """The complete hunks of a file. A line of seven `=` counts inside a hunk only."""
    found: list[Hunk] = []
    hunk: Hunk | None = None
    part, at = "", 0
    for marker in MARKER.finditer(data):
        kind = (marker[1] or marker[2]).decode()
        if (hunk is None) != (kind == "<"):
            continue
        line = data.count(b"\n", 0, marker.start()) + 1
        if hunk is None:
            hunk = Hunk(marker.start(), line)
        elif part == "<":
            hunk.ours = data[at : marker.start()]
        elif part == "=" and kind == ">":
            hunk.theirs = data[at : marker.start()]
        if kind == "=":
            hunk.divider = line
        if kind == ">":
            hunk.end, hunk.last_line = marker.end(), line
            found.append(hunk)
            hunk = None
        part, at = kind, marker.end()
    return found


class SideChoice:
    """A memory in a hunk of which only one side can be kept."""

    def __init__(self, hunk: Hunk, units: dict[str, list[Unit]], memory: str, exclusive: list[str]) -> None:
        self.hunk = hunk
        self.units = units
        self.memory = memory  # the uid or id of the memory that both sides cannot have
        self.exclusive = exclusive  # all such memories of the hunk
        self.id = next(unit.name for side in units.values() for unit in side if unit.memory == memory)

    def fields(self, side: str) -> dict[str, Any]:
        """What the entries of the memory say on a side; nothing if it was removed there."""
        said: dict[str, Any] = {}
        for unit in self.units[side]:
            if unit.memory == self.memory:
                said.update(unit.fields.get("changes") or unit.fields)
        return said

    def at(self, side: str) -> str:
        return max((unit.at for unit in self.units[side] if unit.memory == self.memory), default="")


def side_choices(data: bytes, codec: Codec) -> list[SideChoice]:
    """The memories in the hunks of a file to choose a side of."""
    found = []
    for hunk in hunks_in(data):
        try:
            units = {side: _units(hunk.text(side), codec) for side in (OURS, THEIRS)}
        except CannotMerge:
            continue  # entries cut apart by a merge of text: the readers join them
        exclusive = _exclusive(units[OURS], units[THEIRS])
        found += [SideChoice(hunk, units, memory, exclusive) for memory in exclusive]
    return found


def _units(text: bytes, codec: Codec) -> list[Unit]:
    return list(split_entries(codec.header("") + text, codec).units.values()) if text.strip() else []


def _exclusive(ours: list[Unit], theirs: list[Unit]) -> list[str]:
    """The memories of a hunk that both sides cannot have: two texts of one first entry, and those that one side removed."""
    firsts = [{unit.memory: unit.text for unit in side if unit.op == PUT} for side in (ours, theirs)]
    twins = [memory for memory, text in firsts[0].items() if firsts[1].get(memory, text) != text]
    return [*twins, *_removed(ours, theirs), *_removed(theirs, ours)]


def _removed(units: list[Unit], others: list[Unit]) -> list[str]:
    """The memories of one side that the other one removed; not those that came with a change of them in a transaction."""
    known = {unit.memory for unit in others}
    firsts = {unit.memory: unit.tx for unit in units if unit.op == PUT}
    later = {unit.tx for unit in units if unit.op not in (PUT, METADATA) and unit.tx and firsts.get(unit.memory) != unit.tx}  # fmt: skip
    whole = [memory for memory, tx in firsts.items() if memory not in known and not (tx and tx in later)]
    if others:  # without a transaction memories of both sides are here because both are new
        joined = {unit.memory for unit in units if unit.op != PUT and unit.tx in later}
        return [memory for memory in whole if memory in joined]
    return whole or list(dict.fromkeys(unit.memory for unit in units if unit.op != METADATA))


def with_choice(
    data: bytes, choice: SideChoice, side: str, codec: Codec, unmarked: Callable[[Unit], bytes]
) -> tuple[bytes, bytes]:
    """The file with one side of a memory, and the entries of it that went. What else is in the hunk stays.

    `unmarked` is the text of an entry without the mark of its transaction, of which a part may go.
    """
    hunk, units = choice.hunk, choice.units
    others = [memory for memory in _exclusive(units[OURS], units[THEIRS]) if memory != choice.memory]
    parts = [_hunk_of(choice, lambda unit: unit.memory not in (choice.memory, *others), unmarked)]
    parts += [_hunk_of(choice, partial(_belongs, other), unmarked) for other in others]
    parts += [unit.lead + unmarked(unit) for unit in units[side] if unit.memory == choice.memory]
    gone = units[THEIRS if side == OURS else OURS]
    dropped = b"".join(unit.lead + unit.text for unit in gone if unit.memory == choice.memory)
    return b"".join([data[: hunk.start], *parts, data[hunk.end :]]), dropped


def _belongs(memory: str, unit: Unit) -> bool:
    return unit.memory == memory


def _hunk_of(choice: SideChoice, is_kept: Callable[[Unit], bool], unmarked: Callable[[Unit], bytes]) -> bytes:
    """A hunk with some entries of another one; without markers if there are none of one side, unless that side removed them."""
    texts = [
        b"".join(unit.lead + unmarked(unit) for unit in choice.units[side] if is_kept(unit)) for side in (OURS, THEIRS)
    ]
    is_disputed = any(is_kept(unit) and unit.memory in choice.exclusive for side in choice.units.values() for unit in side)  # fmt: skip
    return hunks([texts[0]], [texts[1]]) if all(texts) or is_disputed else b"".join(texts)


def metadata_hunks(data: bytes, is_info_file: bool) -> list[Hunk]:
    """The hunks with the metadata of a session, in a file of its own or in lines among the entries."""
    mark = b"" if is_info_file else METADATA_MARK
    return [hunk for hunk in hunks_in(data) if mark in hunk.ours and mark in hunk.theirs]


def with_sides(data: bytes, choose: Callable[[Hunk], str]) -> tuple[bytes, list[bytes]]:
    """The file with the chosen side of hunks ("" leaves one as it is), and the lines that went."""
    parts, dropped, at = [], [], 0
    for hunk in hunks_in(data):
        side = choose(hunk)
        if side:
            parts += [data[at : hunk.start], hunk.text(side)]
            dropped.append(hunk.text(THEIRS if side == OURS else OURS))
            at = hunk.end
    return b"".join([*parts, data[at:]]), [text for text in dropped if text.strip()]


def without_marker_lines(data: bytes) -> bytes:
    return MARKER.sub(b"", data)
