"""The cold segment of a session: which memories it holds, and moving memories there and back in one rewrite of the files.

Each entry in the segment has the bytes of the layout that the session had when it was moved there, and names that layout.

    plan (`lifecycle.compaction_plan`) → under the lock: memories that changed since are left out → the new cold segment,
    the files without the moved entries, and their summaries: one plan, carried out completely or not at all

Guarantees: at every moment each memory is durably in the files or in the segment; a crash or an error leaves the state
before or after. Nothing is destroyed. The session's files are the truth: an entry that is in both, because a restore by an
older version was interrupted, is not counted here. Entries are unique by id and number; of several copies that older versions
left, one counts (`_unique`). A memory that was changed, pinned or deleted after the plan was made stays. A memory is restored
with its id, number and history, at its position in the order of writing. A write that is repeated with the same idempotency
key still gets the first memory, from the segment. Unreadable entries are left out, and reported with the answer and by `validate`.
"""

from __future__ import annotations

import hashlib
import os

from smp_memory.errors import DuplicateId, MemoryNotFound, StorageCorrupt
from smp_memory.files import cold_segment
from smp_memory.files.cold_format import ColdEntry
from smp_memory.files.cold_segment import FILE, ColdMatch, ColdSegment, decode_cold_entry, key_of
from smp_memory.files.disk import TEMPORARY
from smp_memory.model.entry import CHANGE, is_revision
from smp_memory.model.history import IdAllocator, SessionHistory
from smp_memory.model.reports import Problem
from smp_memory.model.storage_reports import ColdMemory, MovedEntries
from smp_memory.observe import incomplete
from smp_memory.store.rewrite import SessionEdit, copy_of, private_name, rewrite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp_memory.files.cold_format import ColdRow
    from smp_memory.files.cold_segment import Key
    from smp_memory.files.reader import SessionReader
    from smp_memory.lifecycle.compaction_plan import CompactionPlan
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.store.file_session import FileSession

    Summaries = Callable[[IdAllocator, set[str]], list[Entry]]


KEY = "key"  # in `about`: digest of an idempotency key
HISTORY = "history"  # in `about`: an earlier step of a memory that is in the files


def cold_path(session: FileSession) -> str:
    return os.path.join(session.reader.private, FILE)


def current_cold_path(session: FileSession) -> str:
    """The path of the current segment: a committed plan is read as if it had been carried out already."""
    reader, path = session.reader, cold_path(session)
    plan = reader.journal.load() if reader.journal.exists() else None
    if plan is None:
        return path
    for source, target in plan.moves:
        staged = os.path.join(reader.folder, source)
        if os.path.join(reader.folder, target) == path and session.store.disk.exists(staged):
            return staged
    is_removed = any(os.path.join(reader.folder, name) == path for name in plan.removes)
    return path + TEMPORARY if is_removed else path  # the first is a name without a file


def cold_segment_of(session: FileSession) -> ColdSegment:
    while True:
        path = current_cold_path(session)
        segment = ColdSegment(session.store.disk, path)
        if current_cold_path(session) == path:  # else a plan was carried out meanwhile
            return segment


def cold_memories(session: FileSession) -> list[ColdMemory]:
    """The memories in the segment that are not in the files, in the order in which they were moved."""
    found: dict[str, list[ColdRow]] = {}
    segment = cold_segment_of(session)
    for row in cold_rows(session, segment):
        found.setdefault(row.id, []).append(row)
    incomplete.report(incomplete.errors(segment.problems))
    return [_memory(id, rows) for id, rows in found.items()]


def cold_rows(session: FileSession, segment: ColdSegment | None = None) -> list[ColdRow]:
    """The entries that are in the segment and not in the files, unique by id and number.

    The rows of a memory have `HISTORY` exactly if the memory itself is in the files.
    """
    segment = segment or cold_segment_of(session)
    rows = segment.rows()
    if not rows:
        return []
    in_files = session.view(
        lambda session_history: {
            (entry.id, entry.seq) for history in session_history.histories.values() for entry in history.entries
        }
    )
    by_id: dict[str, list[ColdRow]] = {}
    for row in rows:
        by_id.setdefault(row.id, []).append(row)
    return [row for those in by_id.values() for row in _counted(those, in_files)]


