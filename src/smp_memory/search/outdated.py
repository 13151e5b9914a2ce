"""Which of two memories about the same thing is outdated, though neither names the other. Pure.

The newer of two memories of one type outdates the older one if

    key       both are preferences with one key, for the same agents or tasks
    value     their texts are equal but for numbers, and the numbers are values: "above 500 euros", "timeout: 30"; not names, as in
              "Room 3" or "PAY-12", and not times
    change    the newer one says that something changed ("now", "since the audit", "replaced", "instead of") and has most words of
              the older one, or the older one most of its words

Two memories with different names stay apart (Alice's desk and Bob's), unless the newer one says that one thing took the place of
another: "Airflow replaced Dagster".

Guarantees: pure, any script; in doubt both hold. Turns, questions and texts of more than `_LONGEST` characters outdate nothing and are not
outdated: in conversations, words such as "now" mostly say something else.
Non-guarantees: it compares words, not meanings. The words for changes are English, German, French, Spanish and Russian.
"""

from __future__ import annotations

from functools import cache, lru_cache

from smp_memory.model.types import KINDS
from smp_memory.text.tokenizer import STOP_WORDS, terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Sequence

    from smp_memory.model.record import Record

    Fact = tuple[Record, str]  # and its text

_FEWEST = 2
_LONGEST = 400  # characters; a longer text says more than one thing
_SHARED_WORDS = 3
_COVERAGE = 0.5  # the share of the shorter text's words that the other one must have
_MOST_SWAPPED = 2  # words
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_CHANGED = (
    rf"\b(?:now|since (?:the|then|last|this)|from (?:now|today|{_MONTHS})|no longer|any ?more|changed|moved to|switched|as of"
    r"|ab sofort|jetzt|nun|neuerdings|désormais|maintenant|ahora|теперь|отныне)\b"
)
_REPLACED = (
    r"\b(?:replac\w+|instead of|took over|taken over|takes over|no longer|rather than|supersed\w+|statt|anstelle|ersetzt"
    r"|remplac\w+|au lieu de|en lugar de|reemplaz\w+|вместо|заменил\w*)\b"
)
_HINTS = (  # a text without any of these matches neither of both
    " now", " since ", " from ", "no longer", "any more", "anymore", " changed", "moved to", " switched", " as of", "ab sofort", " jetzt", " nun", "neuerdings",
    "désormais", "maintenant", " ahora", "теперь", "отныне", "replac", "instead of", "took over", "taken over", "takes over", "rather than", "supersed", "statt",
    "anstelle", "ersetzt", "remplac", "au lieu de", "en lugar", "reemplaz", "вместо", "заменил",
)  # fmt: skip
_NUMBER_WORDS = frozenset(
    """one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred eins zwei drei vier fünf sechs sieben acht
    neun zehn elf zwölf zwanzig un deux trois quatre cinq sept huit neuf dix uno dos tres cuatro cinco seis siete ocho nueve diez один два три
    четыре пять шесть семь восемь девять десять""".split()  # noqa: SIM905
)
_NUMBER = r"\d+(?:[.,:]\d+)*"
_VALUE_BEFORE = (  # a number behind these is a value
    r"(?:[:=<>≤≥~€$£]|\b(?:is|are|was|be|to|at|of|above|below|over|under|than|least|most|after|every|within|by|up|about|around"
    r"|für|von|auf|bis|über|unter|nach|alle|à|de|по|до|за|через|после))\s*$"
)
_TIMES = (
    r"\b(?:19|20)\d\d\b|\d:\d\d|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
)
_NAME = r"(?<![\w'.])(?:[A-ZÀ-ÞА-ЯЁ]\w+|(?=[\d._/-]*[^\W\d_])\w+(?:[-_/.]\w+)+|\w*[a-z][A-Z]\w*)"
_REFERENCE = (
    r"\s*(?:\([^()]*[\d_/][^()]*\)|\b[Ss]ee \S+|\b[A-Z]{2,}-\d+)\.?$"  # where more is said, at the end of a text
)


def outdated(records: Sequence[Record], *, one_user: bool = False) -> dict[str, str]:
    """The ref of the newer memory for each of these that is outdated by another of them.

    `one_user`: the records are one user's, so that preferences of different sessions may outdate each other whoever wrote them.
    """
    if len(records) < _FEWEST:
        return {}
    facts = [(each, text) for each in records if not KINDS[each.type].is_turn and _is_fact(text := each.text)]
    found: dict[str, Record] = {}
    for older, newer in (*_same_key(records, one_user), *_other_value(facts), *_changed(facts)):
        if older.ref not in found or _is_newer(newer, found[older.ref]):
            found[older.ref] = newer
    return {ref: newer.ref for ref, newer in found.items()}


def _is_fact(text: str) -> bool:
    return 0 < len(text) <= _LONGEST and text[-1] not in "?？"


