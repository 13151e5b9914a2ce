"""Build records from entries: one pure history of a session, used for reading, writing, `as_of` and validation.

Guarantees: the same set of entries gives the same records, whatever their order in the files and however they were split
over files or arrivals. Memories are identified by id and uid: if two clones gave out the same id, the later memory is shown
under the next free id (`smp_memory.model.clone_merge`). An entry that cannot be applied (a change of a
memory that does not exist) becomes a problem and affects no other entry.
Non-guarantees: order of `created`; records come in the order in which they were written.
"""

from __future__ import annotations

import gc

from smp_memory.model import ids
from smp_memory.model.clone_merge import (
    RENAME,
    ReadableIds,
    conflicting_changes,
    in_order,
    is_rename,
    is_same_put,
    names_of,
    only_ids,
)
from smp_memory.model.entry import (
    CHANGE,
    DELETE,
    PUT,
    RESTORE,
    Entry,
    is_maintenance,
    is_revision,
    set_type,
    transaction_range,
)
from smp_memory.model.record import CLASSES, Record, copied, same
from smp_memory.model.reports import Problem
from smp_memory.model.types import KINDS, PREFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.model.storage_reports import ColdMemory

HOT, COLD = "hot", "cold"  # segments of a session: its entries, and those that compaction moved away
_SETS_FIELDS = (CHANGE, PUT)


class PausedCollection:
    """Pauses the garbage collector while many entries are read: they hold no cycles, and collecting costs most of the time."""

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()


class RecordHistory:
    """The entries of one memory, oldest first, and the state that they add up to; each entry is merged once."""

    __slots__ = ("_merged", "_merged_count", "deletion", "entries", "first", "last", "revision")

    def __init__(self, first: Entry) -> None:
        self.first = first
        self.entries = [first]
        self.last = first  # the last entry that changed a field
        self.revision = 1
        self.deletion: Entry | None = None  # the deletion in effect
        self._merged = first.data
        self._merged_count = 1

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)
        if entry.op in _SETS_FIELDS:  # a second put: the state of an agent from another clone
            if not is_maintenance(entry):
                self.revision += 1
                self.last = entry
        else:
            self.deletion = entry if entry.op == DELETE else None

    def owns(self, entry: Entry) -> bool:
        """Whether an entry belongs to this memory, not to one of another clone with the same id, and does not rename it."""
        return entry.uid == self.first.uid and not is_rename(entry)

    def copy(self) -> RecordHistory:
        twin = RecordHistory(self.first)
        twin.entries = list(self.entries)
        twin.last, twin.revision, twin.deletion = self.last, self.revision, self.deletion
        twin._merged, twin._merged_count = self._merged, self._merged_count
        return twin

    def data(self) -> dict[str, Any]:
        """The current fields. Read-only: records share the dictionary."""
        if self._merged_count < len(self.entries):
            merged = dict(self._merged)
            for entry in self.entries[self._merged_count :]:
                if entry.op in _SETS_FIELDS:
                    merged.update(entry.data)
            merged.pop(RENAME, None)
            self._merged = {key: value for key, value in merged.items() if value is not None}
            self._merged_count = len(self.entries)
        return self._merged

    def has_key(self, key: str) -> bool:
        """Whether this is a live preference with this key."""
        is_keyed = KINDS[self.first.type].is_named_by_key
        return is_keyed and self.deletion is None and str(self.data().get("key")) == key

    def record(self, session: str, until: str | None = None) -> Record | None:
        """The memory now, or as of a time; None if it did not exist at that time."""
        if until is not None:
            return self._until(until).record(session) if not after(self.first.at, until) else None
        return CLASSES[self.first.type](session, self.first, self.data(), self.last, self.revision, self.deletion)

    def _until(self, until: str) -> RecordHistory:
        past = RecordHistory(self.first)
        for entry in self.entries[1:]:
            if not after(entry.at, until):
                past.append(entry)
        return past

    def superseded(self) -> list[Entry]:
        """The changes that a later change supersedes. The first entry stays, because it has the creation time and the author."""
        later = self.entries[1:]
        changes = [entry for entry in later if is_revision(entry)]
        return changes[:-1] if all(entry.op == CHANGE for entry in later) and not self.has_equal_numbers() else []

    def has_equal_numbers(self) -> bool:
        """Whether two clones gave one number to two entries. Such a memory stays, because the cold segment identifies entries by number."""
        return len({entry.seq for entry in self.entries}) < len(self.entries)

    def steps(self, *, with_edits: bool = True) -> list[dict[str, Any]]:
        """The steps of the history: who did what and when, each changed field with its value before and after. Uses are left out.

        An entry that was edited by hand has no `by`, because its author did not write the present text.
        """
        steps: list[dict[str, Any]] = []
        now: dict[str, Any] = {}
        revision = 0
        for entry in self.entries:
            if is_maintenance(entry):
                continue
            step: dict[str, Any] = {"op": entry.op, "at": entry.at, "by": entry.by}
            if entry.op == PUT:
                step["by"] = entry.data.get("author")
            if entry.op in (PUT, CHANGE):
                revision += 1
                step["changes"] = {
                    key: {"from": copied(now.get(key)), "to": copied(value)} for key, value in entry.data.items()
                }
                now.update(entry.data)
            else:
                step["reason"] = entry.data.get("reason")
            if with_edits and entry.state == "edited":
                step["by"], step["edited_by_hand"] = None, True
            steps.append({"revision": revision, **step})
        return steps


