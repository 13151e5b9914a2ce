"""Write operations of a session (add, update, relate, delete, restore), batches of them, and the quota. Pure.

The store resolves a batch under the session's lock: each operation appends its entries to a `BatchResolver`, which gives
them ids, revisions and sequence numbers. Nothing is written before every operation of the batch has been resolved; a
conflict or a missing memory rejects the whole batch. Resolving has no other effect, so a batch can be resolved again.
"""

from __future__ import annotations

from smp_memory.errors import Conflict, DuplicateId, InvalidRecord, SizeLimitExceeded
from smp_memory.model import ids
from smp_memory.model.clone_merge import POINTING, concurrent_changes
from smp_memory.model.entry import DELETE, PUT, RESTORE, Entry
from smp_memory.model.ids import new_uid
from smp_memory.model.record import CLASSES, same
from smp_memory.model.times import VALID_FROM, VALID_UNTIL
from smp_memory.model.types import KINDS
from smp_memory.privacy.fence import without_recalled
from smp_memory.write import validation
from smp_memory.write.batch_resolver import BatchResolver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from smp_memory.errors import SMPError
    from smp_memory.model.history import IdAllocator, RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.privacy.redaction import RedactedSpan, Redactor
    from smp_memory.write.validation import Draft

    class Rights(Protocol):
        """Permissions of the caller. Checked under the session's lock against the current memories; a check raises to reject."""

        def _rank(self, record: Record) -> int:
            """0: the caller may not see this memory; of several with the same key, the one with the highest rank is meant."""

        def _check_change(self, operation: Operation, record: Record) -> None:
            """The operation changes or deletes this memory."""

        def _check_target(self, name: str, record: Record | None) -> None:
            """A new relation or reference names this id of the session; `record` is None if no such memory exists."""


RESERVE_BYTES = 64 * 1024  # above the quota, for deletions


