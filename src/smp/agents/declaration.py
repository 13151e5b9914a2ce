"""What does a workflow say it reads and writes? One declaration, `findings.by_severity:critical`, and what it means. Pure.

    conversation                     the last 20 turns            conversation.last_50_turns
    decisions                        the newest                   decisions.by_topic:login    by_tag, by_agent, by_status
    findings.by_severity:critical    several: critical,high       findings.open
    preferences                      all                          preferences.workflow_depth: the one with this key
    agent_states                     the agent's own              agent_states.veritas: that of one agent
    working_memory                   the agent's own              also learnings, artifacts, summaries

Guarantees: what cannot be understood is an `InvalidFormat` that names the declaration, its file and line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from smp.errors import InvalidFormat, InvalidRecord
from smp.model.types import kind_of

if TYPE_CHECKING:
    from smp.agents.workflow_text import Said

WORKING_MEMORY = "working_memory"
_TURNS, _NEWEST = 20, 50
_SELECTORS = {
    "by_topic": "topic",
    "by_tag": "tags",
    "by_agent": "agents",
    "by_author": "agents",
    "by_severity": "severity",
    "by_status": "status",
    "by_category": "category",
    "by_type": "category",
    "about": "text",
    "matching": "text",
}
_FIELDS = ("severity", "status", "category")


class Declaration:
    """One line of `read_access` or `write_access`."""

    __slots__ = ("kind", "line", "name", "path", "selector", "text", "value")

    def __init__(self, said: Said, path: str) -> None:
        self.text = said.text.strip()
        self.path = path
        self.line = said.line
        head, _, rest = self.text.partition(".")
        if not rest and ":" in head:  # `agent_states:veritas`
            head, _, rest = self.text.partition(":")
        self.kind = self._kind(head.strip())
        self.selector, self.value, self.name = "", "", ""
        if rest.strip():
            self._select(rest.strip())

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    def _kind(self, head: str) -> str:
        if head.lower().replace("-", "_") == WORKING_MEMORY:
            return WORKING_MEMORY
        word = {"conversation_history": "conversation", "history": "conversation"}.get(head, head)
        try:
            return kind_of(word.lower().replace("-", "_") if word.lower() != "agent-states" else word).name
        except InvalidRecord:
            self._refuse(f"{head!r} is no kind of memory")

    def _select(self, rest: str) -> None:
        selector, colon, value = rest.partition(":")
        selector, value = selector.strip(), value.strip()
        if self.kind == "conversation":
            self.selector, self.value = "last", self._turns(selector, value)
        elif self.kind in ("agent_state", "preference") and not colon and selector not in ("all", "own", "self"):
            self.selector, self.name = "name", selector
        elif selector in ("all", "own", "self", "{self}", "recent", "newest"):
            self.selector = ""
        elif selector in ("open", "unresolved", "active"):
            self.selector = "open"
        elif selector in _SELECTORS and value:
            self.selector, self.value = selector, value
        elif selector in _SELECTORS:
            self._refuse(f"after {selector} comes a colon and what is meant, as in {selector}:login")
        else:
            self._refuse(f"{selector!r} is not a way to choose among them; use {', '.join(_SELECTORS)}, open or all")

    def _turns(self, selector: str, value: str) -> str:
        """`last_20_turns`, `last_turns:20`, `last:20`, `all`."""
        digits = "".join(filter(str.isdigit, value or selector))
        if selector in ("all", "recent") or (selector.startswith("last") and digits):
            return digits if 0 < len(digits) <= 6 else str(_TURNS)
        self._refuse("of a conversation give the last turns, as in last_20_turns")

    def _refuse(self, why: str) -> NoReturn:
        raise InvalidFormat(f"{self.where}: {self.text!r}: {why}.", path=self.path, line=self.line, field=self.text)

    # -- what it means

    def allows(self, kind: str, name: str, agent: str) -> bool:
        """Whether somebody may write this kind by it; `name` is whose state or which preference."""
        if self.kind == WORKING_MEMORY:
            return kind == "agent_state" and name == agent
        if self.kind != kind:
            return False
        if kind == "agent_state":
            return name == (self.name if self.selector == "name" else agent)
        return self.selector != "name" or name == self.name

    @property
    def question(self) -> dict[str, Any]:
        """What to ask a session for, as parts of a query."""
        asked: dict[str, Any] = {"types": self.kind, "limit": _NEWEST}
        if self.selector in _SELECTORS:
            part = _SELECTORS[self.selector]
            values = [value.strip() for value in self.value.split(",") if value.strip()]
            if part in _FIELDS:
                asked["where"] = {part: values if len(values) > 1 else values[0]}
            else:
                asked[part] = values if part != "text" and len(values) > 1 else self.value
        if self.selector == "name" and self.kind == "preference":
            asked["where"] = {"key": self.name}
        return asked

    def __repr__(self) -> str:
        return f"Declaration({self.text})"
