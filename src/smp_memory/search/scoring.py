"""Score candidates: a relevance between 0 and 1 from text, neighbours, session, author, time and meaning. Pure.

The default, chosen by the retrieval benchmark (docs/adr/0009-words.md):

    relevance = (text + context + session + author + time + meaning) × strength × worth × fading

    text      its text score, relative to the best candidate's
    context   the text scores of its neighbours; the shorter the memory, the more they count
    session   the best text score in its session
    author    the query names its author
    time      the query names the time when it was written
    meaning   embedding similarity of the memory, its neighbours and the best of its session, weighted as their text
              scores are; only with an embedding model
    strength  how much of the query the best candidate matches: a weak match is not relevant for being the best one
    worth     below 1 for a short memory, unless it has all words of the query, and for a turn of an assistant or a tool,
              unless the query addresses the assistant
    fading    from 1 down to `1 - FADING`: a decayed memory moves down a little and is never hidden

The parts are shares of the most that a memory could get. Two other modes are as the designs state them: `weighted`
(design 001) and `product` (design 004).

Guarantees: every signal is bounded; the order does not depend on the order of the candidates; equal input, equal
output.
"""

from __future__ import annotations

from itertools import pairwise
from math import exp

from smp_memory.index.documents import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from smp_memory.index.query import TextMatch

CANDIDATES = 100  # so many of the best by text are scored by all signals; more of them change nothing
NEAREST = 50  # so many of the best by meaning are added
NEAR_ENOUGH = 0.2  # cosine: below it two texts have nothing to do with each other
EXPANDED = 20  # the neighbours of so many of the best, by text and by meaning, become candidates
SESSION_SHIFT = 24  # doc = number of the session << 24 | position in it

TEXT, CONTEXT, SESSION, AUTHOR, TIME = 1.0, 0.5, 1.0, 0.3, 0.8
MEANING = 0.5  # meaning counts half as much as text, wherever text counts
BEFORE, AFTER = 1.0, 0.5  # the turns before a memory explain it more than those after it
SHORT_WORDS = 20  # the context of a memory of so many words counts half
FEW_WORDS = 8  # a turn of so many words is worth 63 %, of twice as many 86 %
FEW_WRITTEN_WORDS = 3  # a decision that was written down in a few words is complete
BY_MACHINE = 0.7
NEAR_MICROSECONDS = 2 * 86_400_000_000  # so near to a time in the query counts half: days begin earlier in other zones,
NEAR = 0.5  # and people tell the day after what happened the day before
FADING = 0.05
RARITY = 0.3  # rare words count for more than BM25 says

PARTS = ("text", "context", "session", "author", "time", "meaning")
_MACHINES = frozenset((ROLES["assistant"], ROLES["tool"]))
_FEW_WRITTEN = tuple(1 - exp(-words / FEW_WRITTEN_WORDS) if words < 30 else 1.0 for words in range(256))
_FEW = tuple(1 - exp(-words / FEW_WORDS) if words < 100 else 1.0 for words in range(256))
_NOTHING: dict[int, float] = {}
_POSITION = (1 << SESSION_SHIFT) - 1
_NEAR_DOCS = 2
_PRONOUNS = frozenset(("you", "your", "yours", "we", "our", "us"))


class QuerySignals:
    """What a query tells besides its words: named authors and times, and whether it addresses the assistant."""

    __slots__ = ("addresses_assistant", "authors", "full_match", "ranges")

    def __init__(
        self,
        full_match: float = 0.0,
        authors: Iterable[int] = (),
        ranges: Iterable[tuple[int | None, int | None]] = (),
        addresses_assistant: bool = False,
    ) -> None:
        self.full_match = full_match  # see the function; 0: not known, then the best candidate counts as a full match
        self.authors = frozenset(authors)  # the numbers of the authors it names
        self.ranges = [(0 if start is None else start, 1 << 63 if end is None else end) for start, end in ranges]
        self.addresses_assistant = addresses_assistant


class CandidateScore:
    """A candidate's relevance at full priority, and its parts."""

    __slots__ = ("_scores", "candidate", "relevance", "worth")

    def __init__(self, scores: CandidateScores, relevance: float, candidate: TextMatch, worth: float) -> None:
        self._scores = scores
        self.relevance = relevance
        self.candidate = candidate
        self.worth = worth

    @property
    def parts(self) -> tuple[float, ...]:
        """In the order of PARTS."""
        return self._scores.parts(self.candidate)

    @property
    def strength(self) -> float:
        return self._scores.strength

    def explain(self) -> dict[str, float]:
        """The parts, which are added, and the factors by which their sum is multiplied."""
        parts = dict(zip(PARTS, self.parts, strict=True))
        if not self._scores.has_meaning(self.candidate) and not parts["meaning"]:
            del parts["meaning"]
        return {**parts, "strength": self.strength, "worth": self.worth}


