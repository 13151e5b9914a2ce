"""How do the bytes of a memory go, from every file that SMP owns? Its files are written anew, what was made of them goes.

    under the session's lock, in one plan   its files with all of the memory's entries (history, deletions, copies), the cold
                                            segment, quarantine, damaged leftovers, overviews, announced purges
    then, each repeatable                   the index as a whole (it is made again from the files), access notes
    then                                    a look through every file for pieces of the text (`store.traces`)

Guarantees: a session is erased from wholly or not at all. `erasing.json`, which holds ids alone, is written first: if the
process dies in between, whoever opens the store next completes the rest. Other memories stay as they are; what they say
of the same is reported, not touched, and relations to the erased memory stay as ids.
Non-guarantees: see `model.forgotten.BEYOND_REACH`. The next question makes the index anew, which takes time in a large
store: nobody can prove what is in the free pages of one that is kept.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from smp.errors import InvalidRecord, MemoryNotFound, SMPError, from_os_error
from smp.files.access_log import FILE as ACCESS_FILE
from smp.files.cold_segment import FILE as COLD
from smp.files.cold_segment import ColdSegment
from smp.files.layouts.layout import OVERVIEWS, PRIVATE
from smp.files.system import RealSystem
from smp.index.index import discard_all
from smp.privacy.audit import Audit
from smp.store import purging
from smp.store.check import QUARANTINE
from smp.store.overview_files import FILES
from smp.store.rewriting import Edit, entries_of, private_name, rewrite_under_lock
from smp.store.shelf import Shelf
from smp.store.traces import Traces, holds, look_for, open_elsewhere, pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp.files.disk import Disk
    from smp.files.session_reader import FileState, SessionReader
    from smp.model.fold import Fold
    from smp.model.forgotten import Receipt
    from smp.store.file_store import FileSession, FileStore
    from smp.store.rewriting import Rewritten

INTENT = "erasing.json"
INDEX = "index"


def erase(store: FileStore, wanted: dict[str, list[str]], receipt: Receipt) -> None:
    """Erase memories, ids by session, and fill in the receipt."""
    pieces: set[bytes] = set()
    try:
        _intend(store, wanted)
    except OSError as error:
        raise from_os_error(error, store.root, "erasing") from error
    try:
        for session, ids in wanted.items():
            with Shelf(store).shelved(session, "erasing"):
                pieces |= _erase_in(store.session(session), ids, receipt)
    finally:
        _clean_up(store, wanted, receipt)
    verify(store, sorted(pieces, key=len, reverse=True), receipt)


def _clean_up(store: FileStore, wanted: dict[str, list[str]], receipt: Receipt) -> None:
    """What is erased is erased: if the rest fails, it is done later."""
    store.access.flush()
    with store.indexer.mutex:
        store.indexer.close()
    try:
        if store.disk.exists(os.path.join(store.root, PRIVATE, INDEX)):
            receipt.removed.append(f"{PRIVATE}/{INDEX}")
        receipt.pending += _take_away_what_was_made_of_it(store.disk, store.root, wanted)
        store.disk.remove(_intent_path(store.root))
    except (OSError, SMPError) as error:
        receipt.pending.append(
            f"index, notes of use and reasons are taken away when the store is next opened ({error})"
        )


def check_there(session: FileSession, ids: list[str]) -> None:
    """Refuse what is neither in the session's files nor in its cold segment."""

    def missing(fold: Fold) -> set[str]:
        return {name for name in ids if name not in fold.trails and name not in fold.orphans}

    left: set[str] = session.view(missing)
    if left:
        left -= {row.id for row in ColdSegment(session.store.disk, os.path.join(session.reader.private, COLD)).rows()}
    if left:
        name = min(left)
        raise MemoryNotFound(f"No memory {name} in session {session.session}.", id=name, session=session.session)


