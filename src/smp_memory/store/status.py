"""State of a store at a glance: sessions, memories by type, open findings, the newest memories.

For `smp` alone, which must start fast: the figures come from the index on disk, without opening the store. The files are compared with
the index by their stat data. If a few sessions changed, the index is caught up first, which takes longer; if there is more to read
than that, the figures are those of the last index, and `StoreStatus.changed` says how many sessions changed since.
Guarantees: a figure is that of the files as they are, unless `changed` is above 0 or `is_indexed` is False. Texts of memories are read
from the files. No memory is written.
"""

from __future__ import annotations

import json
import os

from smp_memory.config.config_file import read_settings
from smp_memory.config.settings import Config
from smp_memory.discovery import is_named, layout_of_store
from smp_memory.errors import SMPError
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import layout_named
from smp_memory.files.span_reader import SpanReader
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import open_user_state
from smp_memory.index.rows import PROBLEMS, IndexUnusable
from smp_memory.index.snapshot import IndexSnapshot
from smp_memory.model import ids
from smp_memory.model.reports import StoreStatus
from smp_memory.store.change_detection import StatCache
from smp_memory.store.record_reader import PlaceReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from smp_memory.files.layouts.layout import Layout
    from smp_memory.files.user_state import UserState
    from smp_memory.index.rows import Row
    from smp_memory.model.record import Record
    from smp_memory.store.port import Store

INDEX_FOLDER = "index"
CONFIG_FILE = "config.json"
_NEWEST = 5
_FEW_SESSIONS = 50  # so many changed ones are read before the answer,
_FEW_BYTES = 5_000_000  # if their files are no larger than this


class StoreFiles:
    """Where the files of a store are; enough to compare and read them without opening the store."""

    def __init__(self, root: str, layout: Layout) -> None:
        self.root = root
        self.layout = layout
        self.disk = Disk(RealSystem(root))

    def session_ids(self, known: Container[str] = ()) -> list[str]:
        """The live sessions. Names that are `known` to be sessions are not checked."""
        disk, root, layout = self.disk, self.root, self.layout
        names = layout.names(disk, root)
        return [each for each in names if each in known or (ids.is_valid(each) and layout.exists(disk, root, each))]

    def size_bytes(self, session: str) -> int:
        folder = self.layout.folder(self.root, session)
        sizes = (self.disk.stat(os.path.join(folder, file)) for file in self.layout.files(self.disk, folder, session))
        return sum(status.st_size for status in sizes if status is not None)


def read_status(root: str, environ: Mapping[str, str], open_store: Callable[[], Store]) -> StoreStatus:
    """The status of the store in a folder. Raises SMPError if it cannot be read. `open_store` is called if the index has to be caught up."""
    layout, config, state = _settings(root, environ)
    files = StoreFiles(root, layout_named(layout))
    is_trusted = is_named(root, environ) or state.is_trusted(root)
    status = StoreStatus(root, files.layout.name, is_trusted)
    status.notices = config.notices()
    base = state.path(INDEX_FOLDER)
    if _fill(status, files, base, may_catch_up=state.on_disk):
        _catch_up(open_store)
        _fill(status, files, base, may_catch_up=False)
    return status


def _fill(status: StoreStatus, files: StoreFiles, base: str, *, may_catch_up: bool) -> bool:
    """Add the figures of the index; or return True if few sessions changed, so that it should be caught up first."""
    try:
        with IndexSnapshot(base) as snapshot:
            names, changed = _changed_sessions(files, snapshot)
            status.sessions, status.changed = len(names), len(changed)
            if changed and may_catch_up and _are_few(files, changed):
                return True
            _add_figures(status, files, snapshot)
    except (IndexUnusable, ValueError):
        names = files.session_ids()
        status.sessions, status.changed, status.is_indexed = len(names), 0, not names
        return may_catch_up and bool(names) and _are_few(files, names)
    return False


