"""Relevance: the probability that a memory answers a query. Pure.

The score of a hit orders the candidates of one query; it says little across queries and stores. The relevance does: of memories with
a relevance from 0.5 to 0.6, 61 % answered in the projects of `benchmarks/recall_projects.py`. It is a logistic model over a few features:

    surplus    the summed weight of the query's terms in the memory's best passage, less the logarithm of the number of memories:
               among many memories, some share terms with any query by chance
    missing    the weight of the heaviest term that the passage lacks
    named      the passage has a name of the query
    name       the weight of the names in the query that it lacks
    rivals     how many other candidates match almost as well
    in_time    the query names the time when the memory was written
    only_asks  the memory is a turn that only asks
    request    the query is no question; a preference or a standing instruction is worth more then

The weight of a term is its surprise in the store, mixed with how common it is in ordinary text (`word_frequencies`): in a store
of sixty memories `time` and `page` are as rare as `idempotency`. Words that frame a question (`how many`, `wrong`, `thanks`) weigh
little, and so do numbers of one or two digits. Topic and tags count half. A term that no memory has matches a word of the memory that differs by one typing error.

The coefficients are fitted by `benchmarks/relevance_fit.py` on its development projects; docs/adr/0025-relevance-of-recall.md.
"""

from __future__ import annotations

from math import exp, log, log1p

from smp_memory.model.standing_instructions import instructions_in
from smp_memory.model.types import KINDS
from smp_memory.text.memory_text import text_of
from smp_memory.text.names import names_in
from smp_memory.text.spelling import MORE_THAN_ONE, distance, is_correctable
from smp_memory.text.tokenizer import terms
from smp_memory.text.word_frequencies import common_share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from smp_memory.model.record import Record

BIAS = 0.628
COEFFICIENTS = {
    "surplus": 0.437,
    "missing": -0.330,
    "named": 0.941,
    "name": -0.202,
    "rivals": -1.425,
    "in_time": 2.737,
    "only_asks": -8.0,  # these two by hand: in the labels a turn that asks the same, and a wish that does not apply,
    "request": 0.077,
    "wish": 2.5,  # are neither right nor wrong, so the fit gives -3.2 and 3.9
}
RIVAL_SHARE = 0.85  # a candidate whose text score is at least this share of another's is its rival
_MOST_UNKNOWN = 8  # unknown words that are compared with those of a memory
_MOST_RIVALS = 10  # more make no difference
_PASSAGE_TERMS = 40
_MOST_EXPONENT = 700.0  # hundreds of missing names go beyond what a float can hold
_BACKGROUND = 1000  # ordinary passages that the store's memories are mixed with
_LEAST_WEIGHT = 0.05
_FRAME_FACTOR, _LABEL_FACTOR, _TYPO_FACTOR = 0.3, 0.5, 0.7
_MANY, _FEW = 500, 2  # memories
_SHORT_NUMBER = 2  # digits
_LONGEST = 50_000  # characters of a memory that are compared
_NOT_BODY = frozenset(["author", "status", "severity", "topic", "tags", "valid_from", "valid_until"])
_FRAME = frozenset(  # as terms
    """mani much often long kind type sort wrong odd happen mean differ way reason may must might should would use take rememb
    exact actual current alreadi usual general today now someon somebodi anyon anybodi everyth anyth noth problem known know question answer
    recent ani thank hello hi hey good morn afternoon even night bye lot great nice cool welcom sorri glad hope sure ok okay yes
    help work look find tri undo continu next step""".split()  # noqa: SIM905
)
_TIME_WORDS = frozenset(
    """januari februari march april may june juli august septemb octob novemb decemb monday tuesday wednesday thursday friday
    saturday sunday yesterday week month year ago last day""".split()  # noqa: SIM905
)


