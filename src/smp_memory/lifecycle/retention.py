"""Which memories compaction must keep, and which have expired.

Kept by compaction (design 003):

| never removed | always preserved | besides |
|---|---|---|
| active decisions | priority above 0.7 | what a never-removed or pinned memory refers to: its evidence |
| open findings | pinned | importance of 0.9 or more: its author said that it matters |
| explicit preferences | used in the last 48 hours | an agent's current state; only its history may go |
| the last 24 hours of conversation | | summaries: they replace what was removed before |

Deleted memories are kept too; their purge frees the space. A change, or being written, counts as use. Each reason is
a short text, the first that applies in the order above.

Expired: days by type as in design 001; pinned and unresolved memories are exempt.

    conversation 90 · finding 180 · decision 365 · preference 730 · all other types without limit

Days count from the last change, not from the last reading: what a person corrected yesterday is not old. Unresolved
means that somebody still has to act: a finding that is not settled, a decision that is pending or proposed. A
decision that is merely active, as all are at first, is kept its 365 days; the design gives decisions a limit, and
otherwise none would ever reach it.

Guarantees: pure; deleted memories never expire again; nothing expires while the clock cannot be trusted
(`lifecycle.clock_trust`). Expired memories go to the trash with the reason given here, and can be restored from it.
`upcoming` tells what will expire soon, so that nothing goes unannounced.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.lifecycle.clock_trust import NO_EVIDENCE, Evidence, distrust
from smp_memory.model.statuses import (
    evidence_ids,
    is_active_decision,
    is_explicit_preference,
    is_open,
    is_unresolved,
    superseded_ids,
)
from smp_memory.model.times import later
from smp_memory.model.types import ACTIVE, ALWAYS, EXPLICIT, KINDS, OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from smp_memory.model.record import Record


class WeighedMemory:
    """A memory with the figures that planning needs."""

    __slots__ = (
        "created",
        "history_bytes",
        "last_access",
        "priority",
        "priority_without_floor",
        "record",
        "size_bytes",
        "updated",
    )

    def __init__(
        self,
        record: Record,
        size_bytes: int,  # all its entries in the session's files
        priority: float,
        last_access: datetime | None = None,
        history_bytes: int = 0,  # of these, entries that a later one has superseded
        priority_without_floor: float | None = None,
    ) -> None:
        self.record = record
        self.size_bytes = size_bytes
        self.priority = priority
        self.priority_without_floor = priority if priority_without_floor is None else priority_without_floor
        self.last_access = last_access
        self.history_bytes = history_bytes
        self.created = record.created  # a record parses its times at each access, and plans read them often
        self.updated = record.updated


class PreservationRules(NamedTuple):
    """What compaction may take and what it must keep; the section `compaction` of the settings."""

    decayed_below: float = 0.3
    old_turns: timedelta = timedelta(days=7)
    recent_turns: timedelta = timedelta(hours=24)
    recent_use: timedelta = timedelta(hours=48)
    preserved_priority: float = 0.7
    preserved_importance: float = 0.9
    keep_referenced: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> PreservationRules:
        return cls(
            settings.get("faded_below", 0.3),
            timedelta(days=settings.get("old_turns_days", 7)),
            timedelta(hours=settings.get("keep_turns_hours", 24)),
            timedelta(hours=settings.get("keep_used_hours", 48)),
            settings.get("keep_priority", 0.7),
            settings.get("keep_importance", 0.9),
            settings.get("keep_referenced", True),
        )


DEFAULT_RULES = PreservationRules()

IN_TRASH = "in the trash"
PINNED = "pinned"
RECENT_TURN = "recent conversation"
RECENTLY_USED = "used recently"
HIGH_PRIORITY = "high priority"
IMPORTANT = "important"
EVIDENCE = "evidence of a memory that is kept"
_KEPT_WITH_EVIDENCE = (OPEN, ACTIVE, EXPLICIT)


def preserved(
    memories: Sequence[WeighedMemory], now: datetime, rules: PreservationRules = DEFAULT_RULES
) -> dict[str, str]:
    """The reason for each memory that must be kept, by id."""
    superseded = superseded_ids(weighed.record for weighed in memories if KINDS[weighed.record.type].keeps == ACTIVE)
    reasons = {}
    evidence: set[str] = set()
    for weighed in memories:
        reason = _own_reason(weighed, now, rules, superseded)
        if reason:
            reasons[weighed.record.id] = reason
        if rules.keep_referenced and (reason == PINNED or (reason and reason == _reason_with_evidence(weighed.record))):
            evidence.update(evidence_ids(weighed.record))
    for weighed in memories:
        if weighed.record.id in evidence:
            reasons.setdefault(weighed.record.id, EVIDENCE)
    return reasons


def _own_reason(weighed: WeighedMemory, now: datetime, rules: PreservationRules, superseded: frozenset[str]) -> str:
    record = weighed.record
    if record.deleted:
        return IN_TRASH
    if record.pinned:
        return PINNED
    return _reason_by_type(record, superseded) or _reason_by_use(weighed, now, rules)


def _reason_by_type(record: Record, superseded: frozenset[str]) -> str:
    kind = KINDS[record.type]
    if kind.keeps == OPEN:
        is_kept = is_open(record)
    elif kind.keeps == ACTIVE:
        is_kept = is_active_decision(record, superseded)
    elif kind.keeps == EXPLICIT:
        is_kept = is_explicit_preference(record)
    else:
        is_kept = kind.keeps == ALWAYS
    return kind.kept_because if is_kept else ""


def _reason_with_evidence(record: Record) -> str:
    """The reason of its type for which what it refers to is kept, too."""
    kind = KINDS[record.type]
    return kind.kept_because if kind.keeps in _KEPT_WITH_EVIDENCE else ""


def _reason_by_use(weighed: WeighedMemory, now: datetime, rules: PreservationRules) -> str:
    record, used = weighed.record, weighed.last_access
    if KINDS[record.type].is_turn and now - weighed.created < rules.recent_turns:
        return RECENT_TURN
    if now - (weighed.updated if used is None else max(weighed.updated, used)) < rules.recent_use:
        return RECENTLY_USED
    if weighed.priority > rules.preserved_priority:
        return HIGH_PRIORITY
    importance = record.given.get("importance")
    if not isinstance(importance, int | float) or isinstance(importance, bool):
        return ""
    return IMPORTANT if importance >= rules.preserved_importance else ""


# -- expiry


class Expiry(NamedTuple):
    """A memory that has expired or will expire."""

    id: str
    session: str
    type: str
    due: datetime
    why: str

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "due": self.due.isoformat().replace("+00:00", "Z")}


def days_of(settings: Mapping[str, Any] | None = None) -> dict[str, int | None]:
    """Days by type from the section `retention.days` of the settings; 0 or None means for ever."""
    defaults = {name: kind.retention_days for name, kind in KINDS.items()}
    return {type: days or None for type, days in {**defaults, **(settings or {})}.items()}


def due(
    records: Iterable[Record],
    now: datetime,
    settings: Mapping[str, Any] | None = None,
    evidence: Evidence = NO_EVIDENCE,
) -> list[Expiry]:
    """The expired memories, the longest overdue first."""
    if distrust(now, evidence):
        return []
    return [expiry for expiry in _expiries(records, days_of(settings)) if expiry.due <= now]


def upcoming(
    records: Iterable[Record], now: datetime, within: timedelta, settings: Mapping[str, Any] | None = None
) -> list[Expiry]:
    """The memories that will expire within this time, the next one first."""
    limit = later(now, within)
    return [expiry for expiry in _expiries(records, days_of(settings)) if now < expiry.due <= limit]


def exempt_because(record: Record) -> str:
    """Why a memory is kept whatever its age; empty if it may expire."""
    if record.deleted:
        return "already in the trash"
    if record.pinned:
        return "pinned"
    return "still open" if is_unresolved(record) else ""


def _expiries(records: Iterable[Record], days: Mapping[str, int | None]) -> list[Expiry]:
    found = [_expiry(record, limit) for record in records if (limit := days.get(record.type)) is not None]
    return sorted((expiry for expiry in found if expiry is not None), key=lambda expiry: (expiry.due, expiry.id))


def _expiry(record: Record, days: int) -> Expiry | None:
    if exempt_because(record):
        return None
    when = later(max(record.created, record.updated), timedelta(days=days))
    return Expiry(record.id, record.session, record.type, when, f"retention: kept for {days} days")
