"""Where a test finds what a session stores: its backend by the port, its private folder, and a lock that is held."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smp_memory.session import SessionMemory


def storage_of(session: SessionMemory) -> Any:
    """The backend of a session: of a store in files, with its reader."""
    return session.memory.store.session(session.id)


def private_folder(session: SessionMemory) -> Path:
    """The folder with the journal, the lock and the quarantine of a session."""
    store: Any = session.memory.store
    return Path(store.layout.private(os.fspath(store.root), session.id))


@contextmanager
def locked(session: SessionMemory) -> Iterator[None]:
    """Hold the session's lock, as another writer would."""
    held, release = threading.Event(), threading.Event()

    def work() -> None:
        held.set()
        release.wait(60)

    holder = threading.Thread(target=storage_of(session).run_locked, args=("holding the lock", work))
    holder.start()
    try:
        assert held.wait(30)
        yield
    finally:
        release.set()
        holder.join()
