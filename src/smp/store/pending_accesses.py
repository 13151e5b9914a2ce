"""Uses of memories that stand in the access log and are not counted by the index yet.

The index counts the log now and then (`Indexer`); until it does, a reader adds what the log has behind the offset up to
which the index has counted, and what this process has noted and not written yet. So a use counts at once.

Guarantees: nothing is written; each use is added once, because offset and counts come from one state of the index. A question
reads only what was added to the log since the last one. Hold the index's mutex.
Non-guarantees: of a log that is not counted for very long only the last `MOST_BYTES` are read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp.files.access_log import AccessLog
    from smp.index.rows import Rows

    Use = tuple[int, int]  # how often, and when last in microseconds

MOST_BYTES = 1 << 20
_AT_ONCE = 500


class PendingAccesses:
    def __init__(self, log: AccessLog) -> None:
        self._log = log
        self._rows: Rows | None = None
        self._start = self._end = 0  # the part of the log that was read
        self._read: dict[str, Use] = {}
        self._docs: dict[str, int | None] = {}

    def forget_numbers(self) -> None:
        """The index has changed: its numbers of memories may be others."""
        self._docs.clear()

    def by_name(self, rows: Rows) -> dict[str, Use]:
        """Uses by `session/ID`."""
        offset, size = int(rows.meta("access_offset", 0)), self._log.size_bytes()
        start = offset if offset <= size else 0  # a shorter log was made anew
        if rows is not self._rows or start != self._start or size < self._end:
            self._rows, self._start, self._end = rows, start, max(start, size - MOST_BYTES)
            self._read, self._docs = {}, {}
        if size > self._end:
            noted, self._end = self._log.read(self._end)
            _add(self._read, noted)
        unwritten = self._log.unwritten()
        if not unwritten:
            return self._read
        found = dict(self._read)
        _add(found, unwritten)
        return found

    def by_doc(self, rows: Rows) -> dict[int, Use]:
        """Uses by the index's number of the memory; memories that the index does not know are left out."""
        uses = self.by_name(rows)
        if not uses:
            return {}
        docs = self._docs
        unknown = [name for name in uses if name not in docs]
        if unknown:
            docs.update(_docs(unknown, rows))
        return {doc: use for name, use in uses.items() if (doc := docs[name]) is not None}


def _docs(names: list[str], rows: Rows) -> dict[str, int | None]:
    """The index's numbers of memories named `session/ID`; None for one that it does not know."""
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


def together(counted: Use | None, pending: Use) -> Use:
    """What the index has counted and what it has not."""
    count, last = counted or (0, 0)
    return count + pending[0], max(last, pending[1])


def _add(uses: dict[str, Use], noted: Iterable[tuple[str, float]]) -> None:
    for name, seconds in noted:
        uses[name] = together(uses.get(name), (1, int(seconds * 1_000_000)))
