"""The tokenizer: terms of a text, and the terms that a query asks for. Pure.

A text becomes terms when it is indexed and when it is queried, and both must agree; so both are here, and everything
that searches (the text engine and the memtable) works on these terms and knows no language.

- Words of any script; case, accents, width, zero-width characters and English endings are ignored.
- Identifiers, paths, addresses and version numbers are in the text's term stream as their parts, so that phrases
  match, and as wholes after its end: `auth_service.py` is `auth servic py … auth_service.py`.
- Scripts without spaces, and Hangul, whose words have suffixes: each pair of characters, then the last one alone. So
  any part of such a run is found by its pairs, and a single character as the beginning of a pair.
- Nothing is truncated and every input is accepted. A term contains no white space, no lone surrogate, and at most
  `LONGEST_WHOLE` characters.

Speed comes from a memo of the pieces between white space: few such pieces are new.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cache, lru_cache
from itertools import chain, pairwise
from math import log

from smp_memory.text.libraries import leave_disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable
    from typing import NamedTuple


LONGEST_WORD = 100  # characters; a longer word is cut into pieces of this length
LONGEST_WHOLE = 300  # characters; longer addresses and paths are found by their parts
MEMO_CHARACTERS = 4_000_000
_ENTRY_CHARACTERS = 100  # the cost of a memo entry besides its text
_SENTENCE_WORDS = 3  # outside of quotes
_AT_ONCE = 10_000  # pieces between two checks of the memo's size

_INSIDE = "._-/\\:@+#~%?&='"  # may be inside an identifier, path, address or number
_PUNCTUATION_AROUND = ".,;:!?\"'()[] "
_SYNTAX_CHARACTERS = dict.fromkeys(map(ord, '"“”„*'), " ")
_NEVER_INSIDE = frozenset('"(),;<>[]{}|!^`$')  # a pattern with one of these matches no term
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Thai, Lao, Burmese, Khmer
    "\u1100-\u11ff\u3005-\u3007\u3040-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"  # kana, bopomofo, Han
    "\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"  # Hangul, more Han
)
STOP_WORDS = frozenset(
    """a about above after again against all also am an and ani any anyth are aren as at be becaus been befor below
    between both but by can cannot could couldn did didn do doe does doesn doing don done down dure each either els ever
    few for from further get give go got had hadn has hasn have haven he her here herself him himself his how i if in
    into is isn it it itself just let me mine more most mustn my myself need no nor not of off on onc one onli or other
    our ourselv out over own pleas rather s same shan she should shouldn so some someth still such t tell than that the
    their them themselv then there these they thing this those through to too under until up upon us veri was wasn we
    were weren what whatev when where which while who whom whose whi will with won would wouldn you your yourself
    yourselv ll re ve d m""".split()  # noqa: SIM905
)


if TYPE_CHECKING:

    class _TextQuery(NamedTuple):
        words: tuple[str, ...] = ()  # any may match; each counts once
        phrases: tuple[tuple[str, ...], ...] = ()  # terms that follow each other in the text's stream
        patterns: tuple[str, ...] = ()  # `auth*`, `a*b`: each must match; see `smp_memory.index.query`
        excluded: tuple[tuple[str, ...], ...] = ()  # words and phrases that must not occur
        excluded_patterns: tuple[str, ...] = ()
        characters: tuple[str, ...] = ()  # `库*`: words of one character, as a prefix of pairs; any may match
        corrected: tuple[str, ...] = ()  # known terms for words with a typing error; any may match, with less weight

else:  # `typing` takes a new process 5 ms to load
    _TextQuery = namedtuple("_TextQuery", "words phrases patterns excluded excluded_patterns characters corrected", defaults=[()] * 7)  # fmt: skip


class ParsedText(_TextQuery):
    """A parsed query text. Any word or character may match; all phrases and patterns must."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return any(self[:])


class _Memo(dict[str, str]):
    """The terms of each piece between white space, each followed by a blank; for pieces with wholes, both parts, too."""

    def __init__(self, older: _Memo | None = None) -> None:
        self.streams: dict[str, str] = {}
        self.wholes: dict[str, str] = {}
        self.room = MEMO_CHARACTERS
        self.older = older  # the previous memo: common pieces are copied from it when they occur again

    def __missing__(self, piece: str) -> str:
        older = self.older
        if older is not None and piece in older:
            text, stream, wholes = older[piece], older.streams.get(piece, ""), older.wholes.get(piece, "")
        else:
            stream, wholes = (" ".join((*parts, "")) for parts in _analyse(piece))
            text = stream + wholes
        if wholes:
            self.streams[piece], self.wholes[piece] = stream, wholes
            self.room -= len(text)
        self[piece] = text
        self.room -= _ENTRY_CHARACTERS + len(piece) + len(text)
        return text


