"""Explain whether, at which rank and with which score a query finds one memory, and if not, which conditions it does not meet.

    memory.explain("review/DEC-0001", "login", types="finding").reasons
    ['type is decision, the query asks for finding']

The rank comes from the query itself. The score of a memory that is not found is what it would have as one more candidate; each condition is tested
by the code that queries use (`smp_memory.search.unmet_conditions`).

Guarantees: `found` says whether the memory is in the whole list of hits, of which a page shows a part, and `rank` is its place there as pages of the query's
limit show it. A memory that is not found has at least one reason. Nothing is written, and nothing counts as used. An error for a memory that the
scope's viewer may not see is the same as for one that does not exist.
Non-guarantees: lists are read up to `MOST` hits; behind them `rank` is None.
"""

from __future__ import annotations

from copy import copy

from smp_memory.errors import InvalidQuery
from smp_memory.model.candidates import LATEST, NEAR_ENOUGH, NEWER, CandidateRequest
from smp_memory.model.history import COLD
from smp_memory.model.session_info import ARCHIVED
from smp_memory.model.statuses import last_successors
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope
from smp_memory.search.path import SearchRun, check, merged, repeated_once, search
from smp_memory.search.query import LIMIT, RELEVANCE
from smp_memory.search.records import find
from smp_memory.search.scoring import CANDIDATES
from smp_memory.search.succession import newer_first
from smp_memory.search.unmet_conditions import UnmetConditions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.model.candidates import Candidates, Hit
    from smp_memory.model.record import Record
    from smp_memory.search.query import Query
    from smp_memory.search.ranking import Ranked, Ranking

MOST = LIMIT  # hits that are read to find a rank
_FIRST, _GROWTH = 128, 8


class Explanation:
    """What a query makes of one memory."""

    def __init__(self, ref: str, record: Record | None) -> None:
        self.ref = ref
        self.record = record  # None if it is in an archive or a cold segment
        self.found = False  # whether it is in the whole list of hits
        self.rank: int | None = None  # its place there, from 1
        self.is_on_page = False  # whether the page of the query (offset, limit) shows it
        self.reasons: list[str] = []  # why it is not found, or not on the page
        self.score: float | None = None  # of the hit, or as if it were a candidate
        self.relevance: float | None = None
        self.priority: float | None = None
        self.parts: dict[str, Any] = {}  # of the score, as `Hit.explain`
        self.meaning: float | None = None  # similarity to the query, if it is searched by meaning
        self.superseded_by: str | None = None
        self.superseded_by_rank: int | None = None

    def to_dict(self) -> dict[str, Any]:
        figures = {name: getattr(self, name) for name in ("score", "relevance", "priority", "meaning")}
        return {
            "ref": self.ref,
            "record": None if self.record is None else self.record.to_dict(),
            "found": self.found,
            "rank": self.rank,
            "is_on_page": self.is_on_page,
            "reasons": self.reasons,
            **{name: None if value is None else round(value, 4) for name, value in figures.items()},
            "explain": self.parts,
            "superseded_by": self.superseded_by,
            "superseded_by_rank": self.superseded_by_rank,
        }

    def __str__(self) -> str:
        place = "" if self.rank is None else f" at rank {self.rank}"
        found = f"{self.ref} is found{place}" if self.found else f"{self.ref} is not found"
        return f"{found}: {'; '.join(self.reasons)}" if self.reasons else found

    def __repr__(self) -> str:
        return f"Explanation({self})"


def explain(
    scope: Scope,
    text: str | Mapping[str, Any] | None,
    options: Mapping[str, Any],
    ref: Any,
    viewer: str | None = None,
) -> Explanation:
    """Explain what a query makes of a memory. The options are those of `Memory.query`; `viewer`: an agent that asks the query."""
    given = merged(scope, text, options)
    given.pop("track_access", None)
    query = check(scope, given)
    session, memory_id = _named(scope, ref)
    store = scope.store
    store.check_open()
    if any(each.has_memories for each in store.sessions(ARCHIVED, id=session)):
        return _archived(scope, query, f"{session}/{memory_id}", f"in the archived session {session}")
    record = find(store.session(session), memory_id)
    if record is None and _is_cold(scope, session, memory_id):
        return _archived(scope, query, f"{session}/{memory_id}", f"in the cold segment of session {session}")
    if record is None or not scope.sees(record):
        raise memory_not_found(store.session(session), memory_id)
    explanation = Explanation(record.ref, record)
    asked = scope if viewer is None else _as_viewer(scope, viewer)
    is_visible = asked.sees(record)
    _explain_conditions(explanation, scope, query, record)
    if not is_visible:
        explanation.reasons.insert(0, f"not visible to agent {viewer}")
    _find_rank(explanation, asked, query)
    return explanation


