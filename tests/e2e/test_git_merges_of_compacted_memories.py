"""Compacted memories travel with git: clones have them, and clones that both compacted are merged by real git."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.model.rewrite_plan import ColdMove, RewritePlan
from tests.e2e.git_clones import Clone, make_origin

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="needs git"),
    pytest.mark.parametrize("layout", NAMES),
]
OLD = "2025-01-01T00:00:00Z"
ALL = 1 << 40
TURNS = [f"TURN-{number:04d}" for number in range(2, 8)]


def origin_with_old_turns(folder: Path, layout: str) -> Clone:
    origin = make_origin(folder / "origin", layout)
    origin.write(*(lambda s, n=n: s.add_turn("user", f"old turn {n}", created=OLD) for n in range(6)))
    return origin


def move(*ids: str) -> Any:
    """Move these memories to the cold segment, as compaction does."""

    def change(session: smp_memory.SessionMemory) -> None:
        moves = {id: ColdMove(session.get(id).revision, "old") for id in ids}
        plan = RewritePlan("compacting", "2026-03-01T12:00:00Z", to_cold=moves)
        assert list(session.memory.store.session(session.id).rewrite(plan).moved) == list(ids)

    return change


def cold(clone: Clone) -> set[str]:
    return {each.id for each in clone.opened().archived()}


def live(clone: Clone) -> set[str]:
    return {record.id for record in clone.opened().records("conversation")}


def test_clone_has_the_compacted_memories(tmp_path: Path, layout: str) -> None:
    origin = origin_with_old_turns(tmp_path, layout)
    before = {record.id: record.to_dict() for record in origin.opened().records("conversation")}
    origin.write(lambda s: s.compact(ALL))
    clone = origin.clone("a", 10)
    assert cold(clone) >= set(TURNS)
    clone.write(lambda s: s.restore_archived(*TURNS))
    after = {record.id: record.to_dict() for record in clone.opened().records("conversation")}
    assert {id: after[id] for id in TURNS} == {id: before[id] for id in TURNS}
    assert clone.problems() == []


def both(folder: Path, layout: str, ours: Any, theirs: Any) -> Clone:
    origin = origin_with_old_turns(folder, layout)
    origin.write(move("TURN-0002", "TURN-0007"))
    one, other = origin.clone("a", 10), origin.clone("b", 20)
    one.write(ours)
    other.write(theirs)
    one.pull(other)
    return one


def test_clones_that_both_compacted_are_merged(tmp_path: Path, layout: str) -> None:
    clone = both(tmp_path, layout, move("TURN-0003", "TURN-0004"), move("TURN-0004", "TURN-0005"))
    assert cold(clone) == {"TURN-0002", "TURN-0003", "TURN-0004", "TURN-0005", "TURN-0007"}
    assert live(clone) == {"TURN-0001", "TURN-0006"}
    clone.write(lambda s: s.restore_archived(*cold(clone)))
    assert live(clone) == {"TURN-0001", *TURNS}
    assert clone.problems() == []


def test_memory_restored_in_one_clone_is_live_after_the_other_compacted(tmp_path: Path, layout: str) -> None:
    clone = both(tmp_path, layout, move("TURN-0003", "TURN-0004"), lambda s: s.restore_archived("TURN-0002"))
    assert cold(clone) == {"TURN-0003", "TURN-0004", "TURN-0007"}
    assert live(clone) == {"TURN-0001", "TURN-0002", "TURN-0005", "TURN-0006"}
    assert clone.problems() == []


def test_memory_erased_in_one_clone_does_not_come_back(tmp_path: Path, layout: str) -> None:
    origin = origin_with_old_turns(tmp_path, layout)
    origin.write(lambda s: s.compact(ALL))
    one, other = origin.clone("a", 10), origin.clone("b", 20)
    one.write(lambda s: s.erase("TURN-0002"))
    other.write(lambda s: s.restore_archived("TURN-0003"))
    one.pull(other)
    assert cold(one) == set(TURNS) - {"TURN-0002", "TURN-0003"}
    assert one.problems() == []
