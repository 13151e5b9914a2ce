"""How good is each candidate, and why? Words, neighbours, time and fading become one relevance.

The weighing is pure and in `smp_memory.search.scoring`, the fading in `smp_memory.decay`; here they get what they need to know.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import prod

from smp_memory.decay.policies import importance_of
from smp_memory.index.documents import ROLE, decay_inputs
from smp_memory.index.embeddings import QUESTION_WORDS
from smp_memory.index.rows import POSITION_BITS
from smp_memory.index.text_query import candidates as candidates_of
from smp_memory.index.text_query import inverse_frequency
from smp_memory.index.tokens import parse, terms
from smp_memory.search import scoring
from smp_memory.search.query import RELEVANCE
from smp_memory.search.time_ranges import find_ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Any

    from smp_memory.decay.inputs import DecayInputs
    from smp_memory.decay.policies import Policy
    from smp_memory.index.rows import Row
    from smp_memory.index.selection import RowConditions
    from smp_memory.index.text import Found
    from smp_memory.index.tokens import ParsedText
    from smp_memory.search.query import Query
    from smp_memory.store.finder import Finder

FADED = 0.3  # below this priority a memory counts as decayed (002 §5, 003 §9.3)
_IDLE_DAYS = 30
_IDLE_SHARE = 0.02  # how far a session that nobody writes any more moves down in questions to all of them
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_SPARE = 5  # so many more are judged at once, because fading may change the order
_UNKNOWN_SHARE = 0.5
_SENTENCE_WORDS = 3


class Judged:
    """A candidate with all that is known of it before its record is read."""

    __slots__ = ("explain", "facts", "priority", "relevance", "row")

    def __init__(
        self, row: Row, facts: DecayInputs, priority: float, relevance: float, explain: Callable[[], dict[str, float]]
    ) -> None:
        self.row = row
        self.facts = facts
        self.priority = priority
        self.relevance = relevance
        self.explain = explain  # the parts of its relevance


class Ranking:
    """How one question judges."""

    def __init__(self, question: Query, finder: Finder, policy: Policy) -> None:
        self._question = question
        self._finder = finder
        self._policy = policy

    def of_rows(self, rows: Iterable[Row]) -> Iterator[Judged]:
        """Judge rows that were found without words: what is most present is most relevant."""
        rows = list(rows)
        accesses = self._finder.accesses([row.doc for row in rows])
        for row in rows:
            facts = decay_inputs(row, accesses)
            priority = self._policy.priority(facts, self._question.now)
            yield Judged(row, facts, priority, priority, dict)

    def of_found(
        self, found: list[Found], text: ParsedText, conditions: RowConditions, enough: int, spare: int = _SPARE
    ) -> list[Judged]:
        """Judge what the text engine found, and only as many as can be among the best `enough`, some `spare` ones with them.

        The first so many by words are judged by everything; the others come after them, by their words alone. So the
        order of the first pages does not depend on how far somebody leafs.
        """
        by_default = self._question.mode == "default"
        front = found[: scoring.CANDIDATES] if by_default else found
        candidates = list(front)
        meanings: dict[int, float] = {}
        vector = self._vector(candidates, text) if asks_by_meaning(self._question) else None
        if vector is not None:
            candidates += self._near(vector, candidates, conditions, meanings)
        if _is_sentence(text, conditions):
            beside = self._turns_beside(candidates, conditions, meanings)
            if vector is not None:
                meanings.update(self._finder.meanings(vector, [each.doc for each in beside]))
            candidates += beside
        asked = self._asked(candidates, text)
        judging = scoring.judge(candidates, asked, meanings)
        judged: list[Judged] = []
        size = enough + spare if by_default else len(judging)
        for start in range(0, len(judging), max(size, 1)):
            if by_default and _is_decided(judged, enough, judging.best_from(start)):
                return judged
            judged += self._judge(judging.between(start, start + size), conditions, asked)
        if len(judged) < enough and len(found) > len(front):
            known = {each.doc for each in candidates}
            judged += self._behind(judged, [each for each in found[len(front) :] if each.doc not in known], conditions)
        return judged

    def _behind(self, judged: list[Judged], others: list[Found], conditions: RowConditions) -> Iterator[Judged]:
        """What comes after all that was judged."""
        bound = min((each.relevance for each in judged), default=1.0)
        best = others[0].match or 1.0 if others else 1.0
        docs = [each.doc for each in others]
        rows, accesses = self._finder.rows(docs), self._finder.accesses(docs)
        for each in others:
            row = rows.get(each.doc)
            if row is not None and conditions.fit(row):
                facts = decay_inputs(row, accesses)
                relevance = bound * each.match / best
                priority = self._policy.priority(facts, self._question.now)
                yield Judged(row, facts, priority, relevance, _Told({"text": relevance}))

    def _judge(
        self, judgements: list[scoring.Judgement], conditions: RowConditions, asked: scoring.QueryTerms
    ) -> Iterator[Judged]:
        """Count in what only the rows know."""
        docs = [each.candidate.doc for each in judgements]
        rows, accesses = self._finder.rows(docs), self._finder.accesses(docs)
        idle = self._idle(rows) if self._question.sessions is None else {}
        judge = self._by_default if self._question.mode == "default" else self._by_mode
        needs_rows = conditions.needs_rows
        for doc, each in zip(docs, judgements, strict=True):
            row = rows.get(doc)
            if row is not None and (not needs_rows or conditions.fit(row)):
                yield judge(row, each, decay_inputs(row, accesses), asked, idle.get(doc >> POSITION_BITS))

    def _idle(self, docs: Iterable[int]) -> dict[int, float]:
        """By how much the sessions of these memories move down, by number."""
        now = self._question.now
        return {number: _of_idle_session(last, now) for number, last in self._finder.last_written(docs).items()}

    def _by_default(
        self, row: Row, judgement: scoring.Judgement, facts: DecayInputs, asked: scoring.QueryTerms, idle: float | None
    ) -> Judged:
        priority = self._policy.priority(facts, self._question.now)
        fading = scoring.faded(1.0, priority)
        relevance = judgement.relevance * fading
        if idle is not None:
            relevance *= idle
        return Judged(row, facts, priority, relevance, partial(_explained, judgement, fading, idle))

    def _by_mode(
        self, row: Row, judgement: scoring.Judgement, facts: DecayInputs, asked: scoring.QueryTerms, idle: float | None
    ) -> Judged:
        """One of the modes of the designs."""
        priority = self._policy.priority(facts, self._question.now)
        parts = self._parts_of_mode(judgement.candidate.match, facts, priority, asked)
        relevance = sum(parts.values()) if self._question.mode == "weighted" else prod(parts.values())
        return Judged(row, facts, priority, min(1.0, relevance), _Told(parts))

    def _parts_of_mode(
        self, match: float, facts: DecayInputs, priority: float, asked: scoring.QueryTerms
    ) -> dict[str, float]:
        now = self._question.now
        text = scoring.text_match(match, asked.full_match)
        used = facts.last_access
        if self._question.mode == "weighted":
            unused = None if used is None else (now - used) / _HOUR
            return scoring.weighted(text, (now - facts.created) / _DAY, importance_of(facts), unused)
        unused_hours = (now - (used or facts.updated)) / _HOUR
        importance = facts.importance if facts.importance is not None else importance_of(facts)
        return scoring.product(text, priority, importance, unused_hours)

    # -- what the question says beside its words

    def _asked(self, candidates: Sequence[Found], text: ParsedText) -> scoring.QueryTerms:
        question = self._question
        words = set(text.words)
        for phrase in text.phrases:
            words.update(phrase)
        full = self._full_match(words)
        named = self._named(candidates, words)
        ranges = [(each.start, each.end) for each in find_ranges(question.text, question.now)]
        return scoring.QueryTerms(full, named, ranges, scoring.asks_of_machine(question.text))

    def _named(self, candidates: Sequence[Found], words: Collection[str]) -> list[int]:
        """Those candidates' authors that are named by these words."""
        authors = {each.facts >> 16 for each in candidates}
        return [number for number in authors if number and scoring.is_named(_name(self._finder.author(number)), words)]

    # -- candidates that have none of the question's words

    def _vector(self, candidates: Sequence[Found], text: ParsedText) -> Any:
        """What the question means; None without a model. Who said it counts elsewhere: a name draws to all it is in."""
        if not self._finder.knows_meaning:
            return None
        names = {_name(self._finder.author(number))[0] for number in self._named(candidates, text.words)}
        words = self._question.text.split()
        left = [word for word in words if not (QUESTION_WORDS | names).issuperset(terms(word))]
        return self._finder.vector(" ".join(left or words))

    def _near(
        self, vector: Any, candidates: list[Found], conditions: RowConditions, meanings: dict[int, float]
    ) -> list[Found]:
        """Memories that mean much the same; how near they and those that were found already are is noted."""
        meanings.update(self._finder.meanings(vector, [each.doc for each in candidates]))
        known = {each.doc for each in candidates}
        rows = self._finder.nearest(vector, conditions, scoring.NEAREST)
        near = candidates_of((doc, 0.0, row.created, row.facts) for doc, row in rows.items() if doc not in known)
        meanings.update(self._finder.meanings(vector, [each.doc for each in near]))
        return [each for each in near if meanings.get(each.doc, 0.0) >= scoring.NEAR_ENOUGH]

    def _full_match(self, words: set[str]) -> float:
        """The text score of a memory that has all words; those that no memory has count half as much as the others."""
        frequencies = [self._finder.document_frequency(word) for word in words]
        known = [frequency for frequency in frequencies if frequency]
        if not known:
            return 0.0
        documents = self._finder.documents
        full = scoring.full_match(inverse_frequency(documents, frequency) for frequency in known)
        return full * (1 + _UNKNOWN_SHARE * (len(words) - len(known)) / len(known))

    def _turns_beside(
        self, candidates: list[Found], conditions: RowConditions, meanings: dict[int, float]
    ) -> list[Found]:
        """Turns beside the best ones: an answer often has none of the question's words."""
        turns = [each for each in candidates if each.facts & ROLE]
        beside = scoring.neighbours(turns, {each.doc for each in candidates}, meanings)
        return self._finder.turns(beside, conditions)

    # -- the answer

    @staticmethod
    def has_faded(judged: Judged) -> bool:
        return judged.priority < FADED

    def explain(self, judged: Judged) -> dict[str, Any]:
        """The parts of a hit's relevance, and those of its priority."""
        parts: dict[str, Any] = {name: round(value, 4) for name, value in judged.explain().items()}
        parts["priority"] = self._policy.explain(judged.facts, self._question.now)
        return parts


