"""The state of each session, its next transition, and when it was last used (`lifecycle.transitions` over the store).

Writing, changing, deleting or restoring a memory is a use, and so is a memory that is found (`get`, `query`, `context`);
the access log counts from the moment of the access. Restoring a session, and writing entries with an earlier time (an
import), are uses that no entry shows: they are in `session-uses.log` of the user's state. Maintenance is no use.

Guarantees: nothing is written, and no session is opened for writing. Modification times of files do not count; times are
those of the store's clock. A session's own settings count (`lifecycle.auto_archive` false prevents automatic archiving).
Costs one query to the index and reading two logs; the metadata is read only for a session without memories.
Non-guarantees: an edit by hand that changes no time is no use.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.config.settings import REMOVE
from smp_memory.errors import SMPError
from smp_memory.lifecycle.clock_trust import NO_EVIDENCE, Evidence
from smp_memory.lifecycle.transitions import (
    SessionTimes,
    StateMarks,
    Transition,
    due_transition,
    next_transition,
    state_of,
)
from smp_memory.model.session_info import ARCHIVED, DELETED, SessionHead
from smp_memory.model.times import EPOCH, to_moment, to_text
from smp_memory.observe.incomplete import each_existing

if TYPE_CHECKING:
    from smp_memory.store.port import Store

IMPORTED_BEFORE = timedelta(hours=1)  # entries older than this when they are written count as imported


class SessionUsage(NamedTuple):
    """When a session was last used."""

    created: datetime | None  # set only for a session that never held a memory
    last_used: datetime | None  # None: nothing was ever written to it


def usage(store: Store, sessions: list[str] | None = None) -> dict[str, SessionUsage]:
    """The usage of these sessions (None: all live ones)."""
    noted, uses = _indexed_usage(store, sessions), store.session_uses.last_uses()
    found: dict[str, SessionUsage] = {}
    for head in _heads(store, sessions):
        name = head.session
        known, used = noted.get(name), moment_of(round(1_000_000 * uses.get(name, 0)))
        if known is None:  # created or restored just now
            found[name] = SessionUsage(None, max(head.written, used))
        elif known[0]:
            found[name] = SessionUsage(None, max(moment_of(max(known[1:])), used))
        else:
            found[name] = SessionUsage(max(_created(store, head), used), None)
    return found


def _heads(store: Store, sessions: list[str] | None) -> list[SessionHead]:
    return store.sessions() if sessions is None else [head for name in sessions for head in store.sessions(id=name)]


def _indexed_usage(store: Store, sessions: list[str] | None) -> dict[str, tuple[int, int, int]]:
    """By session: number of memories, last write, last access."""
    return {name: (each.memories, each.written, each.used) for name, each in store.indexer.activity(sessions).items()}


class Writes(NamedTuple):
    """When memories were last written to a session."""

    written: datetime  # the time of its last memory; if it holds none, of its creation
    started: datetime | None  # when it was last started, restored or imported, as far as it was logged


def last_writes(store: Store, sessions: list[str] | None = None) -> dict[str, Writes]:
    """The last writes to these sessions (None: all live ones), by the times of the memories."""
    noted = _indexed_usage(store, sessions)
    uses, found = store.session_uses.last_uses(), {}
    for head in _heads(store, sessions):
        name = head.session
        has_memories = name in noted and noted[name][0]  # a session created just now is not in the index yet
        written = moment_of(noted[name][1]) if has_memories else _created(store, head)
        started = moment_of(round(1_000_000 * uses[name])) if name in uses else None
        found[name] = Writes(written, started if has_memories else written)
    return found


def _created(store: Store, head: SessionHead) -> datetime:
    """When a session was created, by its metadata; if that cannot be read, by its files."""
    try:
        created: datetime = store.session(head.session).info().created
    except (SMPError, ValueError, OverflowError):
        created = EPOCH
    return created if created > EPOCH else head.written


def moment_of(microseconds: int) -> datetime:
    """A time of the index; the latest one there is for one beyond it."""
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:  # a person may have typed the year 9999
        return datetime.max.replace(tzinfo=UTC)


class SessionState(NamedTuple):
    """The state of a session and its next transition."""

    session: str
    state: str
    last_used: datetime | None
    next: Transition
    archived: SessionHead | None = None  # set if the session is archived or deleted

    def to_dict(self) -> dict[str, Any]:
        used, when = self.last_used, self.next.when
        return {
            "id": self.session,
            "state": self.state,
            "last_used": to_text(used) if used else None,
            "next": {"state": self.next.state, "when": to_text(when) if when else None, "why": self.next.why},
        }


def session_states(store: Store, now: datetime, sessions: list[str] | None = None) -> list[SessionState]:
    """The states of these sessions (None: all live ones)."""
    used = usage(store, sessions)
    if sessions is not None:
        return [_live(store, name, used[name], now) for name in used]
    return [state for _, state in each_existing(used, lambda name: _live(store, name, used[name], now))]


def _live(store: Store, name: str, used: SessionUsage, now: datetime) -> SessionState:
    times, marks = lifecycle_times(store, name), StateMarks(created=used.created)
    state = state_of(used.last_used, now, marks, times)
    return SessionState(name, state, used.last_used, next_transition(used.last_used, now, marks, times))


def archived_session_states(store: Store, now: datetime) -> list[SessionState]:
    """The states of archived and deleted sessions."""
    times = lifecycle_times(store)
    return [
        SessionState(each.session, each.state, None, next_transition(None, now, state_marks(each, now), times), each)
        for each in store.sessions(ARCHIVED, DELETED)
    ]


def due_to_archive(store: Store, now: datetime, evidence: Evidence = NO_EVIDENCE) -> list[SessionState]:
    """The sessions that maintenance may archive now."""
    found = []
    times = usage(store)
    for name, is_valid in each_existing(times, lambda name: store.session(name).config.allows(REMOVE)):
        used = times[name]
        if not is_valid:
            continue  # its settings may forbid it
        due = due_transition(
            used.last_used, now, StateMarks(created=used.created), lifecycle_times(store, name), evidence
        )
        if due is not None and due.state == ARCHIVED:
            found.append(SessionState(name, ARCHIVED, used.last_used, due))
    return found


def lifecycle_times(store: Store, session: str | None = None) -> SessionTimes:
    """The lifecycle settings of a session, or of the store."""
    config = store.config if session is None else store.session(session).config
    return SessionTimes.of(config.section("lifecycle"))


def state_marks(archived: SessionHead, now: datetime) -> StateMarks:
    """The marks of an archived or deleted session. An unknown time counts as now, so that nothing becomes due."""
    when = archived.when or now
    if archived.state == ARCHIVED:
        return StateMarks(archived=when)
    announced, passed = archived.metadata.get("purge_announced"), archived.metadata.get("passed_seconds")
    return StateMarks(
        deleted=when,
        purge_announced=to_moment(announced) if isinstance(announced, str) else None,
        announced_passed=timedelta(seconds=passed) if isinstance(passed, (int, float)) else None,
    )
