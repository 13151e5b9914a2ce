"""A copy of a store, a push or a hand-over is interrupted at any step: the next one completes it, and nothing is lost or there twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import NotAllowed, StorageError
from smp_memory.exchange.store_copy import copy_store
from smp_memory.files.layouts import NAMES
from smp_memory.files.memory_system import MemorySystem
from smp_memory.scope import Scope
from smp_memory.testing import CrashingSystem
from smp_memory.testing.clocks import FrozenClock
from smp_memory.testing.faults import PowerLoss
from tests.backends.naive_store import NAME
from tests.exchange_stores import POSTGRES, Died, DyingStore, Places, contents, exchange, fill
from tests.postgres_server import Server

pytestmark = pytest.mark.crash
TARGETS = (NAME, "jsonl", "single", POSTGRES)


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    return Places(request, tmp_path)


def with_store(memory: smp_memory.Memory, store: Any) -> Scope:
    """The scope of a store through another object."""
    return Scope(store, None, memory.config, memory.scope.clock)


def deaths(
    places: Places, kind: str, run: Callable[[Scope], object], check: Callable[[smp_memory.Memory], None]
) -> None:
    """Let `run` die before and after every change of a store, each time in a new one; then `check` what is left."""
    for before in (True, False):
        at, is_over = 0, False
        while not is_over:
            at += 1
            memory = places.open(kind, f"{kind}-{before}-{at}", clock=FrozenClock())
            dying = DyingStore(memory.store, at, before=before)
            try:
                run(with_store(memory, dying))
                is_over = True
            except Died:
                pass
            check(memory)
            memory.close()
        assert at > 3


@pytest.fixture
def source(places: Places) -> smp_memory.Memory:
    clock = FrozenClock()
    with places.open("jsonl", "source", clock=clock) as memory:
        fill(memory, clock)
    return places.open("jsonl", "source", clock=clock)  # with its settings


@pytest.mark.parametrize("kind", TARGETS)
def test_copy_that_dies_at_any_step_is_completed_by_the_next(
    source: smp_memory.Memory, places: Places, kind: str
) -> None:
    wanted = contents(source)
    whole = {name.rpartition(" ")[2]: each["memories"] for name, each in wanted["sessions"].items()}

    def check(target: smp_memory.Memory) -> None:
        for name, found in contents(target)["sessions"].items():
            assert found["memories"] == whole[name.rpartition(" ")[2]], "a session is complete or not there"
        report = copy_store(source.scope, target.scope)
        assert (report.conflicts, report.failed) == ([], [])
        found = contents(target)
        audit = [line for line in found.pop("audit") if line["action"] != "convert"]
        assert (found, audit) == ({name: each for name, each in wanted.items() if name != "audit"}, wanted["audit"])

    deaths(places, kind, lambda target: copy_store(source.scope, target), check)
    assert contents(source) == wanted


class Laptops:
    """A new laptop's store for every run."""

    def __init__(self, places: Places) -> None:
        self._places, self._count = places, 0
        self.last = self.next()

    def next(self) -> smp_memory.Memory:
        self._count += 1
        self.last = self._places.open("jsonl", f"laptop-{self._count}", clock=FrozenClock())
        session = self.last.create_session("s1")
        session.add_decision("Erase me")
        session.add_decision("Change me")
        return self.last


@pytest.mark.parametrize("kind", TARGETS)
def test_push_that_dies_at_any_step_is_completed_by_the_next(places: Places, kind: str) -> None:
    laptops = Laptops(places)

    def run(target: Scope) -> None:
        laptop = laptops.next()
        exchange(laptop.scope, target)
        session = laptop.session("s1")
        session.update("DEC-0002", rationale="changed")
        session.erase("DEC-0001")
        session.add_decision("Third")
        exchange(laptop.scope, target)

    def check(target: smp_memory.Memory) -> None:
        laptop = laptops.last
        assert exchange(laptop.scope, target.scope).is_complete
        assert {each.status for each in exchange(laptop.scope, target.scope).sessions} == {"equal"}
        mine, theirs = (entries(each.store.session("s1").history()) for each in (laptop, target))
        assert theirs == mine
        assert len(set(theirs)) == len(theirs)
        assert target.session("s1").validate().ok

    deaths(places, kind, run, check)


def entries(history: Any) -> list[tuple[int, str, str, str]]:
    return [(entry.seq, id, entry.op, entry.at) for id, each in history.histories.items() for entry in each.entries]


