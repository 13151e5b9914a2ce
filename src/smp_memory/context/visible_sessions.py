"""The sessions whose memories a context may contain: those of other users and of other projects are left out.

    the session itself, and `global`     always
    sessions without a user              always, unless they name another project
    sessions of the same user            the same
    sessions of other users              only if `context.share_users` is on for them: in the store, or in that session's own settings

A session without a user, as hooks create them, and a context without a session belong to the only user that the store's sessions name.
If they name several, they belong to none of them, and every session that has a user counts as another user's.

A session of another project is one that names a project, if the context's session or caller names a different one. The name of the folder
that holds the store counts as no project: hooks give it to every session, and a store in a project's folder is that project's.

Guarantees: a session whose metadata cannot be read, so that its user is unknown, counts as another user's.
Non-guarantees: `query` and everything else that names sessions is not limited; anybody who can read the files can read all sessions.
"""

from __future__ import annotations

import os
from weakref import WeakKeyDictionary

from smp_memory.discovery import folder_of_store, project_name
from smp_memory.errors import SessionCorrupt, SMPError
from smp_memory.model.session_info import GLOBAL_SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.session_info import SessionHead, SessionInfo
    from smp_memory.store.port import Store

SETTING = "context.share_users"
# Metadata of sessions with the version that was read.
_metadata_cache: WeakKeyDictionary[Store, dict[str, tuple[Any, SessionInfo]]] = WeakKeyDictionary()


class VisibleSessions:
    """The sessions that a context may contain; the user and the project are those of the session unless they are given.

    A session of None stands for one that does not exist yet.
    """

    def __init__(
        self, store: Store, session: str | None, *, user: str | None = None, project: str | None = None
    ) -> None:
        self._store = store
        self._cache = _metadata_cache.setdefault(store, {})
        self._session = session
        folder = folder_of_store(store.root)
        self._own = (
            (_key(os.path.basename(folder)), _key(project_name(folder))) if folder else ()
        )  # as sessions name it
        info = self._readable_metadata(session) if session is not None else None
        self._user = user or (info.user if info is not None else None)
        self._project = _key(project) or self._project_of(info)
        self._known: dict[str, bool] = {}
        self._one_user: bool | None = None

    def allows(self, session: str, head: SessionHead | None = None) -> bool:
        """Whether memories of this session may be in the context. `head` saves looking for it."""
        if session not in self._known:
            self._known[session] = session in (self._session, GLOBAL_SESSION) or self._is_shared(session, head)
        return self._known[session]

    def sessions(self) -> list[str]:
        """All visible sessions. Reads the metadata of every session: call it only after a session that is not visible was met."""
        self._use_saved_metadata()
        return [head.session for head in self._store.sessions() if self.allows(head.session, head)]

    def has_project(self) -> bool:
        """Whether a session names the project. Reads the metadata of sessions until one does."""
        self._use_saved_metadata()
        infos = (self._readable_metadata(head.session, head) for head in self._store.sessions())
        return any(info is not None and _key(info.project) == self._project for info in infos)

    def _is_shared(self, session: str, head: SessionHead | None) -> bool:
        try:
            info = self._metadata(session, head)
            if self._project and self._project_of(info) not in ("", self._project):
                return False
            if info.user is None or info.user == self._user or (self._user is None and self._has_one_user()):
                return True
            config = self._store.config
            return bool((config.override_session(info.config, session) if info.config else config)[SETTING])
        except (SMPError, OSError):
            return False

    def _project_of(self, info: SessionInfo | None) -> str:
        name = _key(info.project) if info is not None else ""
        return "" if name in self._own else name

    def _has_one_user(self) -> bool:
        """Whether the sessions of the store name at most one user. Reads their metadata, once."""
        if self._one_user is None:
            self._use_saved_metadata()
            users: set[str] = set()
            for head in self._store.sessions():
                user = self._metadata(head.session, head).user
                if user and user not in users:
                    users.add(user)
                    if len(users) > 1:
                        break
            self._one_user = len(users) <= 1
        return self._one_user

    def _readable_metadata(self, session: str, head: SessionHead | None = None) -> SessionInfo | None:
        try:
            return self._metadata(session, head)
        except (SMPError, OSError):
            return None

    def _use_saved_metadata(self) -> None:
        """Let the index tell what it knows of all sessions, instead of reading each; `_metadata` compares the version."""
        self._cache.update({**self._store.indexer.saved_metadata(), **self._cache})

    def _metadata(self, session: str, head: SessionHead | None) -> SessionInfo:
        head = head or next(iter(self._store.sessions(id=session)), None)
        version = head.version if head is not None else None
        if version is None:
            return self._metadata_among_entries(session)
        cached = self._cache.get(session) or self._store.indexer.saved_metadata(session).get(session)
        if cached is None or cached[0] != version:
            cached = (version, self._store.session(session).info())
        self._cache[session] = cached
        return cached[1]

    def _metadata_among_entries(self, session: str) -> SessionInfo:
        """Metadata that is an entry of a log. If there is none and a line cannot be read, that line may be it."""
        storage = self._store.session(session)
        info = storage.info()
        if info.user is None and info.is_assumed:
            if not storage.history().unreadable:
                return info
            raise SessionCorrupt(
                f"The metadata of session {session} may be an entry that cannot be read.", session=session
            )
        return info


def _key(project: object) -> str:
    """The name of a project as it is compared; a person may have typed anything."""
    return " ".join(project.casefold().split()) if isinstance(project, str) else ""
