"""Read faults: every open, lstat, fstat, pread and listdir of every operation fails, and no memory is lost.

An operation whose read fails gives its right answer or an SMPError, never an answer that lacks something. Afterwards a
new process finds every acknowledged memory once, and nothing that was whole is in quarantine.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import DurabilityUnknown, SMPError
from smp_memory.files.memory_system import MemorySystem
from smp_memory.memory import Memory
from smp_memory.testing import FaultySystem
from tests.crash.processes import run_script
from tests.crash.scenarios import (
    LAYOUTS,
    SCENARIOS,
    SESSION,
    Scenario,
    Step,
    Wrong,
    check_new,
    check_valid,
    depth,
    differences,
    files_below,
    full_base,
    open_on,
    scenario_named,
    view,
    write_more,
)

pytestmark = pytest.mark.crash

READS = ("open", "lstat", "fstat", "pread", "listdir")
ERRORS = ("EMFILE", "ENFILE", "EIO", "EACCES", "ENOMEM", "EINTR", "ESTALE")
WAYS = [(error, sticky) for error in ERRORS for sticky in (False, True)]
LATER = "2026-02-02T00:00:00Z"

Case = tuple[int, str, bool]  # which reading call fails, with which error, and whether all later ones do too


def cases(name: str, calls: int, count: int) -> list[Case]:
    """A sample of calls and ways to fail, in which every call comes before one comes twice."""
    chance = random.Random(name)
    order = chance.sample(range(1, calls + 1), calls)
    ways = chance.sample(WAYS, len(WAYS))
    every = [(call, *ways[(place + turn) % len(ways)]) for turn in range(len(ways)) for place, call in enumerate(order)]
    return every[:count]


def broken(base: MemorySystem, case: Case) -> FaultySystem:
    call, error, sticky = case
    return FaultySystem(disk=base, calls=READS, fail_at=call, error=getattr(errno, error), sticky=sticky)


def attempt(work: Callable[[], Any]) -> tuple[Any, SMPError | None]:
    """What an operation returned, or its error; anything but an SMPError is wrong."""
    try:
        return work(), None
    except SMPError as error:
        if not str(error):
            raise Wrong("an error without a message") from error
        return None, error
    except Exception as error:
        raise Wrong(f"{type(error).__name__} came through: {error}") from error


def quarantined(system: MemorySystem) -> list[str]:
    return [path for path in files_below(system) if "/quarantine/" in path]


def each_case(what: str, calls: int, count: int, check: Callable[[Case], None]) -> None:
    for case in cases(what, calls, count):
        try:
            check(case)
        except Exception as error:
            call, way, sticky = case
            raise Wrong(f"{what}: call {call} of {calls}, {way}{', sticky' if sticky else ''}: {error}") from error


# Operations that change something


def _archived(memory: Memory) -> None:
    memory.archive_session("other", "done")


def _restored(memory: Memory) -> None:
    memory.restore_session("other")


def _imported(memory: Memory) -> None:
    memory.import_(_export(memory.layout), session="came-in")


def _maintained(memory: Memory) -> None:
    report = memory.maintain()
    if not report.ok:
        raise SMPError(f"{[task.problem for task in report.tasks]}")


@functools.cache
def _export(layout: str) -> bytes:
    with open_on(MemorySystem(disk=full_base(layout))) as memory:
        found = memory.session(SESSION).export(format="json")
        return found if isinstance(found, bytes) else str(found).encode()


@functools.cache
def _archived_base(layout: str) -> MemorySystem:
    system = MemorySystem(disk=full_base(layout))
    with open_on(system) as memory:
        _archived(memory)
    return system


def _compacted(memory: Memory) -> None:
    memory.session(SESSION).compact(0)


MORE: dict[str, tuple[Callable[[str], MemorySystem], Callable[[Memory], Any]]] = {
    "archive session": (full_base, _archived),
    "restore session": (_archived_base, _restored),
    "delete session": (full_base, lambda memory: _drop(memory.delete_session("other"))),
    "import": (full_base, _imported),
    "maintain": (full_base, _maintained),
    "compact": (full_base, _compacted),
    "set config": (full_base, lambda memory: memory.set_config("durability", "os")),
    "session settings": (
        full_base,
        lambda memory: _drop(memory.create_session("own", config={"durability": "os"}).add_decision("own")),
    ),
}


def _drop(_: Any) -> None:
    """A step returns nothing, or the memory that later steps use."""


@functools.cache
def _more_named(layout: str, name: str) -> Scenario:
    base, run = MORE[name]
    return Scenario(name, layout, base(layout), [Step(run)])


CHANGES = [*SCENARIOS, *((layout, name) for layout in LAYOUTS for name in MORE)]
MAY_COME_IN_PARTS = ("maintain", "session settings", "purge", "erase", "delete several")  # several commits in one step


def changing(layout: str, name: str) -> Scenario:
    return _more_named(layout, name) if name in MORE else scenario_named(layout, name)


def reads_of(scenario: Scenario) -> int:
    system = FaultySystem(disk=scenario.base, calls=READS)
    scenario.run(system)
    return system.calls


def check_change(scenario: Scenario, case: Case) -> None:
    """What was acknowledged is there, what was refused is not; the same process and a new one go on."""
    system = broken(scenario.base, case)
    memory, refused = attempt(lambda: open_on(system, scenario.layout))
    done = 0
    while refused is None and done < len(scenario.steps):
        result, refused = attempt(functools.partial(scenario.steps[done].run, memory))
        memory = result or memory
        done += refused is None
    system.heal()
    found = view(open_on(system))
    _check_found(scenario, found, done, refused)
    if not scenario.damaged and quarantined(system):
        raise Wrong(f"in quarantine: {quarantined(system)}")
    if memory is not None and not scenario.name.startswith("convert"):
        _check_goes_on(scenario, system, memory)


def _check_found(scenario: Scenario, found: Any, done: int, refused: SMPError | None) -> None:
    if found == scenario.views[done]:
        return
    rewrites = scenario.name.startswith(("convert", "repair"))  # a refused one leaves the old or the new state
    may_be_done = isinstance(refused, DurabilityUnknown) or rewrites or scenario.name in MORE
    if refused is not None and may_be_done and found == scenario.views[done + 1]:
        return  # it was said that it may come; or refused by a look that came after it was done
    if refused is not None and (scenario.name in MAY_COME_IN_PARTS or isinstance(refused, DurabilityUnknown)):
        for session, memories in scenario.views[done].items():
            for name, memory in memories.items():
                if found[session].get(name) not in (memory, scenario.views[done + 1][session].get(name)):
                    raise Wrong(f"neither old nor new: {session}/{name}")
        return
    raise Wrong(f"{refused!r}, but\n{differences(scenario.views[done], found)}")


def _check_goes_on(scenario: Scenario, system: FaultySystem, memory: Memory) -> None:
    if scenario.damaged:
        memory.session(SESSION).repair()
    reader = open_on(system)
    before = view(reader)
    if view(memory) != before:
        raise Wrong(f"the process whose read failed sees something else:\n{differences(before, view(memory))}")
    new: list[str] = []
    write_more(memory, new)
    write_more(open_on(system), new)
    now = view(reader)
    if now != view(open_on(system)) or now != view(memory):
        raise Wrong("processes see different things")
    check_new(now, before, new)
    check_valid(open_on(system).session(SESSION), settled=True)
    if not scenario.damaged and quarantined(system):
        raise Wrong(f"in quarantine: {quarantined(system)}")


@pytest.mark.parametrize(("layout", "name"), CHANGES)
def test_no_read_fault_loses_a_memory(layout: str, name: str) -> None:
    scenario = changing(layout, name)
    each_case(f"{layout}, {name}", reads_of(scenario), depth(4, 60), functools.partial(check_change, scenario))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("layout", "name"), CHANGES)
def test_no_read_fault_in_any_call_loses_a_memory(layout: str, name: str) -> None:
    scenario = changing(layout, name)
    calls = reads_of(scenario)
    each_case(f"{layout}, {name}", calls, len(WAYS) * calls, functools.partial(check_change, scenario))


# Operations that only read


def _dicts(records: Any) -> list[Any]:
    return [record.to_dict() for record in records]


def _hits(memory: Memory) -> list[str]:
    return [hit.record.ref for hit in memory.query("files")]


QUESTIONS: dict[str, Callable[[Memory], Any]] = {
    "open": lambda memory: memory.layout,
    "get": lambda memory: memory.get(f"{SESSION}/DEC-0001").to_dict(),
    "records": lambda memory: _dicts(memory.session(SESSION).records()),
    "last records": lambda memory: _dicts(memory.session(SESSION).records("decision", last=1)),
    "info": lambda memory: memory.session(SESSION).info.to_dict(),
    "sessions": lambda memory: [session.id for session in memory.sessions()],
    "latest": lambda memory: getattr(memory.latest_session(), "id", None),
    "query": _hits,
    "query of a session": lambda memory: [hit.record.ref for hit in memory.session(SESSION).query("files")],
    "context": lambda memory: memory.session(SESSION).context("files").ids,
    "history": lambda memory: memory.session(SESSION).history("DEC-0001"),
    "as of": lambda memory: _dicts(memory.session(SESSION).as_of(LATER).records()),
    "stats": lambda memory: str(memory.session(SESSION).stats()),
    "size": lambda memory: memory.session(SESSION).size_report().to_dict(),
    "session_states": lambda memory: [each.to_dict() for each in memory.session_states(include_archived=True)],
    "deleted": lambda memory: [each.id for each in memory.session(SESSION).deleted()],
    "validate": lambda memory: [problem.code for problem in memory.session(SESSION).validate().problems],
    "export": lambda memory: memory.session(SESSION).export(format="json"),
    "archived": lambda memory: [away.session for away in memory.archived_sessions()],
    "topics": lambda memory: memory.session(SESSION).topics().to_dict(),
}


def check_question(base: MemorySystem, layout: str, ask: Callable[[Memory], Any], expected: Any, case: Case) -> None:
    system = broken(base, case)
    memory, refused = attempt(lambda: open_on(system, layout))
    if refused is None:
        found, refused = attempt(lambda: ask(memory))
        if refused is None and found != expected:
            raise Wrong(f"a wrong answer: {found}, not {expected}")
    system.heal()
    if memory is not None and (found := ask(memory)) != expected:
        raise Wrong(f"a wrong answer when nothing fails any more: {found}, not {expected}")
    if quarantined(system):
        raise Wrong(f"in quarantine: {quarantined(system)}")


def check_questions(layout: str, name: str, count: int) -> None:
    base, ask = _archived_base(layout), QUESTIONS[name]
    probe = FaultySystem(disk=base, calls=READS)
    expected = ask(open_on(probe, layout))
    each_case(
        f"{layout}, {name}",
        probe.calls,
        count or len(WAYS) * probe.calls,
        lambda case: check_question(base, layout, ask, expected, case),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_read_fault_gives_a_wrong_answer(layout: str, name: str) -> None:
    check_questions(layout, name, depth(8, 100))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_read_fault_in_any_call_gives_a_wrong_answer(layout: str, name: str) -> None:
    check_questions(layout, name, 0)


# Short reads


@pytest.mark.parametrize(("layout", "name"), CHANGES)
def test_short_reads_are_completed(layout: str, name: str) -> None:
    scenario = changing(layout, name)
    system = FaultySystem(disk=scenario.base, short_reads=True)
    done, _ = scenario.run(system)
    found = view(open_on(MemorySystem(disk=system)))
    assert done == len(scenario.steps)
    assert found == scenario.views[done], differences(scenario.views[done], found)
    assert scenario.damaged or not quarantined(system)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_short_reads_give_the_right_answer(layout: str, name: str) -> None:
    expected = QUESTIONS[name](open_on(MemorySystem(disk=_archived_base(layout)), layout))
    assert QUESTIONS[name](open_on(FaultySystem(disk=_archived_base(layout), short_reads=True), layout)) == expected


# A reader that met an error, and a file that is not one


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reader_reads_again_after_an_error(layout: str) -> None:
    system = FaultySystem(disk=full_base(layout), calls=("open",), error=errno.EMFILE, sticky=True)
    session = open_on(system).session(SESSION)
    system.fail_at = system.calls + 1
    with pytest.raises(SMPError, match="too many files open") as refused:
        session.records()
    assert refused.value.recoverable
    system.heal()
    expected = _dicts(open_on(MemorySystem(disk=full_base(layout))).session(SESSION).records())
    assert _dicts(session.records()) == expected


@pytest.mark.parametrize("layout", LAYOUTS)
def test_session_settings_that_cannot_be_read_are_not_ignored(layout: str) -> None:
    system = FaultySystem(disk=full_base(layout), calls=("open", "pread"), error=errno.EIO)
    with open_on(system) as memory:
        memory.create_session("own", config={"storage": {"max_content_kb": 1}})
    session = open_on(system).session("own")
    for call in range(1, 20):
        system.fail_at = system.calls + call
        with pytest.raises(SMPError):
            session.add_decision("x" * 5000)  # too large for this session, or its head cannot be read
    system.heal()
    assert session.records() == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("plant", ["folder", "link", "pipe"])
def test_writer_leaves_folders_and_pipes_in_place_of_files_unchanged(tmp_path: Path, layout: str, plant: str) -> None:
    if sys.platform == "win32":
        pytest.skip("needs POSIX file types")
    with smp_memory.open(tmp_path / "store", layout=layout) as memory:
        session = memory.create_session("s")
        session.add_finding("kept")
        session.add_decision("kept")
    path = next(p for p in (tmp_path / "store").rglob("*") if p.is_file() and ".smp" not in p.parts and b"DEC-0001" in p.read_bytes())  # fmt: skip
    aside = tmp_path / "aside"
    path.rename(aside)
    {"folder": path.mkdir, "link": lambda: path.symlink_to(aside), "pipe": lambda: os.mkfifo(path)}[plant]()
    before = aside.read_bytes()
    with smp_memory.open(tmp_path / "store") as memory:
        session = memory.session("s")
        assert [problem.code for problem in session.validate().problems if problem.severity == "error"][:1] == [
            "not_a_file"
        ]
        for work in (lambda: session.add_decision("no"), session.repair):
            with pytest.raises(SMPError):
                work()
    assert aside.read_bytes() == before
    assert not list((tmp_path / "store").rglob("quarantine/*"))


# A real limit of open files

LIMITED = """
import json, os, resource, sys
import smp_memory
from smp_memory.errors import SMPError
from smp_memory.files import disk
disk.PAUSES_SECONDS = (0.0, 0.0, 0.0)
memory = smp_memory.open(sys.argv[1], config={"durability": "os"})
sessions = [memory.session(f"s{n}") for n in range(6)]
done, refused = [], 0
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
hogs = []
for turn in range(400):
    if turn % 3 == 0:
        try:
            hogs.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            for fd in hogs[: 1 + turn % 5]:
                os.close(fd)
            del hogs[: 1 + turn % 5]
    session = sessions[turn % 6]
    try:
        if turn % 7 == 0:
            with session.transaction() as tx:
                wishes = [tx.add_decision("two"), tx.add_finding("two")]
            done += [f"{session.id}/{wish.id}" for wish in wishes]
        else:
            done.append(f"{session.id}/{session.add_decision(str(turn)).id}")
        if turn % 11 == 0:
            session.records()
    except SMPError:
        refused += 1
for fd in hogs:
    os.close(fd)
print(json.dumps([done, refused]))
"""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_limit_of_open_files_loses_nothing(tmp_path: Path, layout: str) -> None:
    if sys.platform == "win32":
        pytest.skip("needs RLIMIT_NOFILE")
    root = tmp_path / "store"
    with smp_memory.open(root, layout=layout, config={"durability": "os"}) as memory:
        for number in range(6):
            session = memory.create_session(f"s{number}")
            session.add_many([("decision", {"decision": f"before {n}"}) for n in range(20)])
    done, refused = json.loads(run_script(LIMITED, str(root)))
    assert refused, "the limit was not met"
    with smp_memory.open(root) as memory:
        there = [record.ref for session in memory.sessions() for record in session.records()]
        assert len(set(there)) == len(there)
        assert set(done) <= set(there)
        assert len([ref for ref in there if ref not in done]) >= 120
        assert all(report.ok for report in memory.validate().values())
    assert not list(root.rglob("quarantine/*"))
