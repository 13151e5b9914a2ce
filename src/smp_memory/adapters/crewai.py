"""CrewAI: a storage backend of its unified memory whose records are in SMP.

    Crew(…, memory=Memory(storage=SMPStorage(), embedder=…))

Each record is an item of one session: its content is the text that `smp query` finds, its categories are tags.
Guarantees: records come back equal, but for redacted secrets and for embeddings, which are kept as 32-bit floats. A scope contains whole
parts of paths: `/crew/a` has `/crew/a/b` and not `/crew/ab`. A private record is not shown to agents of SMP.
CrewAI searches by an embedding of its own and not by a text, so `search` compares it with every record of the scope (cosine).
Non-guarantees: recall does not write `last_accessed`.
"""

from __future__ import annotations

import base64
from array import array
from collections import Counter
from datetime import UTC, datetime
from math import isnan
from typing import TYPE_CHECKING, Any

import simsimd

from smp_memory import aio
from smp_memory.adapters.bridge import Bridge, BridgeOwner, Item, Items
from smp_memory.errors import MemoryNotFound
from smp_memory.model.ids import is_word

try:
    from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
    from crewai.memory.types import MemoryRecord, ScopeInfo
except ImportError as error:
    raise ImportError("CrewAI is not installed: pip install 'smp-memory[crewai]'") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from smp_memory.memory import Memory


_BYTES = 4  # of a number of an embedding


