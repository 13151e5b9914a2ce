"""Copies in RAM of archived and deleted sessions, and the comparison of an archive with its live session.

A copy is a `FileSession` in a store of its own, so it is read and changed by the same code as a live session.

Guarantees: the store is not changed. An archive is read by the strict reader (`files.archive_reader`) within limits, and every
byte is compared with its manifest before the copy is returned. An entry of the archive that cannot be read is reported by
the copy's reader, with the archive and the member as its path. `holds_all_of_archive` is true only if every entry of the
archive, of its files and its cold segment, is in the live session; it is false for an archive that cannot be read or exceeds the limits.
Non-guarantees: the caller writes changes of a copy back (`archive_erasure`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from smp_memory.errors import SMPError, StorageCorrupt
from smp_memory.files.archive_format import DEFAULT_LIMITS, EXCLUDED, is_private
from smp_memory.files.archive_reader import read_archive
from smp_memory.files.json_lines import to_json
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.memory_system import MemorySystem
from smp_memory.model.reports import Problem
from smp_memory.store import archive_names
from smp_memory.store.cold_storage import cold_history
from smp_memory.store.file_store import FileStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.files.archive_format import ArchiveLimits
    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry
    from smp_memory.store.file_session import FileSession

_ROOT = "/copy"
_SHOWN = 5  # ids in a message


class SessionCopy(NamedTuple):
    """A copy of a session in RAM."""

    files: FileSession
    summary: dict[str, Any]  # the one inside the archive; empty for a folder


def layout_or_default(name: object, default: Layout) -> Layout:
    """The layout that a summary or a deletion record names; the default if it names none that SMP knows."""
    return layout_named(name) if isinstance(name, str) and name in NAMES else default


def copy_of_archive(store: FileStore, path: str, session: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> SessionCopy:
    """Copy the session in an archive. Raises `StorageCorrupt` if the archive is damaged or exceeds the limits."""
    target = _MemoryTarget()
    contents = read_archive(store.disk, path, limits, target)
    layout = layout_or_default(contents.summary.get("layout"), store.layout)
    files = _in_ram(store, layout, session, target.files.items())
    files.archive_path = path
    return SessionCopy(files, contents.summary)


def archived_files(store: FileStore, path: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> dict[str, bytes]:
    """The files in an archive, by name."""
    target = _MemoryTarget()
    read_archive(store.disk, path, limits, target)
    return target.files


def copy_of_folder(
    store: FileStore, folder: str, layout: Layout, session: str, limits: ArchiveLimits = DEFAULT_LIMITS
) -> SessionCopy:
    """Copy a deleted session's files. A write that was interrupted is completed in the copy."""
    return SessionCopy(_in_ram(store, layout, session, files_in(store.disk, folder, limits)), {})


def files_in(disk: Disk, folder: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> Iterator[tuple[str, bytes]]:
    """Name and content of all files below a folder, without locks."""
    left = limits.total_bytes
    for name in _names_below(disk, folder):
        if is_private(name, EXCLUDED):
            continue
        found = disk.stat(os.path.join(folder, name))
        left -= found.st_size if found is not None else 0
        if left < 0:
            raise StorageCorrupt(f"{folder} is larger than {limits.total_bytes:,} bytes.", path=folder)
        yield name, disk.read(os.path.join(folder, name))


def _names_below(disk: Disk, folder: str, prefix: str = "") -> Iterator[str]:
    """The relative names of all files below a folder."""
    for name in disk.names(os.path.join(folder, prefix)):
        inside = prefix + name
        if disk.is_folder(os.path.join(folder, inside)):
            yield from _names_below(disk, folder, f"{inside}/")
        else:
            yield inside


class _MemoryTarget:
    """Receives the files of an archive."""

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
        is_private_file = name.startswith(f"{PRIVATE}/")
        path = os.path.join(private, name[len(PRIVATE) + 1 :]) if is_private_file else os.path.join(folder, name)
        copy.disk.make_folder(os.path.dirname(path))
        copy.disk.write_new(path, data, sync=False)
    return copy.session(session)


# -- comparing an archive with the live session


def holds_all_of_archive(store: FileStore, archive: str, session: str) -> bool:
    """Whether the live session has every entry of its archive."""
    try:
        copy = copy_of_archive(store, archive, session).files
        return _entries(copy).keys() <= _entries(store.session(session)).keys()
    except SMPError:
        return False


def archive_problems(session: FileSession) -> list[Problem]:
    """Archives with entries that the live session lacks: a merge or a backup restored some of its files. Writes nothing."""
    found: list[Problem] = []
    for path in _archives_of(session):
        try:
            archived, live = _entries(copy_of_archive(session.store, path, session.session).files), _entries(session)
        except SMPError as error:
            if not session.store.disk.exists(path):
                continue  # another process restored it meanwhile
            message = f"this archive of a live session cannot be compared with it: {error.message}"
            found.append(Problem(path, 0, "archive_beside", message, "warning"))
            continue
        lacking = dict.fromkeys(id for key, id in archived.items() if key not in live)
        if lacking:
            shown = ", ".join([*lacking][:_SHOWN]) + (
                f" and {len(lacking) - _SHOWN:,} more" if len(lacking) > _SHOWN else ""
            )
            message = (
                f"this archive holds entries that the session lacks, of {shown}: a merge or a backup restored some files of the "
                "archived session. Restore its other files, too (git: from the side that did not archive it), then remove the archive."
            )
            found.append(Problem(path, 0, "archive_beside", message, "warning"))
    return found


def _archives_of(session: FileSession) -> list[str]:
    """Existing archives of a session, including those that were kept under another name."""
    store, found = session.store, []
    for path, _ in archive_names.pairs(store.root, store.layout.name, session.session):
        folder, name = os.path.split(path)
        found += [
            os.path.join(folder, each)
            for each in store.disk.names(folder)
            if each == name or each.startswith(name + archive_names.KEPT)
        ]
    return found


def _entries(session: FileSession) -> dict[str, str]:
    """All entries of a session and its cold segment: content key to memory id."""
    live: list[Entry] = session.view(
        lambda session_history: [entry for history in session_history.histories.values() for entry in history.entries]
    )
    cold = [entry for history in cold_history(session).histories.values() for entry in history.entries]
    return {_key(entry): entry.id for entry in (*live, *cold)}


def _key(entry: Entry) -> str:
    return to_json([entry.op, entry.type, entry.id, entry.at, entry.data])


def holds_private_files(store: FileStore, archive: str, private: str) -> bool:
    """Whether an archive has all files of a session's private folder, byte for byte, except locks."""
    try:
        archived = archived_files(store, archive)
    except SMPError:
        return False
    return all(
        archived.get(f"{PRIVATE}/{name}") == store.disk.read(os.path.join(private, name))
        for name in _names_below(store.disk, private)
        if name not in EXCLUDED
    )
