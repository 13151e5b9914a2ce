"""The index: a cache made from the files, which can be deleted at any time.

Rows (types, times, authors, tags, relations, file positions) are in SQLite. Terms are in tantivy, which is fed in
bulk, and in a short memtable (`unindexed`) of what tantivy does not have yet, scored by the same formula. Cursors and
rows change in one transaction. Nothing here knows the files' formats; `smp_memory.store.indexer` connects both, `smp_memory.store.postgres.feed` tables instead.

Native libraries: PyStemmer and tantivy. If one does not load, the index works without it. A library that is missing or does not load is
one log event (`library_missing`), never an ImportError. A process without a library that the index on disk was built with does not
touch that index: it builds one in RAM from the files. Without PyStemmer only the same form of a word matches; without either, a query
takes as long as reading the files.

A door: what only changes of the index need, tantivy and the embedding models are loaded when they are first used.
"""

from __future__ import annotations

from smp_memory.import_lock import door
from smp_memory.observe import incomplete, telemetry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.index import documents as documents
    from smp_memory.index import embedding_function as embedding_function
    from smp_memory.index import engine as engine
    from smp_memory.index import minilm as minilm
    from smp_memory.index import static_model as static_model

__getattr__ = door(__name__, "documents", "embedding_function", "engine", "minilm", "static_model")
_reported: set[str] = set()


def report_meaning(event: str, text: str) -> None:
    """Log once in a process that memories are not searched by meaning: `model_failed` or `vectors_missing`. Hooks print nothing."""
    if event not in _reported:
        _reported.add(event)
        telemetry.emit("query", telemetry.WARNING, event, text, shown=not incomplete.caller_reports)
