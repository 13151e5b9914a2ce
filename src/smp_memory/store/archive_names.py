"""Names and encoding of archives, their summaries and deletion records, per layout; the layout of files in them.

    layout      archive                          summary                        record in deleted/{id}/
    jsonl       archive/{id}.tar.gz              archive/{id}.manifest.json     deletion-record.json
    markdown    archived/{id}/archive.tar.gz     archived/{id}/summary.yaml     deletion-record.yaml
    others      archived/{id}.tar.gz             archived/{id}.json             deletion-record.json

The file extension decides between JSON and YAML. A store that was converted keeps its older archives where they are, so readers
try every form, and that of the store's own layout first.

A summary of another program without an archive, `archived/{id}/summary.yaml` of designs 002 and 003, is kept and listed as an archived
session (`foreign_summary`).

The layout of a session's files in the trash or in an archive is found by their names (`layout_of`). A deletion record or a summary states
it, too, but may be missing, damaged or edited: files that were read or moved in a wrong layout would be a session without memories.
"""

from __future__ import annotations

import json
import os
import time
from typing import NamedTuple

from smp_memory.errors import StorageCorrupt
from smp_memory.files.layouts import NAMES, layout_named
from smp_memory.files.layouts.layout import ARCHIVE_FOLDERS
from smp_memory.model import ids
from smp_memory.model.session_info import DELETED
from smp_memory.model.times import to_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import datetime
    from typing import Any

    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts.layout import Layout

MAX_BYTES = 16 << 20  # of a summary or a deletion record
KEPT = ".kept-"  # between the name of an archive that was kept beside its live session and the time
_YAML = ".yaml"
_UNSETTLED_NS = 1_000_000_000


class ArchiveNames(NamedTuple):
    """Path patterns of one layout. `{}` is the session id."""

    folder: str
    archive: str
    summary: str
    record: str


class ArchivePaths(NamedTuple):
    """The paths of an archive and of the summary beside it."""

    archive: str
    summary: str


_PLAIN = ArchiveNames("archived", "{}.tar.gz", "{}.json", "deletion-record.json")
FORMS = {
    "jsonl": ArchiveNames("archive", "{}.tar.gz", "{}.manifest.json", "deletion-record.json"),
    "markdown": ArchiveNames("archived", "{}/archive.tar.gz", "{}/summary.yaml", "deletion-record.yaml"),
    "single": _PLAIN,
    "log": _PLAIN,
}
RECORDS = tuple(sorted({form.record for form in FORMS.values()}))


def pairs(root: str, layout: str, session: str) -> list[ArchivePaths]:
    """Possible paths of a session's archive and summary; those of this layout first."""
    return [
        ArchivePaths(os.path.join(root, form.folder, *form.archive.format(session).split("/")),
                     os.path.join(root, form.folder, *form.summary.format(session).split("/")))
        for form in _own_first(layout)
    ]  # fmt: skip


def archived_names(disk: Disk, root: str) -> list[str]:
    """The sessions that have an archive, in any form."""
    found: set[str] = set()
    for form in _own_first(""):
        base = os.path.join(root, form.folder)
        ending = form.archive.removeprefix("{}")
        if ending.startswith("/"):
            found.update(name for name in disk.folders(base) if disk.exists(os.path.join(base, name, ending[1:])))
        else:
            found.update(name.removesuffix(ending) for name in disk.names(base) if name.endswith(ending))
    return sorted(name for name in found if ids.is_valid(name))


def folders_of_archives(disk: Disk, root: str) -> list[str]:
    """All folders that may hold archives."""
    bases = [os.path.join(root, name) for name in ARCHIVE_FOLDERS]
    return [*bases, *(os.path.join(base, name) for base in bases for name in disk.folders(base) if ids.is_valid(name))]


def _own_first(layout: str) -> list[ArchiveNames]:
    own = [FORMS[layout]] if layout in FORMS else []
    return list(dict.fromkeys([*own, *FORMS.values()]))


class ArchiveListing:
    """The archived sessions of a store; listed again only when a folder has changed."""

    def __init__(self, disk: Disk, root: str, sessions: str) -> None:
        """`sessions` is the name of the folder of live sessions."""
        self._disk, self._root, self._sessions = disk, root, sessions
        self._known: tuple[object, list[str], dict[str, str]] = (None, [], {})

    def read(self, live_ids: Callable[[], list[str]]) -> tuple[list[str], dict[str, str]]:
        """The sessions with an archive, and the summaries of others (`foreign_summaries`), without the live ones."""
        stats = [self._disk.stat(os.path.join(self._root, name)) for name in ARCHIVE_FOLDERS]
        if not any(stats):
            return [], {}
        stats += [self._disk.stat(os.path.join(self._root, name)) for name in (self._sessions, DELETED)]
        folders = [(each.st_mtime_ns, each.st_ino) if each is not None else None for each in stats]
        if self._known[0] == folders:
            return self._known[1:]
        live = set(live_ids())
        archives = [name for name in archived_names(self._disk, self._root) if name not in live]
        summaries = foreign_summaries(self._disk, self._root)
        listed = archives, {name: path for name, path in summaries.items() if name not in live}
        # a folder that changed just now may change again without a new time
        is_settled = max(each[0] for each in folders if each is not None) < time.time_ns() - _UNSETTLED_NS
        self._known = (folders if is_settled else None, *listed)
        return listed


# -- encoding


def encode(path: str, fields: dict[str, Any]) -> bytes:
    if path.endswith(_YAML):
        from smp_memory.files.yaml_text import emit_mapping

        return emit_mapping(fields).encode()
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()


def is_own_summary(fields: dict[str, Any]) -> bool:
    """Whether SMP wrote it. One of another program must be kept, because its content may exist nowhere else."""
    return "summary_version" in fields


def read(disk: Disk, path: str) -> dict[str, Any]:
    """The fields of a summary or a deletion record; empty if it is missing or cannot be read."""
    try:
        data = disk.read(path, 0, MAX_BYTES)
        if path.endswith(_YAML):
            from smp_memory.files.yaml_text import load_mapping

            return load_mapping(data)
        fields = json.loads(data)
    except (OSError, ValueError, RecursionError, StorageCorrupt):
        return {}
    return fields if isinstance(fields, dict) else {}


# -- the layout of files in the trash or in an archive


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


# -- of other programs


def foreign_summary(disk: Disk, root: str, session: str) -> str | None:
    """The summary of a session that another program archived without its memories; None if there is none."""
    pair = pairs(root, "markdown", session)[0]
    alone = disk.exists(pair.summary) and not disk.exists(pair.archive)
    return pair.summary if alone and not is_own_summary(read(disk, pair.summary)) else None


def foreign_summaries(disk: Disk, root: str) -> dict[str, str]:
    """All such summaries, by session."""
    folders = disk.folders(os.path.join(root, FORMS["markdown"].folder))
    found = ((name, foreign_summary(disk, root, name)) for name in sorted(folders) if ids.is_valid(name))
    return {name: path for name, path in found if path is not None}


# -- values of a summary or a deletion record, which anybody may have edited


def moment_of(value: Any) -> datetime | None:
    try:
        return to_moment(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def text_of(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def count_of(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0
