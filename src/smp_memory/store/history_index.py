"""An index in RAM of histories that are in RAM: for archived sessions, and for a backend without an index of its own.

    index = HistoryIndex({"review": session_history.histories}, {}, access_log)
    index.answer(None, lambda searcher: …)

Guarantees: the searcher answers every query of the port. The records are those of the histories.
Non-guarantees: it is never caught up; a backend makes a new one when a session has changed.
"""

from __future__ import annotations

import threading

from smp_memory.errors import SessionNotFound
from smp_memory.index.index import Index
from smp_memory.index.rows import POSITION_BITS
from smp_memory.store.access_counts import PendingAccesses
from smp_memory.store.searcher import Searcher
from smp_memory.store.unreadable import save_problems
from smp_memory.store.visible_index import VisibleSearcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    from smp_memory.files.activity import AccessLog
    from smp_memory.index.rows import Row
    from smp_memory.model.hits import LeftOut
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.store.port import Histories

    T = TypeVar("T")


class HistoryIndex:
    """The index of these histories (by session and id), and the problems that reading them met."""

    def __init__(self, histories: Histories, problems: Mapping[str, list[Problem]], log: AccessLog) -> None:
        self._histories = histories
        self._problems = problems
        self._pending = PendingAccesses(log)
        self._mutex = threading.RLock()
        self._index = self._build()

    folder = ""  # it is in RAM

    def _build(self) -> Index:
        index = Index(None)
        index.begin()
        for name, by_id in self._histories.items():
            session = index.rows.new_session(name)
            index.extend(session, by_id.values(), lambda history: "")
            index.rows.save_session(session)
            save_problems(index, name, self._problems.get(name, ()), grown=False)
        index.commit()
        index.text.refresh()
        return index

    def answer(
        self,
        sessions: list[str] | None,
        work: Callable[[Searcher], T],
        *,
        with_others: bool = False,
        by_meaning: bool = False,
        viewer: Viewer | None = None,
    ) -> T:
        """Call `work` with a searcher. There are no embeddings, and nothing to catch up."""
        missing = next((name for name in sessions or () if name not in self._histories), None)
        if missing is not None:
            raise SessionNotFound(f"No session {missing} in this index.", session=missing)
        searcher = Searcher(self._index, self._pending, self._read)
        with self._mutex:
            self._index.rows.do("BEGIN")
            try:
                return work(searcher if viewer is None else VisibleSearcher(searcher, viewer))
            finally:
                self._index.rows.roll_back()

    def _read(self, index: Index, rows: Iterable[Row], gone: dict[str, LeftOut]) -> dict[int, Record | None]:
        records: dict[int, Record | None] = {}
        for row in rows:
            session = index.rows.session_name(row.doc >> POSITION_BITS) or ""
            history = self._histories[session].get(row.id)
            records[row.doc] = history.record(session) if history is not None else None
        return records

    def saved_metadata(self) -> dict[str, tuple[object, SessionInfo]]:
        return {}

    def count_all_accesses(self, *, from_start: bool = False) -> None:
        """Nothing to do: accesses are read from the log at every query."""

    def rebuild(self, progress: Callable[[str, int], None] | None = None) -> int:
        return sum(map(len, self._histories.values()))

    def close(self) -> None:
        with self._mutex:  # not while another thread reads it
            self._index.close()
