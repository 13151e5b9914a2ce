"""The answers of the tools, within a token budget. Recalled memories, and names that people gave, are inside a fence, also in the JSON.

Guarantees
- Recalled text is between the fields `recalled` and `end`, and no text in between contains such a mark, so that a program that
  meets the answer again, for instance in a transcript, can tell it from new text (`smp_memory.privacy.fence`). An answer without a
  fence holds ids, numbers and words of SMP or of the caller, nothing that somebody else wrote.
- An answer with items does not count more than asked for, by SMP's rough count of a token as four characters, as text or as JSON,
  whichever is longer. Items keep their order. One item is always included, cut as short as needed, so that paging advances; a
  budget too small for its id and a few words is exceeded for that.

The schemas omit fields that answers rarely have (`redacted` and `warnings` of `forget`, `redacted` of a new session), because every
model reads the definitions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smp_memory.context.budget import ELLIPSIS, count_tokens
from smp_memory.integrations.mcp.arguments import Answer
from smp_memory.privacy import fence
from smp_memory.privacy.fence import escape_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


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
    valid: str | None = None
    superseded_by: str | None = None
    repeats: str | None = None
    relevance: float | None = None
    cut: bool | None = None


class RecalledAnswer(Answer):
    recalled: str
    items: list[MemoryItem]
    next_offset: int | None = None
    not_searched: int | None = None
    not_valid: int | None = None
    corrected: dict[str, str] | None = None
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
    echoes: list[str] | None = None
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
    proposals: list[str] | None = None


class SessionList(Answer):
    recalled: str
    sessions: list[SessionItem]
    next_offset: int | None = None
    problems: list[str] | None = None
    end: str


@dataclass
class Reply:
    """The answer of a tool as JSON and as text."""

    data: dict[str, Any]
    text: str


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


ENVELOPE_TOKENS = 80  # the fence, its note and the names of fields around the items
MIN_CHARACTERS = 40
_NEVER_CUT = ("id", "type", "text", "created", "cut", "relevance", "tags", "revision")


def fit_items(
    items: Iterable[dict[str, Any]], max_tokens: int, line: Callable[[dict[str, Any]], str]
) -> list[dict[str, Any]]:
    """The leading items that fit together. A first one that is too long alone is cut and marked by `cut`."""
    left = max_tokens - ENVELOPE_TOKENS
    chosen: list[dict[str, Any]] = []
    for item in items:
        cost = token_cost(item, line)
        if cost > left and not chosen:
            item = shrink(item, left, line)
            cost = token_cost(item, line)
        elif cost > left:
            break
        chosen.append(item)
        left -= cost
    return chosen


def token_cost(item: dict[str, Any], line: Callable[[dict[str, Any]], str]) -> int:
    """The tokens of an item as text or as JSON, whichever takes more: a client passes on either of them."""
    return max(count_tokens(line(item)), count_tokens(json.dumps(item, ensure_ascii=False))) + 1


def shrink(item: dict[str, Any], tokens: int, line: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
    """Shrink an item to fit: first its other fields to half of the budget, then its text."""
    while token_cost({**item, "text": ""}, line) > tokens // 2:
        lengths = {name: len(_as_text(value)) for name, value in item.items() if name not in _NEVER_CUT}
        longest = max(lengths, key=lambda name: lengths[name], default="")
        if not longest or lengths[longest] <= MIN_CHARACTERS:
            break
        half = _as_text(item[longest])[: max(lengths[longest] // 2, MIN_CHARACTERS) - 1]
        item = {**item, longest: half.rstrip() + ELLIPSIS, "cut": True}
    over = token_cost(item, line) - tokens
    return cut_text(item, len(item["text"]) - (over + 8) * 4) if over > 0 else item


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def cut_text(item: dict[str, Any], characters: int) -> dict[str, Any]:
    """The item with its text cut to so many characters, but not to less than `MIN_CHARACTERS`."""
    text, most = item["text"], max(characters, MIN_CHARACTERS)
    if len(text) <= most:
        return item
    return {**item, "text": text[: most - 1].rstrip() + ELLIPSIS, "cut": True}


def fit_lines(lines: Iterable[str], max_tokens: int) -> tuple[list[str], bool]:
    """The leading lines that fit, the last one cut if needed, and whether some were left out."""
    left = max_tokens - ENVELOPE_TOKENS
    chosen: list[str] = []
    for text in lines:
        cost = count_tokens(json.dumps(text, ensure_ascii=False)) + 1  # as JSON a line is never shorter than as text
        if cost > left:
            kept = text[: max(len(text) - (cost - left + 1) * 4, 0)].rstrip()
            return (chosen if len(kept) < MIN_CHARACTERS else [*chosen, kept + ELLIPSIS]), True
        chosen.append(text)
        left -= cost
    return chosen, False
