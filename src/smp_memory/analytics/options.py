"""The options of the statistics, and their checks. An error names the option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.forecast import MAX_DAYS
from smp_memory.errors import InvalidQuery

if TYPE_CHECKING:
    from smp_memory.search.time_ranges import Range


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
