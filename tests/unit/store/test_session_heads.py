"""`Store.sessions` and `Store.move`: heads of sessions in every state, and transitions between the states."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import SessionNotFound
from smp_memory.files.layouts import NAMES
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE, PURGED, SessionHead, names_of

layouts = pytest.mark.parametrize("layout", NAMES)


def made(root: Path, layout: str = "jsonl", *names: str) -> smp_memory.Memory:
    memory = smp_memory.open(root, layout=layout, config={"durability": "os"})
    for name in names:
        memory.create_session(name).add_decision(f"Decided in {name}")
    return memory


@layouts
def test_sessions_of_every_state_are_listed(tmp_path: Path, layout: str) -> None:
    with made(tmp_path, layout, "a", "b", "c", "d") as memory:
        memory.archive_session("b", "done")
        memory.delete_session("c", "wrong")
        store = memory.store
        assert names_of(store.sessions()) == ["a", "d"]
        states = [(head.session, head.state) for head in store.sessions(DELETED, ARCHIVED, LIVE)]
        assert states == [("a", LIVE), ("d", LIVE), ("b", ARCHIVED), ("c", DELETED)]
        assert [store.sessions(id=name) != [] for name in ("a", "b", "c", "x", "../a")] == [True, *[False] * 4]
        assert names_of(store.sessions(limit=1)) == ["a"]
        [archived], [deleted] = store.sessions(ARCHIVED), store.sessions(DELETED, id="c")
        assert (archived.reason, deleted.reason) == ("done", "wrong")
        assert min(archived.bytes, deleted.bytes) > 0
        assert archived.metadata["memories"] == 1


@layouts
def test_head_of_a_live_session_follows_its_writes(tmp_path: Path, layout: str) -> None:
    with made(tmp_path, layout, "a") as memory:
        before = memory.store.sessions()[0]
        now = datetime.now(UTC)
        assert now - timedelta(minutes=1) < before.written <= now + timedelta(seconds=1)
        assert before.bytes > 0
        memory.session("a").add_decision("Another one")
        after = memory.store.sessions()[0]
        assert after.bytes > before.bytes
        assert after.written >= before.written


def test_listing_of_archives_is_not_stale_when_folders_keep_their_time(tmp_path: Path) -> None:
    """Two changes within a tick of the clock leave a folder with the same time."""
    with made(tmp_path, "jsonl", "a", "b", "c") as memory, smp_memory.open(tmp_path) as reader:
        tick = datetime.now(UTC).timestamp() + 60  # as if both had changed just now, however long the test takes
        for number, name in enumerate(("a", "b", "c"), 1):
            memory.archive_session(name)
            for folder in ("archive", "sessions"):
                os.utime(tmp_path / folder, (tick, tick))
            assert len(reader.store.sessions(ARCHIVED)) == number


def test_listing_of_archives_follows_a_change_after_a_while(tmp_path: Path) -> None:
    with made(tmp_path, "jsonl", "a", "b") as memory, smp_memory.open(tmp_path) as reader:
        memory.archive_session("a")
        memory.archive_session("b")
        for folder in ("archive", "sessions"):
            os.utime(tmp_path / folder, (1_700_000_000, 1_700_000_000))
        assert names_of(reader.store.sessions(ARCHIVED)) == ["a", "b"]
        memory.restore_session("b")
        assert names_of(reader.store.sessions(ARCHIVED)) == ["a"]


def test_purge_of_a_session_that_is_gone_removes_no_other(tmp_path: Path) -> None:
    with made(tmp_path, "jsonl", "a") as memory:
        memory.delete_session("a")
        [first] = memory.deleted_sessions()
        memory.create_session("a").add_decision("Newer")
        memory.delete_session("a")
        memory.purge_session("a")  # the one deleted first
        with pytest.raises(SessionNotFound):
            memory.store.move("a", DELETED, PURGED, path=first.path)
        assert len(memory.deleted_sessions()) == 1
        assert memory.undelete_session("a") == "active"


def test_head_reads_a_field_once_and_only_when_asked() -> None:
    asked = []

    def read(head: SessionHead, name: str) -> int:
        asked.append(name)
        return 7

    head = SessionHead("a", LIVE, read=read)
    assert asked == []
    assert (head.bytes, head.bytes) == (7, 7)
    assert asked == ["bytes"]
    with pytest.raises(AttributeError):
        _ = head.colour  # type: ignore[attr-defined]
