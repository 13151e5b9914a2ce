"""Promoted memories are used in all sessions, name their origins, and can be undone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import InvalidRecord, MemoryNotFound
from smp_memory.files.layouts import NAMES
from smp_memory.testing import FrozenClock

LAYOUTS = pytest.mark.parametrize("layout", NAMES)


@pytest.fixture
def memory() -> smp_memory.Memory:
    return smp_memory.open(":memory:", clock=FrozenClock())


def test_global_session_is_created_by_the_first_write(memory: smp_memory.Memory) -> None:
    everywhere = memory.global_memory
    assert (everywhere.exists, everywhere.preferences(), everywhere.patterns(), everywhere.profile()) == (
        False,
        [],
        [],
        {},
    )
    memory.create_session("s1").context()
    assert [session.id for session in memory.sessions()] == ["s1"]


def test_promoted_learning_is_in_the_context_of_other_sessions(memory: smp_memory.Memory) -> None:
    first = memory.create_session("first", user="ada")
    learning = first.add_learning("Reviews find more before lunch", author="veritas", tags=["review"])
    promoted = memory.global_memory.promote(learning, by="ada")
    assert promoted.session == "global"
    assert promoted.learning == learning.learning
    assert promoted.author == "veritas"
    assert promoted.tags == ["review"]
    assert promoted.relations == [{"kind": "derived_from", "target": "first/LEARN-0001"}]
    origin = promoted.promoted_from[0]
    assert (origin["session"], origin["id"], origin["revision"], origin["by"]) == ("first", "LEARN-0001", 1, "ada")
    memory.delete_session("first", "not needed")
    second = memory.create_session("second")
    text = second.context("architect", task="plan the review").text
    assert "global/LEARN-0001 (veritas): Reviews find more before lunch" in text


def test_preferences_and_profile(memory: smp_memory.Memory) -> None:
    everywhere = memory.global_memory
    session = memory.create_session("s1")
    everywhere.promote(session.add_preference("style", "brief", confidence="explicit"))
    everywhere.set_profile("role", "platform engineer")
    everywhere.set_preference("language", "English")
    assert {record.key: record.value for record in everywhere.preferences()} == {
        "style": "brief",
        "language": "English",
    }
    assert everywhere.profile() == {"role": "platform engineer"}
    everywhere.set_profile("role", "architect")
    assert everywhere.profile() == {"role": "architect"}
    text = memory.create_session("s2").context("veritas").text
    for words in ("style = brief", "role = architect", "language = English"):
        assert words in text
    found = memory.session("s2").agent("veritas").user_preferences()
    assert {record.key for record in found} == {"style", "role", "language"}


def test_promoting_again_adds_an_origin(memory: smp_memory.Memory) -> None:
    everywhere = memory.global_memory
    one, two = (memory.create_session(name).add_learning("Test the backups") for name in ("one", "two"))
    first = everywhere.promote(one)
    assert everywhere.promote("one/LEARN-0001") == first  # nothing to change
    again = everywhere.promote(two)
    assert again.id == first.id
    assert [(each["session"], each["id"]) for each in again.promoted_from] == [("one", one.id), ("two", two.id)]
    assert len(everywhere.patterns()) == 1


def test_promoted_preference_is_updated_and_can_be_undone(memory: smp_memory.Memory) -> None:
    everywhere = memory.global_memory
    for name, value in (("one", "brief"), ("two", "long")):
        everywhere.promote(memory.create_session(name).add_preference("style", value))
    (preference,) = everywhere.preferences()
    assert preference.value == "long"
    assert everywhere.undo(preference).value == "brief"
    assert [each["session"] for each in everywhere.preferences()[0].promoted_from] == ["one"]


def test_promotion_can_be_undone_and_repeated(memory: smp_memory.Memory) -> None:
    everywhere = memory.global_memory
    session = memory.create_session("s1")
    learning = session.add_learning("Test the backups")
    promoted = everywhere.promote(learning)
    everywhere.undo(promoted.id, by="ada")
    assert everywhere.patterns() == []
    everywhere.session.restore(promoted.id)
    assert len(everywhere.patterns()) == 1
    everywhere.demote(promoted.id, "no longer true")
    assert everywhere.promote(learning).learning == "Test the backups"
    assert len(everywhere.patterns()) == 1


def test_decisions_and_findings_become_patterns(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s1")
    for record in (session.add_decision("Use OAuth"), session.add_finding("Nobody reads logs")):
        promoted = memory.global_memory.promote(record, importance=0.9)
        assert (promoted.type, promoted.category, promoted.importance) == ("learning", record.type, 0.9)


def test_private_memories_and_other_types_cannot_be_promoted(memory: smp_memory.Memory) -> None:
    session = memory.create_session("s1")
    everywhere = memory.global_memory
    for record in (
        session.add_turn("user", "hello"),
        session.update_agent_state("bob", {}),
        session.add_artifact("a.md", "x"),
        session.add_learning("hush", author="bob", visibility="private"),
    ):
        with pytest.raises(InvalidRecord):
            everywhere.promote(record)
    with pytest.raises(MemoryNotFound):
        everywhere.promote("s1/LEARN-9999")
    assert not everywhere.exists
    pattern = everywhere.add_pattern("x")
    with pytest.raises(InvalidRecord, match="already"):
        everywhere.promote(pattern)


def test_global_session_is_never_the_latest_session(memory: smp_memory.Memory) -> None:
    memory.create_session("s1").add_decision("x")
    memory.global_memory.add_pattern("y")
    assert memory.latest_session().id == "s1"  # type: ignore[union-attr]
    assert memory.agent("bob").id == "s1"
    assert memory.context("bob").asked["session"] == "s1"


@LAYOUTS
def test_global_session_is_stored_in_files_and_never_archived(tmp_path: Path, layout: str) -> None:
    clock = FrozenClock()
    with smp_memory.open(tmp_path / "store", layout=layout, clock=clock) as memory:
        session = memory.create_session("s1")
        memory.global_memory.promote(session.add_learning("Test the backups"))
        memory.global_memory.set_profile("role", "architect")
        clock.advance(timedelta(days=400).total_seconds())
        memory.maintain()
        clock.advance(timedelta(days=3).total_seconds())
        memory.maintain()
    with smp_memory.open(tmp_path / "store", clock=clock) as memory:
        assert memory.global_memory.profile() == {"role": "architect"}
        assert memory.global_memory.patterns()[0].learning == "Test the backups"
        assert "global" in [session.id for session in memory.sessions()]
    texts = [
        path.read_text(errors="replace")
        for path in (tmp_path / "store").rglob("*")
        if path.is_file() and ".smp" not in path.parts
    ]
    assert any("Test the backups" in text and "promoted_from" in text for text in texts)


@LAYOUTS
def test_conversion_keeps_the_global_session(tmp_path: Path, layout: str) -> None:
    memory = smp_memory.open(tmp_path / "store", layout=layout, config={"durability": "os"})
    memory.global_memory.promote(memory.create_session("s1").add_preference("style", "brief"))
    before = memory.global_memory.preferences()
    other = "markdown" if layout != "markdown" else "jsonl"
    memory = memory.convert(other)
    assert memory.global_memory.preferences() == before
    memory.close()
