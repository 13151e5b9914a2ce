"""Searches and overviews: functions of a scope.

    for hit in query(scope, "which database did we choose?"):
        print(hit.relevance, hit.record.decision, hit.explain)

A query sees everything that was acknowledged before it, by any process. It takes no lock that a writer waits for, and
writes nothing but the access log.
"""

from __future__ import annotations

import time

from smp_memory import event_log
from smp_memory.errors import (
    InvalidQuery,
    InvalidRecord,
    MemoryNotFound,
    SessionArchived,
    SessionCorrupt,
    SessionNotFound,
    StorageCorrupt,
)
from smp_memory.import_lock import loading
from smp_memory.model import ids
from smp_memory.model.record import Records
from smp_memory.search.records import find
from smp_memory.search.records import records as records_of
from smp_memory.store.incomplete import each_existing, with_unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeVar

    from smp_memory.model.hits import Hit, Hits, Related
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.overview.activity import Participants, Timeline
    from smp_memory.overview.summary import SessionSummary
    from smp_memory.overview.topics import Topics
    from smp_memory.scope import Scope
    from smp_memory.search.query import Query
    from smp_memory.store.finder import Finder

    _Overview = TypeVar("_Overview", Topics, Timeline, Participants, SessionSummary)

_loaded: list[bool] = []


def load() -> None:
    """Import the modules that queries need; once, and while nobody forks."""
    if not _loaded:
        with loading:
            import smp_memory.decay.policies
            import smp_memory.search.path
            import smp_memory.search.ranking
            import smp_memory.store.indexer  # noqa: F401
        _loaded.append(True)


def query(scope: Scope, text: str | Mapping[str, Any] | None, options: Mapping[str, Any]) -> Hits:
    """Find memories, best first. The options are those of `Memory.query`."""
    given = dict(options)
    if text is not None and not isinstance(text, str) and hasattr(text, "keys"):
        given = {**text, **given}
    elif text is not None:
        given["text"] = text
    load()
    is_tracked = given.pop("track_access", True)
    if scope.config.layout == "single":  # design 000 searches topics in the text
        given.setdefault("topic_in_text", True)
    hits = search(scope, parse(scope, given))
    if is_tracked:
        scope.note_access([hit.record for hit in hits])
    return hits


def parse(scope: Scope, options: Mapping[str, Any]) -> Query:
    """The checked query; it is about the sessions of the scope unless it names others."""
    from smp_memory.search.query import Query

    if scope.sessions is not None and options.get("sessions") is None and options.get("session") is None:
        options = {**options, "sessions": scope.sessions}
    return Query(options, scope.now())


def search(scope: Scope, query: Query) -> Hits:
    """Answer a checked query. Hidden memories are left out before the limit is applied, so they take nobody's place."""
    from smp_memory.search import path
    from smp_memory.search.ranking import Ranking, uses_embeddings

    store, policy = scope.store, scope.policy()
    store.check_open()
    if scope.viewer is not None:
        from smp_memory.privacy.visibility import VisibilityFilter

        query.where = VisibilityFilter(scope.viewer, query.where)  # type: ignore[assignment]

    def ask(query: Query) -> Hits:
        began = time.monotonic()
        hits: Hits = scope.answer(
            query.sessions,
            lambda finder: path.search(query, finder, Ranking(query, finder, policy)),
            with_others=query.follows_relations,
            by_meaning=uses_embeddings(query),
        )
        seconds = time.monotonic() - began
        if seconds >= event_log.SLOW_QUERY_SECONDS:
            message = f"A query took {seconds:.1f} s."
            event_log.emit("query", event_log.WARNING, "slow_query", message, seconds=round(seconds, 3), hits=len(hits))
        return hits

    if query.include_archived:
        from smp_memory.search.archive_search import with_archived

        query.include_archived = False
        hits = with_archived(store, query, policy, ask)
        for hit in hits if scope.viewer is not None else ():
            hit.related = [record for record in hit.related if scope.sees(record)]
    else:
        hits = ask(query)
        if query.sessions is None:
            hits.archived_not_searched = store.archived_count()
    if query.sessions is None:
        hits.shared_not_searched = store.shared_count(scope.sees)
    if scope.opened is not None:
        hits.warnings += scope.opened.take_warnings()
    return hits


