"""The arguments of the tools: their models, their JSON schemas, and reading the arguments of a call.

A client passes the definitions of all tools to its model with every request, so each word of them costs tokens: schemas omit titles,
nulls and empty defaults. Guarantees: a schema says no less than the model checks. A wrong argument is an `InvalidRecord` that names
it, in one sentence and without the value that the caller gave. Models often write a list as text, or one value where several are
expected: both are accepted.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from smp_memory.errors import InvalidRecord
from smp_memory.model.types import KINDS, in_order


class Arguments(BaseModel):
    """The arguments of a tool. Unknown names are refused: a mistyped one must not be ignored."""

    model_config = ConfigDict(extra="forbid")
    used_by: ClassVar[dict[str, tuple[str, ...]]] = {}  # arguments that only some values of `chosen_by` use
    chosen_by: ClassVar[str] = "action"

    @model_validator(mode="before")
    @classmethod
    def _normalise(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return cls._rearrange(
            {name: _coerce(_container_type(cls, name), value) for name, value in given.items() if value is not None}
        )

    @classmethod
    def _rearrange(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Move arguments to where the model expects them; overridden by a model that accepts them elsewhere, too."""
        return given

    def check_use(self) -> None:
        """Refuse an argument that the chosen action would ignore."""
        chosen = getattr(self, self.chosen_by)
        for name, users in self.used_by.items():
            if chosen not in users and getattr(self, name) != type(self).model_fields[name].default:
                raise InvalidRecord(f"{name}: {chosen} does not use this argument, only {' and '.join(users)}. Nothing was done.", field=name)  # fmt: skip


class Answer(BaseModel):
    """The answer of a tool; fields without a value are left out."""


M = TypeVar("M", bound=Arguments)


def read(model: type[M], given: dict[str, Any] | None) -> M:
    """The arguments of a call, checked."""
    try:
        arguments = model.model_validate(given or {})
    except ValidationError as error:
        problems = [_problem(model, each) for each in error.errors(include_url=False, include_input=False)]
        raise InvalidRecord(" ".join(problems), field=str(error.errors()[0]["loc"][:1])) from None
    if arguments.used_by:
        arguments.check_use()
    return arguments


def _problem(model: type[BaseModel], error: Any) -> str:
    name = ".".join(str(part) for part in error["loc"]) or "arguments"
    if error["type"] == "extra_forbidden":
        return f"{name}: there is no such argument; use one of {', '.join(model.model_fields)}."
    if error["type"] == "missing":
        return f"{name}: is required."
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return f"{name}: {message[:1].lower()}{message[1:]}."


def _container_type(model: type[BaseModel], name: str) -> str:
    """`list` or `dict` if a field takes one, else empty."""
    field = model.model_fields.get(name)
    annotation = str(field.annotation) if field is not None else ""
    return next((kind for kind in ("list", "dict") if annotation.startswith((kind, f"<class '{kind}"))), "")


