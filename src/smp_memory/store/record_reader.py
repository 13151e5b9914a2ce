"""Read records and histories from the files at the positions that the index knows.

Guarantees: a returned record was read from the files and is the requested memory; if something else is at that position
by now, the session itself is read.
"""

from __future__ import annotations

import os

from smp_memory.errors import SMPError
from smp_memory.files.disk import retry_mapped
from smp_memory.files.entry_fields import decode_entries
from smp_memory.model.clone_merge import ReadableIds
from smp_memory.model.history import RecordHistory
from smp_memory.observe.incomplete import SESSION_GONE, left_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.disk import Disk


class SpanReader:
    """Reads byte ranges of several files and opens each file once. A context manager."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._descriptors: dict[str, int] = {}

    def read(self, path: str, start: int, length: int) -> bytes:
        """The bytes of a range; fewer if the file ends there. Raises FileNotFoundError."""
        descriptor = self._descriptors.get(path)
        if descriptor is None:
            descriptor = self._descriptors[path] = self._disk.open_read(path)
        try:
            found = self._disk.system.pread(descriptor, length, start)
            return found if len(found) == length else self._disk.read_open(descriptor, start, length)
        except OSError as error:
            return retry_mapped(error, path, "reading a file", lambda: self._disk.read_once(path, start, length))

    def __enter__(self) -> SpanReader:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors.values():
            self._disk.system.close(descriptor)
        self._descriptors.clear()


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.index.index import Index
    from smp_memory.index.rows import IndexedSession, PlacedRow
    from smp_memory.index.searcher import Searcher
    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.record import Record
    from smp_memory.store.file_store import FileStore

    class PlacedFiles(Protocol):
        """Where the files of sessions are."""

        @property
        def root(self) -> str: ...
        @property
        def layout(self) -> Layout: ...
        @property
        def disk(self) -> Disk: ...

    class IndexedNames(Protocol):
        """What the positions of a row refer to."""

        def name_of(self, number: int) -> str: ...
        def session(self, id: str) -> IndexedSession | None: ...


MARK = "~ "  # before the positions of memories of a session in which an id was allocated twice
_MAX_FOLDERS = 1000  # cached folder paths


class PlaceReader:
    """Reads histories at the positions of rows; needs no open store."""

    def __init__(self, files: PlacedFiles) -> None:
        self._files = files
        self._folders: dict[str, str] = {}

    def history(self, rows: IndexedNames, session: str, row: Any, spans: SpanReader) -> RecordHistory | None:
        """The history of a memory, read at its positions; None if something else is there."""
        layout, name_of, history, names, places = self._files.layout, rows.name_of, None, None, row.places
        if places.startswith(MARK):
            known = rows.session(session)
            names, places = ReadableIds.from_list(known.names if known is not None else []), places[len(MARK) :]
        separate = places.split(" ")
        for place in dict.fromkeys(separate) if len(separate) > 1 else separate:  # folded entries share a position
            number, begin, size = place.split(":")
            file, start, length = name_of(int(number)), int(begin), int(size)
            path = f"{self._folder(session)}{os.sep}{file}"
            try:
                pieces = layout.codec_of(file).decode(spans.read(path, start, length), start, 1)
                if len(pieces) != 1 or pieces[0].fields is None or pieces[0].start != start:
                    return None
                entries = decode_entries(
                    layout.field_names, pieces[0].fields, layout.kind_of(file), pieces[0].state, path, 0, 0
                )
            except (OSError, SMPError):
                return None
            for found in entries:
                if found.lacks:
                    return None  # its id and time follow from the whole session
                found.place = (start, start + length)
                entry = names.resolved(found) if names is not None else found
                if entry.id != row.id:
                    return None
                if history is None:
                    if entry.op != "put":
                        return None
                    history = RecordHistory(entry)
                else:
                    entry.type = history.first.type
                    history.append(entry)
        return history

    def _folder(self, session: str) -> str:
        folder = self._folders.get(session)
        if folder is None:
            if len(self._folders) >= _MAX_FOLDERS:
                self._folders.clear()
            folder = self._folders[session] = self._files.layout.folder(self._files.root, session)
        return folder


class RecordReader:
    """Reads records and histories for rows of the index."""

    def __init__(self, store: FileStore, distrust: Callable[[str], object] = lambda session: None) -> None:
        """`distrust` is called with a session that differs from the index."""
        self._store = store
        self._distrust = distrust
        self._places = PlaceReader(store)

    def records(
        self, index: Index, rows: Iterable[PlacedRow], gone: dict[str, LeftOut] | None = None
    ) -> dict[int, Record | None]:
        """The records of these rows; None for a memory that no longer exists.

        `gone` gets the sessions that were archived or deleted since the index was caught up.
        """
        found: dict[int, Record | None] = {}
        gone = {} if gone is None else gone
        with SpanReader(self._store.disk) as spans:
            for row in rows:
                session = index.rows.session_of(row.doc)
                if session is not None:
                    history = self.history(index, session, row, spans)
                    record = (
                        history.record(session)
                        if history is not None
                        else self._record_by_reading(session, row.id, gone)
                    )
                    found[row.doc] = record
        return found

    def _record_by_reading(self, session: str, id: str, gone: dict[str, LeftOut]) -> Record | None:
        """Read the session, because the entry was changed a moment ago or is in an unfinished plan."""
        self._distrust(session)
        try:
            history = self._store.session(session).history().histories.get(id)
        except SESSION_GONE as error:
            if session not in gone:
                gone[session] = left_out(session, error)
            return None
        record: Record | None = history.record(session) if history is not None else None
        return record

    def history(self, index: Index, session: str, row: Any, spans: SpanReader) -> RecordHistory | None:
        """The history of a memory, read at its positions; None if something else is there."""
        return self._places.history(index.rows, session, row, spans)


def history_by_index(store: FileStore, session: str, id: str) -> RecordHistory | None:
    """The history of a memory without reading its session; None if it is not where the index says."""

    def read(searcher: Searcher) -> RecordHistory | None:
        found = searcher.placed([f"{session}/{id}"])
        if not found:
            return None
        with SpanReader(store.disk) as spans:
            return RecordReader(store).history(searcher.index, session, found[0], spans)

    return store.indexer.answer(read, None, [session])