# --- From the query -----------------------------------------------------------------------------------------------


def boost(inverse_frequency: float) -> float:
    """The factor by which a word counts more than in BM25: rare words gain."""
    return float(inverse_frequency**RARITY)


def full_match(inverse_frequencies: Iterable[float]) -> float:
    """The text score of a memory of mean length that has each word of the query once."""
    return sum(each * boost(each) for each in inverse_frequencies)


def text_match(match: float, full_match: float) -> float:
    """A text score from 0 to 1, for the designs' modes."""
    return min(1.0, match / full_match) if full_match else 0.0


def is_named(name: Sequence[str], words: Collection[str]) -> bool:
    """Whether a query's words name an author, given the terms of the name: the first name is enough."""
    return bool(name) and name[0] in words


def addresses_assistant(text: str) -> bool:
    """Whether a query may be about what the assistant said, because it addresses it: `what did you recommend?`"""
    return not _PRONOUNS.isdisjoint(word.strip("\"'.,;:!?()") for word in text.lower().split())


# --- Scores of candidates ------------------------------------------------------------------------------------------


def neighbours(
    turns: Sequence[TextMatch], known: Collection[int], meanings: Mapping[int, float] = _NOTHING
) -> list[int]:
    """The docs beside the best of these turns that are not in `known`: an answer may have none of the query's words.

    Some may not exist, or not meet the query's conditions. The others are candidates whose `match` is 0.
    """
    best = sorted([(-each.match, each.doc) for each in turns])[:EXPANDED]
    if meanings:
        best += sorted([(-meanings[each.doc], each.doc) for each in turns if meanings.get(each.doc)])[:EXPANDED]
    beside: dict[int, None] = {}
    for _, doc in best:
        if doc + 1 & _POSITION:
            beside[doc + 1] = None
        if doc & _POSITION:
            beside[doc - 1] = None
    return [doc for doc in beside if doc not in known]


class CandidateScores:
    """The scores of a query's candidates, best first; of equals the newer one first.

    `meanings`: the similarity of each doc to the query, 0 to 1; empty without an embedding model.
    Candidates are many and few are read, so each is a tuple of plain values, and its parts are computed on demand.
    """

    def __init__(
        self, candidates: Sequence[TextMatch], signals: QuerySignals, meanings: Mapping[int, float] = _NOTHING
    ) -> None:
        most = max([each.match for each in candidates], default=0.0)
        nearest = max([meanings.get(each.doc, 0.0) for each in candidates], default=0.0) if meanings else 0.0
        self._signals = signals
        self._texts = {each.doc: each.match / (most or 1.0) for each in candidates}
        self._meanings = {doc: meanings.get(doc, 0.0) / nearest for doc in self._texts} if nearest else {}
        self._best_texts, self._best_meanings = _best_of_sessions(self._texts), _best_of_sessions(self._meanings)
        whole = (TEXT + CONTEXT + SESSION) * (1 + MEANING * bool(nearest))
        whole += AUTHOR * bool(signals.authors) + TIME * bool(signals.ranges)
        self._shares = TEXT / whole, CONTEXT / whole, SESSION / whole, AUTHOR / whole, TIME / whole
        self.strength = max(min(1.0, most / signals.full_match), nearest) if signals.full_match else 1.0
        self._ranked = self._scored(candidates)
        self._ranked.sort(reverse=True)

    def _scored(self, candidates: Sequence[TextMatch]) -> list[tuple[float, int, int, TextMatch, float]]:
        """Relevance, time, doc (unique, so no further item is ever compared), the candidate and its worth.

        One loop almost without calls: it runs for every candidate of every query.
        """
        signals, texts, strength = self._signals, self._texts, self.strength
        text, context, session, author, time = self._shares
        text_of, best_of = texts.get, self._best_texts
        full, authors, ranges, meanings = signals.full_match, signals.authors, signals.ranges, self._meanings
        by_machine = 1.0 if signals.addresses_assistant else BY_MACHINE
        beside = _beside_others(texts)
        scored = []
        for each in candidates:
            doc, match, created, facts = each
            words, role = facts >> 8 & 255, facts >> 4 & 7
            total = text * texts[doc]
            if doc in beside:
                before = text_of(doc - 1, 0.0) + text_of(doc - 2, 0.0)
                after = text_of(doc + 1, 0.0) + text_of(doc + 2, 0.0)
                total += context * ((BEFORE * before + AFTER * after) / (1 + words / SHORT_WORDS))
            total += session * best_of[doc >> SESSION_SHIFT]
            if authors and facts >> 16 in authors:
                total += author
            if ranges:
                total += time * _nearness(created, ranges)
            if meanings:
                total += self._meaning_share(each)
            worth = _FEW[words] if role else _FEW_WRITTEN[words]
            if worth < 1.0 and full:  # a memory with all words of the query counts in full, however short
                exact = match / full if match < full else 1.0
                worth += (1 - worth) * exact * exact * exact
            if role in _MACHINES:
                worth *= by_machine
            scored.append(((total if total < 1.0 else 1.0) * strength * worth, created, doc, each, worth))
        return scored

    def parts(self, each: TextMatch) -> tuple[float, float, float, float, float, float]:
        """The parts of a candidate's relevance, in the order of PARTS."""
        text, context, session, author, time = self._shares
        own, around, best = _spread(each, self._texts, self._best_texts)
        return (
            text * own,
            context * around,
            session * best,
            author if each.facts >> 16 in self._signals.authors else 0.0,
            time * _nearness(each.created, self._signals.ranges) if self._signals.ranges else 0.0,
            self._meaning_share(each) if self._meanings else 0.0,
        )

    def _meaning_share(self, each: TextMatch) -> float:
        text, context, session, *_ = self._shares
        own, around, best = _spread(each, self._meanings, self._best_meanings)
        return MEANING * (text * own + context * around + session * best)

    def has_meaning(self, each: TextMatch) -> bool:
        return bool(self._meanings.get(each.doc))

    def best_from(self, place: int) -> float:
        """The relevance of the best candidate from a place on."""
        return self._ranked[place][0]

    def between(self, start: int, stop: int) -> list[CandidateScore]:
        return [
            CandidateScore(self, relevance, each, worth) for relevance, _, _, each, worth in self._ranked[start:stop]
        ]

    def __len__(self) -> int:
        return len(self._ranked)

    def __iter__(self) -> Iterator[CandidateScore]:
        return iter(self.between(0, len(self)))


