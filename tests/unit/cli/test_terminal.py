"""The line of a long-running command is shown on a terminal only, after a delay, and cleared at the end."""

from __future__ import annotations

import io
import threading

import pytest

from smp_memory.cli.render import Screen
from smp_memory.cli.terminal import WaitingLine


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


def test_waiting_line_is_shown_during_a_long_command_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Tty(is_terminal=True)
    waiting = WaitingLine(Screen(stream), "smp validate", delay_seconds=0.001)
    assert stream.was_written.wait(20)
    waiting.stop()
    shown = stream.getvalue()
    assert shown.startswith("\rsmp validate … 0 s\x1b[K")
    assert shown.endswith("\r\x1b[K")


def test_waiting_line_shows_nothing_for_short_commands_or_without_terminal() -> None:
    quick, nobody = Tty(is_terminal=True), Tty(is_terminal=False)
    WaitingLine(Screen(quick), "smp validate", delay_seconds=60).stop()
    waiting = WaitingLine(Screen(nobody), "smp validate", delay_seconds=0.001)
    assert not nobody.was_written.wait(0.05)
    waiting.stop()
    assert quick.getvalue() == nobody.getvalue() == ""
