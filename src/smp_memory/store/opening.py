"""The door to a store: choose the backend by the address, then open or create it, read it, or examine it.

    a path, or `:memory:`     a store in files (`store.file_store`), on disk or in RAM
    scheme://…                the backend that is registered for the scheme

A backend is a function that opens a store (`Opener`), named here under its scheme, and the classes of `store.port`. Loading this
module loads no backend: a hook that finds no trusted store ends before one is loaded.
"""

from __future__ import annotations

from smp_memory.errors import InvalidFormat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.files.system import System
    from smp_memory.files.user_state import UserState
    from smp_memory.index.full_text_index import FullTextIndex, IndexFeed
    from smp_memory.index.history_index import HistoryFeed
    from smp_memory.model.store_status import StoreStatus
    from smp_memory.search.port import SearchIndex
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.indexer import FileFeed
    from smp_memory.store.port import SessionStore, StateFiles, Store, StoreExamination

    # Opens the store at an address with the caller's layout and settings; returns it and whether it is new. `admit` is `Store.admit`.
    # Without `create` a store that does not exist raises StoreNotFound.
    Opener = Callable[[str, str | None, Mapping[str, Any] | None, Callable[..., None], bool], tuple[Store, bool]]

    def _file_backend_provides_port(
        store: FileStore, session: FileSession, index: FullTextIndex, state: UserState
    ) -> tuple[Store, SessionStore, SearchIndex, StateFiles]:
        return store, session, index, state  # checked by mypy

    def _feeds_provide_port(files: FileFeed, histories: HistoryFeed) -> tuple[IndexFeed, IndexFeed]:
        return files, histories


_openers: dict[str, Opener] = {}


def register_backend(scheme: str, opener: Opener) -> None:
    """Let `opener` open the stores whose addresses begin with `scheme://`."""
    _openers[scheme] = opener


def scheme_of(where: str) -> str | None:
    """The scheme of an address; None for a path. Raises InvalidFormat for one that has no backend."""
    scheme, found, _ = where.partition("://")
    if not found or len(scheme) < 2 or not scheme.replace("-", "").replace("+", "").isalnum():  # `c://` is a drive
        return None
    if scheme not in _openers:
        raise InvalidFormat(f"where: there is no backend for {scheme}:// addresses; give a folder.", field="where")
    return scheme


def open_store(
    where: str,
    layout: str | None,
    config: Mapping[str, Any] | None,
    system: System | None,
    admit: Callable[..., None],
    *,
    create: bool,
) -> tuple[Store, bool]:
    """The store at a path or an address, and whether it is new. `system` is that of a store in files."""
    if system is None:
        return _openers[scheme_of(where) or ""](where, layout, config, admit, create)
    from smp_memory.store.file_opening import open_file_store

    return open_file_store(where, layout, config, system, admit, create=create)


def ram() -> System:
    """The operating system of a store in files that lives in this process."""
    from smp_memory.files.memory_system import MemorySystem

    return MemorySystem()


def open_read_only(
    root: str, environ: Mapping[str, str], arguments: Mapping[str, Any], *, defers_file_checks: bool = False
) -> Store:
    """The store in a folder, for a reader that must start fast: nothing is created, recovered or checked, and a write is a bug.

    defers_file_checks: in a store of many sessions, queries notice what SMP wrote, and every file that was added, replaced or
    removed, but a file that another program changed in place only if all files were not checked for ten minutes. The caller
    has them checked afterwards, by a query of a store that was opened in another way.
    """
    import os

    from smp_memory.config import Config
    from smp_memory.config_file import read_settings
    from smp_memory.discovery import layout_of_store
    from smp_memory.files.disk import Disk
    from smp_memory.files.layouts import layout_named
    from smp_memory.files.layouts.layout import CONFIG_FILE
    from smp_memory.files.system import RealSystem
    from smp_memory.files.user_state import open_user_state
    from smp_memory.store.file_store import FileStore

    path, disk = os.path.join(root, CONFIG_FILE), Disk(RealSystem(root))
    stored, state = read_settings(lambda: disk.read_small(path), path), open_user_state(root, disk)
    layout = layout_of_store(disk, root, stored) or "jsonl"
    trusted = state.trusted_settings()
    config = Config.build(stored, path, environ=environ, arguments=arguments, layout=layout, trusted=trusted)
    store = FileStore(root, layout_named(layout), disk.system, config, _refuse_write, state)
    store.defers_file_checks = defers_file_checks
    return store


def _refuse_write(*_: Any) -> None:
    raise AssertionError("a reader does not write")


def examine_store(root: str, now: datetime, *, environ: Mapping[str, str], quick: bool = False) -> StoreExamination:
    """The store in a folder under examination, also if it is too damaged to be opened."""
    from smp_memory.files.system import RealSystem
    from smp_memory.store.checks import examine_files

    return examine_files(RealSystem(root), root, now, environ=environ, quick=quick)


def store_status(root: str, environ: Mapping[str, str]) -> StoreStatus:
    """The state of the store in a folder at a glance, fast and without opening it. Raises SMPError if it cannot be read."""
    from smp_memory.store.status import read_status

    return read_status(root, environ)


def session_names(root: str) -> list[tuple[str, str]]:
    """The names of a store's sessions, each with its state (`session`, `archived`, `deleted`), without opening the store."""
    from smp_memory.store.status import session_names as names

    return names(root)


def memory_ids(root: str, prefix: str, session: str | None, limit: int) -> list[tuple[str, str]]:
    """Session and id of the newest memories whose id begins with a text, as the index has them; nothing is caught up."""
    from smp_memory.store.status import memory_ids as found

    return found(root, prefix, session, limit)


def user_state(root: str) -> StateFiles:
    """The user's state of the store in a folder, without opening the store."""
    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem
    from smp_memory.files.user_state import open_user_state

    return open_user_state(root, Disk(RealSystem(root)))


def trusted_stores() -> list[str]:
    """The paths at which this user trusts a store."""
    from smp_memory.files.user_state import trusted_stores as trusted

    return trusted()
