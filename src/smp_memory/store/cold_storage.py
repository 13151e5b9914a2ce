"""The memories in the cold segment of a session, and the edits that move memories there and back.

Guarantees: the session's files are the truth: an entry that is in both counts there. Entries are unique by memory and number.
Memories of two clones with one id are told apart by their uid; the second is shown under the next free id. Earlier states
of a memory that is in the files (`history` in their facts) are no memories of their own. A memory is restored with its id, number and
history, at its position in the order of writing. Unreadable entries are left out and reported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smp_memory.errors import DuplicateId, MemoryNotFound
from smp_memory.files.codec import to_json
from smp_memory.files.cold_segment import ColdEntry, ColdSegment, decode_line, id_in
from smp_memory.files.disk import TEMPORARY
from smp_memory.model.clone_merge import FreeIds
from smp_memory.model.entry import CHANGE, PUT, is_revision
from smp_memory.model.history import SessionHistory
from smp_memory.model.reports import Problem
from smp_memory.model.storage_reports import ColdMemory
from smp_memory.store.rewrite import SessionEdit, position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.rewrite_plan import RewritePlan
    from smp_memory.store.file_session import FileSession

    Key = tuple[str, str]  # id in the file, uid

_HISTORY, _STEP, _LAST = "history", "step", "last"  # earlier states; the last one as it was before they were joined


def cold_path(session: FileSession) -> str:
    """The path of the current segment: a committed plan is read as if it had been carried out already."""
    reader = session.reader
    path = os.path.join(reader.folder, reader.layout.cold_file(reader.session))
    plan = reader.journal.load() if reader.journal.exists() else None
    if plan is None:
        return path
    for source, target in plan.moves:
        staged = os.path.join(reader.folder, source)
        if os.path.join(reader.folder, target) == path and reader.disk.exists(staged):
            return staged
    is_removed = any(os.path.join(reader.folder, name) == path for name in plan.removes)
    return path + TEMPORARY if is_removed else path  # the first is a name without a file


def cold_segment_of(session: FileSession) -> ColdSegment:
    while True:
        path = cold_path(session)
        segment = ColdSegment.read(session.store.disk, path)
        if cold_path(session) == path:  # else a plan was carried out meanwhile
            segment.path = os.path.join(session.reader.folder, session.reader.layout.cold_file(session.session))
            return segment


def cold_history(session: FileSession, ids: Iterable[str] | None = None, key: str | None = None) -> SessionHistory:
    """The histories of the memories in the segment; of these ids, or with this idempotency key, if given."""
    found = ColdContents(session, ids, key)
    session_history = SessionHistory()
    session_history.add(each.entry for rows in found.memories.values() for each in rows)
    if key is not None:
        id = session_history.idempotent.get(key, "")
        session_history = session_history.subset([id])
    segment = found.segment
    session_history.unreadable = list(segment.problems)
    lost = [id for id in found.memories if id not in session_history.histories] if key is None else []
    session_history.unreadable += [
        Problem(segment.path, 0, "cold_damaged", f"{id} cannot be read.", "error", id) for id in lost
    ]
    session_history.problems = []
    session_history.moved = [_memory(id, rows, False) for id, rows in found.memories.items()]
    session_history.moved += [_memory(id, rows, True) for id, rows in found.histories.items()]
    session_history.earlier = [row.entry for rows in found.histories.values() for row in rows]
    return session_history


def _memory(id: str, rows: list[ColdEntry], is_history: bool) -> ColdMemory:
    first, about = rows[0].entry, rows[0].about
    moved, why = (str(about.get(name, "")) for name in ("moved", "why"))
    size = sum(each.entry.place[1] for each in rows)
    return ColdMemory(id, first.type, first.at, moved, why, size, len(rows), is_history)


class ColdContents:
    """What the segment holds besides the session's files: memories, and earlier states of memories in the files, by shown id."""

    def __init__(self, session: FileSession, ids: Iterable[str] | None = None, key: str | None = None) -> None:
        self.segment = cold_segment_of(session)
        self.memories: dict[str, list[ColdEntry]] = {}
        self.histories: dict[str, list[ColdEntry]] = {}
        self._shown: dict[Key, str] = {}
        wanted = set(ids) if ids is not None else None
        if key is not None:
            wanted = {each.entry.id for each in self.segment.entries(_holds(key))}
            if not wanted:
                return
        if not self.segment.data:
            return
        known = self._load(session, wanted)
        if ids is not None and wanted is not None and not wanted <= known:
            self._load(session, None)  # one may be shown under another id than in the file
            for found in (self.memories, self.histories):
                for id in [id for id in found if id not in wanted]:
                    del found[id]

    def _load(self, session: FileSession, wanted: set[str] | None) -> set[str]:
        """Find the memories with these ids in the file; returns the ids that are known here or in the session."""
        by_id: dict[str, dict[str, list[ColdEntry]]] = {}
        sought = {*wanted, None} if wanted is not None else set()  # None: a line that begins otherwise
        for each in self.segment.entries(None if wanted is None else lambda line: id_in(line) in sought):
            if wanted is None or each.entry.id in wanted:
                by_id.setdefault(each.entry.id, {}).setdefault(each.entry.uid, []).append(each)
        hot = session.history(wanted).histories
        self.memories, self.histories, free = {}, {}, None
        for id, groups in by_id.items():
            if len(groups) > 1 and "" in groups:  # typed by hand, and completed later
                untold = groups.pop("")
                next(iter(groups.values())).extend(untold)
            for uid, rows in groups.items():
                known = hot.get(id)
                is_same = known is not None and (known.first.uid == uid or not uid or not known.first.uid)
                shown = id
                if (known is not None and not is_same) or id in self.memories:
                    free = free or FreeIds({*session.history().histories, *by_id}, session.reader.numbers_in_metadata())
                    shown = free.next(id)
                self._shown[id, uid] = shown
                rows = [_renamed(each, shown) for each in rows]
                if known is not None and is_same:
                    self._add_earlier(shown, rows, known)
                else:
                    self.memories[shown] = [_marked(each, None) for each in _unique(rows)]
        return {*self.memories, *self.histories, *hot}

    def _add_earlier(self, id: str, rows: list[ColdEntry], known: RecordHistory) -> None:
        """Those rows of a memory in the files that the files do not have."""
        numbers = {entry.seq for entry in known.entries}
        left = [row for row in rows if row.entry.seq not in numbers or row.about.get(_HISTORY) == _LAST]
        if left:
            self.histories[id] = [_marked(row, row.about.get(_HISTORY, _STEP)) for row in _unique(left)]

    def is_of(self, line: bytes, ids: set[str]) -> bool:
        """Whether a line belongs to one of these memories."""
        known = id_in(line)
        if known is not None and known not in ids and all(self._shown[key] not in ids for key in self._renamed(known)):
            return False
        found = decode_line(line)
        return found is not None and self._shown.get((found.entry.id, found.entry.uid), found.entry.id) in ids

    def _renamed(self, id: str) -> list[Key]:
        """The memories with this id in the file that are shown under another one."""
        return [key for key, shown in self._shown.items() if shown != key[0] and key[0] == id]

    def is_taken(self, id: str) -> bool:
        """Whether a memory has this id in the file, and another one in the session."""
        return bool(self._renamed(id))

    def entries_of(self, ids: set[str]) -> list[Entry]:
        """All entries of these memories, also those that the files have, too."""
        return [each.entry for each in self.segment.entries(lambda line: self.is_of(line, ids))]

    def without(
        self, ids: set[str], added: Iterable[ColdEntry] = (), is_remnant: Callable[[bytes], bool] | None = None
    ) -> bytes | None:
        """The bytes of the segment without these memories, with others; None if nothing is left. `is_remnant`: destroy, also what cannot be read."""

        def change(line: bytes) -> bytes | None:
            is_gone = self.is_of(line, ids)
            if is_remnant is not None and not is_gone and decode_line(line) is None:
                is_gone = is_remnant(line)
            return None if is_gone else line

        return self.segment.changed(change, added, destroys=is_remnant) or None


