"""Scope: the store, the sessions and the viewer that a read or a search is about.

`Memory` has the scope of a whole store, `SessionMemory` that of one session, `AgentMemory`, the MCP server and hooks have one with
a viewer. Searches, overviews, contexts, deletions and exports are functions of a scope.

Guarantees: with a viewer, nothing that the viewer may not see leaves the index (`CandidateRequest.viewer`) or `filter_visible`.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from smp_memory.errors import NotSupported, SizeLimitExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from threading import Thread
    from typing import Protocol

    from smp_memory.config.settings import Config
    from smp_memory.model.decay import Policy
    from smp_memory.model.record import Record, Records
    from smp_memory.model.times import Clock
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.search.port import SearchIndex
    from smp_memory.store.port import FileFeatures, Histories, Store

    class Opened(Protocol):
        """The open session of a scope (`smp_memory.lifecycle.open_session`)."""

        id: str

        def take_warnings(self) -> list[str]: ...


_workers: WeakKeyDictionary[Store, list[Thread]] = WeakKeyDictionary()


def start_worker(store: Store, worker: Thread) -> None:
    """Start a background thread that `join_workers` waits for, because it may hold a lock."""
    _workers[store] = [*(each for each in _workers.get(store, ()) if each.is_alive()), worker]
    worker.start()


def join_workers(store: Store) -> None:
    """Wait for the background threads of a store, before it is closed."""
    if store in _workers:
        from threading import current_thread

        for worker in _workers.pop(store):
            if worker is not current_thread():
                worker.join()


def admit(session: str, used_bytes: int, new_bytes: int, quota_bytes: int) -> None:
    """Raise if so many more bytes exceed the quota of a session."""
    if used_bytes + new_bytes > quota_bytes:
        raise SizeLimitExceeded(
            f"Session {session} holds {used_bytes:,} bytes; {new_bytes:,} more would exceed its quota of {quota_bytes:,}. "
            "Nothing was written. Raise storage.max_session_size_mb or start a new session.",
            session=session,
            used=used_bytes,
            size=new_bytes,
            limit=quota_bytes,
        )


def file_features(store: Store) -> FileFeatures:
    """What only a store in files has. Raises NotSupported for others."""
    if store.files is None:
        raise NotSupported(
            f"{store.root} is not a store in files: it has no layouts and no quarantine.", path=store.root
        )
    return store.files


def unindexed_memories(store: Store, sessions: list[str] | None = None) -> Histories:
    """Memories in files that the index does not have (`FileFeatures.unindexed_memories`). Raises StoreClosed after it was closed."""
    store.check_open()
    return store.files.unindexed_memories(sessions) if store.files is not None else {}


class Scope:
    """Where to read, and for whom.

    sessions  their ids; None: all sessions of the store
    viewer    None: sees everything
    opened    the open session, if the scope is that of one
    author    who deletes, restores or exports, unless a call names somebody else
    """

    __slots__ = ("author", "clock", "config", "opened", "sessions", "store", "viewer")

    def __init__(
        self,
        store: Store,
        sessions: list[str] | None,
        config: Config,
        clock: Clock,
        *,
        viewer: Viewer | None = None,
        author: str | None = None,
        opened: Opened | None = None,
    ) -> None:
        self.store = store
        self.sessions = sessions
        self.config = config
        self.clock = clock
        self.viewer = viewer
        self.author = author
        self.opened = opened

    @property
    def index(self) -> SearchIndex:
        """The search index of the store. Raises StoreClosed after it was closed."""
        self.store.check_open()
        return self.store.indexer

    def now(self) -> datetime:
        return self.clock.now()

    def policy(self) -> Policy:
        """The decay policy of the settings."""
        from smp_memory.model.decay import policy_in

        return policy_in(self.config)

    def sees(self, record: Record) -> bool:
        return self.viewer is None or self.viewer.sees(record)

    def filter_visible(self, records: Records) -> Records:
        """Those records that the viewer may see."""
        if self.viewer is None:
            return records
        return type(records)((record for record in records if self.viewer.sees(record)), records.problems)

    def note_access(self, records: list[Record]) -> None:
        """Count records as used now, whatever time the query was about."""
        if self.config["track_access"]:
            self.store.access.record([record.ref for record in records], self.now().timestamp())

    def note_session_use(self, session: str) -> None:
        """Log a use of a session that no entry shows: it was restored or imported."""
        self.store.session_uses.record([session], self.now().timestamp())

    def __repr__(self) -> str:
        sessions = "all sessions" if self.sessions is None else ", ".join(self.sessions)
        return f"Scope({sessions}{f' as {self.viewer.agent}' if self.viewer is not None else ''})"
