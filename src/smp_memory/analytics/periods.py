"""Periods of equal length that end now, so that the last one is as long as the others. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.analytics.facts import DAY, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable

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
