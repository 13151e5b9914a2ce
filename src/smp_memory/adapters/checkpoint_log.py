"""Checkpoints of one thread as a log of opaque JSON values: what a value holds, and the state that the log adds up to. Pure.

    {"checkpoint": id, "ns": …, "parent": id or null, "head": blob, "metadata": blob, "values": {channel: blob}, "refs": {channel: id}}
    {"writes": id, "ns": …, "task": …, "path": …, "items": [[index, channel, blob], …]}
    {"part": token, "data": text}          a piece of a blob that is too large for one memory
    {"drop": [[ns, id], …]}                these checkpoints and their writes are deleted

A blob is [type, encoding, data]: the serialised bytes in base64, compressed if that is shorter; or the tokens of its parts.
`refs` names the checkpoint that has the value of a channel that has not changed since, so that each version of a value is stored once.
Of two entries of one checkpoint the later one counts. Of two writes with one index the first counts, of special writes (index < 0) the last.
"""

from __future__ import annotations

import base64
import os
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Blob = list[Any]
    Entry = dict[str, Any]

_COMPRESSED_FROM_BYTES = 1024
_ENTRY_BYTES = 512 << 10  # of blobs in one entry; the rest goes into parts
_PART_BYTES = 900 << 10  # a memory has at most 1 MiB


class Packer:
    """Makes blobs for one entry, and the parts that go before it."""

    def __init__(self) -> None:
        self.parts: list[Entry] = []
        self._room_bytes = _ENTRY_BYTES

    def blob(self, typed: tuple[str, bytes]) -> Blob:
        type, data = typed
        packed = zlib.compress(data, 1) if len(data) >= _COMPRESSED_FROM_BYTES else data
        encoding = "zlib" if len(packed) < len(data) else "plain"
        text = base64.b64encode(packed if encoding == "zlib" else data).decode()
        if len(text) <= self._room_bytes:
            self._room_bytes -= len(text)
            return [type, encoding, text]
        parts = [
            {"part": os.urandom(8).hex(), "data": text[start : start + _PART_BYTES]}
            for start in range(0, len(text), _PART_BYTES)
        ]
        self.parts += parts
        return [type, encoding, [part["part"] for part in parts]]


class ThreadState:
    """What a log, or the end of one, adds up to. `Missing` (a KeyError) says that something is before the end that was read."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.checkpoints: dict[str, dict[str, Entry]] = {}  # by namespace and id
        self._writes: dict[tuple[str, str], dict[tuple[str, int], tuple[str, str, Blob]]] = {}
        self._values: dict[tuple[str, str], dict[str, Blob]] = {}  # also of dropped checkpoints: others refer to them
        self._parts: dict[str, str] = {}
        for entry in entries:
            if "checkpoint" in entry:
                key = entry["ns"], entry["checkpoint"]
                self.checkpoints.setdefault(key[0], {})[key[1]] = entry
                self._values[key] = {**self._values.get(key, {}), **entry["values"]}
            elif "writes" in entry:
                self._add_writes(entry)
            elif "part" in entry:
                self._parts[entry["part"]] = entry["data"]
            else:
                for ns, id in entry["drop"]:
                    self.checkpoints.get(ns, {}).pop(id, None)
                    self._writes.pop((ns, id), None)

    def _add_writes(self, entry: Entry) -> None:
        known = self._writes.setdefault((entry["ns"], entry["writes"]), {})
        for index, channel, blob in entry["items"]:
            key = entry["task"], index
            if index < 0 or key not in known:
                known[key] = entry["path"], channel, blob

    def latest(self, ns: str) -> str | None:
        return max(self.checkpoints.get(ns, ()), default=None)

    def find(self, ns: str, id: str | None) -> Entry | None:
        return self.checkpoints.get(ns, {}).get(id or "")

    def all(self) -> list[tuple[str, str]]:
        """Namespace and id of all checkpoints, the newest first."""
        found = [(ns, id) for ns, ids in self.checkpoints.items() for id in ids]
        return sorted(found, key=lambda each: (each[1], each[0]), reverse=True)

    def values(self, entry: Entry) -> dict[str, tuple[str, bytes]]:
        """The serialised values of all channels of a checkpoint."""
        found = {channel: self.unpack(blob) for channel, blob in entry["values"].items()}
        for channel, id in entry["refs"].items():
            found[channel] = self.unpack(self._values[entry["ns"], id][channel])
        return found

    def writes(self, entry: Entry) -> list[tuple[str, str, int, str, Blob]]:
        """Path, task, index, channel and value of the pending writes of a checkpoint, in the order of execution."""
        found = self._writes.get((entry["ns"], entry["checkpoint"]), {})
        return sorted((path, *key, channel, blob) for key, (path, channel, blob) in found.items())

    def unpack(self, blob: Blob) -> tuple[str, bytes]:
        type, encoding, data = blob
        text = data if isinstance(data, str) else "".join([self._parts[token] for token in data])
        found = base64.b64decode(text)
        return type, zlib.decompress(found) if encoding == "zlib" else found


def parts_of(entry: Entry) -> set[str]:
    """The tokens of the parts of an entry's blobs."""
    if "checkpoint" in entry:
        blobs = [entry["head"], entry["metadata"], *entry["values"].values()]
    else:
        blobs = [item[2] for item in entry.get("items", ())]
    return {token for blob in blobs if not isinstance(blob[2], str) for token in blob[2]}
