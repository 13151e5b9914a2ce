"""A store: open it, list and create sessions, search all of them, archive, maintain, close it."""

from __future__ import annotations

import os
from itertools import count, islice

import smp_memory
from smp_memory import analytics, context, exchange, lifecycle, search, write
from smp_memory.config.config_file import check_setting
from smp_memory.discovery import about_others, find_root, is_store, register_opener
from smp_memory.errors import (
    InvalidConfig,
    InvalidFormat,
    InvalidRecord,
    MemoryNotFound,
    NotAllowed,
    SessionExists,
    SessionNotFound,
    SMPError,
    StorageError,
    done_before_failure,
    from_os_error,
    maps_errors,
)
from smp_memory.files.system import RealSystem
from smp_memory.import_lock import loading
from smp_memory.model import ids
from smp_memory.model.design_fields import translate_arguments
from smp_memory.model.session_info import (
    ARCHIVED,
    DEFAULT_SESSION,
    DELETED,
    GLOBAL_SESSION,
    GLOBAL_SETTINGS,
    SessionInfo,
    names_of,
)
from smp_memory.model.times import Clock, parse, to_moment, to_text
from smp_memory.model.types import kind_of
from smp_memory.observe.incomplete import each_existing, report_once, report_settings
from smp_memory.observe.telemetry import observed
from smp_memory.privacy.settings import checked, clean_metadata, log_metadata_redaction
from smp_memory.scope import Scope, admit, file_features, join_workers, start_worker, unindexed_memories
from smp_memory.store.opening import examine, open_store, ram
from smp_memory.trust import note_setting, note_settings, trust_as_it_is, trust_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Any, Unpack

    from smp_memory.agents.agent_memory import AgentMemory
    from smp_memory.analytics.forecast import DecayCurve
    from smp_memory.analytics.report import Analytics
    from smp_memory.config.settings import Config
    from smp_memory.context.builder import Context
    from smp_memory.exchange.replication import ExchangeReport
    from smp_memory.exchange.store_copy import StoreCopyReport
    from smp_memory.files.system import System
    from smp_memory.global_memory import GlobalMemory
    from smp_memory.health.examination import Examination, HealthReport
    from smp_memory.lifecycle.clock_trust import Evidence
    from smp_memory.lifecycle.maintenance import MaintenanceReport
    from smp_memory.lifecycle.review import Proposal
    from smp_memory.lifecycle.session_states import SessionState
    from smp_memory.lifecycle.undo import LastChange
    from smp_memory.model.candidates import Hit, Hits, Related
    from smp_memory.model.deletions import Purged, Receipt, Trashed
    from smp_memory.model.options import (
        Criteria,
        QueryOptions,
        RecallOptions,
        RelatedOptions,
        TopicOptions,
        WatchOptions,
    )
    from smp_memory.model.previews import Preview
    from smp_memory.model.reports import Problem, Report
    from smp_memory.model.session_info import SessionHead
    from smp_memory.model.storage_reports import RedactionReport
    from smp_memory.overview.activity import Participants, Timeline
    from smp_memory.overview.summary import SessionSummary
    from smp_memory.overview.topics import Topics
    from smp_memory.privacy.anonymisation import Placeholders
    from smp_memory.search.explanation import Explanation
    from smp_memory.session import SessionMemory
    from smp_memory.store.port import SessionStore, Store


_MAINTENANCE_CHECK_SECONDS = 6 * 3600


