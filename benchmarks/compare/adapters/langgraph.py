"""LangGraph's SqliteStore without a vector index, which needs loadable extensions: search is a filter on a field."""

from __future__ import annotations

import os
import sqlite3

from langgraph.store.base import PutOp
from langgraph.store.sqlite import SqliteStore

_PLACE = ("bench",)


class Peer:
    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, "store.db")
        self._base = sqlite3.connect(path, timeout=60, check_same_thread=False, isolation_level=None)
        self._store = SqliteStore(self._base)
        self._store.setup()

    def add(self, key: str, text: str) -> None:
        self._store.put(_PLACE, key, {"text": text})

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        self._store.batch([PutOp(_PLACE, key, {"text": text}) for key, text in pairs])

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        found = self._store.search(_PLACE, filter={"text": text}, limit=limit)
        return [(item.key, item.score or 0.0) for item in found]

    def keys(self) -> list[str]:
        return [item.key for item in self._store.search(_PLACE, limit=10_000_000)]

    def delete(self, key: str) -> None:
        self._store.delete(_PLACE, key)

    def close(self) -> None:
        self._base.close()
