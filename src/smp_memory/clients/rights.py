"""The rights of a token on a store: which sessions it shows, whether it may write or erase, and what may refer to what.

Guarantees: a session whose project cannot be read belongs to none. The session `global` is for all projects, so a token shows it only if it names it or
shows all sessions. Inside a request or a snapshot (`hold`) the sessions of a token stay the same, unless the client itself changes them.
"""

from __future__ import annotations

from threading import local

from smp_memory.errors import NotAllowed, SessionNotFound, SMPError
from smp_memory.model.session_info import ARCHIVED, DELETED, GLOBAL_SESSION, LIVE
from smp_memory.privacy.client_tokens import project_key
from smp_memory.text.memory_text import relations_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionHead, SessionInfo
    from smp_memory.privacy.client_tokens import ClientToken
    from smp_memory.store.port import Store

_ANY_STATE = (LIVE, ARCHIVED, DELETED)


class Rights:
    """Which sessions a token shows, and what it allows."""

    def __init__(self, store: Store, token: ClientToken) -> None:
        self.store = store
        self.token = token
        self._projects: dict[tuple[str, str], tuple[object, str]] = {}  # by state and id: version and project
        self._held = local()  # `sessions` and `depth` of the request or snapshot of a thread

    # -- sessions

    def admits(self, head: SessionHead) -> bool:
        token = self.token
        if not token.is_limited or head.session in token.sessions:
            return True
        is_of_projects = bool(token.projects) and head.session != GLOBAL_SESSION  # which is for all projects
        return is_of_projects and self._project(head) in token.project_keys

    def admits_name(self, session: str, *states: str) -> bool:
        """Whether all sessions of this name in these states (none given: in any) are admitted, and there is one."""
        heads = self.store.sessions(*(states or _ANY_STATE), id=session)
        return bool(heads) and all(map(self.admits, heads))

    def live(self) -> frozenset[str] | None:
        """The live sessions that are admitted; None: all. Inside a request or a snapshot they are found once."""
        if not self.token.is_limited:
            return None
        held: frozenset[str] | None = getattr(self._held, "sessions", None)
        if held is not None:
            return held
        if self.token.projects:
            self._use_saved_metadata()
            heads = self.store.sessions()
        else:
            heads = [head for name in self.token.sessions for head in self.store.sessions(id=name)]
        found = frozenset(head.session for head in heads if self.admits(head))
        if getattr(self._held, "depth", 0):
            self._held.sessions = found
        return found

    def hold(self, steps: int) -> None:
        """Begin (1) or end (-1) a request or a snapshot of this thread."""
        self._held.depth = getattr(self._held, "depth", 0) + steps
        if not self._held.depth:
            self._held.sessions = None

    def forget(self) -> None:
        """Find the live sessions again: this thread has created or moved one."""
        self._held.sessions = None

    def _use_saved_metadata(self) -> None:
        """Let the index tell the projects of all sessions, instead of reading each; `_project` compares the version."""
        if not self._projects:
            for name, (version, info) in self.store.indexer.saved_metadata().items():
                self._projects[LIVE, name] = version, project_of(info)

    def _project(self, head: SessionHead) -> str:
        """The project of a session; empty if it names none or cannot be read."""
        if head.state == DELETED:
            return project_key(str(head.metadata.get("project") or ""))
        try:
            opened = None
            version = head.version
            if version is None and head.state == LIVE:  # the metadata is one of its entries
                opened = self.store.session(head.session)
                version = opened.version()
            known = self._projects.get((head.state, head.session))
            if known is None or known[0] != version:
                info = (opened or self.store.session(head.session, head.state)).info()
                known = self._projects[head.state, head.session] = version, project_of(info)
            return known[1]
        except (SMPError, OSError):
            return ""

    def not_found(self, session: str) -> SessionNotFound:
        return SessionNotFound(f"There is no session {session}.", session=session)

    def check_name(self, session: str, *states: str) -> None:
        if self.token.is_limited and not self.admits_name(session, *states):
            raise self.not_found(session)

    # -- rights

    def check_write(self) -> None:
        if not self.token.may_write:
            raise NotAllowed(f"The token {self.token.name} may not write: it was created without --write.")

    def check_erase(self) -> None:
        if not self.token.may_erase:
            raise NotAllowed(f"The token {self.token.name} may not remove anything for good: it was created without --erase.")  # fmt: skip

    def check_info(self, info: SessionInfo, before: str | None = None) -> None:
        """Give a new session the only project of the token, and refuse a project that is not one of them.

        before: the project of a session that exists.
        """
        token, project = self.token, project_of(info)
        if token.is_limited and info.id == GLOBAL_SESSION not in token.sessions:
            raise NotAllowed(f"session: {GLOBAL_SESSION} is for all projects; the token {token.name} does not name it.")
        if not token.is_limited or project in token.project_keys or (before is not None and project == before):
            return
        if not project and info.id in token.sessions:
            return
        if not project and len(token.projects) == 1 and before is None:
            info.project = token.projects[0]
            return
        allowed = ", ".join(token.projects) or "no project"
        raise NotAllowed(f"project: the token {token.name} may write to {allowed}.", field="project")

    def check_references(self, session: str, entries: list[Entry]) -> None:
        """Refuse entries that refer to a session outside of the token: they would change how its memories are found."""
        if not self.token.is_limited:
            return
        for entry in entries:
            for kind, where, id in relations_of(entry.data, session):
                if where != session and not self.admits_name(where):
                    raise NotAllowed(f"{kind}: {where}/{id} does not exist.", field=kind)


def refusal(what: str) -> NotAllowed:
    return NotAllowed(f"{what} is done on the server, not with a token.")


def project_of(info: SessionInfo) -> str:
    return project_key(info.project) if isinstance(info.project, str) else ""
