"""Interface of a storage backend: terminology, guarantees, and every operation that the layers above the store use.

This is the document for whoever writes a backend. Everything above `smp_memory.store` is typed against these protocols and
imports nothing else of this package but `store.opening`, which chooses the backend by the scheme of an address. The
file backend is `store.file_store` and `store.file_session`; mypy checks it against the protocols in `store.opening`.

Terminology, used in code, files, command line and docs alike:
    MEMORY     what an agent or a person wants to keep: a turn, a decision, a finding, …; a RECORD is its current state.
    SESSION    memories that belong together, with METADATA (who, what, since when). A STORE holds sessions.
    ENTRY      one appended item: a new memory, a change, a deletion, a restoration. Records are the result of entries.
    HISTORY    the entries of one memory in their order (`RecordHistory`), or of a session (`SessionHistory`).
    SEQ        the number of an entry within its session; the order of writing. Times are for people.
    BATCH      operations that are resolved and stored together; an ATOMIC batch is visible as a whole or not at all.
    ACKNOWLEDGED  `commit` returned without an error: the memory is as durable as the store's durability says.
    LIVE       a session that can be written; the others are ARCHIVED or DELETED (in the trash of sessions).
    COLD       entries that compaction moved out of a session into its COLD SEGMENT. They are not in `view` or the index.
    TRASH      memories whose last entry is a deletion; they are in `view` until they are purged or erased.
    PURGE      removal of what was in the trash long enough; ERASURE: removal at once, of every copy, with a receipt.

Guarantees of every backend
    writes     Acknowledged entries are never lost, and seen by every later read of any process. A refused batch leaves no
               trace. Ids and seq are unique within the session, also across processes, and are never given out again.
    reads      Take no lock that a writer waits for. Complete entries, complete transactions, nothing acknowledged missing.
               An entry that cannot be read is a `Problem` value in the answer, never an exception that hides the others.
    changes    Each operation below that changes a session as a whole (archive, delete, move to cold, purge, erase, redact,
               import) has happened completely or not at all after a crash; what is left over is finished by the next
               process.
    threads    Threads may share a store and its sessions. A child made by `fork` may use them, too.
    values     What crosses the port is a plain value of `smp_memory.model` or `smp_memory.policies`, or a callable. An `Entry`
               that a backend returns has `file` and `place` such that the pair is unique within the session and
               `place[1] - place[0]` is the number of bytes that it takes; compaction plans with it.
    errors     Those of `smp_memory.errors`. A session that is not live is SessionNotFound or SessionArchived, a
               closed store StoreClosed. Errors of the operating system and of a database
               are mapped to StorageError and its kinds.

What a backend writes itself: `Store`, `SessionStore` and an `AppendLog` for the audit log. What it can take as it is: the state of
the user outside of the store (`files.user_state`) and in it the access logs (`files.activity`), `store.searcher.Searcher` (every query of
`IndexSearcher` over an `index.Index`), `store.visible_index` (the same for a viewer), `store.history_index` (an index in RAM of histories),
`store.examination` (`Store.examine` without checks of the backend's own), `policies.purge`, `smp_memory.incomplete` (reporting of what
could not be read). `FileFeatures` is for a store in files alone: callers ask for it (`store.files is not None`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from smp_memory.model.storage_reports import LIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from typing import Any, TypeVar

    from smp_memory.config import Config
    from smp_memory.errors import MemoryNotFound, SMPError
    from smp_memory.files.activity import AccessLog
    from smp_memory.index.query import MatchColumns, RowConditions, TextMatch
    from smp_memory.index.rows import Row
    from smp_memory.index.tokenizer import ParsedText
    from smp_memory.model.deletions import Purged, Receipt
    from smp_memory.model.entry import Entry
    from smp_memory.model.health import Check, HealthIssue, StoredContent
    from smp_memory.model.history import IdAllocator, RecordHistory, SessionHistory
    from smp_memory.model.hits import LeftOut
    from smp_memory.model.record import Record, Records
    from smp_memory.model.reports import Problem, Report
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.model.storage_reports import (
        ColdMemory,
        MovedEntries,
        QuarantinedEntry,
        RecordedDeletion,
        RedactionReport,
        SessionHead,
        TidyReport,
        UnreadSession,
    )
    from smp_memory.policies.clock_trust import Evidence
    from smp_memory.policies.compaction_plan import CompactionPlan
    from smp_memory.policies.purge import AnnouncedPurge, PurgeCheck
    from smp_memory.privacy.audit import Audit
    from smp_memory.privacy.redaction import Redactor
    from smp_memory.privacy.visibility import Viewer

    T = TypeVar("T")
    Admit = Callable[[int, int], None]  # used bytes, new bytes; raises SizeLimitExceeded
    Histories = Mapping[str, Mapping[str, RecordHistory]]  # by session and id
    Note = Callable[[SessionHead, list[Record]], dict[str, Any]]


class BatchPort(Protocol):
    """Operations to be stored together (`smp_memory.write.operations`)."""

    operation_name: str  # shown to other processes that wait for the lock
    atomic: bool
    needs_histories: bool  # False: new memories only, which depend on no other
    is_maintenance: bool  # True: the batch does not count as activity of the session
    read_version: int  # for the backend: which state of the session it had read before the lock; -1: none
    error: SMPError | None

    def resolve(self, allocator: IdAllocator) -> list[Entry]:
        """Return the entries to write, with ids and numbers from the allocator. May be called again with another allocator.

        The allocator has the session's history if `needs_histories`. Raises the error of the first operation that is refused.
        """

    def check_room(self, admit: Admit, used_bytes: int, new_bytes: int) -> None:
        """Raise if `new_bytes` more exceed the quota."""


# -- sessions


class SessionStore(Protocol):
    """One live session of a store, or a copy of an archived one. Threads may share it."""

    session: str  # its id
    memo: dict[str, Any]  # notes of the layers above; all callers of a process share them, as they share this object

    @property
    def location(self) -> str:
        """Where it is stored, for people and for errors: a folder, or an address and the id."""

    @property
    def size_bytes(self) -> int:
        """The size that counts for the quota, as of the last commit by this object. Free of cost: every write asks for it."""

    # settings

    @property
    def config(self) -> Config:
        """The store's settings overridden by the session's own, as they were when they were first asked for."""

    def override_settings(self, config: Config, own: dict[str, Any]) -> Config:
        """The settings overridden by `own`; errors in `Config.invalid` say where a setting is."""

    # writing

    def commit(self, batch: BatchPort) -> None:
        """Store a batch or raise its error.

        Under the session's lock: resolve it, check the quota (`BatchPort.check_room` with the `admit` of the opener), append the entries,
        make them durable. Entries of an atomic batch become visible together, those of others in their order. Batches of
        several threads may share one sync. The MemoryNotFound that a batch raises mentions unreadable entries.
        """

    # reading

    def view(self, read: Callable[[SessionHistory], Any]) -> Any:
        """Call `read` with all memories acknowledged before the call. `read` must not change the history."""

    def view_tail(self, kind: str, count: int, read: Callable[[SessionHistory], Any]) -> Any:
        """Like `view`, with at least the last memories of a type; cheap also for a large session that is not yet read."""

    def history(self, id: str) -> RecordHistory | None:
        """The history of one memory; None if it never existed. Cheap also for a large session that is not yet read."""

    def unreadable(self) -> list[Problem]:
        """Unreadable entries at the last read; each is logged once per process (`incomplete.report`)."""

    def read_errors(self) -> list[Problem]:
        """All errors at the last read: unreadable entries, and entries that contradict each other."""

    def memory_not_found(self, id: str) -> MemoryNotFound:
        """The error for an unknown id; it mentions unreadable entries."""

    def sizes(self) -> dict[str, int]:
        """Bytes by file or by part; their sum counts for the quota."""

    # metadata

    def info(self) -> SessionInfo:
        """The metadata. Raises SessionCorrupt if it cannot be read; the memories are not affected."""

    def info_for_update(self) -> SessionInfo:
        """The metadata, to be changed and written. Raises SessionCorrupt if it has a merge conflict."""

    def change_info(self, info: SessionInfo) -> None:
        """Replace the metadata."""

    def update_info(self, operation: str, change: Callable[[SessionInfo], None]) -> None:
        """Read the metadata, call `change` with it, and write it, under the session's lock; if `change` raises, nothing is written."""

    # the cold segment

    @property
    def cold_location(self) -> str:
        """Where the cold segment is, for people."""

    def cold_version(self) -> object | None:
        """A value that changes whenever the cold segment does; None if there is no cold segment."""

    def cold_bytes(self) -> int: ...

    def cold_memories(self) -> list[ColdMemory]:
        """What the cold segment holds, in the order in which it was moved."""

    def cold_ids(self) -> set[str]:
        """The ids of the memories in the cold segment that are not in the session."""

    def cold_history(self, problems: list[Problem] | None = None) -> SessionHistory:
        """The histories of these memories. `problems` gets the entries that cannot be read."""

    def cold_record_with_key(self, key: str) -> Record | None:
        """The memory with this idempotency key in the cold segment, so that a repeated write still finds it."""

    def move_to_cold(
        self,
        plan: CompactionPlan,
        revisions: dict[str, int],
        summaries: Callable[[IdAllocator, set[str]], list[Entry]],
        at: str,
    ) -> MovedEntries:
        """Carry out a compaction: move memories (`plan.removed`) and earlier states of others (`plan.histories`).

        Memories that were changed or deleted since the plan was made stay (`revisions`: the revision of each one then).
        `summaries` gives the entries to add, for the ids that really are moved. At every moment each memory is in the session
        or in the cold segment. Nothing is destroyed. A backend may leave the histories where they are.
        """

    def restore_from_cold(self, ids: list[str], admit: Admit) -> None:
        """Move memories back with their ids, numbers and histories; all or none.

        Raises MemoryNotFound, DuplicateId if another memory has the id by now, and what `admit` raises.
        """

    # the trash

    def announced_purges(self) -> dict[str, AnnouncedPurge]:
        """The deleted memories whose purge was announced, by id."""

    def purge(
        self,
        check: Callable[[SessionHistory, dict[str, AnnouncedPurge]], PurgeCheck],
        note: Callable[[list[str]], bool],
    ) -> PurgeCheck:
        """Remove the entries of `check(…).due` for good, cold ones too, and store `check(…).announced`; under the lock, as one change.

        `note` writes the ids to the audit log and says whether it could. Ids are kept until then, so that after a crash the next
        purge writes them.
        """

    # changes of what is stored

    def redact(self, redactor: Redactor, *, preview: bool = False) -> RedactionReport:
        """Remove secrets from all entries, histories and cold ones included, from the metadata and from every copy of them.

        Ids, numbers, times, authors and all other fields stay. `preview`: report only. The report holds no content.
        """

    def tidy(self, *, dry_run: bool = False) -> TidyReport:
        """Fold changes into the entries that they change, where people read the files. Histories stay the same."""

    def refresh_overviews(self, records: Records, users: dict[str, str]) -> None:
        """Rewrite the overview files of the session, if the backend keeps some."""

    def recorded_deletions(self) -> list[RecordedDeletion]:
        """Memories that a record of another program names as deleted, and that were never deleted or restored here."""

    def write_deletion_record(self) -> None:
        """Renew the record of the memories in the trash, if the backend keeps one. Never fails."""

    def refresh_figures(self, *, dry_run: bool = False) -> bool:
        """Remove stale figures that another program keeps in the metadata, renew overview files; whether there were such figures."""

    # verification

    def validate(self) -> Report:
        """Read everything, check every checksum, id and reference; change nothing."""

    def repair(self) -> Report:
        """Repair what can be repaired, put the rest aside where it can be seen, and report what was done."""