def _is_newer(one: Record, other: Record) -> bool:
    """Whether a memory was said after another one; of the same time, only a session knows. A preference is said again when it changes."""
    times = [each._updated if KINDS[each.type].is_named_by_key else each._created for each in (one, other)]
    return times[0] > times[1] or (times[0] == times[1] and one.session == other.session and one.seq > other.seq)


def _same_key(records: Iterable[Record], one_user: bool) -> Iterator[tuple[Record, Record]]:
    """Older and newer memory of each pair with one key."""
    known: dict[object, Record] = {}
    for record in records:
        key = record.given.get("key") if KINDS[record.type].is_named_by_key else None
        author = None if one_user else record.author
        if isinstance(key, str) and key and (one_user or author):
            other = known.setdefault((key, author, repr(record.given.get("applies_to"))), record)
            if other is not record:
                older, newer = (other, record) if _is_newer(record, other) else (record, other)
                known[key, author, repr(record.given.get("applies_to"))] = newer
                yield older, newer


def _other_value(facts: list[Fact]) -> Iterator[tuple[Record, Record]]:
    """Pairs that differ in numbers alone."""
    forms: dict[str, list[Fact]] = {}
    for fact in facts:
        form = _without_numbers(fact[1])
        if form:
            forms.setdefault(form, []).append(fact)
    for group in forms.values():
        for newer, text in group if len(group) > 1 else ():
            for older, other in group:
                if _is_newer(newer, older) and newer.type == older.type and _differs_in_values(other, text):
                    yield older, newer


@lru_cache(4000)
def _without_numbers(text: str) -> str:
    """A text with each number as 0; empty if it has none."""
    form = _pattern(_NUMBER).sub("0", text)
    return form.casefold() if "0" in form else ""


def _differs_in_values(older: str, newer: str) -> bool:
    """Whether two texts of one form differ in numbers that are values."""
    if older == newer or _pattern(_TIMES, True).search(older) or _pattern(_TIMES, True).search(newer):
        return False
    number = _pattern(_NUMBER)
    pairs = zip(number.finditer(older), number.finditer(newer), strict=False)
    others = [one for one, two in pairs if one.group() != two.group()]
    return bool(others) and all(_pattern(_VALUE_BEFORE, True).search(older[: each.start()]) for each in others)


def _changed(facts: list[Fact]) -> Iterator[tuple[Record, Record]]:
    """Pairs of which the newer one says that something changed."""
    for newer, text in facts:
        change = _change_in(text)
        for older, other in facts if change else ():
            if (
                newer.type == older.type
                and _is_newer(newer, older)
                and _is_about_same(other, text, change == _REPLACED)
            ):
                yield older, newer


@lru_cache(4000)  # the same memories are found again and again
def _change_in(text: str) -> str:
    """_REPLACED if a text says that one thing took the place of another, _CHANGED if it says that something changed; else empty."""
    lowered = f" {text.lower()}"
    if not any(map(lowered.__contains__, _HINTS)):
        return ""
    return next((each for each in (_REPLACED, _CHANGED) if _pattern(each).search(lowered)), "")


def _is_about_same(older: str, newer: str, is_replaced: bool) -> bool:
    older, newer = _pattern(_REFERENCE).sub("", older), _pattern(_REFERENCE).sub("", newer)
    old, new = _words(older), _words(newer)
    shared = len(old & new)
    if shared < _SHARED_WORDS or shared < _COVERAGE * min(len(old), len(new)):
        return False
    return is_replaced or not ((_names(older) - new and _names(newer) - old) or _is_swapped(older, newer))


def _is_swapped(older: str, newer: str) -> bool:
    """Whether two texts of one form are about different things: numbers and words of change aside, a word or two differ."""
    one, two = _form(older), _form(newer)
    others = [pair for pair in zip(one, two, strict=False) if pair[0] != pair[1] and not _NUMBER_WORDS.issuperset(pair)]
    return len(one) == len(two) and 0 < len(others) <= _MOST_SWAPPED


def _form(text: str) -> list[str]:
    plain = _pattern(_CHANGED, True).sub(" ", _pattern(_NUMBER).sub("0", text))
    return [word.strip(".,;:!?()\"'") for word in plain.casefold().split()]


@lru_cache(1000)
def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - STOP_WORDS


@lru_cache(1000)
def _names(text: str) -> frozenset[str]:
    """The terms of names and identifiers in a text, and of its first word: nobody knows whether that one is a name."""
    return frozenset(terms(" ".join(_pattern(_NAME).findall(text)))) - STOP_WORDS


@cache
def _pattern(expression: str, ignore_case: bool = False) -> re.Pattern[str]:
    import re  # compiled when it is first needed: most processes never need it

    return re.compile(expression, re.IGNORECASE if ignore_case else 0)
