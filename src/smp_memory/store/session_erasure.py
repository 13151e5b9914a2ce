"""Erase memories from one session's folder in one rewrite.

One plan covers its files with all entries of the memories (history, deletions, copies, damaged fragments), the cold
segment, quarantine, announced purges, overviews, and what summaries that SMP made of the memories quote of them.

Guarantees: those of `store.rewrite`. Other memories stay as they are, except such summaries: a sentence that shares a
fragment with an erased memory is removed from every step of their history.
Non-guarantees: a summary that another program's summariser paraphrased is not recognised; it is named in the
answer, because it covers the memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.files.cold_segment import FILE as COLD
from smp_memory.files.cold_segment import ColdSegment
from smp_memory.files.journal import QUARANTINE
from smp_memory.files.layouts.layout import OVERVIEWS
from smp_memory.policies.turn_summaries import AUTHOR, covers, without_quotes
from smp_memory.store import purge
from smp_memory.store.cold_storage import decode_cold_entry
from smp_memory.store.overview_files import FILES
from smp_memory.store.remnant_scan import RemnantMatcher, phrases_of, pieces_of
from smp_memory.store.rewrite import (
    SessionEdit,
    copy_of,
    entries_of,
    paused_gc,
    private_name,
    rewrite_under_lock,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp_memory.files.file_state import FileState
    from smp_memory.files.reader import SessionReader
    from smp_memory.model.history import SessionHistory
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.rewrite import Rewritten


class ErasedEntries(NamedTuple):
    """The result of an erasure in one session."""

    rewritten: Rewritten
    pieces: set[bytes]  # of the erased text, to scan for
    summaries: list[str]  # ids of summaries that lost sentences


def check_memories_exist(session: FileSession, ids: list[str]) -> None:
    """Raise MemoryNotFound for an id that is neither in the session's files nor in its cold segment nor in quarantine."""

    def missing(session_history: SessionHistory) -> set[str]:
        return {name for name in ids if name not in session_history.histories and name not in session_history.orphans}

    with paused_gc():
        left: set[str] = session.view(missing)
    if left:
        left -= {row.id for row in ColdSegment(session.store.disk, os.path.join(session.reader.private, COLD)).rows()}
        left -= {name for name in left if _quarantined(session.reader, RemnantMatcher([name], []))}
    if left:
        name = min(left)
        raise session.memory_not_found(name)


def erase_in(session: FileSession, ids: list[str]) -> ErasedEntries:
    """Erase memories from one session."""
    found: list[_Erasure] = []

    def edit(reader: SessionReader) -> SessionEdit:
        found[:] = [_Erasure(reader, ids)]
        return found[0].edit()

    done: Rewritten = session.run_locked("erasing", lambda: rewrite_under_lock(session, edit))
    return ErasedEntries(done, set(found[0].pieces), found[0].summaries)


class _Erasure:
    """The edit that erases these memories."""

    def __init__(self, reader: SessionReader, ids: list[str]) -> None:
        self._reader = reader
        self._disk = reader.disk
        self._ids = ids
        self.summaries: list[str] = []
        values: list[Any] = [entry.data for entry in entries_of(reader, ids)]
        values += _cold_values(reader, set(ids))
        for data in _quarantined(reader, RemnantMatcher(ids, [])).values():  # unreadable, except for the id
            values += phrases_of(data)
        self.pieces = pieces_of(values)
        self._remnants = RemnantMatcher(ids, values)

    def edit(self) -> SessionEdit:
        reader = self._reader
        edit = purge.removal_edit(reader, self._ids)
        for name, state in reader.states.items():
            edit.cuts.update(self._unreadable(name, state))
        for name in self._disk.names(reader.private):
            if name.startswith(f"{COLD}."):  # a damaged one that was quarantined
                edit.files[private_name(reader, name)] = None
        for name in _quarantined(reader, self._remnants):
            edit.files[private_name(reader, os.path.join(QUARANTINE, name))] = None
        if self._disk.exists(os.path.join(reader.private, purge.FILE)):
            known = purge.read_announcements(reader)
            left = {name: at for name, at in known.items() if name not in self._ids}
            edit.files[private_name(reader, purge.FILE)] = purge.encode(reader, left, purge.purged_ids(reader))
        for name in FILES if reader.layout.info_file else ():
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
                    twin = copy_of(entry)
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


def _cold_values(reader: SessionReader, ids: set[str]) -> list[Any]:
    """The fields of the memories' readable entries in the cold segment."""
    segment = ColdSegment(reader.disk, os.path.join(reader.private, COLD))
    if not any(row.id in ids for row in segment.rows()):
        return []
    entries = (decode_cold_entry(found, reader.layout.name) for found in segment.entries() if found.row.id in ids)
    return [entry.data for entry in entries if entry is not None]
