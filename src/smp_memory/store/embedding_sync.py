"""Compute the embeddings that the index lacks, from the files.

Called before a semantic query, never for others. If the model fails, or while another process writes to the index, the
query is answered by terms and by the vectors that exist.
"""

from __future__ import annotations

from smp_memory.index.documents import embedded_text
from smp_memory.index.rows import IndexBusy
from smp_memory.store.finder import FALL_BACK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from smp_memory.config import Config
    from smp_memory.index.index import Embedder, Index
    from smp_memory.store.record_reader import RecordReader

_BATCH = 2000  # memories between two commits, so that other processes can write and finished work is not lost


def embedder(config: Config) -> Embedder | None:
    """The embedding model, if it is installed and enabled."""
    from smp_memory.index import embeddings

    return embeddings if config["search.semantic"] == "auto" and embeddings.available() else None


def catch_up(index: Index, reader: RecordReader, progress: Callable[[str, int], None] | None = None) -> None:
    """Add the missing vectors to the index."""
    vectors = index.vectors
    if vectors is None or vectors.is_caught_up:
        return
    try:
        index.rows.begin()
        done = 0
        while missing := vectors.missing():
            for start in range(0, len(missing), _BATCH):
                done += _add_vectors(index, reader, missing[start : start + _BATCH])
                if progress is not None:
                    progress("meaning", done)
                index.rows.commit()
                index.rows.begin()
        vectors.mark_caught_up()
        index.rows.commit()
    except IndexBusy:
        pass
    except FALL_BACK:
        _roll_back(index)
        index.vectors = None  # until the index is opened again
    except BaseException:
        _roll_back(index)
        raise


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
