"""One session: write, read, search, change, delete, compact, export.

Every method that writes returns when the memory is stored as durably as the store is set to, or raises and has
written nothing. Threads may share a session.
"""

from __future__ import annotations

from itertools import islice

from smp_memory import exchange, lifecycle, search
from smp_memory.discovery import in_nearest_store
from smp_memory.errors import InvalidRecord, MemoryNotFound, maps_errors
from smp_memory.import_lock import loading
from smp_memory.lifecycle.open_session import OpenSession, hold
from smp_memory.model.history import COLD
from smp_memory.model.session_info import with_title
from smp_memory.model.times import to_text
from smp_memory.privacy.settings import clean_metadata, log_metadata_redaction
from smp_memory.search import records
from smp_memory.trust import set_session_setting
from smp_memory.write import validation
from smp_memory.write.operations import id_of
from smp_memory.write.path import Transaction, Writer, additions

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Any, Unpack

    from smp_memory.agents.agent_memory import AgentMemory
    from smp_memory.agents.party import Party
    from smp_memory.config.settings import Config
    from smp_memory.context.builder import Context
    from smp_memory.lifecycle.clock_trust import Evidence
    from smp_memory.lifecycle.compaction import CompactionReport
    from smp_memory.lifecycle.compaction_plan import Summariser
    from smp_memory.lifecycle.conflicts import ConcurrentChange
    from smp_memory.lifecycle.consolidation import Duplicates
    from smp_memory.lifecycle.quota import SizeReport
    from smp_memory.lifecycle.review import Proposal
    from smp_memory.lifecycle.session_states import SessionState
    from smp_memory.lifecycle.transitions import Transition
    from smp_memory.memory import Memory
    from smp_memory.model.candidates import Hit, Hits, Related
    from smp_memory.model.deletions import Purged, Receipt, Trashed
    from smp_memory.model.options import (
        AnonymisationOptions,
        ArtifactFields,
        ClientObject,
        CommonFields,
        Criteria,
        DecisionFields,
        FindingFields,
        LearningFields,
        PreferenceFields,
        QueryOptions,
        RelatedOptions,
        TopicOptions,
        TurnFields,
        WatchOptions,
    )
    from smp_memory.model.record import (
        AgentState,
        Artifact,
        Decision,
        Finding,
        Learning,
        Preference,
        Record,
        Records,
        Turn,
    )
    from smp_memory.model.reports import Report, Stats
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.model.storage_reports import ColdMemory, RedactionReport, TidyReport
    from smp_memory.overview.activity import Participants, Timeline
    from smp_memory.overview.summary import SessionSummary
    from smp_memory.overview.topics import Topics
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.privacy.redaction import RedactedSpan
    from smp_memory.scope import Scope
    from smp_memory.search.records import Snapshot
    from smp_memory.store.port import SessionStore


