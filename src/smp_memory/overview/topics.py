"""Topics of memories, by weight, in the shape of design 003.

A memory mentions its `topic`, its tags, and their parents: `security.login` mentions `security`, too. So a topic's
memories are those that `by_topic` finds. Spellings that differ in case are one topic, under the most frequent
spelling.

Weight, 0 to 1: each mention counts the worth of its memory, which is its priority if a function for it is given, else
its importance, 0.5 without one. With `worth` the sum of that,

    weight = log(1 + worth) / log(1 + the greatest worth of any topic)

so the topic of greatest weight has 1.0, and one with a tenth of its mentions is still well above 0.

Subtopics: the topics one dot below; and those that are mentioned less often than this one, at least twice together with
it, and with it in two of three cases. By weight.
Non-guarantees: of a memory with very many tags only the most frequent ones count as mentioned together.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import fsum, log1p

from smp_memory.overview.items import (
    OverviewItem,
    header,
    overview_items,
    refs_by_type,
    related_memories,
    text_of,
    topic_key,
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

_MAX_TOGETHER = 16  # of one memory's topics; a hundred tags would make five thousand pairs
_MIN_TOGETHER = 2


class Topic:
    """One topic: mentions, weight, first and last mention, memories, subtopics."""

    __slots__ = ("first", "ids", "last", "mentions", "name", "subtopics", "weight")

    def __init__(self, name: str, weight: float, items: list[OverviewItem], subtopics: list[str]) -> None:
        self.name = name
        self.weight = weight
        self.mentions = len(items)
        self.first: datetime = items[0].created
        self.last: datetime = items[-1].created
        self.ids = refs_by_type(items)
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
    """The topics by weight; `topics["auth"]` is one of them, case ignored."""

    __slots__ = ("_by_name", "_header", "problems")

    def __init__(self, topics: Iterable[Topic], header: dict[str, Any]) -> None:
        self.problems: list[Problem] = []  # entries that could not be read
        self._by_name = {topic_key(topic.name): topic for topic in topics}
        self._header = header

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and topic_key(name) in self._by_name

    def __getitem__(self, name: str) -> Topic:
        return self._by_name[topic_key(name)]

    def to_dict(self) -> dict[str, Any]:
        return {"topic_index": {**self._header, "topics": {topic.name: topic.to_dict() for topic in self}}}

    def __repr__(self) -> str:
        return f"Topics({[topic.name for topic in self]})"


def topics(
    records: Iterable[Record], *, priority: Priority | None = None, across_sessions: bool | None = None
) -> Topics:
    """The topics of these memories. Across several sessions ids are `session/ID`."""
    return topics_of(overview_items(records, across_sessions), priority)


def topics_of(items: list[OverviewItem], priority: Priority | None = None) -> Topics:
    mentions = _mentions(items, priority)
    greatest = max((mention.worth for mention in mentions.values()), default=0.0)
    ranked = sorted(mentions.values(), key=_by_weight)
    subtopics = _subtopics(mentions, [mention.key for mention in ranked])
    found = [
        Topic(
            mention.name,
            _weight(mention.worth, greatest),
            mention.items,
            [mentions[key].name for key in subtopics[mention.key]],
        )
        for mention in ranked
    ]
    return Topics(found, header(items))


class _Mentions:
    """All mentions of one topic."""

    __slots__ = ("_spellings", "_worths", "items", "key", "name", "worth")

    def __init__(self, key: str) -> None:
        self.key = key
        self.items: list[OverviewItem] = []
        self._spellings: Counter[str] = Counter()
        self._worths: list[float] = []

    def add(self, item: OverviewItem, spelling: str, worth: float) -> None:
        self.items.append(item)
        self._spellings[spelling] += 1
        self._worths.append(worth)

    def add_up(self) -> None:
        self.name = min(self._spellings, key=lambda spelling: (-self._spellings[spelling], spelling))
        self.worth = fsum(self._worths)


def _mentions(items: list[OverviewItem], priority: Priority | None) -> dict[str, _Mentions]:
    found: dict[str, _Mentions] = {}
    for each in items:
        worth = each.worth(priority) if each.topics else 0.0
        for key, spelling in _mentioned(each).items():
            if key not in found:
                found[key] = _Mentions(key)
            found[key].add(each, spelling, worth)
    for mention in found.values():
        mention.add_up()
    return found


def _mentioned(item: OverviewItem) -> dict[str, str]:
    """The topics of a memory and their parents; the memory's own spelling comes first."""
    own = {topic_key(name): name for name in item.topics}
    parents = {topic_key(name): name for topic in item.topics for name in topics_above(topic)}
    return {**parents, **own}


def _weight(worth: float, greatest: float) -> float:
    return round(log1p(worth) / log1p(greatest), 4) if greatest > 0 else 0.0


def _by_weight(mention: _Mentions) -> tuple[float, int, str]:
    return -mention.worth, -len(mention.items), mention.key


def _subtopics(mentions: dict[str, _Mentions], ranked: list[str]) -> dict[str, list[str]]:
    """The keys of each topic's subtopics, in the order of `ranked`."""
    found: dict[str, set[str]] = {key: set() for key in mentions}
    for key in mentions:
        for parent in topics_above(key)[-1:]:
            found[parent].add(key)
    for (more, less), together in _co_mentions(mentions).items():
        if _belongs(len(mentions[more].items), len(mentions[less].items), together) and not _are_nested(more, less):
            found[more].add(less)
    rank = {key: place for place, key in enumerate(ranked)}
    return {key: sorted(subtopics, key=rank.__getitem__) for key, subtopics in found.items()}


def _co_mentions(mentions: dict[str, _Mentions]) -> Counter[tuple[str, str]]:
    """The number of memories that mention both topics of a pair, the one with more mentions first."""
    groups: dict[int, list[str]] = {}
    for key in sorted(mentions, key=lambda key: (-len(mentions[key].items), key)):
        if len(mentions[key].items) >= _MIN_TOGETHER:
            for item in mentions[key].items:
                groups.setdefault(id(item), []).append(key)
    return Counter(pair for keys in groups.values() for pair in combinations(keys[:_MAX_TOGETHER], 2))


def _belongs(more: int, less: int, together: int) -> bool:
    return more > less and together >= _MIN_TOGETHER and 3 * together >= 2 * less


def _are_nested(key: str, other: str) -> bool:
    """Whether one is a parent of the other by its name, so that it is a subtopic already."""
    return key in topics_above(other) or other in topics_above(key)
