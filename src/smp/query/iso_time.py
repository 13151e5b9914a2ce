"""Which stretch of time does an ISO date or time name? The written-out part of the grammar in `smp.query.time_phrase`.

Non-guarantees: what is no such date or time is a ValueError, or nothing.
"""

from __future__ import annotations

from datetime import date, datetime

from smp.query import calendar
from smp.query.calendar import HOUR, MINUTE, SECOND


class Stretch:
    """A time that was named, and the first word after its name."""

    __slots__ = ("after", "end", "next", "start")

    def __init__(self, start: int | None, end: int | None, next: int, after: int | None = None) -> None:
        self.start = start
        self.end = end
        self.next = next
        self.after = end if after is None else after  # where "after it" begins


def read_date(word: str, after: int) -> Stretch | None:
    """`2026-01`, `2026-q1`, `2026-01-05`, `20260105`, `2026-w03`."""
    year, _, rest = word.partition("-")
    if len(year) == 4 and year.isdecimal() and len(rest) == 2:
        if rest[0] == "q" and rest[1] in "1234":
            return Stretch(*calendar.months(int(year) * 12 + 3 * int(rest[1]) - 3, 3), after)
        if rest.isdecimal() and 1 <= int(rest) <= 12:
            return Stretch(*calendar.months(int(year) * 12 + int(rest) - 1), after)
        return None
    first = date.fromisoformat(_with_two_digits(word).upper()).toordinal()
    return Stretch(*calendar.days(first, 7 if "w" in word and word.count("-") < 2 else 1), after)


def _with_two_digits(word: str) -> str:
    """`2026-1-5` as `2026-01-05`."""
    return "-".join(part.zfill(2) if part.isdecimal() else part for part in word.split("-"))


def read_moment(word: str, after: int) -> Stretch:
    """A time of day; as a stretch it lasts as long as the smallest unit that was written."""
    found = datetime.fromisoformat(word.upper())
    start = calendar.to_microseconds(found)
    clock = word.partition("t")[2].rstrip("z").partition("+")[0].partition("-")[0]
    written = len(clock.partition(".")[0].replace(":", ""))
    unit = 1 if "." in clock or "," in clock else {2: HOUR, 4: MINUTE}.get(written, SECOND)
    return Stretch(start, start + unit, after, start + 1)
