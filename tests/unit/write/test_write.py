"""Validation, quota, and how operations become entries."""

from __future__ import annotations

from typing import Any

import pytest

from smp_memory.errors import Conflict, DuplicateId, InvalidRecord, MemoryNotFound, SizeLimitExceeded
from smp_memory.model.entry import PUT, Entry
from smp_memory.model.history import IdAllocator, SessionHistory
from smp_memory.model.types import KINDS
from smp_memory.scope import admit
from smp_memory.write import validation
from smp_memory.write.operations import Add, Batch, Delete, Operation, Relate, Restore, Update

LIMIT = 1000
NOW = "2026-01-01T12:00:00Z"


def draft(kind: str = "decision", **given: Any) -> validation.Draft:
    return validation.draft(KINDS[kind], {"decision": "x", **given} if kind == "decision" else given, LIMIT)


def allocator(*entries: Entry) -> IdAllocator:
    session_history = SessionHistory()
    session_history.add(entries)
    return IdAllocator(session_history.seq, dict(session_history.numbers), session_history)


def put(seq: int, id: str, type: str = "decision", **data: Any) -> Entry:
    return Entry(PUT, type, id, NOW, {"decision": "x", **data}, seq=seq)


def resolved(book: IdAllocator, *operations: Operation) -> list[Entry]:
    return Batch("s", list(operations), NOW, atomic=True, operation_name="testing").resolve(book)


# -- validation


def test_fields_come_in_a_stable_order() -> None:
    made = draft(zeta=1, tags=["a"], author="ada", rationale="r", alpha=2, topic="t")
    assert list(made.data) == ["author", "decision", "rationale", "topic", "tags", "zeta", "alpha"]


def test_fields_set_by_smp_are_ignored_in_input() -> None:
    made = draft(
        session="s", type="decision", revision=9, schema=9, checksum="x", updated="x", updated_by="x", session_id="s"
    )
    assert made.data == {"decision": "x"}


def test_checks_of_a_type_do_not_apply_to_another_type() -> None:
    made = draft(role="lead developer", agent=["a"], content={"a": 1}, finding=5, key=1)
    assert (made.data["role"], made.data["agent"], made.data["finding"]) == ("lead developer", ["a"], 5)


@pytest.mark.parametrize("depth", [1, validation.DEPTH_LIMIT - 1, validation.DEPTH_LIMIT])
def test_nesting_is_limited(depth: int) -> None:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    assert validation.plain("own", value) == value
    with pytest.raises(InvalidRecord, match="nested deeper"):
        validation.plain("own", [value] * 1 if depth == validation.DEPTH_LIMIT else _nested(validation.DEPTH_LIMIT + 1))


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("value", [2**2000, -(2**2000), 10**5000], ids=["2**2000", "-2**2000", "10**5000"])
def test_numbers_of_too_many_digits_are_rejected(value: int) -> None:
    for field in ("own", "importance", "confidence", "pinned", "tags", "relations", "created", "idempotency_key"):
        with pytest.raises(InvalidRecord) as caught:
            draft(**{field: value})
        assert caught.value.field == field
        assert len(str(caught.value)) < 300


def test_size_includes_names_and_nested_values() -> None:
    for given in (
        {"own": "x" * 990},
        {"x" * 990: 1},
        {"own": {"x" * 990: 1}},
        {"own": ["é" * 495]},
        {"own": [1] * 130},
    ):
        with pytest.raises(SizeLimitExceeded) as caught:
            draft(**given, more="yy" * 10)
        assert caught.value.details["limit"] == LIMIT
    assert draft(own="x" * 900)


def test_changes_are_validated() -> None:
    kind = KINDS["decision"]
    assert validation.changes(kind, {"a": 1, "b": None, "by": "x", "alternatives": None}, LIMIT) == {
        "b": None, "alternatives_considered": None, "a": 1, "author": "x",
    }  # fmt: skip
    for bad in ({"id": "x"}, {"id": None}, {"created": NOW}, {"ts": NOW}, {"decision": None}, {"decision": ""}):
        with pytest.raises(InvalidRecord):
            validation.changes(kind, bad, LIMIT)


@pytest.mark.parametrize(
    ("used", "new", "fits"), [(0, 100, True), (99, 1, True), (100, 1, False), (0, 101, False), (100, 0, True)]
)
def test_quota_rejects_a_batch_that_exceeds_it(used: int, new: int, fits: bool) -> None:
    if fits:
        admit("s", used, new, 100)
        return
    with pytest.raises(SizeLimitExceeded) as caught:
        admit("s", used, new, 100)
    assert caught.value.details == {"session": "s", "used": used, "size": new, "limit": 100}


# -- batches


def test_new_ids_continue_the_allocator() -> None:
    book = allocator(put(4, "DEC-0007"))
    entries = resolved(book, Add(draft()), Add(draft()), Add(draft("finding", finding="y")))
    assert [(entry.id, entry.seq, entry.at) for entry in entries] == [
        ("DEC-0008", 5, NOW),
        ("DEC-0009", 6, NOW),
        ("FIND-0001", 7, NOW),
    ]


