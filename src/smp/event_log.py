"""Structured log events of SMP, through the standard `logging` module.

Every event has a logger `smp.<component>`, a level, a name, a sentence, the session it is about and figures. docs/logging.md lists
all of them; `smp.logging_json.JsonFormatter` writes them as JSON.

Guarantees: no event holds content of a memory, a question or a secret. An event below WARNING costs one lookup as long as nobody has
loaded `logging`: then no handler can be there either.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
ROOT = "smp"
SLOW_QUERY_SECONDS = 1.0
LONG_WAIT_SECONDS = 1.0

_muted: set[str] = set()  # events that this program tells its user in another way


def mute(*events: str) -> None:
    """Do not log these events in this process, because it tells its user about them in another way."""
    _muted.update(events)


def emit(component: str, level: int, event: str, message: str, session: str | None = None, **figures: Any) -> None:
    """Log an event. The message must not hold content; `figures` are numbers, names of kinds, paths of files."""
    if (level < WARNING and "logging" not in sys.modules) or event in _muted:
        return
    import logging  # slow to load

    logger = logging.getLogger(f"{ROOT}.{component}")
    if logger.isEnabledFor(level):
        logger.log(level, "%s", message, extra={"smp_event": event, "smp_session": session, "smp_figures": figures})