def _beside_others(docs: Iterable[int]) -> set[int]:
    """The docs that have another one near enough to be their context."""
    ordered = sorted(docs)
    return {each for one, two in pairwise(ordered) if two - one <= _NEAR_DOCS for each in (one, two)}


def _spread(each: TextMatch, signals: dict[int, float], best_of: dict[int, float]) -> tuple[float, float, float]:
    """A signal of a candidate, of its neighbours, and the best one of its session.

    A session's positions never reach the end of their range, so neighbouring docs are of the same session.
    """
    doc, signal_of = each.doc, signals.get
    before = signal_of(doc - 1, 0.0) + signal_of(doc - 2, 0.0)
    after = signal_of(doc + 1, 0.0) + signal_of(doc + 2, 0.0)
    around = (BEFORE * before + AFTER * after) / (1 + (each.facts >> 8 & 255) / SHORT_WORDS)
    return signals[doc], around, best_of[doc >> SESSION_SHIFT]


def _best_of_sessions(signals: dict[int, float]) -> dict[int, float]:
    best: dict[int, float] = {}
    for doc, signal in signals.items():
        session = doc >> SESSION_SHIFT
        if signal >= best.get(session, 0.0):
            best[session] = signal
    return best


def _nearness(created: int, ranges: list[tuple[int, int]]) -> float:
    if any(start <= created < end for start, end in ranges):
        return 1.0
    return NEAR if any(start - NEAR_MICROSECONDS <= created < end + NEAR_MICROSECONDS for start, end in ranges) else 0.0


def faded(relevance: float, priority: float) -> float:
    """The relevance reduced by decay, given the memory's priority (0 to 1)."""
    return relevance * (1 - FADING * (1 - min(max(priority, 0.0), 1.0)))


# --- The modes of the designs --------------------------------------------------------------------------------------


def weighted(text: float, age_days: float, importance: float, unused_hours: float | None) -> dict[str, float]:
    """Design 001: the parts whose sum is the relevance. The rate for age is per day, that for access per hour."""
    return {
        "text": 0.4 * text,
        "time": 0.3 * exp(-0.1 * max(age_days, 0.0)),
        "importance": 0.2 * importance,
        "access": 0.1 * (0.5 if unused_hours is None else exp(-0.05 * max(unused_hours, 0.0))),
    }


def product(text: float, decay: float, importance: float, unused_hours: float) -> dict[str, float]:
    """Design 004: the factors whose product, at most 1, is the relevance. `unused_hours` since the last use or change."""
    return {
        "importance": importance,
        "decay": max(decay, 0.1),
        "recency": 1.5 if unused_hours < 24 else 1.0,
        "text": text,
    }
