"""Read from the index what the statistics need: facts of memories, their labels, relations and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.analytics.facts import MemoryFacts, brief
from smp_memory.analytics.periods import Periods
from smp_memory.incomplete import each_existing
from smp_memory.model.candidates import LABELS, OLDEST, PROBLEMS, CandidateRequest
from smp_memory.model.times import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Any, Protocol, TypeVar

    from smp_memory.analytics.options import AnalyticsOptions
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
        archived = store.archived_count() if names is None else 0
        if archived:
            notes.append(f"{archived:,} archived session{'s are' if archived > 1 else ' is'} not counted.")
        every = store.session_ids() if names is None else names
        cold = sum(
            version is not None for _, version in each_existing(every, lambda name: store.session(name).cold_version())
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
