"""Open a session by its id alone: in the nearest store, made if there is none. `SessionMemory("review")` does."""

from __future__ import annotations

from smp.errors import SessionExists, SessionNotFound
from smp.model import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smp.memory import Memory
    from smp.store.file_session import FileSession

_opening: list[Callable[[], Memory]] = []  # how a store is opened; `smp.memory` says it


def opens_with(opening: Callable[[], Memory]) -> None:
    """Say how `SessionMemory(id)` opens the nearest store: a session does not know stores."""
    _opening[:] = [opening]


def in_nearest_store(session: Any) -> tuple[Memory, FileSession]:
    """A session of the nearest store by its id, made if need be."""
    name = ids.check(session, "session_id")
    memory = _opening[0]()
    try:
        found = memory.session(name)
    except SessionNotFound:
        try:
            found = memory.create_session(name)
        except SessionExists:  # another process was quicker
            found = memory.session(name)
    return memory, found._files
