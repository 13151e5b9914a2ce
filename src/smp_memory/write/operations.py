"""What exactly is to be written? Wishes become entries here, with ids, numbers and revisions.

A batch is resolved under the session's lock against a *ledger*: the numbers given out so far and, where a wish needs
it, the memories as they stand. Nothing is written before every wish of a batch has been resolved; a conflict or a
missing memory refuses the whole batch.
"""

from __future__ import annotations

from smp_memory.errors import (
    Conflict,
    DuplicateId,
    InvalidRecord,
    MemoryNotFound,
    SessionCorrupt,
    SizeLimitExceeded,
    SMPError,
)
from smp_memory.model import ids
from smp_memory.model.clone_merge import POINTING, targets_of
from smp_memory.model.entry import CHANGE, DELETE, PUT, RESTORE, Entry, is_revision
from smp_memory.model.history import RecordHistory
from smp_memory.model.record import CLASSES, same
from smp_memory.model.types import KINDS, PREFIXES
from smp_memory.privacy.fence import without_recalled
from smp_memory.uids import new_uid
from smp_memory.write import typos, validation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from smp_memory.model.id_allocator import IdAllocator
    from smp_memory.model.record import Record
    from smp_memory.privacy.redaction import RedactedSpan, Redactor
    from smp_memory.write.validation import Draft

    class Rights(Protocol):
        """What the caller may do. Asked under the session's lock, with the memories as they stand; each raises to refuse."""

        def _check_known(self, record: Record) -> None:
            """An idempotency key leads to this memory."""

        def _check_change(self, wish: Operation, record: Record) -> None:
            """A wish changes or deletes this memory."""

        def _check_target(self, name: str, record: Record | None) -> None:
            """A new relation or reference names this id of the session; None: there is no such memory."""


_FIXED_TYPES = ("conversation",)
_REPLACING = ("agent_state", "preference")

RESERVE_BYTES = 64 * 1024  # above the quota, for deletions


class Operation:
    """One thing a caller wants; `record` holds the outcome once its batch is stored."""

    needs_trails = True
    record: Record | None = None
    memory_id: str | None = None
    removals: list[RedactedSpan] | tuple[()] = ()  # secrets that were taken out
    warnings: tuple[str, ...] = ()  # what the caller should know, though it is stored
    rights: Rights | None = None  # None: the caller may do everything
    dated: str | None = None  # the time that the caller gave for a new memory
    forgets = ""  # what the audit log calls it, if it takes a memory away or brings it back

    @property
    def id(self) -> str:
        """The id of the memory; of a new one only when its transaction is committed."""
        if self.memory_id is None:
            raise InvalidRecord("id: this memory gets its id when the transaction is committed.", field="id")
        return self.memory_id

    def resolve(self, work: BatchResolver) -> None:
        raise AssertionError("each wish resolves itself")

    def _check_targets(self, work: BatchResolver, data: dict[str, Any], before: dict[str, Any]) -> None:
        """Ask for each memory of this session that the new data points to, and the data before did not."""
        if self.rights is not None and ("relations" in data or "references" in data):
            for name in set(targets_in(data, work.session)).difference(targets_in(before, work.session)):
                trail = work.trail(name)
                self.rights._check_target(name, trail.record(work.session) if trail is not None else None)

    def resolve_alone(self, session: str, now: str, ledger: IdAllocator) -> Entry:
        raise AssertionError("only a wish that needs no trails can be alone")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self.record is None:
            raise AttributeError(name)
        return getattr(self.record, name)


