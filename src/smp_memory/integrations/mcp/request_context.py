"""Per-request context of the MCP server: the caller, its rights, the store and the default session.

Guarantees: nothing is remembered between calls but which unreadable entries were named. A session that a call does not name is
the one that the server was started with, else the one that was written last; a write is refused if several were written in the last hour,
and starts one if there is none. What a caller may not see
(`smp_memory.privacy.visibility`) is not handed out and not told apart from what does not exist. Every write goes through an
`AgentMemory` of the caller, so that the rights are those of `smp_memory.agent_rights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from smp_memory.agent_memory import AgentMemory
from smp_memory.current_session import current_session
from smp_memory.errors import InvalidRecord, SessionNotFound
from smp_memory.model.record import Records
from smp_memory.privacy.visibility import Viewer, VisibilityFilter
from smp_memory.search.api import SearchMethods
from smp_memory.store.incomplete import told
from smp_memory.store.visible_index import VisibleStore

if TYPE_CHECKING:
    from datetime import datetime

    from smp_memory.config import Config
    from smp_memory.memory import Memory
    from smp_memory.model.hits import Hits
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.search.query import Query
    from smp_memory.session import SessionMemory
    from smp_memory.store.file_store import FileStore

_MOST_PROBLEMS = 3  # unreadable entries that an answer names
ALL = "*"  # in the place of a session: all of them


class RequestContext:
    """A store, and what holds if a call does not say otherwise."""

    def __init__(
        self, memory: Memory, *, session: str | None = None, author: str | None = None, may_erase: bool = False
    ) -> None:
        self.memory = memory
        self.default_session = session
        self.author = author
        self.may_erase = may_erase
        self._told: set[tuple[str, int]] = set()  # problems that were put into the text of an answer

    def problem_lines(self, problems: list[Problem]) -> tuple[list[str] | None, list[str]]:
        """Unreadable entries for an answer's data, and a line for its text about those that were not told before."""
        if not problems:
            return None, []
        fresh = [each for each in problems if (each.path, each.line) not in self._told]
        self._told.update((each.path, each.line) for each in fresh)
        lines = [told([each], to_agent=True) for each in problems[:_MOST_PROBLEMS]]
        return lines, [f"({told(fresh, to_agent=True)})"] if fresh else []

    def caller(self, client: str | None) -> Caller:
        """Whoever calls now; `client` is what the program at the other end calls itself."""
        return Caller(self, self.author or client or None)


class Caller:
    """The caller: identity, default session, rights."""

    def __init__(self, desk: RequestContext, name: str | None) -> None:
        self.desk = desk
        self.memory = desk.memory
        self.name = name
        self._viewer = Viewer(name)

    def sees(self, record: Record) -> bool:
        return self._viewer.sees(record)

    def may_change(self, record: Record) -> bool:
        return self._viewer.may_change(record)

    def counts(self, session: SessionMemory) -> tuple[dict[str, int], int]:
        """How many memories of each type the caller may see in a session, and how many of those in the trash."""
        seen = [record for record in session.records(include_deleted=True) if self.sees(record)]
        by_type: dict[str, int] = {}
        for record in seen:
            if not record.deleted:
                by_type[record.type] = by_type.get(record.type, 0) + 1
        return by_type, sum(record.deleted for record in seen)

    def problem_lines(self, sessions: list[str] | None) -> tuple[list[str] | None, list[str]]:
        """Unreadable entries of these sessions (None: all), for an answer's data and its text."""
        find = self.memory.store.indexer.answer
        return self.desk.problem_lines(find(sessions, lambda finder: finder.problems(sessions)))

    def agent(self, session: SessionMemory, author: str | None = None) -> AgentMemory:
        """The session with the rights of the caller. A server that was not started for one agent acts for whom a call names."""
        return AgentMemory(session, self.desk.author or author or self.name)

    def session(self, name: str | None = None, *, writes: bool = False, create: bool = False) -> SessionMemory:
        """The session that is meant. One that is archived is restored by a write; for a read it is `SessionArchived`."""
        if name == ALL:
            raise InvalidRecord(f"session: {ALL} means all of them; name one here.", field="session")
        name = name or self.desk.default_session
        if name is not None:
            try:
                if not writes:
                    return self.memory._opened(name, self.name)
                return self.memory.session(name, author=self.name)
            except SessionNotFound:
                if not create or name != self.desk.default_session:
                    raise
                return self.memory.create_session(name, author=self.name)
        if writes:
            name = current_session(self.memory, "session: ")
        elif (latest := self.memory.latest_session()) is not None:
            name = latest.id
        if name is not None:
            return self.memory.session(name, author=self.name)
        if not create:
            raise SessionNotFound("There is no session yet. `remember` starts one, or `sessions` with action create.")
        return self.memory.create_session(author=self.name)

    def asked(self, name: str | None, *, otherwise_all: bool) -> AskedSession:
        """Who answers questions: one session, or all of them."""
        name = name or self.desk.default_session
        if name == ALL or (name is None and otherwise_all):
            return AskedSession(self)
        return AskedSession(self, self.session(name))

    def record(
        self, ref: str, session: str | None = None, *, include_deleted: bool = False, writes: bool = False
    ) -> Record:
        """The memory that somebody names, `ID` or `session/ID`; it must be there, and visible."""
        name, _, memory_id = ref.strip().rpartition("/")
        place = self.session(name or session, writes=writes)
        record = place.find(memory_id)
        if record is None or not self.sees(record):
            raise place._files.no_memory(memory_id)
        return record if include_deleted else place.get(memory_id)


class AskedSession(SearchMethods):
    """A session or a store, asked by somebody who may not see everything."""

    def __init__(self, caller: Caller, session: SessionMemory | None = None) -> None:
        self._caller = caller
        self.session = session
        self._store = VisibleStore(caller.memory.store, caller._viewer)

    def _asked_store(self) -> FileStore:
        return cast("FileStore", self._store)  # it offers what asking needs

    def _asked_sessions(self) -> list[str] | None:
        return None if self.session is None else [self.session.id]

    def _asked_config(self) -> Config:
        return self._caller.memory.config if self.session is None else self.session.config

    def _asked_at(self) -> datetime:
        return self._caller.memory.now()

    def _head(self) -> SessionInfo | None:
        return None if self.session is None else self.session.info

    def _users(self) -> dict[str, str]:
        return self._caller.memory._users() if self.session is None else super()._users()

    def _answer(self, question: Query) -> Hits:
        """Hidden memories are left out before the limit is applied, so they take nobody's place."""
        question.where = VisibilityFilter(self._caller._viewer, question.where)  # type: ignore[assignment]
        return super()._answer(question)

    def _looked_over(self) -> Records:
        sessions = self._caller.memory.sessions() if self.session is None else [self.session]
        every = Records.joined(session.records() for session in sessions)
        return Records((record for record in every if self._caller.sees(record)), every.problems)
