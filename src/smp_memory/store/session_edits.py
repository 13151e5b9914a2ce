"""The edits of a session's files that carry out plans: purge, compaction, restoring, and the session's part of an erasure.

Guarantees: those of `store.rewrite`: all files of the session change together, also its cold segment and quarantine.
Dropping removes all entries of a memory: history, deletions, copies. Erasure also removes damaged fragments of the text, and
sentences that summaries made by SMP quote.
Non-guarantees: a summary that another program's summariser paraphrased is not recognised; it is named in the answer, because it
covers the memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.files.layouts.layout import OVERVIEW_FILES, OVERVIEWS, QUARANTINE
from smp_memory.lifecycle.compaction_plan import AUTHOR, covers, without_quotes
from smp_memory.model.history import COLD, IdAllocator, PausedCollection
from smp_memory.model.rewrite_plan import RewriteReport
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.store.cold_storage import ColdContents, edit_for_move, edit_for_restoration
from smp_memory.store.remnants import RemnantMatcher, phrases_of, pieces_of
from smp_memory.store.rewrite import SessionEdit, entries_of, private_name, rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.files.file_state import FileState
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.entry import Entry
    from smp_memory.model.rewrite_plan import RewritePlan
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.rewrite import Rewritten


def carry_out(session: FileSession, plan: RewritePlan) -> RewriteReport:
    """Carry out a plan of the port."""
    report = RewriteReport()

    def edit(reader: SessionReader) -> SessionEdit:
        nonlocal report
        found = SessionEdit()
        dropped = _still_deleted(reader, plan)
        if dropped:
            drop(session, reader, dropped, found)
        moved, earlier = edit_for_move(session, reader, plan, found) if plan.to_cold else ([], [])
        if plan.from_cold:
            edit_for_restoration(session, reader, plan, found)
        added: list[Entry] = []
        if plan.added is not None and found:
            numbers = IdAllocator(session.writer.seq, session.writer.numbers, reader.session_history)
            added = plan.added(numbers, set(moved))
            found.added += added
        report = RewriteReport(dropped, moved, earlier, [entry.id for entry in added])
        return found

    before = sum(session.sizes().values())
    rewrite(session, plan.operation, edit)
    if report.dropped:
        session.write_deletion_record()
    freed = before - sum(session.sizes().values())
    return report._replace(freed_bytes=freed, cold_bytes=sum(session.sizes(COLD).values()))


def _still_deleted(reader: SessionReader, plan: RewritePlan) -> list[str]:
    histories = reader.session_history.histories
    found = ((id, at, histories[id].deletion) for id, at in plan.drop.items() if id in histories)
    return [id for id, at, deletion in found if deletion is not None and deletion.at == at]


def drop(
    session: FileSession,
    reader: SessionReader,
    ids: list[str],
    edit: SessionEdit,
    remnants: RemnantMatcher | None = None,
) -> None:
    """Remove all entries of these memories from the session's files and its cold segment."""
    edit.destroys = True
    for entry in entries_of(reader, ids):
        edit.remove(entry)
    cold = ColdContents(session, ids)
    matches = remnants.matches if remnants is not None else lambda line: False
    left = cold.without(set(ids), is_remnant=matches)
    if (left or b"") != cold.segment.data:
        edit.files[reader.layout.cold_file(reader.session)] = left


# -- erasure


class ErasedEntries(NamedTuple):
    """The result of an erasure in one session."""

    rewritten: Rewritten
    pieces: set[bytes]  # of the erased text, to scan for
    summaries: list[str]  # ids of summaries that lost sentences


def check_memories_exist(session: FileSession, ids: list[str]) -> None:
    """Raise MemoryNotFound for an id that is neither in the session's files nor in its cold segment nor in quarantine."""
    with PausedCollection():
        found = session.history()
    left = {name for name in ids if name not in found.histories and name not in found.orphans}
    if left:
        cold = ColdContents(session, left)
        left -= {*cold.memories, *cold.histories}
        left -= {name for name in left if _quarantined(session.reader, RemnantMatcher([name], []))}
    if left:
        raise memory_not_found(session, min(left))


def erase_in(session: FileSession, ids: list[str]) -> ErasedEntries:
    """Erase memories from one session."""
    found: list[_Erasure] = []

    def edit(reader: SessionReader) -> SessionEdit:
        found[:] = [_Erasure(session, reader, ids)]
        return found[0].edit()

    done = rewrite(session, "erasing", edit)
    return ErasedEntries(done, set(found[0].pieces), found[0].summaries)


class _Erasure:
    """The edit that erases these memories."""

    def __init__(self, session: FileSession, reader: SessionReader, ids: list[str]) -> None:
        self._session = session
        self._reader = reader
        self._disk = reader.disk
        self._ids = ids
        self.summaries: list[str] = []
        values: list[Any] = [entry.data for entry in entries_of(reader, ids)]
        values += [entry.data for entry in ColdContents(session, ids).entries_of(set(ids))]
        for data in _quarantined(reader, RemnantMatcher(ids, [])).values():  # unreadable, except for the id
            values += phrases_of(data)
        self.pieces = pieces_of(values)
        self._remnants = RemnantMatcher(ids, values)

    def edit(self) -> SessionEdit:
        reader, edit = self._reader, SessionEdit()
        drop(self._session, reader, self._ids, edit, self._remnants)
        for name, state in reader.states.items():
            edit.cuts.update(self._unreadable(name, state))
        for name in _quarantined(reader, self._remnants):
            edit.files[private_name(reader, os.path.join(QUARANTINE, name))] = None
        for name in OVERVIEW_FILES if reader.layout.info_file else ():
            edit.files[f"{OVERVIEWS}/{name}"] = None
        self._clean_summaries(edit)
        return edit

    def _clean_summaries(self, edit: SessionEdit) -> None:
        """Remove quotes from the summaries of turns that compaction made."""
        for name, history in self._reader.session_history.histories.items():
            is_automatic = (
                history.first.type == "summary" and history.first.data.get("author") == AUTHOR and name not in self._ids
            )
            if not is_automatic or not any(covers(history.data().get("covers"), id) for id in self._ids):
                continue
            self.summaries.append(name)
            for entry in history.entries:
                text = entry.data.get("summary")
                left = without_quotes(text, self._is_quoted) if isinstance(text, str) else text
                if left != text:
                    twin = entry.copy()
                    twin.data = {**entry.data, "summary": left}
                    edit.replace(entry, twin)

    def _is_quoted(self, sentence: str) -> bool:
        return self._remnants.matches(sentence.encode("utf-8", "replace"))

    def _unreadable(self, name: str, state: FileState) -> Iterable[tuple[str, int, int]]:
        """Byte ranges of a file that cannot be read as entries and contain the text."""
        if not any(problem.code in ("damaged", "invalid") for problem in state.problems):
            return
        path = os.path.join(self._reader.folder, name)
        data = self._disk.read(path)
        entries = {entry.place[0] for entry in state.entries}
        for piece in self._reader.layout.codec_of(name).decode(data):
            if piece.start not in entries and self._remnants.matches(data[piece.start : piece.end]):
                yield path, piece.start, piece.end


def _quarantined(reader: SessionReader, remnants: RemnantMatcher) -> dict[str, bytes]:
    """The files in quarantine that contain remnants of a memory, by name."""
    folder = os.path.join(reader.private, QUARANTINE)
    contents = {name: reader.disk.read(os.path.join(folder, name)) for name in reader.disk.names(folder)}
    return {name: data for name, data in contents.items() if remnants.matches(data)}
