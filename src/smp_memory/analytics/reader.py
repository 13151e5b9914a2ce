"""Read what the statistics need: facts of memories, their labels, relations and texts; one memory with its history for its decay curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.analytics import forecast
from smp_memory.analytics.facts import MemoryFacts, Periods, brief, number_of_days, share
from smp_memory.errors import InvalidQuery
from smp_memory.model.candidates import LABELS, OLDEST, PROBLEMS, CandidateRequest
from smp_memory.model.history import COLD
from smp_memory.model.session_info import ARCHIVED, names_of
from smp_memory.model.times import to_microseconds
from smp_memory.observe.incomplete import each_existing, memory_not_found

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Any, Protocol, TypeVar

    from smp_memory.analytics.facts import AnalyticsOptions
    from smp_memory.model.candidates import Candidate
    from smp_memory.model.reports import Problem
    from smp_memory.scope import Scope

    class _Part(Protocol):
        """A part of the statistics."""

        notes: list[str]
        problems: list[Problem]

        def refs(self) -> Iterable[str]: ...

        def set_texts(self, texts: dict[str, str]) -> None: ...

    Part = TypeVar("Part", bound=_Part)


class FactReader:
    """Reads what one part needs."""

    def __init__(self, scope: Scope, options: AnalyticsOptions, now: datetime) -> None:
        self.scope = scope
        self.options = options
        self.now = now
        self.time = to_microseconds(now)
        self.limit = options.limit
        self.index = scope.store.indexer

    @property
    def periods(self) -> Periods:
        return Periods(self.time, self.options.by, self.options.periods)

    def finish(self, made: Part) -> Part:
        """Add the texts of the listed memories, the problems, and notes about what is not counted."""
        records = self.index.records(dict.fromkeys(made.refs()), self.scope.viewer)
        made.set_texts({ref: brief(record.text) for ref, record in records.items()})
        made.problems = self.index.candidates(self.request(limit=0, fetch=[PROBLEMS])).every_problem
        made.notes += self._not_counted()
        return made

    def _not_counted(self) -> list[str]:
        """Archived sessions and cold segments, which the index does not have."""
        store, names = self.scope.store, self.scope.sessions
        notes = []
        archived = sum(each.has_memories for each in store.sessions(ARCHIVED)) if names is None else 0
        if archived:
            notes.append(f"{archived:,} archived session{'s are' if archived > 1 else ' is'} not counted.")
        every = names_of(store.sessions()) if names is None else names
        cold = sum(
            version is not None for _, version in each_existing(every, lambda name: store.session(name).version(COLD))
        )
        if cold:
            whose = "1 session" if cold == 1 else f"{cold:,} sessions"
            notes.append(f"Memories in the cold segments of {whose} are not counted; `smp list --archived` lists them.")
        return notes

    # -- memories in the index

    def request(self, *, in_range: bool = True, **conditions: Any) -> CandidateRequest:
        """A request for the memories of the scope, oldest first."""
        made = CandidateRequest(sessions=self.scope.sessions, viewer=self.scope.viewer, order=OLDEST, **conditions)
        if in_range and self.options.range is not None:
            made.since, made.until = self.options.range.start, self.options.range.end
        return made

    def facts(self) -> tuple[list[MemoryFacts], list[tuple[int, str]]]:
        """The memories of the scope and the range, and their labels by the place of each."""
        found = self.index.candidates(self.request(fetch=[LABELS])).matches
        return facts_of(found), [(place, label) for place, each in enumerate(found) for label in each.labels]


def facts_of(candidates: list[Candidate]) -> list[MemoryFacts]:
    return [
        MemoryFacts(place, each.session, each.id, each.type, each.author, each.created, each.pinned, each.access_count, each.last_access)
        for place, each in enumerate(candidates)
    ]  # fmt: skip


# -- the decay curve of one memory


def decay_curve(
    scope: Scope, id: Any, *, threshold: float | None = None, days_ahead: float = 90
) -> forecast.DecayCurve:
    """The priority of one memory over time, with its history and all uses that are known."""
    name = getattr(id, "ref", None) or id
    session, memory_id = _split(name) if isinstance(name, str) else ("", "")
    if not session or not memory_id:
        raise InvalidQuery(f"id: give session/ID, such as review/DEC-0001, not {repr(id)[:80]}.", field="id")
    least = scope.config.section("compaction")["faded_below"] if threshold is None else threshold
    files = scope.store.session(session)
    history = files.history([memory_id]).histories.get(memory_id)
    record = None if history is None else history.record(session)
    if record is None or not scope.sees(record):
        raise memory_not_found(files, memory_id)
    assert history is not None  # the record is made of it
    uses = forecast.known_uses(history) + _counted_uses(scope, session, memory_id)
    return forecast.decay_points(
        record, scope.policy(), scope.now(), threshold=share("threshold", least), days_ahead=number_of_days("days_ahead", days_ahead),
        history=history, uses=uses,
    )  # fmt: skip


def _counted_uses(scope: Scope, session: str, id: str) -> list[forecast.KnownUse]:
    """The last use that is counted, and the single uses that the access log still has."""
    asked = CandidateRequest(sessions=[session], refs=[f"{session}/{id}"], include_deleted=True, viewer=scope.viewer)
    found = scope.store.indexer.candidates(asked).matches
    if not found or found[0].last_access is None:
        return []
    access = scope.store.access
    times = sorted(
        round(at * 1_000_000) for name, at in (*access.read(0)[0], *access.pending()) if name == f"{session}/{id}"
    )
    total, last = found[0].access_count, found[0].last_access
    single = [forecast.KnownUse(time, max(1, total - len(times) + place)) for place, time in enumerate(times[:-1], 1)]
    return [*single, forecast.KnownUse(last, total)]


def _split(ref: str) -> tuple[str, str]:
    session, _, id = ref.rpartition("/")
    return session, id
