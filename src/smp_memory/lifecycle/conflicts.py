"""Fields that two clones changed to different values, with every value; an `update` with the right one settles a field.

Guarantees: reading changes nothing. Every value stays in the history, whichever is chosen.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.model.clone_merge import concurrent_changes

if TYPE_CHECKING:
    from smp_memory.model.history import RecordHistory
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


class Version(NamedTuple):
    """Values that belong together: those in use, or those that one writer gave beside them."""

    fields: dict[str, Any]
    at: str
    by: str
    is_used: bool  # until somebody decides

    @property
    def key(self) -> str:
        """A name by which a form chooses exactly what it showed."""
        return sha256(json.dumps([self.fields, self.at, self.by], sort_keys=True).encode()).hexdigest()[:16]


class ConcurrentChange(NamedTuple):
    """A memory with fields to settle; the last value of a field is the one in use."""

    record: Record
    fields: dict[str, list[ConcurrentValue]]

    def versions(self) -> list[Version]:
        """Every value once: first the values in use, then the others by their writer."""
        used = {field: values[-1] for field, values in self.fields.items()}
        others: list[dict[str, ConcurrentValue]] = []
        for field, values in self.fields.items():
            for value in values[:-1]:
                fitting = (each for each in others if field not in each and next(iter(each.values())).by == value.by)
                own = next(fitting, None)
                if own is None:
                    others.append(own := {})
                own[field] = value
        return [_version(used, is_used=True), *(_version(each, is_used=False) for each in others)]


def _version(values: dict[str, ConcurrentValue], *, is_used: bool) -> Version:
    writers = dict.fromkeys(each.by for each in values.values() if each.by)
    fields = {field: each.value for field, each in values.items()}
    return Version(fields, max(each.at for each in values.values()), ", ".join(writers), is_used)


def open_conflicts(storage: SessionStore, id: str | None = None) -> list[ConcurrentChange]:
    """The memories of a session, or the one with this id, that have fields to settle."""
    histories = storage.history(None if id is None else [id]).histories.values()
    return [found for each in histories if (found := open_conflict(each, storage.session)) is not None]


def open_conflict(history: RecordHistory, session: str) -> ConcurrentChange | None:
    """The fields to settle of one memory; None if there are none, or if it is deleted."""
    record = history.record(session) if history.deletion is None else None
    if record is None:
        return None
    fields = {
        field: [ConcurrentValue(each.data[field], each.at, each.by, each.file, each.line) for each in entries]
        for field, entries in concurrent_changes(history.entries).items()
    }
    return ConcurrentChange(record, fields) if fields else None
