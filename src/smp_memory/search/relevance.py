"""Relevance: how probable it is that a memory answers a query, or is needed for it. Pure.

The score of a hit orders the candidates of one query; it says little across queries and stores. The relevance does: hooks, contexts, MCP and the
inspector compare it with two floors. It is the larger of two estimates, each logistic over a few features.

`answers`: this memory says what the query asks for. A turn that only asks, or has no other words than the query, answers nothing.

    words      the summed weight of the query's terms in the memory's best passage, less what chance gives: among many memories, some share
               terms with any query, and with a long one more (the logarithms of both numbers)
    meaning    similarity of the embeddings, 0 to 1; without embeddings, half the share of the query's weight that the passage has
    lasting    it was written down, not only said
    short      it is a turn of a few words
    asked      the query asks for memory: "what did we decide …", "remind me …"
    general    the query asks for general knowledge: "how do I …", "explain …"

`about`: the query is about this project, and the memory is the nearest that there is. It counts half: such a memory may help, but need not
answer. Its first part has the same value for all memories of a query.

    known      the weight of the query's words that some memory has
    project    how much more often the memories have them than ordinary text
    us         it speaks of us ("we", "our"), or asks for memory
    refers     it refers to something known ("the", "this")
    general    as above
    nearness   the score of the memory relative to the best one; what was written down counts twice, questions and short turns nothing

The weight of a term is its surprise in the store, mixed with how common it is in ordinary text (`common_share`): in a store of sixty memories
`time` and `page` are as rare as `idempotency`. Words that frame a question weigh little. Topic and tags count half. A term that no memory has
matches a word of the memory that differs by one typing error.

The coefficients are fitted by `benchmarks/relevance_fit.py` on its development stores; docs/adr/0025-recall.md.
"""

from __future__ import annotations

from math import exp, log, sqrt

from smp_memory.model.candidates import ASKS, ROLE, STATED_SHIFT, WORDS_SHIFT
from smp_memory.model.types import KINDS
from smp_memory.text.memory_text import text_of
from smp_memory.text.names import MORE_THAN_ONE, common_share, distance, is_correctable
from smp_memory.text.prompt_cues import cues_in, is_frame
from smp_memory.text.tokenizer import terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.model.candidates import Candidate
    from smp_memory.model.record import Record

ANSWERS = {
    "bias": -5.3,
    "words": 0.57,
    "meaning": 7.1,
    "lasting": 2.7,  # by hand; the fit gives 3.3, and then facts that nobody wrote down are hardly told
    "short": -5.6,
    "asked": 1.9,
    "general": -6.0,
}
ABOUT = {"bias": -3.3, "known": 0.17, "project": 0.22, "us": 2.25, "refers": 0.65, "general": -2.3}
ABOUT_SHARE = 0.5  # what `about` counts
_LASTING_FACTOR = 2.0  # of the score of what was written down, for `nearness`
_SHARE_OF_BEST, _LEAST_RELEVANCE = 0.3, 0.05
_SAME_WORDS, _FEWEST_SAME = 0.9, 3
_MEANING_OF_SHARE = 0.5  # all words of a query in a memory are as good as this similarity
_SHORT_WORDS = 6  # a turn of fewer words is short
_MOST_KNOWN, _MOST_PROJECT = 25.0, 8.0
_MOST_UNKNOWN = 8  # unknown words that are compared with those of a memory
_PASSAGE_TERMS = 40
_FEW_MEMORIES, _FEW_WORDS = 64, 12  # chance is the same in smaller stores, and for shorter queries
_MOST_EXPONENT = 700.0
_BACKGROUND = 1000  # ordinary passages that the store's memories are mixed with
_PRIOR = 30  # memories by which a word's share in the store is smoothed
_RAREST_SHARE = 0.0006  # of a word that ordinary text does not have
_LEAST_WEIGHT = 0.05
_FRAME_FACTOR, _LABEL_FACTOR, _TYPO_FACTOR = 0.3, 0.5, 0.7
_LONGEST = 50_000  # characters of a memory that are compared
_NOT_BODY = frozenset(["author", "status", "severity", "topic", "tags", "valid_from", "valid_until"])