# -- the store


class Store(Protocol):
    """Sessions by id, with an index, an audit log, access logs and state of the user.

    A backend gets from its opener a function `admit(session, used, new, quota_bytes)` that raises SizeLimitExceeded.
    """

    root: str  # where it is: a folder or an address; for people, and to open it again
    config: Config

    @property
    def files(self) -> FileFeatures | None:
        """What only a store in files has; None: this is none."""

    @property
    def layout_name(self) -> str:
        """The layout of a store in files, else the name of the backend."""

    @property
    def indexer(self) -> SearchIndex:
        """The search index of the live sessions."""

    @property
    def audit(self) -> Audit:
        """Exports, deletions, erasures and redactions; ids and counts, never content. Made of an `AppendLog` in the store."""

    @property
    def access(self) -> AccessLog:
        """Accesses to memories, by `session/ID`. Maintenance counts them and writes the counts into the sessions."""

    @property
    def session_uses(self) -> AccessLog:
        """Uses of sessions that no entry shows: started, restored, imported. Both are made of an `AppendLog` of the user."""

    @property
    def state(self) -> StateFiles: ...

    # live sessions

    def sessions(self, *states: str, id: str | None = None, limit: int | None = None) -> list[SessionHead]:
        """The sessions in these states (none given: LIVE), each state by id; of one id, or the first `limit`, cheaply.

        Several deleted sessions may have one id; they are in the order of deletion. Every search counts the archived ones.
        """

    def session(self, session: str, state: str = LIVE, *, max_bytes: int | None = None) -> SessionStore:
        """A live session, the same object for all callers while one of them keeps it; or a copy of an archived one, for reading.

        Raises SessionNotFound or SessionArchived if it is in another state by now. Of an archived session: StorageCorrupt if it
        cannot be read or is larger than `max_bytes`; its problems name the archive (`Problem.archived`).
        """

    def create(self, info: SessionInfo, entries: list[Entry] | None = None, quota_bytes: int = 0) -> SessionStore:
        """Create a session, with a `uid` if it has none; of an import, with these entries and numbers. Complete or not at all.

        Raises SessionExists, also for an archived one; SizeLimitExceeded if the entries exceed the quota.
        """

    # archived and deleted sessions

    def move(
        self,
        session: str,
        origin: str,
        state: str,
        note: Note = ...,
        audit: Callable[[], object] = ...,
        *,
        path: str | None = None,
    ) -> SessionHead:
        """Move a session from one state to another, completely or not at all; returns it as it is then.

            LIVE → ARCHIVED              raises SessionExists if it is archived already
            ARCHIVED → LIVE              unchanged; nothing is done if it is live already
            LIVE → DELETED               also an archived one; its id is free at once
            DELETED → LIVE               the one deleted last, archived if it was; raises SessionExists if the id is in use
            DELETED → DELETED            only the metadata changes
            DELETED → PURGED             removed for good: the one deleted first, or that with this `path`

        `note` makes `SessionHead.metadata` of the new state; it is called under the lock with the session as it was, and its records
        if it is to be archived (entries that cannot be read move along, and are reported by the name of the archive). `audit` is
        called when the session has moved, and before any content is gone, so that no purge goes unrecorded. Raises SessionNotFound.
        """

    def purge_archives(
        self,
        now: datetime,
        evidence: Evidence,
        by: str | None,
        kept: timedelta | None = None,
        *,
        automatic: bool = False,
    ) -> Iterator[tuple[str, Purged]]:
        """Purge the trash inside of archived sessions, which stay archived (`policies.purge.purge_due` on each).

        `kept` replaces the `lifecycle.purge_days` of each session; `automatic`: only where `lifecycle.auto_purge` is on.
        """

    # erasure

    def erase(
        self,
        targets: dict[str, list[str]],
        receipt: Receipt,
        note: Callable[[], object],
        renew_digests: Callable[[], tuple[list[str], list[str]]],
    ) -> None:
        """Erase memories (ids by session) with all histories, cold copies, indexes, logs and what summaries quote of them.

        First raises MemoryNotFound if a live, archived or deleted session has no trace of one of them; `receipt.preview`: no more
        than that. Fills in the receipt: what was rewritten, searched for the text, left, and what is pending. `renew_digests` rewrites digest
        files outside of the store; it returns the paths of existing ones, and failures. Then `note` writes the audit record.
        """

    # search

    def index_of(self, histories: Histories, problems: Mapping[str, list[Problem]]) -> SearchIndex:
        """A temporary index of these histories alone, which answers the same queries as `indexer`."""

    # settings and notices

    def write_setting(self, name: str, value: Any) -> None:
        """Change one stored setting, which was checked; None removes it, and raises InvalidConfig for an unknown one that is not stored.

        It holds for whoever opens the store next.
        """

    def configured_at(self) -> float | None:
        """When the settings were last written, in seconds since the epoch; None if that is not known."""

    # the process

    def examine(
        self,
        now: datetime,
        *,
        environ: Mapping[str, str],
        arguments: Mapping[str, Any] | None = None,
        quick: bool = False,
    ) -> StoreExamination:
        """Open the store for health checks, read-only; `environ` and `arguments` are those by which it was opened."""

    def check_open(self) -> None:
        """Raise StoreClosed after `close`."""

    def sync(self) -> None:
        """Make acknowledged writes durable; raises DurabilityUnknown also for an earlier failure in the background."""

    def close(self) -> None: ...


