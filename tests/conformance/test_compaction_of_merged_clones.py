"""Compaction of a session in which two clones gave out one id."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.testing import MachineClock
from tests.conformance.clones import SESSION, clone, memory_files, united

pytestmark = pytest.mark.parametrize("layout", NAMES)
ALL = 1 << 40


def merged(folder: Path, layout: str, clock: MachineClock) -> smp_memory.SessionMemory:
    """Two clones made a finding each, with one id; the next write made the id of the second one permanent."""
    with smp_memory.open(folder / "base", layout=layout, clock=clock) as memory:
        memory.create_session(SESSION).add_turn("user", "Hello")
    base = memory_files(folder / "base")
    sides = []
    for name in ("a", "b"):
        clock.advance(10)
        sides.append(clone(folder / "base", folder / name))
        with smp_memory.open(folder / name, clock=clock) as memory:
            session = memory.session(SESSION)
            session.add_finding(f"Finding of {name}", note="words " * 30)
            session.update("FIND-0001", note="other words " * 30)
    root = united(base, sides, folder / "united", layout)
    clock.advance(10)
    session = smp_memory.open(root, clock=clock).session(SESSION)
    session.add_turn("user", "More")
    return session


def test_memory_with_a_new_id_is_restored_from_the_cold_segment_under_it(tmp_path: Path, layout: str) -> None:
    clock = MachineClock()
    session = merged(tmp_path, layout, clock)
    assert [record.finding for record in session.records("finding")] == ["Finding of a", "Finding of b"]
    for id in ("FIND-0001", "FIND-0002"):
        session.resolve(id, "done")
    before = {record.id: record.to_dict() for record in session.records("finding")}
    clock.advance(timedelta(days=400).total_seconds())
    removed = session.compact(ALL).removed
    assert "FIND-0002" in removed
    session.memory.close()
    session = smp_memory.open(tmp_path / "united", clock=clock).session(SESSION)
    for id in removed:
        session.restore_archived(id)
    assert {record.id: record.to_dict() for record in session.records("finding")} == before
    assert [str(each) for each in session.validate().problems if each.severity != "note"] == []
