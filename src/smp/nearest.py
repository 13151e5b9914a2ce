"""Which store is meant when none is named? The nearest one upwards, as git finds `.git`; never somebody else's."""

from __future__ import annotations

import json
import os

from smp.config import DEFAULT_ROOTS, with_facts_outside
from smp.errors import StorageCorrupt, StoreNotFound
from smp.files.layouts import NAMES
from smp.files.user_state import trusted_first
from smp.ownership import config_bytes, is_ours


def find_root(layout_name: str | None, start: str | None = None) -> str:
    """The store in the nearest `.bmad/` upwards from a folder, as git finds `.git`. Somebody else's must be named."""
    begun = folder = os.path.realpath(start or os.getcwd())  # so that what is found is a link only below this folder
    wanted = [layout_name] if layout_name in NAMES else list(NAMES)
    while True:
        roots = list(dict.fromkeys(os.path.join(folder, DEFAULT_ROOTS[name]) for name in wanted))
        for root in trusted_first([root for root in roots if is_store(root)]):
            if is_ours(root, begun):
                return root
            raise StoreNotFound(
                f"The nearest store, {root}, belongs to another user. "
                "If you mean it, say so: --root, SMP_ROOT, smp.open(folder).",
                path=root,
            )
        if os.path.isdir(os.path.join(folder, ".bmad")):
            return not_through_a_link(roots[0])
        parent = os.path.dirname(folder)
        if parent == folder:
            raise StoreNotFound(
                "No .bmad folder here or above. Make a store with `smp init`, or say where it is (--root, SMP_ROOT, smp.open(folder))."
            )
        folder = parent


def not_through_a_link(root: str) -> str:
    """Where a store may be made: a link there may have come with the project, and leads anywhere."""
    folder = os.path.dirname(root)
    for path in (folder, root) if os.path.basename(folder) == ".bmad" else (root,):
        if os.path.islink(path) and not is_store(root):
            raise StorageCorrupt(
                f"{path} is a link, which may have come with the project and may lead anywhere. Name the folder if you mean it: --root.",
                path=path,
            )
    return root


def is_store(root: str) -> bool:
    """Whether a folder says that it is a store; a `memory/config.json` may be anybody's."""
    try:
        stored = json.loads(config_bytes(root))
    except (ValueError, RecursionError):
        return False
    return isinstance(stored, dict) and with_facts_outside(stored).get("layout") in NAMES
