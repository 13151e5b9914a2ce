"""Structured log events of SMP, through the standard `logging` module.

Every event has a logger `smp_memory.<component>`, a level, a name, a message, the session concerned and figures. docs/observability.md lists
all of them; `smp_memory.observe.json_logging.JsonFormatter` writes them as JSON. Every event is counted (`smp_memory.observe.metrics`), printed or not,
except those for debugging: one for each operation, made only if somebody reads it (`debug_logger`), because a histogram counts operations.

Guarantees: no event contains the content of a memory, a query or a secret. An event costs one lookup as long as `logging` is not
loaded: then no handler can exist either. Without a configured handler, only events in `_ALWAYS_SHOWN` are printed.
"""

from __future__ import annotations

import sys

from smp_memory.observe import metrics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
ROOT = "smp_memory"

_ALWAYS_SHOWN = frozenset(  # reported nowhere else; Python prints them to stderr if no handler is configured
    [
        "archive_kept",
        "audit_failed",
        "compaction_failed",
        "entries_missing",
        "head_conflict",
        "library_missing",
        "model_failed",
        "not_compared",
        "reason_redacted",
        "session_brought_back",
        "session_left_out",
        "shared_files_stale",
        "vectors_missing",
    ]
)


def emit(
    component: str,
    level: int,
    event: str,
    message: str,
    session: str | None = None,
    *,
    shown: bool = False,
    **figures: Any,
) -> None:
    """Log an event. The message must not contain content of memories; `figures` are numbers, names of kinds, paths of files.

    `shown`: it is printed without a configured handler, like those in `_ALWAYS_SHOWN`.
    """
    metrics.EVENTS.add((component, event))
    if component == "corruption":
        metrics.CORRUPTION.add((event,))
    is_always_shown = shown or (level >= WARNING and event in _ALWAYS_SHOWN)
    if not is_always_shown and "logging" not in sys.modules:
        return
    logger = _logger(component)
    if logger.isEnabledFor(level) and (is_always_shown or logger.hasHandlers()):
        write(logger, level, event, message, session, figures)


def write(logger: Any, level: int, event: str, message: str, session: str | None, figures: dict[str, Any]) -> None:
    """Log an event without counting it."""
    logger.log(level, "%s", message, extra={"smp_event": event, "smp_session": session, "smp_figures": figures})


def debug_logger(component: str) -> Any:
    """The logger of a component if it is to log operations one by one, else None. Only for callers that know `logging` to be loaded."""
    logger = _loggers.get(component) or _logger(component)
    return logger if logger.isEnabledFor(DEBUG) and logger.hasHandlers() else None


_loggers: dict[str, Any] = {}


def _logger(component: str) -> Any:
    import logging  # slow to load

    logger = _loggers[component] = logging.getLogger(f"{ROOT}.{component}")
    return logger
