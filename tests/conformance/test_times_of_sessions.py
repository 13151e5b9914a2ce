"""Times of sessions come from their memories: a fresh clone shows the same times as the original."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.files.layouts import NAMES
from smp_memory.model.times import to_text

pytestmark = pytest.mark.parametrize("layout", NAMES)

FIRST = datetime(2026, 3, 1, 12, tzinfo=UTC)
TIMES = {"zz-first": FIRST, "aa-second": FIRST + timedelta(days=2), "empty": FIRST + timedelta(days=1)}


def original(root: Path, layout: str) -> None:
    now = FIRST
    with smp_memory.open(root, layout=layout, clock=lambda: now) as memory:
        for name, at in TIMES.items():
            now = at - timedelta(hours=1) if name != "empty" else at
            session = memory.create_session(name)
            if name != "empty":
                record = session.add_decision("one")
                now = at
                session.update(record.id, rationale="because")


def cloned(root: Path, target: Path) -> None:
    """The files as a checkout makes them: without SMP's own folders, and with other times."""
    shutil.copytree(root, target, ignore=shutil.ignore_patterns(".smp"))
    for number, path in enumerate(sorted(each for each in target.rglob("*") if each.is_file())):
        os.utime(path, (1_800_000_000 - number, 1_800_000_000 - number))


def listed(root: Path, state: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "smp_memory", "--root", str(root), "session", "list", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SMP_STATE_DIR": str(state)},
    )
    shown = ("id", "written", "last_used", "state", "memories")
    return [{name: row[name] for name in shown} for row in json.loads(done.stdout)]


def test_fresh_clone_lists_sessions_with_the_times_of_the_original(tmp_path: Path, layout: str) -> None:
    original(tmp_path / "a", layout)
    cloned(tmp_path / "a", tmp_path / "b")
    here = listed(tmp_path / "a", tmp_path / "state-a")
    assert [(row["id"], row["written"]) for row in here] == [
        (name, to_text(TIMES[name])) for name in ("zz-first", "empty", "aa-second")
    ]
    assert listed(tmp_path / "b", tmp_path / "state-b") == here


def test_session_times_are_those_of_memories_not_of_files(tmp_path: Path, layout: str) -> None:
    original(tmp_path / "a", layout)
    cloned(tmp_path / "a", tmp_path / "b")
    with smp_memory.open(tmp_path / "b") as memory:
        assert {session.id: session.written for session in memory.sessions()} == TIMES
        assert [(session.id, at) for at, session in memory.sessions_by_time()] == sorted(
            TIMES.items(), key=lambda each: each[1]
        )
        latest = memory.latest_session()
        assert latest is not None
        assert latest.id == "aa-second"
