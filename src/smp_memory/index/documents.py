"""Index documents: the row, labels and terms that the index stores for a memory. Pure.

Labels are exact-match filters in the text index: `s12` the session, `t1` the type, `a3` the author, `gauth.oauth` a
tag and each tag above it, `oLogin` the topic, `x` deleted.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from smp_memory.index.query import DELETED, tag_label, topic_label
from smp_memory.index.rows import AUTHOR_SHIFT, NULL, POSITION_BITS
from smp_memory.model.candidates import traits_number
from smp_memory.model.decay import impact_level
from smp_memory.model.entry import BY_MAINTENANCE, is_maintenance
from smp_memory.model.statuses import may_supersede, recalled_successions
from smp_memory.model.times import EPOCH, to_moment, validity
from smp_memory.model.types import CONFIDENCE_WORDS, KINDS
from smp_memory.text.memory_text import (
    FIRST_MEMORIES,
    as_list,
    as_word,
    index_terms,
    label_key,
    prompt_beginning,
    relations_of,
    role_number,
    statement_of,
    status_of,
    turn_facts,
    wish_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from smp_memory.model.history import RecordHistory
    from smp_memory.model.types import Kind

_LARGEST = 1e300
_LABELS = 2000  # cached
_POSITION = (1 << POSITION_BITS) - 1


def facts_number(type_number: int, author: int, traits: int) -> int:
    """What a text match tells of a memory, in one number: its type, its traits (`smp_memory.model.candidates`), its author."""
    return author << AUTHOR_SHIFT | traits | type_number


def microseconds(text: str) -> int:
    """A canonical time in microseconds; 0 for one that cannot be read."""
    start = _seconds.get(text[:19])
    if start is None:
        start = _seconds_of(text)
    fraction = text[20:-1]
    return start + (int(fraction) if len(fraction) == _DIGITS and fraction.isdigit() else 0)


_DIGITS = 6
_seconds: dict[str, int] = {}  # many memories are written in one second
_SECONDS_LIMIT = 10_000


def _seconds_of(text: str) -> int:
    try:
        since = to_moment(text) - EPOCH
    except (ValueError, OverflowError):
        return 0
    found = (since.days * 86400 + since.seconds) * 1_000_000
    if len(_seconds) >= _SECONDS_LIMIT:
        _seconds.clear()
    _seconds[text[:19]] = found
    return found


class IndexDocument:
    """Everything that the index stores of one memory in its current state."""

    __slots__ = ("access", "facts", "labels", "last_change", "prompt", "relations", "row", "said", "statement", "successions", "tags", "terms", "topic", "validity", "wish")  # fmt: skip

    def __init__(
        self,
        doc: int,
        session: str,
        history: RecordHistory,
        number_of: Callable[[str], int],
        places: str,
    ) -> None:
        data, first, last = history.data(), history.first, history.last
        type = KINDS[first.type]
        kind = type.number
        author = data.get("author")
        number = number_of(author) if isinstance(author, str) and author else 0
        created = microseconds(first.at)
        plain = _FILTERED_FIELDS.isdisjoint(data)  # most turns have none of these fields
        self.tags = [] if plain else [key for key in map(label_key, as_list(data.get("tags"))) if key]
        self.topic = None if plain else label_key(data.get("topic")) or None
        self.relations = [] if plain or _RELATION_FIELDS.isdisjoint(data) else list(relations_of(data, session))
        self.successions = (
            [] if plain or not may_supersede(data) else list(recalled_successions(data, session, first.id))
        )
        self.validity = None if plain else _validity(data)
        self.access = _access(data["access"], created) if "access" in data else None
        self.terms = terms = index_terms(data, first.id)
        guarded = "visibility" in data or type.is_named_by_agent
        words = terms.count(" ") + 1
        role = role_number(data.get("role"))
        turn = turn_facts(data, terms) if role else ()
        self.facts = facts = facts_number(kind, number, traits_number(role, words, guarded, *turn))
        self.last_change = 0 if kind == _SUMMARY else created if len(history.entries) == 1 else _last_change(history)
        deleted = history.deletion is not None
        self.labels = labels = self._labels(f"s{doc >> 24} t{kind}", number, deleted)
        self.statement = statement_of(type, data)
        self.said = as_word(data.get("content")) if type.is_turn else ""
        self.wish = type.is_turn and not deleted and bool(wish_of(data))
        is_early = doc & _POSITION < FIRST_MEMORIES
        self.prompt = prompt_beginning(data) if type.is_turn and is_early and not deleted else ""
        self.row: tuple[Any, ...] = (
            doc,
            first.id,
            kind,
            created,
            microseconds(last.at) if last is not first else NULL,
            number or NULL,
            *(_NO_NUMBERS if plain else _number_values(data)),
            NULL if history.deletion is None else microseconds(history.deletion.at) or 1,
            *(_NO_STATUS if plain and not type.is_open_until_closed else _status_values(type, data)),
            facts,
            crc32(f"{terms}\0{labels}\0{facts}\0{created}".encode(errors="replace")),
            places,
        )

    def _labels(self, place: str, author: int, deleted: bool) -> str:
        labels = f"{place} a{author}" if author else place
        if self.topic:
            labels = f"{labels} {_topic_labels(self.topic)}"
        for tag in self.tags:
            labels = f"{labels} {_tag_labels(tag)}"
        return f"{labels} {DELETED}" if deleted else labels


_FILTERED_FIELDS = frozenset([
    "approved_by", "confidence", "impact", "importance", "muted", "pinned", "references", "relations", "resolution",
    "severity", "status", "superseded_by", "supersedes", "tags", "topic", "turn_ref", "valid_from", "valid_until",
])  # fmt: skip
_NO_NUMBERS, _NO_STATUS = (NULL,) * 3, (NULL,) * 4
_RELATION_FIELDS = frozenset(["references", "relations", "superseded_by", "supersedes", "turn_ref"])
_SUMMARY = KINDS["summary"].number  # compaction writes it


def _last_change(history: RecordHistory) -> int:
    """The last write, change, deletion or restoration of a memory in microseconds; maintenance and accesses do not count."""
    changes = (entry for entry in reversed(history.entries) if entry.by != BY_MAINTENANCE and not is_maintenance(entry))
    return max(microseconds(history.first.at), microseconds(next(changes, history.first).at))


def _access(value: Any, created: int) -> tuple[int, int] | None:
    """Access count and last access from the memory's file; None if they cannot be read."""
    count, last = (value.get("count"), value.get("last")) if isinstance(value, dict) else (None, None)
    if type(count) is not int or not 0 < count < 1 << 62:
        return None
    if last is None:  # the designs count accesses without always recording the last one
        return count, created
    if not isinstance(last, str):
        return None
    try:
        return count, microseconds(last)
    except ValueError:
        return None


