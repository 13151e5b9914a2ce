"""States of a session and its next transition, as in design 003.

    created ─→ active ⇄ idle ─→ decaying ─→ archived ─→ deleted ─→ purged
                 ↑  24 h without use  7 d      30 d      command     30 d
                 └── use brings idle and decaying back; opening restores archived; undelete restores deleted

Created, active, idle and decaying follow from the time of the last use alone; nothing is done to a session. Archived,
deleted and purged are marks that were set. `next_transition` tells beforehand what will happen, when and why;
`due_transition` is that transition once its time has come and the clock can be trusted (`lifecycle.clock_trust`).

Guarantees: pure; only archiving and purging ever become due, never deletion, which takes a command. Purging takes two
checks a day apart, by the wall clock and by the time since boot. Times count from the latest mark, so a mark set by a
clock that was behind shortens nothing. A last use in the future counts as now.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.lifecycle.clock_trust import (
    NO_EVIDENCE,
    Evidence,
    distrust,
    has_interval_passed,
    is_announcement_valid,
    second_check,
)
from smp_memory.model.times import later, latest

if TYPE_CHECKING:
    from collections.abc import Mapping

CREATED, ACTIVE, IDLE, DECAYING = "created", "active", "idle", "decaying"
ARCHIVED, DELETED, PURGED = "archived", "deleted", "purged"


class SessionTimes(NamedTuple):
    """The duration of each state; the section `lifecycle` of the settings."""

    idle: timedelta = timedelta(hours=24)
    decaying: timedelta = timedelta(days=7)
    archive: timedelta = timedelta(days=30)
    purge: timedelta = timedelta(days=30)
    auto_archive: bool = True
    auto_purge: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> SessionTimes:
        return cls(
            timedelta(hours=settings.get("idle_hours", 24)),
            timedelta(days=settings.get("decaying_days", 7)),
            timedelta(days=settings.get("archive_days", 30)),
            timedelta(days=settings.get("purge_days", 30)),
            bool(settings.get("auto_archive", True)),
            bool(settings.get("auto_purge", True)),
        )


class StateMarks(NamedTuple):
    """What was done to a session, and when."""

    created: datetime | None = None
    archived: datetime | None = None
    deleted: datetime | None = None
    purged: datetime | None = None
    purge_announced: datetime | None = None  # the first check at which the purge was due
    announced_passed: timedelta | None = None  # `Evidence.passed` at that check
    keep: bool = False  # set by a person: it is never archived automatically


class Transition(NamedTuple):
    """The next state; `when` is None if nothing happens automatically. A `when` in the past: as soon as maintenance runs."""

    state: str
    when: datetime | None
    why: str


DEFAULT_TIMES = SessionTimes()
NO_MARKS = StateMarks()


def state_of(
    last_used: datetime | None, now: datetime, marks: StateMarks = NO_MARKS, settings: SessionTimes = DEFAULT_TIMES
) -> str:
    """The state of a session; `last_used` None means that nothing was ever written to it."""
    marked = _marked(marks)
    if marked:
        return marked
    unused = now - (latest(last_used, marks.created) or now)
    if unused < settings.idle:
        return CREATED if last_used is None else ACTIVE
    return IDLE if unused < settings.decaying else DECAYING


def next_transition(
    last_used: datetime | None,
    now: datetime,
    marks: StateMarks = NO_MARKS,
    settings: SessionTimes = DEFAULT_TIMES,
    evidence: Evidence = NO_EVIDENCE,
) -> Transition:
    """What happens next automatically, when and why."""
    state = state_of(last_used, now, marks, settings)
    if state == DELETED:
        transition = _purge_transition(last_used, now, marks, settings)
    elif state in (ARCHIVED, PURGED):
        transition = Transition(state, None, _WHY_IT_STAYS[state])
    else:
        transition = _transition_by_age(state, latest(last_used, marks.created) or now, marks, settings)
    doubt = distrust(now, evidence) if transition.state in (ARCHIVED, PURGED) and transition.when is not None else ""
    return transition._replace(why=f"{transition.why}; not now: {doubt}") if doubt else transition


def due_transition(
    last_used: datetime | None,
    now: datetime,
    marks: StateMarks = NO_MARKS,
    settings: SessionTimes = DEFAULT_TIMES,
    evidence: Evidence = NO_EVIDENCE,
) -> Transition | None:
    """The transition that maintenance may carry out now: archiving or purging. None if none is due or the clock is not trusted."""
    transition = next_transition(last_used, now, marks, settings)
    if (
        transition.state not in (ARCHIVED, PURGED)
        or transition.when is None
        or transition.when > now
        or distrust(now, evidence)
    ):
        return None
    return transition if transition.state == ARCHIVED or has_interval_passed(marks.announced_passed, evidence) else None


def announces_purge(
    last_used: datetime | None,
    now: datetime,
    marks: StateMarks,
    settings: SessionTimes = DEFAULT_TIMES,
    evidence: Evidence = NO_EVIDENCE,
) -> bool:
    """Whether this is the first check at which the purge is due; the caller then sets `purge_announced` to now."""
    if state_of(last_used, now, marks, settings) != DELETED or not settings.auto_purge or distrust(now, evidence):
        return False
    announced = marks.purge_announced
    unannounced = announced is None or announced > now or not is_announcement_valid(marks.announced_passed, evidence)
    return unannounced and now >= _kept_until(last_used, marks, settings)


# -- parts

_WHY_IT_STAYS = {
    ARCHIVED: "stays archived until it is opened, restored or deleted",
    PURGED: "it is gone",
}


def _marked(marks: StateMarks) -> str:
    if marks.purged:
        return PURGED
    if marks.deleted:
        return DELETED
    return ARCHIVED if marks.archived else ""


def _transition_by_age(state: str, since: datetime, marks: StateMarks, settings: SessionTimes) -> Transition:
    if state in (CREATED, ACTIVE):
        return Transition(IDLE, later(since, settings.idle), f"not used for {_length(settings.idle)}")
    if state == IDLE:
        return Transition(DECAYING, later(since, settings.decaying), f"not used for {_length(settings.decaying)}")
    if marks.keep or not settings.auto_archive:
        why = "it is marked to be kept" if marks.keep else "lifecycle.auto_archive is off"
        return Transition(DECAYING, None, f"stays: {why}")
    return Transition(ARCHIVED, later(since, settings.archive), f"not used for {_length(settings.archive)}")


def _purge_transition(
    last_used: datetime | None, now: datetime, marks: StateMarks, settings: SessionTimes
) -> Transition:
    if not settings.auto_purge:
        return Transition(DELETED, None, "stays in the trash: lifecycle.auto_purge is off")
    until = _kept_until(last_used, marks, settings)
    why = f"deleted {_length(settings.purge)} ago"
    if now < until:
        return Transition(PURGED, until, why)
    return Transition(PURGED, max(until, second_check(marks.purge_announced, now)), f"{why}, announced a day before")


def _kept_until(last_used: datetime | None, marks: StateMarks, settings: SessionTimes) -> datetime:
    since = latest(marks.deleted, marks.archived, marks.created, last_used)
    assert since is not None  # the session is deleted
    return later(since, settings.purge)


def _length(span: timedelta) -> str:
    hours = span.total_seconds() / 3600
    return f"{hours:g} hours" if hours < 48 else f"{hours / 24:g} days"
