"""Open or create a store in files: its `config.json`, its layout, and what a conversion left behind; change a setting.

Guarantees: concurrent creation yields one store. A store without `config.json`, as another program made it, gets one unless the
medium is read-only. A store of a newer format is refused and nothing is touched.
"""

from __future__ import annotations

import json
import os

from smp_memory.config.config_file import read_settings, requested_layout
from smp_memory.config.settings import Config
from smp_memory.config.sources import CONVERTING, unknown_setting
from smp_memory.discovery import layout_of_store, recognise
from smp_memory.errors import InvalidConfig, LayoutMismatch, StorageReadOnly, StoreNotFound, from_os_error
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import layout_named
from smp_memory.files.layouts.layout import CONFIG_FILE, PRIVATE
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import ID_FILE, open_user_state
from smp_memory.model.session_info import FORMAT
from smp_memory.privacy.settings import checked
from smp_memory.store.file_store import FileStore, has_unfinished_conversion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from smp_memory.files.system import System


def open_file_store(
    root: str,
    layout: str | None,
    config: Mapping[str, Any] | None,
    system: System,
    admit: Callable[..., None],
    *,
    create: bool,
) -> tuple[FileStore, bool]:
    """The store in a folder, and whether it is new. `layout` and `config` are the caller's arguments."""
    disk = Disk(system)
    try:
        stored = _read_config(disk, root)
        if has_unfinished_conversion(disk, root) or (isinstance(stored, dict) and CONVERTING in stored):
            from smp_memory.store.convert import finish_if_possible

            finish_if_possible(disk, root)
            stored = _read_config(disk, root)
        is_new = stored is None and recognise(disk, root) is None
        if is_new and not create:
            raise StoreNotFound(f"There is no store in {root}. `smp init` makes one.", path=root)
        name = _layout_name(disk, root, stored, layout, requested_layout(config))
        path = os.path.join(root, CONFIG_FILE)
        state = open_user_state(root, Disk(system, root))
        trusted = state.trusted_settings()
        settings = checked(
            Config.build(stored, path, environ=os.environ, arguments=config, layout=name, trusted=trusted)
        )
        if is_new or not _is_own(disk, root, stored):
            for error in (*settings.invalid, *(unknown_setting(key, f"file {path}") for key in settings.unknown)):
                raise error
        if stored is None:
            _create_unless_read_only(disk, root, name)
    except OSError as error:
        raise from_os_error(error, root, "opening the store") from error
    return FileStore(root, layout_named(name), system, settings, admit, state), is_new


def read_files(
    root: str, environ: Mapping[str, str], arguments: Mapping[str, Any], *, defers_file_checks: bool = False
) -> FileStore:
    """The store in a folder, for a reader (`opening.open_read_only`)."""
    disk, path = Disk(RealSystem(root)), os.path.join(root, CONFIG_FILE)
    stored, state = _read_config(disk, root), open_user_state(root, disk)
    layout = layout_of_store(disk, root, stored) or "jsonl"
    trusted = state.trusted_settings()
    config = Config.build(stored, path, environ=environ, arguments=arguments, layout=layout, trusted=trusted)
    store = FileStore(root, layout_named(layout), disk.system, config, _refuse_write, state)
    store.defers_file_checks = defers_file_checks
    return store


def _refuse_write(*_: Any) -> None:
    raise AssertionError("a reader does not write")


def _is_own(disk: Disk, root: str, stored: dict[str, Any] | InvalidConfig | None) -> bool:
    """Whether a folder shows that it is a store; a `config.json` alone may belong to another program."""
    stated = stored if isinstance(stored, dict) else None  # a text that cannot be read proves nothing
    return layout_of_store(disk, root, stated) is not None or disk.exists(os.path.join(root, PRIVATE, ID_FILE))


def _read_config(disk: Disk, root: str) -> dict[str, Any] | InvalidConfig | None:
    path = os.path.join(root, CONFIG_FILE)
    return read_settings(lambda: disk.read_small(path), path)


def _layout_name(
    disk: Disk, root: str, stored: dict[str, Any] | InvalidConfig | None, requested: str | None, default: str = "jsonl"
) -> str:
    found = layout_of_store(disk, root, stored)
    if requested is not None:
        layout_named(requested)
    if found is not None and requested is not None and found != requested:
        raise LayoutMismatch(
            f"{root} is a {found} store, not {requested}. Open it without a layout, or convert it: smp convert --to {requested}",
            path=root,
            layout=found,
        )
    return found or requested or default


def _create_unless_read_only(disk: Disk, root: str, name: str) -> None:
    """Write config.json. A store of another program without one is read without it on read-only media."""
    try:
        _create(disk, root, name)
    except OSError as error:
        if recognise(disk, root) is None or not isinstance(from_os_error(error, "", ""), StorageReadOnly):
            raise


def _create(disk: Disk, root: str, name: str) -> None:
    disk.make_folder(root)
    path = os.path.join(root, CONFIG_FILE)
    data = json.dumps({"layout": name, "format": FORMAT}, indent=2) + "\n"
    temporary = f"{path}.{os.urandom(4).hex()}.smp-new"
    disk.write_new(temporary, data.encode())
    try:
        disk.link_new(temporary, path)
    except FileExistsError:  # another process created it first
        disk.remove(temporary)
        _layout_name(disk, root, _read_config(disk, root), name)
    disk.sync_folder(root)
