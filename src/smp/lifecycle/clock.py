"""Can this clock be trusted with what cannot be undone? What is due by the calendar waits when the clock jumped.

A wall clock may be wrong: a battery died, a person tried out a date, a virtual machine slept. So whoever runs
maintenance notes the time each time it looks, with the reading of a clock that nobody can set (time since boot), and
hands both in as `Evidence` the next time.

Guarantees: nothing that changes files is due while `now` lies before the time last seen, or ran ahead of the unsettable
clock by more than `JUMP`, or (after a reboot, when there is nothing to compare with) moved on by more than `UNCONFIRMED`.
What destroys needs two looks at least `BETWEEN_LOOKS` apart, so that a wrong clock that stays wrong leaves a day to notice.
Non-guarantees: a clock that was wrong all along and never jumps cannot be told from a right one.
The caller notes the time after each look, also after one that was not trusted: a corrected clock is trusted the next time.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

JUMP = timedelta(days=1)
UNCONFIRMED = timedelta(days=7)
BETWEEN_LOOKS = timedelta(days=1)


class Evidence(NamedTuple):
    """What is known of the clock apart from what it says."""

    last_seen: datetime | None = None  # the latest time that this store has noted
    elapsed: timedelta | None = None  # since then, by a clock that cannot be set; None: rebooted, nothing to compare


NO_EVIDENCE = Evidence()


def distrust(now: datetime, evidence: Evidence) -> str:
    """Why nothing that changes files may be due now; empty if the clock can be trusted."""
    last, elapsed = evidence
    if last is None:
        return ""
    if now < last:
        return f"the clock says {_said(now)}, but this store has already seen {_said(last)}"
    ahead = now - last - (elapsed or timedelta(0))
    if ahead > (UNCONFIRMED if elapsed is None else JUMP):
        passed = "nothing confirms it" if elapsed is None else f"only {_length(elapsed)} passed"
        return f"the clock moved on by {_length(now - last)} since it was last looked at, and {passed}"
    return ""


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
