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
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol

    from smp_memory.index.rows import Row, Rows

    class MemoryRows(Protocol):
        """What a searcher knows of memories, as its viewer may see them."""

        def session_of(self, doc: int) -> str: ...

        def rows(self, docs: Sequence[int]) -> dict[int, Row]: ...

        def is_visible(self, row: Row) -> bool: ...

        def not_valid(self, docs: Sequence[int], at: int, *, only_later: bool = False) -> set[int]: ...

        def may_supersede(self, new: Row, old: Row) -> bool: ...


_MOST_STEPS = 200
_MOST_PAIRS = 1000  # old and new memories in one step
_MOST_ENDS = 3  # successors of one memory: what many claim to supersede does not bring them all
_AT_ONCE = 200  # names in one statement
# `+`: with the affinity of the column SQLite would not use the index of `doc >> 24`
_EDGES = """SELECT old.session, old.id, old.new_session, memory.doc FROM wanted
    CROSS JOIN succession old ON old.session = place AND old.id = name
    CROSS JOIN session ON session.id = old.new_session
    CROSS JOIN memory ON memory.doc >> 24 = +session.no AND memory.id = old.new_id"""


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
        stated = [(old[session, id], doc) for session, id, doc in islice(self._stated(list(old)), _MOST_PAIRS)]
        rows = searcher.rows(list({doc for _, doc in stated})) if stated else {}
        found = {doc: row for doc, row in rows.items() if not row.deleted and searcher.is_visible(row)}
        later = self._later(list(found))
        new: dict[int, Row] = {}
        for before, doc in stated:
            row = found.get(doc)
            if row is None or doc in later or doc == before.doc or not searcher.may_supersede(row, before):
                continue
            if doc not in self._rows:
                self._rows[doc] = new[doc] = row
            self._next.setdefault(before.doc, []).append(doc)
        return new

    def _stated(self, names: list[tuple[str, str]]) -> Iterator[tuple[str, str, int]]:
        """Session and id of an old memory, and the doc of a new one in a session that counts."""
        for start in range(0, len(names), _AT_ONCE):
            part = names[start : start + _AT_ONCE]
            wanted = f"WITH wanted(place, name) AS (VALUES {','.join(['(?,?)'] * len(part))}) "
            for session, id, place, doc in self._index.all(wanted + _EDGES, [value for name in part for value in name]):
                if self._allows is None or self._allows(place):
                    yield session, id, doc

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
