"""Current memories: successors before what they supersede, and the hits that are still valid.

Every way to read uses these rules (docs/adr/0026-validity-and-succession.md):

    not valid    `valid_from` or `valid_until` says that it does not hold at the time of the query: no candidate at all, unless the
                 query has `include_expired` (`RowConditions.valid_at`)
    superseded   another memory took its place: it stays in a query, right behind its successor, which is as relevant as it is
    settled      its status says that nothing is left to do, or that it was overturned: less relevant than what is open
    outdated     a newer memory says the same with another value: it comes behind the newer one

`current_hits` is for what reaches a prompt: it keeps hits that are none of these.
"""

from __future__ import annotations

from copy import copy

from smp_memory.model.statuses import is_settled, status_of
from smp_memory.search.outdated import outdated
from smp_memory.search.query import NEWEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from smp_memory.index.query import RowConditions
    from smp_memory.index.rows import Row
    from smp_memory.model.hits import Hit
    from smp_memory.search.ranking import RankedRow, Ranking
    from smp_memory.store.port import IndexSearcher

SETTLED, SUPERSEDED, OUTDATED = "settled", "superseded", "outdated"  # why a hit does not hold
_BLOCK = 32  # rows whose successors are looked up at once


class SuccessionOrder:
    """Puts successors before what they supersede, among the ranked rows of one query.

    The order of the first rows does not depend on how many are read. A successor must meet the conditions of the query, but need
    not share a word with it: it is found through what it superseded.
    """

    def __init__(
        self,
        ranking: Ranking,
        searcher: IndexSearcher,
        conditions: RowConditions,
        at: int,
        allows: Callable[[str], bool] | None = None,
    ) -> None:
        """`at` in microseconds; `allows` tells from which sessions a successor may come (None: all)."""
        self._ranking = ranking
        self._searcher = searcher
        self._conditions = conditions
        self._at = at
        self._allows = allows
        self._known: dict[int, list[Row]] = {}  # successors by doc; empty: it has none
        self._allowed: set[int] = set()  # known successors that meet the conditions

    def ordered(self, ranked: list[RankedRow], emitted: Iterable[int] = ()) -> Iterator[RankedRow]:
        """The same rows, each after its successors; without those in `emitted`, which come before all of them."""
        done = set(emitted)
        by_doc: dict[int, RankedRow] = {}
        for start in range(0, len(ranked), _BLOCK):
            block = ranked[start : start + _BLOCK]
            self._allowed |= self._admitted(self._look_up(each.row for each in block))
            allowed = self._allowed
            by_doc = by_doc or ({each.row.doc: each for each in ranked} if allowed else {})
            for each in block if allowed else ():
                if self._known[each.row.doc]:
                    self._ranking.remove_rival(each)
            for each in block:
                for row in self._known[each.row.doc] if allowed else ():
                    if row.doc in allowed and row.doc not in done:
                        done.add(row.doc)
                        yield self._ranking.inherit(row, each, by_doc.get(row.doc))
                if each.row.doc not in done:
                    done.add(each.row.doc)
                    yield each

    def admitted_successors(self, rows: list[Row]) -> list[Row]:
        """The successors of these rows that meet the conditions of the query."""
        found = [row for ends in self._searcher.successors(rows, self._at, self._allows).values() for row in ends]
        admitted = self._admitted(found)
        return [row for row in found if row.doc in admitted]

    def successors(self, rows: list[Row]) -> dict[int, str]:
        """The ref of the newest memory that took the place of each of these, by doc; only of those that have a successor."""
        self._look_up(rows)
        return {row.doc: self._searcher.ref(found[0].doc) for row in rows if (found := self._known[row.doc])}

    def _look_up(self, rows: Iterable[Row]) -> list[Row]:
        """The successors of rows that were not looked up yet."""
        new = [row for row in rows if row.doc not in self._known]
        found = self._searcher.successors(new, self._at, self._allows)
        for row in new:
            self._known[row.doc] = found.get(row.doc, [])
        return [row for rows in found.values() for row in rows]

    def _admitted(self, rows: list[Row]) -> set[int]:
        """Those of these rows that meet the conditions of the query."""
        if not rows:
            return set()
        conditions = copy(self._conditions)
        docs = {row.doc for row in rows}
        conditions.docs = docs if conditions.docs is None else conditions.docs & docs
        return {row.doc for row in self._searcher.select(conditions, NEWEST, -1)}


def newer_first(hits: list[Hit]) -> list[Hit]:
    """The same hits, each that is outdated behind the newer one, which is at least as relevant."""
    newer = outdated([hit.record for hit in hits])
    if not newer:
        return hits
    by_ref = {hit.record.ref: hit for hit in hits}
    found: dict[str, Hit] = {}
    for hit in hits:
        ref = newer.get(hit.record.ref)
        hit.outdated_by = ref
        if ref is not None and ref not in found:
            found[ref] = by_ref[ref]
            found[ref].inherit(hit)
        found.setdefault(hit.record.ref, hit)
    return list(found.values())


def current_hits(
    hits: Iterable[Hit],
    allows: Callable[[str], bool] | None = None,
    left_out: Callable[[Hit, str, str], None] | None = None,
) -> list[Hit]:
    """The hits of a query that hold now, in the same order: for a prompt, which has no room for what no longer holds.

    Left out: superseded and settled memories, and of two that say the same with another value the older one. A query places the
    successor of each before it, so that nothing is lost; not-valid memories are not among hits in the first place.
    `allows` tells which sessions count: a memory is not superseded by one that the reader does not see.
    `left_out` is called with each hit that does not hold, the reason, and the status or the memory that is to blame.
    """
    given = hits if left_out is None else list(hits)
    listed = [hit for hit in given if not is_settled(hit.record) and not _is_replaced(hit.superseded_by, allows)]
    seen = [hit.record for hit in listed if allows is None or allows(hit.record.session)]
    older = outdated(seen, one_user=allows is not None)
    if left_out is not None:
        for hit in given:
            _report(hit, older, allows, left_out)
    return [hit for hit in listed if hit.record.ref not in older]


def _report(
    hit: Hit, older: dict[str, str], allows: Callable[[str], bool] | None, left_out: Callable[[Hit, str, str], None]
) -> None:
    if is_settled(hit.record):
        left_out(hit, SETTLED, status_of(hit.record))
    elif hit.superseded_by is not None and _is_replaced(hit.superseded_by, allows):
        left_out(hit, SUPERSEDED, hit.superseded_by)
    elif hit.record.ref in older:
        left_out(hit, OUTDATED, older[hit.record.ref])


def _is_replaced(ref: str | None, allows: Callable[[str], bool] | None) -> bool:
    return ref is not None and (allows is None or allows(ref.rpartition("/")[0]))
