"""Store a memory unless the session has the same one from the last hour.

Models repeat calls: after a timeout, after their context was cut, or because two of them run in parallel. A memory is a duplicate
if it has the type and exactly the fields of one that is at most `FRESH_HOURS` old and was neither changed nor deleted. The newest
`COMPARED` memories of the type are compared, so a large session is not read for it. Identical calls of one server store one memory.
Turns are never duplicates: people say "yes" twice. A preference with a key and an agent's state replace what was there anyway.
Non-guarantee: identical calls of two processes at the same moment may both be stored.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from smp.write.batch import Add

if TYPE_CHECKING:
    from collections.abc import Iterator

    from smp.agents.agent_memory import AgentMemory
    from smp.model.record import Record
    from smp.model.types import Kind
    from smp.write.batch import Work
    from smp.write.validate import Draft

FRESH_HOURS = 1
COMPARED = 50
_NOT_COMPARED = ("access",)  # counts of use
ADDED, UPDATED, KNOWN = "added", "updated", "known already"


class AddWithOutcome(Add):
    """A new memory; `outcome` says whether it was added, or a known one was updated or left as it is."""

    outcome = ADDED

    def _is_known(self, work: Work) -> bool:
        entries = len(work.entries)
        known = super()._is_known(work)
        self.outcome = ADDED if not known else UPDATED if len(work.entries) > entries else KNOWN
        return known

    @property
    def is_compared(self) -> bool:
        """Whether an equal memory makes this one a duplicate."""
        return not (self.needs_trails or self.draft.created or self.draft.kind.name == "conversation")


def add_once(agent: AgentMemory, kind: Kind, fields: dict[str, Any]) -> tuple[Record, str]:
    """The stored memory, and whether it was added, updated or known."""
    drafted: Any = agent._addition(kind, fields)
    wish = AddWithOutcome(drafted.draft)
    wish.removals, wish.warnings = drafted.removals, drafted.warnings
    if not wish.is_compared:
        return agent._do(wish, kind.adding), wish.outcome
    agent._check(wish)
    with _alone((agent._session.folder, kind.name, repr(wish.draft.data))):
        known = _duplicate(agent, wish.draft)
        if known is not None:
            return known, KNOWN
        return agent._do(wish, kind.adding), ADDED


def _duplicate(agent: AgentMemory, draft: Draft) -> Record | None:
    """A fresh memory with the same fields that the agent may see."""
    session = agent._session
    oldest = session.memory.now() - timedelta(hours=FRESH_HOURS)
    for record in reversed(session.records(draft.kind.name, last=COMPARED)):
        is_equal = record.created >= oldest and _compared(record.given) == _compared(draft.data)
        if is_equal and agent._viewer.sees(record):
            return record
    return None


def _compared(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _NOT_COMPARED}


_guard = threading.Lock()
_under_way: dict[tuple[str, ...], tuple[threading.Lock, int]] = {}  # a lock for each content, and how many want it


@contextmanager
def _alone(content: tuple[str, ...]) -> Iterator[None]:
    """Let identical calls of this process follow each other; different ones do not wait."""
    with _guard:
        lock, wanted = _under_way.get(content, (threading.Lock(), 0))
        _under_way[content] = lock, wanted + 1
    try:
        with lock:
            yield
    finally:
        with _guard:
            lock, wanted = _under_way[content]
            if wanted == 1:
                del _under_way[content]
            else:
                _under_way[content] = lock, wanted - 1
