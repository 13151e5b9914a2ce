"""Does the index know what the memories mean? Vectors for those that have none yet, made from the files.

Called before a question by meaning is answered, never for others. Whatever goes wrong, and while another process is at
work on the index, the question is answered by words and by the vectors that are there.
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

_AT_ONCE = 2000  # memories between two commits: others may write to the index, and what is done is not lost


def embedder(config: Config) -> Embedder | None:
    """The model, if it is there and wanted."""
    from smp_memory.index import embeddings

    return embeddings if config["search.semantic"] == "auto" and embeddings.available() else None


def catch_up(index: Index, reader: RecordReader, progress: Callable[[str, int], None] | None = None) -> None:
    """Make the vectors that are missing."""
    vectors = index.vectors
    if vectors is None or vectors.is_caught_up:
        return
    try:
        index.rows.begin()
        done = 0
        while missing := vectors.missing():
            for start in range(0, len(missing), _AT_ONCE):
                done += _take_in(index, reader, missing[start : start + _AT_ONCE])
                if progress is not None:
                    progress("meaning", done)
                index.rows.commit()
                index.rows.begin()
        vectors.mark_caught_up()
        index.rows.commit()
    except IndexBusy:
        pass
    except FALL_BACK:
        _give_up(index)
        index.vectors = None  # until the index is opened again
    except BaseException:
        _give_up(index)
        raise


def _give_up(index: Index) -> None:
    index.rows.roll_back()
    if index.vectors is not None:
        index.vectors.forget()


def _take_in(index: Index, reader: RecordReader, missing: Sequence[tuple[int, int]]) -> int:
    texts = _texts(index, reader, [doc for doc, _ in missing])
    if index.embedder is not None and index.vectors is not None:
        index.vectors.add(missing, index.embedder.embed(texts))
    return len(missing)


def _texts(index: Index, reader: RecordReader, docs: Sequence[int]) -> list[str]:
    """What these memories say; nothing for one that is not there any more."""
    records = reader.records(index, index.rows.by_docs(docs).values())
    texts = []
    for doc in docs:
        record = records.get(doc)
        texts.append(embedded_text(record.given) if record is not None else "")
    return texts
