"""Open or create a store in files: its `config.json`, its layout, and what a conversion left behind; change a setting.

Guarantees: concurrent creation yields one store. A store without `config.json`, as another program made it, gets one unless the
medium is read-only. A store of a newer format is refused and nothing is touched.
"""

from __future__ import annotations

import json
import os

from smp_memory.config import Config, reject_newer_format
from smp_memory.config_file import requested_layout, with_setting, with_store_facts_at_top
from smp_memory.discovery import layout_in_config, recognise
from smp_memory.errors import (
    InvalidConfig,
    LayoutMismatch,
    StorageReadOnly,
    StoreNotFound,
    from_os_error,
)
from smp_memory.files.disk import Disk
from smp_memory.files.layouts import layout_named
from smp_memory.files.layouts.layout import PRIVATE
from smp_memory.files.lock import SessionLock
from smp_memory.model.session_info import FORMAT
from smp_memory.privacy.settings import check_settings
from smp_memory.store.file_store import FLAG, FileStore, has_unfinished_conversion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from smp_memory.files.system import System


CONFIG_FILE = "config.json"


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
        if has_unfinished_conversion(disk, root) or (stored and FLAG in stored):
            from smp_memory.store.convert import finish_if_possible

            finish_if_possible(disk, root)
            stored = _read_config(disk, root)
            if stored:
                stored.pop(FLAG, None)
        is_new = stored is None and recognise(disk, root) is None
        if is_new and not create:
            raise StoreNotFound(f"There is no store in {root}. `smp init` makes one.", path=root)
        name = _layout_name(disk, root, stored, layout, requested_layout(config))
        path = os.path.join(root, CONFIG_FILE)
        settings = Config.build({**(stored or {}), "layout": name}, path, environ=os.environ, arguments=config)
        check_settings(settings)
        if stored is None:
            _create_unless_read_only(disk, root, name)
    except OSError as error:
        raise from_os_error(error, root, "opening the store") from error
    return FileStore(root, layout_named(name), system, settings, admit), is_new


def _read_config(disk: Disk, root: str) -> dict[str, Any] | None:
    path = os.path.join(root, CONFIG_FILE)
    try:
        stored = json.loads(disk.read_small(path).decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        raise InvalidConfig(
            f"{path}: not valid JSON: {error}. Correct it; your memories are not affected.", path=path
        ) from None
    if not isinstance(stored, dict):
        raise InvalidConfig(f"{path}: must be a JSON object.", path=path)
    stored = with_store_facts_at_top(stored)
    reject_newer_format(stored, path)
    return stored


def _layout_name(
    disk: Disk, root: str, stored: dict[str, Any] | None, requested: str | None, default: str = "jsonl"
) -> str:
    stored = stored or {}
    found = stored.get("layout") or recognise(disk, root) or layout_in_config(stored)
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
        _layout_name(disk, root, _read_config(disk, root) or {}, name)
    disk.sync_folder(root)


def write_setting(store: FileStore, name: str, value: Any) -> None:
    """Change one setting in config.json under the store's lock; None removes it."""
    disk, path = store.disk, os.path.join(store.root, CONFIG_FILE)
    store.check_open()
    store.check_not_moved()
    disk.make_folder(os.path.join(store.root, PRIVATE))
    lock = SessionLock(disk, os.path.join(store.root, PRIVATE), f"the store {store.root}")
    lock.acquire(store.config.lock_timeout_seconds)
    try:
        stored = with_setting(_read_config(disk, store.root) or {}, name, value)
        check_settings(Config.build(stored, path))
        disk.replace(path, (json.dumps(stored, ensure_ascii=False, indent=2) + "\n").encode())
    except OSError as error:
        raise from_os_error(error, path, "changing the configuration") from error
    finally:
        lock.release()
        lock.close()
