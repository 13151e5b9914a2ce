"""SQLiteSession of the OpenAI Agents SDK: it has no search, the last items are read instead."""

from __future__ import annotations

import asyncio
import os

from agents import SQLiteSession
from texts import key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Peer:
    def __init__(self, folder: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._session = SQLiteSession("bench", os.path.join(folder, "sessions.db"))

    def _run(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)

    def add(self, key: str, text: str) -> None:
        self.fill([(key, text)])

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        self._run(self._session.add_items([{"role": "user", "content": text} for _, text in pairs]))

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        items = self._run(self._session.get_items(limit=limit))
        return [(key_of(item["content"]), 0.0) for item in items]

    def keys(self) -> list[str]:
        return [key_of(item["content"]) for item in self._run(self._session.get_items())]

    def delete(self, key: str) -> None:
        removed = self._run(self._session.pop_item())  # only the last item can be deleted
        assert key_of(removed["content"]) == key

    def close(self) -> None:
        self._session.close()
        self._loop.close()