def _coerce(container: str, value: Any) -> Any:
    """A text as the list or dict that the field takes, if it can be read as one."""
    if not container or not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = None
    if container == "list":
        if isinstance(parsed, list):
            return parsed
        return [part.strip() for part in value.split(",") if part.strip()]
    return parsed if isinstance(parsed, dict) else value


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model, in as few words as possible."""
    full = model.model_json_schema()
    definitions = full.pop("$defs", {})
    compact: dict[str, Any] = _compact(full, definitions)
    compact.pop("description", None)
    compact.setdefault("properties", {})
    return compact


def _compact(value: Any, definitions: dict[str, Any], *, names: bool = False) -> Any:
    """A schema without titles, nulls and empty defaults; `names`: the keys are names of fields, not keywords of a schema."""
    if isinstance(value, list):
        return [_compact(each, definitions) for each in value]
    if not isinstance(value, dict):
        return value
    if names:
        return {name: _compact(each, definitions) for name, each in value.items()}
    if "$ref" in value:
        inner = {**definitions[value["$ref"].rpartition("/")[2]], **value}
        inner = {name: each for name, each in inner.items() if name not in ("$ref", "description")}
        return _compact(inner, definitions)
    kinds = [each for each in value.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) == 1:
        value = {**{name: each for name, each in value.items() if name != "anyOf"}, **kinds[0]}
    if value.get("additionalProperties") is True:  # the default
        value = {name: each for name, each in value.items() if name != "additionalProperties"}
    dropped = {"title"} | ({"default"} if value.get("default", 0) in (None, [], {}, False) else set())
    return {
        name: _compact(each, definitions, names=name in ("properties", "$defs"))
        for name, each in value.items()
        if name not in dropped
    }


def _known_type(name: Any) -> Any:
    if not isinstance(name, str) or name not in KINDS:
        *others, last = [repr(kind.name) for kind in in_order("place")]
        raise ValueError(f"should be {', '.join(others)} or {last}")
    return name


def _with_types(schema: dict[str, Any]) -> None:
    """The types, and what each is for."""
    kinds = in_order("place")
    schema["enum"] = [kind.name for kind in kinds]
    schema["description"] = "; ".join(f"{kind.name}: {kind.definition}" for kind in kinds)


Type = Annotated[str, BeforeValidator(_known_type), Field(json_schema_extra=_with_types)]

_SESSION = "default: the current one"
_SCOPE = "default: all"
_REF = "session/ID or ID"
MIN_TOKENS = 200  # the fence and its note take 80; the rest holds one memory
Tokens = Annotated[int, Field(ge=MIN_TOKENS, le=50_000, description="budget of the answer")]
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


class RecallArguments(Arguments):
    query: str | None = Field(None, description='Plain words; "a phrase", prefix*, -without. Empty: the newest')
    session: str | None = Field(None, description=_SCOPE)
    types: list[str] = Field([], description="Only these types, see remember")
    tags: list[str] = Field([], description="Any of these tags")
    agent: str | None = Field(None, description="Only memories by this author")
    topic: str | None = None
    time: str | None = Field(None, description=_TIME)
    where: dict[str, Any] = Field({}, description='Fields, such as {"severity": "critical", "status": "open"}')
    sort: Literal["relevance", "newest", "oldest", "priority", "importance"] | None = None
    min_relevance: float | None = Field(None, description="0 to 1. 0 lists weak matches, too")
    include_expired: bool = Field(False, description="Also memories that are not valid now")
    limit: int = Field(10, ge=1, le=100)
    offset: int = Field(0, ge=0, description="next_offset of the previous answer")
    max_tokens: Tokens = 1500


class RememberArguments(Arguments):
    type: Type
    text: str | None = Field(None, description="The memory itself, in one or two sentences that stand alone")
    session: str | None = Field(None, description=_SESSION + "; global: for all sessions")
    tags: list[str] = Field([])
    topic: str | None = None
    importance: float | None = Field(None, ge=0, le=1)
    rationale: str | None = Field(None, description="decision: why")
    severity: str | None = Field(None, description="finding: critical, high, medium, low or info")
    status: str | None = None
    key: str | None = Field(None, description="preference: what it is about, such as language")
    fields: dict[str, Any] = Field(
        {}, description="Any other field: role, name, path, agent, relations, aliases, valid_until, turn_ref"
    )
    author: str | None = Field(None, description="Who says so; default: you")
    idempotency_key: str | None = Field(None, description="A repeated call with the same key stores nothing new")

    @classmethod
    def _rearrange(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Accept fields of the type at the top level, too, and move them into `fields`."""
        kind = KINDS.get(str(given.get("type")))
        known = {*kind.rank, *kind.aliases, "created"} - {*cls.model_fields} if kind is not None else set()
        top_level = {name: value for name, value in given.items() if name in known}
        fields = given.get("fields", {})
        if not top_level or not isinstance(fields, dict):
            return given
        for name in fields.keys() & top_level.keys():
            if fields[name] != top_level[name]:
                raise ValueError(f"{name} is given twice with different values, here and in fields")
        others = {name: value for name, value in given.items() if name not in known}
        return {**others, "fields": {**fields, **top_level}}


