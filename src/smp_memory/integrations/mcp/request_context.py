"""Per-request context of the MCP server: the caller, its rights, the store and the default session.

Guarantees: nothing is kept between calls but which unreadable entries were reported. A call that names no session uses the
one that the server was started with, else the one written last; a write is refused if several were written in the last hour,
and creates one if there is none. What a caller may not see (`smp_memory.privacy.visibility`) is not handed out, and the error for it
is the same as for what does not exist. Every write goes through an `AgentMemory` of the caller, so that the rights are those of
`smp_memory.agents.rights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from smp_memory.agents.agent_memory import AgentMemory
from smp_memory.current_session import current_session
from smp_memory.errors import InvalidRecord, SessionNotFound
from smp_memory.integrations.clients import KEY, READ, WRITE
from smp_memory.model.candidates import PROBLEMS, CandidateRequest
from smp_memory.model.ids import is_valid
from smp_memory.model.session_info import full_session_name
from smp_memory.observe.incomplete import describe, each_existing, memory_not_found
from smp_memory.privacy.visibility import Viewer
from smp_memory.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from smp_memory.integrations.clients import Client
    from smp_memory.integrations.mcp.graph import KnowledgeGraph
    from smp_memory.memory import Memory
    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.session import SessionMemory

T = TypeVar("T")
Served = TypeVar("Served", "RequestContext", "KnowledgeGraph")
_MOST_PROBLEMS = 3  # unreadable entries that an answer names
ALL = "*"  # as the name of a session: all of them


class RequestContext:
    """A store, and the server's defaults for calls."""

    def __init__(
        self,
        memory: Memory,
        *,
        session: str | None = None,
        author: str | None = None,
        may_erase: bool = False,
        client: Client | None = None,
    ) -> None:
        self.memory = memory
        self.client = client  # of a shared server
        self.default_session = session
        self.author = author
        self.may_erase = may_erase
        self._reported: set[tuple[str, int]] = set()  # problems that the text of an answer named

    def problem_lines(
        self, problems: list[Problem], of_sessions: Iterable[str] = ()
    ) -> tuple[list[str] | None, list[str]]:
        """Unreadable entries and settings for an answer's data, and lines for its text about those that were not reported before."""
        settings = [*self.memory.config.notices(to_agent=True), *of_sessions]
        if not problems and not settings:
            return None, []
        fresh = [each for each in problems if (each.path, each.line) not in self._reported]
        texts = [text for text in settings if (text, 0) not in self._reported]
        self._reported.update([*((each.path, each.line) for each in fresh), *((text, 0) for text in texts)])
        lines = [describe([each], to_agent=True) for each in problems[:_MOST_PROBLEMS]]
        return [*settings, *lines], [
            f"({text})" for text in [*texts, *([describe(fresh, to_agent=True)] if fresh else [])]
        ]

    def caller(self, client: str | None) -> Caller:
        """The caller of a request; `client` is the client's name in the protocol."""
        return Caller(self, self.author or client or (self.client.name if self.client is not None else None))

    def for_client(self, client: Client) -> RequestContext:
        """The same for a client of a shared server."""
        return RequestContext(
            client.memory,
            session=self.default_session,
            author=self.author,
            may_erase=client.token.may_erase,
            client=client,
        )

    def run(self, work: Callable[[], T]) -> T:
        """Run a request in this thread."""
        return work() if self.client is None else self.client.run(work)

    def note(self, operation: str, given: object, data: object = None, error: object = None, *, reads: bool) -> None:
        """Log an operation of a client of a shared server: its session and the ids of memories, never content."""
        if self.client is None:
            return
        arguments = given if isinstance(given, dict) else {}
        reads = reads or arguments.get("action") in ("list", "show") or arguments.get("preview") is True
        named = arguments.get("session")
        session = named if isinstance(named, str) and is_valid(named) else None
        refs = [] if error else list(_refs_in(data))
        places = {each.rpartition("/")[0] for each in refs}
        if len(places) == 1 and "" not in places:
            session, refs = places.pop(), [each.rpartition("/")[2] for each in refs]
        facts = {"error": getattr(error, "code", "E_INTERNAL")} if error else {}
        self.client.note(READ if reads else WRITE, f"mcp {operation}", session, refs, **facts)


