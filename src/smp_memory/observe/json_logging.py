"""A formatter for `logging` that writes one JSON object per line.

    handler = logging.StreamHandler()
    handler.setFormatter(smp_memory.observe.json_logging.JsonFormatter())
    logging.getLogger("smp_memory").addHandler(handler)

Guarantees: every record becomes one line of valid JSON in ASCII, whatever its message contains. Of an exception only the type is
written, because a traceback could contain content.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any


class JsonFormatter(logging.Formatter):
    """Records as JSON: timestamp, level (DEBUG, INFO, WARN, ERROR), component, event, session_id, message, metadata."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, Any] = {
            "timestamp": f"{seconds}.{int(record.msecs):03d}Z",
            "level": "WARN" if record.levelno == logging.WARNING else record.levelname,
            "component": record.name,
            "event": getattr(record, "smp_event", None),
            "session_id": getattr(record, "smp_session", None),
            "message": record.getMessage(),
            "metadata": getattr(record, "smp_figures", None) or None,
        }
        if record.exc_info and record.exc_info[0] is not None:
            fields["exception"] = record.exc_info[0].__name__
        return json.dumps({name: value for name, value in fields.items() if value is not None}, default=str)