class SMPStorage(BridgeOwner):
    """A `StorageBackend`. Storages of different names in one store are apart."""

    def __init__(self, memory: Memory | str | os.PathLike[str] | None = None, name: str = "memory") -> None:
        self.bridge = Bridge(memory, "crewai")
        self._items = Items(self.bridge.session(name))
        self._dimensions = 0  # of the embeddings; 0: not yet known

    def __deepcopy__(self, memo: dict[int, Any]) -> SMPStorage:
        return self  # a copy of a crew has the same memories

    def save(self, records: list[MemoryRecord]) -> None:
        """Set records by their ids. They are checked before the first one is written."""
        prepared = [(record.id, record.model_dump(mode="json"), _fields(record)) for record in records]
        self._check_dimensions([len(record.embedding) for record in records if record.embedding])
        for id, value, fields in prepared:
            self._items.put(id, value, **fields)

    def update(self, record: MemoryRecord) -> None:
        self.save([record])

    def get_record(self, record_id: str) -> MemoryRecord | None:
        item = self._items.get(record_id)
        return None if item is None else _record(item)

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """The records nearest to an embedding, with their cosines. Records without an embedding are not found."""
        chosen = _chosen(self._items.all(), scope_prefix, categories, metadata_filter) if query_embedding else []
        items = [item for item in chosen if _embedding(item)]
        scores = _cosines(query_embedding, [_embedding(item) for item in items])
        ranked = sorted(zip(scores, items, strict=True), key=lambda pair: -pair[0])
        return [(_record(item), score) for score, item in ranked[:limit] if score >= min_score]

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Move records that meet all criteria to the trash of the session. An empty list of ids means none of them."""
        found = [
            item
            for item in _chosen(self._items.all(), scope_prefix, categories, metadata_filter)
            if (record_ids is None or item.key in record_ids)
            and (older_than is None or _created(item) < _in_utc(older_than))
        ]
        ids = [item.record.id for item in found]
        try:
            self._items.session.read(lambda session: session.delete(ids) if ids else None, None)
            return len(ids)
        except MemoryNotFound:  # another process deleted one of them
            return sum(self._items.delete(item.key) for item in found)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        newest = sorted(_chosen(self._items.all(), scope_prefix), key=_created, reverse=True)
        return [_record(item) for item in newest[offset:][:limit]]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        records = sorted(map(_record, _chosen(self._items.all(), scope)), key=lambda each: _in_utc(each.created_at))
        return ScopeInfo(
            path=_path(scope),
            record_count=len(records),
            categories=sorted({name for record in records for name in record.categories}),
            oldest_record=records[0].created_at if records else None,
            newest_record=records[-1].created_at if records else None,
            child_scopes=_children(_path(scope), (record.scope for record in records)),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        return _children(_path(parent), (item.value["scope"] for item in self._items.all()))

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        chosen = _chosen(self._items.all(), scope_prefix)
        return dict(Counter(name for item in chosen for name in item.value["categories"]))

    def count(self, scope_prefix: str | None = None) -> int:
        return len(_chosen(self._items.all(), scope_prefix))

    def reset(self, scope_prefix: str | None = None) -> None:
        self.delete(scope_prefix)
        self._dimensions = 0

    async def asave(self, records: list[MemoryRecord]) -> None:
        await aio.call(self.save, records)

    async def asearch(
        self, query_embedding: list[float], *args: Any, **options: Any
    ) -> list[tuple[MemoryRecord, float]]:
        return await aio.call(self.search, query_embedding, *args, **options)

    async def adelete(self, *args: Any, **criteria: Any) -> int:
        return await aio.call(self.delete, *args, **criteria)

    def _check_dimensions(self, sizes: list[int]) -> None:
        """Raise if embeddings have not the same size as each other and as the stored ones."""
        if sizes and set(sizes) != {self._dimensions}:
            stored = filter(None, map(_embedding, self._items.all()))
            self._dimensions = next((len(_vector(text)) for text in stored), sizes[0])
            for size in sizes:
                if size != self._dimensions:
                    raise EmbeddingDimensionMismatchError(self._dimensions, size)


# -- records


def _fields(record: MemoryRecord) -> dict[str, Any]:
    """What SMP itself understands of a record; None where an update takes a field away."""
    vector = array("f", record.embedding).tobytes() if record.embedding else b""
    return {
        "tags": [name for name in record.categories if is_word(name)] or None,
        "importance": record.importance,
        "visibility": "private" if record.private else None,
        "embedding": base64.b64encode(vector).decode() or None,
    }


def _record(item: Item) -> MemoryRecord:
    embedding = _embedding(item)
    return MemoryRecord.model_validate({**item.value, "embedding": list(_vector(embedding)) if embedding else None})


def _embedding(item: Item) -> str:
    return str(item.record.given.get("embedding", ""))


def _vector(text: str) -> array[float]:
    return array("f", base64.b64decode(text))


def _cosines(vector: Sequence[float], others: Sequence[str]) -> list[float]:
    """The cosines of a vector with stored ones; -1 where there is none."""
    if not others:
        return []
    stored = [base64.b64decode(text) for text in others]
    for each in stored:
        if len(each) != _BYTES * len(vector):
            raise EmbeddingDimensionMismatchError(len(each) // _BYTES, len(vector))
    own = memoryview(array("f", vector)).cast("B").cast("f", [1, len(vector)])
    rows = memoryview(b"".join(stored)).cast("f", [len(stored), len(vector)])
    distances: Any = memoryview(simsimd.cdist(own, rows, "cosine")).tolist()
    return [-1.0 if isnan(distance) else 1.0 - distance for distance in distances[0]]


# -- scopes, categories, times


def _chosen(
    items: Iterable[Item], scope: str | None = None, categories: Any = None, metadata: dict[str, Any] | None = None
) -> list[Item]:
    top = _path(scope)
    return [
        item
        for item in items
        if (top == "/" or f"{_path(item.value['scope'])}/".startswith(f"{top}/"))
        and (not categories or not set(categories).isdisjoint(item.value["categories"]))
        and all(
            name in item.value["metadata"] and item.value["metadata"][name] == value
            for name, value in (metadata or {}).items()
        )
    ]


def _path(scope: str | None) -> str:
    return "/" + (scope or "").strip("/")


def _children(parent: str, scopes: Iterable[str]) -> list[str]:
    start = parent.rstrip("/") + "/"
    return sorted(
        {
            start + rest.split("/")[0]
            for scope in scopes
            if (rest := _path(scope).removeprefix(start)) != _path(scope) and rest
        }
    )


def _created(item: Item) -> datetime:
    return _in_utc(datetime.fromisoformat(item.value["created_at"]))


def _in_utc(moment: datetime) -> datetime:
    """CrewAI's own times are in UTC and do not say so."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
