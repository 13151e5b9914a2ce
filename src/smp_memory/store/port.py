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
    COLD       entries that compaction moved out of a session into its COLD SEGMENT. They are not in the index.
    TRASH      memories whose last entry is a deletion; they are in `history` until they are purged or erased.
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
    values     What crosses the port is a plain value of `smp_memory.model`, or a callable. An `Entry`
               that a backend returns has `file` and `place` such that the pair is unique within the session and
               `place[1] - place[0]` is the number of bytes that it takes; compaction plans with it. A database may take any
               name and running numbers; they may differ after a rewrite.
    callbacks  `note` and `audit` of `move`, and what a batch or a plan brings along, are called under the session's lock or inside the
               transaction. If it is repeated, they are called again; `audit` may note what a failure then undoes, never the reverse.
    errors     Those of `smp_memory.errors`. A session that is not live is SessionNotFound or SessionArchived, a
               closed store StoreClosed. Errors of the operating system and of a database
               are mapped to StorageError and its kinds.

What a backend writes itself: `Store`, `SessionStore`, an `AppendLog` for the audit log and one for the tokens of clients, and a feed for the index (`index.full_text_index.IndexFeed`). What it can take as
it is: `index.full_text_index.FullTextIndex` (the search port over a feed), `index.stored_feed` (a feed that keeps the index on disk), `index.history_index` (the same for histories in RAM), the state of the user outside of the
store (`files.user_state`) and in it the access logs (`files.activity`), `model.deletions.PurgeNotes`, `model.told_log` and `overview.extractive_summary`, `health.examination`, `observe.incomplete` (reporting of what could not be read).
`FileFeatures` and `SessionFiles` are for a store in files alone: callers ask for them (`store.files is not None`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from smp_memory.model.history import HOT
from smp_memory.model.session_info import LIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import Any, TypeVar

    from smp_memory.config.settings import Config
    from smp_memory.errors import SMPError
    from smp_memory.files.activity import AccessLog
    from smp_memory.files.user_state import UserState
    from smp_memory.model.deletions import Receipt
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import IdAllocator, RecordHistory, SessionHistory
    from smp_memory.model.record import Record, Records
    from smp_memory.model.reports import Problem, Report
    from smp_memory.model.rewrite_plan import RewritePlan, RewriteReport
    from smp_memory.model.session_info import SessionHead, SessionInfo
    from smp_memory.model.storage_reports import (
        AppendLog,
        QuarantinedEntry,
        RecordedDeletion,
        TidyReport,
        UnreadSession,
    )
    from smp_memory.privacy.audit import Audit
    from smp_memory.search.port import SearchIndex

    T = TypeVar("T")
    Admit = Callable[[int, int], None]  # used bytes, new bytes; raises SizeLimitExceeded
    Histories = Mapping[str, Mapping[str, RecordHistory]]  # by session and id
    FileEdit = Callable[
        [str, bytes, Any], tuple[bytes, list[bytes]]
    ]  # name, bytes and layout -> new bytes, what is dropped
    Note = Callable[[SessionHead, list[Record]], dict[str, Any]]


class BatchPort(Protocol):
    """Operations to be stored together (`smp_memory.write.operations`)."""

    operation_name: str  # shown to other processes that wait for the lock
    atomic: bool
    needs_histories: bool  # False: new memories only, which depend on no other
    is_maintenance: bool  # True: the batch does not count as activity of the session
    read_version: int  # set and read by the backend alone: which state it had read before the lock; -1: none
    error: SMPError | None  # set by the backend if it was refused

    def resolve(self, allocator: IdAllocator) -> list[Entry]:
        """Return the entries to write, with ids and numbers from the allocator. May be called again with another allocator, for
        instance after a transaction that must be repeated: nothing of an earlier call remains.

        The allocator has the session's history if `needs_histories`. Raises the error of the first operation that is refused.
        """

    def check_room(self, admit: Admit, used_bytes: int, new_bytes: int) -> None:
        """Raise if `new_bytes` more exceed the quota."""


# -- sessions


class SessionStore(Protocol):
    """One live session of a store, or a copy of an archived one. Threads may share it."""

    session: str  # its id

    @property
    def files(self) -> SessionFiles | None:
        """What only a session in files has; None: it is in another backend."""

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

    # writing

    def commit(self, batch: BatchPort) -> None:
        """Store a batch or raise its error.

        Under the session's lock: resolve it, check the quota (`BatchPort.check_room` with the `admit` of the opener), append the entries,
        make them durable. Entries of an atomic batch become visible together, those of others in their order. Batches of
        several threads may share one sync. The MemoryNotFound that a batch raises mentions unreadable entries.
        """

    # reading

    def history(
        self,
        ids: Iterable[str] | None = None,
        *,
        kind: str | None = None,
        last: int | None = None,
        key: str | None = None,
        segment: str = HOT,
    ) -> SessionHistory:
        """All memories acknowledged before the call, deleted ones included, or those of the COLD segment. Callers do not change it.

        `unreadable` has the entries that cannot be read (each logged once per process, `incomplete.report`), `problems`
        those that contradict each other; `moved` of the cold segment, when and why each memory was moved, and `earlier`, earlier states
        that a plan moved there alone (`ColdMove.only_history`).
        ids: only these memories, without reading the session if that takes long; one that is not there is left out.
        kind and last: at least the last memories of a type, if that is cheaper than reading the session.
        key: of the cold segment, only the memory with this idempotency key.
        """

    def version(self, segment: str = HOT) -> object | None:
        """A value that changes whenever the segment does; None if nothing is in it. Cheap: it is asked of every session."""

    def sizes(self, segment: str = HOT) -> dict[str, int]:
        """Bytes by file or by part; the sum of the HOT segment counts for the quota."""

    # metadata

    def info(self) -> SessionInfo:
        """The metadata; `path` says where it is. Raises SessionCorrupt if it cannot be read; the memories are not affected."""

    def update_info(self, change: Callable[[SessionInfo], None]) -> SessionInfo:
        """Read the metadata, call `change` with it, and write it, under the session's lock; if `change` raises, nothing is written.

        Raises SessionCorrupt if it cannot be read or has a merge conflict.
        """

    # changes of what is stored

    def rewrite(self, plan: RewritePlan, *, dry_run: bool = False) -> RewriteReport:
        """Carry out a plan under the session's lock, as one change: what it drops, moves, adds and redacts, or nothing.

        Memories that changed since the plan was made stay as they are; the report says which were changed. At every moment each
        memory that is moved is in the session or in the cold segment. Ids and numbers of what was dropped are not given out again.
        Raises MemoryNotFound and DuplicateId for memories that cannot be moved back, and what `plan.admit` raises.
        dry_run: of a redaction, only report what it would remove.
        """

    # verification

    def validate(self) -> Report:
        """Read everything, check every checksum, id and reference; change nothing."""

    def repair(self) -> Report:
        """Repair what can be repaired, put the rest aside where it can be seen, and report what was done."""


class SessionFiles(Protocol):
    """What a session in files has besides: files that people and other programs read. No other backend needs it."""

    def tidy(self, *, dry_run: bool = False) -> TidyReport:
        """Fold changes into the entries that they change, where people read the files. Histories stay the same."""

    def show_overviews(self, records: Records, users: dict[str, str]) -> None:
        """Rewrite the overview files of the session, if the layout has some."""

    def refresh(self, *, dry_run: bool = False) -> bool:
        """Renew figures in the metadata, overview files and the deletion record; whether the figures were out of date."""

    def stored_files(self) -> Iterator[tuple[str, bytes, Any]]:
        """Name and bytes of each file with entries or metadata, and the layout; without the lock."""

    def edit_files(self, edit: FileEdit) -> list[str]:
        """Rewrite files under the lock: `edit` is called for each. What it drops is quarantined."""

    def recorded_deletions(self) -> list[RecordedDeletion]:
        """Memories that a record of another program names as deleted, and that were never deleted or restored here."""

    def write_deletion_record(self) -> None:
        """Renew the record of the memories in the trash, if the layout has one. Never fails."""


# -- the store


class Store(Protocol):
    """Sessions by id, with an index, an audit log, access logs, tokens of clients, and state of the user.

    A backend gets from its opener a function `admit(session, used, new, quota_bytes)` that raises SizeLimitExceeded.
    """

    root: str  # its address: a folder, or `scheme://…` without a password; for people
    uid: str  # of a store that several machines share: the same under every address; empty: it is known by its address
    config: Config

    @property
    def files(self) -> FileFeatures | None:
        """What only a store in files has; None: this is none."""

    @property
    def layout_name(self) -> str:
        """The layout of a store in files, else the name of the backend."""

    @property
    def indexer(self) -> SearchIndex:
        """The search index of the live sessions (`smp_memory.search.port`)."""

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
    def tokens(self) -> AppendLog:
        """The tokens of clients of a shared server (`privacy.client_tokens`). Never in a folder that can be cloned: a store in files has it in the user's state."""

    @property
    def state(self) -> UserState:
        """Small files of the user about this store, outside of it: `files.user_state.open_user_state(address, disk)` for every backend."""

    # live sessions

    def sessions(self, *states: str, id: str | None = None, limit: int | None = None) -> list[SessionHead]:
        """The sessions in these states (none given: LIVE), each state by id; of one id, or the first `limit`, cheaply.

        Several deleted sessions may have one id; they are in the order of deletion. Every search counts the archived ones.
        """

    def session(
        self, session: str, state: str = LIVE, *, path: str | None = None, max_bytes: int | None = None
    ) -> SessionStore:
        """A live session, the same object for all callers while one of them keeps it; or a copy of an archived one: for reading, and `rewrite`.

        Or a copy of a deleted one, for reading: the one deleted last, or that with this `path`.

        Raises SessionNotFound or SessionArchived if it is in another state by now. Of an archived session: StorageCorrupt if it
        cannot be read or is larger than `max_bytes`; its problems name the archive (`Problem.archived`). A plan changes the archived session
        and renews its metadata, not the copy; StorageError if another program archived it.
        """

    def create(
        self,
        info: SessionInfo,
        entries: list[Entry] | None = None,
        quota_bytes: int = 0,
        *,
        cold: Mapping[str, tuple[str, str]] | None = None,
        written: datetime | None = None,
    ) -> SessionStore:
        """Create a session, with a `uid` if it has none; of an import, with these entries and numbers. Complete or not at all.

        cold     memories whose entries go to the cold segment: by id, when and why they were moved there.
        written  when the session was last written (`SessionHead.written`), if not now.
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
