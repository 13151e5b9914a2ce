"""Where a test finds the archive, the summary and the deletion record of a session, in any layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.store import archive_names


def archive_of(root: str | Path, layout: str, session: str) -> Path:
    return Path(archive_names.pairs(str(root), layout, session)[0].archive)


def summary_of(root: str | Path, layout: str, session: str) -> Path:
    return Path(archive_names.pairs(str(root), layout, session)[0].summary)


def record_of(root: str | Path, layout: str, session: str) -> Path:
    return Path(root, "deleted", session, archive_names.FORMS[layout].record)


def fields_of(path: Path) -> dict[str, Any]:
    return archive_names.read(Disk(RealSystem()), str(path))


def archive_files(root: str | Path) -> list[Path]:
    """All files in the folders of archives."""
    folders = [Path(root, name) for name in archive_names.ARCHIVE_FOLDERS]
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
