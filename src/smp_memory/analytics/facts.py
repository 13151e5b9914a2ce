"""What the statistics know of one memory, their options, periods and the shapes that they share. Pure.

Times are integer microseconds since 1970 UTC, as in the index. A memory whose time cannot be read has `created` 0; it is
counted, but it is in no period, and says nothing about age. Periods have equal length and end now, so that
the last one is as long as the others. An error of an option names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import InvalidQuery
from smp_memory.model.times import EPOCH, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from smp_memory.search.time_ranges import Range


DAY = 86_400_000_000
_MAX_TEXT = 160


class MemoryFacts(NamedTuple):
    """One memory, without its content."""

    doc: int  # its place among those that were read
    session: str
    id: str
    type: str
    author: str  # empty: unknown
    created: int  # 0: unknown
    pinned: bool = False
    uses: int = 0
    last_use: int | None = None

    @property
    def ref(self) -> str:
        return f"{self.session}/{self.id}"

    @property
    def is_used(self) -> bool:
        return self.uses > 0


def moment_of(microseconds: int | None) -> datetime | None:
    """The time; None for an unknown one, and for one beyond the year 9999."""
    if not microseconds:
        return None
    from datetime import timedelta

    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def time_text(microseconds: int | None) -> str | None:
    moment = moment_of(microseconds)
    return None if moment is None else to_text(moment)


def brief(text: str, longest: int = _MAX_TEXT) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text[: longest * 4].split())
    return line if len(line) <= longest and len(text) <= longest * 4 else line[: longest - 1] + "…"


def dicts(values: Iterable[Any]) -> list[dict[str, Any]]:
    return [each.to_dict() for each in values]


def memories(number: int) -> str:
    return "1 memory" if number == 1 else f"{number:,} memories"


MAX_DAYS = 36_500


# -- options


class AnalyticsOptions(NamedTuple):
    """The checked options of `Memory.analytics`."""

    range: Range | None
    by: str
    periods: int
    limit: int
    threshold: float


def one_of(field: str, value: Any, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise InvalidQuery(f"{field}: must be one of {', '.join(allowed)}, not {repr(value)[:80]}.", field=field)
    return str(value)


def whole_number(field: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidQuery(
            f"{field}: must be a whole number from {least} to {most}, not {repr(value)[:80]}.", field=field
        )
    return value


def number_of_days(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_DAYS:
        raise InvalidQuery(
            f"{field}: must be a number above 0 and at most {MAX_DAYS}, not {repr(value)[:80]}.", field=field
        )
    return float(value)


def share(field: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidQuery(f"{field}: must be a number from 0 to 1, not {repr(value)[:80]}.", field=field)
    return float(value)


def session_names(sessions: Any) -> list[str]:
    given = [sessions] if isinstance(sessions, str) else sessions
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise InvalidQuery(f"sessions: must be the ids of sessions, not {repr(sessions)[:80]}.", field="sessions")
    return list(dict.fromkeys(given))


# -- periods

LENGTHS = {"day": 1, "week": 7, "month": 30}  # days


class Periods:
    """So many days, weeks of 7 days or months of 30 days, oldest first; the last one ends at `now`."""

    __slots__ = ("by", "count", "end", "length", "start")

    def __init__(self, now: int, by: str = "week", count: int = 12) -> None:
        self.by = by
        self.count = count
        self.length = LENGTHS[by] * DAY
        self.end = now + 1  # what happened now is in the last one
        self.start = self.end - count * self.length

    @property
    def starts(self) -> list[int]:
        return [self.start + number * self.length for number in range(self.count)]

    def number(self, time: int) -> int | None:
        """The number of the period of a time; None outside of them."""
        return (time - self.start) // self.length if self.start <= time < self.end else None

    def counts(self, times: Iterable[int]) -> list[int]:
        """How many of these times are in each period."""
        found = [0] * self.count
        for time in times:
            number = self.number(time)
            if number is not None:
                found[number] += 1
        return found

    def to_dict(self) -> dict[str, Any]:
        return {"by": self.by, "days": LENGTHS[self.by], "starts": [time_text(start) for start in self.starts]}
