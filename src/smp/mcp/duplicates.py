"""Store a memory unless the session has the same one from the last hour.

Models repeat calls: after a timeout, after their context was cut, or because two of them run in parallel. A memory is a duplicate
if it has the type and exactly the fields of one that is at most `FRESH_HOURS` old and was neither changed nor deleted. The check
runs under the session's lock, so identical calls of several threads or processes store one memory.
Turns are never duplicates: people say "yes" twice. A preference with a key and an agent's state replace what was there anyway.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from smp.errors import DuplicateId
from smp.model.time import to_moment
from smp.write.batch import Add

if TYPE_CHECKING:
    from smp.agents.agent_memory import AgentMemory
    from smp.model.fold import Trail
    from smp.model.record import Record
    from smp.model.types import Kind
    from smp.write.batch import Work
    from smp.write.validate import Draft

FRESH_HOURS = 1
_NOT_COMPARED = ("access",)  # counts of use
ADDED, UPDATED, KNOWN = "added", "updated", "known already"


class AddOnce(Add):
    """A new memory, unless a fresh one is exactly the same; `outcome` says which."""

    outcome = ADDED

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self._is_compared = not (
            self.replaces or self.key or draft.id or draft.created or draft.kind.name == "conversation"
        )
        self.needs_trails = True

    def _is_known(self, work: Work) -> bool:
        entries = len(work.entries)
        known = super()._is_known(work)
        if not known and self._is_compared:
            self.memory_id = self._duplicate_in(work)
            known = self.memory_id is not None
        self.outcome = ADDED if not known else UPDATED if len(work.entries) > entries else KNOWN
        return known

    def _duplicate_in(self, work: Work) -> str | None:
        """The id of a fresh memory with the same fields that the caller may see."""
        oldest = to_moment(work.now) - timedelta(hours=FRESH_HOURS)
        for trail in work.newest_of(self.draft.kind.name):
            if to_moment(trail.first.at) < oldest:
                return None
            if _fields(trail.data()) == _fields(self.draft.data) and self._may_know(work, trail):
                return trail.first.id
        return None

    def _may_know(self, work: Work, trail: Trail) -> bool:
        try:
            if self.rights is not None:
                self.rights._check_known(work.record(trail.first.id))
        except DuplicateId:
            return False
        return True


def _fields(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _NOT_COMPARED}


def add_once(agent: AgentMemory, kind: Kind, fields: dict[str, Any]) -> tuple[Record, str]:
    """The stored memory, and whether it was added, updated or known."""
    drafted: Any = agent._addition(kind, fields)
    wish = AddOnce(drafted.draft)
    wish.removals, wish.warnings = drafted.removals, drafted.warnings
    record: Record = agent._do(wish, kind.adding)
    return record, wish.outcome
