"""Three-way merge of a session's files by entries, for git's merge driver. Pure: bytes in, bytes out.

    merged = merge(base, ours, theirs, ".bmad/memory/sessions/shop/findings.jsonl")
    merged.data, merged.conflicts

Entries are identified by the uid of their memory, their operation, number and time. What only one side added, edited or removed
is merged. These are conflicts, which are written between git's markers for a person to decide: an entry that both sides
edited, an entry that one side edited and the other removed, a field that both sides changed to different values, and a
change of a memory that the other side removed.

Guarantees: every entry of both sides is in the result, unless one side removed or edited it and the other did not change it.
If both sides only appended, the result does not depend on the direction of the merge. Header and comments are kept. What cannot be split
into entries raises `CannotMerge`; nothing is guessed.
Non-guarantees: fields of one entry that both sides edited by hand are not merged.
"""

from __future__ import annotations

import os

from smp_memory.git.entry_files import (
    CHANGE,
    METADATA,
    PUT,
    CannotMerge,
    NotAStoreFile,
    Unit,
    UnitFile,
    list_key,
    normalised,
    split_entries,
    split_lines,
    unfold,
)
from smp_memory.git.metadata_merge import MergedMetadata, hunks, merge_mapping_files, merge_metadata_lines
from smp_memory.git.renumbered import renumbered
from smp_memory.model import ids
from smp_memory.model.types import markdown_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from smp_memory.files.codec import Codec
    from smp_memory.git.entry_files import Key

    Units = tuple[Sequence[Unit], Sequence[Unit], Sequence[Unit]]
    TextMerge = Callable[[bytes, bytes, bytes], bytes | None]  # git's text merge of base, ours, theirs; None: conflict

_NOT_COMPARED = frozenset(
    ["access", "id"]  # use counts: either value may be kept; renames: the last one holds, references follow
)
_ENTRY_FIELDS = frozenset(
    ["access", "smp", "hand", "id", "seq", "tx", "type", "session_id", "uid", "uids", "schema", "timestamp", "ts", "author", "by", "history",
     "revision", "updated", "updated_by"]
)  # fmt: skip
_NESTED = ("data", "content")
_END: Key = ("end of the file",)


class Merged:
    """The merged bytes, and a sentence for each conflict, without content."""

    __slots__ = ("_units", "conflicts", "data")

    def __init__(self, data: bytes, conflicts: list[str], units: Units = ((), (), ())) -> None:
        self.data = data
        self.conflicts = conflicts
        self._units = units  # the first entries that ours and theirs added, and all entries

    def renumbered(self, metadata: bytes) -> list[str]:
        """A sentence for each memory whose id the merge changes; `metadata` names the largest numbers that were given out."""
        return renumbered(*self._units, metadata)


def merge(base: bytes, ours: bytes, theirs: bytes, path: str, text_merge: TextMerge | None = None) -> Merged:
    """Merge one file of a store. Raises CannotMerge, or NotAStoreFile for a file that does not belong to a store."""
    if theirs in (ours, base):
        return Merged(ours, [])
    if ours == base:
        return Merged(theirs, [])
    if path.endswith(".jsonl.gz"):
        return _merge_segments(base, ours, theirs)
    base, ours, theirs = normalised(base), normalised(ours), normalised(theirs)
    ending = os.path.splitext(path)[1]
    if ending == ".jsonl":
        sides = split_lines(base, is_base=True), split_lines(ours), split_lines(theirs)
        return _Merge(*sides).result()
    if ending == ".json":
        return Merged(*merge_mapping_files(base, ours, theirs, "json", text_merge))
    from smp_memory.files.layouts.markdown import MarkdownLayout

    codec = _codec_of(path, ours, theirs)
    if codec is None:
        return Merged(*merge_mapping_files(base, ours, theirs, "yaml", text_merge))
    sides = split_entries(base, codec, is_base=True), split_entries(ours, codec), split_entries(theirs, codec)
    layout, name = MarkdownLayout(), _relative(path)
    if layout.is_session_file(name, ""):
        unfold(*sides, layout, name)
    merged = _Merge(*sides)
    result = merged.result()
    if not result.conflicts:
        _check_readable(result.data, codec, merged.merged_units)
    return result


