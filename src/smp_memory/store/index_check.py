"""Check of the search index on disk, and its fix: it is undamaged and agrees with the files. It is not brought up to date for this.

A missing index, an index of another version and one that is behind the files are no fault: the next query builds it or
brings it up to date. An index that is damaged, or up to date and different from the files, is a fault.

Guarantees: the check writes nothing. Every row of every up-to-date session is compared with the files (which memories, deleted
or not, times, positions in the files); words are compared for a sample.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from smp_memory.health.examination import NOTE, WARNING, Check, HealthIssue, counted, named
from smp_memory.index.documents import IndexDocument, microseconds
from smp_memory.index.embeddings import missing_part
from smp_memory.index.index import discard_all
from smp_memory.index.inspection import IndexInspection, inspect_index
from smp_memory.index.rows import IndexUnusable
from smp_memory.index.stored_feed import FOLDER
from smp_memory.store.change_detection import StatCache
from smp_memory.store.record_reader import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from smp_memory.index.rows import IndexedSession, Row
    from smp_memory.model.history import RecordHistory
    from smp_memory.store.file_examination import FileExamination, FileSessionExamination

_ATTEMPTS, _PAUSE_SECONDS = 5, 0.2
_SAMPLE, _QUICK_SAMPLE = 50, 10  # memories of each session whose words are compared
_LARGE_BYTES, _LARGE_SHARE = 32 << 20, 4.0
_FIX = "smp doctor --fix, or smp reindex, rebuilds it from the files."
INDEX_FIX = "index"


class IndexCheck(Check):
    name = "index"
    title = "the search index matches the files"
    failed = "the search index does not match the files"
    fails_from = WARNING

    def __init__(self) -> None:
        self._index: IndexInspection | None = None
        self._opened = False
        self._known: dict[str, IndexedSession] = {}
        self._names: dict[str, int] = {}
        self._up_to_date = self._compared = self._sessions = self._bytes = 0
        self._damage = ""  # why the index cannot be used

    def session(self, session: FileSessionExamination) -> Iterator[HealthIssue]:
        self._sessions += 1
        self._bytes += sum(session.files.sizes().values())
        self._open(session.subject)
        known = self._known.get(session.id)
        if self._index is None or known is None or not _is_up_to_date(session, known):
            return
        self._up_to_date += 1
        try:
            rows = self._index.memories_of(known)
        except IndexUnusable as error:
            self._damage = self._damage or f"its rows cannot be read ({error})"
            return
        ids = sorted(self._differing(session, known, rows))
        self._compared += len(rows)
        ids = sorted(self._still_differing(session, ids)) if ids and not self._index.has_changed else []
        if ids:
            message = f"The index differs from the files in {counted(len(ids), 'memory', 'memories')}: {named(ids)}."
            yield HealthIssue(
                self.name, WARNING, message, _FIX, session.id, tuple(ids), self._index.folder, fix=INDEX_FIX
            )

    def store(self, subject: FileExamination) -> Iterator[HealthIssue]:
        self._open(subject)
        base = subject.state.path(FOLDER)
        if not self._damage and self._index is not None and not subject.quick:
            self._damage = self._lasting_damage(base)
        if self._damage:
            message = f"The index is damaged: {self._damage}. Queries are still answered from the files."
            yield HealthIssue(self.name, WARNING, message, _FIX, path=base, fix=INDEX_FIX)
        elif self._index is not None:
            version = self._index.version
            if version and not self._index.is_current:  # without a version it is just being built
                self.title = "the search index is of another version"
                message = f"The index is of another version ({version}); the next query builds a new one."
                yield HealthIssue(self.name, NOTE, message, _FIX, path=base, fix=INDEX_FIX)
            yield from self._size(base)
        lacks = missing_part() if subject.config["search.semantic"] != "off" else ""
        if lacks:
            message = f"Memories are searched by words alone, not by meaning: this installation lacks {lacks}."
            yield HealthIssue(self.name, NOTE, message, "pip install --force-reinstall smp-memory")
        self._set_summary()
        if self._index is not None:
            self._index.close()

    def _lasting_damage(self, base: str) -> str:
        """Damage that persists. While the index is being written it may look damaged: words are committed before rows."""
        found = _find_damage(self._index)
        for _ in range(_ATTEMPTS):
            if not found:
                break
            time.sleep(_PAUSE_SECONDS)
            before, found = found, _damage_at(base)
            if found == before:
                break
        return found

    def _set_summary(self) -> None:
        if self._index is None:
            self.title = "there is no search index yet"
            self.summary = "built by the first query" if not self._damage else ""
        else:
            compared, sessions = counted(self._compared, "memory", "memories"), counted(self._sessions, "session")
            self.summary = f"{compared} compared, {self._up_to_date:,} of {sessions}"

    def _open(self, subject: FileExamination) -> None:
        if self._opened:
            return
        self._opened = True
        if not subject.state.on_disk:
            return  # it is in RAM, and built from the files each time
        for attempt in range(_ATTEMPTS):
            try:
                self._read_index(subject.state.path(FOLDER))
                return
            except (IndexUnusable, OSError, ValueError, TypeError) as error:
                if attempt == _ATTEMPTS - 1:
                    self._damage = f"it cannot be opened ({error})"
            time.sleep(_PAUSE_SECONDS)  # another process may be opening, closing or replacing it

    def _read_index(self, base: str) -> None:
        self._index = inspect_index(base)
        if self._index is not None and self._index.is_current:
            self._known = self._index.sessions()
            self._names = {name: number for number, name in self._index.names().items()}

    def _size(self, base: str) -> Iterator[HealthIssue]:
        size = sum(_bytes(os.path.join(folder, name)) for folder, _, names in os.walk(base) for name in names)
        if size > _LARGE_BYTES and size > _LARGE_SHARE * self._bytes:
            message = f"The index takes {size / (1 << 20):.0f} MiB, {size / max(self._bytes, 1):.1f} times as much as the files."
            yield HealthIssue(self.name, NOTE, message, _FIX, path=base, fix=INDEX_FIX)

    def _differing(self, session: FileSessionExamination, known: IndexedSession, rows: dict[str, Row]) -> Iterator[str]:
        histories = session.session_history.histories
        yield from rows.keys() ^ histories.keys()
        step = max(1, len(histories) // (_QUICK_SAMPLE if session.subject.quick else _SAMPLE))
        for place, (id, history) in enumerate(histories.items()):
            row = rows.get(id)
            if row is not None and not (
                self._matches(session, history, row)
                and (place % step or self._has_same_words(session.id, history, row))
            ):
                yield id

    def _still_differing(self, session: FileSessionExamination, ids: list[str]) -> set[str]:
        """The ids that differ when both are read once more: other processes may write to either meanwhile."""
        time.sleep(_PAUSE_SECONDS)
        again = session.subject.session(session.id)
        index = inspect_index(session.subject.state.path(FOLDER))
        if index is None:
            return set()
        try:
            known = index.sessions().get(session.id)
            if known is None or not _is_up_to_date(again, known):
                return set()
            self._names = {name: number for number, name in index.names().items()}
            found = set(self._differing(again, known, index.memories_of(known))).intersection(ids)
            return set() if index.has_changed else found
        except IndexUnusable:
            return set()  # its damage is reported at the end
        finally:
            index.close()

    def _matches(self, session: FileSessionExamination, history: RecordHistory, row: Row) -> bool:
        last = history.last
        if bool(row.deleted) != (history.deletion is not None) or row.created != microseconds(history.first.at):
            return False
        if row.updated != (microseconds(last.at) if last is not history.first else None):
            return False
        start, names = len(session.reader.folder) + 1, self._names
        positions = " ".join(
            [
                f"{names.get(entry.file[start:])}:{entry.place[0]}:{entry.place[1] - entry.place[0]}"
                for entry in history.entries
            ]
        )
        return bool(positions == row.places.removeprefix(MARK))

    def _has_same_words(self, session: str, history: RecordHistory, row: Row) -> bool:
        shape = IndexDocument(row.doc, session, history, lambda name: self._names.get(name, 0), row.places)
        return bool(shape.row[15] == row.digest)


def _find_damage(index: IndexInspection | None) -> str:
    try:
        return "; ".join(list(index.damage())[:3]) if index is not None else ""
    except IndexUnusable as error:
        return str(error)


def _damage_at(base: str) -> str:
    try:
        index = inspect_index(base)
    except IndexUnusable as error:
        return str(error)
    try:
        return _find_damage(index)
    finally:
        if index is not None:
            index.close()


def _is_up_to_date(session: FileSessionExamination, known: IndexedSession) -> bool:
    """Whether the files are unchanged since they were indexed."""
    stats = StatCache(session.subject.store)
    cursors: dict[str, Any] = known.files
    if not cursors or any(not cursor[8] for cursor in cursors.values()) or session.reader.journal.exists():
        return False
    if session.reader.is_overlaid:  # part of the session is in a journal, not yet in its file
        return False
    states = session.reader.states
    for name, cursor in cursors.items():  # the reader may have read more than the file had when it took its stat
        state = states.get(name)
        if state is None or state.identity != cursor[:4] or state.end != cursor[5]:
            return False
    return stats.matches_cursors(session.id, cursors, stats.stat_session(session.id))


def _bytes(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:  # gone meanwhile
        return 0


def rebuild_index(subject: FileExamination, issues: list[HealthIssue], open_store: Callable[[], Any]) -> Iterator[str]:
    """Discard the index and rebuild it from the files."""
    store = open_store()
    indexer = store.indexer
    with indexer.feed.mutex:
        indexer.close()
        if store.state.on_disk and os.path.isdir(indexer.folder):
            discard_all(indexer.folder)
        count = indexer.rebuild()
    yield f"rebuilt from the files: {count:,} memories"
