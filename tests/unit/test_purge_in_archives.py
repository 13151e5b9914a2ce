"""Deleted memories of a session that is archived are purged when their time has come, announced before."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.testing import MachineClock

TEXT = "The passphrase hint of the old vault"


def opened(root: Path, clock: MachineClock, **config: Any) -> smp_memory.Memory:
    return smp_memory.open(root, clock=clock, config={"durability": "os", **config})


def texts_on_disk(root: Path) -> bytes:
    """All bytes of the store; archives unpacked."""
    found = b""
    for path in root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            found += gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return found


@pytest.mark.parametrize("layout", NAMES)
def test_deleted_memory_is_purged_from_an_archived_session_within_a_year(tmp_path: Path, layout: str) -> None:
    root, clock = tmp_path / "store", MachineClock()
    with smp_memory.open(root, layout=layout, clock=clock) as memory:
        session = memory.create_session("s1")
        session.add_decision("Use OAuth")
        session.delete(session.add_finding(TEXT).id, "asked to")
        promised = session.deleted()[0].purged_from
        assert promised is not None
    purged_on = None
    for day in range(366):
        with opened(root, clock) as memory:
            assert memory.maintain().ok
            if purged_on is None and any(note["action"] == "purge" for note in memory.store.audit.entries()):
                purged_on = day
        clock.advance(days=1)
    assert purged_on is not None
    assert purged_on <= 30 + 7 + 7 + 1  # the weekly look that announces, and the next one
    assert TEXT.encode() not in texts_on_disk(root)
    with opened(root, clock) as memory:
        assert [away.session for away in memory.archived_sessions()] == ["s1"]
        notes = [note for note in memory.store.audit.entries() if note["action"] == "purge"]
        assert [(note["session"], note["ids"]) for note in notes] == [("s1", ["FIND-0001"])]
        restored = memory.session("s1")
        assert [record.text for record in restored.records()] == ["Use OAuth"]
        assert restored.add_finding("Another one").id == "FIND-0002"
        assert memory.validate()["s1"].ok


@pytest.mark.parametrize("layout", NAMES)
def test_purge_of_the_store_announces_and_takes_from_archives(tmp_path: Path, layout: str) -> None:
    root, clock = tmp_path / "store", MachineClock()
    with smp_memory.open(root, layout=layout, clock=clock) as memory:
        session = memory.create_session("s1")
        session.delete(session.add_finding(TEXT).id)
        memory.archive_session("s1")
        memory.maintain()
        clock.advance(days=5)
        memory.maintain()
        assert memory.purge(older_than=30).announced == []
        assert memory.purge(older_than=3).announced == ["s1/FIND-0001"]
        assert memory.purge(older_than=3).ids == []
        clock.advance(days=2)
        assert memory.purge(older_than=3).ids == ["s1/FIND-0001"]
        assert memory.purge(older_than=3).ids == []
        assert memory.archived_sessions()[0].metadata["deleted_memories"] == 0
    assert TEXT.encode() not in texts_on_disk(root)


def test_archived_trash_stays_if_its_session_has_switched_purging_off(tmp_path: Path) -> None:
    root, clock = tmp_path / "store", MachineClock()
    with smp_memory.open(root, clock=clock) as memory:
        session = memory.create_session("s1", config={"lifecycle": {"auto_purge": False}})
        session.delete(session.add_finding(TEXT).id)
        memory.archive_session("s1")
    for _ in range(12):
        with opened(root, clock) as memory:
            assert memory.maintain().ok
        clock.advance(days=7)
    with opened(root, clock) as memory:
        assert memory.session("s1").restore("FIND-0001").text == TEXT


def test_archive_without_deleted_memories_is_not_written_again(tmp_path: Path) -> None:
    root, clock = tmp_path / "store", MachineClock()
    with smp_memory.open(root, clock=clock) as memory:
        memory.create_session("s1").add_finding(TEXT)
        path = Path(memory.archive_session("s1").path)
        before = path.stat().st_mtime_ns
        assert memory.purge(older_than=0).ids == []
        assert path.stat().st_mtime_ns == before


def test_archive_without_its_summary_is_purged_and_gets_a_summary(tmp_path: Path) -> None:
    root, clock = tmp_path / "store", MachineClock()
    with smp_memory.open(root, clock=clock) as memory:
        session = memory.create_session("s1")
        session.delete(session.add_finding(TEXT).id)
        archive = Path(memory.archive_session("s1").path)
        for path in archive.parent.iterdir():
            if path != archive:
                path.unlink()
        memory.maintain()
        clock.advance(days=5)
        memory.maintain()
        assert memory.purge(older_than=3).announced == ["s1/FIND-0001"]
        assert memory.archived_sessions()[0].metadata["deleted_memories"] == 1
        clock.advance(days=2)
        assert memory.purge(older_than=3).ids == ["s1/FIND-0001"]
        assert memory.archived_sessions()[0].metadata["deleted_memories"] == 0
    assert TEXT.encode() not in texts_on_disk(root)