def _number_values(data: dict[str, Any]) -> tuple[float | str, float | str, int | str]:
    """Importance, confidence, pinned."""
    pinned = 1 if data.get("pinned") is True else NULL
    return _number(data.get("importance")), _confidence(data.get("confidence")), pinned


def _status_values(kind: Kind, data: dict[str, Any]) -> tuple[str, str, str, int | str]:
    """Status, severity, impact, approved."""
    impact = impact_level(data["impact"]) or NULL if "impact" in data else NULL
    approved = 1 if data.get("approved_by") else NULL
    return status_of(kind, data), as_word(data.get("severity")), impact, approved


@lru_cache(_LABELS)  # many memories have the same tags
def _tag_labels(tag: str) -> str:
    return " ".join(map(tag_label, _levels(tag)))


@lru_cache(_LABELS)
def _topic_labels(topic: str) -> str:
    return " ".join(map(topic_label, _levels(topic)))


def _levels(name: str) -> Iterator[str]:
    """`a.b.c`: a, a.b, a.b.c."""
    parts = name.split(".")
    return (".".join(parts[: depth + 1]) for depth in range(len(parts)))


def _validity(data: dict[str, Any]) -> tuple[int | None, int | None] | None:
    """From when and until when a memory holds; None without bounds."""
    if "valid_from" not in data and "valid_until" not in data:
        return None
    bounds = validity(data)
    return None if bounds == (None, None) else bounds


def _number(value: Any) -> float | str:
    return float(value) if type(value) in (int, float) and -_LARGEST < value < _LARGEST else NULL


def _confidence(value: Any) -> float | str:
    return CONFIDENCE_WORDS.get(value, NULL) if isinstance(value, str) else _number(value)
