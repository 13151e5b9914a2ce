"""Changed bytes in any file: only the memories that they belong to are affected, the report says where, and nothing is deleted."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from smp_memory.errors import SessionCorrupt, SMPError
from smp_memory.files.layouts import layout_named
from smp_memory.files.memory_system import MemorySystem
from smp_memory.model.reports import Report
from smp_memory.session import SessionMemory
from smp_memory.testing import CrashingSystem
from tests.crash.scenarios import (
    LAYOUTS,
    ROOT,
    SESSION,
    Wrong,
    check_valid,
    depth,
    files_below,
    fresh_base,
    open_on,
    patch,
    read,
    scenario_named,
    view,
    view_of,
    write_more,
)

pytestmark = pytest.mark.crash

CASES = depth(48, 110)  # per layout, in files with memories
OTHERS = depth(12, 30)  # per layout, in each other file

Hits = list[tuple[int, int]]  # what was changed, in the file as it was
Mutation = tuple[bytes, Hits]


# How bytes change


def _spot(data: bytes, chance: random.Random, longest: int) -> tuple[int, int]:
    start = chance.randrange(len(data))
    return start, min(len(data), start + chance.randint(1, longest))


def flip(data: bytes, chance: random.Random) -> Mutation:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :], [(at, at + 1)]


def overwrite(data: bytes, chance: random.Random) -> Mutation:
    start, end = _spot(data, chance, 12)
    return data[:start] + chance.randbytes(end - start) + data[end:], [(start, end)]


def insert(data: bytes, chance: random.Random) -> Mutation:
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(chance.randint(1, 12)) + data[at:], [(at, at + 1)]


def insert_words(data: bytes, chance: random.Random) -> Mutation:
    at = chance.randrange(len(data))
    words = chance.choice(
        [b"oops", b"\n", b"\n\n", b"---\n", b"- ", b"# ", b"{", b'"', b"}\n", b"```\n", b"\t", b"<!-- "]
    )
    return data[:at] + words + data[at:], [(at, at + 1)]


def delete(data: bytes, chance: random.Random) -> Mutation:
    start, end = _spot(data, chance, 40)
    return data[:start] + data[end:], [(start, end)]


def truncate(data: bytes, chance: random.Random) -> Mutation:
    at = chance.randrange(len(data))
    return data[:at], [(at, len(data))]


def zero_block(data: bytes, chance: random.Random) -> Mutation:
    start = chance.randrange(len(data)) // 512 * 512
    end = min(len(data), start + 512)
    return data[:start] + bytes(end - start) + data[end:], [(start, end)]


def newline_gone(data: bytes, chance: random.Random) -> Mutation:
    ends = [at for at, byte in enumerate(data) if byte == 10]
    at = chance.choice(ends) if ends else len(data) - 1
    return data[:at] + data[at + 1 :], [(at, at + 1)]


def _lines(data: bytes) -> list[tuple[int, int]]:
    found, start = [], 0
    for line in data.splitlines(keepends=True):
        found.append((start, start + len(line)))
        start += len(line)
    return found


def double_line(data: bytes, chance: random.Random) -> Mutation:
    start, end = chance.choice(_lines(data))
    return data[:end] + data[start:end] + data[end:], [(start, end)]


def swap_lines(data: bytes, chance: random.Random) -> Mutation:
    lines = _lines(data)
    if len(lines) < 2:
        return flip(data, chance)
    (a, b), (c, d) = sorted(chance.sample(lines, 2))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:], [(a, b), (c, d)]


def crlf(data: bytes, chance: random.Random) -> Mutation:
    return data.replace(b"\n", b"\r\n"), []


def bom(data: bytes, chance: random.Random) -> Mutation:
    return b"\xef\xbb\xbf" + data, []


MUTATIONS: list[Callable[[bytes, random.Random], Mutation]] = [
    flip, overwrite, insert, insert_words, delete, truncate, zero_block, newline_gone, double_line, swap_lines, crlf, bom,
]  # fmt: skip


# What is there


@functools.cache
def whole(layout: str) -> MemorySystem:
    """A session with several memories in each file, changes, a deletion, transactions; the last entries stand alone."""
    system = MemorySystem(disk=fresh_base(layout))
    with open_on(system) as memory:
        session = memory.session(SESSION)
        for number in range(4):
            session.add_decision(f"decision {number}", rationale=f"because {number}\nand so on", tags=["t"])
            session.add_turn("user", f"turn {number}\n\n## with a heading\n\ntext {number}")
            session.add_finding(f"finding {number}", severity="low", evidence={"line": number})
            session.update_agent_state(f"agent{number % 2}", {"step": number})
        session.update("DEC-0001", rationale="changed")
        session.add_preference("style", "brief")
        session.delete("FIND-0002", "wrong")
        with session.transaction() as tx:
            for number in range(3):
                tx.add_decision(f"together {number}")
        with session.transaction() as tx:
            tx.add_decision("over files")
            tx.add_turn("user", "over files")
        session.add_artifact("a.md", "# Artifact\n\ntext")
        for number in range(2):
            session.add_decision(f"last {number}")
            session.add_turn("assistant", f"last {number}")
            session.add_finding(f"last {number}")
            session.add_preference(f"last{number}", "x")
    return system


def records(session: SessionMemory) -> dict[str, Any]:
    """What can be seen, without the head."""
    found: dict[str, Any] = {}
    for name, history in session.memory.store.session(session.id).history().histories.items():
        record = history.record(session.id)
        data = record.to_dict() if record else {}
        data.pop("edited", None)
        found[name] = (data, history.steps())
    return found


def owners(layout: str, path: str, data: bytes) -> list[tuple[int, int, str, str]]:
    """Which bytes belong to which memory, and to which transaction."""
    known = layout_named(layout)
    name = path.removeprefix(known.folder(ROOT, SESSION) + "/")
    found = []
    last = 0
    for piece in known.codec_of(name).decode(data):
        fields = piece.fields or {}  # with what stands before it
        found.append((last, piece.end + 1, str(fields.get("id")), str(fields.get("tx", ""))))
        last = piece.end
    return found


def hit_by(hits: Hits, parts: list[tuple[int, int, str, str]], size: int) -> set[str]:
    """The memories whose bytes were hit; a transaction that was cut off at the end of its file goes as a whole."""
    found = [part for part in parts if any(part[0] < end and start < part[1] for start, end in hits)]
    cut = {part[3] for part in found if part[3] and any(end >= size for _, end in hits)}
    return {part[2] for part in parts if part in found or part[3] in cut}


def is_cut_between(hits: Hits, parts: list[tuple[int, int, str, str]], size: int) -> bool:
    """Whole entries gone from the end of a file leave no trace in it: nobody can tell that from a file without them."""
    return any(end >= size and start - 1 <= part[1] - 1 <= start + 1 for start, end in hits for part in parts) or any(
        start == 0 and end >= size for start, end in hits
    )


@functools.cache
def memory_files(layout: str) -> tuple[str, ...]:
    known = layout_named(layout)
    folder = known.folder(ROOT, SESSION)
    session = open_on(MemorySystem(disk=whole(layout))).session(SESSION)
    return tuple(f"{folder}/{name}" for name in sorted(session._storage.sizes()))


def check_corrupt(layout: str, path: str, mutation: Mutation) -> None:
    data, hits = mutation
    base = whole(layout)
    before = records(open_on(MemorySystem(disk=base)).session(SESSION))
    old = read(base, path)
    hit = hit_by(hits, owners(layout, path, old), len(old))
    system = MemorySystem(disk=base, boot="later")
    patch(system, path, lambda _: data)

    session = open_on(system).session(SESSION)
    found = records(session)
    report = session.validate()
    if not is_cut_between(hits, owners(layout, path, old), len(old)):
        check_contained(before, found, hit, report, path)
    if read(system, path) != data:
        raise Wrong("reading changed a file")

    first = session.repair()
    check_valid(session, settled=True)
    repaired = records(open_on(system).session(SESSION))
    if not is_cut_between(hits, owners(layout, path, old), len(old)):
        check_contained(before, repaired, hit, report, path, " ".join(first.actions))
    again = session.repair()
    if again.actions:
        raise Wrong(f"repaired twice: first {first.actions}, then {again.actions}")
    if records(open_on(system).session(SESSION)) != repaired:
        raise Wrong("the second repair changed something")
    check_nothing_thrown_away(system, old, data)

    new: list[str] = []
    write_more(open_on(system), new)
    now = records(open_on(system).session(SESSION))
    if set(new) & set(before) or len(set(new)) < len(new):
        raise Wrong(f"an id was used twice: {new}")
    if {name: what for name, what in now.items() if name not in new} != repaired:
        raise Wrong("writing on changed what was there")
    check_valid(open_on(system).session(SESSION), settled=True)


def check_contained(
    before: dict[str, Any], found: dict[str, Any], hit: set[str], report: Report, path: str, actions: str = ""
) -> None:
    changed = {name for name in before | found if before.get(name) != found.get(name)}
    said = [problem for problem in report.problems if problem.path == path]
    named = {problem.id for problem in said if problem.code == "edited"}  # a deletion that now names another memory
    beyond = {name for name in changed if name in before and name not in hit and name not in named}
    if beyond:
        raise Wrong(f"{sorted(beyond)} changed, but only bytes of {sorted(hit)} did")
    strange = {name for name in changed if name not in before and name not in actions}
    if (
        strange
        - {problem.id for problem in said}
        - {name for problem in said for name in strange if name in problem.message}
    ):
        raise Wrong(f"{sorted(strange)} came from nowhere: {said}")
    if {name for name in changed if not _only_told_twice(before, found, name)} and not any(
        problem.line for problem in said
    ):
        raise Wrong(f"{sorted(changed)} changed, and nobody says so: {report}")


def _only_told_twice(before: dict[str, Any], found: dict[str, Any], name: str) -> bool:
    """A copy of a deletion changes nothing but the history, where the same step stands twice."""
    if name not in before or name not in found or before[name][0] != found[name][0]:
        return False
    return all(step in before[name][1] for step in found[name][1])


def check_nothing_thrown_away(system: MemorySystem, old: bytes, new: bytes) -> None:
    """Each line that was in the damaged file is somewhere: in a file of the session or in quarantine."""
    kept = (
        b"\n".join(read(system, path) for path in files_below(system))
        .replace(b"\r\n", b"\n")
        .replace(b'"', b"")
        .lower()
    )
    lines = {line.strip() for line in re.split(rb"[\r\n]+|(?<= -->)(?=\*\*)", new.removeprefix(b"\xef\xbb\xbf"))}
    for line in lines:
        inner = re.sub(rb" (?:#[0-9]{1,15}|<!-- [0-9]{1,15} -->)\Z", b"", line.strip(b"\0 "))  # the number is SMP's own
        signed = re.search(
            rb"checksum|sha256|^smp: |^<!-- end |^tx: |timestamp|[\0-\x1f]|  ", inner
        )  # written anew, if it was edited
        if len(inner) > 3 and inner.replace(b'"', b"").lower() not in kept and not signed and line not in old:
            raise Wrong(f"{inner!r} is nowhere")


def _case(layout: str, number: int) -> tuple[str, Mutation, str]:
    chance = random.Random(f"{layout} {number}")
    path = chance.choice(memory_files(layout))
    mutate = MUTATIONS[number % len(MUTATIONS)]
    return path, mutate(read(whole(layout), path), chance), mutate.__name__


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_changed_bytes_in_session_files_damage_only_their_memories(layout: str, part: int) -> None:
    for number in range(part, CASES, 4):
        path, mutation, how = _case(layout, number)
        try:
            check_corrupt(layout, path, mutation)
        except Exception as error:
            raise Wrong(f"case {number}: {how} {mutation[1]} in {path}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changed_bytes_in_lock_files_damage_nothing(layout: str) -> None:
    """They are no memories: nothing at all may change."""
    before = view(open_on(MemorySystem(disk=whole(layout))))
    paths = [path for path in files_below(whole(layout)) if path.endswith(("/lock", "/queue"))]
    assert paths
    for number in range(OTHERS):
        chance = random.Random(f"lock {layout} {number}")
        system = MemorySystem(disk=whole(layout), boot=chance.choice([None, "later"]))
        path = chance.choice(paths)
        old = read(system, path) or b"\n"
        patch(system, path, lambda _, old=old, chance=chance: chance.choice(MUTATIONS)(old, chance)[0])
        assert view(open_on(system)) == before, number
        new: list[str] = []
        write_more(open_on(system), new)
        now = view(open_on(system))
        assert not set(new) & set(before[SESSION]), number
        assert {name: now[SESSION].pop(name) for name in new}, number
        assert now == before, number


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changed_bytes_in_metadata_damage_no_memory(layout: str) -> None:
    """A damaged head costs no memory; a repair writes one anew and keeps the damaged one."""
    known = layout_named(layout)
    if not known.info_file:
        pytest.skip(
            "the head is a line of the log here, see test_changed_bytes_in_session_files_damage_only_their_memories"
        )
    path = f"{known.folder(ROOT, SESSION)}/{known.info_file}"
    before = records(open_on(MemorySystem(disk=whole(layout))).session(SESSION))
    for number in range(OTHERS):
        chance = random.Random(f"head {layout} {number}")
        system = MemorySystem(disk=whole(layout), boot="later")
        data, _ = chance.choice(MUTATIONS)(read(system, path), chance)
        patch(system, path, lambda _, data=data: data)
        session = open_on(system).session(SESSION)
        assert records(session) == before, number
        try:
            damaged = False
            assert session.info.id == SESSION
        except SessionCorrupt as error:
            damaged = True
            assert path in str(error)
            assert not session.validate().ok
        session.repair()
        check_valid(session)
        assert session.info.id == SESSION
        assert not session.repair().actions
        if damaged:
            kept = [read(system, name) for name in files_below(system) if "/quarantine/" in name]
            assert data in kept, number
        write_more(open_on(system), [])
        fresh = open_on(system).session(SESSION)
        assert {name: what for name, what in records(fresh).items() if name in before} == before, number


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changed_bytes_in_the_configuration_damage_no_memory(layout: str) -> None:
    """Damaged settings are an error that names the file, or none; corrected, everything is there."""
    path = f"{ROOT}/config.json"
    before = view(open_on(MemorySystem(disk=whole(layout))))
    for number in range(OTHERS):
        chance = random.Random(f"config {layout} {number}")
        system = MemorySystem(disk=whole(layout), boot="later")
        old = read(system, path)
        data, _ = chance.choice(MUTATIONS)(old, chance)
        patch(system, path, lambda _, data=data: data)
        try:
            if open_on(system).layout == layout:
                assert view(open_on(system)) == before, number
        except SMPError as error:
            assert str(error), number
        patch(system, path, lambda _, old=old: old)
        assert view(open_on(system)) == before, number


@pytest.mark.parametrize("layout", LAYOUTS)
def test_changed_bytes_in_the_journal_damage_no_memory(layout: str) -> None:
    """A writer died in a transaction and its journal is damaged: the memories of before are there, and work goes on."""
    scenario = scenario_named(
        layout, "transaction in new files" if layout in ("jsonl", "markdown") else "delete and restore"
    )
    if layout in ("single", "log"):
        scenario = scenario_named(layout, "repair")
    killed = []
    for call in range(scenario.first_call, scenario.calls + 1):
        system = CrashingSystem(disk=scenario.base, crash_at=call)
        done, _ = scenario.run(system)
        state = system.kill_state()
        if any(path.endswith("/journal.json") for path in files_below(state)):
            killed.append((state, done))
    assert killed, "no journal was ever there"
    for number in range(OTHERS):
        chance = random.Random(f"journal {layout} {number}")
        state, done = chance.choice(killed)
        system = MemorySystem(disk=state, boot=chance.choice([None, "later"]))
        path = next(path for path in files_below(system) if path.endswith("/journal.json"))
        data, _ = chance.choice(MUTATIONS)(read(system, path) or b"\n", chance)
        patch(system, path, lambda _, data=data: data)
        reader = open_on(system).session(SESSION)
        old = {name for name in scenario.views[done][SESSION] if name}
        assert old <= set(records(reader)), number
        session = open_on(system).session(SESSION)
        session.repair()
        check_valid(session)
        assert old <= set(records(session)), number
        new: list[str] = []
        write_more(open_on(system), new)
        assert not set(new) & old, number
        assert set(view_of(open_on(system).session(SESSION))) >= old | set(new), number
