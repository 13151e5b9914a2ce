"""What does an overview see of a memory? Who, when, what about: plain texts, whatever a person typed into its file.

Guarantees: nothing here raises, whatever the fields hold. The same memories give the same list in whatever order they
come. Deleted memories are not seen.

How does something long fit on a line? Texts without line breaks, cut with an ellipsis; values as they are if small.
"""

from __future__ import annotations

import json

from smp_memory.model.times import to_text
from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from smp_memory.model.record import Record

    Priority = Callable[[Record], float]


VERSION = 1  # of the overviews' shapes
_USER = "user"
_UNSAID_IMPORTANCE = 0.5
_LONGEST_TAG = 64
_KINDS_OF_AUTHOR = ("user", "agent", "system", "tool")
_PLURALS = {"conversation": "turns", "summary": "summaries"}


class OverviewItem:
    """One memory as overviews see it."""

    __slots__ = ("author", "created", "record", "ref", "topics", "updated")

    def __init__(self, record: Record, ref: str, created: datetime, user: str = "") -> None:
        self.record = record
        self.ref = ref  # its id, or `session/ID` in an overview of several sessions
        self.created = created
        self.updated = record.updated
        self.author = word(record.author) or _USER
        if user and self.author == _USER and record.author_kind == _USER:
            self.author = user  # of its session
        self.topics = list(_said_topics(record))  # as it says them, its own topic first

    @property
    def type(self) -> str:
        return self.record.type

    @property
    def agent(self) -> str:
        """Whose memory it is: an agent's state is the agent's, everything else its author's."""
        named = word(getattr(self.record, "agent", None)) if self.type == "agent_state" else ""
        return named or self.author

    @property
    def agent_kind(self) -> str:
        """What they are whose memory it is."""
        said = self.record.author_kind
        return said if said in _KINDS_OF_AUTHOR and self.type != "agent_state" else "agent"

    def worth(self, priority: Priority | None) -> float:
        """How much it counts, 0 to 1: its priority if there is a way to tell, else its importance."""
        value = priority(self.record) if priority is not None else self.record.importance
        if isinstance(value, bool) or not isinstance(value, int | float):
            return _UNSAID_IMPORTANCE
        return float(min(1.0, max(0.0, value)))


def overview_items(
    records: Iterable[Record], across_sessions: bool | None = None, users: Mapping[str, str] | None = None
) -> list[OverviewItem]:
    """The memories that are not deleted, oldest first. `across_sessions` None: as many sessions as there are.

    users   the names of the users, by session: what the user of a session said, or nobody signed, is theirs.
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
    """A text, or an empty one for anything else."""
    return value if isinstance(value, str) and value.strip() else ""


def _said_topics(record: Record) -> Iterator[str]:
    tags = record.tags
    said = [record.topic, *(tags if isinstance(tags, list) else ())]
    known = set()
    for name in filter(None, map(word, said)):
        if same_topic(name) not in known:
            known.add(same_topic(name))
            yield name


def same_topic(name: str) -> str:
    """What spellings of one topic have in common; queries do not tell capitals from small letters either."""
    return name.casefold()


def topics_above(name: str) -> list[str]:
    """`a.b.c` is about `a` and `a.b`, too. A dot in a sentence means nothing."""
    parts = name.split(".")
    if len(parts) == 1 or len(name) > _LONGEST_TAG or not all(parts) or len(name.split()) > 1:
        return []
    return [".".join(parts[:count]) for count in range(1, len(parts))]


# -- the shapes that all overviews share


def head(seen: Iterable[OverviewItem]) -> dict[str, Any]:
    """The first lines: the version, and when the newest of these memories was changed."""
    return {"version": VERSION, "last_updated": text_of(max((each.updated for each in seen), default=None))}


def text_of(moment: datetime | None) -> str | None:
    return None if moment is None else to_text(moment)


def plural(type: str) -> str:
    """The name for several memories of a type: `turns`, `decisions`."""
    return _PLURALS.get(type, f"{type}s")


def refs_by_type(seen: Iterable[OverviewItem]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in seen:
        found.setdefault(each.type, []).append(each.ref)
    return {type: found[type] for type in KINDS if type in found}


def related_memories(ids: dict[str, list[str]]) -> dict[str, list[str]]:
    return {plural(type): list(refs) for type, refs in ids.items()}


_LONGEST_LINE = 200
_LONGEST_VALUE = 400
_DEEPEST_VALUE = 8


def brief(text: str, longest: int = _LONGEST_LINE) -> str:
    """A text on one line, cut if it is long."""
    line = " ".join(text[: longest * 4].split())
    return line if len(line) <= longest and len(text) <= longest * 4 else line[: longest - 1] + "…"


def small(value: Any) -> Any:
    """A value as it is if it is small, else the beginning of its JSON text."""
    if not _is_flat(value, _DEEPEST_VALUE):
        return "…"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST_VALUE else brief(text, _LONGEST_VALUE)


def _is_flat(value: Any, levels: int) -> bool:
    """Whether a value is nested no deeper than so many levels."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_flat(each, levels - 1) for each in inner)
