"""Texts and questions of the comparison, the same for every peer and process.

English sentences of the standard library's documentation are put together by the number of the text, so that every process can
make every text. The sentences come from a file, because peers run on several versions of Python. Each text ends with its key.
"""

from __future__ import annotations

import json
import random
import re

COUNTS = (1, 3, 4, 4, 5, 6, 8, 11)  # sentences of a text
_LONGEST = 220  # characters of a sentence
_KEY = re.compile(r"\bn\d{8}\b")


def key(number: int) -> str:
    return f"n{number:08d}"


def key_of(text: str) -> str:
    """The key at the end of a text, for peers that have no field for it."""
    found = _KEY.findall(text)
    return found[-1] if found else ""


class Texts:
    """The texts by number, and the questions about the first thousand of them."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            self._sentences, self.questions = json.load(file)

    def text(self, number: int) -> str:
        return made(self._sentences, number)

    def pairs(self, first: int, count: int) -> list[tuple[str, str]]:
        return [(key(number), self.text(number)) for number in range(first, first + count)]


def made(sentences: list[str], number: int) -> str:
    rng = random.Random(number)
    count = COUNTS[int(rng.random() * len(COUNTS))]
    chosen = (sentences[int(rng.random() * len(sentences))] for _ in range(count))
    return f"{' '.join(chosen)} {key(number)}"


def write(path: str, sentences: list[str], count: int, known: int = 1000) -> None:
    """Write the sentences and `count` questions of each kind about the first texts."""
    usable = [each for each in sentences if len(each) <= _LONGEST]
    with open(path, "w", encoding="utf-8") as file:
        json.dump([usable, _questions(usable, count, known)], file)


def _questions(sentences: list[str], count: int, known: int) -> dict[str, list[str]]:
    """Rare: a word of one text; medium: a word of one to ten per cent of the texts; five words of one text."""
    rng = random.Random(13)
    words = [re.findall(r"[a-z]{4,}", made(sentences, number).lower()) for number in range(known)]
    found: dict[str, int] = {}
    for each in words:
        for word in dict.fromkeys(each):
            found[word] = found.get(word, 0) + 1
    medium = sorted(word for word, texts in found.items() if known / 100 <= texts <= known / 10)
    long_enough = [sorted(set(each)) for each in words if len(set(each)) >= 5]
    return {
        "rare": [key(rng.randrange(known)) for _ in range(count)],
        "medium": rng.sample(medium, min(count, len(medium))),
        "five words": [" ".join(rng.sample(each, 5)) for each in rng.sample(long_enough, count)],
    }
