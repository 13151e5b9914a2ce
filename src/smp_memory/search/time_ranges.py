"""Time ranges of queries, from text, pairs, dictionaries, datetimes and durations.

`parse_range("last 24 hours", now)` reads one range: `today`, `yesterday`, `last 3 days`, `past week`, `this month`,
`since monday`, `before 2026-01-05`, `2026-01`, `January 2026`, `last March`, `two weeks ago`,
`2026-01-05..2026-01-10`, `between May and July 2023`, ISO times. `find_ranges(text, now)` finds the times that a
longer text names. The grammar is in `smp_memory.search.time_grammar`.

Guarantees:
- A range is half-open and in UTC. Its end includes the unit in which it is written: `..2026-01-10` includes the 10th,
  `end: "23:59:59"` that second, a datetime its microsecond. `before` and `after` exclude the time they name.
- "last 3 days" and "past week" reach up to now, and so do "last hour", "last day" and "last week" (as in design 004);
  "last month", "last year", "previous week" are the whole ones before this, "the last month" reaches up to now.
  "two weeks ago" is the week around that day.
- A time without a year is the most recent one that has begun.
- `parse_range` raises `InvalidQuery` that names the part it cannot read; `find_ranges` never fails.
Non-guarantees: days begin at midnight UTC, whatever the user's time zone; only English words are understood.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

from smp_memory.errors import InvalidQuery
from smp_memory.model.times import to_microseconds, to_text
from smp_memory.search.calendar import FIRST, HINTS, LAST, ParsedSpan, days, first_unknown, to_datetime
from smp_memory.search.time_grammar import TimePhrase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

EXAMPLES = (
    "last 24 hours",
    "yesterday",
    "since monday",
    "2026-01",
    "January 2026",
    "2026-01-05..2026-01-10",
    "two weeks ago",
)
_PUNCTUATION = " \t\n,.;:!?()[]{}\"'“”‘’`*…"
_MAX_CHARACTERS = 4000  # of a text; a whole document given as a query names its time early or not at all
_PAIRS = (("start", "end"), ("after", "before"), ("since", "until"), ("from", "to"))
_EDGE_OF = {"start": "since", "end": "until", "from": "since", "to": "until"}


class Range:
    """From `start` up to, but not including, `end`: microseconds since 1970 UTC, None where it is open."""

    __slots__ = ("end", "start")

    def __init__(self, start: int | None, end: int | None) -> None:
        self.start = start
        self.end = end

    def contains(self, microseconds: int) -> bool:
        return (self.start is None or self.start <= microseconds) and (self.end is None or microseconds < self.end)

    @property
    def start_time(self) -> datetime | None:
        return None if self.start is None else to_datetime(self.start)

    @property
    def end_time(self) -> datetime | None:
        return None if self.end is None else to_datetime(self.end)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __str__(self) -> str:
        start, end = self.start_time, self.end_time
        return f"{to_text(start) if start else ''}..{to_text(end) if end else ''}"

    def __repr__(self) -> str:
        return f"Range({self})"


def parse_range(value: Any, now: datetime | int, *, field: str = "time") -> Range:
    """The range for text, a pair, a dictionary with start and end, a datetime (since then), a date (that day) or a
    timedelta (that long until now)."""
    now_us = now if isinstance(now, int) else to_microseconds(now)
    if value is None or isinstance(value, Range):
        return value or Range(None, None)
    if isinstance(value, str):
        return _range_of_text(value, now_us, field)
    if isinstance(value, dict) or hasattr(value, "keys"):
        return _range_of_mapping(value, now_us, field)
    if isinstance(value, list | tuple) and len(value) == 2:
        return _between(("since", value[0]), ("until", value[1]), now_us, field)
    if isinstance(value, timedelta):
        return _between(("since", value), ("until", timedelta()), now_us, field)
    if isinstance(value, datetime):
        return Range(to_microseconds(value), None)
    if isinstance(value, date):
        return Range(*days(value.toordinal()))
    _reject(field, value, "give text, a pair of start and end, or a dictionary with start and end")


def find_ranges(text: str, now: datetime | int) -> list[Range]:
    """The times that a text names, in order of appearance. They may be wrong: use them for ranking, not as a filter."""
    raw = text[:_MAX_CHARACTERS].split()
    words = _words(raw)
    if HINTS.isdisjoint(words) and not _has_digit(words):
        return []
    now_us = now if isinstance(now, int) else to_microseconds(now)
    phrase = TimePhrase(words, now_us, [word.lstrip(_PUNCTUATION) for word in raw])
    found: list[Range] = []
    at = 0
    while at < len(words):
        span = phrase.range_at(at)
        if span is None:
            at += 1
            continue
        at = span.next
        _add(found, _clamped(span))
    return found


def _add(found: list[Range], new: Range) -> None:
    empty = new.start is not None and new.end is not None and new.start >= new.end
    if not empty and new not in found:
        found.append(new)


def _has_digit(words: list[str]) -> bool:
    return any(word[:1].isdigit() for word in words)


def _words(raw: list[str]) -> list[str]:
    words = [word.lower().strip(_PUNCTUATION) for word in raw]
    return [word[:-2] if word[-2:] in ("'s", "’s") else word for word in words]


# -- text


def _range_of_text(text: str, now: int, field: str) -> Range:
    words = _words(_spelled_out(text).split())
    if not any(words):
        _reject(field, text, "it is empty")
    phrase = TimePhrase([word for word in words if word], now)
    span = phrase.range_at(0)
    if span is None or span.next < len(phrase.words):
        part = first_unknown(phrase.words) or " ".join(phrase.words[span.next if span else 0 :])
        _reject(field, text, f"'{part[:60]}' is not understood")
    return _checked(_clamped(span), text, field)


def _spelled_out(text: str) -> str:
    """The text with two dots, or the slash of an ISO interval, replaced by words."""
    first, dots, second = text.partition("..")
    if not dots and text.count("/") == 1 and text.partition("/")[0].count("-") and text.partition("/")[2].count("-"):
        first, dots, second = text.partition("/")
    first, second = first.strip(), second.strip(" .")
    if not dots or not (first or second):
        return text
    if first and second:
        return f"between {first} and {second}"
    return f"since {first}" if first else f"until {second}"


# -- pairs and dictionaries


def _range_of_mapping(value: Mapping[str, Any], now: int, field: str) -> Range:
    keys = set(value)
    for first, second in _PAIRS:
        if keys and keys <= {first, second}:
            start = (_EDGE_OF.get(first, first), value.get(first))
            return _between(start, (_EDGE_OF.get(second, second), value.get(second)), now, field)
    allowed = ", or ".join(f"{first} and {second}" for first, second in _PAIRS)
    _reject(field, value, f"a dictionary needs {allowed}")


def _between(start: tuple[str, Any], end: tuple[str, Any], now: int, field: str) -> Range:
    first, second = _edge(*start, now, field), _edge(*end, now, field)
    return _checked(Range(first.start, second.end), (start[1], end[1]), field)


def _edge(edge: str, value: Any, now: int, field: str) -> Range:
    """One bound as a range that is open on the other side."""
    if value is None:
        return Range(None, None)
    if isinstance(value, str):
        return _range_of_text(f"{edge} {value}", now, field)
    if isinstance(value, datetime):
        start = to_microseconds(value)
        end = start + 1
    elif isinstance(value, date):
        start, end = days(value.toordinal())
    elif isinstance(value, timedelta) and value >= timedelta():
        start = now - value // timedelta(microseconds=1)
        end = start + 1
    else:
        _reject(field, value, "a start or end is text, a datetime, a date, a timedelta above 0 or None")
    return {
        "since": Range(start, None),
        "after": Range(end, None),
        "until": Range(None, end),
        "before": Range(None, start),
    }[edge]


def _clamped(span: ParsedSpan) -> Range:
    start, end = span.start, span.end
    return Range(None if start is None or start < FIRST else start, None if end is None or end > LAST else end)


def _checked(found: Range, value: Any, field: str) -> Range:
    if found.start is not None and found.end is not None and found.start >= found.end:
        _reject(field, value, "it ends before it begins")
    return found


def _reject(field: str, value: Any, why: str) -> NoReturn:
    quoted = f"'{value[:80]}'" if isinstance(value, str) else repr(value)[:80]
    raise InvalidQuery(
        f"{field}: cannot read {quoted} as a time: {why}. Write for example: {', '.join(EXAMPLES)}.",
        field=field,
        part=quoted,
    )