class Add(Operation):
    needs_trails = False
    key: str | None = None
    replaces = False

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.dated = draft.created
        data, kind = draft.data, draft.kind.name
        points = not POINTING.isdisjoint(data)
        if draft.id is None and kind not in _REPLACING and "idempotency_key" not in data and not points:
            return  # most memories: they depend on no other
        self.memory_id = draft.id
        self.key = data.get("idempotency_key")
        self.replaces = kind == "agent_state" or (kind == "preference" and "key" in data)
        self.needs_trails = self.replaces or self.key is not None or draft.id is not None or points

    def resolve(self, work: BatchResolver) -> None:
        draft = self.draft
        if self.needs_trails and self._is_known(work):
            return
        self._check_targets(work, draft.data, {})
        if draft.id is not None or self.replaces:
            self.memory_id = self._own_id(work)
        else:
            self.memory_id = None
        if self.memory_id is None:
            self.memory_id = work.next_id(draft.kind.prefix)
        else:
            work.own_id_used(self.memory_id)
        uid = "" if draft.kind.name == "agent_state" else new_uid()
        work.put(Entry(PUT, draft.kind.name, self.memory_id, draft.created or work.now, draft.data, uid=uid))

    def resolve_alone(self, session: str, now: str, ledger: IdAllocator) -> Entry:
        """The same for a new memory that depends on no other and gets its id from us."""
        draft = self.draft
        kind, data = draft.kind, draft.data
        self.memory_id = name = ids.numbered(kind.prefix, ledger.next_number(kind.prefix))
        entry = Entry(PUT, kind.name, name, draft.created or now, data, ledger.next_seq(), uid=new_uid())
        self.record = CLASSES[kind.name](session, entry, data, entry, 1, None)
        return entry

    def _is_known(self, work: BatchResolver) -> bool:
        """A repeated write is the first one's; a preference or a state that is there is changed."""
        known = work.idempotent(self.key)
        if known is None and self.key is not None and work.cold is not None:
            known = work.from_cold(self.key)
        if known is not None and self.rights is not None:
            self.rights._check_known(work.record(known))
        if known is None and self.replaces:
            known = self._replaced(work)
            if known is not None:
                self._check_targets(work, self.draft.data, work.known(known).data())
                work.change(known, self._news(work, known), self.draft.data.get("author"), self.draft.created)
        if known is not None:
            self.memory_id = known
        return known is not None

    def _replaced(self, work: BatchResolver) -> str | None:
        data = self.draft.data
        name = self._state_id(work) if self.draft.kind.name == "agent_state" else work.preference(str(data["key"]))
        trail = work.trail(name) if name else None
        return name if trail is not None and trail.deletion is None else None

    def _state_id(self, work: BatchResolver) -> str:
        """`STATE-<agent>`; if that one was deleted its id is used up and the next one is `STATE-<agent>-2`."""
        first: str = ids.STATE_PREFIX + self.draft.data["agent"]
        name = first
        number = 1
        while (trail := work.trail(name)) is not None and (trail.deletion is not None or not self._is_state_in(trail)):
            number += 1
            name = f"{first}-{number}"
        return name

    def _is_state_in(self, trail: RecordHistory) -> bool:
        """Whether this is a state of the same agent, not another memory whose id looks like one."""
        return trail.first.type == "agent_state" and trail.data().get("agent") == self.draft.data["agent"]

    def _own_id(self, work: BatchResolver) -> str | None:
        if self.draft.kind.name == "agent_state":
            return self._state_id(work)
        name = self.draft.id
        if name is not None and work.trail(name) is not None:
            raise DuplicateId(
                f"id: {name} is taken; ids are never used twice, also after deletion.", id=name, field="id"
            )
        return name

    def _news(self, work: BatchResolver, known: str) -> dict[str, Any]:
        before = work.known(known).data()
        return {name: value for name, value in self.draft.data.items() if not same(before.get(name), value)}


class Update(Operation):
    def __init__(
        self,
        target: Operation | str,
        changes: dict[str, Any] | Callable[[Record], dict[str, Any]],
        by: str | None,
        expected_revision: int | None,
        limit_bytes: int,
        may_touch_turns: bool = False,
        redactor: Redactor | None = None,
    ) -> None:
        self.redactor = redactor
        self.target = target
        self.changes = changes
        self.by = validation.optional_text("by", by)
        self.expected_revision = validation.revision("expected_revision", expected_revision)
        self.limit_bytes = limit_bytes
        self.may_touch_turns = may_touch_turns

    def resolve(self, work: BatchResolver) -> None:
        self.memory_id = name = id_of(self.target)
        if self.rights is not None:
            self.rights._check_change(self, work.record(name))
        trail = work.known(name)
        if self.expected_revision is not None and trail.changed_since(self.expected_revision):
            raise Conflict(
                f"{name} is at revision {trail.revision}, not {self.expected_revision}: somebody was quicker. Read it again and repeat.",
                id=name,
                revision=trail.revision,
                expected_revision=self.expected_revision,
            )
        if trail.first.type in _FIXED_TYPES and not self.may_touch_turns:
            raise InvalidRecord(
                f"{name}: a turn of a conversation cannot be changed, only deleted or redacted.", field="id", id=name
            )
        wanted = self.changes(work.record(name)) if callable(self.changes) else self.changes
        kind = KINDS[trail.first.type]
        checked = without_recalled(kind, validation.changes(kind, wanted, self.limit_bytes))
        before = trail.data()
        fresh = checked
        if isinstance(checked.get("relations"), list):  # those of before were judged when they were written
            known = before.get("relations") or []
            fresh = {**checked, "relations": [each for each in checked["relations"] if each not in known]}
        self.warnings = typos.warnings(kind, fresh)
        if self.redactor is not None:
            checked, self.removals = self.redactor.redact_fields(checked)
        self._check_targets(work, checked, before)
        news = {field: value for field, value in checked.items() if not same(before.get(field), value)}
        if any(field in news for group in kind.required for field in group):
            validation.says_something(kind, {**before, **news})
        work.change(name, news, self.by, None)


