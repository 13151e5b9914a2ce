"""Names in a query: which of its terms name something, and known terms for names with a typing error.

Names are identifiers (`snake_case`, `CamelCase`, `PAY-1234`, paths, versions, words with digits), what stands in backticks, and words
that begin with a capital inside a sentence. A text in which most words begin with a capital (a title, a German sentence) says nothing
about its words by that; nor does one in a script without capitals.

A word that no memory has is perhaps mistyped: the known term nearest to it is searched as well, with less weight, and the answer says
so. Ordinary words (`common_share`), phrases in quotes, wildcards, words with digits and short words are taken as they are.

Words with one typing error: a letter that is missing, doubled, wrong or in the wrong place. Pure.

The first letter is never the wrong one: people rarely mistype it, and other words often differ in it alone (`table`, `cable`).
"""

from __future__ import annotations

import os
from functools import cache

from smp_memory.text.memory_text import text_of
from smp_memory.text.tokenizer import STOP_WORDS, terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

    from smp_memory.model.record import Record


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


_MOST_CORRECTED = 4  # words of one query
_FEW_CAPITALS = 0.5  # of the words inside sentences, if capitals mean names
_GERMAN = frozenset(  # two of these: a language that capitalises every noun
    [
        "der",
        "die",
        "das",
        "dem",
        "den",
        "des",
        "ein",
        "eine",
        "einen",
        "einem",
        "und",
        "oder",
        "ist",
        "sind",
        "war",
        "hat",
        "wird",
        "nicht",
        "mit",
        "für",
        "von",
        "auf",
        "im",
        "zu",
        "wir",
        "wie",
        "ich",
    ]
)
_NAME_SIGNS = frozenset("`_/.")
_SENTENCE = 3  # words: of fewer, capitals are names
_SENTENCE_END = ".!?:;。！？"
_AROUND = ".,;:!?\"'()[]{}`*<>“”„«»…"
_MOST_RECORDS = 20  # in which the spelling of a corrected word is looked up


def names_in(text: str) -> frozenset[str]:
    """The terms of a text that are names: those of identifiers, of words in backticks and of words capitalised inside a sentence."""
    quoted = _pattern(r"`([^`]+)`").findall(text)
    pieces = text.replace("`", " ").split()
    named = [*quoted, *(piece for piece in pieces if _is_identifier(piece.strip(_AROUND))), *_capitalised(pieces)]
    return frozenset(term for each in named for term in terms(each) if term not in STOP_WORDS)


def _is_identifier(word: str) -> bool:
    if any(map(str.isdigit, word)):
        return not _pattern(r"[\d.,:%-]+").fullmatch(word) or _pattern(r"\d+\.\d+\.\d+").fullmatch(word) is not None
    return (
        _pattern(r"\w+_\w+|\w*[a-z][A-Z]\w*|[\w~.-]*(?:/[\w.-]+)+/?|\w+(?:\.\w+)*\.[a-z]{1,5}|\w+::\w+").fullmatch(word)
        is not None
    )


def _capitalised(pieces: list[str]) -> list[str]:
    """The words that begin with a capital inside a sentence, or consist of capitals; none if most words do."""
    first = [word for piece in pieces[:1] if (word := piece.strip(_AROUND)) and len(word) > 1 and word.isupper()]
    inside = [
        word
        for before, piece in zip([".", *pieces], pieces, strict=False)
        if (word := piece.strip(_AROUND)) and before[-1] not in _SENTENCE_END
    ]
    if len(_GERMAN.intersection(word.lower() for word in inside)) > 1:
        return first
    capitals = [word for word in inside if word[0].isupper() and word != "I" and not word.startswith(("I'", "I’"))]
    return first + (capitals if len(capitals) <= _FEW_CAPITALS * len(inside) or len(inside) < _SENTENCE else [])


def mistyped(text: str, unknown: frozenset[str]) -> list[tuple[str, str, bool]]:
    """The first words with unknown terms that may be mistyped, names before others, each with its term and whether it is a name."""
    found: dict[str, str] = {}
    for word in _pattern(r"[^\W\d_]+").findall(text):
        if is_correctable(word.lower()):
            own = terms(word.lower())
            if len(own) == 1 and own[0] in unknown and len(own[0]) >= SHORTEST and not common_share(own[0]):
                found.setdefault(word, own[0])
    may_have_names = any(word[0].isupper() for word in found) or (found and not _NAME_SIGNS.isdisjoint(text))
    names = names_in(text) if may_have_names else frozenset()
    return sorted(((word, term, term in names) for word, term in found.items()), key=lambda each: not each[2])[
        :_MOST_CORRECTED
    ]


def spelled(corrected: dict[str, str], records: Iterable[Record]) -> dict[str, str]:
    """The corrected words as the first memories spell them; a term that none of these has stays as it is."""
    left = set(corrected.values())
    words: dict[str, str] = {}
    for record in list(records)[:_MOST_RECORDS]:
        for word in _pattern(r"[^\W\d_]+").findall(text_of(record.given)) if left else ():
            for term in left.intersection(terms(word)):
                words[term] = word.lower()
                left.discard(term)
    return {word: words.get(term, term) for word, term in corrected.items()}


@cache
def _pattern(expression: str) -> re.Pattern[str]:
    import re

    return re.compile(expression)
