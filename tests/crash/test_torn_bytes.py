"""A file is cut at every byte of the last write: earlier entries are read, the torn rest never is.

Without SMP_SOAK each of the three tests cuts at every third byte, each at others, and at the last bytes of the write; two of them of a
sample of the writes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import pytest

from smp_memory.files.memory_system import MemorySystem
from smp_memory.session import SessionMemory
from tests.crash.scenarios import (
    LAYOUTS,
    ROOT,
    SESSION,
    SOAK,
    View,
    Wrong,
    check_new,
    check_valid,
    differences,
    files_below,
    fresh_base,
    full_base,
    open_on,
    patch,
    read,
    some,
    view,
    view_of,
    write_more,
)

pytestmark = pytest.mark.crash

SIGNATURE = re.compile(rb"sha256:[0-9a-f]{16}")  # the last part of an entry; behind it only its closing marks


def _group(session: SessionMemory) -> None:
    with session.transaction() as tx:
        for number in range(3):
            tx.add_decision(f"group {number}", rationale="ünï: 'quoted' \"text\"\n- and a list\n")


WRITES: dict[str, Callable[[SessionMemory], Any]] = {
    "decision": lambda session: session.add_decision("torn", rationale="two\nlines: {}", tags=["x"]),
    "turn": lambda session: session.add_turn("user", "torn\n\n## Turn 7\n\ntext ünï\n"),
    "update": lambda session: session.update("DEC-0001", rationale="torn"),
    "group": _group,
    "artifact": lambda session: session.add_artifact("torn.md", "# Torn\n\n---\ntext"),
}
NEW = {"decision", "turn", "group"}  # also as the first write of a session, so that the file's header is torn too


class Cut:
    """A write, and the bytes it appended."""

    def __init__(self, layout: str, base: MemorySystem, write: Callable[[SessionMemory], Any]) -> None:
        self.before = view(open_on(MemorySystem(disk=base)))
        self.system = MemorySystem(disk=base)
        write(open_on(self.system).session(SESSION))
        self.after = view(open_on(MemorySystem(disk=self.system)))
        old = {path: read(base, path) for path in files_below(base)}
        changed = [
            path
            for path in files_below(self.system)
            if "/.smp/" not in path and read(self.system, path) != old.get(path, b"")
        ]
        assert len(changed) == 1, changed
        self.notes = {path: data for path, data in old.items() if path.endswith("/lock")}
        self.path = changed[0]
        self.data = read(self.system, self.path)
        self.start = len(old.get(self.path, b""))

    def content(self, size: int, *, zeros: bool) -> bytes:
        return self.data[:size] + (bytes(len(self.data) - size) if zeros else b"")

    def state(self, size: int, *, zeros: bool = False, notes: bool = True) -> MemorySystem:
        system = MemorySystem(disk=self.system, boot=None if notes else "later")
        data = self.content(size, zeros=zeros)
        patch(system, self.path, lambda _: data)
        for path in list(
            files_below(system)
        ):  # notes are written after the write that was torn: they are older than it
            if path.endswith(("/lock", "/queue")) and not (notes and path in self.notes):
                system.unlink(path)
            elif path in self.notes:
                patch(system, path, lambda _, older=self.notes[path]: older)
        return system


def check_readable(cut: Cut, found: View, torn: bytes) -> View:
    if found not in (cut.before, cut.after):
        raise Wrong(f"neither before nor after:\n{differences(cut.before, found)}")
    if found == cut.after and len(SIGNATURE.findall(torn)) < len(SIGNATURE.findall(cut.data[cut.start :])):
        raise Wrong("a torn entry is visible")
    return found


def check_cut(cut: Cut, system: MemorySystem) -> None:
    torn = read(system, cut.path)[cut.start :]
    reader = open_on(system)
    found = check_readable(cut, view(reader), torn)
    check_valid(reader.session(SESSION))
    new: list[str] = []
    write_more(open_on(system), new)
    _write_to_it(cut, system, new)
    now = view(open_on(system))
    if now != view(reader):
        raise Wrong("a reader that was there before and a new one see different things")
    check_new(now, found, new)
    check_valid(open_on(system).session(SESSION), settled=True)
    if found == cut.before and torn:
        check_kept(cut, system, torn, found)


def _write_to_it(cut: Cut, system: MemorySystem, new: list[str]) -> None:
    """One more write into the very file that was torn."""
    session = open_on(system).session(SESSION)
    if "artifacts" in cut.path:  # nobody may ever write to it again; a repair looks at every file
        session.repair()
    else:
        new.append(session.add_decision("into it").id)
        new.append(session.add_turn("user", "into it").id)


def check_kept(cut: Cut, system: MemorySystem, torn: bytes, found: View) -> None:
    """The torn bytes are in quarantine, or (a header, blank lines) still where they were."""
    kept = [read(system, path) for path in files_below(system) if "/quarantine/" in path]
    still = read(system, cut.path)[cut.start :].startswith(torn)
    if not still and not any(torn.endswith(data) and len(data) > 0 for data in kept):
        raise Wrong(f"{torn!r} is neither in quarantine nor in its file")


@functools.cache
def cut_of(layout: str, name: str, new: bool) -> Cut:
    return Cut(layout, (fresh_base if new else full_base)(layout), WRITES[name])


CASES = [(layout, name, False) for layout in LAYOUTS for name in WRITES]
CASES += [(layout, name, True) for layout in LAYOUTS for name in sorted(NEW)]
EVERY = 1 if SOAK > 1 else 7 if SOAK else 48  # how often to write on after a cut
LOOK = 1 if SOAK else 3  # how often to read after a cut
END = 12  # bytes: the last ones decide whether an entry counts


def check_all(cut: Cut, *, first: int, zeros: bool = False, notes: bool = True) -> None:
    looking = cut.state(cut.start, zeros=zeros, notes=notes)  # those who only read leave no trace, so one does for all
    for size in range(cut.start, len(cut.data)):
        if size % LOOK != first % LOOK and size < len(cut.data) - END:
            continue
        try:
            if size % EVERY == first:
                check_cut(cut, cut.state(size, zeros=zeros, notes=notes))
            else:
                data = cut.content(size, zeros=zeros)
                patch(looking, cut.path, lambda _, data=data: data)
                found = view_of(open_on(looking).session(SESSION))
                check_readable(cut, {**cut.before, SESSION: found}, data[cut.start :])
        except Exception as error:
            raise Wrong(f"cut at {size} of {cut.start}-{len(cut.data)}: {error}") from error


@pytest.mark.parametrize(("layout", "name", "new"), CASES)
def test_cut_at_every_byte(layout: str, name: str, new: bool) -> None:
    check_all(cut_of(layout, name, new), first=0)


@pytest.mark.parametrize(("layout", "name", "new"), some(CASES, "no locks", 16))
def test_cut_without_lock_files(layout: str, name: str, new: bool) -> None:
    """After a reboot, or in a copy of the store, there are no notes to help."""
    check_all(cut_of(layout, name, new), first=8 % EVERY, notes=False)


@pytest.mark.parametrize(("layout", "name", "new"), some(CASES, "zeros", 16))
def test_zeros_from_every_byte(layout: str, name: str, new: bool) -> None:
    """Some file systems know a file's new size before its new content: the rest is zeros."""
    check_all(cut_of(layout, name, new), first=16 % EVERY, zeros=True)


def test_cuts_tear_entries() -> None:
    for case in CASES:
        cut = cut_of(*case)
        assert len(cut.data) - cut.start > 50, case
        assert cut.path.startswith(ROOT)
        assert cut.before != cut.after, case
