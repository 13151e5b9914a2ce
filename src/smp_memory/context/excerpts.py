"""Cut a text to one passage: the one that answers a question, by its words, or the beginning. Pure.

Guarantees: the passage has at most so many characters, begins and ends between words where it can, and shows by an ellipsis on which
side something was left out. Linear in the length of the text.
"""

from __future__ import annotations

from smp_memory.text.tokenizer import STOP_WORDS, terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ELLIPSIS = "…"
_FEWEST_LETTERS = 3  # of a word's beginning, by which it is found in other forms
_BEFORE = 3  # this fraction (1/3) of the room that is left goes before the words
_SENTENCE_ENDS = (". ", "! ", "? ", "。", "！", "？")


class QuestionWords:
    """The words of a question, to be found in texts, and how much each counts."""

    def __init__(self, question: str, weight_of: Callable[[str], float] | None = None) -> None:
        """`weight_of`: the weight of a term, 0 for one that does not count; by default all but stop words count the same."""
        weight_of = weight_of or _equal_weight
        self._weights: dict[str, float] = {}  # by the letters that are looked for
        for word in dict.fromkeys(question.lower().split()):
            for letters, term in _letters(word.strip(".,;:!?\"'()[]…")):
                if (weight := weight_of(term)) > 0:
                    self._weights[letters] = max(weight, self._weights.get(letters, 0.0))

    def find(self, text: str) -> list[tuple[int, int, str]]:
        """Start and end of each word in the text, and the letters by which it was found."""
        lowered = text.lower()
        if len(lowered) != len(text):  # a few letters have no lower case of the same length
            return []
        return sorted(each for letters in self._weights for each in _places(lowered, letters))

    def weight(self, letters: str) -> float:
        return self._weights[letters]


def _equal_weight(term: str) -> float:
    return 0.0 if term in STOP_WORDS else 1.0


def _letters(word: str) -> list[tuple[str, str]]:
    """The letters to look for, each with its term: the beginning that a word shares with its stem, or pairs of characters."""
    found = terms(word)
    if len(found) > 1 and not word.isascii():
        return [(term, term) for term in found if len(term) > 1]
    pairs = []
    for term in found:
        shared = 0
        while shared < min(len(term), len(word)) and term[shared] == word[shared]:
            shared += 1
        pairs.append((word[:shared] if shared >= _FEWEST_LETTERS else word if len(found) == 1 else term, term))
    return pairs


def _places(text: str, letters: str) -> Iterator[tuple[int, int, str]]:
    """Where words begin with these letters. Searching for each word alone is ten times as fast as a regular expression for all."""
    begins_word = letters[0].isascii()  # scripts without spaces have no beginnings of words
    start = text.find(letters)
    while start >= 0:
        if not begins_word or not start or not text[start - 1].isalnum():
            yield start, start + len(letters), letters
        start = text.find(letters, start + len(letters))


def excerpt(text: str, characters: int, words: QuestionWords | None = None) -> str:
    """The text in at most so many characters: the passage with most of these words, else the beginning."""
    if len(text) <= characters:
        return text
    found = words.find(text) if words is not None else []
    start = _start(text, characters, *_best_window(found, words, characters)) if words is not None and found else 0
    return _cut(text, start, characters)


def _best_window(found: list[tuple[int, int, str]], words: QuestionWords, characters: int) -> tuple[int, int]:
    """Where the passage with the heaviest words begins and ends, each word counted once; of equals the first."""
    counts: dict[str, int] = {}
    best, first, last, total, left = 0.0, found[0][0], found[0][1], 0.0, 0
    for right, (_, end, letters) in enumerate(found):
        counts[letters] = counts.get(letters, 0) + 1
        total += words.weight(letters) if counts[letters] == 1 else 0.0
        while end - found[left][0] > characters - 2 * len(ELLIPSIS) and left < right:
            dropped = found[left][2]
            counts[dropped] -= 1
            total -= words.weight(dropped) if not counts[dropped] else 0.0
            left += 1
        if total > best + 1e-9:
            best, first, last = total, found[left][0], end
    return first, last


def _start(text: str, characters: int, first: int, last: int) -> int:
    """Where a passage around these words begins: at the beginning of the text or of a sentence, if that is near enough."""
    if last < characters - len(ELLIPSIS):
        return 0
    room = max(characters - 2 * len(ELLIPSIS) - (last - first), 0)
    sentence = max(text.rfind(end, 0, first) + len(end) if end in text[:first] else 0 for end in _SENTENCE_ENDS)
    if first - sentence <= room:
        return sentence
    return text.find(" ", max(first - room // _BEFORE - 1, 0), first) + 1 or first


def _cut(text: str, start: int, characters: int) -> str:
    before = ELLIPSIS if start else ""
    kept = text[start : start + max(characters - len(before), 0)]
    if start + len(kept) < len(text):
        kept = kept[: max(len(kept) - len(ELLIPSIS), 0)]
        space = kept.rfind(" ")
        if space > len(kept) * 2 // 3:
            kept = kept[:space]
        kept = kept.rstrip() + ELLIPSIS
    return before + kept
