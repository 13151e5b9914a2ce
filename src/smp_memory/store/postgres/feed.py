"""Feed the index from the tables of a store in PostgreSQL in one round trip (`store.postgres.changes`), and keep entries in it for records.

The cursor is saved in the transaction that changes the index: a process that dies between reading and saving asks again. If another process of the user
caught up meanwhile, it asks again, too, so that an older state never replaces a newer one.

Offsets of entries leave no gap, so the index knows that it has all entries between the end that it knows and the present one. Otherwise, after a change
that is no append (`generation`), and if another server may have another past, the session is read anew. The index keeps the entries: records cost
no round trip.
"""

from __future__ import annotations

import json
import time

from smp_memory.errors import Busy, SMPError
from smp_memory.index.index import save_problems
from smp_memory.index.rows import CURSOR, IndexBusy
from smp_memory.index.session_updates import (
    index_appended,
    index_in_chunks,
    keep_entries,
    kept_entries,
    kept_entries_of,
)
from smp_memory.model.clone_merge import ReadableIds
from smp_memory.model.history import RecordHistory, SessionHistory
from smp_memory.model.reports import Problem
from smp_memory.model.session_info import LIVE
from smp_memory.observe import incomplete
from smp_memory.observe.telemetry import INDEX, observe
from smp_memory.store.postgres.tables import (
    LAYOUT,
    MOST_SESSIONS,
    NO_CURSOR,
    EntryRows,
    changes_since,
    decode_entry,
    decode_numbers,
    live_numbers,
    read_sessions,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from smp_memory.index.index import Index
    from smp_memory.index.rows import IndexedSession, PlacedRow, Row
    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.entry import Entry
    from smp_memory.model.record import Record
    from smp_memory.store.postgres.tables import Changes, FedSession, StoredEntry, Tables

    Progress = Callable[[str, int], None] | None

AS_OF = "as_of"  # key in the index's table `meta`: the time of the last catch-up
_ENTRIES = "entries"  # the only "file" of an indexed session
_DUPLICATES = "~"  # as the places of memories of a session in which an id was allocated twice
_CHUNK_BYTES = 4 << 20  # of the sessions that are read by one statement
_SAVE_SECONDS = 30.0  # how often the time of a catch-up that found nothing is saved


class PostgresSource:
    """The source (`smp_memory.index.stored_feed.Source`) of one store in PostgreSQL."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.opened()

    def opened(self) -> None:
        self._saved_at, self._is_prepared = 0.0, False

    def session_not_found(self, session: str) -> SMPError:
        if live_numbers(self._tables, [session]):
            text = f"Session {session} is not in the index on this computer yet. Repeat it in a moment, or run `smp reindex`."
            return Busy(text, session=session)
        return self._tables.session_not_found(session)

    # -- catching up

    def catch_up(self, index: Index, sessions: list[str] | None, deadline: float, progress: Progress) -> bool:
        if not self._is_prepared:
            index.rows.do("PRAGMA secure_delete = ON")  # what was erased on the server is overwritten here, too
            self._is_prepared = True
        cursor = index.rows.meta(CURSOR, NO_CURSOR)
        changes = changes_since(self._tables, cursor)
        if not changes.is_complete and _hides_some(index, changes):
            changes = changes_since(self._tables, NO_CURSOR)
        if not changes.is_complete and all(_is_indexed(index, each) for each in changes.sessions):
            self._save_time(index)
            return False
        limit = None
        if progress is None:
            limit = time.monotonic() + self._tables.config["search.catch_up_ms"] / 1000
            deadline = min(deadline, limit)
        run = _CatchUp(self._tables, index, sessions, limit)
        try:
            observe(INDEX, self._tables, run.index_all, index, changes.sessions, changes, cursor, deadline, progress)
        except IndexBusy:  # another process catches up, for so long that it must be the first time
            run.left = sum(not _is_indexed(index, each) for each in changes.sessions)
        if run.left:
            self._report_left(run.left)
        return True

    def _save_time(self, index: Index) -> None:
        now = time.time()
        if now - self._saved_at > _SAVE_SECONDS:
            self._saved_at = now
            index.rows.save_hints({AS_OF: now}, index.rows.data_version())

    def _report_left(self, left: int) -> None:
        text = (
            f"{left:,} sessions are not searched yet, or as they were: the index on this computer is still being made. "
            "`smp reindex` makes it whole and shows how far it is."
        )
        incomplete.report([Problem(self._tables.root, 0, incomplete.NOT_INDEXED, text, "error")])

    def fill(self, index: Index, sessions: list[str] | None) -> None:
        run, numbers = _CatchUp(self._tables, index, sessions, None), live_numbers(self._tables, sessions)
        for first in range(0, len(numbers), MOST_SESSIONS):
            part = numbers[first : first + MOST_SESSIONS]
            for each in read_sessions(self._tables, [(number, -1, 0) for number in part]):
                run.index_session(index, each)

    # -- records

    def records(
        self, index: Index, rows: Iterable[PlacedRow], gone: dict[str, LeftOut] | None = None
    ) -> dict[int, Record | None]:
        return records_of(index, rows)


def records_of(index: Index, rows: Iterable[PlacedRow]) -> dict[int, Record | None]:
    """The records of these rows, of the entries that the index keeps."""
    placed = list(rows)
    kept = kept_entries(index.rows, [row.doc for row in placed])
    found: dict[int, Record | None] = {}
    for row in placed:
        session = index.rows.session_of(row.doc)
        if session is not None:
            history = _history(index, session, row, kept.get(row.doc, ""))
            found[row.doc] = history.record(session) if history is not None else None
    return found


def entries_of(index: Index, session: str) -> list[Entry]:
    """All entries of a session that the index keeps."""
    known = index.rows.session(session)
    texts = kept_entries_of(index.rows, known) if known is not None else []
    decoded = [decode_entry(None, line, 0, session)[0] for text in texts for line in text.split("\n")]
    return [entry for entry in decoded if entry is not None]


class _Position:
    """How far the index has read a session: kept in `IndexedSession.files`."""

    def __init__(self, known: IndexedSession | None) -> None:
        saved = known.files.get(_ENTRIES) if known is not None else None
        self.number, self.generation, self.ending, self.version = saved or [0, -1, 0, []]

    def is_at(self, session: FedSession) -> bool:
        return (self.number, self.generation, self.version) == (session.number, session.generation, session.version)

    def continues(self, session: FedSession) -> bool:
        return (self.number, self.generation) == (session.number, session.generation)


def _is_indexed(index: Index, session: FedSession) -> bool:
    """Whether the index has the session as it is; one that is not live, whether the index has it not."""
    position = _Position(index.rows.session(session.id))
    return position.is_at(session) if session.state == LIVE else bool(position.number != session.number)


def _hides_some(index: Index, changes: Changes) -> bool:
    """Whether the viewer sees another number of sessions than the index will have after these changes."""
    if changes.visible is None:
        return False
    names = set(index.rows.session_ids())
    live = {each.id for each in changes.sessions if each.state == LIVE}
    names = names - {each.id for each in changes.sessions} | live
    return bool(len(names) != changes.visible)


def _history(index: Index, session: str, row: Any, kept: str) -> RecordHistory | None:
    """The history of a memory, of the entries that the index keeps."""
    names, history = None, None
    if row.places == _DUPLICATES:
        known = index.rows.session(session)
        names = ReadableIds.from_list(known.names if known is not None else [])
    for line in kept.split("\n") if kept else ():
        entry, _ = decode_entry(None, line, 0, session)
        if entry is None:
            return None
        if names is not None:
            entry = names.resolved(entry)
        if history is None:
            history = RecordHistory(entry)
        else:
            entry.type = history.first.type
            history.append(entry)
    return history


class _CatchUp:
    """One catch-up: which sessions are read, and how each is indexed. Runs inside of the transactions of the index."""

    def __init__(self, tables: Tables, index: Index, sessions: list[str] | None, limit: float | None) -> None:
        """`sessions`: those that the answer is about; the others are read if they came along. `limit`: when to stop, on `time.monotonic`."""
        self._tables, self._index, self._limit = tables, index, limit
        self._wanted = None if sessions is None else set(sessions)
        self._has_other_past = False  # whether sessions may differ from the index in entries that were indexed
        self.left = 0  # sessions that the answer is about, and that were not read

    def index_all(
        self,
        index: Index,
        sessions: list[FedSession],
        changes: Changes,
        cursor: str,
        deadline: float,
        progress: Progress,
    ) -> int:
        """Index these changes; returns the number of new memories."""
        return index_in_chunks(index, self._stale(changes, cursor), self.index_session, deadline, progress)

    def _stale(self, changes: Changes, cursor: str) -> Iterator[FedSession]:
        """The sessions to index. Between two of them the transaction may be committed and another one begun."""
        index = self._index
        saved = index.rows.meta(CURSOR, NO_CURSOR)
        if saved != cursor:  # another process caught up meanwhile
            changes = changes_since(self._tables, NO_CURSOR if changes.is_complete else saved)
        self._has_other_past = changes.is_complete
        self._remove_gone(changes)
        others = []
        for each in changes.sessions:
            if each.state != LIVE or _is_indexed(index, each):
                continue
            if each.is_whole or self._appended(index.rows.session(each.id), each) is not None:
                yield each
            else:
                others.append(each)
        wanted = [each for each in others if self._wanted is None or each.id in self._wanted]
        for each in self._read_in_chunks(wanted):
            yield each
            if self._limit is not None and time.monotonic() > self._limit:
                self.left = sum(not _is_indexed(index, each) for each in wanted)
                break
        if len(wanted) == len(others) and not self.left:
            index.rows.set_meta(CURSOR, changes.cursor)
            index.rows.set_meta(AS_OF, time.time())

    def _read_in_chunks(self, sessions: list[FedSession]) -> Iterator[FedSession]:
        for chunk in _chunks(sessions):
            # So that a process that asked before this chunk was read asks again before it changes anything.
            self._index.rows.set_meta(CURSOR, json.dumps([f"until {time.time_ns()}", "1:1:"]))
            # Another process may have indexed some meanwhile.
            missing = [each for each in chunk if not _is_indexed(self._index, each)]
            yield from read_sessions(self._tables, [self._from(each) for each in missing])

    def _from(self, session: FedSession) -> tuple[int, int, int]:
        position = _Position(self._index.rows.session(session.id))
        if self._has_other_past or not position.continues(session):
            return session.number, -1, 0
        return session.number, position.generation, position.ending

    def _remove_gone(self, changes: Changes) -> None:
        """Rows are told apart by number: somebody may store a row with the id of another one's session."""
        index = self._index
        gone = {each.number: each.id for each in changes.sessions if each.state != LIVE}
        names = index.rows.session_ids() if changes.is_complete else set(gone.values())
        live = {each.id for each in changes.sessions if each.state == LIVE}
        for name in [name for name in names if name not in live]:
            known = index.rows.session(name)
            if known is not None and (changes.is_complete or _Position(known).number in gone):
                index.remove(known)
                save_problems(index, name, (), grown=False)

    # -- one session

    def _appended(self, known: IndexedSession | None, session: FedSession) -> list[StoredEntry] | None:
        """The entries that the index lacks; None if it does not have those before, or if some did not come along."""
        position = _Position(known)
        if known is None or not known.whole or self._has_other_past or not position.continues(session):
            return None
        return session.entries_from(position.ending)

    def index_session(self, index: Index, session: FedSession) -> int:
        """Index what is new in a session; returns the number of new memories."""
        known = index.rows.session(session.id) or index.rows.new_session(session.id)
        size, rest = known.size, self._appended(known, session)
        if rest is None or not self._append(known, rest):
            read = [session] if session.is_whole else read_sessions(self._tables, [(session.number, -1, 0)])
            if not read:  # archived or deleted meanwhile
                index.remove(known)
                return 0
            session, size = read[0], 0
            self._replace(known, session)
        known.files = {_ENTRIES: [session.number, session.generation, session.ending, session.version]}
        known.about = _about(session)
        index.rows.save_session(known)
        return known.size - size

    def _append(self, known: IndexedSession, rest: list[StoredEntry]) -> bool:
        """Index appended entries; False if they do more than add memories and change indexed ones."""
        index, fresh, rows = self._index, SessionHistory(), EntryRows(rest, self._where(known.id))
        fresh.names = ReadableIds.from_list(known.names) if known.names else fresh.names
        fresh.add(rows.entries)
        size, before = known.size, dict[str, str]()

        def read(row: Row) -> RecordHistory | None:
            before[row.id] = kept_entries(index.rows, [row.doc]).get(row.doc, "")
            return _history(index, known.id, row, before[row.id])

        changed = index_appended(index, known, fresh, _places(fresh), read)
        if changed is None:
            return False
        lines = {start: line for start, _, line in rest}

        def text_of(history: RecordHistory) -> str:
            id = history.first.id
            if id not in before:
                return _text(history, lines)
            new = history.entries[-len(fresh.orphans[id]) :]
            return "\n".join([before[id], *(lines[entry.place[0]] for entry in new)])

        keep_entries(index.rows, known, size, fresh.histories.values(), changed, text_of)
        known.seq = max(known.seq, fresh.seq)
        save_problems(index, known.id, rows.problems, grown=True)
        return True

    def _replace(self, known: IndexedSession, session: FedSession) -> None:
        fresh = SessionHistory(
            lambda: decode_numbers(session.numbers) or {}
        )  # they keep ids apart that were given out twice
        index, rows = self._index, EntryRows(session.entries, self._where(known.id))
        fresh.add(rows.entries)
        histories = fresh.histories.values()
        index.replace(known, histories, _places(fresh))
        lines = {start: line for start, _, line in session.entries}
        keep_entries(index.rows, known, 0, histories, {}, lambda history: _text(history, lines))
        known.whole = not fresh.orphans
        known.names = fresh.names.to_list() if fresh.names else []
        known.seq = fresh.seq
        save_problems(index, known.id, rows.problems, grown=False)

    def _where(self, session: str) -> str:
        return f"{self._tables.root}#{session}"


def _places(history: SessionHistory) -> Callable[[RecordHistory], str]:
    mark = _DUPLICATES if history.names else ""
    return lambda _: mark


def _text(history: RecordHistory, lines: dict[int, str]) -> str:
    return "\n".join([lines[entry.place[0]] for entry in history.entries])


def _about(session: FedSession) -> str:
    """Version of the metadata, user, project, settings and title, as JSON for the index; empty if the metadata cannot be read."""
    try:
        info = LAYOUT.decode_info(session.info.encode(), session.id)
        return json.dumps(
            [[session.number, session.version[0]], session.person, session.project, info.config, info.title]
        )
    except (SMPError, ValueError, TypeError, AttributeError, RecursionError):
        return ""


def _chunks(sessions: list[FedSession]) -> Iterator[list[FedSession]]:
    """Sessions that are read by one statement."""
    chunk: list[FedSession] = []
    size = 0
    for each in sessions:
        if chunk and (size + each.bytes > _CHUNK_BYTES or len(chunk) >= MOST_SESSIONS):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += each.bytes
    if chunk:
        yield chunk
