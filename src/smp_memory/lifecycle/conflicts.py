"""Fields that two clones changed to different values, with every value; an `update` with the right one settles a field.

Guarantees: reading changes nothing. Every value stays in the history, whichever is chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.model.clone_merge import concurrent_changes

if TYPE_CHECKING:
    from smp_memory.model.record import Record
    from smp_memory.store.port import SessionStore


class ConcurrentValue(NamedTuple):
    """One of the values: who wrote it, when, and where it stands."""

    value: Any
    at: str
    by: str | None
    file: str
    line: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"value": self.value, "at": self.at, "by": self.by}


class ConcurrentChange(NamedTuple):
    """A memory with fields to settle; the last value of a field is the one in use."""

    record: Record
    fields: dict[str, list[ConcurrentValue]]


def open_conflicts(storage: SessionStore, id: str | None = None) -> list[ConcurrentChange]:
    """The memories of a session, or the one with this id, that have fields to settle."""
    found = []
    for history in storage.history(None if id is None else [id]).histories.values():
        record = history.record(storage.session) if history.deletion is None else None
        if record is None:
            continue
        changes = concurrent_changes(history.entries)
        fields = {
            field: [ConcurrentValue(each.data[field], each.at, each.by, each.file, each.line) for each in entries]
            for field, entries in changes.items()
        }
        if fields:
            found.append(ConcurrentChange(record, fields))
    return found
