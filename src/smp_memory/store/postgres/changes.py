"""What changed in the tables of a store in PostgreSQL since a cursor: without gaps, in one statement.

Every new entry has the `xid` of its transaction, and every other change of a session sets `session.xid`. A catch-up asks for the
rows whose transaction was not visible in the *snapshot* of the last catch-up, and returns its own snapshot. So a transaction that began early and
commits late is not missed, and nothing is read twice.

A snapshot holds for one run of one server, one table and one viewer (`_IDENTITY`). After a restart, a restored backup, a failover or for another viewer
all live sessions are returned, to be compared. Where row-level security hides sessions, their number is told, too, because a session that is hidden
from now on does not tell.
"""

from __future__ import annotations

import json

from smp_memory.model.ids import is_valid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.store.postgres.tables import Tables

    StoredEntry = tuple[int, str, str]  # start, id and line

NO_CURSOR = ""
MOST_SESSIONS = 200  # that are read at once
_LATER = f"{2**63 - 1}:{2**63 - 1}:"  # no transaction is as late as this
_MOST_NEW = 20_000  # entries that come with a catch-up; if there are more, they are read session by session
_SMALL_BYTES, _FEW = 1 << 16, 50  # if all are compared, so few sessions come along if they are so small

# A replica does not tell which transactions are running, only the oldest of them.
_SNAPSHOT = """CASE WHEN pg_is_in_recovery() THEN pg_catalog.format('%1$s:%1$s:', pg_snapshot_xmin(pg_current_snapshot())) ELSE pg_current_snapshot()::text END"""
_IDENTITY = """pg_catalog.concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), '{schema}.session'::regclass::oid, session_user,
    CASE WHEN row_security_active('{schema}.session') THEN {schema}.allowed(false)::text END, current_setting('smp.project', true), current_setting('smp.person', true))"""
_SAVED = "$2::pg_snapshot"
# The server guesses from the value how few rows these are.
_NEW = f"xid >= pg_snapshot_xmin({_SAVED}) AND NOT pg_visible_in_snapshot(xid, {_SAVED}) AND EXISTS (SELECT FROM last)"
_COLUMNS = "number, id, state, generation, ending, changes, xid, written, bytes, numbers, info, project, person"
_ENTRIES = """UNION ALL SELECT 2, number, e.* FROM (SELECT number, origin FROM changed WHERE origin >= 0 LIMIT {most}) AS s,
    LATERAL (SELECT start, id, line FROM {schema}.entry WHERE session = number AND start >= origin AND segment = 0 OFFSET 0) AS e"""
_STATE = """SELECT 1, number, origin, id,
    pg_catalog.json_build_array(state, generation, ending, changes, xid::text, extract(epoch FROM written), bytes, numbers, info, project, person)::text FROM changed"""
_CATCH_UP = f"""
WITH moment AS MATERIALIZED (SELECT {_SNAPSHOT} AS snapshot, {_IDENTITY} AS identity),
last AS MATERIALIZED (SELECT FROM moment WHERE identity = $1 AND pg_snapshot_xmin(snapshot::pg_snapshot) >= pg_snapshot_xmin({_SAVED})),
new AS MATERIALIZED (SELECT session, start, id, line FROM {{schema}}.entry WHERE {_NEW} AND segment = 0 LIMIT {_MOST_NEW + 1}),
changed AS MATERIALIZED (
    SELECT s.*, -1 AS origin
    FROM (SELECT number FROM {{schema}}.session WHERE {_NEW} UNION SELECT session FROM {{schema}}.entry WHERE {_NEW}) AS n (wanted),
        LATERAL (SELECT {_COLUMNS} FROM {{schema}}.session WHERE number = wanted OFFSET 0) AS s
    UNION ALL
    SELECT {_COLUMNS},
        CASE WHEN bytes <= {_SMALL_BYTES} AND count(*) OVER () <= {_FEW} THEN 0 ELSE -1 END
    FROM {{schema}}.session WHERE state = 'live' AND NOT EXISTS (SELECT FROM last)
)
SELECT 0, (CASE WHEN row_security_active('{{schema}}.session') THEN (SELECT count(*) FROM {{schema}}.session WHERE state = 'live') END), 0, identity,
    pg_catalog.json_build_array(snapshot, NOT EXISTS (SELECT FROM last))::text
FROM moment
UNION ALL {_STATE}
UNION ALL SELECT 2, session, start, id, line FROM new
{_ENTRIES.replace("{most}", str(_FEW))}"""
# A function, because only a function can switch compilation off for itself: the server guesses badly how many rows a new table has, and would
# compile the statement for 20 to 400 milliseconds at each call. EXECUTE plans with the given values, which tell how few rows are new.
CATCH_UP_FUNCTION = f"""
CREATE FUNCTION {{schema}}.catch_up(identity text, snapshot text) RETURNS TABLE (kind int, number bigint, place bigint, name text, line text)
LANGUAGE plpgsql STABLE SET jit = off AS $function$
BEGIN
    RETURN QUERY EXECUTE $query$
SELECT a::int, b::bigint, c::bigint, d::text, e::text FROM ({_CATCH_UP}) AS found (a, b, c, d, e)
    $query$ USING identity, snapshot;
END $function$;
"""
_READ = f"""
WITH changed AS MATERIALIZED (
    SELECT s.*, CASE WHEN s.generation = w.generation THEN w.start ELSE 0 END AS origin
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS w (wanted, generation, start),
        LATERAL (SELECT {_COLUMNS} FROM {{schema}}.session WHERE number = wanted AND state = 'live' OFFSET 0) AS s
)
{_STATE}
{_ENTRIES.replace("{most}", str(MOST_SESSIONS))}"""


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
        "person",
        "project",
        "state",
        "version",
    )

    def __init__(self, number: int, origin: int, id: str, facts: str) -> None:
        self.number, self.origin, self.id = number, origin, id
        (
            self.state,
            self.generation,
            self.ending,
            *version,
            self.bytes,
            self.numbers,
            self.info,
            self.project,
            self.person,
        ) = json.loads(facts)
        self.version: list[Any] = (
            version  # number of changes, transaction of the last one but for appends, time of the last one
        )
        self.entries: list[StoredEntry] = []

    def __str__(self) -> str:
        return self.id

    @property
    def is_whole(self) -> bool:
        return self.origin == 0 or self.entries_from(0) is not None

    def entries_from(self, start: int) -> list[StoredEntry] | None:
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
    found = {
        number: FedSession(number, origin, id, facts)
        for kind, number, origin, id, facts in rows
        if kind == 1 and is_valid(id)
    }
    for _, number, start, id, line in sorted(row for row in rows if row[0] == 2):
        if number in found:  # row-level security may hide the session meanwhile
            found[number].entries.append((start, id, line))
    return list(found.values())


def changes_since(tables: Tables, cursor: str) -> Changes:
    """The sessions that changed since the cursor of earlier changes."""
    identity, snapshot = json.loads(cursor) if cursor else ("", _LATER)
    return Changes(tables.rows("SELECT * FROM {schema}.catch_up(%s, %s)", identity, snapshot))


def read_sessions(tables: Tables, positions: list[tuple[int, int, int]]) -> list[FedSession]:
    """Live sessions as they are now: number, and the generation and the offset from which they are wanted; whole if the generation is another one."""
    return _sessions(tables.rows(_READ, *([each[column] for each in positions] for column in range(3))))


def live_numbers(tables: Tables, ids: list[str] | None) -> list[int]:
    """The numbers of live sessions (None: of all)."""
    return [number for (number,) in tables.rows(_LIVE, ids, ids)]
