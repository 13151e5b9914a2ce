"""The search index and the logs of a store as a client may see them (`client_store`).

The rights of a token on a store: which sessions it shows, whether it may write or erase, and what may refer to what.

Guarantees: a session whose project cannot be read belongs to none. The session `global` is for all projects, so a token shows it only if it names it or
shows all sessions. Inside a request or a snapshot (`hold`) the sessions of a token stay the same, unless the client itself changes them.
"""

from __future__ import annotations

from threading import local

from smp_memory.errors import NotAllowed, SessionNotFound, SMPError
from smp_memory.files.user_state import UserState
from smp_memory.model.session_info import ARCHIVED, DELETED, GLOBAL_SESSION, LIVE
from smp_memory.privacy.audit import Audit
from smp_memory.privacy.client_tokens import project_key
from smp_memory.privacy.visibility import within
from smp_memory.text.memory_text import relations_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Any

    from smp_memory.model.candidates import (
        Candidate,
        CandidateRequest,
        Candidates,
        Facets,
        FoundRecords,
        RelatedRef,
        SessionActivity,
        Vocabulary,
    )
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionHead, SessionInfo
    from smp_memory.privacy.client_tokens import ClientToken
    from smp_memory.privacy.visibility import Viewer
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
            raise NotAllowed(
                f"session: {GLOBAL_SESSION} is for all projects; the token {token.name} does not include it."
            )
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


_MAINTENANCE = "maintenance.json"
_OWN_STATE = ("purges/", "compaction/", "clock.json", _MAINTENANCE)  # notes about sessions, and times


class ClientIndex:
    """The search index as a client may use it."""

    def __init__(self, store: Store, rights: Rights) -> None:
        self._store = store
        self._rights = rights

    @property
    def folder(self) -> str:
        return ""

    def snapshot(self, *, all_sessions: bool = False, by_meaning: bool = False) -> _ClientSnapshot:
        return _ClientSnapshot(self._rights, self._store.indexer.snapshot(all_sessions=all_sessions, by_meaning=by_meaning))  # fmt: skip

    def _viewer(self, viewer: Viewer | None) -> Viewer | None:
        live = self._rights.live()
        return viewer if live is None else within(viewer, live)

    def _limited(self, request: CandidateRequest) -> CandidateRequest:
        live = self._rights.live()
        if live is None:
            return request
        sessions = self._named(request.sessions, live, ignores_missing=request.ignores_missing)
        return request.with_changes(sessions=sessions, viewer=within(request.viewer, live))

    def _named(
        self, sessions: Sequence[str] | None, live: frozenset[str], *, ignores_missing: bool = False
    ) -> list[str]:
        if sessions is None:
            return sorted(live)
        for name in sessions:
            if name not in live and not ignores_missing:
                self._rights.check_name(name)  # archived or deleted: the index says so
        return [name for name in sessions if name in live or not ignores_missing]

    def candidates(self, request: CandidateRequest) -> Candidates:
        return self._store.indexer.candidates(self._limited(request))

    def records(self, wanted: Iterable[Candidate | str], viewer: Viewer | None = None) -> FoundRecords:
        found = self._store.indexer.records(wanted, self._viewer(viewer))
        live = self._rights.live()
        if live is not None:
            found.left_out = {name: each for name, each in found.left_out.items() if name in live}
        return found

    def facets(self, request: CandidateRequest, fields: Sequence[str]) -> Facets:
        return self._store.indexer.facets(self._limited(request), fields)

    def related(
        self, refs: Iterable[str], depth: int = 1, kinds: Sequence[str] = (), viewer: Viewer | None = None
    ) -> dict[str, list[RelatedRef]]:
        return self._store.indexer.related(refs, depth, kinds, self._viewer(viewer))

    def vocabulary(self, words: Iterable[str], viewer: Viewer | None = None) -> Vocabulary:
        return self._store.indexer.vocabulary(words, self._viewer(viewer))

    def activity(
        self, sessions: Sequence[str] | None = None, *, ids_from: int | None = None
    ) -> dict[str, SessionActivity]:
        live = self._rights.live()
        wanted = sessions if live is None else self._named(sessions, live)
        return self._store.indexer.activity(wanted, ids_from=ids_from)

    def saved_metadata(self, session: str | None = None) -> dict[str, tuple[object, SessionInfo]]:
        found, live = self._store.indexer.saved_metadata(session), self._rights.live()
        return found if live is None else {name: each for name, each in found.items() if name in live}

    def count_accesses(self, *, from_start: bool = False) -> None:
        raise refusal("Maintenance")

    def is_intact(self) -> bool:
        return self._store.indexer.is_intact()

    def rebuild(self, progress: Callable[[str, int], None] | None = None) -> int:
        raise refusal("Maintenance")

    def embed_missing(self, seconds: float | None = None) -> int:
        return 0  # the server does it

    def close(self) -> None:
        """Nothing: the server closes the store."""


