"""Score candidates: a relevance between 0 and 1 from text, neighbours, session, author, time and meaning. Pure.

The default, chosen by the retrieval benchmark (docs/adr/0025-recall.md):

    relevance = (text + context + session + author + time + meaning) × strength × worth × fading

    text      its text score, relative to the best candidate's
    context   for a turn, the text scores of the turns around it; the shorter the turn, the more they count, and a
              question just before it counts twice: the turn may be its answer
    session   for a turn, the best text score of a turn in its session, half of it fading with the distance to that
              turn; for any other memory, its own text score once more
    author    the query names its author
    time      the query names the time when it was written
    meaning   embedding similarity of the memory, its neighbours and the best of its session, weighted as their text
              scores are; only with an embedding model
    strength  how much of the query the best candidate matches: a weak match is not relevant for being the best one
    worth     below 1 for a short memory, unless it has all words of the query; words of a turn that ask count half.
              Below 1 for a turn of an assistant or a tool, unless the query addresses the assistant, and for a turn
              that names no time, if the query asks for one
    fading    from 1 down to `1 - FADING`: a decayed memory moves down a little and is never hidden

A turn that only asks is never above the answer: it comes behind every written memory, and the best turn, that has half as much of the query.

The parts are shares of the most that a memory could get. Two other modes are as the designs state them: `weighted`
(design 001) and `product` (design 004).

Guarantees: every signal is bounded; the order does not depend on the order of the candidates; equal input, equal
output.
"""

from __future__ import annotations

from itertools import pairwise
from math import exp

from smp_memory.model.candidates import ASKS, NAMES_TIME, ROLE, ROLE_SHIFT, ROLES, STATED_SHIFT, WORDS_SHIFT
from smp_memory.text.wildcards import RARITY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from smp_memory.model.candidates import Candidate

    _Scored = tuple[float, int, str, int, Candidate, float]

CANDIDATES = 100  # so many of the best by text are scored by all signals; more of them change nothing

TEXT, CONTEXT, SESSION, AUTHOR, TIME = 1.0, 0.5, 0.9, 0.3, 0.8
MEANING = 0.5  # meaning counts half as much as text, wherever text counts, unless the embedding model says otherwise
BEFORE, AFTER = 1.0, 0.5  # the turns before a turn explain it more than those after it
ANSWERED = 2.0  # a turn just before that asks counts so many times: this one may be the answer
SHORT_WORDS = 20  # the context of a turn of so many words counts half
FAR_TURNS = 60  # so far from the best turn of its session, a turn gets a third less from it; very far, half
FEW_WORDS = 8  # a turn of so many words is worth 63 %, of twice as many 86 %
FEW_WRITTEN_WORDS = 3  # a decision that was written down in a few words is complete
BY_MACHINE = 0.7
WITHOUT_TIME = 0.85  # of a turn that names no time, if the query asks for one
NEAR_MICROSECONDS = 2 * 86_400_000_000  # so near to a time in the query counts half: days begin earlier in other zones,
NEAR = 0.5  # and people tell the day after what happened the day before
FADING = 0.05
FEW_STATED = 3  # words outside of questions: a turn that has no more only asks; its id and its author count
ANSWERING = 0.5  # a candidate with this share of a question's text score may answer it
BEHIND = 0.9  # so far that decay and idle sessions do not change their order

PARTS = ("text", "context", "session", "author", "time", "meaning")
_MACHINES = frozenset((ROLES["assistant"], ROLES["tool"]))
_FEW_WRITTEN = tuple(1 - exp(-words / FEW_WRITTEN_WORDS) if words < 30 else 1.0 for words in range(256))
_FEW = tuple(1 - exp(-words / FEW_WORDS) if words < 100 else 1.0 for words in range(256))
_DISTANCES = 255
_BY_DISTANCE = tuple(0.5 + 0.5 * exp(-distance / FAR_TURNS) for distance in range(_DISTANCES + 1))
_PRONOUNS = frozenset(("you", "your", "yours", "we", "our", "us"))
_REQUESTS = frozenset(("can", "could", "would", "will"))  # "can you …" asks the assistant for something
_TIMES = frozenset(("date", "day", "days", "week", "weeks", "month", "months", "year", "years", "long", "time"))


class QuerySignals:
    """What a query tells besides its words: named authors and times, whether it addresses the assistant or asks for a time."""

    __slots__ = ("addresses_assistant", "asks_for_time", "authors", "full_match", "meaning_weight", "ranges")

    def __init__(
        self,
        full_match: float = 0.0,
        authors: Iterable[str] = (),
        ranges: Iterable[tuple[int | None, int | None]] = (),
        addresses_assistant: bool = False,
        asks_for_time: bool = False,
        meaning_weight: float = MEANING,
    ) -> None:
        self.meaning_weight = meaning_weight
        self.full_match = full_match  # see the function; 0: not known, then the best candidate counts as a full match
        self.authors = frozenset(authors)  # the authors that it names
        self.ranges = [(0 if start is None else start, 1 << 63 if end is None else end) for start, end in ranges]
        self.addresses_assistant = addresses_assistant
        self.asks_for_time = asks_for_time


