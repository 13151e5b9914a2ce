"""What do the entries add up to? One pure fold, used for reading, for writing, for `as_of` and for checking.

Guarantees: the same entries give the same records, however they were split over files or arrivals. An entry that
makes no sense (a change of something that is not there, a second memory with a used id) becomes a problem and costs
nothing else: the second memory with an id is shown as `DEC-0007-dup2` until `repair` gives it an id of its own.
Non-guarantees: order of `created`; records come in the order in which they were written.
"""

from __future__ import annotations

from smp.model import ids
from smp.model.entry import CHANGE, DELETE, PUT, RESTORE, Entry, transaction_range
from smp.model.record import CLASSES, Record, copied, same
from smp.model.report import Problem
from smp.model.types import PREFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class Trail:
    """All that happened to one memory, oldest first, and what it comes to; each new entry is taken in once."""

    __slots__ = ("_merged", "_merged_count", "deletion", "entries", "first", "last", "revision")

    def __init__(self, first: Entry) -> None:
        self.first = first
        self.entries = [first]
        self.last = first  # the last entry that changed a field
        self.revision = 1
        self.deletion: Entry | None = None  # the deletion that holds
        self._merged = first.data
        self._merged_count = 1

    def append(self, entry: Entry) -> None:
        self.entries.append(entry)
        if entry.op == CHANGE:
            self.revision += 1
            if not _is_use(entry):  # to be found is not to be changed
                self.last = entry
        else:
            self.deletion = entry if entry.op == DELETE else None

    def copy(self) -> Trail:
        twin = Trail(self.first)
        twin.entries = list(self.entries)
        twin.last, twin.revision, twin.deletion = self.last, self.revision, self.deletion
        twin._merged, twin._merged_count = self._merged, self._merged_count
        return twin

    def data(self) -> dict[str, Any]:
        """The fields as they stand. Not to be changed: records share it."""
        if self._merged_count < len(self.entries):
            merged = dict(self._merged)
            for entry in self.entries[self._merged_count :]:
                if entry.op == CHANGE:
                    merged.update(entry.data)
            self._merged = {key: value for key, value in merged.items() if value is not None}
            self._merged_count = len(self.entries)
        return self._merged

    def changed_since(self, revision: int) -> bool:
        """Whether it is another memory than at that revision; that it was used makes no difference."""
        if revision == self.revision:
            return False
        changes = [entry for entry in self.entries if entry.op in (PUT, CHANGE)]
        return (
            type(revision) is not int or not 0 < revision < self.revision or not all(map(_is_use, changes[revision:]))
        )

    def has_key(self, key: str) -> bool:
        """Whether this is a preference that stands under this key."""
        return self.first.type == "preference" and self.deletion is None and str(self.data().get("key")) == key

    def record(self, session: str, until: str | None = None) -> Record | None:
        """The memory as it stands, or as it stood at a time; None if it was not there yet."""
        if until is not None:
            return self._until(until).record(session) if not after(self.first.at, until) else None
        return CLASSES[self.first.type](session, self.first, self.data(), self.last, self.revision, self.deletion)

    def _until(self, until: str) -> Trail:
        return self._of([entry for entry in self.entries[1:] if not after(entry.at, until)])

    def in_order(self) -> Trail:
        """The same entries in the order in which they were written."""
        return self._of(sorted(self.entries[1:], key=_number))

    def _of(self, entries: list[Entry]) -> Trail:
        twin = Trail(self.first)
        for entry in entries:
            twin.append(entry)
        return twin

    def history(self, *, with_edits: bool = True) -> list[dict[str, Any]]:
        """Who did what, when: each change with its field's value before and after.

        An entry that a person edited in the file has no `by`, because its author did not write it as it stands.
        """
        steps: list[dict[str, Any]] = []
        now: dict[str, Any] = {}
        revision = 0
        for entry in self.entries:
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