def open_memory(
    where: str | os.PathLike[str] | None = None,
    *,
    layout: str | None = None,
    config: Mapping[str, Any] | None = None,
    clock: Callable[[], datetime] | None = None,
    system: System | None = None,
    create: bool = True,
    trust: bool = True,
    embed: Callable[[list[str]], Any] | None = None,
) -> Memory:
    """Open a store, creating it if need be.

    where   a folder; nothing: the store in the nearest `.bmad/` upwards; `:memory:`: one that lives in this process.
            `scheme://…`: a store of the backend for the scheme (`smp_memory.store.opening`).
    layout  jsonl (default), markdown, single or log; an existing store knows its own.
    config  settings above those in the store's config.json, e.g. `{"durability": "os"}`.
    clock   returns the time as an aware datetime, for tests and imports.
    create  False: a folder without a store is StoreNotFound, and nothing is created.
    trust   False: naming a folder does not count as trusting its store; hooks use trusted stores only (`smp trust`).
    embed   an embedding model: a function that returns a vector for each text of a list; see docs/finding.md.
    """
    if not (where is None or hasattr(where, "__fspath__") or type(where) is str) or "\0" in str(where):
        raise InvalidFormat(f"where: must be a folder, not {write.validation.quoted(where)}.", field="where")
    if config is not None and not hasattr(config, "items"):
        raise InvalidConfig(
            f"config: must be a dictionary of settings, not {write.validation.quoted(config)}.", field="config"
        )
    if clock is not None and not callable(clock):
        raise InvalidConfig("clock: must be callable and return an aware datetime.", field="clock")
    if embed is not None:
        config = {**(config or {}), "search.embedder": embed}
    if where is not None and str(where) == ":memory:":
        return Memory("/memory", layout, config, clock, system or ram(), create)
    if where is not None and ids.scheme_of(str(where)):
        return Memory(str(where), layout, config, clock, system, create, trust=trust)
    if where == "":
        raise InvalidFormat("where: must not be empty; give a folder, such as '.', or nothing at all.", field="where")
    found_as = root = find_root(layout) if where is None else os.path.abspath(os.fspath(where))
    if os.path.islink(root) and (where is not None or is_store(root)):
        root = os.path.realpath(root)  # whoever names a link means the folder; below it no link is followed
    trust = trust and where is not None  # one that was only found may have come with a repository
    memory = Memory(root, layout, config, clock, system or RealSystem(root), create, found_as, trust=trust)
    if where is None and any(said := about_others(found_as)):
        report_once(memory.store.state, "other-stores", " ".join(said))  # they are not read
    return memory


