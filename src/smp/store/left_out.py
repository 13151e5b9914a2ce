"""Sessions that another process archives or deletes while an operation looks at all of them: left out, and this is said.

Guarantees: an operation over all sessions does not fail because one of them was put away meanwhile; its log record
names the session and the reason, never content. A session that was asked for by name is not left out but an error.
"""

from __future__ import annotations

from smp import event_log
from smp.errors import SessionArchived, SessionNotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    from smp.errors import SMPError
    from smp.model.hit import LeftOut

    Name = TypeVar("Name")
    Found = TypeVar("Found")

PUT_AWAY = (SessionArchived, SessionNotFound)


def left_out(session: str, error: SMPError) -> LeftOut:
    """Say that a session was left out."""
    from smp.model.hit import LeftOut

    reason = "archived" if isinstance(error, SessionArchived) else "deleted"
    text = f"Session {session} was left out: it was {reason} meanwhile."
    event_log.emit("session", event_log.WARNING, "session_left_out", text, session, reason=reason)
    return LeftOut(session, reason)


def each_there(names: Iterable[Name], work: Callable[[Name], Found]) -> Iterator[tuple[Name, Found]]:
    """What comes of each session, by its id or with an attribute `id` or `session`; those put away meanwhile are left out."""
    for name in names:
        try:
            found = work(name)
        except PUT_AWAY as error:
            left_out(str(getattr(name, "id", None) or getattr(name, "session", None) or name), error)
            continue
        yield name, found
