"""Times, their text, and the clock of a store. Times are UTC; in files and dictionaries they are ISO 8601 text ending in `Z`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from smp_memory.errors import InvalidConfig, InvalidRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VALID_FROM, VALID_UNTIL = "valid_from", "valid_until"
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000  # microseconds
_LONGEST = 40  # characters of a time


def to_text(moment: datetime) -> str:
    """The text of a moment, with a fraction only where there is one."""
    return (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat()[:-6] + "Z"  # without its +00:00


def to_moment(text: str) -> datetime:
    """Parse a text written by `to_text` or by hand; without a zone it is UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is UTC:
        return moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def to_microseconds(moment: datetime) -> int:
    """A moment as microseconds since 1970 UTC; without a zone it is UTC."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (aware - EPOCH) // _MICROSECOND


def parse(value: object, field: str) -> str:
    """Validate a time given by a caller or read from a file; return its canonical text."""
    try:
        if isinstance(value, datetime):
            return to_text(value if value.tzinfo else value.replace(tzinfo=UTC))
        if isinstance(value, str):
            return to_text(to_moment(value.strip()))
    except (ValueError, OverflowError):
        pass
    raise InvalidRecord(
        f"{field}: not a time: {repr(value)[:80] if isinstance(value, str) else type(value).__name__}. Give an ISO 8601 time such as 2026-01-31T14:30:00Z.",
        field=field,
    )


# -- validity: the time in which a memory holds


def day_or_time(field: str, value: object) -> str:
    """Validate a day or a time; a day stays one, `2026-03-01`."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    day = _day(value)
    if day is not None:
        return day.isoformat()
    try:
        return parse(value, field)
    except InvalidRecord:
        given = repr(value)[:80] if isinstance(value, str) else type(value).__name__
        raise InvalidRecord(
            f"{field}: neither a day nor a time: {given}. Give 2026-03-01 or 2026-03-01T14:30:00Z.", field=field
        ) from None


def validity(data: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """From when and until when (excluded) a memory holds, in microseconds; None: no bound, or one that cannot be read.

    Days are days in UTC, and the day in `valid_until` is included.
    """
    return _bound(data.get(VALID_FROM), 0), _bound(data.get(VALID_UNTIL), _DAY)


def validity_text(data: Mapping[str, Any]) -> str:
    """`valid until 2026-03-01`; empty if a memory has no bounds that can be read."""
    bounds = zip(("from", "until"), (VALID_FROM, VALID_UNTIL), validity(data), strict=True)
    parts = [f"{word} {str(data[name]).strip()}" for word, name, bound in bounds if bound is not None]
    return f"valid {' '.join(parts)}" if parts else ""


def is_valid(data: Mapping[str, Any], at: int) -> bool:
    """Whether a memory with these fields holds at a time, in microseconds."""
    start, end = validity(data)
    return (start is None or start <= at) and (end is None or at < end)


def check_validity(data: Mapping[str, Any]) -> None:
    """Raise if a memory would never be valid."""
    start, end = validity(data)
    if start is not None and end is not None and start >= end:
        raise InvalidRecord(
            f"{VALID_UNTIL}: {data[VALID_UNTIL]} is not after {VALID_FROM}, {data[VALID_FROM]}.", field=VALID_UNTIL
        )


def _bound(value: object, length_of_day: int) -> int | None:
    if isinstance(value, datetime):  # a person's file may have one
        return to_microseconds(value)
    day = value if isinstance(value, date) else _day(value)
    if day is not None:
        return to_microseconds(datetime(day.year, day.month, day.day, tzinfo=UTC)) + length_of_day
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    try:
        return to_microseconds(to_moment(value.strip()))
    except (ValueError, OverflowError):
        return None


def _day(value: object) -> date | None:
    """A day, if the text is one without a time."""
    text = value.strip() if isinstance(value, str) else ""
    if len(text) not in (8, 10):  # 20260301, 2026-03-01, 2026-W09-7
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def system_clock() -> datetime:
    return datetime.now(UTC)


class Clock:
    """The store's clock; an aware datetime, or the same as files hold it."""

    __slots__ = ("source",)

    def __init__(self, source: Callable[[], datetime] | None = None) -> None:
        self.source = source or system_clock

    def now(self) -> datetime:
        moment = self.source()
        if moment.tzinfo is None:
            raise InvalidConfig("clock: must return a time with a time zone (an aware datetime).", field="clock")
        return moment

    def text(self) -> str:
        return to_text(self.now())


def later(moment: datetime, span: timedelta) -> datetime:
    """The sum, or the last possible datetime: a person may have typed the year 9999."""
    try:
        return moment + span
    except OverflowError:
        return datetime.max.replace(tzinfo=moment.tzinfo)


def latest(*moments: datetime | None) -> datetime | None:
    """The latest of these times; None if none is known."""
    return max((moment for moment in moments if moment is not None), default=None)
