"""Rank candidates: score, relevance, priority and sort order of the rows that a query found.

The score itself is pure and in `smp_memory.search.scoring`, decay in `smp_memory.decay`. This module gathers their
inputs: rows, access counts, document frequencies, neighbouring turns, and vectors if there is an embedding model.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache, partial
from math import prod

from smp_memory.decay import importance_of
from smp_memory.index.decay_inputs import decay_inputs, joint_searcher
from smp_memory.index.documents import AUTHOR_SHIFT, ROLE
from smp_memory.index.embeddings import QUESTION_WORDS
from smp_memory.index.query import text_matches
from smp_memory.index.rows import POSITION_BITS
from smp_memory.model.types import KINDS, NUMBERED, OVERTURNED_STATUSES
from smp_memory.search import scoring
from smp_memory.search.field_values import level_of
from smp_memory.search.query import (
    ACCESS,
    FADED_FIRST,
    IMPORTANCE,
    LEAST_USED_FIRST,
    MILDEST_FIRST,
    NEWEST,
    OLDEST,
    PRIORITY,
    RELEVANCE,
    SEVERITY,
    UNIMPORTANT_FIRST,
)
from smp_memory.search.relevance import RIVAL_SHARE, RelevanceModel
from smp_memory.search.time_ranges import find_ranges
from smp_memory.text.tokenizer import parse, terms
from smp_memory.text.wildcards import inverse_frequency

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from smp_memory.decay import DecayInputs, Policy
    from smp_memory.index.query import RowConditions, TextMatch
    from smp_memory.index.rows import Row
    from smp_memory.model.record import Record
    from smp_memory.search.field_values import Computed
    from smp_memory.search.query import Query
    from smp_memory.store.port import IndexSearcher
    from smp_memory.text.tokenizer import ParsedText

DECAYED_BELOW = 0.3  # the priority below which a memory counts as decayed (designs 002 and 003)
_IDLE_DAYS = 30
_SETTLED_FACTOR, _OVERTURNED_FACTOR = 0.9, 0.6
_IDLE_SHARE = 0.02  # how far the memories of an idle session move down in queries over all sessions
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_SPARE = 5  # so many more are ranked at once, because decay may change the order
_UNKNOWN_SHARE = 0.5
SENTENCE_WORDS = 3  # a query of fewer words is not taken for a sentence


class RankedRow:
    """A row with its score and priority: all that is known of a memory before its record is read."""

    __slots__ = ("explain", "inputs", "match", "predecessor", "priority", "row", "score")

    def __init__(
        self,
        row: Row,
        inputs: DecayInputs,
        priority: float,
        score: float,
        explain: Callable[[], dict[str, float]],
        match: float = 0.0,
    ) -> None:
        self.row = row
        self.inputs = inputs
        self.priority = priority
        self.score = score
        self.explain = explain  # the parts of its score
        self.match = match  # its text score
        self.predecessor: tuple[RankedRow, Record] | None = None  # what it superseded, if it was found through that

    @property
    def computed(self) -> Computed:
        """The values that filters and aggregations see besides the record's fields."""
        return self.priority, self.inputs.access_count, self.inputs.last_access

    @property
    def is_decayed(self) -> bool:
        return self.priority < DECAYED_BELOW