def _settings(root: str, environ: Mapping[str, str]) -> tuple[str, Config, UserState]:
    """The layout of the store, its settings, and the user's state of it. Raises SMPError if `config.json` is not a plain file."""
    path, disk = os.path.join(root, CONFIG_FILE), Disk(RealSystem(root))
    stored, state = read_settings(lambda: disk.read_small(path), path), open_user_state(root, disk)
    layout = layout_of_store(disk, root, stored) or "jsonl"
    return layout, Config.build(stored, path, environ=environ, layout=layout, trusted=state.trusted_settings()), state


def _changed_sessions(files: StoreFiles, snapshot: IndexSnapshot) -> tuple[list[str], list[str]]:
    """The live sessions, and those that the index lacks or has in another state."""
    stats, saved = StatCache(files), snapshot.stats_of_sessions()
    stats.load(saved)
    known, changed = {name for name, _, _ in saved}, set(stats.changed())
    names = files.session_ids(known - changed)
    changed |= known.symmetric_difference(names)
    for name in known.difference(stats.remembered, changed):  # indexed within the tick of a write
        indexed = snapshot.session(name)
        if indexed is None or not stats.matches_cursors(name, indexed.files, stats.stat_session(name)):
            changed.add(name)
    return names, sorted(changed)


def _are_few(files: StoreFiles, changed: list[str]) -> bool:
    if len(changed) > _FEW_SESSIONS:
        return False
    return sum(map(files.size_bytes, changed)) <= _FEW_BYTES


def _catch_up(open_store: Callable[[], Store]) -> None:
    """Bring the index up to date, as a query does."""
    from smp_memory.model.candidates import CandidateRequest

    try:
        store = open_store()
        store.indexer.candidates(CandidateRequest(limit=0))
        store.close()
    except (SMPError, OSError, ValueError):
        pass  # the figures are then those of the last index


def _add_figures(status: StoreStatus, files: StoreFiles, snapshot: IndexSnapshot) -> None:
    status.counts = snapshot.counts()
    status.open_findings = snapshot.open_findings()
    status.unreadable = sum(len(json.loads(value)) for value in snapshot.values(PROBLEMS))
    written = snapshot.last_writes()
    if any(written.values()):
        last = max(written, key=lambda name: written[name])
        status.last_session = (last, written[last])
    reader = PlaceReader(files)
    with SpanReader(files.disk) as spans:
        for session, row in snapshot.newest(_NEWEST):
            record = _record(reader, snapshot, session, row, spans)
            if record is not None:
                status.newest.append(record)
    status.is_indexed = True


def _record(reader: PlaceReader, snapshot: IndexSnapshot, session: str, row: Row, spans: SpanReader) -> Record | None:
    history = reader.history(snapshot, session, row, spans)
    return history.record(session) if history is not None else None


# -- names, for shell completion

_ARCHIVES = {
    "archive": "archived",
    "archived": "archived",
    "deleted": "deleted",
}  # folder -> state, see `archive_names`


def session_names(root: str) -> list[tuple[str, str]]:
    """The names of a store's sessions with their state: session, archived, deleted."""
    files = StoreFiles(root, layout_named(_settings(root, {})[0]))
    found = dict.fromkeys(files.session_ids(), "session")
    for folder, state in _ARCHIVES.items():
        for name in files.disk.names(os.path.join(root, folder)):
            session = name.partition(".")[0]
            if ids.is_valid(session):
                found.setdefault(session, state)
    return list(found.items())


def memory_ids(root: str, prefix: str, session: str | None, limit: int) -> list[tuple[str, str]]:
    """Session and id of the newest memories whose id begins with a text; empty without an index."""
    state = open_user_state(root, Disk(RealSystem(root)))
    try:
        with IndexSnapshot(state.path(INDEX_FOLDER)) as snapshot:
            return snapshot.ids(prefix, session, limit)
    except IndexUnusable:
        return []
