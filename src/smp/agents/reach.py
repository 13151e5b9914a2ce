"""Which sessions a context may gather from: the session's own user separates them.

    the session itself, and `global`     always
    sessions without a user              always
    sessions of the same user            always
    sessions of other users              only if `context.share_users` is on for them: in the store, or in that session's own settings

A session without a user, as hooks make them, belongs to the only user that the store's sessions name. If they name several, it is none of
theirs, and all sessions that have a user are those of others.

Guarantees: a session whose head cannot be read, so that nobody knows whose it is, counts as another user's.
Non-guarantees: `query` and everything that names sessions itself is not limited. Files are files.
"""

from __future__ import annotations

from os.path import join
from weakref import WeakKeyDictionary

from smp.agents import GLOBAL_SESSION
from smp.errors import SMPError
from smp.files.disk import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp.model.session_info import SessionInfo
    from smp.store.file_store import FileStore

SETTING = "context.share_users"
_read: WeakKeyDictionary[FileStore, dict[str, tuple[Any, SessionInfo]]] = (
    WeakKeyDictionary()
)  # heads, as long as their files are the same


class Reach:
    """The sessions that a context for one session, or for one without a user that does not exist yet, may gather from."""

    def __init__(self, store: FileStore, session: str | None) -> None:
        self._store = store
        self._session = session
        self._user = self._user_of(session) if session is not None else None
        self._known: dict[str, bool] = {}
        self._one_user: bool | None = None

    def allows(self, session: str) -> bool:
        """Whether memories of this session may be handed out."""
        if session not in self._known:
            self._known[session] = session in (self._session, GLOBAL_SESSION) or self._is_shared(session)
        return self._known[session]

    def sessions(self) -> list[str]:
        """All of them. Reads the head of every session, so it is asked only where another user's session was met."""
        return [name for name in self._store.session_ids() if self.allows(name)]

    def _is_shared(self, session: str) -> bool:
        try:
            info = self._head_of(session)
            if info.user is None or info.user == self._user or (self._user is None and self._has_one_user()):
                return True
            config = self._store.config
            return bool((config.override_session(info.config, session) if info.config else config)[SETTING])
        except (SMPError, OSError):
            return False

    def _has_one_user(self) -> bool:
        """Whether the sessions of the store name no more than one user. Reads their heads, once."""
        if self._one_user is None:
            users: set[str] = set()
            for name in self._store.session_ids():
                users.add(self._head_of(name).user or "")
                if len(users - {""}) > 1:
                    break
            self._one_user = len(users - {""}) <= 1
        return self._one_user

    def _user_of(self, session: str) -> str | None:
        try:
            return self._head_of(session).user
        except (SMPError, OSError):
            return None

    def _head_of(self, session: str) -> SessionInfo:
        store = self._store
        if not store.layout.info_file:  # the head is an entry of the log, which every write changes
            return store.session(session).info()
        path = join(store.layout.folder(store.root, session), store.layout.info_file)
        found = store.disk.stat(path)
        state = found and identity(found)
        heads = _read.setdefault(store, {})
        known = heads.get(session)
        if known is None or state is None or known[0] != state:
            known = heads[session] = (state, store.session(session).info())
        return known[1]
