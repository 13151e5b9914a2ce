"""Limit: a full-text table of SQLite alone, synced with every commit."""

from __future__ import annotations

import os
import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Peer:
    def __init__(self, folder: str) -> None:
        self._base = sqlite3.connect(os.path.join(folder, "memories.db"), timeout=60, isolation_level=None)
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = FULL")
        self._base.execute("CREATE VIRTUAL TABLE IF NOT EXISTS memories USING fts5(key UNINDEXED, text)")

    def add(self, key: str, text: str) -> None:
        self._base.execute("INSERT INTO memories VALUES (?, ?)", (key, text))

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        self._base.execute("BEGIN")
        self._base.executemany("INSERT INTO memories VALUES (?, ?)", pairs)
        self._base.execute("COMMIT")

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        words = " OR ".join(f'"{word}"' for word in text.replace('"', " ").split())
        sql = "SELECT key, -rank, text FROM memories WHERE memories MATCH ? ORDER BY rank LIMIT ?"
        return [(key, score) for key, score, _ in self._base.execute(sql, (words, limit))]

    def keys(self) -> Iterator[str]:
        return (key for (key,) in self._base.execute("SELECT key FROM memories"))

    def delete(self, key: str) -> None:
        self._base.execute("DELETE FROM memories WHERE key = ?", (key,))

    def close(self) -> None:
        self._base.close()
