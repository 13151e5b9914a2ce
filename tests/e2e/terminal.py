"""The command `smp` as tests see it: called in this process, or as a program on a pseudo-terminal."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import smp_memory
from smp_memory.cli.main import main

_PATIENCE_SECONDS = 60.0


def settled(told: bytes) -> str:
    """What stays on a terminal: without the lines that a slow command shows for a moment."""
    return re.sub(r"\r[^\r\n]*?\x1b\[K", "", told.decode()).replace("\r\n", "\n")


class Terminal:
    """Calls `smp` in this process and reads what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = main(list(words))
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    def ok(self, *words: str) -> str:
        code, out, err = self(*words)
        assert code == 0, err
        return out

    def json(self, *words: str) -> Any:
        return json.loads(self.ok("--json", *words))

    def fails(self, exit_code: int, *words: str) -> str:
        code, out, err = self(*words)
        assert (code, out) == (exit_code, "")
        return err


def can_read(descriptor: int, seconds: float) -> bool:
    """Wait for something to read, or for the other end to close. `select.select` takes no descriptors above 1023."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def on_a_terminal(folder: Path, *words: str, exit_code: int = 0, **environment: str) -> str:
    """What `smp` shows on a terminal of 80 columns. Its input is no terminal, so there is no pager."""
    pty = pytest.importorskip("pty")

    ours, theirs = pty.openpty()
    source = str(Path(smp_memory.__file__).parents[1])
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "smp_memory", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": source, "TERM": "xterm", "COLUMNS": "80", **environment},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            shown = b""
            while data := read_terminal(ours):
                shown += data
        assert process.returncode == exit_code, shown
        return settled(shown)
    finally:
        os.close(ours)


def read_terminal(ours: int) -> bytes:
    """What came next, or nothing when the program has ended or has been silent for too long."""
    if not can_read(ours, _PATIENCE_SECONDS):
        return b""
    try:
        return os.read(ours, 65536)
    except OSError:  # the program has ended
        return b""


class Screenplay:
    """A program on a pseudo-terminal: type to it, wait for what it shows. A context manager."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        import pty

        self._ours, theirs = pty.openpty()
        kept = {name: value for name, value in os.environ.items() if name not in ("PAGER", "LESS", "SMP_PAGER")}
        source = str(Path(smp_memory.__file__).parents[1])
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**kept, "PYTHONPATH": source, "TERM": "xterm", **environment},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - so that Ctrl-C reaches the program
        )
        os.close(theirs)
        self.shown = ""
        self.exit_code: int | None = None

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> None:
        while text not in self.shown:
            assert self._read(), f"{text!r} is not in {self.shown!r}"

    def until_the_end(self, key: str = "") -> str:
        """All that it has shown, without lines that were shown for a moment only. The key is pressed until the program ends."""
        while key and self._process.poll() is None:
            self.type(key)
            while can_read(self._ours, 0.2) and self._read():
                pass
        while self._read():
            pass
        self.exit_code = self._process.wait(_PATIENCE_SECONDS)
        return settled(self.shown.encode())

    def _read(self) -> bool:
        data = read_terminal(self._ours)
        self.shown += data.decode(errors="replace")
        return bool(data)

    def __enter__(self) -> Screenplay:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
