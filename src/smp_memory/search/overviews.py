"""Overviews of the memories of a scope: topics, timeline, agents and a summary. Reading them does not count as use."""

from __future__ import annotations

from smp_memory.errors import SessionCorrupt, StorageCorrupt
from smp_memory.model.candidates import CandidateRequest
from smp_memory.model.decay import DecayInputs
from smp_memory.model.record import Records
from smp_memory.model.session_info import names_of
from smp_memory.model.times import to_microseconds, to_text
from smp_memory.observe.incomplete import each_existing
from smp_memory.overview import activity, summary
from smp_memory.overview.topics import USER, overview_items
from smp_memory.overview.topics import topics as topics_of_records
from smp_memory.search.query import Query
from smp_memory.search.records import records
from smp_memory.text.memory_text import text_of
from smp_memory.text.tokenizer import spellings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeVar

    from smp_memory.model.history import RecordHistory
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
    at, priority, storage = to_text(scope.now()), _priority_of(scope), scope.store.session(session)
    if scope.config.layout == "log":
        return _entry_index(session, at, list(storage.history().histories.values()), priority)
    return _inverted_index(session, at, records(storage), lambda record: sorted(spellings(text_of(record.given))))


def _all_records(scope: Scope) -> Records:
    """All records of the scope; reading them does not count as use. In `markdown` the overview files follow."""
    store = scope.store
    names = names_of(store.sessions()) if scope.sessions is None else scope.sessions
    if scope.sessions is None:
        every = Records.joined(found for _, found in each_existing(names, lambda name: records(store.session(name))))
    else:
        every = Records.joined(records(store.session(name)) for name in names)
    if scope.sessions is not None and scope.viewer is None:
        files = store.session(names[0]).files
        if files is not None:
            files.show_overviews(every, _users(scope))
    return scope.filter_visible(every)


def _users(scope: Scope) -> dict[str, str]:
    """The users of the sessions, by session. Unreadable metadata costs the name."""
    names = names_of(scope.store.sessions()) if scope.sessions is None else scope.sessions
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
        for each in scope.index.candidates(request).matches
        if each.access_count
    }

    def priority(record: Record) -> float:
        count, last = used.get(record.ref, (None, None))
        return float(policy.priority(DecayInputs.of(record, count, last), now))

    return priority


def _with_problems(made: _Overview, records: Records) -> _Overview:
    made.problems = records.problems
    return made


# -- the lookup index, as designs 001 and 004 keep it in `index.json`
#
#    001   inverted_index, topic_index, temporal_index: ids by word, by topic and by hour
#    004   entries: file position, type, time, tags, importance and relevance by id; ids by tag and by type
#
# SMP has an index of its own and does not read this one: `smp index --json` prints it for other programs.

_VERSION = 1
_HOUR = len("2026-01-11T10")


def _inverted_index(
    session: str, at: str, records: Iterable[Record], words: Callable[[Record], Iterable[str]]
) -> dict[str, Any]:
    """The index of design 001."""
    by_word: dict[str, list[str]] = {}
    by_topic: dict[str, list[str]] = {}
    by_hour: dict[str, list[str]] = {}
    for item in overview_items(records, across_sessions=False):
        for word in words(item.record):
            by_word.setdefault(word, []).append(item.ref)
        for topic in item.topics:
            by_topic.setdefault(topic, []).append(item.ref)
        by_hour.setdefault(to_text(item.created)[:_HOUR], []).append(item.ref)
    return {
        "session_id": session,
        "created_at": at,
        "inverted_index": dict(sorted(by_word.items())),
        "topic_index": dict(sorted(by_topic.items())),
        "temporal_index": by_hour,
        "version": _VERSION,
    }


def _entry_index(
    session: str, at: str, histories: Iterable[RecordHistory], priority: Callable[[Record], float]
) -> dict[str, Any]:
    """The index of design 004."""
    entries: dict[str, dict[str, Any]] = {}
    by_tag: dict[str, list[str]] = {}
    by_type: dict[str, list[str]] = {}
    for history in histories:
        record = history.record(session)
        if record is None or record.deleted:
            continue
        tags = list(map(str, record.tags))
        entries[record.id] = {
            "line_number": history.first.line,
            "byte_offset": history.first.place[0],
            "type": record.type,
            "timestamp": to_text(record.created),
            "tags": tags,
            "importance": record.importance,
            "current_relevance": round(priority(record), 4),
        }
        for tag in tags:
            by_tag.setdefault(tag, []).append(record.id)
        by_type.setdefault(record.type, []).append(record.id)
    return {"version": _VERSION, "last_updated": at, "entries": entries, "tags": by_tag, "types": by_type}