def _named(scope: Scope, ref: Any) -> tuple[str, str]:
    name = ref if isinstance(ref, str) else getattr(ref, "ref", None)
    session, _, memory_id = name.rpartition("/") if isinstance(name, str) else ("", "", "")
    if not session and scope.sessions is not None and len(scope.sessions) == 1:
        session = scope.sessions[0]
    if not session or not memory_id:
        raise InvalidQuery(
            f"ref: {ref!r} is not the name of a memory; give session/ID, such as review/DEC-0001.", field="ref"
        )
    return session, memory_id


def _as_viewer(scope: Scope, viewer: str) -> Scope:
    return Scope(scope.store, scope.sessions, scope.config, scope.clock, viewer=Viewer(viewer))


# -- archives


def _is_cold(scope: Scope, session: str, memory_id: str) -> bool:
    storage = scope.store.session(session)
    return memory_id in storage.history([memory_id], segment=COLD).histories


def _archived(scope: Scope, query: Query, ref: str, where: str) -> Explanation:
    """Of an archived memory only the rank is known, if the query searches archives."""
    explanation = Explanation(ref, None)
    if not query.include_archived:
        explanation.reasons.append(f"{where}, which is searched only with include_archived")
        return explanation
    hit = _rank_among_archived(explanation, scope, query)
    if hit is None:
        explanation.reasons.append(f"{where}, and does not meet the query")
    else:
        explanation.record = hit.record
        _set_figures(explanation, hit)
    return explanation


def _rank_among_archived(explanation: Explanation, scope: Scope, query: Query) -> Hit | None:
    wide = copy(query)
    wide.offset, wide.limit, wide.count_by, wide.aggregations = 0, MOST, [], []
    for rank, hit in enumerate(search(scope, wide), 1):
        if hit.record.ref == explanation.ref:
            _set_rank(explanation, query, rank)
            return hit
    return None


# -- the rank


def _find_rank(explanation: Explanation, scope: Scope, query: Query) -> None:
    """Look for the memory in the list of hits: on the page, and in the whole list if it meets all conditions."""
    if query.include_archived:
        hit = _rank_among_archived(explanation, scope, query)
        if hit is not None:
            _set_figures(explanation, hit)
        elif not explanation.reasons:
            explanation.reasons.append("not among the hits")
        return
    found = repeated_once(lambda: _hits(explanation, query, scope))
    hits, is_whole = found
    place = next((place for place, hit in enumerate(hits) if hit.record.ref == explanation.ref), None)
    if place is not None:
        explanation.reasons.clear()
        _set_figures(explanation, hits[place])
        _set_rank(explanation, query, place + 1)
    elif not explanation.reasons and not is_whole:
        explanation.found = True
        explanation.reasons.append(f"behind the first {MOST:,} hits")
    elif not explanation.reasons:
        speaker = next((rank for rank, hit in enumerate(hits, 1) if explanation.ref in hit.echoes), None)
        explanation.reasons.append(
            _not_a_candidate(query)
            if speaker is None
            else f"repeats {hits[speaker - 1].record.ref}, which is found in its place at rank {speaker}"
        )
    if explanation.superseded_by is not None:
        ranks = {hit.record.ref: rank for rank, hit in enumerate(hits, 1)}
        explanation.superseded_by_rank = ranks.get(explanation.superseded_by)
        if not explanation.found and explanation.superseded_by_rank is not None:
            explanation.reasons.append(
                f"superseded by {explanation.superseded_by}, which is found at rank {explanation.superseded_by_rank}"
            )


