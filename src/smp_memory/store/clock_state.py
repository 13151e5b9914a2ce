"""Notes of what the clocks said at the last look: evidence for `lifecycle.clock`, kept in the user's state.

    {"seen": "2026-01-31T14:30:05Z", "boot": "…", "uptime_seconds": 86400.5, "ahead_seconds": 0.2,
     "passed_seconds": 172800.0, "looked": {"boot": "…", "uptime_seconds": 86400.5},
     "doubted": {"seen": "2036-01-31T14:30:05Z", "boot": "…", "uptime_seconds": 86300.1, "since_seconds": 172699.6}}

`seen` is the latest trusted time. `ahead_seconds` says how far the wall clock ran ahead of the time since boot since the
first look in this boot, so that many small jumps count as one. `passed_seconds` is the time that has passed at least over
all looks; `looked` is the last of them, trusted or not. `doubted` is a time that is not trusted yet.

Guarantees: a missing or damaged note is no evidence, never an error. An untrusted time never replaces a trusted one.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import Corrupt, SMPError, UserError
from smp_memory.model.times import to_moment, to_text
from smp_memory.policies.clock_trust import (
    NO_EVIDENCE,
    Evidence,
    continues_doubted_time,
    continues_trusted_time,
    distrust,
)

if TYPE_CHECKING:
    from smp_memory.store.file_store import FileStore

FILE = "clock.json"


class _Boot(NamedTuple):
    """A reading of the clock that nobody can set."""

    id: str
    uptime: float

    def since(self, boot: Any, uptime: Any) -> float | None:
        """Seconds since an earlier reading; None if it is from another boot."""
        passed = self.uptime - float(uptime)
        return passed if boot == self.id and passed >= 0 else None


def uptime_seconds() -> float:
    """By a clock that nobody can set; it goes on while the machine sleeps, where the system has such a one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None and sys.platform == "darwin":
        clock = time.CLOCK_MONOTONIC  # counts sleep there; time.monotonic() does not
    return time.clock_gettime(clock) if clock is not None else time.monotonic()


def _boot_of(store: FileStore) -> _Boot:
    """From the clock that the store was opened with, if it knows of one, as `smp_memory.testing.MachineClock` does."""
    clock: Any = store.clock
    if hasattr(clock, "uptime_seconds"):
        return _Boot(clock.boot_id(), clock.uptime_seconds())
    return _Boot(store.disk.system.boot_id(), uptime_seconds())


def evidence(store: FileStore) -> Evidence:
    """What is known of the clock."""
    try:
        return _evidence(_noted(store), _boot_of(store))
    except (Corrupt, UserError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return NO_EVIDENCE._replace(passed=timedelta(0))


def _evidence(noted: dict[str, Any], boot: _Boot) -> Evidence:
    elapsed = boot.since(noted["boot"], noted["uptime_seconds"])
    if elapsed is not None:
        elapsed -= float(noted.get("ahead_seconds", 0))
    passed = _passed(noted, boot)
    found = Evidence(to_moment(noted["seen"]), _span(elapsed), _span(passed))
    doubted = noted.get("doubted")
    if not doubted:
        return found
    return found._replace(
        doubted=to_moment(doubted["seen"]),
        doubted_elapsed=_span(boot.since(doubted["boot"], doubted["uptime_seconds"])),
        doubted_for=timedelta(seconds=passed - float(doubted["since_seconds"])),
    )


def _passed(noted: dict[str, Any], boot: _Boot) -> float:
    """Over a reboot only the time since then is known to have passed."""
    looked = noted.get("looked") or noted
    since = boot.since(looked["boot"], looked["uptime_seconds"])
    return max(0.0, float(noted.get("passed_seconds", 0))) + (boot.uptime if since is None else since)


def note(store: FileStore, now: datetime) -> None:
    """Remember what the clocks say now. A failure is no failure of what was done."""
    boot = _boot_of(store)
    try:
        noted = _noted(store)
        fields = _next(noted, _evidence(noted, boot), now, boot)
    except (SMPError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        fields = {**_trusted(now, boot), "passed_seconds": 0.0}
    fields["looked"] = {"boot": boot.id, "uptime_seconds": round(boot.uptime, 3)}
    try:
        store.state.write(FILE, (json.dumps(fields) + "\n").encode())
    except (OSError, SMPError):
        pass


def _next(noted: dict[str, Any], known: Evidence, now: datetime, boot: _Boot) -> dict[str, Any]:
    passed = known.passed.total_seconds() if known.passed is not None else 0.0
    if not distrust(now, known):
        ahead = timedelta(0)
        if known.last_seen is not None and known.elapsed is not None and continues_trusted_time(now, known):
            ahead = now - known.last_seen - known.elapsed
        return {**_trusted(now, boot, ahead.total_seconds()), "passed_seconds": round(passed, 3)}
    kept: dict[str, Any] = {
        name: noted[name] for name in ("seen", "boot", "uptime_seconds", "ahead_seconds") if name in noted
    }
    doubted = noted.get("doubted")
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


def _noted(store: FileStore) -> dict[str, Any]:
    try:
        noted = json.loads(store.state.read(FILE))
    except (
        FileNotFoundError,
        RecursionError,
    ):  # one that cannot be read is an error: what cannot be undone rests on it
        noted = {}
    if not isinstance(noted, dict):
        raise TypeError(FILE)
    return noted