class Relate(Update):
    def __init__(
        self, source: Operation | str, target: Operation | str, kind: str, by: str | None, limit_bytes: int
    ) -> None:
        kind = validation.relation_kind(kind)
        if isinstance(target, str):
            validation.reference("target", target)

        def with_relation(record: Record) -> dict[str, Any]:
            new = {"kind": kind, "target": id_of(target)}
            return {"relations": record.relations if new in record.relations else [*record.relations, new]}

        super().__init__(source, with_relation, by, None, limit_bytes, may_touch_turns=True)
        self.other = target

    def resolve(self, work: BatchResolver) -> None:
        other = id_of(self.other)
        if "/" not in other:
            work.known(other)
        super().resolve(work)


class Delete(Operation):
    op = DELETE
    forgets = "delete"

    def __init__(
        self, target: Operation | str, by: str | None, reason: str | None, removals: list[RedactedSpan] | tuple[()] = ()
    ) -> None:
        self.target = target
        self.by = validation.optional_text("by", by)
        self.reason = validation.optional_text("reason", reason)
        self.removals = removals  # of the reason

    def resolve(self, work: BatchResolver) -> None:
        self.memory_id = name = id_of(self.target)
        if self.rights is not None:
            self.rights._check_change(self, work.record(name))
        work.known(name, deleted=self.op == RESTORE)
        work.mark(self.op, name, self.by, {"reason": self.reason} if self.reason else {})


class Restore(Delete):
    op = RESTORE
    forgets = "restore"


def id_of(target: Any) -> str:
    """The id meant by an id, a record or a wish of the same transaction."""
    name = target if isinstance(target, str) else getattr(target, "id", None)
    if isinstance(name, str):
        return name
    raise InvalidRecord(f"id: {target!r} is neither the id of a memory nor a memory.", field="id")


def targets_in(data: dict[str, Any], session: str) -> list[str]:
    """The ids of memories of this session that a memory's relations and references name."""
    relations, references = data.get("relations"), data.get("references")
    named = [each.get("target") for each in relations if isinstance(each, dict)] if isinstance(relations, list) else []
    named += references if isinstance(references, list) else []
    own = [name.removeprefix(f"{session}/") for name in named if isinstance(name, str)]
    return [name for name in own if "/" not in name]


class Batch:
    """Wishes that are stored together; `atomic` ones become visible together or not at all."""

    quiet = False  # upkeep: the session does not count as written by it
    cold: Callable[[str], Record | None] | None = None  # the memory with an idempotency key that compaction took out

    def __init__(self, session: str, wishes: list[Operation], now: str, atomic: bool, doing: str) -> None:
        self.session = session
        self.wishes = wishes
        self.now = now
        self.atomic = atomic
        self.doing = doing
        self.looked_at = -1
        self.error: SMPError | None = None
        self.needs_trails = wishes[0].needs_trails if len(wishes) == 1 else any(wish.needs_trails for wish in wishes)

    def resolve(self, ledger: IdAllocator) -> list[Entry]:
        if not self.needs_trails:  # most batches: new memories that depend on nothing
            return [wish.resolve_alone(self.session, self.now, ledger) for wish in self.wishes]
        work = BatchResolver(self.session, self.now, ledger, self.cold)
        for wish in self.wishes:
            wish.resolve(work)
        for wish in self.wishes:
            wish.record = work.record(wish.memory_id or wish.id)
        return work.entries

    def check_room(self, admit: Callable[[int, int], None], used_bytes: int, new_bytes: int) -> None:
        """Raise if it does not fit. Deleting and restoring may use a reserve above the quota: a full session can be cleared."""
        try:
            admit(used_bytes, new_bytes)
        except SizeLimitExceeded as error:
            largest = int(str(error.details["limit"])) + RESERVE_BYTES
            if used_bytes + new_bytes > largest or not all(isinstance(wish, Delete) for wish in self.wishes):
                raise


