"""What the parts of a store in PostgreSQL share: its connections, statements, and entries as rows.

Guarantees: an entry is a row whose `line` is its JSON line with its checksum. What is in the tables is checked like files: a line that cannot
be read, or whose id differs from that of its row, is a problem with the row's place, and hides no other.

`changes_since`: what changed since a cursor, without gaps, in one statement. Every new entry has the `xid` of its transaction, and every other change of a session sets `session.xid`. A catch-up asks for the
rows whose transaction was not visible in the *snapshot* of the last catch-up, and returns its own snapshot. So a transaction that began early and
commits late is not missed, and nothing is read twice.

A snapshot holds for one run of one server, one table and one viewer (`_IDENTITY`). After a restart, a restored backup, a failover or for another viewer
all live sessions are returned, to be compared. Where row-level security hides sessions, their number is told, too, because a session that is hidden
from now on does not tell.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import InvalidRecord, SessionArchived, SessionCorrupt, SessionNotFound, SMPError, StoreClosed
from smp_memory.files.codec import EDITED, SIGNED, JsonLines
from smp_memory.files.entry_fields import FieldNames
from smp_memory.files.layouts.layout import JsonlLayout
from smp_memory.model.history import IdAllocator, PausedCollection
from smp_memory.model.ids import is_valid
from smp_memory.model.reports import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager
    from typing import TypeVar

    from psycopg import Connection

    from smp_memory.config.settings import Config
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.postgres.connection import Connections

    T = TypeVar("T")
    StoredEntry = tuple[int, str, str]  # start, id and line


FILE = "entries"  # the file of every entry, for people
COLD_ROWS = 1  # in `entry.segment`; 0: hot
LAYOUT = JsonlLayout()  # of the metadata
_CODEC, _NAMES = JsonLines(), FieldNames(time="timestamp", names={}, writes_type=True)
_LARGEST_NUMBER = 10**12
TAIL = 40  # characters at the end of a line by which it is recognised; they have the checksum
_AT_ONCE = 5000  # rows of one statement


class KnownRow(NamedTuple):
    """A row of `session` as this process last knew it."""

    number: int
    state: str
    generation: int
    changes: int
    ending: int
    seq: int
    numbers: dict[str, int] | None  # None: they cannot be read
    bytes: int

    def allocator(self, where: str, history: SessionHistory | None) -> IdAllocator:
        """Raises SessionCorrupt if the numbers cannot be read, because an id could be given out twice."""
        if self.numbers is None:
            message = f"The numbers that were given out cannot be read: {where}. Nothing was written. `smp repair` counts them again."
            raise SessionCorrupt(message, path=where)
        return IdAllocator(self.seq, dict(self.numbers), history)


def decode_numbers(text: str) -> dict[str, int] | None:
    """The largest number of each prefix; None if they cannot be read or believed."""
    numbers = decode_object(text)
    if numbers is None or not all(type(each) is int and 0 <= each <= _LARGEST_NUMBER for each in numbers.values()):
        return None
    return numbers


def decode_object(text: str) -> dict[str, Any] | None:
    """A JSON object; None if the text is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def column_text(text: str | None) -> str | None:
    """A text as a column can hold it: PostgreSQL knows no NUL, and UTF-8 no half of a surrogate pair."""
    return None if text is None else text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


class ReadTo(NamedTuple):
    """How far a process has read the history of a session."""

    generation: int = -1
    ending: int = 0  # the offset
    start: int = -1  # of the last row
    tail: str = ""  # the end of its line


def encode_entry(entry: Entry) -> str:
    return _CODEC.encode(_NAMES.encode(entry, "")).decode().rstrip("\n")


def decode_entry(id: str | None, line: str, start: int, where: str) -> tuple[Entry | None, Problem | None]:
    """The entry of a row (None: of any id), and what is wrong with it."""
    data = line.encode("utf-8", "surrogatepass")
    pieces = _CODEC.decode(data + b"\n", 1)
    fields = pieces[0].fields if len(pieces) == 1 else None
    if fields is None:
        return None, Problem(where, start, "damaged", "this row cannot be read as an entry", "error", id)
    try:
        entry = _NAMES.decode(fields, None, pieces[0].state, FILE, start, 0)
    except InvalidRecord as error:
        return None, Problem(where, start, "invalid", error.message, "error", id)
    if entry.id != (id or entry.id) or entry.lacks or not entry.seq:
        return None, Problem(where, start, "damaged", f"the row is of {id}, its line is not", "error", id)
    entry.place = (start, start + len(data) + 1)
    if entry.state == SIGNED:
        return entry, None
    code, what = ("edited", "was edited") if entry.state == EDITED else ("unsigned", "has no checksum")
    return entry, Problem(where, start, code, f"{id} {what} by another program.", "note", id)


