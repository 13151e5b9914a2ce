"""Interface of a storage backend: terminology, guarantees, and what the layers above the store use of it.

Terminology, used in code, files, command line and docs alike:
    MEMORY     what an agent or a person wants to keep: a turn, a decision, a finding, …; a RECORD is its current state.
    SESSION    memories that belong together, with METADATA (who, what, since when). A STORE holds sessions.
    ENTRY      one appended item: a new memory, a change, a deletion, a restoration. Records are the result of entries.
    SEQ        the number of an entry within its session; the order of writing. Times are for people.
    BATCH      operations that are resolved and stored together; an ATOMIC batch is visible as a whole or not at all.
    ACKNOWLEDGED  `commit` returned without an error: the memory is as durable as the store's durability says.
    SETTLED    files in which every byte belongs to a complete entry, with no plan to carry out.
    LIVE       a session that can be written; the others are ARCHIVED or DELETED (in the trash).
    COLD       entries that compaction moved out of the files into the session's cold segment.

Guarantees of `commit`: acknowledged entries are never lost and seen by every later read of any process; refused ones
leave no trace; ids and seq are unique, also across processes. Guarantees of reads: no lock, complete entries, complete
transactions, nothing acknowledged missing.

The protocols describe what the layers above use today; mypy checks the file backend against them (`store.opening`).
Not part of the port yet: functions of `smp_memory.store` modules that take a `FileStore` or a `FileSession` (archive,
trash, compaction, purge, erasure, redaction, tidying, conversion, session states, quarantine), and callers that use
`disk`, `layout`, `reader` or `writer`. A second backend needs an operation for each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from smp_memory.config import Config
    from smp_memory.errors import MemoryNotFound, SMPError
    from smp_memory.index.rows import Row
    from smp_memory.index.selection import RowConditions
    from smp_memory.index.text_query import TextMatch
    from smp_memory.index.tokens import ParsedText
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.hits import LeftOut
    from smp_memory.model.id_allocator import IdAllocator
    from smp_memory.model.record import Record, Records
    from smp_memory.model.reports import Problem, Report
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.search.query import Query

    T = TypeVar("T")


class BatchPort(Protocol):
    """Operations to be stored together (`smp_memory.write.operations`)."""

    operation_name: str  # shown to other processes that wait for the lock
    atomic: bool
    needs_histories: bool  # False: new memories only, which depend on no other
    is_maintenance: bool  # True: the batch does not count as activity of the session
    read_version: int  # the writer's change counter when the session was last read; -1: not read
    error: SMPError | None

    def resolve(self, allocator: IdAllocator) -> list[Entry]:
        """Return the entries to write, with ids and numbers from the allocator. May be called again with another allocator."""

    def check_room(self, admit: Callable[[int, int], None], used_bytes: int, new_bytes: int) -> None:
        """Raise if `new_bytes` more exceed the quota."""


# -- sessions


class SessionStore(Protocol):
    """One live session of a store. Threads may share it."""

    session: str  # its id
    filling_bytes: float  # from this size on the session is compacted automatically
    warning_bytes: float  # from this size on a write warns about the quota
    warned_percent: int  # the share of the quota that was logged last
    compacted_at: float  # of the last automatic compaction by this process, on the monotonic clock
    compaction_pause_seconds: float  # until the next one

    @property
    def config(self) -> Config:
        """The store's settings overridden by the session's own. Raises InvalidConfig if they are invalid."""

    def has_valid_settings(self) -> bool: ...

    def usable_config(self) -> Config:
        """The session's settings, or the store's if they are invalid."""

    def override_settings(self, config: Config, own: dict[str, Any]) -> Config:
        """The settings overridden by `own`; the error for an invalid one says where it is set."""

    # writing

    def commit(self, batch: BatchPort) -> None:
        """Store a batch or raise its error."""

    def run_locked(self, operation: str, work: Callable[[], Any], *, while_converting: bool = False) -> Any:
        """Call `work` under the session's lock; `operation` is shown to processes that wait."""

    # reading

    def view(self, read: Callable[[SessionHistory], Any]) -> Any:
        """Call `read` with all memories acknowledged before the call. `read` must not change the history."""

    def view_tail(self, kind: str, count: int, read: Callable[[SessionHistory], Any]) -> Any:
        """Like `view`, with at least the last memories of a type; cheap also for a large session that is not yet read."""

    def unreadable(self) -> list[Problem]:
        """Unreadable entries at the last read."""

    def memory_not_found(self, id: str) -> MemoryNotFound:
        """The error for an unknown id; it mentions unreadable entries."""

    def sizes(self) -> dict[str, int]:
        """Bytes by file; their sum counts for the quota."""

    # metadata

    def info(self) -> SessionInfo: ...

    def info_for_update(self) -> SessionInfo:
        """The metadata, to be changed and written. Raises SessionCorrupt if it has a merge conflict."""

    def change_info(self, info: SessionInfo) -> None:
        """Replace the metadata."""

    def write_info(self, info: SessionInfo) -> None:
        """Replace the metadata, inside `run_locked`."""

    def refresh_overviews(self, records: Records, users: dict[str, str]) -> None:
        """Rewrite the overview files of the session, if the backend keeps some."""

    # verification

    def validate(self) -> Report: ...

    def repair(self) -> Report: ...


