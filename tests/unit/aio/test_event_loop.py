"""The thread of the event loop never reads, writes, syncs or imports a file for SMP."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent / "event_loop_files.py"
ROOT = Path(__file__).parents[3]


def blocking_calls(folder: Path, *arguments: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", str(PROGRAM), str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_event_loop_touches_no_file(tmp_path: Path) -> None:
    assert blocking_calls(tmp_path / "store") == []


def test_a_blocking_call_in_the_event_loop_would_be_noticed(tmp_path: Path) -> None:
    assert blocking_calls(tmp_path / "store", "blocking") != []