class EntryRows:
    """The rows of a history: entries to be added, and problems."""

    def __init__(self, rows: Iterable[tuple[int, str, str]], where: str) -> None:
        """Each row is start, id and line."""
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        with PausedCollection():
            for start, id, line in rows:
                entry, problem = decode_entry(id, line, start, where)
                if entry is not None:
                    self.entries.append(entry)
                if problem is not None:
                    self.problems.append(problem)


class Tables:
    """The tables of one store, as this process uses them. Threads share them."""

    def __init__(
        self,
        connections: Connections,
        config: Config,
        admit: Callable[..., None],
        after_redaction: Callable[[], list[str]],
    ) -> None:
        self.root, self.config, self.admit = connections.address.shown, config, admit
        self.connections = connections
        self.after_redaction = after_redaction
        self.is_closed = False
        self._statements: dict[str, str] = {}

    def check_open(self) -> None:
        if self.is_closed:
            raise StoreClosed("This store was closed; open it again with smp_memory.open().", path=self.root)

    def sql(self, statement: str) -> str:
        """A statement with the name of the schema in it."""
        found = self._statements.get(statement)
        if found is None:
            found = self._statements[statement] = statement.replace("{schema}", self.connections.address.schema)
        return found

    def run(self, work: Callable[[Connection], T]) -> T:
        """Call `work`, which only reads, with a connection."""
        self.check_open()
        return self.connections.run(work)

    def transaction(
        self, lock_seconds: float | None = None, idle_seconds: float | None = None
    ) -> AbstractContextManager[Connection]:
        self.check_open()
        wait = self.config.lock_timeout_seconds if lock_seconds is None else lock_seconds
        return self.connections.transaction(wait, idle_seconds)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.run(lambda connection: connection.execute(self.sql(statement), values).fetchall())

    def cold_bytes(self, number: int) -> int:
        query = "SELECT coalesce(sum(octet_length(line) + 1), 0)::bigint FROM {schema}.entry WHERE session = %s AND segment = 1"
        return int(self.rows(query, number)[0][0])

    def is_restricted(self, connection: Connection) -> bool:
        """Whether row-level security applies to the database role."""
        row = connection.execute(self.sql("SELECT row_security_active('{schema}.session'::regclass)")).fetchone()
        return row == (True,)

    # -- changes of rows, inside a transaction

    def change(self, connection: Connection, number: int, *, generation: int = 0, **values: Any) -> int:
        """Set columns of a session and mark it as changed; returns its bytes. With a new generation they are counted again."""
        columns = "".join(f", {name} = %s" for name in values)
        counted = "(SELECT coalesce(sum(octet_length(line) + 1), 0) FROM {schema}.entry AS e WHERE e.session = %s AND segment = 0)"
        size, more = (counted, (number,)) if generation else ("bytes", ())
        statement = (
            "UPDATE {schema}.session SET changes = {schema}.next(changes), xid = pg_current_xact_id(), "
            f"generation = {'{schema}.next(generation)' if generation else 'generation'}, "
            f"bytes = {size}{columns} WHERE number = %s RETURNING bytes"
        )
        row = connection.execute(self.sql(statement), (*more, *values.values(), number)).fetchone()
        return row[0] if row is not None else 0

    def write_info(self, connection: Connection, number: int, info: SessionInfo) -> None:
        text = LAYOUT.encode_info(info).decode()
        self.change(connection, number, info=text, project=column_text(info.project), person=column_text(info.user))

    def move_to_cold(self, connection: Connection, number: int, id: str, at: str, why: str) -> None:
        statement = "UPDATE {schema}.entry SET segment = 1, moved = %s WHERE session = %s AND id = %s"
        connection.execute(self.sql(statement), (json.dumps([at, why]), number, id))

    def insert_entries(self, connection: Connection, number: int, end: int, entries: list[Entry]) -> int:
        """Append entries to a session; returns where they end."""
        statement = self.sql(
            "INSERT INTO {schema}.entry (session, start, id, line) "
            "SELECT %s, new.* FROM unnest(%s::bigint[], string_to_array(%s, E'\\n'), string_to_array(%s, E'\\n')) AS new"
        )
        for first in range(0, len(entries), _AT_ONCE):
            part = entries[first : first + _AT_ONCE]
            lines = [encode_entry(entry) for entry in part]
            starts = []
            for line in lines:
                starts.append(end)
                end += len(line.encode()) + 1
            names = [entry.id for entry in part]
            # Neither ids nor lines contain a line break. In an array every quotation mark of a line would be escaped.
            connection.execute(statement, (number, starts, "\n".join(names), "\n".join(lines)))
        return end

    def session_not_found(self, session: str) -> SMPError:
        if self.rows("SELECT 1 FROM {schema}.session WHERE id = %s AND state = 'archived'", session):
            return SessionArchived(f"Session {session} is archived; restore it first.", session=session)
        return SessionNotFound(f"There is no session {session}.", session=session)


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
