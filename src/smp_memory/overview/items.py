"""Overview items: author, time and topics of a memory as plain text, and helpers that all overviews share.

Guarantees: nothing here raises, whatever the fields hold. The same memories give the same list in whatever order they
come.
Deleted memories are left out. Long text is put on one line and cut with an ellipsis; small values are kept as they are.
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


VERSION = 1  # of the overviews' format
_USER = "user"
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
        self.author = word(record.author) or _USER
        if user and self.author == _USER and record.author_kind == _USER:
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
        value = priority(self.record) if priority is not None else self.record.importance
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
    tags = record.tags
    names = [record.topic, *(tags if isinstance(tags, list) else ())]
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
