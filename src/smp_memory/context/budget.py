"""Format memories as lines of a prompt, select those that fit a token budget, and lay them out as a fenced text. Pure.

Guarantees: the text never counts more than `max_tokens`, whatever the counter; what does not fit is left out, and a text that is
too long is cut between words and ends in an ellipsis, after its date and id. The same candidates give the same text.
A memory appears once, and on one line: its content cannot look like a heading, another memory or the end of the fence.
"""

from __future__ import annotations

from smp_memory.model.times import validity_text
from smp_memory.model.types import KINDS, in_order
from smp_memory.privacy import fence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from smp_memory.model.record import Record

    Counter = Callable[[str], int]


ELLIPSIS = "…"
_MIN_TOKENS = 12  # no memory is shorter than this, with its date and id
_MOST_MISSES = 8  # items that do not fit are skipped this often, because a shorter one may follow
_MIN_CUT_TOKENS = 24  # with fewer tokens left no memory is cut to fit
_BUDGET_SHARE = 8  # one memory may take this fraction of the budget (1/8) before it is cut
_FEWEST_CHARACTERS, _MOST_CHARACTERS = 160, 1200
_MIN_TEXT = 40  # characters; a cut memory that is shorter is left out
_JOINERS = "\u200c\u200d"  # not printable, but parts of words and of emoji


def section_titles() -> dict[str, str]:
    """Titles of the sections, in the order of the text. Turns come last and oldest first: the conversation continues after them."""
    own = {kind.name: kind.context_title for kind in in_order("context_place") if kind.is_written_down}
    return {"state": "Your own state", **own, "earlier": "Said earlier", "turn": "Last turns"}


def count_tokens(text: str) -> int:
    """Tokens, roughly: a quarter of the characters."""
    return (len(text) + 3) // 4


class ContextItem:
    """A memory that may be in the prompt: its text there, its score, and the reason for it."""

    __slots__ = ("is_cut", "prefix", "record", "score", "section", "text", "why")

    def __init__(self, record: Record, section: str, score: float, why: str, prefix: str, text: str) -> None:
        self.record = record
        self.section = section
        self.score = score
        self.why = why
        self.prefix = one_line(prefix)  # date, id and other parts that must not be cut
        self.text = one_line(text)
        self.is_cut = False

    @property
    def line(self) -> str:
        return f"- {self.prefix} {self.text}".rstrip()

    def cut(self, characters: int) -> None:
        """Shorten the text to so many characters, between words if possible."""
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
            "date": relevant_time(record),
            "author": record.author,
            "text": self.text,
            "why": self.why,
            "score": round(self.score, 4),
            "shortened": self.is_cut,
        }

    def __repr__(self) -> str:
        return f"Item({self.record.ref} {self.score:.2f}: {self.text[:60]!r})"


def one_line(text: str) -> str:
    """A text on one line, without unprintable characters."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(each for each in line if each.isprintable() or each in _JOINERS)


def fit_to_budget(
    items: Iterable[ContextItem], heading: str, max_tokens: int, count: Counter
) -> tuple[str, list[ContextItem]]:
    """The text, and the items in it. Items come best first and are drawn only until the budget is used."""
    nonce = fence.new_nonce()
    chosen = _select(items, fence.fence(heading + "\n", nonce), max_tokens, count)
    while chosen:
        text = _layout(chosen, heading, nonce)
        if count(text) <= max_tokens:
            return text, _ordered(chosen)
        chosen.pop()  # the one with the lowest score; a counter need not be additive
    return "", []


def _select(items: Iterable[ContextItem], around: str, max_tokens: int, count: Counter) -> list[ContextItem]:
    """The items that fit beside the surrounding text, if token counts are additive."""
    chosen: list[ContextItem] = []
    left = max_tokens - count(around) - 1
    longest = min(max(max_tokens * 4 // _BUDGET_SHARE, _FEWEST_CHARACTERS), _MOST_CHARACTERS)
    known: set[str] = set()
    titles = section_titles()
    sections: set[str] = set()
    missed = 0
    if left < _MIN_TOKENS:
        return []
    for item in items:
        if _is_repeated(item, known):
            continue
        item.cut(longest)
        heading = 0 if item.section in sections else count(f"\n## {titles[item.section]}\n") + 1
        cost = heading + count(item.line) + 1
        if cost > left and left - heading >= _MIN_CUT_TOKENS:
            item.cut(len(item.text) - (cost - left) * 4 - 8)
            cost = heading + count(item.line) + 1
        if cost > left or (item.is_cut and len(item.text) < _MIN_TEXT):
            missed += 1
            if missed >= _MOST_MISSES:
                break
            continue
        chosen.append(item)
        sections.add(item.section)
        left -= cost
        if left < _MIN_TOKENS:
            break
    return chosen


def _is_repeated(item: ContextItem, known: set[str]) -> bool:
    """Whether this memory, or another of the same text, was met before. Turns may repeat a text: people say "yes" often."""
    text = item.text.casefold()
    if item.record.ref in known or (text in known and item.section != "turn"):
        return True
    known.update((item.record.ref, text))
    return False


def _ordered(chosen: list[ContextItem]) -> list[ContextItem]:
    """By section; best first, but turns in the order of time."""
    order = {section: place for place, section in enumerate(section_titles())}

    def sort_key(item: ContextItem) -> tuple[Any, ...]:
        by_time = item.section in ("turn", "earlier")
        when = (item.record.created, item.record.session, item.record.seq) if by_time else ()
        return order[item.section], when, -item.score, item.record.ref

    return sorted(chosen, key=sort_key)


def _layout(chosen: list[ContextItem], heading: str, nonce: str) -> str:
    lines = [heading] if heading else []
    titles, section = section_titles(), ""
    for item in _ordered(chosen):
        if item.section != section:
            section = item.section
            lines += ["", f"## {titles[section]}"] if lines else [f"## {titles[section]}"]
        lines.append(item.line)
    return fence.fence("\n".join(lines), nonce)


def line_prefix(record: Record, default_session: str | None) -> str:
    """Date, id, severity, the time in which it holds, and author. Memories of the default session are named by `ID`, others by `session/ID`."""
    name = record.id if record.session == default_session else record.ref
    when = relevant_time(record)
    kind = KINDS[record.type]
    bounds = validity_text(record.given)
    if bounds:
        name = f"{name} [{bounds}]"
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
