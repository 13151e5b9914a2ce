"""Convert a store to another layout: write all sessions beside the old ones, compare, swap at once.

1. `config.json` gets `converting`: from now on no writer of any process begins (each checks it under its lock).
2. Each session's lock is taken once, so that running writers finish; its files are settled and read.
3. The new files are written below `.smp/converting/`, read back and compared, memory by memory.
4. A plan in the root's journal moves the new files into place, removes the old ones and replaces `config.json`.

Guarantees: a crash at any point leaves the old store or the new one; opening it finishes or discards the rest. Files that
are not SMP's own are not touched. A store with unreadable entries is refused (repair it first): nothing is dropped.
"""

from __future__ import annotations

import json
import os

from smp_memory.config.config_file import read_settings
from smp_memory.config.settings import WRITE
from smp_memory.config.sources import CONVERTING
from smp_memory.errors import (
    InvalidConfig,
    SessionCorrupt,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    done_before_failure,
    from_os_error,
)
from smp_memory.files.journal import Journal, Plan
from smp_memory.files.layouts import JOURNAL, layout_named, unread_sessions
from smp_memory.files.layouts.layout import (
    CONFIG_FILE,
    OVERVIEW_FILES,
    OVERVIEWS,
    OVERVIEWS_IGNORED,
    PRIVATE,
    QUARANTINE,
    STAGING,
)
from smp_memory.files.lock import SessionLock
from smp_memory.files.plan_review import LOCK_FILES, review_conversion
from smp_memory.files.reader import SessionReader
from smp_memory.model.clone_merge import in_order
from smp_memory.model.history import SessionHistory
from smp_memory.model.session_info import FORMAT, SessionInfo
from smp_memory.store import unread_files
from smp_memory.store.session_creation import check_written, encode_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry
    from smp_memory.model.storage_reports import UnreadSession
    from smp_memory.store.file_store import FileStore


_NOT_WRITABLE = (StorageFull, StorageReadOnly)


def convert(store: FileStore, to: str, progress: Callable[[str], None] | None = None) -> None:
    """Convert a store to another layout, in place. To its own layout: import sessions that are in others."""
    target = layout_named(to)
    store.check_current()  # another process may have converted it since it was opened
    unread = unread_sessions(store.disk, store.root, store.layout)
    if target.name == store.layout.name and not unread:
        return
    if target.name != store.layout.name and unread:
        first = unread[0].problem(store.layout.name)
        raise StorageCorrupt(f"{first.message} Nothing was converted.", path=first.path, session=unread[0].session)
    try:
        _convert(store, target, to, progress or _no_progress)
    except OSError as error:
        raise from_os_error(error, store.root, f"converting to {to}") from error


def _no_progress(session: str) -> None:
    pass


def _convert(store: FileStore, target: Layout, to: str, progress: Callable[[str], None]) -> None:
    store.config.require(WRITE)
    disk, root = store.disk, store.root
    disk.make_folder(os.path.join(root, PRIVATE))
    lock = _root_lock(disk, root)
    lock.acquire(store.config.lock_timeout_seconds)
    lock.sign(f"converting to {to}")
    is_committed = False
    try:
        complete(disk, root)
        store.check_current()  # converted by another process meanwhile, it would seem to have no sessions
        disk.remove_tree(os.path.join(root, STAGING))
        disk.make_folder(os.path.join(root, STAGING))  # before the flag: `has_unfinished_conversion` checks it
        _set_flag(disk, root, True)
        plan = Plan()
        if target.name == store.layout.name:
            _stage_unread(store, plan, progress)
        for session in store.session_ids() if target.name != store.layout.name else ():
            progress(session)
            _stage_session(store, target, session, plan)
        _stage_config(disk, root, to, plan)
        journal = root_journal(disk, root)
        journal.commit(plan)
        is_committed = True
        journal.apply(plan, _nothing_to_append)
        journal.clear()
        _try(lambda: _remove_leftovers(disk, root, plan))
    except BaseException as error:
        is_committed = is_committed or root_journal(disk, root).exists()
        if not is_committed:
            _try(lambda: _discard(disk, root))
        elif isinstance(error, (OSError, StorageError)):
            raise done_before_failure(
                error, f"{root} was converted to {to}, or will be when it is next opened", root
            ) from error
        raise
    finally:
        lock.release()
        lock.close()


def _try(clean_up: Callable[[], None]) -> None:
    try:
        clean_up()
    except (OSError, StorageError):
        pass  # the next process that opens the store does it


def finish_if_possible(disk: Disk, root: str) -> None:
    """Like `finish_conversion`, but accept a disk that is not writable if no plan was committed: the old store is complete."""
    try:
        finish_conversion(disk, root)
    except (OSError, StorageError) as error:
        cannot_write = isinstance(
            from_os_error(error, root, "") if isinstance(error, OSError) else error, _NOT_WRITABLE
        )
        if not cannot_write or root_journal(disk, root).exists():
            raise


