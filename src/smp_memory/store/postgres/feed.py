"""Feed the index from the tables of a store in PostgreSQL, without gaps and in one round trip, and keep entries in it for records.

Every new entry has the `xid` of its transaction, and every other change of a session sets `session.xid`. A catch-up is one statement: it asks for the
rows whose transaction was not visible in the *snapshot* of the last catch-up, and returns its own snapshot. So a
transaction that began early and commits late is not missed, and nothing is read twice. The snapshot is saved in the transaction that changes the
index: a process that dies between reading and saving asks again.

A snapshot holds for one run of one server, one table and one viewer (`_IDENTITY`). After a restart, a restored backup, a failover or a change of
rights all sessions are compared: those whose row is as indexed stay, the others are read anew. Where row-level security hides sessions,
their number is compared too, because a session that is hidden from now on does not tell.

Offsets of entries leave no gap, so the index knows that it has all entries between the end that it knows and the present one. Otherwise, and after a change
that is no append (`generation`), the session is read anew. The index keeps the entries: records cost no round trip.
"""

from __future__ import annotations

import json
import time

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
    Stored = tuple[int, str, str]  # start, id and line of an entry

_CURSOR, _AS_OF = "feed", "as_of"  # keys in the index's table `meta`
_ENTRIES = "entries"  # the only "file" of an indexed session
_DUPLICATES = "~"  # as the places of memories of a session in which an id was allocated twice
_MOST_NEW = 20_000  # entries that come with a catch-up; if there are more, they are read session by session
_SMALL_BYTES, _FEW = 1 << 16, 50  # if all are compared, so few sessions come along if they are so small
_CHUNK_BYTES, _CHUNK_SESSIONS = 4 << 20, 200  # read by one statement
_SAVE_SECONDS = 30.0  # how often the time of a catch-up that found nothing is saved

# A replica does not tell which transactions are running, only the oldest of them.
_SNAPSHOT = """CASE WHEN pg_is_in_recovery() THEN format('%%1$s:%%1$s:', pg_snapshot_xmin(pg_current_snapshot())) ELSE pg_current_snapshot()::text END"""
_IDENTITY = """concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), '{schema}.session'::regclass::oid, session_user,
    current_setting('smp.project', true), current_setting('smp.person', true))"""
_NEW = "xid >= (SELECT xmin FROM last) AND NOT pg_visible_in_snapshot(xid, (SELECT snapshot FROM last))"
_STATE = """SELECT 1, number, origin, id,
    json_build_array(state, generation, ending, changes, xid::text, extract(epoch FROM written), bytes, numbers, info)::text FROM changed"""
_CATCH_UP = f"""
WITH moment AS MATERIALIZED (SELECT {_SNAPSHOT} AS snapshot, {_IDENTITY} AS identity),
last AS MATERIALIZED (
    SELECT %(snapshot)s::pg_snapshot AS snapshot, pg_snapshot_xmin(%(snapshot)s::pg_snapshot) AS xmin FROM moment
    WHERE identity = %(identity)s AND pg_snapshot_xmin(snapshot::pg_snapshot) >= pg_snapshot_xmin(%(snapshot)s::pg_snapshot)
),
new AS MATERIALIZED (SELECT session, start, id, line FROM {{schema}}.entry WHERE {_NEW} AND segment = 0 LIMIT {_MOST_NEW + 1}),
changed AS MATERIALIZED (
    SELECT number, id, state, generation, ending, changes, xid, written, bytes, numbers, info, -1 AS origin FROM {{schema}}.session
    WHERE number IN (SELECT number FROM {{schema}}.session WHERE {_NEW} UNION SELECT session FROM {{schema}}.entry WHERE {_NEW})
    UNION ALL
    SELECT number, id, state, generation, ending, changes, xid, written, bytes, numbers, info,
        CASE WHEN bytes <= {_SMALL_BYTES} AND count(*) OVER () <= {_FEW} THEN 0 ELSE -1 END
    FROM {{schema}}.session WHERE state = 'live' AND NOT EXISTS (SELECT FROM last)
)
SELECT 0, (CASE WHEN row_security_active('{{schema}}.session') THEN (SELECT count(*) FROM {{schema}}.session WHERE state = 'live') END), 0, identity,
    json_build_array(snapshot, NOT EXISTS (SELECT FROM last))::text
FROM moment
UNION ALL {_STATE}
UNION ALL SELECT 2, session, start, id, line FROM new
UNION ALL SELECT 2, session, start, e.id, line FROM changed JOIN {{schema}}.entry AS e ON session = number AND segment = 0 WHERE origin = 0"""
_READ = f"""
WITH changed AS MATERIALIZED (
    SELECT number, id, state, s.generation, ending, changes, xid, written, bytes, numbers, info, CASE WHEN s.generation = w.generation THEN w.start ELSE 0 END AS origin
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS w (number, generation, start) JOIN {{schema}}.session AS s USING (number)
    WHERE state = 'live'
)
{_STATE}
UNION ALL SELECT 2, session, start, e.id, line FROM changed JOIN {{schema}}.entry AS e ON session = number AND start >= origin AND segment = 0"""
_LIVE = "SELECT number FROM {schema}.session WHERE state = 'live' AND (%s::text[] IS NULL OR id = ANY(%s))"


