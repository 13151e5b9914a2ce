"""Merge the entries of two clones of a store: duplicate ids, references to them, order, and concurrent changes.

A memory is identified by its id and its uid (`smp_memory.model.entry`). If several memories have one id, the one created first keeps
it; each later one is shown under the next free id, and references to it follow. The result depends on the set of entries
only, not on their order in the files. A *rename*, a change of the field `id`, makes a shown id permanent: the writer
appends it, so that later memories cannot shift the id. Entries that a person typed do not take an id from a stored memory.

If a person gives a memory another id in its first entry, its other entries still have the old id and its uid: they follow
the memory, as long as no other one has that uid.

Memories typed by hand have no uid. Several of them with one id are distinguished by a digest of their first entry.

A change states its revision: one more than its writer had seen. A change whose writer had not seen all changes before it is
concurrent with the unseen ones. If two concurrent changes give a field different values, the last one in order wins, and a
`conflicting_change` problem names both until a later change, made with knowledge of both, writes the field.
"""

from __future__ import annotations

from zlib import crc32

from smp_memory.model import ids
from smp_memory.model.entry import CHANGE, MAINTENANCE_FIELDS, PUT, Entry, is_revision
from smp_memory.model.record import same
from smp_memory.model.reports import Problem
from smp_memory.model.types import KINDS, PREFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Key = tuple[str, str]  # id and uid


POINTING = frozenset(["references", "relations", "turn_ref"])  # fields that hold ids of other memories
RENAME = "id"  # the field of a change that gives a memory another id


class ReadableIds:
    """The ids under which memories of a session are shown, where they differ from the ids in the files."""

    __slots__ = ("shown", "typed", "unsettled")

    def __init__(self) -> None:
        self.shown: dict[Key, str] = {}
        self.typed: dict[str, str] = {}  # id of several puts without a uid -> uid of the put that its changes belong to
        self.unsettled: dict[str, Entry] = {}  # shown ids that no rename has made permanent -> the put in the file

    def __bool__(self) -> bool:
        return bool(self.shown or self.typed)

    def resolved(self, entry: Entry) -> Entry:
        """The entry with the shown ids; the same object if nothing differs."""
        uid = self.uid_of(entry)
        name = self.shown.get((entry.id, uid), entry.id)
        moved = dict(self._moved(entry.uids)) if entry.uids else None
        if name == entry.id and uid == entry.uid and not moved:
            return entry
        twin = entry.copy()
        twin.id, twin.uid = name, uid
        if moved and entry.uids:
            twin.data = with_targets(entry.data, moved)
            twin.uids = {moved.get(target, target): each for target, each in entry.uids.items()}
        return twin

    def uid_of(self, entry: Entry) -> str:
        if entry.uid or entry.id not in self.typed:
            return entry.uid
        return digest_of(entry) if entry.op == PUT else self.typed[entry.id]

    def _moved(self, uids: dict[str, str]) -> Iterator[tuple[str, str]]:
        """Pairs (old, new) of the reference targets whose memory is shown under another id."""
        for target, uid in uids.items():
            session, slash, id = target.rpartition("/")
            name = self.shown.get((id, uid))
            if name is not None:
                yield target, f"{session}{slash}{name}"

    def to_list(self) -> list[Any]:
        """The form stored in the index; without `unsettled`, which only writers need."""
        return [[[*key, name] for key, name in self.shown.items()], self.typed]

    @classmethod
    def from_list(cls, stored: list[Any]) -> ReadableIds:
        names = cls()
        if stored:
            names.shown = {(id, uid): name for id, uid, name in stored[0]}
            names.typed = dict(stored[1])
        return names


def names_of(entries: Iterable[Entry], floor: dict[str, int]) -> ReadableIds:
    """Assign the shown ids. `floor` has the highest numbers ever given out by prefix, including those of purged memories."""
    puts: dict[str, list[Entry]] = {}
    claims: dict[Key, list[str]] = {}
    amended: dict[Key, None] = {}
    for entry in entries:
        if entry.op == PUT:
            puts.setdefault(entry.id, []).append(entry)
            continue
        if entry.uid:
            amended[entry.id, entry.uid] = None
        if is_rename(entry):
            claims.setdefault((entry.id, entry.uid), []).append(entry.data[RENAME])
    names = ReadableIds()
    firsts: dict[Key, Entry] = {}
    for id, those in puts.items():
        if len(those) > 1 and len(typed := _typed(those)) > 1:
            names.typed[id] = typed[0]
        for put in those:
            firsts.setdefault((id, names.uid_of(put)), put)
    _assign(names, firsts, {key: said for key, said in claims.items() if key in firsts}, floor)
    left = amended.keys() - firsts.keys()
    only = only_ids(firsts) if left else {}
    for key in left:
        id = only.get(key[1], "")
        for old in (key[0], *claims.get(key, ())) if id else ():
            names.shown.setdefault((old, key[1]), names.shown.get((id, key[1]), id))
    return names


