"""Whoever waits sees why; whoever does not, and no program, sees nothing."""

from __future__ import annotations

import io
import threading

import pytest

from smp_memory.cli.progress import Waiting
from smp_memory.cli.render import Screen


class Tty(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal
        self.was_written = threading.Event()

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        done = super().write(text)
        self.was_written.set()
        return done


def test_a_line_stands_there_while_it_takes_long_and_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Tty(is_terminal=True)
    with Waiting(Screen(stream), "Making the index …", quiet_seconds=0):
        assert stream.was_written.wait(20)
    assert stream.getvalue() == "\rMaking the index …\x1b[K\r\x1b[K"


def test_nothing_is_shown_if_it_is_quick_or_nobody_looks() -> None:
    quick, nobody = Tty(is_terminal=True), Tty(is_terminal=False)
    with Waiting(Screen(quick), "Making the index …", quiet_seconds=60):
        pass
    with Waiting(Screen(nobody), "Making the index …", quiet_seconds=0):
        assert not nobody.was_written.wait(0.05)
    assert quick.getvalue() == nobody.getvalue() == ""