def finish_erasing(disk: Disk, root: str) -> None:
    """Complete what a process that died in the middle of it has left."""
    if not disk.exists(_intent_path(root)):
        return
    try:
        wanted = json.loads(disk.read(_intent_path(root)))["ids"]
        _take_away_what_was_made_of_it(disk, root, {str(session): list(ids) for session, ids in wanted.items()})
        disk.remove(_intent_path(root))
    except (OSError, SMPError):
        pass  # a disk that can only be read: the next one
    except (ValueError, KeyError, TypeError, AttributeError):
        _take_away_what_was_made_of_it(disk, root, {})
        disk.remove(_intent_path(root))


def _intend(store: FileStore, wanted: dict[str, list[str]]) -> None:
    store.disk.make_folder(os.path.join(store.root, PRIVATE))
    store.disk.replace(_intent_path(store.root), (json.dumps({"ids": wanted}) + "\n").encode())


def _intent_path(root: str) -> str:
    return os.path.join(root, PRIVATE, INTENT)


# -- the session


def _erase_in(session: FileSession, ids: list[str], receipt: Receipt) -> set[bytes]:
    """Take memories out of one session; which pieces of text to look for afterwards."""
    found: list[_Erasure] = []

    def edit(reader: SessionReader) -> Edit:
        found[:] = [_Erasure(reader, ids)]
        return found[0].edit()

    done: Rewritten = session.exclusively("erasing", lambda: rewrite_under_lock(session, edit))
    folder = os.path.relpath(session.reader.folder, session.store.root)
    for name in done.names:
        path = os.path.normpath(os.path.join(folder, name))
        kept = session.store.disk.exists(os.path.join(session.store.root, path))
        (receipt.rewritten if kept else receipt.removed).append(path.replace(os.sep, "/"))
    receipt.bytes_before += done.bytes_before
    receipt.bytes_after += done.bytes_after
    return set(found[0].pieces)


class _Erasure:
    """What of a session's folder holds these memories."""

    def __init__(self, reader: SessionReader, ids: list[str]) -> None:
        self._reader = reader
        self._disk = reader.disk
        self._ids = ids
        self._entries = entries_of(reader, ids)
        values = [entry.data for entry in self._entries]
        cold = os.path.join(reader.private, COLD)
        rows = [row for row in ColdSegment(self._disk, cold).rows() if row.id in set(ids)]
        if rows:
            values += _cold_values(reader, ColdSegment(self._disk, cold), set(ids))
        self.pieces = pieces_of(values)
        self._traces = Traces(ids, values)

    def edit(self) -> Edit:
        reader = self._reader
        wanted = purging.without(reader, self._ids)
        for name, state in reader.states.items():
            wanted.cuts.update(self._unreadable(name, state))
        for name in self._disk.names(reader.private):
            if name.startswith(f"{COLD}."):  # a damaged one that was set aside
                wanted.files[private_name(reader, name)] = None
        for name in self._disk.names(os.path.join(reader.private, QUARANTINE)):
            path = os.path.join(QUARANTINE, name)
            if self._traces.are_in(self._disk.read(os.path.join(reader.private, path))):
                wanted.files[private_name(reader, path)] = None
        if self._disk.exists(os.path.join(reader.private, purging.FILE)):
            known = purging.announced_at(self._disk, reader.private)
            left = {name: at for name, at in known.items() if name not in self._ids}
            wanted.files[private_name(reader, purging.FILE)] = purging.encode(left)
        for name in FILES if reader.layout.info_file else ():
            wanted.files[f"{OVERVIEWS}/{name}"] = None
        return wanted

    def _unreadable(self, name: str, state: FileState) -> Iterable[tuple[str, int, int]]:
        """Stretches of a file that nobody can read as an entry, but that hold the text."""
        if not any(problem.code in ("damaged", "invalid") for problem in state.problems):
            return
        path = os.path.join(self._reader.folder, name)
        data = self._disk.read(path)
        entries = {entry.place[0] for entry in state.entries}
        for piece in self._reader.layout.codec_of(name).decode(data):
            if piece.start not in entries and self._traces.are_in(data[piece.start : piece.end]):
                yield path, piece.start, piece.end


