"""How is a session packed away, and how does it come back? Summary, tar.gz, and the order in which they are made.

Archiving, under the root's lock and the session's: the files are settled and summed up; the archive is written, read
back and given its name (`files.archive`); the summary is put beside it; then the session leaves its place, and is
removed. Restoring: the archive is checked and unpacked aside; the session is given its place; then the archive goes.

Guarantees: at every moment the session is whole in its place, or whole in the archive. Every byte of the archive was
compared with the files before they go. An archive made in another layout comes back in the layout the store has now.
Non-guarantees: see `files.archive`; locks, and numbers that were given out but never written, are not kept.

Compare an archive with the session that stands beside it: before the archive is removed, and when a session is checked.

Guarantees: `is_in_place` is true only if every entry of the archive, of its files and its cold segment, is in the session's
own. An archive that cannot be read, or is larger than the limits, is not. `problems_beside` writes nothing.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import SessionCorrupt, SessionExists, SessionNotFound, SMPError
from smp_memory.files import archive
from smp_memory.files.archive_format import EXCLUDED, JOURNAL
from smp_memory.files.archive_reader import read_archive
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.journal import Journal
from smp_memory.files.json_lines import to_json
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.reader import SessionReader
from smp_memory.model.clone_merge import in_order
from smp_memory.model.reports import Problem
from smp_memory.model.session_info import SessionInfo
from smp_memory.store import archive_names, incomplete
from smp_memory.store.archive_copy import archived_files, of_archive
from smp_memory.store.archive_index import ArchiveIndex, StoredAway
from smp_memory.store.cold_storage import cold_history
from smp_memory.store.convert import contents_of
from smp_memory.store.session_start import UNKNOWN, first_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.record import Record
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore

    Summary = Callable[[list[Record], SessionInfo | None, dict[str, Any]], dict[str, Any]]
    from smp_memory.model.entry import Entry


_EARLIER = 20  # summaries that compaction left, of which the archive's own tells


def archive_session(store: FileStore, session: str, summary: Summary) -> StoredAway:
    """Pack a session away; `summary` makes one of its records, its head and the figures known here."""
    shelf = ArchiveIndex(store)
    with shelf.shelved(session, "archiving a session"):
        if shelf.is_archived(session):
            raise SessionExists(f"Session {session} is archived already.", session=session)
        files = store.session(session)
        files.exclusively("archiving", lambda: _pack_and_leave(shelf, files, summary))
        shelf.tidy(session)
    return shelf.archived_as(session)


def _pack_and_leave(shelf: ArchiveIndex, files: FileSession, summary: Summary) -> None:
    session, disk = files.session, shelf.disk
    said = summary_of(files, summary)
    pair = shelf.pairs(session)[0]
    shelf.remove_summary(pair.summary)
    disk.make_folder(os.path.dirname(pair.archive))
    archive.pack_files(disk, dict(packed(files)), pair.archive, said, replace=True)
    shelf.write_summary(pair.summary, said, pair.archive)
    problems = [problem for state in files.reader.states.values() for problem in state.problems]
    named = incomplete.in_archive(incomplete.errors(problems), session, files.reader.folder, pair.archive)
    files.writer.close_files()
    disk.remove_tree(shelf.leaving(session))
    shelf.take_out(session, shelf.leaving(session))
    incomplete.met(named)  # the caller is told; the files of before are gone


def summary_of(files: FileSession, summary: Summary) -> dict[str, Any]:
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
    except SessionCorrupt:  # an unreadable head costs the head
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


def packed(files: FileSession) -> Iterator[tuple[str, str]]:
    """All that belongs to a session: names inside the archive, and paths."""
    disk, layout, reader = files.store.disk, files.store.layout, files.reader
    if layout.info_file:
        yield from archive.files_below(disk, reader.folder)
        return
    for name in layout.files(disk, reader.folder, files.session):
        yield name, os.path.join(reader.folder, name)
    yield from archive.files_below(disk, reader.private, f"{PRIVATE}/")


def restore_session(store: FileStore, session: str) -> None:
    """Bring an archived session back. If it is there already, nothing happens."""
    shelf = ArchiveIndex(store)
    with shelf.shelved(session, "restoring a session"):
        if session in shelf.kept:
            raise SessionExists(
                f"There is a session {session} in its place, and its archive holds memories that it lacks. Nothing was restored; "
                f"the archive is kept as {shelf.kept[session]}. To bring it back instead: smp session delete {session}, give the "
                f"file the name {os.path.basename(shelf.archive_of(session))} again, smp session restore {session}.",
                session=session,
                path=shelf.kept[session],
            )
        if shelf.is_live(session):
            return
        if not shelf.is_archived(session):
            raise SessionNotFound(f"There is no archived session {session}.", session=session)
        pair = shelf.pair(session)
        contents = archive.unpack(shelf.disk, pair.archive, shelf.coming(session), read=read_archive)
        layout = _layout_said(contents.summary.get("layout"), store)
        shelf.put_in_place(in_this_layout(shelf, shelf.coming(session), layout, session), session)
        shelf.forget_archive(pair)
        shelf.tidy(session)


def _layout_said(name: Any, store: FileStore) -> Layout:
    return layout_named(name) if name in NAMES else store.layout


def in_this_layout(shelf: ArchiveIndex, folder: str, layout: Layout, session: str) -> str:
    """A folder with a session's files in the store's layout: this one, or one that is made from it."""
    target, disk = shelf.store.layout, shelf.disk
    if layout.name == target.name:
        return folder
    reader = _reader_of(disk, layout, folder, session)
    session_history = reader.catch_up()
    broken = next((problem for problem in reader.problems() if problem.severity == "error"), None)
    if broken is not None:
        raise SessionCorrupt(
            f"{broken}. It was put away in the layout {layout.name}; nothing was changed.", session=session
        )
    entries = in_order(entry for state in reader.states.values() for entry in state.entries)
    info = info_of(disk, layout, reader)
    info.numbers = {**session_history.numbers, **info.numbers}
    info.seq, info.generation = max(session_history.seq, info.seq, len(entries)), info.generation + 1
    made = f"{shelf.coming(session)}-{target.name}"
    disk.remove_tree(made)
    for name, data in contents_of(target, session, entries, info).items():
        _write_new(disk, os.path.join(made, name), data)
    for name, path in _own_files(disk, os.path.join(folder, PRIVATE)):
        _write_new(disk, os.path.join(made, PRIVATE, name), disk.read(path))
    return made


def _reader_of(disk: Disk, layout: Layout, folder: str, session: str) -> SessionReader:
    """A reader of a session that is not in its place."""
    reader = SessionReader(disk, layout, folder, session)
    reader.folder, reader.private = folder, os.path.join(folder, PRIVATE)
    reader.journal = Journal(disk, os.path.join(reader.private, JOURNAL), folder, reader.session)
    return reader


def info_of(disk: Disk, layout: Layout, reader: SessionReader) -> SessionInfo:
    """The metadata of a session that was just read."""
    path = os.path.join(reader.folder, layout.info_file)
    if layout.info_file and not disk.exists(path):
        info = SessionInfo(reader.session, UNKNOWN)
    elif layout.info_file:
        info = layout.decode_info(disk.read(path), reader.session)
    else:
        heads = [head for state in reader.states.values() for head in state.metadata_lines]
        info = layout.decode_info(json.dumps(heads[-1] if heads else {}).encode(), reader.session)
    if info.created_text == UNKNOWN:
        info.created_text = first_time(reader)
    return info


def _own_files(disk: Disk, private: str) -> Iterator[tuple[str, str]]:
    """What SMP keeps beside a session, without what belongs to processes."""
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


_SHOWN = 5


def is_in_place(store: FileStore, archive: str, session: str) -> bool:
    """Whether the session in its place has all that its archive has."""
    try:
        packed = of_archive(store, archive, session).files
        return _entries(packed).keys() <= _entries(store.session(session)).keys()
    except SMPError:
        return False


def problems_beside(session: FileSession) -> list[Problem]:
    """Archives of a session that stands in its place and lacks what they hold: a merge or a backup brought its files back."""
    found: list[Problem] = []
    for path in _archives_of(session):
        try:
            packed, own = _entries(of_archive(session.store, path, session.session).files), _entries(session)
        except SMPError as error:
            if not session.store.disk.exists(path):
                continue  # another process restored it meanwhile
            message = f"an archive of this session stands beside it and cannot be compared with it: {error.message}"
            found.append(Problem(path, 0, "archive_beside", message, "warning"))
            continue
        lacking = dict.fromkeys(id for key, id in packed.items() if key not in own)
        if lacking:
            shown = ", ".join([*lacking][:_SHOWN]) + (
                f" and {len(lacking) - _SHOWN:,} more" if len(lacking) > _SHOWN else ""
            )
            message = (
                f"this archive holds entries that the session lacks, of {shown}: a merge or a backup brought files of the session "
                "back that had been archived. Bring its other files back, too (git: from the side that did not archive it), and remove the archive."
            )
            found.append(Problem(path, 0, "archive_beside", message, "warning"))
    return found


def _archives_of(session: FileSession) -> list[str]:
    """Archives where this store looks for them, and those that were kept there."""
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
    """The entries, each with the id of its memory."""
    live: list[Entry] = session.view(
        lambda session_history: [entry for history in session_history.histories.values() for entry in history.entries]
    )
    cold = [entry for history in cold_history(session).histories.values() for entry in history.entries]
    return {_key(entry): entry.id for entry in (*live, *cold)}


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
        if name not in EXCLUDED
    )


def _names_below(store: FileStore, folder: str, prefix: str) -> list[str]:
    found: list[str] = []
    for name in store.disk.names(os.path.join(folder, prefix)):
        if store.disk.is_folder(os.path.join(folder, prefix, name)):
            found += _names_below(store, folder, f"{prefix}{name}/")
        else:
            found.append(prefix + name)
    return found
