"""Read `sprint-status.yaml`: action items become findings with their status, the rest one artifact.

The artifact has the state of epics and stories, one line each; it follows the file, and its history keeps earlier states.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from smp_memory.errors import InvalidFormat
from smp_memory.importers.ingest import ANYWHERE, IngestedMemory, Source
from smp_memory.integrations.bmad.workflow import Located, WorkflowText, parse

_STATUSES = {"open": "open", "in-progress": "in-progress", "done": "done"}
_TAGS = ["bmad", "bmad.sprint"]
_OWNER = re.compile(r"\bowner\b", re.IGNORECASE)


def read_sprint_status(source: Source) -> list[IngestedMemory]:
    try:
        data = parse(WorkflowText(source.text, source.name))
    except InvalidFormat as error:
        source.cannot_read(int(error.details.get("line") or 1), _reason(error, source.name))  # type: ignore[call-overload]
        return []
    if not isinstance(data, dict) or not data:
        source.cannot_read(1, "not a mapping")
        return []
    when = _time(data.get("last_updated")) or _time(data.get("generated"))
    return [*_state(source, data.get("development_status"), when), *_actions(source, data.get("action_items"))]


def _state(source: Source, states: Any, when: str | None) -> list[IngestedMemory]:
    if states is None:
        return []
    if not isinstance(states, dict):
        source.cannot_read(_line(source, "development_status"), "development_status is not a mapping")
        return []
    lines = []
    for name, state in states.items():
        if isinstance(state, Located):
            lines.append(f"{name}: {state.text}")
        else:
            source.cannot_read(_line(source, name), f"{name}: not a status")
    fields = {"name": "Sprint status", "path": source.name, "content": "\n".join(lines), "tags": _TAGS}
    return [
        IngestedMemory("artifact", fields, _line(source, "development_status"), "development_status", when, "content")
    ]


def _actions(source: Source, actions: Any) -> list[IngestedMemory]:
    if actions is None or (isinstance(actions, Located) and actions.text in ("", "~", "null")):
        return []
    if not isinstance(actions, list):
        source.cannot_read(_line(source, "action_items"), "action_items is not a list")
        return []
    found = []
    for number, item in enumerate(actions, 1):
        action = item.get("action") if isinstance(item, dict) else None
        if not isinstance(action, Located) or not action.text.strip():
            line = next((value.line for value in _leaves(item)), _line(source, "action_items"))
            source.cannot_read(line, f"action item {number} has no action")
            continue
        known = {name: value.text for name, value in item.items() if isinstance(value, Located)}
        status = _STATUSES.get(known.get("status", "open"))
        if status is None:
            source.cannot_read(item["status"].line, f"status {known['status']!r} is not open, in-progress or done")
        fields = {
            "finding": action.text,
            "category": "action item",
            "status": status or "open",
            "tags": _TAGS,
            "owner": known.get("owner"),
            "epic": known.get("epic"),
            "document": known.get("ref"),
        }
        found.append(
            IngestedMemory("finding", fields, action.line, action_key(known.get("epic"), action.text), None, "status")
        )
    return found


def action_key(epic: str | None, text: str) -> str:
    """The key of an action item, the same in a retrospective and in the sprint status."""
    content = _OWNER.split(text, maxsplit=1)[0].rstrip(" \t\r\n(—–,;|*-") or text
    return f"{ANYWHERE}action of epic {epic}: {' '.join(content.split()).casefold().strip('*. ')}"


def _leaves(value: Any) -> list[Located]:
    if isinstance(value, Located):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [leaf for each in inner for leaf in _leaves(each)]


def _line(source: Source, name: str) -> int:
    """The line of a key."""
    for number, line in enumerate(source.lines, 1):
        if line.strip().startswith((f"{name}:", f'"{name}"')):
            return number
    return 1


def _time(value: Any) -> str | None:
    """Parse `MM-DD-YYYY HH:MM` in local time, or an ISO date."""
    text = value.text.strip() if isinstance(value, Located) else ""
    for form in ("%m-%d-%Y %H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, form).astimezone().isoformat()
        except ValueError:
            continue
    return None


def _reason(error: InvalidFormat, name: str) -> str:
    return error.message.removeprefix(name).lstrip(":0123456789 ").rstrip(".") or "not YAML"