class BatchResolver:
    """A batch in the making: the ledger plus what the batch itself adds to it."""

    def __init__(
        self, session: str, now: str, ledger: IdAllocator, cold: Callable[[str], Record | None] | None = None
    ) -> None:
        self.session = session
        self.now = now
        self.cold = cold
        self._from_cold: dict[str, Record] = {}
        self.entries: list[Entry] = []
        self._ledger = ledger
        self._own: dict[str, RecordHistory] = {}
        self._keys: dict[str, str] = {}
        self._preferences: dict[str, str] = {}

    def next_id(self, prefix: str) -> str:
        return ids.numbered(prefix, self._ledger.next_number(prefix))

    def trail(self, name: str) -> RecordHistory | None:
        return self._own.get(name) or self._ledger.trail(name)

    def known(self, name: str, *, deleted: bool = False) -> RecordHistory:
        trail = self.trail(name)
        if trail is None:
            raise MemoryNotFound(f"{name} does not exist in session {self.session}.", id=name, session=self.session)
        if (trail.deletion is not None) is not deleted:
            state = "is not deleted" if deleted else "is deleted; restore it first"
            raise MemoryNotFound(f"{name} in session {self.session} {state}.", id=name, session=self.session)
        if trail.first.lacks:  # the writer gives typed entries their ids before, where it can
            raise SessionCorrupt(
                f"{name} was typed in by hand and has no id in {trail.first.file} line {trail.first.line} yet; the file holds "
                "the marks of an unfinished merge. Settle it by hand or with `smp repair` first. Nothing was changed.",
                id=name,
                session=self.session,
                path=trail.first.file,
            )
        return trail

    def record(self, name: str) -> Record:
        trail = self._own.get(name) or self._ledger.trail(name)
        record = trail.record(self.session) if trail else self._from_cold.get(name)
        if record is None:
            raise MemoryNotFound(f"{name} does not exist in session {self.session}.", id=name, session=self.session)
        return record

    def idempotent(self, key: str | None) -> str | None:
        if key is None:
            return None
        name = self._keys.get(key) or self._ledger.idempotent(key)
        trail = self.trail(name) if name is not None else None
        return name if trail is not None and trail.deletion is None else None  # what was deleted can be added again

    def from_cold(self, key: str) -> str | None:
        """A memory with this idempotency key that was stored and then compacted: it is the one, and stays where it is."""
        record = self.cold(key) if self.cold is not None else None
        if record is not None:
            self._from_cold[record.id] = record
        return record.id if record is not None else None

    def preference(self, key: str) -> str | None:
        """The preference that has this key now, also if it came by it in this batch."""
        known = (self._preferences.get(key), self._ledger.preference(key))
        return next((name for name in known if name and (trail := self.trail(name)) and trail.has_key(key)), None)

    def put(self, entry: Entry) -> None:
        self._write(entry)
        self._own[entry.id] = RecordHistory(entry)
        data = entry.data
        if "idempotency_key" in data:
            self._keys[data["idempotency_key"]] = entry.id
        if entry.type == "preference" and "key" in data:
            self._preferences[str(data["key"])] = entry.id

    def own_id_used(self, name: str) -> None:
        """A caller's own id may look like one of ours, of whatever type; then its number is used up."""
        prefix = name.rpartition("-")[0]
        if prefix in PREFIXES:
            self._ledger.number_used(prefix, ids.number_of(name, prefix))

    def change(self, name: str, data: dict[str, Any], by: str | None, at: str | None) -> None:
        """Amend a memory; nothing to change is nothing to write."""
        if data:
            trail = self.known(name)
            if data.get("idempotency_key") is not None:
                self._keys[data["idempotency_key"]] = name
            if trail.first.type == "preference" and data.get("key") is not None:
                self._preferences[str(data["key"])] = name
            change = Entry(CHANGE, trail.first.type, name, at or self.now, data, by=by, uid=trail.first.uid)
            change.revision = trail.revision + is_revision(change)
            self._amend(trail, change)

    def mark(self, op: str, name: str, by: str | None, data: dict[str, Any]) -> None:
        trail = self.known(name, deleted=op == RESTORE)
        self._amend(trail, Entry(op, trail.first.type, name, self.now, data, by=by, uid=trail.first.uid))

    def _uids(self, data: dict[str, Any]) -> dict[str, str]:
        """The uids of the memories of this session that the fields refer to, by the ids as they stand there."""
        trails = {name: self.trail(name.removeprefix(f"{self.session}/")) for name in targets_of(data)}
        return {name: trail.first.uid for name, trail in trails.items() if trail is not None and trail.first.uid}

    def _amend(self, trail: RecordHistory, entry: Entry) -> None:
        self._write(entry)
        twin = trail.copy()
        twin.append(entry)
        self._own[entry.id] = twin

    def _write(self, entry: Entry) -> None:
        if not POINTING.isdisjoint(entry.data):
            entry.uids = self._uids(entry.data) or None
        entry.seq = self._ledger.next_seq()
        self.entries.append(entry)
