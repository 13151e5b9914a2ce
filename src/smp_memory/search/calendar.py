"""Calendar arithmetic and vocabulary for time phrases: days, months, seasons, ISO dates, units and their names.

Times are microseconds since 1970 UTC. A span is half-open: its end is the first microsecond after it. Weeks begin on
Monday. Seasons are those of the northern hemisphere by whole months; a winter belongs to the year in which it begins.

Guarantees: integers only, so the end of the year 9999 is computed like any other; a year below 1 or above 9999 is a
ValueError.
Non-guarantees: text that is not an ISO date or time is a ValueError, or None.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

from smp_memory.model.times import EPOCH, to_microseconds

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

_EPOCH_DAY = EPOCH.toordinal()
_DAYS = date.max.toordinal()
FIRST = (1 - _EPOCH_DAY) * DAY  # the beginning of the year 1
LAST = (_DAYS + 1 - _EPOCH_DAY) * DAY  # the end of the year 9999

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan"),
            ("february", "feb"),
            ("march", "mar"),
            ("april", "apr"),
            ("may",),
            ("june", "jun"),
            ("july", "jul"),
            ("august", "aug"),
            ("september", "sep", "sept"),
            ("october", "oct"),
            ("november", "nov"),
            ("december", "dec"),
        ),
        1,
    )
    for name in names
}
WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            ("monday", "mon"),
            ("tuesday", "tue", "tues"),
            ("wednesday", "wed"),
            ("thursday", "thu", "thur", "thurs"),
            ("friday", "fri"),
            ("saturday", "sat"),
            ("sunday", "sun"),
        )
    )
    for name in names
}
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # the month in which it begins


def to_datetime(microseconds: int) -> datetime:
    """The datetime of a number of microseconds, clamped to the years 1 to 9999."""
    inside = min(max(microseconds, FIRST), LAST - 1)
    return EPOCH + timedelta(microseconds=inside)


def day_number(microseconds: int) -> int:
    """The day in which a moment lies, counted as `date.toordinal` does."""
    return microseconds // DAY + _EPOCH_DAY


def days(first: int, count: int = 1) -> tuple[int, int]:
    """The span of `count` days from the one with this number."""
    return (first - _EPOCH_DAY) * DAY, (first + count - _EPOCH_DAY) * DAY


def day(year: int, month: int, number: int) -> tuple[int, int]:
    return days(date(year, month, number).toordinal())


def month_number(microseconds: int) -> int:
    """The month in which a moment lies, counted from the year 0 on."""
    found = date.fromordinal(min(max(day_number(microseconds), 1), _DAYS))
    return found.year * 12 + found.month - 1


def months(first: int, count: int = 1) -> tuple[int, int]:
    """The span of `count` whole months from the one with this number."""
    return _month_begins(first), _month_begins(first + count)


def _month_begins(number: int) -> int:
    year, month = divmod(number, 12)
    if (year, month) == (date.max.year + 1, 0):
        return LAST
    return day(year, month + 1, 1)[0]


def week_begins(microseconds: int) -> int:
    """The number of the Monday of the week in which a moment lies."""
    number = day_number(microseconds)
    return number - (number - 1) % 7


def months_before(microseconds: int, count: int) -> int:
    """The same day of the month and time of day, `count` months earlier; the month's last day if it is shorter."""
    begin, end = months(month_number(microseconds) - count)
    since_month_began = microseconds - months(month_number(microseconds))[0]
    if begin + since_month_began < end:
        return begin + since_month_began
    return end - DAY + microseconds % DAY


class ParsedSpan:
    """A parsed time span, and the index of the first word after it."""

    __slots__ = ("after", "end", "next", "start")

    def __init__(self, start: int | None, end: int | None, next: int, after: int | None = None) -> None:
        self.start = start
        self.end = end
        self.next = next
        self.after = end if after is None else after  # where the time "after" it begins


