"""A session as one agent may see it: read, search, write in its own name. The MCP server reads and writes through it, too.

    agent = memory.agent("architect", session="checkout-review")
    agent.relevant_decisions("login")
    agent.add_finding("Login has no rate limit", severity="high")     # by the architect
    agent.update_state({"task": "review", "done": 3})                # for the architect alone

Guarantees: every read gives what `smp_memory.privacy.visibility` lets the agent see; what it may not see is not
counted and not named, and an error for it is the same as for what does not exist. Every write is attributed to the agent
(`smp_memory.agents.rights`).
Non-guarantees: files are files; this keeps agents apart that use SMP, it does not lock anybody out of the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smp_memory import exchange, lifecycle, search
from smp_memory.agents.rights import AgentRights
from smp_memory.errors import SessionNotFound, maps_errors
from smp_memory.model import ids
from smp_memory.model.record import Records
from smp_memory.model.session_info import GLOBAL_SESSION
from smp_memory.model.times import to_text
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.privacy.visibility import Viewer, history_for
from smp_memory.scope import Scope
from smp_memory.text.tokenizer import without_signs
from smp_memory.write.operations import Operation, id_of
from smp_memory.write.path import Transaction, Writer, additions

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Unpack

    from smp_memory.agents.rights import Guard
    from smp_memory.context.builder import Context
    from smp_memory.errors import MemoryNotFound
    from smp_memory.lifecycle.consolidation import Duplicates
    from smp_memory.memory import Memory
    from smp_memory.model.candidates import Hit, Hits, Related
    from smp_memory.model.deletions import Trashed
    from smp_memory.model.options import (
        ArtifactFields,
        ClientObject,
        CommonFields,
        DecisionFields,
        FindingFields,
        LearningFields,
        PreferenceFields,
        QueryOptions,
        RelatedOptions,
        RelevantOptions,
        TopicOptions,
        TurnFields,
        WatchOptions,
    )
    from smp_memory.model.record import AgentState, Artifact, Decision, Finding, Learning, Preference, Record, Turn
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.overview.activity import Participants, Timeline
    from smp_memory.overview.summary import SessionSummary
    from smp_memory.overview.topics import Topics
    from smp_memory.search.records import Snapshot
    from smp_memory.session import SessionMemory

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
class AgentMemory:
    """One session of a store as one agent may see it. Made by `Memory.agent` and `SessionMemory.agent`."""

    def __init__(self, session: SessionMemory, agent: str | None, guard: Guard | None = None) -> None:
        opened = session.opened
        self.agent = agent
        self.id = session.id
        self._session = session
        self._viewer = Viewer(agent)
        self._rights = AgentRights(opened.storage, agent, self._viewer, guard)
        self._writer = Writer(opened, self._commit, agent)

    @property
    def _scope(self) -> Scope:
        own = self._session.scope
        return Scope(own.store, own.sessions, own.config, own.clock, viewer=self._viewer, author=self.agent)

    @property
    def info(self) -> SessionInfo:
        """Who takes part in the session, in which project, since when."""
        return self._session.info

    # -- what agents ask for most

    def conversation_context(self, turns: int = 20) -> list[Record]:
        """The last turns, oldest first."""
        return self.records("conversation", last=turns)

    def relevant_decisions(
        self, topic: str, *, limit: int = _RELEVANT, **options: Unpack[RelevantOptions]
    ) -> list[Record]:
        """Decisions about a topic, in any session, best first; those that were overturned are left out."""
        return self._relevant("decision", topic, limit, {**options})

    def relevant_findings(
        self, topic: str, *, limit: int = _RELEVANT, **options: Unpack[RelevantOptions]
    ) -> list[Record]:
        """Findings about a topic, in any session, best first; those that are settled are left out."""
        return self._relevant("finding", topic, limit, {**options})

    def _relevant(self, type: str, topic: str, limit: int, options: dict[str, Any]) -> list[Record]:
        options = {"sessions": "all", **options, "types": type, "limit": limit}
        scope = self._scope
        hits = [*search.path.query(scope, None, {**options, "topic": topic})]
        hits += search.path.query(scope, without_signs(topic), options)
        found = {hit.record.ref: hit.record for hit in search.succession.current_hits(hits)}
        return list(found.values())[:limit]

    def user_preferences(self, topic: str | None = None) -> list[Record]:
        """Preferences of this session and those for all sessions; of one key the session's own. With a topic: about it."""
        options: dict[str, Any] = {"types": "preference", "limit": 200, "track_access": False}
        found: dict[str, Record] = {}
        for name in (self.id, GLOBAL_SESSION):
            if name == self.id or self._session.memory.global_memory.exists:
                for hit in search.path.query(self._scope, topic, {**options, "sessions": [name]}):
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
        self._session.scope.note_access([record])
        return record

    def find(self, id: Any) -> Record | None:
        """The memory with this id, deleted ones too; None if there is none for this agent."""
        record = self._session.find(id)
        return record if record is not None and self._viewer.sees(record) else None

    def records(self, type: str | None = None, *, last: int | None = None, include_deleted: bool = False) -> Records:
        """All memories, or those of one type, oldest first."""
        found = self._session.records(type, last=last, include_deleted=include_deleted)
        seen = self._scope.filter_visible(found)
        if last is None or len(seen) == len(found):
            return seen
        every = self._scope.filter_visible(self._session.records(type, include_deleted=include_deleted))
        return Records([*every][-last:], every.problems)

    def history(self, id: Any) -> list[dict[str, Any]]:
        """What happened to a memory. Revisions that were written while it was hidden are named, without their content."""
        if self.find(id) is None:
            raise self._missing(id_of(id))
        name = id_of(id)
        return history_for(self._session.opened.storage.history([name]).histories[name], self._viewer)

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
        """Groups of findings and preferences that say the same; nothing is changed."""
        return lifecycle.compaction.find_duplicates(self.records(), threshold)

    def export(
        self, path: str | os.PathLike[str] | None = None, format: str | None = None, *, force: bool = False
    ) -> str:
        """Write what the agent may see into one file and return its path, or return the text if there is no path."""
        return exchange.api.export(self._scope, path, format, force=force)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records())

    def __repr__(self) -> str:
        return f"AgentMemory({self.agent} in {self.id})"

    def _missing(self, id: str) -> MemoryNotFound:
        return memory_not_found(self._session.opened.storage, id)

    # -- searching, as `SessionMemory` does it

    def query(self, text: str | Mapping[str, Any] | None = None, **options: Unpack[QueryOptions]) -> Hits:
        """Find memories that the agent may see, best first; see `Memory.query` for the options."""
        return search.path.query(self._scope, text, options)

    def watch(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        pause: float = 0.1,
        **options: Unpack[WatchOptions],
    ) -> Iterator[Hit]:
        """Yield memories that match as any process writes them; for ever, or for so many seconds."""
        return search.watch.watch(self._scope, text, options, timeout, pause)

    def by_topic(self, topic: str, **options: Unpack[TopicOptions]) -> Hits:
        return search.path.query(self._scope, None, {**options, "topic": topic})

    def by_agent(self, agent: str, **options: Unpack[QueryOptions]) -> Hits:
        return search.path.query(self._scope, None, {**options, "agents": agent})

    def by_type(self, type: str, **options: Unpack[QueryOptions]) -> Hits:
        return search.path.query(self._scope, None, {**options, "types": type})

    def by_time_range(self, start: Any, end: Any = None, **options: Unpack[QueryOptions]) -> Hits:
        return search.path.query(self._scope, None, {**options, "time": start if end is None else (start, end)})

    def find_similar(self, what: Any, **options: Unpack[QueryOptions]) -> Hits:
        """Memories similar to a text, or to the memory with an id; best first."""
        return search.related.find_similar(self._scope, what, options)

    def find_related(
        self, id: Any, depth: int = 1, kinds: str | list[str] | None = None, **options: Unpack[RelatedOptions]
    ) -> list[Related]:
        """Memories that this one points to or that point to it, nearest first."""
        return search.related.find_related(self._scope, id, depth, kinds, options)

    def priority(self, id: Any, at: Any = None) -> float:
        """The priority of a memory, 0 to 1, now or at a time."""
        return search.related.priority(self._scope, id, at)

    def topics(self) -> Topics:
        return search.overviews.topics(self._scope)

    def timeline(self, by: str = "hour", *, time: Any = None, since: Any = None, until: Any = None) -> Timeline:
        return search.overviews.timeline(self._scope, by, time, since, until)

    def agents(self) -> Participants:
        return search.overviews.agents(self._scope)

    def summarize(self) -> SessionSummary:
        return search.overviews.summarize(self._scope)

    # -- writing, in the agent's own name

    def _commit(self, operation: Operation, name: str) -> Any:
        self._rights.check(operation)
        return self._session.opened.commit_one(operation, name)

    def add(self, type: str | Mapping[str, Any], data: Mapping[str, Any] | str | None = None, **fields: Any) -> Any:
        """Add a memory of any type; see `SessionMemory.add`."""
        return self._writer.add(type, data, **fields)

    def add_turn(
        self,
        role: str | Mapping[str, Any] | ClientObject,
        content: str | Sequence[Any] | Mapping[str, Any] | ClientObject | None = None,
        **fields: Unpack[TurnFields],
    ) -> Turn:
        return self._writer.add_turn(role, content, **fields)

    def add_decision(self, decision: str | Mapping[str, Any], **fields: Unpack[DecisionFields]) -> Decision:
        return self._writer.add_decision(decision, **fields)

    def add_finding(self, finding: str | Mapping[str, Any], **fields: Unpack[FindingFields]) -> Finding:
        return self._writer.add_finding(finding, **fields)

    def add_preference(
        self, key: str | Mapping[str, Any] | None = None, value: Any = None, **fields: Unpack[PreferenceFields]
    ) -> Preference:
        return self._writer.add_preference(key, value, **fields)

    def add_artifact(
        self, name: str | Mapping[str, Any] | None = None, content: str | None = None, **fields: Unpack[ArtifactFields]
    ) -> Artifact:
        return self._writer.add_artifact(name, content, **fields)

    def add_learning(self, learning: str | Mapping[str, Any], **fields: Unpack[LearningFields]) -> Learning:
        return self._writer.add_learning(learning, **fields)

    def update_state(self, state: Any, **fields: Unpack[CommonFields]) -> AgentState:
        """Replace what the agent knows about its own work; others do not see it."""
        return self._writer.update_state(state, **fields)

    def update_agent_state(self, agent: str, state: Any, **fields: Unpack[CommonFields]) -> AgentState:
        return self._writer.update_agent_state(agent, state, **fields)

    def add_many(self, items: Iterable[tuple[str, Mapping[str, Any] | str]]) -> list[Record]:
        """Add many memories with one sync per file; see `SessionMemory.add_many`."""
        operations = additions(self._writer, items)
        for operation in operations:
            self._rights.check(operation)
        self._session.opened.commit(operations, f"adding {len(operations)} memories", atomic=False)
        return [operation.record for operation in operations if operation.record is not None]

    def transaction(self) -> Transaction:
        """Several writes that become visible together or not at all."""
        opened = self._session.opened
        commit = lambda all, name: opened.commit(all, name, atomic=True)  # noqa: E731
        return Transaction(opened, commit, self.agent, self._rights.check)

    def update(self, id: Any, expected_revision: int | None = None, *, by: str | None = None, **changes: Any) -> Any:
        """Change fields of a memory; see `SessionMemory.update`."""
        return self._writer.update(id, expected_revision, by=by, **changes)

    def resolve(
        self,
        id: Any,
        resolution: Any = None,
        *,
        by: str | None = None,
        status: str = "resolved",
        expected_revision: int | None = None,
        **fields: Any,
    ) -> Any:
        """Close a finding or a decision; see `SessionMemory.resolve`."""
        return self._writer.resolve(id, resolution, by=by, status=status, expected_revision=expected_revision, **fields)

    def relate(self, source: Any, target: Any = None, kind: str = "relates_to", *, by: str | None = None) -> Any:
        return self._writer.relate(source, target, kind, by=by)

    def unrelate(self, source: Any, target: Any, kind: str = "relates_to", *, by: str | None = None) -> Any:
        return self._writer.unrelate(source, target, kind, by=by)

    def pin(self, id: Any, *, by: str | None = None) -> Any:
        return self._writer.pin(id, by=by)

    def unpin(self, id: Any, *, by: str | None = None) -> Any:
        return self._writer.unpin(id, by=by)

    def mute(self, id: Any, *, by: str | None = None) -> Any:
        return self._writer.mute(id, by=by)

    def unmute(self, id: Any, *, by: str | None = None) -> Any:
        return self._writer.unmute(id, by=by)

    def delete(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any:
        """Hide a memory at once; `restore` brings it back."""
        return self._writer.delete(id, reason, by=by)

    def restore(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any:
        return self._writer.restore(id, reason, by=by)
