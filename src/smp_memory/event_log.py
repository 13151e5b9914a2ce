"""Structured log events of SMP, through the standard `logging` module.

Every event has a logger `smp.<component>`, a level, a name, a sentence, the session it is about and figures. docs/logging.md lists
all of them; `smp_memory.json_logging.JsonFormatter` writes them as JSON.

Guarantees: no event holds content of a memory, a question or a secret. An event costs one lookup as long as nobody has loaded `logging`:
then no handler can be there either. Where no handler is configured, only what nobody would hear of otherwise is printed.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
ROOT = "smp_memory"
SLOW_QUERY_SECONDS = 1.0
LONG_WAIT_SECONDS = 1.0

_FOR_EVERYBODY = frozenset(  # nobody would hear of these otherwise: Python prints them where no handler is configured
    [
        "archive_kept",
        "audit_failed",
        "compaction_failed",
        "entries_missing",
        "head_conflict",
        "library_missing",
        "not_compared",
        "reason_redacted",
        "session_brought_back",
        "session_left_out",
    ]
)


def emit(component: str, level: int, event: str, message: str, session: str | None = None, **figures: Any) -> None:
    """Log an event. The message must not hold content; `figures` are numbers, names of kinds, paths of files."""
    matters = level >= WARNING and event in _FOR_EVERYBODY
    if not matters and "logging" not in sys.modules:
        return
    import logging  # slow to load

    logger = logging.getLogger(f"{ROOT}.{component}")
    if logger.isEnabledFor(level) and (matters or logger.hasHandlers()):
        logger.log(level, "%s", message, extra={"smp_event": event, "smp_session": session, "smp_figures": figures})