class SessionHistory:
    """The memories of one session, by id, in the order in which they were written.

    Entries that arrive in order are added one by one. Anything else (an id given out twice, one number in two entries, a
    late arrival) rebuilds the whole history from the set of entries, so that the order of arrival does not matter.
    """

    def __init__(self, floor: Callable[[], dict[str, int]] | None = None) -> None:
        self._floor = floor  # the numbers in the session's metadata: they include those of purged memories
        self.unreadable: list[Problem] = []  # entries that the backend could not read, each logged once
        self.moved: list[ColdMemory] = []  # of a cold segment: when and why each memory was moved there
        self.earlier: list[Entry] = []  # of a cold segment: earlier states of memories that stayed in the session
        self._snapshot: SessionHistory | None = None  # as it was handed out; valid until something is added
        self._unshared: set[str] | None = None  # ids whose histories no snapshot shares; None: all
        self._entries: list[Entry] = []  # with the ids in the files
        self._parts: dict[str, set[int]] = {}  # transaction -> the numbers that have arrived
        self._reserved: tuple[int, dict[str, int]] = (0, {})  # numbers of entries that are not shown
        self.is_rebuilt = False
        self._clear(ReadableIds())

    def _clear(self, names: ReadableIds) -> None:
        self.names = names
        self.histories: dict[str, RecordHistory] = {}
        self.numbers: dict[str, int] = dict(self._reserved[1])  # the largest number given out, by prefix
        self.seq = self._reserved[0]
        self.idempotent: dict[str, str] = {}  # idempotency key -> id
        self.preferences: dict[str, str] = {}  # preference key -> id of the latest preference with it
        self.problems: list[Problem] = []
        self.orphans: dict[str, list[Entry]] = {}  # entries of memories whose put has not arrived yet
        self._is_in_order = True  # False: something makes the order of arrival matter
        self._is_rebuilding = False
        self._unshared = None

    def snapshot(self) -> SessionHistory:
        """This history as it is now, for callers that do not change it; what is added later is not in it. Cheap."""
        if self._snapshot is None:
            twin = self._snapshot = SessionHistory()
            self._unshared = set()
            twin.histories, twin.numbers, twin.seq = dict(self.histories), dict(self.numbers), self.seq
            twin.names = self.names
            twin.idempotent, twin.preferences = dict(self.idempotent), dict(self.preferences)
            twin.problems, twin.orphans = list(self.problems), {id: list(found) for id, found in self.orphans.items()}
        return self._snapshot

    def subset(self, ids: Iterable[str]) -> SessionHistory:
        """The histories of these memories alone, as they are now."""
        twin = SessionHistory()
        twin.histories = {id: self.histories[id].copy() for id in ids if id in self.histories}
        return twin

    def add(self, entries: Iterable[Entry]) -> None:
        self._snapshot = None
        arrived = sorted(entries, key=_number)
        self._entries += arrived
        if self.names:
            arrived = [self.names.resolved(entry) for entry in arrived]
        for entry in arrived:
            self._add(entry)
        if not self._is_in_order or (self.orphans and self._has_followers()):
            self._rebuild()

    def _has_followers(self) -> bool:
        """Whether something happened to a memory that has another id now, by hand."""
        only = only_ids((id, history.first.uid) for id, history in self.histories.items())
        return any(entry.uid in only for entries in self.orphans.values() for entry in entries)

    def _rebuild(self) -> None:
        ordered = in_order(self._entries)
        self._clear(names_of(ordered, self._floor() if self._floor is not None else {}))
        self._is_rebuilding = self.is_rebuilt = True
        names = self.names
        for entry in map(names.resolved, ordered) if names else ordered:
            self._add(entry)
        for name, put in names.unsettled.items():
            self._report_duplicate_id(name, put)
        for history in self.histories.values():
            self.problems += conflicting_changes(history.entries)
        self._is_rebuilding, self._is_in_order = False, True

    def _add(self, entry: Entry) -> None:
        if entry.seq > self.seq:
            self.seq = entry.seq
        else:
            self._is_in_order = False
        if entry.tx:
            self._parts.setdefault(entry.tx, set()).add(entry.seq)
        if entry.op == PUT:
            self._put(entry)
        else:
            self._amend(entry)

    def _put(self, entry: Entry) -> None:
        known = self.histories.get(entry.id)
        if known is not None:
            self._put_again(known, entry)
            return
        self.histories[entry.id] = RecordHistory(entry)
        prefix, number = ids.parts_of(entry.id)
        if number > self.numbers.get(prefix, 0) and prefix in PREFIXES and "id" not in entry.lacks:
            self.numbers[prefix] = number
        if "idempotency_key" in entry.data or "key" in entry.data:
            self._index_keys(entry)
        if entry.id in self.orphans:
            self._adopt(entry.id)

    def _put_again(self, known: RecordHistory, entry: Entry) -> None:
        """Handle a second put: a copy, the state of one agent from two clones, or a line that was edited on two branches."""
        self._is_in_order = False
        if not self._is_rebuilding:
            return
        first = known.first
        if is_same_put(first, entry):
            self._report(entry, "duplicate_entry", f"{entry.id} is a second, identical copy; it counts once.", "note")
        elif first.type == entry.type and KINDS[first.type].is_named_by_agent:
            known.append(entry)
        else:
            message = (
                f"{entry.id} stands here and at {first.file}:{first.line} with different text: it was edited on two branches, or "
                "copied and edited. The other one is used; keep one of the two, or give this one an id of its own."
            )
            self._report(entry, "conflicting_put", message, "error")

    def _index_keys(self, entry: Entry) -> None:
        if entry.data.get("key") is not None and KINDS[entry.type].is_named_by_key:
            self.preferences[str(entry.data["key"])] = entry.id
        key = entry.data.get("idempotency_key")
        if isinstance(key, str):  # a hand-typed value may be of any type
            known = self.histories.get(self.idempotent.get(key, ""))
            if known is None or known.deletion is not None:  # after a deletion the key can be used again
                self.idempotent[key] = entry.id

    def _adopt(self, name: str) -> None:
        """Apply the entries that arrived before the put of their memory."""
        self.problems = [problem for problem in self.problems if problem.code != "orphan" or problem.id != name]
        for entry in self.orphans.pop(name):
            self._amend(entry)

    def _amend(self, entry: Entry) -> None:
        history = self.histories.get(entry.id)
        if history is not None and entry.uid != history.first.uid and entry.uid and history.first.uid:
            self._is_in_order = False  # the memory of another clone with this id
            history = None
        if history is None:
            action = {CHANGE: "a change", DELETE: "a deletion", RESTORE: "a restoration"}[entry.op]
            self._report(entry, "orphan", f"{action} of {entry.id}, which does not exist.", "warning")
            self.orphans.setdefault(entry.id, []).append(entry)
            return
        if entry.type != history.first.type and (problem := set_type(entry, history.first.type)):
            self._report(entry, "invalid", problem, "error")
            return
        if entry.seq <= history.entries[-1].seq and _has_copy(history.entries, entry):
            message = f"this change of {entry.id} is a second, identical copy; it counts once."
            self._report(entry, "duplicate_entry", message, "note")
            return
        if is_rename(entry):
            self._is_in_order = False
        if is_revision(entry):
            self._check_change(entry, history)
        if self._unshared is not None and entry.id not in self._unshared:
            history = self.histories[entry.id] = history.copy()
            self._unshared.add(entry.id)
        history.append(entry)

    def _check_change(self, entry: Entry, history: RecordHistory) -> None:
        if entry.revision > history.revision + 1:
            message = f"revision {entry.revision} of {entry.id} follows revision {history.revision}; one is missing."
            self._report(entry, "revision_gap", message, "warning")
        if entry.revision <= history.revision:
            self._is_in_order = False  # concurrent with another change
        self._index_keys(entry)

    def _report_duplicate_id(self, name: str, put: Entry) -> None:
        message = f"another memory already has the id {put.id}; this one is shown as {name}. The next write makes that permanent."
        severity = "note" if put.uid else "warning"
        self.problems.append(Problem(put.file, put.line, "duplicate_id", message, severity, name))

    def _report(self, entry: Entry, code: str, message: str, severity: str) -> None:
        self.problems.append(Problem(entry.file, entry.line, code, message, severity, entry.id))

    def renames(self, seq: int) -> list[Entry]:
        """Entries that make the shown ids permanent, numbered from `seq + 1`. Two clones write identical ones."""
        renames: list[Entry] = []
        for name, put in self.names.unsettled.items():
            history = self.histories[name]
            uid, at = self.names.uid_of(put), history.entries[-1].at
            number, revision = seq + len(renames) + 1, history.revision
            renames.append(Entry(CHANGE, put.type, put.id, at, {RENAME: name}, number, uid=uid, revision=revision))
        return renames

    def numbers_of(self, mark: str) -> set[int]:
        """The numbers of an unfinished transaction that have arrived."""
        return self._parts.get(mark, set())

    def reserve(self, entry: Entry) -> None:
        """Count the number and the id of an entry that is not shown, and all numbers of its transaction, as given out."""
        seq, numbers = self._reserved
        prefix, number = ids.parts_of(entry.id)
        numbers[prefix] = max(numbers.get(prefix, 0), number)
        self._reserved = max(seq, *(transaction_range(entry.tx) or (entry.seq,))[:2]), numbers
        self.seq = max(self.seq, self._reserved[0])
        self.numbers[prefix] = max(self.numbers.get(prefix, 0), number)

    def unfinished(self) -> list[str]:
        """Transactions of which entries are missing. Complete ones are dropped from the bookkeeping."""
        for mark in list(self._parts):
            limits = transaction_range(mark)
            if limits is None or limits[1] - limits[0] + 1 <= len(self._parts[mark]):
                del self._parts[mark]
        return list(self._parts)


