"""Feed the index with the files of a store, and read records from them. This module and `session_indexer` know both.

Sessions that changed (`store.change_detection`) are read from where the index stopped, and added. So every process finds its own and
others' acknowledged writes, and edits by hand. The index alone is never the answer: records are read from the files, at the positions
that the index knows.
"""

from __future__ import annotations

from smp_memory import store
from smp_memory.observe.telemetry import INDEX, observe
from smp_memory.store.change_detection import ChangeDetector
from smp_memory.store.record_reader import RecordReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.errors import SMPError
    from smp_memory.index.index import Index
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.session_indexer import SessionIndexer

    Progress = Callable[[str, int], None] | None


class FileSource:
    """The source (`smp_memory.index.stored_feed.Source`) of one store in files."""

    def __init__(self, files: FileStore) -> None:
        self._store = files
        self._detector = ChangeDetector(files)
        self._reader = RecordReader(files, self._forget_stats)
        self.records = self._reader.records

    def _forget_stats(self, session: str) -> None:
        self._detector.stats.forget(session)

    def opened(self) -> None:
        self._detector = ChangeDetector(self._store)

    def catch_up(self, index: Index, sessions: list[str] | None, deadline: float, progress: Progress) -> bool:
        self._store.check_layout()  # files that are gone may be there in another layout
        marks = self._store.change_table.read() if sessions is None else b""
        stale = self._detector.changed_sessions(index, sessions, marks)
        if stale:
            observe(INDEX, self._store, self._indexer().index_sessions, index, stale, deadline, progress)
        if sessions is None:
            self._detector.marks = marks
            self._detector.save_check(index, marks)
        return bool(stale)

    def fill(self, index: Index, sessions: list[str] | None) -> None:
        indexer = self._indexer()
        for name in self._store.session_ids() if sessions is None else sessions:
            indexer.index_session(index, name)

    def session_not_found(self, session: str) -> SMPError:
        return self._store.session_not_found(session)

    def live_sessions(self) -> list[str] | None:
        """The live sessions, sorted, if all files were checked a moment ago; None: look at the files."""
        return self._detector.live_sessions()

    def _indexer(self) -> SessionIndexer:
        return store.session_indexer.SessionIndexer(self._store, self._detector, self._reader)