def only_ids(keys: Iterable[Key]) -> dict[str, str]:
    """The id of each uid that only one memory has."""
    found: dict[str, str] = {}
    for id, uid in keys:
        found[uid] = "" if uid in found else id
    return {uid: id for uid, id in found.items() if uid and id}


def _assign(names: ReadableIds, firsts: dict[Key, Entry], claims: dict[Key, list[str]], floor: dict[str, int]) -> None:
    claimants: dict[str, list[Key]] = {}
    for key in firsts:
        claimants.setdefault(claims[key][-1] if key in claims else key[0], []).append(key)

    def age(key: Key) -> tuple[bool, str, int, str, str]:
        put = firsts[key]  # a typed entry may have any time; it does not take an id from a memory that was stored
        return not put.uid or put.state == "unsigned", put.at[:-1], put.seq if put.uid else 0, key[1], key[0]

    final = {key: claims[key][-1] for key in claims}
    losers = [key for keys in claimants.values() if len(keys) > 1 for key in sorted(keys, key=age)[1:]]
    free = FreeIds(
        {*claimants, *(id for id, _ in firsts), *(id for claimed in claims.values() for id in claimed)}, floor
    )
    for key in sorted(losers, key=age):
        final[key] = name = free.next(key[0])
        names.unsettled[name] = firsts[key]
    for key, name in final.items():
        for each in (key[0], *claims.get(key, ())):
            if each != name:
                names.shown[each, key[1]] = name


class FreeIds:
    """Gives out ids that no memory has; `floor` has the highest numbers ever given out by prefix."""

    def __init__(self, taken: set[str], floor: dict[str, int]) -> None:
        self._taken = taken
        self._numbers = dict(floor)
        self._suffixes: dict[str, int] = {}
        for prefix, number in map(ids.parts_of, taken):
            if prefix in PREFIXES and number > self._numbers.get(prefix, 0):
                self._numbers[prefix] = number

    def next(self, id: str) -> str:
        """The next number of a numbered id; `name-2` for an id chosen by the caller."""
        prefix, number = ids.parts_of(id)
        if prefix in PREFIXES and number:
            self._numbers[prefix] = self._numbers.get(prefix, 0) + 1
            return ids.numbered(prefix, self._numbers[prefix])
        number = self._suffixes.get(id, 2)
        while f"{id}-{number}" in self._taken:
            number += 1
        self._taken.add(f"{id}-{number}")
        self._suffixes[id] = number + 1  # keeps it linear when a file repeats one id very often
        return f"{id}-{number}"


def _typed(puts: list[Entry]) -> list[str]:
    """The distinct digests of the puts without a uid. States of one agent are one memory."""
    return list(dict.fromkeys(digest_of(put) for put in puts if not put.uid and not KINDS[put.type].is_named_by_agent))


def is_same_put(put: Entry, other: Entry) -> bool:
    return put.at == other.at and same(put.data, other.data)


def digest_of(put: Entry) -> str:
    """A uid for a memory without one: a digest of its put."""
    return ids.uid_of_number(crc32(f"{put.at}\0{put.data!r}".encode(errors="replace")))


def is_rename(entry: Entry) -> bool:
    return entry.op == CHANGE and RENAME in entry.data and _is_id(entry.data[RENAME])


def _is_id(value: object) -> bool:
    return isinstance(value, str) and ids.is_valid(value, ids.LIMIT + 8)


# -- references


def targets_of(data: dict[str, Any]) -> list[str]:
    """The ids that the fields of a memory refer to, as written there."""
    found: list[str] = []
    with_targets(data, _TargetCollector(found))
    return found


class _TargetCollector(dict[str, str]):
    """A mapping that changes nothing and records each key it is asked for."""

    def __init__(self, found: list[str]) -> None:
        self._found = found

    def get(self, key: str, default: Any = None) -> Any:
        self._found.append(key)
        return default


