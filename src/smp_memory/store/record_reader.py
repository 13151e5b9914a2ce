"""Read records and histories from the files at the positions that the index knows, and compute the embeddings that it lacks.

Guarantees: a returned record was read from the files and is the requested memory; if something else is at that position
by now, the session itself is read.
Embeddings are computed before a semantic query, never for others, and for a few seconds only. If there are more to compute, while
another process writes to the index, or if the model fails, the query is answered by terms and by the vectors that exist.
"""

from __future__ import annotations

import os
import time

from smp_memory.errors import SMPError
from smp_memory.files.entry_fields import decode_entries
from smp_memory.files.partial_reader import SpanReader
from smp_memory.files.user_state import derived_files, state_home
from smp_memory.incomplete import SESSION_GONE, left_out
from smp_memory.index import embeddings, report_meaning
from smp_memory.index.documents import embedded_text
from smp_memory.index.rows import POSITION_BITS, IndexBusy
from smp_memory.model.clone_merge import ReadableIds
from smp_memory.model.history import RecordHistory
from smp_memory.store.searcher import FALL_BACK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from smp_memory.config import Config
    from smp_memory.index.embeddings import Embedder
    from smp_memory.index.index import Index
    from smp_memory.index.rows import Row
    from smp_memory.index.vectors import Vectors
    from smp_memory.model.hits import LeftOut
    from smp_memory.model.record import Record
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.searcher import Searcher


MARK = "~ "  # before the positions of memories of a session in which an id was allocated twice
_MAX_FOLDERS = 1000  # cached folder paths


class RecordReader:
    """Reads records and histories for rows of the index."""

    def __init__(self, store: FileStore, distrust: Callable[[str], object] = lambda session: None) -> None:
        """`distrust` is called with a session that differs from the index."""
        self._store = store
        self._distrust = distrust
        self._folders: dict[str, str] = {}

    def records(
        self, index: Index, rows: Iterable[Row], gone: dict[str, LeftOut] | None = None
    ) -> dict[int, Record | None]:
        """The records of these rows; None for a memory that no longer exists.

        `gone` gets the sessions that were archived or deleted since the index was caught up.
        """
        found: dict[int, Record | None] = {}
        gone = {} if gone is None else gone
        with SpanReader(self._store.disk) as spans:
            for row in rows:
                session = index.rows.session_name(row.doc >> POSITION_BITS)
                if session is not None:
                    history = self.history(index, session, row, spans)
                    record = (
                        history.record(session)
                        if history is not None
                        else self._record_by_reading(session, row.id, gone)
                    )
                    found[row.doc] = record
        return found

    def _record_by_reading(self, session: str, id: str, gone: dict[str, LeftOut]) -> Record | None:
        """Read the session, because the entry was changed a moment ago or is in an unfinished plan."""
        self._distrust(session)
        try:
            history = self._store.session(session).view(lambda session_history: session_history.histories.get(id))
        except SESSION_GONE as error:
            if session not in gone:
                gone[session] = left_out(session, error)
            return None
        record: Record | None = history.record(session) if history is not None else None
        return record

    def history(self, index: Index, session: str, row: Row, spans: SpanReader) -> RecordHistory | None:
        """The history of a memory, read at its positions; None if something else is there."""
        layout, name_of, history, names, places = self._store.layout, index.rows.name_of, None, None, row.places
        if places.startswith(MARK):
            known = index.rows.session(session)
            names, places = ReadableIds.from_list(known.names if known is not None else []), places[len(MARK) :]
        separate = places.split(" ")
        for place in dict.fromkeys(separate) if len(separate) > 1 else separate:  # folded entries share a position
            number, begin, size = place.split(":")
            file, start, length = name_of(int(number)), int(begin), int(size)
            path = f"{self._folder(session)}{os.sep}{file}"
            try:
                pieces = layout.codec_of(file).decode(spans.read(path, start, length), start, 1)
                if len(pieces) != 1 or pieces[0].fields is None or pieces[0].start != start:
                    return None
                entries = decode_entries(
                    layout.field_names, pieces[0].fields, layout.kind_of(file), pieces[0].state, path, 0, 0
                )
            except (OSError, SMPError):
                return None
            for found in entries:
                if found.lacks:
                    return None  # its id and time follow from the whole session
                found.place = (start, start + length)
                entry = names.resolved(found) if names is not None else found
                if entry.id != row.id:
                    return None
                if history is None:
                    if entry.op != "put":
                        return None
                    history = RecordHistory(entry)
                else:
                    entry.type = history.first.type
                    history.append(entry)
        return history

    def _folder(self, session: str) -> str:
        folder = self._folders.get(session)
        if folder is None:
            if len(self._folders) >= _MAX_FOLDERS:
                self._folders.clear()
            folder = self._folders[session] = self._store.layout.folder(self._store.root, session)
        return folder


