"""Supersession and validity are honoured by every way to read, and history stays reachable."""

from __future__ import annotations

import os
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.context.digest import digest_text
from smp_memory.errors import InvalidQuery, InvalidRecord
from smp_memory.memory import Memory
from smp_memory.session import SessionMemory
from smp_memory.testing import FrozenClock

OLD, NEW, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"


@pytest.fixture
def memory() -> Memory:
    return smp_memory.open(":memory:", clock=FrozenClock(datetime(2026, 6, 1, 12, tzinfo=UTC)))


@pytest.fixture
def session(memory: Memory) -> SessionMemory:
    return memory.create_session("s")


def refs(hits: Any) -> list[str]:
    return [hit.record.ref for hit in hits]


def superseded(session: SessionMemory, **fields: Any) -> tuple[str, str]:
    """An old decision about MySQL, and a new one that shares no word with it."""
    old = session.add_decision("MySQL stores the orders", created=OLD)
    new = session.add_decision("We go with Postgres", created=NEW, **fields)
    return old.id, new.id


# -- supersession in queries


def test_a_question_in_the_words_of_the_old_memory_finds_its_successor_first(session: SessionMemory) -> None:
    old, new = superseded(session)
    session.relate(new, old, "supersedes")
    hits = session.query("MySQL orders")
    assert hits.ids == [new, old]
    assert [hit.superseded_by for hit in hits] == [None, f"s/{new}"]
    assert hits[0].relevance == hits[1].relevance
    assert hits[1].to_dict()["superseded_by"] == f"s/{new}"
    assert "superseded_by" not in hits[0].to_dict()
    assert hits[0].explain["inherited"] > 0
    assert pickle.loads(pickle.dumps(hits[1])).superseded_by == f"s/{new}"


@pytest.mark.parametrize(
    "fields",
    [
        {"relations": [{"kind": "supersedes", "target": "DEC-0001"}]},
        {"relations": [("supersedes", "s/DEC-0001")]},
        {"supersedes": "DEC-0001"},
        {"supersedes": ["s/DEC-0001", "DEC-0099"]},
    ],
)
def test_every_way_to_name_what_a_memory_supersedes_counts(session: SessionMemory, fields: dict[str, Any]) -> None:
    old, new = superseded(session, **fields)
    assert session.query("MySQL").ids == [new, old]


@pytest.mark.parametrize(
    "change",
    [
        {"superseded_by": "DEC-0002"},
        {"relations": [{"kind": "superseded_by", "target": "DEC-0002"}]},
        {"status": "superseded", "superseded_by": ["s/DEC-0002"]},
        {"resolution": {"status": "superseded", "superseded_by": "DEC-0002"}},
    ],
)
def test_every_way_to_name_the_successor_counts(session: SessionMemory, change: dict[str, Any]) -> None:
    old, new = superseded(session)
    session.update(old, **change)
    assert session.query("MySQL").ids == [new, old]


@pytest.mark.parametrize("odd", [5, None, "", "/", "no id at all", {"a": 1}, [None, 7, ["DEC-0001"]], "DEC-0002"])
def test_an_odd_value_of_supersedes_says_nothing(session: SessionMemory, odd: Any) -> None:
    old, _ = superseded(session, supersedes=odd)
    assert session.query("MySQL").ids == [old]
    assert session.query("MySQL")[0].superseded_by is None


def test_turns_and_artifacts_can_be_superseded(session: SessionMemory) -> None:
    session.add_turn("user", "My desk is in room four")
    session.add_artifact("plan.md", "Desks: all on the second floor", supersedes="TURN-0001")
    assert session.query("room four").ids == ["ART-0001", "TURN-0001"]


