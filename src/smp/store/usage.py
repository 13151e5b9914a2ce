"""When each session was last used, by its memories, by what was found in it, and by the log of uses of sessions.

Writing, changing, deleting or restoring a memory is a use, and so is a memory that is found (`get`, `query`, `context`);
the access log counts from the moment of the use. Restoring a session, and writing entries with an earlier time (an import),
are uses that no entry tells: they stand in `session-uses.log` of the user's state. Maintenance is no use.

Guarantees: the times of files do not count; times are those of the
store's clock. Costs one question to the index and a look at two logs; only of a session without memories the head is read.
Non-guarantees: an edit by hand that changes no time is no use.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from smp.errors import SMPError
from smp.index.rows import POSITION_BITS
from smp.model.time import EPOCH
from smp.store.file_store import last_written_ns

if TYPE_CHECKING:
    from smp.store.file_store import FileStore
    from smp.store.finder import Finder

IMPORTED_BEFORE = timedelta(hours=1)  # entries that are older than this when they are written come from elsewhere
_QUESTION = f"""SELECT s.id, s.size, s.last, (SELECT max(a.last) FROM access a
    WHERE a.doc >= s.no << {POSITION_BITS} AND a.doc < (s.no + 1) << {POSITION_BITS}) FROM session s"""  # noqa: S608  # no value of anybody is in it


class Usage(NamedTuple):
    """Of one session."""

    created: datetime | None  # of one that never held anything
    last_used: datetime | None  # None: nothing was ever written to it


def note_session_use(store: FileStore, session: str, now: datetime) -> None:
    """Remember a use of a session that its entries do not tell."""
    store.session_uses.note([session], now.timestamp())


def usage(store: FileStore, sessions: list[str] | None = None) -> dict[str, Usage]:
    """Of these sessions, or of all that stand in their place."""
    noted, uses = store.indexer.answer(sessions, _noted), store.session_uses.last_uses()
    found: dict[str, Usage] = {}
    for name in store.session_ids() if sessions is None else sessions:
        known, used = noted.get(name), _moment(round(1_000_000 * uses.get(name, 0)))
        if known is None:  # it has just come
            found[name] = Usage(None, max(_written(store, name), used))
        elif known[0]:
            found[name] = Usage(None, max(known[1], used))
        else:
            found[name] = Usage(max(_created(store, name), used), None)
    return found


class Writes(NamedTuple):
    """Of one session."""

    written: datetime  # the time of its last memory; if it holds none, of its creation
    started: datetime | None  # when somebody last started, restored or imported it, as far as it was noted


def last_writes(store: FileStore, sessions: list[str]) -> dict[str, Writes]:
    """When memories were last written to these sessions, by the memories' own times."""
    noted = store.indexer.answer(sessions, lambda finder: finder.index.rows.sessions())
    uses, found = store.session_uses.last_uses(), {}
    for name in sessions:
        written = _moment(noted[name].last) if noted[name].size else _created(store, name)
        started = _moment(round(1_000_000 * uses[name])) if name in uses else None
        found[name] = Writes(written, started if noted[name].size else written)
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
