"""What is below a store and not read: sessions in another layout than the store's, and the quarantine of its sessions.

Sessions in another layout (`files.layouts.unread_sessions`) exist after a git merge of a clone that converted the store with one that
added sessions in the old layout, and where programs of designs 000 and 003 wrote into one `.bmad/sessions`; `smp convert` imports them.

A torn end of a file, an entry that `repair` could not read, and entries that another program removed from a file are in the
folder `quarantine` of their session, in the format of the layout that they were written in. `restore_quarantined` appends
those of one file to the session by the usual write path, under its lock, and removes the file when they are stored.

Guarantees: a file in quarantine is restored completely or not at all. It is refused, with the reason, if its bytes cannot be read as
entries, if a memory in it is in the session already, if its id belongs to another memory, or if a change in it has no memory.
"""

from __future__ import annotations

import os
import re

from smp_memory.errors import Conflict, InvalidRecord, MemoryNotFound, SessionCorrupt
from smp_memory.files.file_state import FileState
from smp_memory.files.journal import MISSING
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import QUARANTINE
from smp_memory.files.reader import SessionReader
from smp_memory.model import ids
from smp_memory.model.clone_merge import in_order
from smp_memory.model.entry import PUT
from smp_memory.model.ids import new_uid
from smp_memory.model.storage_reports import QuarantinedEntry, unread_advice
from smp_memory.model.types import KINDS, PREFIXES
from smp_memory.store.session_metadata import read_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp_memory.errors import SMPError
    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry
    from smp_memory.model.history import IdAllocator
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.model.storage_reports import UnreadSession
    from smp_memory.store.file_store import FileStore


def describe_unread(found: list[UnreadSession], current: str) -> str:
    """One line about sessions that are not read, because the store has another layout."""
    more = f" {len(found) - 1} more: `smp validate --all`." if len(found) > 1 else ""
    return f"{found[0].text(current)}{more} {unread_advice(current)}"


# -- importing


class ForeignSession:
    """The entries and metadata of a session in other layouts."""

    def __init__(self, disk: Disk, root: str, found: list[UnreadSession]) -> None:
        self.entries: list[Entry] = []
        self.infos: list[SessionInfo] = []
        for each in found:
            layout = layout_named(each.layout)
            reader = SessionReader(disk, layout, root, each.session)
            reader.catch_up()
            broken = next((problem for problem in reader.problems() if problem.severity == "error"), None)
            if broken is not None:
                raise SessionCorrupt(
                    f"{broken}. Correct it first; nothing was imported.", session=each.session, path=broken.path
                )
            self.entries += in_order(entry for state in reader.states.values() for entry in state.entries)
            if not layout.info_file or layout.info_file in each.files:
                self.infos.append(read_info(disk, layout, reader))

    def new(self, known: list[Entry]) -> list[Entry]:
        """The entries that the session does not have yet, renumbered to follow those that it has."""
        keys = {entry.key for entry in known}
        last = max((entry.seq for entry in known), default=0)
        added = []
        for entry in self.entries:
            if entry.key not in keys:
                keys.add(entry.key)
                entry.tx = ""  # all transactions are complete here
                entry.seq = last = max(entry.seq, last + 1)
                added.append(entry)
        return added


def append_entries(old: dict[str, bytes], entries: list[Entry], layout: Layout, session: str) -> dict[str, bytes]:
    """The files of a session with entries appended."""
    parts = {name: [data] for name, data in old.items()}
    for entry in entries:
        name, data = layout.encode(entry, session)
        if name not in parts:
            parts[name] = [layout.codec_of(name).header(layout.title_of(name, session))]
        elif parts[name][-1] and not parts[name][-1].endswith(b"\n"):
            parts[name].append(b"\n")
        parts[name].append(data)
    return {name: b"".join(part) for name, part in parts.items()}


_NAME = re.compile(
    r"(?P<file>.+?\.(?:jsonl?|yaml|md))\.(?P<why>repair|missing-after-change|\d+)\.(?P<time>\d{8}T\d{6}Z)"
)
_WHY = {"repair": "could not be read", MISSING.strip("."): "removed from the file by another program"}


def list_quarantined(store: FileStore) -> list[QuarantinedEntry]:
    """All files in quarantine, session by session."""
    found = []
    for name in store.session_ids():
        folder = os.path.join(store.session(name).reader.private, QUARANTINE)
        found += [_entry(store, name, os.path.join(folder, each)) for each in sorted(store.disk.names(folder))]
    return found


def _entry(store: FileStore, session: str, path: str) -> QuarantinedEntry:
    name, status = os.path.basename(path), store.disk.stat(path)
    found = _NAME.match(name)
    why = found["why"] if found else ""
    reason = _WHY.get(why, "an unfinished write" if why.isdigit() else "of a plan that was not carried out")
    size = status.st_size if status is not None else 0
    return QuarantinedEntry(session, name, path, reason, found["time"] if found else "", size)


