"""Session metadata: everything a store knows about a session apart from its memories."""

from __future__ import annotations

from smp_memory.model.record import copied
from smp_memory.model.times import to_moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


FORMAT = 1


class SessionInfo:
    """Participants, project, creation time, context and settings of a session, and the counters that rewrites must keep."""

    __slots__ = (
        "agents", "config", "context", "created_text", "figures", "format", "generation", "id", "incomplete", "is_assumed",
        "numbers", "other", "path", "project", "seq", "status", "tags", "uid", "user",
    )  # fmt: skip

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
        incomplete: list[str] | None = None,
        other: dict[str, Any] | None = None,
    ) -> None:
        self.id = id
        self.is_assumed = False  # True: the session's files hold no metadata
        self.path = ""  # where it was read, for people
        self.created_text = created
        self.user = user
        self.agents = agents or []
        self.project = project
        self.tags = tags or []
        self.context = context or {}
        self.config = config or {}
        self.status = status
        self.generation = generation  # incremented by every rewrite
        self.numbers = numbers or {}  # the largest numbers ever given out, as of the last rewrite
        self.seq = seq
        self.format = format
        self.uid = uid  # random; distinguishes sessions of one name that two clones of a store created
        # Transactions of which entries were missing when something was written after them.
        self.incomplete = incomplete or []
        self.figures: dict[str, Any] = {}  # counts, sizes and times in the form of the layout, as of a time
        self.other = other or {}  # unknown fields, written by hand or by another tool

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

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"SessionInfo({self.id}, {self.project or 'no project'}, user {self.user}, agents {self.agents})"


class SessionFigures:
    """Figures of a session for its metadata, at a time."""

    __slots__ = ("agents", "as_of", "bytes", "counts", "last_accessed", "quota_bytes", "updated")

    def __init__(
        self, counts: dict[str, int], agents: dict[str, dict[str, Any]], updated: str | None, last_accessed: str | None
    ) -> None:
        self.counts = counts  # memories by type
        self.agents = agents  # by name: message_count, last_active
        self.updated = updated
        self.last_accessed = last_accessed
        self.bytes = self.quota_bytes = 0
        self.as_of = ""


GLOBAL_SESSION = "global"  # the session with the memories for all sessions, see `smp_memory.global_memory`
