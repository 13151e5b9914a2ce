"""Where a test finds the archive, the summary and the deletion record of a session, in any layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from smp.files.disk import Disk
from smp.files.system import RealSystem
from smp.store import away_places


def archive_of(root: str | Path, layout: str, session: str) -> Path:
    return Path(away_places.pairs(str(root), layout, session)[0].archive)


def summary_of(root: str | Path, layout: str, session: str) -> Path:
    return Path(away_places.pairs(str(root), layout, session)[0].summary)


def record_of(root: str | Path, layout: str, session: str) -> Path:
    return Path(root, "deleted", session, away_places.FORMS[layout].record)


def fields_of(path: Path) -> dict[str, Any]:
    return away_places.read(Disk(RealSystem()), str(path))


def archive_files(root: str | Path) -> list[Path]:
    """All files in the folders of archives."""
    folders = [Path(root, name) for name in away_places.ARCHIVE_FOLDERS]
    return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
