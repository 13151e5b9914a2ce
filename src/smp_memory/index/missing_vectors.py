"""Compute the embeddings that the index lacks, and choose the model that answers.

Queries by meaning compute some, for `_QUERY_SECONDS` at most and new memories first; maintenance, hooks in the background and a rebuild
compute all. If there are more to compute, while another process writes to the index, or if the model fails, the query is answered by terms and by
the vectors that exist.

With a larger model there are two sets of vectors. The static model's is complete after moments; it answers until the larger one has the vectors
of nearly all memories, whenever loading the larger one takes longer than the process may wait (`search.model_ms`), and for texts that
the larger one does not understand.
"""

from __future__ import annotations

import time

from smp_memory import index as models
from smp_memory.index import embeddings, report_meaning
from smp_memory.index.rows import IndexBusy
from smp_memory.index.text_candidates import FALL_BACK
from smp_memory.text.memory_text import embedded_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from smp_memory.config.settings import Config
    from smp_memory.index.embeddings import Embedder
    from smp_memory.index.index import Index
    from smp_memory.index.rows import PlacedRow
    from smp_memory.index.vectors import Vectors
    from smp_memory.model.record import Record

    Progress = Callable[[str, int], None] | None
    ReadRecords = Callable[[Index, Iterable[PlacedRow]], dict[int, Record | None]]

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
