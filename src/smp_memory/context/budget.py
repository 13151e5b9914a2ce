"""What fits into a prompt? Memories, best first, within a number of tokens. Pure.

Guarantees: the text never counts more than asked for, whatever the counter; what does not fit is left out, and what is
too long is cut between words and ends in an ellipsis, behind its date and id. The same candidates give the same text.
A memory stands there once, and on one line: what it holds cannot look like a heading, another memory or the end of the fence.
"""

from __future__ import annotations

from smp_memory.context.format import when_of
from smp_memory.model.types import in_order
from smp_memory.privacy import fence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.model.record import Record

    Counter = Callable[[str], int]

ELLIPSIS = "…"
_LEAST_TOKENS = 12  # no memory is shorter than this, with its date and id
_PATIENCE = 8  # so many that do not fit are passed over, in the hope of a short one
_SHORTEST_TOKENS = 24  # less than this is not worth cutting a memory for
_SHARE = 8  # of the budget that one memory may take before it is cut
_FEWEST_CHARACTERS, _MOST_CHARACTERS = 160, 1200
_FEWEST_LEFT = 40  # characters; a memory of which less is left says nothing
_JOINERS = "\u200c\u200d"  # not printable, but parts of words and of emoji


def section_titles() -> dict[str, str]:
    """Titles of the sections, in the order of the text. Turns come last and oldest first: the conversation goes on behind them."""
    own = {kind.name: kind.context_title for kind in in_order("context_place") if kind.is_written_down}
    return {"state": "Your own state", **own, "earlier": "Said earlier", "turn": "Last turns"}


def count_tokens(text: str) -> int:
    """Tokens, roughly: a quarter of the characters."""
    return (len(text) + 3) // 4


class ContextItem:
    """A memory that may come into the prompt: what it says there, how much it is wanted, and why."""

    __slots__ = ("head", "is_cut", "record", "score", "section", "text", "why")

    def __init__(self, record: Record, section: str, score: float, why: str, head: str, text: str) -> None:
        self.record = record
        self.section = section
        self.score = score
        self.why = why
        self.head = one_line(head)  # date, id and what else must not be cut
        self.text = one_line(text)
        self.is_cut = False

    @property
    def line(self) -> str:
        return f"- {self.head} {self.text}".rstrip()

    def cut(self, characters: int) -> None:
        """Make its text no longer than this, between words if there are some."""
        if len(self.text) <= characters:
            return
        kept = self.text[: max(characters - len(ELLIPSIS), 0)]
        space = kept.rfind(" ")
        if space > len(kept) * 2 // 3:
            kept = kept[:space]
        self.text = kept.rstrip() + ELLIPSIS
        self.is_cut = True

    def to_dict(self) -> dict[str, Any]:
        record = self.record
        return {
            "id": record.id,
            "session": record.session,
            "ref": record.ref,
            "type": record.type,
            "section": self.section,
            "date": when_of(record),
            "author": record.author,
            "text": self.text,
            "why": self.why,
            "score": round(self.score, 4),
            "shortened": self.is_cut,
        }

    def __repr__(self) -> str:
        return f"Item({self.record.ref} {self.score:.2f}: {self.text[:60]!r})"


def one_line(text: str) -> str:
    """A text on one line, without anything that a reader cannot see."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(each for each in line if each.isprintable() or each in _JOINERS)


def fitted(items: Iterable[ContextItem], head: str, max_tokens: int, count: Counter) -> tuple[str, list[ContextItem]]:
    """The text and what is in it. Items come best first; no more are asked for than fit."""
    nonce = fence.new_nonce()
    chosen = _chosen(items, fence.fence(head + "\n", nonce), max_tokens, count)
    while chosen:
        text = _written(chosen, head, nonce)
        if count(text) <= max_tokens:
            return text, _in_order(chosen)
        chosen.pop()  # the least wanted; a counter need not add up
    return "", []


def _chosen(items: Iterable[ContextItem], around: str, max_tokens: int, count: Counter) -> list[ContextItem]:
    """As many as fit beside the text around them if tokens add up."""
    chosen: list[ContextItem] = []
    left = max_tokens - count(around) - 1
    longest = min(max(max_tokens * 4 // _SHARE, _FEWEST_CHARACTERS), _MOST_CHARACTERS)
    known: set[str] = set()
    titles = section_titles()
    sections: set[str] = set()
    missed = 0
    if left < _LEAST_TOKENS:
        return []
    for item in items:
        if _is_repeated(item, known):
            continue
        item.cut(longest)
        heading = 0 if item.section in sections else count(f"\n## {titles[item.section]}\n") + 1
        cost = heading + count(item.line) + 1
        if cost > left and left - heading >= _SHORTEST_TOKENS:
            item.cut(len(item.text) - (cost - left) * 4 - 8)
            cost = heading + count(item.line) + 1
        if cost > left or (item.is_cut and len(item.text) < _FEWEST_LEFT):
            missed += 1
            if missed >= _PATIENCE:
                break
            continue
        chosen.append(item)
        sections.add(item.section)
        left -= cost
        if left < _LEAST_TOKENS:
            break
    return chosen


def _is_repeated(item: ContextItem, known: set[str]) -> bool:
    """Whether this memory, or another that says the same, is there already. People say "yes" more than once."""
    said = item.text.casefold()
    if item.record.ref in known or (said in known and item.section != "turn"):
        return True
    known.update((item.record.ref, said))
    return False


def _in_order(chosen: list[ContextItem]) -> list[ContextItem]:
    """By section; best first, but turns as they were said."""
    order = {section: place for place, section in enumerate(section_titles())}

    def place(item: ContextItem) -> tuple[Any, ...]:
        by_time = item.section in ("turn", "earlier")
        when = (item.record.created, item.record.session, item.record.seq) if by_time else ()
        return order[item.section], when, -item.score, item.record.ref

    return sorted(chosen, key=place)


def _written(chosen: list[ContextItem], head: str, nonce: str) -> str:
    lines = [head] if head else []
    titles, section = section_titles(), ""
    for item in _in_order(chosen):
        if item.section != section:
            section = item.section
            lines += ["", f"## {titles[section]}"] if lines else [f"## {titles[section]}"]
        lines.append(item.line)
    return fence.fence("\n".join(lines), nonce)
