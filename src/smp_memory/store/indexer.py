"""Does the index know what the files hold? The only module that knows both.

Before every answer the index is caught up: the files of the sessions asked for are looked at; what is new is read from
where the index stopped, and taken in. So every process finds its own and others' acknowledged writes, and edits by
hand. In a store with very many sessions not all files are looked at each time: `smp_memory.files.change_table` tell which sessions
were written by SMP, and the others are looked at a few times per second, which is when edits by hand are seen.

A damaged or missing index is made anew by whoever gets its lock. While that goes on, and where no index can be kept (a
disk that is full or can only be read), a private one is made in RAM of the sessions asked for. What the index says is
never handed out by itself: records come from the files, from where the index says they stand.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
import time

from smp_memory.errors import SMPError, from_os_error
from smp_memory.files.change_table import changed_slots, slot_of
from smp_memory.files.partial_reader import TICK_NS, IncrementReader, SpanReader
from smp_memory.index import native_libraries
from smp_memory.index.index import Index, current_folder, discard
from smp_memory.index.rows import IndexBusy, IndexUnusable
from smp_memory.model import ids
from smp_memory.model.clone_merge import ReadableIds
from smp_memory.model.history import RecordHistory
from smp_memory.store import embedding_sync, incomplete
from smp_memory.store.access_counts import PendingAccesses
from smp_memory.store.finder import Finder
from smp_memory.store.parallel_tokenizer import with_words
from smp_memory.store.record_reader import MARK, RecordReader
from smp_memory.store.stat_cache import StatCache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from smp_memory.index.rows import IndexedSession
    from smp_memory.model.entry import Entry
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.parallel_tokenizer import TokenizedSession

    T = TypeVar("T")

FOLDER = "index"
_ALWAYS_LOOK_SECONDS = 0.0015  # as long as a look at all files takes no longer than this, it is taken every time
_LOOK_PAUSES = 20  # otherwise so many times as long passes between two
_SHORTEST_PAUSE_SECONDS = 0.25
_PATIENCE_SECONDS = 2.0  # with another process that is at work on the index
_CHUNK_MEMORIES = 20_000  # of a large rebuild: committed at once; an erasure takes in so many again, a crash too
_COUNT_PAUSE_SECONDS = 2.0
_FEW_ACCESSES_BYTES = 4096  # of the log; they wait until the process lives longer, or there are more
_NEVER = -1e9
_left_to_parents: list[Any] = []  # SQLite's files must be neither used nor closed by a child that was forked
_TRIES = 5
_FEW = 8


class Indexer:
    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._mutex = threading.RLock()
        self._index: Index | None = None
        self._is_private = False
        self._looks = StatCache(store)
        self._indexed: set[str] = set()
        self._indexed_version = -1
        self._names: list[str] = []
        self._base_seen: tuple[int, ...] = ()
        self._slots: dict[int, list[str]] = {}
        self._marks = b""
        self._looked_at = -1e9
        self._look_seconds = 0.0
        self._seen_version = -1
        self._counted_at = _NEVER
        self._pid = os.getpid()
        self.reader = RecordReader(store, self._distrust)
        self.pending = PendingAccesses(store.access)

    def _distrust(self, session: str) -> None:
        self._looks.forget(session)

    @property
    def folder(self) -> str:
        return self._store.state.path(FOLDER)

    @property
    def mutex(self) -> threading.RLock:
        """Whoever looks at the index holds it. A child made by `fork` has one of its own."""
        if self._pid != os.getpid():
            _left_to_parents.append(self._index)
            self._mutex, self._index, self._pid = threading.RLock(), None, os.getpid()
        return self._mutex

    # -- answering

    def caught_up(self, sessions: list[str] | None, progress: Callable[[str, int], None] | None = None) -> Index:
        """The index, knowing all that was acknowledged in these sessions (None: all) before the call. Hold `mutex`."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for attempt in range(_TRIES):
            try:
                index = self._opened()
                self._catch_up(index, sessions, deadline, progress)
                self._count_accesses(index)
                return index
            except IndexBusy:
                return self._private(sessions)
            except native_libraries.LibraryMissing:
                self.close()  # the index on disk is left to those who have the library
            except SMPError:
                raise
            except OSError as error:
                raise from_os_error(error, self._store.root, "looking for memories") from error
            except BaseException as error:
                if not is_damage(error) or (self._index is not None and self._index.is_in_memory):
                    raise
                self._discard()
                if attempt + 2 >= _TRIES:
                    return self._private(sessions)
        raise AssertionError("the last attempt returns")

    def answer(
        self,
        sessions: list[str] | None,
        work: Callable[[Finder], T],
        *,
        with_others: bool = False,
        by_meaning: bool = False,
    ) -> T:
        """Answer from these sessions (None: all), in one state of the index. A damaged index is made anew once."""
        with self.mutex:
            for _ in range(2):
                finder = self.finder(sessions, with_others=with_others)
                index = finder.index
                try:
                    if by_meaning:
                        embedding_sync.catch_up(index, self.reader)
                    return self._undisturbed(index, finder, work)
                except native_libraries.LibraryMissing:
                    self.close()
                except SMPError:
                    raise
                except OSError as error:  # a file could not be read; the index may well be whole
                    raise from_os_error(error, self._store.root, "looking for memories") from error
                except BaseException as error:
                    if index.is_in_memory or not is_damage(error):
                        raise
                    self._discard()
            return work(Finder(self, self._private(None if with_others else sessions)))

    def _undisturbed(self, index: Index, finder: Finder, work: Callable[[Finder], T]) -> T:
        """Rows and text as they are at one moment, whatever other processes do meanwhile."""
        index.rows.do("BEGIN")
        try:
            self._refresh(index)  # the first look is at the state that all others see
            return work(finder)
        finally:
            index.rows.roll_back()

    def finder(self, sessions: list[str] | None, *, with_others: bool = False) -> Finder:
        """What answers one question about these sessions (None: all). Hold `mutex` as long as it is used."""
        index = self.caught_up(None if with_others else sessions)
        for name in sessions or ():
            if not index.rows.has_session(name):
                raise self._store.no_session(name)
        return Finder(self, index)

    def _opened(self) -> Index:
        if self._index is not None and self._is_private:
            self.close()  # another process may have finished its work
        if self._index is not None and not self._index.exists:
            self.close()  # another process threw it away
        if self._index is None:
            self._index = Index(self._folder_in_use(), embedding_sync.embedder(self._store.config))
            self._indexed, self._indexed_version = set(self._index.rows.session_ids()), -1
            self._counted_at = _NEVER
            self._looks = StatCache(self._store)
            self._names, self._marks, self._looked_at, self._seen_version = [], b"", -1e9, -1
        return self._index

    def _folder_in_use(self) -> str | None:
        """Where the index lies now; None if it lives in RAM."""
        if not self._store.state.on_disk or not native_libraries.all_loaded():
            return None
        try:
            self._store.state.make()
        except (OSError, SMPError) as error:
            raise IndexUnusable(f"no place for the index: {error}") from error
        native_libraries.disk_is_used()
        return current_folder(self.folder)

    def _private(self, sessions: list[str] | None) -> Index:
        """An index in RAM of what is asked for, made on the spot."""
        self.close()
        index = self._index = Index(None)
        self._is_private = True
        names = self._store.session_ids() if sessions is None else sessions
        index.begin()
        for name in names:
            self._take_in(index, name)
        index.commit()
        index.text.refresh()
        return index

    def _refresh(self, index: Index) -> None:
        version = index.rows.data_version()
        if version != self._seen_version:
            index.text.refresh()
            self._seen_version = version
            self.pending.forget_numbers()

    def _count_accesses(self, index: Index) -> None:
        """Take in what readers noted, now and then; if another process is at work, next time."""
        now = time.monotonic()
        if now - self._counted_at < _COUNT_PAUSE_SECONDS:
            return
        is_first, self._counted_at = self._counted_at == _NEVER, now  # a process that answers once has no time for few
        log = self._store.access
        offset, size = int(index.rows.meta("access_offset", 0)), log.size_bytes()
        if size == offset or (is_first and 0 < size - offset < _FEW_ACCESSES_BYTES):
            return
        try:
            index.begin()
        except IndexBusy:
            return
        try:
            offset = int(index.rows.meta("access_offset", 0))
            noted, end = log.read(offset if offset <= size else 0)
            index.count_accesses(noted)
            index.rows.set_meta("access_offset", end)
            index.commit()
        except BaseException:
            index.roll_back()
            raise
        self._seen_version = -1

    def count_all_accesses(self, *, from_start: bool = False) -> None:
        """Take in now what readers noted; `from_start`: the log was made anew."""
        with self.mutex:
            index = self.caught_up(None)
            if from_start:
                index.begin()
                index.rows.set_meta("access_offset", 0)
                index.commit()
            self._counted_at = 2 * _NEVER  # whatever few there are
            self._count_accesses(index)

    def _discard(self) -> None:
        """Throw the index away, so that the next attempt makes a new one. Another process may still have it open."""
        try:
            folder = self._index.folder if self._index is not None else current_folder(self.folder)
        except IndexUnusable:
            folder = None
        self.close()
        if folder is not None:
            discard(folder)

    def close(self) -> None:
        index, self._index, self._is_private = self._index, None, False
        if index is not None:
            try:
                index.close()
            except sqlite3.Error:
                pass

    def rebuild(self, progress: Callable[[str, int], None] | None = None) -> int:
        """Make the index anew; how many memories it holds."""
        with self.mutex:
            self._discard()
            index = self.caught_up(None, progress)
            embedding_sync.catch_up(index, self.reader, progress)
            index.rows.truncate_wal()
            return int(index.rows.one("SELECT count(*) FROM memory") or 0)

    # -- what has changed

    def _catch_up(
        self,
        index: Index,
        sessions: list[str] | None,
        deadline: float,
        progress: Callable[[str, int], None] | None,
    ) -> None:
        marks = self._store.marks.read() if sessions is None else b""
        stale = self._stale(index, sessions, marks)
        if stale:
            known = index.rows.sessions() if len(stale) > _FEW else {name: index.rows.session(name) for name in stale}
            stale = [name for name in stale if not self._is_caught_up(name, known.get(name))]
        if stale:
            self._take_in_all(index, stale, deadline, progress)
        if sessions is None:
            self._marks = marks

    def _stale(self, index: Index, sessions: list[str] | None, marks: bytes) -> list[str]:
        """Sessions that do not look as they did when the index was caught up with them."""
        if sessions is not None:
            return [name for name in sessions if self._looks.has_changed(name)]
        since = time.monotonic() - self._looked_at
        if self._look_seconds > _ALWAYS_LOOK_SECONDS and since < max(
            _SHORTEST_PAUSE_SECONDS, _LOOK_PAUSES * self._look_seconds
        ):
            changed = changed_slots(self._marks, marks) if marks != self._marks else set()
            if not changed or (
                self._base_identity() == self._base_seen and all(slot in self._slots for slot in changed)
            ):
                return [name for slot in changed for name in self._slots[slot] if self._looks.has_changed(name)]
        return self._look_at_all(index)

    def _look_at_all(self, index: Index) -> list[str]:
        started = time.monotonic()
        names = self._session_ids()
        version = index.rows.data_version()
        if version != self._indexed_version:  # another process may have taken in sessions that are gone by now
            self._indexed, self._indexed_version = set(index.rows.session_ids()), version
        stale = [name for name in names if self._looks.has_changed(name)]
        stale += self._indexed.difference(names)
        self._looked_at = time.monotonic()
        self._look_seconds = self._looked_at - started
        return stale

    def _session_ids(self) -> list[str]:
        """The sessions that are there; listed only if their folder has changed."""
        now = self._base_identity()
        if now != self._base_seen or not self._names:
            self._names = self._store.session_ids()
            self._base_seen = now if now and _is_settled(now) and not self._has_empty_folders() else ()
            self._slots = {}
            for name in self._names:
                self._slots.setdefault(slot_of(name), []).append(name)
        return self._names

    def _has_empty_folders(self) -> bool:
        """Whether there are folders that a first file makes sessions, which nothing but a look inside can tell."""
        store = self._store
        if not store.layout.info_file:
            return False
        folders = store.disk.folders(os.path.join(store.root, store.layout.sessions))
        return any(ids.is_valid(name) for name in set(folders).difference(self._names))

    def _base_identity(self) -> tuple[int, ...]:
        """Of the folder of the sessions: it differs when there is a new one."""
        return self._looks.identity(os.path.join(self._store.root, self._store.layout.sessions))

    def _is_caught_up(self, name: str, known: IndexedSession | None) -> bool:
        """Whether the index knows a session as it is, thanks to another process or an earlier one."""
        if known is None or not known.files:
            return False
        paths = self._looks.of(name)
        if not self._looks.agree(name, known.files, paths):
            return False
        now = time.time_ns()
        waiting = [cursor for cursor in known.files.values() if not cursor[8]]
        if any(now - max(cursor[2], cursor[3]) > TICK_NS for cursor in waiting):
            return False  # now is the time to compare its digest
        if not waiting:
            self._looks.remember(name, paths)
        return True

    def _reader(self, name: str, known: IndexedSession | None) -> IncrementReader:
        store = self._store
        begun = (known.files, ReadableIds.from_list(known.names)) if known is not None and known.whole else ()
        return IncrementReader(store.disk, store.layout, store.root, name, *begun)

    # -- taking in

    def _take_in_all(
        self,
        index: Index,
        names: list[str],
        deadline: float,
        progress: Callable[[str, int], None] | None,
    ) -> None:
        self._begin(index, deadline)
        paused = gc.isenabled()
        gc.disable()  # entries hold no cycles; to look for some again and again costs a third of the time
        try:
            done = 0
            for name, words in with_words(self._store, self._looks, names, self._indexed):
                done += self._take_in(index, name, words)
                if progress is not None:
                    progress(name, done)
                if index.added_count > _CHUNK_MEMORIES:
                    index.commit(more_to_come=True)
                    self._begin(index, deadline)
            index.commit()
        except BaseException:
            index.roll_back()
            for name in names:
                self._looks.forget(name)
            raise
        finally:
            if paused:
                gc.enable()
        self._seen_version = -1

    @staticmethod
    def _begin(index: Index, deadline: float) -> None:
        while True:
            try:
                index.begin()
                return
            except IndexBusy:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)

    def _take_in(self, index: Index, name: str, words: TokenizedSession | None = None) -> int:
        """Bring one session up to date, with its words if there are any; how many memories were taken in."""
        store = self._store
        known = index.rows.session(name)
        if not store.layout.exists(store.disk, store.root, name):
            if known is not None:
                index.remove(known)
                incomplete.keep(index, name, (), grown=False)
            self._looks.forget(name)
            self._indexed.discard(name)
            return 0
        self._indexed.add(name)
        if known is None:
            known = index.rows.new_session(name)
        size, place = known.size, store.place_of(name)
        paths = self._looks.of(name)
        reader = self._read(name, known)
        if not self._grow(index, known, reader):
            if reader.reread or known.files:
                reader = self._read(name, None)
            if not reader.session_history.histories and store.place_of(name) != place:
                index.remove(known)  # it was put away while it was read; if it is back, the next question takes it in
                self._looks.forget(name)
                self._indexed.discard(name)
                return 0
            made = words.each if words is not None and words.are_of(reader) else ()
            index.replace(known, reader.session_history.histories.values(), self._places(index, reader), made)
            known.whole = not reader.session_history.orphans
            known.names = reader.session_history.names.to_list() if reader.session_history.names else []
            known.seq = 0
            size = 0
            incomplete.keep(index, name, reader.problems(), grown=False)
        else:
            incomplete.keep(index, name, reader.problems(), grown=True)
        known.seq = max(known.seq, reader.session_history.seq)
        known.files = dict(reader.cursors())
        index.rows.save_session(known)
        if all(cursor[8] for cursor in known.files.values()) and self._looks.agree(name, known.files, paths):
            self._looks.remember(name, paths)
        else:
            self._looks.forget(name)
        return known.size - size

    def _read(self, name: str, known: IndexedSession | None) -> IncrementReader:
        """Read what is new, in a state that all files had at one time: positions follow the order of writing."""
        reader = self._reader(name, known)
        for attempt in range(_TRIES):
            before = reader.identities()
            reader.catch_up()
            if reader.is_overlaid:
                self._finish_plan(name, attempt)
                reader = self._reader(name, known)
            elif before == reader.identities():
                break
        return reader

    def _finish_plan(self, name: str, attempt: int) -> None:
        """A transaction is on its way into the files; if its writer died, we do it."""
        time.sleep(0.002 * attempt)
        if attempt == 2:
            try:
                self._store.session(name).exclusively("finishing a transaction", lambda: None)
            except (SMPError, OSError):
                pass  # a disk that can only be read: records are then read through the plan

    def _grow(self, index: Index, known: IndexedSession, reader: IncrementReader) -> bool:
        """Take in what was appended; False if that is not all that happened."""
        session_history = reader.session_history
        if reader.reread or not known.whole or not known.files or session_history.is_rebuilt:
            return False
        if any(not cursor[8] and not reader.has_checksum(file) for file, cursor in known.files.items()):
            return False  # somebody changed it within the tick in which it was read
        fresh = [history.first for history in session_history.histories.values()] + [
            entry for entries in session_history.orphans.values() for entry in entries
        ]
        if any(entry.seq <= known.seq or entry.lacks for entry in fresh):
            return False
        number = known.number
        if index.rows.has_any(number, list(session_history.histories)):
            return False
        amended = {id: index.rows.by_id(number, id) for id in session_history.orphans}
        if None in amended.values():
            return False
        places = self._places(index, reader)
        changed: list[tuple[RecordHistory, int]] = []
        with SpanReader(self._store.disk) as spans:
            for id, row in amended.items():
                assert row is not None
                history = self.reader.history(index, known.id, row, spans)
                if history is None or not all(map(history.owns, session_history.orphans[id])):
                    return False
                for entry in sorted(session_history.orphans[id], key=_number):
                    history.append(entry)
                changed.append((history, row.doc))
        index.extend(known, session_history.histories.values(), places)
        for history, doc in changed:
            index.amend(known, history, doc, places)
        return True

    @staticmethod
    def _places(index: Index, reader: IncrementReader) -> Callable[[RecordHistory], str]:
        start = len(reader.folder) + 1
        numbers: dict[str, int] = {}

        def place(entry: Entry) -> str:
            number = numbers.get(entry.file)
            if number is None:
                number = numbers[entry.file] = index.rows.number_of(entry.file[start:])
            first, end = entry.place
            return f"{number}:{first}:{end - first}"

        mark = MARK if reader.session_history.names else ""

        def places(history: RecordHistory) -> str:
            return mark + (place(history.first) if len(history.entries) == 1 else " ".join(map(place, history.entries)))

        return places


def _number(entry: Entry) -> int:
    return entry.seq


def is_damage(error: BaseException) -> bool:
    """Whether damaged rows or files of the index may be the reason; tantivy panics where Python would raise."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _is_settled(identity: tuple[int, ...]) -> bool:
    return time.time_ns() - max(identity[2:]) > TICK_NS