class FileFeatures(Protocol):
    """What a store in files has besides: layouts, and files of other programs and of people. No other store needs it."""

    clock: Callable[[], datetime] | None  # that the store was opened with, for figures in files; set by the caller

    def convert(self, to: str, progress: Callable[[str], None] | None = None) -> None:
        """Convert the store to another layout, in place."""

    def unread_sessions(self) -> list[UnreadSession]:
        """Sessions in another layout than the store's, which are not read."""

    def unread_notice(self) -> str:
        """One line about these sessions, found at little cost; empty if there are none."""

    def unindexed_memories(self, sessions: list[str] | None = None) -> Histories:
        """Memories of these sessions, or of all, that are not in the index, by session and id; cheap.

        Those in the designs' files for all sessions belong to the session `global`, whether it exists or not.
        """

    def sessions_with_deletion_records(self) -> list[str]:
        """Live sessions with memories that a record of another program names as deleted."""

    def quarantined(self) -> list[QuarantinedEntry]:
        """What was put aside because it could not be read or was removed from a file, session by session."""

    def quarantined_data(self, entry: QuarantinedEntry) -> bytes:
        """The content of a file in quarantine."""

    def restore_quarantined(self, entry: QuarantinedEntry, now: str) -> list[str]:
        """Append the entries of a file in quarantine to their session; returns the ids of their memories."""

    def refresh_written(self) -> None:
        """Renew the figures and overviews in the files of sessions that this process wrote to. Never fails."""

    def finish_erasure(self) -> bool:
        """Complete an erasure or redaction whose process died; whether there was one and it is complete now. Cheap if there was none."""


