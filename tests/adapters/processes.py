"""Programs in processes of their own that write to one store at the same time, or are killed while they write."""

from __future__ import annotations

import subprocess
import sys

_STOP_AFTER = 8


def _start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_together(program: str, address: str, names: list[str], count: int) -> None:
    """Run the program once for each name at the same time: `program ADDRESS NAME COUNT`. All must end well."""
    running = [_start(program, address, name, count) for name in names]
    for process in running:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors


def run_killed(program: str, address: str) -> int:
    """Kill the program, which prints a line for each finished write, after some lines; how many writes it had finished."""
    process = _start(program, address, "one", 100_000)
    assert process.stdout
    assert process.stderr
    lines = 0
    while lines < _STOP_AFTER and process.stdout.readline():
        lines += 1
    process.kill()
    with process:
        lines += process.stdout.read().count("\n")
        assert lines >= _STOP_AFTER, process.stderr.read()
    return lines
