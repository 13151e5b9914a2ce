"""Find one memory for the inspector, wherever it is: in a session, in its trash, its cold segment, an archive, or nowhere.

Guarantees: looking changes nothing. An archived session stays archived, and no use is counted. Bad names are "missing", never an error.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

from smp_memory.errors import Corrupt, SessionArchived, SessionNotFound, StorageError
from smp_memory.model import ids
from smp_memory.model.storage_reports import names_of

if TYPE_CHECKING:
    from smp_memory.integrations.web.request import PageRequest
    from smp_memory.memory import Memory
    from smp_memory.model.history import RecordHistory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.model.storage_reports import ColdMemory, SessionHead
    from smp_memory.session import SessionMemory

LIVE, DELETED, COLD, ARCHIVED, SESSION_DELETED, UNREADABLE, MISSING = (
    "live", "deleted", "cold", "archived", "session deleted", "unreadable", "missing",
)  # fmt: skip
ARCHIVE_BYTES = 32 * 1024 * 1024  # a larger archive is not unpacked to show one memory
_MOST_NEAR = 8


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
    files = session.opened.files
    history = files.history(id)
    if history is not None:
        state = LIVE if history.deletion is None else DELETED
        return LocatedMemory(session.id, id, state, history, session, problems=_about(files.unreadable(), id))
    if id in files.cold_ids():
        problems: list[Problem] = []
        cold = files.cold_history(problems).histories.get(id)
        facts = next((each for each in files.cold_memories() if each.id == id and not each.is_history), None)
        state = COLD if cold is not None else UNREADABLE
        return LocatedMemory(
            session.id, id, state, cold, session, files.cold_location, _about(problems, id), cold=facts
        )
    problems = files.unreadable()
    named = _about(problems, id)
    return LocatedMemory(
        session.id, id, UNREADABLE if named else MISSING, None, session, problems=named or tuple(problems)
    )


def _about(problems: list[Problem], id: str) -> tuple[Problem, ...]:
    return tuple(problem for problem in problems if problem.id == id)


def _in_archive(memory: Memory, session_id: str, id: str) -> LocatedMemory:
    archived = next((each for each in memory.archived_sessions() if each.session == session_id), None)
    place = archived.path if archived is not None else ""
    try:
        files = memory.store.session(session_id, ARCHIVED, max_bytes=ARCHIVE_BYTES)
        history = files.history(id) or files.cold_history().histories.get(id)
        problems = tuple(files.unreadable())
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
        by_doc = memory.store.indexer.answer(None, lambda searcher: searcher.ids_from(wanted))
        known = _close(found.id, list(by_doc.values()))
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
