"""What happened to one memory? Its history; of a large session that nobody has read yet, the index says where it stands.

A command that shows one memory would read ten megabytes for it otherwise.

Guarantees: what is handed out was read from the files just now, as `record_reader` does it, and holds all that was
acknowledged before. An index is not made for it: without one, and if the memory is not where the index says, the
session is read.
"""

from __future__ import annotations

from smp_memory.files.partial_reader import SpanReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.history import RecordHistory
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.finder import Finder

_LARGE_BYTES = 1 << 20  # to read less takes no longer than to open the index


def history_of(session: FileSession, id: str) -> RecordHistory | None:
    """All that happened to a memory; None if there never was one."""
    history = _by_index(session, id) if _is_worth_it(session) else None
    if history is None:
        history = session.view(lambda session_history: session_history.histories.get(id))
    return history


def _is_worth_it(session: FileSession) -> bool:
    if session.reader.states or sum(session.sizes().values()) < _LARGE_BYTES:
        return False
    return session.store.disk.exists(session.store.indexer.folder)


def _by_index(session: FileSession, id: str) -> RecordHistory | None:
    store, name = session.store, session.session

    def look(finder: Finder) -> RecordHistory | None:
        row = finder.row(name, id)
        if row is None:
            return None
        with SpanReader(store.disk) as spans:
            return store.indexer.reader.history(finder.index, name, row, spans)

    return store.indexer.answer([name], look)
