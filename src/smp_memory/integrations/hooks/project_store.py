"""The store that hooks use for work in a folder, and whether the user trusts it.

Guarantees: the store is the one that Python, the command line and MCP find (`smp_memory.discovery`); nothing is loaded and nothing is read where
there is none. Nothing is ever made: a project without a store stays as it is, and so does a folder that is no store. A store of
somebody else's, above a folder of ours, is not used unless `SMP_ROOT` names it.
"""

from __future__ import annotations

import os

from smp_memory.discovery import PLACES, discovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def store_of(cwd: str, environ: Mapping[str, str]) -> str | None:
    """The root of the store for work in a folder; None if there is none."""
    try:
        found = discovery(cwd, environ)
    except OSError:  # the folder is gone
        return None
    return found.root if found.is_ours else None


def is_trusted(root: str, environ: Mapping[str, str]) -> bool:
    """Whether the user trusts the store; one that is named is trusted."""
    if environ.get("SMP_ROOT"):
        return True
    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem
    from smp_memory.files.user_state import open_user_state

    return open_user_state(root, Disk(RealSystem(root))).is_trusted(root)


def trust(root: str) -> None:
    """The user installs hooks for the project of this store, so the store is trusted."""
    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem
    from smp_memory.files.user_state import open_user_state

    open_user_state(root, Disk(RealSystem(root))).trust(root)


def project_of(root: str, cwd: str) -> str:
    """What the project is called: its folder's name."""
    for below in PLACES:
        if root.endswith(os.sep + below.replace("/", os.sep)):
            return os.path.basename(root[: -len(below) - 1])
    return os.path.basename(os.path.abspath(cwd)) if cwd else ""
