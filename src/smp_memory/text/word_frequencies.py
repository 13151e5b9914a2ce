"""How common words are in ordinary text: for each term, the share of passages of 40 words that have it.

The terms are in `word_frequencies.txt`. English terms were counted in a list of word counts of the web (symspellpy, MIT) and in the documentation of a Debian
system, the larger share taken; function words of German, French, Spanish, Portuguese, Italian, Dutch and Russian were added by hand, and what is no word of
ordinary text was taken out. docs/adr/0025-relevance-of-recall.md.
"""

from __future__ import annotations

import os
from functools import cache

_FILE = os.path.join(os.path.dirname(__file__), "word_frequencies.txt")
_RARE = 0.0  # a term that is not listed


@cache
def _shares() -> dict[str, float]:
    """Shares by term; a paragraph of the file begins with the share of its terms."""
    with open(_FILE, "rb", buffering=0) as file:
        _, *paragraphs = file.read().decode().split("\n\n")  # the first is a comment
    blocks = [paragraph.split("\n", 1) for paragraph in paragraphs]
    return {term: value for share, terms in blocks for value in (float(share),) for term in terms.split()}


def common_share(term: str) -> float:
    """The share of ordinary passages that have this term; 0 if it is rare."""
    return _shares().get(term, _RARE)