_memo = _Memo()


def terms(text: str) -> list[str]:
    """The terms of a text: its stream in order, then its wholes."""
    return joined_terms(text).split()


def joined_terms(text: str) -> str:
    """The same terms as one text, with one blank between them."""
    pieces = text.split()
    if len(pieces) <= _AT_ONCE:
        return "".join(chain(*_streams_and_wholes(pieces)))[:-1]
    parts = [_streams_and_wholes(pieces[start : start + _AT_ONCE]) for start in range(0, len(pieces), _AT_ONCE)]
    return "".join(chain(*(part[0] for part in parts), *(part[1] for part in parts)))[:-1]


def _streams_and_wholes(pieces: list[str]) -> tuple[Iterable[str], Iterable[str]]:
    memo = _memo_with_room()
    texts, wholes = list(map(memo.__getitem__, pieces)), memo.wholes
    if wholes.keys().isdisjoint(pieces):
        return texts, ()
    return map(memo.streams.get, pieces, texts), map(wholes.__getitem__, filter(wholes.__contains__, pieces))


def bag_of_terms(text: str) -> str:
    """The same terms in any order, each followed by a blank: faster, and all that the index needs."""
    pieces = text.split()
    if len(pieces) <= _AT_ONCE:
        return "".join(map(_memo_with_room().__getitem__, pieces))
    joined = joined_terms(text)
    return joined and f"{joined} "


def _memo_with_room() -> _Memo:
    """The memo, replaced when it is full; threads that still use the old one need no lock."""
    global _memo  # noqa: PLW0603 - a cache; after a race some words are analysed again
    memo = _memo
    if memo.room < 0:
        memo.older = None
        memo = _memo = _Memo(memo)
    return memo


def _analyse(piece: str) -> tuple[list[str], tuple[str, ...]]:
    """The stream and the wholes of a piece between white space."""
    bare = piece.strip(".,;:!?\"'()[]*`")
    if bare.isascii() and bare.isalpha() and (bare[1:].islower() or len(bare) == 1) and len(bare) <= LONGEST_WORD:
        return [stem(bare.lower())], ()
    stream: list[str] = []
    wholes: dict[str, None] = {}
    for chunk in _chunks(piece):
        _add_chunk(chunk, stream, wholes)
    return stream, tuple(wholes)


def _add_chunk(chunk: str, stream: list[str], wholes: dict[str, None]) -> None:
    words = [word for word in _split_words(chunk) if word]
    if len(words) > 1 or chunk[-1:] in "+#":
        _add_wholes(chunk, wholes)
    for word in words:
        parts = _parts(word)
        stream += parts
        if len(parts) > 1 and len(word) <= LONGEST_WORD and word.isascii():
            wholes[stem(word.lower())] = None


def _add_wholes(chunk: str, wholes: dict[str, None]) -> None:
    """Add the wholes of a chunk: `src/auth/o_auth.py` and `o_auth.py`, because people name files without folders."""
    names = [chunk, *(_pattern("[/\\\\:?&=@#]+").split(chunk))]
    for name in names:
        if len(name) <= LONGEST_WHOLE and _pattern("[._+#~%'\\-/\\\\:?&=@]").search(name):
            wholes[name.casefold()] = None


def _chunks(piece: str) -> list[str]:
    """Identifiers, paths and words, without surrounding punctuation; `C++` and `C#` keep theirs."""
    text = piece if piece.isascii() else _folded(piece)
    if "'" in text:
        text = _pattern("(?<=[^\\W_])'(?:s|t|re|ve|ll|d|m)(?![\\w'])", ignore_case=True).sub("", text)
    found = []
    for chunk in _pattern('[^\\s\\0-\\x20"(),;<>\\[\\]{}|!*^`$\\x7f]+').findall(text):
        core = chunk.strip(_INSIDE)
        tail = _pattern("(?:\\+\\+|#)(?=[^\\w]*$)").search(chunk) if len(core) < 4 else None
        if core:
            found.append(core + tail.group() if tail else core)
    return found


def _split_words(chunk: str) -> list[str]:
    return [chunk] if chunk.isalnum() else _pattern(f"[{_escape(_INSIDE)}]+").split(chunk)


def _parts(word: str) -> list[str]:
    """The terms of a word: `getUserName` is three, a run of Han its pairs."""
    if not word.isascii():
        return [term for run in _pattern(f"[{_SPACELESS}]+|[^{_SPACELESS}]+").findall(word) for term in _run(run)]
    if len(word) > LONGEST_WORD:
        return _cut(word.lower())
    if word.islower() and word.isalpha():
        return [stem(word)]
    return [stem(part.lower()) for part in _split_camel_case(word)]