def _counted(rows: list[ColdRow], in_files: set[tuple[str, int]]) -> list[ColdRow]:
    """Of the rows of one memory, those that are not in the files."""
    moved = _unique([row for row in rows if (row.id, row.seq) not in in_files or row.about.get(HISTORY) == "last"])
    if not moved or all(HISTORY in row.about for row in moved):
        return moved
    first = min((row for row in rows if HISTORY not in row.about), key=lambda row: row.seq)
    if (
        first.id,
        first.seq,
    ) in in_files:  # a restore of the memory was interrupted, and its history moved again
        return [_marked(row, row.about.get(HISTORY, "step")) for row in moved]
    return [_marked(row, None) for row in moved]


def _unique(rows: list[ColdRow]) -> list[ColdRow]:
    """One row per number: the change as it was before the steps up to it were joined, else the newest copy."""
    chosen: dict[int, ColdRow] = {}
    for row in rows:
        known = chosen.get(row.seq)
        if known is None or known.about.get(HISTORY) != "last":
            chosen[row.seq] = row
    return list(chosen.values())


def _marked(row: ColdRow, history: str | None) -> ColdRow:
    about = {name: value for name, value in row.about.items() if name != HISTORY}
    return row._replace(about=about if history is None else {**about, HISTORY: history})


def key_digest(key: str) -> str:
    """The digest of an idempotency key as stored in `about`, because row lists hold no content."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:16]


def find_by_idempotency_key(session: FileSession, key: str) -> Record | None:
    """The memory with this idempotency key in the segment. Reads the row list, and a block only on a match."""
    segment, digest = cold_segment_of(session), key_digest(key)
    if not any(row.about.get(KEY) == digest for row in segment.rows()):
        return None
    rows = [row for row in cold_rows(session, segment) if HISTORY not in row.about]
    for id in dict.fromkeys(row.id for row in rows if row.about.get(KEY) == digest):
        session_history = SessionHistory()
        found = (ColdMatch(row, segment.read(row)) for row in rows if row.id == id)
        entries = (decode_cold_entry(each, session.store.layout.name) for each in found)
        session_history.add(entry for entry in entries if entry is not None)
        history = session_history.histories.get(id)
        if history is not None and history.data().get("idempotency_key") == key:
            return history.record(session.session)
    return None


def _memory(id: str, rows: list[ColdRow]) -> ColdMemory:
    about = rows[0].about
    type, created, moved, why = (str(about.get(name, "")) for name in ("type", "created", "moved", "why"))
    size = sum(row.length for row in rows)
    return ColdMemory(id, type, created, moved, why, size, len(rows), HISTORY in about)


def cold_history(session: FileSession, problems: list[Problem] | None = None) -> SessionHistory:
    """The history of the memories in the segment, without earlier steps of memories that are in the files.

    `problems` gets unreadable entries.
    """
    segment = cold_segment_of(session)
    rows = {key_of(row): row for row in cold_rows(session, segment) if HISTORY not in row.about}
    lost = dict(rows)
    session_history = SessionHistory()
    if rows:
        name = session.store.layout.name
        entries = []
        for found in segment.entries():
            if key_of(found.row) in rows and (entry := decode_cold_entry(found, name)) is not None:
                entries.append(entry)
                lost.pop(key_of(found.row), None)
        session_history.add(entries)
    if problems is not None:
        problems += segment.problems
        ids = dict.fromkeys(row.id for row in lost.values())
        problems += [Problem(segment.path, 0, "cold_damaged", f"{id} cannot be read.", "error", id) for id in ids]
    return session_history


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
            if history.deletion is None and history.revision == seen.get(id) and not history.has_equal_numbers()
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
        steps = history.superseded()
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
