"""An erased memory is removed from the index with its terms, and the others are found as before."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.index import inspection, unindexed
from smp_memory.index.echoes import EchoTable
from smp_memory.index.engine import TantivyEngine
from smp_memory.index.index import current_folder
from smp_memory.index.rows import IndexUnusable, Rows
from smp_memory.memory import Memory
from smp_memory.model.candidates import CandidateRequest
from smp_memory.testing import FrozenClock
from tests.user_state import state_folder

NEEDLE = "zyxwombat"
WORDS = ["bicycle", "harbour", "lantern", "meadow", "orchard", "pebble", "quarry", "river"]


@pytest.fixture(params=("jsonl", "markdown"))
def memory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setattr("smp_memory.index.text.TAIL_LIMIT", 20)  # so that there are several segments
    with smp_memory.open(tmp_path / "store", layout=request.param, clock=FrozenClock()) as memory:
        for number in range(4):
            session = memory.create_session(f"s{number}")
            texts = [f"{WORDS[at % 8]} {WORDS[at % 5]} number{number}x{at}" for at in range(30)]
            session.add_many([("decision", {"decision": text, "tags": ["some.tag"]}) for text in texts])
            memory.query("harbour")
        yield memory


def folder_of(memory: Memory) -> str:
    return current_folder(memory.store.indexer.folder)


def vocabulary(memory: Memory) -> set[str]:
    """Every term that tantivy's files hold, of what was taken out, too; and those of the tail."""
    memory.store.indexer.close()
    rows = Rows(os.path.join(folder_of(memory), "rows.sqlite"))
    try:
        blocks = [unindexed._unpacked(packed) for (packed,) in rows.all("SELECT data FROM block")]
        tail = {term for block in blocks for document in block for term in document[1].split()}
        text = os.path.join(folder_of(memory), str(rows.meta("text_folder")))
    finally:
        rows.close()
    engine = TantivyEngine(text, create=False)
    engine.reload()
    return tail | set(engine.terms_with_prefix(""))


def raw(memory: Memory) -> bytes:
    return b"".join(path.read_bytes() for path in Path(state_folder(memory.root), "index").rglob("*") if path.is_file())


def answers(memory: Memory) -> dict[str, Any]:
    found = {word: sorted(memory.query(word, limit=500).ids) for word in WORDS}
    return {**found, "tag": len(memory.query(tags="some.tag", limit=500))}


def is_as_if_made_anew(memory: Memory) -> bool:
    with memory.store.indexer.feed.mutex:
        before = memory.store.indexer.feed.caught_up(None).snapshot()
    asked = answers(memory)
    memory.reindex()
    with memory.store.indexer.feed.mutex:
        return memory.store.indexer.feed.caught_up(None).snapshot() == before and answers(memory) == asked


def test_terms_of_an_erased_memory_are_gone_and_others_are_found(memory: Memory) -> None:
    session = memory.session("s2")
    session.add_decision(f"A {NEEDLE} in the harbour", tags=[f"tag.{NEEDLE}"], topic=NEEDLE)
    memory.session("s3").add_many([("decision", {"decision": f"harbour {at}"}) for at in range(30)])
    assert memory.query(NEEDLE).ids == ["DEC-0031"]
    assert NEEDLE in vocabulary(memory)
    before = folder_of(memory)
    assert "index" in session.erase("DEC-0031").rewritten
    assert folder_of(memory) != before
    assert os.listdir(os.path.dirname(before)) == [os.path.basename(folder_of(memory))]
    assert not any(NEEDLE in term for term in vocabulary(memory))
    assert NEEDLE.encode() not in raw(memory)
    assert not memory.query(NEEDLE)
    assert is_as_if_made_anew(memory)
    assert NEEDLE.encode() not in raw(memory)


