"""How alike are two short texts, and which of many are alike? Shingles and Jaccard, found through shared rare shingles.

A text becomes the set of its words and of its pairs of neighbouring words, without stop words and endings; likeness is
the shared part of both sets. Texts that differ in a number, a version, a path, a name in code or a negation are never
alike, nor are those that say opposite words (`enable`, `disable`): findings of one template about different files are
different findings. Where each has a word that the other lacks, one thing may stand for another (Alice for Bob), and
likeness counts less than where one only says more.

Guarantees: pure; any script; equal texts have likeness 1; a text without words is like nothing, not even another one.
Near-linear: a text is compared with at most `MOST_COMPARED` others, those that share most of its rarest shingles, and
equal texts are brought together without being compared. So among thousands of texts of a few dozen words in all, one
that is alike may be missed.
Non-guarantees: it knows words, not meanings. `MFA is missing` and `no second factor` are not alike for it.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.index.tokens import STOP_WORDS, terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    Rare = tuple[frozenset[str], str]

THRESHOLD = 0.6  # chosen on the examples in tests/unit/lifecycle/test_consolidation.py
REPLACED = 0.75  # the factor where words of one stand for words of the other
MOST_COMPARED = 40
MOST_TERMS = 400  # of one text that are compared; of a longer one the rest must be equal
_NEGATIONS = frozenset(
    """no not never without don doesn didn isn aren wasn weren won can't cannot couldn shouldn wouldn nor none nothing
    nicht kein keine nie ohne ne pas sans jamais sin nunca non nao nie bez не без нет ない 不 没""".split()  # noqa: SIM905
)
_COUNTED = frozenset(
    """two three four five six seven eight nine ten eleven twelv monday tuesday wednesday thursday friday saturday sunday
    januari februari march april june juli august septemb octob novemb decemb""".split()  # noqa: SIM905
)
_PAIRS = """enabl/disabl allow/deni allow/forbid alway/never increas/decreas before/after dark/light tab/space sync/async
    synchron/asynchron true/fals on/off add/remov min/max minimum/maximum high/low upper/lower more/less first/last
    with/without up/down slow/fast open/close read/write encod/decod encrypt/decrypt start/stop public/privat
    optional/requir optional/mandatori success/fail pass/fail prefer/avoid like/dislik"""
_OPPOSITES = tuple(frozenset(pair.split("/")) for pair in _PAIRS.split())
_OPPOSED = frozenset().union(*_OPPOSITES)


class Shingles(NamedTuple):
    words: frozenset[str]  # also the stop words
    shingles: frozenset[str]
    marks: frozenset[str]  # what must be equal: numbers, names in code, negations


def shingles_of(text: str) -> Shingles:
    every = terms(text)
    found, rest = every[:MOST_TERMS], every[MOST_TERMS:]
    said = [term for term in found if term not in STOP_WORDS]
    return Shingles(
        frozenset(found),
        frozenset(said) | {f"{one} {other}" for one, other in pairwise(said)},
        frozenset([mark for term in found if (mark := _mark(term))] + [" ".join(rest)] * bool(rest)),
    )


def _mark(term: str) -> str:
    """A number or a name in code as it is, every negation as the same; empty for all other words."""
    if term in _NEGATIONS:
        return "not"
    plain = term.isalpha() or not any(map(str.isalnum, term))
    return "" if plain and term not in _COUNTED else term


def likeness(one: Shingles, other: Shingles) -> float:
    """0 to 1; 0 as well where texts must not be taken for the same."""
    shared = len(one.shingles & other.shingles)
    if one.marks != other.marks or not shared:
        return 0.0
    here, there = one.words - other.words, other.words - one.words
    if _opposed(here, there):
        return 0.0
    replaced = here - STOP_WORDS and there - STOP_WORDS
    return shared / (len(one.shingles) + len(other.shingles) - shared) * (REPLACED if replaced else 1.0)


def _opposed(here: frozenset[str], there: frozenset[str]) -> bool:
    if _OPPOSED.isdisjoint(here) or _OPPOSED.isdisjoint(there):
        return False
    return any(here & pair and there & pair for pair in _OPPOSITES)


def alike(texts: Sequence[Shingles], threshold: float = THRESHOLD) -> list[list[tuple[int, float]]]:
    """Groups of two or more texts, each with its likeness to the first of its group; the first ones stand in order."""
    spread = Counter(shingle for text in texts for shingle in text.shingles)
    equal: dict[Shingles, int] = {}  # a text that a group has, and the group's first
    holders: dict[Rare, list[int]] = {}  # a rare shingle, and the first texts of groups that have it
    groups: dict[int, list[tuple[int, float]]] = {}
    for place, text in enumerate(texts):
        if not text.shingles:
            continue
        first = equal.get(text)
        if first is None:
            first = _nearest(texts, place, _rarest(text, spread, threshold), holders, threshold)
            equal[text] = first
        groups.setdefault(first, []).append((place, likeness(texts[first], text)))
        if first == place:
            for shingle in _rarest(text, spread, threshold):
                holders.setdefault(shingle, []).append(place)
    return [group for group in groups.values() if len(group) > 1]


def _rarest(text: Shingles, spread: Counter[str], threshold: float) -> list[Rare]:
    """The rarest shingles, with the marks: two texts above the threshold share at least one of theirs (prefix filtering)."""
    ordered = sorted(text.shingles, key=lambda shingle: (spread[shingle], shingle))
    return [(text.marks, shingle) for shingle in ordered[: len(ordered) - ceil(threshold * len(ordered)) + 1]]


def _nearest(
    texts: Sequence[Shingles], place: int, rare: list[Rare], holders: dict[Rare, list[int]], threshold: float
) -> int:
    """The first text of the group that this one belongs to: itself if there is none."""
    shared = Counter(other for shingle in rare for other in holders.get(shingle, ())[-MOST_COMPARED:])
    candidates = sorted(shared, key=lambda other: (-shared[other], other))[:MOST_COMPARED]
    best = max(((likeness(texts[other], texts[place]), -other) for other in candidates), default=(0.0, 0))
    return -best[1] if best[0] >= threshold else place