class Ranking:
    """The ranking of one query's candidates."""

    def __init__(self, query: Query, searcher: IndexSearcher, policy: Policy) -> None:
        self._query = query
        self._searcher = searcher
        self._policy, self._joint = policy, joint_searcher(policy, searcher)
        self._frequencies: dict[str, int] = {}  # of the query's words
        self._ranges: list[tuple[int | None, int | None]] = []  # the times that the query names
        self._documents = 0
        self._model: RelevanceModel | None = None  # made when a relevance is asked for
        self._matches: list[float] = []  # the text scores of the candidates, ascending

    def rank_rows(self, rows: Iterable[Row]) -> Iterator[RankedRow]:
        """Rank rows of a query without text: the score is the priority."""
        rows = list(rows)
        accesses = self._searcher.accesses([row.doc for row in rows])
        for row in rows:
            inputs = decay_inputs(row, accesses, self._joint)
            priority = self._policy.priority(inputs, self._query.now)
            yield RankedRow(row, inputs, priority, priority, dict)

    def rank_matches(
        self, matches: list[TextMatch], text: ParsedText, conditions: RowConditions, enough: int, spare: int = _SPARE
    ) -> list[RankedRow]:
        """Rank text matches, but only as many as can be among the best `enough`, and some `spare` ones.

        The first `scoring.CANDIDATES` by text are ranked by all signals; the others come after them, by text alone. So
        the order of the first pages does not depend on how many pages are read.
        """
        by_default = self._query.mode == "default"
        front = matches[: scoring.CANDIDATES] if by_default else matches
        candidates = list(front)
        meanings: dict[int, float] = {}
        vector = self._vector(candidates, text) if uses_embeddings(self._query) else None
        if vector is not None:
            candidates += self._near(vector, candidates, conditions, meanings)
        if _is_sentence(text, conditions):
            beside = self._turns_beside(candidates, conditions, meanings)
            if vector is not None:
                meanings.update(self._searcher.similarities(vector, [each.doc for each in beside]))
            candidates += beside
        signals = self._signals(candidates, text)
        self._matches = sorted([each.match for each in candidates])
        scores = scoring.CandidateScores(candidates, signals, meanings)
        ranked: list[RankedRow] = []
        size = enough + spare if by_default else len(scores)
        for start in range(0, len(scores), max(size, 1)):
            if by_default and _is_decided(ranked, enough, scores.best_from(start)):
                return ranked
            ranked += self._rank(scores.between(start, start + size), conditions, signals)
        if len(ranked) < enough and len(matches) > len(front):
            known = {each.doc for each in candidates}
            ranked += self._rank_by_text(
                ranked, [each for each in matches[len(front) :] if each.doc not in known], conditions
            )
        return ranked

    def _rank_by_text(
        self, ranked: list[RankedRow], others: list[TextMatch], conditions: RowConditions
    ) -> Iterator[RankedRow]:
        """Rank further matches by text alone, below all that were ranked."""
        bound = min((each.score for each in ranked), default=1.0)
        best = others[0].match or 1.0 if others else 1.0
        docs = [each.doc for each in others]
        rows, accesses = self._searcher.rows(docs), self._searcher.accesses(docs)
        for each in others:
            row = rows.get(each.doc)
            if row is not None and conditions.meets_bounds(row):
                inputs = decay_inputs(row, accesses, self._joint)
                score = bound * each.match / best
                priority = self._policy.priority(inputs, self._query.now)
                yield RankedRow(row, inputs, priority, score, _KnownParts({"text": score}), each.match)

    def _rank(
        self, scores: list[scoring.CandidateScore], conditions: RowConditions, signals: scoring.QuerySignals
    ) -> Iterator[RankedRow]:
        """Apply what only the rows know: row conditions, decay, idle sessions."""
        docs = [each.candidate.doc for each in scores]
        rows, accesses = self._searcher.rows(docs), self._searcher.accesses(docs)
        idle = self._idle_factors(rows) if self._query.sessions is None else {}
        rank = self._by_default if self._query.mode == "default" else self._by_mode
        needs_rows = conditions.needs_rows
        for doc, each in zip(docs, scores, strict=True):
            row = rows.get(doc)
            if row is not None and (not needs_rows or conditions.meets_bounds(row)):
                yield rank(row, each, decay_inputs(row, accesses, self._joint), signals, idle.get(doc >> POSITION_BITS))

    def _idle_factors(self, docs: Iterable[int]) -> dict[int, float]:
        """The factor for idleness of each session that these memories are in, by session number."""
        now = self._query.now
        return {number: _idle_factor(last, now) for number, last in self._searcher.last_written(docs).items()}

    def _by_default(
        self,
        row: Row,
        score: scoring.CandidateScore,
        inputs: DecayInputs,
        signals: scoring.QuerySignals,
        idle: float | None,
    ) -> RankedRow:
        priority = self._policy.priority(inputs, self._query.now)
        fading = scoring.faded(1.0, priority)
        total = score.relevance * fading
        if idle is not None:
            total *= idle
        settled = settled_factor(row)
        explain = partial(_explained, score, fading, idle, settled)
        return RankedRow(row, inputs, priority, total * settled, explain, score.candidate.match)

    def _by_mode(
        self,
        row: Row,
        score: scoring.CandidateScore,
        inputs: DecayInputs,
        signals: scoring.QuerySignals,
        idle: float | None,
    ) -> RankedRow:
        priority = self._policy.priority(inputs, self._query.now)
        parts = self._parts_of_mode(score.candidate.match, inputs, priority, signals)
        total = sum(parts.values()) if self._query.mode == "weighted" else prod(parts.values())
        return RankedRow(row, inputs, priority, min(1.0, total), _KnownParts(parts), score.candidate.match)

    def _parts_of_mode(
        self, match: float, inputs: DecayInputs, priority: float, signals: scoring.QuerySignals
    ) -> dict[str, float]:
        now = self._query.now
        text = scoring.text_match(match, signals.full_match)
        used = inputs.last_access
        if self._query.mode == "weighted":
            unused = None if used is None else (now - used) / _HOUR
            return scoring.weighted(text, (now - inputs.created) / _DAY, importance_of(inputs), unused)
        unused_hours = (now - (used or inputs.updated)) / _HOUR
        importance = inputs.importance if inputs.importance is not None else importance_of(inputs)
        return scoring.product(text, priority, importance, unused_hours)

    # -- signals of the query

    def _signals(self, candidates: Sequence[TextMatch], text: ParsedText) -> scoring.QuerySignals:
        query = self._query
        words = set(text.words)
        for phrase in text.phrases:
            words.update(phrase)
        full = self._full_match(words)
        named = self._named_authors(candidates, words)
        self._ranges = [(each.start, each.end) for each in find_ranges(query.text, query.now)]
        about_assistant, about_time = scoring.addresses_assistant(query.text), scoring.asks_for_time(query.text)
        return scoring.QuerySignals(full, named, self._ranges, about_assistant, about_time)

    def _named_authors(self, candidates: Sequence[TextMatch], words: Collection[str]) -> list[int]:
        """Authors of candidates, by number, whose names are among these words."""
        authors = {each.facts >> AUTHOR_SHIFT for each in candidates}
        return [
            number for number in authors if number and scoring.is_named(_name(self._searcher.author(number)), words)
        ]

    # -- candidates without any word of the query

    def _vector(self, candidates: Sequence[TextMatch], text: ParsedText) -> Any:
        """The query's embedding; None without a model.

        Authors' names are left out: they are a signal of their own, and a name is near to every text that contains it.
        """
        if not self._searcher.has_vectors:
            return None
        names = {_name(self._searcher.author(number))[0] for number in self._named_authors(candidates, text.words)}
        words = self._query.text.split()
        content_words = [word for word in words if not (QUESTION_WORDS | names).issuperset(terms(word))]
        return self._searcher.vector(" ".join(content_words or words))

    def _near(
        self, vector: Any, candidates: list[TextMatch], conditions: RowConditions, meanings: dict[int, float]
    ) -> list[TextMatch]:
        """The memories nearest to the query's embedding. `meanings` gets their similarity and that of the candidates."""
        meanings.update(self._searcher.similarities(vector, [each.doc for each in candidates]))
        known = {each.doc for each in candidates}
        rows = self._searcher.nearest(vector, conditions, scoring.NEAREST)
        near = text_matches((doc, 0.0, row.created, row.facts) for doc, row in rows.items() if doc not in known)
        meanings.update(self._searcher.similarities(vector, [each.doc for each in near]))
        return [each for each in near if meanings.get(each.doc, 0.0) >= scoring.NEAR_ENOUGH]

    def _full_match(self, words: set[str]) -> float:
        """The text score of a memory that has all words; words that no memory has count half as much as the others."""
        self._frequencies = {word: self._searcher.document_frequency(word) for word in words}
        known = [frequency for frequency in self._frequencies.values() if frequency]
        documents = self._documents = self._searcher.documents
        if not known:
            return 0.0
        full = scoring.full_match(inverse_frequency(documents, frequency) for frequency in known)
        return full * (1 + _UNKNOWN_SHARE * (len(words) - len(known)) / len(known))

    def _turns_beside(
        self, candidates: list[TextMatch], conditions: RowConditions, meanings: dict[int, float]
    ) -> list[TextMatch]:
        """Turns beside the best candidates: an answer often has none of the question's words."""
        turns = [each for each in candidates if each.facts & ROLE]
        beside = scoring.neighbours(turns, {each.doc for each in candidates}, meanings)
        return self._searcher.turns(beside, conditions)

    def inherit(self, row: Row, old: RankedRow, own: RankedRow | None) -> RankedRow:
        """A successor that matches as well as what it superseded; `own`: its own rank, if it matches itself."""
        if own is None:
            inputs = decay_inputs(row, self._searcher.accesses([row.doc]), self._joint)
            priority = self._policy.priority(inputs, self._query.now)
            own = RankedRow(row, inputs, priority, 0.0, _KnownParts({"inherited": old.score}), old.match)
        own.score = max(own.score, old.score)
        record = self._searcher.records([old.row]).get(old.row.doc)
        own.predecessor = (old, record) if record is not None else None
        return own

    # -- what a hit tells

    def relevance(self, ranked: RankedRow, record: Record) -> float:
        """The probability that a memory, or the one that it superseded, answers the query; the score if the query has no words."""
        model = self._relevance_model()
        if model is None:
            return ranked.score
        own = model.of(record, ranked.row.created, self._rivals(ranked))
        return own if ranked.predecessor is None else max(own, self.relevance(*ranked.predecessor))

    def _relevance_model(self) -> RelevanceModel | None:
        if self._model is None and self._frequencies:
            past = [each for each in self._ranges if each[1] is not None and each[1] <= self._query.now]  # not `today`
            self._model = RelevanceModel(self._query.text, self._frequencies, self._documents, past)
        return self._model

    def _rivals(self, ranked: RankedRow) -> int:
        """The number of other candidates that match the text almost as well."""
        return max(len(self._matches) - bisect_left(self._matches, RIVAL_SHARE * ranked.match) - 1, 0)

    def remove_rival(self, ranked: RankedRow) -> None:
        """Do not count a superseded memory as a rival: its successor answers in its place."""
        place = bisect_left(self._matches, ranked.match)
        if place < len(self._matches) and self._matches[place] == ranked.match:
            del self._matches[place]

    def explain(self, ranked: RankedRow, record: Record) -> dict[str, Any]:
        """The parts of a hit's score, the features of its relevance, and the parts of its priority."""
        parts: dict[str, Any] = {name: round(value, 4) for name, value in ranked.explain().items()}
        model = self._relevance_model()
        if model is not None:
            features = model.features(record, ranked.row.created, self._rivals(ranked))
            parts["relevance"] = {name: round(value, 3) for name, value in features.items()}
        parts["priority"] = self._policy.explain(ranked.inputs, self._query.now)
        return parts