def test_the_end_of_a_chain_succeeds_all_its_members(session: SessionMemory) -> None:
    session.add_decision("MySQL stores the orders", created=OLD)
    session.add_decision("We go with Postgres", created=NEW, supersedes="DEC-0001")
    session.add_decision("CockroachDB it is", created=LATER, supersedes="DEC-0002")
    hits = session.query("MySQL")
    assert hits.ids == ["DEC-0003", "DEC-0001"]
    assert hits[1].superseded_by == "s/DEC-0003"
    assert session.query("Postgres").ids == ["DEC-0003", "DEC-0002"]


def test_in_a_circle_the_newest_memory_holds(session: SessionMemory) -> None:
    session.add_decision("MySQL stores the orders", created=OLD, supersedes="DEC-0002")
    session.add_decision("Postgres stores the orders", created=NEW, supersedes="DEC-0001")
    hits = session.query("orders")
    assert hits.ids == ["DEC-0002", "DEC-0001"]
    assert [hit.superseded_by for hit in hits] == [None, "s/DEC-0002"]
    session.add_decision("SQLite", created=OLD, supersedes="DEC-0003")  # itself
    assert session.query("SQLite")[0].superseded_by is None


def test_a_memory_that_many_claim_to_supersede_brings_the_newest_three(session: SessionMemory) -> None:
    session.add_decision("MySQL stores the orders", created=OLD)
    session.add_many([("learning", {"learning": f"note {n}", "supersedes": "DEC-0001"}) for n in range(50)])
    assert len(session.query("MySQL")) == 4


def test_a_deleted_successor_does_not_hide_the_old_memory(session: SessionMemory) -> None:
    old, new = superseded(session, supersedes="DEC-0001")
    session.delete(new)
    (hit,) = session.query("MySQL")
    assert (hit.id, hit.superseded_by) == (old, None)
    assert "MySQL" in session.memory.context(task="MySQL orders", session="s").text
    session.restore(new)
    assert session.query("MySQL").ids == [new, old]


def test_a_successor_must_meet_the_filters_of_the_query(memory: Memory, session: SessionMemory) -> None:
    session.add_decision("MySQL stores the orders", created=OLD, tags=["db"], topic="storage")
    session.add_learning("We go with Postgres", created=NEW, supersedes="DEC-0001")
    assert refs(memory.query("MySQL", types="decision")) == ["s/DEC-0001"]
    assert memory.query("MySQL", types="decision")[0].superseded_by == "s/LEARN-0001"
    assert refs(memory.query("MySQL", tags="db")) == ["s/DEC-0001"]
    assert refs(memory.query("MySQL", topic="storage")) == ["s/DEC-0001"]
    assert refs(memory.query("MySQL", until="2026-01-01")) == ["s/DEC-0001"]
    assert refs(memory.query("MySQL", where={"type": "decision"})) == ["s/DEC-0001"]


def test_a_successor_in_another_session_counts_where_that_session_is_searched(memory: Memory) -> None:
    one, two = memory.create_session("one"), memory.create_session("two")
    one.add_decision("MySQL stores the orders", created=OLD)
    two.add_decision("We go with Postgres", created=NEW, supersedes="one/DEC-0001")
    assert refs(memory.query("MySQL")) == ["two/DEC-0001", "one/DEC-0001"]
    (alone,) = one.query("MySQL")
    assert alone.superseded_by is None


def test_pages_of_a_query_with_successors_neither_overlap_nor_leave_anything_out(session: SessionMemory) -> None:
    for number in range(30):
        session.add_decision(f"MySQL stores table {number}", created=OLD)
        session.add_decision(f"Choice {number}", created=NEW, supersedes=f"DEC-{2 * number + 1:04d}")
    everything = session.query("MySQL table", limit=100).ids
    assert len(everything) == len(set(everything)) == 60
    for size in (1, 7, 20):
        pages = [session.query("MySQL table", limit=size, offset=start).ids for start in range(0, 60, size)]
        assert [id for page in pages for id in page] == everything
    assert session.query("MySQL table", limit=1).more


