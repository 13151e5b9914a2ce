"""The query path: from the options of a caller to one page of hits.

    query         check the options, search, note which memories were used
    search        the index of live sessions, as the viewer may see it; files for all sessions, and archives if the query says so
    search_index  candidates of the search port (a text query: by text, else by time) → score and priority (`Ranking`) → order → records,
                  checked against the query → page. All in one snapshot: three calls of the port for most queries, more for counts, related memories and further blocks.

A query sees everything that was acknowledged before it, by any process. It takes no lock that a writer waits for, and writes nothing but the access log.

Guarantees: every hit meets the query as its record is stored now; the order is the same for the same store, query and time. Decay moves a memory
down by a bounded factor; decayed memories are left out only if the query says so. Relevance is the number of a hook for the same words.
"""

from __future__ import annotations

import time
from functools import partial

from smp_memory.errors import QueryTimeout, SMPError
from smp_memory.model.candidates import (
    LATEST,
    NEWER,
    NOT_VALID,
    PROBLEMS,
    REPEATED,
    CandidateRequest,
    Candidates,
    FoundRecords,
    Hit,
    Hits,
)
from smp_memory.model.session_info import ARCHIVED
from smp_memory.model.statuses import is_settled, last_successors, state_of_repeated
from smp_memory.observe.telemetry import QUERY, observes
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import unindexed_memories
from smp_memory.search.field_values import aggregate, with_computed
from smp_memory.search.query import NEWEST, OLDEST, PRIORITY, RELEVANCE, SORT_NAMES, Query
from smp_memory.search.ranking import (
    SENTENCE_WORDS,
    Ranking,
    RecordCheck,
    count_records,
    is_plain,
    is_sentence,
    sort_key,
    uses_embeddings,
)
from smp_memory.search.relevance import floor_beside
from smp_memory.search.scoring import CANDIDATES
from smp_memory.search.succession import SuccessionOrder, newer_first
from smp_memory.text.names import spelled
from smp_memory.text.tokenizer import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.decay import Policy
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.scope import Scope
    from smp_memory.search.port import SearchIndex
    from smp_memory.search.ranking import Ranked

    T = TypeVar("T")
    Page = list[tuple[Ranked, Record]]

_ALL = 1 << 30
_BLOCK = 64  # candidates read at once after the first block
_GROWTH = 64


def query(scope: Scope, text: str | Mapping[str, Any] | None, options: Mapping[str, Any]) -> Hits:
    """Find memories, best first. The options are those of `Memory.query`."""
    given = merged(scope, text, options)
    is_tracked = given.pop("track_access", True)
    hits = search(scope, check(scope, given))
    if is_tracked:
        scope.note_access(hits.records)
    return hits


def relevant_hits(hits: Iterable[Hit], text: Any, sort: Any, floor: float, least: float | None = None) -> list[Hit]:
    """The hits that are relevant enough. Unless `least` says otherwise, keywords and other sort orders ask for every match."""
    found = [hit for hit in hits if not hit.repeats_state]
    if least is None and isinstance(text, str) and sort in (None, RELEVANCE) and is_sentence(text):
        least = floor_beside(max((hit.relevance for hit in found), default=0.0), floor)
    return found if least is None else [hit for hit in found if hit.relevance >= least]