def read_date(word: str, after: int) -> ParsedSpan | None:
    """`2026-01`, `2026-q1`, `2026-01-05`, `20260105`, `2026-w03`."""
    year, _, rest = word.partition("-")
    if len(year) == 4 and year.isdecimal() and len(rest) == 2:
        if rest[0] == "q" and rest[1] in "1234":
            return ParsedSpan(*months(int(year) * 12 + 3 * int(rest[1]) - 3, 3), after)
        if rest.isdecimal() and 1 <= int(rest) <= 12:
            return ParsedSpan(*months(int(year) * 12 + int(rest) - 1), after)
        return None
    first = date.fromisoformat(_with_two_digits(word).upper()).toordinal()
    return ParsedSpan(*days(first, 7 if "w" in word and word.count("-") < 2 else 1), after)


def _with_two_digits(word: str) -> str:
    """`2026-1-5` as `2026-01-05`."""
    return "-".join(part.zfill(2) if part.isdecimal() else part for part in word.split("-"))


def read_moment(word: str, after: int) -> ParsedSpan:
    """A date and time; the span is as long as the smallest unit that was written."""
    found = datetime.fromisoformat(word.upper())
    start = to_microseconds(found)
    clock = word.partition("t")[2].rstrip("z").partition("+")[0].partition("-")[0]
    written = len(clock.partition(".")[0].replace(":", ""))
    unit = 1 if "." in clock or "," in clock else {2: HOUR, 4: MINUTE}.get(written, SECOND)
    return ParsedSpan(start, start + unit, after, start + 1)


UNITS = {"second": SECOND, "minute": MINUTE, "hour": HOUR, "day": DAY, "week": WEEK, "fortnight": 2 * WEEK}
UNITS_IN_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
SHORT_UNITS = {
    short: unit
    for unit, shorts in (("second", "s sec"), ("minute", "m min"), ("hour", "h hr"), ("day", "d"), ("week", "w wk"),
                         ("month", "mo"), ("quarter", "q"), ("year", "y yr"))
    for short in shorts.split()
}  # fmt: skip
NUMBERS = {
    word: number
    for number, words in enumerate(
        ("one a an", "two couple", "three few", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        1,
    )
    for word in words.split()
}  # fmt: skip
LEADING_WORDS = frozenset(("in", "on", "at", "during", "within", "over", "the", "of", "early", "late", "mid"))
RANGE_WORDS = frozenset(("to", "until", "till", "through", "-", "–", "—"))
WORDS_BEFORE_TIMES = frozenset(("in", "of", "last", "this", "since", "before", "after", "until", "during", "by", "early", "late", "mid", "between", "past"))  # fmt: skip
AMBIGUOUS_MONTHS = frozenset(("may", "march", "april", "june", "august"))  # verbs, and names of people
FIRST_YEAR_IN_FREE_TEXT = 1970
MAX_DIGITS = 6

HINTS = frozenset(
    (
        "today",
        "yesterday",
        "ago",
        "weekend",
        "night",
        *UNITS,
        *UNITS_IN_MONTHS,
        *(unit + "s" for unit in (*UNITS, *UNITS_IN_MONTHS)),
        *MONTHS,
        *(name for name in WEEKDAYS if name.endswith("day")),
        *SEASONS,
    )
)  # a text without any of these and without a digit names no time


_VOCABULARY = HINTS.union(
    (*NUMBERS, *LEADING_WORDS, *RANGE_WORDS, *SHORT_UNITS, *WEEKDAYS),
    ("between", "and", "from", "since", "after", "before", "by", "up", "now", "last", "past", "previous", "this", "current"),
)  # fmt: skip
DAYS_AROUND = {"day": 0, "week": 3, "fortnight": 7, "month": 15, "quarter": 45, "year": 182, "decade": 1826}
EDGES = {"since": "since", "after": "after", "before": "before", "until": "until", "till": "until", "through": "until", "by": "until", "to": "until"}  # fmt: skip


def first_unknown(words: list[str]) -> str:
    """The first word that is not in the vocabulary; empty if all are, and only their order is wrong."""
    return next((word for word in words if word not in _VOCABULARY and not word[:1].isdigit()), "")


def unit_of(word: str) -> str:
    for name in (word, word[:-1] if word.endswith("s") else word):
        if name in UNITS or name in UNITS_IN_MONTHS:
            return name
        if name in SHORT_UNITS:
            return SHORT_UNITS[name]
    return ""
