"""A session that is full lets memories be deleted and restored, within a reserve above its quota."""

from __future__ import annotations

from pathlib import Path

import pytest

import smp_memory
from smp_memory.errors import SizeLimitExceeded
from smp_memory.files.layouts import NAMES
from smp_memory.write import operations


def full_session(memory: smp_memory.Memory, quota: int) -> smp_memory.SessionMemory:
    settings = {"storage": {"max_session_size_mb": quota / 1024 / 1024}, "compaction": {"enabled": False}}
    session = memory.create_session("s1", config=settings)
    for size in (1000, 100, 1):
        with pytest.raises(SizeLimitExceeded):
            for _ in range(200):
                session.add_decision("x" * size)
    return session


@pytest.mark.parametrize("layout", NAMES)
def test_memories_of_a_full_session_can_be_deleted_and_restored(tmp_path: Path, layout: str) -> None:
    with smp_memory.open(tmp_path, layout=layout, config={"durability": "os"}) as memory:
        session = full_session(memory, 10 * 1024)
        assert session.delete("DEC-0001", "to make room").deleted
        assert session.delete(["DEC-0002", "DEC-0003"]).count == 2
        assert not session.restore("DEC-0001").deleted
        with pytest.raises(SizeLimitExceeded):
            session.add_decision("x")
        with pytest.raises(SizeLimitExceeded):
            session.update("DEC-0001", decision="y")
        assert session.validate().ok


def test_reserve_for_deletions_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "RESERVE_BYTES", 2000)
    with smp_memory.open(":memory:") as memory:
        session = full_session(memory, 10 * 1024)
        with pytest.raises(SizeLimitExceeded):
            for _ in range(100):
                session.delete("DEC-0001")
                session.restore("DEC-0001")
        assert session.stats().bytes <= 10 * 1024 + 2000
