"""Is the index sound, and does it say what the files say? A look at the one on disk, without catching it up.

A missing or outdated index, or one that is behind, is no fault: the next question makes or catches it up. A damaged one,
or one that has caught up and says something else than the files, is.

Guarantees: nothing is written. Every row of every session that is caught up is compared with the files (which memories,
deleted or not, their times, where they stand); their words are compared for a sample.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from smp_memory.health.report import NOTE, WARNING, Check, HealthIssue, counted, named
from smp_memory.index.documents import IndexDocument, microseconds
from smp_memory.index.inspection import IndexInspection, inspect_index
from smp_memory.index.rows import IndexUnusable
from smp_memory.store.indexer import FOLDER
from smp_memory.store.record_reader import MARK
from smp_memory.store.stat_cache import StatCache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp_memory.health.subject import HealthSubject, SessionSubject
    from smp_memory.index.rows import IndexedSession, Row
    from smp_memory.model.history import RecordHistory

_LOOKS, _PAUSE_SECONDS = 5, 0.2
_SAMPLE = 50  # memories of each session whose words are compared
_LARGE_BYTES, _LARGE_SHARE = 32 << 20, 4.0
_FIX = "smp doctor --fix, or smp reindex, makes it anew from the files."
INDEX_FIX = "index"


class IndexCheck(Check):
    name = "index"
    title = "index agrees with the files"

    def __init__(self) -> None:
        self._index: IndexInspection | None = None
        self._opened = False
        self._known: dict[str, IndexedSession] = {}
        self._names: dict[str, int] = {}
        self._caught_up = self._compared = self._sessions = self._bytes = 0
        self._wrong = ""  # why it cannot be used

    def session(self, session: SessionSubject) -> Iterator[HealthIssue]:
        self._sessions += 1
        self._bytes += sum(session.files.sizes().values())
        self._open(session.subject)
        known = self._known.get(session.id)
        if self._index is None or known is None or not _has_caught_up(session, known):
            return
        self._caught_up += 1
        try:
            rows = self._index.memories_of(known)
        except IndexUnusable as error:
            self._wrong = self._wrong or f"its rows cannot be read ({error})"
            return
        ids = sorted(self._differing(session, known, rows))
        self._compared += len(rows)
        ids = sorted(self._still_differing(session, ids)) if ids and not self._index.has_changed else []
        if ids:
            message = f"The index says something else than the files about {counted(len(ids), 'memory', 'memories')}: {named(ids)}."
            yield HealthIssue(
                self.name, WARNING, message, _FIX, session.id, tuple(ids), self._index.folder, fix=INDEX_FIX
            )

    def store(self, subject: HealthSubject) -> Iterator[HealthIssue]:
        self._open(subject)
        base = subject.state.path(FOLDER)
        if not self._wrong and self._index is not None and not subject.quick:
            self._wrong = self._lasting_damage(base)
        if self._wrong:
            message = f"The index is damaged: {self._wrong}. Answers come from the files all the same."
            yield HealthIssue(self.name, WARNING, message, _FIX, path=base, fix=INDEX_FIX)
        elif self._index is not None:
            version = self._index.version
            if version and not self._index.is_current:  # one without a version is just being made
                message = f"The index is of another version ({version}); the next question makes a new one."
                yield HealthIssue(self.name, NOTE, message, _FIX, path=base, fix=INDEX_FIX)
            yield from self._size(base)
        self._say()
        if self._index is not None:
            self._index.close()

    def _lasting_damage(self, base: str) -> str:
        """What is wrong and stays so: words are committed before the rows that speak of them."""
        found = _damage(self._index)
        for _ in range(_LOOKS):
            if not found:
                break
            time.sleep(_PAUSE_SECONDS)
            try:
                fresh = inspect_index(base)
            except IndexUnusable as error:
                return str(error)
            before, found = found, _damage(fresh)
            if fresh is not None:
                fresh.close()
            if found == before:
                break
        return found

    def _say(self) -> None:
        if self._index is None:
            self.said = "made when it is first asked" if not self._wrong else ""
        else:
            compared, sessions = counted(self._compared, "memory", "memories"), counted(self._sessions, "session")
            self.said = f"{compared} compared, {self._caught_up:,} of {sessions}"

    def _open(self, subject: HealthSubject) -> None:
        if self._opened:
            return
        self._opened = True
        if not subject.state.on_disk:
            return  # it is in RAM, and made from the files each time
        try:
            self._index = inspect_index(subject.state.path(FOLDER))
            if self._index is not None and self._index.is_current:
                self._known = self._index.sessions()
                self._names = {name: number for number, name in self._index.names().items()}
        except (IndexUnusable, OSError, ValueError, TypeError) as error:
            self._wrong = f"it cannot be opened ({error})"

    def _size(self, base: str) -> Iterator[HealthIssue]:
        size = sum(_bytes(os.path.join(folder, name)) for folder, _, names in os.walk(base) for name in names)
        if size > _LARGE_BYTES and size > _LARGE_SHARE * self._bytes:
            message = f"The index takes {size / (1 << 20):.0f} MiB, {size / max(self._bytes, 1):.1f} times as much as the files."
            yield HealthIssue(self.name, NOTE, message, _FIX, path=base, fix=INDEX_FIX)

    def _differing(self, session: SessionSubject, known: IndexedSession, rows: dict[str, Row]) -> Iterator[str]:
        histories = session.session_history.histories
        yield from rows.keys() ^ histories.keys()
        step = max(1, len(histories) // _SAMPLE)
        for place, (id, history) in enumerate(histories.items()):
            row = rows.get(id)
            if row is not None and not (
                self._agrees(session, history, row) and (place % step or self._has_its_words(session.id, history, row))
            ):
                yield id

    def _still_differing(self, session: SessionSubject, ids: list[str]) -> set[str]:
        """What differs when both are read once more: others may write to either while we look."""
        time.sleep(_PAUSE_SECONDS)
        again = session.subject.session(session.id)
        index = inspect_index(session.subject.state.path(FOLDER))
        if index is None:
            return set()
        try:
            known = index.sessions().get(session.id)
            if known is None or not _has_caught_up(again, known):
                return set()
            self._names = {name: number for number, name in index.names().items()}
            found = set(self._differing(again, known, index.memories_of(known))).intersection(ids)
            return set() if index.has_changed else found
        except IndexUnusable:
            return set()  # its damage is told at the end
        finally:
            index.close()

    def _agrees(self, session: SessionSubject, history: RecordHistory, row: Row) -> bool:
        last = history.last
        if bool(row.deleted) != (history.deletion is not None) or row.created != microseconds(history.first.at):
            return False
        if row.updated != (microseconds(last.at) if last is not history.first else None):
            return False
        start = len(session.reader.folder) + 1
        stand = " ".join(
            f"{self._names.get(entry.file[start:])}:{entry.place[0]}:{entry.place[1] - entry.place[0]}"
            for entry in history.entries
        )
        return bool(stand == row.places.removeprefix(MARK))

    def _has_its_words(self, session: str, history: RecordHistory, row: Row) -> bool:
        shape = IndexDocument(row.doc, session, history, lambda name: self._names.get(name, 0), row.places)
        return bool(shape.row[15] == row.digest)


def _damage(index: IndexInspection | None) -> str:
    try:
        return "; ".join(list(index.damage())[:3]) if index is not None else ""
    except IndexUnusable as error:
        return str(error)


def _has_caught_up(session: SessionSubject, known: IndexedSession) -> bool:
    """Whether the files still look as they did when they were taken in."""
    looks = StatCache(session.subject.store)
    cursors: dict[str, Any] = known.files
    if not cursors or any(not cursor[8] for cursor in cursors.values()) or session.reader.journal.exists():
        return False
    if session.reader.is_overlaid:  # part of it stands in a plan, not yet in its file
        return False
    states = session.reader.states
    for name, cursor in cursors.items():  # a reader may have read more than was there when it looked at the file
        state = states.get(name)
        if state is None or state.identity != cursor[:4] or state.end != cursor[5]:
            return False
    return looks.agree(session.id, cursors, looks.of(session.id))


def _bytes(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:  # gone meanwhile
        return 0
