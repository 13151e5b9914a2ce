"""Inputs of a decay policy for memories in the index.

With `decay.related` memories decay together with those that they are related to, in either direction: for each the latest creation,
change and use among itself and these counts. Deleted memories and those that the viewer may not see count for nobody.
"""

from __future__ import annotations

from smp_memory.model.decay import DecayInputs
from smp_memory.model.types import NUMBERED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.index.rows import Row
    from smp_memory.model.decay import Policy
    from smp_memory.store.port import IndexSearcher

_NEVER_USED = (0, None)


def joint_searcher(policy: Policy, searcher: IndexSearcher) -> IndexSearcher | None:
    """What `decay_inputs` needs to look at related memories; None if each decays for itself."""
    return searcher if policy.is_joint else None


def decay_inputs(row: Row, accesses: dict[int, tuple[int, int]], joint: IndexSearcher | None = None) -> DecayInputs:
    """The inputs of a decay policy, from a memory's row and its accesses."""
    count, last = accesses.get(row.doc, _NEVER_USED)
    inputs = DecayInputs(
        NUMBERED[row.type],
        row.created,
        row.updated,
        row.importance,
        row.pinned is not None,
        row.status,
        row.severity,
        row.impact,
        row.confidence,
        row.approved is not None,
        count,
        last,
    )
    if joint is not None:
        _join(inputs, row, joint)
    return inputs


def _join(inputs: DecayInputs, row: Row, searcher: IndexSearcher) -> None:
    """Set the times to the latest among the memory and those that it is related to."""
    docs = list(searcher.related([searcher.ref(row.doc)], "", 1))
    accesses = searcher.accesses(docs)
    for each in searcher.rows(docs).values():
        if each.deleted is None:
            other = decay_inputs(each, accesses)
            inputs.created = max(inputs.created, other.created)
            inputs.updated = max(inputs.updated, other.updated)
            inputs.last_access = max(filter(None, (inputs.last_access, other.last_access)), default=None)
