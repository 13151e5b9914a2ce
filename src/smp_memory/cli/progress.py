"""Status lines for commands that take long.

Guarantees: nothing is shown before a second has passed, the line is cleared at the end, and nothing is shown if the
output is not a terminal.
Non-guarantees: it gives no estimate of the remaining time.
"""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from smp_memory.cli.render import Screen

_DELAY_SECONDS, _INTERVAL_SECONDS = 1.0, 0.1


class ProgressLine:
    """A status line that is updated as work goes on, at most ten times a second."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._next = time.monotonic() + _DELAY_SECONDS
        self._is_shown = False

    def show(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _INTERVAL_SECONDS
            self._is_shown = True
            self._screen.status(text)

    def clear(self) -> None:
        if self._is_shown:
            self._screen.status("")


class DelayedMessage:
    """Shows a message while the block runs, if it takes long: `with DelayedMessage(screen, "Building the index …"):`."""

    def __init__(self, screen: Screen, text: str, delay_seconds: float = _DELAY_SECONDS) -> None:
        self._screen = screen
        self._text = text
        self._mutex = threading.Lock()
        self._is_shown = self._is_over = False
        self._timer = threading.Timer(delay_seconds, self._show)
        self._timer.daemon = True

    def _show(self) -> None:
        with self._mutex:
            if not self._is_over:
                self._screen.status(self._text)
                self._is_shown = True

    def __enter__(self) -> None:
        if self._screen.is_terminal:
            self._timer.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._mutex:
            self._is_over = True
            if self._is_shown:
                self._screen.status("")
