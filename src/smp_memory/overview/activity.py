"""Activity overviews: the timeline of memories, and the participants who wrote them.

Timeline, in the shape of design 003: memories as events, oldest first, and their ids by hour or day. An event has the
time at which its memory was created; changes of a memory are in its `history`.

Participants: everyone who wrote a memory. The designs name the file `agents.yaml` and show no content; it has what
their session metadata has of an agent (`message_count`, `last_active`) and what their topic index has of a topic
(`related_memories`). An agent's state belongs to the agent, whoever wrote it; any other memory to its author. A
memory without an author, or by `user`, belongs to the session's user.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from smp_memory.errors import InvalidQuery, InvalidRecord
from smp_memory.model.times import parse, to_moment, to_text
from smp_memory.model.types import KINDS
from smp_memory.overview.topics import (
    NamedItems,
    OverviewItem,
    header,
    overview_items,
    refs_by_type,
    related_memories,
    text_of,
    topic_key,
    word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem

_BUCKET_LENGTHS = {"hour": len("2026-01-11T14"), "day": len("2026-01-11")}


class TimelineEvent:
    """One memory as an event, at the time when it was created."""

    __slots__ = ("author", "id", "record", "severity", "time", "topics", "type")

    def __init__(self, item: OverviewItem) -> None:
        self.time = item.created
        self.type = item.type
        self.id = item.ref
        self.author = item.author
        self.severity = word(getattr(item.record, "severity", None)) or None
        self.topics = item.topics
        self.record = item.record

    @property
    def text(self) -> str:
        return self.record.text

    def to_dict(self) -> dict[str, Any]:
        kind = KINDS[self.type]
        event: dict[str, Any] = {
            "timestamp": to_text(self.time),
            "type": "conversation_turn" if kind.is_turn else self.type,
            "ref": self.id,
        }
        if kind.is_turn:
            event["participants"] = [self.author]
        else:
            event[kind.author_name] = self.author
        if self.severity:
            event["severity"] = self.severity
        return {**event, "topics": list(self.topics)}

    def __repr__(self) -> str:
        return f"Event({to_text(self.time)} {self.id}: {self.text[:60]!r})"


class Timeline:
    """The events, oldest first; `buckets` has their ids by hour (`2026-01-11T14:00`) or day (`2026-01-11`)."""

    __slots__ = ("_header", "buckets", "by", "events", "problems")

    def __init__(self, items: list[OverviewItem], by: str) -> None:
        self.problems: list[Problem] = []  # entries that could not be read
        self.by = by
        self.events = [TimelineEvent(each) for each in items]
        self.buckets: dict[str, list[str]] = {}
        for event in self.events:
            self.buckets.setdefault(_bucket(event.time, by), []).append(event.id)
        self._header = header(items)

    def __iter__(self) -> Iterator[TimelineEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def to_dict(self) -> dict[str, Any]:
        buckets = {name: {"event_count": len(ids), "event_refs": list(ids)} for name, ids in self.buckets.items()}
        return {"timeline_index": {**self._header, "events": [event.to_dict() for event in self], "buckets": buckets}}

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
    """Events from `since` until before `until`, with ids by hour or by day. Across several sessions ids are `session/ID`."""
    if by not in _BUCKET_LENGTHS:
        raise InvalidQuery(f"by: {by!r} is not one of {', '.join(_BUCKET_LENGTHS)}.", field="by")
    start, end = _moment(since, "since"), _moment(until, "until")
    items = overview_items(records, across_sessions, users)
    return timeline_of([each for each in items if _is_between(each.created, start, end)], by)


def timeline_of(items: list[OverviewItem], by: str = "hour") -> Timeline:
    return Timeline(items, by)


def _moment(value: datetime | str | None, field: str) -> datetime | None:
    try:
        return None if value is None else to_moment(parse(value, field))
    except InvalidRecord as error:
        raise InvalidQuery(error.message, field=field) from None


def _is_between(moment: datetime, start: datetime | None, end: datetime | None) -> bool:
    return (start is None or moment >= start) and (end is None or moment < end)


def _bucket(moment: datetime, by: str) -> str:
    name = to_text(moment)[: _BUCKET_LENGTHS[by]]
    return f"{name}:00" if by == "hour" else name


# -- participants

_MAX_TOPICS = 10


class Participant:
    """An author of memories: a user, an agent, a tool or the system."""

    __slots__ = ("first", "ids", "kind", "last", "memories", "messages", "name", "topics")

    def __init__(self, name: str, items: list[OverviewItem]) -> None:
        self.name = name
        self.kind = _most_frequent([each.agent_kind for each in items], 1)[0]
        self.memories = len(items)
        self.messages = sum(KINDS[each.type].is_turn for each in items)
        self.first: datetime = items[0].created
        self.last: datetime = max(
            each.updated if KINDS[each.type].is_named_by_agent else each.created for each in items
        )
        self.ids = refs_by_type(items)
        self.topics = _most_frequent([name for each in items for name in each.topics], _MAX_TOPICS)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "message_count": self.messages,
            "memory_count": self.memories,
            "first_active": text_of(self.first),
            "last_active": text_of(self.last),
            "related_memories": related_memories(self.ids),
            "topics": list(self.topics),
        }

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, {self.kind}, {self.memories} memories)"


class Participants(NamedItems[Participant]):
    """All participants, the one with most memories first; `agents["veritas"]` is one of them."""

    def to_dict(self) -> dict[str, Any]:
        return {"agent_index": {**self.header, "agents": {agent.name: agent.to_dict() for agent in self}}}

    def __repr__(self) -> str:
        return f"Agents({[agent.name for agent in self]})"


def agents(
    records: Iterable[Record], *, across_sessions: bool | None = None, users: Mapping[str, str] | None = None
) -> Participants:
    """The participants of these memories. `users`: names of users by session. Across several sessions ids are `session/ID`."""
    return agents_of(overview_items(records, across_sessions, users))


def agents_of(items: list[OverviewItem]) -> Participants:
    by_name: dict[str, list[OverviewItem]] = {}
    for each in items:
        by_name.setdefault(each.agent, []).append(each)
    found = [Participant(name, written) for name, written in by_name.items()]
    return Participants(sorted(found, key=lambda agent: (-agent.memories, agent.name)), header(items))


def _most_frequent(words: list[str], most: int) -> list[str]:
    """The most frequent words, case ignored; of equally frequent ones in alphabetical order."""
    counts = Counter(map(topic_key, words))
    spelled = {topic_key(word): word for word in reversed(words)}
    return [spelled[key] for key in sorted(counts, key=lambda key: (-counts[key], key))[:most]]
