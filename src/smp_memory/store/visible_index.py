"""What does an agent find? The index's answers without what the agent may not see.

A `SeenStore` stands for the store wherever an agent asks. It offers what asking needs and nothing else, so a new way to
ask that needs more fails in a test and does not show too much.

Guarantees: a hidden memory is not handed out, not counted, not passed through on the way along relations, and not told
apart from one that does not exist.
Non-guarantees: how rare a word is rests on all memories, so figures of relevance may differ a little for it.
"""

from __future__ import annotations

from smp_memory.index.documents import GUARDED
from smp_memory.privacy.visibility import Viewer
from smp_memory.store.finder import Finder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from smp_memory.index.rows import Row
    from smp_memory.index.selection import RowConditions
    from smp_memory.index.text import TextMatch
    from smp_memory.index.tokens import ParsedText
    from smp_memory.model.record import Record


_RANKED = 1000  # of more than these the order is by time, and not by what fits best


class VisibleFinder(Finder):
    """A finder that knows who asks."""

    def __init__(self, finder: Finder, viewer: Viewer) -> None:
        super().__init__(finder._indexer, finder.index)
        self._viewer = viewer

    def records(self, rows: Iterable[Row]) -> dict[int, Record | None]:
        found = super().records(rows)
        sees = self._viewer.sees
        return {doc: record if record is not None and sees(record) else None for doc, record in found.items()}

    def row(self, session: str, id: str) -> Row | None:
        row = super().row(session, id)
        return row if row is not None and self.records([row])[row.doc] is not None else None

    def counts(self, by: str, conditions: RowConditions, docs: Iterable[int] | None = None) -> dict[str, int]:
        if docs is None:
            rows = self.select(conditions, "newest", -1)
            docs = [doc for doc, record in self.records(rows).items() if record is not None]
        return super().counts(by, conditions, docs)

    def session_numbers(self, names: list[str]) -> list[int]:
        """The numbers of those sessions that the index knows."""
        return self._session_numbers(names)

    # Hidden memories are not handed out anyway. But what fits best is the measure for all others, and brings its
    # neighbours along; so whoever asks for single answers gets them from what can be seen alone.

    def search(self, text: ParsedText, conditions: RowConditions, limit: int, rarity: float) -> list[TextMatch]:
        found = super().search(text, conditions, limit, rarity)
        if limit > _RANKED:
            return found
        asked = limit
        while True:
            hidden = self._hidden(each.doc for each in found if each.facts & GUARDED)
            left = [each for each in found if each.doc not in hidden] if hidden else found
            if len(left) >= limit or len(found) < asked:
                return left[:limit]
            asked *= 4
            found = super().search(text, conditions, asked, rarity)

    def nearest(self, vector: Any, conditions: RowConditions, limit: int) -> dict[int, Row]:
        asked = limit
        while True:
            near = super().nearest(vector, conditions, asked)
            left = self._shown(near.values())
            if len(left) >= limit or asked >= _RANKED or len(near) < asked:
                return {row.doc: row for row in left[:limit]}
            asked *= 4

    def select_shown(self, conditions: RowConditions, order: str, limit: int) -> list[Row]:
        """The first rows, by time, of memories that the viewer may see; hidden ones do not count against the limit."""
        found: list[Row] = []
        offset = 0
        while len(found) < limit:
            rows = self.select(conditions, order, limit, offset)
            found += self._shown(rows)
            offset += limit
            if len(rows) < limit:
                break
        return found[:limit]

    def _shown(self, rows: Iterable[Row]) -> list[Row]:
        given = list(rows)
        hidden = self._hidden(row.doc for row in given if row.facts & GUARDED)
        return [row for row in given if row.doc not in hidden] if hidden else given

    def shows(self, row: Row) -> bool:
        """Whether the viewer may see a memory; read is only one that says itself who may."""
        return not row.facts & GUARDED or not self._hidden([row.doc])

    def _hidden(self, docs: Iterable[int]) -> set[int]:
        """Those of these memories, which say themselves who may see them, that the viewer may not see."""
        asked = list(docs)
        found = self.records(self.rows(asked).values()) if asked else {}
        return {doc for doc in asked if found.get(doc) is None}

    def is_superseded(self, record: Record) -> bool:
        """Whether a memory that the viewer sees takes the place of this one. Its author must be able to see this one, too."""
        docs = [doc for kind, doc in self._sources(record.session, record.id) if kind == "supersedes"]
        found = self.records(self.rows(docs).values()) if docs else {}
        seen = [other for other in found.values() if other is not None and not other.deleted]
        return any(Viewer(other.author).sees(record) for other in seen)

    def _neighbours(self, doc: int) -> list[tuple[str, int]]:
        near = super()._neighbours(doc)
        records = self.records(self.rows([other for _, other in near]).values())
        return [(kind, other) for kind, other in near if records.get(other) is not None]
