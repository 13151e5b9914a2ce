"""Output on standard error while a command runs: status lines, and log events (`--verbose`, `SMP_LOG`, `SMP_LOG_LEVEL`).

Guarantees: no status line is shown before a second has passed, it is cleared at the end, and none is shown if the output
is not a terminal. Nothing in a log event can control the terminal.
Non-guarantees: it gives no estimate of the remaining time.
"""

from __future__ import annotations

import sys
import threading
import time

from smp_memory.cli.render import Screen
from smp_memory.errors import InvalidConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping

_DELAY_SECONDS, _INTERVAL_SECONDS = 1.0, 0.1
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


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


class WaitingLine:
    """Shows the name of what is running and its seconds, after the first second, until `stop`."""

    def __init__(self, screen: Screen, name: str, delay_seconds: float = _DELAY_SECONDS) -> None:
        self._screen = screen
        self._name = name
        self._delay_seconds = delay_seconds
        self._is_over, self._is_shown = threading.Event(), False
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._thread.start()

    def _show(self) -> None:
        started = time.monotonic()
        while not self._is_over.wait(self._delay_seconds):
            self._is_shown = True
            self._screen.status(f"{self._name} … {time.monotonic() - started:.0f} s")

    def stop(self) -> None:
        """Clear the line. Nothing is shown after this returns."""
        self._is_over.set()
        self._thread.join()
        if self._is_shown:
            self._screen.status("")


# -- log events


class _ScreenStream:
    """A stream for a log handler that prints through `Screen`, which escapes what others wrote."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def write(self, text: str) -> None:
        self._screen.line(text.removesuffix("\n"))

    def flush(self) -> None:
        self._screen.flush()


def log_settings(environ: Mapping[str, str], *, verbose: bool, as_json: bool) -> tuple[str, str] | None:
    """Form and level of the log: `SMP_LOG`, `SMP_LOG_LEVEL`, `--verbose` and `--json`. None: nothing is logged."""
    form, level = environ.get("SMP_LOG", ""), environ.get("SMP_LOG_LEVEL", "").upper()
    if form not in ("", "text", "json"):
        raise InvalidConfig(f"SMP_LOG: must be text or json, not {form[:40]!r}.", key="SMP_LOG")
    if level not in ("", *_LEVELS):
        known = ", ".join(_LEVELS)
        raise InvalidConfig(f"SMP_LOG_LEVEL: must be one of {known}, not {level[:40]!r}.", key="SMP_LOG_LEVEL")
    if not (form or level or verbose):
        return None
    return form or ("json" if as_json else "text"), level or ("DEBUG" if verbose else "INFO")


def show_events(form: str, level: str, *, may_color: bool) -> logging.Handler:
    """Print the events of SMP from this level on, as lines (text) or as JSON. No other handler gets them, so each is printed once."""
    import logging

    from smp_memory.json_logging import JsonFormatter

    handler = logging.StreamHandler(_ScreenStream(Screen(sys.stderr, may_color=may_color)))
    handler.setFormatter(
        JsonFormatter() if form == "json" else logging.Formatter("%(levelname)s %(name)s: %(message)s")
    )
    logger = logging.getLogger("smp_memory")
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    return handler
