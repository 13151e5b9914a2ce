"""Find the memories that took the place of others, along chains of successions in the index.

A succession counts if its new memory exists, is not deleted, is visible to the viewer, is in a session that counts, and holds already. So
a successor that was deleted or that begins later replaces nothing. One that has expired does: what it replaced does not come back.

Of a chain A ← B ← C the successor of A and of B is C. Of a circle the newest memory holds.
Guarantees: a hidden memory, and what is behind it, cannot be distinguished from one that does not exist. The work is bounded: of a
chain of more than `_MOST_STEPS` memories the last one reached counts, and of many successors the newest `_MOST_ENDS`.
"""

from __future__ import annotations

from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Protocol

    from smp_memory.index.rows import Row, Rows

    class MemoryRows(Protocol):
        """What a searcher knows of memories, as its viewer may see them."""

        def session_of(self, doc: int) -> str: ...

        def row(self, session: str, id: str) -> Row | None: ...

        def not_valid(self, docs: Sequence[int], at: int, *, only_later: bool = False) -> set[int]: ...

        def may_supersede(self, new: Row, old: Row) -> bool: ...


_MOST_STEPS = 200
_MOST_PAIRS = 1000  # old and new memories in one step
_MOST_ENDS = 3  # successors of one memory: what many claim to supersede does not bring them all
_AT_ONCE = 200  # names in one statement
_EDGES = "SELECT session, id, new_session, new_id FROM wanted CROSS JOIN succession ON session = place AND id = name"


class Successions:
    """The successions that begin at some memories."""

    def __init__(self, rows: Rows, searcher: MemoryRows, at: int | None, allows: Callable[[str], bool] | None) -> None:
        self._index = rows
        self._searcher = searcher
        self._at = at
        self._allows = allows
        self._rows: dict[int, Row] = {}
        self._next: dict[int, list[int]] = {}  # doc -> the docs that supersede it

    def successors(self, rows: Iterable[Row]) -> dict[int, list[Row]]:
        """The memories at the ends of the chains, the newest first, by the doc of each memory that has a successor."""
        starts = {row.doc: row for row in rows}
        edge = dict(starts)
        self._rows.update(starts)
        for _ in range(_MOST_STEPS):
            edge = self._step(edge)
            if not edge:
                break
        found = {doc: self._ends(doc) for doc in starts if self._next.get(doc)}
        return {doc: ends for doc, ends in found.items() if ends}

    def _step(self, edge: dict[int, Row]) -> dict[int, Row]:
        """Add the memories that supersede these; those that were not known yet."""
        searcher = self._searcher
        old = {(searcher.session_of(doc), row.id): row for doc, row in edge.items()}
        pairs = [(old[session, id], new) for session, id, *new in islice(self._stated(list(old)), _MOST_PAIRS)]
        found = {tuple(name): self._row(*name) for _, name in pairs}
        later = self._later([row.doc for row in found.values() if row is not None])
        new: dict[int, Row] = {}
        for before, name in pairs:
            row = found[tuple(name)]
            if row is None or row.doc in later or row.doc == before.doc or not searcher.may_supersede(row, before):
                continue
            if row.doc not in self._rows:
                self._rows[row.doc] = new[row.doc] = row
            self._next.setdefault(before.doc, []).append(row.doc)
        return new

    def _stated(self, names: list[tuple[str, str]]) -> Iterable[tuple[str, str, str, str]]:
        for start in range(0, len(names), _AT_ONCE):
            part = names[start : start + _AT_ONCE]
            wanted = f"WITH wanted(place, name) AS (VALUES {','.join(['(?,?)'] * len(part))}) "
            yield from self._index.all(wanted + _EDGES, [value for name in part for value in name])

    def _row(self, session: str, id: str) -> Row | None:
        if self._allows is not None and not self._allows(session):
            return None
        row = self._searcher.row(session, id)
        return row if row is not None and not row.deleted else None

    def _later(self, docs: list[int]) -> set[int]:
        """Those of these memories that do not hold yet."""
        return set() if self._at is None or not docs else self._searcher.not_valid(docs, self._at, only_later=True)

    def _ends(self, start: int) -> list[Row]:
        reached: dict[int, None] = {}
        edge = [start]
        while edge:
            edge = [doc for each in edge for doc in self._next.get(each, ()) if doc not in reached]
            reached.update(dict.fromkeys(edge))
        ends = [doc for doc in reached if not self._next.get(doc)]
        if not ends:  # a circle
            ends = [max(reached, key=self._age)]
            if ends == [start]:
                return []
        return [self._rows[doc] for doc in sorted(ends, key=self._age, reverse=True)[:_MOST_ENDS]]

    def _age(self, doc: int) -> tuple[int, int]:
        return self._rows[doc].created, doc