def _run(run: str) -> list[str]:
    if _is_spaceless(run[0]):
        return [*map("".join, pairwise(run)), run[-1]]
    return [stem(part) for part in _cut(run.casefold())]


def _is_spaceless(character: str) -> bool:
    return character > "\u0dff" and _pattern(f"[{_SPACELESS}]").match(character) is not None


def _split_camel_case(word: str) -> list[str]:
    """`getUserName` → get User Name; `OAuth2` → OAuth 2; `iPhone`, `v2`, `2nd` and `3f9ac` stay."""
    if not _pattern("[A-Za-z]*[a-z0-9][A-Z]|[A-Z]{2,}[a-z]|[A-Za-z]{2,}[0-9]+$").match(word):
        return [word]
    piece = "[A-Z]{2,}(?=[A-Z][a-z])|(?<![A-Za-z])[a-z]?[A-Z]{1,2}[a-z]+|[A-Z]?[a-z]{2,}|[A-Z]{2,}|[A-Za-z]|[0-9]+"
    return _pattern(piece).findall(word)


def _cut(word: str) -> list[str]:
    return [word[start : start + LONGEST_WORD] for start in range(0, len(word), LONGEST_WORD)]


def stem(word: str) -> str:
    """A folded word without its English ending."""
    return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    """PyStemmer's stemmer; without it words are not stemmed, and the index is in RAM (`smp_memory.index`)."""
    try:
        import Stemmer  # type: ignore[import-not-found]  # a C extension without stubs

        stem_word: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord
    except (ImportError, OSError, AttributeError) as error:
        leave_disk("PyStemmer", error)
        return str
    return stem_word


@cache
def _pattern(expression: str, ignore_case: bool = False) -> re.Pattern[str]:
    import re

    return re.compile(expression, re.IGNORECASE if ignore_case else 0)


def _escape(text: str) -> str:
    import re

    return re.escape(text)


def spellings(text: str) -> set[str]:
    """Identifiers, paths and words as written, without case and accents; loose patterns are matched against them."""
    found: set[str] = set()
    for piece in set(text.split()):
        for chunk in _chunks(piece):
            words = [word for word in _split_words(chunk) if word]
            names = _pattern("[/\\\\:?&=@#]+").split(chunk)
            found.update((chunk, *names, *words), *(_split_camel_case(word) for word in words if word.isascii()))
    return {each.casefold() for each in found}


# --- Queries -------------------------------------------------------------------------------------------------------


def without_signs(text: str) -> str:
    """The words of a text without query syntax, for a text that was not written as a query."""
    return " ".join(filter(None, (word.lstrip("-") for word in text.translate(_SYNTAX_CHARACTERS).split())))


@lru_cache(maxsize=100)  # a query is parsed where it is checked, searched and ranked
def parse(text: str) -> ParsedText:
    """Parse a query text: words, "phrases", prefix*, wild*cards, -excluded words and "phrases". Never fails.

    A quoted title inside a sentence, `when did she read "Becoming Nicole"?`, is a preference: any of its words may match.
    A sentence has three words or more outside of the quotes, one of them a stop word, and no other syntax.
    """
    query = _QueryParser()
    for minus, phrase, piece in _pattern(r'(?<!\S)(-?)"([^"]+)"|(\S+)').findall(_pattern("[“”„]").sub('"', text)):
        if phrase:
            query.add_phrase(phrase, bool(minus))
        elif _is_exclusion(piece):
            query.add_excluded(piece[1:])
        elif _is_wild(piece):
            query.add_wildcard(piece)
        else:
            query.add_words(piece)
    return query.result()


def _is_exclusion(piece: str) -> bool:
    """Whether a piece is an exclusion: `-draft`, `-*fix` and `-🎉`, but not `-`, `--force`, `-5` or an option such as `-v`."""
    if piece[0] != "-" or piece[1:2].isnumeric():
        return False
    return piece[1:2] > "\x7f" or ((piece[1:2].isalpha() or piece[1:2] == "*") and piece[2:3].isalnum())


def _is_wild(piece: str) -> bool:
    """Whether a piece is a wildcard pattern: `auth*`, but not `**bold**`, `*` and `x:[*`."""
    if "*" not in piece or "**" in piece or not any(map(str.isalnum, piece)):
        return False
    return _NEVER_INSIDE.isdisjoint(piece.strip(_PUNCTUATION_AROUND))


