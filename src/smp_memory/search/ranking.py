"""Rank the candidates of a query, and check their records. Pure.

`Ranking` gives each candidate its score, relevance, priority and place in the sort order; `RecordCheck` decides by its record whether it is a hit.

The score itself is in `smp_memory.search.scoring`, decay in `smp_memory.model.decay`, the probability that a memory answers in
`smp_memory.search.relevance`. This module puts them together for the candidates of one query.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache, partial
from math import prod

from smp_memory.model.decay import importance_of, inputs_of
from smp_memory.model.statuses import DELETED, NOT_VALID, SETTLED, state_of_repeated
from smp_memory.model.types import KINDS, OVERTURNED_STATUSES
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
from smp_memory.search.relevance import RelevanceModel, near_score
from smp_memory.search.time_ranges import find_ranges
from smp_memory.text.memory_text import as_list, label_key, text_of
from smp_memory.text.tokenizer import inverse_frequency, joined_terms, parse, spellings, terms
from smp_memory.text.wildcards import is_loose, matches_spelling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from smp_memory.model.candidates import Candidate, Candidates, Vocabulary
    from smp_memory.model.decay import Inputs, Policy
    from smp_memory.model.record import Record
    from smp_memory.search.field_values import Computed
    from smp_memory.search.query import Query
    from smp_memory.text.tokenizer import ParsedText

DECAYED_BELOW = 0.3  # the priority below which a memory counts as decayed (designs 002 and 003)
_IDLE_DAYS = 30
_SETTLED_FACTOR, _OVERTURNED_FACTOR = 0.9, 0.6
_ECHO_FACTORS = {
    DELETED: 0.6,
    NOT_VALID: 0.6,
    SETTLED: _SETTLED_FACTOR,
}  # of a turn, by the state of the memory that it repeats
_IDLE_SHARE = 0.02  # how far the memories of an idle session move down in queries over all sessions
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_SPARE = 5  # so many more are ranked at once, because decay may change the order
_UNKNOWN_SHARE = 0.5
SENTENCE_WORDS = 3  # a query of fewer words is not taken for a sentence


class Ranked:
    """A candidate with its score and priority: all that is known of a memory before its record is read."""

    __slots__ = ("candidate", "explain", "inputs", "match", "predecessor", "priority", "score")

    def __init__(
        self,
        candidate: Candidate,
        inputs: Inputs,
        priority: float,
        score: float,
        explain: Callable[[], dict[str, float]],
        match: float = 0.0,
    ) -> None:
        self.candidate = candidate
        self.inputs = inputs
        self.priority = priority
        self.score = score
        self.explain = explain  # the parts of its score
        self.match = match  # its text score
        self.predecessor: tuple[Ranked, Record | None] | None = None  # what it superseded, if it was found through that

    @property
    def ref(self) -> str:
        return self.candidate.ref

    @property
    def computed(self) -> Computed:
        """The values that filters and aggregations see besides the record's fields."""
        return self.priority, self.inputs.access_count, self.inputs.last_access

    @property
    def is_decayed(self) -> bool:
        return self.priority < DECAYED_BELOW


