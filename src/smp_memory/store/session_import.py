"""Write a complete session from entries: encode its files, verify them, and give them their name.

Guarantees: the session exists with all its entries or not at all, also when the machine stops at any moment. It was read
back and compared before it got its name. A session that has this name already raises `SessionExists`, and nothing is changed.
Non-guarantees: whether the entries are consistent is checked by the caller.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from smp_memory.errors import SessionExists, StorageCorrupt, from_os_error
from smp_memory.files.disk import TEMPORARY
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.reader import SessionReader
from smp_memory.model.history import SessionHistory

if TYPE_CHECKING:
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore


def import_session(store: FileStore, info: SessionInfo, entries: list[Entry], quota_bytes: int) -> FileSession:
    """Create a session from these entries, which are numbered in their order."""
    store.check_open()
    store.check_current()
    _check_free(store, info.id)
    contents = encode_session(store.layout, info.id, info, entries)
    store.admit(info.id, 0, sum(map(len, contents.values())), quota_bytes)
    staging = os.path.join(store.root, PRIVATE, f"{info.id}-{os.urandom(4).hex()}{TEMPORARY}")
    try:
        try:
            _write(store, staging, info.id, contents)
            _compare(store, staging, info, entries)
            _publish(store, staging, info.id)
        finally:
            store.disk.remove_tree(staging)
    except OSError as error:
        raise from_os_error(error, store.layout.folder(store.root, info.id), "creating a session") from error
    store.check_current()  # a conversion that began meanwhile may not have seen it
    store.change_table.mark_changed(info.id)
    return store.session(info.id)


def _check_free(store: FileStore, session: str) -> None:
    if store.layout.exists(store.disk, store.root, session):
        raise SessionExists(f"There is already a session {session}; give the new one another id.", session=session)


def encode_session(layout: Layout, session: str, info: SessionInfo, entries: list[Entry]) -> dict[str, bytes]:
    """The files of a session in a layout, from its metadata and all its entries in their order."""
    parts = {layout.info_file or f"{session}.jsonl": [layout.encode_info(info)]}
    for entry in entries:
        name = layout.file_of(entry, session)
        codec = layout.codec_of(name)
        if name not in parts:
            parts[name] = [codec.header(layout.title_of(name, session))]
        parts[name].append(codec.encode(layout.field_names.encode(entry, session)))
    return {name: b"".join(part) for name, part in parts.items()}


def _write(store: FileStore, staging: str, session: str, contents: dict[str, bytes]) -> None:
    disk, folder = store.disk, store.layout.folder(staging, session)
    store.make_folder(store.layout.private(staging, session))
    for name, data in contents.items():
        path = os.path.join(folder, name)
        store.make_folder(os.path.dirname(path))
        disk.write_new(path, data)
    for inner in {os.path.dirname(os.path.join(folder, name)) for name in contents}:
        disk.sync_folder(inner)


def _compare(store: FileStore, staging: str, info: SessionInfo, entries: list[Entry]) -> None:
    """Raise StorageCorrupt if the written files do not read back equal, including all histories."""
    reader = SessionReader(store.disk, store.layout, staging, info.id)
    found, expected = reader.catch_up(), SessionHistory()
    expected.add(entries)
    is_equal = list(found.histories) == list(expected.histories) and all(
        found.histories[name].record(info.id) == history.record(info.id)
        and found.histories[name].steps() == history.steps()
        for name, history in expected.histories.items()
    )
    if not is_equal or any(problem.severity == "error" for problem in reader.problems()):
        raise StorageCorrupt(f"Session {info.id} did not read back equal; nothing was stored.", session=info.id)
    if store.layout.info_file:
        path = os.path.join(store.layout.folder(staging, info.id), store.layout.info_file)
        if store.layout.decode_info(store.disk.read(path), info.id) != info:
            raise StorageCorrupt(
                f"The metadata of {info.id} did not read back equal; nothing was stored.", session=info.id
            )


def _publish(store: FileStore, staging: str, session: str) -> None:
    """Move the files to their final name. At the rename the session exists."""
    disk, layout, root = store.disk, store.layout, store.root
    source, target = layout.folder(staging, session), layout.folder(root, session)
    if layout.info_file:
        store.make_folder(os.path.dirname(target))
        if disk.exists(target):
            _check_free(store, session)
            raise FileExistsError(target)
        disk.move(source, target)
        disk.sync_folder(os.path.dirname(target))
    else:
        store.make_folder(layout.private(root, session))
        file = f"{staging}{TEMPORARY}"  # where opening the session expects a second name
        disk.write_new(file, disk.read(os.path.join(source, f"{session}.jsonl")))
        try:
            disk.link_new(file, os.path.join(target, f"{session}.jsonl"))
        except FileExistsError:
            _check_free(store, session)
            raise
        finally:
            disk.remove(file)
    disk.sync_folder(root)