class Store(Protocol):
    """Sessions by id, with an index, an audit log, access logs and state of the user."""

    root: str  # the folder; of a store in RAM a name
    config: Config
    closed: bool
    clock: object  # the clock that the store was opened with; set by the caller

    @property
    def indexer(self) -> SearchIndex: ...

    @property
    def audit(self) -> AuditLog: ...

    @property
    def access(self) -> AccessLogPort: ...

    @property
    def session_uses(self) -> AccessLogPort: ...

    @property
    def state(self) -> StateFiles: ...

    def session_ids(self) -> list[str]:
        """The live sessions."""

    def session(self, session: str) -> SessionStore:
        """A live session. Raises SessionNotFound or SessionArchived."""

    def existing_session(self, session: str) -> SessionStore:
        """Like `session`, but raises also if it was archived or deleted since this process opened it."""

    def create(self, info: SessionInfo) -> SessionStore:
        """Create a session at once. Raises SessionExists, also for an archived one."""

    def is_in_use(self, session: str) -> bool:
        """Whether a caller in this process holds the session open."""

    def admit(self, session: str, used_bytes: int, new_bytes: int, quota_bytes: int, /) -> None:
        """Raise if `new_bytes` more exceed the quota."""

    def archived_count(self) -> int:
        """The number of archived sessions; cheap."""

    def shared_count(self, sees: Callable[[Record], bool] | None = None) -> int:
        """The number of memories in the designs' shared files; cheap."""

    def report_unused_settings(self) -> None: ...

    def report_other_stores(self, line: str) -> None: ...

    def check_open(self) -> None:
        """Raise StoreClosed after `close`."""

    def sync(self) -> None:
        """Make acknowledged writes durable; raises DurabilityUnknown also for an earlier failure in the background."""

    def start_worker(self, worker: threading.Thread) -> None:
        """Start a background thread that `close` waits for."""

    def close(self) -> None: ...


# -- the index


class SearchIndex(Protocol):
    """The index of a store. It is a cache: every answer contains all that was acknowledged before the call."""

    def answer(
        self,
        sessions: list[str] | None,
        work: Callable[[Any], T],  # gets an IndexSearcher
        *,
        with_others: bool = False,
        by_meaning: bool = False,
    ) -> T:
        """Call `work` with a searcher over these sessions (None: all), in one state of the index.

        with_others: the other sessions are caught up as well, and only the existence of these is checked.
        by_meaning: missing embeddings are added first.
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

    def conditions(self, query: Query) -> RowConditions:
        """The filters of a query, in the index's numbers."""

    def search(self, text: ParsedText, conditions: RowConditions, limit: int, rarity: float) -> list[TextMatch]:
        """The best matches of a text that meet the conditions that are labels, best first."""

    @property
    def has_vectors(self) -> bool: ...

    def vector(self, text: str) -> Any:
        """The embedding of a text; None without a model."""

    def nearest(self, vector: Any, conditions: RowConditions, limit: int) -> dict[int, Row]: ...

    def similarities(self, vector: Any, docs: Sequence[int]) -> dict[int, float]: ...

    def select(self, conditions: RowConditions, order: str, limit: int, offset: int = 0) -> list[Row]:
        """Rows that meet all conditions, by time; a limit of -1 means all."""

    def rows(self, docs: Sequence[int]) -> dict[int, Row]: ...

    def row(self, session: str, id: str) -> Row | None: ...

    def turns(self, docs: Sequence[int], conditions: RowConditions) -> list[TextMatch]: ...

    def records(self, rows: Iterable[Row]) -> dict[int, Record | None]:
        """The records of these rows, read from the session; None for one that no longer exists."""

    def counts(self, by: str, conditions: RowConditions, docs: Iterable[int] | None = None) -> dict[str, int]: ...

    def related(
        self, names: Iterable[str], scope: str, depth: int, kinds: Sequence[str] = ()
    ) -> dict[int, tuple[int, str, int]]: ...

    @property
    def documents(self) -> int:
        """The number of documents, for scoring."""

    def document_frequency(self, term: str) -> int: ...

    def author(self, number: int | None) -> str: ...

    def session_of(self, doc: int) -> str: ...

    def ref(self, doc: int) -> str:
        """The name of a memory as `session/ID`."""

    def accesses(self, docs: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Count and last access in microseconds."""

    def all_accesses(self) -> dict[str, tuple[int, int]]: ...

    def last_written(self, docs: Iterable[int]) -> dict[int, int]: ...

    def ends(self) -> dict[str, tuple[int, str | None]]:
        """By session: the number of allocated positions, and the id of the last memory; for `watch`."""

    def ids_from(self, session: str, position: int = 0) -> dict[int, str]: ...


# -- logs and state


class AuditLog(Protocol):
    """Append-only log of exports, deletions, erasures and redactions; ids and counts, never content."""

    failure: str | None  # why the last note was not written

    def note(
        self,
        action: str,
        *,
        at: str | None = None,
        by: str | None = None,
        session: str | None = None,
        ids: Iterable[str] = (),
        count: int | None = None,
        kinds: Mapping[str, int] | None = None,
        reason: str | None = None,
        sync: bool = True,
        **facts: Any,
    ) -> bool: ...

    def entries(self) -> list[dict[str, Any]]: ...

    def problems(self) -> list[str]: ...


class AccessLogPort(Protocol):
    """Log of accesses to memories, or of uses of sessions. A hint: losing a part of it is no error."""

    def record(self, names: Iterable[str], at_seconds: float) -> None: ...

    def flush(self) -> None: ...

    def last_uses(self) -> dict[str, float]: ...

    def compact(self) -> None: ...

    def size_bytes(self) -> int: ...


class StateFiles(Protocol):
    """Small files of one user about one store, kept outside the store; and whether the user trusts it."""

    @property
    def on_disk(self) -> bool: ...

    def has(self, name: str) -> bool: ...

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None: ...

    def remove(self, name: str) -> None: ...

    def is_trusted(self, path: str | None = None) -> bool: ...

    def trust(self, *paths: str) -> None: ...

    def distrust(self) -> None: ...

    def mark_notified(self) -> bool:
        """Record that the user was notified that the store is not trusted; returns whether that was recorded before."""
