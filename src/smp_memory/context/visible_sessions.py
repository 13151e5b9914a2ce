"""The sessions whose memories a context may contain: those of other users are left out.

    the session itself, and `global`     always
    sessions without a user              always
    sessions of the same user            always
    sessions of other users              only if `context.share_users` is on for them: in the store, or in that session's own settings

A session without a user, as hooks create them, belongs to the only user that the store's sessions name. If they name several, it
belongs to none of them, and every session that has a user counts as another user's.

Guarantees: a session whose metadata cannot be read, so that its user is unknown, counts as another user's.
Non-guarantees: `query` and everything else that names sessions is not limited; anybody who can read the files can read all sessions.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from smp_memory.errors import SessionCorrupt, SMPError
from smp_memory.model.session_info import GLOBAL_SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.port import Store

SETTING = "context.share_users"
# Metadata of sessions with the version that was read.
_metadata_cache: WeakKeyDictionary[Store, dict[str, tuple[Any, SessionInfo]]] = WeakKeyDictionary()


class VisibleSessions:
    """The sessions that a context for one session may contain; None stands for a session without a user that does not exist yet."""

    def __init__(self, store: Store, session: str | None) -> None:
        self._store = store
        self._session = session
        self._user = self._user_of(session) if session is not None else None
        self._known: dict[str, bool] = {}
        self._one_user: bool | None = None

    def allows(self, session: str) -> bool:
        """Whether memories of this session may be in the context."""
        if session not in self._known:
            self._known[session] = session in (self._session, GLOBAL_SESSION) or self._is_shared(session)
        return self._known[session]

    def sessions(self) -> list[str]:
        """All visible sessions. Reads the metadata of every session: call it only after another user's session was met."""
        self._use_saved_metadata()
        return [name for name in self._store.session_ids() if self.allows(name)]

    def _is_shared(self, session: str) -> bool:
        try:
            info = self._metadata(session)
            if info.user is None or info.user == self._user or (self._user is None and self._has_one_user()):
                return True
            config = self._store.config
            return bool((config.override_session(info.config, session) if info.config else config)[SETTING])
        except (SMPError, OSError):
            return False

    def _has_one_user(self) -> bool:
        """Whether the sessions of the store name at most one user. Reads their metadata, once."""
        if self._one_user is None:
            self._use_saved_metadata()
            users: set[str] = set()
            for name in self._store.session_ids():
                users.add(self._metadata(name).user or "")
                if len(users - {""}) > 1:
                    break
            self._one_user = len(users - {""}) <= 1
        return self._one_user

    def _user_of(self, session: str) -> str | None:
        try:
            return self._metadata(session).user
        except (SMPError, OSError):
            return None

    def _use_saved_metadata(self) -> None:
        """Let the index tell what it knows of all sessions, instead of reading each; `_metadata` compares the version."""
        saved = self._store.indexer.saved_metadata()
        _metadata_cache[self._store] = {**saved, **_metadata_cache.get(self._store, {})}

    def _metadata(self, session: str) -> SessionInfo:
        version = self._store.metadata_version(session)
        if version is None:
            return self._metadata_among_entries(session)
        cache = _metadata_cache.setdefault(self._store, {})
        cached = cache.get(session)
        if cached is None or cached[0] != version:
            cached = cache[session] = (version, self._store.session(session).info())
        return cached[1]

    def _metadata_among_entries(self, session: str) -> SessionInfo:
        """Metadata that is an entry of a log. If there is none and a line cannot be read, that line may be it."""
        files = self._store.session(session)
        info = files.info()
        if info.user is None and info.is_assumed:
            files.view(lambda fold: None)  # reads the entries that this process has not read yet
            if not files.unreadable():
                return info
            raise SessionCorrupt(
                f"The metadata of session {session} may be an entry that cannot be read.", session=session
            )
        return info
