"""One session in PostgreSQL: a row of `session` and its rows of `entry`.

Commit, in one statement: the row's counters go up if its `changes` is still what this process knows, and the entries are inserted; so a write
costs one round trip. If another process wrote meanwhile, or holds the row, the batches are resolved again in a transaction that has locked the row.

Guarantees: those of `store.port`. If the connection breaks during a commit, the row is changed once more over a new connection: after that the
old statement can no longer take effect, and whether its entries are there is the true answer. If they are not, they are stored again. A server that is away
is waited for as long as a lock is; then the error says that nothing was stored, or DurabilityUnknown that it is not known.
What a process keeps of a session counts only if the server has it: a server that lost the last writes is recognised by the last row, and the session is read anew.
"""

from __future__ import annotations

import json
import time
from functools import partial
from os import urandom
from threading import RLock
from typing import TYPE_CHECKING, Any

from smp_memory.errors import Busy, Conflict, DurabilityUnknown, MemoryNotFound, SessionCorrupt, SMPError, StorageError
from smp_memory.model.content_checks import content_problems
from smp_memory.model.history import COLD, HOT, IdAllocator, SessionHistory
from smp_memory.model.reports import Problem, Report
from smp_memory.model.rewrite_plan import RewriteReport
from smp_memory.model.session_info import ARCHIVED, LIVE
from smp_memory.model.storage_reports import ColdMemory
from smp_memory.observe import incomplete
from smp_memory.privacy.settings import session_settings
from smp_memory.store.durability import GroupCommit
from smp_memory.store.postgres.connection import ConnectionLost, Unreachable
from smp_memory.store.postgres.rewriting import Rewriting
from smp_memory.store.postgres.tables import (
    COLD_ROWS,
    FILE,
    LAYOUT,
    TAIL,
    EntryRows,
    KnownRow,
    ReadTo,
    column_text,
    decode_numbers,
    encode_entry,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from psycopg import Connection

    from smp_memory.config.settings import Config
    from smp_memory.model.entry import Entry
    from smp_memory.model.rewrite_plan import RewritePlan
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import BatchPort
    from smp_memory.store.postgres.tables import Tables

_RETRY_SECONDS, _IDLE_SECONDS = 0.2, 10.0  # how long the server keeps the row locked for a writer that is cut off
_STATE = "number, state, generation, changes, ending, seq, numbers, bytes"
_APPEND = "SELECT {schema}.append(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_ROW = f"SELECT {_STATE} FROM {{schema}}.session WHERE number = %s AND id = %s AND state = %s"
# `follows`: the server still has the last row that was read, and only appended since.
_NEW_ROWS = f"""
SELECT {_STATE}, follows, start, e.id, line FROM {{schema}}.session AS s
CROSS JOIN LATERAL (SELECT generation = %s AND EXISTS (
    SELECT FROM {{schema}}.entry WHERE session = %s AND start = %s AND segment = 0 AND right(line, {TAIL}) = %s
) AS follows) AS known
LEFT JOIN {{schema}}.entry AS e ON e.session = number AND segment = 0 AND start >= CASE WHEN follows THEN %s ELSE 0 END
WHERE number = %s AND s.id = %s AND state = %s ORDER BY start"""


class PostgresSession:
    """A live session, or an archived one that can be read and rewritten."""

    files = None

    def __init__(self, tables: Tables, number: int, session: str, state: str = LIVE) -> None:
        self.session = session
        self.number = number
        self.location = f"{tables.root}#{session}"
        self._tables, self._state = tables, state
        self._mutex = RLock()
        self._known: KnownRow | None = None  # as of the last read or write
        self._size: int | None = None  # its bytes; kept if the rest may be wrong
        self._history = SessionHistory()
        self._read_to = ReadTo()
        self._problems: list[Problem] = []
        self._config: Config | None = None
        self._group = GroupCommit(self._commit_group)

    def after_fork(self) -> None:
        self._mutex, self._group = RLock(), GroupCommit(self._commit_group)
        self._forget()

    def _forget(self) -> None:
        """What was kept of the session may not be what is stored."""
        self._known, self._read_to = None, ReadTo()

    # -- settings and sizes

    @property
    def config(self) -> Config:
        if self._config is None:
            try:
                self._config = session_settings(self._tables.config, self.info())
            except SessionCorrupt:  # `validate` reports it
                self._config = self._tables.config
        return self._config

    @property
    def size_bytes(self) -> int:
        return self._refresh().bytes if self._size is None else self._size  # no read after a write: it could fail

    # -- writing

    def commit(self, batch: BatchPort) -> None:
        self._tables.check_open()
        try:
            self._group.commit(batch)
        except MemoryNotFound as error:
            is_known = error.details.get("id") in self._history.histories
            raise error if is_known else incomplete.with_unreadable(error, self._unreadable()) from None

    def _commit_group(self, batches: list[BatchPort]) -> None:
        """Batches that depend on nothing are stored together; each that depends on other memories alone, because it must see those before it."""
        independent = [batch for batch in batches if not batch.needs_histories]
        for group in ([independent] if independent else []) + [[batch] for batch in batches if batch.needs_histories]:
            try:
                with self._mutex:
                    self._commit_surely(group)
            except SMPError as error:  # of these alone: others of the call may be stored
                for batch in group:
                    batch.error = error

    def _commit_surely(self, batches: list[BatchPort]) -> None:
        """Store these batches. After a lost connection the truth is found out first; then they are stored if they were not."""
        until = time.monotonic() + self.config.lock_timeout_seconds
        while True:
            try:
                self._commit_batches(batches)
                return
            except (ConnectionLost, Unreachable) as error:
                lost = error
            if isinstance(lost, ConnectionLost) and self._sent and self._was_stored(*self._sent, lost):
                return
            if time.monotonic() > until:
                message = f"Session {self.session} could not be written ({lost.details['reason']}). Nothing was stored."
                raise Unreachable(message, session=self.session, path=self._tables.root, recoverable=True) from lost
            time.sleep(_RETRY_SECONDS)

    def _commit_batches(self, batches: list[BatchPort]) -> None:
        needs = batches[0].needs_histories
        self._sent: tuple[int, str] | None = None  # the first row that may have been stored
        try:
            if self._known is None or needs:
                self._refresh(with_history=needs)
            if self._append(batches):
                return
            with self._tables.transaction(self.config.lock_timeout_seconds, _IDLE_SECONDS) as connection:
                self._lock(connection, with_history=needs)
                if not self._append(batches):
                    raise StorageError(f"Session {self.session} changed while it was locked.", session=self.session)
        except BaseException:
            self._forget()
            raise

    def _append(self, batches: list[BatchPort]) -> bool:
        """Resolve and store these batches; False if another process wrote or holds the row."""
        known, needs = self._known, batches[0].needs_histories
        assert known is not None
        allocator = known.allocator(self.location, self._history if needs else None)
        entries: list[Entry] = []
        lines: list[str] = []
        size, quota = 0, self.config.quota_bytes
        admit = partial(self._tables.admit, self.session, quota_bytes=quota)
        for batch in batches:
            trial, batch.error = allocator.copy(), None
            try:
                new = batch.resolve(trial)
                encoded = [encode_entry(entry) for entry in new]
                added = sum(len(line.encode()) + 1 for line in encoded)
                batch.check_room(admit, known.bytes + size, added)
            except SMPError as error:
                batch.error = error
                continue
            allocator, size = trial, size + added
            entries += new
            lines += encoded
        if not entries:
            return True
        starts, end = [], known.ending
        for entry, line in zip(entries, lines, strict=True):
            starts.append(end)
            entry.file, entry.line, entry.place = FILE, end, (end, end + len(line.encode()) + 1)
            end = entry.place[1]
        is_quiet = all(batch.is_maintenance for batch in batches)
        numbers = json.dumps(allocator.numbers)
        names = " ".join([entry.id for entry in entries])
        places = " ".join(map(str, starts))  # texts are sent faster than lists
        wait = str(max(1, int(self.config.lock_timeout_seconds * 1000)))  # 0 would be for ever
        changes = known.changes + 1 + int.from_bytes(urandom(4), "big")  # see schema.py
        values = (
            self.number, known.changes, changes, allocator.seq, numbers, end, is_quiet, places, names, "\n".join(lines), wait
        )  # fmt: skip
        self._sent = starts[0], lines[0]
        statement = self._tables.sql(_APPEND)
        execute = self._tables.connections.execute_once
        try:
            if execute(lambda connection: connection.execute(statement, values).fetchone()) != (True,):
                return False
        except Conflict:  # the server's default isolation is above READ COMMITTED
            return False
        self._known = KnownRow(
            self.number, LIVE, known.generation, changes, end, allocator.seq, allocator.numbers, known.bytes + size
        )  # fmt: skip
        self._size = self._known.bytes
        if self._read_to[:2] == (known.generation, known.ending):  # the history has all that was before
            self._history.add(entry.copy() for entry in entries)
            self._read_to = ReadTo(known.generation, end, starts[-1], lines[-1][-TAIL:])
        return True

    def _was_stored(self, start: int, line: str, lost: ConnectionLost) -> bool:
        """Whether a row was stored over a connection that broke. Afterwards, a statement that is still under way has no effect."""
        until = time.monotonic() + self.config.lock_timeout_seconds
        while True:
            try:
                with self._tables.transaction(self.config.lock_timeout_seconds, _IDLE_SECONDS) as connection:
                    self._tables.change(connection, self.number)  # the statement under way requires the old `changes`
                    query = self._tables.sql("SELECT line FROM {schema}.entry WHERE session = %s AND start = %s")
                    stored = connection.execute(query, (self.number, start)).fetchone() == (line,)
                return stored
            except SMPError as error:
                if time.monotonic() > until or not isinstance(error, ConnectionLost | Unreachable | Busy):
                    raise DurabilityUnknown(
                        f"The connection broke while session {self.session} was written ({lost.details['reason']}), and the server did not "
                        f"tell the outcome ({error.message}) It is not known whether the write is stored: look before you repeat it, or repeat it "
                        "with an idempotency key.",
                        session=self.session, path=self._tables.root, recoverable=True,
                    ) from error  # fmt: skip
                time.sleep(_RETRY_SECONDS)

    def _lock(self, connection: Connection, *, with_history: bool = True) -> KnownRow:
        """Lock the row until the end of the transaction, and read the session as it is then."""
        query = self._tables.sql("SELECT state FROM {schema}.session WHERE number = %s AND id = %s FOR UPDATE")
        if connection.execute(query, (self.number, self.session)).fetchone() != (self._state,):
            raise self._tables.session_not_found(self.session)
        return self._refresh(with_history=with_history)

    # -- reading

    def _refresh(self, *, with_history: bool = False) -> KnownRow:
        """Read the row, and what was written since the last read, in one statement."""
        with self._mutex:
            generation, ending, start, tail = self._read_to
            last: tuple[Any, ...] = (generation, self.number, start, tail, ending) if with_history else ()
            query = _NEW_ROWS if with_history else _ROW
            rows = self._tables.rows(query, *last, self.number, self.session, self._state)
            if not rows:
                raise self._tables.session_not_found(self.session)
            number, state, generation, changes, ending, seq, numbers, size, *follows = rows[0][:9]
            known = KnownRow(number, state, generation, changes, ending, seq, decode_numbers(numbers), size)
            if with_history:
                self._add(known, [row[9:] for row in rows if row[9] is not None], follows=follows[0])
            self._known, self._size = known, known.bytes
            return known

    def _add(self, known: KnownRow, rows: list[tuple[int, str, str]], *, follows: bool) -> None:
        if not follows:
            self._history, self._problems = SessionHistory(lambda: known.numbers or {}), []
        read = EntryRows(rows, self.location)
        self._problems += read.problems
        if read.entries:
            self._history.add(read.entries)
        start, tail = (rows[-1][0], rows[-1][2][-TAIL:]) if rows else self._read_to[2:] if follows else (-1, "")
        self._read_to = ReadTo(known.generation, known.ending, start, tail)

    def history(
        self,
        ids: Iterable[str] | None = None,
        *,
        kind: str | None = None,
        last: int | None = None,
        key: str | None = None,
        segment: str = HOT,
    ) -> SessionHistory:
        self._tables.check_open()
        if segment == COLD:
            return self._cold_history(ids, key)
        if ids is not None:
            return self._histories_of(list(ids))
        with self._mutex:
            self._refresh(with_history=True)
            found = self._history.snapshot()
            found.unreadable = self._unreadable()
            return found

    def _unreadable(self) -> list[Problem]:
        found = incomplete.errors(self._problems)
        return incomplete.report(self._named(found)) if found else []

    def _named(self, problems: list[Problem]) -> list[Problem]:
        if self._state != ARCHIVED:
            return problems
        return incomplete.located_in_archive(problems, self.session, self.location, self.location)

    def _histories_of(self, ids: list[str]) -> SessionHistory:
        found = SessionHistory()
        rows = EntryRows(self._rows("AND e.id = ANY(%s)", [column_text(id) for id in ids]), self.location)
        found.add(rows.entries)
        found = found.subset(ids)
        found.unreadable = incomplete.report(self._named(incomplete.errors(rows.problems))) if rows.problems else []
        return found

    def _rows(self, condition: str, value: Any, segment: int = 0) -> list[tuple[int, str, str]]:
        """Rows of this session, which must be in its state."""
        query = self._tables.sql(
            "SELECT start, e.id, line FROM {schema}.session AS s LEFT JOIN {schema}.entry AS e "
            f"ON e.session = s.number AND segment = %s {condition} WHERE number = %s AND s.id = %s AND state = %s ORDER BY start"
        )
        given = (segment, value, self.number, self.session, self._state)
        rows = self._tables.run(lambda connection: connection.execute(query, given).fetchall())
        if not rows:
            raise self._tables.session_not_found(self.session)
        return [row for row in rows if row[0] is not None]

    def _cold_history(self, ids: Iterable[str] | None, key: str | None) -> SessionHistory:
        wanted = None if ids is None else [column_text(id) for id in ids]
        condition = "AND e.id = ANY(%s)" if wanted is not None else "AND %s::text[] IS NULL"
        rows = EntryRows(self._rows(condition, wanted, COLD_ROWS), self.location)
        found = SessionHistory()
        found.add(rows.entries)
        if key is not None:
            found = found.subset([found.idempotent.get(key, "")])
        found.unreadable = self._named(incomplete.errors(rows.problems))
        found.problems = []
        facts = self._cold_facts() if found.histories else {}
        for id, each in found.histories.items():
            size = sum(entry.place[1] - entry.place[0] for entry in each.entries)
            at, why = facts.get(id, ("", ""))
            found.moved.append(ColdMemory(id, each.first.type, each.first.at, at, why, size, len(each.entries), False))
        return found

    def _cold_facts(self) -> dict[str, tuple[str, str]]:
        """When and why each memory was moved to the cold segment."""
        query = "SELECT DISTINCT id, moved FROM {schema}.entry WHERE session = %s AND segment = 1 AND moved <> ''"
        found = {}
        for id, moved in self._tables.rows(query, self.number):
            try:
                at, why = json.loads(moved)
            except (ValueError, TypeError):
                continue
            found[id] = str(at), str(why)
        return found

    def version(self, segment: str = HOT) -> object | None:
        known = self._refresh()
        if segment == HOT:
            return (known.number, known.changes) if known.bytes else None
        return (known.number, known.generation) if self.sizes(COLD)[FILE] else None

    def sizes(self, segment: str = HOT) -> dict[str, int]:
        if segment == HOT:
            return {FILE: self._refresh().bytes}
        return {FILE: self._tables.cold_bytes(self.number)}

    # -- metadata

    def info(self) -> SessionInfo:
        query = self._tables.sql(
            "SELECT info, seq, numbers, project, person FROM {schema}.session WHERE number = %s AND id = %s AND state = %s"
        )
        row = self._tables.run(
            lambda connection: connection.execute(query, (self.number, self.session, self._state)).fetchone()
        )
        if row is None:
            raise self._tables.session_not_found(self.session)
        return self._info_of(*row)

    def _info_of(self, text: str, seq: int, numbers: str, project: str | None, person: str | None) -> SessionInfo:
        """The metadata of a row. Project and person are those by which the server decides who may write it."""
        try:
            info = LAYOUT.decode_info(text.encode(), self.session)
            if (column_text(info.project), column_text(info.user)) != (project, person):
                info.project, info.user = project, person
            info.seq, info.numbers = max(info.seq, seq), {**info.numbers, **(decode_numbers(numbers) or {})}
        except (ValueError, TypeError, AttributeError, RecursionError, SMPError) as error:
            raise SessionCorrupt(
                f"The metadata of session {self.session} cannot be read: {self.location}: {error} Its memories are not affected.",
                session=self.session, path=self.location,
            ) from error  # fmt: skip
        info.path = self.location
        return info

    def update_info(self, change: Callable[[SessionInfo], None]) -> SessionInfo:
        with self._mutex, self._tables.transaction(self.config.lock_timeout_seconds) as connection:
            self._lock(connection, with_history=False)
            info = self.info()
            change(info)
            self._tables.write_info(connection, self.number, info)
            self._config = self._known = None
            return info

    # -- changes of what is stored

    def rewrite(self, plan: RewritePlan, *, dry_run: bool = False) -> RewriteReport:
        if dry_run and plan.redactor is not None:
            return RewriteReport(redaction=self._rewriting().redact(plan.redactor, None))
        with self._mutex:
            try:
                with self._tables.transaction(self._tables.config.lock_timeout_seconds) as connection:
                    known = self._lock(connection)
                    report = self._rewriting().carry_out(connection, plan, known)
            finally:
                self._forget()
                self._size = None
        if report.redaction:
            report.redaction.pending += self._tables.after_redaction()
        return report

    def _rewriting(self) -> Rewriting:
        cold = partial(self.history, segment=COLD)
        return Rewriting(self._tables, self.session, self.number, self._history, cold, self.info)

    # -- verification

    def validate(self) -> Report:
        history, cold = self.history(), self.history(segment=COLD)
        problems = [*self._named(self._problems), *cold.unreadable, *history.problems]
        problems += content_problems(history, set(cold.histories))
        try:
            self.info()
        except SessionCorrupt as error:
            problems.append(Problem(self.location, 0, "head", error.message))
        if self._refresh().numbers is None:
            what = "the numbers that were given out cannot be read, so nothing can be written; `smp repair` counts them again"
            problems.append(Problem(self.location, 0, "numbers", what))
        return Report(problems, len(history.histories))

    def repair(self) -> Report:
        """Count the numbers again if they cannot be read. Other rows that cannot be read stay where they are, and are reported."""
        with self._mutex:
            if self._refresh().numbers is None:
                with self._tables.transaction(self.config.lock_timeout_seconds) as connection:
                    known, counted = self._lock(connection), IdAllocator(0, {})
                    for found in (self._history, self._cold_history(None, None)):
                        counted.raise_to(found.seq, found.numbers)
                    seq, numbers = max(counted.seq, known.seq), json.dumps(counted.numbers)
                    self._tables.change(connection, self.number, seq=seq, numbers=numbers)
                self._forget()
        return self.validate()
