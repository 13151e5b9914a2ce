"""How well does a memory answer a question, and why? Signals become a relevance between 0 and 1. Pure.

The default, chosen by the retrieval benchmark (docs/adr/0009-words.md):

    relevance = (text + context + session + author + time + meaning) × strength × worth × fading

    text      its own words, against those of the best candidate
    context   its neighbours' words, the more the shorter it is
    session   the best text in its session
    author    the question names who wrote it
    time      the question names when it was written
    meaning   what it means, its neighbours and the best of its session, weighed as their words are; if there is a model
    strength  how much of the question the best candidate has: a weak answer is not relevant for being the best one
    worth     less than 1 for a few words, unless all that was asked for is in them, and for a machine's turn, unless
              the question is about it
    fading    from 1 down to `1 - FADING`: what faded moves down a little and is never hidden

The parts are shares of the most that a memory could get. Two other modes are as the designs state them: `weighted`
(001 §5.3) and `product` (004 §4.3).

Guarantees: every signal is bounded; the order does not depend on the order of the candidates; equal input, equal output.
"""

from __future__ import annotations

from itertools import pairwise
from math import exp

from smp_memory.index.documents import ROLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from smp_memory.index.text_query import Found

CANDIDATES = 100  # so many of the best by text are judged; more of them change nothing
NEAREST = 50  # so many of the best by meaning are added
NEAR_ENOUGH = 0.2  # cosine: below it two texts have nothing to do with each other
EXPANDED = 20  # so many of the best, by text and by meaning, bring their neighbours along
SESSION_SHIFT = 24  # doc = number of the session << 24 | position in it

TEXT, CONTEXT, SESSION, AUTHOR, TIME = 1.0, 0.5, 1.0, 0.3, 0.8
MEANING = 0.5  # what a memory means counts half as much as its words, wherever they count
BEFORE, AFTER = 1.0, 0.5  # what was said before a memory explains it more than what follows
SHORT_WORDS = 20  # a memory of so many words takes half of its context
FEW_WORDS = 8  # one of so many words is worth 63 %, of twice as many 86 %
FEW_WRITTEN_WORDS = 3  # who writes a decision down in a few words has said it
BY_MACHINE = 0.7
NEAR_MICROSECONDS = 2 * 86_400_000_000  # so near to a time that is asked for counts half: days begin elsewhere earlier,
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
_SPOKEN_TO = frozenset(("you", "your", "yours", "we", "our", "us"))


class QueryTerms:
    """What a question says beside its words."""

    __slots__ = ("authors", "full_match", "of_machine", "ranges")

    def __init__(
        self,
        full_match: float = 0.0,
        authors: Iterable[int] = (),
        ranges: Iterable[tuple[int | None, int | None]] = (),
        of_machine: bool = False,
    ) -> None:
        self.full_match = full_match  # see the function; 0: not known, then the best candidate is taken for it
        self.authors = frozenset(authors)  # the numbers of those candidates' authors that it names
        self.ranges = [(0 if start is None else start, 1 << 63 if end is None else end) for start, end in ranges]
        self.of_machine = of_machine  # it may ask for what the assistant said


class Judgement:
    """A candidate's relevance at full priority, and what it is made of."""

    __slots__ = ("_judging", "candidate", "relevance", "worth")

    def __init__(self, judging: Judging, relevance: float, candidate: Found, worth: float) -> None:
        self._judging = judging
        self.relevance = relevance
        self.candidate = candidate
        self.worth = worth

    @property
    def parts(self) -> tuple[float, ...]:
        """In the order of PARTS."""
        return self._judging.parts(self.candidate)

    @property
    def strength(self) -> float:
        return self._judging.strength

    def explain(self) -> dict[str, float]:
        """The parts, which add up, and the factors by which their sum is multiplied."""
        parts = dict(zip(PARTS, self.parts, strict=True))
        if not self._judging.has_meaning(self.candidate) and not parts["meaning"]:
            del parts["meaning"]
        return {**parts, "strength": self.strength, "worth": self.worth}


# --- Before the search ---------------------------------------------------------------------------------------------


def boost(inverse_frequency: float) -> float:
    """By how much a word counts for more than BM25 says."""
    return float(inverse_frequency**RARITY)


def full_match(inverse_frequencies: Iterable[float]) -> float:
    """The text score of a memory of mean length that has each word of the question once."""
    return sum(each * boost(each) for each in inverse_frequencies)


def text_match(match: float, full_match: float) -> float:
    """How well a memory's own words match, 0 to 1: what the designs' modes go by."""
    return min(1.0, match / full_match) if full_match else 0.0


def is_named(name: Sequence[str], words: Collection[str]) -> bool:
    """Whether a question's words name an author, given the terms of the name: people go by the first of them."""
    return bool(name) and name[0] in words


def asks_of_machine(question: str) -> bool:
    """Whether it may ask for what the assistant said, because it speaks to it: `what did you recommend?`"""
    return not _SPOKEN_TO.isdisjoint(word.strip("\"'.,;:!?()") for word in question.lower().split())


# --- Judging what was found ----------------------------------------------------------------------------------------


