"""A searcher that leaves out memories which the viewer may not see.

Guarantees: a hidden memory is not returned, not counted, not traversed along relations, and cannot be distinguished from
one that does not exist.
Non-guarantees: the frequencies of terms that many memories have, and the number of memories, include hidden ones, so scores may differ
slightly because of them.
"""

from __future__ import annotations

from smp_memory.index.documents import GUARDED
from smp_memory.index.query import MatchColumns, RowConditions, only_docs
from smp_memory.privacy.visibility import Viewer
from smp_memory.store.searcher import Searcher
from smp_memory.text.tokenizer import ParsedText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from smp_memory.index.rows import Row
    from smp_memory.index.text import TextMatch
    from smp_memory.model.record import Record


_RARE = 10  # memories: a term that so few have is counted among visible ones
_MAX_RANKED = 1000  # a larger limit means all matches, ordered by time


class VisibleSearcher(Searcher):
    """A searcher restricted to what a viewer may see."""

    def __init__(self, searcher: Searcher, viewer: Viewer) -> None:
        super().__init__(searcher.index, searcher._uncounted, searcher._read)
        self._viewer = viewer
        self._frequencies: dict[str, int] = {}  # a searcher serves one query

    def records(self, rows: Iterable[Row]) -> dict[int, Record | None]:
        found = super().records(rows)
        sees = self._viewer.sees
        return {doc: record if record is not None and sees(record) else None for doc, record in found.items()}

    def row(self, session: str, id: str) -> Row | None:
        row = super().row(session, id)
        return row if row is not None and self.records([row])[row.doc] is not None else None

    def counts(
        self, fields: Sequence[str], conditions: RowConditions, matches: MatchColumns | None = None
    ) -> dict[str, dict[str, int]]:
        if matches is None:
            rows = self._visible(self.select(conditions, "newest", -1))
            matches = MatchColumns(
                [row.doc for row in rows], [row.created for row in rows], [row.facts for row in rows]
            )
        return super().counts(fields, conditions, matches)

    def all_matches(self, text: ParsedText, conditions: RowConditions) -> MatchColumns:
        found = super().all_matches(text, conditions)
        guarded = (doc for doc, facts in zip(found.docs, found.facts, strict=True) if facts & GUARDED)
        hidden = self._hidden(guarded)
        return only_docs(found, lambda doc: doc not in hidden) if hidden else found

    # `records` leaves hidden memories out anyway. But the best match normalises all scores and adds its neighbours, so
    # the first matches must be chosen among visible memories only.

    def search(self, text: ParsedText, conditions: RowConditions, limit: int, rarity: float) -> list[TextMatch]:
        found = super().search(text, conditions, limit, rarity)
        if limit > _MAX_RANKED:
            return found
        fetched = limit
        while True:
            hidden = self._hidden(each.doc for each in found if each.facts & GUARDED)
            left = [each for each in found if each.doc not in hidden] if hidden else found
            if len(left) >= limit or len(found) < fetched:
                return left[:limit]
            fetched *= 4
            found = super().search(text, conditions, fetched, rarity)

    def document_frequency(self, term: str) -> int:
        """The number of memories with a term. Hidden and deleted ones do not count for a rare term: it must not be known by them alone."""
        known = self._frequencies.get(term)
        if known is None:
            known = super().document_frequency(term)
            if 0 < known <= _RARE:
                found = super().search(ParsedText((term,)), RowConditions(), 2 * _RARE, 0.0)
                known = len(found) - len(self._hidden(each.doc for each in found if each.facts & GUARDED))
            self._frequencies[term] = known
        return known

    def nearest(self, vector: Any, conditions: RowConditions, limit: int) -> dict[int, Row]:
        fetched = limit
        while True:
            near = super().nearest(vector, conditions, fetched)
            left = self._visible(near.values())
            if len(left) >= limit or fetched >= _MAX_RANKED or len(near) < fetched:
                return {row.doc: row for row in left[:limit]}
            fetched *= 4

    def select_visible(self, conditions: RowConditions, order: str, limit: int) -> list[Row]:
        """The first visible rows, by time; hidden ones do not count against the limit."""
        found: list[Row] = []
        offset = 0
        while len(found) < limit:
            rows = self.select(conditions, order, limit, offset)
            found += self._visible(rows)
            offset += limit
            if len(rows) < limit:
                break
        return found[:limit]

    def _visible(self, rows: Iterable[Row]) -> list[Row]:
        given = list(rows)
        hidden = self._hidden(row.doc for row in given if row.facts & GUARDED)
        return [row for row in given if row.doc not in hidden] if hidden else given

    def is_visible(self, row: Row) -> bool:
        """Whether the viewer may see a memory. The record is read only if it has a visibility of its own."""
        return not row.facts & GUARDED or not self._hidden([row.doc])

    def _hidden(self, docs: Iterable[int]) -> set[int]:
        """Those of these memories, which have a visibility of their own, that the viewer may not see."""
        guarded = list(docs)
        found = self.records(self.rows(guarded).values()) if guarded else {}
        return {doc for doc in guarded if found.get(doc) is None}

    def may_supersede(self, new: Row, old: Row) -> bool:
        """Whether the author of a new memory could see the old one: nobody hides a memory that is hidden from them."""
        if not old.facts & GUARDED:
            return True
        record = self.records([old]).get(old.doc)
        return record is not None and Viewer(self.author(new.author) or None).sees(record)

    def _visible_docs(self, docs: set[int]) -> set[int]:
        return {row.doc for row in self._visible(self.rows(list(docs)).values())}

    def labels(self, conditions: RowConditions) -> list[tuple[int, str]]:
        found = super().labels(conditions)
        visible = self._visible_docs({doc for doc, _ in found})
        return [each for each in found if each[0] in visible]

    def relations(self, conditions: RowConditions) -> list[tuple[int, str, str, str]]:
        """Also without those that point to a hidden memory: they would tell that it exists."""
        found = super().relations(conditions)
        visible = self._visible_docs({doc for doc, *_ in found})
        return [each for each in found if each[0] in visible and not self._is_hidden(*each[2:])]

    def _is_hidden(self, session: str, id: str) -> bool:
        row = Searcher.row(self, session, id)
        return row is not None and not self.is_visible(row)

    def expiries(self, conditions: RowConditions, since: int, until: int) -> list[tuple[int, int]]:
        found = super().expiries(conditions, since, until)
        visible = self._visible_docs({doc for doc, _ in found})
        return [each for each in found if each[0] in visible]

    def _neighbours(self, doc: int) -> list[tuple[str, int]]:
        near = super()._neighbours(doc)
        records = self.records(self.rows([other for _, other in near]).values())
        return [(kind, other) for kind, other in near if records.get(other) is not None]
