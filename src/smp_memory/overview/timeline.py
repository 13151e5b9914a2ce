"""What happened when? Memories as events, oldest first, and by hour or day, in the shape of design 003 §2.3.2.

An event stands at the time at which its memory was created; changes of a memory are in its `history`.
"""

from __future__ import annotations

from datetime import datetime

from smp_memory.errors import InvalidQuery, InvalidRecord
from smp_memory.model.times import parse, to_moment, to_text
from smp_memory.overview.items import OverviewItem, head, overview_items, text_of, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem

_LENGTHS = {"hour": len("2026-01-11T14"), "day": len("2026-01-11")}
_AUTHOR_NAMES = {"decision": "made_by", "finding": "discovered_by"}


class TimelineEvent:
    """One memory on the line of time."""

    __slots__ = ("author", "id", "record", "severity", "time", "topics", "type")

    def __init__(self, seen: OverviewItem) -> None:
        self.time = seen.created
        self.type = seen.type
        self.id = seen.ref
        self.author = seen.author
        self.severity = word(getattr(seen.record, "severity", None)) or None
        self.topics = seen.topics
        self.record = seen.record

    @property
    def text(self) -> str:
        return self.record.text

    def to_dict(self) -> dict[str, Any]:
        is_turn = self.type == "conversation"
        event: dict[str, Any] = {
            "timestamp": to_text(self.time),
            "type": "conversation_turn" if is_turn else self.type,
            "ref": self.id,
        }
        if is_turn:
            event["participants"] = [self.author]
        else:
            event[_AUTHOR_NAMES.get(self.type, "author")] = self.author
        if self.severity:
            event["severity"] = self.severity
        return {**event, "topics": list(self.topics)}

    def __repr__(self) -> str:
        return f"Event({to_text(self.time)} {self.id}: {self.text[:60]!r})"


class Timeline:
    """The events, oldest first; `buckets` has their ids by hour (`2026-01-11T14:00`) or day (`2026-01-11`)."""

    __slots__ = ("_head", "buckets", "by", "events", "problems")

    def __init__(self, seen: list[OverviewItem], by: str) -> None:
        self.problems: list[Problem] = []  # entries that could not be read
        self.by = by
        self.events = [TimelineEvent(each) for each in seen]
        self.buckets: dict[str, list[str]] = {}
        for event in self.events:
            self.buckets.setdefault(_bucket(event.time, by), []).append(event.id)
        self._head = head(seen)

    def __iter__(self) -> Iterator[TimelineEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def to_dict(self) -> dict[str, Any]:
        buckets = {name: {"event_count": len(ids), "event_refs": list(ids)} for name, ids in self.buckets.items()}
        return {"timeline_index": {**self._head, "events": [event.to_dict() for event in self], "buckets": buckets}}

    def __repr__(self) -> str:
        span = f"{text_of(self.events[0].time)} to {text_of(self.events[-1].time)}" if self.events else "empty"
        return f"Timeline({len(self)} events, {span})"


def timeline(
    records: Iterable[Record],
    *,
    by: str = "hour",
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    across_sessions: bool | None = None,
    users: Mapping[str, str] | None = None,
) -> Timeline:
    """What happened from `since` on and before `until`, by hour or by day. Across several sessions ids are `session/ID`."""
    if by not in _LENGTHS:
        raise InvalidQuery(f"by: {by!r} is not one of {', '.join(_LENGTHS)}.", field="by")
    start, end = _moment(since, "since"), _moment(until, "until")
    seen = overview_items(records, across_sessions, users)
    return timeline_of([each for each in seen if _is_between(each.created, start, end)], by)


def timeline_of(seen: list[OverviewItem], by: str = "hour") -> Timeline:
    return Timeline(seen, by)


def _moment(asked: datetime | str | None, field: str) -> datetime | None:
    try:
        return None if asked is None else to_moment(parse(asked, field))
    except InvalidRecord as error:
        raise InvalidQuery(error.message, field=field) from None


def _is_between(moment: datetime, start: datetime | None, end: datetime | None) -> bool:
    return (start is None or moment >= start) and (end is None or moment < end)


def _bucket(moment: datetime, by: str) -> str:
    name = to_text(moment)[: _LENGTHS[by]]
    return f"{name}:00" if by == "hour" else name