def _merge_segments(base: bytes, ours: bytes, theirs: bytes) -> Merged:
    """Merge the cold segments of a session."""
    from smp_memory.files import cold_segment

    merged = cold_segment.merge(base, ours, theirs)
    if merged is not None:
        return Merged(merged, [])
    return Merged(ours + theirs, ["One side is damaged, so the result holds all that either side has."])


def _check_readable(data: bytes, codec: Codec, merged_units: list[Unit]) -> None:
    """Raise CannotMerge unless the merged file decodes to the same entries."""
    if sorted(unit.text for unit in split_entries(data, codec).units.values()) != sorted(
        unit.text for unit in merged_units
    ):
        raise CannotMerge("the merged file does not decode to the merged entries")


def _codec_of(path: str, ours: bytes, theirs: bytes) -> Codec | None:
    """The codec of a file with entries; None for one that holds a mapping."""
    from smp_memory.files.layouts.markdown import MarkdownLayout

    relative = _relative(path)
    layout = MarkdownLayout()
    if relative.endswith(".yaml"):
        if any(b"\nsmp:\n" in b"\n" + side for side in (ours, theirs)):
            return None  # a file for all sessions, `smp_memory.store.shared_files`
        keys = set(map(list_key, filter(None, (ours, theirs))))
        if None in keys:
            if len(keys) > 1:
                raise CannotMerge("one side holds a list of entries, the other does not")
            return None
        if not layout.is_session_file(relative, ""):
            from smp_memory.files.yaml_list import YamlList

            return YamlList(str(keys.pop()))
    if not layout.is_session_file(relative, ""):
        raise NotAStoreFile("not a file of the store")
    return layout.codec_of(relative)


def _relative(path: str) -> str:
    """The name of a file in its session's folder."""
    folder, name = os.path.split(path.replace(os.sep, "/"))
    parent = os.path.basename(folder)
    return f"{parent}/{name}" if parent in markdown_folders() else name


class _Side:
    """One side of a merge: what it added, edited and removed."""

    def __init__(self, file: UnitFile, base: UnitFile, variants: dict[Key, set[bytes]]) -> None:
        self.file = file
        self.units = file.units
        self.added = {key: unit for key, unit in file.units.items() if key not in base.units}
        self.edited = {key for key, unit in file.units.items() if key in variants and unit.text not in variants[key]}
        self.removed = base.units.keys() - file.units.keys()


class _Hunk:
    """A conflict: the units of each side, and messages about it."""

    def __init__(self, ours: list[Unit], theirs: list[Unit], about: str) -> None:
        self.ours = ours
        self.theirs = theirs
        self.about = [about]

    @property
    def text(self) -> bytes:
        ours, theirs = (b"".join(unit.lead + unit.text for unit in side) for side in (self.ours, self.theirs))
        return hunks([ours], [theirs])


