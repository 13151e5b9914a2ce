"""What does a memory say in a prompt? Its date and id, and its text in a sentence. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.record import Record

_MORE = {"decision": ("why", "rationale"), "finding": ("do", "recommendation")}
_CHANGING = ("preference", "agent_state")  # of which it matters when they were changed


def head_of(record: Record, home: str | None) -> str:
    """When, which one, how grave, by whom. Memories of the session at home go by their id, others by `session/ID`."""
    name = record.id if record.session == home else record.ref
    when = when_of(record)
    if record.type == "conversation":
        return f"{when[:16].replace('T', ' ')} {name} {record.role or record.author or ''}:"
    severity = record.given.get("severity")
    grave = f" [{severity}]" if isinstance(severity, str) and severity else ""
    author = f" ({record.author})" if record.author and record.type != "agent_state" else ""
    return f"{when[:10]} {name}{grave}{author}:"


def when_of(record: Record) -> str:
    """The time that matters: of what is changed again and again, that of the last change."""
    return record._updated if record.type in _CHANGING else record._created


def said_by(record: Record) -> str:
    data = record.given
    if record.type == "preference":
        value, text, key = plain_text(data.get("value")), data.get("preference"), data.get("key")
        named = f"{key} = {value}" if key and value else str(key or value)
        return f"{named} ({text})" if text and named and text != value else str(text or named)
    if record.type == "agent_state":
        return plain_text(data.get("state"))
    label, field = _MORE.get(record.type, ("", ""))
    reason = data.get(field)
    return f"{record.text} ({label}: {plain_text(reason)})" if reason else record.text


def plain_text(value: Any) -> str:
    """A value as a person would write it."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {plain_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain_text, value))
    return "" if value is None else str(value)
