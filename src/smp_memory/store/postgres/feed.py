"""Feed the index from the tables of a store in PostgreSQL, without gaps and in one round trip, and read records from the index.

Every change of a session sets `session.xid` to its transaction. A catch-up is one statement: it asks for the sessions whose `xid` is at or above the
*horizon* of the last one, and returns the next horizon, the oldest transaction that was running in its own snapshot. What
was below has ended and was seen; what was not is asked for again. So a transaction that began early and commits late is not missed. The horizon is
saved in the transaction that changes the index: a process that dies between reading and saving asks again.

A horizon holds for one run of one server, one table and one viewer (`_MOMENT`). After a restart, a restored backup, a failover or a change of
rights all sessions are compared: those whose row is as indexed stay, the others are read anew. Where row-level security hides sessions,
their number is compared too, because a session that is hidden from now on does not tell.

Of a session that the index knows, the entries from the last indexed one on are read; that one must be as it was. Otherwise, and after a change that is no
append (`generation`), the session is read anew. The index keeps the entries, so records cost no round trip, and can be read
while the server cannot be reached.
"""

from __future__ import annotations

import json
import time
from zlib import crc32

from smp_memory.errors import Busy, SMPError
from smp_memory.index.index import save_problems
from smp_memory.index.rows import POSITION_BITS, IndexBusy
from smp_memory.index.session_updates import index_appended, index_in_chunks
from smp_memory.model.clone_merge import ReadableIds
from smp_memory.model.history import RecordHistory, SessionHistory
from smp_memory.model.reports import Problem
from smp_memory.model.session_info import LIVE
from smp_memory.observe import incomplete
from smp_memory.observe.telemetry import INDEX, observe
from smp_memory.store.postgres.postgres_session import _LAYOUT, Rows, decode_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from smp_memory.index.index import Index
    from smp_memory.index.rows import IndexedSession, PlacedRow, Row
    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.record import Record
    from smp_memory.store.postgres.postgres_store import PostgresStore

    Progress = Callable[[str, int], None] | None

_CURSOR, _RECENT, _AS_OF = "feed", "recent_sessions", "as_of"  # keys in the index's table `meta`
_ENTRIES = "entries"  # the only "file" of an indexed session
_DUPLICATES = "~"  # as the places of memories of a session in which an id was allocated twice
_MOST_RECENT = 50  # sessions whose position a catch-up sends along
_SMALL_BYTES = (
    1 << 16
)  # a changed session up to this size comes with the catch-up, if not more than `_MOST_RECENT` changed
_CHUNK_BYTES, _CHUNK_SESSIONS = 4 << 20, 200  # read by one statement
_SAVE_SECONDS = 30.0  # how often the time of a catch-up that found nothing is saved

# The state of a session, and then its hot entries; `origin` is where they begin, -1: they are not among the rows.
_ROWS = """
SELECT 1, number, origin, id, json_build_array(state, generation, changes, xid::text, extract(epoch FROM written), bytes, CASE WHEN origin >= 0 THEN info END)::text
FROM changed
UNION ALL
SELECT 2, e.session, e.start, e.id, e.line FROM changed JOIN {schema}.entry AS e ON e.session = number AND e.start >= origin AND e.segment = 0
WHERE origin >= 0
"""
_MOMENT = """concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), '{schema}.session'::regclass::oid, session_user,
    current_setting('smp.project', true), current_setting('smp.person', true))"""
