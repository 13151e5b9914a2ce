"""What do many texts say in few sentences? An extractive summary: their own sentences, those that most others resemble.

It is LexRank (Erkan and Radev 2004): sentences are nodes, resemblance of words is an edge, and a walk that follows the
edges rests longest at the central ones. From these the summary takes the best that do not repeat what it has, and
puts them in the order in which they were said.

Guarantees: nothing is made up: each sentence stands in a text (at most shortened, and on one line); the same texts give
the same summary; every script works; any input gives a text, if need be an empty one. The work is bounded: of more than
`LOOKED_AT` sentences an even sample is weighed, of these the `WALKED` heaviest are walked.
Non-guarantees: it does not understand what it quotes; a text of its own can be had from a callable (`compaction.plan`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain, filterfalse
from math import log, sqrt
from operator import mul, sub
from typing import TYPE_CHECKING, Any, NamedTuple

from smp.index.words import STOP_WORDS, terms
from smp.lifecycle.sentences import sentences, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    Vector = dict[str, float]

LOOKED_AT = 4_000  # sentences
WALKED = 120
ENOUGH_WORDS = (
    12  # a sentence with so many words that are not in every other one says something; "Sounds great!" does not
)
RESEMBLES = 0.1  # cosine from which on there is an edge; LexRank's own figure
REPEATS = 0.55  # cosine from which on a sentence says the same
DAMPING = 0.85
STEPS = 15  # at most
SETTLED = 1e-3  # of the mean rank: the walk ends when no rank moves by more
MOST_TERMS = 60  # of one sentence; more make it a list, not a sentence
_SENTENCE_CHARACTERS = 80  # about
_SPARE = 2  # so many times as many sentences as are looked at: some are no sentences, or come twice
_FEWEST_TEXTS = 40
MAX_SENTENCES = 8
MAX_CHARACTERS = 1_500


class Quote(NamedTuple):
    """A sentence of the summary."""

    text: str
    source: int  # which of the texts it stands in
    weight: float  # 1 for the most central one


def summarise(
    texts: Sequence[str],
    max_sentences: int = MAX_SENTENCES,
    max_characters: int = MAX_CHARACTERS,
    looked_at: int = LOOKED_AT,
    walked: int = WALKED,
) -> str:
    """The texts in few sentences, in the order in which they were said."""
    return " ".join(quote.text for quote in quotes(texts, max_sentences, max_characters, looked_at, walked))


def quotes(
    texts: Sequence[str],
    max_sentences: int = MAX_SENTENCES,
    max_characters: int = MAX_CHARACTERS,
    looked_at: int = LOOKED_AT,
    walked: int = WALKED,
) -> list[Quote]:
    """The sentences of a summary, in their order; at least one if any text has one and there is room for a word."""
    found = _distinct(texts, looked_at)
    if max_sentences < 1 or max_characters < 1 or not found:
        return []
    found = _sample(found, looked_at)
    vectors, worths = _vectors([line for line, _ in found])
    heavy = _heaviest(vectors, worths, walked)
    ranks = [rank * worths[place] for rank, place in zip(_walk([vectors[at] for at in heavy]), heavy, strict=True)]
    order = sorted(range(len(heavy)), key=lambda at: (-ranks[at], heavy[at]))
    chosen = _choose(order, heavy, found, vectors, max_sentences, max_characters)
    top = ranks[order[0]]
    return [
        Quote(shortened(found[heavy[at]][0], max_characters), found[heavy[at]][1], round(ranks[at] / top, 4))
        for at in sorted(chosen, key=lambda at: heavy[at])
    ]


# -- candidates


def _distinct(texts: Sequence[str], looked_at: int) -> list[tuple[str, int]]:
    """Every sentence once, with the text that said it first; of texts with far more than are looked at, some texts."""
    about = sum(map(_length, texts)) // _SENTENCE_CHARACTERS + 1
    enough = min(looked_at, max(_FEWEST_TEXTS, len(texts) * _SPARE * looked_at // about))
    sample = _sample(list(enumerate(texts)), enough)
    first: dict[str, int] = {}
    for source, text in sample:
        for line in sentences(text):
            first.setdefault(line, source)
    return list(first.items())


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else 0


def _sample(items: list[Any], most: int) -> list[Any]:
    """At most so many, evenly spread, always with the first."""
    if len(items) <= most:
        return items
    return [items[at * len(items) // most] for at in range(most)]


def _vectors(lines: list[str]) -> tuple[list[Vector], list[float]]:
    """Each sentence as the weights of its words, of length 1; rare words weigh more. And how much it says, up to 1."""
    bags = [Counter(filterfalse(STOP_WORDS.__contains__, terms(line)[:MOST_TERMS])) for line in lines]
    spread = Counter(chain.from_iterable(bags))
    rarity = {term: log(1 + len(lines) / count) for term, count in spread.items()}
    enough = ENOUGH_WORDS * (sum(map(log, [1 + len(lines), 2])) / 2)  # words half as rare as can be
    worths = [min(1.0, (1 + sum(map(rarity.__getitem__, bag))) / enough) ** 2 for bag in bags]
    return [_of_length_one({term: count * rarity[term] for term, count in bag.items()}) for bag in bags], worths


def _of_length_one(vector: Vector) -> Vector:
    weights = vector.values()
    length = sqrt(sum(map(mul, weights, weights)))
    return {term: weight / length for term, weight in vector.items()} if length else vector


def _heaviest(vectors: list[Vector], worths: list[float], walked: int) -> list[int]:
    """The places of the sentences that say most and are nearest to the middle of all, in order; of equals the earlier."""
    if len(vectors) <= walked:
        return list(range(len(vectors)))
    middle: defaultdict[str, float] = defaultdict(float)
    for vector in vectors:
        for term, weight in vector.items():
            middle[term] += weight
    near = [
        worth * sum(map(mul, vector.values(), map(middle.__getitem__, vector)))
        for vector, worth in zip(vectors, worths, strict=True)
    ]
    return sorted(sorted(range(len(vectors)), key=lambda at: (-near[at], at))[:walked])


# -- the walk


def _walk(vectors: list[Vector]) -> list[float]:
    """How long the walk rests at each sentence."""
    likeness = _likeness(vectors)
    count = len(vectors)
    degrees = [sum(row) or 1.0 for row in likeness]
    ranks = [1.0 / count] * count
    for _ in range(STEPS):
        flow = [rank / degree for rank, degree in zip(ranks, degrees, strict=True)]
        before, ranks = ranks, [(1 - DAMPING) / count + DAMPING * sum(map(mul, flow, row)) for row in likeness]
        if max(map(abs, map(sub, ranks, before))) < SETTLED / count:
            break
    return [round(rank, 12) for rank in ranks]  # equal but for rounding is equal


def _likeness(vectors: list[Vector]) -> list[list[float]]:
    """How much each sentence resembles each other one, 0 if hardly; found through the words they share."""
    postings: dict[str, list[tuple[int, float]]] = {}
    rows = [[0.0] * len(vectors) for _ in vectors]
    for place, vector in enumerate(vectors):
        row = rows[place]
        for term, weight in vector.items():
            held = postings.setdefault(term, [])
            for other, other_weight in held:
                row[other] += weight * other_weight
            held.append((place, weight))
        for other in range(place):
            if row[other] >= RESEMBLES:
                rows[other][place] = row[other]
            else:
                row[other] = 0.0
    return rows


# -- the choice


def _choose(
    order: list[int],
    heavy: list[int],
    found: list[tuple[str, int]],
    vectors: list[Vector],
    max_sentences: int,
    max_characters: int,
) -> list[int]:
    chosen: list[int] = []
    room = max_characters
    for at in order:
        length = len(found[heavy[at]][0]) + bool(chosen)
        if len(chosen) == max_sentences:
            break
        fits = length <= room or not chosen
        if fits and all(_cosine(vectors[heavy[at]], vectors[heavy[other]]) < REPEATS for other in chosen):
            chosen.append(at)
            room -= length
    return chosen


def _cosine(one: Vector, other: Vector) -> float:
    if len(other) < len(one):
        one, other = other, one
    return sum(weight * other.get(term, 0.0) for term, weight in one.items())
