"""Read the memories of one session: by id or type, their history, as of a time, figures."""

from __future__ import annotations

from smp_memory.errors import InvalidRecord, MemoryNotFound, maps_errors
from smp_memory.model.record import Records
from smp_memory.model.reports import Stats
from smp_memory.model.times import parse, to_moment, to_text
from smp_memory.model.types import kind_of
from smp_memory.observe.incomplete import with_unreadable
from smp_memory.write.operations import id_of
from smp_memory.write.validation import quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from smp_memory.model.history import SessionHistory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.store.port import SessionStore


def find(storage: SessionStore, id: Any) -> Record | None:
    """The memory with this id, deleted ones too; None if there never was one."""
    name = id_of(id)
    history = storage.history([name]).histories.get(name)
    return history.record(storage.session) if history else None


def records(
    storage: SessionStore, type: str | None = None, *, last: int | None = None, include_deleted: bool = False
) -> Records:
    """All memories, or those of one type, oldest first; the last ones of a type without reading a large session."""
    kind = kind_of(type).name if type is not None else None
    if last is not None and not hasattr(last, "__index__"):
        raise InvalidRecord(f"last: must be a whole number, not {quoted(last)}.", field="last")
    session_history = storage.history() if include_deleted else storage.history(kind=kind, last=last)
    found = _selected(session_history, storage.session, kind, include_deleted, last)
    return Records(found, session_history.unreadable)


def _selected(
    session_history: SessionHistory, session: str, kind: str | None, include_deleted: bool, last: int | None
) -> list[Record]:
    histories = [
        history
        for history in session_history.histories.values()
        if (kind is None or history.first.type == kind) and (include_deleted or history.deletion is None)
    ]
    if last is not None:
        histories = (
            histories[len(histories) - last :]
            if 0 < last < len(histories)
            else histories[: len(histories) if last > 0 else 0]
        )
    records = (history.record(session) for history in histories)
    return [record for record in records if record is not None]


def history(storage: SessionStore, id: Any) -> list[dict[str, Any]] | None:
    """What happened to a memory, oldest first; None if there never was one."""
    name = id_of(id)
    history = storage.history([name]).histories.get(name)
    return history.steps() if history is not None else None


def as_of(storage: SessionStore, time: datetime | str) -> Snapshot:
    """The session as it was at a time, from the files alone."""
    until = parse(time, "time")
    session_history = storage.history()
    records = [history.record(storage.session, until) for history in session_history.histories.values()]
    found = [record for record in records if record is not None]
    return Snapshot(storage.session, until, found, session_history.unreadable)


@maps_errors
class Snapshot:
    """A session as it was at a time; read-only."""

    def __init__(self, session: str, time: str, records: list[Record], problems: list[Problem] | None = None) -> None:
        self.session = session
        self.problems = problems or []
        self.time = to_moment(time)
        self._records = {record.id: record for record in records}

    def get(self, id: Any) -> Record:
        record = self._records.get(id)
        if record is None or record.deleted:
            error = MemoryNotFound(f"{id} did not exist at {to_text(self.time)}.", id=id, session=self.session)
            raise with_unreadable(error, self.problems)
        return record

    def records(self, type: str | None = None, *, include_deleted: bool = False) -> Records:
        kind = kind_of(type).name if type is not None else None
        found = [record for record in self._records.values() if kind in (None, record.type)]
        return Records((record for record in found if include_deleted or not record.deleted), self.problems)

    def __iter__(self) -> Any:
        return iter(self.records())

    def __len__(self) -> int:
        return len(self.records())

    def __repr__(self) -> str:
        return f"Snapshot({self.session} at {to_text(self.time)}, {len(self)} memories)"


def stats(storage: SessionStore) -> Stats:
    """Counts by type, bytes by file, how full it is, first and last write."""
    session_history = storage.history()
    sizes = storage.sizes()
    quota = storage.config.quota_bytes
    total = sum(sizes.values())
    return Stats(
        {
            "session": storage.session,
            **_figures(session_history),
            "bytes": total,
            "files": sizes,
            "quota_bytes": quota,
            "utilisation": round(total / quota, 4),
            "problems": len(session_history.unreadable),
        }
    )


def _figures(session_history: SessionHistory) -> dict[str, Any]:
    counts: dict[str, int] = {}
    deleted = entries = 0
    first = last = None
    for history in session_history.histories.values():
        entries += len(history.entries)
        if history.deletion is not None:
            deleted += 1
            continue
        counts[history.first.type] = counts.get(history.first.type, 0) + 1
        latest = history.entries[-1].at
        first = history.first.at if first is None else min(first, history.first.at)
        last = latest if last is None else max(last, latest)
    return {
        "memories": sum(counts.values()),
        "by_type": counts,
        "deleted": deleted,
        "entries": entries,
        "first": first,
        "last": last,
    }
