"""What does a memory say in a prompt? Its date and id, and its text in a sentence. Pure."""

from __future__ import annotations

from smp_memory.model.types import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.record import Record


def head_of(record: Record, home: str | None) -> str:
    """When, which one, how grave, by whom. Memories of the session at home go by their id, others by `session/ID`."""
    name = record.id if record.session == home else record.ref
    when = when_of(record)
    kind = KINDS[record.type]
    if kind.is_turn:
        return f"{when[:16].replace('T', ' ')} {name} {record.role or record.author or ''}:"
    severity = record.given.get("severity")
    grave = f" [{severity}]" if isinstance(severity, str) and severity else ""
    author = f" ({record.author})" if record.author and not kind.is_named_by_agent else ""
    return f"{when[:10]} {name}{grave}{author}:"


def when_of(record: Record) -> str:
    """The time that matters: of what is changed again and again, that of the last change."""
    kind = KINDS[record.type]
    return record._updated if kind.is_named_by_key or kind.is_named_by_agent else record._created


def said_by(record: Record) -> str:
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
    """A value as a person would write it."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {plain_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain_text, value))
    return "" if value is None else str(value)
