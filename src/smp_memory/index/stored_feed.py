"""The feed of an index that is kept in the user's state and shared by the user's processes.

A *source* (`Source`) knows where memories are stored, in files (`store.indexer`) or in PostgreSQL (`store.postgres.feed`): it brings the index
up to what was acknowledged, and reads records. Everything else is the same for both: before every answer the index is caught up, so every
process finds its own and others' acknowledged writes.

A damaged or missing index is rebuilt by the process that gets its lock. Meanwhile, and where no index can be kept (a
full or read-only disk), a private index of the requested sessions is built in RAM.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from _thread import RLock
from functools import partial

from smp_memory.errors import SMPError, from_os_error, is_failure
from smp_memory.index import missing_vectors
from smp_memory.index.access_counts import PendingAccesses
from smp_memory.index.index import Index, current_folder, discard
from smp_memory.index.rows import IndexBusy, IndexUnusable
from smp_memory.model.session_info import SessionInfo
from smp_memory.observe import telemetry
from smp_memory.text.libraries import LibraryMissing, libraries_are_loaded, record_use_of_disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    from smp_memory.index.rows import PlacedRow
    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.record import Record

    Progress = Callable[[str, int], None] | None

    class Source(Protocol):
        """Where the memories of an index are stored. The caller holds the mutex of the feed."""

        def opened(self) -> None:
            """Another index is used from now on: forget what was known of the last one."""

        def catch_up(self, index: Index, sessions: list[str] | None, deadline: float, progress: Progress) -> bool:
            """Bring the index up to what was acknowledged in these sessions (None: all); whether it was changed.

            Until the deadline (`time.monotonic`) other processes that write to the index are waited for. Raises IndexBusy. With
            `progress` it takes as long as it takes; without, a source may stop after a while, and report what is left.
            """

        def fill(self, index: Index, sessions: list[str] | None) -> None:
            """Index these sessions in an empty index, inside of a transaction."""

        def records(
            self, index: Index, rows: Iterable[PlacedRow], gone: dict[str, LeftOut] | None = None
        ) -> dict[int, Record | None]:
            """The records of these rows; None for a memory that no longer exists.

            `gone` gets the sessions that were archived or deleted since the index was caught up.
            """

        def session_not_found(self, session: str) -> SMPError: ...


FOLDER = "index"
_PATIENCE_SECONDS = 2.0  # how long to wait for another process that writes to the index
_COUNT_PAUSE_SECONDS = 2.0
_FEW_ACCESSES_BYTES = 4096  # of the log: fewer are counted later, by a process that lives longer
_NEVER = -1e9
_parents_indexes: list[Any] = []  # a forked child must neither use nor close SQLite's files
_TRIES = 5


def _ignore(session: str, done: int) -> None:
    """The progress of work that nobody watches."""


class StoredFeed:
    """The feed (`smp_memory.index.full_text_index.IndexFeed`) of one store, shared by all threads of a process."""

    def __init__(self, store: Any, source: Source) -> None:
        """`store` is a `smp_memory.store.port.Store`."""
        self._store = store
        self._source = source
        self._mutex = RLock()
        self._index: Index | None = None
        self._is_private = False
        self._seen_version = -1
        self._counted_at = _NEVER
        self._pid = os.getpid()
        self.pending = PendingAccesses(store.access)

    @property
    def folder(self) -> str:
        path: str = self._store.state.path(FOLDER)
        return path

    @property
    def mutex(self) -> RLock:
        """Held while the index is used. A child made by `fork` has its own."""
        if self._pid != os.getpid():
            _parents_indexes.append(self._index)
            self._mutex, self._index, self._pid = RLock(), None, os.getpid()
        return self._mutex

    # -- answering

    def caught_up(self, sessions: list[str] | None, progress: Progress = None) -> Index:
        """The index with all that was acknowledged in these sessions (None: all) before the call. Hold `mutex`."""
        self._store.check_open()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        for attempt in range(_TRIES):
            try:
                index = self._opened()
                if self._source.catch_up(index, sessions, deadline, progress):
                    self._seen_version = -1
                self._count_accesses(index)
                return index
            except IndexBusy:
                return self.private(sessions)
            except LibraryMissing:
                self.close()  # the index on disk is left to processes that have the library
            except SMPError:
                raise
            except OSError as error:
                raise from_os_error(error, self._store.root, "searching memories") from error
            except BaseException as error:
                if not is_failure(error) or (self._index is not None and self._index.is_in_memory):
                    raise
                self._discard()
                if attempt + 2 >= _TRIES:
                    return self.private(sessions)
        raise AssertionError("the last attempt returns")

    @property
    def has_shared_index(self) -> bool:
        """Whether the index in use is that of all sessions."""
        return self._index is not None and not self._is_private

    def session_not_found(self, session: str) -> SMPError:
        return self._source.session_not_found(session)

    def recovers(self, index: Index | None, error: BaseException) -> bool:
        """Whether the work may be repeated: a damaged index was discarded, or one is built in RAM without a missing library."""
        if isinstance(error, LibraryMissing):
            self.close()
            return True
        if isinstance(error, OSError) and not isinstance(
            error, SMPError
        ):  # a file could not be read; the index may well be whole
            raise from_os_error(error, self._store.root, "searching memories") from error
        if isinstance(error, SMPError) or index is None or index.is_in_memory or not is_failure(error):
            return False
        self._discard()
        return True

    def read(self, index: Index, rows: Iterable[PlacedRow], gone: dict[str, LeftOut]) -> dict[int, Record | None]:
        return self._source.records(index, rows, gone)

    def add_vectors(self, index: Index) -> None:
        missing_vectors.prepare(index, self._source.records, self._store.config["search.model_ms"])

    def _opened(self) -> Index:
        if self._index is not None and self._is_private:
            self.close()  # the other process may have finished by now
        if self._index is not None and not self._index.exists:
            self.close()  # another process discarded it
        if self._index is None:
            self._index = Index(self._folder_in_use(), partial(missing_vectors.embedders, self._store.config))
            self._source.opened()
            self._counted_at, self._seen_version = _NEVER, -1
        return self._index

    def _folder_in_use(self) -> str | None:
        """The folder of the index; None if it is in RAM."""
        if not self._store.state.on_disk or not libraries_are_loaded():
            return None
        try:
            self._store.state.make()
        except (OSError, SMPError) as error:
            raise IndexUnusable(f"no place for the index: {error}") from error
        record_use_of_disk()
        return current_folder(self.folder)

    def private(self, sessions: list[str] | None) -> Index:
        """A new index in RAM of the requested sessions."""
        self.close()
        index = self._index = Index(None)
        self._is_private = True
        index.begin()
        self._source.fill(index, sessions)
        index.commit()
        index.text.refresh()
        return index

    def refresh(self, index: Index) -> None:
        version = index.rows.data_version()
        if version != self._seen_version:
            index.refresh()
            self._seen_version = version

    def _count_accesses(self, index: Index) -> None:
        """Count the access log now and then; if another process writes to the index, the next time."""
        now = time.monotonic()
        if now - self._counted_at < _COUNT_PAUSE_SECONDS:
            return
        is_first, self._counted_at = self._counted_at == _NEVER, now  # a single query leaves a few accesses to others
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

    def count_accesses(self, *, from_start: bool = False) -> None:
        """Count the access log now; `from_start`: the log was truncated."""
        with self.mutex:
            index = self.caught_up(None)
            if from_start:
                index.begin()
                index.rows.set_meta("access_offset", 0)
                index.commit()
            self._counted_at = 2 * _NEVER  # also if there are few
            self._count_accesses(index)

    def saved_metadata(self, session: str | None = None) -> dict[str, tuple[object, SessionInfo]]:
        """By session: the version of its metadata that the index knows, and its user, project, settings and title in it, nothing else."""
        rows = self._index.rows.metadata_of_sessions(session) if self._index is not None else []
        about = json.loads(f"[{','.join([each for _, each in rows])}]")  # at once: there may be thousands
        return {
            name: (version, SessionInfo(name, "", user=user, project=project, config=config, context={"title": title}))
            for (name, _), (version, user, project, config, title) in zip(rows, about, strict=True)
        }

    def _discard(self) -> None:
        """Discard the index, so that the next attempt builds a new one. Another process may still have it open."""
        telemetry.INDEX_REBUILDS.add()
        try:
            folder = self._index.folder if self._index is not None else current_folder(self.folder)
        except IndexUnusable:
            folder = None
        self.close()
        if folder is not None:
            discard(folder)

    def close(self) -> None:
        with self.mutex:  # SQLite crashes if a connection is closed while another thread reads from it
            index, self._index, self._is_private = self._index, None, False
            if index is not None:
                try:
                    index.close()
                except sqlite3.Error:
                    pass

    def rebuild(self, progress: Progress = None) -> int:
        """Rebuild the index; returns the number of memories."""
        with self.mutex:
            self._discard()
            index = self.caught_up(None, progress or _ignore)
            missing_vectors.complete(index, self._source.records, progress=progress)
            index.rows.truncate_wal()
            return index.count()

    def embed_missing(self, seconds: float | None) -> int:
        with self.mutex:
            index = self.caught_up(None, _ignore if seconds is None else None)
            return missing_vectors.complete(index, self._source.records, seconds)
