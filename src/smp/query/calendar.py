"""Which stretch of time is a day, a month, a season? Counting in microseconds since 1970, UTC.

A stretch is half-open: its end is the first microsecond after it. Weeks begin on Monday. Seasons are those of the
northern half of the earth by whole months; a winter belongs to the year in which it begins.
Guarantees: whole numbers only, so the end of the year 9999 is as good as any other; a year below 1 or above 9999 is a
ValueError.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

MICROSECOND = 1
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
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


def to_microseconds(moment: datetime) -> int:
    """A moment as a number; without a zone it is UTC."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (aware - _EPOCH) // timedelta(microseconds=1)


def to_datetime(microseconds: int) -> datetime:
    """The moment of a number; what lies beyond the calendar's ends becomes its first or last moment."""
    inside = min(max(microseconds, FIRST), LAST - 1)
    return _EPOCH + timedelta(microseconds=inside)


def day_number(microseconds: int) -> int:
    """The day in which a moment lies, counted as `date.toordinal` does."""
    return microseconds // DAY + _EPOCH_DAY


def days(first: int, count: int = 1) -> tuple[int, int]:
    """Some days, from the one with this number on."""
    return (first - _EPOCH_DAY) * DAY, (first + count - _EPOCH_DAY) * DAY


def day(year: int, month: int, number: int) -> tuple[int, int]:
    return days(date(year, month, number).toordinal())


def month_number(microseconds: int) -> int:
    """The month in which a moment lies, counted from the year 0 on."""
    found = date.fromordinal(min(max(day_number(microseconds), 1), _DAYS))
    return found.year * 12 + found.month - 1


def months(first: int, count: int = 1) -> tuple[int, int]:
    """Some whole months, from the one with this number on."""
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
    """The same day of the month and time of day, some months earlier; the month's last day where it is shorter."""
    begin, end = months(month_number(microseconds) - count)
    since_month_began = microseconds - months(month_number(microseconds))[0]
    if begin + since_month_began < end:
        return begin + since_month_began
    return end - DAY + microseconds % DAY
