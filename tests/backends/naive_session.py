"""One session of the naive store: two lists of entries, added up to a history anew for every call."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from smp_memory.config.settings import Config
from smp_memory.errors import DuplicateId, MemoryNotFound
from smp_memory.model.content_checks import content_problems
from smp_memory.model.entry import Entry
from smp_memory.model.history import COLD, HOT, IdAllocator, SessionHistory
from smp_memory.model.reports import Report
from smp_memory.model.rewrite_plan import RewritePlan, RewriteReport
from smp_memory.model.session_info import LIVE, SessionHead, SessionInfo
from smp_memory.model.storage_reports import ColdMemory, RedactionReport
from smp_memory.model.times import to_moment
from smp_memory.privacy.redaction import Redactor
from smp_memory.privacy.settings import session_settings

if TYPE_CHECKING:
    from smp_memory.store.port import BatchPort
    from tests.backends.naive_store import NaiveStore


class StoredSession:
    """What is stored of one session. `number` identifies it for ever; its id may be given to another one after it was deleted."""

    def __init__(self, number: int, info: SessionInfo) -> None:
        self.number = number
        self.info = info  # its `seq` and `numbers` are the largest given out
        self.state = LIVE
        self.metadata: dict[
            str, Any
        ] = {}  # of the state: the summary of an archived session, the deletion record of a deleted one
        self.archived: dict[str, Any] | None = None  # of a deleted session that was archived: its summary
        self.entries: dict[str, list[Entry]] = {HOT: [], COLD: []}
        self.moved: dict[str, tuple[str, str]] = {}  # when and why a memory was moved to the cold segment
        self.changes = 0
        self.end = 0  # of the last entry ever written, in bytes
        self.written = time.time()

    def append(self, entries: Iterable[Entry]) -> int:
        """Store these entries; returns the number of their bytes."""
        start = self.end
        for each in entries:
            entry, begin, self.end = each.copy(), self.end, self.end + len(repr(each).encode())
            entry.file, entry.line, entry.place = "entries", entry.seq, (begin, self.end)
            self.entries[HOT].append(entry)
        return self.end - start

    def remove(self, ids: Iterable[str]) -> None:
        gone = set(ids)
        for segment, entries in self.entries.items():
            self.entries[segment] = [entry for entry in entries if entry.id not in gone]

    def shift(self, ids: Iterable[str], origin: str, target: str) -> None:
        wanted = set(ids)
        self.entries[target] += [entry for entry in self.entries[origin] if entry.id in wanted]
        self.entries[origin] = [entry for entry in self.entries[origin] if entry.id not in wanted]

    def bytes(self, segment: str = HOT) -> int:
        return sum(entry.place[1] - entry.place[0] for entry in self.entries[segment])

    def history(self, segment: str = HOT) -> SessionHistory:
        history = SessionHistory()
        history.add(self.entries[segment])
        for id, each in history.histories.items() if segment == COLD else ():
            size, first = sum(entry.place[1] - entry.place[0] for entry in each.entries), each.first
            history.moved.append(ColdMemory(id, first.type, first.at, *self.moved[id], size, len(each.entries), False))
        return history

    def head(self, address: str) -> SessionHead:
        about = self.metadata
        inner = next((each for each in about.values() if isinstance(each, dict) and "archived_at" in each), about)
        when = about.get("deleted_at") or about.get("archived") or inner.get("archived_at")
        return SessionHead(
            self.info.id,
            self.state,
            f"{address}#{self.info.id}.{self.number}",
            version=(self.number, self.changes),
            written=datetime.fromtimestamp(self.written, UTC),
            bytes=self.bytes(),
            when=to_moment(when) if when else None,
            reason=about.get("reason") or inner.get("reason"),
            metadata=about,
            archived=self.archived,
        )

    def redact(self, redactor: Redactor) -> RedactionReport:
        report = RedactionReport(self.info.id)
        for name in ("project", "tags", "context", "other"):
            cleaned, removals = redactor.redact_fields({name: getattr(self.info, name)})
            setattr(self.info, name, cleaned[name])
            _count(report.head, removals)
        for entry in (*self.entries[HOT], *self.entries[COLD]):
            entry.data, removals = redactor.redact_fields(entry.data)
            if removals:
                _count(report.memories.setdefault(entry.id, {}), removals)
        return report


def _count(kinds: dict[str, int], removals: Iterable[Any]) -> None:
    for removal in removals:
        kinds[removal.kind] = kinds.get(removal.kind, 0) + 1


class NaiveSession:
    """A session of the naive store, in one of the states in which the caller may use it."""

    files = None

    def __init__(self, store: NaiveStore, number: int, session: str, state: str = LIVE) -> None:
        self.session = session
        self.location = f"{store.root}#{session}"
        self._store, self._number, self._state = store, number, state
        self._config: Config | None = None

    def _stored(self) -> StoredSession:
        found = self._store.content().sessions.get(self._number)
        if found is None or found.state != self._state:
            raise self._store.session_not_found(self.session)
        return found

    @contextmanager
    def _change(self, *, is_maintenance: bool = True, dry_run: bool = False) -> Iterator[StoredSession]:
        with self._store.transaction(dry_run=dry_run):
            stored = self._stored()
            stored.changes += 1
            yield stored
            if not is_maintenance:
                stored.written = time.time()

    @property
    def size_bytes(self) -> int:
        return self._stored().bytes()

    @property
    def config(self) -> Config:
        if self._config is None:
            self._config = session_settings(self._store.config, self.info())
        return self._config

    def commit(self, batch: BatchPort) -> None:
        quota = self.config.quota_bytes
        with self._change(is_maintenance=batch.is_maintenance) as stored:
            allocator = IdAllocator(stored.info.seq, stored.info.numbers, stored.history())
            entries, used = batch.resolve(allocator), stored.bytes()
            new = stored.append(entries)
            batch.check_room(lambda used, new: self._store.admit(self.session, used, new, quota_bytes=quota), used, new)
            stored.info.seq, stored.info.numbers = allocator.seq, allocator.numbers

    def history(
        self,
        ids: Iterable[str] | None = None,
        *,
        kind: str | None = None,
        last: int | None = None,
        key: str | None = None,
        segment: str = HOT,
    ) -> SessionHistory:
        history = self._stored().history(segment)
        wanted = ids if key is None else [history.idempotent.get(key, "")]
        return history if wanted is None else history.subset(wanted)

    def version(self, segment: str = HOT) -> object | None:
        stored = self._stored()
        return (stored.number, stored.changes) if stored.entries[segment] else None

    def sizes(self, segment: str = HOT) -> dict[str, int]:
        return {"entries": self._stored().bytes(segment)}

    def info(self) -> SessionInfo:
        info = copy.deepcopy(self._stored().info)
        info.path = self.location
        return info

    def update_info(self, change: Callable[[SessionInfo], None]) -> SessionInfo:
        with self._change() as stored:
            stored.info = info = self.info()
            change(info)
        self._config = None
        return copy.deepcopy(info)

    def rewrite(self, plan: RewritePlan, *, dry_run: bool = False) -> RewriteReport:
        with self._change(dry_run=dry_run) as stored:
            histories, before = stored.history().histories, stored.bytes()
            deleted = {id: known.deletion.at for id, known in histories.items() if known.deletion is not None}
            dropped = [id for id, at in plan.drop.items() if deleted.get(id) == at]
            stored.remove(dropped)
            moved = [
                id
                for id, move in plan.to_cold.items()
                if not move.only_history
                and (known := histories.get(id)) is not None
                and known.deletion is None
                and known.revision == move.revision
            ]
            stored.shift(moved, HOT, COLD)
            stored.moved |= {id: (plan.at, plan.to_cold[id].why) for id in moved}
            allocator = IdAllocator(stored.info.seq, stored.info.numbers, stored.history())
            added = plan.added(allocator, set(moved)) if plan.added is not None and moved else []
            stored.append(added)
            stored.info.seq, stored.info.numbers = allocator.seq, allocator.numbers
            self._restore_from_cold(stored, plan)
            redaction = stored.redact(plan.redactor) if plan.redactor is not None else None
            names = [entry.id for entry in added]
            return RewriteReport(dropped, moved, [], names, before - stored.bytes(), stored.bytes(COLD), redaction)

    def _restore_from_cold(self, stored: StoredSession, plan: RewritePlan) -> None:
        ids, histories = set(plan.from_cold), stored.history().histories
        cold = {memory.id: memory.bytes for memory in stored.history(COLD).moved}
        for id in ids:
            if id not in cold:
                message = f"{id} is not in the cold segment of session {self.session}."
                raise MemoryNotFound(message, id=id, session=self.session)
            if id in histories:
                raise DuplicateId(f"There is now another memory {id} in session {self.session}.", id=id)
        if plan.admit is not None:
            plan.admit(stored.bytes(), sum(cold[id] for id in ids))
        stored.shift(ids, COLD, HOT)

    def validate(self) -> Report:
        history, cold = self.history(), self.history(segment=COLD)
        problems = [*history.problems, *content_problems(history, set(cold.histories))]
        return Report(problems, len(history.histories))

    repair = validate
