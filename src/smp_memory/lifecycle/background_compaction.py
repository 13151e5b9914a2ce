"""Compact a session that is nearly full in the background, after a write was acknowledged.

It runs in a thread of its own, at most once a minute over all processes, and never so that the write fails.

A session that is nearly full stays so if nothing in it may be moved yet, and each new process, also each command, would
read all of it at its first write to find that out again. So a file in the user's state tells all processes when to try
again; what may not be moved now may not be for hours, often for days, so each attempt that frees nothing doubles the pause.

    {"again": "2026-01-31T14:30:05Z", "pause_seconds": 600}

Guarantees: a missing or damaged file means now, and so does a time further away than the longest pause, because a clock
was set back; never an error. Non-guarantees: two processes that check at the same moment may both begin; the second
finds nothing to do.
"""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime, timedelta

from smp_memory.errors import SMPError
from smp_memory.lifecycle.compaction import compact
from smp_memory.lifecycle.quota import Thresholds, compaction_target
from smp_memory.model.times import EPOCH, to_moment, to_text
from smp_memory.observe import telemetry
from smp_memory.scope import start_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.user_state import UserState
    from smp_memory.lifecycle.open_session import OpenSession

FOLDER = "compaction"
SHORT_BACKOFF_SECONDS = 60.0  # after an attempt that freed something, or has just begun
_FIRST_SECONDS, _LONGEST_SECONDS = 600.0, 6 * 3600.0  # after attempts that freed nothing
_NEXT = "next_compaction"  # in the notes of a session: when this process tries again, on the monotonic clock


def compact_later(session: OpenSession) -> None:
    """Compact in a thread, unless this or another process did so within the pause."""
    now, memo = time.monotonic(), session.notes
    if now < memo.get(_NEXT, 0.0):
        return
    left = backoff_seconds(session.store.state, session.id, session.now())
    memo[_NEXT] = now + (left or SHORT_BACKOFF_SECONDS)
    if left:  # another process has just done it
        return
    worker = threading.Thread(
        target=_compact_in_background, args=(session,), name=f"smp-compact-{session.id}", daemon=True
    )
    start_worker(session.store, worker)


def _compact_in_background(session: OpenSession) -> None:
    """Compact down to the target of the quota. A failure is logged and tried again later; the write before it is stored."""
    state, has_freed = session.store.state, False
    try:
        used = sum(session.storage.sizes().values())
        target = compaction_target(used, session.config.quota_bytes, Thresholds.of(session.config.section("storage")))
        if target is None:
            return
        note_attempt(state, session.id, session.now())
        has_freed = bool(compact(session, target[1]))
    except (SMPError, OSError) as error:
        text = f"Session {session.id} could not be compacted: {error}"
        telemetry.emit("compaction", telemetry.WARNING, "compaction_failed", text, session.id)
    session.notes[_NEXT] = time.monotonic() + note_result(state, session.id, session.now(), has_freed)


# -- the backoff


def backoff_seconds(state: UserState, session: str, now: datetime) -> float:
    """Seconds until the next attempt; 0: now."""
    again, _ = _load(state, session)
    left = (again - now).total_seconds()
    return left if 0 < left <= _LONGEST_SECONDS else 0.0


def note_attempt(state: UserState, session: str, now: datetime) -> None:
    """Record that an attempt begins; the last pause is kept."""
    _save(state, session, now + timedelta(seconds=SHORT_BACKOFF_SECONDS), _load(state, session)[1])


def note_result(state: UserState, session: str, now: datetime, freed: bool) -> float:
    """Record the result of an attempt; returns the seconds until the next one."""
    before = _load(state, session)[1]
    seconds = SHORT_BACKOFF_SECONDS if freed else min(max(2 * before, _FIRST_SECONDS), _LONGEST_SECONDS)
    _save(state, session, now + timedelta(seconds=seconds), 0.0 if freed else seconds)
    return seconds


def _load(state: UserState, session: str) -> tuple[datetime, float]:
    try:
        stored = json.loads(state.read(_name(session)))
        again, seconds = to_moment(stored["again"]), float(stored["pause_seconds"])
        return again, seconds if 0 <= seconds <= _LONGEST_SECONDS else 0.0
    except (OSError, SMPError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return EPOCH, 0.0


def _save(state: UserState, session: str, again: datetime, seconds: float) -> None:
    """Write the backoff for all processes. A failure to write is ignored."""
    fields = {"again": to_text(again), "pause_seconds": seconds}
    try:
        state.write(_name(session), (json.dumps(fields) + "\n").encode())
    except (OSError, SMPError):
        pass


def _name(session: str) -> str:
    return f"{FOLDER}/{session}.json"
