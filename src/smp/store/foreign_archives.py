"""Archives and deletion records in the forms of the designs. SMP does not unpack them; it says where they are and what to do.

archived/{id}/summary.yaml, archive.tar.gz      002, 003
archive/{id}.tar.gz, {id}.manifest.json         001
deleted/{id}/deletion-record.yaml               002, 003
"""

from __future__ import annotations

import os
from typing import NamedTuple

from smp.errors import SMPError
from smp.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.files.disk import Disk
    from smp.files.layouts.layout import Layout

_PACKED = ".tar.gz"


class Foreign(NamedTuple):
    session: str
    path: str
    message: str
    advice: str


def foreign_archive(disk: Disk, root: str, session: str) -> str | None:
    """Where the archive of a session lies that another program made; None if there is none."""
    for path in (
        os.path.join(root, "archived", session, "archive.tar.gz"),
        os.path.join(root, "archived", session, "summary.yaml"),
        os.path.join(root, "archive", session + _PACKED),
    ):
        if disk.exists(path):
            return path
    return None


def foreign_files(disk: Disk, root: str, layout: Layout) -> list[Foreign]:
    """All archives and deletion records of other programs."""
    return [*_archives(disk, root, layout), *_deletions(disk, root)]


def how_to_restore(path: str, root: str, layout: Layout, session: str) -> str:
    if path.endswith(_PACKED):
        return f"Unpack it where sessions are: tar -xzf {path} -C {os.path.dirname(layout.folder(root, session))}"
    return "It has only a summary; the memories themselves are not there."


def _archives(disk: Disk, root: str, layout: Layout) -> Iterator[Foreign]:
    names = disk.folders(os.path.join(root, "archived"))
    packed = disk.names(os.path.join(root, "archive"))
    names += [name.removesuffix(_PACKED) for name in packed if name.endswith(_PACKED)]
    for session in names:
        path = foreign_archive(disk, root, session) if ids.is_valid(session) else None
        if path is not None and not layout.exists(disk, root, session):
            message = f"Session {session} is archived in the form of another program, which SMP does not read."
            yield Foreign(session, path, message, how_to_restore(path, root, layout, session))


def _deletions(disk: Disk, root: str) -> Iterator[Foreign]:
    for session in disk.folders(os.path.join(root, "deleted")):
        path = os.path.join(root, "deleted", session, "deletion-record.yaml")
        if ids.is_valid(session) and disk.exists(path):
            named = ", ".join(_deleted_ids(disk, path)) or "nothing that can be read"
            message = f"Another program deleted memories of {session}: {named}. The record is kept and has no effect."
            yield Foreign(
                session, path, message, f"smp delete --session {session} ID hides one that is still in the session."
            )


def _deleted_ids(disk: Disk, path: str) -> list[str]:
    from smp.files.yaml_list import load_mapping

    try:
        said = load_mapping(disk.read(path)).get("deletion")
    except (OSError, SMPError, ValueError):
        return []
    items = said.get("deleted_items") if isinstance(said, dict) else None
    return [str(item.get("id")) for item in items or () if isinstance(item, dict) and item.get("id")]
