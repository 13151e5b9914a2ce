"""Keep figures in a session's files from being stale: those of a head are taken out, overviews are written anew.

The designs keep counts, sizes and times in `manifest.json`, `metadata.yaml` and `indexes/*.yaml`. SMP computes them when asked, so a
head that it writes has none. The time of the head stays: taking figures out is not a use of the session.
"""

from __future__ import annotations

import os

from smp.errors import SessionCorrupt, StorageCorrupt
from smp.files.layouts.layout import FIGURES, OVERVIEWS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.store.file_store import FileStore

_OF_AGENTS = (b"message_count", b"last_active")


def refresh(store: FileStore, session: str, *, dry_run: bool = False) -> bool:
    """Whether there were figures of a design that could be stale."""
    heads = _clean_head(store, session, dry_run)
    return _renew_overviews(store, session, dry_run) or heads


def _clean_head(store: FileStore, session: str, dry_run: bool) -> bool:
    layout, disk = store.layout, store.disk
    path = os.path.join(layout.folder(store.root, session), layout.info_file)
    if not layout.info_file or not disk.exists(path):
        return False
    data = disk.read(path)
    if not any(name.encode() in data for name in FIGURES) and not any(name in data for name in _OF_AGENTS):
        return False
    files = store.session(session)
    try:
        info = files.info()
    except (SessionCorrupt, StorageCorrupt):
        return False  # `validate` names it
    if FIGURES.isdisjoint(info.other) and layout.encode_info(info).count(_OF_AGENTS[0]) == data.count(_OF_AGENTS[0]):
        return False
    found = disk.stat(path)
    if not dry_run:
        files.change_info(info)
        if found is not None:
            disk.keep_time(path, found.st_mtime_ns)
    return True


def _renew_overviews(store: FileStore, session: str, dry_run: bool) -> bool:
    folder = store.layout.folder(store.root, session)
    if store.layout.name != "markdown" or not store.disk.is_folder(os.path.join(folder, OVERVIEWS)):
        return False
    if dry_run:
        return False
    from smp.store.overview_files import write_overviews

    def look(fold: object) -> list[object]:
        trails = fold.trails.values()  # type: ignore[attr-defined]
        return [trail.record(session) for trail in trails if trail.deletion is None]

    records = [record for record in store.session(session).view(look) if record is not None]
    write_overviews(store.disk, folder, records)
    return False  # they follow the memories; nothing to tell
