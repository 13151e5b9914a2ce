"""Forecasts: when memories fade, sessions are full or change their state, the trash is purged, validity ends. Pure.

The time at which a memory fades is found by evaluating the decay policy itself, by bisection to a minute; nobody is assumed to use
the memory until then. Every policy falls with time, so there is one such time. The threshold is that of compaction
(`compaction.faded_below`), but the priority is the visible one: a floor keeps it up. Compaction itself ignores floors.

Non-guarantees: a forecast holds as long as nobody uses, changes or pins the memory, and the settings stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.analytics.facts import DAY, MemoryFacts, dicts, memories, time_text
from smp_memory.model.times import to_text
from smp_memory.policies.session_states import ARCHIVED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from smp_memory.decay import DecayInputs, Policy
    from smp_memory.model.reports import Problem

    Aging = tuple[MemoryFacts, DecayInputs]

MAX_DAYS = 36_500
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


class Forecast:
    """What will happen if nothing else does."""

    __slots__ = (
        "ending", "faded", "fading", "horizons", "maintenance", "memories", "notes", "problems", "session_count",
        "sessions", "threshold", "trash", "trash_count",
    )  # fmt: skip

    def __init__(self, threshold: float, memories: int) -> None:
        self.threshold = threshold
        self.memories = memories
        self.faded = 0  # memories below the threshold now
        self.horizons: dict[int, int] = {}  # how many more will be below it, by days ahead
        self.fading: list[Fading] = []  # the next ones
        self.ending: list[Ending] = []  # the next ones whose validity ends
        self.sessions: list[SessionForecast] = []  # the next to be full or to change, first
        self.session_count = 0
        self.trash: list[PurgeForecast] = []
        self.trash_count = 0
        self.maintenance: list[PlannedTask] = []
        self.notes: list[str] = []
        self.problems: list[Problem] = []  # entries that could not be read

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