class RelevanceModel:
    """The relevance of memories to one query."""

    def __init__(
        self,
        text: str,
        frequencies: Mapping[str, int],
        documents: int,
        ranges: Iterable[tuple[int | None, int | None]] = (),
    ) -> None:
        """`frequencies`: in how many of the `documents` each word of the query is; `ranges`: the times that it names."""
        self._ranges = list(ranges)
        documents = 1 << documents.bit_length()  # rounded, so that one hidden memory makes no difference
        words = [word for word in frequencies if not (self._ranges and _is_time(word))] or list(frequencies)
        self._weights = {word: term_weight(word, frequencies[word], documents) for word in words}
        self._chance = log(documents + 1)
        self._names = set(names_in(text) & self._weights.keys())
        if documents > _MANY:
            self._names |= {word for word in words if _is_as_good_as_a_name(word, frequencies[word])}
        unknown = [word for word in words if not frequencies[word] and is_correctable(word)]
        self._unknown = unknown[:_MOST_UNKNOWN]
        self._is_request = not text.rstrip().endswith(("?", "？", "؟", "か。"))

    def of(self, record: Record, created: int, rivals: int) -> float:
        """The relevance of a memory, given its time in microseconds and the number of its rivals."""
        features = self.features(record, created, rivals)
        total = BIAS + sum(COEFFICIENTS[name] * value for name, value in features.items())
        return 1 / (1 + exp(min(-total, _MOST_EXPONENT)))

    def features(self, record: Record, created: int, rivals: int) -> dict[str, float]:
        weights = self._weights
        matched = self._best_passage(record)
        total = sum(matched.values())
        return {
            "surplus": total - self._chance,
            "missing": max((weight for word, weight in weights.items() if word not in matched), default=0.0),
            "named": float(any(name in matched for name in self._names)),
            "name": sum(weights[name] for name in self._names if name not in matched),
            "rivals": log1p(min(rivals, _MOST_RIVALS)),
            "in_time": float(any((start or 0) <= created < (end or 1 << 63) for start, end in self._ranges)),
            "only_asks": float(_only_asks(record)),
            "request": float(self._is_request),
            "wish": float(self._is_request and _is_wish(record)),
        }

    def _best_passage(self, record: Record) -> dict[str, float]:
        """The terms of the query in the passage that has most of their weight, and in the labels, with what each counts."""
        best: dict[str, float] = {}
        best_total = 0.0
        found = self._occurrences(terms(_body(record)[:_LONGEST]))
        for place, (start, _, _) in enumerate(found):
            passage: dict[str, float] = {}
            for position, word, factor in found[place:]:
                if position - start >= _PASSAGE_TERMS:
                    break
                passage[word] = max(passage.get(word, 0.0), self._weights[word] * factor)
            total = sum(passage.values())
            if total > best_total:
                best, best_total = passage, total
            if len(passage) == len(self._weights):
                break
        for word in self._weights.keys() & set(terms(_labels(record))) - best.keys():
            best[word] = self._weights[word] * _LABEL_FACTOR
        return best

    def _occurrences(self, found: list[str]) -> list[tuple[int, str, float]]:
        """Position, term of the query, and factor of each match."""
        known = [(place, term, 1.0) for place, term in enumerate(found) if term in self._weights]
        for word in self._unknown:
            known += [(place, word, _TYPO_FACTOR) for place, term in enumerate(found) if _is_typo(word, term)]
        return sorted(known) if self._unknown else known


def term_weight(term: str, frequency: int, documents: int) -> float:
    """How much a term says: its surprise in the store, mixed with `_BACKGROUND` ordinary passages."""
    expected = frequency + _BACKGROUND * common_share(term) + 0.5
    weight = max(_LEAST_WEIGHT, log((documents + _BACKGROUND) / expected))
    return weight * _FRAME_FACTOR if term in _FRAME or (term.isdigit() and len(term) <= _SHORT_NUMBER) else weight


def _is_as_good_as_a_name(word: str, frequency: int) -> bool:
    """Whether a word of a large store is in one or two of its memories, and not in ordinary text."""
    return 0 < frequency <= _FEW and not common_share(word)


def _is_typo(word: str, known: str) -> bool:
    return word[0] == known[0] and 0 < distance(word, known) < MORE_THAN_ONE


def _is_time(word: str) -> bool:
    return word in _TIME_WORDS or (word.isdigit() and len(word) in (1, 2, 4))


def _only_asks(record: Record) -> bool:
    return KINDS[record.type].is_said and record.text.rstrip().endswith(("?", "？"))


def _is_wish(record: Record) -> bool:
    """Whether it is a preference, or a turn of a user that tells one."""
    kind = KINDS[record.type]
    return kind.is_named_by_key or (
        kind.is_turn and record.given.get("role") == "user" and instructions_in(record.text) != ""
    )


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