def _holds(key: str) -> Callable[[bytes], bool]:
    needle = f'"idempotency_key":{to_json(key)}'.encode("utf-8", "replace")
    return lambda line: needle in line


def _renamed(found: ColdEntry, id: str) -> ColdEntry:
    found.entry.id = id
    return found


def _marked(found: ColdEntry, history: str | None) -> ColdEntry:
    about = {name: value for name, value in found.about.items() if name != _HISTORY}
    return found._replace(about=about if history is None else {**about, _HISTORY: history})


def _unique(rows: list[ColdEntry]) -> list[ColdEntry]:
    """One row per number: the change as it was before the steps up to it were joined, else the newest copy."""
    chosen: dict[int, ColdEntry] = {}
    for row in rows:
        known = chosen.get(row.entry.seq)
        if known is None or known.about.get(_HISTORY) != _LAST:
            chosen[row.entry.seq] = row
    return list(chosen.values())


# -- moving memories to the segment


def edit_for_move(
    session: FileSession, reader: SessionReader, plan: RewritePlan, edit: SessionEdit
) -> tuple[list[str], list[str]]:
    """Add the moves of a plan to an edit; returns the ids of moved memories, and of those whose earlier states are moved."""
    histories, moved, earlier = reader.session_history.histories, [], []
    stored = _stored_entries(reader)
    contents = ColdContents(session, list(plan.to_cold))
    rows: list[ColdEntry] = []
    for id, move in plan.to_cold.items():
        history = histories.get(id)
        is_changed = history is None or history.deletion is not None or history.revision != move.revision
        if history is None or is_changed or history.has_equal_numbers():
            continue
        about, known = {"moved": plan.at, "why": move.why}, contents.histories.get(id, [])
        if move.only_history:
            new = _join_steps(history, edit, about)
            earlier.append(id)
        else:
            for entry in history.entries:
                edit.remove(entry)
            known = [_marked(each, None) for each in known]
            new = [ColdEntry(entry, about) for entry in history.entries]
            moved.append(id)
        present = {each.entry.seq for each in known}
        new = [each for each in new if each.entry.seq not in present]
        rows += [*known, *(_stored(each, id, stored) for each in new)]
    if rows:
        edit.files[reader.layout.cold_file(session.session)] = contents.without({*moved, *earlier}, rows)
    return moved, earlier


