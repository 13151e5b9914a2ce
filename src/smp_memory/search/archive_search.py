"""What of a question is answered by what was put away? Cold segments, and the memories inside archived sessions.

They are not in the index. For a question that asks for them (`include_archived`) they are read into a small index of
their own in RAM, kept as long as none of their files changes; its hits are put among the others by relevance. Archives
are unpacked in RAM by the strict reader, the latest first, as long as all of them together have no more than
`MOST_BYTES`; of those that are left, and of one that is damaged, the summary is searched, as a memory `ARCHIVE`.

Guarantees: nothing is written or brought back. Every hit says where it lies (`hit.archived`) and of which session it is.
What was restored or erased meanwhile is not found here.
Non-guarantees: words are weighed among what was put away, so a relevance here and one of the index are only roughly
comparable.
"""

from __future__ import annotations

import copy
from weakref import WeakKeyDictionary

from smp_memory.errors import InvalidQuery, SMPError
from smp_memory.files.archive_format import DEFAULT_LIMITS
from smp_memory.files.disk import identity
from smp_memory.index.index import Index
from smp_memory.index.rows import POSITION_BITS
from smp_memory.model.entry import PUT, Entry
from smp_memory.model.history import Fold
from smp_memory.model.hits import Hits
from smp_memory.model.times import EPOCH, to_text
from smp_memory.search.field_values import level_of
from smp_memory.search.path import Search
from smp_memory.search.query import (
    ACCESS,
    FADED_FIRST,
    IMPORTANCE,
    LEAST_USED_FIRST,
    MILDEST_FIRST,
    NEWEST,
    OLDEST,
    PRIORITY,
    SEVERITY,
    UNIMPORTANT_FIRST,
)
from smp_memory.search.ranking import Ranking
from smp_memory.store import incomplete
from smp_memory.store.archive_copy import of_archive
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.cold_storage import cold_fold, cold_path, present_path
from smp_memory.store.finder import Finder
from smp_memory.store.incomplete import PUT_AWAY, each_there
from smp_memory.store.rewrite import without_collecting

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
    from smp_memory.store.archive_index import StoredAway
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.indexer import Indexer

    Trails = dict[str, dict[str, RecordHistory]]  # by session and id

SUMMARY_ID = "ARCHIVE"
MOST_BYTES = 64 << 20  # of unpacked archives; in RAM they take several times as much
_kept: WeakKeyDictionary[FileStore, tuple[Any, Index, Trails]] = WeakKeyDictionary()


class _Finder(Finder):
    """Finds in what was put away; the records are at hand."""

    def __init__(self, indexer: Indexer, index: Index, trails: Trails) -> None:
        super().__init__(indexer, index)
        self._trails = trails

    def records(self, rows: Iterable[Row]) -> dict[int, Record | None]:
        found: dict[int, Record | None] = {}
        for row in rows:
            session = self.session_of(row.doc >> POSITION_BITS << POSITION_BITS)
            trail = self._trails[session].get(row.id)
            found[row.doc] = trail.record(session) if trail is not None else None
        return found


def with_archived(store: FileStore, question: Query, policy: Policy, ask: Callable[[Query], Hits]) -> Hits:
    """The hits of a question among what is in place (`ask` finds them) and what was put away."""
    wide = copy.copy(question)
    wide.offset, wide.limit = 0, question.offset + question.limit
    live = (
        None
        if question.sessions is None
        else [name for name in question.sessions if not ArchiveIndex(store).is_archived(name)]
    )
    wide.sessions = live
    here = ask(wide) if live is None or live else Hits([])
    wide = copy.copy(wide)
    wide.sessions = question.sessions
    there = _away(store, wide, policy)
    from heapq import merge  # keeps the order of each: a page must not depend on how many pages there are

    if question.aggregations:
        raise InvalidQuery("aggregations: not possible together with include_archived.", field="aggregations")
    every = list(merge(here, there, key=_order_of(question)))
    hits = every[question.offset : question.offset + question.limit]
    more = here.more or there.more or len(every) > question.offset + question.limit
    found = {hit.record.session for hit in there}  # what was archived meanwhile was found there
    left_out = [each for each in here.left_out if each.session not in found]
    problems = here.problems + there.problems
    return Hits(hits, more=more, counts=_added(here.counts, there.counts), left_out=left_out, problems=problems)


def _away(store: FileStore, question: Query, policy: Policy) -> Hits:
    with store.indexer.mutex:
        index, trails = _index_of(store, question.sessions)
        finder = _Finder(store.indexer, index, trails)
        index.rows.do("BEGIN")
        try:
            hits = Search(question, finder, Ranking(question, finder, policy)).run()
        finally:
            index.rows.roll_back()
    shelf = ArchiveIndex(store)
    for hit in hits:
        name = hit.record.session
        try:
            hit.archived = cold_path(store.session(name)) if shelf.is_live(name) else shelf.archive_of(name)
        except PUT_AWAY:
            hit.archived = shelf.archive_of(name)
    return hits


