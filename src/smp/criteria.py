"""Which memories a deletion, restoration or erasure means, and how long ago a date is. Pure."""

from __future__ import annotations

from datetime import timedelta

from smp.errors import InvalidQuery, InvalidRecord
from smp.model.time import parse, to_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


def asked_for(id: Any, criteria: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Ids and criteria; both may be in one object, as in `delete({"ids": ["DEC-0001"]})` and `delete({"tags": ["old"]})`."""
    if hasattr(id, "keys") and not hasattr(id, "ref"):
        id, criteria = None, {**id, **criteria}
    if criteria.get("ids") is not None:
        if id is not None:
            raise InvalidQuery("ids: given twice, also as id.", field="ids")
        ids = criteria["ids"]
        id = [ids] if is_one(ids) else list(ids)
    return id, {name: value for name, value in criteria.items() if name != "ids"}


def age(older_than: Any, now: datetime) -> timedelta:
    """How long something must have been in the trash: a number of days, or since a date."""
    if isinstance(older_than, (int, float)) and not isinstance(older_than, bool):
        return timedelta(days=older_than)
    date = older_than.isoformat() if hasattr(older_than, "isoformat") else older_than
    since = now - to_moment(parse(date, "older_than"))
    if since < timedelta(0):
        raise InvalidRecord(
            "older_than: this date is in the future; give one that is past, or days.", field="older_than"
        )
    return since


def is_one(id: Any) -> bool:
    return id is not None and not isinstance(id, (list, tuple, set, frozenset))
