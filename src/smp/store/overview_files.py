"""Where can a person read what a session is about? In `indexes/` of its folder, which the layout `markdown` keeps.

    indexes/topics.yaml  timeline.yaml  agents.yaml        as design 003 §2.1 and §2.3 have them

The files are made from the memories and can be thrown away; SMP never reads them back. They hold no text of memories,
only names, times and ids.
Guarantees: a file is written only when its text changed, and whole. Nothing raises when the disk is full or may only be
read: then the files stay as they were. No lock is taken, and no write of a memory waits for this.
Non-guarantees: they are as old as the last call. When two processes write one at the same moment, one of them may give
up.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp.errors import StorageCorrupt, StorageError
from smp.files.yaml_text import mapping_text
from smp.query.agents import agents_of
from smp.query.seen import all_seen
from smp.query.timeline import timeline_of
from smp.query.topics import topics_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    from smp.files.disk import Disk
    from smp.model.record import Record

    class Overview(Protocol):
        def to_dict(self) -> dict[str, Any]: ...


FOLDER = "indexes"
FILES = ("topics.yaml", "timeline.yaml", "agents.yaml")
NOTICE = "# Made by SMP from the memories of this session. Edits here are not read and will be overwritten.\n"


def to_yaml(value: Overview | Mapping[str, Any]) -> str:
    """An overview, or any mapping of JSON values, as YAML. The same value gives the same text."""
    fields = value.to_dict() if hasattr(value, "to_dict") else dict(value)
    return mapping_text(fields) or "{}\n"


def write_overviews(
    disk: Disk, folder: str, records: Iterable[Record], users: Mapping[str, str] | None = None
) -> list[str]:
    """Renew the overviews of the session in this folder; gives the names of those that changed."""
    seen = all_seen(records, across_sessions=False, users=users)
    overviews: tuple[Overview, ...] = (topics_of(seen), timeline_of(seen), agents_of(seen))
    changed: list[str] = []
    try:
        if disk.is_folder(folder):  # it may have been taken away or converted meanwhile
            disk.make_folder(os.path.join(folder, FOLDER))
            for name, overview in zip(FILES, overviews, strict=True):
                if _renew(disk, os.path.join(folder, FOLDER, name), (NOTICE + to_yaml(overview)).encode()):
                    changed.append(name)
    except (OSError, StorageError, StorageCorrupt):
        pass  # they are only a convenience
    return changed


def _renew(disk: Disk, path: str, data: bytes) -> bool:
    if _content(disk, path) == data:
        return False
    disk.replace(path, data)
    return True


def _content(disk: Disk, path: str) -> bytes | None:
    try:
        return disk.read(path)
    except (OSError, StorageError, StorageCorrupt):
        return None
