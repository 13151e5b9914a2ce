"""Choose the session for a command that names none: the one written or started last, unless another one is in use at the same time.

Two conversations of coding agents may share a store, each with a session of its own. The files do not tell which of them a command belongs
to, so a command that names no session is rejected while memories were written to two sessions within `RECENT_HOURS`.

Memories count by their own time, not by the times of files: a clone, a checkout or an import does not make a session recently written.
After a session is started, restored or imported, earlier writes to other sessions no longer count.
"""

from __future__ import annotations

from smp_memory import lifecycle
from smp_memory.errors import SMPError, UserError
from smp_memory.model.session_info import GLOBAL_SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from smp_memory.lifecycle.session_states import Writes
    from smp_memory.memory import Memory

RECENT_HOURS = 1
_LISTED_SESSIONS = 5


def current_session(memory: Memory, how: str = "--session ") -> str | None:
    """The id of the session written or started last; None if there is none. Raises UserError if memories were written to several in the last hour."""
    from datetime import timedelta

    window = timedelta(hours=RECENT_HOURS)
    found = sorted(
        ((each.written, each.session) for each in memory.store.sessions() if each.session != GLOBAL_SESSION),
        reverse=True,
    )
    # a file is written when a memory is, so only sessions whose files are about as new as the newest need a closer look
    recent = {name: written for written, name in found if written > found[0][0] - window}
    if len(recent) < 2 or _just_started(memory, recent):
        return found[0][1] if found else None
    writes = _last_writes(memory, recent)
    newest = sorted(recent, key=lambda name: (max(filter(None, writes[name])), name), reverse=True)
    chosen, since = newest[0], memory.now() - window
    started = max(since, writes[chosen].started or since)
    others = [name for name in newest[1:] if writes[name].written > started]
    if others:
        raise UserError(
            f"Several sessions were written in the last hour: {_listed([chosen, *others])}. Name the session, for example: {how}{chosen}",
            sessions=[chosen, *others],
        )
    return chosen


def _just_started(memory: Memory, recent: dict[str, datetime]) -> bool:
    """Whether the session with the newest files was started after all others were written; costs no index."""
    first, *others = recent
    started = memory.store.session_uses.last_uses().get(first)
    return started is not None and all(recent[other].timestamp() < started for other in others)


def _last_writes(memory: Memory, recent: dict[str, datetime]) -> dict[str, Writes]:
    states = lifecycle.session_states
    try:
        return states.last_writes(memory.store, list(recent))
    except SMPError:  # a session was just archived, or the index cannot be used
        return {name: states.Writes(written, None) for name, written in recent.items()}


def _listed(names: list[str]) -> str:
    more = len(names) - _LISTED_SESSIONS
    listed = names[:_LISTED_SESSIONS] if more > 0 else names[:-1]
    return f"{', '.join(listed)} and {f'{more:,} others' if more > 0 else names[-1]}"
