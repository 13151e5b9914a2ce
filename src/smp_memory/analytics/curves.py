"""The priority of one memory over time: its past as far as it is known, and its future if nobody uses it. Pure.

The past is computed with the fields that the memory had at each time (`states`), and with its uses at the times that are known: of the
uses that were counted together, only the time of the last one is. Between known uses the past curve is therefore a lower bound.
Guarantees: the point of today is the priority that the policy gives for the last of these uses; `Memory.decay_curve` knows all uses, so
there it is what `Memory.priority` gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.facts import DAY, moment_of
from smp_memory.analytics.forecast import time_below
from smp_memory.decay import DecayInputs
from smp_memory.model.times import to_microseconds, to_moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from smp_memory.decay import Policy
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record

    Points = list[tuple[int, float]]

STEPS = 96  # points of the past, and of the future


class KnownUse(NamedTuple):
    """A use of which the time is known, and the number of uses until then."""

    time: int
    uses: int


class DecayCurve(NamedTuple):
    """The priority over time, in microseconds."""

    past: Points  # ends today
    future: Points  # begins today
    uses: Points  # the known uses, with the priority right after each
    changes: Points  # the revisions after the first
    threshold: float
    below: int | None  # when the priority falls below the threshold; None: never

    @property
    def today(self) -> tuple[int, float]:
        return self.future[0]

    @property
    def days_until_below(self) -> float | None:
        return None if self.below is None else (self.below - self.today[0]) / DAY


def decay_points(
    record: Record,
    policy: Policy,
    now: datetime,
    *,
    threshold: float = 0.3,
    days_ahead: float = 90,
    history: RecordHistory | None = None,
    uses: Sequence[KnownUse] | None = None,
    steps: int = STEPS,
) -> DecayCurve:
    """The curve of a memory. `history`: its earlier fields and uses; `uses`: known uses, else those of the history or the record."""
    time = to_microseconds(now)
    known = _distinct(_uses_of(record, history) if uses is None else uses)
    states = _states(record, history)
    start = min(to_microseconds(record.created), time)

    def priority(at: int) -> float:
        state = next((each for since, each in reversed(states) if since <= at), states[0][1])
        until = [each for each in known if each.time <= at]
        last = until[-1] if until else KnownUse(0, 0)
        inputs = DecayInputs.of(state, last.uses, last.time or None)
        inputs.updated = min(inputs.updated, max(at, inputs.created))
        return policy.priority(inputs, at)

    inputs = DecayInputs.of(record, *(known[-1].uses, known[-1].time) if known else (0, None))
    end = time + round(days_ahead * DAY)
    marks = sorted({*(each.time for each in known), *(since for since, _ in states)})
    past_times = _times(start, time, steps, (edge for at in marks for edge in (at - 1, at)))
    past = [(at, priority(at)) for at in past_times[:-1]] + [(time, policy.priority(inputs, time))]
    future = [(at, policy.priority(inputs, at)) for at in _times(time, end, steps, ())]
    used = [(each.time, priority(each.time)) for each in known if start <= each.time <= time]
    changed = [(since, priority(since)) for since, _ in states[1:] if since <= time]
    return DecayCurve(past, future, used, changed, threshold, time_below(inputs, policy, time, threshold))


def known_uses(history: RecordHistory) -> list[KnownUse]:
    """The uses of a memory of which the files know the time: the last one of each count that maintenance wrote."""
    found = {}
    for entry in history.entries:
        access = entry.data.get("access")
        use = _use(access) if isinstance(access, dict) else None
        if use is not None:
            found[use.time] = use
    return [found[time] for time in sorted(found)]


def _use(access: dict[str, Any]) -> KnownUse | None:
    """A use from a file that a person may have edited; None if it cannot be read."""
    count, last = access.get("count"), access.get("last")
    if type(count) is not int or count < 1 or not isinstance(last, str):
        return None
    try:
        return KnownUse(to_microseconds(to_moment(last)), count)
    except (ValueError, OverflowError):
        return None


def _uses_of(record: Record, history: RecordHistory | None) -> list[KnownUse]:
    access = record.access
    use = _use(access) if isinstance(access, dict) else None
    found = {each.time: each for each in (known_uses(history) if history is not None else [])}
    if use is not None:
        found[use.time] = use
    return list(found.values())


def _distinct(uses: Iterable[KnownUse]) -> list[KnownUse]:
    """The uses by time; of two in one second, which different sources tell of the same use, the one with the higher count."""
    found = {each.time // 1_000_000: each for each in sorted(uses, key=lambda each: each.uses)}
    return sorted(found.values())


def _states(record: Record, history: RecordHistory | None) -> list[tuple[int, Record]]:
    """The fields of a memory from each revision on, the first revision first."""
    created, updated = to_microseconds(record.created), to_microseconds(record.updated)
    if history is None:
        return [(created, record)] if updated <= created else [(created, record), (updated, record)]
    found: dict[int, Record] = {}
    for step in history.steps():
        state = history.record(record.session, step["at"])
        if state is not None:
            found[to_microseconds(to_moment(step["at"]))] = state
    return sorted(found.items(), key=lambda each: each[0]) or [(created, record)]


def _times(start: int, end: int, steps: int, marks: Iterable[int]) -> list[int]:
    """Evenly spaced times from start to end, and these marks between them."""
    even = (start + (end - start) * number // steps for number in range(steps + 1))
    return sorted({*even, *(at for at in marks if start < at < end)})


def sentence(curve: DecayCurve) -> str:
    """The curve in one sentence, for people who cannot see it."""
    today = curve.today[1]
    if curve.below is None:
        return f"Priority {today:.2f} now; it does not fall below {curve.threshold:g}."
    if curve.below <= curve.today[0]:
        return f"Priority {today:.2f} now, below {curve.threshold:g}."
    days = curve.days_until_below or 0.0
    length = f"{days:.0f} days" if days >= 2 else f"{days * 24:.0f} hours"
    moment = moment_of(curve.below)
    when = f" ({moment:%Y-%m-%d})" if moment is not None else ""
    return f"Priority {today:.2f} now; falls below {curve.threshold:g} in {length}{when} unless it is used."
