"""Find the memories that took the place of others, along chains of successions in the index.

A succession counts if its new memory exists, is not deleted, is visible to the viewer, and is valid already. So a successor that was deleted
or that begins later replaces nothing. One that has expired does: what it replaced does not come back.

Which memory of a chain holds is decided from these steps by `smp_memory.model.statuses.last_successors`.
Guarantees: a hidden memory, and what is behind it, cannot be distinguished from one that does not exist. The work is bounded: chains are
followed for `_MOST_STEPS` steps, each with at most `_MOST_PAIRS` successions.
"""

from __future__ import annotations

from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.index.searcher import FoundRow, Searcher

_MOST_STEPS = 200
_MOST_PAIRS = 1000  # old and new memories in one step
_AT_ONCE = 200  # names in one statement
# `+`: with the affinity of the column SQLite would not use the index of `doc >> 24`
_EDGES = """SELECT old.session, old.id, memory.doc FROM wanted
    CROSS JOIN succession old ON old.session = place AND old.id = name
    CROSS JOIN session ON session.id = old.new_session
    CROSS JOIN memory ON memory.doc >> 24 = +session.no AND memory.id = old.new_id"""


class SuccessionChains:
    """The successions that begin at some memories: `newer` has the docs of the memories that directly took the place of each."""

    def __init__(self, searcher: Searcher, rows: Iterable[FoundRow], at: int) -> None:
        self._searcher = searcher
        self._at = at
        self.rows = {row.doc: row for row in rows}
        self.newer: dict[int, list[int]] = {}
        edge = dict(self.rows)
        for _ in range(_MOST_STEPS):
            edge = self._step(edge)
            if not edge:
                break

    def _step(self, edge: dict[int, FoundRow]) -> dict[int, FoundRow]:
        """Add the memories that supersede these; returns those that were not known yet."""
        searcher = self._searcher
        old = {(searcher.session_of(doc), row.id): row for doc, row in edge.items()}
        stated = [(old[session, id], doc) for session, id, doc in islice(self._stated(list(old)), _MOST_PAIRS)]
        rows = searcher.fetch(list({doc for _, doc in stated}), " WHERE deleted IS NULL") if stated else []
        found = {row.doc: row for row in searcher.visible_rows(rows)}
        later = searcher.not_valid(list(found), self._at, only_later=True) if found else set()
        new: dict[int, FoundRow] = {}
        for before, doc in stated:
            row = found.get(doc)
            if row is None or doc in later or doc == before.doc or not searcher.may_supersede(row, before):
                continue
            if doc not in self.rows:
                self.rows[doc] = new[doc] = row
            if doc not in self.newer.setdefault(before.doc, []):
                self.newer[before.doc].append(doc)
        return new

    def _stated(self, names: list[tuple[str, str]]) -> Iterator[tuple[str, str, int]]:
        """Session and id of an old memory, and the doc of a new one."""
        for start in range(0, len(names), _AT_ONCE):
            part = names[start : start + _AT_ONCE]
            wanted = f"WITH wanted(place, name) AS (VALUES {','.join(['(?,?)'] * len(part))}) "
            yield from self._searcher.rows.all(wanted + _EDGES, [value for name in part for value in name])
