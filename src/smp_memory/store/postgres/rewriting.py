"""Carry out a plan in the tables: purge, compaction, restoring and redaction of one session, whose row is locked.

Guarantees: all of it is part of the caller's transaction. A memory that changed since the plan was made stays as it is. Earlier states of
memories that stay (`ColdMove.only_history`) are left where they are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from smp_memory.errors import DuplicateId, MemoryNotFound
from smp_memory.model.rewrite_plan import RewriteReport
from smp_memory.model.storage_reports import RedactionReport
from smp_memory.observe import incomplete
from smp_memory.store.postgres.tables import EntryRows, encode_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from psycopg import Connection

    from smp_memory.model.history import SessionHistory
    from smp_memory.model.rewrite_plan import RewritePlan
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.redaction import Redactor
    from smp_memory.store.postgres.tables import KnownRow, Tables

_REDACTED = ("project", "tags", "context", "other")


class Rewriting:
    """The rows of one session. `history` is that of its hot segment, `cold` reads memories of the cold one."""

    def __init__(
        self,
        tables: Tables,
        session: str,
        number: int,
        history: SessionHistory,
        cold: Callable[..., SessionHistory],
        info: Callable[[], SessionInfo],
    ) -> None:
        self._tables, self._session, self._number = tables, session, number
        self._history, self._cold, self._info = history, cold, info

    def carry_out(self, connection: Connection, plan: RewritePlan, known: KnownRow) -> RewriteReport:
        histories = self._history.histories
        deleted = {id: each.deletion.at for id, each in histories.items() if each.deletion is not None}
        dropped = [id for id, at in plan.drop.items() if deleted.get(id) == at]
        statement = "DELETE FROM {schema}.entry WHERE session = %s AND id = ANY(%s)"
        self._execute(connection, statement, self._number, dropped)
        moved = self._to_cold(connection, plan)
        restored = self._from_cold(connection, plan, known)
        allocator = known.allocator(f"{self._tables.root}#{self._session}", self._history)
        added = plan.added(allocator, set(moved)) if plan.added is not None and moved else []
        end = self._tables.insert_entries(connection, self._number, known.ending, added)
        redaction = self.redact(plan.redactor, connection) if plan.redactor is not None else None
        size = known.bytes
        if dropped or moved or restored or redaction:
            numbers = json.dumps(allocator.numbers)
            counters = {"seq": allocator.seq, "numbers": numbers, "ending": end}
            size = self._tables.change(connection, self._number, generation=1, **counters)
        names, cold_bytes = [entry.id for entry in added], self._tables.cold_bytes(self._number)
        return RewriteReport(dropped, moved, [], names, known.bytes - size, cold_bytes, redaction)

    def _execute(self, connection: Connection, statement: str, *values: Any) -> None:
        connection.execute(self._tables.sql(statement), values)

    def _to_cold(self, connection: Connection, plan: RewritePlan) -> list[str]:
        moved = []
        for id, move in plan.to_cold.items():
            history = self._history.histories.get(id)
            is_same = history is not None and history.deletion is None and history.revision == move.revision
            if is_same and not move.only_history:
                moved.append(id)
                self._tables.move_to_cold(connection, self._number, id, plan.at, move.why)
        return moved

    def _from_cold(self, connection: Connection, plan: RewritePlan, known: KnownRow) -> list[str]:
        ids = list(dict.fromkeys(plan.from_cold))
        cold = {memory.id: memory.bytes for memory in self._cold(ids).moved} if ids else {}
        for id in ids:
            if id not in cold:
                message = f"{id} is not in the cold segment of session {self._session}."
                raise MemoryNotFound(message, id=id, session=self._session)
            if id in self._history.histories:
                raise DuplicateId(f"There is now another memory {id} in session {self._session}.", id=id)
        if ids and plan.admit is not None:
            plan.admit(known.bytes, sum(cold.values()))
        statement = (
            "UPDATE {schema}.entry SET segment = 0, moved = NULL WHERE session = %s AND segment = 1 AND id = ANY(%s)"
        )
        self._execute(connection, statement, self._number, ids)
        return ids

    def redact(self, redactor: Redactor, connection: Connection | None) -> RedactionReport:
        """Remove secrets from every entry and the metadata, or only report them without a connection."""
        report, info = RedactionReport(self._session), self._info()
        cleaned, removals = redactor.redact_fields({name: getattr(info, name) for name in _REDACTED})
        _count(report.head, removals)
        if connection is not None and removals:
            for name, value in cleaned.items():
                setattr(info, name, value)
            self._tables.write_info(connection, self._number, info)
        query = "SELECT start, id, line FROM {schema}.entry WHERE session = %s ORDER BY start"
        rows = EntryRows(self._tables.rows(query, self._number), f"{self._tables.root}#{self._session}")
        report.pending += [str(problem) for problem in incomplete.errors(rows.problems)]
        for entry in rows.entries:
            data, found = redactor.redact_fields(entry.data)
            if not found:
                continue
            _count(report.memories.setdefault(entry.id, {}), found)
            if connection is not None:
                twin = entry.copy()
                twin.data = data
                statement = "UPDATE {schema}.entry SET line = %s WHERE session = %s AND start = %s"
                self._execute(connection, statement, encode_entry(twin), self._number, entry.place[0])
        return report


def _count(kinds: dict[str, int], removals: Iterable[Any]) -> None:
    for removal in removals:
        kinds[removal.kind] = kinds.get(removal.kind, 0) + 1
