"""What does a tool take and give, in as few words as possible? JSON schemas of models, and arguments read by them.

A client hands the definitions of all tools to its model with every request, so each word of them costs. Guarantees: a schema
says no less than the model checks; titles, nulls and defaults of nothing are left out. A wrong argument is an
`InvalidRecord` that names it, in one sentence and without what the caller gave. Models often write a list as text, or one
thing where several are wanted: both are understood.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from smp.errors import InvalidRecord


class Arguments(BaseModel):
    """What a tool takes. Unknown names are refused: a mistyped one must not be ignored."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _as_meant(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return cls._arranged(
            {name: _as_wanted(_wanted(cls, name), name, value) for name, value in given.items() if value is not None}
        )

    @classmethod
    def _arranged(cls, given: dict[str, Any]) -> dict[str, Any]:
        """The arguments where the model has them; a model that accepts other places overrides this."""
        return given


class Answer(BaseModel):
    """What a tool gives; fields without a value are left out."""


M = TypeVar("M", bound=Arguments)


def read(model: type[M], given: dict[str, Any] | None) -> M:
    """The arguments of a call, checked."""
    try:
        return model.model_validate(given or {})
    except ValidationError as error:
        problems = [_problem(model, each) for each in error.errors(include_url=False, include_input=False)]
        raise InvalidRecord(" ".join(problems), field=str(error.errors()[0]["loc"][:1])) from None


def _problem(model: type[BaseModel], error: Any) -> str:
    name = ".".join(str(part) for part in error["loc"]) or "arguments"
    if error["type"] == "extra_forbidden":
        return f"{name}: there is no such argument; there are {', '.join(model.model_fields)}."
    if error["type"] == "missing":
        return f"{name}: is needed."
    said = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return f"{name}: {said[:1].lower()}{said[1:]}."


def _wanted(model: type[BaseModel], name: str) -> str:
    """`list` or `dict` if that is what a field takes."""
    field = model.model_fields.get(name)
    shown = str(field.annotation) if field is not None else ""
    return next((kind for kind in ("list", "dict") if shown.startswith((kind, f"<class '{kind}"))), "")


def _as_wanted(wanted: str, name: str, value: Any) -> Any:
    if not wanted or not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        parsed = None
    if wanted == "list":
        if isinstance(parsed, list):
            return parsed
        return [part.strip() for part in value.split(",") if part.strip()] if name == "tags" else [value]
    return parsed if isinstance(parsed, dict) else value


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model, in few words."""
    whole = model.model_json_schema()
    shared = whole.pop("$defs", {})
    small: dict[str, Any] = _small(whole, shared)
    small.pop("description", None)
    small.setdefault("properties", {})
    return small


def _small(value: Any, shared: dict[str, Any], *, names: bool = False) -> Any:
    """Without titles, nulls and defaults of nothing; `names`: these are the names of fields, not words of a schema."""
    if isinstance(value, list):
        return [_small(each, shared) for each in value]
    if not isinstance(value, dict):
        return value
    if names:
        return {name: _small(each, shared) for name, each in value.items()}
    if "$ref" in value:
        inner = {**shared[value["$ref"].rpartition("/")[2]], **value}
        inner = {name: each for name, each in inner.items() if name not in ("$ref", "description")}
        return _small(inner, shared)
    kinds = [each for each in value.get("anyOf", ()) if each != {"type": "null"}]
    if len(kinds) == 1:
        value = {**{name: each for name, each in value.items() if name != "anyOf"}, **kinds[0]}
    if value.get("additionalProperties") is True:  # the default
        value = {name: each for name, each in value.items() if name != "additionalProperties"}
    dropped = {"title"} | ({"default"} if value.get("default", 0) in (None, [], {}, False) else set())
    return {
        name: _small(each, shared, names=name in ("properties", "$defs"))
        for name, each in value.items()
        if name not in dropped
    }
