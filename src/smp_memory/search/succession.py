"""Current memories: successors before what they supersede, and the hits that are still valid.

Every way to read uses these rules (docs/adr/0026-validity-and-succession.md):

    not valid    `valid_from` or `valid_until` says that it does not hold at the time of the query: no candidate at all, unless the
                 query has `include_expired` (`CandidateRequest.valid_at`)
    superseded   another memory took its place: it stays in a query, right behind its successor, which is as relevant as it is
    settled      its status says that nothing is left to do, or that it was overturned: less relevant than what is open
    outdated     a newer memory says the same with another value: it comes behind the newer one
    repeated     a turn says what a written memory says (`text.echoes`): the memory takes its place. If the memory was deleted, is settled or not
                 valid, the turn stays in a query, further down; what took the place of the memory comes before it

`current_hits` is for what reaches a prompt: it keeps hits that are none of these.

`outdated` finds memories that are outdated though neither of two names the other. The newer of two memories of one type outdates the
older one if

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

from collections import namedtuple
from functools import cache, lru_cache
from itertools import combinations

from smp_memory.model.candidates import WORDS_SHIFT
from smp_memory.model.statuses import (
    SETTLED,
    SUPERSEDED,
    describe_repeated,
    is_settled,
    last_successors,
    state_of_repeated,
    status_of,
)
from smp_memory.model.types import KINDS
from smp_memory.text.echoes import has_other_numbers, likeness
from smp_memory.text.tokenizer import STOP_WORDS, terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import NamedTuple

    from smp_memory.model.candidates import Candidate, Candidates, Hit
    from smp_memory.model.record import Record
    from smp_memory.search.ranking import Ranked, Ranking

    Fact = tuple[Record, str]  # and its text

    class Judged(NamedTuple):
        """A memory and its relevance to a query."""

        record: Record
        relevance: float
        superseded_by: str | None = None

else:  # `typing` takes a new process 5 ms to load
    Judged = namedtuple("Judged", "record relevance superseded_by", defaults=(None,))

OUTDATED = "outdated"  # why a hit does not hold, besides SETTLED and SUPERSEDED
DELETED, NOT_VALID, HIDDEN = (
    "deleted",
    "not valid",
    "hidden",
)  # and, with those above, why a memory that it repeats does not
REPEATS = "repeats a memory that is not valid"
SILENCED = "older turn"
_SUMMARY = "summary"  # made of turns
_CERTAIN = 0.95  # a relevance above which differences say nothing
_LIKENESS, _ENDED_LIKENESS = 0.4, 0.2  # of a turn and a memory that speaks for it
_SHORT_TURN = 80  # words
_ENOUGH_MATCH = 0.5  # of the text score of a long turn
_BLOCK = 32  # candidates whose successors are looked at together


class SuccessionOrder:
    """Puts successors before what they supersede, among the ranked candidates of one query.

    The order of the first ones does not depend on how many are read. A successor must meet the conditions of the query, but need
    not share a word with it: it is found through what it superseded. The same holds for a memory that turns repeat.
    """

    def __init__(self, ranking: Ranking, allows: Callable[[str], bool] | None = None) -> None:
        """`allows` tells from which sessions a successor may come (None: all)."""
        self._ranking = ranking
        self._allows = allows
        self.speakers: dict[str, Candidate] = {}  # `spoken_for` of the last answer

    def ordered(self, ranked: list[Ranked], found: Candidates, emitted: Iterable[str] = ()) -> Iterator[Ranked]:
        """The same candidates of an answer, each after its successors; without the refs in `emitted`, which come before all of them.

        A turn is left out if the memory that it repeats is there in its place.
        """
        done, newer = set(emitted), found.newer
        self.speakers = spoken_for(found, self._allows)
        if not newer and not found.repeated:
            yield from [each for each in ranked if each.ref not in done] if done else ranked
            return
        by_ref = {each.ref: each for each in ranked}
        self._add_echoes(ranked, by_ref)
        for start in range(0, len(ranked), _BLOCK):
            block = [(each, each.ref) for each in ranked[start : start + _BLOCK]]
            known = {ref: heirs for _, ref in block if (heirs := last_successors(ref, newer, self._allows))}
            for each, ref in block:
                memory = self.speakers.get(ref)
                heirs = [memory] if memory is not None else known.get(ref) or self._heirs(each, newer)
                for successor in heirs:
                    if successor.meets and successor.ref not in done:
                        done.add(successor.ref)
                        yield self._ranking.inherit(successor, each, by_ref.get(successor.ref))
                if ref not in done and memory is None:
                    done.add(ref)
                    yield each

    def _heirs(self, each: Ranked, newer: Mapping[str, Sequence[Candidate]]) -> list[Candidate]:
        """What took the place of the memory that a turn repeats."""
        memory = each.candidate.repeats
        return last_successors(memory, newer, self._allows) if memory in newer else []

    def _add_echoes(self, ranked: list[Ranked], by_ref: dict[str, Ranked]) -> None:
        """Make each memory that takes the place of echoes as relevant as the first of them."""
        for each in ranked if self.speakers else ():
            memory = self.speakers.get(each.ref)
            own = by_ref.get(memory.ref) if memory is not None else None
            if own is not None and own.predecessor is None:
                own.predecessor = (each, None)


def spoken_for(found: Candidates, allows: Callable[[str], bool] | None = None) -> dict[str, Candidate]:
    """By turn the memory that holds, meets the query, and takes its place.

    A long turn says other things, too: the memory must match the query itself.
    """
    if not found.repeated:
        return {}
    every = (*found.matches, *found.others)
    matches = {ref: each.match for each in every if (ref := each.ref) in found.repeated}
    holds: dict[str, bool] = {}
    speakers = {}
    for turn in every:
        ref = turn.repeats
        memory = found.repeated.get(ref)
        if memory is None or not memory.meets:
            continue
        if ref not in holds:
            holds[ref] = not state_of_repeated(turn, found, allows)[0]
        is_long = turn.traits >> WORDS_SHIFT & 255 > _SHORT_TURN
        is_found = turn.match or turn.meaning or ref in matches  # not only beside a turn that matches
        if holds[ref] and is_found and (not is_long or matches.get(ref, 0.0) >= _ENOUGH_MATCH * turn.match):
            speakers[turn.ref] = memory
    return speakers


def newer_first(hits: list[Hit]) -> list[Hit]:
    """The same hits, each that is outdated behind the newer one, which is at least as relevant."""
    newer = outdated([hit.record for hit in hits])
    if not newer:
        return hits
    by_ref = {hit.record.ref: hit for hit in hits}
    found: dict[str, Hit] = {}
    for hit in hits:
        ref = newer.get(hit.record.ref)
        hit.outdated_by = ref
        if ref is not None and ref not in found:
            found[ref] = by_ref[ref]
            found[ref].inherit(hit)
        found.setdefault(hit.record.ref, hit)
    return list(found.values())


def current_hits(
    hits: Iterable[Hit],
    allows: Callable[[str], bool] | None = None,
    left_out: Callable[[Hit, str, str], None] | None = None,
) -> list[Hit]:
    """The hits of a query that hold now, in the same order: for a prompt, which has no room for what no longer holds.

    Left out: superseded and settled memories, turns that repeat a memory that does not hold, and of two that say the same with another value
    the older one. A query places the successor of each before it, so that nothing is lost; not-valid memories are not among hits in the first place.
    `allows` tells which sessions count: a memory is not superseded by one that the reader does not see.
    `left_out` is called with each hit that does not hold, the reason, and the status or the memory that is to blame.
    """
    given = hits if left_out is None else list(hits)
    listed = [
        hit
        for hit in given
        if not is_settled(hit.record) and not _is_replaced(hit.superseded_by, allows) and not hit.repeats_state
    ]
    seen = [hit.record for hit in listed if allows is None or allows(hit.record.session)]
    older = outdated(seen, one_user=allows is not None)
    if left_out is not None:
        for hit in given:
            _report(hit, older, allows, left_out)
    return [hit for hit in listed if hit.record.ref not in older]


def last_word(turn: Record, relevance: float, written: Iterable[Hit | Judged]) -> Record | None:
    """The memory among these that speaks for a turn which matches the same query; None if none does.

    It is as relevant, has much in common with the turn, and was written down after the turn was said. A memory that was deleted, settled, superseded or
    turned off for recall silences what was said before its end, and needs less in common, but no other numbers: else a prompt would bring back from
    a turn what the user has ended.
    """
    if not (KINDS[turn.type].is_said or turn.type == _SUMMARY):
        return None
    as_relevant = (each for each in written if each.relevance >= min(relevance, _CERTAIN))
    return next((each.record for each in as_relevant if _speaks_for(each, turn)), None)


def _speaks_for(hit: Hit | Judged, turn: Record) -> bool:
    memory = hit.record
    if not KINDS[memory.type].is_written_down:
        return False
    if not (hit.superseded_by or memory.deletion is not None or is_settled(memory) or memory.muted):
        return turn._created <= memory._created and likeness(turn.text, memory.text) >= _LIKENESS
    if not hit.superseded_by and turn._created > _end_of(memory):
        return False
    return likeness(turn.text, memory.text) >= _ENDED_LIKENESS and not has_other_numbers(turn.text, memory.text)


def describe_silenced(memory: Record) -> str:
    """Why a turn is left out for which this memory has the last word."""
    is_ended = ((memory.deletion is not None, "deleted"), (is_settled(memory), "settled"), (memory.muted, "turned off"))
    state = next((word for is_true, word in is_ended if is_true), "written down")
    return f"{memory.ref} is as relevant, and was {state} later"


def _end_of(memory: Record) -> str:
    """When a memory was deleted, settled or turned off."""
    return memory.deletion.at if memory.deletion is not None else memory._updated


def _report(
    hit: Hit, older: dict[str, str], allows: Callable[[str], bool] | None, left_out: Callable[[Hit, str, str], None]
) -> None:
    if is_settled(hit.record):
        left_out(hit, SETTLED, status_of(hit.record))
    elif hit.superseded_by is not None and _is_replaced(hit.superseded_by, allows):
        left_out(hit, SUPERSEDED, hit.superseded_by)
    elif hit.repeats_state:
        left_out(hit, REPEATS, describe_repeated(hit.repeats, hit.repeats_state))
    elif hit.record.ref in older:
        left_out(hit, OUTDATED, older[hit.record.ref])


def _is_replaced(ref: str | None, allows: Callable[[str], bool] | None) -> bool:
    return ref is not None and (allows is None or allows(ref.rpartition("/")[0]))


# -- the newer of two memories about the same thing

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
_LONGEST_VALUE_WORD = 6  # characters
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
        form = _numbers_apart(fact[1])[0]
        if form:
            forms.setdefault(form, []).append(fact)
    for group in forms.values():
        for (one, text), (other, other_text) in combinations(group, 2):
            if one.type == other.type and _differs_in_values(text, other_text):
                if _is_newer(one, other):
                    yield other, one
                elif _is_newer(other, one):
                    yield one, other


@lru_cache(4000)  # the same memories are found again and again
def _numbers_apart(text: str) -> tuple[str, list[str], list[str]]:
    """A text with each number as 0 (empty if it has none), its numbers, and what stands before each of them."""
    parts = _pattern(f"({_NUMBER})").split(text)
    between, numbers = parts[::2], parts[1::2]
    return "0".join(between).casefold() if numbers else "", numbers, between


def _differs_in_values(one: str, other: str) -> bool:
    """Whether two texts of one form differ in numbers that are values, and in no other, and name no times."""
    _, numbers, between = _numbers_apart(one)
    differs = False
    for place, (number, other_number) in enumerate(zip(numbers, _numbers_apart(other)[1], strict=True)):
        if number != other_number:
            if not _is_value(between[place], place):
                return False
            differs = True
    return differs and not any(map(_pattern(_TIMES, True).search, (one, other)))


def _is_value(before: str, place: int) -> bool:
    """Whether a number is a value, by the text between it and the one before it."""
    text = f"0{before}" if place else before
    return _pattern(_VALUE_BEFORE, True).search(text.rstrip()[-_LONGEST_VALUE_WORD - 1 :]) is not None


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
