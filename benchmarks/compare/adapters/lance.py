"""LanceDB, a table with vectors and no vector index, as it is until somebody makes one."""

from __future__ import annotations

from datetime import timedelta

import lancedb
import pyarrow
from adapters.embedder import DIMENSIONS, embed

_FIELDS = [
    pyarrow.field("key", pyarrow.string()),
    pyarrow.field("text", pyarrow.string()),
    pyarrow.field("vector", pyarrow.list_(pyarrow.float32(), DIMENSIONS)),
]


class Peer:
    def __init__(self, folder: str) -> None:
        base = lancedb.connect(folder)
        self._table = base.create_table("bench", schema=pyarrow.schema(_FIELDS), exist_ok=True)

    def add(self, key: str, text: str) -> None:
        self.fill([(key, text)])

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        self._table.add([{"key": key, "text": text, "vector": embed(text)} for key, text in pairs])

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        found = self._table.search(embed(text)).distance_type("cosine").limit(limit).to_list()
        return [(each["key"], 1 - each["_distance"]) for each in found]

    def keys(self) -> list[str]:
        return list(self._table.to_arrow()["key"].to_pylist())

    def delete(self, key: str) -> None:
        self._table.delete(f"key = '{key}'")

    def erase(self, key: str) -> None:
        self.delete(key)
        self._table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)

    def close(self) -> None:
        pass