def _explained(score: scoring.CandidateScore, fading: float, idle: float | None, settled: float) -> dict[str, float]:
    parts = {**score.explain(), "fading": fading}
    if settled != 1.0:
        parts["settled"] = settled
    return parts if idle is None else {**parts, "session_idle": idle}


def settled_factor(row: Row) -> float:
    """Below 1 if the status of a memory says that nothing is left to do; least if it was overturned."""
    if row.status is None:
        return 1.0
    status = row.status.strip().lower()
    if status in OVERTURNED_STATUSES:
        return _OVERTURNED_FACTOR
    return _SETTLED_FACTOR if status in KINDS[NUMBERED[row.type]].settled else 1.0


class _KnownParts(dict[str, float]):
    """Parts of a score that are already computed."""

    def __call__(self) -> dict[str, float]:
        return self


@lru_cache(1000)
def _name(author: str) -> tuple[str, ...]:
    """The terms of an author's name."""
    return tuple(terms(author))


def uses_embeddings(query: Query) -> bool:
    """Whether embeddings count for the ranking, if there is a model.

    Only when sorted by relevance: sorted by time, a memory that is merely somewhat similar would come first.
    """
    return query.mode == "default" and query.sort == RELEVANCE and is_sentence(query.text)


def is_sentence(text: str) -> bool:
    """Whether a query's text is a sentence in plain words; a word or two, a phrase or a wildcard ask for exactly those."""
    return len(text.split()) >= SENTENCE_WORDS and _is_plain(parse(text))


