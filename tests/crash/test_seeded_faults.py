"""Mutation tests of the crash tests: stores that are broken on purpose, each in one way, and the check that detects it.

A variant that its check lets pass is a hole in the suite. Each check also runs on the store as it is, and passes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from smp_memory.errors import LockTimeout, SessionNotFound, SMPError, StorageError
from smp_memory.files import reader as session_reader
from smp_memory.files.disk import TEMPORARY, Disk, OpenFile, identity
from smp_memory.files.journal import Journal, Plan
from smp_memory.files.lock import SessionLock, WriterState, decode_state
from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.reader import SessionReader
from smp_memory.files.writer import SessionWriter
from smp_memory.memory import open_memory
from smp_memory.session import SessionMemory
from smp_memory.store import convert
from smp_memory.testing import FrozenClock
from tests.crash import scenarios
from tests.crash.scenarios import (
    LAYOUTS,
    ROOT,
    SESSION,
    Scenario,
    Wrong,
    check_new,
    check_valid,
    crashes_of,
    depth,
    files_below,
    full_base,
    open_on,
    read,
    some,
    view,
    view_of,
)
from tests.crash.scenarios import (
    patch as edit,
)
from tests.crash.test_disk_full import check_failing_sync, check_fault, check_short_writes
from tests.crash.test_every_disk_call import kill_at, power_loss_at
from tests.crash.test_failing_reads import check_questions
from tests.crash.test_files_change_underneath import check_change as check_underneath
from tests.crash.test_torn_bytes import WRITES, Cut, check_all

pytestmark = pytest.mark.crash

Check = Callable[[str], None]  # of a layout; raises if the store is broken

# Checks


def power_loss(name: str) -> Check:
    def check(layout: str) -> None:
        scenario = _told(layout, name)
        for crash in crashes_of(scenario):
            power_loss_at(scenario, crash, depth(6, 16))

    check.__name__ = f"power loss before every call of: {name}"
    return check


def kill(name: str) -> Check:
    def check(layout: str) -> None:
        scenario = _told(layout, name)
        for crash in crashes_of(scenario):
            kill_at(scenario, crash)

    check.__name__ = f"kill before every call of: {name}"
    return check


def _told(layout: str, name: str) -> Scenario:
    """Told anew: a broken store makes other disk calls than a good one."""
    return scenarios.scenarios(layout)[name]()


def torn(name: str) -> Check:
    def check(layout: str) -> None:
        check_all(Cut(layout, full_base(layout), WRITES[name]), first=0)

    check.__name__ = f"cut at every byte of: {name}"
    return check


def faults(name: str) -> Check:
    def check(layout: str) -> None:
        scenario = _told(layout, name)
        for call in range(scenario.first_call, scenario.calls + 1):
            for error in ("ENOSPC", "EIO"):
                check_fault(scenario, call, error, False, False)
                check_fault(scenario, call, error, False, True)

    check.__name__ = f"every call fails of: {name}"
    return check


def read_faults(layout: str) -> None:
    """Every read of a question fails: it is answered rightly, or refused."""
    check_questions(layout, "records", 0)


def changed_underneath(layout: str) -> None:
    """Another program replaces a file that ends torn, before each call of a write."""
    with patch("smp_memory.files.reconciliation.STABLE_SECONDS", 0.0):
        for change in ("replaced by a longer one", "checked out, earlier"):
            for at in range(1, check_underneath(layout, True, change, "append", None) + 1):
                check_underneath(layout, True, change, "append", at)


class Meddling(MemorySystem):
    """A machine on which something else happens before a call that changes something."""

    def __init__(self, disk: MemorySystem, at: int | None, meddle: Callable[[], Any]) -> None:
        super().__init__(disk=disk)
        self.calls = 0
        self._at = at
        self._meddle = meddle
        self._meddling = False

    def _gate(self, call: str, changes: bool) -> None:
        if changes and not self._meddling:
            self.calls += 1
            if self.calls == self._at:
                self._meddling = True
                self._meddle()
                self._meddling = False


def _open_impatient(system: MemorySystem) -> SessionMemory:
    memory = open_memory(ROOT, system=system, clock=FrozenClock(), config={"concurrency": {"lock_timeout_ms": 1}})
    return memory.session(SESSION)


def _write_all_ways(session: SessionMemory, done: list[str]) -> None:
    done.append(session.add_decision("one").id)
    with session.transaction() as tx:
        wishes = [tx.add_decision("two"), tx.add_finding("two")]
    done += [wish.id for wish in wishes]
    session.update(done[0], impact="three")
    done.append(session.add_turn("user", "four").id)


def other_writer(layout: str) -> None:
    """Before every call of one writer another one comes: it gets through or is told to wait; all is there once."""
    calls = 1
    call = 0
    while call < calls:
        call += 1
        theirs: list[str] = []
        mine: list[str] = []

        def meddle(theirs: list[str] = theirs) -> None:
            try:
                _write_all_ways(_open_impatient(system), theirs)
            except LockTimeout:
                pass

        system = Meddling(full_base(layout), call, meddle)
        before = view(open_on(system))
        _write_all_ways(open_on(system).session(SESSION), mine)
        calls = system.calls
        check_new(view(open_on(system)), before, mine + theirs)
        check_valid(open_on(system).session(SESSION))


def other_reader(layout: str) -> None:
    """Before every call of a writer somebody reads: what is there is before or after, never in between."""
    for name in ("transaction", "transaction in one file", "repair", "change info"):
        scenario = _told(layout, name)
        calls = 1
        call = 0
        while call < calls:
            call += 1
            seen: list[Any] = []
            system = Meddling(scenario.base, call, lambda seen=seen: seen.append((view(open_on(system)), view(reader))))
            reader = open_on(system)
            view(reader)
            done, _ = scenario.run(system)
            calls = system.calls
            for fresh, kept in seen:
                if fresh not in scenario.views or kept not in scenario.views:
                    raise Wrong(f"{layout}, {name}: somebody saw half of it before call {call}")
            if view(reader) != scenario.views[done]:
                raise Wrong(f"{layout}, {name}: a reader missed something")


def taken_away_meanwhile(layout: str) -> None:
    """A session goes to the trash while somebody is about to write on: that one is told, and nothing is written."""
    system = MemorySystem(disk=full_base(layout))
    session = open_on(system).session(SESSION)
    session.add_decision("one")
    session.add_decision("two")
    open_on(system).delete_session(SESSION)
    try:
        session.add_decision("three")
    except SessionNotFound:
        return
    raise Wrong("something was written into the trash, and acknowledged")


def alternating_writers(layout: str) -> None:
    """Two processes take turns, and now and then the files are rewritten: every write is there once."""
    system = MemorySystem(disk=full_base(layout))
    before = view(open_on(system))
    writers = [open_on(system).session(SESSION) for _ in range(2)]
    done: list[str] = []
    for number in range(6):
        writer = writers[number % 2]
        done.append(writer.add_decision(f"turn {number}").id)
        if number % 3 == 2:
            path = next(
                path for path in files_below(system) if "/.smp/" not in path and b"Keep files" in read(system, path)
            )
            edit(system, path, lambda data: data + b"\xff\n")
            writers[(number + 1) % 2].repair()
            before = {**before, SESSION: {**before[SESSION], "": view_of(writer)[""]}}
        done.append(writer.add_decision(f"turn {number} again").id)
    check_new(view(open_on(system)), before, done)
    check_valid(open_on(system).session(SESSION))


def lock_files_stay(layout: str) -> None:
    """Who removes or replaces a lock file lets two processes hold it."""
    system = MemorySystem(disk=full_base(layout))
    session = open_on(system).session(SESSION)
    session.add_decision("one")
    before = _lock_files(system)
    if {os.path.basename(path) for path in before if SESSION in path} != {"lock", "queue"}:
        raise Wrong(f"not the lock files there should be: {sorted(before)}")
    session.add_decision("two")
    session.repair()
    open_on(system).session(SESSION).add_decision("three")
    if _lock_files(system) != before:
        raise Wrong("a lock file was removed or replaced")


def _lock_files(system: MemorySystem) -> dict[str, int]:
    return {path: system.lstat(path).st_ino for path in files_below(system) if path.endswith(("/lock", "/queue"))}


# Broken stores


@contextmanager
def broken(*patches: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for part in patches:
            stack.enter_context(part)
        yield


def _sync_only(self: OpenFile) -> None:
    self._system.sync(self._descriptor)


def _folders_only(self: OpenFile) -> None:
    if self.created:
        self._disk.sync_folder(os.path.dirname(self.path))


_read = Disk.read
_write_new = Disk.write_new
_apply_plan = Journal.apply
_sync = OpenFile.sync
_acquire = SessionLock.acquire
_release = SessionLock.release
_load_state = SessionWriter._load_state
_write_state = SessionWriter._write_state
_decode = decode_state


def _write_unsynced(self: Disk, path: str, data: bytes, *, sync: bool = True) -> None:
    _write_new(self, path, data, sync=False)


def _replace_without_folder(self: Disk, path: str, data: bytes) -> None:
    self.remove(path + TEMPORARY)
    self.write_new(path + TEMPORARY, data)
    self.system.replace(path + TEMPORARY, path)


def _replace_after_unlink(self: Disk, path: str, data: bytes) -> None:
    self.remove(path + TEMPORARY)
    self.write_new(path + TEMPORARY, data)
    self.remove(path)
    self.system.replace(path + TEMPORARY, path)
    self.sync_folder(os.path.dirname(path))


def _write_over(self: Disk, path: str, data: bytes) -> None:
    descriptor = self.system.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    self.system.write(descriptor, data)
    self.system.sync(descriptor)
    self.system.close(descriptor)
    self.sync_folder(os.path.dirname(path))


def _commit_unsynced(self: Journal, plan: Plan) -> None:
    with patch.object(Disk, "write_new", _write_unsynced), patch.object(Disk, "sync_folder", lambda self, path: None):
        _commit(self, plan)


_commit = Journal.commit


def _cleared_first(self: Journal, plan: Plan, is_applied: Any) -> None:
    self.clear()
    _apply_plan(self, plan, is_applied)


def _no_journal(self: SessionWriter, batch: Any, parts: dict[str, bytes]) -> None:
    for name, data in parts.items():
        file = self._files.get(name) or self._open(name)
        file.append(self._prefix_of(name, file) + data)


def _not_locked(self: SessionLock, timeout_seconds: float, notes: bytes = b"") -> bool:
    if self.descriptor < 0:
        self._open()
    return bool(notes) and self._is_unchanged(notes)


def _empty_if_unreadable(self: Disk, path: str, *where: int, **limits: int) -> bytes:
    try:
        return _read(self, path, *where, **limits)
    except StorageError:
        return b""


def _cut_blindly(self: Disk, path: str, size: int, tail: bytes) -> bool:
    descriptor = self.system.open(path, os.O_RDWR)
    self.system.ftruncate(descriptor, size)
    self.system.close(descriptor)
    return True


def _yes(self: SessionLock, notes: bytes) -> bool:
    return True


def _unlinked(self: SessionLock) -> None:
    _release(self)
    self._disk.remove(self._path)
    self.close()


def _always_the_same(self: OpenFile, known: list[int]) -> bool:
    self.identity = identity(self._system.fstat(self._descriptor))
    return True


def _none_written(*_: Any) -> dict[str, Any]:
    return {}


def _nothing(self: Any, *args: Any, **kwargs: Any) -> None:
    return None


def _any_boot(data: bytes, boot: str, is_session_file: Any) -> WriterState:
    start = data.find(b'["')
    return _decode(data, data[start + 2 : data.find(b'"', start + 2)].decode(errors="replace"), is_session_file)


def _own_numbers(self: SessionWriter, doing: str, by_us: bool) -> WriterState:
    numbers, seq = self._writer_state.numbers, self._writer_state.seq
    notes = _load_state(self, doing, by_us)
    if numbers:
        notes.numbers, notes.seq = numbers, seq
    return notes


def _one_write(self: OpenFile, data: bytes) -> None:
    self._system.write(self._descriptor, data)
    self.identity = identity(self._system.fstat(self._descriptor))


def _half_left(self: OpenFile, data: bytes) -> None:
    try:
        done = 0
        while done < len(data):
            done += self._system.write(self._descriptor, data[done:])
    finally:
        self.identity = identity(self._system.fstat(self._descriptor))


def _sync_says_yes(self: OpenFile) -> None:
    try:
        self._system.sync(self._descriptor)
    except OSError:
        pass


def _noted_at_once(self: SessionWriter, *, remember: bool = True, created: bool = False) -> None:
    _write_state(self, remember=remember, created=True)


def _thrown_away_first(disk: Disk, root: str) -> None:
    disk.remove_tree(os.path.join(root, convert.STAGING))
    _complete(disk, root)


_complete = convert.complete
_journal_append = Journal._append


def _trusted_append(self: Journal, name: str, offset: int, data: bytes, is_applied: Any) -> None:
    with patch.object(Disk, "sync_file", _nothing):
        _journal_append(self, name, offset, data, is_applied)


VARIANTS: dict[str, tuple[Callable[[], Any], Check, str]] = {
    "no sync at append": (
        lambda: patch.object(OpenFile, "sync", _folders_only),
        power_loss("append"),
        "jsonl",
    ),
    "no folder sync after a file was created": (
        lambda: patch.object(OpenFile, "sync", _sync_only),
        power_loss("first append"),
        "jsonl",
    ),
    "temporary file not synced before its rename": (
        lambda: patch.object(Disk, "write_new", _write_unsynced),
        power_loss("change info"),
        "jsonl",
    ),
    "rewritten files not synced before their renames": (
        lambda: patch.object(Disk, "write_new", _write_unsynced),
        power_loss("repair"),
        "log",
    ),
    "no folder sync after a rename": (
        lambda: patch.object(Disk, "replace", _replace_without_folder),
        power_loss("change info"),
        "log",
    ),
    "unlink before rename": (
        lambda: patch.object(Disk, "replace", _replace_after_unlink),
        power_loss("change info"),
        "markdown",
    ),
    "written over in place": (
        lambda: patch.object(Disk, "replace", _write_over),
        kill("change info"),
        "jsonl",
    ),
    "journal not synced before it is carried out": (
        lambda: patch.object(Journal, "commit", _commit_unsynced),
        power_loss("transaction"),
        "jsonl",
    ),
    "journal cleared before it is carried out": (
        lambda: patch.object(Journal, "apply", _cleared_first),
        kill("transaction"),
        "jsonl",
    ),
    "transaction without a journal": (
        lambda: patch.object(SessionWriter, "_store_by_journal", _no_journal),
        kill("transaction"),
        "jsonl",
    ),
    "readers do not know the journal": (
        lambda: patch.object(SessionReader, "_entries_of_plan", lambda self, plan: []),
        kill("transaction"),
        "log",
    ),
    "recovery trusts what a dead writer has not synced": (
        lambda: patch.object(Journal, "_append", _trusted_append),
        kill("transaction"),
        "jsonl",
    ),
    "lock never taken": (
        lambda: patch.object(SessionLock, "acquire", _not_locked),
        other_writer,
        "jsonl",
    ),
    "a turn goes on without looking who was there": (
        lambda: broken(
            patch("smp_memory.files.lock._TURN_SECONDS", 60.0), patch.object(SessionLock, "_is_unchanged", _yes)
        ),
        taken_away_meanwhile,
        "jsonl",
    ),
    "lock file unlinked on release": (
        lambda: patch.object(SessionLock, "release", _unlinked),
        lock_files_stay,
        "single",
    ),
    "file descriptor kept across a rewrite": (
        lambda: broken(
            patch.object(OpenFile, "is_unchanged", _always_the_same),
            patch.object(SessionWriter, "_append_to_replaced", _nothing),
        ),
        alternating_writers,
        "jsonl",
    ),
    "torn tail not cut off": (
        lambda: patch("smp_memory.files.reconciliation.cut_torn_end", _nothing),
        torn("decision"),
        "jsonl",
    ),
    "a file that cannot be read counts as empty": (
        lambda: patch.object(Disk, "read", _empty_if_unreadable),
        read_faults,
        "jsonl",
    ),
    "a torn end cut off without a comparison": (
        lambda: patch.object(Disk, "truncate_tail", _cut_blindly),
        changed_underneath,
        "log",
    ),
    "entries that another program took out not kept": (
        lambda: patch("smp_memory.files.reconciliation.write_missing", _none_written),
        changed_underneath,
        "jsonl",
    ),
    "notes trusted across a reboot": (
        lambda: broken(patch("smp_memory.files.reader.decode_state", _any_boot)),
        power_loss("append again"),
        "jsonl",
    ),
    "ids given without looking under the lock": (
        lambda: patch.object(SessionWriter, "_load_state", _own_numbers),
        alternating_writers,
        "single",
    ),
    "short write not completed": (
        lambda: patch.object(OpenFile, "append", _one_write),
        check_short_writes,
        "jsonl",
    ),
    "half a write left when the disk is full": (
        lambda: broken(
            patch.object(OpenFile, "append", _half_left),
            patch.object(OpenFile, "undo_appends", _nothing),
            patch.object(OpenFile, "is_unchanged", _always_the_same),
        ),
        faults("add many"),
        "jsonl",
    ),
    "failed sync ignored": (
        lambda: patch.object(OpenFile, "sync", _sync_says_yes),
        check_failing_sync,
        "jsonl",
    ),
    "readers show an unfinished one-file transaction": (
        lambda: patch.object(session_reader, "unfinished_transaction", _nothing),
        torn("group"),
        "single",
    ),
    "readers show a one-file transaction with holes": (
        lambda: patch.object(session_reader, "torn_offset", lambda *args: float("inf")),
        power_loss("transaction in one file"),
        "log",
    ),
    "readers show an unfinished transaction over several files": (
        lambda: broken(
            patch.object(Journal, "load", _nothing),
            patch.object(SessionWriter, "recover", SessionWriter.reconcile),
            patch.object(SessionReader, "_hide_incomplete_transactions", lambda self: False),
        ),
        other_reader,
        "jsonl",
    ),
    "a new file is noted before its folder is synced": (
        lambda: patch.object(SessionWriter, "_write_state", _noted_at_once),
        kill("first append"),
        "log",
    ),
    "what a dead conversion has written thrown away before its plan is carried out": (
        lambda: patch.object(convert, "complete", _thrown_away_first),
        kill("convert to log"),
        "single",
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_seeded_fault_is_detected(name: str) -> None:
    breaking, check, layout = VARIANTS[name]
    with breaking(), pytest.raises((Wrong, SMPError)) as caught:
        check(layout)
    assert not isinstance(caught.value.__cause__, (NameError, AttributeError, TypeError)), (
        "the variant itself is broken"
    )


ELSEWHERE = {check_failing_sync, check_short_writes, other_writer, other_reader, alternating_writers, lock_files_stay}
SOUND = {  # those from elsewhere run on every layout as it is: below, and in the file that they come from
    (check.__name__, layout): (check, layout) for _, check, layout in VARIANTS.values() if check not in ELSEWHERE
}


@pytest.mark.parametrize("name", some(list(SOUND), "sound", 8), ids="-".join)
def test_correct_store_passes_all_checks(name: tuple[str, str]) -> None:
    check, layout = SOUND[name]
    check(layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_writes_of_two_processes_interleave_without_loss(layout: str) -> None:
    other_writer(layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reads_between_writes_see_all_acknowledged_entries(layout: str) -> None:
    other_reader(layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_alternating_writers_lose_nothing(layout: str) -> None:
    alternating_writers(layout)
    lock_files_stay(layout)


def test_number_of_seeded_faults() -> None:
    assert len(VARIANTS) >= 14
