"""One session of the SQLite backend: entries as rows of JSON, read into a history after every change."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from typing import Any

from smp_memory.config.settings import Config
from smp_memory.errors import (
    DuplicateId,
    MemoryNotFound,
)
from smp_memory.model.content_checks import content_problems
from smp_memory.model.entry import Entry
from smp_memory.model.history import COLD, HOT, IdAllocator, RecordHistory, SessionHistory
from smp_memory.model.reports import Problem, Report
from smp_memory.model.rewrite_plan import RewritePlan, RewriteReport
from smp_memory.model.session_info import LIVE, SessionInfo
from smp_memory.model.storage_reports import ColdMemory, RedactionReport
from smp_memory.observe import incomplete
from smp_memory.privacy.redaction import Redactor
from smp_memory.privacy.settings import session_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.backends.sqlite_store import SqliteStore

_ENTRY_FIELDS = ("op", "type", "id", "at", "data", "seq", "tx", "by", "uid", "uids", "revision", "schema")
_INFO_FIELDS = (
    "id",
    "created_text",
    "user",
    "agents",
    "project",
    "tags",
    "context",
    "config",
    "status",
    "generation",
    "format",
    "uid",
    "other",
)


def encode_entry(entry: Entry) -> str:
    return json.dumps({name: getattr(entry, name) for name in _ENTRY_FIELDS}, ensure_ascii=False)


def decode_entry(line: str) -> Entry:
    fields = json.loads(line)
    uids = fields.pop("uids")
    entry = Entry(**fields)
    entry.uids = uids
    return entry


def encode_info(info: SessionInfo) -> str:
    return json.dumps({name: getattr(info, name) for name in _INFO_FIELDS}, ensure_ascii=False)


def decode_info(text: str) -> SessionInfo:
    fields = json.loads(text)
    return SessionInfo(fields.pop("id"), fields.pop("created_text"), **fields)


class SqliteSession:
    """One session. `no` identifies it for ever; its name may be given to another one after it was deleted."""

    def __init__(self, store: SqliteStore, no: int, session: str, states: tuple[str, ...] = (LIVE,)) -> None:
        self.session = session
        self.no = no
        self.size_bytes = 0
        self._store = store
        self._states = states  # the states in which it can be read
        self._read: tuple[int, SessionHistory] | None = None  # with the version that was read
        self._config: Config | None = None

    @property
    def location(self) -> str:
        return f"{self._store.root}#{self.session}"

    @property
    def files(self) -> None:
        return None

    def _row(self) -> sqlite3.Row:
        """The session's row; raises SessionNotFound or SessionArchived if it is not in a state that allows this."""
        row: sqlite3.Row | None = self._store.one("SELECT * FROM session WHERE no = ?", self.no)
        if row is None or row["state"] not in self._states:
            raise self._store.session_not_found(self.session)
        return row

    # -- settings

    @property
    def config(self) -> Config:
        if self._config is None:
            self._config = session_settings(self._store.config, self.info())
        return self._config

    # -- writing

    def commit(self, batch: Any) -> None:
        quota = self.config.quota_bytes
        try:
            with self._store.transaction():
                row = self._row()
                allocator = IdAllocator(row["seq"], json.loads(row["numbers"]), self._history(row))
                entries = batch.resolve(allocator)
                lines = [encode_entry(entry) for entry in entries]
                new_bytes = sum(len(line.encode()) for line in lines)
                batch.check_room(
                    lambda used, new: self._store.admit(self.session, used, new, quota_bytes=quota),
                    self.size_bytes,
                    new_bytes,
                )
                self._append(entries, lines)
                self._save(allocator, is_maintenance=batch.is_maintenance)
        except MemoryNotFound as error:
            raise incomplete.with_unreadable(error, self._history(self._row()).unreadable) from None
        self.size_bytes += new_bytes

    def _append(self, entries: list[Entry], lines: list[str]) -> None:
        rows = [(self.no, entry.seq, entry.id, line) for entry, line in zip(entries, lines, strict=True)]
        self._store.run_many("INSERT INTO entry (session, seq, id, line) VALUES (?, ?, ?, ?)", rows)

    def _save(self, allocator: IdAllocator | None = None, *, is_maintenance: bool = False) -> None:
        """Count a change, with the numbers given out and the time of writing."""
        self._store.run("UPDATE session SET version = version + 1 WHERE no = ?", self.no)
        if allocator is not None:
            numbers = json.dumps(allocator.numbers)
            self._store.run("UPDATE session SET seq = ?, numbers = ? WHERE no = ?", allocator.seq, numbers, self.no)
        if not is_maintenance:
            self._store.run("UPDATE session SET written = ? WHERE no = ?", time.time(), self.no)

    # -- reading

    def _history(self, row: sqlite3.Row) -> SessionHistory:
        if self._read is None or self._read[0] != row["version"]:
            history = self._select("cold IS NULL")
            self.size_bytes = self._bytes("cold IS NULL")
            self._read = (row["version"], history)
        return self._read[1]

    def _select(self, condition: str, ids: Iterable[str] | None = None) -> SessionHistory:
        """The history of these rows; unreadable rows are problems."""
        sql = f"SELECT seq, line FROM entry WHERE session = ? AND {condition}"
        history, size, entries = SessionHistory(), 0, []
        rows = self._store.all(sql, self.no) if ids is None else []
        for id in ids or ():
            rows += self._store.all(f"{sql} AND id = ?", self.no, id)
        for seq, line in rows:
            start, size = size, size + len(line.encode())
            try:
                entry = decode_entry(line)
            except (ValueError, TypeError, KeyError, RecursionError):
                history.unreadable.append(
                    Problem(self.location, seq, "damaged", "This row cannot be read as an entry.")
                )
                continue
            entry.file, entry.place, entry.line = "entry", (start, size), seq
            entries.append(entry)
        history.add(entries)
        return history

    def history(
        self,
        ids: Iterable[str] | None = None,
        *,
        kind: str | None = None,
        last: int | None = None,
        key: str | None = None,
        segment: str = HOT,
    ) -> SessionHistory:
        with self._store.reading():
            row = self._row()
            if segment == COLD:
                history = self._select("cold IS NOT NULL", ids)
                history = history if key is None else history.subset([history.idempotent.get(key, "")])
                history.moved = self._cold_memories()
            else:
                history = self._history(row) if ids is None else self._select("cold IS NULL", ids)
            incomplete.report(history.unreadable)
            return history

    def version(self, segment: str = HOT) -> object | None:
        return self._row()["version"] if sum(self.sizes(segment).values()) else None

    def sizes(self, segment: str = HOT) -> dict[str, int]:
        with self._store.reading():
            self._row()
            return {"entry": self._bytes("cold IS NULL" if segment == HOT else "cold IS NOT NULL")}

    def _bytes(self, condition: str) -> int:
        sql = f"SELECT coalesce(sum(length(CAST(line AS BLOB))), 0) FROM entry WHERE session = ? AND {condition}"
        return int(self._store.one(sql, self.no)[0])

    # -- metadata

    def info(self) -> SessionInfo:
        row = self._row()
        info = decode_info(row["info"])
        info.seq, info.numbers, info.path = row["seq"], json.loads(row["numbers"]), self.location
        return info

    def update_info(self, change: Callable[[SessionInfo], None]) -> SessionInfo:
        with self._store.transaction():
            info = self.info()
            change(info)
            self._write_info(info)
        self._config = None
        return info

    def _write_info(self, info: SessionInfo) -> None:
        self._store.run("UPDATE session SET info = ? WHERE no = ?", encode_info(info), self.no)

    # -- the cold segment and rewrites

    def _cold_memories(self) -> list[ColdMemory]:
        found: dict[str, ColdMemory] = {}
        for line, cold in self._store.all(
            "SELECT line, cold FROM entry WHERE session = ? AND cold IS NOT NULL", self.no
        ):
            entry, about, size, known = decode_entry(line), json.loads(cold), len(line.encode()), None
            known = found.get(entry.id)
            if known is None:
                found[entry.id] = ColdMemory(
                    entry.id, entry.type, entry.at, about["moved"], about["why"], size, 1, False
                )
            else:
                found[entry.id] = known._replace(bytes=known.bytes + size, entries=known.entries + 1)
        return list(found.values())

    def rewrite(self, plan: RewritePlan, *, dry_run: bool = False) -> RewriteReport:
        with self._store.transaction():
            row = self._row()
            histories, before = self._history(row).histories, self.size_bytes
            dropped = [
                id
                for id, at in plan.drop.items()
                if (known := histories.get(id)) is not None and known.deletion is not None and known.deletion.at == at
            ]
            self.remove(dropped)
            moved = self._move_to_cold(plan, histories)
            allocator = IdAllocator(row["seq"], json.loads(row["numbers"]), self._history(row))
            added = plan.added(allocator, set(moved)) if plan.added is not None and moved else []
            self._append(added, [encode_entry(entry) for entry in added])
            self._restore_from_cold(plan, histories)
            redaction = self._redact(plan.redactor, dry_run) if plan.redactor is not None else None
            if not dry_run:
                self._save(allocator, is_maintenance=True)
            self._history(self._row())
        if redaction and not dry_run:
            self._store.vacuum()
        ids = [entry.id for entry in added]
        freed, cold = before - self.size_bytes, sum(self.sizes(COLD).values())
        return RewriteReport(dropped, moved, [], ids, freed, cold, redaction)

    def _move_to_cold(self, plan: RewritePlan, histories: dict[str, RecordHistory]) -> list[str]:
        moved = [
            id
            for id, move in plan.to_cold.items()
            if not move.only_history
            and (known := histories.get(id)) is not None
            and known.deletion is None
            and known.revision == move.revision
        ]
        for id in moved:
            cold = json.dumps({"moved": plan.at, "why": plan.to_cold[id].why})
            self._store.run("UPDATE entry SET cold = ? WHERE session = ? AND id = ?", cold, self.no, id)
        return moved

    def _restore_from_cold(self, plan: RewritePlan, histories: dict[str, RecordHistory]) -> None:
        known = {memory.id: memory.bytes for memory in self._cold_memories()} if plan.from_cold else {}
        for id in plan.from_cold:
            if id not in known:
                raise MemoryNotFound(
                    f"{id} is not in the cold segment of session {self.session}.", id=id, session=self.session
                )
            if id in histories:
                raise DuplicateId(f"There is another memory {id} in session {self.session} by now.", id=id)
        if plan.admit is not None:
            plan.admit(self.size_bytes, sum(known[id] for id in set(plan.from_cold)))
        for id in plan.from_cold:
            self._store.run("UPDATE entry SET cold = NULL WHERE session = ? AND id = ?", self.no, id)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove all entries of these memories, cold ones included."""
        rows = [(self.no, id) for id in ids]
        self._store.run_many("DELETE FROM entry WHERE session = ? AND id = ?", rows)
        self._save(is_maintenance=True)

    def entries_of(self, names: Iterable[str]) -> list[Entry]:
        wanted = set(names)
        rows = self._store.all("SELECT line FROM entry WHERE session = ? ORDER BY seq", self.no)
        return [entry for (line,) in rows if (entry := decode_entry(line)).id in wanted]

    def _redact(self, redactor: Redactor, preview: bool) -> RedactionReport:
        report, info = RedactionReport(self.session), self.info()
        for name in ("project", "tags", "context", "other"):
            cleaned, removals = redactor.redact_fields({name: getattr(info, name)})
            setattr(info, name, cleaned[name])
            _count(report.head, removals)
        for seq, line in self._store.all("SELECT seq, line FROM entry WHERE session = ?", self.no):
            entry = decode_entry(line)
            entry.data, removals = redactor.redact_fields(entry.data)
            if removals:
                _count(report.memories.setdefault(entry.id, {}), removals)
                if not preview:
                    sql = "UPDATE entry SET line = ? WHERE session = ? AND seq = ?"
                    self._store.run(sql, encode_entry(entry), self.no, seq)
        if report and not preview:
            self._write_info(info)
        return report

    # -- verification

    def validate(self) -> Report:
        history, cold = self.history(), self.history(segment=COLD)
        problems = [*history.unreadable, *history.problems, *content_problems(history, set(cold.histories))]
        return Report(problems, len(history.histories))

    repair = validate


def _count(kinds: dict[str, int], removals: Iterable[Any]) -> None:
    for removal in removals:
        kinds[removal.kind] = kinds.get(removal.kind, 0) + 1
