"""Search in cold segments and archived sessions, and merge the hits with those of the index.

Cold segments and archives are not in the index. For a query with `include_archived` they are read into a small index
in RAM, which is kept until one of their files changes. Archives are unpacked in RAM by the strict reader, the latest
first, up to `MAX_UNPACKED_BYTES` in all; of the remaining ones, and of a damaged one, only the summary is searched,
as the memory `ARCHIVE`, and the answer's `problems` name the archive.

Guarantees: nothing is written or restored. Every hit names its session and the segment or archive it is in
(`hit.archived`). Memories that were restored or erased meanwhile are not found here.
Non-guarantees: text is scored within the archived memories, so a relevance here is only roughly comparable with one
of the main index.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from weakref import WeakKeyDictionary

from smp_memory.errors import InvalidQuery, SMPError
from smp_memory.files.archive_format import DEFAULT_LIMITS
from smp_memory.files.disk import identity
from smp_memory.index.index import Index
from smp_memory.index.rows import POSITION_BITS
from smp_memory.model.entry import PUT, Entry
from smp_memory.model.history import SessionHistory
from smp_memory.model.hits import Hits
from smp_memory.model.times import EPOCH, to_text
from smp_memory.search.path import search
from smp_memory.search.ranking import Ranking, sort_key
from smp_memory.store import incomplete
from smp_memory.store.archive_copy import copy_of_archive
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.cold_storage import cold_history, cold_path, current_cold_path
from smp_memory.store.finder import Finder
from smp_memory.store.incomplete import SESSION_GONE, each_existing
from smp_memory.store.rewrite import paused_gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.decay.policies import Policy
    from smp_memory.index.rows import Row
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.hits import Hit
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.search.query import Query
    from smp_memory.store.archive_index import ArchivedSession
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.indexer import Indexer

    Histories = dict[str, dict[str, RecordHistory]]  # by session and id

SUMMARY_ID = "ARCHIVE"
MAX_UNPACKED_BYTES = 64 << 20  # of unpacked archives; in RAM they take several times as much
_cached: WeakKeyDictionary[FileStore, tuple[Any, Index, Histories]] = WeakKeyDictionary()


class _ArchiveFinder(Finder):
    """A finder over the index of archived memories, whose histories are in RAM."""

    def __init__(self, indexer: Indexer, index: Index, histories: Histories) -> None:
        super().__init__(indexer, index)
        self._histories = histories

    def records(self, rows: Iterable[Row]) -> dict[int, Record | None]:
        records: dict[int, Record | None] = {}
        for row in rows:
            session = self.session_of(row.doc >> POSITION_BITS << POSITION_BITS)
            history = self._histories[session].get(row.id)
            records[row.doc] = history.record(session) if history is not None else None
        return records


def with_archived(store: FileStore, query: Query, policy: Policy, search_live: Callable[[Query], Hits]) -> Hits:
    """The hits of a query in live sessions (`search_live` finds them) and in cold segments and archives."""
    if query.aggregations:
        raise InvalidQuery("aggregations: not possible together with include_archived.", field="aggregations")
    end = query.offset + query.limit
    wide = copy.copy(query)
    wide.offset, wide.limit = 0, end
    if query.sessions is not None:
        archives = ArchiveIndex(store)
        wide.sessions = [name for name in query.sessions if not archives.is_archived(name)]
    live = search_live(wide) if wide.sessions is None or wide.sessions else Hits([])
    wide = copy.copy(wide)
    wide.sessions = query.sessions
    archived = _search_archived(store, wide, policy)
    from heapq import merge  # keeps the order of each: a page must not depend on how many pages there are

    key = sort_key(query.sort, query.then_by)
    hits = list(merge(live, archived, key=lambda hit: key(_sortable(hit))))
    archived_sessions = {hit.record.session for hit in archived}  # one that was archived meanwhile was found there
    return Hits(
        hits[query.offset : end],
        more=live.more or archived.more or len(hits) > end,
        counts=_added(live.counts, archived.counts),
        left_out=[each for each in live.left_out if each.session not in archived_sessions],
        problems=live.problems + archived.problems,
    )


def _search_archived(store: FileStore, query: Query, policy: Policy) -> Hits:
    with store.indexer.mutex:
        index, histories = _index_of(store, query.sessions)
        finder = _ArchiveFinder(store.indexer, index, histories)
        index.rows.do("BEGIN")
        try:
            hits = search(query, finder, Ranking(query, finder, policy))
        finally:
            index.rows.roll_back()
    archives = ArchiveIndex(store)
    for hit in hits:
        name = hit.record.session
        try:
            hit.archived = cold_path(store.session(name)) if archives.is_live(name) else archives.archive_path(name)
        except SESSION_GONE:
            hit.archived = archives.archive_path(name)
    return hits


def _index_of(store: FileStore, sessions: list[str] | None) -> tuple[Index, Histories]:
    """The index of the cold segments and archives of these sessions (None: all)."""
    names = store.session_ids() if sessions is None else sessions
    archives = ArchiveIndex(store)
    live = [name for name in names if archives.is_live(name)]
    segments = each_existing(live, lambda name: store.disk.stat(current_cold_path(store.session(name))))
    cold = {name: stat for name, stat in segments if stat is not None}
    archived = [each for each in archives.archived() if sessions is None or each.session in sessions]
    key = (
        sessions and tuple(sessions),
        [(name, identity(stat)) for name, stat in cold.items()],
        [(each.session, identity(stat)) for each in archived if (stat := store.disk.stat(each.path)) is not None],
    )
    cached = _cached.get(store)
    if cached is not None and cached[0] == key:
        return cached[1], cached[2]
    _cached.pop(store, None)
    with paused_gc():
        problems: dict[str, list[Problem]] = {name: [] for name in cold}
        in_segments = each_existing(cold, lambda name: cold_history(store.session(name), problems[name]).histories)
        histories = dict(in_segments) | _archived_histories(store, archived, problems)
        index = _build_index(histories, problems)
    _cached[store] = (key, index, histories)
    return index, histories


def _build_index(histories: Histories, problems: dict[str, list[Problem]]) -> Index:
    index = Index(None)
    index.begin()
    for name, by_id in histories.items():
        session = index.rows.new_session(name)
        index.extend(session, by_id.values(), lambda history: "")
        index.rows.save_session(session)
        incomplete.save_problems(index, name, problems.get(name, ()), grown=False)
    index.commit()
    index.text.refresh()
    return index


def _archived_histories(
    store: FileStore, archived: list[ArchivedSession], problems: dict[str, list[Problem]]
) -> Histories:
    """The memories in archives, those of their cold segments included; beyond the size limit, only the summaries.

    `problems` gets the entries that cannot be read, and the archives of which only the summary is searched, by session.
    """
    histories: Histories = {}
    bytes_left = MAX_UNPACKED_BYTES
    for each in sorted(archived, key=lambda each: to_text(each.when or EPOCH), reverse=True):
        try:
            limits = DEFAULT_LIMITS._replace(total_bytes=bytes_left)
            files = copy_of_archive(store, each.path, each.session, limits).files
            bytes_left -= sum(files.sizes().values())
            cold: list[Problem] = []
            histories[each.session] = {
                **cold_history(files, cold).histories,
                **files.view(lambda session_history: dict(session_history.histories)),
            }
            named = incomplete.located_in_archive(cold, each.session, files.reader.folder, each.path)
            problems[each.session] = [*files.unreadable(), *named]
        except (SMPError, OSError) as error:
            histories[each.session] = _summary_history(each).histories
            problems[each.session] = [incomplete.archive_problem(each.path, each.session, error)]
    return histories


def _summary_history(archived: ArchivedSession) -> SessionHistory:
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
    """A hit with what `sort_key` reads of a ranked row."""
    record = hit.record
    importance = float(record.importance) if isinstance(record.importance, int | float) else None
    count = record.access.get("count") if isinstance(record.access, dict) else 0
    return SimpleNamespace(
        relevance=hit.relevance,
        priority=hit.priority,
        row=SimpleNamespace(
            created=record.created.timestamp(), importance=importance, severity=getattr(record, "severity", None), doc=0
        ),
        inputs=SimpleNamespace(access_count=count if type(count) is int else 0),
    )
