"""Resolve the operations of one batch into entries with ids, revisions and sequence numbers.

Pure: ids and numbers come from the `IdAllocator`, memories from the session's history. Later operations of a batch see
the results of earlier ones.
"""

from __future__ import annotations

from smp_memory.errors import MemoryNotFound, SessionCorrupt
from smp_memory.model import ids
from smp_memory.model.clone_merge import POINTING, targets_of
from smp_memory.model.entry import CHANGE, RESTORE, Entry, is_revision
from smp_memory.model.history import RecordHistory
from smp_memory.model.times import VALID_FROM, VALID_UNTIL, check_validity
from smp_memory.model.types import KINDS, PREFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.model.history import IdAllocator
    from smp_memory.model.record import Record

    Rank = Callable[[Record], int]

HIGHEST = 2  # rank of a memory of the caller's own


class BatchResolver:
    """The state of a session as the operations of a batch see it: the stored memories plus what the batch has added so far."""

    def __init__(
        self,
        session: str,
        now: str,
        allocator: IdAllocator,
        find_in_cold_storage: Callable[[str], Record | None] | None = None,
    ) -> None:
        self.session = session
        self.now = now
        self.find_in_cold_storage = find_in_cold_storage
        self._compacted: dict[str, Record] = {}
        self.entries: list[Entry] = []
        self._allocator = allocator
        self._added: dict[str, RecordHistory] = {}
        self._keys: dict[str, str] = {}
        self._preferences: dict[str, str] = {}

    def next_id(self, prefix: str) -> str:
        return ids.numbered(prefix, self._allocator.next_number(prefix))

    def history(self, name: str) -> RecordHistory | None:
        return self._added.get(name) or self._allocator.history(name)

    def require(self, name: str, *, deleted: bool = False) -> RecordHistory:
        """The history of a live or, with `deleted`, of a deleted memory; raises MemoryNotFound for any other."""
        history = self.history(name)
        if history is None:
            raise MemoryNotFound(f"{name} does not exist in session {self.session}.", id=name, session=self.session)
        if (history.deletion is not None) is not deleted:
            state = "is not deleted" if deleted else "is deleted; restore it first"
            raise MemoryNotFound(f"{name} in session {self.session} {state}.", id=name, session=self.session)
        if history.first.lacks:  # where it can, the writer adds missing ids before a batch is resolved
            raise SessionCorrupt(
                f"{name} has no id yet in {history.first.file} line {history.first.line}, where it was typed by hand, because the "
                "file contains conflict markers of an unfinished merge. Resolve them: `smp git resolve`. Nothing was changed.",
                id=name,
                session=self.session,
                path=history.first.file,
            )
        return history

    def record(self, name: str) -> Record:
        history = self._added.get(name) or self._allocator.history(name)
        record = history.record(self.session) if history else self._compacted.get(name)
        if record is None:
            raise MemoryNotFound(f"{name} does not exist in session {self.session}.", id=name, session=self.session)
        return record

    def idempotent(self, key: str | None, rank: Rank | None = None) -> str | None:
        if key is None:
            return None
        name = self._keys.get(key) or self._allocator.idempotent(key)
        history = self.history(name) if name is not None else None
        if history is None or history.deletion is not None:  # a deleted memory can be added again
            return None
        return self._best(name, lambda each: each.deletion is None and each.data().get("idempotency_key") == key, rank)

    def find_compacted(self, key: str, rank: Rank | None = None) -> str | None:
        """The id of a memory with this idempotency key in cold storage. It is not brought back."""
        record = self.find_in_cold_storage(key) if self.find_in_cold_storage is not None else None
        if record is None or (rank is not None and not rank(record)):
            return None
        self._compacted[record.id] = record
        return record.id

    def preference(self, key: str, rank: Rank | None = None) -> str | None:
        """The id of the preference with this key, after the operations so far."""
        known = (self._preferences.get(key), self._allocator.preference(key))
        name = next((name for name in known if name and (history := self.history(name)) and history.has_key(key)), None)
        return self._best(name, lambda history: history.has_key(key), rank)

    def _best(self, name: str | None, has_key: Callable[[RecordHistory], bool], rank: Rank | None) -> str | None:
        """The memory with a key that the caller means: two may have it, because one that a caller cannot see does not exist for it."""
        if name is None or rank is None or rank(self.record(name)) == HIGHEST:
            return name
        stored = self._allocator.session_history
        histories = {**(stored.histories if stored is not None else {}), **self._added}
        ranks = {id: rank(self.record(id)) for id in reversed(histories) if has_key(histories[id])}
        best = max(ranks, key=lambda id: ranks[id], default="")
        return best if ranks.get(best) else None

    def put(self, entry: Entry) -> None:
        self._write(entry)
        self._added[entry.id] = RecordHistory(entry)
        data = entry.data
        if "idempotency_key" in data:
            self._keys[data["idempotency_key"]] = entry.id
        if "key" in data and KINDS[entry.type].is_named_by_key:
            self._preferences[str(data["key"])] = entry.id

    def mark_id_used(self, name: str) -> None:
        """Reserve the number of an id chosen by the caller, if it has the form of a numbered id of any type."""
        prefix = name.rpartition("-")[0]
        if prefix in PREFIXES:
            self._allocator.number_used(prefix, ids.number_of(name, prefix))

    def change(self, name: str, data: dict[str, Any], by: str | None, at: str | None) -> None:
        """Change fields of a memory; without changes no entry is written."""
        if data:
            history = self.require(name)
            if data.get("idempotency_key") is not None:
                self._keys[data["idempotency_key"]] = name
            if data.get("key") is not None and KINDS[history.first.type].is_named_by_key:
                self._preferences[str(data["key"])] = name
            change = Entry(CHANGE, history.first.type, name, at or self.now, data, by=by, uid=history.first.uid)
            change.revision = history.revision + is_revision(change)
            if VALID_FROM in data or VALID_UNTIL in data:
                check_validity({**history.data(), **data})
            self._amend(history, change)

    def append_deletion(self, op: str, name: str, by: str | None, data: dict[str, Any]) -> None:
        """Append a deletion or a restoration."""
        history = self.require(name, deleted=op == RESTORE)
        self._amend(history, Entry(op, history.first.type, name, self.now, data, by=by, uid=history.first.uid))

    def _uids(self, data: dict[str, Any]) -> dict[str, str]:
        """The uids of the memories of this session that the fields refer to, by the ids given there."""
        histories = {name: self.history(name.removeprefix(f"{self.session}/")) for name in targets_of(data)}
        return {
            name: history.first.uid for name, history in histories.items() if history is not None and history.first.uid
        }

    def _amend(self, history: RecordHistory, entry: Entry) -> None:
        self._write(entry)
        twin = history.copy()
        twin.append(entry)
        self._added[entry.id] = twin

    def _write(self, entry: Entry) -> None:
        if not POINTING.isdisjoint(entry.data):
            entry.uids = self._uids(entry.data) or None
        entry.seq = self._allocator.next_seq()
        self.entries.append(entry)
