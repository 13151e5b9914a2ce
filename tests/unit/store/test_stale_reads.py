"""A change is checked against the state under the lock, although the session was read before the lock was acquired."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from smp_memory.errors import Conflict, LockTimeout
from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import open_memory
from tests.interrupted_system import interruptions


@pytest.mark.parametrize("layout", ["jsonl", "markdown", "single", "log"])
def test_of_two_processes_that_change_one_revision_only_the_first_succeeds(layout: str) -> None:
    base = MemorySystem()
    with open_memory("/store", layout=layout, system=base) as memory:
        memory.create_session("s").add_decision("Use OAuth")
    conflicts = 0
    for system in interruptions(base):
        mine = open_memory("/store", system=system).session("s")
        other = open_memory("/store", system=system, config={"concurrency": {"lock_timeout_ms": 1}}).session("s")
        done: list[str] = []

        def meanwhile(other: Any = other, done: list[str] = done) -> None:
            other.update("DEC-0001", expected_revision=1, status="rejected")
            done.append("rejected")

        system.happens = meanwhile
        try:
            mine.update("DEC-0001", expected_revision=1, status="approved")
            done.append("approved")
        except Conflict:
            conflicts += 1
        system.happens = None
        assert len(done) == 1, (system.at, done)
        assert mine.get("DEC-0001").status == done[0], system.at
    assert conflicts


def test_of_threads_that_change_one_revision_only_the_first_succeeds() -> None:
    with open_memory(":memory:") as memory:
        session = memory.create_session("s")
        session.add_decision("Use OAuth")
        for revision in range(1, 11):
            done: list[int] = []
            start = threading.Barrier(4)

            def change(number: int, revision: int = revision, done: list[int] = done, start: Any = start) -> None:
                start.wait(30)
                try:
                    session.update("DEC-0001", expected_revision=revision, rationale=f"{revision} by {number}")
                    done.append(number)
                except (Conflict, LockTimeout):
                    pass

            threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(done) == 1
            assert session.get("DEC-0001").rationale == f"{revision} by {done[0]}"
