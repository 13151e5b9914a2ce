"""An index in RAM of histories that are in RAM: for archived sessions, and for a backend without an index of its own.

    index = history_index({"review": session_history.histories}, {}, access_log)
    index.candidates(CandidateRequest(…))

Guarantees: it answers every call of the search port. The records are those of the histories.
Non-guarantees: it is never caught up; a backend makes a new one when a session has changed. There are no embeddings.
"""

from __future__ import annotations

import threading

from smp_memory.errors import SessionNotFound
from smp_memory.index.access_counts import PendingAccesses
from smp_memory.index.full_text_index import FullTextIndex
from smp_memory.index.index import Index, save_problems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from smp_memory.errors import SMPError
    from smp_memory.files.activity import AccessLog
    from smp_memory.index.rows import PlacedRow
    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionInfo

    Histories = Mapping[str, Mapping[str, RecordHistory]]  # by session and id


def history_index(histories: Histories, problems: Mapping[str, list[Problem]], log: AccessLog) -> FullTextIndex:
    """The index of these histories, and the problems that reading them met."""
    return FullTextIndex(HistoryFeed(histories, problems, log))


class HistoryFeed:
    """Feeds an index with histories, once."""

    folder = ""  # it is in RAM

    def __init__(self, histories: Histories, problems: Mapping[str, list[Problem]], log: AccessLog) -> None:
        self._histories = histories
        self.pending = PendingAccesses(log)
        self.mutex = threading.RLock()
        self._index = index = Index(None)
        index.begin()
        for name, by_id in histories.items():
            session = index.rows.new_session(name)
            index.extend(session, by_id.values(), lambda history: "")
            index.rows.save_session(session)
            save_problems(index, name, problems.get(name, ()), grown=False)
        index.commit()
        index.text.refresh()

    def caught_up(self, sessions: list[str] | None) -> Index:
        return self._index

    def refresh(self, index: Index) -> None:
        """Nothing changes."""

    def add_vectors(self, index: Index) -> None:
        """There are no embeddings."""

    def read(self, index: Index, rows: Iterable[PlacedRow], gone: dict[str, LeftOut]) -> dict[int, Record | None]:
        records: dict[int, Record | None] = {}
        for row in rows:
            session = index.rows.session_of(row.doc) or ""
            history = self._histories[session].get(row.id)
            records[row.doc] = history.record(session) if history is not None else None
        return records

    def session_not_found(self, session: str) -> SMPError:
        return SessionNotFound(f"No session {session} in this index.", session=session)

    def recovers(self, index: Index | None, error: BaseException) -> bool:
        return False

    def private(self, sessions: list[str] | None) -> Index:
        return self._index

    def saved_metadata(self, session: str | None = None) -> dict[str, tuple[object, SessionInfo]]:
        return {}

    def count_accesses(self, *, from_start: bool = False) -> None:
        """Nothing to do: accesses are read from the log at every query."""

    def rebuild(self, progress: Callable[[str, int], None] | None = None) -> int:
        return sum(map(len, self._histories.values()))

    def embed_missing(self, seconds: float | None) -> int:
        return 0

    def close(self) -> None:
        self._index.close()
