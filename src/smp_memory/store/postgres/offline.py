"""A store in PostgreSQL as the index on this computer knows it, for reading while the server cannot be reached (setting `offline`).

Guarantees: every answer says as of which time it is. Nothing is sent to the server and nothing is written but the user's own access log: every change
raises StorageReadOnly. Archived and deleted sessions and cold segments are not in the index; of the metadata only user, project and settings are.
The settings of the store are not known: those of the user and the defaults hold.

`open_postgres` opens or creates a store by its address: the entry point of the schemes `postgresql` and `postgres`.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from smp_memory.config.config_file import read_settings
from smp_memory.config.settings import Config
from smp_memory.errors import (
    FormatTooNew,
    LayoutMismatch,
    NotAllowed,
    SessionNotFound,
    StorageCorrupt,
    StorageError,
    StorageReadOnly,
    StoreClosed,
    StoreNotFound,
)
from smp_memory.files.activity import ACCESSES, SESSION_USES, AccessLog, StateLog
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import open_user_state
from smp_memory.index.full_text_index import FullTextIndex
from smp_memory.index.history_index import HistoryFeed
from smp_memory.index.stored_feed import StoredFeed
from smp_memory.model.history import COLD, HOT, SessionHistory
from smp_memory.model.reports import Problem, Report
from smp_memory.model.session_info import LIVE, SessionHead, SessionInfo
from smp_memory.observe import incomplete
from smp_memory.privacy.audit import Audit
from smp_memory.privacy.settings import checked, session_settings
from smp_memory.store.postgres import schema
from smp_memory.store.postgres.connection import Address, Connections, Unreachable
from smp_memory.store.postgres.feed import AS_OF, entries_of, records_of
from smp_memory.store.postgres.postgres_store import NAME, PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from smp_memory.errors import SMPError
    from smp_memory.index.index import Index
    from smp_memory.index.rows import PlacedRow
    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.record import Record
    from smp_memory.search.port import SearchIndex
    from smp_memory.store.port import Histories, SessionStore, Store

    def _provides_port(store: OfflineStore, session: OfflineSession) -> tuple[Store, SessionStore]:
        return store, session  # checked by mypy


def offer(address: str) -> str:
    """A sentence for the error that the server cannot be reached; empty if there is no index on this computer."""
    state = open_user_state(address, Disk(RealSystem()))
    return " SMP_OFFLINE=1 lets queries be answered by the index on this computer." if state.has("index") else ""


class OfflineSource:
    """The source of an index that is not caught up."""

    def __init__(self, root: str) -> None:
        self._root = root

    def opened(self) -> None:
        """Nothing is kept of an index."""

    def catch_up(self, index: Index, sessions: list[str] | None, deadline: float, progress: object) -> bool:
        as_of = index.rows.meta(AS_OF)
        if as_of is None:
            raise StorageError(
                f"There is no complete index of {self._root} on this computer. Nothing can be read offline."
            )
        when = datetime.fromtimestamp(as_of, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        text = f"This answer is as of {when}, from the index on this computer: offline, the server is not asked."
        incomplete.report([Problem(self._root, 0, incomplete.OFFLINE, text, "error")])
        return False

    def fill(self, index: Index, sessions: list[str] | None) -> None:
        raise StorageError(f"The index of {self._root} on this computer cannot be used. Nothing can be read offline.")

    def records(
        self, index: Index, rows: Iterable[PlacedRow], gone: dict[str, LeftOut] | None = None
    ) -> dict[int, Record | None]:
        return records_of(index, rows)

    def session_not_found(self, session: str) -> SMPError:
        return SessionNotFound(f"There is no session {session} in the index on this computer.", session=session)


class OfflineStore:
    """The live sessions of a store, read from the index."""

    files, layout_name, uid = None, NAME, ""

    def __init__(self, root: str, config: Config) -> None:
        self.root, self.config = root, config
        self._is_closed = False
        self.state = open_user_state(root, Disk(RealSystem()))
        self.access = AccessLog(StateLog(self.state, ACCESSES))
        self.session_uses = AccessLog(StateLog(self.state, SESSION_USES), exact=True)
        self.audit = Audit(NoLog(root))
        self.tokens = NoLog(root)
        self._source = OfflineSource(root)
        self.indexer = FullTextIndex(StoredFeed(self, self._source))

    def index(self) -> Index:
        with self.indexer.feed.mutex:
            return self.indexer.feed.caught_up(None)

    def sessions(self, *states: str, id: str | None = None, limit: int | None = None) -> list[SessionHead]:
        if states and LIVE not in states:
            return []
        saved = {name: version for name, (version, _) in self.indexer.saved_metadata().items()}
        rows = self.index().rows.all("SELECT id, last FROM session ORDER BY id")
        found = [
            SessionHead(
                name, LIVE, f"{self.root}#{name}", version=saved.get(name), written=datetime.fromtimestamp(last / 1e6, UTC), bytes=0,
                when=None, reason=None, metadata={},
            )
            for name, last in rows
            if id in (None, name)
        ]  # fmt: skip
        return found[:limit]

    def session(
        self, session: str, state: str = LIVE, *, path: str | None = None, max_bytes: int | None = None
    ) -> OfflineSession:
        if state != LIVE or not self.index().rows.has_session(session):
            raise self._source.session_not_found(session)
        return OfflineSession(self, session)

    def refuse(self, *_: object, **__: object) -> Any:
        raise StorageReadOnly(
            f"{self.root} is used offline; nothing can be changed. Unset SMP_OFFLINE.", path=self.root
        )

    create = move = erase = write_setting = refuse

    def index_of(self, histories: Histories, problems: Mapping[str, list[Problem]]) -> SearchIndex:
        return FullTextIndex(HistoryFeed(histories, problems, self.access))

    def configured_at(self) -> float | None:
        return None

    def check_open(self) -> None:
        if self._is_closed:
            raise StoreClosed("This store was closed; open it again with smp_memory.open().", path=self.root)

    def sync(self) -> None:
        self.check_open()

    def close(self) -> None:
        self.access.flush()
        self.session_uses.flush()
        self.indexer.close()
        self._is_closed = True


class OfflineSession:
    """One session, read from the index."""

    files, size_bytes = None, 0

    def __init__(self, store: OfflineStore, session: str) -> None:
        self._store, self.session = store, session
        self.location = f"{store.root}#{session}"
        self.commit = self.update_info = self.rewrite = store.refuse

    @property
    def config(self) -> Config:
        return session_settings(self._store.config, self.info())

    def history(
        self,
        ids: Iterable[str] | None = None,
        *,
        kind: str | None = None,
        last: int | None = None,
        key: str | None = None,
        segment: str = HOT,
    ) -> SessionHistory:
        found = SessionHistory()
        if segment != COLD:
            found.add(entries_of(self._store.index(), self.session))
        return found if ids is None else found.subset(ids)

    def version(self, segment: str = HOT) -> object | None:
        return 0 if segment == HOT else None

    def sizes(self, segment: str = HOT) -> dict[str, int]:
        return {}

    def info(self) -> SessionInfo:
        saved = self._store.indexer.saved_metadata(self.session).get(self.session)
        first = next(iter(self.history().histories.values()), None)
        info = saved[1] if saved is not None else SessionInfo(self.session, "")
        info.created_text = first.first.at if first is not None else "1970-01-01T00:00:00Z"
        info.path = self.location
        return info

    def validate(self) -> Report:
        return Report([], len(self.history().histories))

    repair = validate


class NoLog:
    """A log that is on the server."""

    def __init__(self, root: str) -> None:
        self.path = root

    def append(self, lines: list[bytes], *, sync: bool = False) -> None:
        raise StorageReadOnly(
            f"{self.path} is used offline; nothing can be changed. Unset SMP_OFFLINE.", path=self.path
        )

    def read(self, offset: int = 0) -> tuple[list[bytes], int]:
        return [], offset

    def replace_before(self, offset: int, lines: list[bytes]) -> None:
        self.append(lines)

    def size_bytes(self) -> int:
        return 0

    def problems(self) -> list[str]:
        return []


_LOCK_SECONDS = 60  # another process may be making or migrating the tables
_FACTS = ("uid", "schema_version", "readable_by", "settings", "configured_at")
_LONGEST_VALUE = 1 << 20  # characters of a row of `meta`; as with `config.json`, more are not read


def open_postgres(
    address: str, layout: str | None, config: Mapping[str, Any] | None, admit: Callable[..., None], create: bool
) -> tuple[PostgresStore | OfflineStore, bool]:
    """The store at an address, and whether it is new. Two round trips; without `create`, a missing one raises StoreNotFound."""
    if layout not in (None, NAME):
        raise LayoutMismatch(f"{layout}: a store in PostgreSQL has no layout; leave it out.", layout=NAME)
    place = Address(address)
    if Config.build({}, place.shown, environ=os.environ, arguments=config)["offline"]:
        others = {name: value for name, value in (config or {}).items() if name.partition(".")[0] != "maintenance"}
        arguments = {**others, "maintenance.auto": False}  # a setting that is given twice is refused
        return OfflineStore(place.shown, Config.build({}, place.shown, environ=os.environ, arguments=arguments)), False
    connections, is_new = Connections(place), False
    try:
        try:
            meta = _read_meta(connections)
        except StoreNotFound:
            if not create:
                raise
            with connections.transaction(_LOCK_SECONDS) as connection:
                is_new = schema.create(connection, connections.address.schema)
            meta = _read_meta(connections)
        _check_version(connections, meta)
        shown = connections.address.shown
        state = open_user_state(shown, Disk(RealSystem()))
        stored = read_settings(lambda: meta.get("settings", "{}").encode(), f"{shown}#settings")
        # Others may change the settings: those that lower protection wait for `smp trust`, as in a folder.
        settings = Config.build(
            stored, f"{shown}#settings", environ=os.environ, arguments=config, trusted=state.trusted_settings()
        )
        return PostgresStore(
            connections, checked(settings), _moment(meta.get("configured_at")), meta.get("uid", ""), admit, state
        ), is_new
    except Unreachable as error:
        connections.close()
        raise Unreachable(error.message + offer(place.shown), **error.details) from error
    except BaseException:
        connections.close()
        raise


def _read_meta(connections: Connections) -> dict[str, str]:
    query = f"SELECT name, left(value, {_LONGEST_VALUE}) FROM {connections.address.schema}.meta WHERE name = ANY(%s)"
    return dict(connections.run(lambda connection: connection.execute(query, (list(_FACTS),)).fetchall()))


def _moment(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None  # as if the settings were never changed


def _check_version(connections: Connections, meta: Mapping[str, str]) -> None:
    shown = connections.address.shown
    try:
        found, oldest = int(meta["schema_version"]), int(meta["readable_by"])
    except (KeyError, ValueError):
        message = f"{shown}: the table `meta` does not say which version the tables have. Restore it from a backup."
        raise StorageCorrupt(message, path=shown) from None
    if oldest > schema.VERSION:
        raise FormatTooNew(
            f"{shown} has tables of version {found}; this SMP knows {schema.VERSION}. Install a newer one.",
            path=shown, format=found, limit=schema.VERSION,
        )  # fmt: skip
    if found < schema.VERSION:
        try:
            with connections.transaction(_LOCK_SECONDS) as connection:
                schema.migrate(connection, connections.address.schema)
        except NotAllowed as error:
            message = f"{shown} has tables of version {found}, which their owner must bring to {schema.VERSION}: open the store as the owner once. {error.message}"
            raise NotAllowed(message, path=shown) from error
