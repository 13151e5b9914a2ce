"""May this agent see this memory? One pure rule, used by every read path.

- An agent's state is its own, unless it says `visibility: shared`.
- A memory with `visibility: private` is its author's: the agent's working memory.
- Everything else is for all: turns, decisions, findings, preferences, artifacts, learnings, summaries.

Guarantees: pure; a visibility that nobody knows counts as private, a private memory without an author is nobody's. Who asks
without saying who they are (`None`) sees what is shared. People, and programs that open a session as a whole, see all.
Non-guarantees: files are files. Whoever may read the store's folder can read every memory in it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from smp.model.record import Record
    from smp.query.ranking import Judged
    from smp.query.where import Filter

SHARED = "shared"
_OF_AN_ARCHIVE = "ARCHIVE"  # the page that sums up an archived session, private memories among it
FOR_ALL = (None, SHARED, "public", "all", "team")


class Viewer:
    """Who looks: an agent, or somebody who did not say who they are."""

    __slots__ = ("agent",)

    def __init__(self, agent: str | None) -> None:
        self.agent = agent

    def sees(self, record: Record) -> bool:
        return self.may_see(record.type, record.given)

    def may_change(self, record: Record) -> bool:
        """Whether the viewer may change or delete it: what it sees, except the state of another agent."""
        owns = record.type != "agent_state" or (self.agent is not None and record.given.get("agent") == self.agent)
        return owns and self.sees(record)

    def may_see(self, type: Any, data: Mapping[str, Any]) -> bool:
        said = data.get("visibility")
        if type == "agent_state":
            owner, shared = data.get("agent"), said is not None and said in FOR_ALL
        else:
            owner, shared = data.get("author"), said in FOR_ALL
        return bool(shared) or (self.agent is not None and owner == self.agent)


class Visible:
    """A condition of a question: what it asked for anyway, and that the one who asks may see it."""

    __slots__ = ("_asked", "_viewer")

    def __init__(self, viewer: Viewer, asked: Filter) -> None:
        self._viewer = viewer
        self._asked = asked

    def admits(self, record: Record, judged: Judged) -> bool:
        if record.type == "summary" and record.id == _OF_AN_ARCHIVE:
            return False
        return self._viewer.sees(record) and (not self._asked or self._asked.admits(record, judged))

    @property
    def refuses_many(self) -> bool:
        """Most memories are for all."""
        return bool(self._asked)

    def __bool__(self) -> bool:
        return True
