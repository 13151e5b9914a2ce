"""How do the bytes of a memory go, from every file that SMP owns? Its files are written anew, what was made of them goes.

    under the store's lock                  each session: its files in one plan (`store.erasure`); one that is archived or
                                            deleted stays so (`store.erasing_away`)
    then, each repeatable                   what the index knows of it (`index.scrubbing`), notes of use, reasons in the log
    then                                    digests outside of the store that SMP has noted are written anew
    then                                    a look through every file for pieces of the text (`store.traces`)

Guarantees: a session is erased from wholly or not at all. `erasing.json`, which holds ids alone, is written first: if the
process dies in between, whoever opens the store next completes the rest and notes in the audit log what is gone. Other
memories stay as they are; what they say of the same is reported, not touched, and relations to the erased memory stay
as ids. Summaries that SMP made of it lose what they quote.
Non-guarantees: see `model.forgotten.BEYOND_REACH`.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from smp_memory.errors import InvalidRecord, MemoryNotFound, SMPError, from_os_error
from smp_memory.files.cold_segment import FILE as COLD
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.index.index import discard_all
from smp_memory.index.scrub import scrub
from smp_memory.model.ids import check
from smp_memory.store import session_erasure
from smp_memory.store.archive_index import DELETED, ArchiveIndex
from smp_memory.store.archive_names import ARCHIVE_FOLDERS
from smp_memory.store.remnant_scan import holds, look_for, look_in, open_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from smp_memory.model.deletions import Receipt
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore

INTENT = "erasing.json"
INDEX = "index"


def erase(
    store: FileStore,
    wanted: dict[str, list[str]],
    receipt: Receipt,
    note: Callable[[], object],
    renew: Callable[[], tuple[list[str], list[str]]],
) -> None:
    """Erase memories, ids by session, and fill in the receipt; `note` then writes it into the audit log.

    `renew` writes digests anew: the paths of those that are there, and what could not be done.
    """
    pieces: set[bytes] = set()
    shelf = ArchiveIndex(store)
    with shelf.held("erasing"):
        try:
            _intend(store, wanted)
        except OSError as error:
            raise from_os_error(error, store.root, "erasing") from error
        try:
            for session, ids in wanted.items():
                shelf.tidy(session)
                pieces |= _erase_in(shelf, session, ids, receipt)
                store.marks.mark_changed(session)
        finally:
            clean = _clean_up(store, wanted, receipt)
        digests, failed = renew()
        receipt.pending += failed
        verify(store, sorted(pieces, key=len, reverse=True), receipt, digests)
        note()
        if clean:  # not before: if we die, somebody else must be able to note it
            try:
                store.state.remove(INTENT)
            except OSError as error:
                receipt.pending.append(f"{INTENT} is taken away when the store is next opened ({error})")


def _erase_in(shelf: ArchiveIndex, session: str, ids: list[str], receipt: Receipt) -> set[bytes]:
    """Take memories out of one session, wherever it is; which pieces of text to look for afterwards."""
    store = shelf.store
    if shelf.is_live(session):
        files = store.session(session)
        erased = session_erasure.erase_in(files, ids)
        paths = [os.path.normpath(os.path.join(files.reader.folder, name)) for name in erased.rewritten.names]
    else:
        from smp_memory.store.archive_erasure import erase_away

        erased, paths = erase_away(shelf, session, ids)
    for path in paths:
        (receipt.rewritten if store.disk.exists(path) else receipt.removed).append(_shown(store, path))
    receipt.summaries += [f"{session}/{name}" for name in erased.summaries]
    receipt.bytes_before += erased.rewritten.bytes_before
    receipt.bytes_after += erased.rewritten.bytes_after
    return erased.pieces


def check_there(store: FileStore, session: str, ids: list[str]) -> None:
    """Refuse what is neither in the session's files nor in its cold segment, in its place or put away."""
    session_erasure.check_there(_files_of(ArchiveIndex(store), session), ids)


