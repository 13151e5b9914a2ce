"""Archive a session into a tar.gz with a summary, restore it, and read archived and deleted sessions as copies in RAM.

Archiving, under the root's lock and the session's: the files are settled and summarised; the archive is written, read
back and renamed into place (`files.archive`); the summary is written beside it; then the session's files are moved to a
removal folder and removed. Restoring: the archive is checked and unpacked into a staging folder; the files are moved to where live
sessions are; then the archive is removed.
A copy is a `FileSession` in a store of its own, so it is read and changed by the same code as a live session.

Guarantees: at every moment the session is complete as a live session or complete in the archive. Every byte of the archive
was compared with the files before they are removed. An archive made in another layout is restored in the store's layout.
Copying does not change the store. An archive is read by the strict reader (`files.archive`) within limits, and every
byte is compared with its manifest before the copy is returned. An entry of the archive that cannot be read is reported by
the copy, with the archive and the member as its path. `holds_all_of_archive` is true only if every entry of the
archive, of its files and its cold segment, is in the live session; it is false for an archive that cannot be read or exceeds the limits.
Non-guarantees: those of `files.archive`; locks, and numbers that were allocated but never written, are not kept. The caller
writes changes of a copy back; a plan is carried out in the archive instead of the copy (`inactive_sessions`).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any, NamedTuple

from smp_memory.errors import (
    LayoutMismatch,
    SessionCorrupt,
    SessionExists,
    SessionNotFound,
    SMPError,
    StorageCorrupt,
)
from smp_memory.files import archive
from smp_memory.files.archive import read_archive
from smp_memory.files.archive_format import DEFAULT_LIMITS, EXCLUDED, JOURNAL, is_private
from smp_memory.files.codec import to_json
from smp_memory.files.disk import TEMPORARY, Disk
from smp_memory.files.journal import Journal
from smp_memory.files.layouts.layout import OVERVIEWS, PRIVATE
from smp_memory.files.memory_system import MemorySystem
from smp_memory.files.reader import SessionReader
from smp_memory.model.clone_merge import in_order
from smp_memory.model.history import COLD
from smp_memory.model.reports import Problem
from smp_memory.model.session_info import SessionHead
from smp_memory.model.times import to_text
from smp_memory.observe import incomplete
from smp_memory.store import archive_names
from smp_memory.store.archive_index import ArchiveIndex
from smp_memory.store.archive_names import layout_in, layout_of, names_below
from smp_memory.store.convert import contents_of
from smp_memory.store.session_metadata import read_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from smp_memory.files.archive_format import ArchiveLimits
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry
    from smp_memory.model.record import Record
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.port import Note


def archive_session(store: FileStore, session: str, note: Note) -> SessionHead:
    """Archive a session; `note` makes its summary."""
    archives = ArchiveIndex(store)
    with archives.locked(session, "archiving a session"):
        if archives.is_archived(session):
            raise SessionExists(f"Session {session} is archived already.", session=session)
        files = store.session(session)
        files.run_locked("archiving", lambda: _pack_and_remove(archives, files, note))
        archives.recover(session)
    return archives.archived_session(session)


def _pack_and_remove(archives: ArchiveIndex, files: FileSession, note: Note) -> None:
    session, disk = files.session, archives.disk
    fields = with_manifest(files, note(archives.store.sessions(id=session)[0], content_of(files)[0]))
    pair = archives.pairs(session)[0]
    archives.remove_summary(pair.summary)
    disk.make_folder(os.path.dirname(pair.archive))
    archive.pack_files(disk, dict(session_files(files)), pair.archive, fields, replace=True)
    archives.write_summary(pair.summary, fields, pair.archive)
    problems = [problem for state in files.reader.states.values() for problem in state.problems]
    named = incomplete.located_in_archive(incomplete.errors(problems), session, files.reader.folder, pair.archive)
    files.writer.close_files()
    disk.remove_tree(archives.removal_path(session))
    archives.move_out(session, archives.removal_path(session))
    incomplete.report(named)  # by archive and member, because the files are gone


def with_manifest(files: FileSession, summary: dict[str, Any]) -> dict[str, Any]:
    """A summary with the layout and, in the layout jsonl, the fields that the manifest of an archive has in design 001."""
    layout, summary = files.store.layout, {**summary, "layout": files.store.layout.name}
    records, info, size = content_of(files)
    if info is None or layout.name != "jsonl":
        return summary
    fields = json.loads(layout.encode_info(info))
    fields.pop("smp")
    counts = Counter(record.type for record in records if not record.deleted)
    updated = max((to_text(record.updated) for record in records), default=info.created_text)
    uses = [last for record in records if isinstance(last := record.access.get("last"), str)]
    statistics = {
        "total_messages": counts["conversation"],
        "total_decisions": counts["decision"],
        "total_findings": counts["finding"],
        "size_bytes": size,
        "last_accessed": max([updated, *uses]),
    }
    return {**summary, **fields, "updated_at": updated, "statistics": statistics, "version": "1.0"}


def content_of(files: FileSession) -> tuple[list[Record], SessionInfo | None, int]:
    """The records of a session, its metadata if that can be read, and its size."""
    with files.reader.mutex:
        histories = [each.record(files.session) for each in files.reader.catch_up().histories.values()]
    try:
        info: SessionInfo | None = files.info()
    except SessionCorrupt:
        info = None
    return [record for record in histories if record is not None], info, sum(files.sizes().values())


def session_files(files: FileSession) -> Iterator[tuple[str, str]]:
    """All files of a session: name inside the archive, and path."""
    disk, layout, reader = files.store.disk, files.store.layout, files.reader
    if layout.info_file:
        yield from archive.files_below(disk, reader.folder)
        return
    for name in layout.files(disk, reader.folder, files.session):
        yield name, os.path.join(reader.folder, name)
    cold = layout.cold_file(files.session)
    if disk.exists(os.path.join(reader.folder, cold)):
        yield cold, os.path.join(reader.folder, cold)
    yield from archive.files_below(disk, reader.private, f"{PRIVATE}/")


def restore_session(store: FileStore, session: str) -> SessionHead:
    """Restore an archived session. Does nothing if it is live already."""
    archives = ArchiveIndex(store)
    with archives.locked(session, "restoring a session"):
        if session in archives.kept:
            raise SessionExists(
                f"There is a live session {session}, and its archive holds memories that it lacks. Nothing was restored; "
                f"the archive is kept as {archives.kept[session]}. To restore it instead: smp session delete {session}, rename the "
                f"file back to {os.path.basename(archives.archive_path(session))}, smp session restore {session}.",
                session=session,
                path=archives.kept[session],
            )
        if archives.is_live(session):
            return store.sessions(id=session)[0]
        if not archives.is_archived(session):
            summary = archive_names.foreign_summary(archives.disk, store.root, session)
            why = f" Another program left only a summary of it, {summary}." if summary else ""
            raise SessionNotFound(f"There is no archived session {session}.{why}", session=session)
        pair = archives.pair(session)
        contents = archive.unpack(archives.disk, pair.archive, archives.staging_path(session), read=read_archive)
        staged = archives.staging_path(session)
        layout = layout_in(archives.disk, staged, session, contents.summary.get("layout"), store.layout)
        if layout is None:
            raise StorageCorrupt(
                f"{pair.archive} has no files of session {session}. Nothing was restored.", path=pair.archive
            )
        archives.move_in(in_store_layout(archives, staged, layout, session), session)
        archives.remove_archive(pair)
        archives.recover(session)
        return store.sessions(id=session)[0]


def in_store_layout(archives: ArchiveIndex, folder: str, layout: Layout, session: str) -> str:
    """A folder with a session's files in the store's layout: the given one, or a converted copy of it."""
    target, disk = archives.store.layout, archives.disk
    if layout.name == target.name:
        return folder
    reader = _reader_of(disk, layout, folder, session)
    session_history = reader.catch_up()
    broken = next((problem for problem in reader.problems() if problem.severity == "error"), None)
    if broken is not None:
        raise SessionCorrupt(
            f"{broken}. It is stored in the layout {layout.name} and must be converted; nothing was changed.",
            session=session,
        )
    entries = in_order(entry for state in reader.states.values() for entry in state.entries)
    info = read_info(disk, layout, reader)
    info.numbers = {**session_history.numbers, **info.numbers}
    info.seq, info.generation = max(session_history.seq, info.seq, len(entries)), info.generation + 1
    foreign = _foreign_files(disk, layout, folder, session)
    without_place = [name for name in foreign if _has_no_place(target, name, session)]
    if without_place:
        raise LayoutMismatch(
            f"Session {session} has files of other programs, which have no place in the layout {target.name}: "
            f"{', '.join(without_place[:_SHOWN])}. Move them out of {folder} if it exists, or convert the store to another "
            "layout, then try again. Nothing was changed.",
            session=session,
            path=folder,
        )
    made = f"{archives.staging_path(session)}-{target.name}"
    disk.remove_tree(made)
    for name, data in contents_of(target, session, entries, info).items():
        _write_new(disk, os.path.join(made, name), data)
    cold = os.path.join(folder, layout.cold_file(session))
    if disk.exists(cold):
        _write_new(disk, os.path.join(made, target.cold_file(session)), disk.read(cold))
    for name, path in _private_files(disk, os.path.join(folder, PRIVATE)):
        _write_new(disk, os.path.join(made, PRIVATE, name), disk.read(path))
    for name in foreign:
        _write_new(disk, os.path.join(made, name), disk.read(os.path.join(folder, name)))
    return made


def _foreign_files(disk: Disk, layout: Layout, folder: str, session: str) -> list[str]:
    """Files in a session's folder that SMP did not write: notes, what a file manager leaves."""
    return [
        name
        for name in names_below(disk, folder)
        if name.partition("/")[0] not in (PRIVATE, OVERVIEWS)
        and name not in (layout.info_file, layout.cold_file(session))
        and not layout.is_session_file(name, session)
        and not name.endswith(TEMPORARY)
    ]


