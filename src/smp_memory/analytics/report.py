"""Read a scope for statistics, and compute them: `Analytics`, whose parts are made when they are first asked for.

Guarantees: everything comes from the index, the access log and session states; nothing is written, nothing counts as use, and no lock is
taken that a writer waits for. Entries that could not be read are in `problems` of each part. Archived sessions and memories in cold
segments are not counted; `notes` says so if there are any.
Non-guarantees: the parts are computed one after the other, so what is written meanwhile may be in one and not in another.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from smp_memory import lifecycle
from smp_memory.analytics import decay_rates, forecast, impact, usage
from smp_memory.analytics.facts import (
    DAY,
    LENGTHS,
    MAX_DAYS,
    AnalyticsOptions,
    MemoryFacts,
    Periods,
    brief,
    moment_of,
    number_of_days,
    one_of,
    session_names,
    share,
    whole_number,
)
from smp_memory.errors import InvalidQuery, maps_errors
from smp_memory.lifecycle.quota import days_to_quota, growth_per_day
from smp_memory.model.candidates import LABELS, LATEST, NEWER, OLDEST, PROBLEMS, RELATIONS, VALIDITY, CandidateRequest
from smp_memory.model.decay import inputs_of
from smp_memory.model.history import COLD, PausedCollection
from smp_memory.model.session_info import ARCHIVED, names_of
from smp_memory.model.statuses import SUPERSEDES, last_successors
from smp_memory.model.times import to_microseconds, to_text
from smp_memory.observe.incomplete import each_existing, memory_not_found
from smp_memory.scope import Scope
from smp_memory.search.query import Query
from smp_memory.text.memory_text import text_of
from smp_memory.text.tokenizer import ParsedText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Protocol, TypeVar

    from smp_memory.analytics.usage import Trends
    from smp_memory.config.settings import Config
    from smp_memory.lifecycle.session_states import SessionState
    from smp_memory.model.candidates import Candidate
    from smp_memory.model.deletions import Trashed
    from smp_memory.model.reports import Problem

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
    storage = scope.store.session(session)
    history = storage.history([memory_id]).histories.get(memory_id)
    record = None if history is None else history.record(session)
    if record is None or not scope.sees(record):
        raise memory_not_found(storage, memory_id)
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


PARTS = ("usage", "topics", "impact", "forecast", "decay")
MAX_LIMIT = 1000
MAX_PERIODS = 120
_MAX_MENTIONING = 5000  # memories that are read to find mentions of decisions
_HOUR = 3_600_000_000
_FULL_WITHIN_DAYS = 365  # a session that is full later is not reported as filling up


def analytics(
    scope: Scope,
    sessions: str | Sequence[str] | None = None,
    *,
    time: Any = None,
    since: Any = None,
    until: Any = None,
    by: str = "week",
    periods: int = 12,
    limit: int = 10,
    threshold: float | None = None,
) -> Analytics:
    """The statistics of a scope, or of some of its sessions; options are checked here, parts are computed later."""
    names = scope.sessions if sessions is None else session_names(sessions)
    for name in names or ():
        scope.store.session(name)  # raises SessionNotFound or SessionArchived
    config = _config(scope, names)
    least = config.section("compaction").get("faded_below", 0.3) if threshold is None else threshold
    options = AnalyticsOptions(
        Query({"time": time, "since": since, "until": until}, scope.now()).time,
        one_of("by", by, tuple(LENGTHS)),
        whole_number("periods", periods, 3, MAX_PERIODS),
        whole_number("limit", limit, 1, MAX_LIMIT),
        share("threshold", least),
    )
    narrowed = Scope(scope.store, names, config, scope.clock, viewer=scope.viewer, author=scope.author)
    return Analytics(narrowed, options)


def _config(scope: Scope, names: list[str] | None) -> Config:
    """The settings of the one session that is meant, else of the scope."""
    return scope.store.session(names[0]).config if names is not None and len(names) == 1 else scope.config


@maps_errors
class Analytics:
    """Statistics of a store or of some sessions, as of `now`. Each part is computed once, when it is first asked for."""

    def __init__(self, scope: Scope, options: AnalyticsOptions) -> None:
        self._scope = scope
        self._options = options
        self.now: datetime = scope.now()
        self.sessions = scope.sessions  # None: all
        self._made: dict[str, Any] = {}

    @property
    def usage(self) -> usage.Usage:
        """What is used: most, last, never; by type, author, tag and session."""
        return self._part("usage", _read_usage)

    @property
    def topics(self) -> Trends:
        """Topics and tags by week or month: rising, new, falling, quiet, steady."""
        return self._part("topics", _read_trends)

    @property
    def impact(self) -> impact.Impact:
        """What followed from each decision."""
        return self._part("impact", _read_impact)

    @property
    def forecast(self) -> forecast.Forecast:
        """When memories fade, sessions are full or change their state, and the trash is purged."""
        return self._part("forecast", _read_forecast)

    @property
    def decay(self) -> decay_rates.DecayAdvice:
        """Decay settings that the use of memories suggests, with the evidence."""
        return self._part("decay", _read_decay)

    @property
    def problems(self) -> list[Problem]:
        """Entries that could not be read, in the parts made so far."""
        found = {(each.path, each.line): each for part in self._made.values() for each in part.problems}
        return list(found.values())

    def to_dict(self, parts: Sequence[str] = PARTS) -> dict[str, Any]:
        """These parts as plain values; parts that were not made yet are made."""
        made = {name: getattr(self, name).to_dict() for name in parts}
        said: dict[str, Any] = {"at": to_text(self.now), "sessions": self.sessions, **made}
        if self.problems:
            said["problems"] = [each.to_dict() for each in self.problems]
        return said

    def _part(self, name: str, read: Callable[[FactReader], Part]) -> Part:
        if name not in self._made:
            self._scope.store.check_open()
            with PausedCollection():
                self._made[name] = read(FactReader(self._scope, self._options, self.now))
        made: Part = self._made[name]
        return made

    def __repr__(self) -> str:
        return f"Analytics({'all sessions' if self.sessions is None else ', '.join(self.sessions)})"


# -- the parts


def _read_usage(reader: FactReader) -> usage.Usage:
    access = reader.scope.store.access
    log = [*access.read(0)[0], *access.pending()]

    return reader.finish(usage.usage(*reader.facts(), log, reader.periods, reader.limit))


def _read_trends(reader: FactReader) -> Trends:
    return reader.finish(usage.trends(*reader.facts(), reader.periods, reader.limit))


def _read_decay(reader: FactReader) -> decay_rates.DecayAdvice:
    names = reader.scope.sessions
    session = names[0] if names is not None and len(names) == 1 else None
    facts, _ = reader.facts()
    return reader.finish(decay_rates.decay_advice(facts, reader.time, reader.scope.config.decay, session))


# -- impact


def _read_impact(reader: FactReader) -> impact.Impact:
    index, viewer = reader.index, reader.scope.viewer
    with index.snapshot():  # what followed may be in another session
        found = index.candidates(CandidateRequest(viewer=viewer, order=OLDEST, fetch=[RELATIONS])).matches
        own = CandidateRequest(types=["decision"], viewer=viewer, now=reader.time, fetch=[NEWER])
        newer = index.candidates(own).newer
        wanted = {each.ref for each in index.candidates(reader.request(types=["decision"])).matches}
    facts = facts_of(found)
    every = {each.ref: each for each in facts}
    decisions = [each for each in facts if each.ref in wanted]
    edges = _edges(found, newer)
    mentions, left_out = _mentions(reader, {each.id for each in decisions}, facts)
    made = reader.finish(impact.impact(decisions, every, [*edges, *mentions], reader.limit))
    if left_out:
        made.notes.append(
            f"Of the memories that seem to name a decision {_MAX_MENTIONING:,} were read for mentions, {left_out:,} were not."
        )
    return made


def _edges(found: list[Candidate], newer: Mapping[str, Sequence[Candidate]]) -> list[impact.Edge]:
    """The relations of these memories; of decisions also what supersedes them in any way in which a memory can say so."""
    edges = [(each.ref, kind, target) for each in found for kind, target in each.relations]
    names = {each.ref for each in found}
    for each in found:
        if each.type == "decision":
            successors = last_successors(each.ref, newer)
            edges += [(other.ref, SUPERSEDES, each.ref) for other in successors if other.ref in names]
    return edges


def _mentions(reader: FactReader, ids: set[str], facts: list[MemoryFacts]) -> tuple[list[impact.Edge], int]:
    """The memories whose text names one of these ids; and how many candidates were not read.

    Every memory has its own id as a term, so an id that is a term of no more memories than have it is named nowhere.
    """
    own: dict[str, int] = {}
    for each in facts:
        own[each.id] = own.get(each.id, 0) + 1

    index, viewer = reader.index, reader.scope.viewer
    with index.snapshot():
        frequencies = index.vocabulary([id.lower() for id in ids], viewer).frequencies
        named = [id for id in sorted(ids) if frequencies[id.lower()] > own[id]]
        words = tuple(dict.fromkeys(id.lower() for id in named))
        asked = CandidateRequest(text=ParsedText(words), viewer=viewer)
        found = index.candidates(asked).matches if named else []
        records = index.records(found[:_MAX_MENTIONING], viewer).values()
    left_out = max(0, len(found) - _MAX_MENTIONING)
    texts = ((each.session, each.id, text_of(each.given)) for each in records)
    return impact.mentions_in(texts, named), left_out


# -- forecast


def _read_forecast(reader: FactReader) -> forecast.Forecast:
    store, sessions, limit = reader.scope.store, reader.scope.sessions, reader.limit

    policy, until = reader.scope.policy(), reader.time + MAX_DAYS * DAY
    fetch = [VALIDITY, LATEST] if policy.is_joint else [VALIDITY]
    found = reader.index.candidates(reader.request(in_range=False, fetch=fetch)).matches
    aging: list[Any] = [(facts, inputs_of(each)) for facts, each in zip(facts_of(found), found, strict=True)]
    bounded = ((each.valid_until, place) for place, each in enumerate(found) if each.valid_until is not None)
    ends = [(place, end) for end, place in sorted(bounded) if reader.time <= end < until]
    made = forecast.fading_forecast(aging, policy, reader.time, reader.options.threshold, limit)
    made.ending = forecast.endings({each.doc: each for each, _ in aging}, ends, reader.time)[:limit]
    created: dict[str, list[int]] = {}
    for each, _ in aging:
        created.setdefault(each.session, []).append(each.created)
    states = lifecycle.session_states.session_states(store, reader.now, sessions)
    known = each_existing(states, lambda state: _session_forecast(reader, state, created.get(state.session, [])))
    ordered = sorted((each for _, each in known), key=forecast.session_order)
    made.session_count, made.sessions = len(ordered), ordered[:limit]
    trash = _trash(reader)
    made.trash_count, made.trash = len(trash), trash[:limit]
    if sessions is None:
        runs = lifecycle.maintenance.next_runs(store, reader.now)
        effects = forecast.effect_texts(ordered, trash, runs, reader.now)
        made.maintenance = forecast.planned_tasks(runs, reader.now, effects)
    return reader.finish(made)


def _session_forecast(reader: FactReader, state: SessionState, created: list[int]) -> forecast.SessionForecast:
    storage = reader.scope.store.session(state.session)
    config = storage.config
    size = sum(storage.sizes().values())
    full_in = _days_until_full(reader, state.session, size, config, created)
    move = state.next
    return forecast.SessionForecast(
        state.session, state.state, move.state, move.when, move.why, len(created), size, config.quota_bytes, full_in
    )


def _days_until_full(reader: FactReader, session: str, size: int, config: Config, created: list[int]) -> float | None:
    """The forecast of `stats`. It reads the session, so it is asked only if an estimate from the index comes near."""
    rate = growth_per_day(_rough_samples(created, size), reader.now, size)
    rough = days_to_quota(size, config.quota_bytes, rate)
    if rough is None or rough > 4 * _FULL_WITHIN_DAYS:
        return None
    store = reader.scope.store
    policy = reader.scope.policy()
    days = lifecycle.compaction.report(
        store, store.session(session), config, policy, reader.now
    ).predicted_days_to_quota
    return days if days is not None and days <= _FULL_WITHIN_DAYS else None


def _rough_samples(created: list[int], size: int) -> list[tuple[datetime, int]]:
    """The size of a session hour by hour, as if all its memories were equally large."""
    by_hour = Counter(time // _HOUR for time in created if time > 0)
    samples, before = [], 0
    for hour, count in sorted(by_hour.items()):
        moment = moment_of(hour * _HOUR)
        if moment is not None:
            samples.append((moment, size * before // len(created)))
        before += count
    return samples


def _trash(reader: FactReader) -> list[forecast.PurgeForecast]:
    """The deleted memories of the scope, and with all sessions the deleted sessions; the next to be purged first."""
    scope = reader.scope
    activity = scope.store.indexer.activity(scope.sessions)
    wanted = [name for name, known in activity.items() if known.has_deleted]

    def trash_of(name: str) -> list[Trashed]:
        storage = scope.store.session(name)
        return lifecycle.deletion.session_trash(scope.store, storage, storage.config)

    found = [
        forecast.PurgeForecast(each.record.ref, each.at, each.purged_from)
        for _, trash in each_existing(wanted, trash_of)
        for each in trash
        if scope.sees(each.record)
    ]
    if scope.sessions is None and scope.viewer is None:
        states = lifecycle.session_states.archived_session_states(scope.store, reader.now)
        found += [
            forecast.PurgeForecast(state.session, state.archived.when, state.next.when)
            for state in states
            if state.state == "deleted" and state.archived is not None
        ]
    return sorted(found, key=lambda each: (each.purged_from is None, each.purged_from or reader.now, each.ref))
