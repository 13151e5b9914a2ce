"""Print log events on standard error for `--verbose`: as lines, or as JSON with `--json`."""

from __future__ import annotations

import logging
import sys

from smp_memory.cli.render import Screen
from smp_memory.json_logging import JsonFormatter


class _ScreenHandler(logging.Handler):
    """Prints records through `Screen`, so that nothing in them can control the terminal."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._screen.line(self.format(record))
        except Exception:
            self.handleError(record)


def show_events(*, as_json: bool, may_color: bool) -> logging.Handler:
    """Print every event of SMP from now on, down to DEBUG."""
    handler = _ScreenHandler(Screen(sys.stderr, may_color=may_color))
    handler.setFormatter(JsonFormatter() if as_json else logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("smp_memory")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    return handler