def test_a_hidden_successor_neither_shows_nor_replaces(session: SessionMemory) -> None:
    session.add_decision("MySQL stores the orders", created=OLD)
    session.add_decision("We go with Postgres", created=NEW, author="spy", visibility="private", supersedes="DEC-0001")
    other, spy = session.agent("other"), session.agent("spy")
    (hit,) = other.query("MySQL")
    assert (hit.id, hit.superseded_by) == ("DEC-0001", None)
    assert "DEC-0002" not in repr([each.to_dict() for each in other.query("MySQL")])
    assert spy.query("MySQL").ids == ["DEC-0002", "DEC-0001"]


def test_an_agent_cannot_replace_a_memory_that_it_may_not_see(session: SessionMemory) -> None:
    session.add_decision("MySQL stores the orders", author="ada", visibility="private", created=OLD)
    session.add_decision("We go with Postgres", author="eve", created=NEW, supersedes="DEC-0001")
    (hit,) = session.agent("ada").query("MySQL")
    assert hit.superseded_by is None


def test_settled_memories_rank_below_open_ones_of_equal_match(session: SessionMemory) -> None:
    for browser in ("Safari", "Chrome"):
        session.add_finding(f"Login fails on {browser}", severity="high", created=OLD)
    first, second = session.query("login fails").ids
    session.resolve(first, "fixed")
    hits = session.query("login fails")
    assert hits.ids == [second, first]
    assert hits[1].explain["settled"] < 1
    session.add_decision("Bill in euros", status="reversed", created=NEW)
    session.add_decision("Bill in dollars", created=OLD)
    assert session.query("bill").ids == ["DEC-0002", "DEC-0001"]


# -- validity


def test_expired_and_not_yet_valid_memories_are_left_out_and_counted(session: SessionMemory) -> None:
    session.add_decision("Use gate 3", valid_until="2026-05-31")
    session.add_decision("Use gate 4", valid_until="2026-06-01")
    session.add_decision("Use gate 5", valid_from="2026-06-02")
    session.add_decision("Use gate 6")
    hits = session.query("gate")
    assert (sorted(hits.ids), hits.not_valid) == (["DEC-0002", "DEC-0004"], 2)
    everything = session.query("gate", include_expired=True)
    assert (len(everything), everything.not_valid) == (4, 0)
    assert sorted(session.query("gate", at="2026-05-31T23:59:59Z").ids) == ["DEC-0001", "DEC-0002", "DEC-0004"]
    assert sorted(session.query("gate", at="2026-06-02").ids) == ["DEC-0003", "DEC-0004"]
    newest = session.query(types="decision", count_by="type")
    assert (len(newest), newest.not_valid, newest.counts) == (2, 2, {"type": {"decision": 2}})
    assert session.query(types="finding").not_valid == 0
    assert session.query("nothing like it").not_valid == 0
    assert session.get("DEC-0001").valid_until == "2026-05-31"
    assert len(session.records()) == 4


def test_the_best_matches_that_hold_are_found_behind_any_number_of_expired_ones(session: SessionMemory) -> None:
    session.add_many([("learning", {"learning": f"gate rule {n}", "valid_until": "2020-01-01"}) for n in range(450)])
    session.add_learning("a long note in which somewhere far behind everything else a gate is mentioned")
    hits = session.query("gate rule")
    assert hits.ids == ["LEARN-0451"]
    assert hits.not_valid == 450


@pytest.mark.parametrize("value", ["tomorrow", "2026-13-01", "", 5, True, ["2026-01-01"], {"day": 1}])
@pytest.mark.parametrize("field", ["valid_from", "valid_until"])
def test_a_bound_that_is_no_time_is_rejected_and_changes_nothing(
    session: SessionMemory, field: str, value: Any
) -> None:
    session.add_decision("x")
    with pytest.raises(InvalidRecord) as error:
        session.add("decision", {"decision": "y", field: value})
    assert error.value.field == field
    with pytest.raises(InvalidRecord):
        session.update("DEC-0001", **{field: value})
    assert len(session.records()) == 1
    assert session.get("DEC-0001").revision == 1


