"""Compare an archive with the session that stands beside it, before the archive is removed.

Guarantees: `True` only if every entry of the archive, of its files and its cold segment, is in the session's own. An archive
that cannot be read, or is larger than the limits, is not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smp.errors import SMPError
from smp.files.archive_names import LEFT_OUT
from smp.files.json_lines import to_json
from smp.files.layouts.layout import PRIVATE
from smp.store.away_session import archived_files, of_archive
from smp.store.cold_memories import cold_fold

if TYPE_CHECKING:
    from smp.model.entry import Entry
    from smp.store.file_session import FileSession
    from smp.store.file_store import FileStore


def is_in_place(store: FileStore, archive: str, session: str) -> bool:
    """Whether the session in its place has all that its archive has."""
    try:
        packed = of_archive(store, archive, session).files
        return _entries(packed) <= _entries(store.session(session))
    except SMPError:
        return False


def _entries(session: FileSession) -> set[str]:
    live = session.view(lambda fold: [_key(entry) for trail in fold.trails.values() for entry in trail.entries])
    cold = [_key(entry) for trail in cold_fold(session).trails.values() for entry in trail.entries]
    return {*live, *cold}


def _key(entry: Entry) -> str:
    return to_json([entry.op, entry.type, entry.id, entry.at, entry.data])


def holds_private_files(store: FileStore, archive: str, private: str) -> bool:
    """Whether an archive has all files of a session's private folder, byte for byte; locks do not count."""
    try:
        packed = archived_files(store, archive)
    except SMPError:
        return False
    return all(
        packed.get(f"{PRIVATE}/{name}") == store.disk.read(os.path.join(private, name))
        for name in _names_below(store, private, "")
        if name not in LEFT_OUT
    )


def _names_below(store: FileStore, folder: str, prefix: str) -> list[str]:
    found: list[str] = []
    for name in store.disk.names(os.path.join(folder, prefix)):
        if store.disk.is_folder(os.path.join(folder, prefix, name)):
            found += _names_below(store, folder, f"{prefix}{name}/")
        else:
            found.append(prefix + name)
    return found
