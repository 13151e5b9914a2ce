"""What stands where the index says? Records from the files, entry by entry.

Guarantees: what is handed out was read from the files and is the memory that was asked for; if something else stands
there by now, the session itself is read.
"""

from __future__ import annotations

import os

from smp.errors import SessionNotFound, SMPError
from smp.files.disk import Spans
from smp.index.rows import POSITION_BITS
from smp.model.fold import Trail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp.index.index import Index
    from smp.index.rows import Row
    from smp.model.entry import Entry
    from smp.model.record import Record
    from smp.store.file_store import FileStore


class RecordReader:
    def __init__(self, store: FileStore, distrust: Callable[[str], None]) -> None:
        """`distrust` is told which session is not as the index says."""
        self._store = store
        self._distrust = distrust

    def records(self, index: Index, rows: Iterable[Row]) -> dict[int, Record | None]:
        """The memories of these rows, from the files. None for one that is not there any more."""
        found: dict[int, Record | None] = {}
        names: dict[int, str | None] = {}
        with Spans(self._store.disk) as spans:
            for row in rows:
                number = row.doc >> POSITION_BITS
                if number not in names:
                    names[number] = index.rows.one("SELECT id FROM session WHERE no = ?", (number,))
                session = names[number]
                if session is None:
                    continue
                trail = self.trail(index, session, row, spans)
                found[row.doc] = (
                    trail.record(session) if trail is not None else self._record_by_reading(session, row.id)
                )
        return found

    def _record_by_reading(self, session: str, id: str) -> Record | None:
        """What is not where the index says: it was changed a moment ago, or stands in a plan."""
        self._distrust(session)
        try:
            trail = self._store.session(session).view(lambda fold: fold.trails.get(id))
        except SessionNotFound:
            return None
        record: Record | None = trail.record(session) if trail is not None else None
        return record

    def trail(self, index: Index, session: str, row: Row, spans: Spans) -> Trail | None:
        """All that happened to a memory, read from where it stands; None if something else stands there."""
        store = self._store
        folder = store.layout.folder(store.root, session)
        trail: Trail | None = None
        for place in row.places.split(" "):
            number, start, length = map(int, place.split(":"))
            file = index.rows.name_of(number)
            entry = self._entry(f"{folder}{os.sep}{file}", file, start, length, spans)
            if entry is None or (entry.id != row.id and not row.id.startswith(entry.id + "-dup")):
                return None
            if trail is None:
                if entry.op != "put":
                    return None
                entry.id = row.id  # the second of two with one id has another one
                trail = Trail(entry)
            else:
                entry.type = trail.first.type
                trail.append(entry)
        return trail

    def _entry(self, path: str, file: str, start: int, length: int, spans: Spans) -> Entry | None:
        layout = self._store.layout
        try:
            data = spans.read(path, start, length)
            pieces = layout.codec_of(file).decode(data, start, 1)
            if len(pieces) != 1 or pieces[0].fields is None or pieces[0].start != start:
                return None
            entry = layout.dialect.decode(pieces[0].fields, layout.kind_of(file), pieces[0].state, path, 0, 0)
        except (OSError, SMPError):
            return None
        entry.place = (start, start + length)
        return entry
