"""Erase memories from a store in PostgreSQL: rows in any state and segment, quotes in summaries, this user's index and logs.

Guarantees: rows, quotes and the note in the audit log change in one transaction. Then the server is told to forget the deleted rows: a small table is
rewritten at once, a large one is vacuumed, if the table is free and no older transaction sees the rows within the time for locks; else the receipt says so. All rows are searched for pieces of the text.
Non-guarantees: the write-ahead log, replicas and backups are beyond this process; the receipt says so. The index of another user drops the memories when
it next catches up.
"""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from smp_memory.errors import LockTimeout, NotAllowed, SMPError
from smp_memory.index.inspection import erase_from_index
from smp_memory.model import told_log
from smp_memory.model.deletions import PurgeNotes
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.overview.extractive_summary import AUTHOR, covers, without_quotes
from smp_memory.privacy.audit import decoded, encode, gives_reason, without_reason
from smp_memory.store.postgres.postgres_session import PostgresSession
from smp_memory.store.postgres.tables import EntryRows, column_text, encode_entry
from smp_memory.store.session_edits import pieces_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection
    from psycopg.errors import Diagnostic

    from smp_memory.files.user_state import UserState
    from smp_memory.index.full_text_index import FullTextIndex
    from smp_memory.model.deletions import Receipt
    from smp_memory.store.postgres.tables import Tables

_BEYOND_REACH = (
    "copies of the rows in the server's write-ahead log, in replicas that lag, in backups and in archived log files are removed by the "
    "operator of the server: see docs/scale.md"
)
_VACUUM_FULL_BYTES = 64 << 20  # a table up to this size is rewritten within a second
_LOCKED, _RETRY_SECONDS = "55P03", 0.05  # the code of the server's warning, and when to try again
_STILL_SEEN = re.compile(r"(\d+) dead row versions cannot be removed|(\d+) are dead but not yet removable")
_LIVING = "(state IN ('live', 'archived') OR state = 'deleted')"


class Erasure:
    """One erasure: ids by session."""

    def __init__(self, tables: Tables, targets: dict[str, list[str]], receipt: Receipt) -> None:
        self._tables, self._targets, self._receipt = tables, targets, receipt
        self._pieces: list[bytes] = []

    def erase_rows(self, note: Callable[[], object]) -> None:
        """Check that each memory exists; unless it is a preview, remove it and call `note`."""
        tables, values = self._tables, []
        with tables.transaction(tables.config.lock_timeout_seconds) as connection:
            for session, names in self._targets.items():
                values += self._erased_values(connection, session, names)
            if self._receipt.preview:
                return
            self._pieces = pieces_of(values)
            self._receipt.bytes_before = table_bytes(self._tables, connection)
            for session, names in self._targets.items():
                self._erase_in(connection, session, names)
                self._forget_reasons(connection, session, set(names))
            note()

    def clean_up(self, state: UserState, indexer: FullTextIndex) -> None:
        """What is not part of the transaction; each step can be repeated."""
        for session, names in self._targets.items():
            PurgeNotes(state, session).forget(names)
        told_log.forget(state, self._targets)
        with indexer.feed.mutex:
            indexer.close()
            changed = erase_from_index(indexer.folder, dict(self._targets))
            (self._receipt.rewritten if changed == "rewritten" else self._receipt.removed).extend(
                ["index"] * bool(changed)
            )
        self._receipt.pending += clean_tables(self._tables, "entry", "audit")
        self._receipt.beyond_reach.insert(0, _BEYOND_REACH)
        try:
            self._receipt.bytes_after = self._tables.run(partial(table_bytes, self._tables))
            self._search_rows()
        except SMPError as error:  # the memories are erased, whatever happens now
            self._receipt.pending.append(f"the other memories were not searched for the text ({error.message})")

    def _erased_values(self, connection: Connection, session: str, names: list[str]) -> list[Any]:
        """All that is stored of these memories. Raises MemoryNotFound if there is nothing of one of them."""
        query = f"SELECT number, state FROM {{schema}}.session WHERE id = %s AND {_LIVING} ORDER BY number FOR UPDATE"
        found = connection.execute(self._tables.sql(query), (session,)).fetchall()
        if not found:
            raise self._tables.session_not_found(session)
        query = "SELECT start, id, line FROM {schema}.entry WHERE session = ANY(%s) AND id = ANY(%s)"
        rows = connection.execute(
            self._tables.sql(query), ([number for number, _ in found], [column_text(name) for name in names])
        ).fetchall()
        stored = {row[1] for row in rows}
        missing = next((name for name in names if name not in stored), None)
        if missing is not None:
            raise memory_not_found(PostgresSession(self._tables, found[0][0], session, found[0][1]), missing)
        return [entry.data for entry in EntryRows(rows, self._tables.root).entries]

    def _erase_in(self, connection: Connection, session: str, names: list[str]) -> None:
        query = self._tables.sql(f"SELECT number FROM {{schema}}.session WHERE id = %s AND {_LIVING}")
        for (number,) in connection.execute(query, (session,)).fetchall():
            statement = "DELETE FROM {schema}.entry WHERE session = %s AND id = ANY(%s)"
            connection.execute(self._tables.sql(statement), (number, names))
            changed = self._erase_quotes(connection, number, names)
            self._receipt.summaries += [f"{session}/{id}" for id in changed]
            self._tables.change(connection, number, generation=1)
            self._receipt.rewritten.append(f"{self._tables.root}#{session}")

    def _forget_reasons(self, connection: Connection, session: str, ids: set[str]) -> None:
        """Remove reasons from the audit log, because they may repeat what is erased. Only the owner of the tables may change it."""
        query = self._tables.sql(
            "SELECT position, line FROM {schema}.audit WHERE position('\"reason\"'::bytea IN line) > 0"
        )
        lines = [(position, decoded(bytes(line))) for position, line in connection.execute(query).fetchall()]
        rows = [(position, fields) for position, fields in lines if fields and gives_reason(fields, session, ids)]
        if rows and self._tables.is_restricted(connection):
            what = "the reasons given for it in the audit log are removed by an erasure of the owner of the tables"
            self._receipt.pending.append(what)
            return
        statement = self._tables.sql("UPDATE {schema}.audit SET line = %s WHERE position = %s")
        for position, fields in rows:
            connection.execute(statement, (encode(without_reason(fields)), position))

    def _erase_quotes(self, connection: Connection, number: int, names: list[str]) -> list[str]:
        """Take sentences that quote erased memories out of the summaries that compaction made; returns their ids."""
        query = "SELECT start, id, line FROM {schema}.entry WHERE session = %s AND line LIKE '%%\"summary\"%%'"
        changed, pieces = [], [piece.decode() for piece in self._pieces]
        for entry in EntryRows(
            connection.execute(self._tables.sql(query), (number,)).fetchall(), self._tables.root
        ).entries:
            text = entry.data.get("summary")
            is_ours = entry.type == "summary" and entry.data.get("author") == AUTHOR
            if not is_ours or not text or not any(covers(entry.data.get("covers"), name) for name in names):
                continue
            twin = entry.copy()
            left = without_quotes(text, lambda sentence: any(each in sentence for each in pieces))
            twin.data = {**entry.data, "summary": left}
            statement = "UPDATE {schema}.entry SET line = %s WHERE session = %s AND start = %s"
            connection.execute(self._tables.sql(statement), (encode_entry(twin), number, entry.place[0]))
            changed.append(entry.id)
        return changed

    def _search_rows(self) -> None:
        """Search all rows for the text; other memories that have it are named."""
        patterns = ["%" + _escaped(piece.decode()) + "%" for piece in self._pieces]
        query = "SELECT s.id || '/' || e.id FROM {schema}.entry AS e JOIN {schema}.session AS s ON number = session WHERE line LIKE ANY(%s)"
        counts = self._tables.rows("SELECT count(*), coalesce(sum(octet_length(line)), 0)::bigint FROM {schema}.entry")
        self._receipt.pieces, self._receipt.searched_files = len(self._pieces), 1
        if self._tables.run(self._tables.is_restricted):
            text = "only the sessions that this database role may see were searched for the text"
            self._receipt.beyond_reach.append(text)
        self._receipt.searched_bytes = counts[0][1]
        if patterns:
            self._receipt.elsewhere += sorted({row[0] for row in self._tables.rows(query, patterns)})