def restore_quarantined(store: FileStore, item: QuarantinedEntry, now: str) -> list[str]:
    """Append the entries of a quarantined file to their session; returns the ids of their memories."""
    batch = _RestoreBatch(store, item, now)
    store.session(item.session).commit(batch)
    if batch.error is not None:
        raise batch.error
    store.sync()
    store.disk.remove(item.path)
    return batch.ids


def entries_in(store: FileStore, item: QuarantinedEntry) -> list[Entry]:
    """The entries in a quarantined file. Raises InvalidRecord if it holds anything else."""
    reader, name = _reader(store, item)
    state, data = FileState(), store.disk.read(item.path)
    reader.decode(name, data if data.endswith(b"\n") else data + b"\n", state)
    first = next((each for each in state.problems if each.severity == "error"), None)
    if first is not None:
        raise InvalidRecord(
            f"{item.path}:{first.line}: {first.message.rstrip('.')}. Correct that file, then put it back.",
            path=item.path,
        )
    if not state.entries or state.end < len(data):
        raise InvalidRecord(
            f"{item.path}: an unfinished entry. Complete it in that file, then put it back.", path=item.path
        )
    return state.entries


def _reader(store: FileStore, item: QuarantinedEntry) -> tuple[SessionReader, str]:
    """A reader of the layout that the file was written in, and the name of the file that it came from."""
    found = _NAME.match(item.name)
    flat = found["file"] if found else ""
    for layout in (store.layout, *(layout_named(name) for name in NAMES if name != store.layout.name)):
        for name in (flat, flat.replace("_", "/", 1)):
            if name and layout.is_session_file(name, item.session):
                return SessionReader(store.disk, layout, store.root, item.session), name
    raise InvalidRecord(f"{item.path}: not a part of a session's file; inspect it by hand.", path=item.path)


class _RestoreBatch:
    """A batch of existing entries, resolved under the session's lock."""

    atomic = needs_histories = True
    is_maintenance = False
    operation_name = "restoring from quarantine"

    def __init__(self, store: FileStore, item: QuarantinedEntry, now: str) -> None:
        self._store = store
        self.now = now
        self.read_version = -1
        self.error: SMPError | None = None
        self.ids: list[str] = []
        self._item = item

    def check_room(self, admit: Callable[[int, int], None], used_bytes: int, new_bytes: int) -> None:
        admit(used_bytes, new_bytes)

    def resolve(self, allocator: IdAllocator) -> list[Entry]:
        entries = entries_in(self._store, self._item)
        histories = allocator.session_history.histories if allocator.session_history is not None else {}
        numbers = {entry.seq for history in histories.values() for entry in history.entries}
        uids = {history.first.uid: name for name, history in histories.items() if history.first.uid}
        new = {entry.id for entry in entries if entry.op == PUT}
        for entry in entries:
            self._complete(entry, allocator)
            if entry.op == PUT:
                self._check_put(entry, histories, uids)
            elif entry.id not in histories and entry.id not in new:
                raise MemoryNotFound(
                    f"{self._item.name}: a change of {entry.id}, which is not in the session.", id=entry.id
                )
            elif any(
                entry.key == other.key and entry.at == other.at
                for other in getattr(histories.get(entry.id), "entries", ())
            ):
                raise Conflict(f"{self._item.name}: this change of {entry.id} is in the session already.", id=entry.id)
            if entry.state != "signed" or entry.seq in numbers or not entry.seq:
                entry.seq = allocator.next_seq()
            entry.tx = ""
        self.ids = list(dict.fromkeys(entry.id for entry in entries))
        return entries

    def _complete(self, entry: Entry, allocator: IdAllocator) -> None:
        """Give an id and a time to an entry that was typed without them."""
        if "id" in entry.lacks:
            prefix = KINDS[entry.type].prefix
            entry.id = ids.numbered(prefix, allocator.next_number(prefix))
        if "time" in entry.lacks:
            entry.at = self.now
        entry.lacks = ()
        entry.schema = entry.schema or 1
        prefix, number = ids.parts_of(entry.id)
        if prefix in PREFIXES:
            allocator.number_used(prefix, number)

    def _check_put(self, entry: Entry, histories: dict[str, Any], uids: dict[str, str]) -> None:
        if entry.uid and entry.uid in uids:
            raise Conflict(f"{self._item.name}: {uids[entry.uid]} is in the session already.", id=uids[entry.uid])
        if entry.id in histories:
            raise Conflict(
                f"{self._item.name}: the session has a memory {entry.id} already. Change the id in {self._item.path}, or "
                "remove it there: then it gets a new one.",
                id=entry.id,
            )
        if not entry.uid and not KINDS[entry.type].is_named_by_agent:
            entry.uid = new_uid()
