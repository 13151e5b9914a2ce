"""Which memories of the index do not hold at a time, by their `valid_from` and `valid_until`.

Few memories have such bounds, so they are in a table of their own and cost the others nothing.
"""

from __future__ import annotations

from smp_memory.index.query import NOT_VALID, RowSelection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from smp_memory.index.query import RowConditions
    from smp_memory.index.rows import Rows

_BOUNDS = "SELECT no, since, until FROM wanted CROSS JOIN validity ON doc = wanted.no"


def not_valid(rows: Rows, docs: Sequence[int], at: int, *, only_later: bool = False) -> set[int]:
    """Those of these memories that have expired or do not hold yet; or only the latter."""
    return {
        doc
        for doc, since, until in rows.of(_BOUNDS, docs)
        if (since is not None and since > at) or (not only_later and until is not None and until <= at)
    }


def all_not_valid(rows: Rows, conditions: RowConditions) -> set[int]:
    """All memories that meet the conditions but for `valid_at`."""
    at, conditions.valid_at = conditions.valid_at, None
    try:
        selection = RowSelection(rows, conditions)
    finally:
        conditions.valid_at = at
    sql = f"SELECT doc FROM validity WHERE {NOT_VALID} AND doc IN (SELECT doc FROM memory WHERE {selection.where})"
    return {doc for (doc,) in rows.all(sql, [at, at, *selection.values])}
