"""Memories that are turned off for recall: agents are not told them, searches find them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory import Memory
from smp_memory.context.digest import digest_text
from smp_memory.context.trace import MUTED
from smp_memory.integrations.hooks.preview import preview_hook

DECISION = "Orders are stored in PostgreSQL because SQLite locked up under load"
PROMPT = "Which database are orders stored in, PostgreSQL or SQLite?"


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = smp_memory.open(tmp_path / "store", trust=True)
    session = memory.create_session("review")
    session.add_decision(DECISION)
    session.add_decision("Customers log in with OAuth")
    return memory


def told(memory: Memory, kind: str = "prompt", **given: Any) -> Any:
    return preview_hook(memory, kind, prompt=PROMPT, **given)


def test_muted_memory_is_told_at_no_event_and_found_by_searches(memory: Memory) -> None:
    for kind in ("prompt", "start", "agent"):
        assert DECISION in told(memory, kind).text
    memory.session("review").mute("DEC-0001", by="ada")
    for kind in ("prompt", "start", "agent"):
        shown = told(memory, kind)
        assert "PostgreSQL" not in shown.text
        assert {each.ref: each.reason for each in shown.left_out}["review/DEC-0001"] == MUTED, kind
    for shown in (memory.context(task=PROMPT), memory.context()):
        assert "PostgreSQL" not in shown.text
    assert "PostgreSQL" not in digest_text(memory.scope)
    assert memory.query(PROMPT).ids[0] == "DEC-0001"
    memory.session("review").unmute("DEC-0001")
    assert DECISION in told(memory).text


def test_turn_that_says_what_a_muted_memory_says_is_not_told_instead(tmp_path: Path) -> None:
    memory = smp_memory.open(tmp_path / "store", trust=True)
    session = memory.create_session("review")
    session.add_turn("assistant", f"Fine. {DECISION}.")
    session.add_decision(DECISION)
    session.mute("DEC-0001")
    assert "PostgreSQL" not in told(memory).text
    assert "PostgreSQL" not in memory.context(task=PROMPT, turns=0).text


def test_muted_memory_still_replaces_what_it_superseded(memory: Memory) -> None:
    session = memory.session("review")
    session.add_decision("Orders are stored in MySQL, a PostgreSQL server is too expensive", supersedes="DEC-0001")
    session.mute("DEC-0003")
    assert not told(memory).included
    assert "PostgreSQL" not in memory.context(task=PROMPT).text


def test_muted_preference_keeps_its_key(tmp_path: Path) -> None:
    memory = smp_memory.open(tmp_path / "store", trust=True)
    memory.create_session("old").add_preference("style", "long commit messages")
    memory.create_session("new").add_preference("style", "short commit messages")
    assert "short commit" in memory.context().text
    memory.session("new").mute("PREF-0001")
    assert "commit messages" not in memory.context().text


def test_mute_is_a_change_that_can_be_undone_and_survives_export(memory: Memory, tmp_path: Path) -> None:
    session = memory.session("review", author="ada")
    assert session.mute("DEC-0001").muted is True
    assert session.get("DEC-0001").revision == 2
    memory.export(tmp_path / "copy.json")
    other = smp_memory.open(tmp_path / "other", trust=True)
    other.import_(tmp_path / "copy.json")
    assert other.session("review").get("DEC-0001").muted is True
    change = memory.last_change("ada")
    assert change is not None
    memory.undo(change, by="ada")
    assert not session.get("DEC-0001").muted
    turn = session.add_turn("user", "hello")
    session.mute(turn.id)
    assert session.get(turn.id).muted


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_every_layout_keeps_the_flag(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path / "store", config={"layout": layout}, trust=True) as memory:
        session = memory.create_session("review")
        session.add_decision(DECISION, muted=True)
        session.add_finding("found", severity="low")
        session.mute("FIND-0001")
    with smp_memory.open(tmp_path / "store", trust=True) as memory:
        session = memory.session("review")
        assert [session.get(id).muted for id in ("DEC-0001", "FIND-0001")] == [True, True]
        assert sorted(memory.query(where={"muted": True}).ids) == ["DEC-0001", "FIND-0001"]


@pytest.mark.parametrize("end", ["mute", "delete"])
def test_digest_does_not_quote_the_turn_of_a_preference_that_is_off(tmp_path: Path, end: str) -> None:
    memory = smp_memory.open(tmp_path / "store", trust=True)
    session = memory.create_session("review")
    session.add_turn("user", "Always indent headers with two spaces, never with tabs.")
    session.add_preference("indent", "Always indent headers with two spaces, never with tabs")
    assert digest_text(memory.scope).count("two spaces") == 2
    getattr(session, end)("PREF-0001")
    assert "two spaces" not in digest_text(memory.scope)