def _stored_entries(reader: SessionReader) -> dict[object, Entry]:
    """The entries as they are in the files, by position, if some are shown under another id."""
    if not reader.session_history.names:
        return {}
    return {position_of(entry): entry for state in reader.states.values() for entry in state.entries}


def _stored(found: ColdEntry, id: str, stored: dict[object, Entry]) -> ColdEntry:
    entry = stored.get(position_of(found.entry), found.entry).copy()
    entry.id, entry.tx = id, ""
    return found._replace(entry=entry)


def _join_steps(history: RecordHistory, edit: SessionEdit, about: dict[str, str]) -> list[ColdEntry]:
    """Move the steps between the first and the last state; the last change then has all that changed since the first."""
    steps, last = history.superseded(), history.last
    whole = last.copy()
    whole.data, whole.revision = {}, 2
    for entry in (*steps, last):
        whole.data.update(entry.data)
    for entry in steps:
        edit.remove(entry)
    edit.replace(last, whole)
    rows = [ColdEntry(entry, {**about, _HISTORY: _STEP}) for entry in steps]
    return [*rows, ColdEntry(last, {**about, _HISTORY: _LAST})]


# -- restoring


def edit_for_restoration(session: FileSession, reader: SessionReader, plan: RewritePlan, edit: SessionEdit) -> None:
    """Add the restoration of a plan's memories to an edit."""
    ids = list(dict.fromkeys(plan.from_cold))
    contents = ColdContents(session, ids)
    size = 0
    for id in ids:
        rows = contents.memories.get(id) or contents.histories.get(id)
        if rows is None and contents.is_taken(id):
            raise _taken(session, id)
        if rows is None:
            raise MemoryNotFound(
                f"{id} is not in the cold segment of session {session.session}.", id=id, session=session.session
            )
        _check_complete(session, contents, id, rows)
        edit.added += [each.entry for each in rows]
        size += sum(each.entry.place[1] for each in rows)
        _make_room(session, reader, id, edit)
    if plan.admit is not None:
        plan.admit(reader.size_bytes(), size)
    edit.files[reader.layout.cold_file(session.session)] = contents.without(set(ids))


def _check_complete(session: FileSession, contents: ColdContents, id: str, rows: list[ColdEntry]) -> None:
    """Raise MemoryNotFound if a part of the memory is missing, because it cannot be read."""
    session_history = SessionHistory()
    session_history.add(each.entry for each in rows)
    has_gap = any(problem.code == "revision_gap" for problem in session_history.problems)
    if id in contents.memories and (id not in session_history.histories or has_gap):
        raise MemoryNotFound(
            f"{id} cannot be read in {contents.segment.path}. Nothing was changed.", id=id, session=session.session
        )


def _taken(session: FileSession, id: str) -> DuplicateId:
    return DuplicateId(f"There is now another memory {id} in session {session.session}. Nothing was changed.", id=id)


def _make_room(session: FileSession, reader: SessionReader, id: str, edit: SessionEdit) -> None:
    """Renumber revisions of a memory in the files that gets earlier states back; raise DuplicateId for another one with the id."""
    history = reader.session_history.histories.get(id)
    restored = [entry for entry in edit.added if entry.id == id]
    present = history.entries if history is not None else []
    if history is not None and any(entry.op == PUT for entry in restored):
        raise _taken(session, id)
    numbers = {entry.seq for entry in restored}
    revision = 1
    for entry in sorted([*(each for each in present if each.seq not in numbers), *restored], key=lambda each: each.seq):
        if entry.op == CHANGE and is_revision(entry):
            revision += 1
            if entry in restored:
                entry.revision = revision
            elif entry.revision != revision:
                twin = entry.copy()
                twin.revision = revision
                edit.replace(entry, twin)
    for entry in present:
        if entry.seq in numbers:
            edit.remove(entry)  # it sums up the restored ones
