"""A session as it was at a time, from its files."""

from __future__ import annotations

from smp_memory.error_mapping import maps_errors
from smp_memory.errors import MemoryNotFound
from smp_memory.model.record import Records
from smp_memory.model.times import to_moment, to_text
from smp_memory.model.types import kind_of
from smp_memory.store.incomplete import with_unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem


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
            error = MemoryNotFound(f"{id} was not there at {to_text(self.time)}.", id=id, session=self.session)
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
