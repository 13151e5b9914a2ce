"""In which state is each session of a store, and what happens to it next? The rules of `lifecycle.states` over what is there.

Guarantees: nothing is written; a session is not opened for it. A session's own settings count (`lifecycle.auto_archive`
false keeps it from being archived by itself).

When each session was last used, by its memories, by what was found in it, and by the log of uses of sessions.

Writing, changing, deleting or restoring a memory is a use, and so is a memory that is found (`get`, `query`, `context`);
the access log counts from the moment of the use. Restoring a session, and writing entries with an earlier time (an import),
are uses that no entry tells: they stand in `session-uses.log` of the user's state. Maintenance is no use.

Guarantees: the times of files do not count; times are those of the
store's clock. Costs one question to the index and a look at two logs; only of a session without memories the head is read.
Non-guarantees: an edit by hand that changes no time is no use.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError
from smp_memory.index.rows import POSITION_BITS
from smp_memory.model.times import EPOCH, to_moment, to_text
from smp_memory.policies.clock_trust import NO_EVIDENCE, Evidence
from smp_memory.policies.session_states import (
    ARCHIVED,
    SessionTimes,
    StateMarks,
    Transition,
    due_transition,
    next_transition,
    state_of,
)
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.file_store import last_written_ns
from smp_memory.store.incomplete import each_there

if TYPE_CHECKING:
    from smp_memory.store.archive_index import StoredAway
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.finder import Finder


IMPORTED_BEFORE = timedelta(hours=1)  # entries that are older than this when they are written come from elsewhere
_QUESTION = f"""SELECT s.id, s.size, s.last, (SELECT max(a.last) FROM access a
    WHERE a.doc >= s.no << {POSITION_BITS} AND a.doc < (s.no + 1) << {POSITION_BITS}) FROM session s"""  # noqa: S608  # no value of anybody is in it


class SessionUsage(NamedTuple):
    """Of one session."""

    created: datetime | None  # of one that never held anything
    last_used: datetime | None  # None: nothing was ever written to it


def note_session_use(store: FileStore, session: str, now: datetime) -> None:
    """Remember a use of a session that its entries do not tell."""
    store.session_uses.record([session], now.timestamp())


def usage(store: FileStore, sessions: list[str] | None = None) -> dict[str, SessionUsage]:
    """Of these sessions, or of all that stand in their place."""
    noted, uses = store.indexer.answer(sessions, _noted), store.session_uses.last_uses()
    found: dict[str, SessionUsage] = {}
    for name in store.session_ids() if sessions is None else sessions:
        known, used = noted.get(name), _moment(round(1_000_000 * uses.get(name, 0)))
        if known is None:  # it has just come
            found[name] = SessionUsage(None, max(_written(store, name), used))
        elif known[0]:
            found[name] = SessionUsage(None, max(known[1], used))
        else:
            found[name] = SessionUsage(max(_created(store, name), used), None)
    return found


class Writes(NamedTuple):
    """Of one session."""

    written: datetime  # the time of its last memory; if it holds none, of its creation
    started: datetime | None  # when somebody last started, restored or imported it, as far as it was noted


def last_writes(store: FileStore, sessions: list[str] | None = None) -> dict[str, Writes]:
    """When memories were last written to these sessions, or to all that stand in their place, by the memories' own times."""
    noted = store.indexer.answer(sessions, lambda finder: finder.index.rows.sessions())
    uses, found = store.session_uses.last_uses(), {}
    for name in store.session_ids() if sessions is None else sessions:
        has_memories = name in noted and noted[name].size  # one that has just come is not noted yet
        written = _moment(noted[name].last) if has_memories else _created(store, name)
        started = _moment(round(1_000_000 * uses[name])) if name in uses else None
        found[name] = Writes(written, started if has_memories else written)
    return found