def _is_plain(text: ParsedText) -> bool:
    """Whether the query has words and no phrase, wildcard or exclusion."""
    return bool(text.words) and not (text.phrases or text.patterns or text.excluded or text.excluded_patterns)


def _is_sentence(text: ParsedText, conditions: RowConditions) -> bool:
    """Whether the query is a sentence in plain words; a word or two, or tags and topics, ask for exactly those."""
    return len(text.words) >= SENTENCE_WORDS and _is_plain(text) and not conditions.has_label_conditions


def _is_decided(ranked: list[RankedRow], enough: int, best_left: float) -> bool:
    """Whether no remaining candidate can be among the best `enough`: decay only moves it further down."""
    if len(ranked) < enough:
        return False
    return sorted((each.score for each in ranked), reverse=True)[enough - 1] > best_left


def _idle_factor(last: int, now: int) -> float:
    idle_days = max(now - last, 0) / _DAY
    return 1 - _IDLE_SHARE * min(idle_days / _IDLE_DAYS, 1.0)


# -- sort orders


def sort_key(sort: str, then_by: Sequence[str] = ()) -> Callable[[RankedRow], Any]:
    """The key of a query's order, best first; of equals the newest comes first."""
    if not then_by:
        return _SORT_KEYS[sort]
    keys = [_KEYS[each] for each in (sort, *then_by)]
    return lambda ranked: (*(key(ranked) for key in keys), -ranked.row.created, ranked.row.doc)