def _refs_in(data: object) -> Iterator[str]:
    """The ids in an answer: of memories, or of sessions."""
    if isinstance(data, list):
        for each in data:
            yield from _refs_in(each)
    elif isinstance(data, dict):
        if isinstance(data.get("id"), str):
            yield data["id"]
            return
        yield from (each for each in data.get("ids") or () if isinstance(each, str))
        for name in ("items", "memories", "sessions"):
            yield from _refs_in(data.get(name))


def client_of(ctx: Any) -> Client | None:
    """The client of a request to a shared server; None: the server's own user, over HTTP or not."""
    if ctx.request is None:
        return None
    client: Client = ctx.request.scope[KEY]
    return None if client.is_local else client


def for_client(ctx: Any, own: Served) -> Served:
    """What serves the client of a request, made once for each; `own` for the server's own user."""
    client = client_of(ctx)
    return own if client is None else client.keep("mcp", lambda: own.for_client(client))


class Caller:
    """The caller: identity, default session, rights."""

    def __init__(self, context: RequestContext, name: str | None) -> None:
        self.context = context
        self.memory = context.memory
        self.name = name
        self._viewer = Viewer(name)
        self.warnings: list[str] = []  # for example that a write restored a session from its archive

    def sees(self, record: Record) -> bool:
        return self._viewer.sees(record)

    def may_change(self, record: Record) -> bool:
        return self._viewer.may_change(record)

    def counts(self, session: SessionMemory) -> tuple[dict[str, int], int]:
        """How many memories of each type the caller may see in a session, and how many of those in the trash."""
        visible = [record for record in session.records(include_deleted=True) if self.sees(record)]
        by_type: dict[str, int] = {}
        for record in visible:
            if not record.deleted:
                by_type[record.type] = by_type.get(record.type, 0) + 1
        return by_type, sum(record.deleted for record in visible)

    def problem_lines(self, sessions: list[str] | None) -> tuple[list[str] | None, list[str]]:
        """Unreadable entries of these sessions (None: all), for an answer's data and its text."""
        store = self.memory.store
        own = (
            files.config.notices(to_agent=True, session_only=True)
            for _, files in each_existing(sessions or (), store.session)
        )
        problems = store.indexer.candidates(
            CandidateRequest(sessions=sessions, limit=0, fetch=[PROBLEMS])
        ).every_problem
        return self.context.problem_lines(problems, [text for texts in own for text in texts])

    def acting_as(self, author: str | None) -> str | None:
        """The agent whose rights hold: that of the server, else the one that the call names, else the client."""
        return self.context.author or author or self.name

    def agent(self, session: SessionMemory, author: str | None = None) -> AgentMemory:
        """The session with the rights of the caller."""
        return AgentMemory(session, self.acting_as(author))

    def session(self, name: str | None = None, *, writes: bool = False, create: bool = False) -> SessionMemory:
        """The session of a call. An archived one is restored by a write; a read raises `SessionArchived`."""
        if name == ALL:
            raise InvalidRecord(f"session: {ALL} means all of them; name one here.", field="session")
        name = name or self.context.default_session
        if name is not None:
            try:
                if not writes:
                    return self.memory.opened_session(name, author=self.name)
                session = self.memory.session(name, author=self.name)
                self.warnings += session.warnings
                return session
            except SessionNotFound:
                if not create or name != self.context.default_session:
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

    def scope(self, name: str | None, *, all_by_default: bool) -> Scope:
        """The scope of one session or of all, with the caller as viewer."""
        name = name or self.context.default_session
        is_all = name == ALL or (name is None and all_by_default)
        base = self.memory.scope if is_all else self.session(name).scope
        return Scope(base.store, base.sessions, base.config, base.clock, viewer=self._viewer, author=self.name)

    def record(
        self, ref: str, session: str | None = None, *, include_deleted: bool = False, writes: bool = False
    ) -> Record:
        """The memory of a reference, `ID` or `session/ID`; it must exist and be visible."""
        name, _, memory_id = ref.strip().rpartition("/")
        full_name = full_session_name(name, self.memory.store.sessions()) if name else session
        opened = self.session(full_name, writes=writes)
        record = opened.find(memory_id)
        if record is None or not self.sees(record):
            raise memory_not_found(opened.opened.storage, memory_id)
        return record if include_deleted else opened.get(memory_id)
