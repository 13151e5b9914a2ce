"""Uses of memories that stand in the access log and are not counted by the index yet.

The index counts the log now and then (`Indexer`); until it does, a reader adds what the log has behind the offset up to
which the index has counted, and what this process has noted and not written yet. So a use counts at once.

Guarantees: nothing is written; each use is added once, because offset and counts come from one state of the index. A question
reads only what was added to the log since the last one. Hold the index's mutex.
Non-guarantees: of a log that is not counted for very long only the last `MOST_BYTES` are read.

How does it come into the files which memories were used? The access log is folded in, at most daily for each memory.

    accesses in `.smp/access.log` → counted by the index → a change of the field `access` {count, last} → the log is emptied

Guarantees: the files then know what the log knew, so an index made anew knows it too. Such a change is no change of the
memory: `updated` stays as it was. Nothing fails because of it.
Non-guarantees: the log is a hint; an access that is noted in the very moment in which it is emptied may be lost.
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

    Use = tuple[int, int]  # how often, and when last in microseconds
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.finder import Finder


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
        unwritten = self._log.pending()
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


class AccessFlush(NamedTuple):
    """How often a memory was used, and when last."""

    id: str
    times: int
    last: str


def noted_accesses(store: FileStore) -> tuple[dict[str, list[AccessFlush]], int]:
    """What the log knows, by session, with the counts of the index; and up to where the log was read."""
    store.access.flush()
    noted, end = store.access.read(0)
    names: dict[str, set[str]] = {}
    for name, _ in noted:
        session, _, id = name.rpartition("/")
        names.setdefault(session, set()).add(id)
    store.indexer.count_all_accesses()

    def look(finder: Finder) -> dict[str, list[AccessFlush]]:
        found: dict[str, list[AccessFlush]] = {}
        for session, ids in names.items():
            rows = [row for id in sorted(ids) if (row := finder.row(session, id)) is not None and not row.deleted]
            accesses = finder.accesses([row.doc for row in rows])
            used = [AccessFlush(row.id, *_told(accesses[row.doc])) for row in rows if row.doc in accesses]
            if used:
                found[session] = used
        return found

    return store.indexer.answer(None, look), end


def _told(access: tuple[int, int]) -> tuple[int, str]:
    return access[0], to_text(EPOCH + timedelta(microseconds=access[1]))


def empty_log(store: FileStore, until: int) -> None:
    store.access.remove_before(until)
    store.indexer.count_all_accesses(from_start=True)
