"""Session states over simulated time on real files: opening, maintenance and reading reports never count as use."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.lifecycle import clock_state
from smp_memory.lifecycle.maintenance import EVERY, run_cheap_tasks
from smp_memory.testing import FrozenClock, MachineClock

LAYOUTS = pytest.mark.parametrize("layout", NAMES)


class Machine:
    """A machine on which the system clock and the time since boot move only when told. Stores use their default clock."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
        self.root = root
        self.clock = MachineClock(datetime.now(UTC).replace(microsecond=0))
        monkeypatch.setattr("smp_memory.model.times.system_clock", self.clock)
        monkeypatch.setattr(clock_state, "uptime_seconds", self.clock.uptime_seconds)
        self.open(layout=layout).close()

    def open(self, **arguments: Any) -> smp_memory.Memory:
        """Open the store as any program does, and wait for the maintenance that this starts."""
        running = set(threading.enumerate())
        memory = smp_memory.open(self.root, config={"durability": "os"}, **arguments)
        for worker in set(threading.enumerate()) - running:
            worker.join()
        return memory

    def states(self) -> dict[str, str]:
        with self.open() as memory:
            return {each.session: each.state for each in memory.session_states(include_archived=True)}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path / "store", monkeypatch, "jsonl")


@pytest.fixture(params=NAMES)
def every(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path / "store", monkeypatch, request.param)


# -- a year

STATE_CHANGES: dict[str, list[tuple[int, str]]] = {
    # session: day and new state; SPEC 7.4: idle after 24 h, decaying after 7 d, archived after 30 d, purged 30 d after deletion
    "abandoned": [(0, "active"), (1, "idle"), (7, "decaying"), (30, "archived")],
    "empty": [(0, "created"), (1, "idle"), (7, "decaying"), (30, "archived")],
    "kept": [(0, "active"), (1, "idle"), (7, "decaying")],
    "written-again": [
        *[(0, "active"), (1, "idle"), (7, "decaying")],
        *[(20, "active"), (21, "idle"), (27, "decaying"), (50, "archived")],
    ],
    "found-again": [
        *[(0, "active"), (1, "idle"), (7, "decaying")],
        *[(25, "active"), (26, "idle"), (32, "decaying"), (55, "archived")],
    ],
    "reopened": [
        *[(0, "active"), (1, "idle"), (7, "decaying"), (30, "archived")],
        *[(100, "active"), (101, "idle"), (107, "decaying"), (130, "archived")],
    ],
    "undeleted": [
        *[(0, "active"), (1, "idle"), (7, "decaying"), (10, "deleted")],
        *[(20, "active"), (21, "idle"), (27, "decaying"), (50, "archived")],
    ],
    # purge runs on days 0, 7, 14, …: the first run 30 days after the deletion announces it, the next one carries it out
    "deleted": [(0, "active"), (1, "idle"), (7, "decaying"), (10, "deleted"), (49, "purged")],
    "archived-by-hand": [(0, "active"), (1, "idle"), (3, "archived")],
    "archived-then-deleted": [
        *[(0, "active"), (1, "idle"), (7, "decaying"), (30, "archived")],
        *[(200, "deleted"), (238, "purged")],
    ],
}


def use(memory: smp_memory.Memory, day: int) -> None:
    """What people and agents do on a day of the year."""
    if day == 0:
        for name in STATE_CHANGES:
            own = {"lifecycle": {"auto_archive": False}} if name == "kept" else {}
            session = memory.create_session(name, config=own)
            if name != "empty":
                session.add_decision(f"The word of this session is {name.replace('-', '')}")
    elif day == 3:
        memory.archive_session("archived-by-hand")
    elif day == 10:
        memory.delete_session("deleted")
        memory.delete_session("undeleted")
    elif day == 20:
        memory.session("written-again").add_finding("Something new")
        memory.undelete_session("undeleted")
    elif day == 25:
        assert memory.query("foundagain").ids == ["DEC-0001"]
    elif day == 100:
        memory.session("reopened").records()
    elif day == 200:
        memory.delete_session("archived-then-deleted")


def look(memory: smp_memory.Memory) -> None:
    """Reports that list or read everything and must not count as use."""
    for session in memory.sessions():
        session.records()
        session.size_report()
        session.validate()
        session.summarize()
    memory.doctor(quick=True)
    memory.query("decision", limit=50, track_access=False)


