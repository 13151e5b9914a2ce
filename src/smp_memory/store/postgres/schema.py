"""The tables of a store in PostgreSQL, their versions, and row-level security.

    meta      facts about the store: version of the tables, settings
    session   one row per session: state, metadata, the largest numbers given out
    entry     one row per entry: `line` is the JSON line with its checksum, `start` its offset in the session, as in a file
    audit     the audit log;  token: tokens of clients of a shared server
    access    which database role may use the sessions of which projects and people

Rights: the owner of the tables sees everything, so no agent logs in as the owner. For each other login role the owner calls, with any client,

    SELECT smp.allow('build_agents', 'writer', project => 'shop')       -- 'reader', 'writer', or 'server': also tokens of clients

A role sees the sessions of the projects and people that it was allowed, and no others; settings, migrations and VACUUM are the owner's.
No role chooses the number of a session or removes its row: entries belong to a number, and would be found in the next session that has it.
Row-level security decides by the login role, so a pooler must not log in as somebody else. What it does not hide: whether an id of a
session is taken, and how large the tables are. Whoever may write with SQL can lock the tables and write false entries into their own sessions.

The feed of the index: a new entry has the `xid` of its transaction, and any other change of a session sets `session.xid`. A reader asks for
the rows whose transaction was not visible in its last snapshot, and misses nothing, however late a transaction commits (`changes.py`).
Appends change no indexed column of `session`, so the server updates its row in place. A purged session leaves a row without content.
What a role may not store even with SQL is checked: ids that are no names, lines and metadata that are longer than files may have.
`generation` grows when entries are removed, moved or replaced; appends leave it. `changes` and `generation` grow by random steps: a server that
lost the last changes, because a replica was promoted or a backup restored, does not reach the same numbers with other content.

Versions: `schema_version` numbers the tables, `readable_by` is the oldest version that may still use them. A migration adds
columns and tables and never changes what older ones mean, so old and new processes work side by side; if that is impossible,
it raises `readable_by`, and older processes end with FormatTooNew. Migrations run under a lock, each once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.files.codec import LINE_LIMIT_BYTES
from smp_memory.files.disk import SMALL_FILE_LIMIT_BYTES
from smp_memory.model.ids import new_uid
from smp_memory.store.postgres.tables import CATCH_UP_FUNCTION

if TYPE_CHECKING:
    from psycopg import Connection

VERSION = 1
OLDEST_READER = 1  # versions of SMP that know this one can use the tables

_TABLES = """
CREATE FUNCTION {schema}.next(last bigint) RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT last + 1 + floor(random() * 1e9::float8)::bigint';
CREATE TABLE {schema}.meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE {schema}.session (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL CHECK (id ~ '^[A-Za-z0-9_][A-Za-z0-9_-]*$' AND octet_length(id) <= 64),
    state text NOT NULL DEFAULT 'live' CHECK (state IN ('live', 'archived', 'deleted', 'purged')),
    project text CHECK (octet_length(project) <= {short}),
    person text CHECK (octet_length(person) <= {short}),
    info text NOT NULL CHECK (octet_length(info) <= {short}),
    seq bigint NOT NULL CHECK (seq >= 0),
    numbers text NOT NULL CHECK (octet_length(numbers) <= {short}),
    ending bigint NOT NULL DEFAULT 0 CHECK (ending >= 0),
    bytes bigint NOT NULL DEFAULT 0,
    changes bigint NOT NULL DEFAULT {schema}.next(0),
    generation bigint NOT NULL DEFAULT {schema}.next(0),
    written timestamptz NOT NULL DEFAULT clock_timestamp(),
    moved bigint NOT NULL DEFAULT 0,
    about text NOT NULL DEFAULT '{{}}' CHECK (octet_length(about) <= {short}),
    archived text CHECK (octet_length(archived) <= {short}),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id()
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX session_id ON {schema}.session (id) WHERE state IN ('live', 'archived');
CREATE INDEX session_deleted ON {schema}.session (id) WHERE state = 'deleted';
CREATE INDEX session_xid ON {schema}.session (xid);
CREATE SEQUENCE {schema}.moves;
CREATE TABLE {schema}.entry (
    session bigint NOT NULL,
    start bigint NOT NULL CHECK (start >= 0),
    segment smallint NOT NULL DEFAULT 0 CHECK (segment IN (0, 1)),
    id text NOT NULL CHECK (id ~ '^[^/\\\\[:cntrl:][:space:]]+$' AND octet_length(id) <= 200),
    line text NOT NULL CHECK (octet_length(line) <= {long}),
    moved text,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (session, start)
);
CREATE INDEX entry_xid ON {schema}.entry (xid);
CREATE INDEX entry_id ON {schema}.entry (session, id);
CREATE INDEX entry_cold ON {schema}.entry (session) WHERE segment = 1;
CREATE TABLE {schema}.audit (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, line bytea NOT NULL, role name NOT NULL DEFAULT session_user
);
CREATE TABLE {schema}.token (position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, line bytea NOT NULL);
CREATE TABLE {schema}.access (role name NOT NULL, project text, person text, may_write boolean NOT NULL DEFAULT false);

CREATE FUNCTION {schema}.append(
    wanted bigint, known bigint, new_changes bigint, new_seq bigint, new_numbers text, new_ending bigint, quiet boolean, starts text, ids text, lines text,
    lock_milliseconds text
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', lock_milliseconds, true);
    UPDATE {schema}.session
    SET seq = new_seq, numbers = new_numbers, bytes = bytes + new_ending - ending, ending = new_ending, changes = new_changes,
        written = CASE WHEN quiet THEN written ELSE clock_timestamp() END
    WHERE number = wanted AND changes = known AND state = 'live';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO {schema}.entry (session, start, id, line) SELECT wanted, new.*
    FROM unnest(string_to_array(starts, ' ')::bigint[], string_to_array(ids, ' '), string_to_array(lines, E'\n')) AS new;
    RETURN true;
END $$;
"""
# Whether the login role may read or write a session: whether one of the keys of the session is among those of the role. The subqueries are
# evaluated once per statement, not per row.
_MAY = """(
    ARRAY['*', 'p' || project, 'q' || person, 'b' || length(project) || ':' || project || person] && (SELECT {schema}.allowed(WRITING))
    AND (SELECT coalesce(current_setting('smp.project', true), '')) IN ('', coalesce(project, ''))
    AND (SELECT coalesce(current_setting('smp.person', true), '')) IN ('', coalesce(person, ''))
)"""
_MAY_READ, _MAY_WRITE = _MAY.replace("WRITING", "false"), _MAY.replace("WRITING", "true")
_MAY_WRITE_ENTRY = f"EXISTS (SELECT FROM {{schema}}.session WHERE number = session AND {_MAY_WRITE})"
_RIGHTS = f"""
CREATE FUNCTION {{schema}}.allowed(writing boolean) RETURNS text[]
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(CASE
        WHEN project IS NULL AND person IS NULL THEN '*' WHEN person IS NULL THEN 'p' || project WHEN project IS NULL THEN 'q' || person
        ELSE 'b' || length(project) || ':' || project || person END), '{{{{}}}}')
    FROM {{schema}}.access WHERE role = session_user AND (may_write OR NOT writing)
$$;
ALTER TABLE {{schema}}.session ENABLE ROW LEVEL SECURITY;
ALTER TABLE {{schema}}.entry ENABLE ROW LEVEL SECURITY;
ALTER TABLE {{schema}}.audit ENABLE ROW LEVEL SECURITY;
CREATE POLICY reading ON {{schema}}.session FOR SELECT USING {_MAY_READ};
CREATE POLICY adding ON {{schema}}.session FOR INSERT WITH CHECK {_MAY_WRITE};
CREATE POLICY changing ON {{schema}}.session FOR UPDATE USING {_MAY_WRITE} WITH CHECK {_MAY_WRITE};
CREATE POLICY reading ON {{schema}}.entry FOR SELECT USING (EXISTS (SELECT FROM {{schema}}.session WHERE number = session));
CREATE POLICY adding ON {{schema}}.entry FOR INSERT WITH CHECK ({_MAY_WRITE_ENTRY});
CREATE POLICY changing ON {{schema}}.entry FOR UPDATE USING ({_MAY_WRITE_ENTRY}) WITH CHECK ({_MAY_WRITE_ENTRY});
CREATE POLICY removing ON {{schema}}.entry FOR DELETE USING ({_MAY_WRITE_ENTRY});
CREATE POLICY reading ON {{schema}}.audit FOR SELECT USING (role = session_user OR '*' = ANY((SELECT {{schema}}.allowed(false))::text[]));
CREATE POLICY adding ON {{schema}}.audit FOR INSERT WITH CHECK (role = session_user);
"""
_ALLOW = """
CREATE FUNCTION {schema}.allow(role name, kind text, project text DEFAULT NULL, person text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    each text;
BEGIN
    IF kind IS NULL OR kind NOT IN ('reader', 'writer', 'server') THEN
        RAISE 'kind must be reader, writer or server, not %', kind;
    END IF;
    FOREACH each IN ARRAY ARRAY['reader', 'writer', 'server'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{schema}_' || each) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', '{schema}_' || each);
        END IF;
    END LOOP;
    GRANT {schema}_reader TO {schema}_writer;
    GRANT {schema}_writer TO {schema}_server;
    GRANT USAGE ON SCHEMA {schema} TO {schema}_reader;
    GRANT SELECT ON {schema}.meta, {schema}.session, {schema}.entry, {schema}.audit TO {schema}_reader;
    GRANT INSERT (line) ON {schema}.audit TO {schema}_reader;
    GRANT INSERT (id, state, project, person, info, seq, numbers, ending, written), UPDATE ON {schema}.session TO {schema}_writer;
    GRANT INSERT, UPDATE, DELETE ON {schema}.entry TO {schema}_writer;
    GRANT USAGE ON SEQUENCE {schema}.moves TO {schema}_writer;
    GRANT SELECT, INSERT, DELETE ON {schema}.token TO {schema}_server;
    EXECUTE format('GRANT %I TO %I', '{schema}_' || kind, role);
    INSERT INTO {schema}.access (role, project, person, may_write) VALUES (role, project, person, kind <> 'reader');
END $$;
REVOKE ALL ON FUNCTION {schema}.allow FROM PUBLIC;
"""
MIGRATIONS: dict[int, str] = {}  # by the version that each leads to; the tables above are those of VERSION


def create(connection: Connection, schema: str) -> bool:
    """Make the tables if there are none; whether there were none. Inside a transaction."""
    _lock(connection, schema)
    if connection.execute("SELECT to_regclass(%s)", (f"{schema}.meta",)).fetchone() != (None,):
        return False
    if connection.execute("SELECT to_regnamespace(%s)", (schema,)).fetchone() == (None,):
        connection.execute(f"CREATE SCHEMA {schema}")  # a role that owns a schema may not be allowed to create one
    connection.execute(_TABLES.format(schema=schema, short=SMALL_FILE_LIMIT_BYTES, long=LINE_LIMIT_BYTES))
    connection.execute((_RIGHTS + _ALLOW).format(schema=schema))
    connection.execute(CATCH_UP_FUNCTION.replace("{schema}", schema))
    connection.execute(f"INSERT INTO {schema}.meta VALUES ('uid', %s)", (new_uid() + new_uid(),))
    _store_version(connection, schema)
    return True


def migrate(connection: Connection, schema: str) -> None:
    """Bring older tables up to this version. Inside a transaction."""
    _lock(connection, schema)
    row = connection.execute(f"SELECT value FROM {schema}.meta WHERE name = 'schema_version'").fetchone()
    for version in range(int(row[0]) + 1 if row else 1, VERSION + 1):
        connection.execute(MIGRATIONS[version].format(schema=schema))
    _store_version(connection, schema)


def _lock(connection: Connection, schema: str) -> None:
    connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(%s::text, 0::bigint))", (f"smp tables of {schema}",)
    )


def _store_version(connection: Connection, schema: str) -> None:
    for name, number in (("schema_version", VERSION), ("readable_by", OLDEST_READER)):
        connection.execute(
            f"INSERT INTO {schema}.meta VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value "
            "WHERE meta.value::int < excluded.value::int",
            (name, str(number)),
        )