def _files_of(shelf: ArchiveIndex, session: str) -> FileSession:
    if shelf.is_live(session):
        return shelf.store.session(session)
    from smp_memory.store.archive_erasure import copy_of

    return copy_of(shelf, session).files


# -- what was made of it


def _clean_up(store: FileStore, wanted: dict[str, list[str]], receipt: Receipt) -> bool:
    """What is erased is erased: if the rest fails, it is done later."""
    try:
        store.access.flush()
        store.state.forget_removed_stores()  # this one may have been elsewhere before
        changed = _clean_index(store, wanted)
        left = _take_away_what_was_said_of_it(store, wanted)
        (receipt.rewritten if changed == "rewritten" else receipt.removed).extend([INDEX] * bool(changed))
        receipt.pending += left
        return True
    except (OSError, SMPError) as error:
        receipt.pending.append(
            f"index, notes of use and reasons are taken away when the store is next opened ({error})"
        )
        return False


def _take_away_what_was_said_of_it(store: FileStore, wanted: dict[str, list[str]]) -> list[str]:
    """The notes of use, and reasons in the audit log, which may repeat what was said. What could not be done."""
    disk, log = store.state.disk, store.access.path
    names = {f"{session}/{memory_id}".encode() for session, ids in wanted.items() for memory_id in ids}
    if disk.exists(log):
        lines = disk.read(log).splitlines(keepends=True)
        left = [_blank(line) if line.strip().partition(b" ")[2] in names else line for line in lines]
        if left != lines:
            disk.replace(log, b"".join(left))  # as long as it was: the index knows up to where it was counted
    if not store.disk.exists(store.audit.path):
        return []
    done = [store.audit.forget_reasons(session, ids) for session, ids in wanted.items()]
    return [] if all(done) else ["the audit log is not as SMP wrote it, so the reasons given there were left in it"]


def _blank(line: bytes) -> bytes:
    return b"-" * (len(line) - 1) + b"\n"


def _clean_index(store: FileStore, wanted: dict[str, list[str]]) -> str:
    """Let nothing of it be in the index; what became of it: rewritten, removed, or nothing if there was none."""
    base = store.indexer.folder
    with store.indexer.mutex:
        store.indexer.close()
        if not store.state.on_disk or not os.path.isdir(base):
            return ""
        if any(wanted.values()) and scrub(base, wanted):
            return "rewritten"
        discard_all(base)
        return "removed"


# -- after a crash


def finish_erasing(store: FileStore) -> bool:
    """Complete what a process that died in the middle of it has left; one that is at it is left alone. Whether it was done."""
    shelf = ArchiveIndex(store)
    try:
        with shelf.held("finishing an erasure", 0.0):
            if was_interrupted(store):
                _finish(shelf)
        return True
    except (OSError, SMPError):
        return False  # somebody is at it, or a disk that can only be read: the next one


def _finish(shelf: ArchiveIndex) -> None:
    store = shelf.store
    try:
        stored = json.loads(store.state.read(INTENT))["ids"]
        wanted = {check(str(session), "session"): [str(id) for id in ids] for session, ids in stored.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidRecord):
        wanted = {}
    gone: dict[str, list[str]] = {}
    for session, ids in wanted.items():
        shelf.tidy(session)
        if ids:
            from smp_memory.store.archive_erasure import finish

            finish(shelf, session)
            if shelf.is_live(session):
                store.session(session).exclusively("finishing an erasure", lambda: None)  # carries out its plan
            gone[session] = _gone(shelf, session, ids)
    _clean_index(store, {})
    _take_away_what_was_said_of_it(store, wanted)
    for session, ids in gone.items():
        if ids:
            store.audit.note("erase", session=session, ids=ids, interrupted=True)
    store.state.remove(INTENT)


def was_interrupted(store: FileStore) -> bool:
    """Whether an erasure of this user began and did not end."""
    return store.state.has(INTENT)


