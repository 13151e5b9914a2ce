"""MACP messages in both variants: what they store, and that no input raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smp_memory
from smp_memory.privacy.fence import is_only_recalled
from smp_memory.testing import FrozenClock


@pytest.fixture
def memory() -> smp_memory.Memory:
    return filled()


def filled() -> smp_memory.Memory:
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    session = memory.create_session("s1", user="ada", project="shop", phase="review")
    for number in range(25):
        session.add_turn("user", f"turn {number}")
    session.add_decision("Use OAuth 2.0 for the login", topic="login", author="architect")
    session.add_finding("Passwords are logged", severity="critical", author="veritas")
    session.resolve(session.add_finding("Settled long ago", author="veritas").id, "done")
    session.add_preference("style", "brief")
    session.update_agent_state("architect", {"secret": "zebrafish"})
    session.update_agent_state("veritas", {"step": 1})
    return memory


def native(
    intent: str, content: Any, *, type: str = "REQUEST", source: str = "veritas", target: str = "_context_manager",
    id: str = "m-1", session: str = "s1", **payload: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "header": {"message_id": id, "correlation_id": None, "session_id": session, "version": "1.0"},
        "routing": {"source_agent": source, "target_agent": target},
        "classification": {"type": type, "pattern": "SYNC", "priority": "NORMAL", "ttl_ms": 1000},
        "payload": {"intent": intent, "content": content, **payload},
    }


def other_dialect(kind: str, content: Any, *, source: str = "veritas", id: str = "msg-1") -> dict[str, Any]:
    return {
        "header": {"message_id": id, "conversation_id": "conv-1"},
        "routing": {"source": source, "destination": "architect", "pattern": "direct"},
        "qos": {"priority": 3, "ttl_seconds": 30},
        "payload": {"type": kind, "content": content, "attachments": []},
        "tracing": {"trace_id": "t", "baggage": {"session_id": "s1"}},
    }


def answer(memory: smp_memory.Memory, message: Any) -> list[dict[str, Any]]:
    found = smp_memory.ContextManager(memory).answer(message)
    json.dumps(found)
    return found


def test_request_context_returns_the_shared_context(memory: smp_memory.Memory) -> None:
    (reply,) = answer(memory, native("REQUEST_CONTEXT", {"task": "check the login"}))
    assert reply["classification"]["type"] == "RESPONSE"
    assert reply["header"]["correlation_id"] == "m-1"
    assert reply["routing"] == {"source_agent": "_context_manager", "target_agent": "veritas", "reply_to": "m-1"}
    content = reply["payload"]["content"]
    assert content["project"] == {"name": "shop", "phase": "review"}
    assert [turn["content"] for turn in content["conversation_history"]] == [f"turn {n}" for n in range(5, 25)]
    assert content["conversation_history"][0]["speaker"] == "ada"
    assert content["agent_contexts"] == {"veritas": {"step": 1}}
    assert content["working_memory"]["key_decisions"][0]["made_by"] == "architect"
    assert [finding["finding"] for finding in content["active_findings"]] == ["Passwords are logged"]
    assert content["user_preferences"][0]["value"] == "brief"
    assert is_only_recalled(content["text"])
    assert "zebrafish" not in json.dumps(reply)


def test_context_refs_select_parts(memory: smp_memory.Memory) -> None:
    refs = ["working_memory.key_decisions", "user_preferences"]
    (reply,) = answer(memory, native("REQUEST_CONTEXT", {}, context_refs=refs))
    assert set(reply["payload"]["content"]) == {"session_id", *refs}
    (reply,) = answer(memory, native("REQUEST_CONTEXT", {}, context_refs=["secrets"]))
    assert reply["classification"]["type"] == "ERROR"


def update(path: str, value: Any, operation: str = "append") -> dict[str, Any]:
    return {"path": path, "operation": operation, "value": value}


def test_update_context_stores_the_updates(memory: smp_memory.Memory) -> None:
    updates = [
        update("agent_contexts.veritas.findings", {"finding": "No second factor", "severity": "high"}),
        update("agent_contexts.veritas.progress", 3, "set"),
        update("agent_contexts.veritas.seen", "login.py"),
        update("working_memory.open_questions", {"question": "Who pays?", "raised_by": "veritas", "status": "open"}),
        update("working_memory.key_decisions", {"decision": "Ship it", "made_by": "veritas", "agreed_by": ["ada"]}),
        update("conversation_history", {"speaker": "veritas", "content": "I am done."}),
        update("learnings", "Look twice"),
    ]
    out = answer(memory, json.dumps(native("UPDATE_CONTEXT", {"updates": updates})))
    assert [(each["classification"]["type"], each["payload"]["intent"]) for each in out] == [
        ("RESPONSE", "TASK_COMPLETE"),
        ("EVENT", "SESSION_CONTEXT_UPDATED"),
        ("EVENT", "FINDING_DISCOVERED"),
        ("EVENT", "FINDING_DISCOVERED"),
    ]
    assert out[1]["routing"]["target_agent"] == "*"
    session = memory.session("s1")
    assert {session.get(name).author for name in out[0]["payload"]["content"]["ids"]} == {"veritas"}
    assert session.find("STATE-veritas").state == {"step": 1, "progress": 3, "seen": ["login.py"]}
    assert session.records("turn", last=1)[0].content == "I am done."
    assert session.records("decision")[-1].agreed_by == ["ada"]
    (reply,) = answer(memory, native("REQUEST_CONTEXT", {}))
    assert reply["payload"]["content"]["working_memory"]["open_questions"][0]["question"] == "Who pays?"


def test_repeated_message_writes_nothing_again(memory: smp_memory.Memory) -> None:
    message = native("UPDATE_CONTEXT", {"updates": [update("findings", "No second factor"), update("learnings", "x")]})
    answer(memory, message)
    before = [record.to_dict() for record in memory.session("s1").records()]
    out = answer(memory, message)
    assert out[0]["payload"]["intent"] == "TASK_COMPLETE"
    assert [each for each in out if each["payload"]["intent"] == "FINDING_DISCOVERED"] == []
    assert [record.to_dict() for record in memory.session("s1").records()] == before


def test_events_contain_nothing_about_private_memories(memory: smp_memory.Memory) -> None:
    private = {"finding": "zebrafish one", "visibility": "private"}
    hidden = [update("findings", private), update("agent_contexts.veritas.zebrafish", 1, "set")]
    out = answer(memory, native("UPDATE_CONTEXT", {"updates": hidden}))
    assert [each["payload"]["intent"] for each in out] == ["TASK_COMPLETE"]
    assert len(out[0]["payload"]["content"]["ids"]) == 2
    hidden[0]["value"] = [{**private, "finding": "zebrafish two"}]
    mixed = [*hidden, update("decisions", "Ship it"), update("findings", {"finding": "Shared one"})]
    reply, *events = answer(memory, native("UPDATE_CONTEXT", {"updates": mixed}, id="m-2"))
    assert len(reply["payload"]["content"]["ids"]) == 4
    assert "zebrafish" not in json.dumps(events)
    changed, found = (each["payload"]["content"] for each in events)
    session = memory.session("s1")
    assert [session.get(name).text for name in changed["ids"]] == ["Ship it", "Shared one"]
    assert found["finding"] == "Shared one"


def test_private_finding_is_not_merged_with_a_shared_one(memory: smp_memory.Memory) -> None:
    same = {"finding": "The login page has no rate limit", "severity": "high"}
    for number, visibility in enumerate(("shared", "private", "shared")):
        content = {"updates": [update("findings", {**same, "visibility": visibility})]}
        answer(memory, native("UPDATE_CONTEXT", content, id=f"m-{number}"))
    stored = [record for record in memory.session("s1").records("finding") if "rate limit" in record.finding]
    assert sorted(record.given["visibility"] for record in stored) == ["private", "shared"]


def test_same_message_id_of_another_sender_is_another_message(memory: smp_memory.Memory) -> None:
    """The second agent's update was dropped, and the answer said that it was stored."""
    for agent in ("veritas", "architect"):
        content = {"updates": [update("findings", {"finding": f"found by {agent}", "visibility": "private"})]}
        (reply,) = answer(memory, native("UPDATE_CONTEXT", content, source=agent))
        (name,) = reply["payload"]["content"]["ids"]
        stored = memory.session("s1").get(name)
        assert (stored.author, stored.finding) == (agent, f"found by {agent}")


