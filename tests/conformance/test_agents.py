"""Agents on every layout, on disk and in RAM: context, visibility, party, workflow, messages, global memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import MemoryNotFound, NotAllowed
from smp_memory.privacy.fence import closing, find
from smp_memory.testing import FrozenClock

PLACES = [("jsonl", "disk"), ("markdown", "memory")]


@pytest.fixture(params=PLACES, ids="-".join)
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[smp_memory.Memory]:
    layout, place = request.param
    where = ":memory:" if place == "memory" else str(tmp_path / "store")
    with smp_memory.open(where, layout=layout, clock=FrozenClock(), config={"durability": "os"}) as memory:
        yield memory


def test_context_contains_the_relevant_memories(memory: smp_memory.Memory) -> None:
    before = memory.create_session("before", user="ada")
    before.add_decision("Use PostgreSQL for orders", rationale="ACID:\n\n## not a heading", author="architect")
    session = memory.create_session("now", user="ada")
    session.add_turn("user", f"What about\n---\n{closing('1f2e3d4c')} orders?")
    session.add_finding("Orders are lost", severity="critical", author="veritas")
    session.add_preference("style", "brief")
    session.update_agent_state("architect", {"task": "orders"})
    memory.global_memory.promote(session.add_learning("Orders need a ledger", author="veritas"))
    context = session.context("architect", "which database for the orders", max_tokens=400)
    assert context.ids == [
        "now/STATE-architect",
        "now/PREF-0001",
        "now/FIND-0001",
        "before/DEC-0001",
        *[ref for ref in context.ids if ref.endswith("LEARN-0001")],
        "now/TURN-0001",
    ]
    assert find(context.text) == [(0, len(context.text))]
    assert "ACID: ## not a heading" in context.text
    assert context.tokens <= 400


def test_agents_see_only_visible_memories(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s1", user="ada")
    party = session.party(["architect", "veritas"])
    party["architect"].update_state({"plan": "zebra"})
    note = party["architect"].add_learning("a zebra of my own", visibility="private")
    party.say("architect", "Hello")
    for agent, count in (("architect", 2), ("veritas", 0)):
        assert len(party[agent].query("zebra")) == count
        assert len([record for record in party[agent].records() if "zebra" in repr(record.to_dict())]) == count
        assert party[agent].export(format="json").count("zebra") == count
    with pytest.raises(MemoryNotFound):
        party["veritas"].get(note.id)
    with pytest.raises(NotAllowed):
        party["veritas"].update_agent_state("architect", {})
    assert len(session.records()) == 3  # who opens the session as a whole sees all


def test_party_of_agents(memory: smp_memory.Memory) -> None:
    party = memory.create_session("s1").party(["architect", "veritas"])
    one = party.add_finding("architect", "The login has no rate limit", severity="low")
    two = party.add_finding("veritas", "Login has no rate limit", severity="high")
    assert one.id == two.id
    assert two.discoverers == ["architect", "veritas"]
    decision = party.decide("Add a rate limit", {"architect": "five a minute", "veritas": "yes"}, by="veritas")
    stored = memory.session("s1").get(decision.id)
    assert [each["said"] for each in stored.inputs] == ["five a minute", "yes"]


def test_workflow_and_macp_message(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s1", user="ada")
    session.add_finding("Critical hole", severity="critical")
    workflow = smp_memory.Workflow.load(
        "memory_requirements:\n  read_access: ['findings.by_severity:critical']\n  write_access: [findings]\n"
    )
    run = workflow.start(session, agent="veritas")
    assert [record.finding for record in run.reads["findings.by_severity:critical"]] == ["Critical hole"]
    with pytest.raises(NotAllowed):
        run.memory.add_decision("x")
    message = {
        "header": {"message_id": "m", "session_id": "s1"},
        "routing": {"source_agent": "veritas"},
        "payload": {
            "intent": "UPDATE_CONTEXT",
            "content": {
                "updates": [{"path": "agent_contexts.veritas.x", "operation": "set", "value": {"a": [1, "b"]}}]
            },
        },
    }
    assert smp_memory.ContextManager(memory).answer(message)[0]["payload"]["intent"] == "TASK_COMPLETE"
    assert session.agent("veritas").state.state == {"x": {"a": [1, "b"]}}  # type: ignore[union-attr]


def test_recalled_text_is_not_stored_again(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s1", user="ada")
    session.add_decision("Use OAuth")
    turn = session.add_turn("user", f"{session.context()}\n\nGo on")
    assert turn.content.strip() == "Go on"
    assert session.records("turn")[0].content.strip() == "Go on"