# -- the index


class SearchCriteria(Protocol):
    """The filters of a query (`smp_memory.search.query.Query`) that the index evaluates. An empty list or None: no filter."""

    sessions: Any  # ids
    types: Any  # names of types
    agents: Any  # authors
    tags: Any  # one of these, or one below it (`auth` finds `auth.oauth`)
    all_tags: Any  # each of these
    not_tags: Any  # none of these
    topics: Any  # one of these, as topic or tag
    topic_in_text: Any  # True: the search path looks for topics in the text, the index does not
    time: Any  # with `start` and `end` in microseconds
    min_importance: Any  # 0 to 1
    min_confidence: Any
    confidence: Any  # words for a confidence
    pinned: Any  # whether
    include_deleted: Any  # whether memories in the trash are found
    valid_at: Any  # in microseconds: only memories that hold then; None: all
    references: Any  # names; memories that refer to one of them over up to `depth` steps
    related_to: Any  # names; memories up to `depth` steps away in either direction, along these `kinds`
    kinds: Any
    depth: Any

    @property
    def scope(self) -> str:
        """The session of names without one."""


class SearchIndex(Protocol):
    """The index of a store. It is a cache: every answer contains all that was acknowledged before the call."""

    @property
    def folder(self) -> str:
        """The folder of its files; empty if it has none."""

    def answer(
        self,
        sessions: list[str] | None,
        work: Callable[[Any], T],  # gets an IndexSearcher
        *,
        with_others: bool = False,
        by_meaning: bool = False,
        viewer: Viewer | None = None,
    ) -> T:
        """Call `work` with a searcher over these sessions (None: all), in one state of the index.

        Raises SessionNotFound or SessionArchived for a session that is not live.
        with_others: the other sessions are caught up as well, and only the existence of these is checked.
        by_meaning: missing embeddings are added first.
        viewer: the searcher behaves as if memories that the viewer may not see did not exist.
        """

    def saved_metadata(self) -> dict[str, tuple[object, SessionInfo]]:
        """What the index knows, without catching up: a session's `metadata_version`, and its user, project and settings in it.

        Sessions may be missing, and nothing else of the metadata is there. Valid if the version is still the same.
        """

    def count_all_accesses(self, *, from_start: bool = False) -> None:
        """Count the access log now; `from_start`: the log was truncated."""

    def rebuild(self, progress: Callable[[str, int], None] | None = None) -> int:
        """Rebuild the index; returns the number of memories."""

    def close(self) -> None: ...