class Fold:
    """The memories of one session, by id, in the order in which they were written."""

    def __init__(self) -> None:
        self.trails: dict[str, Trail] = {}
        self.numbers: dict[str, int] = {}  # the largest number given out, by prefix
        self.seq = 0
        self.idempotent: dict[str, str] = {}  # idempotency key -> id
        self._twins: dict[str, int] = {}  # the next number of a second memory with an id
        self.preferences: dict[str, str] = {}  # preference key -> id of the one that had it last
        self.problems: list[Problem] = []
        self._parts: dict[str, set[int]] = {}  # transaction -> numbers seen
        self.orphans: dict[str, list[Entry]] = {}  # what happened to memories that have not been seen yet

    def add(self, entries: Iterable[Entry]) -> None:
        before = self.seq
        arrived = sorted(entries, key=_number)
        for entry in arrived:
            self._add(entry)
        if arrived and arrived[0].seq < before:
            self._put_in_order()

    def _put_in_order(self) -> None:
        """Something came late, because a reader looks at one file after the other."""
        trails = {name: trail.in_order() if len(trail.entries) > 2 else trail for name, trail in self.trails.items()}
        self.trails = dict(sorted(trails.items(), key=_first_number))

    def _add(self, entry: Entry) -> None:
        if entry.seq > self.seq:
            self.seq = entry.seq
        if entry.tx:
            self._parts.setdefault(entry.tx, set()).add(entry.seq)
        if entry.op == PUT:
            self._put(entry)
        else:
            self._amend(entry)

    def _put(self, entry: Entry) -> None:
        known = self.trails.get(entry.id)
        if known is not None:
            if known.first.at == entry.at and same(known.first.data, entry.data):
                self._report(entry, "duplicate_entry", f"{entry.id} stands here twice, word for word.", "warning")
                return
            entry = self._renamed(entry)
        self.trails[entry.id] = Trail(entry)
        prefix, number = ids.parts_of(entry.id)
        if number > self.numbers.get(prefix, 0) and prefix in PREFIXES and "id" not in entry.lacks:
            self.numbers[prefix] = number
        if "idempotency_key" in entry.data or entry.type == "preference":
            self._know_key(entry)
        if entry.id in self.orphans:
            self._adopt(entry.id)

    def _know_key(self, entry: Entry) -> None:
        if entry.type == "preference" and entry.data.get("key") is not None:
            self.preferences[str(entry.data["key"])] = entry.id
        key = entry.data.get("idempotency_key")
        if isinstance(key, str):  # a person may have typed anything
            known = self.trails.get(self.idempotent.get(key, ""))
            if known is None or known.deletion is not None:  # what was deleted may have been added again
                self.idempotent[key] = entry.id

    def _adopt(self, name: str) -> None:
        """The memory has come after what happened to it."""
        self.problems = [problem for problem in self.problems if problem.code != "orphan" or problem.id != name]
        for entry in self.orphans.pop(name):
            self._amend(entry)

    def _renamed(self, entry: Entry) -> Entry:
        number = self._twins.get(entry.id, 2)
        while f"{entry.id}-dup{number}" in self.trails:
            number += 1
        self._twins[entry.id] = number + 1  # a file may repeat an id very often
        name = f"{entry.id}-dup{number}"
        self._report(
            entry,
            "duplicate_id",
            f"another memory already has the id {entry.id}; this one is shown as {name}. `smp repair` gives it an id of its own.",
            "warning",
        )
        twin = Entry(
            PUT,
            entry.type,
            name,
            entry.at,
            entry.data,
            seq=entry.seq,
            tx=entry.tx,
            state=entry.state,
            file=entry.file,
            line=entry.line,
        )
        twin.place, twin.uid, twin.uids, twin.lacks = entry.place, entry.uid, entry.uids, entry.lacks
        return twin

    def _amend(self, entry: Entry) -> None:
        trail = self.trails.get(entry.id)
        if trail is None:
            what = {CHANGE: "a change", DELETE: "a deletion", RESTORE: "a restoration"}[entry.op]
            self._report(entry, "orphan", f"{what} of {entry.id}, which is not there.", "warning")
            self.orphans.setdefault(entry.id, []).append(entry)
            return
        entry.type = trail.first.type  # a deletion written by hand may not say it
        if entry.seq <= trail.entries[-1].seq and any(_is_copy(entry, other) for other in trail.entries[1:]):
            self._report(
                entry, "duplicate_entry", f"this change of {entry.id} stands here twice, word for word.", "warning"
            )
            return
        if entry.op == CHANGE and entry.revision != trail.revision + 1:
            expected = trail.revision + 1
            message = f"revision {entry.revision} of {entry.id} follows revision {expected - 1}; one is missing or stands twice."
            self._report(entry, "revision_gap", message, "warning")
        if entry.op == CHANGE:
            self._know_key(entry)
        trail.append(entry)

    def _report(self, entry: Entry, code: str, message: str, severity: str) -> None:
        self.problems.append(Problem(entry.file, entry.line, code, message, severity, entry.id))

    def unfinished(self) -> list[str]:
        """Transactions of which a part has not been seen. Whole ones are forgotten."""
        for mark in list(self._parts):
            limits = transaction_range(mark)
            if limits is None or limits[1] - limits[0] + 1 <= len(self._parts[mark]):
                del self._parts[mark]
        return list(self._parts)


def after(time: str, other: str) -> bool:
    """Compare two canonical times; without their `Z`, text order is time order."""
    return time[:-1] > other[:-1]


def _is_copy(entry: Entry, other: Entry) -> bool:
    return entry.seq == other.seq and entry.op == other.op and entry.at == other.at and same(entry.data, other.data)


def _is_use(entry: Entry) -> bool:
    """Maintenance writes how often a memory was used into its file."""
    return len(entry.data) == 1 and "access" in entry.data


def _number(entry: Entry) -> int:
    return entry.seq


def _first_number(item: tuple[str, Trail]) -> int:
    return item[1].first.seq
