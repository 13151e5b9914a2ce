"""Merging entries of two clones: duplicate ids, references, concurrent changes."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from smp_memory.model.content_checks import content_problems
from smp_memory.model.entry import CHANGE, PUT, Entry
from smp_memory.model.history import SessionHistory


def put(seq: int, uid: str, second: int, id: str = "FIND-0002", **data: Any) -> Entry:
    return Entry(PUT, "finding", id, f"2026-01-01T00:00:{second:02}Z", {"finding": uid, **data}, seq, uid=uid, line=seq)


def change(seq: int, uid: str, revision: int, id: str = "FIND-0002", **data: Any) -> Entry:
    return Entry(CHANGE, "finding", id, f"2026-01-01T00:01:{seq:02}Z", data, seq, uid=uid, revision=revision, line=seq)


def history_from(*entries: Entry) -> SessionHistory:
    session_history = SessionHistory()
    session_history.add(entries)
    return session_history


def shown(session_history: SessionHistory) -> dict[str, Any]:
    return {id: history.data()["finding"] for id, history in session_history.histories.items()}


def codes(session_history: SessionHistory) -> list[str]:
    return [problem.code for problem in session_history.problems]


def test_memory_created_first_keeps_the_id_in_any_order_of_arrival() -> None:
    entries = [put(2, "later", 9), put(2, "first", 5), change(3, "later", 2, category="x")]
    for order in permutations(entries):
        session_history = SessionHistory()
        for entry in order:
            session_history.add([entry.copy()])
        assert shown(session_history) == {"FIND-0002": "first", "FIND-0003": "later"}
        assert session_history.histories["FIND-0003"].data()["category"] == "x"
        assert codes(session_history) == ["duplicate_id"]


def test_rename_makes_the_shown_id_permanent() -> None:
    entries = [put(2, "first", 5), put(2, "later", 9)]
    session_history = history_from(*entries)
    renames = session_history.renames(session_history.seq)
    again = history_from(*entries, *renames, put(4, "third", 20, "FIND-0003"))
    assert shown(again) == {"FIND-0002": "first", "FIND-0003": "later", "FIND-0004": "third"}
    assert set(again.names.unsettled) == {"FIND-0004"}
    assert history_from(*entries, *renames).problems == []
    assert session_history.renames(session_history.seq)[0].at == renames[0].at


def test_rename_is_not_a_field_of_the_memory() -> None:
    entries = [put(2, "first", 5), put(2, "later", 9)]
    history = history_from(*entries, *history_from(*entries).renames(2)).histories["FIND-0003"]
    record = history.record("s")
    assert record is not None
    assert (history.data(), history.revision) == ({"finding": "later"}, 1)
    assert record.updated == record.created


def test_change_without_uid_belongs_to_the_memory_that_has_the_id() -> None:
    session_history = history_from(put(2, "first", 5), put(2, "later", 9), change(3, "", 2, category="x"))
    assert session_history.histories["FIND-0002"].data()["category"] == "x"


def test_typed_entry_with_an_old_time_does_not_take_the_id_of_a_stored_memory() -> None:
    typed = Entry(PUT, "finding", "FIND-0002", "1999-01-01T00:00:00Z", {"finding": "typed"}, 2, state="unsigned")
    assert shown(history_from(put(2, "stored", 5), typed)) == {"FIND-0002": "stored", "FIND-0003": "typed"}


def test_numbers_of_purged_memories_are_not_reused() -> None:
    session_history = SessionHistory(lambda: {"FIND": 9})
    session_history.add([put(2, "first", 5), put(2, "later", 9)])
    assert list(session_history.histories) == ["FIND-0002", "FIND-0010"]


def test_references_follow_their_memory() -> None:
    entries = [put(2, "first", 5), put(2, "later", 9)]
    for uid, expected in (("first", "FIND-0002"), ("later", "FIND-0003")):
        pointing = put(5, "p", 30, "FIND-0001", references=["FIND-0002", "s/FIND-0002"], turn_ref="FIND-0002")
        pointing.data["relations"] = [{"kind": "about", "target": "FIND-0002"}]
        pointing.uids = {"FIND-0002": uid, "s/FIND-0002": uid}
        data = history_from(*entries, pointing).histories["FIND-0001"].data()
        assert data["references"] == [expected, f"s/{expected}"]
        assert data["turn_ref"] == data["relations"][0]["target"] == expected


def test_reference_to_a_missing_memory_is_reported_when_another_has_its_id() -> None:
    pointing = put(5, "p", 30, "FIND-0001", references=["FIND-0002"])
    pointing.uids = {"FIND-0002": "other"}
    problems = content_problems(history_from(put(2, "first", 5), pointing), set())
    assert [problem.code for problem in problems] == ["dangling_reference"]


def test_concurrent_changes_conflict_only_in_fields_that_both_wrote() -> None:
    base = put(1, "m", 1)
    assert codes(history_from(base, change(2, "m", 2, a=1), change(2, "m", 2, b=2))) == []
    conflict = [base, change(2, "m", 2, a=1), change(2, "m", 2, a=2)]
    assert codes(history_from(*conflict)) == ["conflicting_change"]
    assert codes(history_from(*conflict, change(4, "m", 4, b=1))) == ["conflicting_change"]
    assert codes(history_from(*conflict, change(4, "m", 4, a=3))) == []
    assert codes(history_from(base, change(2, "m", 2, a=1), change(3, "m", 2, a=1))) == []


def test_later_change_of_one_side_conflicts_with_the_other_side() -> None:
    base, ours = put(1, "m", 1), change(2, "m", 2, a=1)
    theirs = [change(2, "m", 2, b=1), change(3, "m", 3, a=2)]
    assert codes(history_from(base, ours, *theirs)) == ["conflicting_change"]


def test_missing_revision_is_reported_and_equal_revisions_are_not() -> None:
    assert codes(history_from(put(1, "m", 1), change(2, "m", 4, a=1))) == ["revision_gap"]
    assert codes(history_from(put(1, "m", 1), change(2, "m", 2, a=1), change(3, "m", 2, b=1))) == []


def test_change_typed_without_a_revision_has_seen_all_before_it() -> None:
    assert codes(history_from(put(1, "m", 1), change(2, "m", 2, a=1), change(3, "m", 0, a=2))) == []
