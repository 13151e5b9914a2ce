"""Whose session is it, and what is it about? The head of a session, apart from its memories.

What should this agent know now? Memory in a prompt, and who may see what.

Guarantees: nothing here stores anything by itself; reads go through a session or a store, writes through `smp_memory.write.path`.
Loading this package loads nothing: what is used is loaded where it is used.
"""

from __future__ import annotations

from smp_memory.model.record import copied
from smp_memory.model.times import to_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


FORMAT = 1


class SessionInfo:
    """Who takes part, in which project, since when; settings of its own; and the numbers that rewrites must not forget."""

    __slots__ = (
        "agents",
        "config",
        "context",
        "created_text",
        "format",
        "generation",
        "id",
        "is_assumed",
        "numbers",
        "other",
        "project",
        "seq",
        "status",
        "tags",
        "uid",
        "user",
    )

    def __init__(
        self,
        id: str,
        created: str,
        *,
        user: str | None = None,
        agents: list[str] | None = None,
        project: str | None = None,
        tags: list[str] | None = None,
        context: dict[str, Any] | None = None,
        config: dict[str, Any] | None = None,
        status: str = "active",
        generation: int = 0,
        numbers: dict[str, int] | None = None,
        seq: int = 0,
        format: int = FORMAT,
        uid: str = "",
        other: dict[str, Any] | None = None,
    ) -> None:
        self.id = id
        self.is_assumed = False  # True: the session's files hold no metadata
        self.created_text = created
        self.user = user
        self.agents = agents or []
        self.project = project
        self.tags = tags or []
        self.context = context or {}
        self.config = config or {}
        self.status = status
        self.generation = generation  # grows with every rewrite
        self.numbers = numbers or {}  # the largest numbers ever given out, as of the last rewrite
        self.seq = seq
        self.format = format
        self.uid = uid  # random; tells sessions of one name apart that two clones of a store made
        self.other = other or {}  # what else a person or an older tool wrote there

    @property
    def created(self) -> Any:
        return to_moment(self.created_text)

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "created": self.created_text,
            "user": self.user,
            "agents": list(self.agents),
            "project": self.project,
            "tags": list(self.tags),
            "context": copied(self.context),
            "config": copied(self.config),
            "status": self.status,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionInfo) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return f"SessionInfo({self.id}, {self.project or 'no project'}, user {self.user}, agents {self.agents})"


GLOBAL_SESSION = "global"  # the session of what holds in all sessions, see `smp_memory.global_memory`
