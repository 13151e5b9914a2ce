"""What do the tools take? Their arguments; the descriptions are what a model reads of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from smp.mcp.schema import Arguments
from smp.model.types import KINDS

Type = Literal["decision", "finding", "preference", "learning", "conversation", "agent_state", "artifact", "summary"]

_TYPES = (
    "decision: what was chosen, and why; finding: something noticed that may need action; "
    "preference: how the user wants things done; a new value of a key replaces the old one; "
    "learning: a fact or lesson for later work; conversation: one message, with its role; "
    "agent_state: your own working notes, replaced each time; artifact: something made, with its name or path; "
    "summary: what happened over a longer time"
)
_SESSION = "default: the current one"
_SCOPE = "default: all"
_REF = "session/ID or ID"
FEWEST_TOKENS = 200  # the fence and its note take 80; what is left holds one memory
Tokens = Annotated[int, Field(ge=FEWEST_TOKENS, le=50_000, description="budget of the answer")]
TOP_LEVEL = (
    "tags",
    "topic",
    "importance",
    "rationale",
    "severity",
    "status",
    "key",
    "author",
    "idempotency_key",
)  # of `remember`
_TIME = "such as: last week, since monday, 2026-01, 2026-01-05..2026-01-10"


class Recall(Arguments):
    query: str | None = Field(None, description='Plain words; "a phrase", prefix*, -without. Empty: the newest')
    session: str | None = Field(None, description=_SCOPE)
    types: list[str] = Field([], description="Only these types, see remember")
    tags: list[str] = Field([], description="Any of these tags")
    agent: str | None = Field(None, description="Only what this one wrote")
    topic: str | None = None
    time: str | None = Field(None, description=_TIME)
    where: dict[str, Any] = Field({}, description='Fields, such as {"severity": "critical", "status": "open"}')
    sort: Literal["relevance", "newest", "oldest", "priority", "importance"] | None = None
    limit: int = Field(10, ge=1, le=100)
    offset: int = Field(0, ge=0, description="next_offset of the answer before")
    max_tokens: Tokens = 1500


class Remember(Arguments):
    type: Type = Field(description=_TYPES)
    text: str | None = Field(None, description="The memory itself, in one or two sentences that stand alone")
    session: str | None = Field(None, description=_SESSION)
    tags: list[str] = Field([])
    topic: str | None = None
    importance: float | None = Field(None, ge=0, le=1)
    rationale: str | None = Field(None, description="decision: why")
    severity: str | None = Field(None, description="finding: critical, high, medium, low or info")
    status: str | None = None
    key: str | None = Field(None, description="preference: what it is about, such as language")
    fields: dict[str, Any] = Field({}, description="Any other field: role, name, path, agent, relations, …")
    author: str | None = Field(None, description="Who says so; default: you")
    idempotency_key: str | None = Field(None, description="A call repeated with it stores nothing new")

    @classmethod
    def _arranged(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Fields that the type knows are accepted beside `text`, too."""
        kind = KINDS.get(str(given.get("type")))
        known = {*kind.rank, *kind.aliases, "created"} - {*cls.model_fields} if kind is not None else set()
        beside = {name: value for name, value in given.items() if name in known}
        fields = given.get("fields", {})
        if not beside or not isinstance(fields, dict):
            return given
        for name in fields.keys() & beside.keys():
            if fields[name] != beside[name]:
                raise ValueError(f"{name} is given twice with different values, here and in fields")
        return {**{name: value for name, value in given.items() if name not in known}, "fields": {**fields, **beside}}


class Get(Arguments):
    ids: list[str] = Field(min_length=1, max_length=100, description=_REF)
    session: str | None = Field(None, description=_SESSION)
    related: bool = Field(False, description="Also what they are connected with")
    history: bool = Field(False, description="Also who changed what, and when")
    start: int = Field(0, ge=0, description="next_start of the answer before, for a long text")
    max_tokens: Tokens = 4000


class Context(Arguments):
    task: str | None = Field(None, description="What you are about to do, in a sentence")
    topic: str | None = None
    agent: str | None = Field(None, description="For whom; default: you")
    session: str | None = Field(None, description=_SESSION)
    max_tokens: Tokens = 1500


class Update(Arguments):
    action: Literal["change", "resolve", "pin", "unpin", "relate"]
    id: str = Field(description=_REF)
    session: str | None = Field(None, description=_SESSION)
    changes: dict[str, Any] = Field({}, description="change: new values; null removes a field")
    expected_revision: int | None = Field(None, description="change: only if it is still at this revision")
    resolution: str | None = Field(None, description="resolve: what was done")
    status: str = Field("resolved", description="resolve")
    target: str | None = Field(None, description="relate: " + _REF)
    kind: str = Field("relates_to", description="relate: resolves, supersedes, causes, …")


_TRASH = "delete: to the trash; restore: back; list: the trash"


class Forget(Arguments):
    action: Literal["delete", "restore", "list"] = Field("delete", description=_TRASH)
    ids: list[str] = Field([], description=_REF)
    session: str | None = Field(None, description=_SESSION)
    query: str | None = Field(None, description="Instead of ids: all words must be there")
    types: list[str] = Field([])
    tags: list[str] = Field([])
    topic: str | None = None
    agent: str | None = None
    time: str | None = Field(None, description="as in recall")
    reason: str | None = None
    preview: bool = Field(False, description="Only show what would happen")
    limit: int = Field(20, ge=1, le=100)
    offset: int = Field(0, ge=0)


class ForgetOrErase(Forget):
    """For a server that may erase."""

    action: Literal["delete", "restore", "list", "erase"] = Field(  # type: ignore[assignment]
        "delete", description=_TRASH + "; erase: the bytes, for good"
    )


class Sessions(Arguments):
    action: Literal["list", "create", "show"] = "list"
    id: str | None = Field(None, description="create, show")
    project: str | None = None
    user: str | None = None
    agents: list[str] = Field([])
    tags: list[str] = Field([])
    limit: int = Field(20, ge=1, le=100)
    offset: int = Field(0, ge=0)


class Overview(Arguments):
    what: Literal["summary", "topics", "timeline", "agents", "stats"] = "summary"
    session: str | None = Field(None, description=_SESSION + "; *: all")
    time: str | None = Field(None, description="timeline: " + _TIME)
    max_tokens: Tokens = 1500