class CandidateScore:
    """A candidate's relevance at full priority, and its parts."""

    __slots__ = ("_scores", "candidate", "relevance", "worth")

    def __init__(self, scores: CandidateScores, relevance: float, candidate: Candidate, worth: float) -> None:
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
        if not self.candidate.meaning and not parts["meaning"]:
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
    """Whether a query may be about what the assistant said, because it addresses it: `what did you recommend?`

    A request such as `can you suggest a hotel?` is not about its words.
    """
    words = _plain_words(text)
    return any(
        word in _PRONOUNS and not (word == "you" and before in _REQUESTS) for before, word in pairwise(["", *words])
    )


def asks_for_time(text: str) -> bool:
    """Whether a query asks when something happened: `when did …`, `how long ago …`, `how many days …`, `what year …`."""
    words = _plain_words(text)
    if "when" in words[:2]:
        return True
    three = zip(words, words[1:], [*words[2:], ""], strict=False)
    return any(
        (first == "how" and (second == "long" or (second == "many" and third in _TIMES)))
        or (first in ("what", "which") and second in _TIMES)
        for first, second, third in three
    )


def _plain_words(text: str) -> list[str]:
    return [word.strip("\"'.,;:!?()") for word in text.lower().split()]


# --- Scores of candidates ------------------------------------------------------------------------------------------


class CandidateScores:
    """The scores of a query's candidates, best first; of equals the newer one first.

    Candidates are many and few are read, so each is a tuple of plain values, and its parts are computed on demand.
    """

    def __init__(self, candidates: Sequence[Candidate], signals: QuerySignals) -> None:
        most = max([each.match for each in candidates], default=0.0)
        nearest = max([each.meaning for each in candidates], default=0.0)
        self._signals = signals
        self._scale, self._nearest = most or 1.0, nearest
        turns = [each for each in candidates if each.traits & ROLE]
        scale = self._scale
        self._texts, self._best_texts = _by_session(
            [(each.session, each.position, each.match / scale) for each in turns]
        )
        self._meanings, self._best_meanings = (
            _by_session([(each.session, each.position, each.meaning / nearest) for each in turns])
            if nearest
            else ({}, {})
        )
        self._asking = {(each.session, each.position) for each in turns if each.traits & ASKS}
        whole = (TEXT + CONTEXT + SESSION) * (1 + signals.meaning_weight * bool(nearest))
        whole += AUTHOR * bool(signals.authors) + TIME * bool(signals.ranges)
        self._shares = TEXT / whole, CONTEXT / whole, SESSION / whole, AUTHOR / whole, TIME / whole
        self.strength = max(min(1.0, most / signals.full_match), nearest) if signals.full_match else 1.0
        self._ranked = self._scored(candidates)
        self._ranked.sort(reverse=True)

    def _scored(self, candidates: Sequence[Candidate]) -> list[_Scored]:
        """Relevance, time, session and position (unique, so no further item is ever compared), the candidate and its worth.

        One loop almost without calls: it runs for every candidate of every query.
        """
        signals, strength, meanings = self._signals, self.strength, self._best_meanings
        text, context, session_share, author_share, time = self._shares
        turn_texts, best_of, asking, by_distance, few = (
            self._with_meanings(),
            self._best_texts,
            self._asking,
            _BY_DISTANCE,
            _FEW,
        )
        full, authors, ranges, asks_for_time = (
            signals.full_match,
            signals.authors,
            signals.ranges,
            signals.asks_for_time,
        )
        by_machine = 1.0 if signals.addresses_assistant else BY_MACHINE
        scale, nearest, weight = self._scale, self._nearest, signals.meaning_weight
        scored = []
        for each in candidates:
            session, _, position, _, created, traits, author, match, meaning = each[:9]
            words, role = traits >> WORDS_SHIFT & 255, traits >> ROLE_SHIFT & 7
            own = match / scale + weight * (meaning / nearest) if nearest else match / scale
            if role:
                best, best_position = best_of[session]
                distance = position - best_position if position > best_position else best_position - position
                share = best * by_distance[distance if distance < _DISTANCES else _DISTANCES]
                if meanings:
                    best, best_position = meanings[session]
                    distance = position - best_position if position > best_position else best_position - position
                    share += weight * best * by_distance[distance if distance < _DISTANCES else _DISTANCES]
                total = text * own + session_share * share
                turn_of = turn_texts[session].get
                before = turn_of(position - 1, 0.0)
                if before and (session, position - 1) in asking:
                    before *= ANSWERED
                before += turn_of(position - 2, 0.0)
                after = turn_of(position + 1, 0.0) + turn_of(position + 2, 0.0)
                if before or after:
                    total += context * (BEFORE * before + AFTER * after) / (1 + words / SHORT_WORDS)
                worth = few[words + (traits >> STATED_SHIFT & 255) + 1 >> 1]
            else:
                total = (text + session_share) * own
                worth = _FEW_WRITTEN[words]
            if authors and author in authors:
                total += author_share
            if ranges:
                total += time * _nearness(created, ranges)
            if worth < 1.0 and full:  # a memory with all words of the query counts in full, however short
                exact = match / full if match < full else 1.0
                worth += (1 - worth) * exact * exact * exact
            if asks_for_time and role and not traits & NAMES_TIME:
                worth *= WITHOUT_TIME
            if role in _MACHINES:
                worth *= by_machine
            scored.append(((total if total < 1.0 else 1.0) * strength * worth, created, session, position, each, worth))
        return _questions_behind_answers(scored)

    def _with_meanings(self) -> dict[str, dict[int, float]]:
        """Text and meaning together, of turns by session and position."""
        if not self._nearest:
            return self._texts
        weight = self._signals.meaning_weight
        return {
            session: {at: text + weight * self._meanings[session][at] for at, text in turns.items()}
            for session, turns in self._texts.items()
        }

    def parts(self, each: Candidate) -> tuple[float, float, float, float, float, float]:
        """The parts of a candidate's relevance, in the order of PARTS."""
        text, context, session, author, time = self._shares
        own, around, best = self._spread(each, each.match / self._scale, self._texts, self._best_texts)
        return (
            text * own,
            context * around,
            session * best,
            author if each.author in self._signals.authors else 0.0,
            time * _nearness(each.created, self._signals.ranges) if self._signals.ranges else 0.0,
            self._meaning_share(each) if self._nearest else 0.0,
        )

    def _meaning_share(self, each: Candidate) -> float:
        text, context, session, *_ = self._shares
        own, around, best = self._spread(each, each.meaning / self._nearest, self._meanings, self._best_meanings)
        return self._signals.meaning_weight * (text * own + context * around + session * best)

    def _spread(
        self, each: Candidate, own: float, turns: dict[str, dict[int, float]], best_of: dict[str, tuple[float, int]]
    ) -> tuple[float, float, float]:
        """A signal of a candidate, of the turns around it, and the best one of its session."""
        if not each.traits & ROLE:
            return own, 0.0, own
        session, position = each.session, each.position
        turn_of = turns[session].get
        before = turn_of(position - 1, 0.0) * (ANSWERED if (session, position - 1) in self._asking else 1.0)
        before += turn_of(position - 2, 0.0)
        after = turn_of(position + 1, 0.0) + turn_of(position + 2, 0.0)
        around = (BEFORE * before + AFTER * after) / (1 + (each.traits >> WORDS_SHIFT & 255) / SHORT_WORDS)
        best, best_position = best_of[session]
        return own, around, best * _BY_DISTANCE[min(abs(position - best_position), _DISTANCES)]

    def best_from(self, place: int) -> float:
        """The relevance of the best candidate from a place on."""
        return self._ranked[place][0]

    def between(self, start: int, stop: int) -> list[CandidateScore]:
        return [
            CandidateScore(self, relevance, each, worth) for relevance, _, _, _, each, worth in self._ranked[start:stop]
        ]

    def relevances(self) -> list[tuple[float, Candidate]]:
        """Each candidate with its relevance at full priority."""
        return [(scored[0], scored[4]) for scored in self._ranked]

    def __len__(self) -> int:
        return len(self._ranked)

    def __iter__(self) -> Iterator[CandidateScore]:
        return iter(self.between(0, len(self)))