def clean_tables(tables: Tables, *names: str) -> list[str]:
    """Let the server forget deleted rows and earlier states of rows: at once in small tables; returns what is left to be done."""
    kept: list[str] = []
    large: list[str] = []
    why = ""
    for table in names:
        try:
            is_small = tables.run(partial(table_bytes, tables, table=table)) <= _VACUUM_FULL_BYTES
            options = "VERBOSE, SKIP_LOCKED" + (", FULL" if is_small else "")
            _vacuum_unlocked(tables, f"VACUUM ({options}) {{schema}}.{table}")
            large += [] if is_small else [table]
        except SMPError as error:
            kept, why = [*kept, table], error.message
    left = f"the server keeps deleted rows until it next vacuums the tables {', '.join(kept)} ({why})"
    over = f"the freed places in the tables {', '.join(large)} are overwritten in time; `VACUUM FULL` by their owner does it at once"
    return [left] * bool(kept) + [over] * bool(large)


def _vacuum_unlocked(tables: Tables, statement: str) -> None:
    """Vacuum a table as soon as nobody uses it. A server that waits for it would let all others wait, too."""
    until, pause = time.monotonic() + tables.config.lock_timeout_seconds, _RETRY_SECONDS
    while True:
        try:
            return tables.run(partial(_vacuum, statement=tables.sql(statement)))
        except LockTimeout:
            if time.monotonic() > until:
                raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)


def _vacuum(connection: Connection, statement: str) -> None:
    """Vacuum a table. The server only says that it skipped one that is locked or of another owner, or that it kept rows; that is an error here."""
    errors: list[SMPError] = []

    def note(given: Diagnostic) -> None:
        text = f"{given.message_primary} {given.message_detail or ''}"
        if given.severity_nonlocalized == "WARNING":
            kind = LockTimeout if given.sqlstate == _LOCKED else NotAllowed
            errors.append(kind(str(given.message_primary)))
        elif any(number != "0" for each in _STILL_SEEN.findall(text) for number in each if number):
            errors.append(LockTimeout("an older transaction may still read them"))

    connection.add_notice_handler(note)
    try:
        connection.execute(statement)
    finally:
        connection.remove_notice_handler(note)
    if errors:
        raise errors[0]


def table_bytes(tables: Tables, connection: Connection, table: str = "entry") -> int:
    row = connection.execute(tables.sql(f"SELECT pg_total_relation_size('{{schema}}.{table}'::regclass)")).fetchone()
    return int(row[0]) if row is not None else 0


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
