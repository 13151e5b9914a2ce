"""The query path: from the options of a caller to one page of hits.

    query         check the options, search, note which memories were used
    search        the index caught up with the files, as the viewer may see it (`Scope.answer`); files for all sessions, and archives
                  if the query says so
    search_index  row conditions → candidates (a text query: from the text index; otherwise: rows by time)
                  → score and priority (`Ranking`) → order → records from the files, checked against the query → page

A query sees everything that was acknowledged before it, by any process. It takes no lock that a writer waits for, and
writes nothing but the access log.

Guarantees: every hit meets the query as its record is in the files now; the order is the same for the same store,
query and time. Decay moves a memory down by a bounded factor; decayed memories are left out only if the query says so.
"""

from __future__ import annotations

import time
from copy import copy
from functools import partial

from smp_memory.errors import QueryTimeout
from smp_memory.index.documents import label_key, text_of
from smp_memory.index.query import MatchColumns, is_loose, matches_spelling, only_docs
from smp_memory.index.tokenizer import joined_terms, parse, spellings
from smp_memory.model.history import PausedCollection
from smp_memory.model.hits import Hit, Hits
from smp_memory.model.storage_reports import ARCHIVED
from smp_memory.observe.tracing import QUERY, observes
from smp_memory.scope import unindexed_memories
from smp_memory.search.field_values import aggregate, with_computed
from smp_memory.search.names import spelled, with_corrections
from smp_memory.search.query import NEWEST, OLDEST, PRIORITY, RELEVANCE, SORT_NAMES, Query
from smp_memory.search.ranking import SENTENCE_WORDS, Ranking, sort_key, uses_embeddings
from smp_memory.search.scoring import CANDIDATES, RARITY
from smp_memory.search.succession import SuccessionOrder, newer_first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from smp_memory.index.query import TextMatch
    from smp_memory.index.rows import Row
    from smp_memory.index.tokenizer import ParsedText
    from smp_memory.model.decay import Policy
    from smp_memory.model.record import Record
    from smp_memory.scope import Scope
    from smp_memory.search.ranking import RankedRow
    from smp_memory.store.port import IndexSearcher

    Page = list[tuple[RankedRow, Record]]

_ALL = 1 << 30
_BLOCK = 64  # rows read at once after the first block
_GROWTH = 8


def query(scope: Scope, text: str | Mapping[str, Any] | None, options: Mapping[str, Any]) -> Hits:
    """Find memories, best first. The options are those of `Memory.query`."""
    given = merged(scope, text, options)
    is_tracked = given.pop("track_access", True)
    hits = search(scope, check(scope, given))
    if is_tracked:
        scope.note_access(hits.records)
    return hits


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
    store.check_open()
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
    policy = scope.policy()
    hits: Hits = scope.answer(
        query.sessions,
        lambda searcher: search_index(query, searcher, policy),
        with_others=query.follows_relations,
        by_meaning=uses_embeddings(query),
    )
    return hits


def search_index(query: Query, searcher: IndexSearcher, policy: Policy, *, among: set[int] | None = None) -> Hits:
    """One page of hits; with `among`, only these docs are searched."""
    ranking = Ranking(query, searcher, policy)
    run = SearchRun(query, searcher, ranking, among)
    end = query.offset + query.limit
    page = run.first(end + 1)  # one more tells whether there is another page
    hits = run.hits(page[query.offset : end])
    if query.include_related:
        _add_related(hits, query, searcher)
    found = Hits(
        newer_first(hits) if query.text and query.sort == RELEVANCE else hits,
        more=len(page) > end,
        counts=run.counts(),
        left_out=list(searcher.left_out.values()),  # known only after the records were read
        problems=searcher.problems(query.sessions),
        aggregations=run.aggregations(),
    )
    found.not_valid, found.corrected = run.not_valid(), run.corrected(hits)
    if uses_embeddings(query):
        found.warnings += searcher.warnings
    return found


