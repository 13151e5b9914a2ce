"""Read what is new in the files of sessions into the index.

A session from which the index has read before is read from where that ended, unless it changed in another way than by appended entries;
then it is indexed anew. Loaded when a session has changed; most queries find that none has.
"""

from __future__ import annotations

import time

from smp_memory.errors import SMPError
from smp_memory.files.partial_reader import IncrementReader
from smp_memory.index.index import save_problems
from smp_memory.index.session_updates import index_appended, index_in_chunks
from smp_memory.model.clone_merge import ReadableIds
from smp_memory.model.history import RecordHistory
from smp_memory.store.change_detection import are_settled
from smp_memory.store.record_reader import MARK, SpanReader
from smp_memory.store.session_metadata import describe_metadata

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.index.index import Index
    from smp_memory.index.rows import IndexedSession, Row
    from smp_memory.model.entry import Entry
    from smp_memory.store.change_detection import ChangeDetector
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.record_reader import RecordReader

_TRIES = 5


class SessionIndexer:
    """Indexes sessions of one store. The caller holds the mutex of the index."""

    def __init__(self, store: FileStore, detector: ChangeDetector, reader: RecordReader) -> None:
        self._store = store
        self._detector = detector
        self._records = reader

    def _reader(self, name: str, known: IndexedSession | None) -> IncrementReader:
        store = self._store
        begun = (known.files, ReadableIds.from_list(known.names)) if known is not None and known.whole else ()
        return IncrementReader(store.disk, store.layout, store.root, name, *begun)

    def index_sessions(
        self, index: Index, names: list[str], deadline: float, progress: Callable[[str, int], None] | None
    ) -> int:
        """Index what is new in these sessions; returns the number of new memories."""
        try:
            return index_in_chunks(index, names, self.index_session, deadline, progress)
        except BaseException:
            for name in names:
                self._detector.stats.forget(name)
            raise

    def index_session(self, index: Index, name: str) -> int:
        """Index what is new in one session; returns the number of new memories."""
        store = self._store
        known = index.rows.session(name)
        if not store.layout.exists(store.disk, store.root, name):
            if known is not None:
                index.remove(known)
                save_problems(index, name, (), grown=False)
            self._detector.stats.forget(name)
            self._detector.indexed.discard(name)
            return 0
        self._detector.indexed.add(name)
        if known is None:
            known = index.rows.new_session(name)
        size, identity, now = known.size, store.session_identity(name), time.time_ns()
        paths = self._detector.stats.stat_session(name)
        reader = self._read(name, known)
        if not self._index_appended(index, known, reader):
            if reader.reread or known.files:
                reader = self._read(name, None)
            if not reader.session_history.histories and store.session_identity(name) != identity:
                index.remove(known)  # archived or deleted while it was read; a later query indexes it if restored
                self._detector.stats.forget(name)
                self._detector.indexed.discard(name)
                return 0
            index.replace(known, reader.session_history.histories.values(), self._places(index, reader))
            known.whole = not reader.session_history.orphans
            known.names = reader.session_history.names.to_list() if reader.session_history.names else []
            known.seq = 0
            size = 0
            save_problems(index, name, reader.problems(), grown=False)
        else:
            save_problems(index, name, reader.problems(), grown=True)
        known.seq = max(known.seq, reader.session_history.seq)
        known.files = dict(reader.cursors())
        is_settled = are_settled(paths, now) and all(cursor[8] for cursor in known.files.values())
        if is_settled and self._detector.stats.matches_cursors(name, known.files, paths):
            known.watched, known.stats = self._detector.stats.remember(name, paths)
        else:
            known.watched = known.stats = b""
            self._detector.stats.forget(name)
        known.about = describe_metadata(store, reader, known.about, now)
        index.rows.save_session(known)
        return known.size - size

    def _read(self, name: str, known: IndexedSession | None) -> IncrementReader:
        """Read what is new, with all files in the state of one moment, because positions follow the order of writing."""
        reader = self._reader(name, known)
        for attempt in range(_TRIES):
            before = reader.identities()
            reader.catch_up()
            if reader.is_overlaid:
                self._finish_plan(name, attempt)
                reader = self._reader(name, known)
            elif before == reader.identities():
                break
        return reader

    def _finish_plan(self, name: str, attempt: int) -> None:
        """Wait for a committed plan to reach the files; finish it if its writer died."""
        time.sleep(0.002 * attempt)
        if attempt == 2:
            try:
                self._store.session(name).run_locked("finishing a transaction", lambda: None)
            except (SMPError, OSError):
                pass  # a read-only disk: records are then read through the plan

    def _index_appended(self, index: Index, known: IndexedSession, reader: IncrementReader) -> bool:
        """Index appended entries; False if the session changed in another way."""
        if reader.reread or not known.whole or not known.files:
            return False
        if any(not cursor[8] and not reader.has_checksum(file) for file, cursor in known.files.items()):
            return False  # changed within the clock tick in which it was read
        with SpanReader(self._store.disk) as spans:

            def read(row: Row) -> RecordHistory | None:
                return self._records.history(index, known.id, row, spans)

            places = self._places(index, reader)
            return index_appended(index, known, reader.session_history, places, read) is not None

    @staticmethod
    def _places(index: Index, reader: IncrementReader) -> Callable[[RecordHistory], str]:
        start = len(reader.folder) + 1
        numbers: dict[str, int] = {}

        def place(entry: Entry) -> str:
            number = numbers.get(entry.file)
            if number is None:
                number = numbers[entry.file] = index.rows.number_of(entry.file[start:])
            first, end = entry.place
            return f"{number}:{first}:{end - first}"

        mark = MARK if reader.session_history.names else ""

        def places(history: RecordHistory) -> str:
            return mark + (place(history.first) if len(history.entries) == 1 else " ".join(map(place, history.entries)))

        return places
