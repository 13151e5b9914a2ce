"""The history of one memory, and a snapshot of a session at a time.

The history of a memory in a large session that this process has not read is read at the positions that the index knows;
a command that shows one memory would read ten megabytes otherwise.

Guarantees: a history was read from the files just now, as `record_reader` does it, and holds all that was acknowledged
before. No index is built for it: without one, and if the memory is not where the index says, the session is read.
"""

from __future__ import annotations

from smp_memory.error_mapping import maps_errors
from smp_memory.errors import MemoryNotFound
from smp_memory.files.partial_reader import SpanReader
from smp_memory.model.record import Records
from smp_memory.model.times import to_moment, to_text
from smp_memory.model.types import kind_of
from smp_memory.store.incomplete import with_unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.finder import Finder

_LARGE_BYTES = 1 << 20  # reading less takes no longer than opening the index


def history_of(session: FileSession, id: str) -> RecordHistory | None:
    """The history of a memory; None if it never existed."""
    history = _by_index(session, id) if _is_index_faster(session) else None
    if history is None:
        history = session.view(lambda session_history: session_history.histories.get(id))
    return history


def _is_index_faster(session: FileSession) -> bool:
    if session.reader.states or sum(session.sizes().values()) < _LARGE_BYTES:
        return False
    return session.store.disk.exists(session.store.indexer.folder)


def _by_index(session: FileSession, id: str) -> RecordHistory | None:
    store, name = session.store, session.session

    def read(finder: Finder) -> RecordHistory | None:
        row = finder.row(name, id)
        if row is None:
            return None
        with SpanReader(store.disk) as spans:
            return store.indexer.reader.history(finder.index, name, row, spans)

    return store.indexer.answer([name], read)


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
