"""How does a session that was made elsewhere come in? Written whole beside the others, compared, then given its name.

Guarantees: it is there with all its entries or not at all, also when the machine stops at any moment. It was read back
and compared before it got its name. A session that has this name already is `SessionExists`, and nothing is touched.
Non-guarantees: the entries must make sense together; the caller has looked at that.
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


def place(store: FileStore, info: SessionInfo, entries: list[Entry], quota_bytes: int) -> FileSession:
    """Make a session of these entries, which are numbered in the order in which they stand."""
    store.check_open()
    store.check_current()
    _refuse_taken(store, info.id)
    contents = _contents(store.layout, info, entries)
    store.admit(info.id, 0, sum(map(len, contents.values())), quota_bytes)
    waiting = os.path.join(store.root, PRIVATE, f"{info.id}-{os.urandom(4).hex()}{TEMPORARY}")
    try:
        try:
            _write(store, waiting, info.id, contents)
            _compare(store, waiting, info, entries)
            _give_name(store, waiting, info.id)
        finally:
            store.disk.remove_tree(waiting)
    except OSError as error:
        raise from_os_error(error, store.layout.folder(store.root, info.id), "creating a session") from error
    store.check_current()  # a conversion that began meanwhile may not have seen it
    store.marks.mark_changed(info.id)
    return store.session(info.id)


def _refuse_taken(store: FileStore, session: str) -> None:
    if store.layout.exists(store.disk, store.root, session):
        raise SessionExists(f"There is already a session {session}; give the new one another id.", session=session)


def _contents(layout: Layout, info: SessionInfo, entries: list[Entry]) -> dict[str, bytes]:
    parts = {layout.info_file or f"{info.id}.jsonl": [layout.encode_info(info)]}
    for entry in entries:
        name = layout.file_of(entry, info.id)
        codec = layout.codec_of(name)
        if name not in parts:
            parts[name] = [codec.header(layout.title_of(name, info.id))]
        parts[name].append(codec.encode(layout.field_names.encode(entry, info.id)))
    return {name: b"".join(part) for name, part in parts.items()}


def _write(store: FileStore, waiting: str, session: str, contents: dict[str, bytes]) -> None:
    disk, folder = store.disk, store.layout.folder(waiting, session)
    store.make_folder(store.layout.private(waiting, session))
    for name, data in contents.items():
        path = os.path.join(folder, name)
        store.make_folder(os.path.dirname(path))
        disk.write_new(path, data)
    for inner in {os.path.dirname(os.path.join(folder, name)) for name in contents}:
        disk.sync_folder(inner)


def _compare(store: FileStore, waiting: str, info: SessionInfo, entries: list[Entry]) -> None:
    """What was written must read back equal, to the last step of its history."""
    reader = SessionReader(store.disk, store.layout, waiting, info.id)
    found, wanted = reader.catch_up(), SessionHistory()
    wanted.add(entries)
    same = list(found.histories) == list(wanted.histories) and all(
        found.histories[name].record(info.id) == history.record(info.id)
        and found.histories[name].steps() == history.steps()
        for name, history in wanted.histories.items()
    )
    if not same or any(problem.severity == "error" for problem in reader.problems()):
        raise StorageCorrupt(f"Session {info.id} did not read back equal; nothing was stored.", session=info.id)
    if store.layout.info_file:
        path = os.path.join(store.layout.folder(waiting, info.id), store.layout.info_file)
        if store.layout.decode_info(store.disk.read(path), info.id) != info:
            raise StorageCorrupt(f"The head of {info.id} did not read back equal; nothing was stored.", session=info.id)


def _give_name(store: FileStore, waiting: str, session: str) -> None:
    """The moment in which the session is there."""
    disk, layout, root = store.disk, store.layout, store.root
    source, target = layout.folder(waiting, session), layout.folder(root, session)
    if layout.info_file:
        store.make_folder(os.path.dirname(target))
        if disk.exists(target):
            _refuse_taken(store, session)
            raise FileExistsError(target)
        disk.move(source, target)
        disk.sync_folder(os.path.dirname(target))
    else:
        store.make_folder(layout.private(root, session))
        file = f"{waiting}{TEMPORARY}"  # where whoever opens the session looks for a second name
        disk.write_new(file, disk.read(os.path.join(source, f"{session}.jsonl")))
        try:
            disk.link_new(file, os.path.join(target, f"{session}.jsonl"))
        except FileExistsError:
            _refuse_taken(store, session)
            raise
        finally:
            disk.remove(file)
    disk.sync_folder(root)
