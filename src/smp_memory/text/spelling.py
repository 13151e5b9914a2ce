"""Words with one typing error: a letter that is missing, doubled, wrong or in the wrong place. Pure.

The first letter is never the wrong one: people rarely mistype it, and other words often differ in it alone (`table`, `cable`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SWAPPED, ONE_MORE, REPLACED, MORE_THAN_ONE = 1, 2, 3, 4  # errors, the most likely first
SHORTEST, LONG = 5, 8  # letters of a word that may have a typing error; of shorter ones too many others are near
NEAR_START = 4  # letters: typing errors behind them are found among the known terms with the same beginning
_ENDING = 5
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюяё", "αβγδεζηθικλμνξοπρστυφχψως")


def is_correctable(word: str) -> bool:
    """Whether a word may be a mistyped one: letters of one alphabet, and enough of them."""
    return len(word) >= SHORTEST and any(set(alphabet).issuperset(word) for alphabet in _ALPHABETS)


def variants(word: str, most: int | None = None, *, replaced: bool = True) -> Iterator[str]:
    """The words at distance 1 that differ from a word within its first `most` letters, but not in the first one.

    `replaced`: also those with another letter, which are many.
    """
    alphabet = next((each for each in _ALPHABETS if word[0] in each), "")
    for place in range(1, len(word) if most is None else min(most, len(word))):
        start, rest = word[:place], word[place:]
        yield start + rest[1:]
        if len(rest) > 1:
            yield start + rest[1] + rest[0] + rest[2:]
        for letter in alphabet:
            yield start + letter + rest
            if replaced:
                yield start + letter + rest[1:]
    if most is None:
        yield from (word + letter for letter in alphabet)


def simple_variants(word: str) -> Iterator[str]:
    """A word with two letters of its ending swapped, or without one of them: an error there may leave the ending in the stem."""
    for place in range(max(1, len(word) - _ENDING), len(word) - 1):
        yield word[:place] + word[place + 1] + word[place] + word[place + 2 :]
        yield word[:place] + word[place + 1 :]


def distance(word: str, known: str) -> int:
    """The error by which two words differ: SWAPPED, ONE_MORE, REPLACED, MORE_THAN_ONE, in this order of likelihood; 0 if they are equal."""
    if word == known:
        return 0
    longer, shorter = (word, known) if len(word) >= len(known) else (known, word)
    place = next((at for at, letter in enumerate(shorter) if letter != longer[at]), len(shorter))
    if len(longer) == len(shorter):
        if longer[place + 1 :] == shorter[place + 1 :]:
            return REPLACED
        swapped = longer[place : place + 2] == shorter[place : place + 2][::-1]
        return SWAPPED if swapped and longer[place + 2 :] == shorter[place + 2 :] else MORE_THAN_ONE
    is_one_more = len(longer) == len(shorter) + 1 and longer[place + 1 :] == shorter[place:]
    return ONE_MORE if is_one_more else MORE_THAN_ONE
