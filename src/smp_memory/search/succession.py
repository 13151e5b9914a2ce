"""Current memories: successors before what they supersede, and the hits that are still valid.

Every way to read uses these rules (docs/adr/0026-validity-and-succession.md):

    not valid    `valid_from` or `valid_until` says that it does not hold at the time of the query: no candidate at all, unless the
                 query has `include_expired` (`CandidateRequest.valid_at`)
    superseded   another memory took its place: it stays in a query, right behind its successor, which is as relevant as it is
    settled      its status says that nothing is left to do, or that it was overturned: less relevant than what is open
    outdated     a newer memory says the same with another value: it comes behind the newer one

`current_hits` is for what reaches a prompt: it keeps hits that are none of these.
"""

from __future__ import annotations

from smp_memory.model.statuses import is_settled, last_successors, status_of
from smp_memory.search.outdated import outdated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from smp_memory.model.candidates import Candidate
    from smp_memory.model.hits import Hit
    from smp_memory.search.ranking import Ranked, Ranking

SETTLED, SUPERSEDED, OUTDATED = "settled", "superseded", "outdated"  # why a hit does not hold
_BLOCK = 32  # candidates whose successors are looked at together


class SuccessionOrder:
    """Puts successors before what they supersede, among the ranked candidates of one query.

    The order of the first ones does not depend on how many are read. A successor must meet the conditions of the query, but need
    not share a word with it: it is found through what it superseded.
    """

    def __init__(self, ranking: Ranking, allows: Callable[[str], bool] | None = None) -> None:
        """`allows` tells from which sessions a successor may come (None: all)."""
        self._ranking = ranking
        self._allows = allows
        self._has_admitted = False

    def ordered(
        self, ranked: list[Ranked], newer: Mapping[str, Sequence[Candidate]], emitted: Iterable[str] = ()
    ) -> Iterator[Ranked]:
        """The same candidates, each after its successors; without the refs in `emitted`, which come before all of them.

        `newer`: by ref the memories that directly took its place (`Candidates.newer`).
        """
        done = set(emitted)
        if not newer:
            yield from [each for each in ranked if each.ref not in done] if done else ranked
            return
        by_ref = {each.ref: each for each in ranked}
        for start in range(0, len(ranked), _BLOCK):
            block = [(each, each.ref) for each in ranked[start : start + _BLOCK]]
            known = {ref: found for _, ref in block if (found := last_successors(ref, newer, self._allows))}

            self._has_admitted |= any(each.meets for found in known.values() for each in found)
            for each, ref in block if self._has_admitted else ():
                if ref in known:
                    self._ranking.remove_rival(each)
            for each, ref in block:
                for successor in known.get(ref, ()):
                    if successor.meets and successor.ref not in done:
                        done.add(successor.ref)
                        yield self._ranking.inherit(successor, each, by_ref.get(successor.ref))
                if ref not in done:
                    done.add(ref)
                    yield each


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
