"""Three-way merge of a session's files by entries, for git's merge driver. Pure: bytes in, bytes out.

    merged = merge(base, ours, theirs, ".bmad/memory/sessions/shop/findings.jsonl")
    merged.data, merged.conflicts

Entries are known by the uid of their memory, their operation, number and time. What only one side added, edited or removed
is taken over. These are conflicts, which stand between git's markers so that a person decides: an entry that both sides
edited, an entry that one side edited and the other removed, a field that both sides changed to different values, and a
change of a memory that the other side removed.

Guarantees: every entry of both sides is in the result, unless one side removed or edited it and the other left it as it was.
If both sides only appended, the result does not depend on the direction of the merge. Header and comments are kept. What cannot be split
into entries raises `CannotMerge`; nothing is guessed.
Non-guarantees: fields of one entry that both sides edited by hand are not merged.
"""

from __future__ import annotations

import os

from smp_memory.git.entry_files import (
    CHANGE,
    HEAD,
    PUT,
    CannotMerge,
    NotAStoreFile,
    Unit,
    UnitFile,
    list_key,
    normalised,
    split_entries,
    split_lines,
)
from smp_memory.git.metadata_merge import Heads, hunks, merge_heads, merge_mapping_files
from smp_memory.model.types import markdown_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.files.codec import Codec
    from smp_memory.git.entry_files import Key

    TextMerge = Callable[[bytes, bytes, bytes], bytes | None]  # git's text merge of base, ours, theirs; None: conflict

STATE_PREFIX = "STATE-"
_NOT_COMPARED = frozenset(
    ["access", "id"]
)  # use counts: either value is fine; renames: the last one holds, references follow
_OF_AN_ENTRY = frozenset(
    ["access", "smp", "hand", "id", "seq", "tx", "type", "session_id", "uid", "uids", "schema", "timestamp", "ts", "author", "by", "history",
     "revision", "updated", "updated_by"]
)  # fmt: skip
_NESTED = ("data", "content")
_END: Key = ("end of the file",)


class Merged:
    """The merged bytes, and a sentence for each conflict, without content."""

    __slots__ = ("conflicts", "data")

    def __init__(self, data: bytes, conflicts: list[str]) -> None:
        self.data = data
        self.conflicts = conflicts


def merge(base: bytes, ours: bytes, theirs: bytes, path: str, text_merge: TextMerge | None = None) -> Merged:
    """Merge one file of a store. Raises CannotMerge, or NotAStoreFile for a file that is none of the store's."""
    if theirs in (ours, base):
        return Merged(ours, [])
    if ours == base:
        return Merged(theirs, [])
    base, ours, theirs = normalised(base), normalised(ours), normalised(theirs)
    ending = os.path.splitext(path)[1]
    if ending == ".jsonl":
        sides = split_lines(base, is_base=True), split_lines(ours), split_lines(theirs)
        return _Merge(*sides).result()
    if ending == ".json":
        return Merged(*merge_mapping_files(base, ours, theirs, "json", text_merge))
    from smp_memory.files.layouts.markdown import MarkdownLayout
    from smp_memory.git.folded_merge import unfold

    codec = _codec_of(path, ours, theirs)
    if codec is None:
        return Merged(*merge_mapping_files(base, ours, theirs, "yaml", text_merge))
    sides = split_entries(base, codec, is_base=True), split_entries(ours, codec), split_entries(theirs, codec)
    layout, name = MarkdownLayout(), _relative(path)
    if layout.is_own_file(name, ""):
        unfold(*sides, layout, name)
    merged = _Merge(*sides)
    result = merged.result()
    if not result.conflicts:
        _check_readable(result.data, codec, merged.taken)
    return result


def _check_readable(data: bytes, codec: Codec, taken: list[Unit]) -> None:
    """Entries of several lines must read after the merge as they did before it."""
    if sorted(unit.text for unit in split_entries(data, codec).units.values()) != sorted(unit.text for unit in taken):
        raise CannotMerge("the merged entries do not read as they should")