def watch(
    scope: Scope, text: str | None, options: Mapping[str, Any], timeout: float | None, pause: float
) -> Iterator[Hit]:
    """Yield memories that match as any process writes them, until the timeout (in seconds) or for ever."""
    from smp_memory.search.watch import watch as follow

    given = dict(options)
    if scope.sessions is not None:
        given["sessions"] = scope.sessions
    if text:
        given["text"] = text
    scope.store.check_open()
    return follow(scope, given, timeout, pause)


def priority(scope: Scope, id: Any, at: Any = None) -> float:
    """The priority of a memory, 0 to 1, now or at a time."""
    from smp_memory.index.documents import decay_inputs
    from smp_memory.search.query import Query

    name = getattr(id, "ref", None) or id
    if not isinstance(name, str):
        raise InvalidQuery(f"id: give the id of a memory, not {name!r}.", field="id")
    query = Query({"at": at}, scope.now())
    session, memory_id = _split(name, scope.sessions[0] if scope.sessions else "")
    if not session:
        raise InvalidQuery(f"id: say which session {name!r} is in: session/{name or 'ID'}.", field="id")
    policy = scope.policy()
    scope.store.check_open()

    def look(finder: Finder) -> float:
        row = finder.row(session, memory_id)
        if row is None:
            error = MemoryNotFound(f"{memory_id} does not exist in session {session}.", id=memory_id, session=session)
            raise with_unreadable(error, finder.problems([session]))
        return float(policy.priority(decay_inputs(row, finder.accesses([row.doc])), query.now))

    found: float = scope.answer([session], look)
    return found


# -- overviews


def topics(scope: Scope) -> Topics:
    """Topics and tags, the weightiest first."""
    from smp_memory import overview

    records = _all_records(scope)
    made: Topics = overview.topics(records, priority=_priority_of(scope), across_sessions=scope.sessions is None)
    return _with_problems(made, records)


def timeline(scope: Scope, by: str, time: Any, since: Any, until: Any) -> Timeline:
    """Memories as events, by hour or day."""
    from smp_memory import overview
    from smp_memory.search.query import Query

    range = Query({"time": time, "since": since, "until": until}, scope.now()).time
    start, end = (range.start_time, range.end_time) if range is not None else (None, None)
    records, is_many = _all_records(scope), scope.sessions is None
    made = overview.timeline(records, by=by, since=start, until=end, across_sessions=is_many, users=_users(scope))
    return _with_problems(made, records)


def agents(scope: Scope) -> Participants:
    """Who took part, and with what."""
    from smp_memory import overview

    records = _all_records(scope)
    made = overview.agents(records, across_sessions=scope.sessions is None, users=_users(scope))
    return _with_problems(made, records)


def summarize(scope: Scope) -> SessionSummary:
    """Decisions, open findings, preferences and topics on a page."""
    from smp_memory import overview

    records, is_many = _all_records(scope), scope.sessions is None
    info = None if scope.sessions is None else scope.store.session(scope.sessions[0]).info()
    priority = _priority_of(scope)
    made = overview.summarize(records, info, priority=priority, across_sessions=is_many, users=_users(scope))
    return _with_problems(made, records)


def _all_records(scope: Scope) -> Records:
    """All records of the scope; reading them does not count as use. In `markdown` the overview files follow."""
    store = scope.store
    names = store.session_ids() if scope.sessions is None else scope.sessions
    if scope.sessions is None:
        every = Records.joined(
            records for _, records in each_existing(names, lambda name: records_of(store.session(name)))
        )
    else:
        every = Records.joined(records_of(store.session(name)) for name in names)
    if scope.sessions is not None and scope.viewer is None:
        store.session(names[0]).refresh_overviews(every, _users(scope))
    return scope.filter_visible(every)


def _users(scope: Scope) -> dict[str, str]:
    """The users of the sessions, by session. Unreadable metadata costs the name."""
    names = scope.store.session_ids() if scope.sessions is None else scope.sessions
    infos = each_existing(names, lambda name: _info(scope, name))
    return {name: info.user for name, info in infos if info is not None and info.user}


def _info(scope: Scope, session: str) -> SessionInfo | None:
    try:
        return scope.store.session(session).info()
    except (SessionCorrupt, StorageCorrupt):
        return None


def _priority_of(scope: Scope) -> Callable[[Record], float]:
    from smp_memory.decay.inputs import DecayInputs
    from smp_memory.index.documents import microseconds
    from smp_memory.model.times import to_text

    policy, now = scope.policy(), microseconds(to_text(scope.now()))
    used = scope.answer(scope.sessions, lambda finder: finder.all_accesses())

    def priority(record: Record) -> float:
        count, last = used.get(record.ref, (None, None))
        return float(policy.priority(DecayInputs.of(record, count, last), now))

    return priority


