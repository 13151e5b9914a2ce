"""Whole sessions: their states, archiving and restoring, the trash of sessions. Functions of a scope.

Every change of a session's state leaves a line in the audit log and an event in the log.
"""

from __future__ import annotations

from smp_memory.errors import SessionCorrupt, SMPError
from smp_memory.lifecycle import session_states as states
from smp_memory.lifecycle.session_states import lifecycle_times
from smp_memory.lifecycle.transitions import ACTIVE
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE, PURGED
from smp_memory.model.times import to_text
from smp_memory.observe import telemetry
from smp_memory.observe.telemetry import observed
from smp_memory.overview.extractive_summary import session_summary
from smp_memory.privacy.settings import clean_reason, redaction_notice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.lifecycle.session_states import SessionState
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionHead, SessionInfo
    from smp_memory.scope import Scope
    from smp_memory.store.port import Note

_EVENTS = {  # by action of the audit log: the event of the log, and its text
    "archive_session": ("session_archived", "archived"),
    "restore_session": ("session_restored", "restored from its archive"),
    "delete_session": ("session_deleted", "moved to the trash"),
    "undelete_session": ("session_undeleted", "brought back from the trash"),
    "purge_session": ("session_purged", "removed for good"),
}


def session_states(scope: Scope, *, include_archived: bool = False) -> list[SessionState]:
    """The state of every session and its next transition; archived and deleted sessions too if asked for."""
    scope.store.check_open()
    active = states.session_states(scope.store, scope.now(), scope.sessions)
    return active + states.archived_session_states(scope.store, scope.now()) if include_archived else active


@observed("archive_session")
def archive_session(scope: Scope, id: str, reason: str | None, by: str | None) -> SessionHead:
    """Pack a session into an archive with a summary beside it."""
    at, (reason, redacted) = to_text(scope.now()), clean_reason(scope.config, reason)

    def summary(head: SessionHead, records: list[Record]) -> dict[str, Any]:
        try:
            info: SessionInfo | None = scope.store.session(id).info()
        except SessionCorrupt:
            info = None
        return session_summary(records, info, head.bytes, archived=at, reason=reason)

    archived = scope.store.move(
        id, LIVE, ARCHIVED, summary, lambda: _record_change(scope, "archive_session", id, by, reason)
    )
    archived.redacted = redacted
    return archived


@observed("restore_session")
def restore_session(scope: Scope, id: str, by: str | None) -> None:
    """Restore an archived session."""
    scope.store.move(id, ARCHIVED, LIVE)
    scope.note_session_use(id)
    _record_change(scope, "restore_session", id, by)


def restore_for_use(scope: Scope, id: str, by: str | None) -> str:
    """Restore an archived session because it is opened or written to; returns a warning that says so."""
    restore_session(scope, id, by)
    text = f"Session {id} was archived; using it restored it. `smp session archive {id}` archives it again."
    telemetry.emit("session", telemetry.WARNING, "session_brought_back", text, id)
    return text


@observed("delete_session")
def delete_session(scope: Scope, id: str, reason: str | None, by: str | None) -> SessionHead:
    """Move a session, archived or not, to the trash."""
    reason, redacted = clean_reason(scope.config, reason)
    now, project = scope.now(), _project(scope, id)

    def record(head: SessionHead, _: object) -> dict[str, Any]:
        return {
            "session_id": id,
            "deleted_at": to_text(now),
            "deleted_by": by,
            "reason": reason,
            "recovery_deadline": to_text(now + lifecycle_times(scope.store).purge),
            "state": ACTIVE if head.state == LIVE else head.state,
            "bytes": head.bytes,
            "project": project,
        }

    deleted = scope.store.move(
        id, LIVE, DELETED, record, lambda: _record_change(scope, "delete_session", id, by, reason)
    )
    deleted.redacted = redacted
    return deleted


def _project(scope: Scope, id: str) -> str | None:
    """The project of a live or archived session, for its deletion record: who may see the session depends on it."""
    try:
        head = next(iter(scope.store.sessions(LIVE, ARCHIVED, id=id)), None)
        return scope.store.session(id, head.state).info().project if head is not None else None
    except SMPError:
        return None


@observed("undelete_session")
def undelete_session(scope: Scope, id: str, reason: str | None, by: str | None) -> str:
    """Restore the session of this name that was deleted last; returns its state, active or archived."""
    state = scope.store.move(id, DELETED, LIVE).state
    if state == LIVE:
        scope.note_session_use(id)
    reason, redacted = clean_reason(scope.config, reason)
    _record_change(scope, "undelete_session", id, by, reason)
    if redacted:  # the answer has no field for it
        text = f"Reason for bringing back session {id}: {redaction_notice(redacted)}"
        telemetry.emit("privacy", telemetry.WARNING, "reason_redacted", text, id, kinds=redacted)
    return ACTIVE if state == LIVE else state


@observed("purge_session")
def purge_session(scope: Scope, id: str, reason: str | None, by: str | None) -> SessionHead:
    """Remove a deleted session for good, before its time. Of several of one name the one deleted first is removed."""
    at, (reason, redacted) = to_text(scope.now()), clean_reason(scope.config, reason)
    purged = scope.store.move(
        *(id, DELETED, PURGED, purge_record(at)), lambda: _record_change(scope, "purge_session", id, by, reason)
    )
    purged.redacted = redacted
    return purged


def purge_record(at: str) -> Note:
    """The deletion record of a session that is purged at this time; after a crash the audit log is written from it."""
    return lambda head, _: {**head.metadata, "session_id": head.session, "purged_at": at}


def _record_change(scope: Scope, action: str, session: str, by: str | None, reason: str | None = None) -> None:
    event, done = _EVENTS[action]
    telemetry.emit("session", telemetry.INFO, event, f"Session {session} was {done}.", session)
    scope.store.audit.note(action, at=to_text(scope.now()), by=by, session=session, count=1, reason=reason)