def test_only_dependent_operations_need_histories() -> None:
    assert not Batch("s", [Add(draft())], NOW, atomic=False, operation_name="").needs_histories
    for operation in (Add(draft(id="own")), Add(draft(idempotency_key="k")), Add(draft("preference", key="k", value=1)), Add(draft("agent_state", agent="a")), Delete("x", None, None)):  # fmt: skip
        assert Batch("s", [Add(draft()), operation], NOW, atomic=False, operation_name="").needs_histories


def test_operations_see_earlier_operations_of_the_batch() -> None:
    first = Add(draft())
    change = Update(first, {"n": 1}, "ada", 1, LIMIT)
    relate = Relate(first, "DEC-0007", "led_to", None, LIMIT)
    delete, restore = Delete(first, "ada", "why"), Restore(first, "ada", None)
    entries = resolved(allocator(put(1, "DEC-0007")), first, change, relate, delete, restore)
    assert [(entry.op, entry.id, entry.revision) for entry in entries] == [
        ("put", "DEC-0008", 0), ("change", "DEC-0008", 2), ("change", "DEC-0008", 3), ("delete", "DEC-0008", 0), ("restore", "DEC-0008", 0),
    ]  # fmt: skip
    assert restore.record is not None
    assert (restore.record.revision, restore.record.n, first.id) == (3, 1, "DEC-0008")


def test_batch_can_be_resolved_again() -> None:
    operations = (Add(draft()), Add(draft(id="own")))
    resolved(allocator(), *operations)
    assert [entry.id for entry in resolved(allocator(put(1, "DEC-0041")), *operations)] == ["DEC-0042", "own"]


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (lambda: Add(draft(id="DEC-0001")), DuplicateId),
        (lambda: Update("DEC-0001", {"n": 1}, None, 2, LIMIT), Conflict),
        (lambda: Update("DEC-0009", {"n": 1}, None, None, LIMIT), MemoryNotFound),
        (lambda: Update("TURN-0001", {"n": 1}, None, None, LIMIT), InvalidRecord),
        (lambda: Update("DEC-0001", {"tags": "x"}, None, None, LIMIT), InvalidRecord),
        (lambda: Relate("DEC-0001", "DEC-0009", "led_to", None, LIMIT), MemoryNotFound),
        (lambda: Restore("DEC-0001", None, None), MemoryNotFound),
        (lambda: Delete("DEC-0009", None, None), MemoryNotFound),
        (lambda: Delete(Add(draft()), None, None), InvalidRecord),
    ],
)
def test_one_failing_operation_rejects_the_batch(operation: Any, error: type[Exception]) -> None:
    book = allocator(put(1, "DEC-0001"), put(2, "TURN-0001", "conversation"))
    with pytest.raises(error):
        resolved(book, Add(draft()), operation())


def test_existing_preference_or_state_is_changed() -> None:
    book = allocator(
        Entry(PUT, "preference", "PREF-0001", NOW, {"key": "k", "value": 1, "author": "ada"}, seq=1),
        Entry(PUT, "agent_state", "STATE-a", NOW, {"agent": "a", "state": 1}, seq=2),
    )
    entries = resolved(
        book,
        Add(draft("preference", key="k", value=True)),
        Add(draft("preference", key="k", value=True)),
        Add(draft("agent_state", agent="a", state=2)),
        Add(draft("preference", key="other", value=1)),
        Add(draft("preference", key="other", value=2)),
    )
    assert [(entry.op, entry.id, entry.data.get("value", entry.data.get("state"))) for entry in entries] == [
        ("change", "PREF-0001", True), ("change", "STATE-a", 2), ("put", "PREF-0002", 1), ("change", "PREF-0002", 2),
    ]  # fmt: skip


def test_idempotency_key_set_by_a_change_counts() -> None:
    book = allocator(Entry(PUT, "preference", "PREF-0001", NOW, {"key": "k", "value": 1}, seq=1))
    entries = resolved(
        book,
        Add(draft("preference", key="k", value=2, idempotency_key="two")),
        Add(draft("preference", key="k", value=3)),
        Add(draft("preference", key="k", value=2, idempotency_key="two")),
    )
    assert [entry.data.get("value") for entry in entries] == [2, 3]
    session_history = SessionHistory()
    session_history.add([Entry(PUT, "preference", "PREF-0001", NOW, {"key": "k", "value": 1}, seq=1), *entries])
    assert (
        resolved(
            IdAllocator(session_history.seq, {}, session_history),
            Add(draft("preference", key="k", value=2, idempotency_key="two")),
        )
        == []
    )


def test_operation_has_no_id_before_commit() -> None:
    operation = Add(draft())
    with pytest.raises(InvalidRecord, match="when the transaction is committed"):
        _ = operation.id
    with pytest.raises(AttributeError):
        _ = operation.decision
    resolved(allocator(), operation)
    assert (operation.id, operation.decision) == ("DEC-0001", "x")
