"""One session of the SQLite backend: entries as rows of JSON, read into a history after every change."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from smp_memory.config.settings import Config
from smp_memory.errors import (
    DuplicateId,
    MemoryNotFound,
)
from smp_memory.model.content_checks import content_problems
from smp_memory.model.deletions import AnnouncedPurge, PurgeCheck
from smp_memory.model.entry import Entry
from smp_memory.model.history import IdAllocator, SessionHistory
from smp_memory.model.reports import Problem, Report
from smp_memory.model.session_info import SessionInfo
from smp_memory.model.storage_reports import (
    LIVE,
    ColdMemory,
    MovedEntries,
    RecordedDeletion,
    RedactionReport,
    TidyReport,
)
from smp_memory.model.times import to_moment, to_text
from smp_memory.observe import incomplete
from smp_memory.privacy.settings import checked

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
        self.memo: dict[str, Any] = {}
        self.size_bytes = 0
        self._store = store
        self._states = states  # the states in which it can be read
        self._read: tuple[int, SessionHistory, list[Problem]] | None = None  # with the version that was read
        self._config: Config | None = None

    @property
    def location(self) -> str:
        return f"{self._store.root}#{self.session}"

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
            own = self.info().config
            self._config = self.override_settings(self._store.config, own) if own else self._store.config
        return self._config

    def override_settings(self, config: Config, own: dict[str, Any]) -> Config:
        return checked(config.override_session(own, self.session, self.location))

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
            raise incomplete.with_unreadable(error, self.unreadable()) from None
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
            history, problems, size = SessionHistory(), [], 0
            entries = []
            for seq, line in self._store.all("SELECT seq, line FROM entry WHERE session = ? AND cold IS NULL", self.no):
                start, size = size, size + len(line.encode())
                try:
                    entry = decode_entry(line)
                except (ValueError, TypeError, KeyError, RecursionError):
                    problems.append(Problem(self.location, seq, "damaged", "This row cannot be read as an entry."))
                    continue
                entry.file, entry.place, entry.line = "entry", (start, size), seq
                entries.append(entry)
            history.add(entries)
            self._read, self.size_bytes = (row["version"], history, problems), size
        return self._read[1]

    def view(self, read: Callable[[SessionHistory], Any]) -> Any:
        with self._store.reading():
            history = self._history(self._row())
            self.unreadable()
            return read(history)

    def view_tail(self, kind: str, count: int, read: Callable[[SessionHistory], Any]) -> Any:
        return self.view(read)

    def history(self, id: str) -> Any:
        return self.view(lambda session_history: session_history.histories.get(id))

    def unreadable(self) -> list[Problem]:
        return incomplete.report(list(self._read[2])) if self._read is not None else []

    def read_errors(self) -> list[Problem]:
        return incomplete.errors([*self._read[2], *self._read[1].problems]) if self._read is not None else []

    def memory_not_found(self, id: str) -> MemoryNotFound:
        error = MemoryNotFound(f"{id} does not exist in session {self.session}.", id=id, session=self.session)
        return incomplete.with_unreadable(error, self.unreadable())

    def sizes(self) -> dict[str, int]:
        with self._store.reading():
            self._row()
            return {"entry": self._bytes("cold IS NULL")}

    def _bytes(self, condition: str) -> int:
        sql = f"SELECT coalesce(sum(length(CAST(line AS BLOB))), 0) FROM entry WHERE session = ? AND {condition}"
        return int(self._store.one(sql, self.no)[0])

    # -- metadata

    def info(self) -> SessionInfo:
        row = self._row()
        info = decode_info(row["info"])
        info.seq, info.numbers = row["seq"], json.loads(row["numbers"])
        return info

    info_for_update = info

    def change_info(self, info: SessionInfo) -> None:
        with self._store.transaction():
            self._row()
            self._store.run("UPDATE session SET info = ? WHERE no = ?", encode_info(info), self.no)
        self._config = None

    def update_info(self, operation: str, change: Callable[[SessionInfo], None]) -> None:
        with self._store.transaction():
            info = self.info()
            change(info)
            self.change_info(info)

    # -- the cold segment

    @property
    def cold_location(self) -> str:
        return f"{self.location} (cold)"

    def _cold(self) -> list[tuple[Entry, dict[str, Any], int]]:
        """The entries in the cold segment, with when and why they were moved, and their size."""
        rows = self._store.all("SELECT line, cold FROM entry WHERE session = ? AND cold IS NOT NULL", self.no)
        return [(decode_entry(line), json.loads(cold), len(line.encode())) for line, cold in rows]

    def cold_version(self) -> object | None:
        row = self._row()
        return row["version"] if self.cold_ids() else None

    def cold_bytes(self) -> int:
        return self._bytes("cold IS NOT NULL")

    def cold_memories(self) -> list[ColdMemory]:
        found: dict[str, ColdMemory] = {}
        for entry, about, size in self._cold():
            known = found.get(entry.id)
            if known is None:
                found[entry.id] = ColdMemory(
                    entry.id, entry.type, entry.at, about["moved"], about["why"], size, 1, False
                )
            else:
                found[entry.id] = known._replace(bytes=known.bytes + size, entries=known.entries + 1)
        return list(found.values())

    def cold_ids(self) -> set[str]:
        return {entry.id for entry, _, _ in self._cold()}

    def cold_history(self, problems: list[Problem] | None = None) -> SessionHistory:
        history = SessionHistory()
        history.add(entry for entry, _, _ in self._cold())
        return history

    def cold_record_with_key(self, key: str) -> Any:
        histories = self.cold_history()
        id = histories.idempotent.get(key)
        return histories.histories[id].record(self.session) if id is not None else None

    def move_to_cold(
        self,
        plan: Any,
        revisions: dict[str, int],
        summaries: Callable[[IdAllocator, set[str]], list[Entry]],
        at: str,
    ) -> MovedEntries:
        with self._store.transaction():
            row = self._row()
            history = self._history(row)
            before = self.size_bytes
            moved = {
                removal.id: removal.why
                for removal in plan.removed
                if (known := history.histories.get(removal.id)) is not None
                and known.deletion is None
                and known.revision == revisions.get(removal.id)
            }
            allocator = IdAllocator(row["seq"], json.loads(row["numbers"]), history)
            added = summaries(allocator, set(moved)) if moved else []
            for id, why in moved.items():
                cold = json.dumps({"moved": at, "why": why})
                self._store.run("UPDATE entry SET cold = ? WHERE session = ? AND id = ?", cold, self.no, id)
            self._append(added, [encode_entry(entry) for entry in added])
            self._save(allocator, is_maintenance=True)
            self._history(self._row())
        return MovedEntries(list(moved), [], [entry.id for entry in added], before - self.size_bytes, self.cold_bytes())

    def restore_from_cold(self, ids: list[str], admit: Callable[[int, int], None]) -> None:
        with self._store.transaction():
            history = self._history(self._row())
            known = {memory.id: memory.bytes for memory in self.cold_memories()}
            for id in ids:
                if id not in known:
                    raise MemoryNotFound(
                        f"{id} is not in the cold segment of session {self.session}.", id=id, session=self.session
                    )
                if id in history.histories:
                    raise DuplicateId(f"There is another memory {id} in session {self.session} by now.", id=id)
            admit(self.size_bytes, sum(known[id] for id in set(ids)))
            for id in ids:
                self._store.run("UPDATE entry SET cold = NULL WHERE session = ? AND id = ?", self.no, id)
            self._save(is_maintenance=True)

    # -- the trash

    def announced_purges(self) -> dict[str, AnnouncedPurge]:
        return {
            id: AnnouncedPurge(deleted, to_moment(at), timedelta(microseconds=passed) if passed is not None else None)
            for id, (deleted, at, passed) in json.loads(self._row()["announced"]).items()
        }

    def purge(
        self,
        check: Callable[[SessionHistory, dict[str, AnnouncedPurge]], PurgeCheck],
        note: Callable[[list[str]], bool],
    ) -> PurgeCheck:
        with self._store.transaction():
            result = check(self._history(self._row()), self.announced_purges())
            announced = {
                id: (each.deleted, to_text(each.at), each.passed and each.passed // timedelta(microseconds=1))
                for id, each in result.announced.items()
            }
            self._store.run("UPDATE session SET announced = ? WHERE no = ?", json.dumps(announced), self.no)
            if result.due:
                self.remove(result.due)
                note(result.due)
        return result

    def remove(self, ids: Iterable[str]) -> None:
        """Remove all entries of these memories, cold ones included."""
        rows = [(self.no, id) for id in ids]
        self._store.run_many("DELETE FROM entry WHERE session = ? AND id = ?", rows)
        self._save(is_maintenance=True)

    def entries_of(self, names: Iterable[str]) -> list[Entry]:
        wanted = set(names)
        rows = self._store.all("SELECT line FROM entry WHERE session = ? ORDER BY seq", self.no)
        return [entry for (line,) in rows if (entry := decode_entry(line)).id in wanted]

    # -- changes of what is stored

    def redact(self, redactor: Any, *, preview: bool = False) -> RedactionReport:
        report = RedactionReport(self.session)
        with self._store.transaction():
            info = self.info_for_update()
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
                self.change_info(info)
                self._save(is_maintenance=True)
        if report and not preview:
            self._store.vacuum()
        return report

    def tidy(self, *, dry_run: bool = False) -> TidyReport:
        return TidyReport(self.session, [], False)

    def refresh_overviews(self, records: Any, users: dict[str, str]) -> None:
        pass

    def recorded_deletions(self) -> list[RecordedDeletion]:
        return []

    def write_deletion_record(self) -> None:
        pass

    def refresh_figures(self, *, dry_run: bool = False) -> bool:
        return False

    # -- verification

    def validate(self) -> Report:
        return self.view(self._report)  # type: ignore[no-any-return]

    def _report(self, history: SessionHistory) -> Report:
        problems = [*self.unreadable(), *history.problems, *content_problems(history, self.cold_ids())]
        return Report(problems, len(history.histories))

    repair = validate


def _count(kinds: dict[str, int], removals: Iterable[Any]) -> None:
    for removal in removals:
        kinds[removal.kind] = kinds.get(removal.kind, 0) + 1