class Operation:
    """One write requested by a caller; `record` is the resulting memory once its batch is stored.

    The fields of that record are attributes of the operation, too: a transaction returns its operations.
    """

    needs_histories = True
    record: Record | None = None
    memory_id: str | None = None
    removals: list[RedactedSpan] | tuple[()] = ()  # the redacted secrets
    warnings: tuple[str, ...] = ()  # for the caller; the memory is stored all the same
    rights: Rights | None = None  # None: no restrictions
    dated: str | None = None  # the creation time that the caller gave for a new memory
    forgets = ""  # the action in the audit log, for deletions and restorations

    @property
    def id(self) -> str:
        """The id of the memory; of a new one only when its transaction is committed."""
        if self.memory_id is None:
            raise InvalidRecord("id: this memory gets its id when the transaction is committed.", field="id")
        return self.memory_id

    def resolve(self, resolver: BatchResolver) -> None:
        raise NotImplementedError

    def _check_targets(self, resolver: BatchResolver, data: dict[str, Any], before: dict[str, Any]) -> None:
        """Check the right to refer to each memory of this session that `data` points to and `before` did not."""
        if self.rights is not None and ("relations" in data or "references" in data):
            for name in set(targets_in(data, resolver.session)).difference(targets_in(before, resolver.session)):
                history = resolver.history(name)
                self.rights._check_target(name, history.record(resolver.session) if history is not None else None)

    def resolve_alone(self, session: str, now: str, allocator: IdAllocator) -> Entry:
        """`resolve` for an operation with `needs_histories = False`."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self.record is None:
            raise AttributeError(name)
        return getattr(self.record, name)


class Add(Operation):
    needs_histories = False
    key: str | None = None
    replaces = False

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.dated = draft.created
        data, kind = draft.data, draft.kind
        points = not POINTING.isdisjoint(data)
        may_replace = kind.is_named_by_agent or kind.is_named_by_key
        if draft.id is None and not may_replace and "idempotency_key" not in data and not points:
            return  # the common case: it depends on no other memory
        self.memory_id = draft.id
        self.key = data.get("idempotency_key")
        self.replaces = kind.is_named_by_agent or (kind.is_named_by_key and "key" in data)
        self.needs_histories = self.replaces or self.key is not None or draft.id is not None or points

    def resolve(self, resolver: BatchResolver) -> None:
        draft = self.draft
        if self.needs_histories and self._is_known(resolver):
            return
        self._check_targets(resolver, draft.data, {})
        if draft.id is not None or self.replaces:
            self.memory_id = self._explicit_id(resolver)
        else:
            self.memory_id = None
        if self.memory_id is None:
            self.memory_id = resolver.next_id(draft.kind.prefix)
        else:
            resolver.mark_id_used(self.memory_id)
        uid = "" if draft.kind.is_named_by_agent else new_uid()
        resolver.put(Entry(PUT, draft.kind.name, self.memory_id, draft.created or resolver.now, draft.data, uid=uid))

    def resolve_alone(self, session: str, now: str, allocator: IdAllocator) -> Entry:
        """Resolve a new memory that depends on no other and gets the next id."""
        draft = self.draft
        kind, data = draft.kind, draft.data
        self.memory_id = name = ids.numbered(kind.prefix, allocator.next_number(kind.prefix))
        entry = Entry(PUT, kind.name, name, draft.created or now, data, allocator.next_seq(), uid=new_uid())
        self.record = CLASSES[kind.name](session, entry, data, entry, 1, None)
        return entry

    def _is_known(self, resolver: BatchResolver) -> bool:
        """Whether no new memory is needed: the idempotency key is known, or an existing preference or state was changed."""
        rank = self.rights._rank if self.rights is not None else None
        known = resolver.idempotent(self.key, rank)
        if known is None and self.key is not None and resolver.find_in_cold_storage is not None:
            known = resolver.find_compacted(self.key, rank)
        if known is None and self.replaces:
            known = self._replaced(resolver)
            if known is not None:
                self._check_targets(resolver, self.draft.data, resolver.require(known).data())
                resolver.change(
                    known, self._changed_fields(resolver, known), self.draft.data.get("author"), self.draft.created
                )
        if known is not None:
            self.memory_id = known
        return known is not None

    def _replaced(self, resolver: BatchResolver) -> str | None:
        data = self.draft.data
        is_state = self.draft.kind.is_named_by_agent
        name = (
            self._state_id(resolver)
            if is_state
            else resolver.preference(str(data["key"]), self.rights._rank if self.rights is not None else None)
        )
        history = resolver.history(name) if name else None
        return name if history is not None and history.deletion is None else None

    def _state_id(self, resolver: BatchResolver) -> str:
        """`STATE-<agent>`; `STATE-<agent>-2` if that one was deleted, because ids are never reused."""
        first: str = ids.STATE_PREFIX + self.draft.data["agent"]
        name = first
        number = 1
        while (history := resolver.history(name)) is not None and (
            history.deletion is not None or not self._is_same_agent(history)
        ):
            number += 1
            name = f"{first}-{number}"
        return name

    def _is_same_agent(self, history: RecordHistory) -> bool:
        """Whether it is a state of the same agent, not another memory whose id looks like one."""
        return KINDS[history.first.type].is_named_by_agent and history.data().get("agent") == self.draft.data["agent"]

    def _explicit_id(self, resolver: BatchResolver) -> str | None:
        if self.draft.kind.is_named_by_agent:
            return self._state_id(resolver)
        name = self.draft.id
        if name is not None and resolver.history(name) is not None:
            raise DuplicateId(
                f"id: {name} exists already; ids are never reused, not even after deletion.", id=name, field="id"
            )
        return name

    def _changed_fields(self, resolver: BatchResolver, known: str) -> dict[str, Any]:
        """The fields of the new value that differ. The time in which the old value held says nothing about the new one."""
        before = resolver.require(known).data()
        given = {**{name: None for name in (VALID_FROM, VALID_UNTIL) if name in before}, **self.draft.data}
        return {name: value for name, value in given.items() if not same(before.get(name), value)}


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

    def resolve(self, resolver: BatchResolver) -> None:
        self.memory_id = name = id_of(self.target)
        if self.rights is not None:
            self.rights._check_change(self, resolver.record(name))
        history = resolver.require(name)
        if self.expected_revision not in (None, history.revision):
            raise Conflict(
                f"{name} is at revision {history.revision}, expected {self.expected_revision}: it was changed "
                "meanwhile. Read it again, then retry.",
                id=name,
                revision=history.revision,
                expected_revision=self.expected_revision,
            )
        kind = KINDS[history.first.type]
        if kind.is_turn and not self.may_touch_turns:
            raise InvalidRecord(
                f"{name}: a turn of a conversation cannot be changed, only deleted or redacted.", field="id", id=name
            )
        requested = self.changes(resolver.record(name)) if callable(self.changes) else self.changes
        checked = without_recalled(kind, validation.changes(kind, requested, self.limit_bytes))
        before = history.data()
        to_check = checked
        if isinstance(checked.get("relations"), list):  # the earlier ones were checked when they were written
            known = before.get("relations") or []
            to_check = {**checked, "relations": [each for each in checked["relations"] if each not in known]}
        self.warnings = validation.typo_warnings(kind, to_check)
        if self.redactor is not None:
            checked, self.removals = self.redactor.redact_fields(checked)
        self._check_targets(resolver, checked, before)
        changed = {field: value for field, value in checked.items() if not same(before.get(field), value)}
        if len(changed) < len(checked):  # to write the value in use settles concurrent changes
            changed = {field: checked[field] for field in checked if field in changed or field in concurrent_changes(history.entries)}  # fmt: skip
        if any(field in changed for group in kind.required for field in group):
            validation.check_required(kind, {**before, **changed})
        resolver.change(name, changed, self.by, None)


class Relate(Update):
    def __init__(
        self, source: Operation | str, target: Operation | str, kind: str, by: str | None, limit_bytes: int
    ) -> None:
        kind = validation.relation_kind(kind)
        if isinstance(target, str):
            validation.reference("target", target)

        def with_relation(record: Record) -> dict[str, Any]:
            short, long = _names_of(target, record.session)
            is_known = any(relation_key(each) in ((kind, short), (kind, long)) for each in record.relations)
            new = {"kind": kind, "target": short}
            return {"relations": record.relations if is_known else [*record.relations, new]}

        super().__init__(source, with_relation, by, None, limit_bytes, may_touch_turns=True)
        self.other = target

    def resolve(self, resolver: BatchResolver) -> None:
        other = id_of(self.other)
        if "/" not in other:
            resolver.require(other)
        super().resolve(resolver)


class Unrelate(Update):
    def __init__(
        self, source: Operation | str, target: Operation | str, kind: str, by: str | None, limit_bytes: int
    ) -> None:
        kind = validation.optional_text("kind", kind) or "relates_to"  # any text: also a kind that was typed by hand
        if isinstance(target, str):
            validation.reference("target", target)

        def without_relation(record: Record) -> dict[str, Any]:
            removed = [(kind, name) for name in _names_of(target, record.session)]
            return {"relations": [each for each in record.relations if relation_key(each) not in removed] or None}

        super().__init__(source, without_relation, by, None, limit_bytes, may_touch_turns=True)
        self.other = target


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

    def resolve(self, resolver: BatchResolver) -> None:
        self.memory_id = name = id_of(self.target)
        if self.rights is not None:
            self.rights._check_change(self, resolver.record(name))
        resolver.require(name, deleted=self.op == RESTORE)
        resolver.append_deletion(self.op, name, self.by, {"reason": self.reason} if self.reason else {})


class Restore(Delete):
    op = RESTORE
    forgets = "restore"


def relation_key(relation: Any) -> tuple[Any, Any]:
    """Kind and target of a relation, which may have been typed by hand."""
    if not isinstance(relation, dict):
        return None, None
    return relation.get("kind") or "relates_to", relation.get("target")


def _names_of(target: Any, session: str) -> tuple[str, str]:
    """A memory as relations of this session name it: by its id, and with the session. One of another session has one name."""
    name = id_of(target).removeprefix(f"{session}/")
    return name, name if "/" in name else f"{session}/{name}"


def id_of(target: Any) -> str:
    """The id of a target: an id, a record or an operation of the same transaction."""
    name = target if isinstance(target, str) else getattr(target, "id", None)
    if isinstance(name, str):
        return name
    raise InvalidRecord(f"id: {target!r} is neither the id of a memory nor a memory.", field="id")


def targets_in(data: dict[str, Any], session: str) -> list[str]:
    """The ids of memories of this session that a memory's relations and references name."""
    relations, references = data.get("relations"), data.get("references")
    named = [each.get("target") for each in relations if isinstance(each, dict)] if isinstance(relations, list) else []
    named += references if isinstance(references, list) else []
    local = [name.removeprefix(f"{session}/") for name in named if isinstance(name, str)]
    return [name for name in local if "/" not in name]


