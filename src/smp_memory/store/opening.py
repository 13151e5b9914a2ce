"""The doors to a store: choose the backend by the address, then open or create the store, read it, examine it, or tell its state.

    a path, or `:memory:`     a store in files (`store.file_store`), on disk or in RAM
    postgresql://…            a store in PostgreSQL (`store.postgres`), with the extra `postgres`
    scheme://…                the backend that is registered for the scheme, or that an installed package offers under it as an entry
                              point of the group `smp_memory.backends`

A backend is a function that opens a store (`Opener`), and the classes of `store.port`. Every door takes an address. A store in files has
fast ways of its own to some answers (`store_status`, `session_names`, `memory_ids`); for others the callers open the store.
Loading this module loads no backend: a hook that finds no trusted store ends before one is loaded.
"""

from __future__ import annotations

from smp_memory.discovery import is_store
from smp_memory.errors import InvalidFormat, StoreNotFound, install_command
from smp_memory.model.ids import scheme_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.files.system import System
    from smp_memory.files.user_state import UserState
    from smp_memory.health.examination import Examination
    from smp_memory.index.full_text_index import FullTextIndex, IndexFeed
    from smp_memory.index.history_index import HistoryFeed
    from smp_memory.index.stored_feed import Source, StoredFeed
    from smp_memory.model.reports import StoreStatus
    from smp_memory.search.port import SearchIndex
    from smp_memory.store.file_session import FileSession
    from smp_memory.store.file_store import FileStore
    from smp_memory.store.indexer import FileSource
    from smp_memory.store.port import SessionStore, Store

    # Opens the store at an address with the caller's layout and settings; returns it and whether it is new. `admit` is `Store.admit`.
    # Without `create` a store that does not exist raises StoreNotFound.
    Opener = Callable[[str, str | None, Mapping[str, Any] | None, Callable[..., None], bool], tuple[Store, bool]]

    def _file_backend_provides_port(
        store: FileStore, session: FileSession, index: FullTextIndex
    ) -> tuple[Store, SessionStore, SearchIndex]:
        return store, session, index  # checked by mypy

    def _feeds_provide_port(
        stored: StoredFeed, histories: HistoryFeed, files: FileSource
    ) -> tuple[IndexFeed, IndexFeed, Source]:
        return stored, histories, files


BACKENDS = "smp_memory.backends"  # the group of entry points: the scheme, and the function that opens
_POSTGRES = ("postgresql", "postgres")
_openers: dict[str, Opener] = {}


def register_backend(scheme: str, opener: Opener) -> None:
    """Let `opener` open the stores whose addresses begin with `scheme://`."""
    _openers[scheme] = opener


def _opener(address: str) -> Opener:
    """The function that opens the store at an address with a scheme. Raises InvalidFormat if there is none."""
    scheme = scheme_of(address)
    if scheme in _POSTGRES and scheme not in _openers:
        try:
            from smp_memory.store.postgres.offline import open_postgres
        except ImportError as error:
            install = install_command("psycopg[binary]>=3.2,<4")
            message = f"where: {scheme}:// addresses need the extra `postgres` ({error}). Install it: {install}"
            raise InvalidFormat(message, field="where") from error
        _openers[scheme] = open_postgres
    if scheme not in _openers:
        from importlib.metadata import entry_points  # slow; only for a scheme that nobody registered

        for found in entry_points(group=BACKENDS, name=scheme):
            try:
                _openers[scheme] = found.load()
            except ImportError as error:
                message = f"where: the backend for {scheme}:// addresses cannot be loaded: {error}."
                raise InvalidFormat(message, field="where") from error
            break
        else:
            raise InvalidFormat(
                f"where: there is no backend for {scheme}:// addresses; give a folder or postgresql://….", field="where"
            )
    return _openers[scheme]


def open_store(
    address: str,
    layout: str | None,
    config: Mapping[str, Any] | None,
    system: System | None,
    admit: Callable[..., None],
    *,
    create: bool,
) -> tuple[Store, bool]:
    """The store at an address, and whether it is new. `system` is that of a store in files."""
    if system is None:
        return _opener(address)(address, layout, config, admit, create)
    from smp_memory.store.file_opening import open_file_store

    return open_file_store(address, layout, config, system, admit, create=create)


