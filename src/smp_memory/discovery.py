"""Find the store of a folder, and the name of its project: one discovery for Python, the command line, MCP and hooks.

The nearest store is searched upwards, as git searches `.git`, in `.bmad/memory`, `.bmad/sessions` or `memory`. A store is a folder whose
`config.json` names a layout or has the form of a design's configuration, or one with sessions in the form of the design that has
its place there. Nothing is created or changed, and no link is followed below the folder that is examined.
The name of a project is that of its git repository's folder, which all work trees of the repository share (`project_name`). git is not run.
Only `os` and `smp_memory.files.ownership` are loaded unless there is something to read, because hooks call this at every prompt.
`in_nearest_store` opens a session by its id alone, for `SessionMemory("review")`; it creates the store if there is none:
that of design 000, `.bmad/sessions` with the layout `single`.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8

from smp_memory.errors import InvalidConfig, SessionExists, SessionNotFound, StorageCorrupt, StoreNotFound
from smp_memory.files.ownership import config_bytes, is_ours, plain_bytes
from smp_memory.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from smp_memory.files.disk import Disk


PLACES = {".bmad/memory": ("jsonl",), ".bmad/sessions": ("markdown", "single"), "memory": ("log",)}
_LINK_BYTES = 8192
_LAYOUTS = ("jsonl", "markdown", "single", "log")
_GLOBAL_FILES = frozenset(("cross-session-preferences.yaml", "learned-patterns.yaml", "user-profile.yaml"))


class Discovery:
    """The result of a search: the address of a store, whether it is ours, and the folder at which the search ended."""

    __slots__ = ("folder", "is_ours", "root")

    def __init__(self, root: str | None, is_ours: bool, folder: str) -> None:
        self.root = (
            root  # a folder, or the address that `SMP_ROOT` has, whether or not it exists; None: there is no store
        )
        self.is_ours = is_ours  # it belongs to this user, or to the owner of the folder in which the search began
        self.folder = folder  # without a store: the nearest folder with a `.bmad` in it, else the topmost folder


def discovery(
    start: str | None = None, environ: Mapping[str, str] | None = None, *, layout: str | None = None
) -> Discovery:
    """Find the store for work in a folder. `SMP_ROOT` in `environ` names it; with `layout` only the places of that layout count."""
    named = environ.get("SMP_ROOT") if environ is not None else None
    if named:
        root = absolute(named)
        return Discovery(root if ids.scheme_of(root) or is_store(root) else None, True, root)
    first = folder = os.path.realpath(start or os.getcwd())  # resolved, so that only parts below it can be links
    while True:
        found = store_in(folder, layout)
        if found is not None:
            return Discovery(found, is_ours(found, first), folder)
        parent = os.path.dirname(folder)
        if parent == folder or os.path.isdir(os.path.join(folder, ".bmad")):
            return Discovery(None, False, folder)
        folder = parent


def absolute(named: str) -> str:
    """The address of a store that a user named: a folder as an absolute path, any other address as it is."""
    return named if ids.scheme_of(named) else os.path.abspath(named)


def is_named(root: str, environ: Mapping[str, str]) -> bool:
    """Whether `SMP_ROOT` names this store. The user chose it there, so it is trusted."""
    named = environ.get("SMP_ROOT")
    if not named or ids.scheme_of(named):
        return bool(named) and ids.without_password(str(named)) == ids.without_password(root)
    return os.path.realpath(named) == os.path.realpath(root)


def folder_of_store(root: str) -> str:
    """The folder that a store is in, if it is in one of its places there; else empty, as for an address."""
    for place in PLACES if not ids.scheme_of(root) else ():
        if root.endswith(os.sep + place.replace("/", os.sep)):
            return root[: -len(place) - 1]
    return ""


# -- the project of a folder


def project_folder(start: str, marks: tuple[str, ...] = (".git", ".bmad")) -> str:
    """The root of a project: the nearest folder upwards that has one of the marks, else the folder itself."""
    first = folder = os.path.abspath(start)
    while not any(os.path.lexists(os.path.join(folder, name)) for name in marks):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return first
    return folder


def project_name(folder: str) -> str:
    """The name of the project that a folder belongs to: that of its git repository, the same in all work trees, else of the folder."""
    top = project_folder(folder, (".git",))
    try:
        common = _common_folder(top)
    except (OSError, ValueError):  # no such files, or not text
        common = None
    if common is None:
        return os.path.basename(top)
    parent, name = os.path.split(common)
    return os.path.basename(parent) if name.startswith(".") else name.removesuffix(".git")


def _common_folder(top: str) -> str | None:
    """The repository of a linked work tree; None for the main one, a submodule, or a `.git` file that does not agree with its repository.

    A `.git` file may have come with a clone or an archive and may name anything. So only the two files by which git links a work tree
    are read there, they are compared and never shown, and they must lead back to this folder.
    """
    link = os.path.join(top, ".git")
    if os.path.isdir(link):
        return None
    named = _line(link).removeprefix("gitdir:").strip()
    own = os.path.normpath(os.path.join(top, named))
    common = os.path.normpath(os.path.join(own, _line(os.path.join(own, "commondir"))))
    back = os.path.join(own, _line(os.path.join(own, "gitdir")))
    is_linked = os.path.dirname(own) == os.path.join(common, "worktrees") and os.path.realpath(
        back
    ) == os.path.realpath(link)
    return common if named and is_linked else None


def _line(path: str) -> str:
    """The text of a short file of git."""
    return plain_bytes(path, _LINK_BYTES).decode().strip()


def store_in(folder: str, layout: str | None = None) -> str | None:
    """The store in one of a folder's places: a trusted one, else one with a `config.json`, else one that is recognised."""
    found = _stores_in(folder, layout)
    if len(found) > 1:
        from smp_memory.files.user_state import trusted_first

        found = trusted_first(found)
    return found[0] if found else None