class _QueryParser:
    """Collects the parts of a query text."""

    def __init__(self) -> None:
        self.words: dict[str, None] = {}
        self.phrases: dict[tuple[str, ...], str] = {}  # with their texts
        self.patterns: dict[str, None] = {}
        self.excluded: dict[tuple[str, ...], str] = {}
        self.excluded_patterns: dict[str, None] = {}
        self.characters: dict[str, None] = {}
        self.has_wildcards = False
        self.outside = 0  # the number of words outside of quotes

    def add_words(self, piece: str) -> None:
        self.outside += 1
        stream, wholes = _analyse(piece)
        before = ""
        for term in stream:
            if not _is_single(term):
                self.words[term] = None
            elif not _closes_run(term, before):
                self.characters[term + "*"] = None
            before = term
        self.words.update(dict.fromkeys(wholes))

    def add_phrase(self, text: str, excluded: bool) -> None:
        stream = _phrase_stream(text)
        if len(stream) == 1 and _is_single(stream[0]):
            (self.excluded_patterns if excluded else self.patterns)[stream[0] + "*"] = None
        elif stream:
            (self.excluded if excluded else self.phrases)[stream] = text

    def add_excluded(self, piece: str) -> None:
        if _is_wild(piece):
            self.add_wildcard(piece, True)
        else:
            self.add_phrase(piece, True)

    def add_wildcard(self, piece: str, excluded: bool = False) -> None:
        self.has_wildcards = True
        text = _folded(piece).casefold().strip(_PUNCTUATION_AROUND)
        if _pattern(f"[{_SPACELESS}]{{2}}").search(text):
            self.add_phrase(text, excluded)  # any part of it is found by pairs anyway
        else:
            (self.excluded_patterns if excluded else self.patterns)[text] = None

    def _is_sentence(self) -> bool:
        others = self.has_wildcards or self.patterns or self.excluded or self.excluded_patterns
        return self.outside >= _SENTENCE_WORDS and not others and not STOP_WORDS.isdisjoint(self.words)

    def _title_words(self) -> Iterable[str]:
        """The words of all quoted texts; stop words only of a text that has no others."""
        for text in self.phrases.values():
            words = [term for term in terms(text) if not _is_single(term)]
            yield from [word for word in words if word not in STOP_WORDS] or words

    def result(self) -> ParsedText:
        titles: list[str] = []
        if self.phrases and self._is_sentence():
            titles = list(self._title_words())
            self.phrases.clear()
        excluded = tuple(self.excluded), tuple(self.excluded_patterns)
        rare = tuple(dict.fromkeys((*(word for word in self.words if word not in STOP_WORDS), *titles)))
        has_others = rare or self.phrases or self.patterns or self.characters
        return ParsedText(
            rare if has_others else tuple(self.words),
            tuple(self.phrases),
            tuple(self.patterns),
            *excluded,
            tuple(self.characters),
        )


def _phrase_stream(text: str) -> tuple[str, ...]:
    """The stream of a phrase. If it ends with a run of pairs, the last single character is dropped: the text's run may go on."""
    stream = [term for piece in text.split() for term in _analyse(piece)[0]]
    if len(stream) > 1 and _closes_run(stream[-1], stream[-2]):
        stream.pop()
    return tuple(stream)


def _is_single(term: str) -> bool:
    return len(term) == 1 and _is_spaceless(term)


def _closes_run(term: str, before: str) -> bool:
    """Whether a term is the single character that closes a run of pairs."""
    return _is_single(term) and len(before) == 2 and before[1] == term and _is_spaceless(before)


# --- Characters beyond ASCII ---------------------------------------------------------------------------------------


class _Folding(dict[int, str | None]):
    """Translation of decomposed characters: kept, dropped, a separator, or a word of its own."""

    def __missing__(self, code: int) -> str | None:
        self[code] = kept = _fold_character(chr(code))
        return kept


def _fold_character(character: str) -> str | None:
    import unicodedata

    category = unicodedata.category(character)
    if category == "Cf" or _is_vowel_point(character):
        return None
    if character in "‘’ʼ":
        return "'"
    if character in "‐‑":
        return "-"
    if category == "So":
        return f" {character} "
    return " " if category[0] in "PZSC" and not character.isascii() else character


def _is_vowel_point(character: str) -> bool:
    """Whether it is an accent or a point of Hebrew or Arabic, which people leave out; in other scripts marks are letters."""
    return "\u0300" <= character <= "\u036f" or (
        "\u0591" <= character <= "\u0670"
        and (character <= "\u05c7" or character >= "\u064b" or character == "\u0640")
        and not character.isalnum()
    ) or "\ufe00" <= character <= "\ufe0f" or character == "\u0640"  # fmt: skip


_folding = _Folding()


def _folded(text: str) -> str:
    """The normalised text: equal-looking characters are equal. Case is kept, because identifiers are split by it."""
    from unicodedata import normalize

    return normalize("NFC", normalize("NFKD", text).translate(_folding))


def inverse_frequency(documents: int, having: int) -> float:
    """BM25's weight of a term that `having` of the documents have."""
    return log(1 + (max(documents - having, 0) + 0.5) / (having + 0.5))
