"""Failing disk calls and full disks: a clear error, nothing half-written, everything readable, and writes work again afterwards."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import DurabilityUnknown, SMPError, StorageFull
from smp_memory.files.memory_system import MemorySystem
from smp_memory.testing import FaultySystem
from tests.crash.restricted_disks import run_on_read_only_store, small_file_system
from tests.crash.scenarios import (
    LAYOUTS,
    SCENARIOS,
    SESSION,
    Scenario,
    Wrong,
    check_new,
    check_valid,
    depth,
    differences,
    full_base,
    open_on,
    scenario_named,
    some,
    view,
    write_more,
)

pytestmark = pytest.mark.crash

ERRORS = {
    "ENOSPC": errno.ENOSPC,
    "EIO": errno.EIO,
    "EROFS": errno.EROFS,
    "EACCES": errno.EACCES,
    "EDQUOT": errno.EDQUOT,
}
REWRITES = ("convert", "repair")  # refused ones leave the old or the new state
WAYS = [(name, sticky, short) for name in ERRORS for sticky in (False, True) for short in (False, True)]
TRIES = depth(8, 60)  # per scenario, and at least one for each of its calls
LONG = depth(16, 60)  # calls
OF_LONG = depth(12, 60)  # see the slow test for all of them


def check_fault(scenario: Scenario, call: int, error: str, sticky: bool, short: bool) -> str:
    """Let one call fail (and all after it, if sticky), then heal: refused is absent, acknowledged is there."""
    system = FaultySystem(disk=scenario.base, fail_at=call, error=ERRORS[error], sticky=sticky, short=short)
    try:
        memory = open_on(system, scenario.layout)
    except SMPError:
        system.heal()
        return "not opened"
    done, refused = 0, None
    for step in scenario.steps:
        try:
            memory = step.run(memory) or memory
            done += 1
        except SMPError as caught:
            refused = caught
            break
        except Exception as caught:
            raise Wrong(f"{type(caught).__name__} came through: {caught}") from caught
    if refused is not None and not str(refused):
        raise Wrong("an error without words")
    system.heal()
    found = view(open_on(system))
    unknown = isinstance(refused, DurabilityUnknown)
    if refused is None or not unknown:
        if found != scenario.views[done] and not (found == scenario.views[-1] and scenario.name.startswith(REWRITES)):
            what = f"refused ({refused!r})" if refused else "acknowledged"
            raise Wrong(f"{what}, but:\n{differences(scenario.views[done], found)}")
    else:
        scenario.check_view(found, done)
    _go_on(scenario, system, memory)
    return "unknown" if unknown else "refused" if refused else "done"


def _go_on(scenario: Scenario, system: FaultySystem, memory: smp_memory.Memory) -> None:
    """The process that was refused and a new one both write on; nothing is lost, no id is used twice."""
    if scenario.name.startswith("convert"):
        memory = open_on(system)
    if scenario.damaged:
        memory.session(SESSION).repair()
    reader = open_on(system)
    found = view(reader)
    new: list[str] = []
    write_more(memory, new)
    write_more(open_on(system), new)
    write_more(memory, new)
    now = view(reader)
    if now != view(open_on(system)):
        raise Wrong("a reader that was there before and a new one see different things")
    check_new(now, found, new)
    check_valid(open_on(system).session(SESSION))
    memory.session(SESSION).repair()  # what could not be cut off, in a file that nobody wrote to since, is set aside
    check_valid(open_on(system).session(SESSION), settled=True)


def cases_of(scenario: Scenario) -> list[tuple[int, str, bool, bool]]:
    """Every call fails once before one fails again, each time in another way. Of a long scenario only some do."""
    chance = random.Random(f"{scenario.layout} {scenario.name}")
    calls = chance.sample(range(scenario.first_call, scenario.calls + 1), scenario.calls + 1 - scenario.first_call)
    ways = chance.sample(WAYS, len(WAYS))
    cases = [
        (call, *ways[(7 * place + 3 * turn) % len(ways)])  # both prime to the number of ways: none comes twice
        for turn in range(len(ways))
        for place, call in enumerate(calls)
    ]
    return cases[: max(TRIES, len(calls)) if len(calls) <= LONG else OF_LONG]


@pytest.mark.parametrize(("layout", "name"), some(SCENARIOS, "failing calls", 56))
def test_failing_disk_call_loses_nothing(layout: str, name: str) -> None:
    scenario = scenario_named(layout, name)
    outcomes = set()
    for case in cases_of(scenario):
        try:
            outcomes.add(check_fault(scenario, *case))
        except Exception as error:
            call, way, sticky, short = case
            how = f"call {call}, {way}{', sticky' if sticky else ''}{', short write first' if short else ''}"
            raise Wrong(f"{layout}, {name}: {how}: {error}") from error
    assert outcomes & {"refused", "unknown"}, outcomes


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("layout", "name"), SCENARIOS)
def test_every_error_of_every_disk_call_loses_nothing(layout: str, name: str) -> None:
    scenario = scenario_named(layout, name)
    for call in range(scenario.first_call, scenario.calls + 1):
        for way in WAYS:
            check_fault(scenario, call, *way)


def check_failing_sync(layout: str) -> None:
    """A failed sync is said, and the next write does not trust the file any more."""
    system = FaultySystem(disk=full_base(layout), calls=["sync"], error=errno.EIO)
    memory = open_on(system)
    session = memory.session(SESSION)
    known = session.add_decision("known")
    before = view(memory)
    system.fail_at = system.calls + 1
    try:
        session.add_decision("not confirmed")
    except DurabilityUnknown as error:
        path = str(error.details["path"])
    else:
        raise Wrong("a write was acknowledged that the disk did not confirm")
    system.heal()
    inode = system.lstat(path).st_ino
    new = [session.add_decision("confirmed").id]
    if system.lstat(path).st_ino == inode:
        raise Wrong("written on into the file whose sync failed")
    now = view(open_on(system))
    unconfirmed = [name for name in now[SESSION] if name not in before[SESSION] and name not in new]
    if len(unconfirmed) > 1 or known.id not in now[SESSION]:
        raise Wrong(f"found {sorted(now[SESSION])}")
    for name in unconfirmed:
        now[SESSION].pop(name)
    check_new(now, before, new)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_file_is_not_trusted_after_a_failed_sync(layout: str) -> None:
    check_failing_sync(layout)


class ShortSystem(MemorySystem):
    """A disk that takes a few bytes at a time."""

    def write(self, fd: int, data: Any, /) -> int:
        return super().write(fd, memoryview(data)[:13])

    def pwrite(self, fd: int, data: Any, offset: int, /) -> int:
        return super().pwrite(fd, memoryview(data)[:13], offset)


def check_short_writes(layout: str) -> None:
    for name in ("append", "add many to new files", "transaction", "transaction in one file", "repair", "change info"):
        scenario = scenario_named(layout, name)
        system = ShortSystem(disk=scenario.base)
        done, _ = scenario.run(system)
        if view(open_on(MemorySystem(disk=system))) != scenario.views[done]:
            raise Wrong(f"{layout}, {name}: not all was written")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_short_writes_are_completed(layout: str) -> None:
    check_short_writes(layout)


# Real disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_file_system(tmp_path / "small", "200k") as folder:
        yield folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_full_disk_is_reported_and_loses_nothing(layout: str, small_disk: Path) -> None:
    with smp_memory.open(small_disk / "store", layout=layout) as memory:
        session = memory.create_session("full")
        session.add_turn("user", "first")
        session.add_finding("first")
        done = [session.add_decision("first").id]
        (small_disk / "filler").write_bytes(bytes(40_000))
        with pytest.raises(StorageFull):
            while True:
                done.append(session.add_decision("x" * 700).id)
        with pytest.raises(StorageFull), session.transaction() as tx:
            for number in range(9):
                tx.add_decision(f"{number}" * 900)
                tx.add_finding(f"{number}" * 900)
                tx.add_turn("user", f"{number}" * 900)
        with pytest.raises(StorageFull):
            session.add_many([("decision", {"decision": "y" * 900}), ("finding", {"finding": "y" * 9000})] * 5)
        for reader in (memory, smp_memory.open(small_disk / "store")):
            found = reader.session("full")
            assert [record.id for record in found.records("decision")] == done
            assert len(found.records()) == len(done) + 2
            assert found.validate().ok
        (small_disk / "filler").unlink()
        done.append(session.add_decision("there is room").id)
        with session.transaction() as tx:
            wish = tx.add_decision("and again")
            tx.add_finding("and again")
        done.append(wish.id)
        assert len(set(done)) == len(done)
        with smp_memory.open(small_disk / "store") as fresh:
            assert [record.id for record in fresh.session("full").records("decision")] == done
            assert fresh.session("full").validate().ok


READ_ONLY = """
import sys
root = sys.argv[1]
import smp_memory
from smp_memory.errors import StorageReadOnly
memory = smp_memory.open(root)
session = memory.session("kept")
assert [record.decision for record in session.records()] == ["kept"]
assert session.get("DEC-0001").decision == "kept"
assert session.info.project == "p"
assert session.validate().ok
for work in (
    lambda: session.add_decision("no"),
    lambda: session.update("DEC-0001", impact="no"),
    lambda: session.repair(),
    lambda: session.change_info(project="no"),
    lambda: memory.create_session("no"),
    lambda: memory.convert("log" if memory.layout != "log" else "jsonl"),
):
    try:
        work()
    except StorageReadOnly as error:
        assert str(error)
    else:
        raise AssertionError("written")
assert [record.decision for record in session.records()] == ["kept"]
assert [session.id for session in memory.sessions()] == ["kept"]
"""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_write_to_a_read_only_folder_is_rejected(layout: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with smp_memory.open(root, layout=layout) as memory:
        memory.create_session("kept", project="p").add_decision("kept")
    run_on_read_only_store(root, READ_ONLY)