@maps_errors
class Memory:
    """A store of sessions. Threads may share it; so may any number of processes, each with its own."""

    _is_limited = False  # True: seen by a client of a server, see `seen_through`

    def __init__(
        self,
        root: str,
        layout_name: str | None,
        config: Mapping[str, Any] | None,
        clock: Callable[[], datetime] | None,
        system: System | None,
        create: bool = True,
        found_as: str = "",
        *,
        trust: bool = False,
    ) -> None:
        self.root = ids.without_password(root)
        self._found_as = found_as or self.root
        self._system = system
        self._arguments = {name: value for name, value in (config or {}).items() if name != "layout"}
        self._store, is_new = open_store(root, layout_name, config, system, admit, create=create)
        files = self._store.files
        if files is not None:
            files.clock = clock
        if trust or is_new:
            trust_named(self._store, self._found_as, is_new=is_new)
        self.config: Config = self._store.config
        self.scope = self._whole = Scope(self._store, None, self.config, Clock(clock))
        if self.config.unused:
            report_once(self._store.state, "unused-settings", self.config.unused_notice())
        report_settings(self.config.notices())
        for name in files.sessions_with_deletion_records() if files is not None else ():
            lifecycle.open_session.open_session(self.scope, name)  # hides what another program has deleted
        if files is not None and files.finish_erasure():
            context.digest.renew_digests(self.scope)
        if clock is None and (system is None or type(system) is RealSystem):
            self._maintain_in_background()

    def _maintain_in_background(self) -> None:
        """Run cheap tasks that are due in a thread if the last check was six hours ago, as `git gc --auto` does."""
        store, state = self._store, self._store.state
        checked = state.modified_at("maintenance.json") or store.configured_at()
        if checked is None or not self.config["maintenance.auto"]:
            return
        if 0 <= self.now().timestamp() - checked < _MAINTENANCE_CHECK_SECONDS:
            return
        if not state.is_trusted():
            return  # a store that came with a repository is not maintained before it is trusted
        import threading

        task = lifecycle.maintenance.run_cheap_tasks
        start_worker(store, threading.Thread(target=task, args=(self.scope,), name="smp-maintain", daemon=True))

    @property
    def layout(self) -> str:
        """The file layout: jsonl, markdown, single or log."""
        return self._store.layout_name

    @property
    def store(self) -> Store:
        """The store below, for tools that need more than this class offers."""
        return self._store

    def now(self) -> datetime:
        """The time by the store's clock."""
        return self.scope.now()

    def set_config(self, name: str, value: Any) -> None:
        """Change a setting in config.json, checked first; None removes it. It holds for whoever opens the store next.

        None also removes a key that SMP does not know, or one with a bad value; for the layout it writes the one that was recognised.
        """
        if value is not None:
            check_setting(name, value)
            if name in ("layout", "format"):
                raise InvalidConfig(f"The setting '{name}' cannot be set; `smp convert` changes the layout.", key=name)
        self._store.write_setting(name, value)
        note_setting(self._store, "", name, value)

    # -- trust

    @property
    def is_trusted(self) -> bool:
        """Whether this user made this store, opened it by its path, or said `smp trust`. Hooks use no other."""
        return self._store.state.is_trusted(self._found_as)

    def trust(self) -> None:
        """Let hooks recall from this store and record to it, for this user on this machine, with its settings as they are now.

        Settings that were held before count when the store is opened next.
        """
        try:
            trust_as_it_is(self._store, self._found_as)
        except OSError as error:
            raise from_os_error(error, self._store.state.folder, "trusting the store") from error

    def distrust(self) -> None:
        """Revoke trust and delete this user's index and hook state of the store."""
        self._store.indexer.close()
        self._store.state.distrust()

    def mark_trust_notice_shown(self) -> bool:
        """Note that the user was told that this store is not trusted; True if that was noted before."""
        try:
            return self._store.state.mark_notified()
        except (OSError, SMPError):
            return False

    # -- the short way

    def remember(self, text: str, type: str = "learning", *, session: str = DEFAULT_SESSION, **fields: Any) -> Any:
        """Store a memory in a session, which is made if need be: `memory.remember("Use OAuth 2.0", "decision", author="ada")`.

        The same again returns the memory that is there. `session="global"` stores what holds in all sessions.
        """
        target, kind = self.session(session, create=True), kind_of(type)
        if not fields.keys().isdisjoint(("idempotency_key", "key")) or kind.is_turn or kind.is_named_by_agent:
            return target.add(kind.name, text, **fields)
        digest = ids.sha256_hex(repr((kind.name, text, sorted(fields.items()))).encode("utf-8", "surrogatepass"))[:32]
        for number in count(1):
            record = target.add(kind.name, text, **fields, idempotency_key=f"remember {digest} {number}")
            if not record.deleted and record.revision == 1:
                break  # one that was deleted or changed since does not count
        return record

    # -- sessions

    def create_session(
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
    ) -> SessionMemory:
        """Create a session; what else you say about it (`phase="review"`) is kept as its context."""
        now = self.now()
        given: Any = (id, user, agents, project, tags, config)
        if context or not (id is None or isinstance(id, str)):
            given, context = translate_arguments(given, context)
        id, user, agents, project, tags, config = given
        fields = write.validation.session_fields(user, agents, project, tags, context)
        if id == GLOBAL_SESSION:
            config = {**GLOBAL_SETTINGS, **(config or {})}
        session_id = ids.check(id, "id") if id is not None else ids.new_session_id(now)
        settings = self.config
        if config:
            settings = checked(
                self.config.override_session(config, session_id, strict=True).trusting_stated(session_id)
            )
            settings.own.raise_first()
        fields, removals = clean_metadata(settings, fields)
        if config:
            fields["config"] = write.validation.plain("config", dict(config))
        created_text = to_text(now) if created is None else parse(created, "created")
        info = SessionInfo(session_id, created_text, **fields)
        files = self._store.create(info) if id is not None else self._create_under_free_id(info, now)
        session_id = info.id
        if config:
            note_settings(self._store, session_id, settings.stated_protection(session=True))
        session = smp_memory.SessionMemory(self, lifecycle.open_session.OpenSession(self.scope, files, author))
        session.warnings = write.validation.session_warnings(context)
        session.redacted = log_metadata_redaction(self._store, to_text(now), session_id, author, removals)
        return session

    def _create_under_free_id(self, info: SessionInfo, now: datetime) -> SessionStore:
        """Create it, under another id if its own is taken: of thousands that are made up two may be alike."""
        while True:
            try:
                return self._store.create(info)
            except SessionExists:
                info.id = ids.new_session_id(now)

    def session(self, id: str, *, author: str | None = None, create: bool = False) -> SessionMemory:
        """Open a session; `author` is who writes, unless a write says otherwise. Raises SessionNotFound, or with `create` makes it.

        One that is archived is restored first; `warnings` of the session says so, and so does its first answer. The session `global`,
        whose memories hold in all sessions, is made when it is first opened.
        """
        try:
            opened = lifecycle.open_session.open_session(self.scope, id, author)
        except SessionNotFound:
            if not create and id != GLOBAL_SESSION:
                raise
            try:
                return self.create_session(id, author=author)
            except SessionExists:  # another process has made it meanwhile
                opened = lifecycle.open_session.open_session(self.scope, id, author)
        return smp_memory.SessionMemory(self, opened)

    def opened_session(self, id: str, *, author: str | None = None) -> SessionMemory:
        """The same, but one that is archived stays so: it raises SessionArchived."""
        opened = lifecycle.open_session.open_session(self.scope, id, author, restore=False)
        return smp_memory.SessionMemory(self, opened)

    def sessions(self) -> list[SessionMemory]:
        """All sessions, by id."""
        there = each_existing(names_of(self._store.sessions()), self._store.session)
        opened = lifecycle.open_session.OpenSession
        return [smp_memory.SessionMemory(self, opened(self.scope, files)) for _, files in there]

    def sessions_by_time(self) -> list[tuple[datetime, SessionMemory]]:
        """All sessions with the time of the last write (`SessionMemory.written`), the newest last."""
        writes = lifecycle.session_states.last_writes(self._store)
        found = [(writes[session.id].written, session) for session in self.sessions() if session.id in writes]
        return sorted(found, key=lambda each: (each[0], each[1].id))

    def latest_session(self) -> SessionMemory | None:
        """The session that was written or started last, by the times of memories and uses; None if there is none."""
        last = {
            name: max(filter(None, times)) for name, times in lifecycle.session_states.last_writes(self._store).items()
        }
        own = [each for each in self.sessions() if each.id in last and each.id != GLOBAL_SESSION]  # that one is for all
        return max(own, key=lambda session: (last[session.id], session.id), default=None)

    def get(self, ref: Any) -> Any:
        """A memory by its name across sessions, `session-id/ID`; or a record, as it stands now."""
        name = ref if isinstance(ref, str) else getattr(ref, "ref", None)
        session, _, memory_id = name.partition("/") if isinstance(name, str) else ("", "", "")
        if not memory_id:
            raise InvalidRecord(
                f"ref: {write.validation.quoted(ref)} is not the name of a memory; give session/ID, such as review/DEC-0001.",
                field="ref",
            )
        try:
            return self.session(session).get(memory_id)
        except (MemoryNotFound, SessionNotFound):
            found = unindexed_memories(self._store, [session]).get(session, {}).get(memory_id)
            if found is None:
                raise
            return found.record(session)

    # -- searching

    def query(self, text: str | Mapping[str, Any] | None = None, **options: Unpack[QueryOptions]) -> Hits:
        """Find memories, best first.

        text      words as they come; `"a phrase"`, `prefix*`, `-without`. Any word may match, rare ones count more.
        types, tags, all_tags, not_tags, agents, topic    one or several; a tag finds those below it, too
        time      "last 24 hours", "since monday", "2026-01", ("2026-01-05", "2026-01-10"); or since=, until=
        where     {"severity": "critical", "impact.score": {"greater": 3}}: any field, nested ones with dots
        min_priority, min_importance, min_relevance, min_confidence, confidence, pinned
        references, related_to (with depth and kinds), include_related
        include_decayed, include_archived, include_deleted
        sort      relevance, newest, oldest, priority, importance, severity, access; with `_asc` the other way round; limit, offset
        count_by  type, tag, agent, day, month, session, topic: `hits.counts`; {"field": …, "op": "avg"}: `hits.aggregations`
        topic_in_text  whether a topic may also be a part of the text; True in the layout `single`, where no text also means sort="priority"
        mode      default, weighted or product;  at: the time of the query;  timeout in seconds
        """
        return search.path.query(self.scope, text, options)

    def recall(self, text: str, *, limit: int = 5, **options: Unpack[RecallOptions]) -> Hits:
        """What is known about a question, best first: `query` without what is hardly relevant; nothing, if nothing is."""
        hits = search.path.query(self.scope, text, {**options, "limit": limit})
        least, floor = options.get("min_relevance"), self.config["recall.min_pointer"]
        hits[:] = search.path.relevant_hits(hits, text, options.get("sort"), floor, least)
        return hits

    def explain(
        self,
        ref: Any,
        text: str | Mapping[str, Any] | None = None,
        *,
        viewer: str | None = None,
        **options: Unpack[QueryOptions],
    ) -> Explanation:
        """Whether `query` with these options finds a memory (`session/ID`), at which rank and with which score; if not, why.

        `viewer` names an agent that asks the query. See `smp_memory.search.explanation`.
        """
        return search.explanation.explain(self.scope, text, options, ref, viewer)

    def watch(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        pause: float = 0.1,
        **options: Unpack[WatchOptions],
    ) -> Iterator[Hit]:
        """Yield memories that match as any process writes them; for ever, or for so many seconds.

        What is there already is not yielded. `for hit in memory.watch(types="finding"): …`
        """
        return search.watch.watch(self.scope, text, options, timeout, pause)

    def by_topic(self, topic: str, **options: Unpack[TopicOptions]) -> Hits:
        """Memories about a topic: those that name it, and those with the tag."""
        return search.path.query(self.scope, None, {**options, "topic": topic})

    def by_agent(self, agent: str, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of one author."""
        return search.path.query(self.scope, None, {**options, "agents": agent})

    def by_type(self, type: str, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of one type."""
        return search.path.query(self.scope, None, {**options, "types": type})

    def by_time_range(self, start: Any, end: Any = None, **options: Unpack[QueryOptions]) -> Hits:
        """Memories of a time: two times, or one range such as "last week"."""
        return search.path.query(self.scope, None, {**options, "time": start if end is None else (start, end)})

    def find_similar(self, what: Any, **options: Unpack[QueryOptions]) -> Hits:
        """Memories similar to a text, or to the memory `session/ID`; best first."""
        return search.related.find_similar(self.scope, what, options)

    def find_related(
        self, id: Any, depth: int = 1, kinds: str | list[str] | None = None, **options: Unpack[RelatedOptions]
    ) -> list[Related]:
        """Memories that this one points to or that point to it, up to so many steps away, nearest first.

        With options of a query only those that match it: `find_related("review/FIND-0001", min_priority=0.5)`.
        """
        return search.related.find_related(self.scope, id, depth, kinds, options)

    def priority(self, id: Any, at: Any = None) -> float:
        """The priority of a memory, 0 to 1, now or at a time: `memory.priority("review/DEC-0001", at="2026-12-24")`."""
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

    def analytics(
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
    ) -> Analytics:
        """Statistics: `usage`, `topics`, `impact`, `forecast` and `decay`, each computed when it is first asked for.

        sessions   some sessions; else all
        time       memories of a range such as "last month"; or since=, until=
        by         the length of the periods of trends: day, week or month; `periods`: how many
        limit      how many memories, topics, decisions and sessions each list has
        threshold  the priority below which a memory counts as faded; else `compaction.faded_below`
        """
        return analytics.report.analytics(
            self.scope,
            sessions,
            time=time,
            since=since,
            until=until,
            by=by,
            periods=periods,
            limit=limit,
            threshold=threshold,
        )

    def decay_curve(self, id: Any, *, threshold: float | None = None, days_ahead: float = 90) -> DecayCurve:
        """The priority of a memory over time: its past as far as it is known, and its future if nobody uses it."""
        return analytics.report.decay_curve(self.scope, id, threshold=threshold, days_ahead=days_ahead)

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
        """What an agent should have in its prompt now, best first, within so many tokens; see `smp_memory.context.builder`."""
        return context.builder.context(
            self.scope,
            agent,
            task,
            topic,
            tags=tags,
            project=project,
            user=user,
            session=self.session(session) if isinstance(session, str) else session,
            max_tokens=max_tokens,
            counter=counter,
            turns=turns,
            at=at,
            track_access=track_access,
        )

    def preview(
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
        turns: int = 20,
        min_relevance: float | None = None,
        at: datetime | str | None = None,
        limit: int = 200,
    ) -> Preview:
        """What `context` would give, with a reason for each memory, and what it would leave out and why; see `smp_memory.context.preview`."""
        return context.preview.preview_context(
            self.scope,
            agent,
            task,
            topic,
            tags=tags,
            project=project,
            user=user,
            session=self.session(session) if isinstance(session, str) else session,
            max_tokens=max_tokens,
            turns=turns,
            min_relevance=min_relevance,
            at=at,
            limit=limit,
        )

    def proposals(self, limit: int = 20) -> list[Proposal]:
        """What turns of all sessions propose to write down, those of the session written last first; see `SessionMemory.proposals`."""
        return list(islice((each for _, found in self.proposals_by_session(limit) for each in found), limit))

    def proposals_by_session(self, limit: int | None = None) -> Iterator[tuple[SessionMemory, list[Proposal]]]:
        """Each session with its proposals, at most so many of each, the session written last first. It is read when it is asked for."""
        for _, session in reversed(self.sessions_by_time()):
            yield session, session.proposals(limit)

    def agent(self, name: str, session: str | SessionMemory | None = None) -> AgentMemory:
        """A session as one agent may see it; without a session: the one that was written last."""
        with loading:
            from smp_memory.agents.agent_memory import agent_in

        return agent_in(self, name, session)

    @property
    def global_memory(self) -> GlobalMemory:
        """Preferences, learned patterns and the user's profile, for all sessions."""
        with loading:
            from smp_memory.global_memory import GlobalMemory

        return GlobalMemory(self)

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
        """Hide memories of any session at once; `restore` brings them back until they are purged.

        With one id (`session/ID`) the record is returned; with several, with criteria or as a preview a `Deletion`: its
        `count` and `ids` are those of what was deleted or, as a preview, would be; for `echoes` see `SessionMemory.delete`.
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
        """Bring memories back, deleted ones and those that compaction moved; see `SessionMemory.restore`."""
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
        """Remove memories from the files that have been in the trash for `lifecycle.purge_days`, or `older_than`: days or a date.

        It takes two calls at least a day apart: the first announces, a later one takes. After a jump of the clock
        nothing happens, and `refused` says why.
        """
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
        """Remove the bytes of memories, deleted and archived ones too, from every file that SMP owns, at once and for good.

        The receipt says what was rewritten, where the text was searched for afterwards, and what SMP cannot reach. Its `echoes` are turns that
        say the same; with `echoes` they are erased, too.
        """
        return lifecycle.deletion.erase(self.scope, id, reason, by, preview, echoes, {**criteria}, self._renew_digests)

    def _renew_digests(self) -> tuple[list[str], list[str]]:
        """After an erasure: the digests outside of the store that are there, and what could not be renewed."""
        return context.digest.renew_after_erasing(self._whole)

    def last_change(self, by: str | None = None) -> LastChange | None:
        """What `by`, or a person who gave no name, added, changed, deleted or restored last; None if there is nothing."""
        return lifecycle.undo.last_change(self.scope, by)

    def undo(self, change: LastChange, *, by: str | None = None) -> None:
        """Take back a change that `last_change` returned. Raises Conflict if somebody changed the memory since."""
        with self.session(change.session, author=by or change.by).transaction() as tx:
            lifecycle.undo.revert(tx, change)

    # -- states of sessions

    def session_states(self, *, include_archived: bool = False) -> list[SessionState]:
        """The state of every session and its next transition; with `include_archived` also of archived and deleted ones."""
        return lifecycle.sessions.session_states(self.scope, include_archived=include_archived)

    def archived_sessions(self) -> list[SessionHead]:
        """The archived sessions; opening one restores it."""
        return self._store.sessions(ARCHIVED)

    def deleted_sessions(self) -> list[SessionHead]:
        """The sessions in the trash, with who deleted them, when, why, and until when they can be restored."""
        return self._store.sessions(DELETED)

    def archive_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> SessionHead:
        """Pack a session into an archive, with a summary beside it. Opening it restores it."""
        return lifecycle.sessions.archive_session(self.scope, id, reason, by)

    def restore_session(self, id: str, *, by: str | None = None) -> SessionMemory:
        """Restore an archived session and open it."""
        lifecycle.sessions.restore_session(self.scope, id, by)
        return self.opened_session(id, author=by)

    def delete_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> SessionHead:
        """Move a session, archived or not, to the trash. It can be restored for `lifecycle.purge_days`."""
        return lifecycle.sessions.delete_session(self.scope, id, reason, by)

    def undelete_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> str:
        """Restore the session of this name that was deleted last; returns its state, active or archived."""
        return lifecycle.sessions.undelete_session(self.scope, id, reason, by)

    def purge_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> SessionHead:
        """Remove a deleted session for good, before its time. Of several of one name the one deleted first goes."""
        return lifecycle.sessions.purge_session(self.scope, id, reason, by)

    # -- maintenance

    def maintain(
        self, now: datetime | str | None = None, only: list[str] | None = None, *, dry_run: bool = False
    ) -> MaintenanceReport:
        """Run the tasks that are due, or `only` these; with `dry_run` report them and change nothing. See docs/lifecycle.md."""
        moment = self.now() if now is None else to_moment(parse(now, "now"))
        return lifecycle.maintenance.maintain(self.scope, moment, only, dry_run=dry_run)

    @observed("validate", sessions=len)
    def validate(self) -> dict[str, Report]:
        """Check every session, also those whose files have another layout; see SessionMemory.validate."""
        found = {session.id: report for session, report in each_existing(self.sessions(), lambda each: each.validate())}
        from smp_memory.model.reports import Report

        unread: dict[str, list[Problem]] = {}
        for each in self._store.files.unread_sessions() if self._store.files is not None else ():
            if each.session not in found:
                unread.setdefault(each.session, []).append(each.problem(self.layout))
        return found | {session: Report(problems, 0) for session, problems in unread.items()}

    @observed("repair", sessions=len)
    def repair(self) -> dict[str, Report]:
        """Repair every session; see `SessionMemory.repair`."""
        return {session.id: report for session, report in each_existing(self.sessions(), lambda each: each.repair())}

    @observed("doctor")
    def doctor(
        self,
        *,
        fix: bool | Iterable[str] = False,
        sessions: list[str] | None = None,
        quick: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> HealthReport:
        """Check the whole store, or some sessions; `fix` repairs what is safe to. See docs/health.md.

        `fix` is True, or names of fixes: permissions, recovery, index, access, maintenance. `quick` leaves out what takes long.
        """
        from smp_memory.health.doctor import doctor

        self._store.check_open()

        def examined() -> Examination:
            return examine(self._store, self.now(), environ=os.environ, arguments=self._arguments, quick=quick)

        return doctor(examined, lambda: self, fix=fix, sessions=sessions, progress=progress)

    @observed("reindex")
    def reindex(self, progress: Callable[[str, int], None] | None = None) -> int:
        """Rebuild the index from the files; how many memories it holds. Never needed, never harmful."""
        self._store.check_open()
        return self._store.indexer.rebuild(progress)

    @observed("convert")
    def convert(self, to: str, progress: Callable[[str], None] | None = None) -> Memory:
        """Convert the store to another layout, in place; returns it opened. This one is closed.

        `progress` is called with the id of each session before it is converted.
        """
        self._store.check_open()
        file_features(self._store).convert(to, progress)
        self.close()
        try:
            converted = Memory(self.root, None, self._arguments, self.scope.clock.source, self._system)
            shown = converted.store.session(GLOBAL_SESSION).files if converted.global_memory.exists else None
            if shown is not None:
                shown.refresh()  # other layouts show its memories in other files
            return converted
        except StorageError as error:
            raise done_before_failure(error, f"{self.root} was converted to {to}", self.root) from error

    # -- exchange with other stores

    def copy_to(self, address: str, progress: Callable[[int, int, str, int], None] | None = None) -> StoreCopyReport:
        """Copy everything into the store at another address, which is created if need be; this one is only read.

        A repeated call goes on where the last one stopped. What differs there is a conflict in the report; nothing is overwritten.
        `progress` is called before each session: its number, how many there are, its id, and the memories copied so far.
        """
        self._store.check_open()
        if self._is_limited:
            raise NotAllowed("A client of a server cannot copy its store.")
        clock = self.scope.clock.source
        stored = Memory(self.root, None, self._arguments, clock, self._system, False)  # with the settings that hold now
        with stored, open_memory(address, clock=clock) as target:
            return exchange.store_copy.copy_store(stored.scope, target.scope, progress)

    def push(
        self,
        address: str | None = None,
        sessions: Iterable[str] | None = None,
        *,
        hand_over: bool = False,
        take_over: bool = False,
        forget: bool = False,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> ExchangeReport:
        """Send sessions to the store at an address, or all that this store writes; without an address what waits in the outbox.

        There they are copies that only this store changes. If it cannot be reached, they wait in the outbox. `hand_over` makes the other
        store the writing side, `take_over` this one, whoever was it before; `forget` takes what waits for the address out of the
        outbox and sends nothing. See docs/scale.md.
        """
        if forget:
            return exchange.outbox.forget(self._store, address)
        if address is not None and (hand_over or take_over):
            return self._send(address, sessions, progress, hand_over=hand_over, take_over=take_over)
        return exchange.outbox.push(self._store, lambda to, names: self._send(to, names, progress), address, sessions)

    def _send(self, address: str, sessions: Any, progress: Any, **modes: bool) -> ExchangeReport:
        with self._opened(address) as target:
            renew = target._renew_digests
            return exchange.replication.exchange(
                self.scope, target.scope, sessions, renew_digests=renew, progress=progress, **modes
            )

    def pull(
        self,
        address: str,
        sessions: Iterable[str] | None = None,
        *,
        take_over: bool = False,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> ExchangeReport:
        """Take sessions from the store at an address, or all that this store does not write; here they are copies.

        `take_over` makes this store the writing side of them.
        """
        with self._opened(address) as other:
            renew = self._renew_digests
            return exchange.replication.exchange(
                other.scope, self.scope, sessions, hand_over=take_over, renew_digests=renew, progress=progress
            )

    def _opened(self, address: str) -> Memory:
        return open_memory(address, clock=self.scope.clock.source, create=False)

    # -- export and import

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
        """Write all sessions into one file and return its path, or return the text if there is no path.

        format     json, jsonl, yaml or markdown; else what the path ends in, else json.
        anonymise  people, projects, paths, hosts and session ids get placeholders, which are remembered here;
                   `agents` replaces the names of agents, too.
        restore    the other way round: placeholders become what they stand for.
        force      overwrite an existing file.
        """
        return exchange.api.export(
            self.scope, path, format, anonymise=anonymise, restore=restore, agents=agents, force=force
        )

    def import_(
        self,
        source: str | bytes | os.PathLike[str],
        format: str | None = None,
        session: str | None = None,
        *,
        restore: Placeholders | None = None,
    ) -> list[SessionMemory]:
        """Take in what `export` wrote: a path, or the text itself. Returns the new sessions.

        session  another id for the session, if there is only one.
        restore  turns placeholders back into what they stand for.
        """
        return [self.session(id) for id in exchange.api.import_sessions(self.scope, source, format, session, restore)]

    def redact(self, *, preview: bool = False, reason: str | None = None) -> list[RedactionReport]:
        """Take secrets out of what is already stored, history included; one report for each session that has some.

        With `preview` nothing is changed. Reports name ids and kinds, never content.
        """
        return exchange.api.redact(self.scope, preview, reason)

    # -- closing

    def sync(self) -> None:
        """With durability `interval`: do not wait for the interval."""
        self._store.sync()

    def close(self) -> None:
        """Sync what is not yet synced, renew figures and overviews of sessions written here, and close. Safe to call twice."""
        if self._store.files is not None:
            self._store.files.refresh_written()
        join_workers(self._store)
        self._store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Memory({self.root!r}, layout={self.layout!r})"


def seen_through(memory: Memory, store: Store) -> Memory:
    """The same memory through a facade of its store (`smp_memory.clients`). Whoever opened it closes it."""
    seen: Memory = object.__new__(Memory)
    seen.__dict__.update(memory.__dict__)
    seen._store, seen.scope = store, Scope(store, None, memory.config, memory.scope.clock)
    seen._is_limited = True
    return seen


register_opener(open_memory)
