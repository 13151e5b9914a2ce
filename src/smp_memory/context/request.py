"""The request of a context: its arguments, checked, and what was decided from them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime
    from typing import Any, Protocol

    from smp_memory.context.trace import ContextTrace

    class SessionFilter(Protocol):
        """Which sessions a context may contain (`smp_memory.context.visible_sessions`)."""

        def allows(self, session: str) -> bool: ...

        def sessions(self) -> list[str]: ...


class ContextRequest:
    """The arguments of a context, checked."""

    __slots__ = (
        "agent", "exclude", "max_tokens", "min_relevance", "notes", "now", "policy", "session", "tags", "task", "topic", "trace",
        "turns", "visible_sessions",
    )  # fmt: skip

    def __init__(
        self,
        agent: str | None,
        task: str | None,
        topic: str | None,
        session: str | None,
        turns: int,
        now: datetime,
        policy: Any,
        visible_sessions: SessionFilter,
        max_tokens: int,
        tags: Sequence[str] = (),
        exclude: Collection[str] = (),
        min_relevance: float = 0.0,
        trace: ContextTrace | None = None,
    ) -> None:
        self.agent = agent
        self.task = task
        self.topic = topic
        self.tags = list(tags)
        self.session = session
        self.turns = turns
        self.now = now
        self.policy = policy
        self.visible_sessions = visible_sessions
        self.max_tokens = max_tokens
        self.notes: list[str] = []  # what the answer has to say
        self.exclude = exclude  # refs of memories that are left out
        self.min_relevance = min_relevance  # matches below it are left out
        self.trace = trace  # gets what is considered and left out; None: nobody asks