def finish_conversion(disk: Disk, root: str, timeout_seconds: float = 5.0) -> None:
    """Finish or discard a conversion that died. Raises LockTimeout if one is running."""
    disk.make_folder(os.path.join(root, PRIVATE))
    lock = _root_lock(disk, root)
    try:
        lock.acquire(timeout_seconds)
        lock.sign("finishing a conversion")
        complete(disk, root)
    finally:
        lock.release()
        lock.close()


def complete(disk: Disk, root: str) -> None:
    """The same for a caller that holds the root's lock. A running conversion holds it to the end."""
    plan = root_journal(disk, root).recover(_nothing_to_append)
    if plan is not None:
        _remove_leftovers(disk, root, plan)
    _discard(disk, root)


def _discard(disk: Disk, root: str) -> None:
    staging = os.path.join(root, STAGING)
    for name in disk.names(staging):  # first, because a full disk may have no room for config.json before that
        disk.remove_tree(os.path.join(staging, name))
    _set_flag(disk, root, False)
    disk.remove_tree(staging)


def _root_lock(disk: Disk, root: str) -> SessionLock:
    return SessionLock(disk, os.path.join(root, PRIVATE), f"the store {root}")


def root_journal(disk: Disk, root: str) -> Journal:
    return Journal(disk, os.path.join(root, JOURNAL), root, lambda plan, _: review_conversion(disk, root, plan))


def _nothing_to_append(name: str, data: bytes) -> bool:
    return True


def _read_config(disk: Disk, root: str) -> dict[str, Any]:
    path = os.path.join(root, CONFIG_FILE)
    stored = read_settings(lambda: disk.read_small(path), path)
    if isinstance(stored, InvalidConfig):
        raise stored
    return stored or {}  # removed by a person; opening the store creates it again


def _set_flag(disk: Disk, root: str, on: bool) -> None:
    stored = _read_config(disk, root)
    if on:
        stored[CONVERTING] = True
    elif stored.pop(CONVERTING, None) is None:
        return
    disk.replace(os.path.join(root, CONFIG_FILE), _as_json(stored))


def _as_json(fields: dict[str, Any]) -> bytes:
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()


def _stage_config(disk: Disk, root: str, to: str, plan: Plan) -> None:
    stored = {**_read_config(disk, root), "layout": to, "format": FORMAT}
    stored.pop(CONVERTING, None)
    _stage_file(disk, root, CONFIG_FILE, _as_json(stored), plan)


def _stage_file(disk: Disk, root: str, name: str, data: bytes, plan: Plan) -> None:
    path = os.path.join(root, STAGING, name)
    disk.make_folder(os.path.dirname(path))
    disk.write_new(path, data)
    disk.sync_folder(os.path.dirname(path))
    plan.moves.append((os.path.join(STAGING, name), name))


def _stage_session(store: FileStore, target: Layout, session: str, plan: Plan) -> None:
    disk, root = store.disk, store.root
    source = store.session(session)
    source.run_locked("converting", source.writer.mark_converting, while_converting=True)
    reader = SessionReader(disk, store.layout, root, session)
    session_history = reader.catch_up()
    broken = next((problem for problem in reader.problems() if problem.severity == "error"), None)
    if broken is not None:
        raise SessionCorrupt(
            f"{broken}. Repair the session first; nothing was converted.", session=session, path=broken.path
        )
    entries = in_order(entry for state in reader.states.values() for entry in state.entries)
    info = source.info_for_update()
    info.numbers, info.seq = source.writer.numbers, max(info.seq, source.writer.seq, session_history.seq, len(entries))
    info.generation += 1
    written = store.last_written_ns(session)
    for name, data in contents_of(target, session, entries, info).items():
        relative = os.path.relpath(os.path.join(target.folder(root, session), name), root)
        _stage_file(disk, root, relative, data, plan)
        path = os.path.join(root, STAGING, relative)
        disk.set_modified_time(path, written)  # it tells which session was written last
    _check_staged(disk, root, target, session, session_history, info)
    _plan_removals(store, store.layout, target, session, list(reader.states), plan)


def _stage_unread(store: FileStore, plan: Plan, progress: Callable[[str], None]) -> None:
    """Import the sessions that are in another layout, see `smp_memory.store.unread_files`."""
    unread = unread_sessions(store.disk, store.root, store.layout)
    for session in sorted({each.session for each in unread}):
        progress(session)
        found = [each for each in unread if each.session == session]
        written = max(_last_written_ns(store.disk, found), store.last_written_ns(session))
        _stage_imported(store, session, unread_files.ForeignSession(store.disk, store.root, found), written, plan)
        for each in found:
            _plan_removals(store, layout_named(each.layout), store.layout, session, each.files, plan)


