"""SMP through its Python interface, with default settings: synced writes, redaction, search by words and meaning."""

from __future__ import annotations

import os

import smp_memory
from smp_memory.errors import SessionExists, SessionNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_SESSION_MEMORIES = 10_000  # a new session after so many


class Peer:
    def __init__(self, folder: str, layout: str = "jsonl", semantic: str = "auto") -> None:
        root = os.path.join(folder, "store")
        self._memory = smp_memory.open(root, layout=layout, config={"search": {"semantic": semantic}})
        self._has_vectors = semantic != "off"
        self._session: Any = None
        self._ids: dict[str, tuple[Any, str]] = {}
        self._filled = self._sessions = 0

    def _current(self) -> Any:
        if self._session is None:
            try:
                self._session = self._memory.session("bench")
            except SessionNotFound:
                try:
                    self._session = self._memory.create_session("bench")
                except SessionExists:  # another process was first
                    self._session = self._memory.session("bench")
        return self._session

    def add(self, key: str, text: str) -> None:
        session = self._current()
        self._ids[key] = session, session.add_turn("user", text).id

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        if self._filled >= _SESSION_MEMORIES * (self._sessions + 1):
            self._sessions += 1
            self._session = self._memory.create_session(f"bench-{self._sessions}")
        self._current().add_many([("turn", {"role": "user", "content": text}) for _, text in pairs])
        self._filled += len(pairs)

    def settle(self) -> None:
        if self._has_vectors:
            self._memory.reindex()  # a query alone makes the vectors of some memories only

    def search(self, text: str, limit: int) -> list[tuple[str, float]]:
        from texts import key_of

        return [(key_of(hit.record.text), hit.score) for hit in self._memory.query(text, limit=limit)]

    def keys(self) -> Iterator[str]:
        from texts import key_of

        for session in self._memory.sessions():
            yield from (key_of(record.text) for record in session.records())

    def delete(self, key: str) -> None:
        session, id = self._ids[key]
        session.delete(id)

    def erase(self, key: str) -> None:
        session, id = self._ids[key]
        assert session.erase(id).complete

    def close(self) -> None:
        self._memory.close()