class RelevanceModel:
    """The relevance of memories to one query."""

    def __init__(self, text: str, frequencies: Mapping[str, int], documents: int, has_meanings: bool = True) -> None:
        """`frequencies`: in how many of the `documents` each word of the query is; `has_meanings`: candidates have similarities."""
        self._has_meanings = has_meanings
        documents = 1 << documents.bit_length()  # rounded, so that one hidden memory makes no difference
        self._weights = {word: term_weight(word, count, documents) for word, count in frequencies.items()}
        self._chance = log(max(documents, _FEW_MEMORIES) + 1) + log(max(len(frequencies) / _FEW_WORDS, 1.0))
        unknown = [word for word, count in frequencies.items() if not count and is_correctable(word)]
        self._unknown = unknown[:_MOST_UNKNOWN]
        self._cues = cues_in(text)
        self.about_features = self._about(frequencies, documents)
        self.about = _logistic(ABOUT, self.about_features)

    def _about(self, frequencies: Mapping[str, int], documents: int) -> dict[str, float]:
        cues = self._cues
        content = {word: count for word, count in frequencies.items() if not is_frame(word)}
        known = sum(term_weight(word, 0, 0) for word, count in content.items() if count)
        project = sum(max(_belonging(word, count, documents), 0.0) for word, count in content.items())
        return {
            "known": min(known, _MOST_KNOWN),
            "project": min(project, _MOST_PROJECT),
            "us": float(cues.speaks_of_us or cues.asks_for_memory),
            "refers": float(cues.refers),
            "general": float(cues.is_general),
        }

    def of(self, record: Record, candidate: Candidate, nearness: float) -> float:
        """The relevance of a memory; `nearness`: its `near_score` relative to the best one, 0 to 1."""
        if only_asks(candidate) or self._says_nothing_new(record):
            return 0.0
        return max(_logistic(ANSWERS, self.answer_features(record, candidate)), self._about_share(nearness))

    def _says_nothing_new(self, record: Record) -> bool:
        """Whether a turn consists of the query's own words: somebody asked the same before."""
        if not KINDS[record.type].is_said:
            return False
        said = {term for term in terms(record.text[:_LONGEST]) if not is_frame(term)}
        return len(said) >= _FEWEST_SAME and len(said & self._weights.keys()) > _SAME_WORDS * len(said)

    def _about_share(self, nearness: float) -> float:
        return ABOUT_SHARE * self.about * sqrt(nearness)

    def features(self, record: Record, candidate: Candidate, nearness: float) -> dict[str, float]:
        """The features of both estimates, and the estimates."""
        answers, about = self.answer_features(record, candidate), self.about_features
        is_empty = only_asks(candidate) or self._says_nothing_new(record)
        share = 0.0 if is_empty else _logistic(ANSWERS, answers)
        shares = {"answers": share, "about": self._about_share(nearness)}
        return {**shares, **answers, **about, "nearness": nearness}

    def answer_features(self, record: Record, candidate: Candidate) -> dict[str, float]:
        matched = sum(self._best_passage(record).values())
        share = matched / (sum(self._weights.values()) or 1.0)
        return {
            "words": matched - self._chance,
            "meaning": candidate.meaning if self._has_meanings else _MEANING_OF_SHARE * share,
            "lasting": float(KINDS[record.type].is_written_down),
            "short": float(_is_short(candidate)),
            "asked": float(self._cues.asks_for_memory),
            "general": float(self._cues.is_general),
        }

    def _best_passage(self, record: Record) -> dict[str, float]:
        """The terms of the query in the passage that has most of their weight, and in the labels, with what each counts."""
        best: dict[str, float] = {}
        found = self._occurrences(terms(_body(record)[:_LONGEST]))
        start = self._start_of_best(found)
        for position, word, factor in found:
            if position >= start + _PASSAGE_TERMS:
                break
            if position >= start and (counted := self._weights[word] * factor) > best.get(word, 0.0):
                best[word] = counted
        for word in self._weights.keys() & set(terms(_labels(record))) - best.keys():
            best[word] = self._weights[word] * _LABEL_FACTOR
        return best

    def _start_of_best(self, found: list[tuple[int, str, float]]) -> int:
        """The first position of the best passage.

        A passage is better than those before it only if the term at its end is not in them. So few passages are summed up.
        """
        start, best_total = 0, 0.0
        last: dict[str, int] = {}  # the position of each term
        counted: dict[str, float] = {}
        for position, word, factor in found:
            if position - last.get(word, -_PASSAGE_TERMS) >= _PASSAGE_TERMS:
                counted[word] = self._weights[word] * factor
                first = position - _PASSAGE_TERMS + 1
                total = counted[word] + sum([counted[each] for each, at in last.items() if at >= first])
                if total > best_total:
                    start, best_total = first, total
            last[word] = position
        return next((position for position, _, _ in found if position >= start), 0)

    def _occurrences(self, found: list[str]) -> list[tuple[int, str, float]]:
        """Position, term of the query, and factor of each match."""
        known = [(place, term, 1.0) for place, term in enumerate(found) if term in self._weights]
        for word in self._unknown:
            known += [(place, word, _TYPO_FACTOR) for place, term in enumerate(found) if _is_typo(word, term)]
        return sorted(known) if self._unknown else known


