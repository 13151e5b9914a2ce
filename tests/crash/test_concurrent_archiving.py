"""A session that another process archives or deletes during a store-wide operation is left out and reported."""

from __future__ import annotations

import functools
import logging
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import Memory, open_memory
from smp_memory.testing import FrozenClock
from tests.crash.processes import SOURCE
from tests.crash.scenarios import LAYOUTS, ROOT, depth, open_on, some
from tests.interrupted_system import InterruptedSystem

pytestmark = pytest.mark.crash

GOES = "b"
OPERATIONS: dict[str, Callable[[Memory], Any]] = {
    "query": lambda memory: memory.query("login"),
    "query by time": lambda memory: memory.query(sort="newest"),
    "query with archived": lambda memory: memory.query("login", include_archived=True),
    "context": lambda memory: memory.context("architect", task="login", session="a"),
    "find_similar": lambda memory: memory.find_similar("login and tokens"),
    "find_related": lambda memory: memory.find_related("a/DEC-0001"),
    "topics": lambda memory: memory.topics(),
    "timeline": lambda memory: memory.timeline(),
    "agents": lambda memory: memory.agents(),
    "summarize": lambda memory: memory.summarize(),
    "export": lambda memory: memory.export(format="jsonl"),
    "redact": lambda memory: memory.redact(preview=True),
    "sessions": lambda memory: memory.sessions(),
    "latest_session": lambda memory: memory.latest_session(),
    "sessions_by_time": lambda memory: memory.sessions_by_time(),
    "session_states": lambda memory: memory.session_states(include_archived=True),
    "deleted": lambda memory: memory.deleted(),
    "validate": lambda memory: memory.validate(),
    "repair": lambda memory: memory.repair(),
    "doctor": lambda memory: memory.doctor(),
    "purge": lambda memory: memory.purge(older_than=0),
    "reindex": lambda memory: memory.reindex(),
}


@pytest.fixture(autouse=True)
def no_wait_for_the_audit_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process waits inside a call of this one, which holds the lock of the log."""
    monkeypatch.setattr("smp_memory.privacy.audit._WAIT_SECONDS", 0.0)


@functools.cache
def base(layout: str) -> MemorySystem:
    system = MemorySystem()
    with open_on(system, layout) as memory:
        for name in ("a", "b", "c"):
            session = memory.create_session(name, user="ada")
            session.add_turn("user", "We talked about the login and its tokens.")
            session.add_decision("Use OAuth for the login", tags=["auth"])
            session.delete(session.add_finding("The login is slow").id)
        memory.session("a").relate("DEC-0001", "b/DEC-0001", "led_to")
    return system


def interrupted(layout: str, way: str, operation: Callable[[Memory], Any], at: int) -> tuple[int, Any, Memory]:
    """How many calls the operation took, and its answer."""
    system = InterruptedSystem(disk=base(layout))
    memory = open_on(system)
    memory.query("login")
    other = open_memory(ROOT, system=system, clock=FrozenClock(), config={"concurrency": {"lock_timeout_ms": 1}})
    system.at = at
    system.happens = lambda: getattr(other, way)(GOES)
    try:
        answer = operation(memory)
    finally:
        system.happens = None
    return system.calls, answer, memory


CASES = [
    (layout, way, name) for layout in LAYOUTS for way in ("archive_session", "delete_session") for name in OPERATIONS
]


@pytest.mark.parametrize(("layout", "way", "name"), some(CASES, "operations", 88))
def test_operation_continues_without_the_archived_session(layout: str, way: str, name: str) -> None:
    """57 of 700 queries raised SessionArchived."""
    calls, _, _ = interrupted(layout, way, OPERATIONS[name], 0)
    chance = random.Random(f"{layout} {way} {name}")
    for at in sorted(chance.sample(range(1, calls + 1), min(calls, depth(5, 400)))):
        try:
            interrupted(layout, way, OPERATIONS[name], at)
        except Exception as error:
            raise AssertionError(f"{name}: {way} before call {at}: {error!r}") from error


def test_hits_name_sessions_that_were_left_out(caplog: pytest.LogCaptureFixture) -> None:
    seen = set()
    with caplog.at_level(logging.WARNING, "smp_memory"):
        for at in range(1, 60):
            _, hits, _ = interrupted("jsonl", "archive_session", OPERATIONS["query"], at)
            if GOES not in {hit.session for hit in hits}:
                assert {hit.session for hit in hits} == {"a", "c"}
                seen.update((each.session, each.reason) for each in hits.left_out)
    assert seen == {(GOES, "archived")}
    assert any("left out" in record.message and GOES in record.message for record in caplog.records)
    assert not any("OAuth" in record.message for record in caplog.records)


def test_complete_answer_leaves_nothing_out() -> None:
    assert open_on(MemorySystem(disk=base("jsonl"))).query("login").left_out == []


ARCHIVER = """
    import sys, smp_memory
    memory = smp_memory.open(sys.argv[1])
    print("ready", flush=True)
    for number in range(int(sys.argv[2])):
        memory.archive_session("b")
        memory.restore_session("b")
"""


def test_queries_are_complete_while_another_process_archives_and_restores(tmp_path: Path) -> None:
    memory = smp_memory.open(tmp_path / "store")
    for name in ("a", "b", "c"):
        session = memory.create_session(name)
        session.add_many(
            [("decision", {"decision": f"Use OAuth for the login, number {number}"}) for number in range(40)]
        )
    command = [sys.executable, "-c", textwrap.dedent(ARCHIVER), str(tmp_path / "store"), str(depth(15, 100))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        while other.poll() is None:
            found = {hit.session for hit in memory.query("login", limit=200)}
            assert found >= {"a", "c"}
            memory.timeline()
            memory.validate()
        assert other.returncode == 0