def merged(scope: Scope, text: str | Mapping[str, Any] | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a query, its text among them."""
    given = dict(options)
    if text is not None and not isinstance(text, str) and hasattr(text, "keys"):
        given = {**text, **given}
    elif text is not None:
        given["text"] = text
    if scope.config.layout == "single":  # design 000 searches topics in the text, and sorts by priority
        given.setdefault("topic_in_text", True)
        if not given.get("text") and SORT_NAMES.isdisjoint(given):
            given["sort"] = [PRIORITY, OLDEST]
    return given


def check(scope: Scope, options: Mapping[str, Any]) -> Query:
    """The checked query; it is about the sessions of the scope unless it names others."""
    if scope.sessions is not None and options.get("sessions") is None and options.get("session") is None:
        options = {**options, "sessions": scope.sessions}
    return Query(options, scope.now())


@observes(QUERY)
def search(scope: Scope, query: Query) -> Hits:
    """Answer a checked query. Hidden memories are left out before the limit is applied, so they take nobody's place."""
    store = scope.store
    others = unindexed_memories(store, query.sessions)
    if query.include_archived or others:
        from smp_memory.search.archive_search import search_with_archives  # a door: rare, and it unpacks archives

        hits = search_with_archives(scope, query, others, search_live, search_index)
    else:
        hits = search_live(scope, query)
    if query.sessions is None and not query.include_archived:
        hits.archived_not_searched = sum(each.has_memories for each in store.sessions(ARCHIVED))
    hits.min_relevance = scope.config["recall.min_relevance"]
    if scope.opened is not None:
        hits.warnings += scope.opened.take_warnings()
    return hits


def search_live(scope: Scope, query: Query) -> Hits:
    """Search the index of live sessions."""
    return search_index(query, scope.index, scope.policy(), scope.viewer)


def search_index(
    query: Query,
    index: SearchIndex,
    policy: Policy,
    viewer: Viewer | None = None,
    *,
    among: Collection[str] | None = None,
    ignores_missing: bool = False,
) -> Hits:
    """One page of hits. `among`: only these memories are searched; `ignores_missing`: not all sessions of the query are in the index."""
    return repeated_once(lambda: _search_once(query, index, policy, viewer, among, ignores_missing))


def repeated_once(work: Callable[[], T]) -> T:
    """Run work that reads a snapshot of an index; once more if it fails, because a damaged index was then discarded."""
    try:
        return work()
    except (SMPError, OSError):
        raise
    except Exception:
        return work()


def _search_once(
    query: Query,
    index: SearchIndex,
    policy: Policy,
    viewer: Viewer | None,
    among: Collection[str] | None,
    ignores_missing: bool,
) -> Hits:
    with index.snapshot():
        run = SearchRun(query, index, policy, viewer, among)
        run.request.ignores_missing = ignores_missing
        end = query.offset + query.limit
        page = run.first(end + 1)  # one more tells whether there is another page
        hits = run.hits(page[query.offset : end])
        if query.include_related:
            _add_related(hits, query, index, viewer)
        counts, aggregations = run.counts(), run.aggregations()
    found = Hits(
        newer_first(hits) if query.text and query.sort == RELEVANCE else hits,
        more=len(page) > end,
        counts=counts,
        left_out=list(run.left_out.values()),  # known only after the records were read
        problems=run.problems,
        aggregations=aggregations,
    )
    found.not_valid, found.corrected, found.warnings = run.not_valid, run.corrected(hits), run.warnings
    return found


def _add_related(hits: list[Hit], query: Query, index: SearchIndex, viewer: Viewer | None) -> None:
    related = index.related([hit.record.ref for hit in hits], query.depth, query.kinds, viewer)
    records = index.records({each.ref for near in related.values() for each in near}, viewer)
    for hit in hits:
        near = (records.get(each.ref) for each in related.get(hit.record.ref, ()))
        hit.related = [record for record in near if record is not None and not record.deleted]


def request_of(query: Query, policy: Policy, viewer: Viewer | None = None) -> CandidateRequest:
    """What the query asks the index for; the rest is checked in the records (`RecordCheck`)."""
    request = CandidateRequest(
        sessions=query.sessions,
        types=query.types,
        authors=query.agents,
        tags=query.tags,
        all_tags=query.all_tags,
        not_tags=query.not_tags,
        topics=[] if query.topic_in_text else query.topics,
        min_importance=query.min_importance,
        min_confidence=query.min_confidence,
        confidence=query.confidence,
        pinned=query.pinned,
        include_deleted=bool(query.include_deleted),
        valid_at=query.valid_at,
        references=query.references,
        related_to=query.related_to,
        kinds=query.kinds,
        depth=query.depth,
        scope=query.scope,
        viewer=viewer,
        now=query.now,
        fetch=[PROBLEMS, NOT_VALID, REPEATED, *([LATEST] if policy.is_joint else ())],
    )
    if query.time is not None:
        request.since, request.until = query.time.start, query.time.end
    if query.text:
        _add_text(request, query)
    return request


def _add_text(request: CandidateRequest, query: Query) -> None:
    """A sentence also finds the turns beside those with its words; a word or two, or tags and topics, ask for exactly those."""
    text = parse(query.text)
    request.words, request.text, request.with_corrections = query.text, text, True
    request.front = CANDIDATES if query.mode == "default" else _ALL
    request.by_meaning = uses_embeddings(query)
    request.with_neighbours = len(text.words) >= SENTENCE_WORDS and is_plain(text) and not request.has_labels
    if query.sort == RELEVANCE:
        request.fetch = [*request.fetch, NEWER]


class SearchRun:
    """One query while it is answered: candidates, their order and the records that pass the checks."""

    def __init__(
        self, query: Query, index: SearchIndex, policy: Policy, viewer: Viewer | None, among: Collection[str] | None
    ) -> None:
        self._query = query
        self._index = index
        self._viewer = viewer
        self._deadline = None if query.timeout is None else time.monotonic() + query.timeout
        self.ranking = Ranking(query, policy)
        self.request = request_of(query, policy, viewer)
        self.request.refs = among
        self.text = self.request.text or parse("")
        self.check = RecordCheck(query, self.text, self.ranking)
        self._allows = None if query.sessions is None else set(query.sessions).__contains__
        self._succession = SuccessionOrder(self.ranking, self._allows)
        # A query by time, by phrases or by fields finds exactly what meets it: no memory takes the place of a turn.
        self._collapses = bool(query.text) and query.sort == RELEVANCE and not self.check.judges_records
        self._found = Candidates([])  # the last answer of the index
        self._every: Page | None = None  # all matches, if they are asked for
        self.problems: list[Problem] = []
        self.left_out: dict[str, LeftOut] = {}  # sessions that were archived or deleted during the query
        self.not_valid = 0  # how many memories were left out because they are not valid at the time of the query
        self.warnings: list[str] = []

    def first(self, count: int) -> Page:
        """The first `count` matches in the query's order."""
        if self._query.text:
            return self._by_text(count)
        if self._query.sort in (NEWEST, OLDEST) and not self._query.then_by:
            return self._by_time(count)
        found = self._candidates(limit=None)
        return self._checked(self._sorted(self.ranking.rank_by_time(found.matches)), count)

    def hits(self, page: Page) -> list[Hit]:
        explain, relevance = self.ranking.explain, self.ranking.relevance
        hits = [
            Hit(record, each.score, each.priority, partial(explain, each), partial(relevance, each))
            for each, record in page
        ]
        for hit in hits:
            hit.settled = is_settled(hit.record)
        found = self._found
        if found.has_successions and page and NEWER not in self.request.fetch:
            found = self._states_of(page)
        for hit, (each, _) in zip(hits, page, strict=True) if found.has_successions else ():
            newer = last_successors(each.ref, found.newer, self._allows)
            hit.superseded_by = newer[0].ref if newer else None
        if found.repeated or any(each.candidate.repeats for each, _ in page):
            self._add_repeated(hits, page, found)
        return hits

    def _add_repeated(self, hits: list[Hit], page: Page, found: Candidates) -> None:
        """Tell which hits repeat a memory, and of which memories turns were left out."""
        echoes: dict[str, list[str]] = {}
        for turn, memory in self._succession.speakers.items() if self._collapses else ():
            echoes.setdefault(memory.ref, []).append(turn)
        for hit, (each, _) in zip(hits, page, strict=True):
            state, ref = state_of_repeated(each.candidate, found, self._allows, self._query.valid_at)
            hit.repeats_state, hit.repeats = state, ref or None
            hit.echoes = echoes.get(each.ref, [])

    def _states_of(self, page: Page) -> Candidates:
        """The memories of a page with those that took their place, and those that they repeat."""
        refs, now = [each.ref for each, _ in page], self._query.now
        asked = CandidateRequest(refs=refs, include_deleted=True, viewer=self._viewer, now=now, fetch=[NEWER, REPEATED])
        asked.sessions, asked.ignores_missing = self._query.sessions, self.request.ignores_missing
        return self._index.candidates(asked)

    def corrected(self, hits: list[Hit]) -> dict[str, str]:
        """The known words that were searched for unknown ones, as these hits spell them."""
        words = self._found.corrected
        return spelled(words, [hit.record for hit in hits]) if words else {}

    def counts(self) -> dict[str, dict[str, int]]:
        """Counts over all matches, not only those of the page."""
        query = self._query
        if not query.count_by:
            return {}
        if self.check.may_reject:
            records = [record for _, record in self._all()]
            return {field: count_records(field, records) for field in query.count_by}
        found = self._index.facets(self.request, query.count_by)
        self.not_valid = max(self.not_valid, found.not_valid)
        return found.counts

    def aggregations(self) -> dict[str, dict[str, Any]]:
        """Aggregations over all matches, not only those of the page."""
        if not self._query.aggregations:
            return {}
        records = [with_computed(record.to_dict(), ranked.computed) for ranked, record in self._all()]
        return aggregate(self._query.aggregations, records)

    def _all(self) -> Page:
        """All matches, which are read once."""
        if self._every is None:
            self._every = self.first(_ALL)
        return self._every

    # -- candidates

    def _candidates(self, **changes: Any) -> Candidates:
        found = self._found = self._index.candidates(self.request.with_changes(**changes))
        if not self._collapses:
            found.repeated = {ref: each._replace(meets=False) for ref, each in found.repeated.items()}
        if self._viewer is None and found.frequencies:
            self.ranking.recalled = self._index.vocabulary(found.frequencies, Viewer(None))
        self.problems, self.warnings = found.every_problem, found.warnings
        self.not_valid = max(self.not_valid, found.not_valid)
        self._check_time()
        return found

    def _by_text(self, count: int) -> Page:
        """Rank the best candidates by text among themselves; then the next ones, until there are enough or no more.

        How many are ranked together does not depend on the page, so pages neither overlap nor leave anything out.
        """
        page: Page = []
        seen: set[str] = set()
        lowest = 1.0
        is_first_page = self._query.sort == RELEVANCE and (count < _ALL or self._query.min_relevance is not None)
        limit = CANDIDATES if is_first_page else _ALL
        while True:
            found = self._candidates(limit=limit)
            enough = count if limit == CANDIDATES and not self.check.may_reject else _ALL
            ordered = self._ranked(found, enough, seen, lowest)
            part = self._checked(self._succession.ordered(ordered, found, seen), count - len(page))
            if len(part) < count - len(page) and len(ordered) >= enough:  # some were rejected: rank all the others, too
                ordered = self._ranked(found, _ALL, seen, lowest)
                part = self._checked(self._succession.ordered(ordered, found, seen), count - len(page))
            page += part
            if len(page) >= count or found.is_all or self._query.min_relevance is not None:
                return page  # what is not among the first candidates is not relevant
            seen.update(each.ref for each in ordered)
            seen.update(each.ref for each, _ in part)
            lowest = min((each.score for each in ordered), default=lowest)
            limit *= _GROWTH

    def _ranked(self, found: Candidates, enough: int, seen: set[str], lowest: float) -> list[Ranked]:
        """Matches that were not seen before, in the query's order, none with a higher score than those that were."""
        ranked = self.ranking.rank(found, enough)
        if seen:
            ranked = [each for each in ranked if each.ref not in seen]
        ordered = self._sorted(ranked)
        for each in ordered:
            each.score = min(each.score, lowest)
        return ordered

    def _by_time(self, count: int) -> Page:
        """Candidates in the query's order, block by block, so that no more are read than are needed."""
        page: Page = []
        offset, size = 0, count
        while len(page) < count:
            found = self._candidates(limit=size, offset=offset, order=self._query.sort)
            page += self._checked(self.ranking.rank_by_time(found.matches), count - len(page))
            if found.is_all:
                break
            offset += size
            size = min(max(_BLOCK, 2 * size), _ALL)
        return page

    def _sorted(self, ranked: Iterable[Ranked]) -> list[Ranked]:
        return sorted(ranked, key=sort_key(self._query.sort, self._query.then_by))

    # -- records

    def _checked(self, ranked: Iterable[Ranked], count: int) -> Page:
        """The first `count` whose records, as they are stored, meet the query."""
        page: Page = []
        block: list[Ranked] = []
        has_bounds = self.check.has_bounds
        for each in ranked:
            if not has_bounds or self.check.is_in_bounds(each):
                block.append(each)
            if len(block) >= count - len(page):
                page += self._with_records(block)
                block = []
                self._check_time()
                if len(page) >= count:
                    return page[:count]
        page += self._with_records(block)
        return page[:count]

    def _with_records(self, block: list[Ranked]) -> Iterator[tuple[Ranked, Record]]:
        if not block:
            return
        wanted = [each.candidate for each in block]
        wanted += [each.predecessor[0].candidate for each in block if each.predecessor is not None]
        records = self._index.records(wanted, self._viewer)
        self.left_out |= records.left_out
        for each in block:
            if each.predecessor is not None:
                _set_predecessor(each, records)
            record = records.get(each.ref)
            if record is not None and self.check.is_met(each, record):
                yield each, record

    def _check_time(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise QueryTimeout(
                f"The query took longer than {self._query.timeout:g} s. Narrow it: one session, a type, a time range.",
                timeout=self._query.timeout,
            )


def _set_predecessor(each: Ranked, records: FoundRecords) -> None:
    old = each.predecessor[0] if each.predecessor is not None else None
    each.predecessor = (old, records[old.ref]) if old is not None and old.ref in records else None
