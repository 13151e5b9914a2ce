"""Open or create a store in PostgreSQL by its address. The entry point of the schemes `postgresql` and `postgres`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from smp_memory.config.config_file import read_settings
from smp_memory.config.settings import Config
from smp_memory.errors import FormatTooNew, LayoutMismatch, NotAllowed, StorageCorrupt, StoreNotFound
from smp_memory.files.disk import Disk
from smp_memory.files.system import RealSystem
from smp_memory.files.user_state import open_user_state
from smp_memory.privacy.settings import checked
from smp_memory.store.postgres import schema
from smp_memory.store.postgres.connection import Address, Connections, Unreachable
from smp_memory.store.postgres.offline import OfflineStore, offer
from smp_memory.store.postgres.postgres_store import NAME, PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LOCK_SECONDS = 60  # another process may be making or migrating the tables
_FACTS = ("uid", "schema_version", "readable_by", "settings", "configured_at")
_LONGEST_VALUE = 1 << 20  # characters of a row of `meta`; as with `config.json`, more are not read


def open_postgres(
    address: str, layout: str | None, config: Mapping[str, Any] | None, admit: Callable[..., None], create: bool
) -> tuple[PostgresStore | OfflineStore, bool]:
    """The store at an address, and whether it is new. Two round trips; without `create`, a missing one raises StoreNotFound."""
    if layout not in (None, NAME):
        raise LayoutMismatch(f"{layout}: a store in PostgreSQL has no layout; leave it out.", layout=NAME)
    place = Address(address)
    if Config.build({}, place.shown, environ=os.environ, arguments=config)["offline"]:
        others = {name: value for name, value in (config or {}).items() if name.partition(".")[0] != "maintenance"}
        arguments = {**others, "maintenance.auto": False}  # a setting that is given twice is refused
        return OfflineStore(place.shown, Config.build({}, place.shown, environ=os.environ, arguments=arguments)), False
    connections, is_new = Connections(place), False
    try:
        try:
            meta = _read_meta(connections)
        except StoreNotFound:
            if not create:
                raise
            with connections.transaction(_LOCK_SECONDS) as connection:
                is_new = schema.create(connection, connections.address.schema)
            meta = _read_meta(connections)
        _check_version(connections, meta)
        shown = connections.address.shown
        state = open_user_state(shown, Disk(RealSystem()))
        stored = read_settings(lambda: meta.get("settings", "{}").encode(), f"{shown}#settings")
        # Others may change the settings: those that lower protection wait for `smp trust`, as in a folder.
        settings = Config.build(
            stored, f"{shown}#settings", environ=os.environ, arguments=config, trusted=state.trusted_settings()
        )
        return PostgresStore(
            connections, checked(settings), _moment(meta.get("configured_at")), meta.get("uid", ""), admit, state
        ), is_new
    except Unreachable as error:
        connections.close()
        raise Unreachable(error.message + offer(place.shown), **error.details) from error
    except BaseException:
        connections.close()
        raise


def _read_meta(connections: Connections) -> dict[str, str]:
    query = f"SELECT name, left(value, {_LONGEST_VALUE}) FROM {connections.address.schema}.meta WHERE name = ANY(%s)"
    return dict(connections.run(lambda connection: connection.execute(query, (list(_FACTS),)).fetchall()))


def _moment(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None  # as if the settings were never changed


def _check_version(connections: Connections, meta: Mapping[str, str]) -> None:
    shown = connections.address.shown
    try:
        found, oldest = int(meta["schema_version"]), int(meta["readable_by"])
    except (KeyError, ValueError):
        message = f"{shown}: the table `meta` does not say which version the tables have. Restore it from a backup."
        raise StorageCorrupt(message, path=shown) from None
    if oldest > schema.VERSION:
        raise FormatTooNew(
            f"{shown} has tables of version {found}; this SMP knows {schema.VERSION}. Install a newer one.",
            path=shown, format=found, limit=schema.VERSION,
        )  # fmt: skip
    if found < schema.VERSION:
        try:
            with connections.transaction(_LOCK_SECONDS) as connection:
                schema.migrate(connection, connections.address.schema)
        except NotAllowed as error:
            message = f"{shown} has tables of version {found}, which their owner must bring to {schema.VERSION}: open the store as the owner once. {error.message}"
            raise NotAllowed(message, path=shown) from error
