"""Search in cold segments, archived sessions and the designs' files for all sessions; merge the hits with those of the index.

They are not in the index. Cold segments and archives, for a query with `include_archived`, and the files for all sessions
are read into a small index in RAM, which is kept until one of their files changes. Archives are unpacked in RAM by the strict reader, the latest
first, up to `MAX_UNPACKED_BYTES` in all; of the remaining ones, and of a damaged one, only the summary is searched,
as the memory `ARCHIVE`, and the answer's `problems` name the archive.

Guarantees: nothing is written or restored. Every hit names its session and the segment or archive it is in
(`hit.archived`). Memories that were restored or erased meanwhile are not found here.
Non-guarantees: text is scored within the archived memories, so a relevance here is only roughly comparable with one
of the main index.
"""

from __future__ import annotations

import copy
import os
import threading
from heapq import merge
from types import SimpleNamespace
from weakref import WeakKeyDictionary

from smp_memory.errors import InvalidQuery, SMPError
from smp_memory.model.candidates import Hits
from smp_memory.model.entry import PUT, Entry
from smp_memory.model.history import COLD, PausedCollection, SessionHistory
from smp_memory.model.session_info import ARCHIVED
from smp_memory.model.times import EPOCH, to_text
from smp_memory.observe.incomplete import archive_problem, each_existing
from smp_memory.search.ranking import sort_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from smp_memory.model.candidates import Hit
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionHead
    from smp_memory.scope import Scope
    from smp_memory.search.port import SearchIndex
    from smp_memory.search.query import Query
    from smp_memory.store.port import Store

    SearchFunction = Callable[..., Hits]  # `search.path.search_index`

    Histories = dict[str, Mapping[str, RecordHistory]]  # by session and id

SUMMARY_ID = "ARCHIVE"
MAX_UNPACKED_BYTES = 64 << 20  # of unpacked archives; in RAM they take several times as much
_cached: WeakKeyDictionary[Store, tuple[Any, SearchIndex, dict[str, str]]] = WeakKeyDictionary()
_building = [threading.Lock()]  # held while an index is made
_parents_indexes: list[Any] = []  # a forked child must neither use nor close them


def _after_fork_in_child() -> None:
    """Another thread of the parent may have held the lock, or used an index."""
    _building[0] = threading.Lock()
    _parents_indexes.extend(_cached.values())
    _cached.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def search_with_archives(
    scope: Scope,
    query: Query,
    others: Mapping[str, Mapping[str, RecordHistory]],
    search_live: Callable[[Scope, Query], Hits],
    search_index: SearchFunction,
) -> Hits:
    """The hits of a query in live sessions, in `others`, and in cold segments and archives if the query says so.

    The two functions are those of the query path.
    """
    store = scope.store
    if query.aggregations and query.include_archived:
        raise InvalidQuery("aggregations: cannot be combined with include_archived.", field="aggregations")
    end = query.offset + query.limit
    wide = copy.copy(query)
    wide.offset, wide.limit = 0, end
    if query.sessions is not None and query.include_archived:
        wide.sessions = [name for name in query.sessions if not _is_archived(store, name)]
    live = search_live(scope, wide) if wide.sessions is None or wide.sessions else Hits([])
    wide = copy.copy(wide)
    wide.sessions = query.sessions
    wide.aggregations = []
    archived = _search_archived(scope, wide, others, search_index)
    key = sort_key(query.sort, query.then_by)
    # `merge` keeps the order of each: a page must not depend on how many pages there are
    hits = list(merge(live, archived, key=lambda hit: key(_sortable(hit))))
    archived_sessions = {hit.record.session for hit in archived}  # one that was archived meanwhile was found there
    found = Hits(
        hits[query.offset : end],
        more=live.more or archived.more or len(hits) > end,
        counts=_added(live.counts, archived.counts),
        left_out=[each for each in live.left_out if each.session not in archived_sessions],
        problems=live.problems + archived.problems,
        aggregations=live.aggregations,
    )
    found.warnings = live.warnings
    if query.aggregations:
        found.warnings.append(
            f"The aggregations leave out {sum(map(len, others.values()))} memories in files of the designs."
        )
    found.not_valid = live.not_valid + archived.not_valid
    found.corrected = {**archived.corrected, **live.corrected}
    return found


def _is_archived(store: Store, session: str) -> bool:
    return any(each.has_memories for each in store.sessions(ARCHIVED, id=session))