class Batch:
    """Operations that are stored together; an atomic batch becomes visible as a whole or not at all."""

    is_maintenance = False  # True: the batch does not count as activity of the session
    find_in_cold_storage: Callable[[str], Record | None] | None = None  # a compacted memory by idempotency key

    def __init__(self, session: str, operations: list[Operation], now: str, atomic: bool, operation_name: str) -> None:
        self.session = session
        self.operations = operations
        self.now = now
        self.atomic = atomic
        self.operation_name = operation_name
        self.read_version = -1  # the writer's change counter when the session was last read; -1: not read
        self.error: SMPError | None = None
        self.needs_histories = (
            operations[0].needs_histories
            if len(operations) == 1
            else any(operation.needs_histories for operation in operations)
        )

    def resolve(self, allocator: IdAllocator) -> list[Entry]:
        if not self.needs_histories:  # the common case: new memories that depend on no other
            return [operation.resolve_alone(self.session, self.now, allocator) for operation in self.operations]
        resolver = BatchResolver(self.session, self.now, allocator, self.find_in_cold_storage)
        for operation in self.operations:
            operation.resolve(resolver)
        for operation in self.operations:
            operation.record = resolver.record(operation.memory_id or operation.id)
        return resolver.entries

    def check_room(self, admit: Callable[[int, int], None], used_bytes: int, new_bytes: int) -> None:
        """Raise if the bytes exceed the quota. Deletions and restorations may use a reserve above it, so that a full session can be cleared."""
        try:
            admit(used_bytes, new_bytes)
        except SizeLimitExceeded as error:
            largest = int(str(error.details["limit"])) + RESERVE_BYTES
            if used_bytes + new_bytes > largest or not all(operation.forgets for operation in self.operations):
                raise
