"""One page of the memories of a session, or of all sessions, in the order of their times; with counts and connections.

    page = timeline(memory, TimelineQuery(session="review", types=("decision",)))
    page.records        newest first, and so are the pages
    page.connections    by `session/ID`: what a memory resolves, follows from, led to, in both directions

Guarantees: an answer comes from one state of the index, which has everything that was acknowledged before; records are read from the
files, only those of the page. Looking counts as no use. Entries that cannot be read are `problems`.
Non-guarantees: memories of archived sessions and those that compaction moved are not in a timeline.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.model.candidates import NEWEST, OLDEST, PROBLEMS, Candidate, CandidateRequest
from smp_memory.model.types import KINDS
from smp_memory.text.memory_text import turn_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.search.port import SearchIndex

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
    day: date | None = None  # the page begins with this day, and goes back from it
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
        """Memories older than those of the page."""
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

    index = memory.store.indexer
    asked = CandidateRequest(sessions=names, include_deleted=query.include_deleted)
    with index.snapshot(all_sessions=True):
        counts = _counts(index, asked, query, state, {} if memo is None else memo)
        filtered, is_cut = _filtered(index, asked, query)
        days = index.facets(filtered, ["day"]).counts["day"] if query.is_filtered else counts.days
        total = sum(days.values())
        offset = min(_offset(query, days), max(total - 1, 0))
        found = _candidates(index, filtered, offset, total)
        by_ref = index.records(found)
        records = [record for each in found if (record := by_ref.get(each.ref)) is not None]
        connections = _connections(index, records)
        problems = index.candidates(asked.with_changes(limit=0, fetch=[PROBLEMS])).every_problem
    return TimelinePage(records, connections, offset, total, counts.types, counts.authors, days, problems, is_cut)


def _state(memory: Memory, query: TimelineQuery) -> object:
    """A value that changes whenever something is written to the session; None if there is none for all sessions."""
    heads = [] if query.session is None else memory.store.sessions(id=query.session)
    if query.session is None or not heads:
        return None
    storage = memory.store.session(query.session)
    return sorted(storage.sizes().items()), heads[0].written, query.include_deleted


def _counts(
    index: SearchIndex, every: CandidateRequest, query: TimelineQuery, state: object, memo: dict[str, Any]
) -> Counts:
    key = f"timeline/{query.session}"
    known = memo.get(key)
    if known is not None and state is not None and known[0] == state:
        saved: Counts = known[1]
        return saved
    fields = ["type", "agent", "day"]
    counted = index.facets(every, fields).counts
    counts = Counts(*(counted[name] for name in fields))
    if sum(counts.types.values()) >= _WORTH_KEEPING:
        if len(memo) > _MOST_KEPT:
            memo.clear()
        memo[key] = (state, counts)
    return counts


def _candidates(index: SearchIndex, request: CandidateRequest, offset: int, total: int) -> list[Candidate]:
    """The memories of a page, newest first, counted from the nearer end."""
    before = total - offset - PAGE_RECORDS
    if before < offset:
        changes = {"order": OLDEST, "limit": PAGE_RECORDS + min(before, 0), "offset": max(before, 0)}
        return index.candidates(request.with_changes(**changes)).matches[::-1]
    return index.candidates(request.with_changes(order=NEWEST, limit=PAGE_RECORDS, offset=offset)).matches


def _filtered(index: SearchIndex, request: CandidateRequest, query: TimelineQuery) -> tuple[CandidateRequest, bool]:
    """The request with all filters; and whether there are findings that the filter for open ones did not look at."""
    types = [name for name in query.types if name in KINDS]
    filtered = request.with_changes(types=types, authors=query.authors)
    if not query.only_open:
        return filtered, False
    kinds = [name for name, kind in KINDS.items() if kind.is_open_until_closed and (not types or name in types)]
    found = index.candidates(request.with_changes(types=kinds, limit=MOST_OPEN + 1)).matches if kinds else []
    refs = [each.ref for each in found[:MOST_OPEN] if is_open_finding(each)]
    return filtered.with_changes(types=kinds, refs=refs), len(found) > MOST_OPEN


def is_open_finding(candidate: Candidate) -> bool:
    """Whether nobody has closed this finding, by what the index knows of it."""
    word = (candidate.status or "").strip().lower().replace("-", "_").replace(" ", "_")
    return not candidate.deleted and word not in KINDS[candidate.type].settled


def _offset(query: TimelineQuery, days: Mapping[str, int]) -> int:
    """How many of the newest memories to pass over, so that the page begins with the day."""
    if query.day is None:
        return query.offset
    return sum(count for day, count in days.items() if day > query.day.isoformat())


# -- what followed from what


def _connections(index: SearchIndex, records: list[Record]) -> dict[str, list[RelatedLine]]:
    pointers = {record.ref: list(_pointers(record)) for record in records}
    named = {ref for own in pointers.values() for _, ref, _ in own}
    asked = CandidateRequest(refs=named, include_deleted=True)
    existing = {each.ref for each in index.candidates(asked).matches} if named else set()
    related = index.related(pointers)
    found: dict[str, list[RelatedLine]] = {}
    for name, own in pointers.items():
        lines = [RelatedLine(words, ref, is_turn, ref in existing) for words, ref, is_turn in own]
        known = {ref for _, ref, _ in own}
        for each in related.get(name, ()):
            if each.kind != "same_turn" and each.ref not in known:
                lines.append(RelatedLine(relation_words(each.kind)[1], each.ref, False))
        if lines:
            found[name] = lines
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
