"""Sessions in another layout than the store's.

They are not read; `smp convert` imports them. They exist after a git merge of a clone
that converted the store with one that added sessions in the old layout, and where programs of designs 000 and 003 wrote into
one `.bmad/sessions`. `unread_sessions` recognises them by name, and `{session}.jsonl` in the root by a metadata line or by a
first line in the form of design 000; it reads no memories.
"""

from __future__ import annotations

import os
import re

from smp_memory.errors import SessionCorrupt
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.reader import SessionReader
from smp_memory.model.clone_merge import in_order
from smp_memory.store.session_metadata import read_info

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.entry import Entry
    from smp_memory.model.session_info import SessionInfo
    from smp_memory.model.storage_reports import UnreadSession
    from smp_memory.store.file_store import FileStore


_METADATA = b'"type":"session"'
_MEMBERS = [re.compile(rb'[{,]\s*"' + name + rb'"\s*:') for name in (b"id", b"type", b"ts")]  # of an entry of 000
_FIRST_BYTES = 4096
_FOLDERS = {"jsonl": "sessions", "log": "sessions", "markdown": "active", "single": ""}


def unread_sessions(
    disk: Disk, root: str, current: Layout, session: str | None = None, opened: list[str] | None = None
) -> list[UnreadSession]:
    """Session files in other layouts; of one session, if it is named.

    With `opened`, a layout that shares the folder of the current one is searched in these sessions only, to save time.
    """
    found = []
    for name in NAMES:
        if name == current.name or not disk.exists(os.path.join(root, _FOLDERS[name])):
            continue  # before the layout's module is loaded
        layout = layout_named(name)
        is_shared = opened is not None and layout.sessions == current.sessions
        names = [session] if session is not None else opened if is_shared else _sessions(disk, root, layout)
        for each in names or ():
            folder = layout.folder(root, each)
            files = _files(disk, folder, layout, each)
            if files and folder == current.folder(root, each):
                files = [
                    file for file in files if not current.is_session_file(file, each) and file != current.info_file
                ]
            if files == [layout.info_file] and current.exists(disk, root, each):
                continue  # metadata of a session whose memories are all in the current layout
            if files:
                from smp_memory.model.storage_reports import UnreadSession  # rare; every command looks for such files

                found.append(UnreadSession(name, each, folder, files, os.path.join(folder, files[0])))
    return found


def _sessions(disk: Disk, root: str, layout: Layout) -> list[str]:
    if not layout.sessions and not any(name.endswith(".jsonl") for name in disk.names(root)):
        return []
    return layout.session_ids(disk, root)


def _files(disk: Disk, folder: str, layout: Layout, session: str) -> list[str]:
    files = layout.files(disk, folder, session)
    if layout.info_file:
        return files + [name for name in [layout.info_file] if disk.exists(os.path.join(folder, name))]
    return [file for file in files if _is_session(disk.read(os.path.join(folder, file), 0, _FIRST_BYTES))]


def _is_session(data: bytes) -> bool:
    first = data.partition(b"\n")[0]
    return _METADATA in data or all(member.search(first) for member in _MEMBERS)


def describe_unread(store: FileStore) -> str:
    """One line about unread sessions; empty if there are none. In a folder that two layouts share, only opened sessions are checked."""
    found = unread_sessions(store.disk, store.root, store.layout, opened=store.opened_session_ids())
    if not found:
        return ""
    from smp_memory.model.storage_reports import unread_advice

    more = f" {len(found) - 1} more: `smp validate --all`." if len(found) > 1 else ""
    return f"{found[0].text(store.layout.name)}{more} {unread_advice(store.layout.name)}"


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