def _search_archived(
    scope: Scope, query: Query, others: Mapping[str, Mapping[str, RecordHistory]], search_index: SearchFunction
) -> Hits:
    store, policy = scope.store, scope.policy()
    cold: dict[str, object] = {}
    archived: list[SessionHead] = []
    if query.include_archived:
        names = (None,) if query.sessions is None else query.sessions
        live = [each.session for name in names for each in store.sessions(id=name)]
        versions = each_existing(live, lambda name: store.session(name).version(COLD))
        cold = {name: version for name, version in versions if version is not None}
        found = store.sessions(ARCHIVED)
        archived = [each for each in found if query.sessions is None or each.session in query.sessions]
        archived = [each for each in archived if each.version is not None]  # others have no memories
    with _building[0]:
        index, places = _index_of(scope, query.sessions, cold, archived, others)
    hits = search_index(query, index, policy, scope.viewer, ignores_missing=True)
    paths = {each.session: each.path for each in archived}
    for hit in hits:
        name = hit.record.session
        if hit.record.id not in others.get(name, {}):
            hit.archived = paths[name] if name in paths else places.get(name, "")
    return hits


def _index_of(
    scope: Scope,
    sessions: list[str] | None,
    cold: dict[str, object],
    archived: list[SessionHead],
    others: Mapping[str, Mapping[str, RecordHistory]],
) -> tuple[SearchIndex, dict[str, str]]:
    """The index of these cold segments, archives and other memories, and where each cold segment is.

    The last one is kept until one of them changes.
    """
    store, with_summaries = scope.store, scope.viewer is None  # a summary covers private memories, too
    key = (
        with_summaries,
        sessions and tuple(sessions),
        list(cold.items()),
        [(each.session, each.version) for each in archived],
        others,
    )
    cached = _cached.get(store)
    if cached is not None and cached[0] == key:
        return cached[1:]
    _cached.pop(store, None)
    with PausedCollection():
        segments = dict(each_existing(cold, lambda name: store.session(name).history(segment=COLD)))
        problems = {name: found.unreadable for name, found in segments.items()}
        places = {name: history.first.file for name, found in segments.items() for history in found.histories.values()}
        histories: Histories = {name: found.histories for name, found in segments.items()}
        histories.update(_archived_histories(store, archived, problems, with_summaries))
        for name, memories in others.items():
            histories[name] = {**histories.get(name, {}), **memories}
        index = store.index_of(histories, problems)
    _cached[store] = (key, index, places)
    return index, places


def _archived_histories(
    store: Store, archived: list[SessionHead], problems: dict[str, list[Problem]], with_summaries: bool
) -> Histories:
    """The memories in archives, those of their cold segments included; beyond the size limit, only the summaries.

    `problems` gets the entries that cannot be read, and the archives of which only the summary is searched, by session.
    """
    histories: Histories = {}
    bytes_left = MAX_UNPACKED_BYTES
    for each in sorted(archived, key=lambda each: to_text(each.when or EPOCH), reverse=True):
        try:
            storage = store.session(each.session, ARCHIVED, max_bytes=bytes_left)
            bytes_left -= sum(storage.sizes().values())
            cold, hot = storage.history(segment=COLD), storage.history()
            histories[each.session] = {**cold.histories, **hot.histories}
            problems[each.session] = [*hot.unreadable, *cold.unreadable]
        except (SMPError, OSError) as error:
            histories[each.session] = _summary_history(each).histories if with_summaries else {}
            problems[each.session] = [archive_problem(each.path, each.session, error)]
    return histories


def _summary_history(archived: SessionHead) -> SessionHistory:
    session_history = SessionHistory()
    earlier = archived.metadata.get("earlier_conversation")
    parts = [
        archived.metadata.get("text"),
        archived.metadata.get("conversation"),
        *(earlier if isinstance(earlier, list) else ()),
    ]
    text = "\n".join(part for part in parts if isinstance(part, str) and part)
    data = {"author": "smp", "author_kind": "system", "summary": text or f"Archived session {archived.session}."}
    session_history.add([Entry(PUT, "summary", SUMMARY_ID, to_text(archived.when or EPOCH), data, 1)])
    return session_history


def _added(one: dict[str, dict[str, int]], other: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    sums = {by: dict(counts) for by, counts in one.items()}
    for by, counts in other.items():
        total = sums.setdefault(by, {})
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return sums


def _sortable(hit: Hit) -> Any:
    """A hit with what `sort_key` reads of a ranked candidate."""
    record = hit.record
    importance = float(record.importance) if isinstance(record.importance, int | float) else None
    count = record.access.get("count")
    return SimpleNamespace(
        score=hit.score,
        priority=hit.priority,
        candidate=SimpleNamespace(
            created=record.created.timestamp(),
            importance=importance,
            severity=getattr(record, "severity", None),
            session="",
            position=0,
        ),
        inputs=SimpleNamespace(access_count=count if type(count) is int else 0),
    )