class _Merge:
    """A three-way merge of files split into units."""

    def __init__(self, base: UnitFile, ours: UnitFile, theirs: UnitFile) -> None:
        self.base = base
        _separate_twins(base, ours, theirs)
        variants: dict[Key, set[bytes]] = {}
        for key, unit in base.units.items():  # a merged base may hold several texts of one entry
            variants.setdefault(key, set()).add(unit.text)
            variants.setdefault(key[:-1] if key[-1] == unit.text else key, set()).add(unit.text)
        self.ours, self.theirs = _Side(ours, base, variants), _Side(theirs, base, variants)
        self.hunks: list[_Hunk] = []
        self.in_hunk: dict[Key, _Hunk] = {}
        self.merged_units: list[Unit] = []  # the units of the result, in order

    def result(self) -> Merged:
        chosen = self._choose_units()
        self._add_field_conflicts()
        self._add_removal_conflicts(chosen)
        metadata = self._merge_metadata()
        parts = [self._merge_outer("header")]
        for unit in self._order_units(chosen):
            hunk = self.in_hunk.get(unit.key)
            if hunk is None:
                parts.append(unit.lead + unit.text)
                self.merged_units.append(unit)
            elif unit.key == self._last_of(hunk):
                parts.append(hunk.text)
        if metadata is not None and (metadata.conflicts or self._last_metadata(self.merged_units) != metadata.fields):
            parts.append(metadata.text)
        parts.append(self._merge_outer("trailer"))
        conflicts = [about for hunk in self.hunks for about in hunk.about] + (metadata.conflicts if metadata else [])
        added = [[unit for key, unit in side.added.items() if key[0] == PUT] for side in (self.ours, self.theirs)]
        return Merged(b"".join(parts), conflicts, (added[0], added[1], list(chosen.values())))

    # -- entry by entry

    def _choose_units(self) -> dict[Key, Unit]:
        """The unit of the result for each entry of both sides; a unit in conflict marks the place of its hunk."""
        chosen: dict[Key, Unit] = {}
        for key in [*self.ours.units, *(key for key in self.theirs.units if key not in self.ours.units)]:
            ours, theirs = self.ours.units.get(key), self.theirs.units.get(key)
            if ours is not None and theirs is not None:
                chosen[key] = self._merge_both(key, ours, theirs)
                chosen[key].lead = self._merge_lead(key, ours, theirs)
                continue
            unit, side = (ours, self.ours) if ours is not None else (theirs, self.theirs)
            assert unit is not None
            if key in side.added:
                chosen[key] = unit
            elif key in side.edited:
                chosen[key] = unit
                about = f"{unit.name} was edited on one side and removed on the other."
                self._add_conflict([unit] if ours else [], [unit] if theirs else [], about)
        return chosen

    def _merge_both(self, key: Key, ours: Unit, theirs: Unit) -> Unit:
        if ours.text == theirs.text or key not in self.theirs.edited | self.theirs.added.keys():
            return ours
        if key not in self.ours.edited | self.ours.added.keys():
            return theirs
        self._add_conflict([ours], [theirs], f"{ours.name} was edited on both sides.")
        return ours

    def _merge_lead(self, key: Key, ours: Unit, theirs: Unit) -> bytes:
        known = self.base.units.get(key)
        return _merge_comments(known.lead if known else b"", ours.lead, theirs.lead)

    def _merge_outer(self, name: str) -> bytes:
        base, ours, theirs = (getattr(file, name) for file in (self.base, self.ours.file, self.theirs.file))
        if name == "trailer":
            return _merge_comments(base, ours, theirs)
        if not ours or not theirs or theirs in (ours, base):
            return bytes(ours or theirs)
        if ours == base:
            return bytes(theirs)
        raise CannotMerge("both sides changed the text above the first entry")

    # -- conflicts

    def _add_conflict(self, ours: list[Unit], theirs: list[Unit], about: str) -> None:
        """Put units into a hunk, together with the rest of their transactions; a unit is in one hunk only."""
        hunk = _Hunk(self._with_related(ours, self.ours), self._with_related(theirs, self.theirs), about)
        for unit in [*hunk.ours, *hunk.theirs]:
            known = self.in_hunk.get(unit.key)
            if known is not None and known is not hunk:
                known.ours = _union(known.ours, hunk.ours)
                known.theirs = _union(known.theirs, hunk.theirs)
                known.about += hunk.about
                if hunk in self.hunks:
                    self.hunks.remove(hunk)
                hunk = known
        if hunk not in self.hunks:
            self.hunks.append(hunk)
        for unit in [*hunk.ours, *hunk.theirs]:
            self.in_hunk[unit.key] = hunk

    def _with_related(self, units: list[Unit], side: _Side) -> list[Unit]:
        """The units with those that must be on the same side, whichever side a person chooses.

        Entries of one transaction stay together: a file that ends in a part of one looks like an unfinished write.
        With the first entry of a memory come the changes that the other side removed or folded into its own (`smp tidy`).
        """
        marks = {unit.tx for unit in units if unit.tx and unit.key in side.added}
        keys = {unit.key for unit in units}
        memories = {unit.memory for unit in units if unit.op == PUT}
        other = self.theirs if side is self.ours else self.ours
        return [
            unit
            for key, unit in side.units.items()
            if key in keys
            or (unit.tx in marks and key in side.added and key not in other.units)
            or (unit.memory in memories and key in other.removed)
        ]

    def _add_field_conflicts(self) -> None:
        """Add conflicts of fields that both sides changed in one memory, by change entries or in its first entry."""
        ours, theirs = self._field_changes(self.ours, self.theirs), self._field_changes(self.theirs, self.ours)
        memories = [memory for memory in ours if memory in theirs]
        before = _by_memory(self.base.units.values(), memories)
        states = [_by_memory(side.units.values(), memories) for side in (self.ours, self.theirs)]
        for memory in memories:
            base, mine, other = (_values_after(each.get(memory, [])) for each in (before, *states))
            fields = [
                name
                for name in mine.keys() & other.keys()
                if mine[name] != other[name]
                and _set_field(ours[memory], name, base, mine)
                and _set_field(theirs[memory], name, base, other)
            ]
            if fields:
                about = f"{ours[memory][0].name}: both sides changed {', '.join(sorted(fields))}."
                our_units, their_units = _setting(ours[memory], fields), _setting(theirs[memory], fields)
                if any(unit.op == PUT and unit.key in self.base.units for unit in our_units + their_units):
                    our_units, their_units = (_union(_first_entries(each[memory]), units) for each, units in zip(states, (our_units, their_units), strict=True))  # fmt: skip
                self._add_conflict(our_units, their_units, about)

    def _field_changes(self, side: _Side, other: _Side) -> dict[str, list[Unit]]:
        """Entries that only this side added or edited and that set fields, by memory."""
        by_memory: dict[str, list[Unit]] = {}
        for key, unit in side.units.items():
            is_new = key in side.added and key not in other.units and (unit.op == CHANGE or _is_agent_state(unit))
            is_equal = key in other.units and other.units[key].text == unit.text
            if is_new or (key in side.edited and not is_equal and unit.op in (PUT, CHANGE)):
                by_memory.setdefault(unit.memory, []).append(unit)
        return by_memory

    def _add_removal_conflicts(self, chosen: dict[Key, Unit]) -> None:
        """Add conflicts of memories that one side changed and the other removed: complete on one side of the hunk."""
        for side, other in ((self.ours, self.theirs), (self.theirs, self.ours)):
            gone = {self.base.units[key].memory for key in other.removed if self.base.units[key].op == PUT}
            gone -= {unit.memory for key, unit in chosen.items() if unit.op == PUT and key not in self.in_hunk}
            changed = {
                unit.memory: unit.name
                for key, unit in side.added.items()
                if unit.memory in gone and key not in other.units and unit.op not in (PUT, METADATA)
            }
            for memory, name in changed.items():
                sides = [[unit for unit in each.units.values() if unit.memory == memory and unit.op != METADATA] for each in (self.ours, self.theirs)]  # fmt: skip
                chosen.update((unit.key, unit) for units in sides for unit in units)
                self._add_conflict(sides[0], sides[1], f"{name} was changed on one side and removed on the other.")

    def _last_of(self, hunk: _Hunk) -> Key:
        keys = {unit.key for unit in [*hunk.ours, *hunk.theirs]}
        return next(key for key in reversed(self._order) if key in keys)

    # -- the metadata of a session, in the layout that keeps it among the entries

    def _merge_metadata(self) -> MergedMetadata | None:
        files = (self.base, self.ours.file, self.theirs.file)
        base, ours, theirs = (self._last_metadata(list(file.units.values())) for file in files)
        return merge_metadata_lines(base or {}, ours, theirs) if ours is not None and theirs is not None else None

    @staticmethod
    def _last_metadata(units: list[Unit]) -> dict[str, Any] | None:
        return next((unit.fields for unit in reversed(units) if unit.op == METADATA), None)

    # -- order

    def _order_units(self, chosen: dict[Key, Unit]) -> list[Unit]:
        """Shared entries in the order of the side that moved some; an entry of one side follows the same entry as on its side."""
        shared = [key for key in self.ours.units if key in self.theirs.units]
        moved = [key for key in self.theirs.units if key in self.ours.units]
        if [key for key in self.base.units if key in self.ours.units and key in self.theirs.units] == [
            key for key in shared if key in self.base.units
        ]:
            shared = moved
        runs = [_own_runs(side.units, set(shared), chosen) for side in (self.ours, self.theirs)]
        ordered: list[Unit] = []
        for anchor in ((), *shared, _END):
            if anchor in chosen:
                ordered.append(chosen[anchor])
            ordered += _interleave(runs[0].get(anchor, []), runs[1].get(anchor, []))
        self._order = [unit.key for unit in ordered]
        return ordered