def _open_existing(address: str, arguments: Mapping[str, Any]) -> Store:
    """A store that is not in files, for a reader. Raises StoreNotFound."""
    return _opener(address)(address, None, arguments, _refuse_write, False)[0]


def _refuse_write(*_: Any) -> None:
    raise AssertionError("a reader does not write")


def exists(address: str) -> bool:
    """Whether there is a store at an address."""
    if not scheme_of(address):
        return is_store(address)
    try:
        _open_existing(address, {}).close()
    except StoreNotFound:
        return False
    return True


def ram() -> System:
    """The operating system of a store in files that lives in this process."""
    from smp_memory.files.memory_system import MemorySystem

    return MemorySystem()


def open_read_only(
    address: str, environ: Mapping[str, str], arguments: Mapping[str, Any], *, defers_file_checks: bool = False
) -> Store:
    """The store at an address, for a reader that must start fast: nothing is created, recovered or checked, and a write is a bug.

    defers_file_checks: in a store of many sessions, queries notice what SMP wrote, and every file that was added, replaced or
    removed, but a file that another program changed in place only if all files were not checked for ten minutes. The caller
    has them checked afterwards, by a query of a store that was opened in another way.
    """
    if scheme_of(address):
        return _open_existing(address, arguments)
    from smp_memory.store.file_opening import read_files

    return read_files(address, environ, arguments, defers_file_checks=defers_file_checks)


def examine(
    store: Store,
    now: datetime,
    *,
    environ: Mapping[str, str],
    arguments: Mapping[str, Any] | None = None,
    quick: bool = False,
) -> Examination:
    """An opened store for health checks, read-only; `environ` and `arguments` are those by which it was opened."""
    from smp_memory.store.file_store import FileStore

    if isinstance(store, FileStore):
        from smp_memory.store.file_checks import examine_files

        return examine_files(store.disk.system, store.root, now, environ=environ, arguments=arguments, quick=quick)
    from smp_memory.health.examination import Examination

    return Examination(store, now, quick=quick)


def examine_store(address: str, now: datetime, *, environ: Mapping[str, str], quick: bool = False) -> Examination:
    """The store at an address for health checks, a store in files also if it is too damaged to be opened."""
    if scheme_of(address):
        from smp_memory.health.examination import Examination

        return Examination(_open_existing(address, {}), now, quick=quick, is_owner=True)
    from smp_memory.files.system import RealSystem
    from smp_memory.store.file_checks import examine_files

    return examine_files(RealSystem(address), address, now, environ=environ, quick=quick)


def user_state(address: str) -> UserState:
    """The user's state of a store, without opening the store."""
    from smp_memory.files.disk import Disk
    from smp_memory.files.system import RealSystem
    from smp_memory.files.user_state import open_user_state

    return open_user_state(address, Disk(RealSystem(address)))


def trusted_stores() -> list[str]:
    """The addresses at which this user trusts a store."""
    from smp_memory.files.user_state import trusted_stores as trusted

    return trusted()


# -- fast ways to what is known of a store in files


def store_status(root: str, environ: Mapping[str, str]) -> StoreStatus:
    """The state of the store in a folder at a glance, fast and without opening it. Raises SMPError if it cannot be read."""
    from smp_memory.store.status import read_status

    return read_status(root, environ, lambda: open_read_only(root, environ, {}))


def session_names(root: str) -> list[tuple[str, str]]:
    """The names of the sessions in a folder, each with its state (`session`, `archived`, `deleted`), without opening the store."""
    from smp_memory.store.status import session_names as names

    return names(root)


def memory_ids(root: str, prefix: str, session: str | None, limit: int) -> list[tuple[str, str]]:
    """Session and id of the newest memories whose id begins with a text, as the index has them; nothing is caught up."""
    from smp_memory.store.status import memory_ids as found

    return found(root, prefix, session, limit)
