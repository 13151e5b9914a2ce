"""Messages for long-running blocks are shown on a terminal only, after a delay, and cleared at the end."""

from __future__ import annotations

import io
import threading

import pytest

from smp_memory.cli.diagnostics import DelayedMessage
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


def test_message_is_shown_during_a_long_block_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Tty(is_terminal=True)
    with DelayedMessage(Screen(stream), "Making the index …", delay_seconds=0):
        assert stream.was_written.wait(20)
    assert stream.getvalue() == "\rMaking the index …\x1b[K\r\x1b[K"


def test_nothing_is_shown_for_short_blocks_or_without_terminal() -> None:
    quick, nobody = Tty(is_terminal=True), Tty(is_terminal=False)
    with DelayedMessage(Screen(quick), "Making the index …", delay_seconds=60):
        pass
    with DelayedMessage(Screen(nobody), "Making the index …", delay_seconds=0):
        assert not nobody.was_written.wait(0.05)
    assert quick.getvalue() == nobody.getvalue() == ""
