"""Forecasts: when memories fade, sessions are full or change their state, the trash is purged, validity ends; and the decay curve. Pure.

The time at which a memory fades is found by evaluating the decay policy itself, by bisection to a minute; nobody is assumed to use
the memory until then. Every policy falls with time, so there is one such time. The threshold is that of compaction
(`compaction.faded_below`), but the priority is the visible one: a floor keeps it up. Compaction itself ignores floors.

The decay curve of a memory: its past is computed with the fields that it had at each time, and with its uses at the times that are
known: of the uses that were counted together, only the time of the last one is. Between known uses the past curve is therefore a
lower bound. Guarantees: the point of today is the priority that the policy gives for the last of these uses; `Memory.decay_curve`
knows all uses, so there it is what `Memory.priority` gives.

Non-guarantees: a forecast holds as long as nobody uses, changes or pins the memory, and the settings stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.facts import DAY, MAX_DAYS, MemoryFacts, dicts, memories, moment_of, time_text
from smp_memory.lifecycle.transitions import ARCHIVED
from smp_memory.model.decay import DecayInputs
from smp_memory.model.times import to_microseconds, to_moment, to_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from smp_memory.model.decay import Policy
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem

    Points = list[tuple[int, float]]
    Aging = tuple[MemoryFacts, DecayInputs]

_MINUTE = 60_000_000


class Fading(NamedTuple):
    """A memory whose priority will fall below the threshold."""

    ref: str
    type: str
    priority: float  # now
    when: int
    days: float
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        rounded = {"priority": round(self.priority, 4), "when": time_text(self.when), "days": round(self.days, 1)}
        return {**self._asdict(), **rounded}


class Ending(NamedTuple):
    """A memory that ceases to hold: its `valid_until`."""

    ref: str
    type: str
    when: int
    days: float
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "when": time_text(self.when), "days": round(self.days, 1)}


class SessionForecast(NamedTuple):
    """What happens next to a session."""

    session: str
    state: str
    next_state: str
    when: datetime | None  # None: nothing happens by itself
    why: str
    memories: int
    size_bytes: int
    quota_bytes: int
    full_in_days: float | None  # None: it does not grow, or not within a year

    def to_dict(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "when": _text(self.when),
            "full_in_days": None if self.full_in_days is None else round(self.full_in_days, 1),
        }


class PlannedTask(NamedTuple):
    """A task of maintenance: when it is due, and what it would do then."""

    name: str
    due: datetime
    effect: str

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "due": _text(self.due)}


class PurgeForecast(NamedTuple):
    """A deleted memory or session, and the earliest time at which it is removed for good; None: not by itself."""

    ref: str
    deleted: datetime | None
    purged_from: datetime | None

    def to_dict(self) -> dict[str, Any]:
        return {"ref": self.ref, "deleted": _text(self.deleted), "purged_from": _text(self.purged_from)}


@dataclass(slots=True)
class Forecast:
    """What will happen if nothing else does."""

    threshold: float
    memories: int
    faded: int = 0  # memories below the threshold now
    horizons: dict[int, int] = field(default_factory=dict)  # how many more will be below it, by days ahead
    fading: list[Fading] = field(default_factory=list)  # the next ones
    ending: list[Ending] = field(default_factory=list)  # the next ones whose validity ends
    sessions: list[SessionForecast] = field(default_factory=list)  # the next to be full or to change, first
    session_count: int = 0
    trash: list[PurgeForecast] = field(default_factory=list)
    trash_count: int = 0
    maintenance: list[PlannedTask] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # entries that could not be read

    def refs(self) -> list[str]:
        """The listed memories, whose texts are shown."""
        return [*(each.ref for each in self.fading), *(each.ref for each in self.ending)]

    def set_texts(self, texts: Mapping[str, str]) -> None:
        self.fading = [each._replace(text=texts.get(each.ref, "")) for each in self.fading]
        self.ending = [each._replace(text=texts.get(each.ref, "")) for each in self.ending]

    def to_dict(self) -> dict[str, Any]:
        return {
            "threshold": self.threshold,
            "memories": self.memories,
            "faded": self.faded,
            "fades_within_days": {str(days): count for days, count in self.horizons.items()},
            "fading": dicts(self.fading),
            "ending": dicts(self.ending),
            "session_count": self.session_count,
            "sessions": dicts(self.sessions),
            "trash_count": self.trash_count,
            "trash": dicts(self.trash),
            "maintenance": dicts(self.maintenance),
            "notes": self.notes,
        }


HORIZONS = (7, 30, 90)  # days


def fading_forecast(aging: Sequence[Aging], policy: Policy, now: int, threshold: float, limit: int) -> Forecast:
    """How many memories fade below the threshold, and which are the next."""
    made = Forecast(threshold, len(aging))
    above = [each for each in aging if policy.priority(each[1], now) >= threshold]
    made.faded = len(aging) - len(above)
    candidates: list[Aging] = above
    for days in reversed(HORIZONS):  # who is above after 90 days is so after 30
        candidates = _below(candidates, policy, now + days * DAY, threshold)
        made.horizons[days] = len(candidates)
    made.horizons = dict(sorted(made.horizons.items()))
    later = _below(above, policy, now + MAX_DAYS * DAY, threshold) if len(candidates) < limit else candidates
    made.fading = [_fading(each, policy, now, threshold) for each in _first(later, policy, now, threshold, limit)]
    made.fading.sort(key=lambda each: (each.when, each.ref))
    if not made.fading and aging:
        made.notes.append(
            f"No memory will fade below {threshold:g}: what is not pinned is kept up by the floor of its type."
        )
    return made


def time_below(inputs: DecayInputs, policy: Policy, now: int, threshold: float) -> int | None:
    """The first moment, to a minute, at which the priority is below the threshold; None: never, or not within a hundred years."""
    if policy.priority(inputs, now) < threshold:
        return now
    low, high = now, now + MAX_DAYS * DAY
    if policy.priority(inputs, high) >= threshold:
        return None
    while high - low > _MINUTE:
        middle = (low + high) // 2
        if policy.priority(inputs, middle) < threshold:
            high = middle
        else:
            low = middle
    return high


def _below(aging: Sequence[Aging], policy: Policy, time: int, threshold: float) -> list[Aging]:
    return [each for each in aging if policy.priority(each[1], time) < threshold]


def _first(aging: Sequence[Aging], policy: Policy, now: int, threshold: float, limit: int) -> list[Aging]:
    """The `limit` memories that fade first, and a few more at the same time; each round halves the range of time."""
    chosen: list[Aging] = []
    rest = list(aging)
    low, high = now, now + MAX_DAYS * DAY
    while len(rest) + len(chosen) > limit and high - low > _MINUTE:
        middle = (low + high) // 2
        below: list[Aging] = []
        above: list[Aging] = []
        for each in rest:
            (below if policy.priority(each[1], middle) < threshold else above).append(each)
        if len(chosen) + len(below) >= limit:
            rest, high = below, middle
        else:
            chosen += below
            rest, low = above, middle
    rest.sort(key=lambda each: each[0].ref)
    return (chosen + rest)[:limit]


def _fading(aging: Aging, policy: Policy, now: int, threshold: float) -> Fading:
    memory, inputs = aging
    when = time_below(inputs, policy, now, threshold)
    assert when is not None  # it is below the threshold within the range
    return Fading(memory.ref, memory.type, policy.priority(inputs, now), when, (when - now) / DAY)


def session_order(forecast: SessionForecast) -> tuple[float, float, str]:
    """The next to be full first, then the next that changes its state."""
    full = float("inf") if forecast.full_in_days is None else forecast.full_in_days
    return full, forecast.when.timestamp() if forecast.when else float("inf"), forecast.session


def planned_tasks(runs: Mapping[str, datetime], now: datetime, effects: Mapping[str, str]) -> list[PlannedTask]:
    """The tasks of maintenance, the next one first; one that is overdue is due now."""
    tasks = [PlannedTask(name, max(due, now), effects.get(name, "")) for name, due in runs.items()]
    return sorted(tasks, key=lambda task: (task.due, task.name))


def endings(every: Mapping[int, MemoryFacts], ends: Iterable[tuple[int, int]], now: int) -> list[Ending]:
    """The memories that cease to hold; `ends`: doc and time, the next first."""
    known = ((every[doc], until) for doc, until in ends if doc in every)
    return [Ending(memory.ref, memory.type, until, (until - now) / DAY) for memory, until in known]


def effect_texts(
    sessions: Iterable[SessionForecast], trash: Iterable[PurgeForecast], runs: Mapping[str, datetime], now: datetime
) -> dict[str, str]:
    """What archiving and purging will do when they are next due."""
    found: dict[str, str] = {}
    due = max(runs["archive"], now)
    archived = sum(each.next_state == ARCHIVED and each.when is not None and each.when <= due for each in sessions)
    if archived:
        found["archive"] = f"archives {archived:,} session{'s' if archived > 1 else ''}"
    due = max(runs["purge"], now)
    purged = sum(each.purged_from is not None and each.purged_from <= due for each in trash)
    if purged:
        found["purge"] = f"announces or removes {memories(purged)}"
    return found


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)


# -- the priority of one memory over time

RESOLUTION_DAYS = 30  # after which the effect of a new status is told
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
    use = _use(record.access)
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


def resolution_sentence(
    record: Record, policy: Policy, now: datetime, status: str, count: int, last: int | None
) -> str:
    """What a new status does to the priority of a memory: at once, and in the time after it."""
    time = to_microseconds(now)
    later = time + round(RESOLUTION_DAYS * DAY)
    before, after = DecayInputs.of(record, count, last), DecayInputs.of(record, count, last)
    after.status, after.updated = status, time
    if record.pinned or policy.priority(before, later) == policy.priority(after, later) == policy.priority(
        before, time
    ):
        return "Its priority stays as it is."
    return (
        f"Its priority: {policy.priority(before, time):.2f} now, {policy.priority(after, time):.2f} when it is {status}, "
        f"{policy.priority(after, later):.2f} after {RESOLUTION_DAYS} days; without that it would be {policy.priority(before, later):.2f} then."
    )


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
