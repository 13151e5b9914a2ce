"""Translate fields of memories and arguments of a new session from the original designs' form into SMP's own. Pure.

Fields of memories:

    context.topic                              topic
    references as an object of lists           references, a plain list
    metadata.references                        references
    message, content of a decision, finding, … its text; content of an agent's state: the state
    memory_relationships                       relations: those whose source is the memory itself
    access_count, last_accessed, also in decay access: count and last

Applied to the input of callers and to entries that SMP did not write. A field given in SMP's own form is never overwritten,
and a value in an unexpected form is left unchanged. See docs/reference/designs.md.

Arguments of `create_session`, which may also come as one object, `create_session({"user_id": "ada", "metadata": {…}})`:

    user_id, agent_ids, session_id             user, agents, id
    metadata={…}, context={…}                  project_name is the project, tags are tags, the rest is the session's context;
                                               a `context` without a field of the designs' metadata is an ordinary value
    decay_config={…}, compaction_config={…}    settings of the session, see `smp_memory.config.design_settings`
"""

from __future__ import annotations

from smp_memory.errors import InvalidRecord
from smp_memory.model.entry import LARGEST_NUMBER, is_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp_memory.model.types import Kind

RELATED = "memory_relationships"  # of design 003
_FOREIGN = frozenset(
    ("context", "metadata", "references", "message", "access_count", "last_accessed", "decay", RELATED)
)
_ACCESS = ("access_count", "last_accessed")
_NESTED = ("data", "content")  # two of the designs put a type's fields into an inner object
_ARGUMENTS = ("id", "user", "agents", "project", "tags", "config")
_NAMES = {
    "user_id": "user",
    "userId": "user",
    "agent_ids": "agents",
    "agentIds": "agents",
    "session_id": "id",
    "sessionId": "id",
    "project_name": "project",
    "projectName": "project",
}
_CONTEXT_FIELDS = frozenset(
    ("project_name", "project_phase", "primary_topic", "tags")
)  # of a session's context in design 003
_SETTINGS = ("decay_config", "compaction_config", "privacy_config")


def translate_fields(kind: Kind, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields with those of the designs in SMP's form."""
    has_content = kind.text != "content" and "content" in data
    if not has_content and _FOREIGN.isdisjoint(data):
        return data
    own = dict(data)
    topic = _inside(own, "context", "topic")
    if isinstance(topic, str) and topic and not own.get("topic"):
        own["topic"] = topic
    if isinstance(own.get("references"), dict):
        own["references"] = _flat(own["references"])
    elif own.get("references") is None and isinstance(_inside(own, "metadata", "references"), list):
        own["references"] = list(own["metadata"]["references"])
    for name in ("message", "content"):
        if _is_text_of(kind, own, name):
            own[kind.text] = own.pop(name)
    if has_content and kind.is_named_by_agent and kind.text not in own:
        own[kind.text] = own.pop("content")
    if isinstance(own.get(RELATED), list):
        _set_relations(own)
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


def _set_relations(data: dict[str, Any]) -> None:
    """Add the relationships of which this memory is the source to its relations."""
    others, relations = [], data.get("relations") or []
    for each in data.pop(RELATED):
        if isinstance(each, dict) and each.get("source") in (None, data.get("id")) and isinstance(relations, list):
            relations = [*relations, {name: value for name, value in each.items() if name != "source"}]
        else:
            others.append(each)
    data.update({"relations": relations} if relations else {})
    data.update({RELATED: others} if others else {})


def relationship_in(fields: Mapping[str, Any]) -> tuple[str, dict[str, str]] | None:
    """The source of a relationship that stands in a file as an item of its own, and the relation; None if it is none."""
    source, target, kind = (fields.get(name) for name in ("source", "target", "relationship"))
    if not isinstance(source, str) or not isinstance(target, str) or not isinstance(kind, str):
        return None
    return source, {"kind": kind, "target": target}


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
    """Set `access` from the access fields of a design, which it replaces: there is one count, and it grows."""
    inner = data.get("decay")
    decay: dict[str, Any] = inner if isinstance(inner, dict) else {}
    source = data if "access_count" in data else decay
    count, last = source.get("access_count"), source.get("last_accessed")
    if type(count) is not int or not 0 <= count <= LARGEST_NUMBER or not (last is None or is_time(last)):
        return
    data["access"] = {"count": count, "last": last}
    rest = {name: value for name, value in source.items() if name not in _ACCESS}
    if source is data:
        data.clear()
        data.update(rest)
    else:
        data["decay"] = rest


def unwrap_fields(kind: Kind, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Unwrap the inner object in which two of the designs put the fields; if the text is given outside of it, it is an ordinary field."""
    for name in _NESTED:
        inner = given.get(name)
        if (
            type(inner) is dict
            and not (name == kind.text and kind.is_own_object)
            and not _has_required_outside(kind, given, name)
        ):
            outer = {key: value for key, value in given.items() if key != name}
            return {**inner, **outer}
    return given


def _has_required_outside(kind: Kind, given: Mapping[str, Any], inner: str) -> bool:
    """Whether a required field is given outside of the inner object."""
    required = {name for group in kind.required for name in group}
    return any(
        value is not None and name != inner and kind.aliases.get(name, name) in required
        for name, value in given.items()
    )


# -- arguments of a new session


def translate_arguments(
    named_values: tuple[Any, ...], context: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `create_session` in the order of `_ARGUMENTS`, and the context."""
    named, given = dict(zip(_ARGUMENTS, named_values, strict=True)), dict(context)
    if hasattr(named["id"], "keys"):
        given = {**named["id"], **given}
        named["id"] = None
    for group in ("metadata", "context"):
        inner = given.get(group)
        if isinstance(inner, dict) and (group == "metadata" or not _CONTEXT_FIELDS.isdisjoint(inner)):
            del given[group]
            for name, value in inner.items():
                _add(given, name, value, f"{group}.{name}")
    settings = {name: given.pop(name) for name in _SETTINGS if isinstance(given.get(name), dict)}
    if settings:
        named["config"] = {**settings, **(named["config"] or {})}
    for name in list(given):
        ours = _NAMES.get(name, name)
        if ours in named:
            if named[ours] in (None, (), []):
                named[ours] = given.pop(name)
            elif ours != "project" and given.pop(name) != named[ours]:
                raise InvalidRecord(f"{name}: given twice, also as {ours}.", field=name)
    return tuple(named.values()), given


def _add(given: dict[str, Any], name: str, value: Any, path: str) -> None:
    if name in given and given[name] != value:
        raise InvalidRecord(f"{path}: given twice, also as {name}.", field=name)
    given[name] = value
