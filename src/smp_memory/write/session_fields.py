"""Translate arguments for a new session from the names of the designs into SMP's own. Pure.

    user_id, agent_ids, session_id          user, agents, id
    metadata={…}, context={…}               project_name is the project, tags are tags, the rest is the session's context;
                                            a `context` without a field of the designs' metadata is an ordinary value
    decay_config={…}, compaction_config={…} settings of the session, see `smp_memory.design_settings`

All of it may also come as one object: `create_session({"user_id": "ada", "metadata": {…}})`.
"""

from __future__ import annotations

from smp_memory.errors import InvalidRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
