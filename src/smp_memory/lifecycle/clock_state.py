"""Readings of the clocks at the last check, kept in the user's state as evidence for `lifecycle.clock_trust`.

    {"seen": "2026-01-31T14:30:05Z", "boot": "…", "uptime_seconds": 86400.5, "ahead_seconds": 0.2,
     "passed_seconds": 172800.0, "looked": {"boot": "…", "uptime_seconds": 86400.5},
     "doubted": {"seen": "2036-01-31T14:30:05Z", "boot": "…", "uptime_seconds": 86300.1, "since_seconds": 172699.6}}

`seen` is the latest trusted time. `ahead_seconds` is how far the wall clock ran ahead of the time since boot since the
first check in this boot, so that many small jumps count as one. `passed_seconds` is the time that has passed at least over
all checks; `looked` is the last of them, trusted or not. `doubted` is a time that is not trusted yet.

Guarantees: a missing or damaged file is no evidence, never an error. An untrusted time never replaces a trusted one.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import Corrupt, SMPError, UserError
from smp_memory.lifecycle.clock_trust import (
    NO_EVIDENCE,
    Evidence,
    continues_doubted_time,
    continues_trusted_time,
    distrust,
)
from smp_memory.model.times import to_moment, to_text

if TYPE_CHECKING:
    from smp_memory.store.port import Store

FILE = "clock.json"


class _Boot(NamedTuple):
    """A reading of the time since boot, which cannot be set."""

    id: str
    uptime: float

    def since(self, boot: Any, uptime: Any) -> float | None:
        """Seconds since an earlier reading; None if it is from another boot."""
        passed = self.uptime - float(uptime)
        return passed if boot == self.id and passed >= 0 else None


def uptime_seconds() -> float:
    """Time since boot, including sleep where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None and sys.platform == "darwin":
        clock = time.CLOCK_MONOTONIC  # counts sleep there; time.monotonic() does not
    return time.clock_gettime(clock) if clock is not None else time.monotonic()


def _boot_of(store: Store, clock: Any) -> _Boot:
    """A reading, from the clock that the store was opened with if it has one (`smp_memory.testing.MachineClock`)."""
    if hasattr(clock, "uptime_seconds"):
        return _Boot(clock.boot_id(), clock.uptime_seconds())
    return _Boot(store.state.boot_id(), uptime_seconds())


def evidence(store: Store, clock: object = None) -> Evidence:
    """The evidence about the clock from earlier readings; `clock` is the one that the store was opened with."""
    try:
        return _evidence(_load(store), _boot_of(store, clock))
    except (Corrupt, UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return NO_EVIDENCE._replace(passed=timedelta(0))


def _evidence(stored: dict[str, Any], boot: _Boot) -> Evidence:
    elapsed = boot.since(stored["boot"], stored["uptime_seconds"])
    if elapsed is not None:
        elapsed -= float(stored.get("ahead_seconds", 0))
    passed = _passed(stored, boot)
    found = Evidence(to_moment(stored["seen"]), _span(elapsed), _span(passed))
    doubted = stored.get("doubted")
    if not doubted:
        return found
    return found._replace(
        doubted=to_moment(doubted["seen"]),
        doubted_elapsed=_span(boot.since(doubted["boot"], doubted["uptime_seconds"])),
        doubted_for=timedelta(seconds=passed - float(doubted["since_seconds"])),
    )


def _passed(stored: dict[str, Any], boot: _Boot) -> float:
    """The time that has passed at least; over a reboot, only the time since boot is known."""
    last = stored.get("looked") or stored
    since = boot.since(last["boot"], last["uptime_seconds"])
    return max(0.0, float(stored.get("passed_seconds", 0))) + (boot.uptime if since is None else since)


def record(store: Store, now: datetime, clock: object = None) -> None:
    """Record the clocks' readings. A failure to write is ignored."""
    boot = _boot_of(store, clock)
    try:
        stored = _load(store)
        fields = _next(stored, _evidence(stored, boot), now, boot)
    except (SMPError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        fields = {**_trusted(now, boot), "passed_seconds": 0.0}
    fields["looked"] = {"boot": boot.id, "uptime_seconds": round(boot.uptime, 3)}
    try:
        store.state.write(FILE, (json.dumps(fields) + "\n").encode())
    except (OSError, SMPError):
        pass


def _next(stored: dict[str, Any], known: Evidence, now: datetime, boot: _Boot) -> dict[str, Any]:
    passed = known.passed.total_seconds() if known.passed is not None else 0.0
    if not distrust(now, known):
        ahead = timedelta(0)
        if known.last_seen is not None and known.elapsed is not None and continues_trusted_time(now, known):
            ahead = now - known.last_seen - known.elapsed
        return {**_trusted(now, boot, ahead.total_seconds()), "passed_seconds": round(passed, 3)}
    kept: dict[str, Any] = {
        name: stored[name] for name in ("seen", "boot", "uptime_seconds", "ahead_seconds") if name in stored
    }
    doubted = stored.get("doubted")
    if not doubted or not continues_doubted_time(now, known):
        doubted = {**_reading(now, boot), "since_seconds": round(passed, 3)}
    elif known.doubted_elapsed is None:  # kept over a reboot
        doubted = {**_reading(now, boot), "since_seconds": doubted["since_seconds"]}
    return {**kept, "passed_seconds": round(passed, 3), "doubted": doubted}


def _trusted(now: datetime, boot: _Boot, ahead: float = 0.0) -> dict[str, Any]:
    return {**_reading(now, boot), "ahead_seconds": round(ahead, 3)}


def _reading(now: datetime, boot: _Boot) -> dict[str, Any]:
    return {"seen": to_text(now), "boot": boot.id, "uptime_seconds": round(boot.uptime, 3)}


def _span(seconds: float | None) -> timedelta | None:
    return timedelta(seconds=seconds) if seconds is not None else None


def _load(store: Store) -> dict[str, Any]:
    try:
        stored = json.loads(store.state.read(FILE))
    except (FileNotFoundError, RecursionError):  # other errors are raised: irreversible steps depend on it
        stored = {}
    if not isinstance(stored, dict):
        raise TypeError(FILE)
    return stored
