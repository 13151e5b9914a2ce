"""What is in a session that is put away? A copy of it in RAM, read and changed by the same code as one in its place.

Guarantees: the store is not changed. An archive is read by the strict reader (`files.archive_reader`) within limits, and
every byte is compared with its manifest before the copy is handed out. An entry that lies in the archive and cannot be
read is reported by the copy's own reader, with the archive and the member as its path.
Non-guarantees: what is changed in the copy is for the caller to write down.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import StorageCorrupt
from smp_memory.files.archive_format import DEFAULT_LIMITS, EXCLUDED, is_private
from smp_memory.files.archive_reader import read_archive
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.memory_system import MemorySystem
from smp_memory.store.file_store import FileStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.files.archive_format import ArchiveLimits
    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.store.file_session import FileSession

_ROOT = "/away"


class SessionCopy(NamedTuple):
    """A session in RAM."""

    files: FileSession
    summary: dict[str, Any]  # that lies in an archive


def of_archive(store: FileStore, path: str, session: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> SessionCopy:
    """A copy of what an archive holds; `StorageCorrupt` if it is not good, or larger than the limits."""
    gathered = _Gathered()
    contents = read_archive(store.disk, path, limits, gathered)
    said = contents.summary.get("layout")
    layout = layout_named(said) if said in NAMES else store.layout
    files = _in_ram(store, layout, session, gathered.files.items())
    files.archive = path
    return SessionCopy(files, contents.summary)


def archived_files(store: FileStore, path: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> dict[str, bytes]:
    """The files of a session that an archive holds, by their names in it."""
    gathered = _Gathered()
    read_archive(store.disk, path, limits, gathered)
    return gathered.files


def of_folder(
    store: FileStore, folder: str, layout: Layout, session: str, limits: ArchiveLimits = DEFAULT_LIMITS
) -> SessionCopy:
    """A copy of a deleted session's files; what a writer left unfinished is finished in it."""
    return SessionCopy(_in_ram(store, layout, session, files_in(store.disk, folder, limits)), {})


def files_in(disk: Disk, folder: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> Iterator[tuple[str, bytes]]:
    """All files below a folder but locks: names and contents."""
    left = limits.total_bytes
    for name in _names_below(disk, folder, ""):
        found = disk.stat(os.path.join(folder, name))
        left -= found.st_size if found is not None else 0
        if left < 0:
            raise StorageCorrupt(f"{folder} is larger than {limits.total_bytes:,} bytes.", path=folder)
        yield name, disk.read(os.path.join(folder, name))


def _names_below(disk: Disk, folder: str, prefix: str) -> Iterator[str]:
    for name in disk.names(os.path.join(folder, prefix)):
        inside = prefix + name
        if disk.is_folder(os.path.join(folder, inside)):
            yield from _names_below(disk, folder, f"{inside}/")
        elif not is_private(inside, EXCLUDED):
            yield inside


class _Gathered:
    """Takes the files of an archive."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def write(self, path: str, chunks: Iterator[bytes]) -> None:
        self.files[path] = b"".join(chunks)

    def sync(self) -> None:
        pass


def _in_ram(store: FileStore, layout: Layout, session: str, files: Iterable[tuple[str, bytes]]) -> FileSession:
    copy = FileStore(_ROOT, layout, MemorySystem(), store.config, lambda session, used, new, quota: None)
    folder, private = layout.folder(_ROOT, session), layout.private(_ROOT, session)
    copy.disk.make_folder(private)
    for name, data in files:
        own = name.startswith(f"{PRIVATE}/")
        path = os.path.join(private, name[len(PRIVATE) + 1 :]) if own else os.path.join(folder, name)
        copy.disk.make_folder(os.path.dirname(path))
        copy.disk.write_new(path, data, sync=False)
    return copy.session(session)