def test_a_memory_that_would_never_hold_is_rejected(session: SessionMemory) -> None:
    with pytest.raises(InvalidRecord, match="valid_until"):
        session.add_decision("x", valid_from="2026-02-01", valid_until="2026-01-31")
    session.add_decision("x", valid_from="2026-02-01", valid_until="2026-02-01")  # one day
    with pytest.raises(InvalidRecord, match="valid_until"):
        session.update("DEC-0001", valid_until="2026-01-31")
    session.update("DEC-0001", valid_from=None, valid_until="2026-01-31")
    assert session.get("DEC-0001").valid_from is None


def test_a_new_value_of_a_preference_does_not_inherit_the_time_of_the_old_one(session: SessionMemory) -> None:
    session.add_preference("editor", "vim", valid_until="2026-01-31")
    session.add_preference("editor", "emacs")
    assert session.get("PREF-0001").valid_until is None
    assert session.query("editor").ids == ["PREF-0001"]


def test_bounds_are_stored_in_one_form_and_can_be_filtered(session: SessionMemory) -> None:
    session.add_decision("x", valid_until="20260801", valid_from="2026-01-01T01:00:00+01:00")
    record = session.get("DEC-0001")
    assert (record.valid_until, record.valid_from) == ("2026-08-01", "2026-01-01T00:00:00Z")
    assert session.query(where={"valid_until": {"less": "2026-09-01"}}).ids == ["DEC-0001"]
    assert session.query(where={"valid_until": {"greater": "2026-09-01"}}).ids == []


def test_deletion_by_criteria_reaches_memories_that_do_not_hold(session: SessionMemory) -> None:
    session.add_decision("The key of Ada", valid_until="2020-01-01")
    session.add_decision("The door of Ada", valid_from="2030-01-01")
    assert len(session.delete(text="Ada").ids) == 2
    assert len(session.restore(text="Ada").ids) == 2


def test_relations_and_history_reach_memories_that_do_not_hold(session: SessionMemory) -> None:
    session.add_decision("old", valid_until="2020-01-01")
    session.add_decision("new", supersedes="DEC-0001")
    assert [each.id for each in session.find_related("DEC-0002")] == ["DEC-0001"]
    assert [each.id for each in session.find_related("DEC-0002", types="decision")] == ["DEC-0001"]
    assert len(session.history("DEC-0001")) == 1


def test_an_expired_successor_still_replaces_and_a_later_one_not_yet(session: SessionMemory) -> None:
    old, new = superseded(session, supersedes="DEC-0001", valid_until="2026-05-01")
    hits = session.query("MySQL")
    assert (hits.ids, hits[0].superseded_by) == ([old], f"s/{new}")
    assert "MySQL" not in session.memory.context(task="MySQL orders", session="s").text
    session.update(new, valid_until=None, valid_from="2026-07-01")
    assert session.query("MySQL")[0].superseded_by is None
    assert session.query("MySQL", at="2026-07-02").ids == [new, old]


def test_a_hidden_memory_is_not_counted_as_left_out(session: SessionMemory) -> None:
    session.add_decision("Gate 3", author="spy", visibility="private", valid_until="2020-01-01")
    assert session.agent("other").query("gate").not_valid == 0
    assert session.agent("other").query().not_valid == 0
    assert session.agent("spy").query("gate").not_valid == 1


def test_a_bound_typed_by_hand_that_cannot_be_read_bounds_nothing(tmp_path: Path) -> None:
    with smp_memory.open(str(tmp_path / "s"), layout="jsonl", config={"durability": "os"}) as memory:
        memory.create_session("s").add_decision("Gate three", valid_until="2030-01-01")
    files = [
        Path(folder) / name for folder, _, names in os.walk(tmp_path) for name in names if name == "decisions.jsonl"
    ]
    assert files
    for file in files:
        file.write_text(file.read_text().replace('"2030-01-01"', '"some day"'))
    with smp_memory.open(str(tmp_path / "s")) as memory:
        assert memory.query("gate").ids == ["DEC-0001"]
        assert "some day" not in memory.context(task="gate").text.split("Gate three")[0]


