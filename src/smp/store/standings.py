"""In which state is each session of a store, and what happens to it next? The rules of `lifecycle.states` over what is there.

Guarantees: nothing is written; a session is not opened for it. A session's own settings count (`lifecycle.auto_archive`
false keeps it from being archived by itself).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from smp.lifecycle.clock import NO_EVIDENCE, Evidence
from smp.lifecycle.states import ARCHIVED, Marks, Step, Times, due_step, next_step, state_of
from smp.model.time import to_moment, to_text
from smp.store.left_out import each_there
from smp.store.shelf import Shelf
from smp.store.usage import Usage, usage

if TYPE_CHECKING:
    from smp.store.file_store import FileStore
    from smp.store.shelf import Away


class Standing(NamedTuple):
    """In which state a session is, and what happens to it next."""

    session: str
    state: str
    last_used: datetime | None
    next: Step
    away: Away | None = None  # of one that is archived or deleted

    def to_dict(self) -> dict[str, Any]:
        used, when = self.last_used, self.next.when
        return {
            "id": self.session,
            "state": self.state,
            "last_used": to_text(used) if used else None,
            "next": {"state": self.next.state, "when": to_text(when) if when else None, "why": self.next.why},
        }


def standings(store: FileStore, now: datetime, sessions: list[str] | None = None) -> list[Standing]:
    """Of these sessions, or of all that stand in their place."""
    used = usage(store, sessions)
    if sessions is not None:
        return [_live(store, name, used[name], now) for name in used]
    return [standing for _, standing in each_there(used, lambda name: _live(store, name, used[name], now))]


def _live(store: FileStore, name: str, used: Usage, now: datetime) -> Standing:
    times, marks = times_of(store, name), Marks(created=used.created)
    state = state_of(used.last_used, now, marks, times)
    return Standing(name, state, used.last_used, next_step(used.last_used, now, marks, times))


def standings_away(store: FileStore, now: datetime) -> list[Standing]:
    """Of those that are archived or deleted."""
    shelf, times = Shelf(store), times_of(store)
    return [
        Standing(away.session, away.state, None, next_step(None, now, marks_of(away, now), times), away)
        for away in (*shelf.archived(), *shelf.deleted())
    ]


def due_to_archive(store: FileStore, now: datetime, evidence: Evidence = NO_EVIDENCE) -> list[Standing]:
    """The sessions that maintenance may archive now."""
    found = []
    times = usage(store)
    for name, right in each_there(times, lambda name: store.session(name).settings_are_right()):
        used = times[name]
        if not right:
            continue  # nobody knows whether it may be archived
        step = due_step(used.last_used, now, Marks(created=used.created), times_of(store, name), evidence)
        if step is not None and step.state == ARCHIVED:
            found.append(Standing(name, ARCHIVED, used.last_used, step))
    return found


def times_of(store: FileStore, session: str | None = None) -> Times:
    config = store.config if session is None else store.session(session).usable_config()
    return Times.of(config.section("lifecycle"))


def marks_of(away: Away, now: datetime) -> Marks:
    """What was done to a session that is put away. If nobody knows when, it was now: nothing becomes due by that."""
    when = away.when or now
    if away.state == ARCHIVED:
        return Marks(archived=when)
    announced, passed = away.said.get("purge_announced"), away.said.get("passed_seconds")
    return Marks(
        deleted=when,
        purge_announced=to_moment(announced) if isinstance(announced, str) else None,
        announced_passed=timedelta(seconds=passed) if isinstance(passed, (int, float)) else None,
    )
