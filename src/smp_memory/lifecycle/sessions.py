"""Look after sessions as a whole: in which state each is, packing away and bringing back, the trash of sessions.

What a session can do about its own size is in `smp_memory.lifecycle.compaction`.
"""

from __future__ import annotations

import os

from smp_memory import event_log
from smp_memory.model.times import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from smp_memory.config import Config
    from smp_memory.lifecycle.maintenance import MaintenanceReport
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.archive_index import StoredAway
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.session_states import SessionState

_LOOK_SECONDS = 6 * 3600
_EVENTS = {  # by action of the audit log: the log's event, and what was done
    "archive_session": ("session_archived", "archived"),
    "restore_session": ("session_restored", "restored from its archive"),
    "delete_session": ("session_deleted", "moved to the trash"),
    "undelete_session": ("session_undeleted", "brought back from the trash"),
    "purge_session": ("session_purged", "removed for good"),
}


class SessionLifecycleMethods:
    """What a store does with whole sessions."""

    config: Config
    _store: FileStore

    def now(self) -> datetime:
        raise NotImplementedError

    def _opened(self, id: str, author: str | None = None) -> Any:
        raise NotImplementedError

    # -- which state

    def standings(self, *, away: bool = False) -> list[SessionState]:
        """The state of every session and what happens to it next; with `away` also of archived and deleted ones."""
        from smp_memory.store.session_states import archived_session_states, session_states

        self._store.check_open()
        found = session_states(self._store, self.now())
        return found + archived_session_states(self._store, self.now()) if away else found

    def archived_sessions(self) -> list[StoredAway]:
        """The sessions that are packed away; opening one brings it back."""
        from smp_memory.store.archive_index import ArchiveIndex

        return ArchiveIndex(self._store).archived()

    def deleted_sessions(self) -> list[StoredAway]:
        """The sessions in the trash, with who deleted them, when, why, and until when they can be brought back."""
        from smp_memory.store.archive_index import ArchiveIndex

        return ArchiveIndex(self._store).deleted()

    # -- packing away

    def archive_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> StoredAway:
        """Pack a session into an archive, with a summary beside it. Opening it brings it back."""
        from smp_memory.policies.summaries import archive_summary
        from smp_memory.privacy.settings import clean_reason
        from smp_memory.store.archive import archive_session

        at, reason = to_text(self.now()), clean_reason(self.config, reason)

        def summary(records: list[Record], info: SessionInfo | None, figures: dict[str, Any]) -> dict[str, Any]:
            return archive_summary(records, info, archived=at, reason=reason, figures=figures)

        away = archive_session(self._store, id, summary)
        self._note("archive_session", id, by, reason)
        return away

    def restore_session(self, id: str, *, by: str | None = None) -> Any:
        """Bring an archived session back and open it."""
        from smp_memory.store.archive import restore_session
        from smp_memory.store.session_states import note_session_use

        restore_session(self._store, id)
        note_session_use(self._store, id, self.now())
        self._note("restore_session", id, by)
        return self._opened(id, by)

    # -- the trash of whole sessions

    def delete_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> StoredAway:
        """Move a session, archived or not, to the trash. It can be brought back for `lifecycle.purge_days`."""
        from smp_memory.privacy.settings import clean_reason
        from smp_memory.store.session_states import times_of
        from smp_memory.store.trash import delete_session

        reason = clean_reason(self.config, reason)
        away = delete_session(self._store, id, self.now(), times_of(self._store).purge, by, reason)
        self._note("delete_session", id, by, reason)
        return away

    def undelete_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> str:
        """Bring back the session of this name that was deleted last; returns its state, active or archived."""
        from smp_memory.privacy.settings import clean_reason
        from smp_memory.store.session_states import note_session_use
        from smp_memory.store.trash import undelete_session

        state = undelete_session(self._store, id)
        if state == "active":
            note_session_use(self._store, id, self.now())
        self._note("undelete_session", id, by, clean_reason(self.config, reason))
        return state

    def purge_session(self, id: str, reason: str | None = None, *, by: str | None = None) -> StoredAway:
        """Remove a deleted session for good, before its time. Of several of one name the one deleted first goes."""
        from smp_memory.privacy.settings import clean_reason
        from smp_memory.store.trash import purge_session

        at, reason = to_text(self.now()), clean_reason(self.config, reason)
        return purge_session(self._store, id, at, lambda away: self._note("purge_session", id, by, reason))

    # -- what is due

    def maintain(
        self, now: datetime | str | None = None, only: list[str] | None = None, *, dry_run: bool = False
    ) -> MaintenanceReport:
        """Run the tasks that are due, or `only` these; with `dry_run` say what would be done. See docs/lifecycle.md."""
        from smp_memory.lifecycle.maintenance import maintain
        from smp_memory.model.times import parse, to_moment

        moment = self.now() if now is None else to_moment(parse(now, "now"))
        return maintain(self, moment, only, dry_run=dry_run)  # type: ignore[arg-type]  # every heir is a Memory

    def _look_after(self) -> None:
        """As `git gc --auto` does: if nobody has looked for six hours, run what is due and cheap, in the background."""
        state = self._store.state
        found = state.disk.stat(state.path("maintenance.json")) or self._store.disk.stat(
            os.path.join(self._store.root, "config.json")
        )
        if found is None or not self.config["maintenance.auto"]:
            return
        if 0 <= self.now().timestamp() - found.st_mtime < _LOOK_SECONDS:
            return
        if not state.is_trusted():
            return  # upkeep of a store that came with a repository is nobody's business yet
        import threading

        from smp_memory.lifecycle.maintenance import maintain_what_is_cheap

        self._store.start(
            threading.Thread(target=maintain_what_is_cheap, args=(self,), name="smp-maintain", daemon=True)
        )

    def _note(self, action: str, session: str, by: str | None, reason: str | None = None) -> None:
        event, done = _EVENTS[action]
        event_log.emit("session", event_log.INFO, event, f"Session {session} was {done}.", session)
        self._store.audit.note(action, at=to_text(self.now()), by=by, session=session, count=1, reason=reason)
