"""How much fits into an answer? Items in their order, as many as a number of tokens allows.

Guarantees: an answer with items does not count more than asked for, by SMP's rough count of a token as four characters, as text
or as JSON, whichever is longer. One item is always there, cut as short as need be, so that paging goes on; a budget in which
not even its id and a few words have room is exceeded for that.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from smp_memory.context.budget import ELLIPSIS, count_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

AROUND_TOKENS = 80  # the fence, its note and the names of fields around the items
FEWEST_CHARACTERS = 40
_NEVER_CUT = ("id", "type", "text", "created", "cut", "relevance", "tags", "revision")


def fitting(
    items: Iterable[dict[str, Any]], max_tokens: int, line: Callable[[dict[str, Any]], str]
) -> list[dict[str, Any]]:
    """The first of the items that fit together. A first one that is too long alone is cut; its `cut` says so."""
    left = max_tokens - AROUND_TOKENS
    chosen: list[dict[str, Any]] = []
    for item in items:
        cost = cost_of(item, line)
        if cost > left and not chosen:
            item = squeezed(item, left, line)
            cost = cost_of(item, line)
        elif cost > left:
            break
        chosen.append(item)
        left -= cost
    return chosen


def cost_of(item: dict[str, Any], line: Callable[[dict[str, Any]], str]) -> int:
    """As text or as JSON, whichever takes more: a client hands on the one or the other."""
    return max(count_tokens(line(item)), count_tokens(json.dumps(item, ensure_ascii=False))) + 1


def squeezed(item: dict[str, Any], tokens: int, line: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
    """An item that fits: first what stands beside its text is brought down to half of the room, then the text is cut."""
    while cost_of({**item, "text": ""}, line) > tokens // 2:
        lengths = {name: len(_as_text(value)) for name, value in item.items() if name not in _NEVER_CUT}
        longest = max(lengths, key=lambda name: lengths[name], default="")
        if not longest or lengths[longest] <= FEWEST_CHARACTERS:
            break
        half = _as_text(item[longest])[: max(lengths[longest] // 2, FEWEST_CHARACTERS) - 1]
        item = {**item, longest: half.rstrip() + ELLIPSIS, "cut": True}
    over = cost_of(item, line) - tokens
    return shortened(item, len(item["text"]) - (over + 8) * 4) if over > 0 else item


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shortened(item: dict[str, Any], characters: int) -> dict[str, Any]:
    """An item whose text is no longer than this; at least a few words stay."""
    text, most = item["text"], max(characters, FEWEST_CHARACTERS)
    if len(text) <= most:
        return item
    return {**item, "text": text[: most - 1].rstrip() + ELLIPSIS, "cut": True}


def lines_fitting(lines: Iterable[str], max_tokens: int) -> tuple[list[str], bool]:
    """The first of the lines that fit, the last one cut if need be, and whether that is not all."""
    left = max_tokens - AROUND_TOKENS
    chosen: list[str] = []
    for text in lines:
        cost = count_tokens(json.dumps(text, ensure_ascii=False)) + 1  # so written, no line is shorter
        if cost > left:
            kept = text[: max(len(text) - (cost - left + 1) * 4, 0)].rstrip()
            return (chosen if len(kept) < FEWEST_CHARACTERS else [*chosen, kept + ELLIPSIS]), True
        chosen.append(text)
        left -= cost
    return chosen, False
