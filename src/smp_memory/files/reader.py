"""Read a session's files without a lock, and only as much of them as is new.

Guarantees
- A reader sees complete entries and complete transactions only, and everything that was acknowledged before it read. Entries of a
  transaction that is incomplete in the files are hidden and reported.
- It never writes. A damaged entry is a `Problem` with file and line; all other entries are returned.
- A read that fails is an error and leaves nothing behind: the next one reads again. Only a file that does not exist is empty.
- Edits by hand are seen by the next read.

Each file's entries are kept with the identity of the file. A file with the same identity is not read again. One that grew is read
from where the last read ended if the writer state says that nothing but appends happened; otherwise it is read anew. If a file was
replaced during the read, or part of a transaction is missing, the read is repeated. A committed plan that is still being applied (or
whose writer died) is read as if it had been applied.
"""

from __future__ import annotations

import gc
import json
import os
import time
from _thread import RLock

from smp_memory.errors import InvalidRecord, SMPError, StorageCorrupt
from smp_memory.files import file_state
from smp_memory.files.codec import (
    CONFLICT,
    EDITED,
    SIGNED,
    TORN,
    UNSIGNED,
    VERIFIED,
    torn_offset,
    unfinished_transaction,
)
from smp_memory.files.disk import identity
from smp_memory.files.entry_fields import decode_entries
from smp_memory.files.file_state import (
    FileState,
    assign_ids,
    assign_times,
    beyond_limit,
    hidden_problems,
    incomplete_problem,
    never_complete,
    session_too_large,
    with_relationships,
)
from smp_memory.files.journal import Journal, Plan
from smp_memory.files.lock import HOLDER_BYTES, STATE_LIMIT_BYTES, WriterState, decode_state
from smp_memory.git.metadata_conflicts import decode_metadata
from smp_memory.model.entry import Entry
from smp_memory.model.history import SessionHistory
from smp_memory.model.reports import Problem
from smp_memory.model.types import PREFIXES, SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.codec import Stored
    from smp_memory.files.disk import Disk
    from smp_memory.files.journal import Review
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.session_info import SessionInfo

_READ_LIMIT = 200
_LARGE_BYTES = 1 << 18


