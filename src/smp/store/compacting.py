"""How do memories go to the cold segment, and come back? In one rewrite of the session's files.

    plan (`lifecycle.compaction`) → under the lock: what has changed since is left out → the new cold segment, the files
    without what goes, and the summaries that stand for it: one plan, carried out whole or not at all

Guarantees: at every moment each memory is in the files or in the segment, durably; a crash leaves the state before or
after. Nothing is destroyed. What somebody changed, pinned or deleted after the plan was made stays. A memory comes back
with its id, number and history, to its place in the order of writing. A write that is repeated with the same idempotency
key is still the first one's: it gets the memory in the segment.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from smp.errors import DuplicateId, MemoryNotFound
from smp.files import cold_segment
from smp.files.cold_block import ColdEntry
from smp.lifecycle.preserving import Weighed
from smp.model.entry import CHANGE
from smp.model.ledger import Ledger
from smp.store.cold_memories import HISTORY, KEY, cold_path, cold_rows, decoded, key_digest, segment_of
from smp.store.rewriting import Edit, copy_of, private_name, rewrite, rewrite_under_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from smp.files.session_reader import SessionReader
    from smp.lifecycle.compaction import CompactionPlan
    from smp.model.entry import Entry
    from smp.model.fold import Fold, Trail
    from smp.store.file_session import FileSession

    Figures = dict[str, tuple[float, "datetime | None"]]  # priority and last access, by id
    Summaries = Callable[[Ledger, set[str]], list[Entry]]


class Moved(NamedTuple):
    """What a compaction did."""

    removed: list[str]
    histories: list[str]
    summaries: list[str]
    freed_bytes: int  # what the session's files lost
    cold_bytes: int  # how large the segment is now


def weighed(fold: Fold, session: str, figures: Figures) -> list[Weighed]:
    """All memories with the figures that planning needs; one that nobody has figures for is taken to be fresh."""
    found = []
    for id, trail in fold.trails.items():
        record = trail.record(session)
        if record is not None:
            priority, last = figures.get(id, (1.0, None))
            history = _size(earlier(trail)) if len(trail.entries) > 2 else 0
            found.append(Weighed(record, _size(trail.entries), priority, last, history))
    return found


def earlier(trail: Trail) -> list[Entry]:
    """The changes that a later one has made history. The first entry stays: it says since when, and by whom."""
    changes = [entry for entry in trail.entries[1:] if entry.op == CHANGE]
    return changes[:-1] if len(changes) == len(trail.entries) - 1 else []


def _size(entries: list[Entry]) -> int:
    size = 0
    for entry in entries:
        start, end = entry.place
        size += end - start
    return size


# -- going


def move(session: FileSession, plan: CompactionPlan, seen: dict[str, int], summaries: Summaries, at: str) -> Moved:
    """Carry a plan out; `seen` has the revision of each memory when the plan was made."""
    done: dict[str, Any] = {}

    def edit(reader: SessionReader) -> Edit | None:
        wanted = _Moving(session, reader, plan, seen, at)
        found = wanted.edit(summaries)
        done.update(removed=wanted.removed, histories=wanted.histories, summaries=wanted.summaries, cold=wanted.cold)
        return found

    before = sum(session.sizes().values())
    rewrite(session, "compacting", edit)
    after = sum(session.sizes().values())
    return Moved(done["removed"], done["histories"], done["summaries"], before - after, done["cold"])


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
        self._contents: dict[str, tuple[str, bytes]] = {}  # by path: the name within the session, and the file
        trails = reader.fold.trails
        still = {id for id, trail in trails.items() if trail.deletion is None and trail.revision == seen.get(id)}
        self._why = {removal.id: removal.why for removal in (*plan.removed, *plan.histories)}
        self.removed = [removal.id for removal in plan.removed if removal.id in still]
        self.histories = [removal.id for removal in plan.histories if removal.id in still]
        self.summaries: list[str] = []
        self.cold = 0

    def edit(self, summaries: Summaries) -> Edit | None:
        edit = Edit()
        going: list[ColdEntry] = []
        trails = self._reader.fold.trails
        for id in self.removed:
            trail = trails[id]
            for entry in trail.entries:
                edit.remove(entry)
                going.append(self._cold(id, trail, entry))
        for id in self.histories:
            going += self._history(id, trails[id], edit)
        if not going:
            return None
        segment = segment_of(self._session)
        data = cold_segment.extended(segment, going)
        if data is not None:
            edit.files[private_name(self._reader, cold_segment.FILE)] = data
            self.cold = len(data)
        writer, gone = self._session.writer, set(self.removed)
        edit.added = summaries(Ledger(writer.seq, writer.numbers, self._reader.fold), gone)
        self.summaries = [entry.id for entry in edit.added]
        return edit

    def _history(self, id: str, trail: Trail, edit: Edit) -> list[ColdEntry]:
        """The steps between the first and the last state; the last one then says all that changed since the first."""
        steps = earlier(trail)
        last = trail.entries[-1]
        whole = copy_of(last)
        whole.data, whole.revision = {}, 2
        for entry in (*steps, last):
            whole.data.update(entry.data)
        for entry in steps:
            edit.remove(entry)
        edit.replace(last, whole)
        return [*(self._cold(id, trail, entry, "step") for entry in steps), self._cold(id, trail, last, "last")]

    def _cold(self, id: str, trail: Trail, entry: Entry, history: str = "") -> ColdEntry:
        start, end = entry.place
        file, content = self._contents.get(entry.file) or self._read(entry.file)
        about = {
            "type": entry.type,
            "created": trail.first.at,
            "moved": self._at,
            "why": self._why[id],
            "layout": self._layout,
        }
        if history:
            about[HISTORY] = history
        key = entry.data.get("idempotency_key")
        if isinstance(key, str):
            about[KEY] = key_digest(key)
        return ColdEntry(id, entry.seq, file, content[start:end], about)

    def _read(self, path: str) -> tuple[str, bytes]:
        name = os.path.relpath(path, self._reader.folder).replace(os.sep, "/")
        self._contents[path] = found = name, self._session.store.disk.read(path)
        return found


# -- coming back


def bring_back(session: FileSession, ids: list[str], admit: Callable[[int, int], None]) -> None:
    """Put memories back into the files, then take them out of the segment; `admit` says whether there is room."""

    def work() -> None:
        rewrite_under_lock(session, lambda reader: _returning(session, reader, ids, admit))
        wanted = set(ids)
        cold_segment.without(session.store.disk, cold_path(session), lambda row: row.id in wanted)

    session.exclusively("restoring from the cold segment", work)


def _returning(
    session: FileSession, reader: SessionReader, ids: list[str], admit: Callable[[int, int], None]
) -> Edit | None:
    segment = segment_of(session)
    rows = _keys(session, segment, ids)
    edit = Edit()
    size = 0
    for found in segment.entries():
        if (found.row.id, found.row.seq) not in rows:
            continue
        entry = decoded(found, session.store.layout.name)
        if entry is None:
            raise MemoryNotFound(
                f"{found.row.id} cannot be read in {segment.path}. Nothing was changed.",
                id=found.row.id,
                session=session.session,
            )
        size += found.row.length
        edit.added.append(entry)
    admit(reader.size_bytes(), size)
    for id in ids:
        _check_free(session, reader, id, edit)
    return edit


def _keys(session: FileSession, segment: cold_segment.ColdSegment, ids: list[str]) -> set[tuple[str, int]]:
    there = cold_rows(session, segment)
    known = {row.id for row in there}
    for id in ids:
        if id not in known and not any(row.id == id for row in segment.rows()):
            raise MemoryNotFound(
                f"{id} is not in the cold segment of session {session.session}.", id=id, session=session.session
            )
    return {(row.id, row.seq) for row in there if row.id in ids}


def _check_free(session: FileSession, reader: SessionReader, id: str, edit: Edit) -> None:
    """A memory that is there gets its earlier states back; another one that has taken the id is a conflict."""
    trail = reader.fold.trails.get(id)
    mine = [entry for entry in edit.added if entry.id == id]
    if trail is None or not mine:
        return
    if any(entry.op == "put" for entry in mine):
        raise DuplicateId(
            f"There is another memory {id} in session {session.session} by now. Nothing was changed.", id=id
        )
    again = {entry.seq for entry in mine}
    revision = 1
    for entry in sorted([*(each for each in trail.entries if each.seq not in again), *mine], key=lambda each: each.seq):
        if entry.op == CHANGE:
            revision += 1
            if entry in mine:
                entry.revision = revision
            elif entry.revision != revision:
                twin = copy_of(entry)
                twin.revision = revision
                edit.replace(entry, twin)
    for entry in trail.entries:
        if entry.seq in again:
            edit.remove(entry)  # it says what these say one by one