_CATCH_UP = f"""
WITH moment AS MATERIALIZED (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS horizon, {_MOMENT} AS identity),
last AS MATERIALIZED (SELECT CASE WHEN identity = %(identity)s AND horizon >= %(horizon)s::xid8 THEN %(horizon)s::xid8 END AS horizon FROM moment),
known AS (SELECT * FROM unnest(%(numbers)s::bigint[], %(generations)s::bigint[], %(starts)s::bigint[]) AS k (number, generation, start)),
changed AS MATERIALIZED (
    SELECT s.number, s.id, state, s.generation, changes, xid, written, bytes, info,
        CASE WHEN state <> 'live' THEN -1 WHEN k.generation = s.generation AND (SELECT horizon FROM last) IS NOT NULL THEN k.start
        WHEN bytes <= {_SMALL_BYTES} AND count(*) OVER () <= {_MOST_RECENT} THEN 0 ELSE -1 END AS origin
    FROM {{schema}}.session AS s LEFT JOIN known AS k USING (number)
    WHERE xid >= coalesce((SELECT horizon FROM last), '0') AND (state = 'live' OR (SELECT horizon FROM last) IS NOT NULL)
)
SELECT 0, (CASE WHEN row_security_active('{{schema}}.session') THEN (SELECT count(*) FROM {{schema}}.session WHERE state = 'live') END), 0, identity,
    json_build_array(horizon::text, (SELECT horizon FROM last) IS NULL)::text
FROM moment
UNION ALL {_ROWS}"""
_READ = f"""
WITH changed AS MATERIALIZED (
    SELECT s.number, id, state, s.generation, changes, xid, written, bytes, info, CASE WHEN s.generation = w.generation THEN w.start ELSE 0 END AS origin
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS w (number, generation, start) JOIN {{schema}}.session AS s USING (number)
    WHERE state = 'live'
){_ROWS}"""
_LIVE = "SELECT number FROM {schema}.session WHERE state = 'live' AND (%s::text[] IS NULL OR id = ANY(%s))"


class FedSession:
    """A session as one statement saw it, with its entries from `origin` on."""

    __slots__ = ("bytes", "entries", "generation", "id", "info", "number", "origin", "state", "version")

    def __init__(self, number: int, origin: int, id: str, facts: str) -> None:
        self.number, self.origin, self.id = number, origin, id
        self.state, self.generation, *version, self.bytes, self.info = json.loads(facts)
        self.version: list[Any] = version  # changes, transaction and time of the last change
        self.entries: list[tuple[int, str, str]] = []  # start, id, line

    def __str__(self) -> str:
        return self.id


