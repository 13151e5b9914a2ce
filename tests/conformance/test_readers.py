"""Readers take no lock: whatever happens during a read, they see everything that was acknowledged before."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import open_memory
from smp_memory.session import SessionMemory
from smp_memory.testing import FrozenClock
from tests.conformance.layout_files import blocks, decisions_file, filled, opened, texts
from tests.interrupted_system import interruptions

QUICK = {"durability": "os"}


def machine(layout: str) -> MemorySystem:
    system = MemorySystem()
    with open_memory("/store", layout=layout, system=system, clock=FrozenClock()) as memory:
        session = memory.create_session("s1")
        session.add_turn("user", "First words")
        for text in ("Use OAuth", "Use Postgres", "Use Python"):
            session.add_decision(text)
    return system


def sessions_on(system: MemorySystem, layout: str) -> tuple[SessionMemory, SessionMemory]:
    """The session as a reader and as a writer see it, both having read it."""
    found = [open_memory("/store", system=system, clock=FrozenClock()).session("s1") for _ in range(2)]
    assert [len(each.records()) for each in found] == [4, 4]
    return found[0], found[1]


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "log"])
def test_file_created_during_a_read_hides_nothing(layout: str) -> None:
    """What was read in a look that had to be repeated must not be forgotten."""
    for system in interruptions(machine(layout)):
        reading, writing = sessions_on(system, layout)
        writing.add_decision("acknowledged before the look")

        def meanwhile(writing: SessionMemory = writing) -> None:
            writing.update_agent_state("late", {})
            writing.add_learning("a new file")
            writing.delete("DEC-0001")

        system.happens = meanwhile
        assert reading.get("DEC-0004").decision == "acknowledged before the look", system.at
        system.happens = None
        assert texts(reading) == texts(writing), system.at


def test_deletion_read_before_its_memory_is_applied() -> None:
    """In the layout `log` deletions stand in a file of their own, read after that of the memories."""
    base = machine("log")
    with open_memory("/store", system=base, clock=FrozenClock()) as memory:
        memory.session("s1").delete("DEC-0001")
    for system in interruptions(base):
        reading, writing = (open_memory("/store", system=system, clock=FrozenClock()).session("s1") for _ in range(2))

        def meanwhile(writing: SessionMemory = writing) -> None:
            writing.add_decision("gone")
            writing.delete("DEC-0004")
            writing.add_decision("there")

        system.happens = meanwhile
        reading.records()
        has_happened, system.happens = system.has_happened, None
        assert texts(reading) == ["Use Postgres", "Use Python", *(["there"] if has_happened else [])], system.at
        assert [record.id for record in reading.records(include_deleted=True)] == [
            record.id for record in writing.records(include_deleted=True)
        ]


@pytest.mark.parametrize("layout", NAMES)
@pytest.mark.parametrize("how", ["removed", "damaged"])
def test_removing_or_damaging_the_last_entry_of_a_transaction_keeps_the_others(
    tmp_path: Path, layout: str, how: str
) -> None:
    """All were acknowledged: a person who takes the last one out, or breaks it, keeps the others."""
    session = filled(tmp_path, layout)
    with session.transaction() as tx:
        for text in ("one", "two", "three"):
            tx.add_decision(text)
    path = decisions_file(tmp_path, layout)
    *parts, last = blocks(layout, path.read_text())
    if how == "damaged":
        last = last.replace("three", 'th"ree').replace('"id":', "id:")
    path.write_text("".join([*parts, *([last] if how == "damaged" else [])]))
    found = texts(opened(tmp_path))
    assert found[:5] == ["Use OAuth", "Use Postgres", "Use Python", "one", "two"]
    opened(tmp_path).add_decision("next")
    assert texts(opened(tmp_path))[:5] == found[:5]


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc here")


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@needs_proc
@pytest.mark.parametrize("layout", NAMES)
def test_store_that_was_never_closed_closes_its_files(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path / "store", layout=layout, config=QUICK) as memory:
        memory.create_session("s0")

    def use_a_store() -> None:
        memory = smp_memory.open(tmp_path / "store", layout=layout, config=QUICK)
        memory.session("s0").add_decision("Use OAuth")
        assert memory.query("oauth")

    use_a_store()
    before = open_files()
    for _ in range(10):
        use_a_store()
    assert open_files() <= before


@needs_proc
@pytest.mark.parametrize("layout", NAMES)
def test_released_sessions_close_their_files(tmp_path: Path, layout: str) -> None:
    memory = smp_memory.open(tmp_path, layout=layout, config=QUICK)
    memory.create_session("s0").add_decision("x")
    before = open_files()
    for number in range(1, 30):
        memory.create_session(f"s{number}").add_decision("x")
    assert open_files() < before + 10
    memory.close()
    assert open_files() <= before


@pytest.mark.parametrize("layout", NAMES)
def test_moved_session_is_missing_for_all_readers(tmp_path: Path, layout: str) -> None:
    session = filled(tmp_path, layout)
    path = decisions_file(tmp_path, layout)
    (path if layout == "single" else path.parent).rename(tmp_path / "elsewhere")
    for act in (
        session.records,
        lambda: session.add_decision("x"),
        lambda: session.get("DEC-0001"),
        lambda: session.info,
    ):
        with pytest.raises(smp_memory.errors.SessionNotFound):
            act()
    assert opened_sessions(tmp_path) == []


def opened_sessions(root: Path) -> list[str]:
    return [session.id for session in smp_memory.open(root).sessions()]