def neighbours(turns: Sequence[Found], known: Collection[int], meanings: Mapping[int, float] = _NOTHING) -> list[int]:
    """The docs beside the best of these turns that are not known: an answer may have none of the question's words.

    They may not exist, or not be wanted. Those that do are candidates whose `match` is 0.
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


def judge(candidates: Sequence[Found], asked: QueryTerms, meanings: Mapping[int, float] = _NOTHING) -> Judging:
    """Judge candidates, best first; of equals the newer one first.

    `meanings`: how near a doc is to what the question means, 0 to 1; nothing: it is not known.
    """
    return Judging(candidates, asked, meanings)


class Judging:
    """The judgements of all candidates of a question, best first. They are many and few of them are looked at: each is
    a row of plain values, and what it is made of is worked out for those that are asked."""

    def __init__(self, candidates: Sequence[Found], asked: QueryTerms, meanings: Mapping[int, float]) -> None:
        most = max([each.match for each in candidates], default=0.0)
        nearest = max([meanings.get(each.doc, 0.0) for each in candidates], default=0.0) if meanings else 0.0
        self._asked = asked
        self._texts = {each.doc: each.match / (most or 1.0) for each in candidates}
        self._meanings = {doc: meanings.get(doc, 0.0) / nearest for doc in self._texts} if nearest else {}
        self._best_texts, self._best_meanings = _best_of_sessions(self._texts), _best_of_sessions(self._meanings)
        whole = (TEXT + CONTEXT + SESSION) * (1 + MEANING * bool(nearest))
        whole += AUTHOR * bool(asked.authors) + TIME * bool(asked.ranges)
        self._shares = TEXT / whole, CONTEXT / whole, SESSION / whole, AUTHOR / whole, TIME / whole
        self.strength = max(min(1.0, most / asked.full_match), nearest) if asked.full_match else 1.0
        self._ranked = self._weighed(candidates)
        self._ranked.sort(reverse=True)

    def _weighed(self, candidates: Sequence[Found]) -> list[tuple[float, int, int, Found, float]]:
        """Relevance, time, doc, which is never twice the same, the candidate and its worth.

        One loop almost without calls: it runs for every candidate of every question.
        """
        asked, texts, strength = self._asked, self._texts, self.strength
        text, context, session, author, time = self._shares
        text_of, best_of = texts.get, self._best_texts
        full, authors, ranges, meanings = asked.full_match, asked.authors, asked.ranges, self._meanings
        by_machine = 1.0 if asked.of_machine else BY_MACHINE
        beside = _beside_others(texts)
        weighed = []
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
                total += self._meant(each)
            worth = _FEW[words] if role else _FEW_WRITTEN[words]
            if worth < 1.0 and full:  # who has all that was asked for is worth it, however short
                exact = match / full if match < full else 1.0
                worth += (1 - worth) * exact * exact * exact
            if role in _MACHINES:
                worth *= by_machine
            weighed.append(((total if total < 1.0 else 1.0) * strength * worth, created, doc, each, worth))
        return weighed

    def parts(self, each: Found) -> tuple[float, float, float, float, float, float]:
        """What the sum for a candidate is made of, in the order of PARTS."""
        text, context, session, author, time = self._shares
        own, around, best = _spread(each, self._texts, self._best_texts)
        return (
            text * own,
            context * around,
            session * best,
            author if each.facts >> 16 in self._asked.authors else 0.0,
            time * _nearness(each.created, self._asked.ranges) if self._asked.ranges else 0.0,
            self._meant(each) if self._meanings else 0.0,
        )

    def _meant(self, each: Found) -> float:
        text, context, session, *_ = self._shares
        own, around, best = _spread(each, self._meanings, self._best_meanings)
        return MEANING * (text * own + context * around + session * best)

    def has_meaning(self, each: Found) -> bool:
        return bool(self._meanings.get(each.doc))

    def best_from(self, place: int) -> float:
        """The relevance of the best one from a place on."""
        return self._ranked[place][0]

    def between(self, start: int, stop: int) -> list[Judgement]:
        return [Judgement(self, relevance, each, worth) for relevance, _, _, each, worth in self._ranked[start:stop]]

    def __len__(self) -> int:
        return len(self._ranked)

    def __iter__(self) -> Iterator[Judgement]:
        return iter(self.between(0, len(self)))


def _beside_others(docs: Iterable[int]) -> set[int]:
    """Those that have another one near enough to explain them."""
    ordered = sorted(docs)
    return {each for one, two in pairwise(ordered) if two - one <= _NEAR_DOCS for each in (one, two)}


def _spread(each: Found, signals: dict[int, float], best_of: dict[int, float]) -> tuple[float, float, float]:
    """A signal of a candidate, of those beside it, and the best one of its session. A session's positions never reach
    the end of its numbers, so the docs beside one are of the same session."""
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
    """A relevance as it is when the memory's priority (0 to 1) is counted in."""
    return relevance * (1 - FADING * (1 - min(max(priority, 0.0), 1.0)))


# --- The modes of the designs --------------------------------------------------------------------------------------


def weighted(text: float, age_days: float, importance: float, unused_hours: float | None) -> dict[str, float]:
    """001 §5.3: the parts whose sum is the relevance. Its rates of fading are per day."""
    return {
        "text": 0.4 * text,
        "time": 0.3 * exp(-0.1 * max(age_days, 0.0)),
        "importance": 0.2 * importance,
        "access": 0.1 * (0.5 if unused_hours is None else exp(-0.05 * max(unused_hours, 0.0))),
    }


def product(text: float, decay: float, importance: float, unused_hours: float) -> dict[str, float]:
    """004 §4.3: the factors whose product, at most 1, is the relevance. `unused_hours` since it was used or written."""
    return {
        "importance": importance,
        "decay": max(decay, 0.1),
        "recency": 1.5 if unused_hours < 24 else 1.0,
        "text": text,
    }
