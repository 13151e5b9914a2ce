"""One page of the memories of a session, or of all sessions, in the order of their times; with counts and connections.

    page = timeline(memory, TimelineQuery(session="review", types=("decision",)))
    page.records        oldest first, as a conversation is read; the last page is the first that one sees
    page.connections    by `session/ID`: what a memory resolves, follows from, led to, in both directions

Guarantees: an answer comes from one state of the index, which has everything that was acknowledged before; records are read from the
files, only those of the page. Looking counts as no use. Entries that cannot be read are `problems`.
Non-guarantees: memories of archived sessions and those that compaction moved are not in a timeline.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.index.documents import turn_id
from smp_memory.index.query import RowConditions
from smp_memory.model.types import KINDS, NUMBERED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from smp_memory.index.rows import Row
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.store.port import IndexSearcher

PAGE_RECORDS = 100
MOST_OPEN = 5000  # open findings that the filter looks at, the newest
_WORTH_KEEPING = 5000  # memories
_MOST_KEPT = 200  # answers in a memo
_SUCCESSION = ("supersedes", "superseded_by")
# How a relation reads from its source, and from its target.
_WORDS = {
    "relates_to": ("relates to", "related to by"),
    "related_to": ("relates to", "related to by"),
    "resolves": ("resolves", "resolved by"),
    "resolved_by": ("resolved by", "resolves"),
    "supersedes": ("supersedes", "superseded by"),
    "superseded_by": ("superseded by", "supersedes"),
    "supports": ("supports", "supported by"),
    "contradicts": ("contradicts", "contradicted by"),
    "causes": ("causes", "caused by"),
    "caused_by": ("caused by", "causes"),
    "led_to": ("led to", "follows from"),
    "influenced": ("influenced", "influenced by"),
    "derived_from": ("follows from", "led to"),
    "depends_on": ("depends on", "needed by"),
    "blocks": ("blocks", "blocked by"),
    "duplicates": ("duplicates", "duplicated by"),
    "implements": ("implements", "implemented by"),
    "references": ("refers to", "referred to by"),
    "refines": ("refines", "refined by"),
    "part_of": ("part of", "contains"),
    "turn": ("said in", "led to"),
}


class TimelineQuery(NamedTuple):
    """What to show."""

    session: str | None = None  # None: all sessions
    types: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    only_open: bool = False  # findings that nobody has closed
    include_deleted: bool = False
    day: date | None = None  # the page begins with this day
    offset: int = 0  # newer memories that are passed over

    @property
    def is_filtered(self) -> bool:
        return bool(self.types or self.authors or self.only_open)


class RelatedLine(NamedTuple):
    """A relation as a line of text: `resolves review/FIND-0001`."""

    words: str
    ref: str
    is_turn: bool
    exists: bool = True


class TimelinePage(NamedTuple):
    records: list[Record]
    connections: Mapping[str, list[RelatedLine]]
    offset: int
    total: int  # memories that the filters let through
    types: Mapping[str, int]  # of all memories of the session, whatever the filters say
    authors: Mapping[str, int]
    days: Mapping[str, int]  # of those that the filters let through
    problems: list[Problem]
    is_open_cut: bool  # there are more findings than the filter for open ones looked at

    @property
    def older(self) -> int:
        """Memories before those of the page."""
        return max(self.total - self.offset - len(self.records), 0)


class Counts(NamedTuple):
    """How many memories there are, whatever the filters say."""

    types: Mapping[str, int]
    authors: Mapping[str, int]
    days: Mapping[str, int]


def timeline(memory: Memory, query: TimelineQuery, memo: dict[str, Any] | None = None) -> TimelinePage:
    """One page; SessionNotFound or SessionArchived if there is no such live session.

    `memo` keeps counts of a large session until its files change: counting 100,000 memories takes ten times as long as a page of them.
    """
    names = None if query.session is None else [query.session]
    state = _state(memory, query)  # before the counts are read, so that these are never older

    def read(searcher: IndexSearcher) -> TimelinePage:
        counts = _counts(searcher, _conditions(searcher, names, query), query, state, {} if memo is None else memo)
        filtered, is_cut = _filtered(searcher, names, query)
        days = searcher.counts(["day"], filtered)["day"] if query.is_filtered else counts.days
        total = sum(days.values())
        offset = min(_offset(query, days), max(total - 1, 0))
        rows = _rows(searcher, filtered, offset, total)
        found = searcher.records(rows)
        records = [record for row in rows if (record := found.get(row.doc)) is not None]
        connections = _connections(searcher, records)
        problems = searcher.problems(names)
        return TimelinePage(records, connections, offset, total, counts.types, counts.authors, days, problems, is_cut)

    page: TimelinePage = memory.store.indexer.answer(names, read, with_others=True)
    return page


def _state(memory: Memory, query: TimelineQuery) -> object:
    """A value that changes whenever something is written to the session; None if there is none for all sessions."""
    heads = [] if query.session is None else memory.store.sessions(id=query.session)
    if query.session is None or not heads:
        return None
    files = memory.store.session(query.session)
    return sorted(files.sizes().items()), heads[0].written, query.include_deleted


def _counts(
    searcher: IndexSearcher, every: RowConditions, query: TimelineQuery, state: object, memo: dict[str, Any]
) -> Counts:
    key = f"timeline/{query.session}"
    known = memo.get(key)
    if known is not None and state is not None and known[0] == state:
        saved: Counts = known[1]
        return saved
    fields = ["type", "agent", "day"]
    counted = searcher.counts(fields, every)
    counts = Counts(*(counted[name] for name in fields))
    if sum(counts.types.values()) >= _WORTH_KEEPING:
        if len(memo) > _MOST_KEPT:
            memo.clear()
        memo[key] = (state, counts)
    return counts


def _rows(searcher: IndexSearcher, conditions: RowConditions, offset: int, total: int) -> list[Row]:
    """The rows of a page, oldest first, counted from the nearer end."""
    before = total - offset - PAGE_RECORDS
    if before < offset:
        return searcher.select(conditions, "oldest", PAGE_RECORDS + min(before, 0), max(before, 0))
    return searcher.select(conditions, "newest", PAGE_RECORDS, offset)[::-1]


def _conditions(searcher: IndexSearcher, names: list[str] | None, query: TimelineQuery) -> RowConditions:
    conditions = RowConditions()
    conditions.sessions = None if names is None else searcher.session_numbers(names)
    conditions.include_deleted = query.include_deleted
    return conditions


def _filtered(searcher: IndexSearcher, names: list[str] | None, query: TimelineQuery) -> tuple[RowConditions, bool]:
    """The conditions with all filters; and whether there are findings that the filter for open ones did not look at."""
    conditions = _conditions(searcher, names, query)
    types = [name for name in query.types if name in KINDS]
    if query.only_open:
        kinds = [name for name, kind in KINDS.items() if kind.is_open_until_closed and (not types or name in types)]
        conditions.types = [KINDS[name].number for name in kinds]
        rows = searcher.select(conditions, "newest", MOST_OPEN + 1) if kinds else []
        conditions.docs = {row.doc for row in rows[:MOST_OPEN] if is_open_row(row)}
    else:
        rows = []
        conditions.types = [KINDS[name].number for name in types]
    if query.authors:
        from smp_memory.search.query import Query

        asked = Query({"agents": list(query.authors)}, datetime.now(UTC))
        conditions.agents = searcher.conditions(asked).agents
    return conditions, len(rows) > MOST_OPEN


def is_open_row(row: Row) -> bool:
    """Whether nobody has closed this finding, by what the index knows of it."""
    word = (row.status or "").strip().lower().replace("-", "_").replace(" ", "_")
    return row.deleted is None and word not in KINDS[NUMBERED[row.type]].settled


def _offset(query: TimelineQuery, days: Mapping[str, int]) -> int:
    """How many of the newest memories to pass over, so that the page begins with the day."""
    if query.day is None:
        return query.offset
    since = sum(count for day, count in days.items() if day >= query.day.isoformat())
    return max(since - PAGE_RECORDS, 0)


# -- what followed from what


def _connections(searcher: IndexSearcher, records: list[Record]) -> dict[str, list[RelatedLine]]:
    found: dict[str, list[RelatedLine]] = {}
    for record in records:
        own = list(_pointers(record))
        lines = [RelatedLine(words, ref, is_turn, _exists(searcher, ref)) for words, ref, is_turn in own]
        known = {ref for _, ref, _ in own}
        for doc, (_, kind, _) in searcher.related([record.ref], record.session, 1).items():
            ref = searcher.ref(doc)
            if kind == "same_turn" or ref in known:
                continue
            lines.append(RelatedLine(relation_words(kind)[1], ref, False))
        if lines:
            found[record.ref] = lines
    return found


def _pointers(record: Record) -> Iterator[tuple[str, str, bool]]:
    """The relations that a memory names itself: how they read, the memory, and whether it is the turn in which it was said."""
    data = record.given
    for relation in _list(data.get("relations")):
        if isinstance(relation, dict) and isinstance(relation.get("target"), str):
            yield relation_words(str(relation.get("kind")))[0], _ref(relation["target"], record.session), False
    for kind in ("references", *_SUCCESSION):
        for target in _list(data.get(kind)):
            if isinstance(target, str) and target:
                yield relation_words(kind)[0], _ref(target, record.session), False
    turn = turn_id(data.get("turn_ref"))
    if isinstance(turn, str) and turn:
        yield relation_words("turn")[0], _ref(turn, record.session), True


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def _ref(target: str, session: str) -> str:
    return target if "/" in target else f"{session}/{target}"


def relation_words(kind: str) -> tuple[str, str]:
    """How a relation reads from its source, and from its target: `resolves`, `resolved by`."""
    plain = kind.replace("_", " ")
    return _WORDS.get(kind, (plain, f"{plain} (from there)"))


def _exists(searcher: IndexSearcher, ref: str) -> bool:
    session, _, id = ref.rpartition("/")
    return searcher.row(session, id) is not None


# -- activity


class Span(NamedTuple):
    """Some days of the activity chart."""

    first: date
    days: int
    memories: int


def spans(days: Mapping[str, int], most: int = 90) -> list[Span]:
    """Counts by day as at most so many bars without gaps: days, else as many days for each bar as it takes."""
    known = sorted((moment, count) for text, count in days.items() if (moment := day_of(text)) is not None)
    if not known:
        return []
    first, last = known[0][0], known[-1][0]
    width = -(-((last - first).days + 1) // most)
    counts = [0] * ((last - first).days // width + 1)
    for moment, count in known:
        counts[(moment - first).days // width] += count
    return [Span(first + timedelta(days=at * width), width, count) for at, count in enumerate(counts)]


def day_of(text: str) -> date | None:
    """`2026-11-17`; None for anything else."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
