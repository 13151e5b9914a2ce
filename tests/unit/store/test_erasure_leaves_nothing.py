"""After an erasure, nothing that only the erased memory brought is in any file of the store or of the user's state."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.memory import Memory
from smp_memory.model.types import KINDS
from smp_memory.session import SessionMemory
from tests.contract.fixture import MINIMAL
from tests.store_operations import files_below
from tests.user_state import state_folder

layouts = pytest.mark.parametrize("layout", NAMES)
# Fields whose values are numbers, times or references to memories.
_NOT_WORDS = {"access", "attempts", "confidence", "covers", "created", "importance", "pinned", "references", "relations", "resolved_at", "supersedes", "superseded_by", "trust", "turn_ref", "turns", "valid_from", "valid_until", "visibility", "size_bytes", "merged_from"}  # fmt: skip
_LISTS = {"aliases", "tags", "agents", "alternatives", "evidence"}
_OTHER = "keptauthor"


def planted(type: str) -> tuple[dict[str, Any], set[str]]:
    """Fields of a memory of this type with a word of its own in every field, and these words."""
    fields: dict[str, Any] = {}
    for name in [*KINDS[type].fields, "author", "author_kind", "topic", "aliases", "tags", "idempotency_key"]:
        if name not in _NOT_WORDS and name != "role":
            word = f"zq{type.replace('_', '')}{name.replace('_', '')}xy"
            fields[name] = [word] if name in _LISTS else word
    words = {word for value in fields.values() for word in ([value] if isinstance(value, str) else value)}
    return {**fields, "role": "user"} if type == "conversation" else fields, words


def _add(session: SessionMemory, type: str) -> tuple[str, set[str]]:
    fields, words = planted(type)
    for _ in list(fields):
        try:
            record = session.add(type, fields)
            break
        except smp_memory.errors.InvalidRecord as error:
            words -= {str(fields[error.field])} | set(fields[error.field])
            fields[error.field] = MINIMAL[type][0].get(error.field)
            if fields[error.field] is None:
                del fields[error.field]
    return record.id, words


def _contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what is packed in it."""
    data = path.read_bytes()
    yield data
    if data.startswith(b"\x1f\x8b"):
        yield zlib.decompress(data, 31)
    if data.startswith(b"SQLite format 3\0"):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as rows:
            for (table,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
                for row in rows.execute(f"SELECT * FROM {table}"):
                    yield from (_unpacked(value) for value in row if value is not None)


def _unpacked(value: object) -> bytes:
    if isinstance(value, bytes):
        try:
            return zlib.decompress(value)
        except zlib.error:
            return value
    return str(value).encode()


def places_of(words: set[str], *folders: Path) -> list[tuple[str, str]]:
    found = []
    for folder in folders:
        for path in files_below(folder):
            text = b"\n".join(_contents(path)).lower()
            found += [(path.relative_to(folder).as_posix(), word) for word in sorted(words) if word.encode() in text]
    return found


def _use(memory: Memory, session: SessionMemory, word: str) -> None:
    """Bring the memory into everything that is derived from memories."""
    memory.query(word)
    session.query(word)
    memory.query(f"{word[:-1]}z")  # mistyped: the spelling of known words
    session.context(word)
    memory.topics(), memory.agents(), memory.timeline(), memory.analytics()
    memory.maintain()
    memory.sync()


def _erase_memory(memory: Memory, session: SessionMemory, id: str) -> None:
    receipt = session.erase(id)
    assert receipt.complete


def _erase_deleted_memory(memory: Memory, session: SessionMemory, id: str) -> None:
    session.delete(id)
    memory.query("tapir")
    _erase_memory(memory, session, id)


def _erase_session(memory: Memory, session: SessionMemory, id: str) -> None:
    memory.delete_session(session.id)
    memory.purge_session(session.id)


def _erase_archived(memory: Memory, session: SessionMemory, id: str) -> None:
    memory.archive_session(session.id)
    assert memory.erase([f"{session.id}/{id}"]).complete


ERASURES: list[Callable[[Memory, SessionMemory, str], None]] = [
    _erase_memory,
    _erase_deleted_memory,
    _erase_session,
    _erase_archived,
]


@layouts
@pytest.mark.parametrize("erase", ERASURES)
@pytest.mark.parametrize("type", MINIMAL)
def test_erasure_leaves_no_word_of_any_field(
    tmp_path: Path, layout: str, type: str, erase: Callable[[Memory, SessionMemory, str], None]
) -> None:
    root = tmp_path / "store"
    with smp_memory.open(root, layout=layout) as memory:
        memory.create_session("other").add_decision("a tapir", author=_OTHER, tags=["kepttag"])
        session = memory.create_session("s1")
        session.add_decision("another one", author=_OTHER)
        id, words = _add(session, type)
        _use(memory, session, f"zq{type.replace('_', '')}topicxy")
        assert {word for _, word in places_of(words, root, state_folder(root))} == words
        erase(memory, session, id)
        assert places_of(words, root, state_folder(root)) == []
        assert [hit.record.decision for hit in memory.query("tapir", agent=_OTHER)] == ["a tapir"]
    assert places_of(words, root, state_folder(root)) == []


@layouts
def test_erasure_leaves_no_value_that_was_changed_before(tmp_path: Path, layout: str) -> None:
    root, words = tmp_path / "store", {"zqfirstauthor", "zqsecondauthor", "zqfirsttag", "zqsecondtopic"}
    with smp_memory.open(root, layout=layout) as memory:
        session = memory.create_session("s1")
        record = session.add_decision("x y", author="zqfirstauthor", tags=["zqfirsttag"])
        _use(memory, session, "zqfirsttag")
        session.update(record.id, author="zqsecondauthor", tags=[], topic="zqsecondtopic", by="zqsecondauthor")
        _use(memory, session, "zqsecondtopic")
        session.erase(record.id)
        assert places_of(words, root, state_folder(root)) == []
