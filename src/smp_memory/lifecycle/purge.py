"""Decide which deleted memories of a session may be purged, by two checks at least a day apart.

The first check that finds a memory due announces it. A check at least a day later, by the wall clock and by the time that
has really passed (`lifecycle.clock_trust`), lets it be removed. So a wrong clock leaves a day to notice. What was announced is in
the user's state (`model.deletions.PurgeNotes`), because announcements that came with a repository must not count.

Guarantees: a memory that was restored meanwhile stays, and is announced again if it is deleted again. Ids are in `begun` from
before the purge until the audit log has those that are gone, so that after a crash the next check writes them.
Archived sessions are purged by the same checks, and stay archived.
Non-guarantees: without a state folder no purge is ever due, because announcements end with the process. An archive of another
program, or one that cannot be read, is not purged (`smp doctor` reports it).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from smp_memory.config.settings import REMOVE
from smp_memory.errors import SMPError
from smp_memory.lifecycle.clock_trust import (
    CHECK_INTERVAL,
    distrust,
    has_interval_passed,
    is_announcement_valid,
    second_check,
)
from smp_memory.model.deletions import AnnouncedPurge, PurgeCheck, Purged, PurgeNotes, Trashed
from smp_memory.model.history import COLD, HOT
from smp_memory.model.rewrite_plan import RewritePlan
from smp_memory.model.session_info import ARCHIVED
from smp_memory.model.times import later, to_moment, to_text
from smp_memory.overview.extractive_summary import DELETED_MEMORIES, may_hold_deleted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Protocol

    from smp_memory.lifecycle.clock_trust import Evidence
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory, SessionHistory
    from smp_memory.model.rewrite_plan import RewriteReport
    from smp_memory.store.port import Store

    class PurgeableSession(Protocol):
        session: str

        def history(self, *, segment: str = HOT) -> SessionHistory: ...
        def rewrite(self, plan: RewritePlan) -> RewriteReport: ...


def purge_due(
    session: PurgeableSession,
    notes: PurgeNotes,
    now: datetime,
    kept: timedelta,
    evidence: Evidence,
    note: Callable[[list[str]], bool] | None = None,
) -> Purged:
    """Announce what is due in a session, purge what was announced at least a day ago; `note` writes the audit record.

    While the clock cannot be trusted nothing is purged or announced, and the answer says why.
    """
    done = Purged()
    done.refused = distrust(now, evidence)
    if done.refused:
        return done
    before, histories = notes.announced(), session.history()
    check = check_trash(histories, before, now, kept, evidence)
    gone: list[str] = []
    if check.due:
        notes.write({**before, **check.announced}, list(dict.fromkeys([*notes.begun(), *check.due])))
        deletions = {id: histories.histories[id].deletion for id in check.due}
        plan = RewritePlan("purging", drop={id: entry.at for id, entry in deletions.items() if entry is not None})
        gone = list(session.rewrite(plan).dropped)
    try:
        if check.due or check.announced != before:
            notes.write(check.announced, notes.begun())
        if note is not None:
            write_audit_record(session, notes, note)
    except (OSError, SMPError):
        if not gone:
            raise
        # The memories are gone, and stay noted as begun: the next check writes the audit record.
    done.ids = [f"{session.session}/{name}" for name in gone]
    done.announced = [f"{session.session}/{name}" for name in check.new]
    done.waiting = check.waiting
    return done


def purge_archives(
    store: Store,
    now: datetime,
    evidence: Evidence,
    by: str | None,
    kept: timedelta | None = None,
    *,
    automatic: bool = False,
) -> Iterator[tuple[str, Purged]]:
    """Check each archived session that may hold deleted memories; `kept` replaces the session's `lifecycle.purge_days`.

    automatic: only where `lifecycle.auto_purge` is on.
    """
    for head in store.sessions(ARCHIVED):
        if not head.has_memories or (head.metadata and not may_hold_deleted(head.metadata)):
            continue
        try:
            if (
                DELETED_MEMORIES not in head.metadata
            ):  # its summary is missing, or was made before there was this figure
                store.session(head.session, ARCHIVED).rewrite(RewritePlan("renewing the summary"))
            done = _purge_archive(store, head.session, now, evidence, by, kept, automatic)
        except SMPError:
            continue  # damaged, of another program, or locked by another process
        yield head.session, done


def _purge_archive(
    store: Store,
    session: str,
    now: datetime,
    evidence: Evidence,
    by: str | None,
    kept: timedelta | None,
    automatic: bool,
) -> Purged:
    archived = store.session(session, ARCHIVED)
    config, notes = archived.config, PurgeNotes(store.state, session)
    if automatic and not (config["lifecycle.auto_purge"] and config.allows(REMOVE)):
        return Purged()
    time_kept = timedelta(days=config["lifecycle.purge_days"]) if kept is None else kept
    done = purge_due(archived, notes, now, time_kept, evidence)
    if notes.begun():
        archived = store.session(session, ARCHIVED)  # as it is now
        write_audit_record(
            archived, notes, lambda ids: store.audit.note("purge", at=to_text(now), by=by, session=session, ids=ids)
        )
    return done


def write_audit_record(session: PurgeableSession, notes: PurgeNotes, note: Callable[[list[str]], bool]) -> None:
    """Write the memories that were purged and are not in the audit log yet."""
    purged = purged_ids(session, notes)
    if purged and note(purged):
        notes.write(notes.announced(), [name for name in notes.begun() if name not in purged])


def purged_ids(session: PurgeableSession, notes: PurgeNotes) -> list[str]:
    """The memories that were purged and are not in the audit log yet."""
    begun = notes.begun()
    if not begun:
        return []
    present = {*session.history().histories, *(each.id for each in session.history(segment=COLD).moved)}
    return [name for name in begun if name not in present]


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