class GetArguments(Arguments):
    ids: list[str] = Field(min_length=1, max_length=100, description=_REF)
    session: str | None = Field(None, description=_SESSION)
    related: bool = Field(False, description="Also related memories")
    history: bool = Field(False, description="Also who changed what, and when")
    start: int = Field(0, ge=0, description="next_start of the previous answer, for a long text")
    max_tokens: Tokens = 4000


class ContextArguments(Arguments):
    task: str | None = Field(None, description="What you are about to do")
    topic: str | None = None
    tags: list[str] = []
    project: str | None = None
    agent: str | None = None
    session: str | None = Field(None, description=_SESSION)
    max_tokens: Tokens = 1500


class UpdateArguments(Arguments):
    used_by: ClassVar = {
        "changes": ("change",),
        "expected_revision": ("change",),
        "resolution": ("resolve",),
        "status": ("resolve",),
        "target": ("relate",),
        "kind": ("relate",),
    }
    action: Literal["change", "resolve", "pin", "unpin", "mute", "unmute", "relate"]
    id: str = Field(description=_REF)
    session: str | None = Field(None, description=_SESSION)
    changes: dict[str, Any] = Field({}, description="change: new values; null removes a field")
    expected_revision: int | None = Field(None, description="change: only if it is still at this revision")
    resolution: str | None = Field(None, description="resolve: what was done")
    status: str = Field("resolved", description="resolve: the new status")
    target: str | None = Field(None, description="relate: " + _REF)
    kind: str = Field("relates_to", description="relate: resolves, supersedes, causes, …")


CRITERIA = ("query", "types", "tags", "topic", "agent", "time")  # of `forget`, instead of ids
_TRASH = "delete: move to the trash; restore: take out of it; list: show it"


class ForgetArguments(Arguments):
    used_by: ClassVar = {
        **dict.fromkeys(("ids", *CRITERIA, "reason", "preview", "echoes"), ("delete", "restore", "erase")),
        "limit": ("list",),
        "offset": ("list",),
    }
    action: Literal["delete", "restore", "list"] = Field("delete", description=_TRASH)
    ids: list[str] = Field([], description=_REF)
    session: str | None = Field(None, description=_SESSION)
    query: str | None = Field(None, description="Instead of ids: memories with all of these words")
    types: list[str] = Field([])
    tags: list[str] = Field([])
    topic: str | None = None
    agent: str | None = None
    time: str | None = Field(None, description="as in recall")
    reason: str | None = None
    preview: bool = Field(False, description="Only show what would happen")
    echoes: bool = Field(False, description="Also turns that say the same")
    limit: int = Field(20, ge=1, le=100)
    offset: int = Field(0, ge=0)


class ForgetOrEraseArguments(ForgetArguments):
    """For a server that may erase."""

    action: Literal["delete", "restore", "list", "erase"] = Field(  # type: ignore[assignment]
        "delete", description=_TRASH + "; erase: remove for good"
    )


class SessionsArguments(Arguments):
    used_by: ClassVar = {
        "id": ("create", "show"),
        **dict.fromkeys(("project", "user", "agents", "tags"), ("create",)),
        "limit": ("list",),
        "offset": ("list",),
    }
    action: Literal["list", "create", "show"] = "list"
    id: str | None = Field(None, description="create, show")
    project: str | None = None
    user: str | None = None
    agents: list[str] = Field([])
    tags: list[str] = Field([])
    limit: int = Field(20, ge=1, le=100)
    offset: int = Field(0, ge=0)


class OverviewArguments(Arguments):
    chosen_by = "what"
    used_by: ClassVar = {"time": ("timeline",)}
    what: Literal["summary", "topics", "timeline", "agents", "stats"] = "summary"
    session: str | None = Field(None, description=_SESSION + "; *: all")
    time: str | None = Field(None, description="timeline: " + _TIME)
    max_tokens: Tokens = 1500