def _hits(explanation: Explanation, query: Query, scope: Scope) -> tuple[list[Hit], bool]:
    """The hits up to the memory and the end of its page, and whether these are all; only the page if it does not meet the query."""
    end = query.offset + query.limit
    count = max(end, 1) if explanation.reasons else max(end, _FIRST)
    index = scope.index
    with index.snapshot():
        while True:
            run = SearchRun(query, index, scope.policy(), scope.viewer, None)
            page = run.first(count)
            hits = run.hits(page)
            is_found = any(explanation.ref in (hit.record.ref, *hit.echoes) for hit in hits)
            if is_found or len(page) < count or explanation.reasons or count >= MOST:
                break
            count = min(count * _GROWTH, MOST)
    return _as_pages(hits, query), len(page) < count


def _as_pages(hits: list[Hit], query: Query) -> list[Hit]:
    """The hits in the order of the pages that show them: on each, what is outdated comes behind what is newer."""
    if not (query.text and query.sort == RELEVANCE):
        return hits
    found, size = newer_first(hits[: query.offset]), query.limit or MOST
    for start in range(query.offset, len(hits), size):
        found += newer_first(hits[start : start + size])
    return found


def _set_rank(explanation: Explanation, query: Query, rank: int) -> None:
    explanation.found, explanation.rank = True, rank
    first, last = query.offset + 1, query.offset + query.limit
    explanation.is_on_page = first <= rank <= last
    if rank > last:
        explanation.reasons.append(f"rank {rank}, the page ends at {last}")
    elif rank < first:
        explanation.reasons.append(f"rank {rank}, the page begins at {first}")


def _set_figures(explanation: Explanation, hit: Hit) -> None:
    explanation.score, explanation.relevance, explanation.priority = hit.score, hit.relevance, hit.priority
    explanation.parts, explanation.superseded_by = hit.explain, hit.superseded_by


def _not_a_candidate(query: Query) -> str:
    if query.min_relevance is not None:
        return f"not among the first {CANDIDATES} candidates by words, which alone are compared with min_relevance"
    return "not among the hits"


# -- conditions, and the score as if it were a candidate


def _explain_conditions(explanation: Explanation, scope: Scope, query: Query, record: Record) -> None:
    index, viewer = scope.index, scope.viewer
    with index.snapshot():
        alone = CandidateRequest(
            refs=[record.ref], include_deleted=True, viewer=viewer, now=query.now, scope=query.scope, depth=query.depth,
            kinds=query.kinds, fetch=[NEWER, LATEST] if scope.policy().is_joint else [NEWER],
        )  # fmt: skip
        known = index.candidates(alone)
        if not known.matches:
            explanation.reasons.append("not in the index")
            return
        run = SearchRun(query, index, scope.policy(), viewer, None)
        found = (
            index.candidates(run.request.with_changes(limit=CANDIDATES, with_memory=record.ref)) if run.text else known
        )
        unrelated = [
            name
            for name in ("references", "related_to")
            if (names := getattr(query, name)) and not index.candidates(alone.with_changes(**{name: names})).matches
        ]
    ranked = (
        _as_candidate(run.ranking, found, record.ref) if run.text else next(run.ranking.rank_by_time(known.matches))
    )
    explanation.score, explanation.priority = ranked.score, ranked.priority
    explanation.relevance = run.ranking.relevance(ranked, record)
    explanation.parts = run.ranking.explain(ranked, record)
    unmet = UnmetConditions(query, known.matches[0], record, run.check, unrelated)
    explanation.reasons += unmet.in_words(found.text or run.text, ranked, explanation.relevance)
    successors = last_successors(record.ref, known.newer)
    explanation.superseded_by = successors[0].ref if successors else None
    if found.meaning_weight:
        explanation.meaning = meaning = ranked.candidate.meaning
        explanation.reasons = [_with_meaning(reason, meaning) for reason in explanation.reasons]


def _with_meaning(reason: str, meaning: float) -> str:
    if reason != "shares no word with the query":
        return reason
    close = "is not close in meaning" if meaning < NEAR_ENOUGH else "is not among the closest in meaning"
    return f"{reason} and {close} ({meaning:.2f})"


def _as_candidate(ranking: Ranking, found: Candidates, ref: str) -> Ranked:
    """Rank the memory among the best matches of the query, as if it met all conditions and the others were no hits."""
    found.matches = [each._replace(meets=each.ref == ref) for each in found.matches]
    found.others = [each._replace(meets=False) for each in found.others]
    return ranking.rank(found, 1, CANDIDATES)[0]
