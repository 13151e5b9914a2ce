# Made by docs/make_aio_stub.py from the code. Do not edit.

import os
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Unpack

from smp_memory.agents.agent_memory import AgentMemory
from smp_memory.agents.party import Party
from smp_memory.aio.faces import call as call
from smp_memory.analytics import decay_rates, forecast, impact, usage
from smp_memory.analytics.forecast import DecayCurve
from smp_memory.analytics.report import Analytics
from smp_memory.analytics.usage import Trends
from smp_memory.config.settings import Config
from smp_memory.context.builder import Context
from smp_memory.errors import MemoryNotFound
from smp_memory.exchange.replication import ExchangeReport
from smp_memory.exchange.store_copy import StoreCopyReport
from smp_memory.files.system import System
from smp_memory.global_memory import GlobalMemory
from smp_memory.health.examination import HealthReport
from smp_memory.lifecycle.clock_trust import Evidence
from smp_memory.lifecycle.compaction import CompactionReport
from smp_memory.lifecycle.compaction_plan import Summariser
from smp_memory.lifecycle.conflicts import ConcurrentChange
from smp_memory.lifecycle.consolidation import Duplicates
from smp_memory.lifecycle.maintenance import MaintenanceReport
from smp_memory.lifecycle.quota import SizeReport
from smp_memory.lifecycle.review import Proposal
from smp_memory.lifecycle.session_states import SessionState
from smp_memory.lifecycle.transitions import Transition
from smp_memory.lifecycle.undo import LastChange
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
    RecallOptions,
    RelatedOptions,
    RelevantOptions,
    TopicOptions,
    TurnFields,
    WatchOptions,
)
from smp_memory.model.previews import Preview
from smp_memory.model.record import AgentState, Artifact, Decision, Finding, Learning, Preference, Record, Records, Turn
from smp_memory.model.reports import Problem, Report, Stats
from smp_memory.model.session_info import SessionHead, SessionInfo
from smp_memory.model.storage_reports import ColdMemory, RedactionReport, TidyReport
from smp_memory.overview.activity import Participants, Timeline
from smp_memory.overview.summary import SessionSummary
from smp_memory.overview.topics import Topics
from smp_memory.privacy.anonymisation import Placeholders
from smp_memory.search.explanation import Explanation
from smp_memory.search.records import Snapshot
from smp_memory.session import SessionMemory
from smp_memory.write.path import Transaction

__all__ = [
    "AsyncAgentMemory",
    "AsyncAnalytics",
    "AsyncGlobalMemory",
    "AsyncMemory",
    "AsyncParty",
    "AsyncSessionMemory",
    "AsyncTransaction",
    "AsyncWatch",
    "call",
    "open",
]

def open(
    where: str | os.PathLike[str] | None = None,
    *,
    layout: str | None = None,
    config: Mapping[str, Any] | None = None,
    clock: Callable[[], datetime] | None = None,
    system: System | None = None,
    create: bool = True,
    trust: bool = True,
    embed: Callable[[list[str]], Any] | None = None,
) -> Opening:
    """Open a store, creating it if need be."""