def _questions_behind_answers(scored: list[_Scored]) -> list[_Scored]:
    """The same, with each turn that only asks behind every written memory, and the best turn, with half as much of the query at least."""
    if not any(map(_only_asks, scored)):
        return scored
    answers = [
        (each[4].match, each[0], each[4].traits & ROLE) for each in scored if not _only_asks(each) and each[4].match
    ]
    found = []
    for each in scored:
        if _only_asks(each):
            near = [answer for answer in answers if answer[0] >= ANSWERING * each[4].match]
            bounds = [score for _, score, role in near if not role]
            bounds += sorted([score for _, score, role in near if role])[-1:]
            score = min([each[0], *(BEHIND * bound for bound in bounds)])
            each = (score, *each[1:5], each[5] * score / each[0] if each[0] else each[5])
        found.append(each)
    return found


def _only_asks(scored: _Scored) -> bool:
    traits = scored[4].traits
    return bool(traits & ASKS) and traits >> STATED_SHIFT & 255 <= FEW_STATED


def _by_session(
    signals: Iterable[tuple[str, int, float]],
) -> tuple[dict[str, dict[int, float]], dict[str, tuple[float, int]]]:
    """Signals of turns by session and position, and the best one of each session with its position; of equals the first one."""
    found: dict[str, dict[int, float]] = {}
    best: dict[str, tuple[float, int]] = {}
    for session, position, signal in signals:
        turns = found.get(session)
        if turns is None:
            found[session] = {position: signal}
            best[session] = signal, position
        else:
            turns[position] = signal
            most, at = best[session]
            if signal > most or (signal == most and position < at):
                best[session] = signal, position
    return found, best


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