@pytest.mark.parametrize("kind", TARGETS)
def test_at_no_moment_of_a_hand_over_both_sides_write(places: Places, kind: str) -> None:
    laptops = Laptops(places)

    def run(target: Scope) -> None:
        laptop = laptops.next()
        dying: Any = target.store
        exchange(with_store(laptop, dying.share(laptop.store)), target, ["s1"], hand_over=True)

    def check(target: smp_memory.Memory) -> None:
        laptop = laptops.last
        sides = [laptop.root, *([target.root] if target.store.sessions() else [])]
        assert sum(map(can_write, sides)) <= 1
        assert exchange(laptop.scope, target.scope, ["s1"], hand_over=True).of("refused", "conflict") == []
        assert [can_write(laptop.root), can_write(target.root)] == [False, True]

    deaths(places, kind, run, check)


def can_write(root: str) -> bool:
    with smp_memory.open(root, clock=FrozenClock()) as memory:
        try:
            memory.session("s1").update("DEC-0001", rationale=None)
        except NotAllowed:
            return False
        return True


@pytest.mark.parametrize("layout", NAMES)
def test_machine_that_stops_at_any_disk_call_leaves_sessions_whole_or_absent(
    source: smp_memory.Memory, layout: str
) -> None:
    """A session with a cold segment is put in place; in one layout that takes two renames."""
    wanted = contents(source)["sessions"]
    (name,) = [name for name in wanted if "live compacted" in name]
    base, at, is_over = MemorySystem(), 0, False
    smp_memory.memory.open_memory("/store", layout=layout, system=base).close()
    scope = Scope(OnlySession(source.store, "compacted"), None, source.config, source.scope.clock)
    while not is_over:
        at += 1
        system = CrashingSystem(disk=base, crash_at=at)
        try:
            copy_store(scope, smp_memory.memory.open_memory("/store", system=system, clock=FrozenClock()).scope)
            is_over = True
        except PowerLoss:
            pass
        states = [*system.crash_states(limit=3, seed=at)] if at % 3 == 0 else [system.kill_state()]
        for state in states:
            memory = smp_memory.memory.open_memory("/store", system=state, clock=FrozenClock())
            found = [head.session for head in memory.store.sessions()]
            assert found in ([], ["compacted"])
            report = copy_store(scope, memory.scope)
            assert (report.conflicts, report.failed) == ([], [])
            assert contents_of_ram(memory)[name]["memories"] == wanted[name]["memories"]
            assert contents_of_ram(memory)[name]["cold"] == wanted[name]["cold"]
    assert at > 10


class OnlySession:
    """A store with one of its sessions alone."""

    def __init__(self, store: Any, name: str) -> None:
        self._store, self._name = store, name

    def sessions(self, *states: str, **options: Any) -> Any:
        return [
            head
            for head in self._store.sessions(*states, **options)
            if (head.session, head.state) == (self._name, "live")
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def contents_of_ram(memory: smp_memory.Memory) -> Any:
    return contents(memory, with_settings=False)["sessions"]


# -- a server that dies


def test_copy_goes_on_after_the_server_was_killed(source: smp_memory.Memory, places: Places, postgres: Server) -> None:
    wanted = contents(source)
    address = places.address(POSTGRES, "killed")

    def kill(number: int, *_: object) -> None:
        if number == 4:
            postgres.kill()

    with pytest.raises(StorageError):
        source.copy_to(address, kill)
    postgres.start()
    report = source.copy_to(address)
    assert (len(report.known), report.conflicts, report.failed) == (3, [], [])
    found = contents(places.open(POSTGRES, "killed"))
    assert (found["sessions"], found["settings"]) == (wanted["sessions"], wanted["settings"])


def test_push_waits_for_a_server_that_is_away(places: Places, postgres: Server) -> None:
    laptop, address = places.open("jsonl", "laptop"), places.address(POSTGRES, "away")
    for name in ("s1", "s2"):
        laptop.create_session(name).add_decision("First")
    places.open(POSTGRES, "away").close()
    laptop.push(address)
    for name in ("s1", "s2"):
        laptop.session(name).add_decision("Second")

    def kill(number: int, *_: object) -> None:
        if number == 2:
            postgres.kill()

    assert {each.status for each in laptop.push(address, progress=kill).sessions} == {"queued"}
    assert {each.status for each in laptop.push().sessions} == {"queued"}
    postgres.start()
    assert {each.session: each.status for each in laptop.push().sessions} == {"s1": "equal", "s2": "sent"}
    assert laptop.push().sessions == []
