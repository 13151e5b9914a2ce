"""A store as one client of a shared server may see and change it: the storage port and the search port, limited by a token.

Everything above the ports (tools, pages, searches, contexts, statistics, exports) is a function of a `Store`. So the rights of a client are
enforced here and nowhere else: a server gives each client a `Memory` over a `ClientStore` (`smp_memory.memory.seen_through`).

Guarantees
    sessions   A session outside of the token is not listed, counted, searched, followed along relations or successions, and no figure of the
               corpus knows its words (`Viewer.sessions`). The error for it is that of a session that does not exist. Session ids
               are one name space: creating a session whose id is taken tells that it is taken.
    writing    Without the right, everything that changes memories, sessions or settings raises NotAllowed before anything is read. What is
               removed for good (erasure, purge, redaction) needs the right to erase. A new session belongs to a project of the token.
               A session cannot be moved to another project, and a memory cannot refer to one outside of the token: it would change how that one is found.
    the rest   What only files have, the user's state but for notes about sessions, settings and tokens are not offered.
Non-guarantees: a deleted session whose record does not name its project is shown only to tokens that name the session or all sessions. Which memories were
read counts as a use, also with a token that may only read.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from smp_memory.clients.client_index import (
    ClientAccess,
    ClientAudit,
    ClientIndex,
    ClientState,
    Rights,
    project_of,
    refusal,
)
from smp_memory.errors import NotAllowed, SessionExists, SMPError
from smp_memory.model.history import HOT
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE, PURGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from typing import Any, TypeVar

    from smp_memory.config.settings import Config
    from smp_memory.files.user_state import UserState
    from smp_memory.model.deletions import Receipt
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import IdAllocator, SessionHistory
    from smp_memory.model.reports import Problem, Report
    from smp_memory.model.rewrite_plan import RewritePlan, RewriteReport
    from smp_memory.model.session_info import SessionHead, SessionInfo
    from smp_memory.model.storage_reports import AppendLog
    from smp_memory.privacy.audit import Audit
    from smp_memory.privacy.client_tokens import ClientToken
    from smp_memory.search.port import SearchIndex
    from smp_memory.store.port import Admit, BatchPort, Histories, Note, SessionFiles, SessionStore, Store

    T = TypeVar("T")

    def _provides_ports(
        store: ClientStore, session: ClientSession, index: ClientIndex, batch: _LimitedBatch
    ) -> tuple[Store, SessionStore, SearchIndex, BatchPort]:
        return store, session, index, batch  # checked by mypy


class ClientStore:
    """A store as a client may use it."""

    def __init__(self, store: Store, token: ClientToken) -> None:
        self._store = store
        self._rights = Rights(store, token)
        self._sessions: WeakValueDictionary[str, ClientSession] = WeakValueDictionary()
        self._index = ClientIndex(store, self._rights)
        self.root, self.uid, self.files, self.layout_name = store.root, store.uid, None, store.layout_name
        self.audit: Audit = ClientAudit(store.audit, self._rights)
        self.access: Any = ClientAccess(lambda: store.access, self._sees_ref)
        self.session_uses: Any = ClientAccess(lambda: store.session_uses, self._sees_name)
        self.state: UserState = ClientState(store.state)

    def run(self, work: Callable[[], T]) -> T:
        """Run a request in this thread: which sessions the client may see is found out once for it."""
        self._rights.hold(1)
        try:
            return work()
        finally:
            self._rights.hold(-1)

    @property
    def config(self) -> Config:
        return self._store.config

    @config.setter
    def config(self, config: Config) -> None:
        raise refusal("Changing settings")

    @property
    def indexer(self) -> SearchIndex:
        return self._index

    @property
    def tokens(self) -> AppendLog:
        raise refusal("Managing tokens")

    def _sees_name(self) -> Callable[[str], bool]:
        live = self._rights.live()
        return (lambda _: True) if live is None else live.__contains__

    def _sees_ref(self) -> Callable[[str], bool]:
        live = self._rights.live()
        return (lambda _: True) if live is None else lambda ref: ref.rpartition("/")[0] in live

    def sessions(self, *states: str, id: str | None = None, limit: int | None = None) -> list[SessionHead]:
        if not self._rights.token.is_limited:
            return self._store.sessions(*states, id=id, limit=limit)
        return [each for each in self._store.sessions(*states, id=id) if self._rights.admits(each)][:limit]

    def session(
        self, session: str, state: str = LIVE, *, path: str | None = None, max_bytes: int | None = None
    ) -> ClientSession:
        rights = self._rights
        if state == DELETED:  # several may have one id; they are read to copy whole stores, which no client does
            raise NotAllowed("A client cannot read deleted sessions; restore the session first.", session=session)
        if self._store.sessions(state, id=session):
            rights.check_name(session, state)
        else:  # the error of the store says whether it is archived or deleted
            rights.check_name(session)
        found = self._store.session(session, state, max_bytes=max_bytes)
        if state != LIVE:
            return ClientSession(found, rights, state)
        known = self._sessions.get(session)
        if known is None or known.storage is not found:
            known = self._sessions[session] = ClientSession(found, rights)
        return known

    def create(
        self,
        info: SessionInfo,
        entries: list[Entry] | None = None,
        quota_bytes: int = 0,
        *,
        cold: Mapping[str, tuple[str, str]] | None = None,
        written: datetime | None = None,
    ) -> ClientSession:
        rights = self._rights
        rights.check_write()
        rights.check_info(info)
        rights.check_references(info.id, entries or [])
        try:
            return ClientSession(self._store.create(info, entries, quota_bytes, cold=cold, written=written), rights)
        except SessionExists:
            raise self._taken(info.id) from None
        finally:
            rights.forget()

    def _taken(self, session: str) -> SessionExists:
        return SessionExists(f"The id {session} is taken; choose another one.", session=session)

    def move(
        self,
        session: str,
        origin: str,
        state: str,
        note: Note = lambda head, _: head.metadata,
        audit: Callable[[], object] = lambda: None,
        *,
        path: str | None = None,
    ) -> SessionHead:
        rights = self._rights
        rights.check_write()
        if state == PURGED:
            rights.check_erase()
        rights.check_name(session, *((LIVE, ARCHIVED) if origin == LIVE else (origin,)))
        try:
            return self._store.move(session, origin, state, note, audit, path=path)
        except SessionExists:
            raise self._taken(session) from None
        finally:
            rights.forget()

    def erase(
        self,
        targets: dict[str, list[str]],
        receipt: Receipt,
        note: Callable[[], object],
        renew_digests: Callable[[], tuple[list[str], list[str]]],
    ) -> None:
        rights = self._rights
        rights.check_erase()
        for session in targets:
            rights.check_name(session)
        self._store.erase(targets, receipt, note, renew_digests)
        if rights.token.is_limited:
            receipt.elsewhere = []  # other memories with the same text: whether there are any is nothing for this client

    def index_of(self, histories: Histories, problems: Mapping[str, list[Problem]]) -> SearchIndex:
        return self._store.index_of(histories, problems)

    def write_setting(self, name: str, value: Any) -> None:
        raise refusal("Changing settings")

    def configured_at(self) -> float | None:
        return self._store.configured_at()

    def check_open(self) -> None:
        self._store.check_open()

    def sync(self) -> None:
        self._store.sync()

    def close(self) -> None:
        """Nothing: the server closes the store."""


class ClientSession:
    """A session as a client may use it. It was admitted when it was opened, and is checked again when it is written."""

    def __init__(self, storage: SessionStore, rights: Rights, state: str = LIVE) -> None:
        self.storage = storage
        self.session = storage.session
        self._rights = rights
        self._state = state

    def _check_write(self) -> None:
        self._rights.check_write()
        self._rights.check_name(self.session, self._state)

    @property
    def files(self) -> SessionFiles | None:
        return self.storage.files if self._rights.token.may_write else None

    @property
    def location(self) -> str:
        return self.storage.location

    @property
    def size_bytes(self) -> int:
        return self.storage.size_bytes

    @property
    def config(self) -> Config:
        return self.storage.config

    def commit(self, batch: BatchPort) -> None:
        self._check_write()
        self.storage.commit(
            _LimitedBatch(batch, self.session, self._rights) if self._rights.token.is_limited else batch
        )

    def history(
        self,
        ids: Iterable[str] | None = None,
        *,
        kind: str | None = None,
        last: int | None = None,
        key: str | None = None,
        segment: str = HOT,
    ) -> SessionHistory:
        return self.storage.history(ids, kind=kind, last=last, key=key, segment=segment)

    def version(self, segment: str = HOT) -> object | None:
        return self.storage.version(segment)

    def sizes(self, segment: str = HOT) -> dict[str, int]:
        return self.storage.sizes(segment)

    def info(self) -> SessionInfo:
        return self.storage.info()

    def update_info(self, change: Callable[[SessionInfo], None]) -> SessionInfo:
        self._check_write()

        def checked(info: SessionInfo) -> None:
            before = project_of(info)
            change(info)
            self._rights.check_info(info, before)

        return self.storage.update_info(checked)

    def rewrite(self, plan: RewritePlan, *, dry_run: bool = False) -> RewriteReport:
        if not dry_run:
            self._check_write()
            if plan.drop or plan.redactor is not None:
                self._rights.check_erase()
        return self.storage.rewrite(plan, dry_run=dry_run)

    def validate(self) -> Report:
        return self.storage.validate()

    def repair(self) -> Report:
        self._check_write()
        return self.storage.repair()


class _LimitedBatch:
    """A batch whose entries may refer to sessions of the token only. What the backend sets goes to the batch itself."""

    operation_name: str
    atomic: bool
    needs_histories: bool
    is_maintenance: bool
    read_version: int
    error: SMPError | None

    def __init__(self, batch: BatchPort, session: str, rights: Rights) -> None:
        self.__dict__.update(_batch=batch, _session=session, _rights=rights)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_batch"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_batch"], name, value)

    def resolve(self, allocator: IdAllocator) -> list[Entry]:
        entries: list[Entry] = self.__dict__["_batch"].resolve(allocator)
        self.__dict__["_rights"].check_references(self.__dict__["_session"], entries)
        return entries

    def check_room(self, admit: Admit, used_bytes: int, new_bytes: int) -> None:
        self.__dict__["_batch"].check_room(admit, used_bytes, new_bytes)
