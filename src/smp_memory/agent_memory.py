"""A session as one agent may see it: read, ask, write in its own name. The MCP server reads and writes through it, too.

    agent = memory.agent("architect", session="checkout-review")
    agent.relevant_decisions("login")
    agent.add_finding("Login has no rate limit", severity="high")     # by the architect
    agent.update_state({"task": "review", "done": 3})                # for the architect alone

Guarantees: whatever way is asked, the agent gets what `smp_memory.privacy.visibility` lets it see; what it may not see is not
counted, not named, and not told apart from what does not exist. Every write is attributed to it (`agent_writing`).
Non-guarantees: files are files; this keeps agents apart that use SMP, it does not lock anybody out of the disk.

Export of what an agent may see, with the history that it may see.

Guarantees: as `smp_memory.exchange.export`; of memories that the agent may not see nothing leaves, neither now nor from their
history. Revisions that were written while a memory was hidden from the agent are left out, and the memory says so
(`smp_memory.privacy.visibility`). The audit log says who exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory.agent_rights import AgentTransaction, AgentWriteMethods
from smp_memory.error_mapping import maps_errors
from smp_memory.errors import InvalidRecord, SessionNotFound
from smp_memory.model import ids
from smp_memory.model.record import Records
from smp_memory.model.session_info import GLOBAL_SESSION
from smp_memory.model.times import to_text
from smp_memory.privacy.visibility import Viewer, VisibilityFilter
from smp_memory.search.api import SearchMethods
from smp_memory.store.visible_index import VisibleStore
from smp_memory.write.operations import id_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from datetime import datetime

    from smp_memory.agent_rights import Guard
    from smp_memory.config import Config
    from smp_memory.context.builder import Context
    from smp_memory.errors import MemoryNotFound
    from smp_memory.exchange.file_format import Exported
    from smp_memory.memory import Memory
    from smp_memory.model.deletions import Trashed
    from smp_memory.model.hits import Hits
    from smp_memory.model.record import AgentState, Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.policies.consolidation import Duplicates
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.search.query import Query
    from smp_memory.session import SessionMemory
    from smp_memory.store.snapshot import Snapshot


_RELEVANT = 20


def agent_in(memory: Memory, name: str, session: str | SessionMemory | None) -> AgentMemory:
    """An agent in a session; without one, in the session that was written last."""
    agent = ids.check(name, "agent", ids.LIMIT - len(ids.STATE_PREFIX))
    chosen = memory.session(session) if isinstance(session, str) else session
    if chosen is None:
        chosen = memory.latest_session()
    if chosen is None:
        raise SessionNotFound("There is no session yet. Create one: memory.create_session(…).")
    return AgentMemory(chosen, agent)


@maps_errors
class AgentMemory(AgentWriteMethods, SearchMethods):
    """One session of a store as one agent may see it. Made by `Memory.agent` and `SessionMemory.agent`."""

    def __init__(self, session: SessionMemory, agent: str | None, guard: Guard | None = None) -> None:
        self.agent = agent
        self.id = session.id
        self._session = session
        self._viewer = Viewer(agent)
        self._guard = guard
        self._store = VisibleStore(session.memory.store, self._viewer, strict=True)

    @property
    def info(self) -> SessionInfo:
        """Who takes part in the session, in which project, since when."""
        return self._session.info

    # -- what an agent asks for most

    def conversation_context(self, turns: int = 20) -> list[Record]:
        """The last turns, oldest first."""
        return self.records("conversation", last=turns)

    def relevant_decisions(self, topic: str, *, limit: int = _RELEVANT, **asked: Any) -> list[Record]:
        """Decisions about a topic, in any session, best first; those that were overturned are left out."""
        return self._relevant("decision", topic, limit, asked)

    def relevant_findings(self, topic: str, *, limit: int = _RELEVANT, **asked: Any) -> list[Record]:
        """Findings about a topic, in any session, best first; those that are settled are left out."""
        return self._relevant("finding", topic, limit, asked)

    def _relevant(self, type: str, topic: str, limit: int, asked: dict[str, Any]) -> list[Record]:
        from smp_memory.policies.statuses import is_settled
        from smp_memory.search.api import similar_words

        asked.setdefault("sessions", "all")
        hits = [*self.query(topic=topic, types=type, limit=limit, **asked)]
        hits += self.query(similar_words(topic), types=type, limit=limit, **asked)
        found = {hit.record.ref: hit.record for hit in hits if not is_settled(hit.record)}
        return list(found.values())[:limit]

    def user_preferences(self, topic: str | None = None) -> list[Record]:
        """Preferences of this session and those for all sessions; of one key the session's own. With a topic: about it."""
        asked: dict[str, Any] = {"types": "preference", "limit": 200, "track_access": False}
        if topic is not None:
            asked["text"] = topic
        found: dict[str, Record] = {}
        for name in (self.id, GLOBAL_SESSION):
            if name == self.id or self._session.memory.global_memory.exists:
                for hit in self.query(**asked, sessions=[name]):
                    found.setdefault(str(hit.record.key or hit.record.ref), hit.record)
        return list(found.values())

    @property
    def state(self) -> AgentState | None:
        """The agent's own state in this session, if it has one."""
        own = [record for record in self.records("agent_state") if record.agent == self.agent]
        return own[-1] if own else None  # type: ignore[return-value]

    def working_memory(self) -> list[Record]:
        """What is the agent's alone: its state and its private memories."""
        return [record for record in self.records() if not Viewer(None).sees(record)]

    def context(self, task: str | None = None, topic: str | None = None, **options: Any) -> Context:
        """What belongs into the agent's prompt now; see `Memory.context`."""
        options.setdefault("session", self._session)
        return self._session.memory.context(self.agent, task, topic, **options)

    # -- reading

    def get(self, id: Any) -> Record:
        """The memory with this id. One that the agent may not see does not exist for it."""
        record = self.find(id)
        if record is None or record.deleted:
            raise self._missing(id_of(id))
        self._note_access([record], self._asked_at())
        return record

    def find(self, id: Any) -> Record | None:
        """The memory with this id, deleted ones too; None if there is none for this agent."""
        record = self._session.find(id)
        return record if record is not None and self._viewer.sees(record) else None

    def records(self, type: str | None = None, *, last: int | None = None, include_deleted: bool = False) -> Records:
        """All memories, or those of one type, oldest first."""
        found = self._session.records(type, last=last, include_deleted=include_deleted)
        seen = Records((record for record in found if self._viewer.sees(record)), found.problems)
        if last is None or len(seen) == len(found):
            return seen
        every = self._session.records(type, include_deleted=include_deleted)
        return Records([record for record in every if self._viewer.sees(record)][-last:], every.problems)

    def history(self, id: Any) -> list[dict[str, Any]]:
        """What happened to a memory. Revisions that were written while it was hidden are named, without their content."""
        from smp_memory.privacy.visibility import history_for

        if self.find(id) is None:
            raise self._missing(id_of(id))
        steps: list[dict[str, Any]] = self._session._files.view(
            lambda fold: history_for(fold.trails[id_of(id)], self._viewer)
        )
        return steps

    def as_of(self, time: datetime | str) -> Snapshot:
        """The session as it was at a time: what the agent may see of it now and could see then."""
        snapshot = self._session.as_of(time)
        seen = [record for record in snapshot.records(include_deleted=True) if self._sees_then_and_now(record)]
        return type(snapshot)(self.id, to_text(snapshot.time), seen, snapshot.problems)

    def _sees_then_and_now(self, then: Record) -> bool:
        now = self._session.find(then.id)
        return self._viewer.sees(then) and (now is None or self._viewer.sees(now))

    def deleted(self) -> list[Trashed]:
        """The trash."""
        return [trashed for trashed in self._session.deleted() if self._viewer.sees(trashed.record)]

    def duplicates(self, *, threshold: float | None = None) -> list[Duplicates]:
        """Findings and preferences that say the same, in groups; nothing is changed."""
        from smp_memory.policies.consolidation import THRESHOLD, find_duplicates

        return find_duplicates(self.records(), THRESHOLD if threshold is None else threshold)

    def export(
        self, path: str | os.PathLike[str] | None = None, format: str | None = None, *, force: bool = False
    ) -> str:
        """Write what the agent may see into one file and return its path, or return the text if there is no path."""

        return export_seen(self._session, self._viewer, path, format, force)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records())

    def __repr__(self) -> str:
        return f"AgentMemory({self.agent} in {self.id})"

    def _missing(self, id: str) -> MemoryNotFound:
        return self._session._files.no_memory(id)

    # -- writing

    def transaction(self) -> AgentTransaction:
        """Several writes that become visible together or not at all."""
        return AgentTransaction(self)

    # -- asking, as `smp_memory.search.api` does it

    def _asked_store(self) -> Any:
        return self._store

    def _asked_sessions(self) -> list[str] | None:
        return [self.id]

    def _asked_config(self) -> Config:
        return self._session.config

    def _asked_at(self) -> datetime:
        return self._session._now()

    def _head(self) -> SessionInfo | None:
        return self.info

    def _looked_over(self) -> Records:
        return self.records()

    def _find(self, session: str, memory_id: str) -> Record | None:
        home = self._session if session in ("", self.id) else self._session.memory._opened(session)
        record = home.find(memory_id)
        return record if record is not None and self._viewer.sees(record) else None

    def _record_meant(self, what: Any) -> Record | None:
        record = super()._record_meant(what)
        if record is not None and not self._viewer.sees(record):
            raise InvalidRecord(f"{record.id}: not a memory of {self.agent}.", field="text")
        return record

    def _answer(self, question: Query) -> Hits:
        question.where = VisibilityFilter(self._viewer, question.where)  # type: ignore[assignment]
        if not question.include_archived:
            return super()._answer(question)
        from smp_memory.search.archive_search import with_archived

        question.include_archived = False
        hits = with_archived(self._session.memory.store, question, self._policy(), super()._answer)
        for hit in hits:
            hit.related = [record for record in hit.related if self._viewer.sees(record)]
        return hits