@maps_errors
class SessionMemory:
    """One session of a store, from `Memory.create_session`, `Memory.session`, or by its id in the nearest store: `SessionMemory("x")`."""

    def __init__(self, memory: Memory | str, opened: OpenSession | None = None) -> None:
        self._is_own = opened is None  # whether the store was opened for this session alone
        if opened is None:
            memory, opened = in_nearest_store(memory)
        self._memory: Memory = memory  # type: ignore[assignment]
        self._session = opened
        self._writer = Writer(opened, opened.commit_one, opened.author)
        self.id = opened.id
        hold(opened, self)
        self.warnings: tuple[str, ...] = tuple(opened.warnings)  # for whoever created or opened the session
        self.redacted: dict[str, int] = {}  # what redaction took out of the session's metadata: kinds and counts

    @property
    def memory(self) -> Memory:
        """The store that the session is in."""
        return self._memory

    @property
    def opened(self) -> OpenSession:
        """The open session below, for agents and integrations."""
        return self._session

    @property
    def scope(self) -> Scope:
        """What searches and contexts of this session cover; for tools."""
        return self._session.scope

    @property
    def _storage(self) -> SessionStore:
        return self._session.storage

    @property
    def info(self) -> SessionInfo:
        """Who takes part, in which project, since when."""
        return self._session.storage.info()

    @property
    def folder(self) -> str:
        """Where the session is stored: its folder, for a store in files."""
        return self._session.storage.location

    @property
    def written(self) -> datetime:
        """When a memory was last written in it, by the memories' own times; without any, when it was created."""
        return lifecycle.session_states.last_writes(self._session.store, [self.id])[self.id].written

    @property
    def config(self) -> Config:
        """The settings that hold here: the store's, and above them the session's own."""
        return self._session.config

    def set_config(self, name: str, value: Any) -> None:
        """Change a setting of this session, checked first; None removes it. It holds for whoever opens the store next."""
        set_session_setting(self._session.store, self._storage, name, value)

    def change_info(self, **changes: Any) -> SessionInfo:
        """Change the session's metadata: user, agents, project, tags, context; `title` is in the context, None removes it."""
        names = ("user", "agents", "project", "tags", "context", "title")
        unknown = set(changes) - set(names)
        if unknown:
            raise InvalidRecord(
                f"{min(unknown)}: not a field of a session's metadata; it has {', '.join(names)}.", field=min(unknown)
            )
        config = self.config
        removals: list[RedactedSpan] = []

        def change(info: SessionInfo) -> None:
            given: dict[str, Any] = {name: getattr(info, name) for name in names[:-1]} | changes
            if "title" in given:
                given["context"] = with_title(given["context"] or {}, given.pop("title"))
            fields, removals[:] = clean_metadata(config, validation.session_fields(**given))
            for name, value in fields.items():
                setattr(info, name, value)

        info = self._storage.update_info(change)
        at = to_text(self._session.now())
        self.redacted = log_metadata_redaction(self._session.store, at, self.id, self._session.author, removals)
        return info

    # -- writing

    def add(self, type: str | Mapping[str, Any], data: Mapping[str, Any] | str | None = None, **fields: Any) -> Any:
        """Add a memory of any type: `add("decision", {"decision": "Use OAuth", "tags": ["auth"]})`, or all in one object."""
        return self._writer.add(type, data, **fields)

    def add_turn(
        self,
        role: str | Mapping[str, Any] | ClientObject,
        content: str | Sequence[Any] | Mapping[str, Any] | ClientObject | None = None,
        **fields: Unpack[TurnFields],
    ) -> Turn:
        """Add a turn of a conversation; `role` is user, assistant, system, tool or an agent's name.

        Content blocks and whole messages in the formats of Anthropic and OpenAI are understood: text becomes `content`, tool calls, images
        and the rest `parts`, with a readable line in the content.
        """
        return self._writer.add_turn(role, content, **fields)

    def add_decision(self, decision: str | Mapping[str, Any], **fields: Unpack[DecisionFields]) -> Decision:
        """Add a decision: `add_decision("Use OAuth 2.0", rationale="…", author="architect", tags=["auth"])`."""
        return self._writer.add_decision(decision, **fields)

    def add_finding(self, finding: str | Mapping[str, Any], **fields: Unpack[FindingFields]) -> Finding:
        """Add a finding: `add_finding("No MFA required", severity="critical", author="veritas")`."""
        return self._writer.add_finding(finding, **fields)

    def add_preference(
        self, key: str | Mapping[str, Any] | None = None, value: Any = None, **fields: Unpack[PreferenceFields]
    ) -> Preference:
        """Add a preference; the same `key` again updates it: `add_preference("response_style", "concise")`."""
        return self._writer.add_preference(key, value, **fields)

    def add_artifact(
        self, name: str | Mapping[str, Any] | None = None, content: str | None = None, **fields: Unpack[ArtifactFields]
    ) -> Artifact:
        """Add something that was made: `add_artifact("report.md", "# Report …")`; or only its `path`."""
        return self._writer.add_artifact(name, content, **fields)

    def add_learning(self, learning: str | Mapping[str, Any], **fields: Unpack[LearningFields]) -> Learning:
        """Add a pattern that an agent learned."""
        return self._writer.add_learning(learning, **fields)

    def update_agent_state(self, agent: str, state: Any, **fields: Unpack[CommonFields]) -> AgentState:
        """Replace what an agent knows about its own work; earlier states stay in its history."""
        return self._writer.update_agent_state(agent, state, **fields)

    def add_many(self, items: Iterable[tuple[str, Mapping[str, Any] | str]]) -> list[Record]:
        """Add many memories with one sync per file. All are checked before the first is written.

        Not a transaction: after a crash some may be there and others not; none was acknowledged then.
        """
        operations = additions(self._writer, items)
        self._session.commit(operations, f"adding {len(operations)} memories", atomic=False)
        return [operation.record for operation in operations if operation.record is not None]

    def transaction(self) -> Transaction:
        """Several writes that become visible together or not at all; an exception inside rolls back."""
        session = self._session
        return Transaction(session, lambda all, name: session.commit(all, name, atomic=True), session.author)

    def update(self, id: Any, expected_revision: int | None = None, *, by: str | None = None, **changes: Any) -> Any:
        """Change fields of a memory; None removes one. With `expected_revision`, only if nobody changed it since."""
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
        """Close a finding or a decision: `resolve("FIND-0001", "MFA added", by="user")`.

        With `expected_revision`, only if nobody changed it since.
        """
        return self._writer.resolve(id, resolution, by=by, status=status, expected_revision=expected_revision, **fields)

    def relate(self, source: Any, target: Any = None, kind: str = "relates_to", *, by: str | None = None) -> Any:
        """Relate two memories: `relate("DEC-0002", "FIND-0001", "resolves")`; the target may be `session/ID`."""
        return self._writer.relate(source, target, kind, by=by)

    def unrelate(self, source: Any, target: Any, kind: str = "relates_to", *, by: str | None = None) -> Any:
        """Remove a relation: the opposite of `relate`. Nothing is written if there is none."""
        return self._writer.unrelate(source, target, kind, by=by)

    def pin(self, id: Any, *, by: str | None = None) -> Any:
        """Keep a memory from fading."""
        return self._writer.pin(id, by=by)

    def unpin(self, id: Any, *, by: str | None = None) -> Any:
        """Let a memory fade again."""
        return self._writer.unpin(id, by=by)

    def mute(self, id: Any, *, by: str | None = None) -> Any:
        """Turn a memory off for recall: hooks, contexts and digests do not tell it; searches find it."""
        return self._writer.mute(id, by=by)

    def unmute(self, id: Any, *, by: str | None = None) -> Any:
        """Turn a memory on for recall again."""
        return self._writer.unmute(id, by=by)

    # -- reading

    def get(self, id: Any) -> Record:
        """The memory with this id. Raises MemoryNotFound, also for a deleted one. It counts as use; `find` does not."""
        record = records.find(self._storage, id)
        if record is None:
            raise self.missing(id_of(id))
        if record.deleted:
            raise MemoryNotFound(
                f"{record.id} is deleted in session {self.id}; restore it first.", id=record.id, session=self.id
            )
        self._session.scope.note_access([record])
        return record

    def find(self, id: Any) -> Record | None:
        """The memory with this id, deleted ones too; None if there never was one."""
        return records.find(self._storage, id)

    def records(self, type: str | None = None, *, last: int | None = None, include_deleted: bool = False) -> Records:
        """All memories, or those of one type, oldest first; `last=20` gives the newest 20 without reading a large session."""
        return records.records(self._storage, type, last=last, include_deleted=include_deleted)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records())

    def history(self, id: Any) -> list[dict[str, Any]]:
        """What happened to a memory, oldest first: revision, op, at, by, and each field's value before and after."""
        steps = records.history(self._storage, id)
        if steps is None:
            raise self.missing(id_of(id))
        return steps

    def conflicts(self, id: Any = None) -> list[ConcurrentChange]:
        """The memories, or this one, with fields that two clones changed to different values; `update` with the right value settles one."""
        return lifecycle.conflicts.open_conflicts(self._storage, None if id is None else id_of(id))

    def as_of(self, time: datetime | str) -> Snapshot:
        """The session as it was at a time, from the files alone."""
        return records.as_of(self._storage, time)

    def stats(self) -> Stats:
        """Figures: counts by type, bytes by file, how full it is, first and last write."""
        return records.stats(self._storage)

    def missing(self, id: str) -> MemoryNotFound:
        """The error for an id that is not there, with the way to get it back if there is one."""
        return lifecycle.compaction.missing_memory(self._session, id)

    # -- searching: the options are described in `Memory.query`

    def query(self, text: str | Mapping[str, Any] | None = None, **options: Unpack[QueryOptions]) -> Hits:
        """Find memories of this session, best first; see `Memory.query` for the options."""
        return search.path.query(self.scope, text, options)

    def watch(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        pause: float = 0.1,
        **options: Unpack[WatchOptions],
    ) -> Iterator[Hit]:
        """Yield memories that match as any process writes them; for ever, or for so many seconds."""
        return search.watch.watch(self.scope, text, options, timeout, pause)

    def by_topic(self, topic: str, **options: Unpack[TopicOptions]) -> Hits:
        """Memories about a topic: those that name it, and those with the tag."""
        return search.path.query(self.scope, None, {**options, "topic": topic})

    def by_agent(self, agent: str, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of one author. The session's user and `user` are the same author, as in `agents`."""
        return search.path.query(self.scope, None, search.overviews.by_author(self.scope, agent, options))

    def by_type(self, type: str, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of one type."""
        return search.path.query(self.scope, None, {**options, "types": type})

    def by_time_range(self, start: Any, end: Any = None, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of a time: two times, or one range such as "last week"."""
        return search.path.query(self.scope, None, {**options, "time": start if end is None else (start, end)})

    def find_similar(self, what: Any, **options: Unpack[QueryOptions]) -> Hits:
        """Memories similar to a text, or to the memory with an id; best first."""
        return search.related.find_similar(self.scope, what, options)

    def find_related(
        self, id: Any, depth: int = 1, kinds: str | list[str] | None = None, **options: Unpack[RelatedOptions]
    ) -> list[Related]:
        """Memories that this one points to or that point to it, up to so many steps away, nearest first.

        With options of a query only those that match it: `find_related("FIND-0001", min_priority=0.5)`.
        """
        return search.related.find_related(self.scope, id, depth, kinds, options)

    def priority(self, id: Any, at: Any = None) -> float:
        """The priority of a memory, 0 to 1, now or at a time: `session.priority("DEC-0001", at="2026-12-24")`."""
        return search.related.priority(self.scope, id, at)

    def topics(self) -> Topics:
        """Topics and tags, the weightiest first."""
        return search.overviews.topics(self.scope)

    def timeline(self, by: str = "hour", *, time: Any = None, since: Any = None, until: Any = None) -> Timeline:
        """What happened when; `time` is a range such as "last week"."""
        return search.overviews.timeline(self.scope, by, time, since, until)

    def agents(self) -> Participants:
        """Who took part, and with what."""
        return search.overviews.agents(self.scope)

    def summarize(self) -> SessionSummary:
        """Decisions, open findings, preferences and topics on a page. No model is needed."""
        return search.overviews.summarize(self.scope)

    # -- for agents

    def context(
        self,
        agent: str | None = None,
        task: str | None = None,
        topic: str | None = None,
        *,
        tags: str | Sequence[str] | None = None,
        project: str | None = None,
        user: str | None = None,
        session: str | SessionMemory | None = None,
        max_tokens: int = 1500,
        counter: Callable[[str], int] | None = None,
        turns: int = 20,
        at: datetime | str | None = None,
        track_access: bool = True,
    ) -> Context:
        """What an agent should have in its prompt now, best first, within so many tokens; see `Memory.context`."""
        return self._memory.context(
            agent,
            task,
            topic,
            tags=tags,
            project=project,
            user=user,
            session=self if session is None else session,
            max_tokens=max_tokens,
            counter=counter,
            turns=turns,
            at=at,
            track_access=track_access,
        )

    def get_context(self, limit: int = 20) -> list[Record]:
        """The memories with the highest priority, so many of them. `context` gives text for a prompt instead."""
        return self.query(sort="priority", limit=limit).records

    def agent(self, name: str) -> AgentMemory:
        """This session as one agent may see it; what it writes is attributed to it."""
        return self._memory.agent(name, self)

    def party(self, agents: Iterable[str]) -> Party:
        """Several agents in one session: what they find is merged, what they decide keeps who said what."""
        with loading:
            from smp_memory.agents.party import Party

        return Party(self._memory, self, agents)

    # -- deleting

    def delete(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        echoes: bool = False,
        **criteria: Unpack[Criteria],
    ) -> Any:
        """Hide memories at once; `restore` brings them back until they are purged.

        With one id the record is returned; with several, with criteria or as a preview a `Deletion`: its `count` and
        `ids` are those of what was deleted or, as a preview, would be. Its `echoes` are turns that say the same as these memories:
        they are no longer recalled; with `echoes` they are deleted, too, in all sessions.
        """
        return lifecycle.deletion.delete(self.scope, id, reason, by, preview, echoes, {**criteria})

    def restore(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        echoes: bool = False,
        **criteria: Unpack[Criteria],
    ) -> Any:
        """Bring memories back, deleted ones and those that compaction moved. With one id the record is returned, else a
        `Restoration`. Those from the trash come together or not at all, then those from the cold segment. With `echoes`, deleted
        turns that say the same are restored, too.
        """
        return lifecycle.deletion.restore(self.scope, id, reason, by, preview, echoes, {**criteria})

    def deleted(self) -> list[Trashed]:
        """The trash: who deleted what, when and why, and from when on a purge may take it; the latest first."""
        return lifecycle.deletion.deleted(self.scope)

    def purge(
        self,
        *,
        older_than: float | datetime | str | None = None,
        by: str | None = None,
        now: datetime | str | None = None,
        evidence: Evidence | None = None,
    ) -> Purged:
        """Remove for good what has been in the trash long enough; see `Memory.purge`."""
        return lifecycle.deletion.purge(self.scope, older_than, by, now, evidence)

    def erase(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        echoes: bool = False,
        **criteria: Unpack[Criteria],
    ) -> Receipt:
        """Remove the bytes of memories from every file that SMP owns, at once and for good; see `Memory.erase`."""
        return lifecycle.deletion.erase(
            self.scope, id, reason, by, preview, echoes, {**criteria}, self._memory._renew_digests
        )

    # -- state, size, compaction

    @property
    def session_state(self) -> SessionState:
        """The session's state and its next transition."""
        return lifecycle.session_states.session_states(self._session.store, self._session.now(), [self.id])[0]

    @property
    def state(self) -> str:
        """created, active, idle or decaying; an archived or deleted session cannot be open."""
        return self.session_state.state

    @property
    def next_step(self) -> Transition:
        """What happens to it next by itself, when and why."""
        return self.session_state.next

    def size_report(self) -> SizeReport:
        """How full it is, what takes the room, when it will be full, and what compaction could free."""
        return lifecycle.compaction.size_report(self._session)

    def compact(
        self, target: str | int | None = None, *, dry_run: bool = False, summariser: Summariser | None = None
    ) -> CompactionReport:
        """Move faded memories, old turns and settled findings to the cold segment beside the session.

        `target` is `gentle` (default), `forced`, or how many bytes to free. Nothing is destroyed: `archived()` lists what
        went, `restore(id)` brings it back, and `query(…, include_archived=True)` finds it.
        """
        return lifecycle.compaction.compact(self._session, target, dry_run=dry_run, summariser=summariser)

    def archived(self) -> list[ColdMemory]:
        """The memories in the cold segment: id, type, when they were written and moved, and why."""
        return self._storage.history(segment=COLD).moved

    def restore_archived(self, *ids: Any) -> Record | None:
        """Bring memories back from the cold segment, with their ids and histories; the last one is returned."""
        found = lifecycle.compaction.restore_cold(self._session, list(ids))
        return found[-1] if found else None

    def tidy(self, *, dry_run: bool = False) -> TidyReport:
        """Fold changes into the entries that they change, so that the files of the `markdown` layout show what holds.

        Memories, histories and `as_of` stay as they are. In other layouts there is nothing to fold.
        """
        return lifecycle.compaction.tidy(self._session, dry_run=dry_run)

    def duplicates(self, *, threshold: float | None = None) -> list[Duplicates]:
        """Groups of findings and preferences that say the same; nothing is changed."""
        return lifecycle.compaction.find_duplicates(self.records(), threshold)

    def merge(self, group: Duplicates, *, by: str | None = None) -> Record:
        """Let the first memory of a group stand for all, in one transaction; the others go to the trash.

        It lists what it took in (`merged_from`). Restoring the others and changing it back undoes the merge; if one of
        them has changed since `duplicates()`, it is a Conflict and nothing happens.
        """
        return lifecycle.compaction.merge_duplicates(self._session, group, by)

    def proposals(self, limit: int | None = None) -> list[Proposal]:
        """Sentences of turns that look like a decision, finding, learning or preference nobody has written down, the newest first.

        None if `proposals.enabled` is off for this session.
        """
        if not self.config["proposals.enabled"]:
            return []
        return list(islice(lifecycle.review.open_proposals(self.records(include_deleted=True), self.info), limit))

    def keep_proposal(
        self, turn: Any, type: str | None = None, text: str | None = None, *, by: str | None = None
    ) -> Record:
        """Write the memory that a turn proposes, with the turn as its source (`turn_ref`).

        `turn` is a turn, its id or a proposal. `type` says which one if the turn proposes several, or another type for the only one; `text`
        is what to write instead of the turn's own words. Without it the memory has the confidence `inferred`. Keeping it again adds nothing.
        """
        proposal = turn if isinstance(turn, lifecycle.review.Proposal) else None
        source = self.get(lifecycle.review.turn_id(turn))
        kept, fields = lifecycle.review.fields_to_keep(source, type, text, proposal)
        record: Record = self.add(kept, {**fields, **({"author": by} if by else {})})
        if proposal is not None and kept != proposal.type:
            self.drop_proposals(proposal)  # a memory of another type and in other words does not close it
        return record

    def drop_proposals(self, *turns: Any) -> None:
        """Propose nothing more from these turns, given by id; of a proposal, this one. `keep_proposal` still keeps one."""
        for each in turns:
            self.get(lifecycle.review.turn_id(each))
        names = [each.name if isinstance(each, lifecycle.review.Proposal) else id_of(each) for each in turns]
        self._storage.update_info(lambda info: lifecycle.review.change_dropped(info, add=names))

    def reopen_proposal(self, proposal: Proposal, kept: Record | None = None, *, by: str | None = None) -> None:
        """Undo `drop_proposals` of a proposal or, with the memory that it became, `keep_proposal`; that one goes to the trash."""
        if kept is not None:
            self.delete(kept.id, lifecycle.review.UNDONE, by=by)
        if proposal.name in lifecycle.review.dropped_names(self.info):
            self._storage.update_info(lambda info: lifecycle.review.change_dropped(info, remove=[proposal.name]))

    def validate(self) -> Report:
        """Read everything, check every signature, id and reference; change nothing."""
        report = self._storage.validate()
        report.actions += self._session.take_warnings()
        return report

    def repair(self) -> Report:
        """Repair what can be repaired, quarantine the rest, and report what was done."""
        return self._storage.repair()

    # -- exporting

    def export(
        self,
        path: str | os.PathLike[str] | None = None,
        format: str | None = None,
        *,
        anonymise: Placeholders | None = None,
        restore: Placeholders | None = None,
        agents: bool = False,
        force: bool = False,
    ) -> str:
        """Write the session into one file and return its path, or return the text if there is no path; see `Memory.export`."""
        return exchange.api.export(
            self.scope, path, format, anonymise=anonymise, restore=restore, agents=agents, force=force
        )

    def redact(self, *, preview: bool = False, reason: str | None = None) -> list[RedactionReport]:
        """Take secrets out of what is already stored, history included; see `Memory.redact`."""
        return exchange.api.redact(self.scope, preview, reason)

    def anonymised(self, id: str | None = None, **options: Unpack[AnonymisationOptions]) -> SessionMemory:
        """A copy of the session in the same store, in which people, projects and places have placeholders.

        The session itself stays as it is. `config` switches parts off: remove_user_names, remove_project_names,
        remove_file_paths, replace_with_placeholders (else `[removed]`), preserve_structure (else without relations).
        """
        return self._memory.session(exchange.api.anonymised_copy(self.scope, id, **options))

    def anonymised_record(self, id: str, **options: Unpack[AnonymisationOptions]) -> dict[str, Any]:
        """The fields of one memory with placeholders, to show it to others. Nothing is stored."""
        return exchange.api.anonymised_record(self.scope, self.get(id), **options)

    def __enter__(self) -> SessionMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_own:
            self._memory.close()

    def __repr__(self) -> str:
        return f"SessionMemory({self.id})"