class Changes:
    """What a catch-up returned."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        (_, self.visible, _, identity, moment), rows = rows[0], rows[1:]
        horizon, self.is_complete = json.loads(moment)  # complete: all live sessions, else those that changed
        self.cursor = json.dumps([identity, horizon])
        self.sessions = _sessions(rows)


def _sessions(rows: list[tuple[Any, ...]]) -> list[FedSession]:
    """The sessions of rows of `_ROWS`; a live one after those of the same id that are not."""
    found = {number: FedSession(number, origin, id, facts) for kind, number, origin, id, facts in rows if kind == 1}
    for kind, number, start, id, line in rows:
        if kind == 2:
            found[number].entries.append((start, id, line))
    for each in found.values():
        each.entries.sort()
    return sorted(found.values(), key=lambda each: (each.state == LIVE, each.number))


class _Position:
    """How far the index has read a session: kept in `IndexedSession.files`."""

    def __init__(self, known: IndexedSession | None) -> None:
        saved = known.files.get(_ENTRIES) if known is not None else None
        self.number, self.generation, self.version, self.start, self.checksum = saved or [0, -1, [], 0, None]

    def is_at(self, session: FedSession) -> bool:
        return (self.number, self.generation, self.version) == (session.number, session.generation, session.version)

    def continues(self, session: FedSession) -> bool:
        return (self.number, self.generation) == (session.number, session.generation)

    def appended(self, session: FedSession) -> list[tuple[int, str, str]] | None:
        """The entries after the last indexed one; None if that one is not as it was."""
        if not self.continues(session) or not session.origin <= self.start:
            return None
        rest = [row for row in session.entries if row[0] >= self.start]
        if self.checksum is None:
            return rest
        return rest[1:] if rest and _checksum(rest[0]) == self.checksum else None


def _checksum(row: tuple[int, str, str]) -> int:
    return crc32(row[2].encode("utf-8", "surrogatepass"))


class PostgresSource:
    """The source (`smp_memory.index.stored_feed.Source`) of one store in PostgreSQL."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._saved_at = 0.0

    def opened(self) -> None:
        self._saved_at = 0.0

    def session_not_found(self, session: str) -> SMPError:
        if self._store.sessions(LIVE, id=session):
            text = f"Session {session} is not in the index on this computer yet. Repeat it in a moment, or run `smp reindex`."
            return Busy(text, session=session)
        return self._store.session_not_found(session)

    # -- catching up

    def catch_up(self, index: Index, sessions: list[str] | None, deadline: float, progress: Progress) -> bool:
        cursor = index.rows.meta(_CURSOR, "")
        changes = self._changes(index, cursor)
        if not changes.is_complete and self._hides_some(index, changes):
            cursor, changes = "", self._changes(index, "")
        if not self._is_stale(index, changes):
            self._save_time(index)
            return False
        limit = None
        if progress is None:
            limit = time.monotonic() + self._store.config["search.catch_up_ms"] / 1000
            deadline = min(deadline, limit)
        run = _CatchUp(self._store, index, cursor, changes, sessions, limit)
        try:
            observe(
                INDEX,
                self._store,
                index_in_chunks,
                index,
                run.stale(self._changes),
                run.index_session,
                deadline,
                progress,
            )
        except IndexBusy:  # another process catches up, for so long that it must be the first time
            run.left = sum(not _is_indexed(index, each) for each in changes.sessions)
        if run.left:
            self._report_left(index, run.left)
        return True

    def _changes(self, index: Index, cursor: str) -> Changes:
        identity, horizon = json.loads(cursor) if cursor else ("", "0")
        recent = json.loads(index.rows.meta(_RECENT, "[]")) if cursor else []
        numbers, generations, starts = ([each[column] for each in recent] for column in range(3))
        given = {
            "identity": identity, "horizon": horizon, "numbers": numbers, "generations": generations, "starts": starts,
        }  # fmt: skip
        statement = self._store.sql(_CATCH_UP)
        return Changes(self._store.run(lambda connection: connection.execute(statement, given).fetchall()))

    @staticmethod
    def _is_stale(index: Index, changes: Changes) -> bool:
        return changes.is_complete or not all(_is_indexed(index, each) for each in changes.sessions)

    @staticmethod
    def _hides_some(index: Index, changes: Changes) -> bool:
        """Whether the viewer sees another number of sessions than the index will have after these changes."""
        if changes.visible is None:
            return False
        names = set(index.rows.session_ids())
        for each in changes.sessions:
            (names.add if each.state == LIVE else names.discard)(each.id)
        return bool(len(names) != changes.visible)

    def _save_time(self, index: Index) -> None:
        now = time.time()
        if now - self._saved_at > _SAVE_SECONDS:
            self._saved_at = now
            index.rows.save_hints({_AS_OF: now}, index.rows.data_version())

    def _report_left(self, index: Index, left: int) -> None:
        has = index.rows.one("SELECT count(*) FROM session")
        text = (
            f"{left:,} sessions of {left + has:,} are not searched yet: the index on this computer is still being made. "
            "`smp reindex` makes it whole and shows how far it is."
        )
        incomplete.report([Problem(self._store.root, 0, incomplete.NOT_INDEXED, text, "error")])

    def fill(self, index: Index, sessions: list[str] | None) -> None:
        statement = self._store.sql(_LIVE)
        rows = self._store.run(lambda connection: connection.execute(statement, (sessions, sessions)).fetchall())
        run = _CatchUp(self._store, index, "", None, sessions, None)
        for first in range(0, len(rows), _CHUNK_SESSIONS):
            for each in run.read([(number, -1, 0) for (number,) in rows[first : first + _CHUNK_SESSIONS]]):
                run.index_session(index, each)

    # -- records

    def records(
        self, index: Index, rows: Iterable[PlacedRow], gone: dict[str, LeftOut] | None = None
    ) -> dict[int, Record | None]:
        placed = list(rows)
        kept = index.rows.entries([row.doc for row in placed])
        found: dict[int, Record | None] = {}
        for row in placed:
            session = index.rows.session_of(row.doc)
            if session is not None:
                history = _history(index, session, row, kept.get(row.doc, ""))
                found[row.doc] = history.record(session) if history is not None else None
        return found


def _is_indexed(index: Index, session: FedSession) -> bool:
    """Whether the index has the session as it is; one that is not live, whether the index has it not."""
    position = _Position(index.rows.session(session.id))
    return position.is_at(session) if session.state == LIVE else position.number != session.number


