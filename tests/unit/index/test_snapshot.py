"""The snapshot of the index: read-only, one state, and an error for anything that is not a usable index."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

import smp_memory
from smp_memory.index.rows import IndexUnusable
from smp_memory.index.snapshot import ROWS_FILE, IndexSnapshot, index_folders
from tests.user_state import state_folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    with smp_memory.open(tmp_path / "store #1 100%?") as memory:
        session = memory.create_session("shop")
        session.add_decision("Use OAuth 2.0")
        session.add_finding("one", severity="high")
        session.add_finding("two")
        session.add_finding("three", severity="low")
        session.resolve("FIND-0003")
        session.add_turn("user", "gone")
        session.delete("TURN-0001")
        memory.query("x")
        return state_folder(memory.root) / "index"


def rows_file(base: Path) -> Path:
    return base / index_folders(str(base))[0] / ROWS_FILE


def test_figures_are_without_deleted_memories_and_settled_findings(base: Path) -> None:
    with IndexSnapshot(str(base)) as snapshot:
        assert snapshot.counts() == {"decision": 1, "finding": 3}
        assert snapshot.open_findings() == {"high": 1, "": 1}
        assert [(session, row.id) for session, row in snapshot.newest(2)] == [
            ("shop", "FIND-0003"),
            ("shop", "FIND-0002"),
        ]
        assert snapshot.ids("FIND", None, 10) == [("shop", "FIND-0003"), ("shop", "FIND-0002"), ("shop", "FIND-0001")]
        assert snapshot.ids("FIND", "other", 10) == []
        assert snapshot.ids("%", None, 10) == []


def test_missing_damaged_and_foreign_indexes_are_unusable(base: Path, tmp_path: Path) -> None:
    path = rows_file(base)
    for make in (
        lambda: path.write_bytes(b"not a database" * 100),
        lambda: path.write_bytes(b""),
        lambda: (path.unlink(), os.mkdir(path)),
    ):
        make()
        for rest in (f"{path}-wal", f"{path}-shm"):
            Path(rest).unlink(missing_ok=True)
        with pytest.raises(IndexUnusable):
            IndexSnapshot(str(base))
    with pytest.raises(IndexUnusable):
        IndexSnapshot(str(tmp_path / "missing"))


def test_index_of_another_version_is_unusable(base: Path) -> None:
    database = sqlite3.connect(rows_file(base))
    database.execute("PRAGMA user_version = 1")
    database.commit()
    database.close()
    with pytest.raises(IndexUnusable, match="version 1"):
        IndexSnapshot(str(base))


def test_snapshot_does_not_change_while_another_process_writes(base: Path) -> None:
    with IndexSnapshot(str(base)) as snapshot:
        database = sqlite3.connect(rows_file(base))
        database.execute("DELETE FROM memory")
        database.commit()
        database.close()
        assert sum(snapshot.counts().values()) == 4
    with IndexSnapshot(str(base)) as snapshot:
        assert snapshot.counts() == {}