def _beside(root: str) -> list[str]:
    """The other stores of the project that a store lies in; they are not read."""
    for place in PLACES:
        folder = root.removesuffix(os.path.join(os.sep, *place.split("/")))
        if folder != root:
            return [each for each in _stores_in(folder or os.sep, None) if each != root]
    return []


def about_others(root: str) -> tuple[str, str]:
    """What to say about them, and what can be done; empty if there are none."""
    others = _beside(root)
    if not others:
        return "", ""
    are = "is another store of this project and is" if len(others) == 1 else "are other stores of this project and are"
    advice = "--root, SMP_ROOT or smp_memory.open(folder) names the one that is meant; `smp export` and `smp import` bring sessions from one to another."
    return f"{', '.join(others)} {are} not read; this one is {root}.", advice


def _stores_in(folder: str, layout: str | None) -> list[str]:
    stated, recognised = [], []
    for place, layouts in PLACES.items():
        root = os.path.join(folder, place)
        if (layout in _LAYOUTS and layout not in layouts) or not os.path.isdir(root):
            continue
        if _stated_layout(root) is not None:
            stated.append(root)
        elif layout_of(root, _names, _folders) in layouts:
            recognised.append(root)
    return stated + recognised


def find_root(layout_name: str | None, start: str | None = None) -> str:
    """The root of the nearest store, or the place for a new one in the nearest `.bmad`. Another user's store must be named explicitly."""
    found = discovery(start, layout=layout_name)
    if found.root is not None:
        if found.is_ours:
            return found.root
        raise StoreNotFound(
            f"The nearest store, {found.root}, belongs to another user. "
            "To use it, name it: --root, SMP_ROOT, smp_memory.open(folder).",
            path=found.root,
        )
    if os.path.isdir(os.path.join(found.folder, ".bmad")):
        place = next(
            place for place, layouts in PLACES.items() if layout_name not in _LAYOUTS or layout_name in layouts
        )
        return reject_linked_root(os.path.join(found.folder, place))
    raise StoreNotFound(
        "No store here or above. Create one with `smp init`, or name one (--root, SMP_ROOT, smp_memory.open(folder))."
    )


def reject_linked_root(root: str) -> str:
    """Return the root for a new store; raise if it is a link, which may have come with the project and may lead anywhere."""
    folder = os.path.dirname(root)
    for path in (folder, root) if os.path.basename(folder) == ".bmad" else (root,):
        if os.path.islink(path) and not is_store(root):
            raise StorageCorrupt(
                f"{path} is a link, which may have come with the project and may lead anywhere. To use it, name the folder: --root.",
                path=path,
            )
    return root


def is_store(root: str) -> bool:
    """Whether a folder is a store, by its `config.json` or by the sessions in it."""
    return os.path.isdir(root) and (_stated_layout(root) is not None or layout_of(root, _names, _folders) is not None)


def _stated_layout(root: str) -> str | None:
    """The layout that a folder's `config.json` names or implies; the `config.json` of a `memory/` folder may belong to another program."""
    data, layout = config_bytes(root), None
    if b'"layout"' in data or b'"memory_config"' in data or b'"root_directory"' in data:
        import json

        try:
            stored = json.loads(data.removeprefix(BOM_UTF8).decode())
            layout = layout_in_config(stored) if isinstance(stored, dict) else None
        except (ValueError, RecursionError):
            pass
    if layout is None and data and os.path.exists(os.path.join(root, ".smp", "id")):
        return "jsonl"  # a damaged configuration of an SMP store; which layout it has is found out when it is opened
    return layout


