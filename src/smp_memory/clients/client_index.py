"""The search index and the logs of a store as a client may see them (`client_store`)."""

from __future__ import annotations

from smp_memory.clients.rights import refusal
from smp_memory.files.user_state import UserState
from smp_memory.privacy.audit import Audit
from smp_memory.privacy.visibility import within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType
    from typing import Any

    from smp_memory.clients.rights import Rights
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
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.privacy.visibility import Viewer
    from smp_memory.store.port import Store

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