def _has_no_place(target: Layout, name: str, session: str) -> bool:
    """Whether a file would be lost or taken for one of the session's in this layout, which may have no folder for each session."""
    return not target.info_file or name == target.info_file or target.is_session_file(name, session)


def _reader_of(disk: Disk, layout: Layout, folder: str, session: str) -> SessionReader:
    """A reader of a session's files in any folder."""
    reader = SessionReader(disk, layout, folder, session)
    reader.folder, reader.private = folder, os.path.join(folder, PRIVATE)
    reader.journal = Journal(disk, os.path.join(reader.private, JOURNAL), folder, reader.review)
    return reader


def _private_files(disk: Disk, private: str) -> Iterator[tuple[str, str]]:
    """Files of a session's private folder, without locks, plans and temporary files."""
    for name in disk.names(private):
        path = os.path.join(private, name)
        if name in EXCLUDED or name == JOURNAL or name.endswith(TEMPORARY):
            continue
        if disk.is_folder(path):
            yield from archive.files_below(disk, path, f"{name}/")
        else:
            yield name, path


def _write_new(disk: Disk, path: str, data: bytes) -> None:
    disk.make_folder(os.path.dirname(path))
    disk.write_new(path, data)
    disk.sync_folder(os.path.dirname(path))


# -- copies in RAM


