"""Memory of Pydantic AI agents in a store: the notebook files of `pydantic_ai_harness.Memory` are artifacts of one session.

    Agent(model, capabilities=[Memory(SMPNotebookStore("path/to/store"))])

Guarantees: the answers and errors are those of `InMemoryStore`, except for `search`, which ranks as queries of SMP do. A write or a deletion
takes effect only if the file has the expected version, and an operation id counts once; both hold across processes, because a file and
the receipt of its operation are stored together. Each write is a revision of the file's memory; deleted files are in the trash. All
receipts are kept.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING

from smp_memory import aio
from smp_memory.adapters import documents
from smp_memory.adapters.bridge import Bridge, id_for

try:
    from pydantic_ai_harness.memory import (
        MemoryConflictError,
        MemoryFile,
        MemoryMutation,
        MemoryOperationConflictError,
        MemorySearchMatch,
        MemorySearchResult,
    )
except ImportError as error:
    raise ImportError("SMPNotebookStore needs pydantic-ai-harness: pip install 'smp-memory[pydantic-ai]'") from error

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from pydantic_ai_harness.memory import MemoryOperation

    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.session import SessionMemory
    from smp_memory.write.path import Transaction

    Change = Callable[[Transaction, Record | None], str | None]  # writes a file, and gives its new version

_SEGMENT = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_METADATA_CHARACTERS = 4096
_MOST_HITS = 1000  # of a search
_TRIES = 20  # how often other processes may change a file between reading and writing it


class SMPNotebookStore:
    """A `MemoryStore` with metadata and search. `namespace` names the session that holds its files."""

    def __init__(
        self,
        memory: Memory | str | os.PathLike[str] | None = None,
        namespace: str = "notebook",
        *,
        author: str | None = None,
    ) -> None:
        self.bridge = Bridge(memory, "pydantic_ai", author)
        self._session = self.bridge.session(namespace)

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        check_path(path)
        check_positive("max_chars", max_chars)
        record = await aio.call(self._find, documents.id_of(path))
        if record is None or record.deleted:
            return None
        content = record.content or ""
        exact = record.get("exact") or {}
        return MemoryFile(
            content=content[:max_chars],
            version=str(record.revision),
            operation_id=exact.get("operation"),
            truncated=len(content) > max_chars,
            metadata=exact.get("metadata"),
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        return await aio.call(self._receipt, operation)

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        return await self.write_with_metadata(
            path, content, expected_version=expected_version, metadata=None, operation=operation
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        check_path(path)
        check_metadata(metadata)
        exact = {"metadata": dict(metadata or {}) or None, "operation": operation.id if operation else None}

        def write(tx: Transaction, known: Record | None) -> str:
            version = known.revision + 1 if known is not None else 1
            documents.put(tx, path, known, {"content": content, "version": version, "exact": exact})
            return str(version)

        return await aio.call(self._mutate, path, expected_version, operation, write)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        check_path(path)

        def delete(tx: Transaction, known: Record | None) -> None:
            if known is not None and not known.deleted:
                documents.delete(tx, known)

        return await aio.call(self._mutate, path, expected_version, operation, delete)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        check_prefix(prefix)
        check_positive("limit", limit)
        tree = await aio.call(documents.Tree, self._session)
        return sorted(path for path in tree.nodes if path.startswith(prefix))[:limit]

    async def search(
        self, prefix: str, query: str, *, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        """The files directly below a prefix that answer a query, the best first, by the search of SMP."""
        check_prefix(prefix)
        if not query.split() or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        return await aio.call(self._search, prefix, query, limit, max_files, max_chars)

    async def close(self) -> None:
        """Close the store if this object opened it."""
        await aio.call(self.bridge.close)

    # -- blocking

    def _find(self, id: str) -> Record | None:
        return self._session.read(lambda session: session.find(id), None)

    def _mutate(
        self, path: str, expected: str | None, operation: MemoryOperation | None, change: Change
    ) -> MemoryMutation:
        """Change a file that has the expected version; once for each operation."""
        for _ in range(_TRIES):
            receipt = self._receipt(operation) if operation is not None else None
            if receipt is not None:
                return receipt
            known = self._find(documents.id_of(path))
            exists = known is not None and not known.deleted
            if (str(known.revision) if known is not None and exists else None) != expected:
                raise MemoryConflictError(f"memory path {path!r} was changed: read it again, then retry")
            try:
                commit = partial(_commit, known=known, existed=exists, operation=operation, change=change)
                version = self._session.write(commit)
            except documents.CHANGED_MEANWHILE:
                continue
            return MemoryMutation(version=version, replayed=False, existed=exists)
        raise MemoryConflictError(f"memory path {path!r}: other processes keep changing it; try again")

    def _receipt(self, operation: MemoryOperation) -> MemoryMutation | None:
        record = self._find(_receipt_id(operation))
        if record is None or record.deleted:
            return None
        state = record.opaque
        if state["fingerprint"] != operation.fingerprint:
            raise MemoryOperationConflictError(f"operation id {operation.id!r} was used with other arguments")
        return MemoryMutation(version=state["version"], replayed=True, existed=state["existed"])

    def _search(self, prefix: str, query: str, limit: int, max_files: int, max_chars: int) -> MemorySearchResult:
        session = self._session.opened()
        if session is None:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        hits = session.query(query, types="artifact", limit=min(max_files, _MOST_HITS))
        found = [(path, hit) for hit in hits if _is_child(prefix, path := documents.path_of(hit.record))]
        matches: list[MemorySearchMatch] = []
        for path, hit in found[:limit]:
            room = max_chars - len(path) + len(prefix)
            if room <= 0:
                break
            snippet = _snippet(hit.record.content or "", query, room)
            max_chars = room - len(snippet)
            matches.append(MemorySearchMatch(path=path, snippet=snippet, score=float(hit.score)))
        return MemorySearchResult(
            matches=matches, scanned=len(found), truncated=bool(hits.more) or len(matches) < len(found)
        )


def _commit(
    session: SessionMemory,
    known: Record | None,
    existed: bool,
    operation: MemoryOperation | None,
    change: Change,
) -> str | None:
    """Change a file, and keep the receipt of the operation; returns the new version."""
    with session.transaction() as tx:
        version: str | None = change(tx, known)
        if operation is not None:
            state = {"fingerprint": operation.fingerprint, "version": version, "existed": existed}
            name = "receipt of an operation"
            tx.add("artifact", {"id": _receipt_id(operation), "name": name, "visibility": "private", "opaque": state})
    return version


def _receipt_id(operation: MemoryOperation) -> str:
    return id_for("operation", "", operation.id)[0]


def _is_child(prefix: str, path: str) -> bool:
    return bool(path) and path.startswith(prefix) and "/" not in path[len(prefix) :]


def _snippet(content: str, query: str, most: int) -> str:
    """At most `most` characters of a text, around the first word of the query that is in it."""
    found = [at for word in query.lower().split() if (at := content.lower().find(word)) >= 0]
    start = max(0, min(min(found, default=0) - most // 3, len(content) - most))
    return content[start : start + most]


# -- checks


def check_path(path: str) -> None:
    parts = path.split("/")
    if not all(_SEGMENT.fullmatch(part) and ".." not in part and part != "." for part in parts):
        raise ValueError(f"invalid memory path: {path!r}")


def check_prefix(prefix: str) -> None:
    if prefix:
        check_path(prefix.removesuffix("/"))


def check_positive(name: str, value: int) -> None:
    if value <= 0:
        raise ValueError(f"{name} must be positive")


def check_metadata(metadata: Mapping[str, str] | None) -> None:
    texts = [text for pair in (metadata or {}).items() for text in pair]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("memory metadata keys and values must be strings")
    if any("\x00" in text for text in texts):
        raise ValueError("memory metadata keys and values must not contain NUL characters")
    size = len(json.dumps(dict(metadata or {}), ensure_ascii=False, separators=(",", ":")))
    if size > _METADATA_CHARACTERS:
        raise ValueError(f"memory metadata is {size} characters as JSON; the limit is {_METADATA_CHARACTERS}")
