"""Move memories to the cold segment and restore them, each in one rewrite of the session's files.

    plan (`policies.compaction_plan`) → under the lock: memories that changed since are left out → the new cold segment,
    the files without the moved entries, and their summaries: one plan, carried out completely or not at all

Guarantees: at every moment each memory is durably in the files or in the segment; a crash or an error leaves the state
before or after. Nothing is destroyed. In the segment an entry is unique by id and number. A memory that was changed,
pinned or deleted after the plan was made stays. A memory is restored with its id, number and history, at its position in
the order of writing. A write that is repeated with the same idempotency key still gets the first memory, from the segment.

Backoff of automatic compaction: a session that is nearly full stays so if nothing in it may be moved yet, and each new
process, also each command, would read all of it at its first write to find that out again. So a file in the user's
state tells all processes when to try again; what may not be moved now may not be for hours, often for days, so each
attempt that frees nothing doubles the pause.

    {"again": "2026-01-31T14:30:05Z", "pause_seconds": 600}

Guarantees: a missing or damaged file means now, and so does a time further away than the longest pause, because a clock
was set back; never an error. Non-guarantees: two processes that check at the same moment may both begin; the second
finds nothing to do.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from smp_memory.errors import DuplicateId, MemoryNotFound, SMPError, StorageCorrupt
from smp_memory.files import cold_segment
from smp_memory.files.cold_format import ColdEntry
from smp_memory.files.cold_segment import key_of
from smp_memory.model.entry import CHANGE, is_revision
from smp_memory.model.id_allocator import IdAllocator
from smp_memory.model.times import EPOCH, to_moment, to_text
from smp_memory.policies.retention import WeighedMemory
from smp_memory.store.cold_storage import HISTORY, KEY, cold_rows, cold_segment_of, decode_cold_entry, key_digest
from smp_memory.store.rewrite import SessionEdit, copy_of, private_name, rewrite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from smp_memory.files.cold_format import ColdRow
    from smp_memory.files.cold_segment import ColdSegment, Key
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory, SessionHistory
    from smp_memory.policies.compaction_plan import CompactionPlan
    from smp_memory.store.file_session import FileSession

    Figures = dict[str, tuple[float, float, "datetime | None"]]  # priority, priority without floor, last access
    Summaries = Callable[[IdAllocator, set[str]], list[Entry]]


class MovedEntries(NamedTuple):
    """The result of a compaction."""

    removed: list[str]
    histories: list[str]
    summaries: list[str]
    freed_bytes: int  # by which the session's files shrank
    cold_bytes: int  # size of the segment


def weighed(session_history: SessionHistory, session: str, figures: Figures) -> list[WeighedMemory]:
    """All memories with the figures that planning needs; one without figures counts as new."""
    found = []
    for id, history in session_history.histories.items():
        record = history.record(session)
        if record is not None:
            priority, faded, last = figures.get(id, (1.0, 1.0, None))
            earlier_bytes = _size(earlier(history)) if len(history.entries) > 2 else 0
            found.append(WeighedMemory(record, _size(history.entries), priority, last, earlier_bytes, faded))
    return found


def earlier(history: RecordHistory) -> list[Entry]:
    """The changes that a later change supersedes. The first entry stays, because it has the creation time and the author."""
    later = history.entries[1:]
    changes = [entry for entry in later if is_revision(entry)]
    return changes[:-1] if all(entry.op == CHANGE for entry in later) and not has_equal_numbers(history) else []


def has_equal_numbers(history: RecordHistory) -> bool:
    """Whether two clones gave one number to two entries. Such a memory stays, because the cold segment identifies entries by number."""
    return len({entry.seq for entry in history.entries}) < len(history.entries)


def _size(entries: list[Entry]) -> int:
    size = 0
    for _, start, end in {(entry.file, *entry.place) for entry in entries}:  # folded entries share a position
        size += end - start
    return size


# -- moving to the cold segment


def move(
    session: FileSession, plan: CompactionPlan, seen: dict[str, int], summaries: Summaries, at: str
) -> MovedEntries:
    """Carry out a plan; `seen` has the revision of each memory when the plan was made."""
    done: dict[str, Any] = {}

    def edit(reader: SessionReader) -> SessionEdit | None:
        moving = _Moving(session, reader, plan, seen, at)
        session_edit = moving.edit(summaries)
        done.update(removed=moving.removed, histories=moving.histories, summaries=moving.summaries, cold=moving.cold)
        return session_edit

    before = sum(session.sizes().values())
    rewrite(session, "compacting", edit)
    after = sum(session.sizes().values())
    return MovedEntries(done["removed"], done["histories"], done["summaries"], before - after, done["cold"])


class _Moving:
    """One compaction, under the lock."""

    def __init__(
        self, session: FileSession, reader: SessionReader, plan: CompactionPlan, seen: dict[str, int], at: str
    ) -> None:
        self._session = session
        self._reader = reader
        self._plan = plan
        self._at = at
        self._layout = session.store.layout.name
        self._contents: dict[str, tuple[str, bytes]] = {}  # by path: name within the session, content
        histories = reader.session_history.histories
        unchanged = {
            id
            for id, history in histories.items()
            if history.deletion is None and history.revision == seen.get(id) and not has_equal_numbers(history)
        }
        self._why = {removal.id: removal.why for removal in (*plan.removed, *plan.histories)}
        self.removed = [removal.id for removal in plan.removed if removal.id in unchanged]
        self.histories = [removal.id for removal in plan.histories if removal.id in unchanged]
        self.summaries: list[str] = []
        self.cold = 0

    def edit(self, summaries: Summaries) -> SessionEdit | None:
        edit = SessionEdit()
        moved: list[ColdEntry] = []
        histories = self._reader.session_history.histories
        for id in self.removed:
            history = histories[id]
            for entry in history.entries:
                edit.remove(entry)
                moved.append(self._cold(id, history, entry))
        for id in self.histories:
            moved += self._history(id, histories[id], edit)
        if not moved:
            return None
        self._add_to_segment(edit, moved)
        writer, gone = self._session.writer, set(self.removed)
        edit.added = summaries(IdAllocator(writer.seq, writer.numbers, self._reader.session_history), gone)
        self.summaries = [entry.id for entry in edit.added]
        return edit

    def _add_to_segment(self, edit: SessionEdit, moved: list[ColdEntry]) -> None:
        segment = cold_segment_of(self._session)
        ids = {entry.id for entry in moved}
        known = [row for row in segment.rows() if row.id in ids]
        replaced, kept = self._superseded(segment, known)
        present = {(row.id, row.seq) for row in known if key_of(row) not in replaced}
        present |= {(entry.id, entry.seq) for entry in kept}
        new = [*kept, *(entry for entry in moved if (entry.id, entry.seq) not in present)]
        for name, data in cold_segment.copy_if_lossy(segment, lambda row: key_of(row) in replaced).items():
            edit.files[private_name(self._reader, name)] = data
        changed = cold_segment.encode_extended(segment, new, lambda row: key_of(row) in replaced)
        if changed is not None:
            edit.files[private_name(self._reader, cold_segment.FILE)] = changed
            self.cold = len(changed)

    def _superseded(self, segment: ColdSegment, known: list[ColdRow]) -> tuple[set[Key], list[ColdEntry]]:
        """Of the rows of moved memories: those to remove, and the entries that replace them.

        A copy of an entry that is still in the files is removed, because the files are the truth. Earlier steps of a memory
        that is now moved as a whole become a part of it, and replace the one change that summed them up.
        """
        replaced: set[Key] = set()
        kept: list[ColdEntry] = []
        histories, removed = self._reader.session_history.histories, set(self.removed)
        in_files = {(row.id, entry.seq) for row in known for entry in histories[row.id].entries}
        counted = {key_of(row) for row in cold_rows(self._session, segment) if HISTORY in row.about} if known else set()
        for row in known:
            if key_of(row) not in counted and (HISTORY in row.about or (row.id, row.seq) in in_files):
                replaced.add(key_of(row))
            elif key_of(row) in counted and row.id in removed:
                replaced.add(key_of(row))
                kept += _without_mark(segment, row)
        return replaced, kept

    def _history(self, id: str, history: RecordHistory, edit: SessionEdit) -> list[ColdEntry]:
        """Move the steps between the first and the last state; the last change then has all that changed since the first."""
        steps = earlier(history)
        last = history.last
        whole = copy_of(last)
        whole.data, whole.revision = {}, 2
        for entry in (*steps, last):
            whole.data.update(entry.data)
        for entry in steps:
            edit.remove(entry)
        edit.replace(last, whole)
        return [*(self._cold(id, history, entry, "step") for entry in steps), self._cold(id, history, last, "last")]

    def _cold(self, id: str, history: RecordHistory, entry: Entry, part: str = "") -> ColdEntry:
        start, end = entry.place
        file, content = self._contents.get(entry.file) or self._read(entry.file)
        about = {
            "type": entry.type,
            "created": history.first.at,
            "moved": self._at,
            "why": self._why[id],
            "layout": self._layout,
        }
        if part:
            about[HISTORY] = part
        key = entry.data.get("idempotency_key")
        if isinstance(key, str):
            about[KEY] = key_digest(key)
        data = content[start:end]
        if entry.part is not None:  # a folded entry is stored alone
            data = self._session.store.layout.encode(entry, self._session.session)[1]
        return ColdEntry(id, entry.seq, file, data, about)

    def _read(self, path: str) -> tuple[str, bytes]:
        name = os.path.relpath(path, self._reader.folder).replace(os.sep, "/")
        self._contents[path] = found = name, self._session.store.disk.read(path)
        return found


# -- restoring


def restore_from_cold(session: FileSession, ids: list[str], admit: Callable[[int, int], None]) -> None:
    """Move memories from the segment into the files, in one plan; `admit` raises if the quota is exceeded."""
    rewrite(session, "restoring from the cold segment", lambda reader: _restoration(session, reader, ids, admit))


def _restoration(
    session: FileSession, reader: SessionReader, ids: list[str], admit: Callable[[int, int], None]
) -> SessionEdit | None:
    segment = cold_segment_of(session)
    restored = set(ids)
    rows = _rows_of(session, segment, ids)
    edit = SessionEdit()
    edit.added = [entry for entry, _ in _decode_rows(session, segment, rows)]
    admit(reader.size_bytes(), sum(row.length for row in rows))
    for id in dict.fromkeys(ids):
        _check_free(session, reader, id, edit)
    for name, data in cold_segment.copy_if_lossy(segment, lambda row: row.id in restored).items():
        edit.files[private_name(reader, name)] = data
    removed, left = cold_segment.encode_reduced(segment, lambda row: row.id in restored)
    if removed:
        edit.files[private_name(reader, cold_segment.FILE)] = left
    return edit


def _rows_of(session: FileSession, segment: ColdSegment, ids: list[str]) -> list[ColdRow]:
    known = {row.id for row in segment.rows()}
    for id in ids:
        if id not in known:
            raise MemoryNotFound(
                f"{id} is not in the cold segment of session {session.session}.", id=id, session=session.session
            )
    return [row for row in cold_rows(session, segment) if row.id in ids]


def _decode_rows(session: FileSession, segment: ColdSegment, rows: list[ColdRow]) -> Iterator[tuple[Entry, ColdRow]]:
    """The entries of these rows, in the order of the segment; all of them, or an error."""
    missing = {key_of(row): row for row in rows}
    for found in segment.entries():
        row = missing.pop(key_of(found.row), None)
        entry = decode_cold_entry(found, session.store.layout.name) if row is not None else None
        if row is not None and entry is None:
            missing[key_of(row)] = row
        elif row is not None and entry is not None:
            yield entry, row
    for row in missing.values():
        raise MemoryNotFound(
            f"{row.id} cannot be read in {segment.path}. Nothing was changed.", id=row.id, session=session.session
        )


def _without_mark(segment: ColdSegment, row: ColdRow) -> Iterator[ColdEntry]:
    """An earlier step as a part of the whole memory; none if it cannot be read."""
    about = {name: value for name, value in row.about.items() if name != HISTORY}
    try:
        yield ColdEntry(row.id, row.seq, row.file, segment.read(row), about)
    except StorageCorrupt:
        return


def _check_free(session: FileSession, reader: SessionReader, id: str, edit: SessionEdit) -> None:
    """Renumber revisions of a memory in the files that gets earlier states back; raise DuplicateId for another one with the id."""
    history = reader.session_history.histories.get(id)
    restored = [entry for entry in edit.added if entry.id == id]
    if not restored:
        return
    present = history.entries if history is not None else []
    if history is not None and any(entry.op == "put" for entry in restored):
        raise DuplicateId(
            f"There is another memory {id} in session {session.session} by now. Nothing was changed.", id=id
        )
    numbers = {entry.seq for entry in restored}
    revision = 1
    for entry in sorted([*(each for each in present if each.seq not in numbers), *restored], key=lambda each: each.seq):
        if entry.op == CHANGE and is_revision(entry):
            revision += 1
            if entry in restored:
                entry.revision = revision
            elif entry.revision != revision:
                twin = copy_of(entry)
                twin.revision = revision
                edit.replace(entry, twin)
    for entry in present:
        if entry.seq in numbers:
            edit.remove(entry)  # it sums up the restored ones


# -- backoff of automatic compaction

FOLDER = "compaction"
SHORT_BACKOFF_SECONDS = 60.0  # after an attempt that freed something, or has just begun
_FIRST_SECONDS, _LONGEST_SECONDS = 600.0, 6 * 3600.0  # after attempts that freed nothing


def backoff_seconds(session: FileSession, now: datetime) -> float:
    """Seconds until the next attempt; 0: now."""
    again, _ = _load_backoff(session)
    left = (again - now).total_seconds()
    return left if 0 < left <= _LONGEST_SECONDS else 0.0


def note_attempt(session: FileSession, now: datetime) -> None:
    """Record that an attempt begins; the last pause is kept."""
    _save_backoff(session, now + timedelta(seconds=SHORT_BACKOFF_SECONDS), _load_backoff(session)[1])


def note_result(session: FileSession, now: datetime, freed: bool) -> float:
    """Record the result of an attempt; returns the seconds until the next one."""
    before = _load_backoff(session)[1]
    seconds = SHORT_BACKOFF_SECONDS if freed else min(max(2 * before, _FIRST_SECONDS), _LONGEST_SECONDS)
    _save_backoff(session, now + timedelta(seconds=seconds), 0.0 if freed else seconds)
    return seconds


def _load_backoff(session: FileSession) -> tuple[datetime, float]:
    try:
        stored = json.loads(session.store.state.read(_name(session)))
        again, seconds = to_moment(stored["again"]), float(stored["pause_seconds"])
        return again, seconds if 0 <= seconds <= _LONGEST_SECONDS else 0.0
    except (OSError, SMPError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return EPOCH, 0.0


def _save_backoff(session: FileSession, again: datetime, seconds: float) -> None:
    """Write the backoff for all processes. A failure to write is ignored."""
    fields = {"again": to_text(again), "pause_seconds": seconds}
    try:
        session.store.state.write(_name(session), (json.dumps(fields) + "\n").encode())
    except (OSError, SMPError):
        pass


def _name(session: FileSession) -> str:
    return f"{FOLDER}/{session.session}.json"
