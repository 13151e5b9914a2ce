"""Access counts: accesses that are logged but not yet counted by the index, and their flush into the session files.

    access → `access.log` of the user's state → counted by the index → the field `access` {count, last} of the memory
           → the log is truncated

The index counts the log now and then (`Indexer`). Until it does, a reader adds what the log has after the counted
offset, and what this process has not written yet, so an access counts at once. The flush into the files happens at most
daily for each memory; then a rebuilt index has the counts as well.

Guarantees: each access is added once, because offset and counts come from one state of the index. A query reads only what
was added to the log since the last one. A flush does not create a revision: `updated` stays as it was. No operation fails
because of access counts. Hold the index's mutex.
Non-guarantees: of a log that was not counted for very long only the last `MAX_BYTES` are read. The log is a hint: an
access logged at the moment in which it is truncated may be lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from smp_memory.model.times import EPOCH, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.files.access_log import AccessLog
    from smp_memory.index.rows import Rows
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.finder import Finder

    AccessCount = tuple[int, int]  # count, and time of the last one in microseconds

MAX_BYTES = 1 << 20
_AT_ONCE = 500


class PendingAccesses:
    """Accesses in the log that the index has not counted yet."""

    def __init__(self, log: AccessLog) -> None:
        self._log = log
        self._rows: Rows | None = None
        self._start = self._end = 0  # the range of the log that was read
        self._read: dict[str, AccessCount] = {}
        self._docs: dict[str, int | None] = {}

    def forget_numbers(self) -> None:
        """Forget document numbers, because the index has changed."""
        self._docs.clear()

    def by_name(self, rows: Rows) -> dict[str, AccessCount]:
        """Access counts by `session/ID`."""
        offset, size = int(rows.meta("access_offset", 0)), self._log.size_bytes()
        start = offset if offset <= size else 0  # a shorter log was truncated
        if rows is not self._rows or start != self._start or size < self._end:
            self._rows, self._start, self._end = rows, start, max(start, size - MAX_BYTES)
            self._read, self._docs = {}, {}
        if size > self._end:
            logged, self._end = self._log.read(self._end)
            _add(self._read, logged)
        unwritten = self._log.pending()
        if not unwritten:
            return self._read
        counts = dict(self._read)
        _add(counts, unwritten)
        return counts

    def by_doc(self, rows: Rows) -> dict[int, AccessCount]:
        """Access counts by document number; memories that are not in the index are left out."""
        counts = self.by_name(rows)
        if not counts:
            return {}
        docs = self._docs
        unknown = [name for name in counts if name not in docs]
        if unknown:
            docs.update(_docs(unknown, rows))
        return {doc: count for name, count in counts.items() if (doc := docs[name]) is not None}


def _docs(names: list[str], rows: Rows) -> dict[str, int | None]:
    """The document numbers of memories named `session/ID`; None for one that is not in the index."""
    found: dict[str, int | None] = dict.fromkeys(names)
    by_session: dict[str, list[str]] = {}
    for name in names:
        session, _, id = name.rpartition("/")
        by_session.setdefault(session, []).append(id)
    for session, ids in by_session.items():
        number = rows.one("SELECT no FROM session WHERE id = ?", (session,))
        for start in range(0, len(ids) if number is not None else 0, _AT_ONCE):
            part = ids[start : start + _AT_ONCE]
            marks = ",".join("?" * len(part))
            sql = f"SELECT id, doc FROM memory WHERE doc >> 24 = ? AND id IN ({marks})"  # noqa: S608  # marks are question marks
            found.update((f"{session}/{id}", doc) for id, doc in rows.each(sql, (number, *part)))
    return found


def add_counts(counted: AccessCount | None, pending: AccessCount) -> AccessCount:
    """The sum of what the index has counted and what it has not."""
    count, last = counted or (0, 0)
    return count + pending[0], max(last, pending[1])


def _add(counts: dict[str, AccessCount], logged: Iterable[tuple[str, float]]) -> None:
    for name, seconds in logged:
        counts[name] = add_counts(counts.get(name), (1, int(seconds * 1_000_000)))


class AccessFlush(NamedTuple):
    """The access count of a memory, as it is written into the files."""

    id: str
    times: int
    last: str


def logged_accesses(store: FileStore) -> tuple[dict[str, list[AccessFlush]], int]:
    """The memories in the log, by session, with their total counts; and the offset up to which the log was read."""
    store.access.flush()
    logged, end = store.access.read(0)
    names: dict[str, set[str]] = {}
    for name, _ in logged:
        session, _, id = name.rpartition("/")
        names.setdefault(session, set()).add(id)
    store.indexer.count_all_accesses()

    def read(finder: Finder) -> dict[str, list[AccessFlush]]:
        found: dict[str, list[AccessFlush]] = {}
        for session, ids in names.items():
            rows = [row for id in sorted(ids) if (row := finder.row(session, id)) is not None and not row.deleted]
            accesses = finder.accesses([row.doc for row in rows])
            used = [AccessFlush(row.id, *_as_text(accesses[row.doc])) for row in rows if row.doc in accesses]
            if used:
                found[session] = used
        return found

    return store.indexer.answer(None, read), end


def _as_text(access: tuple[int, int]) -> tuple[int, str]:
    return access[0], to_text(EPOCH + timedelta(microseconds=access[1]))


def truncate_access_log(store: FileStore, until: int) -> None:
    """Remove the log up to an offset, after its counts were written into the files."""
    store.access.remove_before(until)
    store.indexer.count_all_accesses(from_start=True)
