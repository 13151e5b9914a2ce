"""Memories similar or related to a given one, and its priority: functions of a scope."""

from __future__ import annotations

from smp_memory.errors import InvalidQuery, InvalidRecord, MemoryNotFound, SessionArchived, SessionNotFound
from smp_memory.model import ids
from smp_memory.model.candidates import LATEST, PROBLEMS, CandidateRequest, Hits, Related
from smp_memory.model.decay import inputs_of
from smp_memory.observe.incomplete import with_unreadable
from smp_memory.search.path import check, search, search_index
from smp_memory.search.query import LIMIT, Query
from smp_memory.search.records import find
from smp_memory.text.memory_text import text_of
from smp_memory.text.tokenizer import without_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.scope import Scope
    from smp_memory.search.port import SearchIndex


def find_similar(scope: Scope, what: Any, options: Mapping[str, Any]) -> Hits:
    """Memories similar to a text, or to the memory with an id; best first. A record is not similar to itself, on any page."""

    record = _record_named(scope, what)
    text = what if record is None else record.text or text_of(record.given)
    if not isinstance(text, str):
        raise InvalidQuery(f"find_similar: give a text or the id of a memory, not {what!r}.", field="text")
    given = dict(options)
    is_tracked = given.pop("track_access", True)
    query = check(scope, {**given, "text": without_signs(text)})
    if not query.text:  # nothing is similar to a text without words
        return Hits([])
    first, end = query.offset, query.offset + query.limit
    query.offset, query.limit = 0, end + 1
    hits = search(scope, query)
    others = [hit for hit in hits if record is None or hit.record.ref != record.ref]
    more = hits.more or len(others) > end
    page = Hits(others[first:end], more=more, counts=hits.counts, left_out=hits.left_out, problems=hits.problems)
    page.warnings = hits.warnings
    page.not_valid, page.corrected = hits.not_valid, hits.corrected
    page.archived_not_searched = hits.archived_not_searched
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

    name = getattr(id, "ref", None) or id
    if isinstance(name, str) and name and "/" not in name and scope.sessions:
        name = f"{scope.sessions[0]}/{name}"
    given = {"include_expired": True, **options}  # a relation holds, whatever became of its memories
    query = Query({**given, "related_to": [name], "depth": depth, "kinds": kinds}, scope.now())
    first, end = query.offset, query.offset + query.limit if "limit" in options else None
    query.offset, query.limit = 0, LIMIT
    index, viewer = scope.index, scope.viewer
    with index.snapshot():
        near = index.related([name], query.depth, query.kinds, viewer).get(name)
        problems = _problems(index, query.sessions)  # logged: a list has no field for them
        if near is None:
            error = MemoryNotFound(f"No memory {name} to start from.", id=name)
            raise with_unreadable(error, problems.get(_split(name, "")[0], []))
        records = index.records([each.ref for each in near], viewer)
        if options:
            matching = {hit.record.ref for hit in search_index(query, index, scope.policy(), viewer)}
            near = [each for each in near if each.ref in matching]
    found = [
        Related(record, each.steps, each.kind, each.via)
        for each in near
        if (record := records.get(each.ref)) is not None and (query.include_deleted or not record.deleted)
    ]
    return found[first:end]


def _problems(index: SearchIndex, sessions: Sequence[str] | None) -> dict[str, list[Problem]]:
    """Unreadable entries of these sessions, by session. Raises if one of them does not exist."""
    return index.candidates(CandidateRequest(sessions=sessions, limit=0, fetch=[PROBLEMS])).problems


def priority(scope: Scope, id: Any, at: Any = None) -> float:
    """The priority of a memory, 0 to 1, now or at a time."""

    name = getattr(id, "ref", None) or id
    if not isinstance(name, str):
        raise InvalidQuery(f"id: give the id of a memory, not {name!r}.", field="id")
    query = Query({"at": at}, scope.now())
    session, memory_id = _split(name, scope.sessions[0] if scope.sessions else "")
    if not session:
        raise InvalidQuery(f"id: say which session {name!r} is in: session/{name or 'ID'}.", field="id")
    policy = scope.policy()
    request = CandidateRequest(
        sessions=[session], refs=[f"{session}/{memory_id}"], include_deleted=True, viewer=scope.viewer, limit=1,
        fetch=[PROBLEMS, *([LATEST] if policy.is_joint else ())],
    )  # fmt: skip
    found = scope.index.candidates(request)
    if not found.matches:
        error = MemoryNotFound(f"{memory_id} does not exist in session {session}.", id=memory_id, session=session)
        raise with_unreadable(error, found.every_problem)
    return float(policy.priority(inputs_of(found.matches[0]), query.now))


def _split(name: str, session: str) -> tuple[str, str]:
    own, _, memory_id = name.rpartition("/")
    return own or session, memory_id
