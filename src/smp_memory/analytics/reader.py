"""Read what the statistics need: facts of memories, their labels, relations and texts; one memory with its history for its decay curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.analytics import forecast
from smp_memory.analytics.facts import MemoryFacts, Periods, brief, number_of_days, share
from smp_memory.errors import InvalidQuery
from smp_memory.index.query import RowConditions
from smp_memory.index.rows import POSITION_BITS
from smp_memory.model.storage_reports import ARCHIVED, names_of
from smp_memory.model.times import to_microseconds
from smp_memory.model.types import NUMBERED
from smp_memory.observe.incomplete import each_existing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime
    from typing import Protocol, TypeVar

    from smp_memory.analytics.facts import AnalyticsOptions
    from smp_memory.index.rows import Row
    from smp_memory.model.reports import Problem
    from smp_memory.scope import Scope
    from smp_memory.store.port import IndexSearcher

    class _Part(Protocol):
        """A part of the statistics."""

        notes: list[str]
        problems: list[Problem]

        def refs(self) -> Iterable[str]: ...

        def set_texts(self, texts: dict[str, str]) -> None: ...

    T = TypeVar("T")
    Part = TypeVar("Part", bound=_Part)


class FactReader:
    """Reads what one part needs."""

    def __init__(self, scope: Scope, options: AnalyticsOptions, now: datetime) -> None:
        self.scope = scope
        self.options = options
        self.now = now
        self.time = to_microseconds(now)
        self.limit = options.limit

    @property
    def periods(self) -> Periods:
        return Periods(self.time, self.options.by, self.options.periods)

    def read(self, work: Callable[[IndexSearcher], T]) -> T:
        """Run `work` on the index. Other threads of the process wait for the index meanwhile: it reads and computes nothing."""
        found: T = self.scope.answer(self.scope.sessions, work, with_others=True)
        return found

    def finish(self, made: Part) -> Part:
        """Add the texts of the listed memories, the problems, and notes about what is not counted."""
        texts, made.problems = self.read(
            lambda searcher: (self._texts(searcher, made.refs()), searcher.problems(self.scope.sessions))
        )
        made.set_texts(texts)
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
            version is not None for _, version in each_existing(every, lambda name: store.session(name).cold_version())
        )
        if cold:
            whose = "1 session" if cold == 1 else f"{cold:,} sessions"
            notes.append(f"Memories in the cold segments of {whose} are not counted; `smp list --archived` lists them.")
        return notes

    # -- rows of the index

    def conditions(self, searcher: IndexSearcher, *, in_range: bool = True) -> RowConditions:
        made = RowConditions()
        if self.scope.sessions is not None:
            made.sessions = searcher.session_numbers(self.scope.sessions)
        if in_range and self.options.range is not None:
            made.since, made.until = self.options.range.start, self.options.range.end
        return made

    def rows(self, searcher: IndexSearcher, conditions: RowConditions) -> tuple[list[Row], dict[int, tuple[int, int]]]:
        """The visible rows that meet the conditions, and their uses."""
        rows = [row for row in searcher.select(conditions, "oldest", -1) if searcher.is_visible(row)]
        return rows, searcher.accesses([row.doc for row in rows])

    def facts(self, searcher: IndexSearcher, conditions: RowConditions) -> list[MemoryFacts]:
        rows, accesses = self.rows(searcher, conditions)
        return facts_of(searcher, rows, accesses)

    def labelled_facts(self, searcher: IndexSearcher) -> tuple[list[MemoryFacts], list[tuple[int, str]]]:
        """The facts in the range of time, with doc and topic or tag of each label."""
        conditions = self.conditions(searcher)
        return self.facts(searcher, conditions), searcher.labels(conditions)

    def _texts(self, searcher: IndexSearcher, refs: Iterable[str]) -> dict[str, str]:
        """The beginning of the text of these memories, by ref."""
        found: dict[int, tuple[str, Row]] = {}
        for ref in dict.fromkeys(refs):
            row = searcher.row(*_split(ref))
            if row is not None:
                found[row.doc] = ref, row
        records = searcher.records(row for _, row in found.values())
        return {found[doc][0]: brief(record.text) for doc, record in records.items() if record is not None}


def facts_of(searcher: IndexSearcher, rows: list[Row], accesses: dict[int, tuple[int, int]]) -> list[MemoryFacts]:
    sessions: dict[int, str] = {}
    authors: dict[int | None, str] = {None: ""}
    found = []
    for row in rows:
        number = row.doc >> POSITION_BITS
        if number not in sessions:
            sessions[number] = searcher.session_of(row.doc)
        if row.author not in authors:
            authors[row.author] = searcher.author(row.author)
        uses, last = accesses.get(row.doc, (0, None))
        about = sessions[number], row.id, NUMBERED[row.type], authors[row.author], row.created
        found.append(MemoryFacts(row.doc, *about, row.pinned is not None, uses, last))
    return found


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
    history = files.history(memory_id)
    record = None if history is None else history.record(session)
    if record is None or not scope.sees(record):
        raise files.memory_not_found(memory_id)
    assert history is not None  # the record is made of it
    uses = forecast.known_uses(history) + _counted_uses(scope, session, memory_id)
    return forecast.decay_points(
        record, scope.policy(), scope.now(), threshold=share("threshold", least), days_ahead=number_of_days("days_ahead", days_ahead),
        history=history, uses=uses,
    )  # fmt: skip


def _counted_uses(scope: Scope, session: str, id: str) -> list[forecast.KnownUse]:
    """The last use that is counted, and the single uses that the access log still has."""

    def look(searcher: IndexSearcher) -> tuple[int, int] | None:
        row = searcher.row(session, id)
        return None if row is None else searcher.accesses([row.doc]).get(row.doc)

    counted = scope.answer([session], look)
    if counted is None:
        return []
    access = scope.store.access
    times = sorted(
        round(at * 1_000_000) for name, at in (*access.read(0)[0], *access.pending()) if name == f"{session}/{id}"
    )
    total, last = counted
    single = [forecast.KnownUse(time, max(1, total - len(times) + place)) for place, time in enumerate(times[:-1], 1)]
    return [*single, forecast.KnownUse(last, total)]


def _split(ref: str) -> tuple[str, str]:
    session, _, id = ref.rpartition("/")
    return session, id