def _explained(judgement: scoring.Judgement, fading: float, idle: float | None) -> dict[str, float]:
    parts = {**judgement.explain(), "fading": fading}
    return parts if idle is None else {**parts, "session_idle": idle}


class _Told(dict[str, float]):
    """Parts that are known already."""

    def __call__(self) -> dict[str, float]:
        return self


@lru_cache(1000)
def _name(author: str) -> tuple[str, ...]:
    """The terms of an author's name."""
    return tuple(terms(author))


def asks_by_meaning(question: Query) -> bool:
    """Whether what memories mean may count for the answer, if there is a model.

    Only among the best: ordered by time, what is merely somewhat near would come first.
    """
    is_ranked = question.mode == "default" and question.sort == RELEVANCE
    if not is_ranked or len(question.text.split()) < _SENTENCE_WORDS:
        return False
    return _is_plain(parse(question.text))


def _is_plain(text: ParsedText) -> bool:
    """Whether nothing is insisted on but words."""
    return bool(text.words) and not (text.phrases or text.patterns or text.excluded or text.excluded_patterns)


def _is_sentence(text: ParsedText, conditions: RowConditions) -> bool:
    """Whether somebody asks in plain words. Who gives a word or two, or insists on more, wants those very words."""
    return len(text.words) >= _SENTENCE_WORDS and _is_plain(text) and not conditions.asks_for_labels


def _is_decided(judged: list[Judged], enough: int, best_left: float) -> bool:
    """Whether nothing that is left can be among the best so many: fading only moves it further down."""
    if len(judged) < enough:
        return False
    return sorted((each.relevance for each in judged), reverse=True)[enough - 1] > best_left


def _of_idle_session(last: int, now: int) -> float:
    idle_days = max(now - last, 0) / _DAY
    return 1 - _IDLE_SHARE * min(idle_days / _IDLE_DAYS, 1.0)