def test_earlier_states_of_an_erased_memory_are_gone_too(memory: Memory) -> None:
    """The old state of a memory that was changed stays in the segment that it was in."""
    session = memory.session("s1")
    session.add_decision(f"A {NEEDLE} at first")
    memory.session("s0").add_many([("decision", {"decision": f"pebble {at}"}) for at in range(30)])
    memory.query("pebble")
    session.update("DEC-0031", decision="Something else")
    memory.session("s0").add_many([("decision", {"decision": f"river {at}"}) for at in range(30)])
    memory.query("river")
    assert NEEDLE in vocabulary(memory)
    assert not memory.query(NEEDLE)
    session.erase("DEC-0031")
    assert NEEDLE not in vocabulary(memory)
    assert is_as_if_made_anew(memory)


def test_segments_without_the_erased_memory_are_kept(memory: Memory) -> None:
    segments = {name for name in os.listdir(_text_folder(memory)) if name.endswith(".term")}
    assert len(segments) > 2
    memory.session("s3").erase("DEC-0030")
    kept = {name for name in os.listdir(_text_folder(memory)) if name.endswith(".term")}
    assert kept < segments
    assert kept
    assert is_as_if_made_anew(memory)


def _text_folder(memory: Memory) -> str:
    memory.store.indexer.close()
    [name] = [name for name in os.listdir(folder_of(memory)) if name.startswith("text-")]
    return os.path.join(folder_of(memory), name)


def test_another_process_continues_with_the_copy(memory: Memory) -> None:
    with smp_memory.open(memory.root, clock=FrozenClock()) as other:
        before = answers(other)
        memory.session("s3").erase("DEC-0002")
        expected = {word: [id for id in ids if id] for word, ids in answers(memory).items() if word != "tag"}
        after = answers(other)
        assert {word: ids for word, ids in after.items() if word != "tag"} == expected
        assert after["tag"] == before["tag"] - 1


def test_index_that_is_in_use_is_deleted(memory: Memory) -> None:
    session = memory.session("s2")
    session.add_decision(f"A {NEEDLE}")
    memory.query(NEEDLE)
    memory.store.indexer.close()
    busy = sqlite3.connect(os.path.join(folder_of(memory), "rows.sqlite"), isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")
    try:
        receipt = session.erase("DEC-0031")
    finally:
        busy.close()
    assert "index" in receipt.removed
    assert receipt.verified
    assert not memory.query(NEEDLE)
    assert is_as_if_made_anew(memory)


def test_accesses_are_counted_once_after_the_log_was_rewritten(memory: Memory) -> None:
    session = memory.session("s1")
    ids = [record.id for record in session.records()]

    def uses() -> dict[str, int]:
        found = memory.store.indexer.candidates(CandidateRequest(refs=[f"s1/{id}" for id in ids])).matches
        return {each.id: each.access_count for each in found if each.access_count}

    for word in WORDS:
        session.query(word, limit=30)
    memory.store.access.flush()
    memory.store.indexer.count_accesses()
    before = uses()
    assert before
    erased = next(iter(before))
    session.erase(erased)
    session.query("river", limit=30)
    memory.store.access.flush()
    memory.store.indexer.count_accesses()
    del before[erased]
    assert uses() == before


def test_folder_is_removed_again_if_a_thread_writes_into_it_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, remove, calls = tmp_path / "inspected", shutil.rmtree, []
    folder.mkdir()

    def interrupted_once(path: str, ignore_errors: bool = False) -> None:
        calls.append(path)
        if len(calls) > 1:
            remove(path, ignore_errors)

    monkeypatch.setattr(inspection.shutil, "rmtree", interrupted_once)
    inspection._remove_folder(str(folder))
    assert len(calls) == 2
    assert not folder.exists()


def test_index_that_another_process_replaces_while_this_one_looks_for_echoes_is_left(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process has erased something after this one had opened the index, and before it looked for echoes."""
    before = EchoTable.catch_up
    calls = []

    def fail_once(table: EchoTable, *args: Any) -> None:
        calls.append(args)
        if len(calls) == 1:
            raise IndexUnusable("Failed to open the directory")
        before(table, *args)

    monkeypatch.setattr(EchoTable, "catch_up", fail_once)
    memory.session("s0").add_turn("user", "Which harbour?")
    memory.session("s0").erase("DEC-0001")
    assert memory.session("s0").find("DEC-0001") is None
    memory.query("harbour")
    assert len(calls) > 1
