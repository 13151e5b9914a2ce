"""Scenarios of the crash tests: steps on a store, and the check of a machine that restarts after a crash.

A scenario is a base (a disk on which everything is durable) and steps. Each step that returned is acknowledged. Whatever
happens then, a state is *right* if it holds what was acknowledged and the step under way entirely or not at all.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from smp_memory.files.memory_system import MemoryFileNode, MemoryFolderNode, MemoryNode, MemorySystem
from smp_memory.files.reader import SessionReader
from smp_memory.files.system import System
from smp_memory.lifecycle.clock_trust import NO_EVIDENCE
from smp_memory.memory import Memory, open_memory
from smp_memory.session import SessionMemory
from smp_memory.store.rewrite import SessionEdit, entries_of, private_name, rewrite
from smp_memory.testing import CrashingSystem, FrozenClock, PowerLoss

LAYOUTS = ("jsonl", "markdown", "single", "log")
ROOT = "/store"
SESSION = "scenario"
SOAK = int(os.environ.get("SMP_SOAK", "0"))


Case = TypeVar("Case")
View = dict[str, dict[str, Any]]  # session -> its head and its memories


def depth(daily: int, full: int) -> int:
    """How many of something to try: with SMP_SOAK=1 the full number, with SMP_SOAK=N N times as many."""
    return full * SOAK if SOAK else daily


def some(cases: Sequence[Case], seed: str, daily: int) -> Sequence[Case]:
    """All of the cases with SMP_SOAK, else `daily` of them in their order: the same ones in each run."""
    if SOAK or len(cases) <= daily:
        return cases
    return [cases[place] for place in sorted(random.Random(seed).sample(range(len(cases)), daily))]


class Wrong(AssertionError):
    """A promise was broken; the message says where."""


def open_on(system: System, layout: str | None = None, root: str = ROOT) -> Memory:
    return open_memory(root, layout=layout, system=system, clock=FrozenClock())


# What is there


def view_of(session: SessionMemory) -> dict[str, Any]:
    """Everything a caller can see of a session."""
    found: dict[str, Any] = {"": session.info.to_dict()}
    histories = session.memory.store.session(session.id).history().histories
    for name, history in histories.items():  # one look for all; `records` and `history` of each would look again
        record = history.record(session.id)
        found[name] = (record.to_dict() if record else None, history.steps())
    return found


def view(memory: Memory) -> View:
    return {session.id: view_of(session) for session in memory.sessions()}


def differences(expected: View, found: View) -> str:
    lines = []
    for session in sorted(expected.keys() | found.keys()):
        before, after = expected.get(session, {}), found.get(session, {})
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                lines.append(f"{session}/{name}: expected {before.get(name)}, found {after.get(name)}")
    return "\n".join(lines)


# Stories


class Step:
    def __init__(self, run: Callable[[Memory], Any], *, whole: bool = True) -> None:
        self.run = run
        self.whole = whole  # visible entirely or not at all, also after a crash


class Scenario:
    def __init__(self, name: str, layout: str, base: MemorySystem, steps: list[Step], *, damaged: bool = False) -> None:
        self.name = name
        self.layout = layout
        self.base = base
        self.steps = steps
        self.damaged = damaged  # the base has entries that cannot be read, so only a repair makes it valid
        self.views: list[View] = []
        memory = open_on(system := CrashingSystem(disk=base), layout)
        self.views.append(view(memory))
        first = system.calls
        for step in steps:
            memory = step.run(memory) or memory
            with open_on(MemorySystem(disk=system)) as looking:
                self.views.append(view(looking))
        self.calls = system.calls
        self.first_call = first + 1

    def run(self, system: System) -> tuple[int, bool]:
        """Go through the steps until the power fails. How many were acknowledged, and whether it was all."""
        done = 0
        try:
            memory = open_on(system, self.layout)
            for step in self.steps:
                memory = step.run(memory) or memory
                done += 1
        except PowerLoss:
            return done, False
        return done, True

    def check_view(self, found: View, done: int) -> None:
        """Acknowledged steps are there, the one under way is whole or absent."""
        before = self.views[done]
        if found == before:
            return
        if done == len(self.steps):
            raise Wrong(f"acknowledged, but not as it was:\n{differences(before, found)}")
        after = self.views[done + 1]
        if found == after:
            return
        if not self.steps[done].whole:
            names = {
                (session, name)
                for part in (before, after, found)
                for session, inner in part.items()
                for name in inner
                if found.get(session, {}).get(name) not in (before[session].get(name), after[session].get(name))
            }
            if not names:
                return
        raise Wrong(
            f"neither before nor after step {done + 1}:\nwithout it: {differences(before, found)}\n"
            f"with it: {differences(after, found)}"
        )


def _turn(text: str) -> Callable[[Memory], Any]:
    return lambda memory: _do(memory, lambda session: session.add_turn("user", text))


def _do(memory: Memory, what: Callable[[SessionMemory], Any]) -> None:
    what(memory.session(SESSION))


def do(what: Callable[[SessionMemory], Any], *, whole: bool = True) -> Step:
    return Step(lambda memory: _do(memory, what), whole=whole)


def _new_store(layout: str) -> MemorySystem:
    system = MemorySystem(boot="first")
    with open_on(system, layout) as memory:
        memory.create_session("other", user="bob").add_decision("In another session")
    return system


@functools.cache
def fresh_base(layout: str) -> MemorySystem:
    """A session without a memory."""
    system = _new_store(layout)
    with open_on(system) as memory:
        memory.create_session(SESSION, user="ann", agents=["a", "b"], project="p", tags=["x.y"], phase="one")
    return system


@functools.cache
def full_base(layout: str) -> MemorySystem:
    """A session with something in every file, changed, deleted and transacted before."""
    system = MemorySystem(disk=fresh_base(layout))
    with open_on(system) as memory:
        session = memory.session(SESSION)
        session.add_turn("user", "Ünïcödé, two\nlines\n\n## not a heading\n---\n")
        session.add_decision("Keep files", rationale="people read them", tags=["files"])
        session.add_finding("No lock", severity="high")
        session.add_preference("style", "brief")
        session.update_agent_state("a", {"step": 1})
        session.add_artifact("report.md", "# Report\n\n{}\n")
        session.add_decision("To be deleted")
        session.update("DEC-0001", rationale="people do read them")
        session.delete("DEC-0002")
        with session.transaction() as tx:
            tx.add_finding("in a transaction", severity="low")
            tx.add_decision("also in it")
    return system


def _many(session: SessionMemory) -> None:
    items: list[tuple[str, dict[str, Any]]] = []
    for number in range(3):
        items += [
            ("decision", {"decision": f"many {number}"}),
            ("turn", {"role": "user", "content": f"many\n{number}"}),
            ("finding", {"finding": f"many {number}", "severity": "low"}),
        ]
    session.add_many(items)


def _several_files(session: SessionMemory) -> None:
    with session.transaction() as tx:
        finding = tx.add_finding("transacted", severity="low")
        decision = tx.add_decision("transacted")
        tx.add_turn("assistant", "transacted")
        tx.relate(decision, finding, "resolves")
        tx.update_agent_state("b", {"step": 2})


def _change_several_files(session: SessionMemory) -> None:
    with session.transaction() as tx:
        tx.update("DEC-0001", rationale="transacted")
        tx.resolve("FIND-0001", "transacted", by="ann")
        tx.delete("PREF-0001", "transacted")
        tx.restore("DEC-0002")
        tx.add_artifact("more.md", "transacted")


def _one_file(session: SessionMemory) -> None:
    with session.transaction() as tx:
        for number in range(4):
            tx.add_decision(f"in one file {number}", rationale="long " * 40)


def _rewrite(session: SessionMemory) -> None:
    """Take memories out for good, change another, and put a file beside, all at once."""

    def edit(reader: SessionReader) -> SessionEdit:
        wanted = SessionEdit()
        wanted.destroys = True
        for entry in entries_of(reader, ["DEC-0002", "FIND-0002", "ART-0001"]):
            wanted.remove(entry)
        for entry in reader.session_history.histories["DEC-0001"].entries:
            new = entry.copy()
            new.data = {**entry.data, "rationale": "rewritten"}
            wanted.replace(entry, new)
        wanted.files = {private_name(reader, "quarantine/put-aside"): b"\xff\x00"}
        return wanted

    rewrite(session._storage, "rewriting", edit)


def _purge(session: SessionMemory) -> None:
    """Both looks, a day apart."""
    for day in (1, 2):
        session.purge(older_than=0, now=f"2026-02-0{day}T00:00:00Z", evidence=NO_EVIDENCE)


def _erase(session: SessionMemory) -> None:
    session.erase(["DEC-0001", "FIND-0002", "ART-0001", "STATE-a"], reason="asked to")


def _delete_several(session: SessionMemory) -> None:
    session.delete(types=["decision", "finding"], reason="asked to")


def _create(memory: Memory) -> None:
    memory.create_session("new", user="eve", agents=["z"], project="q", goal="to be there")


def _convert(to: str) -> Callable[[Memory], Memory]:
    return lambda memory: memory.convert(to)


def patch(system: System, path: str, change: Callable[[bytes], bytes]) -> None:
    """Change a file by hand."""
    fd = system.open(path, os.O_RDWR)
    data = change(system.pread(fd, 1 << 24, 0))
    system.ftruncate(fd, 0)
    system.pwrite(fd, data, 0)
    system.close(fd)


def files_below(system: System, folder: str = ROOT) -> Iterator[str]:
    for name in sorted(system.listdir(folder)):
        path = f"{folder}/{name}"
        if system.lstat(path).st_mode & 0o170000 == 0o040000:
            yield from files_below(system, path)
        else:
            yield path


def read(system: System, path: str) -> bytes:
    fd = system.open(path, os.O_RDONLY)
    try:
        return system.pread(fd, 1 << 24, 0)
    finally:
        system.close(fd)


def _damaged_base(layout: str) -> MemorySystem:
    """A session with an edit by hand, and an entry in the middle that nobody can read any more."""
    system = MemorySystem(disk=full_base(layout))
    for path in files_below(system):
        data = read(system, path)
        if SESSION in path and b"Keep files" in data:
            patch(system, path, lambda data: data.replace(b"Keep files", b"Keep all files", 1))
        if SESSION in path and b"No lock" in data and b"in a transaction" in data:
            start = data.index(b"No lock")
            patch(system, path, lambda data, start=start: data[: start - 40] + b"\xff{[" + data[start:])
    return system


def scenarios(layout: str) -> dict[str, Callable[[], Scenario]]:
    """Every protocol of a layout, by name; made when it is asked for."""
    full, fresh = functools.partial(full_base, layout), functools.partial(fresh_base, layout)
    told: dict[str, tuple[Callable[[], MemorySystem], list[Step]]] = {
        "create session": (full, [Step(_create)]),
        "first append": (fresh, [do(lambda session: session.add_decision("first"))]),
        "append": (full, [do(lambda session: session.add_decision("one more", tags=["x"]))]),
        "append again": (
            full,
            [do(lambda session: session.add_decision("one")), do(lambda session: session.add_decision("two"))],
        ),
        "append to several types": (
            fresh,
            [
                do(lambda session: session.add_turn("user", "several")),
                do(lambda session: session.add_artifact("a.txt", "several")),
                do(lambda session: session.update_agent_state("c", "several")),
                do(lambda session: session.add_learning("several")),
            ],
        ),
        "update": (
            full,
            [
                do(lambda session: session.update("DEC-0001", decision="Keep all files", rationale=None)),
                do(lambda session: session.resolve("FIND-0001", "lock added", by="ann")),
                do(lambda session: session.add_preference("style", "long")),
                do(lambda session: session.update_agent_state("a", {"step": 2})),
            ],
        ),
        "delete and restore": (
            full,
            [
                do(lambda session: session.delete("DEC-0001", "wrong")),
                do(lambda session: session.restore("DEC-0002")),
                do(lambda session: session.restore("DEC-0001")),
            ],
        ),
        "add many": (full, [do(_many, whole=False)]),
        "add many to new files": (fresh, [do(_many, whole=False)]),
        "transaction": (full, [do(_several_files), do(_change_several_files)]),
        "transaction in new files": (fresh, [do(_several_files)]),
        "transaction in one file": (full, [do(_one_file), do(_one_file)]),
        "transaction in one new file": (fresh, [do(_one_file)]),
        "repair": (functools.partial(_damaged_base, layout), [do(lambda session: session.repair())]),
        "rewrite": (full, [do(_rewrite)]),
        "delete several": (
            full,
            [do(_delete_several), do(lambda session: session.restore(types=["decision", "finding"]))],
        ),
        "purge": (full, [do(_purge)]),
        "erase": (full, [do(_erase)]),
        "change info": (full, [do(lambda session: session.change_info(project="other", tags=["new"]))]),
    }
    told |= {f"convert to {to}": (full, [Step(_convert(to))]) for to in LAYOUTS if to != layout}
    return {
        name: functools.partial(
            lambda name, base, steps: Scenario(name, layout, base(), steps, damaged=name == "repair"), name, base, steps
        )
        for name, (base, steps) in told.items()
    }


SCENARIOS = [(layout, name) for layout in LAYOUTS for name in scenarios(layout)]


@functools.cache
def scenario_named(layout: str, name: str) -> Scenario:
    return scenarios(layout)[name]()


# Crashes


class Crash:
    """The machine stopped before a call that changes something; so many steps were acknowledged."""

    def __init__(self, call: int, done: int, machine: CrashingSystem) -> None:
        self.call = call
        self.done = done
        self.machine = machine


class _Filmed(CrashingSystem):
    """A machine that keeps a picture of itself before each call: what a crash there leaves, without a run for each.

    How many calls there are differs a little from run to run (who holds the lock is written once a second, a session
    that is collected is opened anew); these are all calls of one run.
    """

    def __init__(self, disk: MemorySystem, unordered: bool) -> None:
        super().__init__(disk=disk, unordered=unordered)
        self.done = 0
        self.crashes: list[Crash] = []

    def _gate(self, call: str, changes: bool) -> None:
        super()._gate(call, changes)
        if changes:
            self.crashes.append(Crash(self.calls, self.done, self.kill_state()))


def crashes_of(scenario: Scenario, *, unordered: bool = False) -> list[Crash]:
    """A crash before every call of a scenario, and one behind the last."""
    system = _Filmed(scenario.base, unordered)
    memory = open_on(system, scenario.layout)
    system.crashes.clear()  # opening is not part of the scenario
    for step in scenario.steps:
        memory = step.run(memory) or memory
        system.done += 1
    assert system.crashes, scenario.name
    return [*system.crashes, Crash(system.calls + 1, system.done, system.kill_state())]


def fingerprint(system: MemorySystem) -> int:
    """The same for disks between which nobody can tell: names, content, inodes, links, modes and time stamps."""

    def look(node: MemoryNode) -> Any:
        what = (node.number, node.mode, node.links, node.modified, node.changed)
        if isinstance(node, MemoryFolderNode):
            return what, tuple((name, look(inner)) for name, inner in sorted(node.names.items()))
        return what, bytes(node.data) if isinstance(node, MemoryFileNode) else b""

    return hash(look(system._root))


# What must be true of a machine that comes back


def check_valid(session: SessionMemory, *, settled: bool = False) -> None:
    report = session.validate()
    if not report.ok:
        raise Wrong(f"not valid: {report}")
    if settled and any(problem.code == "torn" for problem in report.problems):
        raise Wrong(f"written to, and still torn: {report}")


def write_more(memory: Memory, acknowledged: list[str]) -> None:
    """Go on working: one append, one update of it, one transaction over several files, one more in each file."""
    session = memory.session(SESSION)
    acknowledged.append(session.add_decision("later").id)
    session.update(acknowledged[-1], rationale="later")
    with session.transaction() as tx:
        wishes = [tx.add_finding("later", severity="low"), tx.add_turn("user", "later"), tx.add_decision("later too")]
    acknowledged.extend(wish.id for wish in wishes)
    acknowledged.append(session.add_turn("assistant", "the last").id)


def check_survivor(scenario: Scenario, system: System, done: int) -> View:
    """Read, check, write more, read again: what etcd does to a broken log. What was there at first."""
    reader = open_on(system)
    found = view(reader)  # before anybody writes, so before anything is recovered
    scenario.check_view(found, done)
    if SESSION not in found:
        raise Wrong("the session is gone")
    writer = open_on(system)
    if scenario.damaged:
        writer.session(SESSION).repair()
        found = view(reader)
    elif done < len(scenario.steps) and not scenario.steps[done].whole:
        repair_holes(writer.session(SESSION), found)
    for session in reader.sessions():
        check_valid(session)
    new: list[str] = []
    write_more(writer, new)
    now = view(reader)
    if view(open_on(system)) != now:
        raise Wrong("a reader that was there before and a new one see different things")
    check_new(now, found, new)
    for session in writer.sessions():
        check_valid(session, settled=session.id == SESSION)
    return found


def repair_holes(session: SessionMemory, found: View) -> None:
    """Of many entries in one write, a power loss may keep the last and lose the first: then a repair is needed."""
    errors = [problem for problem in session.validate().problems if problem.severity == "error"]
    if errors:
        if any(problem.code not in ("damaged", "invalid") for problem in errors):
            raise Wrong(f"not valid: {errors}")
        session.repair()
        if view_of(session) != found[SESSION]:
            raise Wrong(f"repaired away:\n{differences(found, {SESSION: view_of(session)})}")


def check_new(now: View, before: View, new: list[str]) -> None:
    """All that was there is there unchanged, and the new memories under ids of their own."""
    if len(set(new)) < len(new) or set(new) & set(before[SESSION]):
        raise Wrong(f"an id was used twice: {new}")
    missing = [name for name in new if name not in now[SESSION]]
    if missing:
        raise Wrong(f"acknowledged and gone: {missing}")
    strange = [name for name in now[SESSION] if name not in before[SESSION] and name not in new]
    if strange:
        raise Wrong(f"nobody wrote {strange}")
    for name in new:
        now[SESSION].pop(name)
    if now != before:
        raise Wrong(f"changed by writing more:\n{differences(before, now)}")


def check_durable(scenario: Scenario, system: CrashingSystem, done: int, *, limit: int = 3) -> None:
    """Recover, write more, lose power: what was acknowledged in between is there, however the machine got here."""
    new: list[str] = []
    memory = open_on(system)  # not closed: the power is off
    if scenario.damaged:
        memory.session(SESSION).repair()
    write_more(memory, new)
    system.power_off()
    for state in system.crash_states(limit=limit):
        try:
            found = view(open_on(state))
            missing = [name for name in new if name not in found[SESSION]]
            if missing:
                raise Wrong(f"acknowledged and gone: {missing}")
            for name in new:
                found[SESSION].pop(name)
            if not scenario.damaged:
                scenario.check_view(found, done)
            if scenario.steps[0].whole:
                check_valid(open_on(state).session(SESSION))
        except Exception as error:
            raise Wrong(f"after another power loss ({state.story}): {error}") from error


def check_recovery(
    scenario: Scenario, disk: MemorySystem, done: int, chance: Any, *, tries: int, limit: int = 3
) -> None:
    """Crash again while recovering: still nothing is lost."""
    probe = CrashingSystem(disk=disk)
    before = view(open_on(probe))
    if scenario.damaged:
        open_on(probe).session(SESSION).repair()
    write_more(open_on(probe), [])
    for call in sorted(chance.sample(range(1, probe.calls + 1), min(tries, probe.calls))):
        system = CrashingSystem(disk=disk, crash_at=call)
        new: list[str] = []
        try:
            memory = open_on(system)
            if scenario.damaged:
                memory.session(SESSION).repair()
            write_more(memory, new)
        except PowerLoss:
            pass
        for state in (*system.crash_states(limit=limit), system.kill_state()):
            try:
                now = view(open_on(state))
                missing = [name for name in new if name not in now[SESSION]]
                if missing:
                    raise Wrong(f"acknowledged during the recovery and gone: {missing}")
                if not scenario.damaged:
                    lost = [name for name in before[SESSION] if name not in now[SESSION]]
                    if lost:
                        raise Wrong(f"gone after the recovery crashed: {lost}")
                check_survivor_after_recovery(scenario, state)
            except PowerLoss:
                raise
            except Exception as error:
                how = getattr(state, "story", "killed")
                raise Wrong(f"crash in call {call} of the recovery ({how}): {error}") from error


def check_survivor_after_recovery(scenario: Scenario, system: System) -> None:
    memory = open_on(system)
    found = view(memory)
    if scenario.damaged:
        memory.session(SESSION).repair()
        found = view(memory)
    elif not scenario.steps[0].whole:
        repair_holes(memory.session(SESSION), found)
    new: list[str] = []
    write_more(memory, new)
    check_new(view(open_on(system)), found, new)
    check_valid(open_on(system).session(SESSION), settled=True)
