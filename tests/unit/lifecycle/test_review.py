"""Proposals of turns are listed until somebody writes them down or drops them; they are stored nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import InvalidRecord, MemoryNotFound
from smp_memory.files.layouts import NAMES

REDIS = "Let's go with Redis for the cache of the shop."
LOCK = "The root cause was a stale lock file of the old process."


@pytest.fixture(params=NAMES)
def memory(tmp_path: Path, request: pytest.FixtureRequest) -> smp_memory.Memory:
    return smp_memory.open(tmp_path / "store", config={"layout": request.param})


@pytest.fixture
def session(memory: smp_memory.Memory) -> smp_memory.SessionMemory:
    session = memory.create_session("review")
    session.add_turn("user", f"{REDIS} Please never push to main.")
    session.add_turn("assistant", LOCK)
    return session


def listed(source: smp_memory.Memory | smp_memory.SessionMemory) -> list[tuple[str, str]]:
    return [(each.turn, each.type) for each in source.proposals()]


ALL = [("TURN-0002", "finding"), ("TURN-0001", "decision"), ("TURN-0001", "preference")]


def test_proposals_name_turn_type_and_text(memory: smp_memory.Memory, session: smp_memory.SessionMemory) -> None:
    assert listed(session) == listed(memory) == ALL
    first = memory.proposals(1)[0]
    assert (first.ref, first.text, first.created) == ("review/TURN-0002", LOCK, session.get("TURN-0002").created)


def test_listing_proposals_writes_nothing(session: smp_memory.SessionMemory) -> None:
    session.proposals()
    assert [each.id for each in session.records()] == ["TURN-0001", "TURN-0002"]


def test_kept_proposal_is_a_memory_with_the_turn_as_its_source(session: smp_memory.SessionMemory) -> None:
    kept = session.keep_proposal("TURN-0002", by="ada")
    assert (kept.type, kept.text, kept.turn_ref) == ("finding", LOCK, "TURN-0002")
    assert (kept.confidence, kept.author) == ("inferred", "ada")
    assert session.keep_proposal("TURN-0002").id == kept.id
    assert listed(session) == ALL[1:]


def test_own_words_are_not_inferred(session: smp_memory.SessionMemory) -> None:
    kept = session.keep_proposal(session.proposals()[0], "learning", "A killed process leaves its lock file.")
    assert (kept.type, kept.text, kept.confidence) == ("learning", "A killed process leaves its lock file.", None)
    assert listed(session) == ALL[1:]


def test_type_says_which_of_several_proposals_is_kept(session: smp_memory.SessionMemory) -> None:
    with pytest.raises(InvalidRecord, match="type: review/TURN-0001 proposes decision, preference"):
        session.keep_proposal("TURN-0001")
    assert session.keep_proposal("TURN-0001", "decision").text == REDIS
    assert listed(session) == [ALL[0], ALL[2]]


def test_turn_that_proposes_nothing_needs_type_and_text(session: smp_memory.SessionMemory) -> None:
    session.add_turn("user", "What time is it?")
    with pytest.raises(InvalidRecord, match="proposes nothing"):
        session.keep_proposal("TURN-0003")
    assert session.keep_proposal("TURN-0003", "finding", "Nobody knows the time.").turn_ref == "TURN-0003"
    with pytest.raises(InvalidRecord, match="cannot be kept"):
        session.keep_proposal("TURN-0002", "artifact")
    with pytest.raises(InvalidRecord, match="is a finding, not a turn"):
        session.keep_proposal("FIND-0001")
    with pytest.raises(MemoryNotFound):
        session.keep_proposal("TURN-0009")


def test_memory_of_about_the_same_text_closes_a_proposal(session: smp_memory.SessionMemory) -> None:
    session.add_decision("Redis is the cache of the shop")
    assert listed(session) == [ALL[0], ALL[2]]


def test_memory_about_something_else_closes_none(session: smp_memory.SessionMemory) -> None:
    session.add_decision("The shop opens at nine")
    assert listed(session) == ALL


def test_dropped_proposals_stay_away(memory: smp_memory.Memory, session: smp_memory.SessionMemory) -> None:
    session.drop_proposals("TURN-0001")
    memory.close()
    with smp_memory.open(memory.root) as again:
        assert listed(again) == ALL[:1]
        assert again.session("review").keep_proposal("TURN-0001", "decision").text == REDIS


def test_deleted_turn_proposes_nothing(session: smp_memory.SessionMemory) -> None:
    session.delete("TURN-0001")
    assert listed(session) == ALL[:1]


def test_proposal_stays_closed_when_the_memory_is_deleted(session: smp_memory.SessionMemory) -> None:
    session.delete(session.keep_proposal("TURN-0002").id)
    assert listed(session) == ALL[1:]


def test_single_proposal_of_a_turn_is_dropped_and_reopened(session: smp_memory.SessionMemory) -> None:
    decision = session.proposals()[1]
    session.drop_proposals(decision)
    assert listed(session) == [ALL[0], ALL[2]]
    session.reopen_proposal(decision)
    assert listed(session) == ALL


def test_proposal_says_itself_which_one_is_kept(session: smp_memory.SessionMemory) -> None:
    assert session.keep_proposal(session.proposals()[2]).type == "preference"
    assert listed(session) == ALL[:2]


def test_proposal_kept_as_another_type_and_in_other_words_is_closed(session: smp_memory.SessionMemory) -> None:
    preference = session.proposals()[2]
    kept = session.keep_proposal(preference, "learning", "Only the pipeline writes to the main branch")
    assert (kept.type, kept.turn_ref) == ("learning", "TURN-0001")
    assert listed(session) == ALL[:2]
    session.reopen_proposal(preference, kept, by="ada")
    assert listed(session) == ALL
    assert [each.id for each in session.records(include_deleted=True) if each.deleted] == [kept.id]


def test_undone_keeping_can_be_repeated(session: smp_memory.SessionMemory) -> None:
    finding = session.proposals()[0]
    session.reopen_proposal(finding, session.keep_proposal(finding))
    assert listed(session) == ALL
    assert session.keep_proposal(finding).text == LOCK
    assert listed(session) == ALL[1:]


def test_setting_of_a_session_switches_its_proposals_off(
    memory: smp_memory.Memory, session: smp_memory.SessionMemory
) -> None:
    imported = memory.create_session("imported", config={"proposals.enabled": False})
    imported.add_turn("user", REDIS)
    assert imported.proposals() == []
    assert listed(memory) == ALL
    memory.set_config("proposals.enabled", False)
    with smp_memory.open(memory.root) as again:
        assert again.proposals() == []


def test_sessions_are_read_as_they_are_needed(memory: smp_memory.Memory, session: smp_memory.SessionMemory) -> None:
    memory.create_session("later").add_turn("user", "We decided to use Postgres for the orders.")
    by_session = memory.proposals_by_session()
    assert next(by_session)[0].id == "later"
    session.drop_proposals("TURN-0001")  # seen, because the session was not read yet
    assert [each.type for each in next(by_session)[1]] == ["finding"]
