"""Feed the full-text index from any store through its port: what a backend without a feed of its own could take.

The index is in RAM and made anew from the histories whenever a live session has changed. No claims about speed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from smp_memory.errors import SessionArchived, SessionNotFound, SMPError
from smp_memory.index.access_counts import PendingAccesses
from smp_memory.index.history_index import HistoryFeed
from smp_memory.model.session_info import names_of

if TYPE_CHECKING:
    from smp_memory.index.full_text_index import IndexFeed
    from smp_memory.index.index import Index
    from smp_memory.index.rows import PlacedRow
    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import SessionStore, Store

    def _provides_port(feed: PostgresFeed) -> IndexFeed:
        return feed  # checked by mypy


T = TypeVar("T")


class PostgresFeed:
    """Feeds an index in RAM with all live sessions of a store."""

    folder = ""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.pending = PendingAccesses(store.access)
        self.mutex = threading.RLock()
        self._versions: dict[str, object] | None = None
        self._made = HistoryFeed({}, {}, store.access)

    def caught_up(self, sessions: list[str] | None) -> Index:
        live = names_of(self._store.sessions())
        versions = {name: self._of(name, lambda session: session.version()) for name in live}
        if versions != self._versions:  # versions are read before the histories: what is newer is read again
            read = {name: self._of(name, lambda session: session.history()) for name in live}
            found = {name: history for name, history in read.items() if history is not None}
            self._made.close()
            histories = {name: history.histories for name, history in found.items()}
            problems = {name: history.unreadable for name, history in found.items()}
            self._made, self._versions = HistoryFeed(histories, problems, self._store.access), versions
        return self._made.caught_up(sessions)

    private = caught_up

    def _of(self, name: str, read: Callable[[SessionStore], T]) -> T | None:
        """What is read of a live session; None if it was archived or deleted meanwhile."""
        try:
            return read(self._store.session(name))
        except (SessionNotFound, SessionArchived):
            return None

    def refresh(self, index: Index) -> None:
        self._made.refresh(index)

    def add_vectors(self, index: Index) -> None:
        self._made.add_vectors(index)

    def read(self, index: Index, rows: Iterable[PlacedRow], gone: dict[str, LeftOut]) -> dict[int, Record | None]:
        return self._made.read(index, rows, gone)

    def session_not_found(self, session: str) -> SMPError:
        try:
            self._store.session(session)
        except SMPError as error:
            return error
        return SessionNotFound(f"There is no session {session}.", session=session)

    def recovers(self, index: Index | None, error: BaseException) -> bool:
        return False

    def saved_metadata(self, session: str | None = None) -> dict[str, tuple[object, SessionInfo]]:
        return {}

    def count_accesses(self, *, from_start: bool = False) -> None:
        """Nothing to do: accesses are read from the log at every query."""

    def embed_missing(self, seconds: float | None) -> int:
        return 0

    def rebuild(self, progress: Callable[[str, int], None] | None = None) -> int:
        self._versions = None
        self.caught_up(None)
        return self._made.rebuild(progress)

    def close(self) -> None:
        self._versions = None
        self._made.close()
