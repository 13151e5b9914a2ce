"""memvid: one .mv2 file, lexical search. Each put is committed before it returns."""

from __future__ import annotations

import os

os.environ["MEMVID_TELEMETRY"] = "0"

import memvid_sdk


class Peer:
    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, "memories.mv2")
        self._file = memvid_sdk.use("basic", path, mode="auto", lock_timeout_ms=30_000)
        self._ids: dict[str, str] = {}

    def add(self, key: str, text: str) -> None:
        self._ids[key] = self._file.put(title=key, label="note", text=text, enable_embedding=False)

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        for key, text in pairs:  # put_many() did not return when it was tried
            self.add(key, text)

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        found = self._file.find(text, k=limit, mode="lex")["hits"]
        return [(each["title"], each["score"]) for each in found]

    def keys(self) -> list[str]:
        entries = self._file.timeline(limit=10_000_000)
        return [self._file.frame(each["uri"])["title"] for each in entries]

    def delete(self, key: str) -> None:
        self._file.remove(self._ids[key])

    def close(self) -> None:
        self._file.close()
