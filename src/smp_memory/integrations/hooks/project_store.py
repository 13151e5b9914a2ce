"""The store that hooks use for work in a folder, and whether the user trusts it.

Guarantees: the store is the one that Python, the command line and MCP find (`smp_memory.discovery`); where there is none, nothing
is loaded or read. Nothing is created: a project without a store stays as it is, and so does a folder that is not a store. A store
that belongs to another user, in a folder above ours, is not used unless `SMP_ROOT` names it.
"""

from __future__ import annotations

import os

from smp_memory.discovery import PLACES, discovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from smp_memory.files.user_state import UserState


def find_store(cwd: str, environ: Mapping[str, str]) -> str | None:
    """The root of the store for work in a folder; None if there is none."""
    try:
        located = discovery(cwd, environ)
    except OSError:  # the folder does not exist any more
        return None
    return located.root if located.is_ours else None


def is_trusted(root: str, environ: Mapping[str, str]) -> bool:
    """Whether the user trusts the store; one that `SMP_ROOT` names is trusted."""
    if environ.get("SMP_ROOT"):
        return True
    return _user_state(root).is_trusted(root)


def trust(root: str) -> None:
    """Trust the store, because the user installs hooks for its project."""
    _user_state(root).trust(root)


def _user_state(root: str) -> UserState:
    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem
    from smp_memory.files.user_state import open_user_state

    return open_user_state(root, Disk(RealSystem(root)))


def project_name(root: str, cwd: str) -> str:
    """The name of the project's folder."""
    for below in PLACES:
        if root.endswith(os.sep + below.replace("/", os.sep)):
            return os.path.basename(root[: -len(below) - 1])
    return os.path.basename(os.path.abspath(cwd)) if cwd else ""
