"""The session that is meant when none is named: the one written last, unless another one is in use at the same time.

Two conversations of coding agents may share a store, each with a session of its own. Which of them a command belongs to cannot be told
from the files, so a command that names no session is refused while two sessions were written within `RECENT_HOURS`.
"""

from __future__ import annotations

from smp.agents import GLOBAL_SESSION
from smp.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp.memory import Memory
    from smp.session import SessionMemory

RECENT_HOURS = 1
_NAMED = 5


def current_session(memory: Memory, how: str = "--session ") -> SessionMemory | None:
    """The session written last; None if there is none. Raises UserError if several were written in the last hour."""
    from datetime import timedelta

    from smp.model.time import system_clock

    found = [(session.written, session.id, session) for session in memory.sessions() if session.id != GLOBAL_SESSION]
    found.sort(key=lambda each: each[:2], reverse=True)
    if not found:
        return None
    # files have the times of the machine, whatever clock the store was opened with
    since = system_clock() - timedelta(hours=RECENT_HOURS)
    recent = [name for written, name, _ in found if written > since]
    if len(recent) > 1:
        raise UserError(
            f"Say which session is meant: {_listed(recent)} were written in the last hour. Name one, such as: {how}{recent[0]}",
            sessions=recent,
        )
    return found[0][2]


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    shown = names[:_NAMED] if more > 0 else names[:-1]
    return f"{', '.join(shown)} and {f'{more:,} others' if more > 0 else names[-1]}"
