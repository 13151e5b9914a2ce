"""Accesses that are logged but not yet counted by the index.

    access → `access.log` of the user's state → counted by the index → the field `access` {count, last} of the memory
           → the log is truncated

The index counts the log now and then (`Indexer`). Until it does, a reader adds what the log has after the counted
offset, and what this process has not written yet, so an access counts at once. Maintenance writes the counts into the
sessions at most daily for each memory; then a rebuilt index has them as well.

Guarantees: each access is added once, because offset and counts come from one state of the index. A query reads only what
was added to the log since the last one. No operation fails because of access counts. Hold the index's mutex.
Non-guarantees: of a log that was not counted for very long only the last `MAX_BYTES` are read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from smp_memory.files.activity import AccessLog
    from smp_memory.index.rows import Rows

    AccessCount = tuple[int, int]  # count, and time of the last one in microseconds

MAX_BYTES = 1 << 20
# `+`: with the affinity of the column SQLite would not use the index of `doc >> 24`
_OF_NAMES = """SELECT place, name, memory.doc FROM wanted CROSS JOIN session ON session.id = place
    CROSS JOIN memory ON memory.doc >> 24 = +session.no AND memory.id = name"""


class PendingAccesses:
    """Accesses in the log that the index has not counted yet."""

    def __init__(self, log: AccessLog) -> None:
        self._log = log
        self._rows: Rows | None = None
        self._start = self._end = 0  # the range of the log that was read
        self._read: dict[str, AccessCount] = {}
        self._counts: dict[str, AccessCount] = {}  # the same with what this process has not written
        self._added = 0  # of what it has not written

    def by_name(self, rows: Rows) -> dict[str, AccessCount]:
        """Access counts by `session/ID`."""
        offset, size = int(rows.meta("access_offset", 0)), self._log.size_bytes()
        start = offset if offset <= size else 0  # a shorter log was truncated
        if rows is not self._rows or start != self._start or size < self._end:
            self._rows, self._start, self._end = rows, start, max(start, size - MAX_BYTES)
            self._read, self._counts, self._added = {}, {}, 0
        unwritten = self._log.pending()
        if size > self._end:
            logged, self._end = self._log.read(self._end)
            _add(self._read, logged)
            self._counts, self._added = dict(self._read), 0
        elif len(unwritten) < self._added:  # some were lost, because the disk is full
            self._counts, self._added = dict(self._read), 0
        _add(self._counts, unwritten[self._added :])
        self._added = len(unwritten)
        return self._counts


def docs_of(names: Sequence[str], rows: Rows) -> dict[str, int | None]:
    """The document numbers of memories named `session/ID`; None for one that is not in the index."""
    found: dict[str, int | None] = dict.fromkeys(names)
    pairs = [(session, id) for session, _, id in (name.rpartition("/") for name in names)]
    found.update({f"{session}/{id}": doc for session, id, doc in rows.of_names(_OF_NAMES, pairs)})
    return found


def add_counts(counted: AccessCount | None, pending: AccessCount) -> AccessCount:
    """The sum of what the index has counted and what it has not."""
    count, last = counted or (0, 0)
    return count + pending[0], max(last, pending[1])


def _add(counts: dict[str, AccessCount], logged: Iterable[tuple[str, float]]) -> None:
    for name, seconds in logged:
        counts[name] = add_counts(counts.get(name), (1, int(seconds * 1_000_000)))
