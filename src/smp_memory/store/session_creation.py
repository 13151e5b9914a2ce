"""Create a session: an empty one, or a complete one from entries, whose files are written, verified and then named.

Guarantees: the session exists with all its entries or not at all, also when the machine stops at any moment. It was read
back and compared before it got its name. A session that has this name already raises `SessionExists`, and nothing is changed.
Non-guarantees: whether the entries are consistent is checked by the caller.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smp_memory.errors import SessionExists, StorageCorrupt, StorageError, done_before_failure, from_os_error
from smp_memory.files.cold_segment import ColdEntry, ColdSegment
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.layouts.layout import ARCHIVE_FOLDERS, PRIVATE
from smp_memory.files.reader import SessionReader
from smp_memory.model.history import SessionHistory
from smp_memory.model.ids import new_uid
from smp_memory.model.session_info import ARCHIVED, DELETED
from smp_memory.observe import telemetry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore


def create_session(store: FileStore, info: SessionInfo) -> FileSession:
    """Create an empty session at once: its files are prepared elsewhere, then renamed."""
    store.check_open()
    store.check_current()
    store.check_not_moved()
    _check_name(store, info.id)
    info.uid = info.uid or new_uid()
    try:
        (_create_folder if store.layout.info_file else _create_file)(store, info)
    except OSError as error:
        raise from_os_error(error, store.layout.folder(store.root, info.id), "creating a session") from error
    telemetry.emit("session", telemetry.INFO, "session_created", f"Session {info.id} was created.", info.id)
    return _opened(store, info.id)


def _opened(store: FileStore, session: str) -> FileSession:
    """A session that was just created."""
    store.mark_changed(session)
    try:
        store.check_current()  # a conversion that began meanwhile may not have seen it
        return store.session(session)
    except StorageError as error:
        raise done_before_failure(error, f"Session {session} was created", store.root) from error


def _check_name(store: FileStore, session: str) -> None:
    """Raise SessionExists if a live or archived session has this name; recover an interrupted deletion under it."""
    if store.has_session(session):
        raise _taken(session)  # before the check for an archive: a session that is being archived has both
    has_archives = any(store.disk.exists(os.path.join(store.root, name)) for name in ARCHIVE_FOLDERS)
    private = store.layout.private(store.root, session)
    if has_archives or (not store.layout.info_file and store.disk.exists(private)):
        _check_not_archived(store, session)


def _check_not_archived(store: FileStore, session: str) -> None:
    """Raise SessionExists if an archived session has this name; recover an interrupted deletion under it."""
    if any(each.has_memories for each in store.sessions(ARCHIVED, id=session)):
        raise SessionExists(
            f"There is an archived session {session}; memory.session({session!r}) restores it.", session=session
        )
    if not store.layout.info_file and store.sessions(DELETED, id=session):
        store.recover_session(session, "creating a session")


def _taken(session: str) -> SessionExists:
    return SessionExists(f"There is already a session {session}.", session=session)


def _create_folder(store: FileStore, info: SessionInfo) -> None:
    disk, folder = store.disk, store.layout.folder(store.root, info.id)
    # In the same folder, because a move between two folders is durable when both are synced. No session has such a name.
    waiting = f"{folder}-{os.urandom(4).hex()}{TEMPORARY}"
    store.make_folder(os.path.dirname(folder))
    store.make_folder(os.path.join(store.root, PRIVATE))  # of the change table
    disk.make_folder(os.path.join(waiting, PRIVATE), sync=False)
    disk.write_new(os.path.join(waiting, store.layout.info_file), store.layout.encode_info(info))
    for name, data in store.layout.first_files:  # not synced: maintenance makes them anew
        disk.make_folder(os.path.dirname(os.path.join(waiting, name)), sync=False)
        disk.write_new(os.path.join(waiting, name), data, sync=False)
    disk.sync_folder(waiting)
    try:
        if disk.exists(folder):
            raise FileExistsError(folder)
        disk.move(waiting, folder)
    except (OSError, StorageError) as error:
        disk.remove_tree(waiting)
        if disk.exists(folder):
            raise _taken(info.id) from None
        raise error
    _confirm(store, info.id, os.path.dirname(folder))


def _create_file(store: FileStore, info: SessionInfo) -> None:
    disk, path, waiting = store.disk, os.path.join(store.root, f"{info.id}.jsonl"), _temporary(store, info.id)
    store.make_folder(os.path.dirname(waiting))
    disk.make_folder(store.layout.private(store.root, info.id), sync=False)
    disk.write_new(waiting, store.layout.encode_info(info))
    try:
        disk.link_new(waiting, path)
    except FileExistsError:
        disk.remove(waiting)
        raise _taken(info.id) from None
    _confirm(store, info.id, os.path.dirname(waiting))


def _temporary(store: FileStore, session: str) -> str:
    return os.path.join(store.root, PRIVATE, f"{session}-{os.urandom(4).hex()}{TEMPORARY}")


def _confirm(store: FileStore, session: str, folder: str) -> None:
    """Fsync the folder of a new session, and once those above: the process that made them may have died before its fsync."""
    above = () if store.has_synced_root else (store.root, os.path.dirname(store.root))
    try:
        for each in (folder, *above):
            store.disk.sync_folder(each)
        store.has_synced_root = True
    except OSError as error:
        raise done_before_failure(error, f"Session {session} was created", store.root) from error


# -- from entries


def import_session(
    store: FileStore,
    info: SessionInfo,
    entries: list[Entry],
    quota_bytes: int,
    cold: Mapping[str, tuple[str, str]],
    written: datetime | None,
) -> FileSession:
    """Create a session from these entries, which are numbered in their order; those of the memories in `cold` in its cold segment."""
    store.check_open()
    store.check_current()
    _check_free(store, info.id)
    hot = [entry for entry in entries if entry.id not in cold]
    contents = encode_session(store.layout, info.id, info, hot)
    store.admit(info.id, 0, sum(map(len, contents.values())), quota_bytes)
    if cold:
        contents[store.layout.cold_file(info.id)] = _encode_cold(entries, cold)
    staging = _temporary(store, info.id)
    try:
        try:
            _write(store, staging, info.id, contents, written)
            _check_imported(SessionReader(store.disk, store.layout, staging, info.id), info, hot)
            _publish(store, staging, info.id, list(contents), written)
        finally:
            _remove_staging(store, staging)
    except OSError as error:
        raise from_os_error(error, store.layout.folder(store.root, info.id), "creating a session") from error
    return _opened(store, info.id)


def _encode_cold(entries: list[Entry], cold: Mapping[str, tuple[str, str]]) -> bytes:
    rows = []
    for entry in entries:
        if entry.id in cold:
            moved, why = cold[entry.id]
            rows.append(ColdEntry(entry, {"moved": moved, "why": why}))
    return ColdSegment("", b"").changed(lambda line: line, rows)


def _remove_staging(store: FileStore, staging: str) -> None:
    try:
        for path in (staging, f"{staging}{TEMPORARY}"):
            store.disk.remove_tree(path)
    except (OSError, StorageError) as error:
        text = f"{staging} could not be removed ({error}); `smp doctor --fix` removes it."
        telemetry.emit("storage", telemetry.WARNING, "leftover", text, path=staging)


def _check_free(store: FileStore, session: str) -> None:
    if store.has_session(session):
        raise SessionExists(f"There is already a session {session}; give the new one another id.", session=session)


def encode_session(layout: Layout, session: str, info: SessionInfo, entries: list[Entry]) -> dict[str, bytes]:
    """The files of a session in a layout, from its metadata and all its entries in their order."""
    info.figures = {}  # those of another layout
    parts = {layout.info_file or f"{session}.jsonl": [layout.encode_info(info)]}
    for entry in entries:
        name = layout.file_of(entry, session)
        codec = layout.codec_of(name)
        if name not in parts:
            parts[name] = [codec.header(layout.title_of(name, session))]
        parts[name].append(codec.encode(layout.field_names.encode(entry, session)))
    return {name: b"".join(part) for name, part in parts.items()}


def _write(store: FileStore, staging: str, session: str, contents: dict[str, bytes], written: datetime | None) -> None:
    disk, folder = store.disk, store.layout.folder(staging, session)
    store.make_folder(store.layout.private(staging, session))
    for name, data in contents.items():
        path = os.path.join(folder, name)
        store.make_folder(os.path.dirname(path))
        disk.write_new(path, data)
        _set_written(store, path, written)
    for inner in {os.path.dirname(os.path.join(folder, name)) for name in contents}:
        disk.sync_folder(inner)


def _set_written(store: FileStore, path: str, written: datetime | None) -> None:
    """The modification time tells which session was written last."""
    if written is not None:
        store.disk.set_modified_time(path, round(written.timestamp() * 1e9))


def check_written(
    reader: SessionReader, expected: SessionHistory, info: SessionInfo, outcome: str, *, with_edits: bool = True
) -> None:
    """Raise StorageCorrupt if the written files do not read back equal, including metadata and all histories."""
    session, layout, found = reader.session, reader.layout, reader.catch_up()
    if list(found.histories) != list(expected.histories):
        raise StorageCorrupt(f"Session {session} did not read back equal; {outcome}.", session=session)
    for name, history in expected.histories.items():
        twin = found.histories[name]
        if twin.record(session) != history.record(session) or twin.steps(with_edits=with_edits) != history.steps(
            with_edits=with_edits
        ):
            raise StorageCorrupt(f"{session}/{name} did not read back equal; {outcome}.", session=session, id=name)
    if layout.info_file:
        stored = layout.decode_info(reader.disk.read(os.path.join(reader.folder, layout.info_file)), session)
        if stored != info:
            raise StorageCorrupt(f"The metadata of {session} did not read back equal; {outcome}.", session=session)


def _check_imported(reader: SessionReader, info: SessionInfo, entries: list[Entry]) -> None:
    expected = SessionHistory()
    expected.add(entries)
    check_written(reader, expected, info, "nothing was stored")
    if any(problem.severity == "error" for problem in reader.problems()):
        raise StorageCorrupt(f"Session {info.id} did not read back equal; nothing was stored.", session=info.id)


def _place_cold(store: FileStore, source: str, target: str, session: str) -> None:
    """Move a cold segment beside the sessions; it belongs to nobody until the session is there. A crash may have left the same one."""
    if store.disk.exists(target) and store.disk.read(target) != store.disk.read(source):
        raise SessionExists(
            f"{target} contains memories of another session {session}; nothing was stored.", session=session
        )
    store.disk.move(source, target)
    for folder in (os.path.dirname(target), os.path.dirname(source)):  # before the session itself is there
        store.disk.sync_folder(folder)


def _publish(store: FileStore, staging: str, session: str, names: list[str], written: datetime | None) -> None:
    """Move the files to their final name. At the last rename the session exists."""
    disk, layout, root = store.disk, store.layout, store.root
    source, target = layout.folder(staging, session), layout.folder(root, session)
    if layout.info_file:
        store.make_folder(os.path.dirname(target))
        if disk.exists(target):
            _check_free(store, session)
            raise FileExistsError(target)
        disk.move(source, target)
    else:
        store.make_folder(layout.private(root, session))
        for name in names:
            if name != f"{session}.jsonl":
                _place_cold(store, os.path.join(source, name), os.path.join(target, name), session)
        file = f"{staging}{TEMPORARY}"  # where opening the session expects a second name
        disk.write_new(file, disk.read(os.path.join(source, f"{session}.jsonl")))
        _set_written(store, file, written)
        try:
            disk.link_new(file, os.path.join(target, f"{session}.jsonl"))
        except FileExistsError:
            _check_free(store, session)
            raise
    _confirm(store, session, os.path.dirname(target) if layout.info_file else target)