def _with_problems(made: _Overview, records: Records) -> _Overview:
    made.problems = records.problems
    return made


# -- similar and related memories


def find_similar(scope: Scope, what: Any, options: Mapping[str, Any]) -> Hits:
    """Memories similar to a text, or to the memory with an id; best first. A record is not similar to itself, on any page."""
    load()
    from smp_memory.index.documents import text_of
    from smp_memory.index.tokens import without_signs
    from smp_memory.model.hits import Hits

    record = _record_named(scope, what)
    text = what if record is None else record.text or text_of(record.given)
    if not isinstance(text, str):
        raise InvalidQuery(f"find_similar: give a text or the id of a memory, not {what!r}.", field="text")
    given = dict(options)
    is_tracked = given.pop("track_access", True)
    query = parse(scope, {**given, "text": without_signs(text)})
    if not query.text:  # nothing is similar to a text without words
        return Hits([])
    first, end = query.offset, query.offset + query.limit
    query.offset, query.limit = 0, end + 1
    hits = search(scope, query)
    others = [hit for hit in hits if record is None or hit.record.ref != record.ref]
    more = hits.more or len(others) > end
    page = Hits(others[first:end], more=more, counts=hits.counts, left_out=hits.left_out, problems=hits.problems)
    page.warnings = hits.warnings
    page.archived_not_searched = hits.archived_not_searched
    page.shared_not_searched = hits.shared_not_searched
    if is_tracked:
        scope.note_access(page.records)
    return page


def _record_named(scope: Scope, what: Any) -> Record | None:
    """The record, if it is one or the id of one; None for any other text."""
    if not isinstance(what, str):
        found: Record | None = getattr(what, "record", what) if hasattr(what, "ref") else None
    else:
        found = _find(scope, what)
    if found is not None and not scope.sees(found):
        raise InvalidRecord(f"{found.id}: this memory does not exist for the viewer.", field="text")
    return found


def _find(scope: Scope, name: str) -> Record | None:
    session, _, memory_id = name.rpartition("/")
    session = session or (scope.sessions[0] if scope.sessions else "")
    if not session or not ids.is_valid(memory_id) or not ids.is_valid(session):
        return None
    try:
        record: Record | None = find(scope.store.session(session), memory_id)
    except (SessionArchived, SessionNotFound):
        return None
    return record if record is not None and scope.sees(record) else None


def find_related(
    scope: Scope, id: Any, depth: int, kinds: str | list[str] | None, options: Mapping[str, Any]
) -> list[Related]:
    """Memories that this one points to or that point to it, up to `depth` steps away, nearest first."""
    load()
    from smp_memory.model.hits import Related
    from smp_memory.search import path
    from smp_memory.search.query import LIMIT, Query
    from smp_memory.search.ranking import Ranking

    name = getattr(id, "ref", None) or id
    if isinstance(name, str) and name and "/" not in name and scope.sessions:
        name = f"{scope.sessions[0]}/{name}"
    query = Query({**options, "related_to": [name], "depth": depth, "kinds": kinds}, scope.now())
    first, end = query.offset, query.offset + query.limit if "limit" in options else None
    query.offset, query.limit = 0, LIMIT
    policy = scope.policy()
    scope.store.check_open()

    def look(finder: Finder) -> list[Related]:
        finder.problems(query.sessions)  # logged: a list has no field for them
        near = finder.related(query.related_to, "", query.depth, query.kinds)
        if not near and finder.row(*_split(name, "")) is None:
            error = MemoryNotFound(f"No memory {name} to start from.", id=name)
            raise with_unreadable(error, finder.problems([_split(name, "")[0]]))
        rows = finder.rows(list(near))
        records = finder.records([rows[doc] for doc in near if doc in rows])
        if options:
            hits = path.search(query, finder, Ranking(query, finder, policy))
            matching = {hit.record.ref for hit in hits}
            records = {doc: record for doc, record in records.items() if record and record.ref in matching}
        return [
            Related(record, *near[doc][:2], finder.ref(near[doc][2]))
            for doc, record in records.items()
            if record is not None and (query.include_deleted or not record.deleted)
        ]

    found: list[Related] = scope.answer(query.sessions, look, with_others=True)[first:end]
    return found


def _split(name: str, session: str) -> tuple[str, str]:
    own, _, memory_id = name.rpartition("/")
    return own or session, memory_id
