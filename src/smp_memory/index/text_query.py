"""What is searched for in the text index, and what is found? Plain values."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from math import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import NamedTuple

EXPANSIONS = 60  # of a pattern: so many of its most frequent words count for the score; all others match, too


class TextQuery:
    """What to search for: terms that may occur, and labels that must or must not."""

    __slots__ = (
        "characters",
        "excluded",
        "excluded_patterns",
        "labels",
        "patterns",
        "phrases",
        "rarity",
        "since",
        "terms",
        "until",
        "without",
    )

    def __init__(
        self,
        terms: Sequence[str] = (),
        phrases: Sequence[Sequence[str]] = (),
        patterns: Sequence[str] = (),
        excluded: Sequence[Sequence[str]] = (),
        excluded_patterns: Sequence[str] = (),
        labels: Sequence[Sequence[str]] = (),
        without: Sequence[str] = (),
        since: int | None = None,
        until: int | None = None,
        rarity: float = 0.0,
        characters: Sequence[str] = (),
    ) -> None:
        self.terms = terms  # any of them
        self.characters = characters  # or any of these: `库*`
        self.phrases = phrases  # all words of all of them; that they follow each other is not seen here
        self.patterns = patterns  # all of them: `auth*`
        self.excluded = excluded  # none of these words; phrases are not seen here
        self.excluded_patterns = excluded_patterns
        self.labels = labels  # of each group at least one
        self.without = without  # none of these labels
        self.since = since  # microseconds, included
        self.until = until  # not included
        self.rarity = rarity  # above 0: rare words count for more than BM25 says


class Weights:
    """What a search needs to know of the words: how much each weighs, and which ones a pattern means."""

    __slots__ = ("excluded", "of_term", "patterns", "uncounted")

    def __init__(
        self, of_term: dict[str, float], patterns: list[list[str]], excluded: list[str], uncounted: Sequence[str] = ()
    ) -> None:
        self.of_term = of_term
        self.patterns = patterns  # for each pattern its terms, the most frequent first
        self.excluded = excluded  # the terms of all excluded patterns
        self.uncounted = uncounted  # terms that match as words do, but are too many to count for the score


if TYPE_CHECKING:

    class TextMatch(NamedTuple):
        """One candidate: what is known of a memory before its row or its file is read."""

        doc: int
        match: float  # BM25; 0 for a neighbour that has none of the words
        created: int  # microseconds
        facts: int  # see `smp_memory.index.documents.facts_number`

else:  # `typing` takes a new process 5 ms to load
    TextMatch = namedtuple("TextMatch", "doc match created facts")


def candidates(known: Iterable[tuple[int, float, int, int]]) -> list[TextMatch]:
    """They are many, so they are made without a call of Python for each."""
    return list(map(partial(tuple.__new__, TextMatch), known))


def inverse_frequency(documents: int, having: int) -> float:
    """BM25's weight of a word that so many of the documents have."""
    return log(1 + (max(documents - having, 0) + 0.5) / (having + 0.5))
