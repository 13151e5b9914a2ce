"""Names of archives, their summaries and deletion records, per layout; and how a summary or a record is written.

    layout      archive                          summary                        record in deleted/{id}/
    jsonl       archive/{id}.tar.gz              archive/{id}.manifest.json     deletion-record.json
    markdown    archived/{id}/archive.tar.gz     archived/{id}/summary.yaml     deletion-record.yaml
    others      archived/{id}.tar.gz             archived/{id}.json             deletion-record.json

The name's ending decides between JSON and YAML. A store that was converted keeps its older archives where they are, so readers look
for every form, and for that of the store's own layout first.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from smp.errors import StorageCorrupt
from smp.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp.files.disk import Disk

LARGEST_BYTES = 16 << 20  # of a summary or a deletion record
_YAML = ".yaml"


class Form(NamedTuple):
    """The names in one layout. `{}` is the session."""

    folder: str
    archive: str
    summary: str
    record: str


class Pair(NamedTuple):
    """The paths of an archive and of the summary beside it."""

    archive: str
    summary: str


_PLAIN = Form("archived", "{}.tar.gz", "{}.json", "deletion-record.json")
FORMS = {
    "jsonl": Form("archive", "{}.tar.gz", "{}.manifest.json", "deletion-record.json"),
    "markdown": Form("archived", "{}/archive.tar.gz", "{}/summary.yaml", "deletion-record.yaml"),
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


def _own_first(layout: str) -> list[Form]:
    own = [FORMS[layout]] if layout in FORMS else []
    return list(dict.fromkeys([*own, *FORMS.values()]))


# -- their text


def encode(path: str, fields: dict[str, Any]) -> bytes:
    if path.endswith(_YAML):
        from smp.files.yaml_text import mapping_text

        return mapping_text(fields).encode()
    return (json.dumps(fields, ensure_ascii=False, indent=2) + "\n").encode()


def is_own_summary(said: dict[str, Any]) -> bool:
    """Whether SMP wrote it; what another program wrote may be nowhere else."""
    return "summary_version" in said


def read(disk: Disk, path: str) -> dict[str, Any]:
    """The fields of a summary or a record; empty if it is missing or cannot be read, because the session itself counts."""
    try:
        data = disk.read(path, 0, LARGEST_BYTES)
        if path.endswith(_YAML):
            from smp.files.yaml_list import load_mapping

            return load_mapping(data)
        said = json.loads(data)
    except (OSError, ValueError, RecursionError, StorageCorrupt):
        return {}
    return said if isinstance(said, dict) else {}
