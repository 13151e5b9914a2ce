"""Archive a session into a tar.gz with a summary, and restore it.

Archiving, under the root's lock and the session's: the files are settled and summarised; the archive is written, read
back and renamed into place (`files.archive`); the summary is written beside it; then the session's files are moved to a
removal folder and removed. Restoring: the archive is checked and unpacked into a staging folder; the files are moved to where live
sessions are; then the archive is removed.

Guarantees: at every moment the session is complete as a live session or complete in the archive. Every byte of the archive
was compared with the files before they are removed. An archive made in another layout is restored in the store's layout.
Non-guarantees: those of `files.archive`; locks, and numbers that were allocated but never written, are not kept.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SessionCorrupt, SessionExists, SessionNotFound
from smp_memory.files import archive
from smp_memory.files.archive_format import EXCLUDED, JOURNAL
from smp_memory.files.archive_reader import read_archive
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.journal import Journal
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.reader import SessionReader
from smp_memory.model.clone_merge import in_order
from smp_memory.model.session_info import SessionInfo
from smp_memory.store import incomplete
from smp_memory.store.archive_copy import layout_or_default
from smp_memory.store.archive_index import ArchivedSession, ArchiveIndex
from smp_memory.store.convert import contents_of
from smp_memory.store.session_metadata import read_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.record import Record
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore

    Summary = Callable[[list[Record], SessionInfo | None, dict[str, Any]], dict[str, Any]]

_EARLIER = 20  # summaries left by compaction that are quoted in the archive's summary


def archive_session(store: FileStore, session: str, summary: Summary) -> ArchivedSession:
    """Archive a session; `summary` builds the summary from its records, its metadata and figures."""
    archives = ArchiveIndex(store)
    with archives.locked(session, "archiving a session"):
        if archives.is_archived(session):
            raise SessionExists(f"Session {session} is archived already.", session=session)
        files = store.session(session)
        files.run_locked("archiving", lambda: _pack_and_remove(archives, files, summary))
        archives.recover(session)
    return archives.archived_session(session)


def _pack_and_remove(archives: ArchiveIndex, files: FileSession, summary: Summary) -> None:
    session, disk = files.session, archives.disk
    fields = build_summary(files, summary)
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


def build_summary(files: FileSession, summary: Summary) -> dict[str, Any]:
    reader = files.reader
    with reader.mutex:
        session_history = reader.catch_up()
        records = [
            record
            for history in session_history.histories.values()
            if (record := history.record(files.session)) is not None
        ]
    try:
        info: SessionInfo | None = files.info()
    except SessionCorrupt:  # the summary is made without it
        info = None
    sizes = files.sizes()
    figures = {
        "layout": files.store.layout.name,
        "memories": sum(1 for record in records if not record.deleted),
        "deleted_memories": sum(1 for record in records if record.deleted),
        "original_size_bytes": sum(sizes.values()),
        "earlier_conversation": [record.text for record in records if record.type == "summary" and not record.deleted][
            -_EARLIER:
        ],
    }
    return summary(records, info, figures)


def session_files(files: FileSession) -> Iterator[tuple[str, str]]:
    """All files of a session: name inside the archive, and path."""
    disk, layout, reader = files.store.disk, files.store.layout, files.reader
    if layout.info_file:
        yield from archive.files_below(disk, reader.folder)
        return
    for name in layout.files(disk, reader.folder, files.session):
        yield name, os.path.join(reader.folder, name)
    yield from archive.files_below(disk, reader.private, f"{PRIVATE}/")


def restore_session(store: FileStore, session: str) -> None:
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
            return
        if not archives.is_archived(session):
            raise SessionNotFound(f"There is no archived session {session}.", session=session)
        pair = archives.pair(session)
        contents = archive.unpack(archives.disk, pair.archive, archives.staging_path(session), read=read_archive)
        layout = layout_or_default(contents.summary.get("layout"), store.layout)
        archives.move_in(in_store_layout(archives, archives.staging_path(session), layout, session), session)
        archives.remove_archive(pair)
        archives.recover(session)


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
    made = f"{archives.staging_path(session)}-{target.name}"
    disk.remove_tree(made)
    for name, data in contents_of(target, session, entries, info).items():
        _write_new(disk, os.path.join(made, name), data)
    for name, path in _private_files(disk, os.path.join(folder, PRIVATE)):
        _write_new(disk, os.path.join(made, PRIVATE, name), disk.read(path))
    return made


def _reader_of(disk: Disk, layout: Layout, folder: str, session: str) -> SessionReader:
    """A reader of a session's files in any folder."""
    reader = SessionReader(disk, layout, folder, session)
    reader.folder, reader.private = folder, os.path.join(folder, PRIVATE)
    reader.journal = Journal(disk, os.path.join(reader.private, JOURNAL), folder, reader.session)
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
