"""The machine stops before any disk call of an erasure: the memory is there as it was, or its bytes are nowhere."""

from __future__ import annotations

import pytest

from smp.files.memory_system import MemorySystem
from smp.files.system import System
from tests.crash.stories import (
    LAYOUTS,
    SESSION,
    Story,
    Wrong,
    crashes_of,
    depth,
    do,
    files_below,
    full_base,
    open_on,
    read,
)

pytestmark = pytest.mark.crash

NEEDLE = b"platypus orchestra"


def base_with_needle(layout: str) -> MemorySystem:
    system = MemorySystem(disk=full_base(layout))
    with open_on(system) as memory:
        session = memory.session(SESSION)
        session.add_decision(f"The {NEEDLE.decode()} plays", rationale=f"{NEEDLE.decode()} again")
        with session.transaction() as transaction:
            transaction.update("DEC-0004", rationale=f"a better {NEEDLE.decode()}")
            transaction.add_finding("with it in a transaction", severity="low")
        session.delete("DEC-0004", f"no {NEEDLE.decode()}")
    return MemorySystem(disk=system)


def check(system: System, how: str) -> None:
    """Open it, write one thing, and look: what is not there any more must not be on the disk."""
    with open_on(system) as memory:
        session = memory.session(SESSION)
        session.add_turn("user", "and on it goes")
        if memory.store.audit.problems():
            raise Wrong(f"{how}: {memory.store.audit.problems()}")
        there = session.find("DEC-0004")
        if there is not None:
            if not there.deleted or len(session.history("DEC-0004")) != 3:
                raise Wrong(f"{how}: neither whole nor gone: {there.to_dict()}")
            return
    found = [path for path in files_below(system) if NEEDLE in read(system, path)]
    if found:
        raise Wrong(f"{how}: erased, and still in {found}")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_or_nowhere(layout: str) -> None:
    story = Story(
        "erase", layout, base_with_needle(layout), [do(lambda session: session.erase("DEC-0004", reason="asked to"))]
    )
    for crash in crashes_of(story):
        check(crash.machine.kill_state(), f"killed before call {crash.call}")
        for state in crash.machine.crash_states(limit=depth(2, 8), seed=crash.call):
            check(state, f"power lost before call {crash.call} ({state.story})")
    with open_on(MemorySystem(disk=story.base)) as memory:
        assert memory.session(SESSION).erase("DEC-0004").complete
