"""How does a person know that a command is at work? A line that stands there while an answer takes long.

Guarantees: nothing is shown before a second has passed, nothing stays, and nothing at all is shown where no person looks.
Non-guarantees: it does not say how long it will take.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from smp_memory.cli.render import Screen

_QUIET_SECONDS = 1.0


class Waiting:
    """Shows a line on this screen while the block takes long: `with Waiting(screen, "Making the index …"):`."""

    def __init__(self, screen: Screen, text: str, quiet_seconds: float = _QUIET_SECONDS) -> None:
        self._screen = screen
        self._text = text
        self._mutex = threading.Lock()
        self._shown = self._over = False
        self._timer = threading.Timer(quiet_seconds, self._show)
        self._timer.daemon = True

    def _show(self) -> None:
        with self._mutex:
            if not self._over:
                self._screen.passing(self._text)
                self._shown = True

    def __enter__(self) -> None:
        if self._screen.is_terminal:
            self._timer.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._mutex:
            self._over = True
            if self._shown:
                self._screen.passing("")