def after(time: str, other: str) -> bool:
    """Compare two canonical times; without their `Z`, text order is time order."""
    return time[:-1] > other[:-1]


def _has_copy(entries: list[Entry], entry: Entry) -> bool:
    """Whether an identical entry with this number exists; a late arrival is compared when the history is rebuilt."""
    index = len(entries) - 1
    while index > 0 and entries[index].seq >= entry.seq:
        if _is_copy(entry, entries[index]):
            return True
        index -= 1
    return False


def _is_copy(entry: Entry, other: Entry) -> bool:
    return entry.seq == other.seq and entry.op == other.op and entry.at == other.at and same(entry.data, other.data)


def _number(entry: Entry) -> int:
    return entry.seq


# -- ids and numbers for new entries, given out under the session's lock


class IdAllocator:
    """The numbers given out in a session and, once loaded, its memories. A rejected batch leaves no gap: it works on a copy."""

    __slots__ = ("numbers", "seq", "session_history")

    def __init__(self, seq: int, numbers: dict[str, int], session_history: SessionHistory | None = None) -> None:
        self.seq = seq
        self.numbers = numbers
        self.session_history = session_history

    def copy(self) -> IdAllocator:
        return IdAllocator(self.seq, dict(self.numbers), self.session_history)

    def raise_to(self, seq: int, numbers: dict[str, int]) -> None:
        """Raise the counters to these values; counters never decrease."""
        self.seq = max(self.seq, seq)
        for prefix, number in numbers.items():
            self.number_used(prefix, number)

    def next_seq(self) -> int:
        self.seq += 1
        return self.seq

    def next_number(self, prefix: str) -> int:
        number = self.numbers.get(prefix, 0) + 1
        self.numbers[prefix] = number
        return number

    def number_used(self, prefix: str, number: int) -> None:
        if number > self.numbers.get(prefix, 0):
            self.numbers[prefix] = number

    def history(self, memory_id: str) -> RecordHistory | None:
        return self.session_history.histories.get(memory_id) if self.session_history else None

    def idempotent(self, key: str) -> str | None:
        return self.session_history.idempotent.get(key) if self.session_history else None

    def preference(self, key: str) -> str | None:
        """The id of the live preference with this key."""
        if self.session_history is None or key not in self.session_history.preferences:
            return None
        histories = self.session_history.histories
        last = self.session_history.preferences[key]
        if last in histories and histories[last].has_key(key):
            return last
        # the latest one was deleted or has another key now
        return next((name for name in reversed(histories) if histories[name].has_key(key)), None)


