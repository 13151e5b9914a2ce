"""The layout of a session's files that are in the trash or in an archive.

It is found by the names of the files. A deletion record or a summary states it, too, but may be missing, damaged or edited: files
that were read or moved in a wrong layout would be a session without memories.
"""

from __future__ import annotations

import os

from smp_memory.files.layouts import NAMES, layout_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout

_HEADS = {"jsonl": "manifest.json", "markdown": "metadata.yaml", "log": "metadata.json"}  # `single`: {session}.jsonl


def layout_of(names: Collection[str], session: str, stated: object, default: Layout) -> Layout | None:
    """The layout of files with these names; None if they are not those of a session.

    If they could be of several layouts, the stated one is chosen, else the default.
    """
    found = [name for name in NAMES if _HEADS.get(name, f"{session}.jsonl") in names]
    found = found or [
        name for name in NAMES if any(layout_named(name).is_session_file(each, session) for each in names)
    ]
    if not found:
        return None
    likely = [name for name in (stated, default.name) if name in found]
    return layout_named((likely or found)[0])


def layout_in(disk: Disk, folder: str, session: str, stated: object, default: Layout) -> Layout | None:
    """The same for the files in a folder."""
    top = disk.names(folder)
    if any(head in top for head in (*_HEADS.values(), f"{session}.jsonl")):  # cheaper than a listing of all folders
        return layout_of(top, session, stated, default)
    return layout_of(list(names_below(disk, folder)), session, stated, default) if top else None


def names_below(disk: Disk, folder: str, prefix: str = "") -> Iterator[str]:
    """The relative names of all files below a folder."""
    for name in disk.names(os.path.join(folder, prefix)):
        inside = prefix + name
        if disk.is_folder(os.path.join(folder, inside)):
            yield from names_below(disk, folder, f"{inside}/")
        else:
            yield inside