def floor_beside(best: float, floor: float) -> float:
    """The floor for an answer that somebody asks for: lower than the setting where even the best match is weak."""
    return min(floor, max(best * _SHARE_OF_BEST, _LEAST_RELEVANCE))


def near_score(score: float, candidate: Candidate) -> float:
    """The score of a candidate as `nearness` compares it: what lasts counts more; questions and short turns do not help."""
    if KINDS[candidate.type].is_written_down:
        return score * _LASTING_FACTOR
    return 0.0 if only_asks(candidate) or _is_short(candidate) else score


def term_weight(term: str, frequency: int, documents: int) -> float:
    """How much a term says: its surprise in the store, mixed with `_BACKGROUND` ordinary passages."""
    expected = frequency + _BACKGROUND * common_share(term) + 0.5
    weight = max(_LEAST_WEIGHT, log((documents + _BACKGROUND) / expected))
    return weight * _FRAME_FACTOR if is_frame(term) else weight


def _belonging(term: str, frequency: int, documents: int) -> float:
    """How much more often memories have a term than ordinary text, as a logarithm."""
    ordinary = max(common_share(term), _RAREST_SHARE)
    return log((frequency + _PRIOR * ordinary) / (documents + _PRIOR) / ordinary)


def _logistic(coefficients: Mapping[str, float], features: Mapping[str, float]) -> float:
    total = coefficients["bias"] + sum(coefficients[name] * value for name, value in features.items())
    return 1 / (1 + exp(min(-total, _MOST_EXPONENT)))


def _is_typo(word: str, known: str) -> bool:
    return word[0] == known[0] and 0 < distance(word, known) < MORE_THAN_ONE


def only_asks(candidate: Candidate) -> bool:
    """Whether it is a turn that ends with a question and states almost nothing besides."""
    return bool(candidate.traits & ASKS) and candidate.traits >> STATED_SHIFT & 255 < _SHORT_WORDS


def _is_short(candidate: Candidate) -> bool:
    """Whether it is a turn of a few words: "OK, done." """
    return bool(candidate.traits & ROLE) and candidate.traits >> WORDS_SHIFT & 255 < _SHORT_WORDS


def _body(record: Record) -> str:
    """The text of a memory without its labels, author and status."""
    return text_of({name: value for name, value in record.given.items() if name not in _NOT_BODY})


def _labels(record: Record) -> str:
    """Topic and tags of a memory; of a turn its speaker, too."""
    given: Mapping[str, Any] = record.given
    tags = given.get("tags")
    labels = [given.get("topic"), *(tags if isinstance(tags, list) else [tags])]
    if KINDS[record.type].is_said:
        labels.append(given.get("author"))
    return " ".join(each for each in labels if isinstance(each, str))
