"""Interface of a storage backend: terminology, and the guarantees that every backend keeps.

Terminology, used in code, files, command line and docs alike:
    MEMORY     what an agent or a person wants to keep: a turn, a decision, a finding, …; a RECORD is one as it stands.
    SESSION    memories that belong together, with METADATA (who, what, since when). A STORE holds sessions.
    ENTRY      one appended item: a new memory, a change, a deletion, a restoration. Records are what entries add up to.
    SEQ        the number of an entry within its session; the order of writing. Times are for people.
    BATCH      operations that are resolved and stored together; an ATOMIC batch is visible whole or not at all.
    ACKNOWLEDGED  `commit` returned without an error: the memory is as durable as the store's durability says.
    SETTLED    files whose every byte belongs to whole entries, with no plan under way.

Guarantees of `commit`: acknowledged entries are never lost and seen by every later read of any process; refused ones
leave no trace; ids and seq are unique, also over processes. Guarantees of reads: no lock, whole entries, whole
transactions, nothing acknowledged missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.errors import SMPError
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.id_allocator import IdAllocator
    from smp_memory.model.reports import Report
    from smp_memory.model.session_info import SessionInfo


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


class SessionStore(Protocol):
    """One session of a store."""

    session: str

    def commit(self, batch: BatchPort) -> None:
        """Store a batch or raise its error."""

    def session_history(self) -> SessionHistory:
        """All memories, caught up with what any process acknowledged before the call. Do not change it."""

    def tail(self, kind: str, count: int) -> SessionHistory:
        """At least the last memories of a type; cheap also when the session is large and not yet read."""

    def info(self) -> SessionInfo: ...

    def change_info(self, info: SessionInfo) -> None: ...

    def sizes(self) -> dict[str, int]:
        """Bytes by file."""

    def validate(self) -> Report: ...

    def repair(self) -> Report: ...


class Store(Protocol):
    """Sessions by id."""

    def session_ids(self) -> list[str]: ...

    def create(self, info: SessionInfo) -> SessionStore: ...

    def session(self, session: str) -> SessionStore: ...

    def close(self) -> None: ...
