"""Find one memory for the inspector, wherever it is: in a session, in its trash, its cold segment, an archive, or nowhere; and its relations.

Guarantees: looking changes nothing. An archived session stays archived, and no use is counted. Bad names are "missing", never an error.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import Corrupt, SessionArchived, SessionNotFound, StorageError
from smp_memory.model import ids
from smp_memory.model.candidates import NEWER, CandidateRequest
from smp_memory.model.history import COLD as SEGMENT
from smp_memory.model.session_info import names_of
from smp_memory.model.statuses import last_successors
from smp_memory.model.times import to_microseconds

if TYPE_CHECKING:
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.memory import Memory
    from smp_memory.model.candidates import Hit
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionHead
    from smp_memory.model.storage_reports import ColdMemory
    from smp_memory.search.port import SearchIndex
    from smp_memory.session import SessionMemory

LIVE, DELETED, COLD, ARCHIVED, SESSION_DELETED, UNREADABLE, MISSING = (
    "live", "deleted", "cold", "archived", "session deleted", "unreadable", "missing",
)  # fmt: skip
ARCHIVE_BYTES = 32 * 1024 * 1024  # a larger archive is not unpacked to show one memory
_MOST_NEAR = 8
_MOST_RELATIONS = 40
_COMPARED_CHARACTERS = 2000
_REFERS, _SAME_TURN = "references", "same turn"


class LocatedMemory(NamedTuple):
    """A memory and where it was found."""

    session_id: str
    id: str
    state: str
    history: RecordHistory | None = None
    session: SessionMemory | None = None  # None: the session is archived, deleted or does not exist
    place: str = ""  # of a cold segment, an archive or a trash
    problems: tuple[Problem, ...] = ()  # entries near it that could not be read
    archived: SessionHead | None = None
    cold: ColdMemory | None = None

    @property
    def ref(self) -> str:
        return f"{self.session_id}/{self.id}"

    @property
    def record(self) -> Record | None:
        return self.history.record(self.session_id) if self.history is not None else None

    @property
    def can_change(self) -> bool:
        return self.state == LIVE


def locate(request: PageRequest) -> LocatedMemory:
    """The memory that the address names."""
    return find(request.memory, request.parts["session"], request.parts["id"], request.inspector.author)


def find(memory: Memory, session_id: str, id: str, author: str | None = None) -> LocatedMemory:
    if not ids.is_valid(session_id):
        return LocatedMemory(session_id, id, MISSING)
    try:
        session = memory.opened_session(session_id, author=author)
    except SessionArchived:
        return _in_archive(memory, session_id, id)
    except SessionNotFound:
        return _in_trash(memory, session_id, id)
    return _in_session(session, id)


def _in_session(session: SessionMemory, id: str) -> LocatedMemory:
    storage = session.opened.storage
    found = storage.history([id])
    history = found.histories.get(id)
    if history is not None:
        state = LIVE if history.deletion is None else DELETED
        return LocatedMemory(session.id, id, state, history, session, problems=_about(found.unreadable, id))
    segment = storage.history([id], segment=SEGMENT)
    facts = next((each for each in segment.moved if each.id == id and not each.is_history), None)
    if facts is not None:
        cold, problems = segment.histories.get(id), _about(segment.unreadable, id)
        place = cold.first.file if cold is not None else "".join(problem.path for problem in problems[:1])
        state = COLD if cold is not None else UNREADABLE
        return LocatedMemory(session.id, id, state, cold, session, place, problems, cold=facts)
    named = _about(found.unreadable, id)
    return LocatedMemory(
        session.id, id, UNREADABLE if named else MISSING, None, session, problems=named or tuple(found.unreadable)
    )


def _about(problems: list[Problem], id: str) -> tuple[Problem, ...]:
    return tuple(problem for problem in problems if problem.id == id)


def _in_archive(memory: Memory, session_id: str, id: str) -> LocatedMemory:
    archived = next((each for each in memory.archived_sessions() if each.session == session_id), None)
    place = archived.path if archived is not None else ""
    try:
        storage = memory.store.session(session_id, ARCHIVED, max_bytes=ARCHIVE_BYTES)
        hot = storage.history([id])
        history = hot.histories.get(id) or storage.history([id], segment=SEGMENT).histories.get(id)
        problems = tuple(hot.unreadable)
    except (Corrupt, StorageError, SessionNotFound):
        return LocatedMemory(session_id, id, ARCHIVED, None, None, place, archived=archived)
    state = ARCHIVED if history is not None or problems else MISSING
    return LocatedMemory(session_id, id, state, history, None, place, problems, archived)


def _in_trash(memory: Memory, session_id: str, id: str) -> LocatedMemory:
    named = [each for each in memory.deleted_sessions() if each.session == session_id]
    if not named:
        return LocatedMemory(session_id, id, MISSING)
    return LocatedMemory(session_id, id, SESSION_DELETED, place=named[-1].path, archived=named[-1])


def near_names(memory: Memory, found: LocatedMemory) -> tuple[list[str], list[str]]:
    """Ids and sessions that look like those that were asked for: ids of the same session, and sessions of the store."""
    sessions = [] if found.session is not None else _close(found.session_id, names_of(memory.store.sessions()))
    known: list[str] = []
    if found.session is not None:
        wanted = found.session.id
        known = _close(found.id, list(memory.store.indexer.activity([wanted], ids_from=0)[wanted].ids))
    return known, sessions


def _close(name: str, known: list[str]) -> list[str]:
    """Names that differ little, the nearest first. Of many, those with the same beginning are compared."""
    upper = name.upper()[:80]
    by_upper = {each.upper(): each for each in known}
    if upper in by_upper:
        return [by_upper[upper]]
    pool = list(by_upper)
    if len(pool) > 2000:
        pool = [each for each in pool if each[:3] == upper[:3]][-2000:]
    close = difflib.get_close_matches(upper, pool, _MOST_NEAR, 0.6)
    same_prefix = [each for each in pool if each.partition("-")[0] == upper.partition("-")[0]]
    return [by_upper[each] for each in close or same_prefix[-_MOST_NEAR:]]


# -- relations


class Pointer(NamedTuple):
    """What a memory says of another one."""

    kind: str
    ref: str
    is_outgoing: bool
    is_relation: bool  # False: a reference or a shared turn, which cannot be removed as a relation


class RelatedMemory(NamedTuple):
    """One relation of the memory, or of another memory to it."""

    kind: str
    ref: str
    is_outgoing: bool
    is_relation: bool
    record: Record | None  # None: the other memory does not exist, or is not in a live session


class MemoryRelations(NamedTuple):
    """All connections of one memory, its own first, and the memories that took its place."""

    all: list[RelatedMemory]
    successors: list[str]
    total: int  # also those that are not listed

    @classmethod
    def of(cls, memory: Memory, found: LocatedMemory, record: Record) -> MemoryRelations:
        pointers = _pointers(record)
        if found.session is None or found.cold is not None:  # the index knows live sessions only
            return cls([RelatedMemory(*each, None) for each in pointers[:_MOST_RELATIONS]], [], len(pointers))
        return _read(memory.store.indexer, found.ref, record, pointers, to_microseconds(memory.now()))


def _read(index: SearchIndex, ref: str, record: Record, pointers: list[Pointer], now: int) -> MemoryRelations:
    """The connections as the index has them. Only those that are shown are read from the files."""
    with index.snapshot():
        related = index.related([ref]).get(ref)
        if related is None:
            return MemoryRelations([], [], 0)
        targets = {each.ref for each in pointers}
        others = [each.ref for each in related if each.ref not in targets]
        own = pointers[:_MOST_RELATIONS]
        known = {each.ref for each in related}
        records = index.records([*(each.ref for each in own if each.ref in known), *others[:_MOST_RELATIONS]])
        newer = index.candidates(CandidateRequest(refs=[ref], include_deleted=True, now=now, fetch=[NEWER])).newer
    shown = [RelatedMemory(*each, records.get(each.ref)) for each in own]
    shown += [_incoming(other, record) for name in others[:_MOST_RELATIONS] if (other := records.get(name)) is not None]
    successors = [each.ref for each in last_successors(ref, newer)]
    return MemoryRelations(shown, successors, len(pointers) + len(others))


def _pointers(record: Record) -> list[Pointer]:
    """Everything that the memory points to; a person may have typed anything in these fields."""
    found = [
        Pointer(str(each.get("kind") or "relates_to"), _full(each["target"], record), True, True)
        for each in record.relations
        if isinstance(each, dict) and isinstance(each.get("target"), str)
    ]
    found += [Pointer(_REFERS, _full(name, record), True, False) for name in record.references if isinstance(name, str)]
    return list(dict.fromkeys(found))


def _full(name: str, record: Record) -> str:
    return name if "/" in name else f"{record.session}/{name}"


def _incoming(other: Record, record: Record) -> RelatedMemory:
    pointer = next((each for each in _pointers(other) if each.ref == record.ref), None)
    if pointer is None:
        return RelatedMemory(_SAME_TURN, other.ref, False, False, other)
    return RelatedMemory(pointer.kind, other.ref, False, pointer.is_relation, other)


def similar_to(memory: Memory, record: Record, limit: int) -> list[Hit]:
    """Similar memories, best first. Of a long text its beginning is compared."""
    what = record if len(record.text) <= _COMPARED_CHARACTERS else record.text[:_COMPARED_CHARACTERS]
    hits = memory.find_similar(what, limit=limit + 1, track_access=False)
    return [hit for hit in hits if hit.record.ref != record.ref][:limit]
