"""What did the clock say when somebody last looked? Evidence for `lifecycle.clock`, kept in `.smp/clock.json`.

    {"seen": "2026-01-31T14:30:05Z", "boot": "…", "uptime_seconds": 86400.5}

Guarantees: a missing or damaged note is no evidence, never an error. The latest time that was seen is kept as it is read,
so a clock that was set back is noticed; whoever was refused notes the new time, and is believed the next time.
"""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from smp.errors import Corrupt, SMPError, UserError
from smp.files.layouts.layout import PRIVATE
from smp.lifecycle.clock import NO_EVIDENCE, Evidence
from smp.model.time import to_moment, to_text

if TYPE_CHECKING:
    from smp.store.file_store import FileStore

FILE = "clock.json"


def uptime_seconds() -> float:
    """By a clock that nobody can set; it goes on while the machine sleeps, where the system has such a one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()


def evidence(store: FileStore) -> Evidence:
    """What is known of the clock."""
    try:
        noted = json.loads(store.disk.read(_path(store)))
        seen, boot, uptime = to_moment(noted["seen"]), noted["boot"], float(noted["uptime_seconds"])
    except (FileNotFoundError, Corrupt, UserError, ValueError, KeyError, TypeError, RecursionError):
        return NO_EVIDENCE  # but not if it cannot be read: what cannot be undone rests on it
    passed = uptime_seconds() - uptime
    same_boot = boot == store.disk.system.boot_id() and passed >= 0
    return Evidence(seen, timedelta(seconds=passed) if same_boot else None)


def note(store: FileStore, now: datetime) -> None:
    """Remember what the clock says now. A failure is no failure of what was done."""
    fields = {
        "seen": to_text(now),
        "boot": store.disk.system.boot_id(),
        "uptime_seconds": round(uptime_seconds(), 3),
    }
    try:
        store.disk.make_folder(os.path.dirname(_path(store)))
        store.disk.replace(_path(store), (json.dumps(fields) + "\n").encode())
    except (OSError, SMPError):
        pass


def _path(store: FileStore) -> str:
    return os.path.join(store.root, PRIVATE, FILE)
