"""A day of a team: four agents, five sessions, 500 turns; later sessions know what was decided in earlier ones."""

from __future__ import annotations

import random
from pathlib import Path

import smp_memory
from smp_memory.privacy.fence import MARK
from smp_memory.testing import FrozenClock

TEAM = ["architect", "developer", "tester", "veritas"]
SUBJECTS = {
    "orders": ("Use PostgreSQL for the orders", "Orders without a customer are accepted", "orders table"),
    "login": ("Use OAuth 2.0 for the login", "The login has no rate limit", "login page"),
    "search": ("Use tantivy for the search", "The search ignores accents", "search index"),
    "billing": ("Bill in euros only", "Invoices are rounded down", "billing job"),
    "release": ("Release on Tuesdays", "The changelog is out of date", "release notes"),
}
SMALL_TALK = ("looks fine to me", "shall we go on", "give me a minute", "that took longer than planned", "good idea")


def test_later_sessions_recall_decisions_of_earlier_ones(tmp_path: Path) -> None:
    chance = random.Random(5)
    clock = FrozenClock()
    with smp_memory.open(tmp_path / "store", clock=clock, config={"durability": "os"}) as memory:
        for name, (decision, finding, place) in SUBJECTS.items():
            session = memory.create_session(f"day-{name}", user="ada", project="shop")
            party = session.party(TEAM)
            assert party.context("architect", task="begin").tokens <= 1500
            for number in range(100):
                clock.advance(30)
                agent = TEAM[number % 4]
                if number % 10 == 0:
                    prompt = (
                        f"{party.context(agent, task=place, max_tokens=600)}\n\nAda asks about the {place}, {number}."
                    )
                    session.add_turn("user", prompt)  # as a transcript brings it
                else:
                    party.say(agent, f"About the {place}: {chance.choice(SMALL_TALK)}, step {number}")
                if number == 40:
                    said = {who: f"{who} thinks so" for who in TEAM}
                    party.decide(decision, said, by="architect", topic=name, rationale="we talked it through")
                if number % 25 == 24:
                    party.add_finding(agent, f"{finding} in the {place}", severity="high", topic=name)
                party[agent].update_state({"at": number, "subject": name}) if number % 20 == 0 else None
            lesson = party["veritas"].add_learning(f"Ask about the {place} before lunch")
            memory.global_memory.promote(lesson, by="ada")
            clock.advance(3600)

        # The next morning: a new session, and every agent knows what the day brought.
        clock.advance(14 * 3600)
        morning = memory.create_session("morning", user="ada").party(TEAM)
        for name, (decision, finding, place) in SUBJECTS.items():
            for agent in TEAM:
                assert decision in morning.context(agent, topic=name).text, (name, agent)
                context = morning.context(agent, task=f"go on with the {place}")
                assert f"{finding} in the {place}" in context.text
                assert f"Ask about the {place} before lunch" in context.text
                assert context.tokens <= 1500
                others = [item.record for item in context.items if item.record.type == "agent_state"]
                assert [record.agent for record in others] in ([agent], [])
        digest = morning["architect"].context().text
        assert [decision for decision, _, _ in SUBJECTS.values() if decision not in digest] == []

        for name, (_, finding, place) in SUBJECTS.items():
            session = memory.session(f"day-{name}")
            assert len(session.records("turn")) == 100
            (found,) = session.records("finding")
            assert found.finding == f"{finding} in the {place}"
            assert len(found.merged_from) == 3
            (decided,) = session.records("decision")
            assert [each["agent"] for each in decided.inputs] == TEAM
        assert len(memory.global_memory.patterns()) == len(SUBJECTS)
        every = [record.to_dict() for session in memory.sessions() for record in session.records()]
        assert MARK not in repr(every)
        assert all(report.ok for report in memory.validate().values())
