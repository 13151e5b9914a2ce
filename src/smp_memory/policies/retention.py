"""Which memories have been kept long enough? Days by type, as 001 §7.3 states them; pinned and open ones are exempt.

    conversation 90 · finding 180 · decision 365 · preference 730 · all other types without limit

Days count from the last change, not from the last reading: what a person corrected yesterday is not old. Open means
that somebody still has to act: a finding that is not settled, a decision that is pending or proposed. A decision that
is merely active, as all are at first, is kept its 365 days; 001 gives decisions a limit, and without this none would
ever reach it.

Guarantees: pure; what is in the trash is never due again; nothing is due while the clock cannot be trusted
(`lifecycle.clock`). What is due goes to the trash with the reason given here, from which it can be restored.
`upcoming` says what will be due soon, so that nothing goes unannounced.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.policies.clock_trust import NO_EVIDENCE, Evidence, distrust, later
from smp_memory.policies.statuses import is_waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from smp_memory.model.record import Record

DAYS: dict[str, int | None] = {"conversation": 90, "decision": 365, "finding": 180, "preference": 730}


class Expiry(NamedTuple):
    """A memory whose time has come, or will."""

    id: str
    session: str
    type: str
    due: datetime
    why: str

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "due": self.due.isoformat().replace("+00:00", "Z")}


def days_of(settings: Mapping[str, Any] | None = None) -> dict[str, int | None]:
    """Days by type from the section `retention.days` of the settings; 0 or None means for ever."""
    return {type: days or None for type, days in {**DAYS, **(settings or {})}.items()}


def due(
    records: Iterable[Record],
    now: datetime,
    settings: Mapping[str, Any] | None = None,
    evidence: Evidence = NO_EVIDENCE,
) -> list[Expiry]:
    """What has been kept long enough, the longest overdue first."""
    if distrust(now, evidence):
        return []
    return [expiry for expiry in _expiries(records, days_of(settings)) if expiry.due <= now]


def upcoming(
    records: Iterable[Record], now: datetime, within: timedelta, settings: Mapping[str, Any] | None = None
) -> list[Expiry]:
    """What is not due yet but will be within this time, the next one first."""
    limit = later(now, within)
    return [expiry for expiry in _expiries(records, days_of(settings)) if now < expiry.due <= limit]


def exempt_because(record: Record) -> str:
    """Why a memory is kept whatever its age; empty if it is not."""
    if record.deleted:
        return "already in the trash"
    if record.pinned:
        return "pinned"
    return "still open" if is_waiting(record) else ""


def _expiries(records: Iterable[Record], days: Mapping[str, int | None]) -> list[Expiry]:
    found = [_expiry(record, limit) for record in records if (limit := days.get(record.type)) is not None]
    return sorted((expiry for expiry in found if expiry is not None), key=lambda expiry: (expiry.due, expiry.id))


def _expiry(record: Record, days: int) -> Expiry | None:
    if exempt_because(record):
        return None
    when = later(max(record.created, record.updated), timedelta(days=days))
    return Expiry(record.id, record.session, record.type, when, f"retention: kept for {days} days")
