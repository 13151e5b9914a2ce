"""Find the store of a folder: one discovery for Python, the command line, MCP and hooks.

The nearest store upwards is found, as git finds `.git`, in `.bmad/memory`, `.bmad/sessions` or `memory`. Nothing is created or
changed, and another user's store is not used unless it is named. Only `os` and `smp.ownership` are loaded unless there is something
to read, because hooks call this at every prompt.
"""

from __future__ import annotations

import os

from smp.ownership import config_bytes, is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PLACES = {".bmad/memory": ("jsonl",), ".bmad/sessions": ("markdown", "single"), "memory": ("log",)}
_LAYOUTS = ("jsonl", "markdown", "single", "log")


class Discovery:
    """What was found: the root of a store, whether it is ours, and the folder at which the search ended."""

    __slots__ = ("folder", "is_ours", "root")

    def __init__(self, root: str | None, is_ours: bool, folder: str) -> None:
        self.root = root  # None: there is no store
        self.is_ours = is_ours  # it belongs to this user, or to the owner of the folder in which the search began
        self.folder = folder  # without a store: the nearest folder with a `.bmad` in it, else the topmost folder


def discovery(
    start: str | None = None, environ: Mapping[str, str] | None = None, *, layout: str | None = None
) -> Discovery:
    """Find the store for work in a folder. `SMP_ROOT` in `environ` names it; with `layout` only the places of that layout count."""
    named = environ.get("SMP_ROOT") if environ is not None else None
    if named:
        root = os.path.abspath(named)
        return Discovery(root if is_store(root) else None, True, root)
    begun = folder = os.path.realpath(start or os.getcwd())  # so that what is found is a link only below this folder
    while True:
        roots = [os.path.join(folder, place) for place in _places(layout)]
        roots = [root for root in roots if is_store(root)]
        if len(roots) > 1:
            from smp.files.user_state import trusted_first

            roots = trusted_first(roots)
        if roots:
            return Discovery(roots[0], is_ours(roots[0], begun), folder)
        parent = os.path.dirname(folder)
        if parent == folder or os.path.isdir(os.path.join(folder, ".bmad")):
            return Discovery(None, False, folder)
        folder = parent


def _places(layout: str | None) -> list[str]:
    return [place for place, layouts in PLACES.items() if layout not in _LAYOUTS or layout in layouts]


def find_root(layout_name: str | None, start: str | None = None) -> str:
    """The root of the nearest store, or where one may be made: in the nearest `.bmad`. Another user's store must be named."""
    from smp.errors import StoreNotFound

    found = discovery(start, layout=layout_name)
    if found.root is not None:
        if found.is_ours:
            return found.root
        raise StoreNotFound(
            f"The nearest store, {found.root}, belongs to another user. "
            "If you mean it, say so: --root, SMP_ROOT, smp.open(folder).",
            path=found.root,
        )
    if os.path.isdir(os.path.join(found.folder, ".bmad")):
        return not_through_a_link(os.path.join(found.folder, _places(layout_name)[0]))
    raise StoreNotFound(
        "No .bmad folder here or above. Make a store with `smp init`, or say where it is (--root, SMP_ROOT, smp.open(folder))."
    )


def not_through_a_link(root: str) -> str:
    """Where a store may be made: a link there may have come with the project, and leads anywhere."""
    folder = os.path.dirname(root)
    for path in (folder, root) if os.path.basename(folder) == ".bmad" else (root,):
        if os.path.islink(path) and not is_store(root):
            from smp.errors import StorageCorrupt

            raise StorageCorrupt(
                f"{path} is a link, which may have come with the project and may lead anywhere. Name the folder if you mean it: --root.",
                path=path,
            )
    return root


def is_store(root: str) -> bool:
    """Whether a folder says that it is a store; a `memory/config.json` may be anybody's."""
    data = config_bytes(root)
    if b'"layout"' not in data:
        return False
    import json

    try:
        stored = json.loads(data)
    except (ValueError, RecursionError):
        return os.path.exists(os.path.join(root, ".smp", "id"))  # a store of ours whose settings are damaged
    inner = stored.get("memory_config") if isinstance(stored, dict) else None
    said = [part["layout"] for part in (stored, inner) if isinstance(part, dict) and "layout" in part]
    return bool(said) and said[0] in _LAYOUTS