def _cold_values(reader: SessionReader, segment: ColdSegment, ids: set[str]) -> list[Any]:
    """The fields of what lies in the cold segment; of what cannot be read, none."""
    layout, values = reader.layout, []
    for row, data in segment.entries():
        if row.id not in ids:
            continue
        for piece in layout.codec_of(row.file).decode(data):
            try:
                entry = layout.dialect.decode(piece.fields or {}, layout.kind_of(row.file), piece.state, row.file, 1, 0)
                values.append(entry.data)
            except InvalidRecord:
                continue
    return values


# -- what was made of it


def _take_away_what_was_made_of_it(disk: Disk, root: str, wanted: dict[str, list[str]]) -> list[str]:
    """The index, the notes of use, and reasons in the audit log, which may repeat what was said. What could not be done."""
    index = os.path.join(root, PRIVATE, INDEX)
    if isinstance(disk.system, RealSystem) and os.path.isdir(index):
        discard_all(index)
    log = os.path.join(root, PRIVATE, ACCESS_FILE)
    names = {f"{session}/{memory_id}".encode() for session, ids in wanted.items() for memory_id in ids}
    if disk.exists(log):
        lines = disk.read(log).splitlines(keepends=True)
        left = [line for line in lines if line.strip().partition(b" ")[2] not in names]
        if len(left) < len(lines):
            disk.replace(log, b"".join(left))
    audit = Audit(disk, os.path.join(root, PRIVATE))
    if not disk.exists(audit.path):
        return []
    done = [audit.forget_reasons(session, ids) for session, ids in wanted.items()]
    return [] if all(done) else ["the audit log is not as SMP wrote it, so the reasons given there were left in it"]


# -- is it gone?


def verify(store: FileStore, pieces: list[bytes], receipt: Receipt) -> None:
    """Look through everything below the store for the text, and say what is left."""
    receipt.pieces = len(pieces)
    try:
        _look_through(store, pieces, receipt)
    except (OSError, SMPError) as error:
        receipt.pieces = 0
        receipt.pending.append(f"the files could not be looked through ({error})")
    for process in open_elsewhere(store.root) if isinstance(store.disk.system, RealSystem) else ():
        receipt.pending.append(f"process {process} still has an old file open; it lets go when it next asks, or ends")


def _look_through(store: FileStore, pieces: list[bytes], receipt: Receipt) -> None:
    if not pieces:
        receipt.pending.append(
            "The text was too short or too common to be looked for; its entries were taken out and the files read back."
        )
    else:
        looked = look_for(store.disk, store.root, pieces)
        receipt.searched_files, receipt.searched_bytes = looked.files, looked.bytes
        memories = _files_of_memories(store)
        for path in looked.found:
            (receipt.elsewhere if memories(path) else receipt.left).append(_shown(store, path))
        receipt.elsewhere += _others(store, receipt, pieces)
        receipt.pending += [f"{_shown(store, path)} could not be looked through" for path in looked.unreadable]


def _files_of_memories(store: FileStore) -> Any:
    """Tells whether a file holds memories of sessions, or sessions that are put away: ours are known to be gone from it."""
    shelf = Shelf(store)
    own = {
        os.path.join(store.layout.folder(store.root, name), file)
        for name in store.session_ids()
        for file in store.layout.files(store.disk, store.layout.folder(store.root, name), name)
    }
    away = (shelf.archives + os.sep, shelf.trash + os.sep)
    return lambda path: path in own or path.startswith(away) or os.path.basename(path) == COLD


def _others(store: FileStore, receipt: Receipt, pieces: list[bytes]) -> list[str]:
    """The other memories of the same sessions that say the same."""
    found = []
    for session in dict.fromkeys(ref.rpartition("/")[0] for ref in receipt.ids):
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
    return os.path.relpath(path, store.root).replace(os.sep, "/")