def _codec_of(path: str, ours: bytes, theirs: bytes) -> Codec | None:
    """The codec of a file with entries; None for one that holds a mapping."""
    from smp_memory.files.layouts.markdown import MarkdownLayout

    relative = _relative(path)
    layout = MarkdownLayout()
    if relative.endswith(".yaml"):
        keys = set(map(list_key, filter(None, (ours, theirs))))
        if None in keys:
            if len(keys) > 1:
                raise CannotMerge("one side holds a list of entries, the other does not")
            return None
        if not layout.is_own_file(relative, ""):
            from smp_memory.files.yaml_list import YamlList

            return YamlList(str(keys.pop()))
    if not layout.is_own_file(relative, ""):
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
    """A conflict: what stands on each side of it, and what it is about."""

    def __init__(self, ours: list[Unit], theirs: list[Unit], about: str) -> None:
        self.ours = ours
        self.theirs = theirs
        self.about = [about]

    @property
    def text(self) -> bytes:
        ours, theirs = (b"".join(unit.lead + unit.text for unit in side) for side in (self.ours, self.theirs))
        return hunks([ours], [theirs])


class _Merge:
    """Three files become one."""

    def __init__(self, base: UnitFile, ours: UnitFile, theirs: UnitFile) -> None:
        self.base = base
        _tell_apart(base, ours, theirs)
        variants: dict[Key, set[bytes]] = {}
        for key, unit in base.units.items():  # a merged base may hold several texts of one entry
            variants.setdefault(key, set()).add(unit.text)
            variants.setdefault(key[:-1] if key[-1] == unit.text else key, set()).add(unit.text)
        self.ours, self.theirs = _Side(ours, base, variants), _Side(theirs, base, variants)
        self.hunks: list[_Hunk] = []
        self.in_hunk: dict[Key, _Hunk] = {}
        self.taken: list[Unit] = []  # the units of the result, in order

    def result(self) -> Merged:
        chosen = self._chosen()
        self._conflicting_fields()
        self._changes_of_removed(chosen)
        head = self._head()
        parts = [self._outer("header")]
        for unit in self._ordered(chosen):
            hunk = self.in_hunk.get(unit.key)
            if hunk is None:
                parts.append(unit.lead + unit.text)
                self.taken.append(unit)
            elif unit.key == self._last_of(hunk):
                parts.append(hunk.text)
        if head is not None and (head.conflicts or self._last_head(self.taken) != head.fields):
            parts.append(head.text)
        parts.append(self._outer("trailer"))
        conflicts = [about for hunk in self.hunks for about in hunk.about] + (head.conflicts if head else [])
        return Merged(b"".join(parts), conflicts)

    # -- entry by entry

    def _chosen(self) -> dict[Key, Unit]:
        """What each entry of both sides comes to; an entry that is in conflict stands for its hunk."""
        chosen: dict[Key, Unit] = {}
        for key in [*self.ours.units, *(key for key in self.theirs.units if key not in self.ours.units)]:
            ours, theirs = self.ours.units.get(key), self.theirs.units.get(key)
            if ours is not None and theirs is not None:
                chosen[key] = self._both(key, ours, theirs)
                chosen[key].lead = self._lead(key, ours, theirs)
                continue
            unit, side = (ours, self.ours) if ours is not None else (theirs, self.theirs)
            assert unit is not None
            if key in side.added:
                chosen[key] = unit
            elif key in side.edited:
                chosen[key] = unit
                about = f"{unit.name} was edited on one side and removed on the other."
                self._conflict([unit] if ours else [], [unit] if theirs else [], about)
        return chosen

    def _both(self, key: Key, ours: Unit, theirs: Unit) -> Unit:
        if ours.text == theirs.text or key not in self.theirs.edited | self.theirs.added.keys():
            return ours
        if key not in self.ours.edited | self.ours.added.keys():
            return theirs
        self._conflict([ours], [theirs], f"{ours.name} was edited on both sides.")
        return ours

    def _lead(self, key: Key, ours: Unit, theirs: Unit) -> bytes:
        known = self.base.units.get(key)
        return _comments(known.lead if known else b"", ours.lead, theirs.lead)

    def _outer(self, name: str) -> bytes:
        base, ours, theirs = (getattr(file, name) for file in (self.base, self.ours.file, self.theirs.file))
        if name == "trailer":
            return _comments(base, ours, theirs)
        if not ours or not theirs or theirs in (ours, base):
            return bytes(ours or theirs)
        if ours == base:
            return bytes(theirs)
        raise CannotMerge("both sides changed what stands above the first entry")

    # -- conflicts

    def _conflict(self, ours: list[Unit], theirs: list[Unit], about: str) -> None:
        """Put units between markers, together with the rest of their transactions; one unit is in one hunk only."""
        hunk = _Hunk(self._with_group(ours, self.ours), self._with_group(theirs, self.theirs), about)
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

    def _with_group(self, units: list[Unit], side: _Side) -> list[Unit]:
        """The units with what must stand beside them, whichever side a person takes.

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

    def _conflicting_fields(self) -> None:
        """What both sides changed in one memory, by change entries or in its first entry."""
        ours, theirs = self._touched(self.ours, self.theirs), self._touched(self.theirs, self.ours)
        memories = [memory for memory in ours if memory in theirs]
        before = _by_memory(self.base.units.values(), memories)
        states = [_by_memory(side.units.values(), memories) for side in (self.ours, self.theirs)]
        for memory in memories:
            base, mine, other = (_state(each.get(memory, [])) for each in (before, *states))
            fields = [
                name
                for name in mine.keys() & other.keys()
                if mine[name] != other[name]
                and _set(ours[memory], name, base, mine)
                and _set(theirs[memory], name, base, other)
            ]
            if fields:
                about = f"{ours[memory][0].name}: both sides changed {', '.join(sorted(fields))}."
                our_units, their_units = _touching(ours[memory], fields), _touching(theirs[memory], fields)
                if any(unit.op == PUT and unit.key in self.base.units for unit in our_units + their_units):
                    our_units, their_units = (_union(_first(each[memory]), units) for each, units in zip(states, (our_units, their_units), strict=True))  # fmt: skip
                self._conflict(our_units, their_units, about)

    def _touched(self, side: _Side, other: _Side) -> dict[str, list[Unit]]:
        """Entries that only this side added or edited and that set fields, by memory."""
        found: dict[str, list[Unit]] = {}
        for key, unit in side.units.items():
            is_new = key in side.added and key not in other.units and (unit.op == CHANGE or _is_state(unit))
            is_alike = key in other.units and other.units[key].text == unit.text
            if is_new or (key in side.edited and not is_alike and unit.op in (PUT, CHANGE)):
                found.setdefault(unit.memory, []).append(unit)
        return found

    def _changes_of_removed(self, chosen: dict[Key, Unit]) -> None:
        """A memory that one side changed and the other took out of the file: whole on one side of the conflict."""
        for side, other in ((self.ours, self.theirs), (self.theirs, self.ours)):
            gone = {self.base.units[key].memory for key in other.removed if self.base.units[key].op == PUT}
            gone -= {unit.memory for key, unit in chosen.items() if unit.op == PUT and key not in self.in_hunk}
            changed = {
                unit.memory: unit.name
                for key, unit in side.added.items()
                if unit.memory in gone and key not in other.units and unit.op not in (PUT, HEAD)
            }
            for memory, name in changed.items():
                sides = [[unit for unit in each.units.values() if unit.memory == memory and unit.op != HEAD] for each in (self.ours, self.theirs)]  # fmt: skip
                chosen.update((unit.key, unit) for units in sides for unit in units)
                self._conflict(sides[0], sides[1], f"{name} was changed on one side and removed on the other.")

    def _last_of(self, hunk: _Hunk) -> Key:
        keys = {unit.key for unit in [*hunk.ours, *hunk.theirs]}
        return next(key for key in reversed(self._order) if key in keys)

    # -- the head of a session, in the layout that keeps it among the entries

    def _head(self) -> Heads | None:
        files = (self.base, self.ours.file, self.theirs.file)
        base, ours, theirs = (self._last_head(list(file.units.values())) for file in files)
        return merge_heads(base or {}, ours, theirs) if ours is not None and theirs is not None else None

    @staticmethod
    def _last_head(units: list[Unit]) -> dict[str, Any] | None:
        return next((unit.fields for unit in reversed(units) if unit.op == HEAD), None)

    # -- order

    def _ordered(self, chosen: dict[Key, Unit]) -> list[Unit]:
        """Entries of both sides in the order of the side that moved some; what one side added, behind the same entry as there."""
        shared = [key for key in self.ours.units if key in self.theirs.units]
        moved = [key for key in self.theirs.units if key in self.ours.units]
        if [key for key in self.base.units if key in self.ours.units and key in self.theirs.units] == [
            key for key in shared if key in self.base.units
        ]:
            shared = moved
        runs = [_runs(side.units, set(shared), chosen) for side in (self.ours, self.theirs)]
        ordered: list[Unit] = []
        for anchor in ((), *shared, _END):
            if anchor in chosen:
                ordered.append(chosen[anchor])
            ordered += _interleaved(runs[0].get(anchor, []), runs[1].get(anchor, []))
        self._order = [unit.key for unit in ordered]
        return ordered


def _tell_apart(base: UnitFile, ours: UnitFile, theirs: UnitFile) -> None:
    """Two sides may have added different entries of one number and time: these are two, unless they are one memory's first."""
    twins = {
        key
        for key, unit in ours.units.items()
        if key not in base.units and key in theirs.units and theirs.units[key].text != unit.text and not unit.is_first
    }
    for side in (ours, theirs) if twins else ():
        for key in twins:
            side.units[key].key = (*key, side.units[key].text)
        side.units = {unit.key: unit for unit in side.units.values()}