class SessionReader:
    """The files of one session as this process last read them. Callers that use `states` hold `mutex`."""

    def __init__(self, disk: Disk, layout: Layout, root: str, session: str) -> None:
        self.disk = disk
        self.layout = layout
        self.session = session
        self.folder = layout.folder(root, session)
        self.private = layout.private(root, session)
        self.journal = Journal(disk, os.path.join(self.private, "journal.json"), self.folder, self.review)
        self.mutex = RLock()
        self.states: dict[str, FileState] = {}
        self.session_history = self.new_history()
        self.vanished: dict[str, list[Entry]] = {}  # entries that were read once and are in no file any more; by file
        self.vanished_lineage = ""  # the lineage that they were read in, see `smp_memory.files.lock`
        self.lineage = ""  # of the files as they were read
        self.hidden: dict[
            str, int
        ] = {}  # marks of incomplete transactions, with the number of entries that are missing
        self.too_large: set[str] = set()  # files that are not read, because the session has more than it may have
        self.is_overlaid = False  # part of what was read is in a committed plan, not yet in its file
        self._is_behind = False  # the session_history lacks entries of `states`, because a read failed
        self._stored_until = 0  # entries up to this number were written completely, by the writer state of this boot
        self._recorded_bytes: dict[
            str, int
        ] = {}  # by file; bytes behind them may be a failed write that could not be undone

    def review(self, plan: Plan, is_approved: bool) -> Review:
        from smp_memory.files.plan_review import (
            review_session_plan,  # rare: after a crash, or while a plan is carried out
        )

        return review_session_plan(self, plan, is_approved=is_approved)

    def forget(self) -> None:
        """Read everything anew next time."""
        self.states = {}
        self.session_history = self.new_history()
        self.is_overlaid = self._is_behind = False
        self.hidden = {}
        self.lineage = ""
        self._stored_until = 0
        self._recorded_bytes = {}

    def new_history(self) -> SessionHistory:
        return SessionHistory(self.numbers_in_metadata)

    # -- the whole session

    def catch_up(self) -> SessionHistory:
        """Read what is new; the result holds all that was acknowledged before the call."""
        with self.mutex:
            return self._catch_up()

    def _catch_up(self) -> SessionHistory:
        try:
            return self._read_until_consistent()
        except BaseException:
            self._is_behind = True
            raise

    def _read_until_consistent(self) -> SessionHistory:
        fresh: list[Entry] = []
        rebuild = False
        plan = None
        for attempt in range(_READ_LIMIT):
            plan = self.journal.load() if self.journal.exists() else None
            before = self._identities(plan)
            more, changed = self._read_changed(before, plan)
            fresh += more
            rebuild = rebuild or changed
            if not (fresh or rebuild or plan or self._must_rebuild_history()):
                return (
                    self.session_history
                )  # no file differs from what was read before, so there is nothing to compare again
            if self.hidden:  # the missing entries may have come
                self.hidden, rebuild = {}, True
            if self._was_replaced(before, plan):
                continue
            self._rebuild_history(fresh, rebuild, plan)
            fresh, rebuild = [], False
            if (
                not self.session_history.unfinished()
                or attempt > 20
                or (attempt > 2 and before == self._identities(plan))
            ):
                break
            time.sleep(0.0005 * attempt)
        if fresh or rebuild:
            self._rebuild_history(fresh, rebuild, plan)
        if self._hide_incomplete_transactions():
            self._rebuild_history([], True, plan)
        return self.session_history

    def _hide_incomplete_transactions(self) -> bool:
        """Find transactions over several files that were never complete. Returns whether there are any."""
        if self.session_history.unfinished():
            known = {mark for info in self._infos() for mark in info.incomplete}
            self.hidden = never_complete(self.states, self.session_history, known, self.read_writer_state().seq)
        return bool(self.hidden)

    def _must_rebuild_history(self) -> bool:
        return self.is_overlaid or self._is_behind or bool(self.session_history.unfinished())

    def _was_replaced(self, before: dict[str, list[int]], plan: Plan | None) -> bool:
        """Whether a file was replaced, added or removed meanwhile, or a plan to do so was committed."""
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
        self.too_large = beyond_limit({name: known[1] for name, known in found.items()})
        return found

    def _names(self, plan: Plan | None) -> list[str]:
        names = self.layout.files(self.disk, self.folder, self.session)
        if plan is not None:
            removed = set(plan.removes)
            ours = [target for _, target in plan.moves if self.layout.may_hold_entries(target)]
            names = [name for name in dict.fromkeys([*names, *ours]) if name not in removed]
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
        recorded = None
        before: dict[str, list[Entry]] = {}  # of files that were removed or changed
        try:
            for name in [name for name in self.states if name not in identities]:
                recorded = recorded or self.read_writer_state()
                before[name] = self.states.pop(name).entries
                rebuild = True
            for name, found in identities.items():
                state = self.states.get(name)
                if state is not None and state.identity == found:
                    continue
                if recorded is None:
                    recorded = self.read_writer_state()
                self._stored_until = recorded.seq if recorded.files else 0
                self._recorded_bytes = {file: known[1] for file, known in recorded.files.items()}
                epoch = recorded.unchanged(name, found)
                if epoch is None and state is not None and state.epoch is not None:
                    found, epoch = self._wait_for_writer(name, found, plan)
                if state is not None and self._only_grew(name, state, found, epoch):
                    fresh += self._read_from(name, state, found, plan)
                    continue
                if state is not None:
                    rebuild = True
                    before[name] = state.entries
                state = FileState()
                state.epoch = epoch
                state.recorded_epoch = epoch if epoch is not None else recorded.epoch(name)
                fresh += self._read_from(name, state, found, plan)
        finally:
            if recorded is not None:
                if before:
                    self._keep_vanished(before, recorded.lineage)
                self.lineage = recorded.lineage
        return fresh, rebuild

    def _keep_vanished(self, before: dict[str, list[Entry]], lineage: str) -> None:
        """Keep entries that another program removed; the next writer of this process moves them to quarantine."""
        if not lineage or lineage != self.lineage:
            return
        if self.vanished_lineage != lineage:
            self.vanished, self.vanished_lineage = {}, lineage
        stored = {entry.key for state in self.states.values() for entry in state.entries}
        for name, entries in before.items():
            self.vanished.setdefault(name, []).extend(
                entry for entry in entries if entry.key not in stored and not entry.lacks
            )

    def _wait_for_writer(self, name: str, found: list[int], plan: Plan | None) -> tuple[list[int], int | None]:
        """Wait for a writer that is between its write and its writer state; cheaper than to read a large file anew."""
        for _ in range(3):
            time.sleep(0.0002)
            now = self.disk.stat(self._path(name, plan))
            if now is None:
                break
            found = identity(now)
            epoch = self.read_writer_state().unchanged(name, found)
            if epoch is not None:
                return found, epoch
        return found, None

    def _only_grew(self, name: str, state: FileState, found: list[int], epoch: int | None) -> bool:
        return epoch is not None and epoch == state.epoch and found[0] == state.identity[0] and found[1] >= state.end

    def _read_from(self, name: str, state: FileState, found: list[int], plan: Plan | None) -> list[Entry]:
        """Read a file from where its state ends. A read that fails leaves no state."""
        problem = None
        try:
            if name in self.too_large:
                raise session_too_large(self.folder, self.session)
            try:
                data = self.disk.read(self._path(name, plan), state.end)
            except FileNotFoundError:  # moved to its place just now
                data = self.disk.read(os.path.join(self.folder, name), state.end)
        except FileNotFoundError:
            return []  # removed just now: the next attempt does not find it
        except StorageCorrupt as error:
            code = "too_large" if "limit" in error.details else "not_a_file"
            data, problem = b"", Problem(self._full_path(name), 0, code, error.message)
        self.states[name] = state
        if problem is not None:
            state.problems.append(problem)
        count = len(state.entries)
        paused = len(data) > _LARGE_BYTES and gc.isenabled()
        if paused:  # entries hold no cycles; looking for some again and again costs a third of the time
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
        if state.incomplete:
            assign_times(state)
        return state.entries[count:]

    def stored(self, name: str) -> Stored:
        """Up to which number and byte of a file entries are known to have been written completely."""
        return self._stored_until, self._recorded_bytes.get(name, 0)

    def decode(self, name: str, data: bytes, state: FileState) -> None:
        """Add the entries of a file's rest to its state; stop before a torn end or an unfinished transaction."""
        codec, kind = self.layout.codec_of(name), self.layout.kind_of(name)
        pieces = codec.decode(data, state.end, state.line, self.stored(name))
        start, end = state.end, state.end + len(data)
        last_seq = state.entries[-1].seq if state.entries else 0
        mark = len(state.entries)
        starts: list[int] = []
        torn = torn_offset(pieces, data, start)
        path = self._full_path(name)
        has_metadata_lines, field_names = not self.layout.info_file, self.layout.field_names
        ends_with_entry = False  # whether the last piece of the file is an entry
        add_entry, add_start = state.entries.append, starts.append
        for piece in pieces:
            if piece.state == TORN or piece.start >= torn:
                end = int(min(piece.start, torn))
                break
            ends_with_entry = False
            if piece.fields is None:
                code = "conflict" if piece.state == CONFLICT else "damaged"
                severity = "warning" if piece.state == CONFLICT else "error"
                text = data[piece.start - start : piece.end - start]
                message = piece.message if code == "conflict" else file_state.with_hint(text, piece.line, piece.message)
                state.problems.append(Problem(path, piece.line, code, message, severity))
                continue
            if has_metadata_lines and piece.fields.get("type") == "session":
                state.metadata_lines.append(piece.fields)
                continue
            try:
                entries = decode_entries(field_names, piece.fields, kind, piece.state, path, piece.line, last_seq)
            except InvalidRecord as error:
                state.add_rejected(piece.fields, Problem(path, piece.line, "invalid", error.message))
                continue
            ends_with_entry, reported = True, None
            last_seq = entries[0].seq  # of a memory with its changes: where it stands
            for entry in entries:
                entry.place = (piece.start, piece.end)
                add_entry(entry)
                add_start(piece.start)
                if (entry.state != SIGNED or entry.schema > SCHEMA) and reported is None:
                    reported = entry
            if reported is not None:
                self._report_state(name, reported.state, reported, state, piece.message)
        stored_until = self._stored_until if end <= self._recorded_bytes.get(name, end) else 0
        cut = unfinished_transaction(state.entries[mark:], stored_until) if ends_with_entry else None
        if cut is not None:
            end = min(end, starts[cut])
            del state.entries[mark + cut :]
            state.incomplete = [entry for entry in state.incomplete if entry.place[0] < end]
        settled = data[: end - start]
        state.unterminated = bool(settled) and not settled.endswith(b"\n") if settled else state.unterminated
        state.line += settled.count(b"\n")
        state.end = end

    def _report_state(self, name: str, piece_state: str, entry: Entry, state: FileState, message: str) -> None:
        reports: list[tuple[str, str, str]] = []
        if entry.lacks:
            state.incomplete.append(entry)
        elif piece_state == EDITED:
            reports.append(("edited", f"{entry.id} was edited by hand.", "note"))
        elif piece_state == UNSIGNED:
            what = f": {message}" if message == VERIFIED else " has no checksum: a person or another program wrote it"
            reports.append(("unsigned", f"{entry.id}{what}.", "note"))
        if entry.schema > SCHEMA:
            message = f"{entry.id} was written by a newer SMP (schema {entry.schema}); fields that this version does not know are kept."
            reports.append(("newer_schema", message, "warning"))
        for code, message, severity in reports:
            state.problems.append(Problem(self._full_path(name), entry.line, code, message, severity, entry.id))

    def _rebuild_history(self, fresh: list[Entry], rebuild: bool, plan: Plan | None) -> None:
        incomplete = self.has_incomplete
        related = any(state.relationships for state in self.states.values())
        if rebuild or self.is_overlaid or self._is_behind or incomplete or related:
            if incomplete:
                assign_ids(self.states, self.layout, self._numbers_given_out)
            self.session_history = self.new_history()
            self._is_behind = False
            fresh = with_relationships(self.states)
        if plan is not None:
            fresh = fresh + self._entries_of_plan(plan)
        self.is_overlaid = plan is not None
        for entry in [entry for entry in fresh if entry.tx in self.hidden] if self.hidden else ():
            self.session_history.reserve(entry)
            fresh.remove(entry)  # its number and id stay taken
        if fresh:
            self.session_history.add(fresh)

    def adopt(self, states: dict[str, FileState], identities: dict[str, list[int]]) -> None:
        """Take over the states of files that a writer replaced and read back; files that differ now are read anew."""
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

    def _entries_of_plan(self, plan: Plan) -> list[Entry]:
        """Entries of a committed plan that are not in their files yet."""
        stored = {entry.key for state in self.states.values() for entry in state.entries}
        planned: list[Entry] = []
        for name, offset, data in plan.appends:
            state = FileState()
            state.end = offset
            self.decode(name, data, state)
            planned += [entry for entry in state.entries if entry.key not in stored]
        return planned

    def read_writer_state(self) -> WriterState:
        try:
            data = self.disk.read(os.path.join(self.private, "lock"), HOLDER_BYTES, STATE_LIMIT_BYTES)
        except (FileNotFoundError, StorageCorrupt):
            data = b""
        return self.decode_writer_state(data)

    def decode_writer_state(self, data: bytes) -> WriterState:
        return decode_state(data, self.disk.system.boot_id(), self._is_session_file)

    def _is_session_file(self, name: str) -> bool:
        return self.layout.is_session_file(name, self.session)

    def problems(self) -> list[Problem]:
        found = [
            problem for state in self.states.values() for problem in state.problems
        ] + self.session_history.problems
        found += [incomplete_problem(entry) for state in self.states.values() for entry in state.incomplete]
        return found + self.hidden_problems()

    def hidden_problems(self) -> list[Problem]:
        """One for each entry of an incomplete transaction."""
        return hidden_problems(self.states, self.hidden) if self.hidden else []

    @property
    def has_incomplete(self) -> bool:
        """Whether entries were written by hand without an id or a time."""
        return any(state.incomplete for state in self.states.values())

    def size_bytes(self) -> int:
        return sum(state.identity[1] for state in self.states.values())

    def numbers_in_metadata(self) -> dict[str, int]:
        """The largest numbers given out, by prefix, as the session's metadata has them since the last rewrite.

        They keep a memory from being shown under the number of one that was purged or compacted. Empty if the metadata cannot be read,
        which `validate` reports.
        """
        found = [info.numbers for info in self._infos()]
        try:
            return {prefix: max(numbers.get(prefix, 0) for numbers in found) for prefix in set().union(*found)}
        except TypeError:  # a person edited them
            return {}

    def _infos(self) -> list[SessionInfo]:
        """The session's metadata, in a log once for each line that holds it; none if it cannot be read, which `validate` reports."""
        layout = self.layout
        try:
            if layout.info_file:
                encoded = [self.disk.read_small(os.path.join(self.folder, layout.info_file))]
            else:
                encoded = [json.dumps(line).encode() for state in self.states.values() for line in state.metadata_lines]
            return [decode_metadata(layout, data, self.session) for data in encoded]
        except (OSError, SMPError, ValueError, TypeError, AttributeError, RecursionError):
            return []

    def _numbers_given_out(self) -> dict[str, int]:
        """The largest numbers that were given out, by prefix, also to memories that were removed."""
        numbers = dict(self.read_writer_state().numbers)
        for prefix, number in self.numbers_in_metadata().items():
            if prefix in PREFIXES and type(number) is int:
                numbers[prefix] = max(numbers.get(prefix, 0), number)
        return numbers

    def _full_path(self, name: str) -> str:
        return os.path.join(self.folder, name)
