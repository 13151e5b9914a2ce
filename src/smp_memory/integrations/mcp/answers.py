"""The answers of the tools. Recalled memories, and names that people gave, stand in a fence, also in the JSON.

Guarantees: between `recalled` and `end` stands what was recalled, and no text in between holds such a mark, so that a program
that meets the answer again, in a transcript for instance, can tell it from what is new (`smp_memory.privacy.fence`). An answer without
a fence holds ids, numbers and words of SMP or of the caller, nothing that somebody else wrote.

The schemas leave out what answers rarely hold (`redacted` and `warnings` of `forget`, `redacted` of a new session): definitions are read by every model.
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
    """An answer as JSON, and as text for those who read that."""

    def __init__(self, data: dict[str, Any], text: str) -> None:
        self.data = data
        self.text = text


def recalled(data: dict[str, Any], text: str) -> Reply:
    """A reply that hands out memories, fenced in both forms."""
    shown = {name: value for name, value in unmarked_values(data).items() if value is not None}
    nonce = fence.new_nonce()
    start = f"{fence.opening(nonce)} {fence.note_for(nonce)}"
    return Reply({"recalled": start, **shown, "end": fence.closing(nonce)}, fence.fence(text, nonce))


def plain(data: dict[str, Any], text: str) -> Reply:
    """A reply that hands out none."""
    return Reply({name: value for name, value in data.items() if value is not None}, text)


def unmarked_values(value: Any) -> Any:
    """The same JSON value, and nothing in it reads as a mark."""
    if isinstance(value, str):
        return escape_marks(value)
    if isinstance(value, dict):
        return {escape_marks(name): unmarked_values(each) for name, each in value.items()}
    if isinstance(value, list):
        return [unmarked_values(each) for each in value]
    return value