# -- what reaches a prompt


def test_a_context_has_the_successor_in_place_of_what_it_superseded(memory: Memory, session: SessionMemory) -> None:
    superseded(session, supersedes="DEC-0001")
    session.add_learning("The gate opens at six", valid_until="2026-05-31")
    session.add_learning("The gate opens at seven", valid_until="2026-06-30")
    memory.create_session("other")
    text = memory.context(task="MySQL orders", session="other").text
    assert "Postgres" in text
    assert "MySQL stores" not in text
    text = memory.context(task="when the gate opens", session="other").text
    assert "at six" not in text
    assert "valid until 2026-06-30" in text


def test_a_context_of_one_user_ignores_successors_in_sessions_of_another_user(memory: Memory) -> None:
    memory.create_session("a", user="ann").add_decision("MySQL stores the orders", created=OLD)
    memory.create_session("b", user="bob").add_decision("Secret of Bob", created=NEW, supersedes="a/DEC-0001")
    text = memory.context(task="MySQL orders", session="a").text
    assert "MySQL stores" in text
    assert "Bob" not in text


def test_the_digest_and_the_summary_list_only_what_holds(memory: Memory, session: SessionMemory) -> None:
    superseded(session, supersedes="DEC-0001")
    session.add_decision("Use gate 3", valid_until="2026-05-31")
    for text in (digest_text(memory.scope), str(session.summarize())):
        assert "Postgres" in text
        assert "MySQL" not in text
        assert "gate 3" not in text


def test_a_private_memory_does_not_take_a_shared_one_out_of_the_digest(memory: Memory, session: SessionMemory) -> None:
    superseded(session, supersedes="DEC-0001", author="spy", visibility="private")
    assert "MySQL" in digest_text(memory.scope)


def test_relevant_decisions_of_an_agent_are_those_that_hold(session: SessionMemory) -> None:
    _, new = superseded(session, supersedes="DEC-0001")
    assert [record.id for record in session.agent("ada").relevant_decisions("MySQL")] == [new]


# -- facts that were changed without a word about the old one


def test_the_newer_of_two_facts_comes_first_and_alone_into_a_context(memory: Memory, session: SessionMemory) -> None:
    session.add_decision("Refunds above 500 euros need a second approval", created=OLD)
    session.add_decision("Since the audit refunds above 200 euros need a second approval", created=NEW)
    hits = session.query("refunds above 500 euros")
    assert hits.ids == ["DEC-0002", "DEC-0001"]
    assert hits[1].outdated_by == "s/DEC-0002"
    assert hits[0].relevance >= hits[1].relevance
    assert "500" not in memory.context(task="refunds above 500 euros", session="s").text


def test_facts_about_two_names_both_stay(memory: Memory, session: SessionMemory) -> None:
    session.add_decision("Alice's desk is in room 4", created=OLD)
    session.add_decision("Bob's desk is in room 7 now", created=NEW)
    assert [hit.outdated_by for hit in session.query("desk room")] == [None, None]
    text = memory.context(task="whose desk is in which room", session="s").text
    assert "Alice" in text and "Bob" in text  # noqa: PT018


def test_include_expired_must_be_true_or_false(session: SessionMemory) -> None:
    with pytest.raises(InvalidQuery):
        session.query("x", include_expired="yes")  # type: ignore[arg-type]


def test_expired_memory_that_a_mistyped_word_would_find_is_counted_as_left_out() -> None:
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("s")
        session.add_learning("Use postgres for orders", valid_until="2020-01-20")
        session.add_decision("Nothing else here")
        assert memory.query("postgers").not_valid == memory.query("postgres").not_valid == 1
        assert memory.query("postgers", include_expired=True).ids == ["LEARN-0001"]
