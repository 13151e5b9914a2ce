"""Translate fields of the original designs into SMP's own. Pure.

    context.topic                              topic
    references as an object of lists           references, a plain list
    metadata.references                        references
    message of a decision, finding, …          its text
    access_count, last_accessed, decay.…       access: count and last

Applied to the input of callers and to entries that SMP did not write. A field given in SMP's own form is never overwritten,
and a value in an unexpected form is left unchanged. See docs/designs.md.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.model.types import Kind

_FOREIGN = frozenset(("context", "metadata", "references", "message", "access_count", "last_accessed", "decay"))


def translate_fields(kind: Kind, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields with those of the designs in SMP's form."""
    if _FOREIGN.isdisjoint(data):
        return data
    own = dict(data)
    topic = _inside(own, "context", "topic")
    if isinstance(topic, str) and topic and not own.get("topic"):
        own["topic"] = topic
    if isinstance(own.get("references"), dict):
        own["references"] = _flat(own["references"])
    elif own.get("references") is None and isinstance(_inside(own, "metadata", "references"), list):
        own["references"] = list(own["metadata"]["references"])
    if _is_text_of(kind, own, "message"):
        own[kind.text] = own.pop("message")
    if "access" not in own:
        _set_access(own)
    return own


def _is_text_of(kind: Kind, data: Mapping[str, Any], name: str) -> bool:
    """Whether this field holds the text of the memory: none of the required fields of its type is given."""
    known = {kind.aliases.get(each, each) for each in data}
    required = {each for group in kind.required for each in group}
    return (
        isinstance(data.get(name), str) and name not in kind.aliases and kind.text in required and not known & required
    )


def _inside(data: Mapping[str, Any], name: str, inner: str) -> Any:
    value = data.get(name)
    return value.get(inner) if isinstance(value, dict) else None


def _flat(groups: dict[str, Any]) -> Any:
    """The ids in `{"conversations": […], "findings": […]}`; a value of another form is returned unchanged."""
    found: list[Any] = []
    for value in groups.values():
        if not isinstance(value, (str, list)):
            return groups
        found += [value] if isinstance(value, str) else value
    return list(dict.fromkeys(found)) if all(isinstance(each, str) for each in found) else groups


def _set_access(data: dict[str, Any]) -> None:
    """Set `access` from the access fields of a design, which are kept as given."""
    inner = data.get("decay")
    decay: dict[str, Any] = inner if isinstance(inner, dict) else {}
    source = data if "access_count" in data else decay
    count, last = source.get("access_count"), source.get("last_accessed")
    if type(count) is not int or count < 0 or not (last is None or isinstance(last, str)):
        return
    data["access"] = {"count": count, "last": last}
