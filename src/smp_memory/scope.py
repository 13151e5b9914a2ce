"""Scope: the store, the sessions and the viewer that a read or a search is about.

`Memory` has the scope of a whole store, `SessionMemory` that of one session, `AgentMemory`, the MCP server and hooks have one with
a viewer. Searches, overviews, contexts, deletions and exports are functions of a scope.

Guarantees: with a viewer, nothing that the viewer may not see leaves the index (`smp_memory.store.visible_index`) or `filter_visible`.
"""

from __future__ import annotations

from smp_memory.errors import InvalidConfig
from smp_memory.model.times import system_clock, system_text, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.decay.policies import Policy
    from smp_memory.lifecycle.open_session import OpenSession
    from smp_memory.model.record import Record, Records
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.store.file_store import FileStore


class Clock:
    """The store's clock; an aware datetime, or the same as files hold it."""

    __slots__ = ("source",)

    def __init__(self, source: Callable[[], datetime] | None = None) -> None:
        self.source = source or system_clock

    def now(self) -> datetime:
        moment = self.source()
        if moment.tzinfo is None:
            raise InvalidConfig("clock: must return a time with a time zone (an aware datetime).", field="clock")
        return moment

    def text(self) -> str:
        return system_text() if self.source is system_clock else to_text(self.now())


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
        store: FileStore,
        sessions: list[str] | None,
        config: Config,
        clock: Clock,
        *,
        viewer: Viewer | None = None,
        author: str | None = None,
        opened: OpenSession | None = None,
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
        from smp_memory.decay.policies import policy_in

        return policy_in(self.config)

    def answer(self, sessions: list[str] | None, work: Callable[[Any], Any], **options: Any) -> Any:
        """Run `work` on a finder of the index that is caught up with the files; it shows what the viewer may see."""
        viewer = self.viewer
        if viewer is None:
            return self.store.indexer.answer(sessions, work, **options)
        from smp_memory.store.visible_index import VisibleFinder

        return self.store.indexer.answer(sessions, lambda finder: work(VisibleFinder(finder, viewer)), **options)

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

    def __repr__(self) -> str:
        sessions = "all sessions" if self.sessions is None else ", ".join(self.sessions)
        return f"Scope({sessions}{f' as {self.viewer.agent}' if self.viewer is not None else ''})"
