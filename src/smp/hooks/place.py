"""Which store belongs to this project? The one that `SMP_ROOT` names, else the nearest upwards, as the command line finds it.

Guarantees: looks at a few names in each folder upwards, loads nothing and reads nothing where there is no store. Nothing is
ever made: a project without a store stays as it is, and so does a `.bmad` folder without one. A store of somebody else's, above
a folder of ours, is not used unless `SMP_ROOT` names it.
"""

from __future__ import annotations

import os

from smp.ownership import config_bytes, is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_BELOW = (".bmad/memory", ".bmad/sessions", "memory")  # as `smp.config.DEFAULT_ROOTS` has them


def store_of(cwd: str, environ: Mapping[str, str]) -> str | None:
    """The root of the store for work in a folder; None if there is none."""
    named = environ.get("SMP_ROOT")
    if named:
        root = os.path.abspath(named)
        return root if os.path.exists(os.path.join(root, "config.json")) else None
    try:
        folder = os.path.realpath(cwd or os.getcwd())  # what is found is a link only below this folder
    except OSError:  # the folder is gone
        return None
    while True:
        roots = [os.path.join(folder, below) for below in _BELOW]
        roots = [root for root in roots if b'"layout"' in config_bytes(root)]  # a `memory/config.json` may be anybody's
        if len(roots) > 1:
            from smp.files.user_state import trusted_first

            roots = trusted_first(roots)
        if roots:
            return roots[0] if is_ours(roots[0], cwd) else None
        parent = os.path.dirname(folder)
        if parent == folder or os.path.isdir(os.path.join(folder, ".bmad")):
            return None
        folder = parent


def is_trusted(root: str, environ: Mapping[str, str]) -> bool:
    """Whether the user trusts the store; one that is named is trusted."""
    if environ.get("SMP_ROOT"):
        return True
    from smp.files.disk import Disk
    from smp.files.system import RealSystem
    from smp.files.user_state import state_of

    return state_of(root, Disk(RealSystem(root))).is_trusted(root)


def trust(root: str) -> None:
    """The user installs hooks for the project of this store, so the store is trusted."""
    from smp.files.disk import Disk
    from smp.files.system import RealSystem
    from smp.files.user_state import state_of

    state_of(root, Disk(RealSystem(root))).trust(root)


def project_of(root: str, cwd: str) -> str:
    """What the project is called: its folder's name."""
    for below in _BELOW:
        if root.endswith(os.sep + below.replace("/", os.sep)):
            return os.path.basename(root[: -len(below) - 1])
    return os.path.basename(os.path.abspath(cwd)) if cwd else ""
