"""Who took part, and with what? Everyone who wrote a memory, the busiest first, in the manner of design 003 §2.3.

The designs name the file `agents.yaml` and show no content. It has what their session head says of an agent
(`message_count`, `last_active`) and what their topic index says of a topic (`related_memories`). An agent's state is the
agent's own, whoever wrote it; any other memory is its author's. What nobody signed, and what `user` signed, is the user's of the session.
"""

from __future__ import annotations

from collections import Counter

from smp_memory.overview.items import (
    OverviewItem,
    head,
    overview_items,
    refs_by_type,
    related_memories,
    same_topic,
    text_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem

_MOST_TOPICS = 10


class Participant:
    """One who took part: a user, an agent, a tool or the system."""

    __slots__ = ("first", "ids", "kind", "last", "memories", "messages", "name", "topics")

    def __init__(self, name: str, seen: list[OverviewItem]) -> None:
        self.name = name
        self.kind = _most_frequent([each.agent_kind for each in seen], 1)[0]
        self.memories = len(seen)
        self.messages = sum(each.type == "conversation" for each in seen)
        self.first: datetime = seen[0].created
        self.last: datetime = max(each.updated if each.type == "agent_state" else each.created for each in seen)
        self.ids = refs_by_type(seen)
        self.topics = _most_frequent([name for each in seen for name in each.topics], _MOST_TOPICS)

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


class Participants:
    """Those who took part, the busiest first; `agents["veritas"]` is one of them."""

    __slots__ = ("_by_name", "_head", "problems")

    def __init__(self, agents: Iterable[Participant], head: dict[str, Any]) -> None:
        self.problems: list[Problem] = []  # entries that could not be read
        self._by_name = {agent.name: agent for agent in agents}
        self._head = head

    def __iter__(self) -> Iterator[Participant]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Participant:
        return self._by_name[name]

    def to_dict(self) -> dict[str, Any]:
        return {"agent_index": {**self._head, "agents": {agent.name: agent.to_dict() for agent in self}}}

    def __repr__(self) -> str:
        return f"Agents({[agent.name for agent in self]})"


def agents(
    records: Iterable[Record], *, across_sessions: bool | None = None, users: Mapping[str, str] | None = None
) -> Participants:
    """Who wrote these memories; `users`: the users of sessions, by session. Across several sessions ids are `session/ID`."""
    return agents_of(overview_items(records, across_sessions, users))


def agents_of(seen: list[OverviewItem]) -> Participants:
    by_name: dict[str, list[OverviewItem]] = {}
    for each in seen:
        by_name.setdefault(each.agent, []).append(each)
    found = [Participant(name, own) for name, own in by_name.items()]
    return Participants(sorted(found, key=lambda agent: (-agent.memories, agent.name)), head(seen))


def _most_frequent(words: list[str], most: int) -> list[str]:
    """The most frequent words, in any capitals; of equally frequent ones the first in the alphabet."""
    counts = Counter(map(same_topic, words))
    spelled = {same_topic(word): word for word in reversed(words)}
    return [spelled[key] for key in sorted(counts, key=lambda key: (-counts[key], key))[:most]]