def test_similar_findings_are_merged(memory: smp_memory.Memory) -> None:
    for number, agent in enumerate(("architect", "developer")):
        found = {"updates": [update("findings", {"finding": "The login page has no rate limit", "severity": "high"})]}
        answer(memory, native("UPDATE_CONTEXT", found, source=agent, id=f"m-{number}"))
    same = [record for record in memory.session("s1").records("finding") if "rate limit" in record.finding]
    assert len(same) == 1
    assert same[0].discoverers == ["architect", "developer"]


def test_response_stores_its_memories(memory: smp_memory.Memory) -> None:
    content = {
        "agent_state": {"step": 2},
        "findings": [{"finding": "Tokens never expire", "severity": "high"}],
        "new_memories": {"decisions": ["Expire tokens"], "learnings": [{"learning": "Read the code first"}]},
    }
    out = answer(memory, native("VERIFICATION_COMPLETE", content, type="RESPONSE", target="architect"))
    assert [each["payload"]["intent"] for each in out] == ["SESSION_CONTEXT_UPDATED", "FINDING_DISCOVERED"]
    session = memory.session("s1")
    assert session.find("STATE-veritas").state == {"step": 2}
    assert session.records("decision")[-1].decision == "Expire tokens"
    assert answer(memory, native("ANALYSIS_COMPLETE", {"text": "nothing new"}, type="RESPONSE")) == []