def with_targets(data: dict[str, Any], moved: dict[str, str]) -> dict[str, Any]:
    """A copy of the fields with references to the moved ids replaced."""
    return {name: _with_moved(value, moved) if name in POINTING else value for name, value in data.items()}


def _with_moved(value: Any, moved: dict[str, str]) -> Any:
    if isinstance(value, str):
        return moved.get(value, value)
    if isinstance(value, list):
        return [_with_moved(item, moved) for item in value]
    if isinstance(value, dict):
        inner = ("target",) if "target" in value else tuple(value)
        return {name: _with_moved(item, moved) if name in inner else item for name, item in value.items()}
    return value


# -- order


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Sort by number; entries with the same number from two clones get an order that does not depend on the files."""
    ordered = sorted(entries, key=_number)
    start = 0
    for end in range(1, len(ordered) + 1):
        if end == len(ordered) or ordered[end].seq != ordered[start].seq:
            if end - start > 1:
                ordered[start:end] = sorted(ordered[start:end], key=_rank)
            start = end
    return ordered


def _number(entry: Entry) -> int:
    return entry.seq


def _rank(entry: Entry) -> tuple[bool, str, str, str, bool, str, int, str, str]:
    """Typed entries, which have no number of their own, stand behind the numbered one before them, by time and id."""
    typed = entry.state == "unsigned" or entry.seq == 0  # numbers begin with 1
    uid = "" if typed else entry.uid  # that of a typed entry is a digest of its text and comes after its id
    order = typed, entry.at[:-1], uid, entry.id, entry.op != PUT, entry.op, entry.revision
    return *order, entry.uid, repr(entry.data)


_CHANGES_COMPARED = 2000  # the newest changes of one memory


def conflicting_changes(entries: list[Entry]) -> Iterator[Problem]:
    """A problem for each field of `concurrent_changes`."""
    for field, changes in concurrent_changes(entries).items():
        yield _problem(entries[0].id, field, changes[0], changes[-1])


def concurrent_changes(entries: list[Entry]) -> dict[str, list[Entry]]:
    """The changes to different values, by field, that no later change of the field has seen; the value of the last one is in use."""
    changes = [entry for entry in entries[1:] if is_revision(entry)]
    if all(_has_seen_all(entry, number) for number, entry in enumerate(changes)):
        return {}
    skipped = max(0, len(changes) - _CHANGES_COMPARED)
    changes = changes[skipped:]
    seen = _seen(changes, skipped)
    writers: dict[str, list[int]] = {}
    for number, entry in enumerate(changes):
        for field in entry.data if entry.op == CHANGE else ():
            if field not in MAINTENANCE_FIELDS:
                writers.setdefault(field, []).append(number)
    found: dict[str, list[Entry]] = {}
    for field, those in writers.items():
        known = 0
        for number in those:
            known |= seen[number]
        last = changes[those[-1]]
        unseen = [changes[number] for number in those[:-1] if not known >> number & 1]
        others = [each for each in unseen if not same(each.data[field], last.data[field])]
        if others:
            found[field] = [*others, last]
    return found


def _has_seen_all(entry: Entry, before: int) -> bool:
    """Whether the writer had seen all changes before this one; true for changes typed by hand without a revision."""
    return entry.revision > before + 1 or not entry.revision


def _seen(changes: list[Entry], skipped: int) -> list[int]:
    """For each change, a bit set of the earlier changes that its writer certainly had seen. The put is revision 1."""
    seen: list[int] = []
    known_at: dict[int, int] = {}  # revision -> what all changes of that revision have seen, each including itself
    for number, entry in enumerate(changes):
        knows_all = _has_seen_all(entry, skipped + number)
        known = (1 << number) - 1 if knows_all else known_at.get(entry.revision - 1, 0)
        seen.append(known)
        including_itself = known | 1 << number
        known_at[entry.revision] = known_at.get(entry.revision, including_itself) & including_itself
    return seen


def _problem(id: str, field: str, other: Entry, entry: Entry) -> Problem:
    message = (
        f"{field} of {id} was changed at {other.file}:{other.line} and here, concurrently in two clones, to different "
        f"values. This one is used until one is chosen: `smp git resolve {id}`, or `smp edit {id}` (or update) with the right value."
    )
    return Problem(entry.file, entry.line, "conflicting_change", message, "warning", id)
