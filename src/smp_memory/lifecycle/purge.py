"""Decide which deleted memories of a session may be purged, by two checks at least a day apart.

The first check that finds a memory due announces it. A check at least a day later, by the wall clock and by the time that
has really passed (`lifecycle.clock_trust`), lets it be removed. So a wrong clock leaves a day to notice. A backend stores the
announcements and removes the entries (`SessionStore.purge`); the decision is made here.

Guarantees: a memory that was restored meanwhile stays, and is announced again if it is deleted again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from smp_memory.lifecycle.clock_trust import (
    CHECK_INTERVAL,
    distrust,
    has_interval_passed,
    is_announcement_valid,
    second_check,
)
from smp_memory.model.deletions import AnnouncedPurge, PurgeCheck, Purged, Trashed
from smp_memory.model.times import later, to_moment

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from smp_memory.lifecycle.clock_trust import Evidence
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory, SessionHistory

    Check = Callable[[SessionHistory, "dict[str, AnnouncedPurge]"], "PurgeCheck"]

    class PurgeableSession(Protocol):
        session: str

        def purge(self, check: Check, note: Callable[[list[str]], bool]) -> PurgeCheck: ...


def purge_due(
    session: PurgeableSession, now: datetime, kept: timedelta, evidence: Evidence, note: Callable[[list[str]], bool]
) -> Purged:
    """Announce what is due in a session, purge what was announced at least a day ago; `note` writes the audit record.

    While the clock cannot be trusted nothing is purged or announced, and the answer says why.
    """
    done = Purged()
    done.refused = distrust(now, evidence)
    if not done.refused:
        check = session.purge(lambda history, before: check_trash(history, before, now, kept, evidence), note)
        done.ids = [f"{session.session}/{name}" for name in check.due]
        done.announced = [f"{session.session}/{name}" for name in check.new]
        done.waiting = check.waiting
    return done


def check_trash(
    session_history: SessionHistory,
    before: dict[str, AnnouncedPurge],
    now: datetime,
    kept: timedelta,
    evidence: Evidence,
) -> PurgeCheck:
    """Check the deleted memories of a session, with what earlier checks announced; `kept` is the time in the trash."""
    check = PurgeCheck([], [], {}, 0)
    trash = {
        name: history.deletion for name, history in session_history.histories.items() if history.deletion is not None
    }
    for name, deletion in trash.items():
        if later(to_moment(deletion.at), kept) > now:
            continue
        known = before.get(name)
        if (
            known is None
            or known.deleted != deletion.at
            or known.at > now
            or not is_announcement_valid(known.passed, evidence)
        ):
            known = AnnouncedPurge(deletion.at, now, evidence.passed)
            check.new.append(name)
        if second_check(known.at, now) <= now and has_interval_passed(known.passed, evidence):
            check.due.append(name)
        else:
            check.announced[name] = known
    return check._replace(waiting=len(trash) - len(check.due))


def trashed(
    history: RecordHistory, session: str, announced: AnnouncedPurge | None, kept: timedelta, auto: bool
) -> Trashed:
    """A deleted memory, and when it may be purged (None: not automatically)."""
    deletion, record = history.deletion, history.record(session)
    assert deletion is not None
    assert record is not None
    due = due_at(deletion, kept, announced) if auto else None
    announced_at = announced.at if announced is not None and announced.deleted == deletion.at else None
    return Trashed(record, to_moment(deletion.at), deletion.by, deletion.data.get("reason"), due, announced_at)


def due_at(deletion: Entry, kept: timedelta, announced: AnnouncedPurge | None) -> datetime:
    """The first moment at which a memory may be purged."""
    due = later(to_moment(deletion.at), kept)
    if announced is not None and announced.deleted == deletion.at:
        return max(due, later(announced.at, CHECK_INTERVAL))
    return due
