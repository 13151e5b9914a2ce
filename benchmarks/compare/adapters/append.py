"""Limit: a JSON line appended under a lock and synced, no index."""

from __future__ import annotations

import fcntl
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Peer:
    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "memories.jsonl")
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, key: str, text: str) -> None:
        self.fill([(key, text)])

    def fill(self, pairs: list[tuple[str, str]]) -> None:
        lines = "".join(json.dumps({"key": key, "text": text}) + "\n" for key, text in pairs)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            os.write(self._file, lines.encode())
            os.fdatasync(self._file)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def keys(self) -> Iterator[str]:
        with open(self._path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    yield json.loads(line)["key"]

    def close(self) -> None:
        os.close(self._file)
