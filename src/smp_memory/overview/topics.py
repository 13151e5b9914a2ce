"""Items of overviews (author, time and topics of a memory as plain text), and topics by weight, in the shape of design 003.

Items: nothing raises, whatever the fields hold. Deleted memories are left out. Long text is put on one line and cut with
an ellipsis; small values are kept as they are. The same memories give the same items in whatever order they come.

A memory mentions its `topic`, its tags, the domains that it applies to (`applies_to.domains`), and their parents:
`security.login` mentions `security`, too. A turn also mentions a topic whose words are in its text, and the topics of the memories that
it refers to or that refer to it (`turn_ref`). Spellings that differ in case are one topic, under the most frequent spelling.

Weight, 0 to 1: each mention counts the worth of its memory, which is its priority if a function for it is given, else
its importance, 0.5 without one. With `worth` the sum of that,

    weight = log(1 + worth) / log(1 + the greatest worth of any topic)

so the topic of greatest weight has 1.0, and one with a tenth of its mentions is still well above 0.

Subtopics: the topics one dot below; and those that are mentioned less often than this one, at least twice together with
it, and with it in two of three cases. By weight.
Non-guarantees: of a memory with very many tags only the most frequent ones count as mentioned together.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import combinations
from math import fsum, log1p
from typing import TYPE_CHECKING, Generic, TypeVar

from smp_memory.model import ids
from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import Any, Protocol

    from smp_memory.model.record import Record

    class Named(Protocol):
        name: str

    from smp_memory.model.reports import Problem

    Priority = Callable[[Record], float]

VERSION = 1  # of the overviews' format
USER = "user"
_DEFAULT_IMPORTANCE = 0.5
_MAX_TAG = 64
_AUTHOR_KINDS = ("user", "agent", "system", "tool")


class OverviewItem:
    """One memory in an overview."""

    __slots__ = ("author", "created", "record", "ref", "topics", "updated")

    def __init__(self, record: Record, ref: str, created: datetime, user: str = "") -> None:
        self.record = record
        self.ref = ref  # its id, or `session/ID` in an overview of several sessions
        self.created = created
        self.updated = record.updated
        self.author = word(record.author) or USER
        if user and self.author == USER and record.author_kind == USER:
            self.author = user  # the user of its session
        self.topics = list(_topics_of(record))  # its topic first, then its tags, as written

    @property
    def type(self) -> str:
        return self.record.type

    @property
    def agent(self) -> str:
        """The agent that a state belongs to; for other types the author."""
        named = word(getattr(self.record, "agent", None)) if KINDS[self.type].is_named_by_agent else ""
        return named or self.author

    @property
    def agent_kind(self) -> str:
        """The kind of the one that `agent` names."""
        kind = self.record.author_kind
        return kind if kind in _AUTHOR_KINDS and not KINDS[self.type].is_named_by_agent else "agent"

    def worth(self, priority: Priority | None) -> float:
        """Its weight from 0 to 1: the priority if a function for it is given, else the importance."""
        value = priority(self.record) if priority is not None else self.record.given.get("importance")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return _DEFAULT_IMPORTANCE
        return float(min(1.0, max(0.0, value)))


def overview_items(
    records: Iterable[Record], across_sessions: bool | None = None, users: Mapping[str, str] | None = None
) -> list[OverviewItem]:
    """The items of memories that are not deleted, oldest first. `across_sessions` None: whether there are several sessions.

    users   names of users by session; they replace the author `user`, or a missing author, in that session.
    """
    names = users or {}
    ordered = sorted(((record.created, record) for record in records if not record.deleted), key=_order)
    if across_sessions is None:
        across_sessions = len({record.session for _, record in ordered}) > 1
    return [
        OverviewItem(record, record.ref if across_sessions else record.id, created, word(names.get(record.session)))
        for created, record in ordered
    ]


def _order(item: tuple[datetime, Record]) -> tuple[datetime, str, int, str]:
    created, record = item
    return created, record.session, record.seq, record.id


def word(value: Any) -> str:
    """The value if it is text, else an empty text."""
    return value if isinstance(value, str) and value.strip() else ""


def _topics_of(record: Record) -> Iterator[str]:
    applies = record.given.get("applies_to")
    domains = applies.get("domains") if isinstance(applies, dict) else None
    names = [record.topic, *record.tags, *(domains if isinstance(domains, list) else ())]
    keys = set()
    for name in filter(None, map(word, names)):
        if topic_key(name) not in keys:
            keys.add(topic_key(name))
            yield name


def topic_key(name: str) -> str:
    """The key of a topic: case is ignored, as in queries."""
    return name.casefold()


def topics_above(name: str) -> list[str]:
    """The parent topics: `a` and `a.b` for `a.b.c`; none for a sentence that contains a dot."""
    parts = name.split(".")
    if len(parts) == 1 or len(name) > _MAX_TAG or not all(parts) or len(name.split()) > 1:
        return []
    return [".".join(parts[:count]) for count in range(1, len(parts))]


# -- formats that all overviews share


def header(items: Iterable[OverviewItem]) -> dict[str, Any]:
    """The header: format version, and the last change of these memories."""
    return {"version": VERSION, "last_updated": text_of(max((each.updated for each in items), default=None))}


def text_of(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)


def plural(type: str) -> str:
    """The plural of a type: `turns`, `decisions`."""
    return KINDS[type].plural


def refs_by_type(items: Iterable[OverviewItem]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in items:
        found.setdefault(each.type, []).append(each.ref)
    return {type: found[type] for type in KINDS if type in found}


def related_memories(ids: dict[str, list[str]]) -> dict[str, list[str]]:
    return {plural(type): list(refs) for type, refs in ids.items()}


_MAX_LINE = 200
_MAX_VALUE = 400
_MAX_DEPTH = 8


def brief(text: str, longest: int = _MAX_LINE) -> str:
    """A text on one line, shortened if it is long."""
    line = " ".join(text[: longest * 4].split())
    return line if len(line) <= longest and len(text) <= longest * 4 else line[: longest - 1] + "…"


def small(value: Any) -> Any:
    """A small value unchanged, a large one as the beginning of its JSON text."""
    if not _is_flat(value, _MAX_DEPTH):
        return "…"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _MAX_VALUE else brief(text, _MAX_VALUE)


def _is_flat(value: Any, levels: int) -> bool:
    """Whether a value is nested at most `levels` deep."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_flat(each, levels - 1) for each in inner)


