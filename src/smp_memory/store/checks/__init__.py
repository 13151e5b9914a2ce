"""Health checks of a store in files, and their fixes (`smp doctor`). The checks that concern every backend are in `smp_memory.health`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smp_memory.store.checks import files, index, storage
from smp_memory.store.checks.examination import FileExamination

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.files.system import System
    from smp_memory.model.health import Check

CHECKS: tuple[type[Check], ...] = (
    files.ConfigurationCheck,
    files.FormatCheck,
    files.OtherLayoutsCheck,
    files.UnreadFilesCheck,
    files.ArchivesCheck,
    files.SharedFilesCheck,
    storage.LeftoversCheck,
    storage.AccessRightsCheck,
    index.IndexCheck,
    files.LocksCheck,
)
FIXES = {"permissions": storage.restrict_permissions, "recovery": storage.recover, "index": index.rebuild_index}


def examine_files(
    system: System,
    root: str,
    now: datetime,
    *,
    environ: Mapping[str, str],
    arguments: Mapping[str, Any] | None = None,
    quick: bool = False,
) -> FileExamination:
    """The store in a folder under examination, whatever state it is in."""
    examination = FileExamination(system, root, now, environ=environ, arguments=arguments, quick=quick)
    examination.checks, examination.fixes = CHECKS, dict(FIXES)
    return examination