def layout_in_config(stored: dict[str, Any]) -> str | None:
    """The layout that a configuration names. Those of the designs name none: 001 has `memory_config`, 004 `root_directory`."""
    inner = stored.get("memory_config")
    for settings in (stored, inner):
        if isinstance(settings, dict) and "layout" in settings:
            layout = settings["layout"]
            return layout if layout in _LAYOUTS else None
    if isinstance(inner, dict):
        return "jsonl"
    storage = stored.get("storage")
    if isinstance(storage, dict) and "root_directory" in storage and isinstance(stored.get("decay"), dict):
        return "log"
    return None


def layout_of_store(disk: Disk, root: str, stored: dict[str, Any] | InvalidConfig | None) -> str | None:
    """The layout that the content of `config.json` names, also a damaged one, else that of the sessions."""
    stated = stored.details.get("layout") if isinstance(stored, InvalidConfig) else (stored or {}).get("layout")
    if isinstance(stated, str) and stated in _LAYOUTS:
        return stated
    return recognise(disk, root) or (layout_in_config(stored) if isinstance(stored, dict) else None)


def recognise(disk: Disk, root: str) -> str | None:
    """The layout of an explicitly named folder without `config.json`, by its content; None if it is not a store."""
    if not disk.exists(root):
        return None
    recognised = layout_of(root, disk.names, disk.folders)
    if recognised is not None:
        return recognised
    from smp_memory.files.layouts import layout_named

    for name in _LAYOUTS:  # weaker evidence is enough for a folder that was named
        known = layout_named(name)
        if any(known.exists(disk, root, session) for session in known.session_ids(disk, root)):
            return name
    return None


def layout_of(root: str, names: Callable[[str], Iterable[str]], folders: Callable[[str], Iterable[str]]) -> str | None:
    """The layout of a folder by the sessions in it; None if there are none. `names` and `folders` list a folder."""
    top = frozenset(names(root))
    if "sessions" in top:
        from smp_memory.model.types import STEMS  # late: most folders that hooks look at have no sessions

        for session in folders(os.path.join(root, "sessions")):
            session_files = frozenset(names(os.path.join(root, "sessions", session)))
            if "manifest.json" in session_files or session_files.intersection(f"{stem}.jsonl" for stem in STEMS):
                return "jsonl"
            if "memory.jsonl" in session_files:
                return "log"
    if _is_markdown(root, top, names, folders):
        return "markdown"
    if any(name.endswith(".jsonl") and _is_id(name[: -len(".jsonl")]) for name in top):
        return "single"
    return None


def _is_markdown(
    root: str, top: frozenset[str], names: Callable[[str], Iterable[str]], folders: Callable[[str], Iterable[str]]
) -> bool:
    for place, markers in (("active", ()), ("archived", ("summary.yaml",)), ("deleted", ("deletion-record.yaml",))):
        for session in folders(os.path.join(root, place)) if place in top else ():
            session_files = frozenset(names(os.path.join(root, place, session)))
            if session_files.intersection(markers) or (
                not markers and any(n.endswith((".yaml", ".md")) for n in session_files)
            ):
                return True
    return "global" in top and not _GLOBAL_FILES.isdisjoint(names(os.path.join(root, "global")))


def _is_id(name: str) -> bool:
    return (
        0 < len(name) <= 64 and name[0] != "-" and name.isascii() and name.replace("-", "_").replace("_", "a").isalnum()
    )


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder) if not os.path.islink(folder) else []
    except OSError:
        return []


def _folders(folder: str) -> list[str]:
    if os.path.islink(folder):
        return []
    try:
        with os.scandir(folder) as found:
            return [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


_open_store: list[Callable[..., Any]] = []  # set by `smp_memory.memory`


def register_opener(open_store: Callable[..., Any]) -> None:
    """Register the function with which `SessionMemory(id)` opens the nearest store, because sessions do not import stores."""
    _open_store[:] = [open_store]


def _new_place() -> dict[str, str]:
    """Arguments for a new store if there is none here or above: that of design 000, in the nearest `.bmad` or in this folder."""
    found = discovery()
    if found.root is not None:
        return {}
    folder = found.folder if os.path.isdir(os.path.join(found.folder, ".bmad")) else os.getcwd()
    return {"where": reject_linked_root(os.path.join(folder, ".bmad", "sessions")), "layout": "single"}


def in_nearest_store(session: Any) -> tuple[Any, Any]:
    """The nearest store, a `Memory`, and an `OpenSession` of it by its id, made if need be."""
    name = ids.check(session, "session_id")
    memory = _open_store[0](**_new_place())
    try:
        found = memory.session(name)
    except SessionNotFound:
        try:
            found = memory.create_session(name)
        except SessionExists:  # another process created it meanwhile
            found = memory.session(name)
    return memory, found.opened