class AsyncMemory:
    """A store of sessions. Tasks, threads and event loops may share it. Made by `aio.open`."""

    @property
    def config(self) -> Config: ...
    @property
    def global_memory(self) -> AsyncGlobalMemory: ...
    @property
    def layout(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def blocking(self) -> Memory: ...
    async def now(self) -> datetime:
        """The time by the store's clock."""

    async def set_config(self, name: str, value: Any) -> None:
        """Change a setting in config.json, checked first; None removes it. It holds for whoever opens the store next."""

    async def is_trusted(self) -> bool:
        """Whether this user made this store, opened it by its path, or said `smp trust`. Hooks use no other."""

    async def trust(self) -> None:
        """Let hooks recall from this store and record to it, for this user on this machine, with its settings as they are now."""

    async def distrust(self) -> None:
        """Revoke trust and delete this user's index and hook state of the store."""

    async def mark_trust_notice_shown(self) -> bool:
        """Note that the user was told that this store is not trusted; True if that was noted before."""

    async def remember(self, text: str, type: str = "learning", *, session: str = ..., **fields: Any) -> Any:
        """Store a memory in a session, which is made if need be: `memory.remember("Use OAuth 2.0", "decision", author="ada")`."""

    async def create_session(
        self,
        id: str | Mapping[str, Any] | None = None,
        *,
        user: str | None = None,
        agents: list[str] | tuple[str, ...] = (),
        project: str | None = None,
        tags: list[str] | tuple[str, ...] = (),
        author: str | None = None,
        config: Mapping[str, Any] | None = None,
        created: datetime | str | None = None,
        **context: Any,
    ) -> AsyncSessionMemory:
        """Create a session; what else you say about it (`phase="review"`) is kept as its context."""

    async def session(self, id: str, *, author: str | None = None, create: bool = False) -> AsyncSessionMemory:
        """Open a session; `author` is who writes, unless a write says otherwise. Raises SessionNotFound, or with `create` makes it."""

    async def opened_session(self, id: str, *, author: str | None = None) -> AsyncSessionMemory:
        """The same, but one that is archived stays so: it raises SessionArchived."""

    async def sessions(self) -> list[AsyncSessionMemory]:
        """All sessions, by id."""

    async def sessions_by_time(self) -> list[tuple[datetime, AsyncSessionMemory]]:
        """All sessions with the time of the last write (`SessionMemory.written`), the newest last."""

    async def latest_session(self) -> AsyncSessionMemory | None:
        """The session that was written or started last, by the times of memories and uses; None if there is none."""

    async def get(self, ref: Any) -> Any:
        """A memory by its name across sessions, `session-id/ID`; or a record, as it stands now."""

    async def query(self, text: str | Mapping[str, Any] | None = None, **options: Unpack[QueryOptions]) -> Hits:
        """Find memories, best first."""

    async def recall(self, text: str, *, limit: int = 5, **options: Unpack[RecallOptions]) -> Hits:
        """What is known about a question, best first: `query` without what is hardly relevant; nothing, if nothing is."""

    async def explain(
        self,
        ref: Any,
        text: str | Mapping[str, Any] | None = None,
        *,
        viewer: str | None = None,
        **options: Unpack[QueryOptions],
    ) -> Explanation:
        """Whether `query` with these options finds a memory (`session/ID`), at which rank and with which score; if not, why."""

    def watch(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        pause: float = 0.1,
        **options: Unpack[WatchOptions],
    ) -> AsyncWatch:
        """Yield memories that match as any process writes them; for ever, or for so many seconds."""

    async def by_topic(self, topic: str, **options: Unpack[TopicOptions]) -> Hits:
        """Memories about a topic: those that name it, and those with the tag."""

    async def by_agent(self, agent: str, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of one author."""

    async def by_type(self, type: str, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of one type."""

    async def by_time_range(self, start: Any, end: Any = None, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of a time: two times, or one range such as "last week"."""

    async def find_similar(self, what: Any, **options: Unpack[QueryOptions]) -> Hits:
        """Memories similar to a text, or to the memory `session/ID`; best first."""

    async def find_related(
        self, id: Any, depth: int = 1, kinds: str | list[str] | None = None, **options: Unpack[RelatedOptions]
    ) -> list[Related]:
        """Memories that this one points to or that point to it, up to so many steps away, nearest first."""

    async def priority(self, id: Any, at: Any = None) -> float:
        """The priority of a memory, 0 to 1, now or at a time: `memory.priority("review/DEC-0001", at="2026-12-24")`."""

    async def topics(self) -> Topics:
        """Topics and tags, the weightiest first."""

    async def timeline(self, by: str = "hour", *, time: Any = None, since: Any = None, until: Any = None) -> Timeline:
        """What happened when; `time` is a range such as "last week"."""

    async def agents(self) -> Participants:
        """Who took part, and with what."""

    async def summarize(self) -> SessionSummary:
        """Decisions, open findings, preferences and topics on a page. No model is needed."""

    async def analytics(
        self,
        *,
        sessions: str | Sequence[str] | None = None,
        time: Any = None,
        since: Any = None,
        until: Any = None,
        by: str = "week",
        periods: int = 12,
        limit: int = 10,
        threshold: float | None = None,
    ) -> AsyncAnalytics:
        """Statistics: `usage`, `topics`, `impact`, `forecast` and `decay`, each computed when it is first asked for."""

    async def decay_curve(self, id: Any, *, threshold: float | None = None, days_ahead: float = 90) -> DecayCurve:
        """The priority of a memory over time: its past as far as it is known, and its future if nobody uses it."""

    async def context(
        self,
        agent: str | None = None,
        task: str | None = None,
        topic: str | None = None,
        *,
        tags: str | Sequence[str] | None = None,
        project: str | None = None,
        user: str | None = None,
        session: str | AsyncSessionMemory | None = None,
        max_tokens: int = 1500,
        counter: Callable[[str], int] | None = None,
        turns: int = 20,
        at: datetime | str | None = None,
        track_access: bool = True,
    ) -> Context:
        """What an agent should have in its prompt now, best first, within so many tokens; see `smp_memory.context.builder`."""

    async def preview(
        self,
        agent: str | None = None,
        task: str | None = None,
        topic: str | None = None,
        *,
        tags: str | Sequence[str] | None = None,
        project: str | None = None,
        user: str | None = None,
        session: str | AsyncSessionMemory | None = None,
        max_tokens: int = 1500,
        turns: int = 20,
        min_relevance: float | None = None,
        at: datetime | str | None = None,
        limit: int = 200,
    ) -> Preview:
        """What `context` would give, with a reason for each memory, and what it would leave out and why; see `smp_memory.context.preview`."""

    async def proposals(self, limit: int = 20) -> list[Proposal]:
        """What turns of all sessions propose to write down, those of the session written last first; see `SessionMemory.proposals`."""

    async def proposals_by_session(
        self, limit: int | None = None
    ) -> Iterator[tuple[AsyncSessionMemory, list[Proposal]]]:
        """Each session with its proposals, at most so many of each, the session written last first. It is read when it is asked for."""

    async def agent(self, name: str, session: str | AsyncSessionMemory | None = None) -> AsyncAgentMemory:
        """A session as one agent may see it; without a session: the one that was written last."""

    async def delete(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        echoes: bool = False,
        **criteria: Unpack[Criteria],
    ) -> Any:
        """Hide memories of any session at once; `restore` brings them back until they are purged."""

    async def restore(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        echoes: bool = False,
        **criteria: Unpack[Criteria],
    ) -> Any:
        """Bring memories back, deleted ones and those that compaction moved; see `SessionMemory.restore`."""

    async def deleted(self) -> list[Trashed]:
        """The trash: who deleted what, when and why, and from when on a purge may take it; the latest first."""

    async def purge(
        self,
        *,
        older_than: float | datetime | str | None = None,
        by: str | None = None,
        now: datetime | str | None = None,
        evidence: Evidence | None = None,
    ) -> Purged:
        """Remove memories from the files that have been in the trash for `lifecycle.purge_days`, or `older_than`: days or a date."""

    async def erase(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        echoes: bool = False,
        **criteria: Unpack[Criteria],
    ) -> Receipt:
        """Remove the bytes of memories, deleted and archived ones too, from every file that SMP owns, at once and for good."""

    async def last_change(self, by: str | None = None) -> LastChange | None:
        """What `by`, or a person who gave no name, added, changed, deleted or restored last; None if there is nothing."""

    async def undo(self, change: LastChange, *, by: str | None = None) -> None:
        """Take back a change that `last_change` returned. Raises Conflict if somebody changed the memory since."""

    async def session_states(self, *, include_archived: bool = False) -> list[SessionState]:
        """The state of every session and its next transition; with `include_archived` also of archived and deleted ones."""

    async def archived_sessions(self) -> list[SessionHead]:
        """The archived sessions; opening one restores it."""

    async def deleted_sessions(self) -> list[SessionHead]:
        """The sessions in the trash, with who deleted them, when, why, and until when they can be restored."""

    async def archive_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> SessionHead:
        """Pack a session into an archive, with a summary beside it. Opening it restores it."""

    async def restore_session(self, id: str, *, by: str | None = None) -> AsyncSessionMemory:
        """Restore an archived session and open it."""

    async def delete_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> SessionHead:
        """Move a session, archived or not, to the trash. It can be restored for `lifecycle.purge_days`."""

    async def undelete_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> str:
        """Restore the session of this name that was deleted last; returns its state, active or archived."""

    async def purge_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> SessionHead:
        """Remove a deleted session for good, before its time. Of several of one name the one deleted first goes."""

    async def maintain(
        self, now: datetime | str | None = None, only: list[str] | None = None, *, dry_run: bool = False
    ) -> MaintenanceReport:
        """Run the tasks that are due, or `only` these; with `dry_run` report them and change nothing. See docs/lifecycle.md."""

    async def validate(self) -> dict[str, Report]:
        """Check every session, also those whose files have another layout; see SessionMemory.validate."""

    async def repair(self) -> dict[str, Report]:
        """Repair every session; see `SessionMemory.repair`."""

    async def doctor(
        self,
        *,
        fix: bool | Iterable[str] = False,
        sessions: list[str] | None = None,
        quick: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> HealthReport:
        """Check the whole store, or some sessions; `fix` repairs what is safe to. See docs/health.md."""

    async def reindex(self, progress: Callable[[str, int], None] | None = None) -> int:
        """Rebuild the index from the files; how many memories it holds. Never needed, never harmful."""

    async def convert(self, to: str, progress: Callable[[str], None] | None = None) -> AsyncMemory:
        """Convert the store to another layout, in place; returns it opened. This one is closed."""

    async def copy_to(
        self, address: str, progress: Callable[[int, int, str, int], None] | None = None
    ) -> StoreCopyReport:
        """Copy everything into the store at another address, which is created if need be; this one is only read."""

    async def push(
        self,
        address: str | None = None,
        sessions: Iterable[str] | None = None,
        *,
        hand_over: bool = False,
        take_over: bool = False,
        forget: bool = False,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> ExchangeReport:
        """Send sessions to the store at an address, or all that this store writes; without an address what waits in the outbox."""

    async def pull(
        self,
        address: str,
        sessions: Iterable[str] | None = None,
        *,
        take_over: bool = False,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> ExchangeReport:
        """Take sessions from the store at an address, or all that this store does not write; here they are copies."""

    async def export(
        self,
        path: str | os.PathLike[str] | None = None,
        format: str | None = None,
        *,
        anonymise: Placeholders | None = None,
        restore: Placeholders | None = None,
        agents: bool = False,
        force: bool = False,
    ) -> str:
        """Write all sessions into one file and return its path, or return the text if there is no path."""

    async def import_(
        self,
        source: str | bytes | os.PathLike[str],
        format: str | None = None,
        session: str | None = None,
        *,
        restore: Placeholders | None = None,
    ) -> list[AsyncSessionMemory]:
        """Take in what `export` wrote: a path, or the text itself. Returns the new sessions."""

    async def redact(self, *, preview: bool = False, reason: str | None = None) -> list[RedactionReport]:
        """Take secrets out of what is already stored, history included; one report for each session that has some."""

    async def sync(self) -> None:
        """With durability `interval`: do not wait for the interval."""

    async def close(self) -> None:
        """Sync what is not yet synced, renew figures and overviews of sessions written here, and close. Safe to call twice."""

    async def __aenter__(self) -> AsyncMemory: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class AsyncSessionMemory:
    """One session of a store, from `AsyncMemory.create_session` or `AsyncMemory.session`."""

    @property
    def id(self) -> str: ...
    @property
    def memory(self) -> AsyncMemory: ...
    @property
    def redacted(self) -> dict[str, int]: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    @property
    def blocking(self) -> SessionMemory: ...
    async def info(self) -> SessionInfo:
        """Who takes part, in which project, since when."""

    async def folder(self) -> str:
        """Where the session is stored: its folder, for a store in files."""

    async def written(self) -> datetime:
        """When a memory was last written in it, by the memories' own times; without any, when it was created."""

    async def config(self) -> Config:
        """The settings that hold here: the store's, and above them the session's own."""

    async def set_config(self, name: str, value: Any) -> None:
        """Change a setting of this session, checked first; None removes it. It holds for whoever opens the store next."""

    async def change_info(self, **changes: Any) -> SessionInfo:
        """Change the session's metadata: user, agents, project, tags, context; `title` is in the context, None removes it."""

    async def add(
        self, type: str | Mapping[str, Any], data: Mapping[str, Any] | str | None = None, **fields: Any
    ) -> Any:
        """Add a memory of any type: `add("decision", {"decision": "Use OAuth", "tags": ["auth"]})`, or all in one object."""

    async def add_turn(
        self,
        role: str | Mapping[str, Any] | ClientObject,
        content: str | Sequence[Any] | Mapping[str, Any] | ClientObject | None = None,
        **fields: Unpack[TurnFields],
    ) -> Turn:
        """Add a turn of a conversation; `role` is user, assistant, system, tool or an agent's name."""

    async def add_decision(self, decision: str | Mapping[str, Any], **fields: Unpack[DecisionFields]) -> Decision:
        """Add a decision: `add_decision("Use OAuth 2.0", rationale="…", author="architect", tags=["auth"])`."""

    async def add_finding(self, finding: str | Mapping[str, Any], **fields: Unpack[FindingFields]) -> Finding:
        """Add a finding: `add_finding("No MFA required", severity="critical", author="veritas")`."""

    async def add_preference(
        self, key: str | Mapping[str, Any] | None = None, value: Any = None, **fields: Unpack[PreferenceFields]
    ) -> Preference:
        """Add a preference; the same `key` again updates it: `add_preference("response_style", "concise")`."""

    async def add_artifact(
        self, name: str | Mapping[str, Any] | None = None, content: str | None = None, **fields: Unpack[ArtifactFields]
    ) -> Artifact:
        """Add something that was made: `add_artifact("report.md", "# Report …")`; or only its `path`."""

    async def add_learning(self, learning: str | Mapping[str, Any], **fields: Unpack[LearningFields]) -> Learning:
        """Add a pattern that an agent learned."""

    async def update_agent_state(self, agent: str, state: Any, **fields: Unpack[CommonFields]) -> AgentState:
        """Replace what an agent knows about its own work; earlier states stay in its history."""

    async def add_many(self, items: Iterable[tuple[str, Mapping[str, Any] | str]]) -> list[Record]:
        """Add many memories with one sync per file. All are checked before the first is written."""

    def transaction(self) -> AsyncTransaction:
        """Several writes that become visible together or not at all; an exception inside rolls back."""

    async def update(
        self, id: Any, expected_revision: int | None = None, *, by: str | None = None, **changes: Any
    ) -> Any:
        """Change fields of a memory; None removes one. With `expected_revision`, only if nobody changed it since."""

    async def resolve(
        self,
        id: Any,
        resolution: Any = None,
        *,
        by: str | None = None,
        status: str = "resolved",
        expected_revision: int | None = None,
        **fields: Any,
    ) -> Any:
        """Close a finding or a decision: `resolve("FIND-0001", "MFA added", by="user")`."""

    async def relate(self, source: Any, target: Any = None, kind: str = "relates_to", *, by: str | None = None) -> Any:
        """Relate two memories: `relate("DEC-0002", "FIND-0001", "resolves")`; the target may be `session/ID`."""

    async def unrelate(self, source: Any, target: Any, kind: str = "relates_to", *, by: str | None = None) -> Any:
        """Remove a relation: the opposite of `relate`. Nothing is written if there is none."""

    async def pin(self, id: Any, *, by: str | None = None) -> Any:
        """Keep a memory from fading."""

    async def unpin(self, id: Any, *, by: str | None = None) -> Any:
        """Let a memory fade again."""

    async def mute(self, id: Any, *, by: str | None = None) -> Any:
        """Turn a memory off for recall: hooks, contexts and digests do not tell it; searches find it."""

    async def unmute(self, id: Any, *, by: str | None = None) -> Any:
        """Turn a memory on for recall again."""

    async def get(self, id: Any) -> Record:
        """The memory with this id. Raises MemoryNotFound, also for a deleted one. It counts as use; `find` does not."""

    async def find(self, id: Any) -> Record | None:
        """The memory with this id, deleted ones too; None if there never was one."""

    async def records(
        self, type: str | None = None, *, last: int | None = None, include_deleted: bool = False
    ) -> Records:
        """All memories, or those of one type, oldest first; `last=20` gives the newest 20 without reading a large session."""

    async def history(self, id: Any) -> list[dict[str, Any]]:
        """What happened to a memory, oldest first: revision, op, at, by, and each field's value before and after."""

    async def conflicts(self, id: Any = None) -> list[ConcurrentChange]:
        """The memories, or this one, with fields that two clones changed to different values; `update` with the right value settles one."""

    async def as_of(self, time: datetime | str) -> Snapshot:
        """The session as it was at a time, from the files alone."""

    async def stats(self) -> Stats:
        """Figures: counts by type, bytes by file, how full it is, first and last write."""

    async def missing(self, id: str) -> MemoryNotFound:
        """The error for an id that is not there, with the way to get it back if there is one."""

    async def query(self, text: str | Mapping[str, Any] | None = None, **options: Unpack[QueryOptions]) -> Hits:
        """Find memories of this session, best first; see `Memory.query` for the options."""

    def watch(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        pause: float = 0.1,
        **options: Unpack[WatchOptions],
    ) -> AsyncWatch:
        """Yield memories that match as any process writes them; for ever, or for so many seconds."""

    async def by_topic(self, topic: str, **options: Unpack[TopicOptions]) -> Hits:
        """Memories about a topic: those that name it, and those with the tag."""

    async def by_agent(self, agent: str, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of one author. The session's user and `user` are the same author, as in `agents`."""

    async def by_type(self, type: str, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of one type."""

    async def by_time_range(self, start: Any, end: Any = None, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of a time: two times, or one range such as "last week"."""

    async def find_similar(self, what: Any, **options: Unpack[QueryOptions]) -> Hits:
        """Memories similar to a text, or to the memory with an id; best first."""

    async def find_related(
        self, id: Any, depth: int = 1, kinds: str | list[str] | None = None, **options: Unpack[RelatedOptions]
    ) -> list[Related]:
        """Memories that this one points to or that point to it, up to so many steps away, nearest first."""

    async def priority(self, id: Any, at: Any = None) -> float:
        """The priority of a memory, 0 to 1, now or at a time: `session.priority("DEC-0001", at="2026-12-24")`."""

    async def topics(self) -> Topics:
        """Topics and tags, the weightiest first."""

    async def timeline(self, by: str = "hour", *, time: Any = None, since: Any = None, until: Any = None) -> Timeline:
        """What happened when; `time` is a range such as "last week"."""

    async def agents(self) -> Participants:
        """Who took part, and with what."""

    async def summarize(self) -> SessionSummary:
        """Decisions, open findings, preferences and topics on a page. No model is needed."""

    async def context(
        self,
        agent: str | None = None,
        task: str | None = None,
        topic: str | None = None,
        *,
        tags: str | Sequence[str] | None = None,
        project: str | None = None,
        user: str | None = None,
        session: str | AsyncSessionMemory | None = None,
        max_tokens: int = 1500,
        counter: Callable[[str], int] | None = None,
        turns: int = 20,
        at: datetime | str | None = None,
        track_access: bool = True,
    ) -> Context:
        """What an agent should have in its prompt now, best first, within so many tokens; see `Memory.context`."""

    async def get_context(self, limit: int = 20) -> list[Record]:
        """The memories with the highest priority, so many of them. `context` gives text for a prompt instead."""

    async def agent(self, name: str) -> AsyncAgentMemory:
        """This session as one agent may see it; what it writes is attributed to it."""

    async def party(self, agents: Iterable[str]) -> AsyncParty:
        """Several agents in one session: what they find is merged, what they decide keeps who said what."""

    async def delete(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        echoes: bool = False,
        **criteria: Unpack[Criteria],
    ) -> Any:
        """Hide memories at once; `restore` brings them back until they are purged."""

    async def restore(
        self,
        id: Any = None,
        reason: str | None = None,
        *,
        by: str | None = None,
        preview: bool = False,
        echoes: bool = False,
        **criteria: Unpack[Criteria],
    ) -> Any:
        """Bring memories back, deleted ones and those that compaction moved. With one id the record is returned, else a"""

    async def deleted(self) -> list[Trashed]:
        """The trash: who deleted what, when and why, and from when on a purge may take it; the latest first."""

    async def purge(
        self,
        *,
        older_than: float | datetime | str | None = None,
        by: str | None = None,
        now: datetime | str | None = None,
        evidence: Evidence | None = None,
    ) -> Purged:
        """Remove for good what has been in the trash long enough; see `Memory.purge`."""

    async def erase(
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

    async def session_state(self) -> SessionState:
        """The session's state and its next transition."""

    async def state(self) -> str:
        """created, active, idle or decaying; an archived or deleted session cannot be open."""

    async def next_step(self) -> Transition:
        """What happens to it next by itself, when and why."""

    async def size_report(self) -> SizeReport:
        """How full it is, what takes the room, when it will be full, and what compaction could free."""

    async def compact(
        self, target: str | int | None = None, *, dry_run: bool = False, summariser: Summariser | None = None
    ) -> CompactionReport:
        """Move faded memories, old turns and settled findings to the cold segment beside the session."""

    async def archived(self) -> list[ColdMemory]:
        """The memories in the cold segment: id, type, when they were written and moved, and why."""

    async def restore_archived(self, *ids: Any) -> Record | None:
        """Bring memories back from the cold segment, with their ids and histories; the last one is returned."""

    async def tidy(self, *, dry_run: bool = False) -> TidyReport:
        """Fold changes into the entries that they change, so that the files of the `markdown` layout show what holds."""

    async def duplicates(self, *, threshold: float | None = None) -> list[Duplicates]:
        """Groups of findings and preferences that say the same; nothing is changed."""

    async def merge(self, group: Duplicates, *, by: str | None = None) -> Record:
        """Let the first memory of a group stand for all, in one transaction; the others go to the trash."""

    async def proposals(self, limit: int | None = None) -> list[Proposal]:
        """Sentences of turns that look like a decision, finding, learning or preference nobody has written down, the newest first."""

    async def keep_proposal(
        self, turn: Any, type: str | None = None, text: str | None = None, *, by: str | None = None
    ) -> Record:
        """Write the memory that a turn proposes, with the turn as its source (`turn_ref`)."""

    async def drop_proposals(self, *turns: Any) -> None:
        """Propose nothing more from these turns, given by id; of a proposal, this one. `keep_proposal` still keeps one."""

    async def reopen_proposal(self, proposal: Proposal, kept: Record | None = None, *, by: str | None = None) -> None:
        """Undo `drop_proposals` of a proposal or, with the memory that it became, `keep_proposal`; that one goes to the trash."""

    async def validate(self) -> Report:
        """Read everything, check every signature, id and reference; change nothing."""

    async def repair(self) -> Report:
        """Repair what can be repaired, quarantine the rest, and report what was done."""

    async def export(
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

    async def redact(self, *, preview: bool = False, reason: str | None = None) -> list[RedactionReport]:
        """Take secrets out of what is already stored, history included; see `Memory.redact`."""

    async def anonymised(self, id: str | None = None, **options: Unpack[AnonymisationOptions]) -> AsyncSessionMemory:
        """A copy of the session in the same store, in which people, projects and places have placeholders."""

    async def anonymised_record(self, id: str, **options: Unpack[AnonymisationOptions]) -> dict[str, Any]:
        """The fields of one memory with placeholders, to show it to others. Nothing is stored."""

    def __aiter__(self) -> AsyncIterator[Record]: ...

class AsyncAgentMemory:
    """One session of a store as one agent may see it."""

    @property
    def agent(self) -> str | None: ...
    @property
    def id(self) -> str: ...
    @property
    def blocking(self) -> AgentMemory: ...
    async def info(self) -> SessionInfo:
        """Who takes part in the session, in which project, since when."""

    async def conversation_context(self, turns: int = 20) -> list[Record]:
        """The last turns, oldest first."""

    async def relevant_decisions(
        self, topic: str, *, limit: int = ..., **options: Unpack[RelevantOptions]
    ) -> list[Record]:
        """Decisions about a topic, in any session, best first; those that were overturned are left out."""

    async def relevant_findings(
        self, topic: str, *, limit: int = ..., **options: Unpack[RelevantOptions]
    ) -> list[Record]:
        """Findings about a topic, in any session, best first; those that are settled are left out."""

    async def user_preferences(self, topic: str | None = None) -> list[Record]:
        """Preferences of this session and those for all sessions; of one key the session's own. With a topic: about it."""

    async def state(self) -> AgentState | None:
        """The agent's own state in this session, if it has one."""

    async def working_memory(self) -> list[Record]:
        """What is the agent's alone: its state and its private memories."""

    async def context(self, task: str | None = None, topic: str | None = None, **options: Any) -> Context:
        """What belongs into the agent's prompt now; see `Memory.context`."""

    async def get(self, id: Any) -> Record:
        """The memory with this id. One that the agent may not see does not exist for it."""

    async def find(self, id: Any) -> Record | None:
        """The memory with this id, deleted ones too; None if there is none for this agent."""

    async def records(
        self, type: str | None = None, *, last: int | None = None, include_deleted: bool = False
    ) -> Records:
        """All memories, or those of one type, oldest first."""

    async def history(self, id: Any) -> list[dict[str, Any]]:
        """What happened to a memory. Revisions that were written while it was hidden are named, without their content."""

    async def as_of(self, time: datetime | str) -> Snapshot:
        """The session as it was at a time: what the agent may see of it now and could see then."""

    async def deleted(self) -> list[Trashed]:
        """The trash."""

    async def duplicates(self, *, threshold: float | None = None) -> list[Duplicates]:
        """Groups of findings and preferences that say the same; nothing is changed."""

    async def export(
        self, path: str | os.PathLike[str] | None = None, format: str | None = None, *, force: bool = False
    ) -> str:
        """Write what the agent may see into one file and return its path, or return the text if there is no path."""

    async def query(self, text: str | Mapping[str, Any] | None = None, **options: Unpack[QueryOptions]) -> Hits:
        """Find memories that the agent may see, best first; see `Memory.query` for the options."""

    def watch(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        pause: float = 0.1,
        **options: Unpack[WatchOptions],
    ) -> AsyncWatch:
        """Yield memories that match as any process writes them; for ever, or for so many seconds."""

    async def by_topic(self, topic: str, **options: Unpack[TopicOptions]) -> Hits: ...
    async def by_agent(self, agent: str, **options: Unpack[QueryOptions]) -> Hits: ...
    async def by_type(self, type: str, **options: Unpack[QueryOptions]) -> Hits: ...
    async def by_time_range(self, start: Any, end: Any = None, **options: Unpack[QueryOptions]) -> Hits: ...
    async def find_similar(self, what: Any, **options: Unpack[QueryOptions]) -> Hits:
        """Memories similar to a text, or to the memory with an id; best first."""

    async def find_related(
        self, id: Any, depth: int = 1, kinds: str | list[str] | None = None, **options: Unpack[RelatedOptions]
    ) -> list[Related]:
        """Memories that this one points to or that point to it, nearest first."""

    async def priority(self, id: Any, at: Any = None) -> float:
        """The priority of a memory, 0 to 1, now or at a time."""

    async def topics(self) -> Topics: ...
    async def timeline(
        self, by: str = "hour", *, time: Any = None, since: Any = None, until: Any = None
    ) -> Timeline: ...
    async def agents(self) -> Participants: ...
    async def summarize(self) -> SessionSummary: ...
    async def add(
        self, type: str | Mapping[str, Any], data: Mapping[str, Any] | str | None = None, **fields: Any
    ) -> Any:
        """Add a memory of any type; see `SessionMemory.add`."""

    async def add_turn(
        self,
        role: str | Mapping[str, Any] | ClientObject,
        content: str | Sequence[Any] | Mapping[str, Any] | ClientObject | None = None,
        **fields: Unpack[TurnFields],
    ) -> Turn: ...
    async def add_decision(self, decision: str | Mapping[str, Any], **fields: Unpack[DecisionFields]) -> Decision: ...
    async def add_finding(self, finding: str | Mapping[str, Any], **fields: Unpack[FindingFields]) -> Finding: ...
    async def add_preference(
        self, key: str | Mapping[str, Any] | None = None, value: Any = None, **fields: Unpack[PreferenceFields]
    ) -> Preference: ...
    async def add_artifact(
        self, name: str | Mapping[str, Any] | None = None, content: str | None = None, **fields: Unpack[ArtifactFields]
    ) -> Artifact: ...
    async def add_learning(self, learning: str | Mapping[str, Any], **fields: Unpack[LearningFields]) -> Learning: ...
    async def update_state(self, state: Any, **fields: Unpack[CommonFields]) -> AgentState:
        """Replace what the agent knows about its own work; others do not see it."""

    async def update_agent_state(self, agent: str, state: Any, **fields: Unpack[CommonFields]) -> AgentState: ...
    async def add_many(self, items: Iterable[tuple[str, Mapping[str, Any] | str]]) -> list[Record]:
        """Add many memories with one sync per file; see `SessionMemory.add_many`."""

    def transaction(self) -> AsyncTransaction:
        """Several writes that become visible together or not at all."""

    async def update(
        self, id: Any, expected_revision: int | None = None, *, by: str | None = None, **changes: Any
    ) -> Any:
        """Change fields of a memory; see `SessionMemory.update`."""

    async def resolve(
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

    async def relate(
        self, source: Any, target: Any = None, kind: str = "relates_to", *, by: str | None = None
    ) -> Any: ...
    async def unrelate(self, source: Any, target: Any, kind: str = "relates_to", *, by: str | None = None) -> Any: ...
    async def pin(self, id: Any, *, by: str | None = None) -> Any: ...
    async def unpin(self, id: Any, *, by: str | None = None) -> Any: ...
    async def mute(self, id: Any, *, by: str | None = None) -> Any: ...
    async def unmute(self, id: Any, *, by: str | None = None) -> Any: ...
    async def delete(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any:
        """Hide a memory at once; `restore` brings it back."""

    async def restore(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any: ...
    def __aiter__(self) -> AsyncIterator[Record]: ...

class AsyncGlobalMemory:
    """The memories for all sessions of a store."""

    @property
    def blocking(self) -> GlobalMemory: ...
    async def exists(self) -> bool:
        """Whether anything was ever written to it."""

    async def session(self) -> AsyncSessionMemory:
        """The session `global`; created on first use."""

    async def preferences(self) -> list[Preference]:
        """Preferences for all sessions, without the profile."""

    async def patterns(self) -> list[Learning]:
        """Learnings for all sessions."""

    async def profile(self) -> dict[str, Any]:
        """The user's profile."""

    async def set_preference(self, key: str, value: Any, **fields: Any) -> Preference:
        """Set a preference for all sessions; the same key again updates it."""

    async def set_profile(self, key: str, value: Any, **fields: Any) -> Preference:
        """Set a fact of the user's profile."""

    async def add_pattern(self, learning: str, **fields: Any) -> Learning:
        """Add a learning for all sessions."""

    async def promote(self, what: Record | str, *, by: str | None = None, **fields: Any) -> Record:
        """Copy a memory of a session to all sessions: a preference stays one, other types become a learning."""

    async def demote(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Record:
        """Delete a memory from all sessions; `session.restore` restores it."""

    async def undo(self, id: Any, *, by: str | None = None) -> Record:
        """Revert the last step: the last change, or the promotion if there was no change since."""

class AsyncAnalytics:
    """Statistics, each part computed when it is first asked for: `await (await memory.analytics()).usage()`."""

    @property
    def now(self) -> datetime: ...
    @property
    def sessions(self) -> list[str] | None: ...
    @property
    def blocking(self) -> Analytics: ...
    async def usage(self) -> usage.Usage:
        """What is used: most, last, never; by type, author, tag and session."""

    async def topics(self) -> Trends:
        """Topics and tags by week or month: rising, new, falling, quiet, steady."""

    async def impact(self) -> impact.Impact:
        """What followed from each decision."""

    async def forecast(self) -> forecast.Forecast:
        """When memories fade, sessions are full or change their state, and the trash is purged."""

    async def decay(self) -> decay_rates.DecayAdvice:
        """Decay settings that the use of memories suggests, with the evidence."""

    async def problems(self) -> list[Problem]:
        """Entries that could not be read, in the parts made so far."""

    async def to_dict(self, parts: Sequence[str] = ...) -> dict[str, Any]:
        """These parts as plain values; parts that were not made yet are made."""

class AsyncParty:
    """Agents that share a session."""

    @property
    def agents(self) -> list[str]: ...
    @property
    def session(self) -> AsyncSessionMemory: ...
    @property
    def blocking(self) -> Party: ...
    async def say(self, agent: str, content: str, **fields: Any) -> Turn:
        """Add a turn to the conversation of the party."""

    async def context(self, agent: str, task: str | None = None, topic: str | None = None, **options: Any) -> Context:
        """What belongs into this agent's prompt now."""

    async def add_finding(self, agent: str, finding: str, **fields: Any) -> Finding:
        """Add a finding of an agent; if it is merged with a near-duplicate, the merged finding is returned."""

    async def propose(self, agent: str, decision: str, said: str | None = None, **fields: Any) -> Decision:
        """Propose a decision; others comment on it, then one agent concludes it."""

    async def comment(self, agent: str, decision: Any, said: str, *, agrees: bool | None = None) -> Decision:
        """Add an agent's comment to a proposed decision. Concurrent comments are all kept."""

    async def conclude(self, agent: str, decision: Any, *, status: str = ..., **fields: Any) -> Decision:
        """Accept a decision, or reject it with `status="rejected"`; its inputs are kept."""

    async def decide(
        self, decision: str, inputs: Mapping[str, str], *, by: str, disagreed: Iterable[str] = (), **fields: Any
    ) -> Decision:
        """Add a decision with the input of each agent and the agents that disagreed."""

    def __getitem__(self, agent: str) -> AsyncAgentMemory: ...
    def __iter__(self) -> Iterator[AsyncAgentMemory]: ...

class AsyncTransaction:
    """Writes that are stored together when the `async with` block ends; see `Transaction` for what they return."""

    @property
    def blocking(self) -> Transaction: ...
    async def commit(self) -> None:
        """Store all writes; called by the end of the `with` block."""

    async def rollback(self) -> None:
        """Discard all writes."""

    async def add(
        self, type: str | Mapping[str, Any], data: Mapping[str, Any] | str | None = None, **fields: Any
    ) -> Any:
        """Add a memory of any type: `add("decision", {"decision": "Use OAuth", "tags": ["auth"]})`, or all in one object."""

    async def add_turn(
        self,
        role: str | Mapping[str, Any] | ClientObject,
        content: str | Sequence[Any] | Mapping[str, Any] | ClientObject | None = None,
        **fields: Unpack[TurnFields],
    ) -> Turn:
        """Add a turn of a conversation; `role` is user, assistant, system, tool or an agent's name."""

    async def add_decision(self, decision: str | Mapping[str, Any], **fields: Unpack[DecisionFields]) -> Decision:
        """Add a decision: `add_decision("Use OAuth 2.0", rationale="…", author="architect", tags=["auth"])`."""

    async def add_finding(self, finding: str | Mapping[str, Any], **fields: Unpack[FindingFields]) -> Finding:
        """Add a finding: `add_finding("No MFA required", severity="critical", author="veritas")`."""

    async def add_preference(
        self, key: str | Mapping[str, Any] | None = None, value: Any = None, **fields: Unpack[PreferenceFields]
    ) -> Preference:
        """Add a preference; the same `key` again updates it: `add_preference("response_style", "concise")`."""

    async def update_agent_state(self, agent: str, state: Any, **fields: Unpack[CommonFields]) -> AgentState:
        """Replace what an agent knows about its own work; earlier states stay in its history."""

    async def update_state(self, state: Any, **fields: Unpack[CommonFields]) -> AgentState:
        """Replace the author's own state."""

    async def add_artifact(
        self, name: str | Mapping[str, Any] | None = None, content: str | None = None, **fields: Unpack[ArtifactFields]
    ) -> Artifact:
        """Add something that was made: `add_artifact("report.md", "# Report …")`; or only its `path`."""

    async def add_learning(self, learning: str | Mapping[str, Any], **fields: Unpack[LearningFields]) -> Learning:
        """Add a pattern that an agent learned."""

    async def update(
        self, id: Any, expected_revision: int | None = None, *, by: str | None = None, **changes: Any
    ) -> Any:
        """Change fields of a memory; None removes one. With `expected_revision`, raises Conflict if the revision differs."""

    async def resolve(
        self,
        id: Any,
        resolution: Any = None,
        *,
        by: str | None = None,
        status: str = "resolved",
        expected_revision: int | None = None,
        **fields: Any,
    ) -> Any:
        """Close a finding or a decision: `resolve("FIND-0001", "MFA added", by="user")`."""

    async def relate(self, source: Any, target: Any = None, kind: str = "relates_to", *, by: str | None = None) -> Any:
        """Relate two memories: `relate("DEC-0002", "FIND-0001", "resolves")`; the target may be `session/ID`."""

    async def unrelate(self, source: Any, target: Any, kind: str = "relates_to", *, by: str | None = None) -> Any:
        """Remove a relation: the opposite of `relate`. Nothing is written if there is none."""

    async def pin(self, id: Any, *, by: str | None = None) -> Any:
        """Keep a memory from fading."""

    async def unpin(self, id: Any, *, by: str | None = None) -> Any:
        """Let a memory fade again."""

    async def mute(self, id: Any, *, by: str | None = None) -> Any:
        """Turn a memory off for recall."""

    async def unmute(self, id: Any, *, by: str | None = None) -> Any:
        """Turn a memory on for recall again."""

    async def delete(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any:
        """Hide a memory at once; `restore` brings it back."""

    async def restore(self, id: Any, reason: str | None = None, *, by: str | None = None) -> Any:
        """Bring a deleted memory back."""

    async def __aenter__(self) -> AsyncTransaction: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

class AsyncWatch:
    """An asynchronous iterator of hits. No thread waits: the store is looked at in short calls."""

    def __aiter__(self) -> AsyncWatch: ...
    async def __anext__(self) -> Hit: ...
    async def __aenter__(self) -> AsyncWatch: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left to end."""

class Opening:
    """A store that is being opened: `memory = await aio.open(…)`, or `async with aio.open(…) as memory:`."""

    def __await__(self) -> Generator[Any, None, AsyncMemory]: ...
    async def __aenter__(self) -> AsyncMemory: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
