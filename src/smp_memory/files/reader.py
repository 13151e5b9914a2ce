"""What does a session hold? Reading its files without a lock, and only as much of them as is new.

Guarantees
- A reader sees whole entries and whole transactions only, and everything that was acknowledged before it looked.
- It never writes. What is damaged is a `Problem` with file and line; everything else is there.
- A read that fails is an error and leaves nothing behind: the next one reads again. Only what is not there is empty.
- Edits by hand are seen by the next read.

How: each file's entries are kept with the identity of the file. A file that looks the same is not read again. One
that grew is read from where we stopped if the writers' notes say that nothing but appends happened; otherwise it is
read anew. If a file was replaced while we looked, or part of a transaction is missing, we look again. A committed plan
that is still being carried out (or whose writer died) is read as if it had been carried out.
"""

from __future__ import annotations

import gc
import os
import threading
import time

from smp_memory.errors import InvalidRecord, StorageCorrupt
from smp_memory.files import correction_hints, typed_entries
from smp_memory.files import writer_state as notes_file
from smp_memory.files.codec import CONFLICT, EDITED, SIGNED, TORN, UNSIGNED
from smp_memory.files.disk import identity
from smp_memory.files.folded_entries import entries_of
from smp_memory.files.journal import Journal, Plan
from smp_memory.files.lock import HOLDER_BYTES
from smp_memory.files.torn_writes import torn_from, unfinished_group
from smp_memory.files.writer_state import numbers_in_head
from smp_memory.model.entry import Entry
from smp_memory.model.history import SessionHistory
from smp_memory.model.reports import Problem
from smp_memory.model.types import SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.files.codec import Stored
    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout

_LOOKS = 200
_LARGE_BYTES = 1 << 18


class FileState:
    """What we know of one file."""

    __slots__ = (
        "end",
        "entries",
        "epoch",
        "heads",
        "identity",
        "line",
        "noted_epoch",
        "problems",
        "typed",
        "unterminated",
    )

    def __init__(self) -> None:
        self.identity: list[int] = []
        self.epoch: int | None = None
        self.noted_epoch: int | None = None  # in the notes when it was read, even if they did not describe it as read
        self.end = 0  # where the last whole entry ends
        self.line = 1
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.typed: list[Entry] = []  # of `entries`, those without an id or a time
        self.heads: list[dict[str, Any]] = []  # heads of the session that stand in the log itself
        self.unterminated = False  # the last line is whole but has no line end


