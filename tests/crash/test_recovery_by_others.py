"""A crash is recovered by whoever comes next: another user, a process without a home, one that finds a copy of the store.

Nothing that recovery needs lies outside of the store. What a user's state adds: a destruction (purge, erasure, redaction) that was under
way is finished at once; without it the memories are still there, or gone, one by one.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import smp_memory
from smp_memory.files.disk import Disk
from smp_memory.files.memory_system import MemorySystem
from tests.crash import test_compaction, test_tidy
from tests.crash.scenarios import (
    LAYOUTS,
    ROOT,
    SESSION,
    Crash,
    Scenario,
    Step,
    Wrong,
    check_survivor,
    check_valid,
    crashes_of,
    depth,
    files_below,
    open_on,
    patch,
    read,
    scenario_named,
    some,
    view,
)

pytestmark = pytest.mark.crash

PLANS = [
    "transaction", "transaction in new files", "compact", "bring back", "repair", "rewrite", "purge", "erase",
    *(f"convert to {layout}" for layout in LAYOUTS),
]  # fmt: skip
DESTROYING = ("rewrite", "purge", "erase")
STATE = (
    "index",
    "hooks",
    "compaction",
    "purges",
    "plans",
    "access.log",
    "clock.json",
    "erasing.json",
    "maintenance.json",
)


def without_state(system: MemorySystem) -> MemorySystem:
    """The disk as another user sees it, or this user after the state folder was deleted."""
    disk = Disk(system)
    for name in STATE:
        disk.remove_tree(f"{ROOT}/.smp/{name}")
    return system


def copied(system: MemorySystem) -> MemorySystem:
    """The store on another machine: other inodes, another boot, no state, unlocked."""
    copy = MemorySystem(boot="of another machine")
    disk = Disk(copy)
    for path in files_below(without_state(system)):
        disk.make_folder(os.path.dirname(path))
        disk.write_new(path, read(system, path))
    return copy


OTHERS: dict[str, Callable[[MemorySystem], MemorySystem]] = {"without state": without_state, "copied": copied}


def made(layout: str, name: str) -> Scenario:
    if name in test_compaction.STEPS:
        base = test_compaction.base_of(layout, name)
        return Scenario(name, layout, base, [Step(test_compaction.STEPS[name])])
    if name == "tidy":
        return Scenario(name, layout, test_tidy.base(), [Step(test_tidy.tidy)])
    found = scenario_named(layout, name)
    if name in DESTROYING:
        steps = [Step(step.run, whole=False) for step in found.steps]
        found = Scenario(name, layout, found.base, steps)
    return found


def with_plan(crashes: list[Crash]) -> list[Crash]:
    """The crashes that leave a plan, and one before and one behind them."""
    has_plan = [
        any(path.endswith("journal.json") for path in files_below(each.machine.kill_state())) for each in crashes
    ]
    around = [any(has_plan[max(0, at - 1) : at + 2]) for at in range(len(crashes))]
    return [each for each, wanted in zip(crashes, around, strict=True) if wanted]


def cases() -> Iterator[tuple[str, str]]:
    for layout in LAYOUTS:
        yield from ((layout, name) for name in PLANS if name != f"convert to {layout}")
    yield "markdown", "tidy"


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(("layout", "name"), list(cases()))
def test_plan_is_recovered_by_others(layout: str, name: str, other: str) -> None:
    scenario = made(layout, name)
    crashes = with_plan(crashes_of(scenario))
    if layout != "single" and (layout, name) != ("log", "transaction in new files"):  # there it is in one file
        assert crashes
    for crash in some(crashes, f"{layout} {name} {other}", depth(5, 1000)):
        system = OTHERS[other](crash.machine.kill_state())
        try:
            check_survivor(scenario, system, crash.done)
        except Exception as error:
            raise Wrong(f"{layout}, {name}, {other}: killed before call {crash.call}: {error}") from error


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", test_compaction.STEPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_compacted_memories_come_back_for_others(layout: str, name: str, other: str) -> None:
    scenario = made(layout, name)
    for crash in some(with_plan(crashes_of(scenario)), f"back {layout} {name} {other}", depth(3, 1000)):
        test_compaction.check(layout, OTHERS[other](crash.machine.kill_state()))


@pytest.mark.parametrize("lost", ["journal", "private folder"])
@pytest.mark.parametrize("name", ["transaction", "transaction in new files"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_half_a_transaction_is_never_visible_without_its_journal(layout: str, name: str, lost: str) -> None:
    """What stands in the files decides: a clone or a backup may lack the journal."""
    scenario = scenario_named(layout, name)
    for crash in some(with_plan(crashes_of(scenario)), f"lost {layout} {name} {lost}", depth(8, 1000)):
        system = copied(crash.machine.kill_state()) if lost == "private folder" else crash.machine.kill_state()
        for path in list(files_below(system)):
            inside = "/.smp/" in path and os.path.basename(path) in ("journal.json", "lock", "queue")
            if path.endswith("journal.json") or (inside and lost == "private folder"):
                system.unlink(path)
        scenario.check_view(view(open_on(system)), crash.done)
        memory = open_on(system)
        memory.session(SESSION).add_decision("later")
        found = view(open_on(system))
        for name_, (record, _) in list(found[SESSION].items())[1:]:
            if record is not None and record.get("text") == "later":
                del found[SESSION][name_]
        scenario.check_view(found, crash.done)
        memory.session(SESSION).repair()
        check_valid(open_on(system).session(SESSION))


def test_hidden_part_of_a_transaction_is_reported_and_shown_when_the_rest_arrives(tmp_path: Path) -> None:
    session = smp_memory.open(tmp_path, layout="jsonl").create_session("s1")
    with session.transaction() as tx:
        tx.add_decision("First half")
        tx.add_finding("Second half", severity="low")
    findings, folder = tmp_path / "sessions/s1/findings.jsonl", tmp_path / "sessions/s1/.smp"
    rest = findings.read_bytes()
    findings.unlink()  # a commit that lacks one file, cloned
    for path in folder.iterdir():
        path.unlink()
    session = smp_memory.open(tmp_path).session("s1")
    assert session.records() == []
    assert [problem.code for problem in session.validate().problems] == ["incomplete_transaction"]
    assert [problem.code for problem in session.records().problems] == ["incomplete_transaction"]
    session.add_decision("Later")
    assert [record.text for record in smp_memory.open(tmp_path).session("s1").records()] == ["Later"]
    assert [hit.record.text for hit in smp_memory.open(tmp_path).query("half")] == []
    findings.write_bytes(rest)
    memory = smp_memory.open(tmp_path)
    assert {record.text for record in memory.session("s1").records()} == {"First half", "Second half", "Later"}
    assert len({record.id for record in memory.session("s1").records()}) == 3
    assert {hit.record.text for hit in memory.query("half")} == {"First half", "Second half"}
    assert memory.session("s1").validate().ok


@pytest.mark.parametrize("layout", ["jsonl", "markdown"])
def test_transaction_of_the_same_shape_does_not_complete_an_incomplete_one(tmp_path: Path, layout: str) -> None:
    """An agent repeats what failed: the numbers of the hidden entries, and of those that are missing, stay taken."""

    def transact(session: smp_memory.SessionMemory) -> None:
        with session.transaction() as tx:
            tx.add_decision("A decision")
            tx.add_finding("A finding", severity="low")

    session = smp_memory.open(tmp_path, layout=layout).create_session("s1")
    session.add_turn("user", "before")
    transact(session)
    next(tmp_path.rglob("findings.*")).unlink()
    for path in [path for path in tmp_path.rglob(".smp/*") if path.name in ("lock", "queue", "journal.json")]:
        path.unlink()
    transact(smp_memory.open(tmp_path).session("s1"))
    found = [record.text for record in smp_memory.open(tmp_path).session("s1").records()]
    assert sorted(found) == ["A decision", "A finding", "before"]
    transact(smp_memory.open(tmp_path).session("s1"))
    assert len(smp_memory.open(tmp_path).session("s1").records("decision")) == 2


def test_entry_added_to_an_old_file_after_a_conversion_was_killed_can_be_imported(tmp_path: Path) -> None:
    scenario = scenario_named("jsonl", "convert to log")
    killed = [
        crash for crash in crashes_of(scenario) if "/store/.smp/journal.json" in files_below(crash.machine.kill_state())
    ]
    for crash in some(killed, "import after a conversion", depth(3, 1000)):
        system = crash.machine.kill_state()
        path = f"{ROOT}/sessions/{SESSION}/decisions.jsonl"
        if path not in files_below(system):
            continue
        line = b'{"id":"DEC-0099","timestamp":"2026-01-01T13:00:00Z","decision":"Pulled meanwhile"}\n'
        patch(system, path, lambda data: data + line)
        converted = open_on(system).convert("log")
        assert "Pulled meanwhile" in {record.text for record in converted.session(SESSION).records("decision")}
        assert converted.session(SESSION).validate().ok


def test_rest_of_a_transaction_whose_last_entry_was_removed_by_hand_stays(tmp_path: Path) -> None:
    """The lock file, or a later entry, tells that the transaction was complete."""
    session = smp_memory.open(tmp_path, layout="jsonl").create_session("s1")
    with session.transaction() as tx:
        tx.add_decision("Kept")
        tx.add_finding("Removed by a person", severity="low")
    (tmp_path / "sessions/s1/findings.jsonl").write_text("")
    assert [record.text for record in smp_memory.open(tmp_path).session("s1").records()] == ["Kept"]
    session.add_turn("user", "later")
    for path in (tmp_path / "sessions/s1/.smp").iterdir():
        path.unlink()
    assert {record.text for record in smp_memory.open(tmp_path).session("s1").records()} == {"Kept", "later"}


# -- real processes


def write_transactions(store: Path, number: int, pipe: int) -> None:
    """Write transactions over several files until killed; the number of each that is acknowledged goes to the pipe."""
    session = smp_memory.open(store).session("s1")
    while True:
        number += 1
        with session.transaction() as tx:
            tx.add_decision(f"decision {number}")
            tx.add_finding(f"finding {number}", severity="low")
            tx.update_agent_state("a", {"step": number})
        os.write(pipe, f"{number}\n".encode())
        if number % 5 == 0:
            session.compact(1 << 40)


def import_everything() -> None:
    """Another user cannot read the folder of the interpreter, so nothing may be imported later."""
    for part in (
        "config",
        "files",
        "store",
        "index",
        "lifecycle",
        "model",
        "observe",
        "privacy",
        "text",
        "write",
        "search",
        "git",
    ):
        package = importlib.import_module(f"smp_memory.{part}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)


def as_user(user: int, home: str, work: Callable[[], None]) -> int:
    """Do something in a child process of another user."""
    child = os.fork()
    if child == 0:
        try:
            os.environ["HOME"] = home
            for name in ("SMP_STATE_DIR", "XDG_STATE_HOME"):
                os.environ.pop(name, None)
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs two users")
@pytest.mark.parametrize("layout", ["jsonl", "markdown"])
def test_two_users_take_turns_under_kills(layout: str) -> None:
    """Root and another user write to one store and are killed: no transaction is half there, nothing acknowledged is lost."""
    chance, acknowledged = random.Random(layout), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder, store, home = Path(temporary), Path(temporary, "store"), Path(temporary, "home")
        session = smp_memory.open(store, layout=layout).create_session("s1")
        import_everything()
        with session.transaction() as tx:
            tx.add_turn("user", "first")
            tx.update_agent_state("a", {"step": 0})
        session.compact(1 << 40)
        home.mkdir()
        for path in [folder, home, store, *store.rglob("*")]:
            os.chown(path, 12345, 12345)
        for turn in range(depth(6, 40)):
            read_end, write_end = os.pipe()
            user, where = (0, folder / "nowhere") if turn % 2 == 0 else (12345, home if turn % 3 else folder / "none")
            last = acknowledged
            child = as_user(user, str(where), lambda last=last, end=write_end: write_transactions(store, last, end))
            os.close(write_end)
            with os.fdopen(read_end) as lines:
                acknowledged = [int(lines.readline()) for _ in range(chance.randint(1, 6))][-1]
                os.kill(child, signal.SIGKILL)
                acknowledged = ([acknowledged] + [int(line) for line in lines])[-1]
            os.waitpid(child, 0)
            found = {record.text for record in smp_memory.open(store).session("s1").records()}
            for number in range(1, acknowledged + 2):
                halves = (f"decision {number}" in found, f"finding {number}" in found)
                expected = [(True, True)] if number <= acknowledged else [(True, True), (False, False)]
                assert halves in expected, f"turn {turn}, transaction {number}"
            assert smp_memory.open(store).session("s1").validate().ok
        assert {path.stat().st_uid for path in store.rglob("*")} == {12345}, "files belong to the owner of their folder"
