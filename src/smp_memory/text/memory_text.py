"""The text of a memory: what is searched and embedded, its terms, the keys of its labels, its status and the wishes that it tells. Pure."""

from __future__ import annotations

from functools import lru_cache

from smp_memory.model.wishes import wish_in
from smp_memory.privacy.fence import strip
from smp_memory.text.tokenizer import bag_of_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from smp_memory.model.history import RecordHistory
    from smp_memory.model.types import Kind

_NOT_SEARCHED = frozenset([
    "author_kind", "idempotency_key", "access", "visibility", "trust", "relations", "references", "turn_ref", "role",
    "superseded_by", "supersedes", "valid_from", "valid_until",
])  # fmt: skip

_NUMBERS_NOT_SEARCHED = frozenset(["confidence", "importance", "pinned", "format"])

_MAX_KEY = 300  # characters of a tag or topic that are indexed

_LABELS = 2000  # cached

_MAX_TURN = 10**9


def index_terms(history: RecordHistory) -> str:
    """The terms of a memory; the last one is its id. Other names of its subject count twice: they name it."""
    data = history.data()
    names = bag_of_terms("\n".join(_texts("aliases", data["aliases"]))) if "aliases" in data else ""
    return f"{bag_of_terms(text_of(data))}{names}{history.first.id.lower()}"


def wish_of(data: dict[str, Any]) -> str:
    """The standing wishes in a turn of a user, without recalled text; empty if there are none."""
    text = data.get("content")
    if data.get("role") != "user" or not isinstance(text, str):
        return ""
    return wish_in(strip(text))


def label_key(name: Any) -> str:
    """The index key of a tag or topic: case-folded, white space collapsed, cut to `_MAX_KEY` characters."""
    return _key(name) if isinstance(name, str) else ""


@lru_cache(_LABELS)
def _key(name: str) -> str:
    return " ".join(name.casefold().split())[:_MAX_KEY]


def text_of(data: dict[str, Any]) -> str:
    """The searchable text of a memory, without its id, which is a term of its own."""
    parts: list[str] = []
    for name, value in data.items():
        if name not in _NOT_SEARCHED:
            if type(value) is str:
                parts.append(value)
            else:
                parts += _texts(name, value)
    return "\n".join(parts)


def embedded_text(data: dict[str, Any]) -> str:
    """The text of a memory that is embedded: all but its author."""
    return text_of({name: value for name, value in data.items() if name != "author"})


def _texts(name: str, value: Any) -> Iterator[str]:
    if type(value) is str:
        yield value
    elif type(value) is list:
        for item in value:
            yield from _texts(name, item)
    elif type(value) is dict:
        for key, item in value.items():
            if type(item) in (str, list, dict):
                yield key
            yield from _texts(key, item)
    elif type(value) in (int, float) and name not in _NUMBERS_NOT_SEARCHED:
        yield str(value)


def status_of(kind: Kind, data: dict[str, Any]) -> str:
    """The status, from either field that the designs use; a finding without one is open."""
    resolution = data.get("resolution")
    inner = resolution.get("status") if isinstance(resolution, dict) else None
    status = data.get("status") or inner
    if status is None and kind.is_open_until_closed:
        status = kind.default_status
    return as_word(status)


def turn_id(value: Any) -> Any:
    """The id of a turn given by its number, as in the designs: 3 is TURN-0003."""
    return f"TURN-{value:04d}" if type(value) is int and 0 < value < _MAX_TURN else value


def as_list(value: Any) -> list[Any]:
    """A list from a field that should be one; a person may have typed a single element, or anything."""
    return value if type(value) is list else [value] if type(value) is str else []


def as_word(value: Any) -> str:
    return value if isinstance(value, str) else ""
