"""What is it about? The topics of some memories, the weightiest first, in the shape of design 003 §2.3.1.

A memory mentions its `topic`, its tags, and what stands above them: `security.login` is about `security`, too. So a
topic's memories are those that `by_topic` finds. Spellings that differ in capitals are one topic, under the most
frequent spelling.

Weight, 0 to 1: each mention counts what its memory is worth, which is its priority if a way to tell is handed in, else
its importance, 0.5 where none is said. With `worth` the sum of that,

    weight = log(1 + worth) / log(1 + the greatest worth of any topic)

so the weightiest topic has 1.0, and one with a tenth of its mentions is still well above 0.

Subtopics: the topics one dot below; and those that are mentioned less often than this one, at least twice together with
it, and with it in two of three cases. Weightiest first.
Non-guarantees: of a memory with very many tags only the most frequent ones count as being together.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import fsum, log1p

from smp_memory.overview.items import (
    OverviewItem,
    head,
    overview_items,
    refs_by_type,
    related_memories,
    same_topic,
    text_of,
    topics_above,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem
    from smp_memory.overview.items import Priority

_MOST_TOGETHER = 16  # of one memory's topics; a hundred tags would make five thousand pairs
_LEAST_TOGETHER = 2


class Topic:
    """One topic: how often, how weighty, from when to when, in which memories, and what belongs to it."""

    __slots__ = ("first", "ids", "last", "mentions", "name", "subtopics", "weight")

    def __init__(self, name: str, weight: float, seen: list[OverviewItem], subtopics: list[str]) -> None:
        self.name = name
        self.weight = weight
        self.mentions = len(seen)
        self.first: datetime = seen[0].created
        self.last: datetime = seen[-1].created
        self.ids = refs_by_type(seen)
        self.subtopics = subtopics

    def to_dict(self) -> dict[str, Any]:
        return {
            "weight": round(self.weight, 2),
            "mentions": self.mentions,
            "first_mentioned": text_of(self.first),
            "last_mentioned": text_of(self.last),
            "related_memories": related_memories(self.ids),
            "subtopics": list(self.subtopics),
        }

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, weight {self.weight:.2f}, {self.mentions} mentions)"


class Topics:
    """The topics, the weightiest first; `topics["auth"]` is one of them, in whatever capitals."""

    __slots__ = ("_by_name", "_head", "problems")

    def __init__(self, topics: Iterable[Topic], head: dict[str, Any]) -> None:
        self.problems: list[Problem] = []  # entries that could not be read
        self._by_name = {same_topic(topic.name): topic for topic in topics}
        self._head = head

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and same_topic(name) in self._by_name

    def __getitem__(self, name: str) -> Topic:
        return self._by_name[same_topic(name)]

    def to_dict(self) -> dict[str, Any]:
        return {"topic_index": {**self._head, "topics": {topic.name: topic.to_dict() for topic in self}}}

    def __repr__(self) -> str:
        return f"Topics({[topic.name for topic in self]})"


def topics(
    records: Iterable[Record], *, priority: Priority | None = None, across_sessions: bool | None = None
) -> Topics:
    """The topics of these memories. Across several sessions ids are `session/ID`."""
    return topics_of(overview_items(records, across_sessions), priority)


def topics_of(seen: list[OverviewItem], priority: Priority | None = None) -> Topics:
    mentions = _mentions(seen, priority)
    greatest = max((mention.worth for mention in mentions.values()), default=0.0)
    ranked = sorted(mentions.values(), key=_weightiest_first)
    below = _subtopics(mentions, [mention.key for mention in ranked])
    found = [
        Topic(
            mention.name,
            _weight(mention.worth, greatest),
            mention.seen,
            [mentions[key].name for key in below[mention.key]],
        )
        for mention in ranked
    ]
    return Topics(found, head(seen))


class _Mentions:
    """All mentions of one topic."""

    __slots__ = ("_spellings", "_worths", "key", "name", "seen", "worth")

    def __init__(self, key: str) -> None:
        self.key = key
        self.seen: list[OverviewItem] = []
        self._spellings: Counter[str] = Counter()
        self._worths: list[float] = []

    def add(self, seen: OverviewItem, spelling: str, worth: float) -> None:
        self.seen.append(seen)
        self._spellings[spelling] += 1
        self._worths.append(worth)

    def add_up(self) -> None:
        self.name = min(self._spellings, key=lambda spelling: (-self._spellings[spelling], spelling))
        self.worth = fsum(self._worths)


def _mentions(seen: list[OverviewItem], priority: Priority | None) -> dict[str, _Mentions]:
    found: dict[str, _Mentions] = {}
    for each in seen:
        worth = each.worth(priority) if each.topics else 0.0
        for key, spelling in _mentioned(each).items():
            if key not in found:
                found[key] = _Mentions(key)
            found[key].add(each, spelling, worth)
    for mention in found.values():
        mention.add_up()
    return found


def _mentioned(seen: OverviewItem) -> dict[str, str]:
    """The topics of a memory and those above them; what it says itself decides the spelling."""
    said = {same_topic(name): name for name in seen.topics}
    above = {same_topic(name): name for topic in seen.topics for name in topics_above(topic)}
    return {**above, **said}


def _weight(worth: float, greatest: float) -> float:
    return round(log1p(worth) / log1p(greatest), 4) if greatest > 0 else 0.0


def _weightiest_first(mention: _Mentions) -> tuple[float, int, str]:
    return -mention.worth, -len(mention.seen), mention.key


def _subtopics(mentions: dict[str, _Mentions], ranked: list[str]) -> dict[str, list[str]]:
    """For each topic the keys of those that belong to it, in the order given."""
    found: dict[str, set[str]] = {key: set() for key in mentions}
    for key in mentions:
        for parent in topics_above(key)[-1:]:
            found[parent].add(key)
    for (more, less), together in _together(mentions).items():
        if _belongs(len(mentions[more].seen), len(mentions[less].seen), together) and not _in_line(more, less):
            found[more].add(less)
    rank = {key: place for place, key in enumerate(ranked)}
    return {key: sorted(below, key=rank.__getitem__) for key, below in found.items()}


def _together(mentions: dict[str, _Mentions]) -> Counter[tuple[str, str]]:
    """How often two topics stand in one memory, the one with more mentions first."""
    groups: dict[int, list[str]] = {}
    for key in sorted(mentions, key=lambda key: (-len(mentions[key].seen), key)):
        if len(mentions[key].seen) >= _LEAST_TOGETHER:
            for seen in mentions[key].seen:
                groups.setdefault(id(seen), []).append(key)
    return Counter(pair for keys in groups.values() for pair in combinations(keys[:_MOST_TOGETHER], 2))


def _belongs(more: int, less: int, together: int) -> bool:
    return more > less and together >= _LEAST_TOGETHER and 3 * together >= 2 * less


def _in_line(key: str, other: str) -> bool:
    """Whether one stands above the other; dots have said all about them."""
    return key in topics_above(other) or other in topics_above(key)
