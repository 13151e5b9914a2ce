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

from collections import namedtuple
from itertools import repeat
from math import exp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
    from typing import NamedTuple

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
MACHINES = frozenset(("assistant", "tool"))
_FEW_WRITTEN = tuple(1 - exp(-words / FEW_WRITTEN_WORDS) for words in range(30))
_FEW = tuple(1 - exp(-words / FEW_WORDS) for words in range(100))
_SPOKEN_TO = frozenset(("you", "your", "yours", "we", "our", "us"))


class Candidate:
    """What is known of a memory before it is read."""

    __slots__ = ("author", "created", "doc", "match", "meaning", "role", "words")

    def __init__(
        self,
        doc: int,
        match: float,
        created: int,
        author: Hashable = None,
        role: str | None = None,
        words: int = 999,
        meaning: float = 0.0,
    ) -> None:
        self.doc = doc
        self.match = match  # BM25; 0 for a neighbour that has none of the words
        self.created = created  # microseconds
        self.author = author
        self.role = role
        self.words = words  # the number of its terms; beyond some hundreds it does not matter
        self.meaning = meaning  # how near it is to what the question means, 0 to 1; 0: not known


class Asked:
    """What a question says beside its words."""

    __slots__ = ("authors", "full_match", "of_machine", "ranges")

    def __init__(
        self,
        full_match: float = 0.0,
        authors: Iterable[Hashable] = (),
        ranges: Iterable[tuple[int | None, int | None]] = (),
        of_machine: bool = False,
    ) -> None:
        self.full_match = full_match  # see the function; 0: not known, then the best candidate is taken for it
        self.authors = frozenset(authors)  # those candidates' authors that it names
        self.ranges = [(0 if start is None else start, 1 << 63 if end is None else end) for start, end in ranges]
        self.of_machine = of_machine  # it may ask for what the assistant said


if TYPE_CHECKING:

    class _Judgement(NamedTuple):
        relevance: float
        candidate: Candidate
        parts: tuple[float, float, float, float, float, float]  # in the order of PARTS
        strength: float
        worth: float

else:  # `typing` takes a new process 5 ms to load
    _Judgement = namedtuple("_Judgement", "relevance candidate parts strength worth")


class Judgement(_Judgement):
    """A candidate's relevance at full priority, and what it is made of."""

    __slots__ = ()

    def explain(self) -> dict[str, float]:
        """The parts, which add up, and the factors by which their sum is multiplied."""
        parts = dict(zip(PARTS, self.parts, strict=True))
        if not self.candidate.meaning and not parts["meaning"]:
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


def neighbours(candidates: Sequence[Candidate]) -> list[int]:
    """The docs beside the best candidates that are no candidates: an answer may have none of the question's words.

    They may not exist, or not be wanted. Those that do are candidates whose `match` is 0.
    """
    known = {each.doc: each.match for each in candidates}
    best = sorted(known, key=lambda doc: (-known[doc], doc))[:EXPANDED]
    near = {each.doc: each.meaning for each in candidates if each.meaning}
    best += sorted(near, key=lambda doc: (-near[doc], doc))[:EXPANDED]
    beside = dict.fromkeys(doc for each in best for doc in (each + 1, each - 1) if _together(doc, each))
    return [doc for doc in beside if doc not in known]


def _together(doc: int, other: int) -> bool:
    return doc >> SESSION_SHIFT == other >> SESSION_SHIFT


def judge(candidates: Sequence[Candidate], asked: Asked) -> list[Judgement]:
    """Judge candidates, best first; of equals the newer one first."""
    most = max((each.match for each in candidates), default=0.0)
    nearest = max((each.meaning for each in candidates), default=0.0)
    texts = {each.doc: each.match / (most or 1.0) for each in candidates}
    meanings = {each.doc: each.meaning / nearest for each in candidates} if nearest else {}
    strength = max(min(1.0, most / asked.full_match), nearest) if asked.full_match else 1.0
    judged = [
        Judgement(min(1.0, sum(parts)) * strength * worth, each, parts, strength, worth)
        for each, parts in zip(candidates, _parts(candidates, texts, meanings, asked), strict=True)
        for worth in (_worth(each, asked),)
    ]
    judged.sort(key=lambda each: (-each.relevance, -each.candidate.created, -each.candidate.doc))
    return judged


def _parts(
    candidates: Sequence[Candidate], texts: dict[int, float], meanings: dict[int, float], asked: Asked
) -> Iterator[tuple[float, float, float, float, float, float]]:
    """The parts of each candidate. One loop almost without calls: it runs for every candidate of every question."""
    whole = (TEXT + CONTEXT + SESSION) * (1 + MEANING * bool(meanings))
    whole += AUTHOR * bool(asked.authors) + TIME * bool(asked.ranges)
    text, context, session, author, time = TEXT / whole, CONTEXT / whole, SESSION / whole, AUTHOR / whole, TIME / whole
    by_meaning = _spread(candidates, meanings) if meanings else repeat((0.0, 0.0, 0.0))
    for each, words, meaning in zip(candidates, _spread(candidates, texts), by_meaning, strict=False):
        yield (
            text * words[0],
            context * words[1],
            session * words[2],
            author if each.author in asked.authors else 0.0,
            time * _nearness(each.created, asked.ranges) if asked.ranges else 0.0,
            MEANING * (text * meaning[0] + context * meaning[1] + session * meaning[2]) if meanings else 0.0,
        )


def _spread(candidates: Sequence[Candidate], signals: dict[int, float]) -> Iterator[tuple[float, float, float]]:
    """A signal of each candidate, of those beside it, and the best one of its session. A session's positions never reach
    the end of its numbers, so the docs beside one are of the same session."""
    sessions, signal_of = _best_of_sessions(signals), signals.get
    for each in candidates:
        doc = each.doc
        before = signal_of(doc - 1, 0.0) + signal_of(doc - 2, 0.0)
        after = signal_of(doc + 1, 0.0) + signal_of(doc + 2, 0.0)
        around = (BEFORE * before + AFTER * after) / (1 + each.words / SHORT_WORDS)
        yield signals[doc], around, sessions[doc >> SESSION_SHIFT]


def _best_of_sessions(texts: dict[int, float]) -> dict[int, float]:
    best: dict[int, float] = {}
    for doc, text in texts.items():
        session = doc >> SESSION_SHIFT
        if text >= best.get(session, 0.0):
            best[session] = text
    return best


def _nearness(created: int, ranges: list[tuple[int, int]]) -> float:
    if any(start <= created < end for start, end in ranges):
        return 1.0
    return NEAR if any(start - NEAR_MICROSECONDS <= created < end + NEAR_MICROSECONDS for start, end in ranges) else 0.0


def _worth(each: Candidate, asked: Asked) -> float:
    words, few = each.words, _FEW if each.role else _FEW_WRITTEN
    worth = 1.0
    if words < len(few):
        exact = text_match(each.match, asked.full_match)  # who has all that was asked for is worth it, however short
        worth = few[words] + (1 - few[words]) * exact**3
    return worth * BY_MACHINE if each.role in MACHINES and not asked.of_machine else worth


def faded(relevance: float, priority: float) -> float:
    """A relevance as it is when the memory's priority (0 to 1) is counted in."""
    return relevance * (1 - FADING * (1 - min(max(priority, 0.0), 1.0)))


# --- The modes of the designs --------------------------------------------------------------------------------------


def weighted(text: float, age_days: float, importance: float, unused_hours: float | None) -> dict[str, float]:
    """001 §5.3: the parts whose sum is the relevance. Its rates of fading are per day (SPEC 17)."""
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
