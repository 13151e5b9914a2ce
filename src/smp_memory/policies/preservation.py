"""Which memories does compaction leave alone, and why? The rules of 003 §9.3, and a few that follow from them.

| never removed (003) | always preserved (003) | besides |
|---|---|---|
| active decisions | priority above 0.7 | what one of the never-removed or pinned ones refers to: its evidence |
| open findings | pinned | importance of 0.9 or more: who wrote it said that it matters |
| explicit preferences | used in the last 48 hours | an agent's current state; only its history may go (003 §9.2) |
| the last 24 hours of conversation | | summaries: they stand for what has gone already |

What is in the trash is left alone too; its purge makes room. A change or a first writing counts as use.
Guarantees: pure; each reason is a short text, the first that applies in the order above.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.policies.statuses import (
    is_active_decision,
    is_explicit_preference,
    is_open_finding,
    mentioned_by,
    superseded_ids,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from smp_memory.model.record import Record


class WeighedMemory:
    """A memory with the figures that planning needs."""

    __slots__ = ("created", "faded", "history_bytes", "last_access", "priority", "record", "size_bytes", "updated")

    def __init__(
        self,
        record: Record,
        size_bytes: int,  # all its entries in the session's files
        priority: float,
        last_access: datetime | None = None,
        history_bytes: int = 0,  # of these, entries that a later one has made history
        faded: float | None = None,  # the priority without a floor
    ) -> None:
        self.record = record
        self.size_bytes = size_bytes
        self.priority = priority
        self.faded = priority if faded is None else faded
        self.last_access = last_access
        self.history_bytes = history_bytes
        self.created = record.created  # a record reads its times anew each time, and plans look at them often
        self.updated = record.updated


class PreservationRules(NamedTuple):
    """What compaction may take; the section `compaction` of the settings."""

    faded: float = 0.3
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
OPEN_FINDING = "an open finding"
ACTIVE_DECISION = "an active decision"
EXPLICIT_PREFERENCE = "an explicit preference"
RECENT_TURN = "recent conversation"
RECENTLY_USED = "used recently"
HIGH_PRIORITY = "high priority"
IMPORTANT = "important"
CURRENT_STATE = "an agent's current state"
SUMMARY = "a summary"
EVIDENCE = "evidence of what stands"
_STANDING = frozenset((PINNED, OPEN_FINDING, ACTIVE_DECISION, EXPLICIT_PREFERENCE))


def preserved(
    memories: Sequence[WeighedMemory], now: datetime, rules: PreservationRules = DEFAULT_RULES
) -> dict[str, str]:
    """Why each memory that must stay does, by its id."""
    superseded = superseded_ids(weighed.record for weighed in memories if weighed.record.type == "decision")
    reasons = {}
    evidence: set[str] = set()
    for weighed in memories:
        reason = _own_reason(weighed, now, rules, superseded)
        if reason:
            reasons[weighed.record.id] = reason
        if reason in _STANDING and rules.keep_referenced:
            evidence.update(mentioned_by(weighed.record))
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
    kind = record.type
    if kind == "conversation":
        return ""
    if kind == "finding":
        return OPEN_FINDING if is_open_finding(record) else ""
    if kind == "decision":
        return ACTIVE_DECISION if is_active_decision(record, superseded) else ""
    if kind == "preference":
        return EXPLICIT_PREFERENCE if is_explicit_preference(record) else ""
    return {"agent_state": CURRENT_STATE, "summary": SUMMARY}.get(kind, "")


def _reason_by_use(weighed: WeighedMemory, now: datetime, rules: PreservationRules) -> str:
    record, used = weighed.record, weighed.last_access
    if record.type == "conversation" and now - weighed.created < rules.recent_turns:
        return RECENT_TURN
    if now - (weighed.updated if used is None else max(weighed.updated, used)) < rules.recent_use:
        return RECENTLY_USED
    if weighed.priority > rules.preserved_priority:
        return HIGH_PRIORITY
    importance = record.importance
    said = isinstance(importance, int | float) and not isinstance(importance, bool)
    return IMPORTANT if said and importance >= rules.preserved_importance else ""