class IndexSearcher(Protocol):
    """Queries against one state of the index. A DOC is the index's number of a memory."""

    left_out: dict[str, LeftOut]  # sessions that were archived or deleted during the query

    def problems(self, sessions: Iterable[str] | None, allows: Callable[[str], bool] | None = None) -> list[Problem]:
        """Unreadable entries of these sessions (None: all)."""

    def conditions(self, query: Any) -> RowConditions:
        """The filters of a query (`SearchCriteria`), in the index's numbers."""

    def session_numbers(self, names: Iterable[str]) -> list[int]:
        """The index's numbers of those sessions that are in it, for `RowConditions.sessions`."""

    def search(self, text: ParsedText, conditions: RowConditions, limit: int, rarity: float) -> list[TextMatch]:
        """The best matches of a text that meet the conditions that are labels, best first."""

    def all_matches(self, text: ParsedText, conditions: RowConditions) -> MatchColumns:
        """All of them, in any order and without scores, for counting."""

    @property
    def has_vectors(self) -> bool: ...

    @property
    def warnings(self) -> list[str]:
        """Why memories are not searched by meaning although there is an embedding model."""

    def vector(self, text: str) -> Any:
        """The embedding of a text; None without a model."""

    def nearest(self, vector: Any, conditions: RowConditions, limit: int) -> dict[int, Row]:
        """The memories nearest to a vector that meet all conditions, best first."""

    def similarities(self, vector: Any, docs: Sequence[int]) -> dict[int, float]:
        """Cosine similarity of these documents to a vector, 0 to 1."""

    def select(self, conditions: RowConditions, order: str, limit: int, offset: int = 0) -> list[Row]:
        """Rows that meet all conditions, by time; a limit of -1 means all. Hidden memories may be among them, `records` omits them."""

    def select_visible(self, conditions: RowConditions, order: str, limit: int) -> list[Row]:
        """The first rows that the viewer may see; hidden ones do not count against the limit."""

    def select_wishes(self, conditions: RowConditions, limit: int) -> list[Row]:
        """Turns of users that are standing wishes and meet the conditions, the newest first. Hidden memories may be among them."""

    def rows(self, docs: Sequence[int]) -> dict[int, Row]: ...

    def row(self, session: str, id: str) -> Row | None: ...

    def turns(self, docs: Sequence[int], conditions: RowConditions) -> list[TextMatch]:
        """Those of these memories that are turns and meet the conditions, as text matches without any term."""

    def records(self, rows: Iterable[Row]) -> dict[int, Record | None]:
        """The records of these rows, read from the session; None for one that no longer exists."""

    def is_visible(self, row: Row) -> bool:
        """Whether the viewer may see a memory."""

    @property
    def has_successions(self) -> bool:
        """Whether any memory supersedes another one."""

    def successors(
        self, rows: Iterable[Row], at: int | None = None, allows: Callable[[str], bool] | None = None
    ) -> dict[int, list[Row]]:
        """By doc the memories that took the place of these until a time, the newest first; only memories that have some.

        `allows` tells which sessions count. What these memories may be is in `smp_memory.store.succession`.
        """

    def superseded(self) -> set[int]:
        """All memories that others say they supersede, whether or not that counts (`successors`)."""

    def is_superseded(self, record: Record, at: int | None = None) -> bool:
        """Whether a memory took the place of this one until a time."""

    def not_valid_count(self, conditions: RowConditions, *, by_text: bool) -> int:
        """How many memories were left out because of `conditions.valid_at`, hidden ones aside.

        `by_text`: among the matches of the searches so far; else among all that meet the other conditions.
        """

    def counts(
        self, fields: Sequence[str], conditions: RowConditions, matches: MatchColumns | None = None
    ) -> dict[str, dict[str, int]]:
        """How many memories meet the conditions, or are among these matches: by field and name, the most frequent first.

        Fields are type, tag, agent, day, month, session and topic.
        """

    def related(
        self, names: Iterable[str], scope: str, depth: int, kinds: Sequence[str] = ()
    ) -> dict[int, tuple[int, str, int]]:
        """All memories up to `depth` steps away in either direction: doc -> (steps, kind, the doc it was reached from)."""

    def labels(self, conditions: RowConditions) -> list[tuple[int, str]]:
        """The doc and each tag or topic of the memories that meet the conditions, case-folded; each pair once."""

    def relations(self, conditions: RowConditions) -> list[tuple[int, str, str, str]]:
        """The relations of the memories that meet the conditions: doc, kind, session and id of the target, which may not exist."""

    def expiries(self, conditions: RowConditions, since: int, until: int) -> list[tuple[int, int]]:
        """The memories that meet the conditions and cease to hold in this range of microseconds: doc and time, the next first."""

    @property
    def documents(self) -> int:
        """The number of documents, for scoring."""

    def document_frequency(self, term: str) -> int: ...

    def corrected(self, word: str, term: str, is_name: bool) -> str | None:
        """The known term for an unknown word with one typing error, whose term is given; None if there is none."""

    def author(self, number: int | None) -> str: ...

    def session_of(self, doc: int) -> str: ...

    def ref(self, doc: int) -> str:
        """The name of a memory as `session/ID`."""

    def accesses(self, docs: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Count and last access in microseconds."""

    def all_accesses(self) -> dict[str, tuple[int, int]]:
        """The same for all memories that were ever accessed, by `session/ID`."""

    def last_written(self, docs: Iterable[int]) -> dict[int, int]:
        """When the sessions of these memories were last written, by the session's number."""

    def session_usage(self) -> dict[str, tuple[int, int, int]]:
        """By session: number of memories, last write by the memories' times, last access; in microseconds, 0: never."""

    def sessions_with_deleted(self) -> list[str]:
        """The sessions with memories in the trash."""

    def is_intact(self) -> bool:
        """Whether the index is undamaged, as far as a quick check finds out."""

    def ends(self) -> dict[str, tuple[int, str | None]]:
        """By session: the number of allocated positions, and the id of the last memory; for `watch`."""

    def ids_from(self, session: str, position: int = 0) -> dict[int, str]:
        """The ids of a session's memories from a position on, by doc."""


# -- state


class StateFiles(Protocol):
    """Small files of one user about one store, in a folder outside the store, whatever the backend; and whether the user trusts it."""

    folder: str

    def path(self, *names: str) -> str:
        """The path of a file in it, for files that are locked or appended to."""

    @property
    def on_disk(self) -> bool: ...

    def boot_id(self) -> str:
        """Identifies the boot of this machine; with the time since boot it is evidence about the wall clock."""

    def has(self, name: str) -> bool: ...

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError."""

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        """Replace one file, atomically; `durable`: it survives a power loss."""

    def modified_at(self, name: str) -> float | None:
        """When it was last written, in seconds since the epoch; None if there is none."""

    def append(self, name: str, data: bytes) -> None:
        """Append to one file."""

    def remove(self, name: str) -> None: ...

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder; `folder/name` is then the name for the other methods."""

    def lock(self, folder: str, about: str, timeout_seconds: float) -> AbstractContextManager[None]:
        """A lock for the files of a folder, for the block of a `with` statement; it raises LockTimeout, which says what it is `about`."""

    def is_trusted(self, path: str | None = None) -> bool: ...

    def trust(self, *paths: str, settings: dict[str, dict[str, Any]] | None = None, renew: bool = False) -> bool:
        """Trust the store; record its protective settings if nothing was trusted before, or with `renew`. Returns whether they were."""

    def trusted_settings(self) -> dict[str, dict[str, Any]] | None:
        """The protective settings that the user trusted, by session, "" for the store; None: all count."""

    def trust_settings(self, session: str, settings: dict[str, Any]) -> None:
        """Record the protective settings of a session, "" for the store, because this user has set them."""

    def distrust(self) -> None: ...

    def mark_notified(self) -> bool:
        """Record that the user was notified that the store is not trusted; returns whether that was recorded before."""


# -- examination


class StoreExamination(Protocol):
    """A store under examination by health checks: read-only, and as far as any damage allows.

    `store.examination.PlainExamination` is one for every backend.
    """

    root: str
    layout_name: str
    config: Config  # settings that are invalid count as not set
    now: datetime
    quick: bool
    is_in_folder: bool  # in a folder of this machine, so that git, other stores and the user's state concern it
    is_too_new: bool  # of a newer format: nothing else of it is read
    checks: tuple[type[Check], ...]  # of the backend's own storage

    @property
    def store(self) -> Store:
        """The store; whatever would write to it raises."""

    @property
    def state(self) -> StateFiles: ...

    def session_ids(self) -> list[str]: ...

    def has(self, session: str) -> bool:
        """Whether the session is still live; another process may archive or delete it during the checks."""

    def session(self, name: str) -> SessionExamination: ...

    def fix(self, name: str, issues: list[HealthIssue], open_store: Callable[[], Store]) -> Iterator[str]:
        """Apply a fix of the backend; yields what was done. `open_store` opens the store for writing."""

    def close(self) -> None: ...


class SessionExamination(Protocol):
    """A session under examination: it is read once, for all checks."""

    id: str

    @property
    def subject(self) -> StoreExamination: ...

    @property
    def files(self) -> SessionStore: ...

    @property
    def session_history(self) -> SessionHistory: ...

    @property
    def records(self) -> list[Record]:
        """The memories that are not deleted, in the order of writing."""

    @property
    def info(self) -> SessionInfo | None:
        """The session metadata; None if it cannot be read."""

    @property
    def config(self) -> Config:
        """The settings of this session; its own overrides are left out if they are invalid."""

    def validate(self) -> Report: ...

    def cold_ids(self) -> set[str]: ...

    def entries(self) -> Iterator[Entry]:
        """Every entry that was read."""

    def contents(self) -> Iterator[StoredContent]:
        """Every place that holds text: entries, then metadata, cold segment and quarantine."""
