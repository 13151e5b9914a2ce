"""Scope: the store, the sessions and the viewer that a read or a search is about.

`Memory` has the scope of a whole store, `SessionMemory` that of one session, `AgentMemory`, the MCP server and hooks have one with
a viewer. Searches, overviews, contexts, deletions and exports are functions of a scope.

Guarantees: with a viewer, nothing that the viewer may not see leaves the index (`CandidateRequest.viewer`) or `filter_visible`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Protocol

    from smp_memory.config import Config
    from smp_memory.decay import Policy
    from smp_memory.model.record import Record, Records
    from smp_memory.model.times import Clock
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.store.port import Store

    class Opened(Protocol):
        """The open session of a scope (`smp_memory.lifecycle.open_session`)."""

        id: str

        def take_warnings(self) -> list[str]: ...


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

    def now(self) -> datetime:
        return self.clock.now()

    def policy(self) -> Policy:
        """The decay policy of the settings."""
        from smp_memory.decay import policy_in

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
