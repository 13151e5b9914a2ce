"""What an agent would be told, and what would be left out and why: the values that a preview returns. Pure."""

from __future__ import annotations

from smp_memory.model.record import html_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from smp_memory.model.record import Record
    from smp_memory.model.reports import Problem


class PreviewItem:
    """A memory in a preview: included with its line, or left out with a reason."""

    __slots__ = ("detail", "explain", "lane", "line", "reason", "record", "relevance", "score", "section", "tokens", "why")  # fmt: skip

    def __init__(self, record: Record, section: str, lane: str = "", why: str = "") -> None:
        self.record = record
        self.section = section  # of the text: decision, finding, turn, earlier, state, …
        self.lane = (
            lane  # why it is there: matches, weak, turns, wishes, critical, recent, state, or a type in a digest
        )
        self.why = why
        self.score: float | None = None
        self.relevance: float | None = None  # of a match
        self.explain: dict[str, Any] = {}  # the parts of a match's score, as `Hit.explain`
        self.tokens = 0
        self.line = ""  # as the agent reads it; empty if it is left out
        self.reason = ""  # one of `REASONS` if it is left out
        self.detail = ""  # the reason in words

    @property
    def ref(self) -> str:
        return self.record.ref

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "ref": self.ref,
            "type": self.record.type,
            "section": self.section,
            "lane": self.lane,
            "why": self.why,
            "score": None if self.score is None else round(self.score, 4),
            "relevance": None if self.relevance is None else round(self.relevance, 4),
            "text": self.record.text,
        }
        found |= {"tokens": self.tokens, "line": self.line} if self.line else {}
        found |= {"reason": self.reason, "detail": self.detail} if self.reason else {}
        return {**found, "explain": self.explain} if self.explain else found

    def __repr__(self) -> str:
        return f"PreviewItem({self.ref}: {self.detail or self.reason or self.why})"


class Preview:
    """What an agent would be told, and what not."""

    def __init__(self, kind: str, max_tokens: int, min_relevance: float) -> None:
        self.kind = kind  # context, or the event of a hook: prompt, start, agent
        self.text = ""
        self.tokens = 0
        self.max_tokens = max_tokens
        self.min_relevance = min_relevance  # the floor that was used
        self.included: list[PreviewItem] = []  # in the order of the text
        self.left_out: list[PreviewItem] = []  # matches first, best first
        self.left_out_count = 0  # all that match and all that were considered; `left_out` may be cut
        self.nothing_because = ""  # why no memory is told at all
        self.shares: dict[str, int] = {}  # tokens by lane, and of the frame; they add up to `tokens`
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.problems: list[Problem] = []
        self.archived_not_searched = 0

    @property
    def ids(self) -> list[str]:
        """`session/ID` of each included memory, in the order of the text."""
        return [item.ref for item in self.included]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "text": self.text,
            "tokens": self.tokens,
            "max_tokens": self.max_tokens,
            "min_relevance": self.min_relevance,
            "nothing_because": self.nothing_because,
            "included": [item.to_dict() for item in self.included],
            "left_out": [item.to_dict() for item in self.left_out],
            "left_out_count": self.left_out_count,
            "shares": self.shares,
            "notes": self.notes,
            "warnings": self.warnings,
            "problems": [each.to_dict() for each in self.problems],
            "archived_not_searched": self.archived_not_searched,
        }

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """A table for notebooks: what is told, then what is left out."""
        rows = [("told", each.ref, _rounded(each.relevance), each.why, each.record.text) for each in self.included]
        rows += [
            ("left out", each.ref, _rounded(each.relevance), each.detail, each.record.text) for each in self.left_out
        ]
        return html_table(("", "memory", "relevance", "why", "text"), rows)

    def __repr__(self) -> str:
        return f"Preview({self.kind}: {len(self.included)} memories, {self.left_out_count} left out, {self.tokens} of {self.max_tokens} tokens)"


def _rounded(relevance: float | None) -> str:
    return "" if relevance is None else f"{relevance:.2f}"
