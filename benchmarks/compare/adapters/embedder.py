"""Vectors for peers that search by them: hashed words, or those of a model that a service has.

Hashed words cost next to nothing, so that the peer's own cost is measured. With SMP_BENCH_EMBEDDER, the path of a socket, a service
answers with the vectors of all-MiniLM-L6-v2 for each line, a JSON string.
"""

from __future__ import annotations

import json
import os
import socket
from zlib import crc32

DIMENSIONS = 384
_connection = None


def embed(text: str) -> list[float]:
    path = os.environ.get("SMP_BENCH_EMBEDDER")
    return _asked(path, text) if path else _hashed(text)


def _hashed(text: str) -> list[float]:
    vector = [0.0] * DIMENSIONS
    for word in text.lower().split():
        vector[crc32(word.encode()) % DIMENSIONS] += 1.0
    length = sum(each * each for each in vector) ** 0.5 or 1.0
    return [each / length for each in vector]


def _asked(path: str, text: str) -> list[float]:
    global _connection  # noqa: PLW0603
    if _connection is None:
        service = socket.socket(socket.AF_UNIX)
        service.connect(path)
        _connection = service.makefile("rwb")
    _connection.write(json.dumps(text).encode() + b"\n")
    _connection.flush()
    vector: list[float] = json.loads(_connection.readline())
    return vector
