"""Convert times. Times are UTC; in files and dictionaries they are ISO 8601 text ending in `Z`."""

from __future__ import annotations

from datetime import UTC, datetime
from time import time_ns

from smp_memory.errors import InvalidRecord

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NS = 1_000_000_000
_last_second = (0, "")


def to_text(moment: datetime) -> str:
    """The text of a moment, with a fraction only where there is one."""
    return (moment if moment.tzinfo is UTC else moment.astimezone(UTC)).isoformat()[:-6] + "Z"  # without its +00:00


def to_moment(text: str) -> datetime:
    """Parse a text written by `to_text` or by hand; without a zone it is UTC."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is UTC:
        return moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


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


def system_text() -> str:
    """Fast `to_text(system_clock())`: caches the text of the current second, because writes often share one."""
    global _last_second  # noqa: PLW0603 - a cache of one; a lost race costs a text made again
    second, fraction = divmod(time_ns(), _NS)
    known, text = _last_second
    if known != second:
        text = to_text(datetime.fromtimestamp(second, UTC))[:-1]
        _last_second = (second, text)
    micros = fraction // 1000
    return f"{text}.{micros:06d}Z" if micros else f"{text}Z"
