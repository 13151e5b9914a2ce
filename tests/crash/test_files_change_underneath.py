"""Other programs change a session's files while SMP writes: git, editors, rsync, a restored backup.

Whatever another program puts into a file stays there, whole. What SMP acknowledged is in the files, or, if the other
program took it out, in quarantine. Only torn ends are cut off.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.errors import SMPError
from smp_memory.files import reconciliation as set_aside
from smp_memory.files.codec import SIGNED
from smp_memory.files.file_state import FileState
from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.reader import SessionReader
from smp_memory.session import SessionMemory
from tests.crash.scenarios import LAYOUTS, SESSION, Wrong, depth, files_below, full_base, open_on, patch, read
from tests.session_files import storage_of

pytestmark = pytest.mark.crash

Change = Callable[["Changing", str], None]


class Changing(MemorySystem):
    """A machine on which another program changes a file before the call number `at`, reading calls included."""

    def __init__(
        self, disk: MemorySystem, path: str, change: Change, at: int | None, *, in_place: bool = False
    ) -> None:
        super().__init__(disk=disk)
        self.calls = 0
        self.changed = False
        self._path, self._change, self.at = path, change, at
        self._not_before = ("ftruncate", "pwrite") if in_place else ()  # see the non-guarantees of `set_aside`
        self._is_other = False

    def _gate(self, call: str, changes: bool) -> None:
        if self.at is None or self._is_other or self.changed:
            return
        self.calls += 1
        if self.calls >= self.at and call not in self._not_before:
            self.changed = self._is_other = True
            self._change(self, self._path)
            self._is_other = False


def decisions_path(system: MemorySystem) -> str:
    return next(path for path in files_below(system) if SESSION in path and b"Keep files" in read(system, path))


@functools.cache
def states(layout: str) -> list[MemorySystem]:
    """A session that grows by a decision at a time."""
    found = [full_base(layout)]
    for number in range(4):
        found.append(MemorySystem(disk=found[-1]))
        with open_on(found[-1]) as memory:
            memory.session(SESSION).add_decision(f"more {number}", rationale="so " * (20 + 7 * number))
    return found


@functools.cache
def contents(layout: str) -> dict[str, bytes]:
    """The file with the decisions: as it is, as it was earlier, with more in it, and with a torn end."""
    path = decisions_path(full_base(layout))
    found = [read(system, path) for system in states(layout)]
    return {"earlier": found[1], "now": found[2], "more": found[4], "torn": found[2] + found[3][len(found[2]) :][:-30]}


def put_in_place(system: MemorySystem, path: str, data: bytes) -> None:
    """As rsync and most editors do it: a new file takes the name."""
    fd = system.open(path + ".other", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    system.write(fd, data)
    system.close(fd)
    system.replace(path + ".other", path)


def replaced_by(what: str) -> Callable[[str], Change]:
    return lambda layout: lambda system, path: put_in_place(system, path, contents(layout)[what])


def removed_and_made(what: str) -> Callable[[str], Change]:
    """As git does it."""

    def make(layout: str) -> Change:
        def change(system: Changing, path: str) -> None:
            system.unlink(path)
            put_in_place(system, path, contents(layout)[what])

        return change

    return make


def overwritten_by(what: str) -> Callable[[str], Change]:
    return lambda layout: lambda system, path: patch(system, path, lambda _: contents(layout)[what])


def appended(layout: str) -> Change:
    def change(system: Changing, path: str) -> None:
        entry = contents(layout)["more"][len(contents(layout)["now"]) :]
        patch(system, path, lambda data: data[: data.rfind(b"\n") + 1] + entry)

    return change


CHANGES: dict[str, tuple[Callable[[str], Change], bool]] = {  # and whether it is done in place
    "replaced by an earlier one": (replaced_by("earlier"), False),
    "replaced by a longer one": (replaced_by("more"), False),
    "checked out, earlier": (removed_and_made("earlier"), False),
    "checked out, longer": (removed_and_made("more"), False),
    "saved in place, earlier": (overwritten_by("earlier"), True),
    "saved in place, longer": (overwritten_by("more"), True),
    "appended to": (appended, True),
}


def _transaction(session: SessionMemory, done: list[str]) -> None:
    with session.transaction() as tx:
        wishes = [tx.add_decision("mine"), tx.add_finding("mine", severity="low")]
    done += [wish.id for wish in wishes]


WORK: dict[str, Callable[[SessionMemory, list[str]], Any]] = {
    "append": lambda session, done: done.append(session.add_decision("mine", rationale="mine " * 10).id),
    "appends": lambda session, done: [done.append(session.add_decision(f"mine {n}").id) for n in range(3)],
    "transaction": _transaction,
    "change info": lambda session, done: session.change_info(project="other"),
    "repair": lambda session, done: session.repair(),
}


def check_change(layout: str, torn: bool, change: str, work: str, at: int | None) -> int:
    """Let one piece of work run while the file changes before a call; how many calls there were."""
    make, in_place = CHANGES[change]
    base = MemorySystem(disk=states(layout)[2])
    path = decisions_path(base)
    if torn:
        patch(base, path, lambda _: contents(layout)["torn"])
    system = Changing(base, path, make(layout), None, in_place=in_place)
    session = open_on(system).session(SESSION)
    acknowledged = [record.id for record in session.records()]
    system.at = at or 1 << 30
    try:
        WORK[work](session, acknowledged)
    except SMPError:
        pass
    system.at = None
    brought = texts_in(layout, read(system, path)) if not system.changed else texts_in(layout, _brought(layout, change))
    acknowledged.append(session.add_decision("the last").id)
    check_nothing_lost(open_on(system).session(SESSION), acknowledged, brought)
    return system.calls


def _brought(layout: str, change: str) -> bytes:
    earlier = "earlier" in change
    return contents(layout)["earlier" if earlier else "more" if "longer" in change else "now"]


def texts_in(layout: str, data: bytes) -> set[str]:
    system = MemorySystem(disk=full_base(layout))
    patch(system, decisions_path(system), lambda _: data)
    return {record.decision for record in open_on(system).session(SESSION).records("decision", include_deleted=True)}


def check_nothing_lost(session: SessionMemory, acknowledged: list[str], brought: set[str]) -> None:
    """`brought` are ids or texts of decisions."""
    there = {record.id for record in session.records(include_deleted=True)}
    texts = {record.decision for record in session.records("decision", include_deleted=True)}
    if not brought <= there | texts:
        raise Wrong(f"another program wrote it, and it is gone: {sorted(brought - there - texts)}")
    kept = set()
    reader = storage_of(session).reader
    for name, entries, whole in quarantine(session):
        if set_aside.MISSING in name:
            kept |= entries
        elif whole:
            raise Wrong(f"whole entries were set aside in {name}: {whole}")
    lost = set(acknowledged) - there - kept
    if lost:
        raise Wrong(f"acknowledged and gone: {sorted(lost)}; in quarantine: {reader.disk.names(_folder(reader))}")
    if len(set(acknowledged)) < len(acknowledged):
        raise Wrong(f"an id was used twice: {acknowledged}")


def _folder(reader: SessionReader) -> str:
    return os.path.join(reader.private, set_aside.QUARANTINE)


def quarantine(session: SessionMemory) -> Iterator[tuple[str, set[str], set[str]]]:
    """Of each file: its name, the ids in it, and the ids of whole entries that are no part of a transaction."""
    reader = storage_of(session).reader
    names = reader.layout.files(reader.disk, reader.folder, reader.session)
    for name in reader.disk.names(_folder(reader)):
        file = next((each for each in names if name.startswith(each.replace("/", "_"))), names[0])
        data = reader.disk.read(os.path.join(_folder(reader), name))
        state = FileState()
        reader.decode(file, data, state)
        whole = {entry.id for entry in state.entries if entry.state == SIGNED and not entry.tx}
        yield name, {entry.id for entry in state.entries}, whole


CASES = list(itertools.product((False, True), CHANGES, WORK))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("torn", "change", "work"), CASES)
def test_foreign_change_before_any_disk_call_loses_nothing(
    layout: str, torn: bool, change: str, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_aside, "STABLE_SECONDS", 0.0)
    calls = check_change(layout, torn, change, work, None)
    chance = random.Random(f"{layout} {torn} {change} {work}")
    for at in chance.sample(range(1, calls + 1), min(depth(3, 40), calls)):
        try:
            check_change(layout, torn, change, work, at)
        except Exception as error:
            raise Wrong(f"{layout}, {work}, {change}, call {at} of {calls}: {error}") from error


# Real programs


class Writer(threading.Thread):
    """Adds decisions until it is told to stop; what was refused is not acknowledged."""

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self.memory = smp_memory.open(root, config={"durability": "os"})
        self.session = self.memory.session(SESSION)
        self.acknowledged: list[str] = []
        self.refused: list[SMPError] = []
        self.stop = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.wait(0.001):
                self.add("while the files change")
        except BaseException as error:
            self.failure = error

    def add(self, text: str) -> None:
        try:
            self.acknowledged.append(self.session.add_decision(text, rationale="x" * 200).id)
        except SMPError as error:
            self.refused.append(error)

    def rounds(self, count: int) -> Iterator[int]:
        """As many, and more until something was written meanwhile."""
        for turn in range(count * 100):
            if turn >= count and len(self.acknowledged) > 10:
                return
            yield turn

    def finish(self) -> None:
        self.stop.set()
        self.join(60)
        assert self.failure is None, self.failure
        self.add("the last")


def git(root: Path, *arguments: str) -> int:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.fsync=none", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, check=False, timeout=60).returncode


def grown(root: Path, layout: str, count: int) -> SessionMemory:
    with smp_memory.open(root, layout=layout, config={"durability": "os"}) as memory:
        session = memory.create_session(SESSION) if not memory.sessions() else memory.session(SESSION)
        session.add_many([("decision", {"decision": f"kept {n}", "rationale": "y" * 300}) for n in range(count)])
    return session


def decisions_file(root: Path) -> Path:
    return next(path for path in root.rglob("*") if path.is_file() and ".smp" not in path.parts and ".git" not in path.parts and b"kept 0" in path.read_bytes())  # fmt: skip


def ids_on_disk(root: Path) -> set[str]:
    with smp_memory.open(root) as memory:
        return {record.id for record in memory.session(SESSION).records(include_deleted=True)}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_git_checkout_while_a_process_writes_loses_nothing(tmp_path: Path, layout: str) -> None:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    root = tmp_path / "store"
    grown(root, layout, 40)
    (root / ".gitignore").write_text(".smp/\n")
    assert git(root, "init", "-q") == git(root, "add", "-A") == git(root, "commit", "-qm", "one") == 0
    first = ids_on_disk(root)
    git(root, "branch", "one")
    grown(root, layout, 40)
    assert git(root, "commit", "-qam", "two") == 0
    second = ids_on_disk(root)
    git(root, "branch", "two")
    writer = Writer(root)
    writer.start()
    for turn in writer.rounds(depth(8, 150)):
        while git(root, "checkout", "-qf", ("one", "two")[turn % 2]):
            time.sleep(0.001)  # SMP made the file in the moment in which it was not there
        time.sleep(0.003)
    writer.finish()
    check_nothing_lost(smp_memory.open(root).session(SESSION), writer.acknowledged, second if turn % 2 else first)


def _saved_in_place(path: Path, data: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate()
        half = len(data) // 2
        file.write(data[:half])
        file.flush()
        file.write(data[half:])


def _renamed_over(path: Path, data: bytes) -> None:
    other = path.with_name(path.name + ".rsync")
    other.write_bytes(data)
    other.chmod(0o600)
    other.replace(path)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("save", [_renamed_over, _saved_in_place])
def test_a_restored_backup_while_a_process_writes_loses_nothing(
    tmp_path: Path, layout: str, save: Callable[[Path, bytes], None]
) -> None:
    root = tmp_path / "store"
    grown(root, layout, 40)
    path = decisions_file(root)
    backup, first = path.read_bytes(), ids_on_disk(root)
    writer = Writer(root)
    writer.start()
    for _ in writer.rounds(depth(15, 300)):
        save(path, backup)
        time.sleep(0.004)
    writer.finish()
    check_nothing_lost(
        smp_memory.open(root).session(SESSION), writer.acknowledged, first if save is _renamed_over else set()
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_entries_that_a_restored_backup_lacks_are_kept_once_and_reported(
    tmp_path: Path, layout: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    path = decisions_file(root)
    backup = path.read_bytes()
    with smp_memory.open(root) as memory, smp_memory.open(root) as other:
        session, second = memory.session(SESSION), other.session(SESSION)
        gone = session.add_decision("not in the backup").id
        assert gone in {record.id for record in second.records()}
        _renamed_over(path, backup)
        with caplog.at_level(logging.WARNING, "smp_memory"):
            new = session.add_decision("after it").id
        assert new != gone
        assert [gone] == [id for name, ids, _ in quarantine(session) if set_aside.MISSING in name for id in ids]
        assert len(caplog.records) == 1
        assert "not in the backup" not in caplog.text
        second.add_decision("by the other one")
        assert sum(1 for _ in quarantine(session)) == 1
        problems = session.validate().problems
        assert [(each.code, each.severity) for each in problems] == [("missing_after_change", "warning")]
        assert session.validate().ok


@pytest.mark.parametrize("layout", LAYOUTS)
def test_validate_reports_entries_that_a_checkout_took_away(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    path = decisions_file(root)
    backup = path.read_bytes()
    grown(root, layout, 2)
    _renamed_over(path, backup)
    with smp_memory.open(root) as memory:
        problems = memory.session(SESSION).validate().problems
        assert [(each.code, each.severity) for each in problems] == [("missing_entries", "warning")]
        assert "5" in problems[0].message
        assert "3" in problems[0].message


@pytest.mark.parametrize("layout", LAYOUTS)
def test_erased_entries_are_not_reported_as_missing(tmp_path: Path, layout: str) -> None:
    root = tmp_path / "store"
    grown(root, layout, 3)
    with smp_memory.open(root) as memory, smp_memory.open(root) as other:
        session = memory.session(SESSION)
        gone = session.add_decision("a secret", rationale="tapir").id
        assert session.get(gone)
        other.erase([f"{SESSION}/{gone}"])
        session.add_decision("after it")
        session.records()
        session.add_decision("and again")
        assert list(quarantine(session)) == []
        assert not any(b"tapir" in path.read_bytes() for path in root.rglob("*") if path.is_file())


class SlowProgram:
    """A clock on which another program writes the rest of a file after this many seconds of waiting."""

    def __init__(self, after_seconds: float, finish: Callable[[], None]) -> None:
        self._now, self._end, self._finish = time.time(), time.time() + after_seconds, finish

    def time(self) -> float:
        return self._now

    def time_ns(self) -> int:
        return int(self._now * 1e9)

    def sleep(self, seconds: float) -> None:
        before, self._now = self._now, self._now + seconds
        if before < self._end <= self._now:
            self._finish()


@pytest.mark.parametrize(
    "layout", [name for name in LAYOUTS if name != "markdown"]
)  # there, half an entry is an edited one
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_transaction_that_another_program_writes_slowly_is_not_cut_off(
    layout: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git was held up after the first entries of a transaction for longer than a file must be unchanged."""
    system = MemorySystem(disk=full_base(layout))
    with open_on(system) as memory:
        session = memory.session(SESSION)
        with session.transaction() as changes:
            for number in range(8):
                changes.add_decision(f"together {number}", rationale="so " * 30)
        path = decisions_path(system)
        whole = read(system, path)
        start = whole.index(b"together 0")
        cut = start + int((len(whole) - start) * share)
        put_in_place(system, path, whole[:cut])
        clock = SlowProgram(0.1, lambda: patch(system, path, lambda data: whole if data == whole[:cut] else data))
        monkeypatch.setattr(set_aside, "time", clock)
        session.add_decision("after it")
        assert [name for name, _, _ in quarantine(session)] == []
        texts = {record.decision for record in session.records("decision")}
        assert {f"together {number}" for number in range(8)} | {"after it"} <= texts


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("left", ["nothing", "an empty file", "the first half"])
def test_entries_that_come_back_do_not_stay_in_quarantine(
    layout: str, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git was held up between removing a file and writing the new one; then all its entries stood in quarantine, too."""
    monkeypatch.setattr(set_aside, "STABLE_SECONDS", 0.0)
    system = MemorySystem(disk=states(layout)[2])
    with open_on(system) as memory:
        session = memory.session(SESSION)
        session.add_decision("mine")
        session.records()
        path = decisions_path(system)
        whole = read(system, path)
        if left == "nothing":
            system.unlink(path)
        else:
            put_in_place(system, path, whole[: len(whole) // 2] if left == "the first half" else b"")
        try:
            session.add_decision("meanwhile")
        except SMPError:
            pass
        put_in_place(system, path, whole)
        session.add_decision("the last")
        stored = {record.id for record in session.records(include_deleted=True)}
        assert [ids & stored for _, ids, _ in quarantine(session) if ids and ids <= stored] == []
        assert "mine" in {record.decision for record in session.records("decision")}