# -- topics

_WORD = re.compile(r"[^\W_]+")
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


T = TypeVar("T", bound="Named")


class NamedItems(Generic[T]):
    """Items by their names."""

    def __init__(self, items: Iterable[T], header: dict[str, Any], key: Callable[[str], str] = str) -> None:
        self.problems: list[Problem] = []  # entries that could not be read
        self.header = header
        self._key = key
        self._by_key = {key(item.name): item for item in items}

    def __iter__(self) -> Iterator[T]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._key(name) in self._by_key

    def __getitem__(self, name: str) -> T:
        return self._by_key[self._key(name)]


class Topics(NamedItems[Topic]):
    """The topics by weight; `topics["auth"]` is one of them, case ignored."""

    def to_dict(self) -> dict[str, Any]:
        return {"topic_index": {**self.header, "topics": {topic.name: topic.to_dict() for topic in self}}}

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
    return Topics(found, header(items), topic_key)


class _Mentions:
    """All mentions of one topic."""

    __slots__ = ("_seen", "_spellings", "_worths", "items", "key", "name", "worth")

    def __init__(self, key: str) -> None:
        self.key = key
        self.items: list[OverviewItem] = []
        self._seen: set[int] = set()
        self._spellings: Counter[str] = Counter()
        self._worths: list[float] = []

    def add(self, item: OverviewItem, spelling: str, worth: float) -> None:
        self.items.append(item)
        self._seen.add(id(item))
        self._spellings[spelling] += 1
        self._worths.append(worth)

    def add_turn(self, item: OverviewItem, worth: float) -> None:
        if id(item) not in self._seen:
            self.items.append(item)
            self.worth += worth

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
    _add_turns(items, found, priority)
    return found


def _add_turns(items: list[OverviewItem], found: dict[str, _Mentions], priority: Priority | None) -> None:
    """Add the turns that are about a topic without naming it in their fields."""
    by_word: dict[str, list[tuple[str, set[str]]]] = {}  # topics by their first word, with all their words
    keys_of: dict[tuple[str, str], list[str]] = {}  # topics by session and id of a memory
    for key, mention in found.items():
        words = _WORD.findall(key)
        by_word.setdefault(words[0] if words else "", []).append((key, set(words)))
        for item in mention.items:
            for name in (item.record.id, _turn_id(item.record.given.get("turn_ref"))):
                keys_of.setdefault((item.record.session, name), []).append(key)
    for turn in items:
        if not KINDS[turn.type].is_turn:
            continue
        words_said = set(_WORD.findall(turn.record.text.casefold()))
        said = [key for word in words_said for key, words in by_word.get(word, ()) if words <= words_said]
        for name in (turn.record.id, *filter(word, turn.record.references)):
            said += keys_of.get((turn.record.session, name), [])
        for key in sorted(set(said)):
            found[key].add_turn(turn, turn.worth(priority))
    order = {id(item): place for place, item in enumerate(items)}
    for mention in found.values():
        mention.items.sort(key=lambda item: order[id(item)])


def _turn_id(reference: Any) -> str:
    return ids.numbered("TURN", reference) if type(reference) is int else word(reference)


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