def _newest_of_equals(key: Any) -> Any:
    return lambda ranked: (key(ranked), -ranked.row.created, ranked.row.doc)


def _importance(ranked: RankedRow, missing: float) -> float:
    return missing if ranked.row.importance is None else float(ranked.row.importance)


def _severity(ranked: RankedRow) -> int:
    """0 without one; 1 to 5 from info to critical."""
    level = level_of(ranked.row.severity)
    return 0 if level is None else level + 1


_KEYS: dict[str, Any] = {
    RELEVANCE: lambda ranked: -ranked.score,
    NEWEST: lambda ranked: -ranked.row.created,
    OLDEST: lambda ranked: ranked.row.created,
    PRIORITY: lambda ranked: -ranked.priority,
    FADED_FIRST: lambda ranked: ranked.priority,
    IMPORTANCE: lambda ranked: -_importance(ranked, missing=-1.0),
    UNIMPORTANT_FIRST: lambda ranked: _importance(ranked, missing=2.0),
    SEVERITY: lambda ranked: -_severity(ranked),
    MILDEST_FIRST: lambda ranked: _severity(ranked) or 6,
    ACCESS: lambda ranked: -ranked.inputs.access_count,
    LEAST_USED_FIRST: lambda ranked: ranked.inputs.access_count,
}
_SORT_KEYS: dict[str, Callable[[RankedRow], Any]] = {
    **{name: _newest_of_equals(key) for name, key in _KEYS.items()},
    NEWEST: lambda ranked: (-ranked.row.created, -ranked.row.doc),
    OLDEST: lambda ranked: (ranked.row.created, ranked.row.doc),
}
