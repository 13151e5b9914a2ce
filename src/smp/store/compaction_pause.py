"""When may a session be compacted by itself again? A note in the user's state tells all processes.

    {"again": "2026-01-31T14:30:05Z", "pause_seconds": 600}

A session that is nearly full stays so if nothing in it may go yet. Without the note every new process, and a command is
one, would read all of it with its first write to find that out again. What may not go now may not for hours, often for
days, so each try that frees nothing doubles the pause.

Guarantees: a missing or damaged note means now, and so does a time further away than any pause, because a clock was set
back; never an error. Non-guarantees: two processes that look in the same moment may both begin; the second finds
nothing to do.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from smp.errors import SMPError
from smp.model.time import EPOCH, to_moment, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.store.file_session import FileSession

FOLDER = "compaction"
SHORT_SECONDS = 60.0  # after one that freed something, or has just begun
_FIRST_SECONDS, _LONGEST_SECONDS = 600.0, 6 * 3600.0  # after those that did not


def seconds_left(session: FileSession, now: datetime) -> float:
    """How long to wait still; 0 if not at all."""
    again, _ = _noted(session)
    left = (again - now).total_seconds()
    return left if 0 < left <= _LONGEST_SECONDS else 0.0


def pause(session: FileSession, now: datetime) -> None:
    """One begins. It keeps in mind how long the last pause was."""
    _note(session, now + timedelta(seconds=SHORT_SECONDS), _noted(session)[1])


def ended(session: FileSession, now: datetime, freed: bool) -> float:
    """How long to wait after one that has ended."""
    before = _noted(session)[1]
    seconds = SHORT_SECONDS if freed else min(max(2 * before, _FIRST_SECONDS), _LONGEST_SECONDS)
    _note(session, now + timedelta(seconds=seconds), 0.0 if freed else seconds)
    return seconds


def _noted(session: FileSession) -> tuple[datetime, float]:
    try:
        noted = json.loads(session.store.state.read(_name(session)))
        again, seconds = to_moment(noted["again"]), float(noted["pause_seconds"])
        return again, seconds if 0 <= seconds <= _LONGEST_SECONDS else 0.0
    except (OSError, SMPError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return EPOCH, 0.0


def _note(session: FileSession, again: datetime, seconds: float) -> None:
    """Tell the others. A failure is no failure of what was done."""
    fields = {"again": to_text(again), "pause_seconds": seconds}
    try:
        session.store.state.write(_name(session), (json.dumps(fields) + "\n").encode())
    except (OSError, SMPError):
        pass


def _name(session: FileSession) -> str:
    return f"{FOLDER}/{session.session}.json"
