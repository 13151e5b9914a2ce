"""Format a memory as one line of a prompt: date, id, severity, author and text. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.record import Record

_MORE = {"decision": ("why", "rationale"), "finding": ("do", "recommendation")}
_CHANGING = ("preference", "agent_state")  # types whose last change matters, not their creation


def line_prefix(record: Record, default_session: str | None) -> str:
    """Date, id, severity and author. Memories of the default session are named by `ID`, others by `session/ID`."""
    name = record.id if record.session == default_session else record.ref
    when = relevant_time(record)
    if record.type == "conversation":
        return f"{when[:16].replace('T', ' ')} {name} {record.role or record.author or ''}:"
    severity = record.given.get("severity")
    grave = f" [{severity}]" if isinstance(severity, str) and severity else ""
    author = f" ({record.author})" if record.author and record.type != "agent_state" else ""
    return f"{when[:10]} {name}{grave}{author}:"


def relevant_time(record: Record) -> str:
    """The time of the last change for types that are changed again and again, else that of creation."""
    return record._updated if record.type in _CHANGING else record._created


def line_text(record: Record) -> str:
    """The text of a memory in a sentence, with the reason of a decision and the recommendation of a finding."""
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
    """A JSON value as plain text."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {plain_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain_text, value))
    return "" if value is None else str(value)