class FedSession:
    """A session as one statement saw it, with its hot entries from `origin` on; -1: with those that are new."""

    __slots__ = (
        "bytes",
        "ending",
        "entries",
        "generation",
        "id",
        "info",
        "number",
        "numbers",
        "origin",
        "state",
        "version",
    )

    def __init__(self, number: int, origin: int, id: str, facts: str) -> None:
        self.number, self.origin, self.id = number, origin, id
        self.state, self.generation, self.ending, *version, self.bytes, self.numbers, self.info = json.loads(facts)
        self.version: list[Any] = (
            version  # number of changes, transaction of the last one but for appends, time of the last one
        )
        self.entries: list[Stored] = []

    def __str__(self) -> str:
        return self.id

    @property
    def is_whole(self) -> bool:
        return self.origin == 0 or self.entries_from(0) is not None

    def entries_from(self, start: int) -> list[Stored] | None:
        """The entries from an offset to the end; None if some are missing."""
        rest, end = [row for row in self.entries if row[0] >= start], start
        for row in rest:
            if row[0] != end:
                return None
            end += len(row[2].encode("utf-8", "surrogatepass")) + 1
        return rest if end == self.ending else None


class Changes:
    """What a catch-up returned."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        _, self.visible, _, identity, moment = next(row for row in rows if row[0] == 0)
        snapshot, self.is_complete = json.loads(moment)  # complete: all live sessions, else those that changed
        self.cursor = json.dumps([identity, snapshot])
        self.sessions = _sessions(rows)


def _sessions(rows: list[tuple[Any, ...]]) -> list[FedSession]:
    """The sessions of rows of a statement."""
    found = {number: FedSession(number, origin, id, facts) for kind, number, origin, id, facts in rows if kind == 1}
    for _, number, start, id, line in sorted(row for row in rows if row[0] == 2):
        if number in found:  # row-level security may hide the session meanwhile
            found[number].entries.append((start, id, line))
    return list(found.values())


def _number(session: FedSession) -> int:
    return session.number


class _Position:
    """How far the index has read a session: kept in `IndexedSession.files`."""

    def __init__(self, known: IndexedSession | None) -> None:
        saved = known.files.get(_ENTRIES) if known is not None else None
        self.number, self.generation, self.ending, self.version = saved or [0, -1, 0, []]

    def is_at(self, session: FedSession) -> bool:
        return (self.number, self.generation, self.version) == (session.number, session.generation, session.version)

    def continues(self, session: FedSession) -> bool:
        return (self.number, self.generation) == (session.number, session.generation)


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
        changes = self._changes(cursor)
        if not changes.is_complete and self._hides_some(index, changes):
            changes = self._changes("")
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

    def _changes(self, cursor: str) -> Changes:
        identity, snapshot = json.loads(cursor) if cursor else ("", "1:1:")
        statement, given = self._store.sql(_CATCH_UP), {"identity": identity, "snapshot": snapshot}
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
        self._has_other_past = False  # whether sessions may differ from the index in entries that were indexed
        self.left = 0  # sessions that the answer is about, and that were not read

    def stale(self, ask: Callable[[str], Changes]) -> Iterator[FedSession]:
        """The sessions to index. Between two of them the transaction may be committed and another one begun."""
        index, changes = self._index, self._changes
        assert changes is not None
        saved = index.rows.meta(_CURSOR, "")
        if saved != self._cursor:  # another process caught up meanwhile; an older state must not replace a newer one
            changes = ask("" if changes.is_complete else saved)
        self._has_other_past = changes.is_complete
        self._remove_gone(changes)
        stale = [each for each in changes.sessions if each.state == LIVE and not _is_indexed(index, each)]
        others = []
        for each in stale:
            if each.is_whole or self._appended(index.rows.session(each.id), each) is not None:
                yield each
            else:
                others.append(each)
        wanted = [each for each in others if self._wanted is None or each.id in self._wanted]
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
            self._index.rows.set_meta(_CURSOR, json.dumps([f"until {time.time_ns()}", "1:1:"]))
            missing = [
                each for each in chunk if not _is_indexed(self._index, each)
            ]  # another process may index some, too
            yield from self.read([self._from(each) for each in missing])

    def _remove_gone(self, changes: Changes) -> None:
        index = self._index
        live = {each.id for each in changes.sessions if each.state == LIVE}
        gone = {each.id: each.number for each in sorted(changes.sessions, key=_number) if each.state != LIVE}
        names = set(index.rows.session_ids()) - live if changes.is_complete else gone.keys() - live
        for name in names:
            known = index.rows.session(name)
            if known is not None and (changes.is_complete or _Position(known).number <= gone[name]):
                index.remove(known)
                save_problems(index, name, (), grown=False)

    def _appended(self, known: IndexedSession | None, session: FedSession) -> list[Stored] | None:
        """The entries that the index lacks; None if it does not have those before, or if some did not come along."""
        position = _Position(known)
        if known is None or not known.whole or self._has_other_past or not position.continues(session):
            return None
        return session.entries_from(position.ending)

    def _from(self, session: FedSession) -> tuple[int, int, int]:
        position = _Position(self._index.rows.session(session.id))
        if self._has_other_past or not position.continues(session):
            return session.number, -1, 0
        return session.number, position.generation, position.ending

    def read(self, positions: list[tuple[int, int, int]]) -> list[FedSession]:
        """Read sessions as they are now: number, and generation and offset from which they are known."""
        columns = [[each[column] for each in positions] for column in range(3)]
        statement = self._store.sql(_READ)
        return _sessions(self._store.run(lambda connection: connection.execute(statement, columns).fetchall()))

    def _save(self, changes: Changes) -> None:
        self._index.rows.set_meta(_CURSOR, changes.cursor)
        self._index.rows.set_meta(_AS_OF, time.time())

    # -- one session

    def index_session(self, index: Index, session: FedSession) -> int:
        """Index what is new in a session; returns the number of new memories."""
        known = index.rows.session(session.id) or index.rows.new_session(session.id)
        size, rest = known.size, self._appended(known, session)
        if rest is None or not self._append(known, rest):
            whole = session if session.is_whole else next(iter(self.read([(session.number, -1, 0)])), None)
            if whole is None:  # archived or deleted meanwhile
                index.remove(known)
                return 0
            session, size = whole, 0
            self._replace(known, session)
        known.files = {_ENTRIES: [session.number, session.generation, session.ending, session.version]}
        known.about = _about(session)
        index.rows.save_session(known)
        return known.size - size

    def _append(self, known: IndexedSession, rest: list[Stored]) -> bool:
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
        fresh = SessionHistory(lambda: json.loads(session.numbers))  # they keep ids apart that were given out twice
        rows, index = Rows(session.entries, self._where(known.id)), self._index
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
