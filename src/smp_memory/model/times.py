"""Times, their text, and the clock of a store. Times are UTC; in files and dictionaries they are ISO 8601 text ending in `Z`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from smp_memory.errors import InvalidConfig, InvalidRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


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