_ROOT = "/copy"
_SHOWN = 5  # ids in a message


class SessionCopy(NamedTuple):
    """A copy of a session in RAM."""

    files: FileSession
    summary: dict[str, Any]  # the one inside the archive; empty for a folder


def copy_of_archive(store: FileStore, path: str, session: str, limits: ArchiveLimits = DEFAULT_LIMITS) -> SessionCopy:
    """Copy the session in an archive. Raises `StorageCorrupt` if the archive is damaged or exceeds the limits."""
    target = _MemoryTarget()
    contents = read_archive(store.disk, path, limits, target)
    layout = layout_of(target.files, session, contents.summary.get("layout"), store.layout) or store.layout
    files = _in_ram(store, layout, session, target.files.items())
    files.archive_path = path
    return SessionCopy(files, contents.summary)


def archived_copy(store: FileStore, session: str, max_bytes: int | None) -> FileSession:
    """Copy an archived session, up to this unpacked size."""
    limits = DEFAULT_LIMITS if max_bytes is None else DEFAULT_LIMITS._replace(total_bytes=max_bytes)
    copy = copy_of_archive(store, ArchiveIndex(store).archive_path(session), session, limits).files
    copy.archiving_store = store
    return copy


def summary_of(store: FileStore, path: str) -> dict[str, Any]:
    """The summary inside an archive."""
    return read_archive(store.disk, path).summary


def archived_files(store: FileStore, path: str) -> dict[str, bytes]:
    """The files in an archive, by name."""
    target = _MemoryTarget()
    read_archive(store.disk, path, DEFAULT_LIMITS, target)
    return target.files


def copy_of_folder(store: FileStore, folder: str, layout: Layout, session: str) -> SessionCopy:
    """Copy a deleted session's files. A write that was interrupted is completed in the copy."""
    return SessionCopy(_in_ram(store, layout, session, files_in(store.disk, folder)), {})


def files_in(disk: Disk, folder: str) -> Iterator[tuple[str, bytes]]:
    """Name and content of all files below a folder, without locks."""
    left = DEFAULT_LIMITS.total_bytes
    for name in names_below(disk, folder):
        if is_private(name, EXCLUDED):
            continue
        found = disk.stat(os.path.join(folder, name))
        left -= found.st_size if found is not None else 0
        if left < 0:
            raise StorageCorrupt(f"{folder} is larger than {DEFAULT_LIMITS.total_bytes:,} bytes.", path=folder)
        yield name, disk.read(os.path.join(folder, name))


class _MemoryTarget:
    """Receives the files of an archive."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def write(self, path: str, chunks: Iterator[bytes]) -> None:
        self.files[path] = b"".join(chunks)

    def sync(self) -> None:
        pass


def _in_ram(store: FileStore, layout: Layout, session: str, files: Iterable[tuple[str, bytes]]) -> FileSession:
    copy = type(store)(_ROOT, layout, MemorySystem(), store.config, lambda session, used, new, quota: None)
    folder, private = layout.folder(_ROOT, session), layout.private(_ROOT, session)
    Disk(copy.disk.system).make_folder(private)
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
    histories = [*session.history().histories.values(), *session.history(segment=COLD).histories.values()]
    return {_key(entry): entry.id for history in histories for entry in history.entries}


def _key(entry: Entry) -> str:
    return to_json([entry.op, entry.type, entry.id, entry.at, entry.data])


def holds_files(store: FileStore, archive: str, path: str, inside: str) -> bool:
    """Whether an archive has a file, or all files of a folder except locks, byte for byte under this name."""
    try:
        archived = archived_files(store, archive)
    except SMPError:
        return False
    if not store.disk.is_folder(path):
        return archived.get(inside) == store.disk.read(path)
    return all(
        archived.get(f"{inside}/{name}") == store.disk.read(os.path.join(path, name))
        for name in names_below(store.disk, path)
        if name not in EXCLUDED
    )
