"""Bring sessions in the index up to date: appended entries are added, a session that changed in another way is replaced.

Several sessions are one transaction, a very large number of memories several: a crash leaves an index that knows how far it
has read. Loaded when a session has changed; most queries find that none has.
"""

from __future__ import annotations

import time

from smp_memory.index.rows import POSITION_BITS, IndexBusy
from smp_memory.model.history import PausedCollection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeVar

    from smp_memory.index.index import Index
    from smp_memory.index.rows import IndexedSession, Row, Rows
    from smp_memory.model.history import RecordHistory, SessionHistory

    T = TypeVar("T")
    Progress = Callable[[str, int], None] | None

_CHUNK_MEMORIES = 20_000  # committed at once in a large rebuild; after an erasure or a crash so many are indexed again


def index_in_chunks(
    index: Index, sessions: Iterable[T], index_one: Callable[[Index, T], int], deadline: float, progress: Progress
) -> int:
    """Index sessions; returns the number of new memories. Raises IndexBusy after the deadline."""
    done = 0
    begin(index, deadline)
    try:
        with PausedCollection():
            for each in sessions:
                done += index_one(index, each)
                if progress is not None:
                    progress(str(each), done)
                if index.added_count > _CHUNK_MEMORIES:
                    index.commit(more_to_come=True)
                    begin(index, deadline)
            index.commit()
    except BaseException:
        index.roll_back()
        raise
    return done


def begin(index: Index, deadline: float) -> None:
    """Begin a transaction; wait for other processes until the deadline. Raises IndexBusy."""
    while True:
        try:
            index.begin()
            return
        except IndexBusy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def index_appended(
    index: Index,
    known: IndexedSession,
    fresh: SessionHistory,
    places: Callable[[RecordHistory], str],
    read: Callable[[Row], RecordHistory | None],
) -> dict[int, RecordHistory] | None:
    """Index a history of appended entries alone; returns the changed memories by doc, None if the session changed in another way.

    `read` gives the history of a memory before these entries.
    """
    first_entries = [history.first for history in fresh.histories.values()]
    later = [entry for entries in fresh.orphans.values() for entry in entries]
    if fresh.is_rebuilt or any(entry.seq <= known.seq or entry.lacks for entry in first_entries + later):
        return None
    if index.rows.has_any(known.number, list(fresh.histories)):
        return None
    changed: dict[int, RecordHistory] = {}
    for id, entries in fresh.orphans.items():
        row = index.rows.by_id(known.number, id)
        history = read(row) if row is not None else None
        if row is None or history is None or not all(map(history.owns, entries)):
            return None
        for entry in sorted(entries, key=lambda entry: entry.seq):
            history.append(entry)
        changed[row.doc] = history
    index.extend(known, fresh.histories.values(), places)
    for doc, history in changed.items():
        index.amend(known, history, doc, places)
    return changed


# -- entries that are kept in the index, of a store that is not in files: as text, by memory


def keep_entries(
    rows: Rows,
    session: IndexedSession,
    position: int,
    new: Iterable[RecordHistory],
    changed: Mapping[int, RecordHistory],
    text_of: Callable[[RecordHistory], str],
) -> None:
    """Keep the entries of new memories, the first of which is at a position of the session, and of changed ones by doc."""
    numbered = [*enumerate(new, session.number << POSITION_BITS | position), *changed.items()]
    values = [(doc, text_of(history)) for doc, history in numbered]
    rows.do_many("INSERT OR REPLACE INTO stored VALUES (?, ?)", values)


def kept_entries(rows: Rows, docs: Sequence[int]) -> dict[int, str]:
    """The kept entries of memories, by doc."""
    return dict(rows.of("SELECT doc, entries FROM wanted CROSS JOIN stored ON doc = wanted.no", docs))


def kept_entries_of(rows: Rows, session: IndexedSession) -> list[str]:
    """The kept entries of all memories of a session, in their order."""
    first = session.number << POSITION_BITS
    query = "SELECT entries FROM stored WHERE doc >= ? AND doc < ? ORDER BY doc"
    return [text for (text,) in rows.each(query, (first, first + (1 << POSITION_BITS)))]