@pytest.mark.parametrize("target", ["architect", "*"])
def test_other_messages_get_the_shared_context(memory: smp_memory.Memory, target: str) -> None:
    """It goes through the sender's hands, so it holds what all may see."""
    (message,) = answer(memory, native("VERIFY_CONTENT", {"text": "please check the login"}, target=target))
    assert message["payload"]["intent"] == "VERIFY_CONTENT"
    shared = message["payload"]["shared_context"]
    assert len(shared["conversation_history"]) == 20
    assert "Use OAuth 2.0 for the login" in shared["text"]
    assert shared["agent_contexts"] == {}
    assert "zebrafish" not in json.dumps(message)


def test_summarize_context_returns_a_summary(memory: smp_memory.Memory) -> None:
    (reply,) = answer(memory, native("SUMMARIZE_CONTEXT", {}))
    assert "Use OAuth 2.0" in reply["payload"]["content"]["summary"]
    assert "zebrafish" not in json.dumps(reply)


def test_messages_of_variant_b_are_answered_in_variant_b(memory: smp_memory.Memory) -> None:
    (reply,) = answer(memory, other_dialect("context_request", {"task": "login"}))
    assert reply["header"]["message_id"].startswith("msg-")
    assert reply["header"]["conversation_id"] == "conv-1"
    assert reply["routing"]["destination"] == "veritas"
    assert reply["tracing"]["baggage"] == {"session_id": "s1"}
    assert reply["payload"]["content"]["agent_contexts"] == {"veritas": {"step": 1}}
    out = answer(memory, other_dialect("context_update", {"updates": [update("decisions", "Use B")]}))
    assert [each["payload"]["intent"] for each in out] == ["TASK_COMPLETE", "SESSION_CONTEXT_UPDATED"]
    assert memory.session("s1").records("decision")[-1].author == "veritas"
    own = other_dialect("context_request", {})
    own["header"]["conversation_id"] = "s1"
    del own["tracing"]
    assert answer(memory, own)[0]["payload"]["content"]["session_id"] == "s1"


def test_update_of_another_agents_context_is_denied(memory: smp_memory.Memory) -> None:
    message = native("UPDATE_CONTEXT", {"updates": [update("findings", "x"), update("agent_contexts.architect.x", 1)]})
    before = [record.to_dict() for record in memory.session("s1").records()]
    (reply,) = answer(memory, message)
    assert reply["classification"]["type"] == "ERROR"
    assert reply["payload"]["intent"] == "AUTHORIZATION_DENIED"
    assert [record.to_dict() for record in memory.session("s1").records()] == before


