"""What is a host's session called here? A name that says which host, which day, and which one.

    claude-code-2026-01-31-5f0c1a7e

Guarantees: a session that is continued days later keeps its name, because its note knows it, or, if the note is lost, because
a session that ends in the same letters is there. Two sessions of a host on one day have different names.
"""

from __future__ import annotations

import time

from smp.hooks import note as notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from smp.files.user_state import UserState
    from smp.hooks.events import Event


def name_for(state: UserState, event: Event) -> str:
    """The session's name as its note has it, else the one that it would get today."""
    return notes.read(state, event.session).session or new_name(event)


def new_name(event: Event) -> str:
    return f"{event.client}-{time.strftime('%Y-%m-%d', time.gmtime())}-{_tail(event)}"


def known_name(event: Event, names: Iterable[str]) -> str:
    """The name of a session that was begun for this one of the host; empty if there is none."""
    head, tail = event.client + "-", "-" + _tail(event)
    return max((name for name in names if name.startswith(head) and name.endswith(tail)), default="")


def _tail(event: Event) -> str:
    return notes.digest(event.session)[:8]