def _add_related(hits: list[Hit], query: Query, searcher: IndexSearcher) -> None:
    for hit in hits:
        related = searcher.related([hit.record.ref], "", query.depth, query.kinds)
        rows = searcher.rows(list(related))
        records = searcher.records([rows[doc] for doc in related if doc in rows])
        hit.related = [record for record in records.values() if record is not None and not record.deleted]


class SearchRun:
    """One query while it is answered: candidates, their order and the records that pass the checks."""

    def __init__(self, query: Query, searcher: IndexSearcher, ranking: Ranking, among: set[int] | None) -> None:
        self._query = query
        self._searcher = searcher
        self._ranking = ranking
        self._deadline = None if query.timeout is None else time.monotonic() + query.timeout
        self.conditions = searcher.conditions(query)
        self.text = parse(query.text)
        self._corrected: dict[str, str] = {}
        if self.text.words:
            self.text, self._corrected = with_corrections(query.text, self.text, searcher, self.conditions)
        self.check = RecordCheck(query, self.text, ranking)
        if among is not None:
            self.conditions.docs = among if self.conditions.docs is None else self.conditions.docs & among
        allows = None if query.sessions is None else set(query.sessions).__contains__
        self._succession = SuccessionOrder(ranking, searcher, self.conditions, query.now, allows)

    def first(self, count: int) -> Page:
        """The first `count` matches in the query's order."""
        if self.conditions.is_impossible:
            return []
        if self._query.text:
            return self._by_text(count) if self.text else []
        if self._query.sort in (NEWEST, OLDEST) and not self._query.then_by:
            return self._by_time(count)
        rows = self._searcher.select(self.conditions, NEWEST, -1)
        return self._checked(self._sorted(self._ranking.rank_rows(rows)), count)

    def hits(self, page: Page) -> list[Hit]:
        explain, relevance = self._ranking.explain, self._ranking.relevance
        hits = [
            Hit(record, each.score, each.priority, partial(explain, each), partial(relevance, each))
            for each, record in page
        ]
        if self._searcher.has_successions:
            successors = self._succession.successors([each.row for each, _ in page])
            for hit, (each, _) in zip(hits, page, strict=True):
                hit.superseded_by = successors.get(each.row.doc)
        return hits

    def corrected(self, hits: list[Hit]) -> dict[str, str]:
        """The known words that were searched for unknown ones, as these hits spell them."""
        return spelled(self._corrected, [hit.record for hit in hits]) if self._corrected else {}

    def not_valid(self) -> int:
        """How many memories were left out because they do not hold at the time of the query."""
        if self.conditions.is_impossible:
            return 0
        return self._searcher.not_valid_count(self.conditions, by_text=bool(self._query.text))

    def counts(self) -> dict[str, dict[str, int]]:
        """Counts over all matches, not only those of the page."""
        query = self._query
        if not query.count_by:
            return {}
        matches = None
        if self.check.may_reject:
            matches = _columns(ranked.row for ranked, _ in self.first(_ALL))
        elif query.text and not self.conditions.is_impossible:
            with PausedCollection():  # many thousands of matches, none of them garbage
                matches = self._all_matches() if self.text else _columns(())
                return self._searcher.counts(query.count_by, self.conditions, matches)
        return self._searcher.counts(query.count_by, self.conditions, matches)

    def _all_matches(self) -> MatchColumns:
        """All that `first` would find, without reading a record. Only if `RecordCheck` cannot reject any."""
        searcher, conditions = self._searcher, self.conditions
        found = searcher.all_matches(self.text, conditions)
        others: dict[int, Row] = {}
        if max(len(self.text.words), len(self._query.text.split())) >= SENTENCE_WORDS:  # neighbours, and similar ones
            ranking = copy(self._ranking)  # its rivals are those of the page
            best = searcher.search(self.text, conditions, CANDIDATES, RARITY)
            others = {each.row.doc: each.row for each in ranking.rank_matches(best, self.text, conditions, _ALL)}
        if conditions.needs_rows:
            rows = searcher.rows(found.docs)
            found = only_docs(found, lambda doc: doc in rows and conditions.meets_bounds(rows[doc]))
        if self._query.sort == RELEVANCE and searcher.has_successions:
            superseded = searcher.rows(list(searcher.superseded() & {*found.docs, *others}))
            others.update({row.doc: row for row in self._succession.admitted_successors(list(superseded.values()))})
        known = set(found.docs) if others else ()
        more = _columns(row for doc, row in others.items() if doc not in known and searcher.is_visible(row))
        return MatchColumns(*(one + other for one, other in zip(found, more, strict=True))) if others else found

    def aggregations(self) -> dict[str, dict[str, Any]]:
        """Aggregations over all matches, not only those of the page."""
        if not self._query.aggregations:
            return {}
        records = [with_computed(record.to_dict(), ranked.computed) for ranked, record in self.first(_ALL)]
        return aggregate(self._query.aggregations, records)

    # -- candidates

    def _by_text(self, count: int) -> Page:
        """Rank the best candidates by text among themselves; then the next ones, until there are enough or no more.

        How many are ranked together does not depend on the page, so pages neither overlap nor leave anything out.
        """
        page: Page = []
        seen: set[int] = set()
        lowest = 1.0
        limit = CANDIDATES if self._query.sort == RELEVANCE else _ALL
        while True:
            matches = self._searcher.search(self.text, self.conditions, limit, RARITY)
            self._check_time()
            enough = count if limit == CANDIDATES and not self.check.may_reject else _ALL
            ordered = self._ranked(matches, enough, seen, lowest)
            part = self._checked(self._with_successors(ordered, seen), count - len(page))
            if len(part) < count - len(page) and len(ordered) >= enough:  # some were rejected: rank all the others, too
                ordered = self._ranked(matches, _ALL, seen, lowest)
                part = self._checked(self._with_successors(ordered, seen), count - len(page))
            page += part
            if len(page) >= count or len(matches) < limit or self._query.min_relevance is not None:
                return page  # what is not among the first candidates is not relevant
            seen.update(each.row.doc for each in ordered)
            seen.update(each.row.doc for each, _ in part)
            lowest = min((each.score for each in ordered), default=lowest)
            limit *= _GROWTH

    def _with_successors(self, ordered: list[RankedRow], seen: set[int]) -> Iterable[RankedRow]:
        is_ordered = self._query.sort == RELEVANCE and self._searcher.has_successions
        return self._succession.ordered(ordered, seen) if is_ordered else ordered

    def _ranked(self, matches: list[TextMatch], enough: int, seen: set[int], lowest: float) -> list[RankedRow]:
        """Matches that were not seen before, in the query's order, none with a higher score than those that were."""
        ranked = self._ranking.rank_matches(matches, self.text, self.conditions, enough)
        ordered = self._sorted(each for each in ranked if each.row.doc not in seen)
        for each in ordered:
            each.score = min(each.score, lowest)
        return ordered

    def _by_time(self, count: int) -> Page:
        """Select rows in the query's order, block by block, so that no more are read than are needed."""
        page: Page = []
        offset, size = 0, count
        while len(page) < count:
            rows = self._searcher.select(self.conditions, self._query.sort, size, offset)
            page += self._checked(self._ranking.rank_rows(rows), count - len(page))
            if len(rows) < size:
                break
            offset += size
            size = max(_BLOCK, size)
            self._check_time()
        return page

    def _sorted(self, ranked: Iterable[RankedRow]) -> list[RankedRow]:
        return sorted(ranked, key=sort_key(self._query.sort, self._query.then_by))

    # -- records

    def _checked(self, ranked: Iterable[RankedRow], count: int) -> Page:
        """The first `count` whose records, as they are in the files, meet the query."""
        page: Page = []
        block: list[RankedRow] = []
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

    def _with_records(self, block: list[RankedRow]) -> Iterator[tuple[RankedRow, Record]]:
        records = self._searcher.records([each.row for each in block])
        for each in block:
            record = records.get(each.row.doc)
            if record is not None and self.check.is_met(each, record):
                yield each, record

    def _check_time(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise QueryTimeout(
                f"The query took longer than {self._query.timeout:g} s. Narrow it: one session, a type, a time range.",
                timeout=self._query.timeout,
            )


def _columns(rows: Iterable[Row]) -> MatchColumns:
    given = list(rows)
    return MatchColumns([row.doc for row in given], [row.created for row in given], [row.facts for row in given])


class RecordCheck:
    """The parts of a query that the index cannot answer, checked on each candidate and its record.

    The index knows terms, not their order (phrases) or their endings (wildcards inside a word); it has no computed
    values and not all fields; and a record may have changed since it was indexed.
    """

    def __init__(self, query: Query, text: ParsedText, ranking: Ranking) -> None:
        self._query = query
        self._text = text
        self._ranking = ranking
        self._wildcards = [each for each in text.patterns if is_loose(each)]
        self._excluded_wildcards = [each for each in text.excluded_patterns if is_loose(each)]
        self._has_phrases = bool(text.phrases) or any(len(words) > 1 for words in text.excluded)
        self._needs_text = self._has_phrases or bool(self._wildcards or self._excluded_wildcards)
        self.has_bounds = query.min_priority is not None or not query.include_decayed
        has_topics = bool(query.topic_in_text and query.topics)
        has_conditions = query.where is not None or query.min_relevance is not None or has_topics
        self.may_reject = has_conditions or self.has_bounds or self._needs_text

    def with_text(self, text: ParsedText) -> RecordCheck:
        """The same for another text."""
        return RecordCheck(self._query, text, self._ranking)

    def is_in_bounds(self, ranked: RankedRow) -> bool:
        query = self._query
        if query.min_priority is not None and ranked.priority < query.min_priority:
            return False
        return bool(query.include_decayed) or not ranked.is_decayed

    def is_met(self, ranked: RankedRow, record: Record) -> bool:
        query = self._query
        if record.deleted and not query.include_deleted:
            return False
        if query.topic_in_text and not self.has_topic(record):
            return False
        if self._needs_text and not (self.has_right_phrases(record) and self.has_right_words(record)):
            return False
        if query.min_relevance is not None and self._ranking.relevance(ranked, record) < query.min_relevance:
            return False
        return query.where is None or query.where.admits(record, ranked.computed)

    def has_topic(self, record: Record) -> bool:
        """Whether a topic of the query is the record's topic, one of its tags, or a part of its text (design 000)."""
        tags = record.tags if isinstance(record.tags, list) else [record.tags]  # a person may have typed anything
        labels = [label_key(each) for each in (record.topic, *tags)]
        text = text_of(record.given).casefold()
        return not self._query.topics or any(
            any(each == label_key(topic) or each.startswith(label_key(topic) + ".") for each in labels)
            or topic.casefold() in text
            for topic in self._query.topics
        )

    def has_right_phrases(self, record: Record) -> bool:
        if not self._has_phrases:
            return True
        terms = f" {joined_terms(text_of(record.given))} "
        return all(f" {' '.join(words)} " in terms for words in self._text.phrases) and not any(
            f" {' '.join(words)} " in terms for words in self._text.excluded
        )

    def has_right_words(self, record: Record) -> bool:
        if not (self._wildcards or self._excluded_wildcards):
            return True
        words = spellings(f"{text_of(record.given)}\n{record.id}")
        return all(matches_spelling(each, words) for each in self._wildcards) and not any(
            matches_spelling(each, words) for each in self._excluded_wildcards
        )