def _separate_twins(base: UnitFile, ours: UnitFile, theirs: UnitFile) -> None:
    """Give different keys to different entries that both sides added with one number and time, unless they are one memory's first."""
    twins = {
        key
        for key, unit in ours.units.items()
        if key not in base.units and key in theirs.units and theirs.units[key].text != unit.text and not unit.is_first
    }
    for side in (ours, theirs) if twins else ():
        for key in twins:
            side.units[key].key = (*key, side.units[key].text)
        side.units = {unit.key: unit for unit in side.units.values()}


def _own_runs(units: dict[Key, Unit], shared: set[Key], chosen: dict[Key, Unit]) -> dict[Key, list[list[Unit]]]:
    """The entries that only one side has, by the shared entry before them, in blocks: a transaction is one block."""
    runs: dict[Key, list[list[Unit]]] = {}
    left = sum(key in shared for key in units)
    anchor: Key = () if left else _END
    for key in units:
        if key in shared:
            left -= 1
            anchor = key if left else _END
        elif key in chosen:
            run, unit = runs.setdefault(anchor, []), chosen[key]
            if run and (unit.fields.get("seq") is None or (unit.tx and run[-1][-1].tx == unit.tx)):
                run[-1].append(unit)  # also an entry without a number: its position is its order
            else:
                run.append([unit])
    return runs