def _index_of(store: FileStore, sessions: list[str] | None) -> tuple[Index, Trails]:
    """The index of what these sessions (None: all) have put away."""
    names = store.session_ids() if sessions is None else sessions
    shelf = ArchiveIndex(store)
    live = [name for name in names if shelf.is_live(name)]
    segments = each_there(live, lambda name: store.disk.stat(present_path(store.session(name))))
    cold = {name: found for name, found in segments if found is not None}
    archived = [away for away in shelf.archived() if sessions is None or away.session in sessions]
    key = (
        sessions and tuple(sessions),
        [(name, identity(found)) for name, found in cold.items()],
        [(away.session, identity(found)) for away in archived if (found := store.disk.stat(away.path)) is not None],
    )
    known = _kept.get(store)
    if known is not None and known[0] == key:
        return known[1], known[2]
    _kept.pop(store, None)
    with without_collecting():
        found = each_there(cold, lambda name: cold_fold(store.session(name)).trails)
        problems: dict[str, list[Problem]] = {}
        trails = dict(found) | _archived(store, archived, problems)
        index = _index(trails, problems)
    _kept[store] = (key, index, trails)
    return index, trails


def _index(trails: Trails, problems: dict[str, list[Problem]]) -> Index:
    index = Index(None)
    index.begin()
    for name, those in trails.items():
        session = index.rows.new_session(name)
        index.extend(session, those.values(), lambda trail: "")
        index.rows.save_session(session)
        incomplete.keep(index, name, problems.get(name, ()), grown=False)
    index.commit()
    index.text.refresh()
    return index


def _archived(store: FileStore, archived: list[StoredAway], problems: dict[str, list[Problem]]) -> Trails:
    """The memories inside archives, live ones and those of their cold segments; where there is no room, the summary.

    `problems` gets the entries that cannot be read, by session.
    """
    found: Trails = {}
    left = MOST_BYTES
    for away in sorted(archived, key=lambda away: to_text(away.when or EPOCH), reverse=True):
        try:
            files = of_archive(store, away.path, away.session, DEFAULT_LIMITS._replace(total_bytes=left)).files
            left -= sum(files.sizes().values())
            found[away.session] = {**cold_fold(files).trails, **files.view(lambda fold: dict(fold.trails))}
            problems[away.session] = files.unreadable()
        except (SMPError, OSError):
            found[away.session] = _summary_fold(away).trails
    return found


def _summary_fold(away: StoredAway) -> Fold:
    fold = Fold()
    earlier = away.said.get("earlier_conversation")
    parts = [away.said.get("text"), away.said.get("conversation"), *(earlier if isinstance(earlier, list) else ())]
    said = "\n".join(part for part in parts if isinstance(part, str) and part)
    data = {"author": "smp", "author_kind": "system", "summary": said or f"Archived session {away.session}."}
    fold.add([Entry(PUT, "summary", SUMMARY_ID, to_text(away.when or EPOCH), data, 1)])
    return fold


def _added(one: dict[str, dict[str, int]], other: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    found = {by: dict(counts) for by, counts in one.items()}
    for by, counts in other.items():
        total = found.setdefault(by, {})
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    return found


def _order_of(question: Query) -> Callable[[Hit], tuple[Any, ...]]:
    """The order of a question over hits; of equals the newest first."""
    if not question.then_by:
        return _ORDERS.get(question.sort, _by_relevance)
    keys = [_ORDERS.get(each, _by_relevance) for each in (question.sort, *question.then_by)]
    return lambda hit: (*(key(hit)[0] for key in keys), -hit.record.created.timestamp())


def _severity(hit: Hit) -> int:
    level = level_of(getattr(hit.record, "severity", None))
    return 0 if level is None else level + 1


def _uses(hit: Hit) -> int:
    count = hit.record.access.get("count") if isinstance(hit.record.access, dict) else 0
    return count if type(count) is int else 0


def _by_relevance(hit: Hit) -> tuple[Any, ...]:
    return -hit.relevance, -hit.record.created.timestamp()


_ORDERS: dict[str, Callable[[Hit], tuple[Any, ...]]] = {
    NEWEST: lambda hit: (-hit.record.created.timestamp(),),
    OLDEST: lambda hit: (hit.record.created.timestamp(),),
    PRIORITY: lambda hit: (-hit.priority, -hit.record.created.timestamp()),
    FADED_FIRST: lambda hit: (hit.priority, -hit.record.created.timestamp()),
    IMPORTANCE: lambda hit: (-_number(hit.record.importance), -hit.record.created.timestamp()),
    UNIMPORTANT_FIRST: lambda hit: (
        2.0 if hit.record.importance is None else _number(hit.record.importance),
        -hit.record.created.timestamp(),
    ),
    SEVERITY: lambda hit: (-_severity(hit), -hit.record.created.timestamp()),
    MILDEST_FIRST: lambda hit: (_severity(hit) or 6, -hit.record.created.timestamp()),
    ACCESS: lambda hit: (-_uses(hit), -hit.record.created.timestamp()),
    LEAST_USED_FIRST: lambda hit: (_uses(hit), -hit.record.created.timestamp()),
}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else -1.0
