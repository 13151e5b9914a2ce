"""A session's user is one participant: memories by the user's name, by `user`, and without an author."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smp_memory


def _fill(session: Any) -> None:
    session.add_turn("user", "Which database do we use?")
    session.add_turn("assistant", "PostgreSQL")
    session.add_preference("language", "German")
    session.add_finding("Login is slow", author="user")
    session.add_decision("Use PostgreSQL", author="ada")


@pytest.mark.parametrize("layout", ["jsonl", "markdown"])
def test_agents_lists_the_user_of_a_session_under_one_name(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        session = memory.create_session("shop", user="ada")
        _fill(session)
        found = {agent.name: (agent.kind, agent.memories) for agent in session.agents()}
        assert found == {"ada": ("user", 4), "assistant": ("agent", 1)}
        assert session.agent("veritas").agents()["ada"].memories == 4
        assert session.summarize().to_dict()["session_summary"]["participants"]["users"] == ["ada"]
        if layout == "markdown":
            assert "user:" not in (Path(session.folder) / "indexes" / "agents.yaml").read_text()


def test_agents_of_a_store_names_the_user_of_each_session() -> None:
    with smp_memory.open(":memory:") as memory:
        for name in ("ada", "bob", None):
            session = memory.create_session(f"of-{name or 'nobody'}".lower(), user=name)
            session.add_turn("user", "Hello")
            session.add_finding("Unsigned")
        found = {agent.name: agent.memories for agent in memory.agents()}
        assert found == {"ada": 2, "bob": 2, "user": 2}
        assert [each.author for each in memory.timeline()].count("ada") == 2


def test_user_who_is_named_later_is_one_participant() -> None:
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("shop")
        session.add_turn("user", "Hello")
        session.change_info(user="ada")
        session.add_turn("user", "Hello again")
        assert {agent.name: agent.memories for agent in session.agents()} == {"ada": 2}


def test_state_of_an_agent_called_user_stays_its_own() -> None:
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("shop", user="ada")
        session.update_agent_state("user", {"step": 1})
        session.add_learning("Tests first", author="user", author_kind="agent")
        assert {agent.name: agent.memories for agent in session.agents()} == {"user": 2}
