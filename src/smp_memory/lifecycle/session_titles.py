"""Titles of live sessions: what a person or the host calls each, else the beginning of its first prompt.

Guarantees: a title that was made from a prompt is stored nowhere but in the index, so it changes with the prompt, and goes when that is deleted,
redacted or erased; a prompt with a visibility of its own makes none. Costs one call of the index for all sessions; metadata is read from the
files only if it changed since the index read it. Who may see some sessions of a store gets the titles of these.
"""

from __future__ import annotations

from smp_memory.errors import SMPError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from smp_memory.model.candidates import SessionActivity
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import Store


class SessionNames:
    """The metadata that the index keeps of each session, and titles. One state of the store."""

    def __init__(self, store: Store, sessions: list[str] | None = None) -> None:
        """Of these sessions (None: all live ones)."""
        self._store = store
        self.activity: Mapping[str, SessionActivity] = store.indexer.activity(sessions)
        self._saved = store.indexer.saved_metadata()
        self._versions = {head.session: head.version for head in store.sessions()}

    def info(self, session: str) -> SessionInfo | None:
        """User, project, settings and title of a session, maybe nothing else; None if its metadata cannot be read."""
        saved = self._saved.get(session)
        if saved is not None and saved[0] == self._versions.get(session):
            return saved[1]
        try:
            return self._store.session(session).info()
        except SMPError:
            return None

    def title(self, session: str) -> str:
        """The title of a session; empty if nobody named it and it has no prompt."""
        info, known = self.info(session), self.activity.get(session)
        return (info.title if info is not None else "") or (known.prompt if known is not None else "")


def session_title(store: Store, session: str) -> str:
    """The title of one live session; empty if it has none."""
    try:
        title = store.session(session).info().title
    except SMPError:
        title = ""
    return title or store.indexer.activity([session])[session].prompt