def test_states_over_a_year_of_daily_opens_and_weekly_maintenance(machine: Machine) -> None:
    seen: dict[str, list[tuple[int, str]]] = {name: [] for name in STATE_CHANGES}

    def record(memory: smp_memory.Memory, day: int) -> None:
        states = {each.session: each.state for each in memory.session_states(include_archived=True)}
        for name, changes in seen.items():
            state = states.get(name, "purged")
            if not changes or changes[-1][1] != state:
                changes.append((day, state))

    for day in range(366):
        with machine.open() as memory:
            if day % 7 == 0:
                assert memory.maintain().ok
            if day:
                record(memory, day)
            if day % 10 == 0:
                look(memory)
            use(memory, day)
            record(memory, day)
        machine.clock.advance(days=1)
    assert seen == STATE_CHANGES


# -- opening a store


def test_opening_a_store_archives_the_sessions_that_are_due(every: Machine) -> None:
    with every.open() as memory:
        memory.create_session("s1").add_decision("Use OAuth")
        memory.maintain()
    every.clock.advance(days=29)
    assert every.states() == {"s1": "decaying"}
    every.clock.advance(days=1)
    assert every.states() == {"s1": "archived"}


def test_archiving_stays_due_while_a_session_is_open_in_the_process(machine: Machine) -> None:
    with machine.open() as memory:
        memory.create_session("held").add_decision("One")
        memory.create_session("free").add_decision("Two")
        memory.maintain()
    machine.clock.advance(days=31)
    with smp_memory.open(machine.root, config={"maintenance": {"auto": False}}) as memory:
        held = memory.session("held")
        memory.sessions()  # listing is not holding
        run_cheap_tasks(memory.scope)
        assert [each.session for each in memory.archived_sessions()] == ["free"]
        assert len(held.records()) == 1
        [task] = [task for task in memory.maintain(dry_run=True).tasks if task.name == "archive"]
        assert task.ran
        assert task.did == ["would archive held (not used for 30 days)"]
        del held
        run_cheap_tasks(memory.scope)
        assert sorted(each.session for each in memory.archived_sessions()) == ["free", "held"]


