"""Open or create a store in PostgreSQL by its address. The entry point of the schemes `postgresql` and `postgres`."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from smp_memory.config.settings import Config
from smp_memory.errors import FormatTooNew, LayoutMismatch, StoreNotFound
from smp_memory.privacy.settings import checked
from smp_memory.store.postgres import schema
from smp_memory.store.postgres.connection import Address, Connections
from smp_memory.store.postgres.postgres_store import NAME, PostgresStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def open_postgres(
    address: str, layout: str | None, config: Mapping[str, Any] | None, admit: Callable[..., None], create: bool
) -> tuple[PostgresStore, bool]:
    """The store at an address, and whether it is new. Two round trips; without `create`, a missing one raises StoreNotFound."""
    if layout not in (None, NAME):
        raise LayoutMismatch(f"{layout}: a store in PostgreSQL has no layout; leave it out.", layout=NAME)
    connections, is_new = Connections(Address(address)), False
    try:
        try:
            meta = _read_meta(connections)
        except StoreNotFound:
            if not create:
                raise
            with connections.transaction() as connection:
                is_new = schema.create(connection, connections.address.schema)
            meta = _read_meta(connections)
        _check_version(connections, meta)
    except BaseException:
        connections.close()
        raise
    stored = json.loads(meta.get("settings", "{}"))
    settings = checked(Config.build(stored, connections.address.shown, environ=os.environ, arguments=config))
    configured = meta.get("configured_at")
    return PostgresStore(connections, settings, float(configured) if configured else None, admit), is_new


def _read_meta(connections: Connections) -> dict[str, str]:
    query = f"SELECT name, value FROM {connections.address.schema}.meta"
    return dict(connections.run(lambda connection: connection.execute(query).fetchall()))


def _check_version(connections: Connections, meta: Mapping[str, str]) -> None:
    found, oldest = int(meta["schema_version"]), int(meta["readable_by"])
    if oldest > schema.VERSION:
        raise FormatTooNew(
            f"{connections.address.shown} has tables of version {found}; this SMP knows {schema.VERSION}. Install a newer one.",
            path=connections.address.shown, format=found, limit=schema.VERSION,
        )  # fmt: skip
    if found < schema.VERSION:
        with connections.transaction() as connection:
            schema.migrate(connection, connections.address.schema)
