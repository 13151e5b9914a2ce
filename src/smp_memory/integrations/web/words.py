"""Texts of pages: a memory in one line, times and sizes in words. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.lifecycle.transitions import PURGED
from smp_memory.model.record import name_and_content
from smp_memory.model.times import to_text

if TYPE_CHECKING:
    from datetime import date, datetime, timedelta

    from smp_memory.lifecycle.transitions import Transition
    from smp_memory.model.record import Record

_UNITS = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))


def line_of(record: Record) -> str:
    """The content of a memory as one line; of a preference with its key."""
    name, content = name_and_content(record)
    text = plain(content)
    return " ".join((f"{plain(name)}: {text}" if name else text).split())


def plain(value: Any) -> str:
    """A JSON value as text."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def ago(moment: datetime, now: datetime) -> str:
    """`3 days ago`, `in 2 hours`, `just now`."""
    seconds = (now - moment).total_seconds()
    if abs(seconds) < 60:
        return "just now"
    if seconds > 0:
        return f"{duration(seconds)} ago"
    return f"in {duration(59 - seconds)}"  # a deadline of 30 days that was just set is in 30 days


def duration(seconds: float | timedelta) -> str:
    """The largest unit: `3 days`."""
    total = seconds if isinstance(seconds, (int, float)) else seconds.total_seconds()
    for size, unit in _UNITS:
        if total >= size:
            return counted(int(total // size), unit)
    return "less than a minute"


def moment_text(moment: datetime) -> str:
    """`2026-11-17 15:04`, UTC."""
    return to_text(moment)[:16].replace("T", " ")


def counted(number: int, one: str, many: str = "") -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def size_text(count: float) -> str:
    """`4.1 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return ""


def date_text(moment: datetime | date, now: datetime) -> str:
    """`12 Dec`, with the year if it is another one than now."""
    year = f" {moment.year}" if moment.year != now.year else ""
    return f"{moment.day} {moment:%b}{year}"


def day_title(day: date) -> str:
    """`Tuesday, 17 November 2026`."""
    return f"{day:%A}, {day.day} {day:%B} {day.year}"


def next_step_text(step: Transition, now: datetime) -> str:
    """What happens to a session by itself: `idle in 21 hours unless used`, `archived on 12 Dec unless used`."""
    if step.when is None:
        return step.why
    if step.state == PURGED:
        return "purged at the next maintenance" if step.when <= now else f"purged from {date_text(step.when, now)} on"
    if step.when <= now:
        return f"{step.state} at the next maintenance, because it was {step.why}"
    is_near = (step.when - now).total_seconds() < 48 * 3600
    when = ago(step.when, now) if is_near else f"on {date_text(step.when, now)}"
    return f"{step.state} {when} unless used"
