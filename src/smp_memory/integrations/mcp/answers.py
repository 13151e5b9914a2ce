"""The answers of the tools. Recalled memories, and names that people gave, are inside a fence, also in the JSON.

Guarantees: fenced_reply text is between the fields `fenced_reply` and `end`, and no text in between contains such a mark, so that a program
that meets the answer again, for instance in a transcript, can tell it from new text (`smp_memory.privacy.fence`). An answer without
a fence holds ids, numbers and words of SMP or of the caller, nothing that somebody else wrote.

The schemas omit fields that answers rarely have (`redacted` and `warnings` of `forget`, `redacted` of a new session), because every
model reads the definitions.
"""

from __future__ import annotations

from typing import Any

from smp_memory.integrations.mcp.arguments import Answer
from smp_memory.privacy import fence
from smp_memory.privacy.fence import escape_marks


class MemoryItem(Answer):
    id: str
    type: str
    created: str
    author: str | None = None
    text: str
    rationale: str | None = None
    severity: str | None = None
    status: str | None = None
    topic: str | None = None
    tags: list[str] | None = None
    relevance: float | None = None
    cut: bool | None = None


class RecalledAnswer(Answer):
    recalled: str
    items: list[MemoryItem]
    next_offset: int | None = None
    not_searched: int | None = None
    problems: list[str] | None = None
    end: str


class Memories(Answer):
    recalled: str
    memories: list[dict[str, Any]]
    left_out: list[str] | None = None
    next_start: int | None = None
    problems: list[str] | None = None
    end: str


class TextAnswer(Answer):
    recalled: str
    text: str
    cut: bool | None = None
    not_searched: int | None = None
    problems: list[str] | None = None
    end: str


class Stored(Answer):
    id: str
    type: str
    session: str
    revision: int
    done: str
    redacted: dict[str, int] | None = None
    warnings: list[str] | None = None


class Forgotten(Answer):
    done: str
    count: int
    ids: list[str]
    next_offset: int | None = None
    problems: list[str] | None = None


class SessionItem(Answer):
    id: str
    state: str | None = None
    written: str | None = None
    project: str | None = None
    user: str | None = None
    agents: list[str] | None = None
    memories: int | None = None
    by_type: dict[str, int] | None = None


class SessionList(Answer):
    recalled: str
    sessions: list[SessionItem]
    next_offset: int | None = None
    problems: list[str] | None = None
    end: str


class Reply:
    """The answer of a tool as JSON and as text."""

    def __init__(self, data: dict[str, Any], text: str) -> None:
        self.data = data
        self.text = text


def fenced_reply(data: dict[str, Any], text: str) -> Reply:
    """A reply that contains memories, fenced in both forms."""
    fields = {name: value for name, value in escape_values(data).items() if value is not None}
    nonce = fence.new_nonce()
    start = f"{fence.opening(nonce)} {fence.note_for(nonce)}"
    return Reply({"recalled": start, **fields, "end": fence.closing(nonce)}, fence.fence(text, nonce))


def plain_reply(data: dict[str, Any], text: str) -> Reply:
    """A reply that contains no text of memories."""
    return Reply({name: value for name, value in data.items() if value is not None}, text)


def escape_values(value: Any) -> Any:
    """The same JSON value with the fence marks in its texts and names escaped."""
    if isinstance(value, str):
        return escape_marks(value)
    if isinstance(value, dict):
        return {escape_marks(name): escape_values(each) for name, each in value.items()}
    if isinstance(value, list):
        return [escape_values(each) for each in value]
    return value
