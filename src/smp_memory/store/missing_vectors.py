"""Compute the embeddings that the index lacks.

They are computed before a semantic query, never for others, and for a few seconds only. If there are more to compute, while
another process writes to the index, or if the model fails, the query is answered by terms and by the vectors that exist.
"""

from __future__ import annotations

import time

from smp_memory.index import embeddings, report_meaning
from smp_memory.index.rows import IndexBusy
from smp_memory.index.text_candidates import FALL_BACK
from smp_memory.text.memory_text import embedded_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smp_memory.config.settings import Config
    from smp_memory.index.embeddings import Embedder
    from smp_memory.index.index import Index
    from smp_memory.index.vectors import Vectors
    from smp_memory.store.record_reader import RecordReader

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

    return static_model()


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
    records = reader.records(index, index.rows.places(docs))
    texts = []
    for doc in docs:
        record = records.get(doc)
        texts.append(embedded_text(record.given) if record is not None else "")
    return texts
