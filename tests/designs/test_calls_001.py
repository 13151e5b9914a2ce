"""The calls of design 001, with values of our own."""

from __future__ import annotations

import pytest

import smp_memory
from smp_memory.errors import InvalidRecord, LockTimeout, SizeLimitExceeded, SMPError


@pytest.fixture
def memory() -> smp_memory.Memory:
    return smp_memory.open(":memory:")


def test_create_session_takes_user_id_agent_ids_and_metadata(memory: smp_memory.Memory) -> None:
    asked = {
        "user_id": "u-1",
        "agent_ids": ["analyst", "architect"],
        "metadata": {"project_name": "ledger", "session_type": "audit", "tags": ["books"]},
    }
    for session in (memory.create_session(asked), memory.create_session(**asked)):
        info = session.info
        assert (info.user, info.agents, info.project, info.tags) == (
            "u-1",
            ["analyst", "architect"],
            "ledger",
            ["books"],
        )
        assert info.context == {"session_type": "audit"}


def test_create_session_refuses_two_different_users(memory: smp_memory.Memory) -> None:
    with pytest.raises(InvalidRecord, match="user_id: given twice"):
        memory.create_session(user="ada", user_id="bob")
    assert memory.sessions() == []


def test_topic_of_a_message_is_in_its_context(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s")
    turn = session.add(
        "conversation",
        {
            "agent_id": "architect",
            "role": "assistant",
            "content": "A queue decouples them.",
            "context": {"conversation_id": "c-1", "parent_message_id": "m-0", "topic": "messaging"},
            "metadata": {"tokens": 5, "references": ["DEC-0001"]},
        },
    )
    assert (turn.topic, turn.references) == ("messaging", ["DEC-0001"])
    assert turn.context["parent_message_id"] == "m-0"
    assert session.query(topic="messaging").ids == [turn.id]
    assert [topic.name for topic in session.topics()] == ["messaging"]


def test_references_as_an_object_of_lists_are_references(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s")
    session.add_turn("user", "Which queue?")
    session.add_finding("No retry")
    decision = session.add(
        "decision",
        {"decision": "Use NATS", "references": {"conversations": ["TURN-0001"], "findings": ["FIND-0001"]}},
    )
    assert decision.references == ["TURN-0001", "FIND-0001"]
    assert session.query(references="FIND-0001").ids == [decision.id]
    assert session.validate().ok


@pytest.mark.parametrize("as_object", [True, False])
def test_delete_takes_ids_and_criteria(memory: smp_memory.Memory, as_object: bool) -> None:
    session = memory.create_session("s")
    for text in ("one", "two", "three"):
        session.add_turn("user", text)
    session.add_turn("user", "four", tags=["sensitive"])
    session.add_finding("five", tags=["sensitive"])

    def delete(**criteria: object) -> list[str]:
        found: list[str] = (session.delete(criteria) if as_object else session.delete(**criteria)).ids
        return found

    assert delete(ids=["TURN-0001", "TURN-0003"]) == ["TURN-0001", "TURN-0003"]
    assert delete(types=["conversation"], tags=["sensitive"]) == ["TURN-0004"]
    assert [record.id for record in session.records()] == ["TURN-0002", "FIND-0001"]


def test_restore_and_erase_take_one_object_too(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s")
    session.add_turn("user", "one")
    session.delete({"ids": ["TURN-0001"]})
    assert session.restore({"ids": ["TURN-0001"]}).ids == ["TURN-0001"]
    assert session.erase({"ids": ["TURN-0001"]}).ids == ["s/TURN-0001"]
    assert session.find("TURN-0001") is None


def test_query_of_the_design_is_understood(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s", created="2026-01-01T00:00:00Z")
    session.add_decision("Use NATS for messaging", tags=["queue"], author="architect", created="2026-02-03T10:00:00Z")
    session.add_finding("The queue drops messages", tags=["queue"], author="analyst", created="2026-02-04T10:00:00Z")
    found = session.query(
        {
            "text": "messages messaging",
            "types": ["decisions", "findings"],
            "time_range": {"start": "2026-02-03T00:00:00Z", "end": "2026-02-03T23:59:59Z"},
            "tags": ["queue", "other"],
            "agents": ["architect", "analyst"],
            "min_relevance": 0,
            "limit": 10,
            "sort": "relevance_desc",
        }
    )
    assert found.ids == ["DEC-0001"]
    for sort, ids in (("time_asc", ["DEC-0001", "FIND-0001"]), ("time_desc", ["FIND-0001", "DEC-0001"])):
        assert session.query({"types": ["decisions", "findings"], "sort": sort}).ids == ids


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_content_of_one_mebibyte_exactly_is_stored(layout: str) -> None:
    session = smp_memory.open(":memory:", layout=layout).create_session("s", user="ada")
    text = "x" * (1024 * 1024)
    assert session.add("conversation", {"role": "user", "content": text}).content == text
    with pytest.raises(SizeLimitExceeded):
        session.add("conversation", {"role": "user", "content": text + "x"})
    with pytest.raises(SizeLimitExceeded):
        session.add_decision("y", rationale=text, tags=["z" * 60])


def test_every_error_says_whether_the_call_can_be_repeated() -> None:
    assert SMPError("x").recoverable is False
    assert LockTimeout("x").recoverable is True
    assert SizeLimitExceeded("x").recoverable is False


def test_the_adding_calls_take_an_object_with_all_fields(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s")
    turn = session.add_turn({"agent_id": "architect", "role": "assistant", "content": "Use a mole"})
    assert (turn.role, turn.content, turn.author) == ("assistant", "Use a mole", "architect")
    decision = session.add_decision({"made_by": "architect", "decision": "Dredge", "impact": "high", "tags": ["basin"]})
    assert (decision.decision, decision.author, decision.tags) == ("Dredge", "architect", ["basin"])
    finding = session.add_finding({"discovered_by": "analyst", "description": "Cracked", "severity": "high"})
    assert (finding.finding, finding.author, finding.severity) == ("Cracked", "analyst", "high")
    preference = session.add_preference({"key": "style", "value": "short", "category": "talk", "confidence": 0.9})
    assert (preference.key, preference.value, preference["category"]) == ("style", "short", "talk")
    assert session.add_preference({"key": "style", "value": "long"}).id == preference.id
    assert session.add_artifact({"name": "plan.md", "content": "# Plan"}).name == "plan.md"
    assert session.add_learning({"learning": "Tides matter"}).learning == "Tides matter"


def test_the_adding_calls_of_an_agent_and_of_a_transaction_take_an_object(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s")
    assert session.agent("planner").add_decision({"decision": "Dredge", "rationale": "depth"}).author == "planner"
    with session.transaction() as tx:
        tx.add_preference({"key": "style", "value": "short"})
        tx.add_finding({"finding": "Cracked", "severity": "low"}, tags=["pier"])
    [preference], [finding] = session.records("preference"), session.records("finding")
    assert (preference.key, preference.value) == ("style", "short")
    assert (finding.severity, finding.tags) == ("low", ["pier"])