def _gone(shelf: ArchiveIndex, session: str, ids: list[str]) -> list[str]:
    """Which of these memories the erasure has reached."""
    found = []
    for name in ids:
        try:
            session_erasure.check_there(_files_of(shelf, session), [name])
        except MemoryNotFound:
            found.append(name)
    return found


def _intend(store: FileStore, wanted: dict[str, list[str]]) -> None:
    store.state.write(INTENT, (json.dumps({"ids": wanted}) + "\n").encode(), durable=True)


# -- is it gone?


def verify(store: FileStore, pieces: list[bytes], receipt: Receipt, digests: list[str]) -> None:
    """Look through everything below the store and these digests for the text, and say what is left."""
    receipt.pieces = len(pieces)
    try:
        _look_through(store, pieces, receipt, digests)
    except (OSError, SMPError) as error:
        receipt.pieces = 0
        receipt.pending.append(f"the files could not be looked through ({error})")
    for process in open_elsewhere(store.root, store.state.folder) if store.state.on_disk else ():
        receipt.pending.append(f"process {process} still has an old file open; it lets go when it next asks, or ends")


def _look_through(store: FileStore, pieces: list[bytes], receipt: Receipt, digests: list[str]) -> None:
    if not pieces:
        receipt.pending.append(
            "The text was too short or too common to be looked for; its entries were taken out and the files read back."
        )
    else:
        outside = [path for path in digests if not path.startswith(store.root + os.sep)]
        looked = look_for(store.disk, store.root, pieces)
        if outside:
            looked = looked.with_(look_in(Disk(RealSystem()), outside, pieces))
        if store.state.on_disk:
            looked = looked.with_(look_for(store.state.disk, store.state.folder, pieces))
        receipt.searched_files, receipt.searched_bytes = looked.files, looked.bytes
        memories = _files_of_memories(store)
        for path in looked.found:
            if path == store.state.path(INTENT):
                continue  # it holds ids alone, and goes when the erasure is noted
            (receipt.elsewhere if memories(path) else receipt.left).append(_shown(store, path))
        receipt.elsewhere += _others(store, receipt, pieces)
        receipt.pending += [f"{_shown(store, path)} could not be looked through" for path in looked.unreadable]


def _files_of_memories(store: FileStore) -> Any:
    """Tells whether a file holds memories of sessions, or sessions that are put away: ours are known to be gone from it."""
    own = {
        os.path.join(store.layout.folder(store.root, name), file)
        for name in store.session_ids()
        for file in store.layout.files(store.disk, store.layout.folder(store.root, name), name)
    }
    away = tuple(os.path.join(store.root, name) + os.sep for name in (*ARCHIVE_FOLDERS, DELETED))
    return lambda path: path in own or path.startswith(away) or os.path.basename(path) == COLD


def _others(store: FileStore, receipt: Receipt, pieces: list[bytes]) -> list[str]:
    """The other memories of the same sessions that say the same."""
    found = []
    for session in dict.fromkeys(ref.rpartition("/")[0] for ref in receipt.ids):
        if not store.layout.exists(store.disk, store.root, session):
            continue  # of one that is put away its archive or its files are named
        reader = store.session(session).reader
        with reader.mutex:
            states = dict(reader.states)
        for name, state in states.items():
            path = os.path.join(reader.folder, name)
            if _shown(store, path) not in receipt.elsewhere:
                continue
            data = store.disk.read(path)
            ids = {entry.id for entry in state.entries if holds(data[entry.place[0] : entry.place[1]], pieces)}
            found += [f"{session}/{memory_id}" for memory_id in sorted(ids)]
    return found


def _shown(store: FileStore, path: str) -> str:
    if path.startswith(store.state.folder + os.sep) and store.state.on_disk:
        return path  # it lies outside the store
    return os.path.relpath(path, store.root).replace(os.sep, "/")
