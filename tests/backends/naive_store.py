"""The simplest store that can be opened by several processes: a dict of sessions, pickled into one file.

    naive:///path/to/file

It shows that the port (`smp_memory.store.port`) is complete: nothing above it changes. Every read reads the whole file, every change
replaces it under a lock, every history is added up from its entries, and the search index is brute force. So each guarantee
of the port is one line: a reader sees one state because the file is replaced at once; a change that raises is not written; what was removed is
in no byte of the new file. No claims about speed.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from smp_memory.config.config_file import check_removal, with_setting
from smp_memory.config.settings import Config
from smp_memory.errors import (
    LayoutMismatch,
    SessionArchived,
    SessionExists,
    SessionNotFound,
    SMPError,
    StorageCorrupt,
    StoreClosed,
    StoreNotFound,
)
from smp_memory.files.activity import ACCESSES, SESSION_USES, TOKENS, AccessLog, StateLog
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import open_user_state
from smp_memory.model import ids
from smp_memory.model.deletions import PurgeNotes
from smp_memory.model.entry import Entry
from smp_memory.model.history import COLD, HOT
from smp_memory.model.ids import without_password
from smp_memory.model.session_info import ARCHIVED, DELETED, LIVE, PURGED, SessionHead, SessionInfo
from smp_memory.observe.incomplete import memory_not_found
from smp_memory.overview.extractive_summary import AUTHOR, covers, without_quotes
from smp_memory.privacy.audit import Audit
from smp_memory.store.session_edits import pieces_of
from tests.backends.naive_index import NaiveIndex
from tests.backends.naive_session import NaiveSession, StoredSession

if TYPE_CHECKING:
    from smp_memory.model.deletions import Receipt
    from smp_memory.model.reports import Problem
    from smp_memory.model.storage_reports import AppendLog
    from smp_memory.store.port import Histories, Note, SessionStore, Store

    def _provides_port(
        store: NaiveStore, session: NaiveSession, log: NaiveLog
    ) -> tuple[Store, SessionStore, AppendLog]:
        return store, session, log  # checked by mypy


NAME = "naive"


class Content:
    """Everything that is stored."""

    def __init__(self) -> None:
        self.sessions: dict[int, StoredSession] = {}  # in the order of creation
        self.created = 0  # sessions ever
        self.settings: dict[str, Any] = {}
        self.audit: list[bytes] = []

    def find(self, session: str, *states: str) -> list[StoredSession]:
        return [each for each in self.sessions.values() if each.info.id == session and each.state in states]


class NaiveStore:
    """A dict of sessions in one file."""

    files, layout_name, uid = None, NAME, ""

    def __init__(self, root: str, path: str, config: Config, admit: Callable[..., None]) -> None:
        self.root, self.path, self.config, self.admit = root, path, config, admit
        self.closed = False
        self._disk = Disk(RealSystem())
        self._read: tuple[bytes, Content] | None = None  # the file as it was last read
        self._thread = threading.local()  # `content`: what a transaction of this thread changes
        self._sessions: weakref.WeakValueDictionary[int, NaiveSession] = weakref.WeakValueDictionary()
        self.state = open_user_state(root, self._disk)
        self.access = AccessLog(StateLog(self.state, ACCESSES))
        self.session_uses = AccessLog(StateLog(self.state, SESSION_USES), exact=True)
        self.tokens = StateLog(self.state, TOKENS)
        self.audit = Audit(NaiveLog(self))
        self.indexer = NaiveIndex(self)

    # -- the file

    def content(self) -> Content:
        """What is stored, not to be changed; inside a transaction as it is there, to be changed."""
        self.check_open()
        changing: Content | None = getattr(self._thread, "content", None)
        if changing is not None:
            return changing
        data, known = self._disk.read(self.path), self._read
        if known is None or known[0] != data:
            known = self._read = data, pickle.loads(data)
        return known[1]

    @contextmanager
    def transaction(self, *, dry_run: bool = False) -> Iterator[Content]:
        """Change what is stored: all that the block changes, or nothing if it raises. No other thread or process changes anything meanwhile."""
        self.check_open()
        if getattr(self._thread, "content", None) is not None:
            yield self._thread.content
            return
        with locked(self.path):
            self._thread.content = content = pickle.loads(self._disk.read(self.path))
            try:
                yield content
                if not dry_run:
                    self._disk.replace(self.path, pickle.dumps(content))
            finally:
                self._thread.content = None

    # -- live sessions

    def sessions(self, *states: str, id: str | None = None, limit: int | None = None) -> list[SessionHead]:
        every, wanted = self.content().sessions.values(), states or (LIVE,)
        found = [each for each in every if each.state in wanted and id in (None, each.info.id)]
        found.sort(key=lambda each: ((LIVE, ARCHIVED, DELETED).index(each.state), each.info.id))
        return [each.head(self.root) for each in found[:limit]]

    def session(
        self, session: str, state: str = LIVE, *, path: str | None = None, max_bytes: int | None = None
    ) -> NaiveSession:
        ids.check(session, "session")
        found = [each for each in self.content().find(session, state) if path in (None, each.head(self.root).path)]
        if not found:
            raise self.session_not_found(session)
        stored = found[-1]  # of several deleted ones, the last
        if max_bytes is not None and stored.bytes() > max_bytes:
            raise StorageCorrupt(f"Archived session {session} is larger than {max_bytes} bytes.", session=session)
        opened = NaiveSession(self, stored.number, session, state)
        return self._sessions.setdefault(stored.number, opened) if state == LIVE else opened

    def session_not_found(self, session: str) -> SMPError:
        if self.content().find(session, ARCHIVED):
            return SessionArchived(f"Session {session} is archived; restore it first.", session=session)
        return SessionNotFound(f"There is no session {session}.", session=session)

    def create(
        self,
        info: SessionInfo,
        entries: list[Entry] | None = None,
        quota_bytes: int = 0,
        *,
        cold: Mapping[str, tuple[str, str]] | None = None,
        written: datetime | None = None,
    ) -> NaiveSession:
        info.uid = info.uid or ids.new_uid()
        with self.transaction() as content:
            if content.find(info.id, LIVE, ARCHIVED):
                raise SessionExists(f"There is already a session {info.id}.", session=info.id)
            content.created += 1
            stored = content.sessions[content.created] = StoredSession(content.created, info)
            stored.append(entries or [])
            history = stored.history()
            info.seq, info.numbers = max(info.seq, history.seq), {**history.numbers, **info.numbers}
            stored.shift(cold or (), HOT, COLD)
            stored.moved, stored.written = dict(cold or {}), written.timestamp() if written else stored.written
            self.admit(info.id, 0, stored.bytes(), quota_bytes)
            return self.session(info.id)

    # -- archived and deleted sessions

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
        with self.transaction() as content:
            origins = (LIVE, ARCHIVED) if state == DELETED and origin == LIVE else (origin,)
            found = [each for each in content.find(session, *origins) if path in (None, each.head(self.root).path)]
            others = content.find(session, LIVE, ARCHIVED)
            if origin == ARCHIVED and others and others[0].state == LIVE:
                return others[0].head(self.root)
            if state not in (DELETED, PURGED) and others and others[0].state != origin:
                raise SessionExists(f"There is a session {session} that is {others[0].state}.", session=session)
            if not found:
                raise self.session_not_found(session)
            stored = found[-1] if origin == DELETED and state == LIVE else found[0]
            if state == PURGED:
                del content.sessions[stored.number]
            else:
                self._set_state(stored, state, note)
            audit()
            return stored.head(self.root)

    def _set_state(self, stored: StoredSession, state: str, note: Note) -> None:
        head, histories = stored.head(self.root), stored.history().histories.values()
        if state == LIVE:  # archived again if it was deleted as such
            stored.metadata, stored.archived = stored.archived or {}, None
            state = ARCHIVED if stored.metadata else LIVE
        else:
            records = [record for each in histories if (record := each.record(head.session)) is not None]
            stored.metadata = note(head, records if state == ARCHIVED else [])
            stored.archived = head.metadata if head.state == ARCHIVED else stored.archived
        stored.state = state
        stored.changes += 1

    # -- erasure

    def erase(
        self,
        targets: dict[str, list[str]],
        receipt: Receipt,
        note: Callable[[], object],
        renew_digests: Callable[[], tuple[list[str], list[str]]],
    ) -> None:
        values: list[Any] = []
        receipt.bytes_before = os.path.getsize(self.path)
        with self.transaction(dry_run=receipt.preview) as content:
            for session, names in targets.items():
                values += self._erased_values(content, session, names)
            if receipt.preview:
                return
            pieces = pieces_of(values)
            for session, names in targets.items():
                for stored in content.find(session, LIVE, ARCHIVED, DELETED):
                    stored.remove(names)
                    stored.changes += 1
                    receipt.summaries += _erase_quotes(stored, names, [piece.decode() for piece in pieces])
                PurgeNotes(self.state, session).forget(names)
            note()
        self.access.flush()
        receipt.pending += renew_digests()[1]
        data = self._disk.read(self.path)
        receipt.pieces, receipt.searched_files, receipt.searched_bytes = len(pieces), 1, len(data)
        receipt.bytes_after = len(data)
        receipt.rewritten.append(self.path)
        receipt.elsewhere += [self.path] if any(piece in data for piece in pieces) else []

    def _erased_values(self, content: Content, session: str, names: list[str]) -> list[Any]:
        """All that is stored of these memories. Raises MemoryNotFound if there is nothing of one of them."""
        found = content.find(session, LIVE, ARCHIVED, DELETED)
        if not found:
            raise self.session_not_found(session)
        entries = [entry for each in found for segment in (HOT, COLD) for entry in each.entries[segment]]
        missing = next((name for name in names if name not in {entry.id for entry in entries}), None)
        if missing is not None:
            raise memory_not_found(NaiveSession(self, found[0].number, session, found[0].state), missing)
        return [entry.data for entry in entries if entry.id in names]

    # -- search

    def index_of(self, histories: Histories, problems: Mapping[str, list[Problem]]) -> NaiveIndex:
        return NaiveIndex(self, histories, problems)

    # -- settings and notices

    def write_setting(self, name: str, value: Any) -> None:
        with self.transaction() as content:
            if value is None:
                check_removal(content.settings, name)
            content.settings = with_setting(content.settings, name, value)

    def configured_at(self) -> float | None:
        return os.path.getmtime(self.path)

    # -- the process

    def check_open(self) -> None:
        if self.closed:
            raise StoreClosed("This store was closed; open it again with smp_memory.open().", path=self.root)

    def sync(self) -> None:
        self.check_open()

    def close(self) -> None:
        self.access.flush()
        self.session_uses.flush()
        self.closed = True


def _erase_quotes(stored: StoredSession, names: list[str], pieces: list[str]) -> list[str]:
    """Take sentences that quote erased memories out of the summaries that compaction made; returns their ids."""
    changed = []
    for entry in (*stored.entries[HOT], *stored.entries[COLD]):
        text, is_ours = entry.data.get("summary"), entry.type == "summary" and entry.data.get("author") == AUTHOR
        if is_ours and text and any(covers(entry.data.get("covers"), name) for name in names):
            entry.data["summary"] = without_quotes(text, lambda sentence: any(each in sentence for each in pieces))
            changed.append(f"{stored.info.id}/{entry.id}")
    return changed


class NaiveLog:
    """The audit log as a list of lines; an offset is a number of lines."""

    def __init__(self, store: NaiveStore) -> None:
        self._store, self.path = store, store.path

    def append(self, lines: list[bytes], *, sync: bool = False) -> None:
        with self._store.transaction() as content:
            content.audit += lines

    def read(self, offset: int = 0) -> tuple[list[bytes], int]:
        lines = self._store.content().audit
        return lines[offset:], len(lines)

    def replace_before(self, offset: int, lines: list[bytes]) -> None:
        with self._store.transaction() as content:
            content.audit[:offset] = lines

    def size_bytes(self) -> int:
        return sum(map(len, self.read()[0]))

    def problems(self) -> list[str]:
        return []


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Exclude all other threads and processes."""
    with open(f"{path}.lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # also if a child made by `fork` has the file open


def open_naive(
    where: str, layout: str | None, config: Mapping[str, Any] | None, admit: Callable[..., None], create: bool
) -> tuple[NaiveStore, bool]:
    """Open the store at `naive://PATH`, creating it if need be."""
    where = without_password(where)
    path = "/" + where.removeprefix(f"{NAME}://").partition("/")[2]
    if layout not in (None, NAME):
        raise LayoutMismatch(f"{where} has no layouts.", path=where, layout=NAME)
    if not create and not os.path.exists(path):
        raise StoreNotFound(f"There is no store at {where}.", path=where)
    disk = Disk(RealSystem())
    with locked(path):
        is_new = not os.path.exists(path)
        if is_new:
            disk.replace(path, pickle.dumps(Content()))
    settings = pickle.loads(disk.read(path)).settings
    return NaiveStore(where, path, Config.build(settings, path, environ=os.environ, arguments=config), admit), is_new