def _noted(finder: Finder) -> dict[str, tuple[int, datetime]]:
    """How many memories the index knows of each session, and when one of them was last written or found."""
    pending: dict[str, int] = {}
    for name, (_, last) in finder.pending_uses().items():
        session = name.rpartition("/")[0]
        pending[session] = max(last, pending.get(session, 0))
    return {
        name: (size, _moment(max(last, used or 0, pending.get(name, 0))))
        for name, size, last, used in finder.index.rows.all(_QUESTION)
    }


def _created(store: FileStore, session: str) -> datetime:
    """When a session was created, by its head; if that cannot be read, by its files."""
    try:
        created: datetime = store.session(session).info().created
    except (SMPError, ValueError, OverflowError):
        created = EPOCH
    return created if created > EPOCH else _written(store, session)


def _written(store: FileStore, session: str) -> datetime:
    return datetime.fromtimestamp(last_written_ns(store, session) / 1e9, UTC)


def _moment(microseconds: int) -> datetime:
    try:
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:  # a person may have typed the year 9999
        return datetime.max.replace(tzinfo=UTC)


class SessionState(NamedTuple):
    """In which state a session is, and what happens to it next."""

    session: str
    state: str
    last_used: datetime | None
    next: Transition
    away: StoredAway | None = None  # of one that is archived or deleted

    def to_dict(self) -> dict[str, Any]:
        used, when = self.last_used, self.next.when
        return {
            "id": self.session,
            "state": self.state,
            "last_used": to_text(used) if used else None,
            "next": {"state": self.next.state, "when": to_text(when) if when else None, "why": self.next.why},
        }


def session_states(store: FileStore, now: datetime, sessions: list[str] | None = None) -> list[SessionState]:
    """Of these sessions, or of all that stand in their place."""
    used = usage(store, sessions)
    if sessions is not None:
        return [_live(store, name, used[name], now) for name in used]
    return [standing for _, standing in each_there(used, lambda name: _live(store, name, used[name], now))]


def _live(store: FileStore, name: str, used: SessionUsage, now: datetime) -> SessionState:
    times, marks = times_of(store, name), StateMarks(created=used.created)
    state = state_of(used.last_used, now, marks, times)
    return SessionState(name, state, used.last_used, next_transition(used.last_used, now, marks, times))


def archived_session_states(store: FileStore, now: datetime) -> list[SessionState]:
    """Of those that are archived or deleted."""
    shelf, times = ArchiveIndex(store), times_of(store)
    return [
        SessionState(away.session, away.state, None, next_transition(None, now, marks_of(away, now), times), away)
        for away in (*shelf.archived(), *shelf.deleted())
    ]


def due_to_archive(store: FileStore, now: datetime, evidence: Evidence = NO_EVIDENCE) -> list[SessionState]:
    """The sessions that maintenance may archive now."""
    found = []
    times = usage(store)
    for name, right in each_there(times, lambda name: store.session(name).settings_are_right()):
        used = times[name]
        if not right:
            continue  # nobody knows whether it may be archived
        step = due_transition(used.last_used, now, StateMarks(created=used.created), times_of(store, name), evidence)
        if step is not None and step.state == ARCHIVED:
            found.append(SessionState(name, ARCHIVED, used.last_used, step))
    return found


def times_of(store: FileStore, session: str | None = None) -> SessionTimes:
    config = store.config if session is None else store.session(session).usable_config()
    return SessionTimes.of(config.section("lifecycle"))


def marks_of(away: StoredAway, now: datetime) -> StateMarks:
    """What was done to a session that is put away. If nobody knows when, it was now: nothing becomes due by that."""
    when = away.when or now
    if away.state == ARCHIVED:
        return StateMarks(archived=when)
    announced, passed = away.said.get("purge_announced"), away.said.get("passed_seconds")
    return StateMarks(
        deleted=when,
        purge_announced=to_moment(announced) if isinstance(announced, str) else None,
        announced_passed=timedelta(seconds=passed) if isinstance(passed, (int, float)) else None,
    )