def history_by_index(store: FileStore, session: str, id: str) -> RecordHistory | None:
    """The history of a memory without reading its session; None if it is not where the index says."""

    def read(searcher: Searcher) -> RecordHistory | None:
        row = searcher.row(session, id)
        if row is None:
            return None
        with SpanReader(store.disk) as spans:
            return RecordReader(store).history(searcher.index, session, row, spans)

    return store.indexer.answer([session], read)


# -- embeddings

_PATIENCE_SECONDS = 3.0  # for vectors, in one query
_MISSING = "{:,} memories are not searched by meaning yet. Each query makes some of their vectors, `smp reindex` all."


def embedder(config: Config) -> Embedder | None:
    """The embedding model that is configured, or the one that is installed; None without any."""
    if config["search.semantic"] == "off":
        return None
    if config["search.embedder"]:
        from smp_memory.index.embedding_function import FunctionModel  # a door: rare

        return FunctionModel(config["search.embedder"])
    if not embeddings.available():
        return None
    from smp_memory.index.static_model import static_model  # a door: its libraries may be missing

    return static_model(derived_files(state_home(os.environ)))


def catch_up(index: Index, reader: RecordReader, progress: Callable[[str, int], None] | None = None) -> None:
    """Add the missing vectors to the index; with `progress` all of them, else as many as a query can wait for."""
    try:
        vectors = index.open_vectors()
        if vectors is not None and not vectors.is_caught_up:
            index.rows.begin()
            _add_missing(index, vectors, reader, progress)
            index.rows.commit()
    except IndexBusy:
        _roll_back(index)
    except FALL_BACK as error:
        _roll_back(index)
        index.leave_vectors(error)
    except BaseException:
        _roll_back(index)
        raise


def _add_missing(
    index: Index, vectors: Vectors, reader: RecordReader, progress: Callable[[str, int], None] | None
) -> None:
    """Commit after each batch, so that other processes can write and no work is lost."""
    assert index.embedder is not None
    began, done, batch = time.monotonic(), 0, index.embedder.batch
    index.vector_failure = ""
    while missing := vectors.missing():
        for start in range(0, len(missing), batch):
            if progress is None and time.monotonic() - began > _PATIENCE_SECONDS:
                index.vector_failure = _MISSING.format(len(missing) - start)
                report_meaning("vectors_missing", index.vector_failure)
                return
            done += _add_vectors(index, reader, missing[start : start + batch])
            if progress is not None:
                progress("meaning", done)
            index.rows.commit()
            index.rows.begin()
    vectors.mark_caught_up()


def _roll_back(index: Index) -> None:
    index.rows.roll_back()
    if index.vectors is not None:
        index.vectors.forget()


def _add_vectors(index: Index, reader: RecordReader, missing: Sequence[tuple[int, int]]) -> int:
    texts = _texts(index, reader, [doc for doc, _ in missing])
    if index.embedder is not None and index.vectors is not None:
        index.vectors.add(missing, index.embedder.embed(texts))
    return len(missing)


def _texts(index: Index, reader: RecordReader, docs: Sequence[int]) -> list[str]:
    """The texts to embed; empty for a memory that no longer exists."""
    records = reader.records(index, index.rows.by_docs(docs).values())
    texts = []
    for doc in docs:
        record = records.get(doc)
        texts.append(embedded_text(record.given) if record is not None else "")
    return texts