def _last_written_ns(disk: Disk, found: list[UnreadSession]) -> int:
    states = [disk.stat(os.path.join(each.folder, name)) for each in found for name in each.files]
    return max((state.st_mtime_ns for state in states if state), default=0)


def _stage_imported(
    store: FileStore, session: str, foreign: unread_files.ForeignSession, written: int, plan: Plan
) -> None:
    disk, root, layout = store.disk, store.root, store.layout
    folder = layout.folder(root, session)
    if layout.exists(disk, root, session):
        source = store.session(session)
        source.run_locked("converting", source.writer.mark_converting, while_converting=True)
        reader = SessionReader(disk, layout, root, session)
        reader.catch_up()
        entries = in_order(entry for state in reader.states.values() for entry in state.entries)
        info_file = layout.info_file
        has_info = bool(info_file) and disk.exists(os.path.join(folder, info_file))
        names = [*reader.states, *([info_file] if has_info else [])]
        added, info = foreign.new(entries), source.info_for_update()
        contents = unread_files.append_entries(
            {name: disk.read(os.path.join(folder, name)) for name in names}, added, layout, session
        )
        if layout.info_file:
            contents.setdefault(layout.info_file, layout.encode_info(info))
    else:
        entries, added = [], foreign.new([])
        info = foreign.infos[0] if foreign.infos else SessionInfo(session, added[0].at)
        contents = contents_of(layout, session, added, info)
    session_history = SessionHistory(lambda: info.numbers)
    session_history.add(entries + added)
    for name, data in contents.items():
        relative = os.path.relpath(os.path.join(folder, name), root)
        _stage_file(disk, root, relative, data, plan)
        disk.set_modified_time(os.path.join(root, STAGING, relative), written)
    _check_staged(disk, root, layout, session, session_history, info)


def contents_of(target: Layout, session: str, entries: list[Entry], info: SessionInfo) -> dict[str, bytes]:
    """The files of a session in a layout, from all its entries in their order; numbers the entries."""
    last = 0
    for entry in entries:
        entry.tx = ""  # all transactions are complete here, and may span other files than before
        entry.seq = last = max(entry.seq, last + 1)  # entries written by hand have no number of their own
    return encode_session(target, session, info, entries)


def _check_staged(
    disk: Disk, root: str, layout: Layout, session: str, session_history: SessionHistory, info: SessionInfo
) -> None:
    reader = SessionReader(disk, layout, os.path.join(root, STAGING), session)
    check_written(reader, session_history, info, "nothing was converted", with_edits=False)


def _plan_removals(store: FileStore, old: Layout, target: Layout, session: str, files: list[str], plan: Plan) -> None:
    """Plan the removal of the old layout's files, except those that the new layout replaces."""
    root = store.root
    kept = {name for _, name in plan.moves}
    names = [*files, old.info_file] if old.info_file else [*files]
    overviews = [os.path.join(OVERVIEWS, name) for name in (*OVERVIEW_FILES, OVERVIEWS_IGNORED)]
    names += [name for name in overviews if store.disk.exists(os.path.join(old.folder(root, session), name))]
    for name in names:
        relative = os.path.relpath(os.path.join(old.folder(root, session), name), root)
        if relative not in kept:
            plan.removes.append(relative)
    _plan_move(
        store,
        old.folder(root, session),
        old.cold_file(session),
        target.folder(root, session),
        target.cold_file(session),
        plan,
    )
    source, destination = old.private(root, session), target.private(root, session)
    if source != destination:
        names = store.disk.names(source)
        moved = [name for name in names if name == QUARANTINE]
        if any(store.disk.exists(os.path.join(destination, name)) for name in moved):
            return  # the session has its own; the old folder stays
        old_private, new_private = os.path.relpath(source, root), os.path.relpath(destination, root)
        plan.moves += [(os.path.join(old_private, name), os.path.join(new_private, name)) for name in moved]
        plan.removes += [os.path.join(old_private, name) for name in names if name in LOCK_FILES]


def _plan_move(store: FileStore, folder: str, name: str, new_folder: str, new_name: str, plan: Plan) -> None:
    """Plan the move of a cold segment, which is the same in every layout; it stays if the session has one already."""
    source, destination = os.path.join(folder, name), os.path.join(new_folder, new_name)
    if source != destination and store.disk.exists(source) and not store.disk.exists(destination):
        plan.moves.append((os.path.relpath(source, store.root), os.path.relpath(destination, store.root)))


def _remove_leftovers(disk: Disk, root: str, plan: Plan) -> None:
    """Remove the staging folder and folders that are empty now."""
    disk.remove_tree(os.path.join(root, STAGING))
    folders = {os.path.dirname(name) for name in (*plan.removes, *(source for source, _ in plan.moves))}
    for folder in sorted(folders | {os.path.dirname(folder) for folder in folders}, key=len, reverse=True):
        path = os.path.join(root, folder)
        if folder and disk.is_folder(path) and not disk.names(path):
            disk.remove_tree(path)
