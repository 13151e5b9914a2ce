"""A store in PostgreSQL as the index on this computer knows it, for reading while the server cannot be reached (setting `offline`).

Guarantees: every answer says as of which time it is. Nothing is sent to the server and nothing is written but the user's own access log: every change
raises StorageReadOnly. Archived and deleted sessions and cold segments are not in the index; of the metadata only user, project and settings are.
The settings of the store are not known: those of the user and the defaults hold.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SessionNotFound, StorageError, StorageReadOnly, StoreClosed
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
from smp_memory.privacy.settings import session_settings
from smp_memory.store.postgres.feed import AS_OF, entries_of, records_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from smp_memory.config.settings import Config
    from smp_memory.errors import SMPError
    from smp_memory.index.index import Index
    from smp_memory.index.rows import PlacedRow
    from smp_memory.model.candidates import LeftOut
    from smp_memory.model.record import Record
    from smp_memory.search.port import SearchIndex
    from smp_memory.store.port import Histories, SessionStore, Store

    def _provides_port(store: OfflineStore, session: OfflineSession) -> tuple[Store, SessionStore]:
        return store, session  # checked by mypy


NAME = "postgresql"


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