class _ClientSnapshot:
    """A snapshot of the index in which the sessions of the client stay the same, too."""

    def __init__(self, rights: Rights, snapshot: Any) -> None:
        self._rights, self._snapshot = rights, snapshot

    def __enter__(self) -> None:
        self._rights.hold(1)
        try:
            self._snapshot.__enter__()
        except BaseException:
            self._rights.hold(-1)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._snapshot.__exit__(kind, error, trace)
        finally:
            self._rights.hold(-1)


# -- logs and state


class ClientAudit(Audit):
    """The audit log of the store: notes name the client, and only those about its sessions are shown."""

    def __init__(self, audit: Audit, rights: Rights) -> None:
        super().__init__(audit.log)
        self._rights = rights

    def note(self, action: str, **facts: Any) -> bool:
        return super().note(action, client=self._rights.token.name, **facts)

    def entries(self) -> list[dict[str, Any]]:
        every = super().entries()
        if not self._rights.token.is_limited:
            return every
        about = [each for each in every if isinstance(each.get("session"), str)]
        seen = {name: self._rights.admits_name(name) for name in {each["session"] for each in about}}
        return [each for each in about if seen[each["session"]]]


class ClientAccess:
    """An access log: uses are recorded as always, those of the client's sessions are shown."""

    def __init__(self, log: Callable[[], Any], sees: Callable[[], Callable[[str], bool]]) -> None:
        self._log, self._sees = log, sees

    @property
    def path(self) -> str:
        return str(self._log().path)

    def record(self, names: Iterable[str], at_seconds: float) -> None:
        self._log().record(names, at_seconds)

    def read(self, offset: int) -> tuple[list[tuple[str, float]], int]:
        uses, end = self._log().read(offset)
        return self._seen(uses), end

    def pending(self) -> list[tuple[str, float]]:
        return self._seen(self._log().pending())

    def _seen(self, uses: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
        sees = self._sees()
        return [each for each in uses if sees(each[0])]

    def last_uses(self) -> dict[str, float]:
        return dict(self._seen(self._log().last_uses().items()))

    def size_bytes(self) -> int:
        return int(self._log().size_bytes())

    def flush(self) -> None:
        raise refusal("Maintenance")


class ClientState(UserState):
    """The user's state of a store without what hooks and other programs noted about other sessions."""

    def __init__(self, state: UserState) -> None:
        self.__dict__.update(vars(state))

    def has(self, name: str) -> bool:
        return name.startswith(_OWN_STATE) and super().has(name)

    def read(self, name: str) -> bytes:
        if not name.startswith(_OWN_STATE):
            raise FileNotFoundError(name)
        return super().read(name)

    def names(self, folder: str) -> list[str]:
        return []

    def modified_at(self, name: str) -> float | None:
        return super().modified_at(name) if name.startswith(_OWN_STATE) else None

    def write(self, name: str, data: bytes, *, durable: bool = False) -> None:
        if not name.startswith(_OWN_STATE) or name == _MAINTENANCE:
            raise refusal("Maintenance")
        super().write(name, data, durable=durable)
