"""Folded entries (`smp tidy`) on the sides of a merge, taken apart into their first entry and their changes.

A folded entry is a new text of the memory's first entry. Compared as such, it would be in conflict with what the other side
folded, or did not fold if git knows no common version of the file, although the sides changed different fields. Taken apart,
they merge like entries that nobody folded; the next `tidy` folds the result.

Guarantees: the entries of a memory are the same as before. Left folded: entries that a person edited, entries that the other side
left as they were and whose changes it has not, and what does not read back as it should.
"""

from __future__ import annotations

from smp_memory.errors import SMPError
from smp_memory.files.codec import SIGNED
from smp_memory.files.folded_entries import decode_entries
from smp_memory.git.entry_files import PUT, CannotMerge, split_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Codec, Fields
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.git.entry_files import Unit, UnitFile


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
