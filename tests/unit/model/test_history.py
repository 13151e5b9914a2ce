"""Histories of memories and sessions built from entries."""

from __future__ import annotations

from typing import Any

import pytest

from smp_memory.model.entry import CHANGE, DELETE, PUT, RESTORE, Entry, transaction_mark, transaction_range
from smp_memory.model.history import RecordHistory, SessionHistory, after


def put(seq: int, id: str = "DEC-0001", type: str = "decision", **data: Any) -> Entry:
    return Entry(PUT, type, id, f"2026-01-01T00:00:{seq:02}Z", {"decision": "x", **data}, seq=seq, file="f", line=seq)


def amend(op: str, seq: int, id: str = "DEC-0001", revision: int = 0, **data: Any) -> Entry:
    return Entry(
        op,
        "decision",
        id,
        f"2026-01-01T00:00:{seq:02}Z",
        data,
        seq=seq,
        by="ada",
        revision=revision,
        file="f",
        line=seq,
    )


def history_from(*entries: Entry) -> SessionHistory:
    session_history = SessionHistory()
    session_history.add(entries)
    return session_history


def test_entries_are_applied_in_order_of_their_numbers() -> None:
    session_history = history_from(amend(CHANGE, 3, revision=3, n=3), amend(CHANGE, 2, revision=2, n=2), put(1, n=1))
    record = session_history.histories["DEC-0001"].record("s")
    assert record is not None
    assert (record.n, record.revision, record.updated_by, session_history.seq, session_history.problems) == (
        3,
        3,
        "ada",
        3,
        [],
    )


def test_none_removes_a_field() -> None:
    history = history_from(put(1, n=1), amend(CHANGE, 2, revision=2, n=None)).histories["DEC-0001"]
    assert history.data() == {"decision": "x"}


@pytest.mark.parametrize(
    ("ops", "deleted"),
    [([DELETE], True), ([DELETE, RESTORE], False), ([DELETE, RESTORE, DELETE], True), ([RESTORE], False)],
)
def test_last_deletion_or_restoration_wins(ops: list[str], deleted: bool) -> None:
    history = history_from(put(1), *[amend(op, number) for number, op in enumerate(ops, 2)]).histories["DEC-0001"]
    assert (history.deletion is not None) is deleted


def test_second_memory_with_the_same_id_is_shown_under_another_id() -> None:
    session_history = history_from(put(1), put(2, n=2), put(3, n=3))
    assert list(session_history.histories) == ["DEC-0001", "DEC-0002", "DEC-0003"]
    assert [(each.code, each.line) for each in session_history.problems] == [("duplicate_id", 2), ("duplicate_id", 3)]


def test_duplicate_entry_counts_once() -> None:
    twin = put(2)
    twin.at = put(1).at
    session_history = history_from(put(1), twin)
    assert list(session_history.histories) == ["DEC-0001"]
    assert [each.code for each in session_history.problems] == ["duplicate_entry"]


def test_entries_with_one_and_true_are_not_duplicates() -> None:
    twin = put(2, n=True)
    twin.at = put(1).at
    assert list(history_from(put(1, n=1), twin).histories) == ["DEC-0001", "DEC-0002"]


@pytest.mark.parametrize("op", [CHANGE, DELETE, RESTORE])
def test_entry_of_an_unknown_memory_is_a_problem_until_its_put_arrives(op: str) -> None:
    session_history = history_from(amend(op, 2, revision=2))
    assert [(each.code, each.id, each.line) for each in session_history.problems] == [("orphan", "DEC-0001", 2)]
    assert session_history.histories == {}
    session_history.add([put(1)])
    assert session_history.problems == []
    assert [entry.op for entry in session_history.histories["DEC-0001"].entries] == [PUT, op]


def test_late_entry_is_applied_in_order() -> None:
    session_history = history_from(put(3, "DEC-0003"), put(1))
    session_history.add([put(2, "DEC-0002"), amend(DELETE, 5)])
    session_history.add([amend(CHANGE, 4, revision=2, n=1)])
    assert list(session_history.histories) == ["DEC-0001", "DEC-0002", "DEC-0003"]
    assert [entry.seq for entry in session_history.histories["DEC-0001"].entries] == [1, 4, 5]


def test_missing_revision_is_reported_and_later_ones_apply() -> None:
    session_history = history_from(put(1), amend(CHANGE, 2, revision=4, n=4))
    assert [each.code for each in session_history.problems] == ["revision_gap"]
    assert session_history.histories["DEC-0001"].data()["n"] == 4


def test_largest_number_by_prefix_ignores_the_type() -> None:
    session_history = history_from(
        put(1, "DEC-0007"), put(2, "TURN-0005"), put(3, "own-9"), put(4, "FIND-x"), put(5, "DEC-0003")
    )
    assert session_history.numbers == {"DEC": 7, "TURN": 5}


def test_idempotency_and_preference_keys_are_indexed() -> None:
    session_history = history_from(
        put(1, idempotency_key="a"),
        put(2, "DEC-0002", idempotency_key=["odd"]),
        put(3, "DEC-0003", idempotency_key="a"),
    )
    assert session_history.idempotent == {"a": "DEC-0001"}
    session_history = history_from(
        Entry(PUT, "preference", "PREF-1", "2026-01-01T00:00:00Z", {"key": 5, "value": 1}, seq=1)
    )
    assert session_history.preferences == {"5": "PREF-1"}


def test_incomplete_transactions_are_reported() -> None:
    parts = [put(1), put(2, "DEC-0002"), put(3, "DEC-0003")]
    for part in parts:
        part.tx = "1-3/2"
    session_history = history_from(*parts[:2])
    assert session_history.unfinished() == ["1-3/2"]
    session_history.add(parts[2:])
    assert session_history.unfinished() == []


@pytest.mark.parametrize(("mark", "limits"), [("1-3", (1, 3, 1)), ("12-14/2", (12, 14, 2)), ("", None), ("x", None), ("5", None), ("1-x", None), ("1-2/x", None)])  # fmt: skip
def test_transaction_mark_round_trip(mark: str, limits: Any) -> None:
    assert transaction_range(mark) == limits
    if limits:
        assert transaction_mark(limits[0], limits[1] - limits[0] + 1, limits[2]) == mark


def test_steps_are_copies() -> None:
    history = history_from(put(1, tags=["a"]), amend(CHANGE, 2, revision=2, tags=["b"])).histories["DEC-0001"]
    for step in history.steps():
        step["changes"]["tags"]["to"].append("c")
    assert history.data()["tags"] == ["b"]
    assert history.steps()[1]["changes"] == {"tags": {"from": ["a"], "to": ["b"]}}


def test_record_as_of_a_time() -> None:
    history = history_from(put(1, n=1), amend(CHANGE, 2, revision=2, n=2), amend(DELETE, 3)).histories["DEC-0001"]
    shown = [history.record("s", f"2026-01-01T00:00:{second:02}Z") for second in range(4)]
    assert [record and (record.n, record.deleted) for record in shown] == [None, (1, False), (2, False), (2, True)]


@pytest.mark.parametrize(
    ("time", "other"),
    [("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"), ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z"), ("2026-01-01T00:00:00.51Z", "2026-01-01T00:00:00.5Z")],
)  # fmt: skip
def test_times_with_and_without_fraction_compare_correctly(time: str, other: str) -> None:
    assert after(time, other)
    assert not after(other, time)
    assert not after(time, time)


def test_copy_of_a_history_is_independent() -> None:
    history = RecordHistory(put(1))
    history.copy().entries.append(amend(DELETE, 2))
    assert history.deletion is None