def _runs(units: dict[Key, Unit], shared: set[Key], chosen: dict[Key, Unit]) -> dict[Key, list[list[Unit]]]:
    """What only one side has, by the shared entry before it, in blocks: a transaction is one block."""
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
                run[-1].append(unit)  # also an entry without a number: it stands, in order, where it stands
            else:
                run.append([unit])
    return runs


def _interleaved(ours: list[list[Unit]], theirs: list[list[Unit]]) -> list[Unit]:
    """Two runs as one, by number and time; within a run the order stays."""
    ours, theirs, merged = list(ours), list(theirs), []
    while ours and theirs:
        merged += (ours if ours[0][0].order <= theirs[0][0].order else theirs).pop(0)
    return merged + [unit for block in ours + theirs for unit in block]


def _comments(base: bytes, ours: bytes, theirs: bytes) -> bytes:
    if theirs in (ours, base):
        return ours
    if ours == base:
        return theirs
    known = set(ours.split(b"\n"))
    return ours + b"".join(line + b"\n" for line in theirs.split(b"\n") if line not in known)


def _union(units: list[Unit], more: list[Unit]) -> list[Unit]:
    keys = {unit.key for unit in units}
    return units + [unit for unit in more if unit.key not in keys]


def _is_state(unit: Unit) -> bool:
    return unit.op == PUT and str(unit.fields.get("id", "")).startswith(STATE_PREFIX)


