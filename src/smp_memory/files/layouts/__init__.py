"""Four ways to arrange the same memories in files, and sessions in another layout than the store's.

Each layout is imported only when a store uses it, or may have sessions in it. `unread_sessions` recognises sessions by the names of
their files, and `{session}.jsonl` in the root by a metadata line or by a first line in the form of design 000; it reads no memories.
"""

from __future__ import annotations

import os
import re

from smp_memory.errors import InvalidConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout
    from smp_memory.model.storage_reports import UnreadSession

NAMES = ("jsonl", "markdown", "single", "log")
JOURNAL = os.path.join(".smp", "journal.json")  # plan of a conversion to another layout

_METADATA = b'"type":"session"'
_MEMBERS = [rb'[{,]\s*"' + name + rb'"\s*:' for name in (b"id", b"type", b"ts")]  # of an entry of 000
_FIRST_BYTES = 4096
_FOLDERS = {"jsonl": "sessions", "log": "sessions", "markdown": "active", "single": ""}


def layout_named(name: str) -> Layout:
    if name == "markdown":
        from smp_memory.files.layouts.markdown import MarkdownLayout  # with the codecs of Markdown and YAML

        return MarkdownLayout()
    from smp_memory.files.layouts.layout import JsonlLayout, LogLayout, SingleLayout

    for layout in (JsonlLayout, LogLayout, SingleLayout):
        if layout.name == name:
            return layout()
    raise InvalidConfig(f"layout: {name!r} is not a layout. Use one of: {', '.join(NAMES)}.", field="layout")


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
    return _METADATA in data or all(re.search(member, first) for member in _MEMBERS)
