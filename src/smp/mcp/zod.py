"""Are these arguments what the reference memory server takes? Its checks, with its words.

The reference server describes its arguments with a library called zod, today in version 4; clients and their logs know its
messages. Guarantees: what it accepts is accepted, without fields that it does not know; what it refuses is refused in the
same words.
"""

from __future__ import annotations

from typing import Any


def checked(schema: dict[str, Any], given: Any) -> tuple[Any, list[str]]:
    """The value without what the schema does not know, and what is wrong with it."""
    problems: list[str] = []
    value = _checked(schema, given, "", problems)
    return value, problems


def _checked(schema: dict[str, Any], value: Any, path: str, problems: list[str]) -> Any:
    wanted = schema["type"]
    if _kind(value) != wanted:
        said = f"Invalid input: expected {wanted}, received {_kind(value)}"
        problems.append(f"{said} at {path}" if path else said)
        return None
    if wanted == "array":
        items = schema["items"]
        return [_checked(items, item, f"{path}[{at}]", problems) for at, item in enumerate(value)]
    if wanted == "object":
        known = schema["properties"]
        return {
            name: _checked(inner, value.get(name, _MISSING), f"{path}.{name}" if path else name, problems)
            for name, inner in known.items()
        }
    return value


class _Missing:
    pass


_MISSING = _Missing()


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    known = {str: "string", int: "number", float: "number", list: "array", dict: "object"}
    return known.get(type(value), "undefined")