def _interleave(ours: list[list[Unit]], theirs: list[list[Unit]]) -> list[Unit]:
    """Merge two runs by number and time; the order within a run is kept."""
    ours, theirs, merged = list(ours), list(theirs), []
    while ours and theirs:
        merged += (ours if ours[0][0].order <= theirs[0][0].order else theirs).pop(0)
    return merged + [unit for block in ours + theirs for unit in block]


def _merge_comments(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    if theirs in (ours, base):
        return ours
    if ours == base:
        return theirs
    known = set(ours.split(b"\n"))
    return ours + b"".join(line + b"\n" for line in theirs.split(b"\n") if line not in known)


def _union(units: list[Unit], more: list[Unit]) -> list[Unit]:
    keys = {unit.key for unit in units}
    return units + [unit for unit in more if unit.key not in keys]


def _is_agent_state(unit: Unit) -> bool:
    return unit.op == PUT and str(unit.fields.get("id", "")).startswith(ids.STATE_PREFIX)


def _fields(unit: Unit) -> dict[str, Any]:
    """The fields that an entry sets."""
    if unit.op == CHANGE:
        return {name: value for name, value in unit.fields["changes"].items() if name not in _NOT_COMPARED}
    inner = next((unit.fields[name] for name in _NESTED if isinstance(unit.fields.get(name), dict)), unit.fields)
    return {name: value for name, value in inner.items() if name not in _ENTRY_FIELDS}


def _by_memory(units: Iterable[Unit], memories: list[str]) -> dict[str, list[Unit]]:
    by_memory: dict[str, list[Unit]] = {memory: [] for memory in memories}
    for unit in units:
        if unit.memory in by_memory and unit.op in (PUT, CHANGE):
            by_memory[unit.memory].append(unit)
    return by_memory


def _values_after(units: list[Unit]) -> dict[str, Any]:
    """The value of each field after these entries."""
    values: dict[str, Any] = {}
    for unit in sorted(units, key=lambda unit: unit.order):
        values.update(_fields(unit))
    return values


def _first_entries(units: list[Unit]) -> list[Unit]:
    return [unit for unit in units if unit.op == PUT]


def _set_field(units: list[Unit], name: str, base: dict[str, Any], state: dict[str, Any]) -> bool:
    """Whether these entries set a field to a value that differs from the base."""
    return any(name in _fields(unit) for unit in units) and (name not in base or state[name] != base[name])


def _setting(units: list[Unit], fields: list[str]) -> list[Unit]:
    return [unit for unit in units if not _fields(unit).keys().isdisjoint(fields)]
