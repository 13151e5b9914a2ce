"""Echoes: turns that say what a written memory says. Pure.

`Statement(text).score(turn)` is above 0 if a turn repeats a memory. Both are compared by their terms, sentence by sentence:

    share      one or two sentences of the turn have most of the memory's terms by weight (rare terms count more) or of its first sentence
    values     all numbers of the memory are there; no term of the memory is replaced by another one at the same place
    names      if a name of the memory is missing, the turn names nothing else instead
    polarity   both deny, or neither; what follows "instead of", "rather than" or ", not" does not count on either side
    assertion  questions, guesses ("maybe", "either … or") and what says that something changed ("moved", "used to") repeat nothing

A turn *beside* the memory (`is_beside`) is mostly what the memory was made from, or the answer during which it was written: a smaller share will do,
with numbers that do not contradict.

Guarantees: a function of two texts and whether they are beside each other. A turn far from the memory has `FEWEST_CLUES` of its clues, so that an index
finds it without comparing all. In doubt a turn is no echo: a wrong one silences a true turn.
Non-guarantees: it compares words, not meanings. Words of denial, guess and change are English, German and French.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise

from smp_memory.text.names import common_share, names_in
from smp_memory.text.tokenizer import STOP_WORDS, terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Collection

BEFORE, AFTER = 2, 1  # positions in a session: so many turns before a memory are beside it, and so many behind it
FEWEST_CLUES = 3  # of a memory that a turn far from it must have
_MOST_CLUES = 5
_FEWEST_TERMS = 3  # of a statement; a shorter one is in too many turns
_SHARE, _SHARE_BESIDE = 0.75, 0.15
_SHARED, _SHARED_BESIDE = 3, 2  # terms at least
_LONGEST = 4000  # characters of a turn, and of a memory, that are compared
_RARE, _COMMON = 1.0, 0.5  # weights
_COMMON_SHARE = 0.004

_FILLERS = frozenset(
    ["use", "now", "go", "done", "set", "make", "ok", "okay", "yes", "sure", "right", "alway", "still", "keep", "put", "also", "new", "want", "implement", "fix", "decid", "chang", "ad", "add", "need", "run", "is", "sind", "wird", "werden", "der", "die", "das", "den", "dem", "ein", "eine", "und", "oder", "mit", "fur", "von", "auf", "zu", "im", "jetzt", "le", "la", "les", "un", "une", "des", "du", "de", "et", "sur", "avec", "sont", "est"]
)  # fmt: skip
_NOT_COUNTED = STOP_WORDS | _FILLERS
_DENIALS = frozenset(
    """not no never without neither nor cannot dont doesnt didnt isnt arent wasnt werent wont cant mustnt shouldnt nothing none avoid stop
    nicht kein keine keinen keiner nie niemals ohne ne pas jamais sans aucun aucune""".split()  # noqa: SIM905
)
_GUESSES = frozenset(
    """maybe perhaps might could either probably possibly consider propose suggest suggestion option options alternatively assuming
    vielleicht könnte könnten entweder vermutlich wahrscheinlich vorschlag peut-être pourrait pourrions probablement""".split()  # noqa: SIM905
)
_CHANGES = frozenset(
    """moved switched migrated replaced replaces dropped removed reverted formerly previously former anymore früher entfernt ersetzt
    remplacé supprimé autrefois""".split()  # noqa: SIM905
)
_ASKING = frozenset(
    """what which who whose why how whats was welche welcher welches wer wie warum wieso wann wo quel quelle quels qui comment pourquoi où
    quand""".split()  # noqa: SIM905
)
_NUMBER_WORDS = {
    word: str(number)
    for number, words in {
        2: "two zwei deux", 3: "three drei trois", 4: "four vier quatre", 5: "five fünf cinq", 6: "six sechs", 7: "seven sieben sept",
        8: "eight acht huit", 9: "nine neun neuf", 10: "ten zehn dix", 11: "eleven elf onze", 12: "twelve zwölf douze",
        20: "twenty zwanzig vingt", 30: "thirty dreißig trente", 60: "sixty sechzig soixante",
    }.items()
    for word in words.split()
}  # fmt: skip
_CONTRAST = (  # what was not chosen, up to the end of the clause
    r"(?:\b(?:instead of|rather than|in place of|statt|anstatt|anstelle von|au lieu de|plutôt que)\b|(?:, |\b(?:and|but) )(?:and |but )?not (?!any|yet|only|be\b))"
    r"[^,.;:!?()\n]*?(?=\b(?:because|since|so|as|for|weil|car|parce)\b|[,.;:!?()\n]|$)"
)


class _Passage:
    """A sentence or two, as far as they are compared."""

    __slots__ = ("_facts", "_names", "text", "total", "weights")

    def __init__(self, text: str, weights: dict[str, float]) -> None:
        self.text = text
        self.weights = weights  # its content terms in their order
        self.total = sum(weights.values())
        self._facts: tuple[frozenset[str], bool] | None = None
        self._names: frozenset[str] | None = None

    @property
    def facts(self) -> tuple[frozenset[str], bool]:
        """Its numbers, and whether it denies something: few passages are compared that far."""
        if self._facts is None:
            words = _words(self.text)
            self._facts = _numbers(self.text, words), not _DENIALS.isdisjoint(words)
        return self._facts

    @property
    def names(self) -> frozenset[str]:
        """Its names, which take longest to find."""
        if self._names is None:
            self._names = names_in(self.text)
        return self._names


@lru_cache(4000)  # the same memories are compared with many turns
def statement(text: str) -> Statement:
    """The statement of this text."""
    return Statement(text)


class Statement:
    """What a written memory says, prepared to be compared with turns."""

    __slots__ = ("_parts", "clues")

    def __init__(self, text: str) -> None:
        sentences = [each for each in _sentences(text[:_LONGEST]) if not _is_question(each)]
        wholes = [" ".join(sentences), sentences[0]] if len(sentences) > 1 else sentences
        parts = [_Passage(text, _weights(text)) for text in wholes]
        self._parts = [part for part in parts if len(part.weights) >= _FEWEST_TERMS]
        rare = {term: None for part in self._parts for term in part.weights}
        self.clues = tuple(sorted(rare, key=_frequency)[:_MOST_CLUES])  # the rarest terms

    def score(self, turn: str, *, beside: bool = False) -> float:
        """How much of the memory a turn says, 0 to 1; 0 if it does not repeat it."""
        turn = turn[:_LONGEST]
        said, parts = _terms_of(turn), self._parts
        if not beside and sum(clue in said for clue in self.clues) < FEWEST_CLUES:
            return 0.0
        parts = [part for part in parts if _share(part, said) >= (_SHARE_BESIDE if beside else _SHARE)]
        passages = _passages(turn) if parts else ()
        return max((_compared(part, each, beside) for part in parts for each in passages), default=0.0)


def _share(part: _Passage, said: Collection[str]) -> float:
    return sum([weight for term, weight in part.weights.items() if term in said]) / part.total


def likeness(one: str, other: str) -> float:
    """How much of the shorter of two texts the other one has, by the weight of their terms, 0 to 1."""
    here, there = _weights(one[:_LONGEST]), _weights(other[:_LONGEST])
    shared = sum(weight for term, weight in here.items() if term in there)
    return shared / (min(sum(here.values()), sum(there.values())) or 1.0)


def has_other_numbers(one: str, other: str) -> bool:
    """Whether both texts have numbers, and none in common."""
    here, there = (_numbers(text, _words(text)) for text in (one[:_LONGEST], other[:_LONGEST]))
    return bool(here and there) and here.isdisjoint(there)


def is_beside(memory: int, turn: int) -> bool:
    """Whether a turn is beside a memory of the same session, given their positions."""
    return -BEFORE <= turn - memory <= AFTER


def _compared(part: _Passage, said: _Passage, beside: bool) -> float:
    share, shared = _share(part, said.weights), len(part.weights.keys() & said.weights.keys())
    if share >= _SHARE and shared >= _SHARED:
        return share if _says_same(part, said) else 0.0
    if not beside or share < _SHARE_BESIDE or shared < _SHARED_BESIDE:
        return 0.0
    numbers, others = part.facts[0], said.facts[0]
    return 0.0 if numbers and others and numbers.isdisjoint(others) else share


def _says_same(part: _Passage, said: _Passage) -> bool:
    """Whether a passage with most terms of a memory has its values, names and polarity, too."""
    (numbers, denies), (other_numbers, other_denies) = part.facts, said.facts
    if denies != other_denies or not numbers <= other_numbers or _is_swapped(part, said):
        return False
    return not (part.names - said.weights.keys() and said.names - part.weights.keys())


def _is_swapped(part: _Passage, said: _Passage) -> bool:
    """Whether a term of the memory is missing and another one stands at its place, between the same terms."""
    here, there = list(part.weights), list(said.weights)
    before, after = dict(pairwise(reversed(there))), dict(pairwise(there))
    for left, term, right in zip(["", *here], here, [*here[1:], ""], strict=False):
        if term in said.weights:
            continue
        other = after.get(left, "") if left else before.get(right, "")
        fits_left = not left or left in said.weights
        fits_right = not right or before.get(right) == other
        if other and other not in part.weights and fits_left and fits_right:
            return True
    return False


# -- texts


@lru_cache(64)  # a turn is compared with several memories
def _terms_of(turn: str) -> frozenset[str]:
    return frozenset(terms(turn))


@lru_cache(64)
def _passages(turn: str) -> tuple[_Passage, ...]:
    """The sentences of a turn that state something, and each two that follow each other."""
    single = [None if _is_left_out(each) else _Passage(each, _weights(each)) for each in _sentences(turn)]
    pairs = [_joined(one, two) for one, two in pairwise(single) if one is not None and two is not None]
    return (*filter(None, single), *pairs)


def _joined(one: _Passage, two: _Passage) -> _Passage:
    weights = dict(one.weights)
    for term, weight in two.weights.items():
        weights[term] = max(weights.get(term, 0.0), weight)
    return _Passage(f"{one.text} {two.text}", weights)


def _sentences(text: str) -> list[str]:
    """The sentences of a text, without what they say was not chosen."""
    plain = _pattern(_CONTRAST).sub(" ", text)
    return [each for part in _pattern(r"(?<=[.!?;])\s+|\n+|(?<=: )").split(plain) if (each := part.strip())]


def _is_left_out(sentence: str) -> bool:
    words = _words(sentence)
    return _is_question(sentence) or not (_GUESSES.isdisjoint(words) and _CHANGES.isdisjoint(words))


def _is_question(sentence: str) -> bool:
    if sentence.rstrip("\"')]*_ ").endswith(("?", "\uff1f")):
        return True
    words = sentence.lower().split(None, 1)
    return bool(words) and words[0].strip(",.") in _ASKING


def _words(text: str) -> frozenset[str]:
    return frozenset(_pattern(r"[\w-]+").findall(text.lower().replace("'", "").replace("’", "")))


def _numbers(text: str, words: frozenset[str]) -> frozenset[str]:
    """The numbers of a text that are no parts of names."""
    found = _pattern(r"(?<![\w.-])\d+(?:[.,:]\d+)*").findall(text)
    return frozenset((*found, *(_NUMBER_WORDS[word] for word in words if word in _NUMBER_WORDS)))


@lru_cache(256)  # of the hits of one query each is compared with several others
def _weights(text: str) -> dict[str, float]:
    """The content terms of a text in their order; the terms of one identifier or path count as one."""
    found: dict[str, float] = {}
    for piece in text.split():
        for term, weight in _weights_of_piece(piece):
            if weight > found.get(term, 0.0):
                found[term] = weight
    return found


@lru_cache(20_000)
def _weights_of_piece(piece: str) -> list[tuple[str, float]]:
    own = [term for term in terms(piece) if term not in _NOT_COUNTED]
    return [(term, (_COMMON if common_share(term) > _COMMON_SHARE else _RARE) / len(own)) for term in own]


def _frequency(term: str) -> tuple[float, int]:
    return common_share(term), -len(term)


@cache
def _pattern(expression: str) -> re.Pattern[str]:
    import re  # compiled when it is first needed

    return re.compile(expression, re.IGNORECASE)