def export_seen(
    session: SessionMemory, viewer: Viewer, path: str | os.PathLike[str] | None, format: str | None, force: bool
) -> str:
    import os.path

    from smp_memory.exchange import export, file_format
    from smp_memory.model.times import to_text

    memory, files, _ = session._exported()
    chosen = export.format_named(format, path)
    carried = _seen(export.carried_from(files[0]), viewer)
    counts: list[int] = []
    pieces = file_format.write(chosen, export.counting([carried], counts), 1)
    target = None if path is None else os.path.abspath(os.fspath(path))
    result = b"".join(pieces).decode() if target is None else export.write(target, pieces, force)
    memory.store.audit.note(
        "export",
        at=to_text(memory.now()),
        by=viewer.agent,
        session=session.id,
        count=counts[0],
        format=chosen,
        to=target,
    )
    return result


def _seen(carried: Exported, viewer: Viewer) -> Exported:
    """Without what may not be seen: memories that are hidden now, and revisions that were."""
    from smp_memory.model.history import Fold
    from smp_memory.privacy.visibility import entries_for

    fold = Fold()
    fold.add(carried.entries)
    seen = [trail for trail in fold.trails.values() if viewer.may_see(trail.first.type, trail.data())]
    entries = [entry for trail in seen for entry in entries_for(trail, viewer)]
    carried.entries = sorted(entries, key=lambda entry: entry.seq)
    return carried