def _fields(unit: Unit) -> dict[str, Any]:
    """The fields that an entry sets."""
    if unit.op == CHANGE:
        return {name: value for name, value in unit.fields["changes"].items() if name not in _NOT_COMPARED}
    inner = next((unit.fields[name] for name in _NESTED if isinstance(unit.fields.get(name), dict)), unit.fields)
    return {name: value for name, value in inner.items() if name not in _OF_AN_ENTRY}


def _by_memory(units: Iterable[Unit], memories: list[str]) -> dict[str, list[Unit]]:
    found: dict[str, list[Unit]] = {memory: [] for memory in memories}
    for unit in units:
        if unit.memory in found and unit.op in (PUT, CHANGE):
            found[unit.memory].append(unit)
    return found


def _state(units: list[Unit]) -> dict[str, Any]:
    """The value of each field after these entries."""
    values: dict[str, Any] = {}
    for unit in sorted(units, key=lambda unit: unit.order):
        values.update(_fields(unit))
    return values


def _first(units: list[Unit]) -> list[Unit]:
    return [unit for unit in units if unit.op == PUT]


def _set(units: list[Unit], name: str, base: dict[str, Any], state: dict[str, Any]) -> bool:
    """Whether these entries gave a field its value, which is another one than before."""
    return any(name in _fields(unit) for unit in units) and (name not in base or state[name] != base[name])


def _touching(units: list[Unit], fields: list[str]) -> list[Unit]:
    return [unit for unit in units if not _fields(unit).keys().isdisjoint(fields)]