# -- hand edits without effect, because a later change overwrites the edited fields


class OverlaidEdit:
    """A hand-edited value that differs from the current value of the memory."""

    __slots__ = ("edited", "field", "later", "revision", "value")

    def __init__(self, field: str, value: Any, edited: Entry, later: Entry, revision: int) -> None:
        self.field = field
        self.value = value
        self.edited = edited
        self.later = later  # the change that overwrites it
        self.revision = revision  # of that change


def overlaid_in(history: RecordHistory) -> list[OverlaidEdit]:
    """Fields of hand-edited entries whose value differs from the current one. Which fields were edited is not known."""
    if len(history.entries) == 1:
        return []
    entries = [entry for entry in history.entries if is_revision(entry)]
    if all(entry.state != "edited" for entry in entries[:-1]):
        return []
    now = history.data()
    found: dict[str, OverlaidEdit] = {}
    for number, entry in enumerate(entries[:-1]):
        for field, value in entry.data.items() if entry.state == "edited" else ():
            later = [(n, each) for n, each in enumerate(entries[number + 1 :], number + 2) if field in each.data]
            if any(_is_folded_into(each, entry) for _, each in later):
                continue
            if later and field != "access" and not same(now.get(field), value):
                revision, change = later[-1]
                found[field] = OverlaidEdit(field, value, entry, change, revision)
    return list(found.values())


def _is_folded_into(entry: Entry, other: Entry) -> bool:
    """Whether two entries are parts of one folded entry, which shows only the later value."""
    return entry.part is not None and other.part is not None and (entry.file, entry.place) == (other.file, other.place)


def overlaid_problems(history: RecordHistory) -> list[Problem]:
    return [_problem(each) for each in overlaid_in(history)]


def _problem(found: OverlaidEdit) -> Problem:
    edited, later = found.edited, found.later
    where = f"line {later.line}" if later.file == edited.file else f"{later.file}:{later.line}"
    message = (
        f"{edited.id}: `{found.field}` in line {edited.line}, which was edited by hand, is overwritten by revision {found.revision} at {where}. "
        f"To make the edited value the current one: smp edit --adopt {edited.id}"
    )
    return Problem(edited.file, edited.line, "overlaid", message, "warning", edited.id)
