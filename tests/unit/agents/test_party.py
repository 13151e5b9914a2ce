"""Agents that share a session: similar findings are merged, decisions keep every agent's input."""

from __future__ import annotations

import threading

import pytest

import smp_memory
from smp_memory.errors import InvalidRecord, MemoryNotFound
from smp_memory.testing import FrozenClock

TEAM = ["architect", "veritas", "developer"]


@pytest.fixture
def party() -> smp_memory.Party:
    memory = smp_memory.open(":memory:", clock=FrozenClock())
    return memory.create_session("s1", user="ada", agents=["architect"]).party(TEAM)


def test_party_lists_its_agents_and_adds_them_to_the_session(party: smp_memory.Party) -> None:
    assert party.agents == TEAM
    assert party.session.info.agents == TEAM
    assert [member.agent for member in party] == TEAM
    with pytest.raises(InvalidRecord, match="'stranger' is not in this party"):
        party["stranger"]
    with pytest.raises(InvalidRecord):
        party.session.party([])
    with pytest.raises(InvalidRecord):
        party.session.party(["no such name!"])


def test_turns_are_shared_and_states_are_private(party: smp_memory.Party) -> None:
    party.say("architect", "I would take PostgreSQL.")
    party["architect"].update_state({"doubt": "perhaps SQLite"})
    assert [turn.content for turn in party["veritas"].conversation_context()] == ["I would take PostgreSQL."]
    assert party["veritas"].records("agent_state") == []
    assert "SQLite" not in party.context("veritas").text
    assert "SQLite" in party.context("architect").text


def test_similar_findings_are_merged_with_all_discoverers(party: smp_memory.Party) -> None:
    first = party.add_finding("veritas", "The login page has no rate limit at all", severity="medium", tags=["login"])
    second = party.add_finding("developer", "Login page has no rate limit", severity="critical", tags=["security"])
    third = party.add_finding("architect", "The login page has no rate limit", severity="low")
    assert first.id == second.id == third.id
    (kept,) = party.session.records("finding")
    assert sorted(kept.discoverers) == sorted(TEAM)
    assert kept.severity == "critical"
    assert kept.tags == ["login", "security"]
    assert {trace["author"]: trace["text"] for trace in kept.merged_from} == {
        "developer": "Login page has no rate limit",
        "architect": "The login page has no rate limit",
    }
    assert len(party.session.deleted()) == 2  # and nothing is lost: they can be restored


def test_different_findings_are_not_merged(party: smp_memory.Party) -> None:
    party.add_finding("veritas", "Port 8080 is open", severity="high")
    party.add_finding("developer", "Port 9090 is open", severity="high")
    party.add_finding("developer", "Port 8080 is not open", severity="high")
    party.add_finding("architect", "Port 8080 is open", severity="high", location="staging")
    assert len(party.session.records("finding")) == 4


def test_a_private_finding_is_not_merged(party: smp_memory.Party) -> None:
    party["veritas"].add_finding("The vault key is weak", visibility="private")
    party.add_finding("developer", "The vault key is weak")
    assert len(party.session.records("finding")) == 2
    assert len(party["developer"].records("finding")) == 1


def test_new_finding_is_not_merged_with_a_settled_one(party: smp_memory.Party) -> None:
    old = party.add_finding("veritas", "The export is slow")
    party.session.resolve(old.id, "faster now")
    assert party.add_finding("developer", "The export is slow").id != old.id


def test_decision_keeps_the_input_of_each_agent(party: smp_memory.Party) -> None:
    decision = party.decide(
        "Use PostgreSQL",
        {"architect": "It is ACID", "veritas": "Fine, if we test backups", "developer": "SQLite is enough"},
        by="architect",
        disagreed=["developer"],
        topic="database",
    )
    assert [(each["agent"], each["said"], each["agrees"]) for each in decision.inputs] == [
        ("architect", "It is ACID", True),
        ("veritas", "Fine, if we test backups", True),
        ("developer", "SQLite is enough", False),
    ]
    assert decision.agreed_by == ["architect", "veritas"]
    assert decision.disagreed_by == ["developer"]
    assert decision.agents_involved == TEAM
    with pytest.raises(InvalidRecord, match="stranger"):
        party.decide("x", {"stranger": "y"}, by="architect")


def test_proposed_decision_is_commented_and_concluded(party: smp_memory.Party) -> None:
    proposed = party.propose("architect", "Use PostgreSQL", "It is ACID")
    assert proposed.status == "proposed"
    party.comment("developer", proposed, "SQLite is enough", agrees=False)
    party.comment("developer", proposed.id, "You are right", agrees=True)
    party.comment("veritas", proposed, "Whatever you like")
    done = party.conclude("veritas", proposed)
    assert [(each["agent"], each["said"]) for each in done.inputs] == [
        ("architect", "It is ACID"),
        ("developer", "SQLite is enough"),
        ("developer", "You are right"),
        ("veritas", "Whatever you like"),
    ]
    assert (done.status, done.concluded_by) == ("active", "veritas")
    assert done.agreed_by == ["developer"]
    assert done.get("disagreed_by") is None
    with pytest.raises(MemoryNotFound):
        party.comment("veritas", "DEC-9999", "x")
    finding = party.add_finding("veritas", "x y z")
    with pytest.raises(InvalidRecord, match="not a decision"):
        party.comment("veritas", finding, "x")


def test_concurrent_comments_are_all_kept() -> None:
    memory = smp_memory.open(":memory:")
    party = memory.create_session("s1").party([f"agent{number}" for number in range(4)])
    decision = party.propose("agent0", "Use PostgreSQL")

    def speak(agent: str) -> None:
        for number in range(10):
            party.comment(agent, decision.id, f"{agent} says {number}", agrees=True)

    threads = [threading.Thread(target=speak, args=(agent,)) for agent in party.agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = party.session.get(decision.id)
    assert len(stored.inputs) == 40
    assert sorted(stored.agreed_by) == party.agents
