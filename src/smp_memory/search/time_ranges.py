"""Which time is asked for? Ranges of time from what people, agents and programs say.

`parse_range("last 24 hours", now)` reads one range: `today`, `yesterday`, `last 3 days`, `past week`, `this month`,
`since monday`, `before 2026-01-05`, `2026-01`, `January 2026`, `last March`, `two weeks ago`, `2026-01-05..2026-01-10`,
`between May and July 2023`, ISO times; also pairs, dictionaries, datetimes and durations. `find_ranges(question, now)`
finds the times that a longer question names. The grammar itself is in `smp_memory.search.time_grammar`.

Guarantees:
- A range is half-open and in UTC. An end is part of it in the unit in which it is written: `..2026-01-10` includes the
  10th, `end: "23:59:59"` that second, a datetime its microsecond. `before` and `after` leave out what they name.
- "last 3 days" and "past week" reach up to now, and so do "last hour", "last day" and "last week" (design 004 §4.3);
  "last month", "last year", "previous week" are the whole ones before this, "the last month" reaches up to now.
  "two weeks ago" is the week around that day.
- What has no year of its own is the most recent one that has begun.
- `parse_range` raises `InvalidQuery` that names the part it cannot read; `find_ranges` never fails.
Non-guarantees: days begin at midnight UTC, wherever the asker lives; only English words are understood.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

from smp_memory.errors import InvalidQuery
from smp_memory.model.times import to_text
from smp_memory.search.calendar import FIRST, HINTS, LAST, Stretch, days, first_unknown, to_datetime, to_microseconds
from smp_memory.search.time_grammar import Phrase

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
_MARKS = " \t\n,.;:!?()[]{}\"'“”‘’`*…"
_LONGEST_QUESTION = 4000  # characters; a whole document handed in as a question names its time early or not at all
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


def parse_range(asked: Any, now: datetime | int, *, field: str = "time") -> Range:
    """The range that `asked` means: text, a pair, a dictionary with start and end, a datetime (since then), a date (that
    day), a timedelta (the last so much)."""
    present = now if isinstance(now, int) else to_microseconds(now)
    if asked is None or isinstance(asked, Range):
        return asked or Range(None, None)
    if isinstance(asked, str):
        return _range_of_text(asked, present, field)
    if isinstance(asked, dict) or hasattr(asked, "keys"):
        return _range_of_mapping(asked, present, field)
    if isinstance(asked, list | tuple) and len(asked) == 2:
        return _between(("since", asked[0]), ("until", asked[1]), present, field)
    if isinstance(asked, timedelta):
        return _between(("since", asked), ("until", timedelta()), present, field)
    if isinstance(asked, datetime):
        return Range(to_microseconds(asked), None)
    if isinstance(asked, date):
        return Range(*days(asked.toordinal()))
    _refuse(field, asked, "give text, a pair of start and end, or a dictionary with start and end")


def find_ranges(text: str, now: datetime | int) -> list[Range]:
    """The times that a question names, in its order. May be wrong about them: for a bonus, not for a filter."""
    raw = text[:_LONGEST_QUESTION].split()
    words = _words(raw)
    if HINTS.isdisjoint(words) and not _has_digit(words):
        return []
    present = now if isinstance(now, int) else to_microseconds(now)
    phrase = Phrase(words, present, [word.lstrip(_MARKS) for word in raw])
    found: list[Range] = []
    at = 0
    while at < len(words):
        stretch = phrase.range_at(at)
        if stretch is None:
            at += 1
            continue
        at = stretch.next
        _add(found, _inside_the_calendar(stretch))
    return found


def _add(found: list[Range], new: Range) -> None:
    empty = new.start is not None and new.end is not None and new.start >= new.end
    if not empty and new not in found:
        found.append(new)


def _has_digit(words: list[str]) -> bool:
    return any(word[:1].isdigit() for word in words)


def _words(raw: list[str]) -> list[str]:
    words = [word.lower().strip(_MARKS) for word in raw]
    return [word[:-2] if word[-2:] in ("'s", "’s") else word for word in words]


# -- text


def _range_of_text(text: str, now: int, field: str) -> Range:
    words = _words(_spelled_out(text).split())
    if not any(words):
        _refuse(field, text, "it is empty")
    phrase = Phrase([word for word in words if word], now)
    stretch = phrase.range_at(0)
    if stretch is None or stretch.next < len(phrase.words):
        part = first_unknown(phrase.words) or " ".join(phrase.words[stretch.next if stretch else 0 :])
        _refuse(field, text, f"'{part[:60]}' is not understood")
    return _checked(_inside_the_calendar(stretch), text, field)


def _spelled_out(text: str) -> str:
    """Two dots, or the stroke of an ISO interval, in words."""
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


def _range_of_mapping(asked: Mapping[str, Any], now: int, field: str) -> Range:
    keys = set(asked)
    for first, second in _PAIRS:
        if keys and keys <= {first, second}:
            start = (_EDGE_OF.get(first, first), asked.get(first))
            return _between(start, (_EDGE_OF.get(second, second), asked.get(second)), now, field)
    allowed = ", or ".join(f"{first} and {second}" for first, second in _PAIRS)
    _refuse(field, asked, f"a dictionary needs {allowed}")


def _between(start: tuple[str, Any], end: tuple[str, Any], now: int, field: str) -> Range:
    first, second = _edge(*start, now, field), _edge(*end, now, field)
    return _checked(Range(first.start, second.end), (start[1], end[1]), field)


def _edge(edge: str, asked: Any, now: int, field: str) -> Range:
    """One side of a range, as a range that is open on the other side."""
    if asked is None:
        return Range(None, None)
    if isinstance(asked, str):
        return _range_of_text(f"{edge} {asked}", now, field)
    if isinstance(asked, datetime):
        start = to_microseconds(asked)
        end = start + 1
    elif isinstance(asked, date):
        start, end = days(asked.toordinal())
    elif isinstance(asked, timedelta) and asked >= timedelta():
        start = now - asked // timedelta(microseconds=1)
        end = start + 1
    else:
        _refuse(field, asked, "a start or end is text, a datetime, a date, a timedelta above 0 or None")
    return {
        "since": Range(start, None),
        "after": Range(end, None),
        "until": Range(None, end),
        "before": Range(None, start),
    }[edge]


def _inside_the_calendar(stretch: Stretch) -> Range:
    start, end = stretch.start, stretch.end
    return Range(None if start is None or start < FIRST else start, None if end is None or end > LAST else end)


def _checked(found: Range, asked: Any, field: str) -> Range:
    if found.start is not None and found.end is not None and found.start >= found.end:
        _refuse(field, asked, "it ends before it begins")
    return found


def _refuse(field: str, asked: Any, why: str) -> NoReturn:
    shown = f"'{asked[:80]}'" if isinstance(asked, str) else repr(asked)[:80]
    raise InvalidQuery(
        f"{field}: cannot read {shown} as a time: {why}. Write for example: {', '.join(EXAMPLES)}.",
        field=field,
        part=shown,
    )