def test_a_task_that_ran_out_of_time_stays_due(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with machine.open() as memory:
        for number in range(3):
            memory.create_session(f"s{number}").add_decision("One")
        memory.maintain()
    machine.clock.advance(days=31)
    monkeypatch.setattr("smp_memory.lifecycle.maintenance._CHEAP_SECONDS", 0.0)
    with smp_memory.open(machine.root, config={"maintenance": {"auto": False}}) as memory:
        for done in (1, 2, 3):
            run_cheap_tasks(memory.scope)
            assert len(memory.archived_sessions()) == done


def test_a_restored_session_is_not_archived_again_the_next_day(every: Machine) -> None:
    with every.open() as memory:
        memory.create_session("s1").add_decision("Use OAuth")
        memory.maintain()
    every.clock.advance(days=40)
    assert every.states() == {"s1": "archived"}
    with every.open() as memory:
        memory.session("s1")
    every.clock.advance(days=2)
    assert every.states() == {"s1": "idle"}


# -- what is a use


def aged(memory: smp_memory.Memory, clock: MachineClock) -> Any:
    session = memory.create_session("s1")
    session.add_decision("Postgres is the database", status="superseded")
    session.add_finding("The login is slow")
    for number in range(30):
        session.add_turn("user", f"{number} " + "words " * 200)
    memory.maintain()
    clock.advance(days=20)
    assert session.state == "decaying"
    return session


def folded(memory: smp_memory.Memory) -> None:
    memory.maintain(only=["access"])


def compacted(memory: smp_memory.Memory) -> None:
    assert memory.session("s1").compact("forced").done.summaries  # type: ignore[union-attr]


def expired(memory: smp_memory.Memory) -> None:
    memory.session("s1").delete("DEC-0001", "retention", by="smp")


def rebuilt(memory: smp_memory.Memory) -> None:
    memory.store.indexer.rebuild()


def reported(memory: smp_memory.Memory) -> None:
    look(memory)
    memory.maintain(only=list(EVERY))


@pytest.mark.parametrize("upkeep", [folded, compacted, expired, rebuilt, reported])
def test_upkeep_and_reports_do_not_change_the_last_use(every: Machine, upkeep: Any) -> None:
    with every.open() as memory:
        session = aged(memory, every.clock)
        before = session.session_state.last_used
        upkeep(memory)
        assert session.session_state.last_used == before
    with every.open() as memory:
        assert memory.session("s1").session_state.last_used == before


def wrote(session: Any) -> None:
    session.add_finding("New")


def changed(session: Any) -> None:
    session.update("FIND-0001", severity="high")


def deleted(session: Any) -> None:
    session.delete("FIND-0001")


def undeleted(session: Any) -> None:
    session.delete("FIND-0001", by="smp")
    session.restore("FIND-0001")


def imported(session: Any) -> None:
    session.add_turn("user", "From an old export", created="2019-01-01T00:00:00Z")


def imported_many(session: Any) -> None:
    session.add_many([("finding", {"finding": "From an old export", "created": "2019-01-01T00:00:00Z"})])


def found(session: Any) -> None:
    assert session.query("database").ids


def got(session: Any) -> None:
    session.get("FIND-0001")


@pytest.mark.parametrize("act", [wrote, changed, deleted, undeleted, imported, imported_many, found, got])
def test_writing_and_finding_count_as_use_at_once_and_in_another_process(every: Machine, act: Any) -> None:
    with every.open() as memory:
        session = aged(memory, every.clock)
        act(session)
        assert (session.state, session.session_state.last_used) == ("active", every.clock())
    with every.open() as memory:
        assert memory.session("s1").session_state.last_used == every.clock()
        memory.maintain(only=["access"])
        memory.store.indexer.rebuild()
        assert memory.session("s1").session_state.last_used == every.clock()


def test_import_of_an_old_export_counts_as_use(every: Machine) -> None:
    with every.open() as memory:
        aged(memory, every.clock)
        text = memory.session("s1").export(format="jsonl")
        every.clock.advance(days=300)
        [session] = memory.import_(text, session="s2")
        assert session.session_state.last_used == every.clock()
    assert every.states()["s2"] == "active"


# -- file times


def touch_all(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            os.utime(os.path.join(folder, name))


@LAYOUTS
def test_fresh_file_times_do_not_change_a_state(tmp_path: Path, layout: str) -> None:
    clock = MachineClock(datetime.now(UTC) - timedelta(days=10))
    with smp_memory.open(tmp_path / "one", layout=layout, clock=clock) as memory:
        memory.create_session("s1").add_decision("Use OAuth")
        memory.create_session("empty")
    shutil.copytree(tmp_path / "one", tmp_path / "two", copy_function=shutil.copyfile)
    touch_all(tmp_path / "two")
    for name in ("one", "two"):
        with smp_memory.open(tmp_path / name) as memory:
            assert {each.session: each.state for each in memory.session_states()} == {
                "s1": "decaying",
                "empty": "decaying",
            }


@LAYOUTS
def test_old_file_times_do_not_change_a_state(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path, layout=layout) as memory:
        memory.create_session("s1").add_decision("Use OAuth")
        year_ago = time.time() - 365 * 86400
        for folder, _, names in os.walk(tmp_path):
            for name in names:
                os.utime(os.path.join(folder, name), (year_ago, year_ago))
        assert memory.session("s1").state == "active"


@LAYOUTS
def test_a_git_clone_keeps_the_states_of_sessions(tmp_path: Path, layout: str) -> None:
    clock = MachineClock(datetime.now(UTC) - timedelta(days=10))
    with smp_memory.open(tmp_path / "one" / "memory", layout=layout, clock=clock) as memory:
        memory.create_session("s1").add_decision("Use OAuth")
        clock.advance(days=9.5)
        memory.create_session("s2").add_decision("Use Redis")
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "memories"]):
        subprocess.run([*git, *command], cwd=tmp_path / "one", check=True)
    subprocess.run([*git, "clone", "-q", "one", "two"], cwd=tmp_path, check=True)
    with smp_memory.open(tmp_path / "two" / "memory") as memory:
        assert {each.session: each.state for each in memory.session_states()} == {"s1": "decaying", "s2": "active"}


@LAYOUTS
def test_a_clock_in_the_past_is_honoured(tmp_path: Path, layout: str) -> None:
    clock = FrozenClock(datetime(2020, 1, 1, tzinfo=UTC))
    with smp_memory.open(tmp_path, layout=layout, clock=clock) as memory:
        session, empty = memory.create_session("s1"), memory.create_session("empty")
        session.add_decision("Use OAuth")
        seen = []
        for days in (0, 2, 8):
            clock.set(datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=days))
            seen.append((session.state, empty.state))
        assert seen == [("active", "created"), ("idle", "idle"), ("decaying", "decaying")]
        assert session.next_step.when == datetime(2020, 1, 31, tzinfo=UTC)