BAD = [
    None, 3, [], {}, "", "{", b"\xff", "[]", '"x"', {"header": 1}, {"message": 3}, "NaN", "[" * 100_000,
    {"header": {"message_id": "m"}, "routing": {}, "payload": {}},
    native("REQUEST_CONTEXT", {}, source="../../etc"),
    native("REQUEST_CONTEXT", {}, session="nowhere"),
    native("REQUEST_CONTEXT", {}, session="../s1"),
    native("REQUEST_CONTEXT", {}, type="SHOUT"),
    native("UPDATE_CONTEXT", {}),
    native("UPDATE_CONTEXT", {"updates": []}),
    native("UPDATE_CONTEXT", {"updates": [1]}),
    native("UPDATE_CONTEXT", {"updates": [{"path": "x", "value": 1}]}),
    native("UPDATE_CONTEXT", {"updates": [update("findings", 5)]}),
    native("UPDATE_CONTEXT", {"updates": [update("findings", {"severity": "high"})]}),
    native("UPDATE_CONTEXT", {"updates": [update("findings", "x", "explode")]}),
    native("UPDATE_CONTEXT", {"updates": [update("conversation_history", {"speaker": "user"})]}),
    native("UPDATE_CONTEXT", {"updates": [update("decisions", {"decision": "x" * (2 << 20)})]}),
    native("UPDATE_CONTEXT", {"updates": [update("preferences", {"visibility": "private", "key": "a"})]}),
    '{"header": {"message_id": "\\ud800"}, "routing": {}, "payload": {}}',
    {"header": {"message_id": object()}},
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(BAD)))
def test_a_bad_message_is_answered_by_an_error(memory: smp_memory.Memory, number: int) -> None:
    before = [record.to_dict() for record in memory.session("s1").records()]
    (reply,) = answer(memory, BAD[number])
    assert reply["classification"]["type"] == "ERROR"
    assert reply["payload"]["intent"] in ("PROCESSING_FAILED", "AUTHORIZATION_DENIED")
    assert reply["payload"]["content"]["reason"]
    assert reply["payload"]["content"]["error"]["code"].startswith("E_")
    assert [record.to_dict() for record in memory.session("s1").records()] == before


def test_errors_and_acknowledgements_are_not_answered(memory: smp_memory.Memory) -> None:
    for type in ("ERROR", "ACK"):
        assert answer(memory, native("MESSAGE_RECEIVED", {}, type=type)) == []
    assert answer(memory, native("PROVIDE_INPUT", {}, type="RESPONSE", source="_context_manager")) == []


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
WORDS = st.sampled_from(
    ["REQUEST_CONTEXT", "UPDATE_CONTEXT", "SUMMARIZE_CONTEXT", "VERIFY_CONTENT", "s1", "veritas", "REQUEST", "RESPONSE",
     "findings", "conversation_history", "agent_contexts.veritas", "working_memory.key_decisions", "set", "append", "*"]
)  # fmt: skip
VALUES = WORDS | ANYTHING
UPDATES = st.fixed_dictionaries({"path": VALUES, "value": ANYTHING}, optional={"operation": VALUES})
CONTENT = VALUES | st.fixed_dictionaries(
    {},
    optional={
        "updates": st.lists(UPDATES, max_size=3) | ANYTHING,
        "task": VALUES, "topic": VALUES, "turns": VALUES, "max_tokens": VALUES,
        "findings": ANYTHING, "agent_state": ANYTHING, "new_memories": ANYTHING,
    },
)  # fmt: skip
MESSAGES = ANYTHING | st.fixed_dictionaries(
    {
        "header": st.fixed_dictionaries(
            {"message_id": st.just("m") | VALUES, "session_id": st.just("s1") | VALUES},
            optional={"conversation_id": VALUES},
        ),
        "routing": st.fixed_dictionaries(
            {"source_agent": st.just("veritas") | VALUES}, optional={"source": VALUES, "target_agent": VALUES}
        ),
        "payload": st.fixed_dictionaries({"intent": VALUES, "content": CONTENT}, optional={"context_refs": VALUES}),
    },
    optional={"classification": st.fixed_dictionaries({"type": VALUES}) | VALUES, "tracing": VALUES},
)
SHARED = filled()


@settings(max_examples=150)
@given(MESSAGES)
def test_no_input_raises(message: Any) -> None:
    for out in answer(SHARED, message):
        assert "zebrafish" not in json.dumps(out)
        assert {"header", "routing", "payload"} <= set(out)
