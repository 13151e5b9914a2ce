"""Overviews of the memories of a scope: topics, timeline, agents and a summary. Reading them does not count as use."""

from __future__ import annotations

from smp_memory.decay import DecayInputs
from smp_memory.errors import SessionCorrupt, StorageCorrupt
from smp_memory.incomplete import each_existing
from smp_memory.model.candidates import CandidateRequest
from smp_memory.model.record import Records
from smp_memory.model.times import to_microseconds, to_text
from smp_memory.overview import activity, lookup, summary
from smp_memory.overview.topics import USER
from smp_memory.overview.topics import topics as topics_of_records
from smp_memory.search.query import Query
from smp_memory.search.records import records
from smp_memory.text.memory_text import text_of
from smp_memory.text.tokenizer import spellings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.overview.activity import Participants, Timeline
    from smp_memory.overview.summary import SessionSummary
    from smp_memory.overview.topics import Topics
    from smp_memory.scope import Scope

    _Overview = TypeVar("_Overview", Topics, Timeline, Participants, SessionSummary)


def topics(scope: Scope) -> Topics:
    """Topics and tags, the weightiest first."""
    every = _all_records(scope)
    made: Topics = topics_of_records(every, across_sessions=scope.sessions is None)
    return _with_problems(made, every)


def timeline(scope: Scope, by: str, time: Any, since: Any, until: Any) -> Timeline:
    """Memories as events, by hour or day."""
    range = Query({"time": time, "since": since, "until": until}, scope.now()).time
    start, end = (range.start_time, range.end_time) if range is not None else (None, None)
    every, is_many = _all_records(scope), scope.sessions is None
    made = activity.timeline(every, by=by, since=start, until=end, across_sessions=is_many, users=_users(scope))
    return _with_problems(made, every)


def agents(scope: Scope) -> Participants:
    """Who took part, and with what."""
    every = _all_records(scope)
    made = activity.agents(every, across_sessions=scope.sessions is None, users=_users(scope))
    return _with_problems(made, every)


def summarize(scope: Scope) -> SessionSummary:
    """Decisions, open findings, preferences and topics on a page."""
    every, is_many = _all_records(scope), scope.sessions is None
    info = None if scope.sessions is None else scope.store.session(scope.sessions[0]).info()
    priority = _priority_of(scope)
    users, now = _users(scope), to_microseconds(scope.now())
    made = summary.summarize(every, info, priority=priority, across_sessions=is_many, users=users, at=now)
    return _with_problems(made, every)


def lookup_index(scope: Scope, session: str) -> dict[str, Any]:
    """The lookup index of one session, in the form of design 004 in its layout `log`, else of design 001."""
    at, priority, files = to_text(scope.now()), _priority_of(scope), scope.store.session(session)
    if scope.config.layout == "log":
        histories = files.view(lambda session_history: list(session_history.histories.values()))
        return lookup.entry_index(session, at, histories, priority)
    return lookup.inverted_index(session, at, records(files), lambda record: sorted(spellings(text_of(record.given))))


def _all_records(scope: Scope) -> Records:
    """All records of the scope; reading them does not count as use. In `markdown` the overview files follow."""
    store = scope.store
    names = store.session_ids() if scope.sessions is None else scope.sessions
    if scope.sessions is None:
        every = Records.joined(found for _, found in each_existing(names, lambda name: records(store.session(name))))
    else:
        every = Records.joined(records(store.session(name)) for name in names)
    if scope.sessions is not None and scope.viewer is None:
        store.session(names[0]).refresh_overviews(every, _users(scope))
    return scope.filter_visible(every)


def _users(scope: Scope) -> dict[str, str]:
    """The users of the sessions, by session. Unreadable metadata costs the name."""
    names = scope.store.session_ids() if scope.sessions is None else scope.sessions
    infos = each_existing(names, lambda name: _info(scope, name))
    return {name: info.user for name, info in infos if info is not None and info.user}


def by_author(scope: Scope, agent: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a query for the memories of an author: those of the session's user also say `user`, or nothing."""
    users = {*_users(scope).values(), USER}
    if agent not in users:
        return {**options, "agents": agent}
    if "where" in options:
        return {**options, "agents": sorted(users)}
    return {**options, "where": {"author": {"in": [*sorted(users), None]}}}


def _info(scope: Scope, session: str) -> SessionInfo | None:
    try:
        return scope.store.session(session).info()
    except (SessionCorrupt, StorageCorrupt):
        return None


def _priority_of(scope: Scope) -> Callable[[Record], float]:
    policy, now = scope.policy(), to_microseconds(scope.now())
    request = CandidateRequest(sessions=scope.sessions, include_deleted=True)
    used = {
        each.ref: (each.access_count, each.last_access)
        for each in scope.store.indexer.candidates(request).matches
        if each.access_count
    }

    def priority(record: Record) -> float:
        count, last = used.get(record.ref, (None, None))
        return float(policy.priority(DecayInputs.of(record, count, last), now))

    return priority


def _with_problems(made: _Overview, records: Records) -> _Overview:
    made.problems = records.problems
    return made
