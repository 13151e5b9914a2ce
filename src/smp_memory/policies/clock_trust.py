"""Decide whether the wall clock can be trusted with what happens by the calendar, and how much time has really passed.

A wall clock may be wrong: a battery died, a person tried out a date, a virtual machine slept. So whoever runs
maintenance notes each look (`store.clock_notes`): the wall clock, and a clock that nobody can set (time since boot). The
next look gets both as `Evidence`.

Guarantees
- Nothing that changes files is due while `now` lies before the last trusted time, or ran ahead of the time since boot by
  more than `JUMP` (counted over all looks since the boot), or (after a reboot, when only the wall clock can be compared)
  moved on by more than `UNCONFIRMED`.
- A time that was doubted is trusted when the clock has kept it for `CONFIRMED`, measured by the time since boot. One that
  agrees with the last trusted time again is trusted at once.
- What destroys needs two looks that are `BETWEEN_LOOKS` apart by the wall clock and by the time that has really passed
  (`Evidence.passed`). Over a reboot only the time since that boot is known to have passed, so no more is counted.
Non-guarantees: a clock that was wrong at the first look and never jumps cannot be told from a right one. A machine that is
switched off often counts less time than passes, so what destroys happens later there, never earlier.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

JUMP = timedelta(days=1)
UNCONFIRMED = timedelta(days=7)
CONFIRMED = timedelta(days=1)
BETWEEN_LOOKS = timedelta(days=1)


class Evidence(NamedTuple):
    """What is known of the clock apart from what it says."""

    last_seen: datetime | None = None  # the latest time that was trusted
    elapsed: timedelta | None = None  # since then, by a clock that cannot be set; None: rebooted, nothing to compare
    passed: timedelta | None = (
        None  # time that has passed at least, over all looks; None: the caller keeps the clock itself
    )
    doubted: datetime | None = None  # a time that is not trusted yet
    doubted_elapsed: timedelta | None = None  # since it was seen; None: rebooted
    doubted_for: timedelta = timedelta(0)  # how long the clock has kept it, at least


NO_EVIDENCE = Evidence()


def distrust(now: datetime, evidence: Evidence) -> str:
    """Why nothing that changes files may be due now; empty if the clock can be trusted."""
    why = _doubt(now, evidence.last_seen, evidence.elapsed)
    return "" if why and evidence.doubted_for >= CONFIRMED and is_kept(now, evidence) else why


def is_kept(now: datetime, evidence: Evidence) -> bool:
    """Whether the clock goes on from the time that is not trusted yet."""
    return evidence.doubted is not None and not _doubt(now, evidence.doubted, evidence.doubted_elapsed)


def agrees(now: datetime, evidence: Evidence) -> bool:
    """Whether the clock goes on from the last trusted time."""
    return not _doubt(now, evidence.last_seen, evidence.elapsed)


def _doubt(now: datetime, last: datetime | None, elapsed: timedelta | None) -> str:
    if last is None:
        return ""
    if now < last:
        return f"the clock says {_said(now)}, but this store has already seen {_said(last)}"
    ahead = now - last - (elapsed or timedelta(0))
    if ahead > (UNCONFIRMED if elapsed is None else JUMP):
        passed = "nothing confirms it" if elapsed is None else f"only {_length(max(elapsed, timedelta(0)))} passed"
        return f"the clock moved on by {_length(now - last)} since it was last trusted, and {passed}"
    return ""


def counts(announced: timedelta | None, evidence: Evidence) -> bool:
    """Whether an announcement was made in the time that this store has counted."""
    return evidence.passed is None or (announced is not None and announced <= evidence.passed)


def a_day_passed(announced: timedelta | None, evidence: Evidence) -> bool:
    """Whether `BETWEEN_LOOKS` have really passed since an announcement, not only by the wall clock."""
    return evidence.passed is None or (announced is not None and evidence.passed - announced >= BETWEEN_LOOKS)


def second_look(first_look: datetime | None, now: datetime) -> datetime:
    """When the look that may destroy is due, given when the first one was. A first look in the future counts for none."""
    return later(first_look if first_look is not None and first_look <= now else now, BETWEEN_LOOKS)


def later(moment: datetime, span: timedelta) -> datetime:
    """The sum, or the last moment there is: a person may have typed the year 9999."""
    try:
        return moment + span
    except OverflowError:
        return datetime.max.replace(tzinfo=moment.tzinfo)


def latest(*moments: datetime | None) -> datetime | None:
    """The latest of the times that are known."""
    return max((moment for moment in moments if moment is not None), default=None)


def _said(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _length(span: timedelta) -> str:
    return f"{span.days} days" if span.days > 1 else f"{span.total_seconds() / 3600:.1f} hours"
