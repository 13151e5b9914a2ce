"""Format a memory as one line of a prompt: date, id, severity, author and text. Pure."""

from __future__ import annotations

from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.record import Record


def line_prefix(record: Record, default_session: str | None) -> str:
    """Date, id, severity and author. Memories of the default session are named by `ID`, others by `session/ID`."""
    name = record.id if record.session == default_session else record.ref
    when = relevant_time(record)
    kind = KINDS[record.type]
    if kind.is_turn:
        return f"{when[:16].replace('T', ' ')} {name} {record.role or record.author or ''}:"
    severity = record.given.get("severity")
    grave = f" [{severity}]" if isinstance(severity, str) and severity else ""
    author = f" ({record.author})" if record.author and not kind.is_named_by_agent else ""
    return f"{when[:10]} {name}{grave}{author}:"


def relevant_time(record: Record) -> str:
    """The time of the last change for types that are changed again and again, else that of creation."""
    kind = KINDS[record.type]
    return record._updated if kind.is_named_by_key or kind.is_named_by_agent else record._created


def line_text(record: Record) -> str:
    """The text of a memory in a sentence, with the reason of a decision and the recommendation of a finding."""
    kind, data = KINDS[record.type], record.given
    if kind.is_named_by_key:
        value, text, key = plain_text(data.get("value")), data.get(kind.text), data.get("key")
        named = f"{key} = {value}" if key and value else str(key or value)
        return f"{named} ({text})" if text and named and text != value else str(text or named)
    if kind.is_named_by_agent:
        return plain_text(data.get(kind.text))
    label, field = kind.reason
    reason = data.get(field)
    return f"{record.text} ({label}: {plain_text(reason)})" if reason else record.text


def plain_text(value: Any) -> str:
    """A JSON value as plain text."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {plain_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain_text, value))
    return "" if value is None else str(value)
