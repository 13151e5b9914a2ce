"""Names of archives, their summaries and deletion records, per layout; and how a summary or a record is written.

    layout      archive                          summary                        record in deleted/{id}/
    jsonl       archive/{id}.tar.gz              archive/{id}.manifest.json     deletion-record.json
    markdown    archived/{id}/archive.tar.gz     archived/{id}/summary.yaml     deletion-record.yaml
    others      archived/{id}.tar.gz             archived/{id}.json             deletion-record.json

The name's ending decides between JSON and YAML. A store that was converted keeps its older archives where they are, so readers look
for every form, and for that of the store's own layout first.

Summaries and deletion records of other programs that stand alone: SMP keeps them, they have no effect, and `doctor` names them.

archived/{id}/summary.yaml without an archive     002, 003
deleted/{id}/deletion-record.yaml                 002, 003, unless it is that of a whole session (`Shelf.packed_in`)
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from smp_memory.errors import StorageCorrupt
from smp_memory.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.files.disk import Disk


LARGEST_BYTES = 16 << 20  # of a summary or a deletion record
KEPT = ".kept-"  # between the name of an archive that was kept beside its session and the time
_YAML = ".yaml"


class ArchiveNames(NamedTuple):
    """The names in one layout. `{}` is the session."""

    folder: str
    archive: str
    summary: str
    record: str


class Pair(NamedTuple):
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
ARCHIVE_FOLDERS = tuple(sorted({form.folder for form in FORMS.values()}))
RECORDS = tuple(sorted({form.record for form in FORMS.values()}))


def pairs(root: str, layout: str, session: str) -> list[Pair]:
    """Where the archive of a session may lie; first where this layout puts it."""
    return [
        Pair(os.path.join(root, form.folder, *form.archive.format(session).split("/")),
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
    """All folders that archives may lie in."""
    bases = [os.path.join(root, name) for name in ARCHIVE_FOLDERS]
    return [*bases, *(os.path.join(base, name) for base in bases for name in disk.folders(base) if ids.is_valid(name))]


def _own_first(layout: str) -> list[ArchiveNames]:
    own = [FORMS[layout]] if layout in FORMS else []
    return list(dict.fromkeys([*own, *FORMS.values()]))


# -- their text


def encode(path: str, fields: dict[str, Any]) -> bytes:
    if path.endswith(_YAML):
        from smp_memory.files.yaml_text import emit_mapping

        return emit_mapping(fields).encode()
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()


def is_own_summary(said: dict[str, Any]) -> bool:
    """Whether SMP wrote it; what another program wrote may be nowhere else."""
    return "summary_version" in said


def read(disk: Disk, path: str) -> dict[str, Any]:
    """The fields of a summary or a record; empty if it is missing or cannot be read, because the session itself counts."""
    try:
        data = disk.read(path, 0, LARGEST_BYTES)
        if path.endswith(_YAML):
            from smp_memory.files.yaml_list import load_mapping

            return load_mapping(data)
        said = json.loads(data)
    except (OSError, ValueError, RecursionError, StorageCorrupt):
        return {}
    return said if isinstance(said, dict) else {}


_RECORD = "deletion-record.yaml"


class Foreign(NamedTuple):
    session: str
    path: str
    message: str
    advice: str


def foreign_summary(disk: Disk, root: str, session: str) -> str | None:
    """The summary of a session that another program archived without its memories; None if there is none."""
    pair = pairs(root, "markdown", session)[0]
    alone = disk.exists(pair.summary) and not disk.exists(pair.archive)
    return pair.summary if alone and not is_own_summary(read(disk, pair.summary)) else None


def foreign_files(disk: Disk, root: str) -> list[Foreign]:
    """All summaries and deletion records of other programs that stand alone."""
    return [*_summaries(disk, root), *_deletions(disk, root)]


def _summaries(disk: Disk, root: str) -> Iterator[Foreign]:
    for session in disk.folders(os.path.join(root, FORMS["markdown"].folder)):
        path = foreign_summary(disk, root, session) if ids.is_valid(session) else None
        if path is not None:
            message = (
                f"Another program archived {session} and left only a summary; the memories themselves are not there."
            )
            yield Foreign(session, path, message, "Nothing needs to be done; the summary is kept.")


def _deletions(disk: Disk, root: str) -> Iterator[Foreign]:
    for session in disk.folders(os.path.join(root, "deleted")):
        path = os.path.join(root, "deleted", session, _RECORD)
        if not ids.is_valid(session) or not disk.exists(path):
            continue
        said = read(disk, path).get("deletion")
        items = said.get("deleted_items") if isinstance(said, dict) else None
        if isinstance(said, dict) and ("state" in said or not items):
            continue  # of a whole session
        found = [str(item["id"]) for item in items or () if isinstance(item, dict) and item.get("id")]
        named = ", ".join(found) or "nothing that can be read"
        message = f"Another program deleted memories of {session}: {named}. The record is kept and has no effect."
        yield Foreign(
            session, path, message, f"smp delete --session {session} ID hides one that is still in the session."
        )