class Ranking:
    """The ranking of one query's candidates."""

    def __init__(self, query: Query, policy: Policy) -> None:
        self._query = query
        self._policy = policy
        self._frequencies: dict[str, int] = {}  # of the query's words
        self._ranges: list[tuple[int | None, int | None]] = []  # the times that the query names
        self._documents = 0
        self._has_meanings = False
        self.recalled: Vocabulary | None = None  # the figures of the corpus as hooks see it, if the query sees more
        self._model: RelevanceModel | None = None  # made when a relevance is asked for
        self._idle_factors: dict[int, float] = {}  # by the last write of a session
        self._scores: scoring.CandidateScores | None = None
        self._best_near: float | None = None  # of all candidates, computed when a relevance is asked for

    def rank_by_time(self, candidates: Iterable[Candidate]) -> Iterator[Ranked]:
        """Rank candidates of a query without text: the score is the priority."""
        for each in candidates:
            inputs = inputs_of(each)
            priority = self._policy.priority(inputs, self._query.now)
            yield Ranked(each, inputs, priority, priority, dict)

    def rank(self, found: Candidates, enough: int, spare: int = _SPARE) -> list[Ranked]:
        """Rank matches of a text, but only as many as can be among the best `enough`, and some `spare` ones.

        The first `scoring.CANDIDATES` by text are ranked by all signals; the others come after them, by text alone. So
        the order of the first pages does not depend on how many pages are read.
        """
        by_default = self._query.mode == "default"
        front = found.matches[: scoring.CANDIDATES] if by_default else found.matches
        candidates = [*front, *found.others]
        signals = self._signals(candidates, found)
        scores = self._scores = scoring.CandidateScores(candidates, signals)
        self._best_near = None
        ranked: list[Ranked] = []
        size = enough + spare if by_default else len(scores)
        for start in range(0, len(scores), max(size, 1)):
            if by_default and _is_decided(ranked, enough, scores.best_from(start)):
                return ranked
            ranked += self._rank(found, scores.between(start, start + size), signals)
        if len(ranked) < enough and len(found.matches) > len(front):
            ranked += self._rank_by_text(ranked, found.complete(found.matches[len(front) :]))
        return ranked

    def _rank_by_text(self, ranked: list[Ranked], others: list[Candidate]) -> Iterator[Ranked]:
        """Rank further matches by text alone, below all that were ranked."""
        bound = min((each.score for each in ranked), default=1.0)
        best = others[0].match or 1.0
        for each in others:
            if each.meets:
                inputs = inputs_of(each)
                score = bound * each.match / best
                priority = self._policy.priority(inputs, self._query.now)
                yield Ranked(each, inputs, priority, score, _KnownParts({"text": score}), each.match)

    def _rank(
        self, found: Candidates, scores: list[scoring.CandidateScore], signals: scoring.QuerySignals
    ) -> Iterator[Ranked]:
        """Apply what is not compared for every candidate: bounds, decay, idle sessions."""
        rank = self._by_default if self._query.mode == "default" else self._by_mode
        complete = found.complete([each.candidate for each in scores])
        if len(complete) < len(scores):  # a session is gone meanwhile
            known = {(each.session, each.position) for each in complete}
            scores = [each for each in scores if (each.candidate.session, each.candidate.position) in known]
        for each, candidate in zip(scores, complete, strict=True):
            if candidate.meets:
                ranked = rank(candidate, each, signals)
                if candidate.repeats:
                    ranked.score *= _ECHO_FACTORS.get(
                        state_of_repeated(candidate, found, at=self._query.valid_at)[0], 1.0
                    )
                yield ranked

    def _by_default(self, candidate: Candidate, score: scoring.CandidateScore, signals: scoring.QuerySignals) -> Ranked:
        inputs = inputs_of(candidate)
        priority = self._policy.priority(inputs, self._query.now)
        fading = scoring.faded(1.0, priority)
        total = score.relevance * fading
        idle = self._idle(candidate.written) if self._query.sessions is None else None
        if idle is not None:
            total *= idle
        settled = settled_factor(candidate)
        explain = partial(_explained, score, fading, idle, settled)
        return Ranked(candidate, inputs, priority, total * settled, explain, candidate.match)

    def _idle(self, written: int) -> float:
        """The factor for a session that was last written then."""
        known = self._idle_factors.get(written)
        if known is None:
            known = self._idle_factors[written] = _idle_factor(written, self._query.now)
        return known

    def _by_mode(self, candidate: Candidate, score: scoring.CandidateScore, signals: scoring.QuerySignals) -> Ranked:
        """Rank by one of the designs' modes, `weighted` or `product`."""
        inputs, match = inputs_of(candidate), candidate.match
        priority = self._policy.priority(inputs, self._query.now)
        parts = self._parts_of_mode(match, inputs, priority, signals)
        total = sum(parts.values()) if self._query.mode == "weighted" else prod(parts.values())
        return Ranked(candidate, inputs, priority, min(1.0, total), _KnownParts(parts), match)

    def _parts_of_mode(
        self, match: float, inputs: Inputs, priority: float, signals: scoring.QuerySignals
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

    def _signals(self, candidates: Sequence[Candidate], found: Candidates) -> scoring.QuerySignals:
        query = self._query
        self._frequencies, self._documents = found.frequencies, found.documents
        self._has_meanings = bool(found.meaning_weight)
        named = _named_authors(candidates, found.frequencies)
        self._ranges = [(each.start, each.end) for each in find_ranges(query.text, query.now)]
        about_assistant, about_time = scoring.addresses_assistant(query.text), scoring.asks_for_time(query.text)
        return scoring.QuerySignals(
            self._full_match(), named, self._ranges, about_assistant, about_time, found.meaning_weight
        )

    def _full_match(self) -> float:
        """The text score of a memory that has all words; words that no memory has count half as much as the others."""
        known = [frequency for frequency in self._frequencies.values() if frequency]
        if not known:
            return 0.0
        full = scoring.full_match(inverse_frequency(self._documents, frequency) for frequency in known)
        return full * (1 + _UNKNOWN_SHARE * (len(self._frequencies) - len(known)) / len(known))

    def inherit(self, candidate: Candidate, old: Ranked, own: Ranked | None) -> Ranked:
        """A successor that matches as well as what it superseded; `own`: its own rank, if it matches itself."""
        if own is None:
            inputs = inputs_of(candidate)
            priority = self._policy.priority(inputs, self._query.now)
            own = Ranked(candidate, inputs, priority, 0.0, _KnownParts({"inherited": old.score}), old.match)
        own.score = max(own.score, old.score)
        own.predecessor = (old, None)  # its record is read with that of the successor
        return own

    # -- what a hit tells

    def relevance(self, ranked: Ranked, record: Record) -> float:
        """How probable it is that a memory, or the one that it superseded, answers the query; the score if the query has no words."""
        model = self._relevance_model()
        if model is None:
            return ranked.score
        own = model.of(record, ranked.candidate, self._nearness(ranked))
        old, old_record = ranked.predecessor or (None, None)
        return own if old is None or old_record is None else max(own, self.relevance(old, old_record))

    def _relevance_model(self) -> RelevanceModel | None:
        if self._model is None and self._frequencies:
            documents, frequencies = self.recalled or (self._documents, self._frequencies)
            self._model = RelevanceModel(self._query.text, frequencies, documents, self._has_meanings)
        return self._model

    def _nearness(self, ranked: Ranked) -> float:
        """The score of a candidate relative to the best one, 0 to 1."""
        if self._best_near is None:
            found = self._scores.relevances() if self._scores is not None else ()
            self._best_near = max([near_score(*each) for each in found], default=0.0)
        own = near_score(ranked.score, ranked.candidate)
        return round(min(own / self._best_near, 1.0), 2) if self._best_near else 0.0

    def explain(self, ranked: Ranked, record: Record) -> dict[str, Any]:
        """The parts of a hit's score, the features of its relevance, and the parts of its priority."""
        parts: dict[str, Any] = {name: round(value, 4) for name, value in ranked.explain().items()}
        model = self._relevance_model()
        if model is not None:
            features = model.features(record, ranked.candidate, self._nearness(ranked))
            parts["relevance"] = {name: round(value, 3) for name, value in features.items()}
        parts["priority"] = self._policy.explain(ranked.inputs, self._query.now)
        return parts


def _explained(score: scoring.CandidateScore, fading: float, idle: float | None, settled: float) -> dict[str, float]:
    parts = {**score.explain(), "fading": fading}
    if settled != 1.0:
        parts["settled"] = settled
    return parts if idle is None else {**parts, "session_idle": idle}


def settled_factor(candidate: Candidate) -> float:
    """Below 1 if the status of a memory says that nothing is left to do; least if it was overturned."""
    if candidate.status is None:
        return 1.0
    status = candidate.status.strip().lower()
    if status in OVERTURNED_STATUSES:
        return _OVERTURNED_FACTOR
    return _SETTLED_FACTOR if status in KINDS[candidate.type].settled else 1.0


class _KnownParts(dict[str, float]):
    """Parts of a score that are already computed."""

    def __call__(self) -> dict[str, float]:
        return self


def _named_authors(candidates: Sequence[Candidate], words: Collection[str]) -> list[str]:
    """Authors of candidates whose names are among these words."""
    authors = {each.author for each in candidates}
    return [author for author in authors if author and scoring.is_named(_name(author), words)]


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
    return len(text.split()) >= SENTENCE_WORDS and is_plain(parse(text))


def is_plain(text: ParsedText) -> bool:
    """Whether the query has words and no phrase, wildcard or exclusion."""
    return bool(text.words) and not (text.phrases or text.patterns or text.excluded or text.excluded_patterns)


def _is_decided(ranked: list[Ranked], enough: int, best_left: float) -> bool:
    """Whether no remaining candidate can be among the best `enough`: decay only moves it further down."""
    if len(ranked) < enough:
        return False
    return sorted((each.score for each in ranked), reverse=True)[enough - 1] > best_left


def _idle_factor(last: int, now: int) -> float:
    idle_days = max(now - last, 0) / _DAY
    return 1 - _IDLE_SHARE * min(idle_days / _IDLE_DAYS, 1.0)


# -- sort orders


def sort_key(sort: str, then_by: Sequence[str] = ()) -> Callable[[Ranked], Any]:
    """The key of a query's order, best first; of equals the newest comes first."""
    if not then_by:
        return _SORT_KEYS[sort]
    keys = [_KEYS[each] for each in (sort, *then_by)]
    return lambda ranked: (*(key(ranked) for key in keys), -ranked.candidate.created, *_place(ranked))


def _place(ranked: Ranked) -> tuple[str, int]:
    return ranked.candidate.session, ranked.candidate.position


def _newest_of_equals(key: Any) -> Any:
    return lambda ranked: (key(ranked), -ranked.candidate.created, *_place(ranked))


def _importance(ranked: Ranked, missing: float) -> float:
    return missing if ranked.candidate.importance is None else float(ranked.candidate.importance)


def _severity(ranked: Ranked) -> int:
    """0 without one; 1 to 5 from info to critical."""
    level = level_of(ranked.candidate.severity)
    return 0 if level is None else level + 1


_KEYS: dict[str, Any] = {
    RELEVANCE: lambda ranked: -ranked.score,
    NEWEST: lambda ranked: -ranked.candidate.created,
    OLDEST: lambda ranked: ranked.candidate.created,
    PRIORITY: lambda ranked: -ranked.priority,
    FADED_FIRST: lambda ranked: ranked.priority,
    IMPORTANCE: lambda ranked: -_importance(ranked, missing=-1.0),
    UNIMPORTANT_FIRST: lambda ranked: _importance(ranked, missing=2.0),
    SEVERITY: lambda ranked: -_severity(ranked),
    MILDEST_FIRST: lambda ranked: _severity(ranked) or 6,
    ACCESS: lambda ranked: -ranked.inputs.access_count,
    LEAST_USED_FIRST: lambda ranked: ranked.inputs.access_count,
}
_SORT_KEYS: dict[str, Callable[[Ranked], Any]] = {
    **{name: _newest_of_equals(key) for name, key in _KEYS.items()},
    NEWEST: lambda ranked: (-ranked.candidate.created, -ranked.candidate.position, ranked.candidate.session),
    OLDEST: lambda ranked: (ranked.candidate.created, *_place(ranked)),
}


# -- what an index cannot answer

_LABELS = {"tag": "tags", "topic": "topic"}  # by what is counted the field


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
        self._phrases, self._excluded = (
            [f" {' '.join(words)} " for words in phrases] for phrases in (text.phrases, text.excluded)
        )
        self._needs_text = self._has_phrases or bool(self._wildcards or self._excluded_wildcards)
        self.has_bounds = query.min_priority is not None or not query.include_decayed
        has_topics = bool(query.topic_in_text and query.topics)
        self.judges_records = query.where is not None or has_topics or self._needs_text
        self.may_reject = self.judges_records or query.min_relevance is not None or self.has_bounds

    def with_text(self, text: ParsedText) -> RecordCheck:
        """The same for another text."""
        return RecordCheck(self._query, text, self._ranking)

    def is_in_bounds(self, ranked: Ranked) -> bool:
        query = self._query
        if query.min_priority is not None and ranked.priority < query.min_priority:
            return False
        return bool(query.include_decayed) or not ranked.is_decayed

    def is_met(self, ranked: Ranked, record: Record) -> bool:
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
        labels = [label_key(each) for each in (record.topic, *record.tags)]
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
        return all(each in terms for each in self._phrases) and not any(each in terms for each in self._excluded)

    def has_right_words(self, record: Record) -> bool:
        if not (self._wildcards or self._excluded_wildcards):
            return True
        words = spellings(f"{text_of(record.given)}\n{record.id}")
        return all(matches_spelling(each, words) for each in self._wildcards) and not any(
            matches_spelling(each, words) for each in self._excluded_wildcards
        )


def count_records(field: str, records: list[Record]) -> dict[str, int]:
    """How many of these records have each value of a field, the most frequent first."""
    counts: Counter[str] = Counter()
    for record in records:
        if field in ("day", "month"):
            counts[record._created[: 10 if field == "day" else 7]] += 1
        elif field in ("tag", "topic"):
            counts.update({key for each in as_list(record.given.get(_LABELS[field])) if (key := label_key(each))})
        else:
            value = record.given.get("author") if field == "agent" else getattr(record, field)
            counts[value if isinstance(value, str) else ""] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
