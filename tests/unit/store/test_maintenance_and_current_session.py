"""Maintenance does not change which session was written last; the command line, MCP and agents write into that one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES

LAYOUTS = pytest.mark.parametrize("layout", NAMES)


def folded(memory: smp_memory.Memory) -> None:
    memory.query("database")
    assert memory.maintain(only=["access"]).did == ["zz-old: wrote the uses of 1 memory"]


def compacted(memory: smp_memory.Memory) -> None:
    assert memory.session("zz-old").compact("forced").removed


def purged(memory: smp_memory.Memory) -> None:
    session = memory.session("zz-old")
    session.erase(session.records("finding")[0].id)


@pytest.mark.parametrize("upkeep", [folded, compacted, purged])
@LAYOUTS
def test_maintenance_of_an_old_session_does_not_make_it_current(
    tmp_path: Path, layout: str, upkeep: Callable[[smp_memory.Memory], None]
) -> None:
    with smp_memory.open(tmp_path, layout=layout) as memory:
        old = memory.create_session("zz-old")
        old.add_decision("Postgres is the database")
        old.add_finding("wrong")
        for number in range(30):
            old.add_turn("user", f"{number} " + "words " * 200, created="2020-01-01T00:00:00Z")
        _tick()
        new = memory.create_session("new")
        new.add_decision("React")
        written = old.written
        upkeep(memory)
        assert memory.latest_session().id == "new"  # type: ignore[union-attr]
        assert old.written <= written  # the erased memory may have been the newest one
        _tick()
        old.add_decision("One more")
        assert memory.latest_session().id == "zz-old"  # type: ignore[union-attr]
        assert smp_memory.open(tmp_path).session("zz-old").validate().ok


@LAYOUTS
def test_conversion_does_not_change_the_current_session(tmp_path: Path, layout: str) -> None:
    memory = smp_memory.open(tmp_path, layout=layout)
    for name in ("zz-old", "aa-old", "middle"):
        memory.create_session(name).add_decision(name)
        _tick()
    for to in [name for name in NAMES if name != layout]:
        memory = memory.convert(to)
        assert memory.latest_session().id == "middle"  # type: ignore[union-attr]
        assert [session.id for session in sorted(memory.sessions(), key=lambda session: session.written)] == [
            "zz-old",
            "aa-old",
            "middle",
        ]
    memory.close()


def _tick() -> None:
    """Until the times of files can be told apart: a kernel's clock has steps of some milliseconds."""
    begun = time.time_ns()
    while time.time_ns() - begun < 20_000_000:
        time.sleep(0.005)
