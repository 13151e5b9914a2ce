"""The feed of an index that is kept in the user's state and shared by the user's processes.

A *source* (`Source`) knows where memories are stored, in files (`store.indexer`) or in PostgreSQL (`store.postgres.feed`): it brings the index
up to what was acknowledged, and reads records. Everything else is the same for both: before every answer the index is caught up, so every
process finds its own and others' acknowledged writes.

A damaged or missing index is rebuilt by the process that gets its lock. Meanwhile, and where no index can be kept (a
full or read-only disk), a private index of the requested sessions is built in RAM.

Compute the embeddings that the index lacks, and choose the model that answers.

Queries by meaning compute some, for `_QUERY_SECONDS` at most and new memories first; maintenance, hooks in the background and a rebuild
compute all. If there are more to compute, while another process writes to the index, or if the model fails, the query is answered by terms and by
the vectors that exist.

With a larger model there are two sets of vectors. The static model's is complete after moments; it answers until the larger one has the vectors
of nearly all memories, whenever loading the larger one takes longer than the process may wait (`search.model_ms`), and for texts that
the larger one does not understand.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from _thread import RLock
from functools import partial

from smp_memory import index as models
from smp_memory.errors import SMPError, from_os_error, is_failure
from smp_memory.index import embeddings, report_meaning
from smp_memory.index.access_counts import PendingAccesses
from smp_memory.index.index import Index, current_folder, discard
from smp_memory.index.rows import IndexBusy, IndexUnusable
from smp_memory.index.text_candidates import FALL_BACK
from smp_memory.model.session_info import SessionInfo
from smp_memory.observe import telemetry
from smp_memory.text.libraries import LibraryMissing, libraries_are_loaded, record_use_of_disk
from smp_memory.text.memory_text import embedded_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol

    from smp_memory.config.settings import Config
    from smp_memory.index.embeddings import Embedder
    from smp_memory.index.rows import PlacedRow
    from smp_memory.index.vectors import Vectors
    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.record import Record

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

    Progress = Callable[[str, int], None] | None
    ReadRecords = Callable[[Index, Iterable[PlacedRow]], dict[int, Record | None]]


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
        prepare(index, self._source.records, self._store.config["search.model_ms"])

    def _opened(self) -> Index:
        if self._index is not None and self._is_private:
            self.close()  # the other process may have finished by now
        if self._index is not None and not self._index.exists:
            self.close()  # another process discarded it
        if self._index is None:
            self._index = Index(self._folder_in_use(), partial(embedders, self._store.config))
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
            complete(index, self._source.records, progress=progress)
            index.rows.truncate_wal()
            return index.count()

    def embed_missing(self, seconds: float | None) -> int:
        with self.mutex:
            index = self.caught_up(None, _ignore if seconds is None else None)
            return complete(index, self._source.records, seconds)


_QUERY_SECONDS = 0.035  # for vectors, in one query; with what it takes to save them a query takes at most 50 ms longer
_BATCH_SECONDS = 0.25  # between commits, so that little work is lost
_BATCH = 500
_MANY = 100  # memories without vectors: for more, or 2 % of all, a query does not load a larger model
_MISSING = (
    "{:,} memories are not searched by meaning yet. Queries make their vectors bit by bit, `smp maintain` all at once."
)


def embedders(config: Config) -> list[Embedder]:
    """The embedding models to use, best first: a function of the user or the larger model, and the static model."""
    found: list[Embedder] = []
    if config["search.semantic"] == "off":
        return found
    if config["search.embedder"]:
        found.append(models.embedding_function.FunctionModel(config["search.embedder"]))
    elif config["search.semantic"] == "minilm":
        found.append(models.minilm.minilm())
    if embeddings.available():
        found.append(models.static_model.static_model())
    return found


def prepare(index: Index, read: ReadRecords, model_ms: float) -> None:
    """Add some of the missing vectors, and choose the models that answer a query."""
    models, lacking = _models(index), {}
    deadline = time.monotonic() + _QUERY_SECONDS
    for vectors in reversed(models):  # the static model first: it is fast
        is_last = vectors is models[-1]
        lacks = _add_missing(index, vectors, read, deadline, model_ms=None if is_last else model_ms)
        if lacks is not None and (is_last or _are_few(index, lacks, 0)):
            lacking[vectors] = lacks
    index.answering = [each for each in models if each in lacking]
    lacks = lacking[index.answering[0]] if index.answering else 0
    if lacks and not index.has_told_missing:
        index.has_told_missing, index.missing_vectors = True, _MISSING.format(lacks)
        report_meaning("vectors_missing", index.missing_vectors)


def complete(index: Index, read: ReadRecords, seconds: float | None = None, progress: Progress = None) -> int:
    """Add all missing vectors of all models, in this time; returns how many memories lack one of the best model."""
    models = _models(index)
    deadline = None if seconds is None else time.monotonic() + seconds
    lacking = [_add_missing(index, vectors, read, deadline, progress) for vectors in reversed(models)]
    return (lacking[-1] or 0) if lacking else 0


def _models(index: Index) -> list[Vectors]:
    try:
        return index.open_vectors()
    except FALL_BACK as error:
        index.leave_model(error)
        return []


def _add_missing(
    index: Index,
    vectors: Vectors,
    read: ReadRecords,
    deadline: float | None,
    progress: Progress = None,
    model_ms: float | None = None,
) -> int | None:
    """Add missing vectors until the deadline; returns how many are left, None if the model fails or is not to be loaded (`model_ms`)."""
    try:
        if model_ms is not None and vectors.load_ms > model_ms:
            return None
        if vectors.is_caught_up:
            return 0
        if model_ms is not None and not _are_few(index, vectors.lacks(), _MANY):
            return None
        _add_batches(index, vectors, read, deadline, progress)
        return vectors.lacks()
    except IndexBusy:
        _roll_back(index, vectors)
        return vectors.lacks()
    except FALL_BACK as error:
        _roll_back(index, vectors)
        index.leave_model(error, vectors)
        return None
    except BaseException:
        _roll_back(index, vectors)
        raise


def _are_few(index: Index, lacks: int, few: int) -> bool:
    return lacks <= few or lacks * 50 <= index.count()


def _add_batches(index: Index, vectors: Vectors, read: ReadRecords, deadline: float | None, progress: Progress) -> None:
    """Commit after each batch and embed outside of transactions, so that other processes can write and no work is lost."""
    done, size = 0, vectors.embedder.batch
    index.rows.begin()
    while missing := vectors.missing(size):
        index.rows.commit()
        began = time.monotonic()
        left = _BATCH_SECONDS if deadline is None else min(deadline - began, _BATCH_SECONDS)
        if left <= 0:
            return
        made = vectors.embedder.embed(_texts(index, read, [doc for doc, _ in missing]))
        each = max(time.monotonic() - began, 1e-6) / len(missing)
        index.rows.begin()
        vectors.add(missing, made)
        done += len(missing)
        if progress is not None:
            progress("meaning", done)
        left = _BATCH_SECONDS if deadline is None else min(deadline - time.monotonic(), _BATCH_SECONDS)
        size = max(min(int(left / each), _BATCH), 1)
    index.rows.commit()


def _roll_back(index: Index, vectors: Vectors) -> None:
    index.rows.roll_back()
    vectors.forget()


def _texts(index: Index, read: ReadRecords, docs: Sequence[int]) -> list[str]:
    """The texts to embed; empty for a memory that no longer exists."""
    records = read(index, index.rows.places(docs))
    texts = []
    for doc in docs:
        record = records.get(doc)
        texts.append(embedded_text(record.given) if record is not None else "")
    return texts
