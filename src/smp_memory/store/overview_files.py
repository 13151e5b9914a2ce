"""Write the overview files of a session in the layout `markdown`, and remove stale figures from its metadata.

    indexes/topics.yaml  timeline.yaml  agents.yaml        in the form of design 003

The overviews are made from the memories and can be deleted; SMP never reads them. They hold no text of memories, only
names, times and ids.
Guarantees: a file is written only when its text changed, and atomically. A full or read-only disk is no error: the files
then stay as they were. No lock is taken, and no write of a memory waits for this.
Non-guarantees: they are as old as the last call. When two processes write one at the same moment, one may give up.

The designs also keep counts, sizes and times in `manifest.json` and `metadata.yaml`. SMP computes them on demand and
writes none, so `refresh` removes them. The file's modification time is preserved: it is not a use of the session.
"""

from __future__ import annotations

import os
from typing import Any

from smp_memory.errors import SessionCorrupt, StorageCorrupt, StorageError
from smp_memory.files.layouts.layout import DERIVED_FIELDS, OVERVIEWS
from smp_memory.files.yaml_text import emit_mapping
from smp_memory.overview.activity import agents_of, timeline_of
from smp_memory.overview.items import overview_items
from smp_memory.overview.topics import topics_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    from smp_memory.files.disk import Disk
    from smp_memory.model.history import SessionHistory
    from smp_memory.model.record import Record
    from smp_memory.store.file_store import FileStore

    class Overview(Protocol):
        def to_dict(self) -> dict[str, Any]: ...


FOLDER = "indexes"
FILES = ("topics.yaml", "timeline.yaml", "agents.yaml")
NOTICE = "# Made by SMP from the memories of this session. Edits here are not read and will be overwritten.\n"


def to_yaml(value: Overview | Mapping[str, Any]) -> str:
    """An overview, or any mapping of JSON values, as YAML. The same value gives the same text."""
    fields = value.to_dict() if hasattr(value, "to_dict") else dict(value)
    return emit_mapping(fields) or "{}\n"


def write_overviews(
    disk: Disk, folder: str, records: Iterable[Record], users: Mapping[str, str] | None = None
) -> list[str]:
    """Write the overviews of the session in this folder; returns the names of those that changed."""
    seen = overview_items(records, across_sessions=False, users=users)
    overviews: tuple[Overview, ...] = (topics_of(seen), timeline_of(seen), agents_of(seen))
    changed: list[str] = []
    try:
        if disk.is_folder(folder):  # it may have been archived or converted meanwhile
            disk.make_folder(os.path.join(folder, FOLDER))
            for name, overview in zip(FILES, overviews, strict=True):
                if _write_if_changed(disk, os.path.join(folder, FOLDER, name), (NOTICE + to_yaml(overview)).encode()):
                    changed.append(name)
    except (OSError, StorageError, StorageCorrupt):
        pass  # they are not needed
    return changed


def _write_if_changed(disk: Disk, path: str, data: bytes) -> bool:
    if _content(disk, path) == data:
        return False
    disk.replace(path, data)
    return True


def _content(disk: Disk, path: str) -> bytes | None:
    try:
        return disk.read(path)
    except (OSError, StorageError, StorageCorrupt):
        return None


_AGENT_FIGURES = (b"message_count", b"last_active")


def refresh(store: FileStore, session: str, *, dry_run: bool = False) -> bool:
    """Remove stale figures from the metadata and rewrite existing overviews; whether there were such figures."""
    has_figures = _clean_metadata(store, session, dry_run)
    if not dry_run:
        _rewrite_overviews(store, session)
    return has_figures


def _clean_metadata(store: FileStore, session: str, dry_run: bool) -> bool:
    layout, disk = store.layout, store.disk
    path = os.path.join(layout.folder(store.root, session), layout.info_file)
    if not layout.info_file or not disk.exists(path):
        return False
    data = disk.read(path)
    if not any(name.encode() in data for name in DERIVED_FIELDS) and not any(name in data for name in _AGENT_FIGURES):
        return False
    files = store.session(session)
    try:
        info = files.info_for_update()
    except (SessionCorrupt, StorageCorrupt):
        return False  # `validate` names it
    if DERIVED_FIELDS.isdisjoint(info.other) and layout.encode_info(info).count(_AGENT_FIGURES[0]) == data.count(
        _AGENT_FIGURES[0]
    ):
        return False
    found = disk.stat(path)
    if not dry_run:
        files.change_info(info)
        if found is not None:
            disk.set_modified_time(path, found.st_mtime_ns)
    return True


def _rewrite_overviews(store: FileStore, session: str) -> None:
    folder = store.layout.folder(store.root, session)
    if store.layout.name != "markdown" or not store.disk.is_folder(os.path.join(folder, OVERVIEWS)):
        return

    def read(session_history: SessionHistory) -> list[Record | None]:
        histories = session_history.histories.values()
        return [history.record(session) for history in histories if history.deletion is None]

    records = [record for record in store.session(session).view(read) if record is not None]
    write_overviews(store.disk, folder, records)