class SessionReader:
    """The files of one session as this process last saw them. Whoever looks at `states` holds `mutex`."""

    def __init__(self, disk: Disk, layout: Layout, root: str, session: str) -> None:
        self.disk = disk
        self.layout = layout
        self.session = session
        self.folder = layout.folder(root, session)
        self.private = layout.private(root, session)
        self.journal = Journal(disk, os.path.join(self.private, "journal.json"), self.folder, session)
        self.mutex = threading.RLock()
        self.states: dict[str, FileState] = {}
        self.session_history = self._new_history()
        self.vanished: dict[str, list[Entry]] = {}  # were read once, and are in no file any more; by file
        self.vanished_from = ""  # the lineage that they were read in, see `smp_memory.files.writer_state`
        self.lineage = ""  # of the files as they were read
        self._overlaid = False
        self._is_behind = False  # the fold lacks entries of `states`, since a read failed
        self._complete_until = 0  # entries up to this number were written whole, say the notes of this boot
        self._noted_bytes: dict[str, int] = {}  # of each file; behind them may be what could not be taken back

    def forget(self) -> None:
        """Read everything anew next time."""
        self.states = {}
        self.session_history = self._new_history()
        self._overlaid = self._is_behind = False
        self.lineage = ""
        self._complete_until = 0
        self._noted_bytes = {}

    def _new_history(self) -> SessionHistory:
        return SessionHistory(lambda: numbers_in_head(self))

    # -- the whole session

    def catch_up(self) -> SessionHistory:
        """Read what is new; the result holds all that was acknowledged before the call."""
        with self.mutex:
            return self._catch_up()

    def _catch_up(self) -> SessionHistory:
        try:
            return self._look_until_whole()
        except BaseException:
            self._is_behind = True
            raise

    def _look_until_whole(self) -> SessionHistory:
        fresh: list[Entry] = []
        rebuild = False
        plan = None
        for look in range(_LOOKS):
            plan = self.journal.load() if self.journal.exists() else None
            before = self._identities(plan)
            more, changed = self._read_changed(before, plan)
            fresh += more
            rebuild = rebuild or changed
            if not (fresh or rebuild or plan or self._must_rebuild_history()):
                return (
                    self.session_history
                )  # no file differs from what was read before, so there is nothing to compare again
            if self._was_replaced(before, plan):
                continue
            self._rebuild_history(fresh, rebuild, plan)
            fresh, rebuild = [], False
            if not self.session_history.unfinished() or look > 20 or (look > 2 and before == self._identities(plan)):
                break  # an unfinished transaction that stays so was cut by hand: show what is left
            time.sleep(0.0005 * look)
        if fresh or rebuild:
            self._rebuild_history(fresh, rebuild, plan)
        return self.session_history

    def _must_rebuild_history(self) -> bool:
        return self._overlaid or self._is_behind or bool(self.session_history.unfinished())

    def _was_replaced(self, before: dict[str, list[int]], plan: Plan | None) -> bool:
        """Whether a file was replaced, added or taken away meanwhile, or a plan to do so was committed."""
        now = self._identities(plan)
        if any(now.get(name, [0])[0] != before.get(name, [0])[0] for name in before | now):
            return True
        return plan is None and self.journal.exists() and self.journal.load() is not None

    def _identities(self, plan: Plan | None) -> dict[str, list[int]]:
        found = {}
        for name in self._names(plan):
            state = self.disk.stat(self._path(name, plan))
            if state is not None:
                found[name] = identity(state)
        return found

    def _names(self, plan: Plan | None) -> list[str]:
        names = self.layout.files(self.disk, self.folder, self.session)
        if plan is not None:
            gone = set(plan.removes)
            ours = [target for _, target in plan.moves if self.layout.may_hold_entries(target)]
            names = [name for name in dict.fromkeys([*names, *ours]) if name not in gone]
        return names

    def _path(self, name: str, plan: Plan | None) -> str:
        if plan is not None:
            for source, target in plan.moves:
                if target == name and self.disk.exists(os.path.join(self.folder, source)):
                    return os.path.join(self.folder, source)
        return os.path.join(self.folder, name)

    def _read_changed(self, identities: dict[str, list[int]], plan: Plan | None) -> tuple[list[Entry], bool]:
        """Bring the states up to date. Returns the new entries, and whether anything but appends happened."""
        fresh: list[Entry] = []
        rebuild = False
        notes = None
        before: dict[str, list[Entry]] = {}  # of files that are gone, or not what they were
        try:
            for name in [name for name in self.states if name not in identities]:
                notes = notes or self.notes()
                before[name] = self.states.pop(name).entries
                rebuild = True
            for name, found in identities.items():
                state = self.states.get(name)
                if state is not None and state.identity == found:
                    continue
                if notes is None:
                    notes = self.notes()
                self._complete_until = notes.seq if notes.files else 0
                self._noted_bytes = {file: known[1] for file, known in notes.files.items()}
                epoch = notes.unchanged(name, found)
                if epoch is None and state is not None and state.epoch is not None:
                    found, epoch = self._look_again(name, found, plan)
                if state is not None and self._only_grew(name, state, found, epoch):
                    fresh += self._read_from(name, state, found, plan)
                    continue
                if state is not None:
                    rebuild = True
                    before[name] = state.entries
                state = FileState()
                state.epoch = epoch
                state.noted_epoch = epoch if epoch is not None else notes.epoch(name)
                fresh += self._read_from(name, state, found, plan)
        finally:
            if notes is not None:
                if before:
                    self._note_vanished(before, notes.lineage)
                self.lineage = notes.lineage
        return fresh, rebuild

    def _note_vanished(self, before: dict[str, list[Entry]], lineage: str) -> None:
        """Keep entries that a program other than SMP took out; the next writer of this process sets them aside."""
        if not lineage or lineage != self.lineage:
            return
        if self.vanished_from != lineage:
            self.vanished, self.vanished_from = {}, lineage
        there = {entry.key for state in self.states.values() for entry in state.entries}
        for name, entries in before.items():
            self.vanished.setdefault(name, []).extend(
                entry for entry in entries if entry.key not in there and not entry.lacks
            )

    def _look_again(self, name: str, found: list[int], plan: Plan | None) -> tuple[list[int], int | None]:
        """A writer may be between its write and its notes; to wait for it is cheaper than to read a large file anew."""
        for _ in range(3):
            time.sleep(0.0002)
            now = self.disk.stat(self._path(name, plan))
            if now is None:
                break
            found = identity(now)
            epoch = self.notes().unchanged(name, found)
            if epoch is not None:
                return found, epoch
        return found, None

    def _only_grew(self, name: str, state: FileState, found: list[int], epoch: int | None) -> bool:
        return epoch is not None and epoch == state.epoch and found[0] == state.identity[0] and found[1] >= state.end

    def _read_from(self, name: str, state: FileState, found: list[int], plan: Plan | None) -> list[Entry]:
        """Read a file on from where its state ends. Nothing is remembered of a read that fails."""
        problem = None
        try:
            try:
                data = self.disk.read(self._path(name, plan), state.end)
            except FileNotFoundError:  # moved to its place just now
                data = self.disk.read(os.path.join(self.folder, name), state.end)
        except FileNotFoundError:
            return []  # taken away just now: the next look does not find it
        except StorageCorrupt as error:
            data, problem = b"", Problem(self._shown(name), 0, "not_a_file", error.message)
        self.states[name] = state
        if problem is not None:
            state.problems.append(problem)
        count = len(state.entries)
        paused = len(data) > _LARGE_BYTES and gc.isenabled()
        if paused:  # entries hold no cycles; to look for some again and again costs a third of the time
            gc.disable()
        try:
            self.decode(name, data, state)
        except BaseException:
            del self.states[name]
            raise
        finally:
            if paused:
                gc.enable()
        state.identity = found
        if state.typed:
            typed_entries.give_times(state)
        return state.entries[count:]

    def stored(self, name: str) -> Stored:
        """Up to which number and byte of a file entries are known to have been written whole."""
        return self._complete_until, self._noted_bytes.get(name, 0)

    def decode(self, name: str, data: bytes, state: FileState) -> None:
        """Add the entries of a file's rest to its state; stop before a torn end or an unfinished group."""
        codec, kind = self.layout.codec_of(name), self.layout.kind_of(name)
        pieces = codec.decode(data, state.end, state.line, self.stored(name))
        start, end = state.end, state.end + len(data)
        last_seq = state.entries[-1].seq if state.entries else 0
        mark = len(state.entries)
        starts: list[int] = []
        torn = torn_from(pieces, data, start)
        shown = self._shown(name)
        heads, dialect = not self.layout.info_file, self.layout.dialect
        at_the_end = False  # whether the last thing in the file is an entry
        for piece in pieces:
            if piece.state == TORN or piece.start >= torn:
                end = int(min(piece.start, torn))
                break
            at_the_end = False
            if piece.fields is None:
                code = "conflict" if piece.state == CONFLICT else "damaged"
                severity = "warning" if piece.state == CONFLICT else "error"
                text = data[piece.start - start : piece.end - start]
                message = (
                    piece.message if code == "conflict" else correction_hints.advice(text, piece.line, piece.message)
                )
                state.problems.append(Problem(shown, piece.line, code, message, severity))
                continue
            if heads and piece.fields.get("type") == "session":
                state.heads.append(piece.fields)
                continue
            try:
                entries = entries_of(dialect, piece.fields, kind, piece.state, shown, piece.line, last_seq)
            except InvalidRecord as error:
                state.problems.append(Problem(self._shown(name), piece.line, "invalid", error.message))
                continue
            at_the_end, noted = True, None
            last_seq = entries[0].seq  # of a memory with its changes: where it stands
            for entry in entries:
                entry.place = (piece.start, piece.end)
                state.entries.append(entry)
                starts.append(piece.start)
                if (entry.state != SIGNED or entry.schema > SCHEMA) and noted is None:
                    noted = entry
            if noted is not None:
                self._note_state(name, noted.state, noted, state)
        complete_until = self._complete_until if end <= self._noted_bytes.get(name, end) else 0
        cut = unfinished_group(state.entries[mark:], complete_until) if at_the_end else None
        if cut is not None:
            end = min(end, starts[cut])
            del state.entries[mark + cut :]
            state.typed = [entry for entry in state.typed if entry.place[0] < end]
        settled = data[: end - start]
        state.unterminated = bool(settled) and not settled.endswith(b"\n") if settled else state.unterminated
        state.line += settled.count(b"\n")
        state.end = end

    def _note_state(self, name: str, piece_state: str, entry: Entry, state: FileState) -> None:
        notes: list[tuple[str, str, str]] = []
        if entry.lacks:
            state.typed.append(entry)
        elif piece_state == EDITED:
            notes.append(("edited", f"{entry.id} was edited by hand.", "note"))
        elif piece_state == UNSIGNED:
            notes.append(("unsigned", f"{entry.id} has no checksum: a person or another program wrote it.", "note"))
        if entry.schema > SCHEMA:
            message = (
                f"{entry.id} was written by a newer SMP (schema {entry.schema}); what this one does not know is kept."
            )
            notes.append(("newer_schema", message, "warning"))
        for code, message, severity in notes:
            state.problems.append(Problem(self._shown(name), entry.line, code, message, severity, entry.id))

    def _rebuild_history(self, fresh: list[Entry], rebuild: bool, plan: Plan | None) -> None:
        typed = self.has_typed
        if rebuild or self._overlaid or self._is_behind or typed:
            if typed:
                typed_entries.give_ids(self)
            self.session_history = self._new_history()
            self._is_behind = False
            fresh = [entry for state in self.states.values() for entry in state.entries]
        if plan is not None:
            fresh = fresh + self._planned(plan)
        self._overlaid = plan is not None
        if fresh:
            self.session_history.add(fresh)

    def adopt(self, states: dict[str, FileState], identities: dict[str, list[int]]) -> None:
        """Take over what a writer read back of files before it replaced them; those that differ now are read anew."""
        with self.mutex:
            self._is_behind = True
            for name, state in states.items():
                found = self.disk.stat(os.path.join(self.folder, name))
                if found is not None and identity(found)[:3] == identities[name][:3]:
                    state.identity = identity(found)
                    self.states[name] = state
                else:
                    self.states.pop(name, None)
            for name in [name for name in self.states if not self.disk.exists(os.path.join(self.folder, name))]:
                del self.states[name]
            self._rebuild_history([], True, None)

    def _planned(self, plan: Plan) -> list[Entry]:
        """Entries of a committed plan that are not in their files yet."""
        there = {entry.key for state in self.states.values() for entry in state.entries}
        planned: list[Entry] = []
        for name, offset, data in plan.appends:
            state = FileState()
            state.end = offset
            self.decode(name, data, state)
            planned += [entry for entry in state.entries if entry.key not in there]
        return planned

    # -- parts of it

    def tail(self, kind: str, count: int) -> SessionHistory | None:
        """A fold that ends with the last memories of a type, from the end of their file alone; None if that is not enough."""
        if self.states or self.journal.exists():
            return None
        probe = Entry("put", kind, "probe", "", {})
        name = self.layout.file_of(probe, self.session)
        others = [
            file
            for file in self.layout.files(self.disk, self.folder, self.session)
            if file != name and self.layout.kind_of(file) in (None, kind)  # they may hold changes
        ]
        path = os.path.join(self.folder, name)
        found = self.disk.stat(path)
        if found is None or "probe" in name or self._may_have_doubled_ids(name, found):
            return None
        size = 65536
        while True:
            session_history = self._tail_history(name, path, found.st_size, size, others)
            histories = session_history.histories.values() if session_history else ()
            live = [history for history in histories if history.first.type == kind and history.deletion is None]
            if session_history is None or len(live) >= count or size >= found.st_size:
                return session_history if size < found.st_size else None
            size *= 4

    def _may_have_doubled_ids(self, name: str, found: os.stat_result) -> bool:
        """Whether something other than SMP changed the file: after a merge, only the whole session tells ids apart."""
        return self.notes().unchanged(name, identity(found)) is None

    def _tail_history(self, name: str, path: str, length: int, size: int, others: list[str]) -> SessionHistory | None:
        start = max(length - size, 0)
        chunk = self.disk.read(path, start)
        boundary = self.layout.codec_of(name).boundary(chunk) if start else 0
        if boundary < 0:
            return None if start == 0 else SessionHistory()
        state = FileState()
        state.end = start + boundary
        self.decode(name, chunk[boundary:], state)
        entries = list(state.entries)
        for file in others:
            other = FileState()
            self.decode(file, self.disk.read(os.path.join(self.folder, file)), other)
            entries += other.entries
        if any(entry.tx or entry.lacks for entry in entries) or any(
            problem.severity == "error" for problem in state.problems
        ):
            return None  # whether the transaction is whole only the whole session can tell
        session_history = self._new_history()
        session_history.add(entries)
        if session_history.is_rebuilt or any(entry.uids for entry in entries):
            return None  # an id may have been given out twice
        session_history.problems = []
        return session_history

    def notes(self) -> notes_file.WriterState:
        try:
            data = self.disk.read(os.path.join(self.private, "lock"), HOLDER_BYTES, notes_file.LIMIT_BYTES)
        except (FileNotFoundError, StorageCorrupt):
            data = b""
        return self.decode_notes(data)

    def decode_notes(self, data: bytes) -> notes_file.WriterState:
        return notes_file.decode(data, self.disk.system.boot_id(), self._is_own_file)

    def _is_own_file(self, name: str) -> bool:
        return self.layout.is_own_file(name, self.session)

    def problems(self) -> list[Problem]:
        found = [
            problem for state in self.states.values() for problem in state.problems
        ] + self.session_history.problems
        return found + [typed_entries.problem(entry) for state in self.states.values() for entry in state.typed]

    @property
    def has_typed(self) -> bool:
        """Whether entries were typed by hand without an id or a time."""
        return any(state.typed for state in self.states.values())

    def size_bytes(self) -> int:
        return sum(state.identity[1] for state in self.states.values())

    def _shown(self, name: str) -> str:
        return os.path.join(self.folder, name)
