"""Decide whether the wall clock can be trusted with steps that depend on dates, and how much time has really passed.

A wall clock may be wrong: a battery died, a person tried out a date, a virtual machine slept. So every maintenance
run records (`lifecycle.clock_state`) the wall clock and a clock that nobody can set (time since boot). The next run gets
both as `Evidence`.

Guarantees
- No step that changes files is due while `now` is before the last trusted time, or has run ahead of the time since
  boot by more than `JUMP` (over all checks since the boot), or (after a reboot, when only the wall clock can be
  compared) has moved on by more than `UNCONFIRMED`.
- A doubted time is trusted when the clock has kept it for `CONFIRMED`, measured by the time since boot. A time that
  agrees with the last trusted time again is trusted at once.
- A destructive step needs two checks that are `CHECK_INTERVAL` apart by the wall clock and by the time that has
  really passed (`Evidence.passed`). Across a reboot only the time since that boot is known to have passed, so no more
  is counted.
Non-guarantees: a clock that was wrong at the first check and never jumps cannot be told from a right one. A machine
that is switched off often counts less time than passes, so destructive steps happen later there, never earlier.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from smp_memory.model.times import later

JUMP = timedelta(days=1)
UNCONFIRMED = timedelta(days=7)
CONFIRMED = timedelta(days=1)
CHECK_INTERVAL = timedelta(days=1)


class Evidence(NamedTuple):
    """What is known about the clock besides its current time."""

    last_seen: datetime | None = None  # the last trusted time
    elapsed: timedelta | None = None  # since then, by a clock that cannot be set; None: rebooted, nothing to compare
    passed: timedelta | None = (
        None  # time that has passed at least, over all checks; None: the caller controls the clock
    )
    doubted: datetime | None = None  # a time that is not trusted yet
    doubted_elapsed: timedelta | None = None  # since it was seen; None: rebooted
    doubted_for: timedelta = timedelta(0)  # the time for which the clock has kept it, at least


NO_EVIDENCE = Evidence()


def distrust(now: datetime, evidence: Evidence) -> str:
    """Why no step that changes files may be due now; empty if the clock can be trusted."""
    why = _doubt(now, evidence.last_seen, evidence.elapsed)
    return "" if why and evidence.doubted_for >= CONFIRMED and continues_doubted_time(now, evidence) else why


def continues_doubted_time(now: datetime, evidence: Evidence) -> bool:
    """Whether the clock continues from the time that is not trusted yet."""
    return evidence.doubted is not None and not _doubt(now, evidence.doubted, evidence.doubted_elapsed)


def continues_trusted_time(now: datetime, evidence: Evidence) -> bool:
    """Whether the clock continues from the last trusted time."""
    return not _doubt(now, evidence.last_seen, evidence.elapsed)


def _doubt(now: datetime, last: datetime | None, elapsed: timedelta | None) -> str:
    if last is None:
        return ""
    if now < last:
        return f"the clock says {_minute(now)}, but this store has already seen {_minute(last)}"
    ahead = now - last - (elapsed or timedelta(0))
    if ahead > (UNCONFIRMED if elapsed is None else JUMP):
        passed = "nothing confirms it" if elapsed is None else f"only {_length(max(elapsed, timedelta(0)))} passed"
        return f"the clock moved on by {_length(now - last)} since it was last trusted, and {passed}"
    return ""


def is_announcement_valid(announced: timedelta | None, evidence: Evidence) -> bool:
    """Whether an announcement was made within the time that this store has counted."""
    return evidence.passed is None or (announced is not None and announced <= evidence.passed)


def has_interval_passed(announced: timedelta | None, evidence: Evidence) -> bool:
    """Whether `CHECK_INTERVAL` have really passed since an announcement, not only by the wall clock."""
    return evidence.passed is None or (announced is not None and evidence.passed - announced >= CHECK_INTERVAL)


def second_check(first_check: datetime | None, now: datetime) -> datetime:
    """When the check that may destroy is due, given the first check. A first check in the future does not count."""
    return later(first_check if first_check is not None and first_check <= now else now, CHECK_INTERVAL)


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _length(span: timedelta) -> str:
    return f"{span.days} days" if span.days > 1 else f"{span.total_seconds() / 3600:.1f} hours"
