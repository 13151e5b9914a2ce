"""Uses of memories that stand in the access log and are not counted by the index yet.

The index counts the log now and then (`Indexer`); until it does, a reader adds what the log has behind the offset up to
which the index has counted, and what this process has noted and not written yet. So a use counts at once.

Guarantees: nothing is written; each use is added once, because offset and counts come from one state of the index.
Non-guarantees: of a log that is not counted for very long only the last `MOST_BYTES` are read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from smp.files.access_log import AccessLog
    from smp.index.rows import Rows

    Uses = dict[str, dict[str, tuple[int, int]]]  # by session and id: how often, and when last in microseconds

MOST_BYTES = 1 << 20


def pending_uses(log: AccessLog, rows: Rows) -> Uses:
    """Uses of memories behind the offset up to which the index has counted the log."""
    noted = log.unwritten()
    offset, size = int(rows.meta("access_offset", 0)), log.size_bytes()
    if offset > size:
        offset = 0  # the log was made anew
    if offset < size:
        noted = log.read(max(offset, size - MOST_BYTES))[0] + noted
    found: Uses = {}
    for name, seconds in noted:
        session, _, id = name.rpartition("/")
        uses = found.setdefault(session, {})
        count, last = uses.get(id, (0, 0))
        uses[id] = count + 1, max(last, seconds * 1_000_000)
    return found


def pending_by_doc(uses: Uses, rows: Rows) -> dict[int, tuple[int, int]]:
    """The same by the index's numbers of memories; those that the index does not know are left out."""
    found: dict[int, tuple[int, int]] = {}
    for session, by_id in uses.items():
        number = rows.one("SELECT no FROM session WHERE id = ?", (session,))
        for id, use in by_id.items() if number is not None else ():
            doc = rows.one("SELECT doc FROM memory WHERE doc >> 24 = ? AND id = ?", (number, id))
            if doc is not None:
                found[doc] = use
    return found


def add_pending(counted: dict[int, tuple[int, int]], pending: dict[int, tuple[int, int]], docs: Sequence[int]) -> None:
    """Add the pending uses of these memories to what the index has counted."""
    if not pending:
        return
    for doc in pending.keys() & set(docs):
        (count, last), (before, earlier) = pending[doc], counted.get(doc, (0, 0))
        counted[doc] = before + count, max(earlier, last)