def _history(index: Index, session: str, row: Any, kept: str) -> RecordHistory | None:
    """The history of a memory, of the entries that the index keeps."""
    names, history = None, None
    if row.places == _DUPLICATES:
        known = index.rows.session(session)
        names = ReadableIds.from_list(known.names if known is not None else [])
    for line in kept.split("\n") if kept else ():
        entry, _ = decode_entry(None, line, 0, session)
        if entry is None:
            return None
        if names is not None:
            entry = names.resolved(entry)
        if history is None:
            history = RecordHistory(entry)
        else:
            entry.type = history.first.type
            history.append(entry)
    return history


class _CatchUp:
    """One catch-up: which sessions are read, and how each is indexed. Runs inside of the transactions of the index."""

    def __init__(
        self,
        store: PostgresStore,
        index: Index,
        cursor: str,
        changes: Changes | None,
        sessions: list[str] | None,
        limit: float | None,
    ) -> None:
        """`sessions`: those that the answer is about; the others are read if they came along. `limit`: when to stop, on `time.monotonic`."""
        self._store, self._index, self._cursor, self._changes, self._limit = store, index, cursor, changes, limit
        self._wanted = None if sessions is None else set(sessions)
        self._recent: dict[int, list[int]] = {}
        self._has_other_past = False  # whether sessions may differ from the index in entries that were indexed
        self.left = 0  # sessions that the answer is about, and that were not read

    def stale(self, ask: Callable[[Index, str], Changes]) -> Iterator[FedSession]:
        """The sessions to index. Between two of them the transaction may be committed and another one begun."""
        index, changes = self._index, self._changes
        assert changes is not None
        if (
            index.rows.meta(_CURSOR, "") != self._cursor
        ):  # another process caught up meanwhile; an older state must not replace a newer one
            changes = ask(index, index.rows.meta(_CURSOR, ""))
        self._has_other_past = changes.is_complete
        self._remove_gone(changes)
        stale = [each for each in changes.sessions if each.state == LIVE and not _is_indexed(index, each)]
        others = [each for each in stale if each.origin < 0]
        wanted = [each for each in others if self._wanted is None or each.id in self._wanted]
        yield from (each for each in stale if each.origin >= 0)
        for each in self._read_in_chunks(wanted):
            yield each
            if self._limit is not None and time.monotonic() > self._limit:
                self.left = sum(not _is_indexed(index, each) for each in wanted)
                break
        if len(wanted) == len(others) and not self.left:
            self._save(changes)

    def _read_in_chunks(self, sessions: list[FedSession]) -> Iterator[FedSession]:
        for chunk in _chunks(sessions):
            # So that a process that asked before this chunk was read asks again before it changes anything.
            self._index.rows.set_meta(_CURSOR, json.dumps([f"until {time.time_ns()}", "0"]))
            missing = [
                each for each in chunk if not _is_indexed(self._index, each)
            ]  # another process may index some, too
            yield from self.read([self._from(each) for each in missing])

    def _remove_gone(self, changes: Changes) -> None:
        index = self._index
        live = {each.id for each in changes.sessions if each.state == LIVE}
        gone = {each.id: each.number for each in changes.sessions if each.state != LIVE}
        names = set(index.rows.session_ids()) - live if changes.is_complete else gone.keys() - live
        for name in names:
            known = index.rows.session(name)
            if known is not None and (changes.is_complete or _Position(known).number <= gone[name]):
                index.remove(known)
                save_problems(index, name, (), grown=False)

    def _from(self, session: FedSession) -> tuple[int, int, int]:
        position = _Position(self._index.rows.session(session.id))
        if self._has_other_past or not position.continues(session):
            return session.number, -1, 0
        return session.number, position.generation, position.start

    def read(self, positions: list[tuple[int, int, int]]) -> list[FedSession]:
        """Read sessions as they are now: number, and generation and offset from which they are known."""
        columns = [[each[column] for each in positions] for column in range(3)]
        statement = self._store.sql(_READ)
        return _sessions(self._store.run(lambda connection: connection.execute(statement, columns).fetchall()))

    def _save(self, changes: Changes) -> None:
        rows = self._index.rows
        saved = {each[0]: each for each in json.loads(rows.meta(_RECENT, "[]"))}
        saved = {number: each for number, each in saved.items() if number not in self._recent} | self._recent
        rows.set_meta(_RECENT, json.dumps(list(saved.values())[-_MOST_RECENT:]))
        rows.set_meta(_CURSOR, changes.cursor)
        rows.set_meta(_AS_OF, time.time())

    # -- one session

    def index_session(self, index: Index, session: FedSession) -> int:
        """Index what is new in a session; returns the number of new memories."""
        known = index.rows.session(session.id) or index.rows.new_session(session.id)
        size, is_appendable = known.size, known.whole and not self._has_other_past
        rest = _Position(known).appended(session) if is_appendable else None
        if rest is None or not self._append(known, rest):
            whole = session if session.origin == 0 else next(iter(self.read([(session.number, -1, 0)])), None)
            if whole is None:  # archived or deleted meanwhile
                index.remove(known)
                return 0
            session, size = whole, 0
            self._replace(known, session)
        self._save_session(known, session)
        return known.size - size

    def _append(self, known: IndexedSession, rest: list[tuple[int, str, str]]) -> bool:
        fresh, rows, index = SessionHistory(), Rows(rest, self._where(known.id)), self._index
        fresh.names = ReadableIds.from_list(known.names) if known.names else fresh.names
        fresh.add(rows.entries)
        size, before = known.size, dict[int, str]()

        def read(row: Row) -> RecordHistory | None:
            before.update(index.rows.entries([row.doc]))
            return _history(index, known.id, row, before.get(row.doc, ""))

        changed = index_appended(index, known, fresh, _places(fresh), read)
        if changed is None:
            return False
        lines = {start: line for start, _, line in rest}
        kept = _kept(known.number, size, fresh, lines)
        for doc, history in changed.items():
            later = sorted(fresh.orphans[history.first.id], key=lambda entry: entry.seq)
            kept.append((doc, "\n".join([before[doc], *(lines[entry.place[0]] for entry in later)])))
        index.rows.put_entries(kept)
        known.seq = max(known.seq, fresh.seq)
        save_problems(index, known.id, rows.problems, grown=True)
        return True

    def _replace(self, known: IndexedSession, session: FedSession) -> None:
        fresh, rows, index = SessionHistory(), Rows(session.entries, self._where(known.id)), self._index
        fresh.add(rows.entries)
        index.replace(known, fresh.histories.values(), _places(fresh))
        lines = {start: line for start, _, line in session.entries}
        index.rows.put_entries(_kept(known.number, 0, fresh, lines))
        known.whole = not fresh.orphans
        known.names = fresh.names.to_list() if fresh.names else []
        known.seq = fresh.seq
        save_problems(index, known.id, rows.problems, grown=False)

    def _where(self, session: str) -> str:
        return f"{self._store.root}#{session}"

    def _save_session(self, known: IndexedSession, session: FedSession) -> None:
        last = session.entries[-1] if session.entries else None
        start, checksum = (last[0], _checksum(last)) if last is not None else (0, None)
        known.files = {_ENTRIES: [session.number, session.generation, session.version, start, checksum]}
        known.about = _about(session)
        self._recent[session.number] = [session.number, session.generation, start]
        self._index.rows.save_session(known)


def _places(history: SessionHistory) -> Callable[[RecordHistory], str]:
    mark = _DUPLICATES if history.names else ""
    return lambda _: mark


def _kept(number: int, size: int, history: SessionHistory, lines: dict[int, str]) -> list[tuple[int, str]]:
    """The entries of new memories, by doc."""
    return [
        (doc, "\n".join([lines[entry.place[0]] for entry in each.entries]))
        for doc, each in enumerate(history.histories.values(), number << POSITION_BITS | size)
    ]


def _about(session: FedSession) -> str:
    """Version of the metadata, user, project and settings, as JSON for the index; empty if the metadata cannot be read."""
    try:
        info = _LAYOUT.decode_info(session.info.encode(), session.id)
        return json.dumps([[session.number, session.version[0]], info.user, info.project, info.config])
    except (SMPError, ValueError, TypeError, AttributeError, RecursionError):
        return ""


def _chunks(sessions: list[FedSession]) -> Iterator[list[FedSession]]:
    """Sessions that are read by one statement."""
    chunk: list[FedSession] = []
    size = 0
    for each in sessions:
        if chunk and (size + each.bytes > _CHUNK_BYTES or len(chunk) >= _CHUNK_SESSIONS):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += each.bytes
    if chunk:
        yield chunk
