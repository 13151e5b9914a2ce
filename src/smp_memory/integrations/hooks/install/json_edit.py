"""How does a JSON file change in one place and stay as it is in all others? Edits of its text. Pure.

Guarantees: what is not named stays byte for byte: order, indent, line ends, spacing. What is added looks like its
neighbours. A text that is not plain JSON (comments, trailing commas, a name twice) is refused, because a rewrite would lose
something. The result is read back and compared with what the change should give.
"""

from __future__ import annotations

import json
from json.decoder import scanstring  # type: ignore[attr-defined]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BLANK = " \t\r\n"


class NotPlain(ValueError):
    """The text is not JSON that can be changed in place; the message says why."""


class JsonPart:
    """A value in the text: where it stands, and, of an object or a list, its parts."""

    def __init__(self, value: Any, start: int, end: int) -> None:
        self.value = value
        self.start = start
        self.end = end
        self.parts: list[tuple[str, int, JsonPart]] = []  # name (of a list: empty), where the part begins, the part

    def part(self, name: str) -> JsonPart | None:
        return next((part for key, _, part in self.parts if key == name), None)


def read(text: str) -> JsonPart:
    """The whole text as parts. Raises NotPlain."""
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    try:
        whole = _part(text, start)
    except (ValueError, RecursionError) as error:
        raise NotPlain(f"not plain JSON ({error})") from None
    if _skip(text, whole.end) != len(text):
        raise NotPlain("not plain JSON (something stands behind its end)")
    if not isinstance(whole.value, dict):
        raise NotPlain("not a JSON object")
    return whole


def _part(text: str, start: int) -> JsonPart:
    value, end = json.JSONDecoder(object_pairs_hook=_once_each).raw_decode(text, start)
    part = JsonPart(value, start, end)
    if isinstance(value, (dict, list)):
        at = _skip(text, start + 1)
        while at < end - 1:
            begins, name = at, ""
            if isinstance(value, dict):
                name, at = scanstring(text, at + 1, True)
                at = _skip(text, _skip(text, at) + 1)
            inner = _part(text, at)
            part.parts.append((name, begins, inner))
            at = _skip(text, inner.end)
            at = _skip(text, at + 1) if text[at] == "," else at
    return part


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


# -- changes


def add(text: str, path: tuple[str, ...], name: str | None, value: Any) -> str:
    """With a member, or (`name` None) an item at the end of a list; the objects on the way to it are made if need be."""
    whole = read(text)
    inner = whole
    for depth, key in enumerate(path):
        if not isinstance(inner.value, dict):
            raise NotPlain(f'"{path[depth - 1]}" is not an object')
        found = inner.part(key)
        if found is None:
            made: Any = [value] if name is None else {name: value}
            for outer in reversed(path[depth + 1 :]):
                made = {outer: made}
            return _read_back(text, _inserted(text, inner, depth, key, made), (*path[:depth], key), made)
        inner = found
    if not isinstance(inner.value, list if name is None else dict):
        raise NotPlain(f'"{path[-1]}" is not {"a list" if name is None else "an object"}')
    there: Any = inner.value
    changed = [*there, value] if name is None else {**there, name: value}
    return _read_back(text, _inserted(text, inner, len(path), name, value), path, changed)


def _read_back(before: str, after: str, path: tuple[str, ...], value: Any) -> str:
    """The text, when it says what it should and nothing else has changed."""
    wanted = inner = read(before).value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    if read(after).value != wanted:
        raise NotPlain("written in a way that cannot be changed in place")
    return after


def _inserted(text: str, into: JsonPart, depth: int, name: str | None, value: Any) -> str:
    line_end = "\r\n" if "\r\n" in text else "\n"
    step = _step(text)
    opening = text[into.start]
    label = "" if name is None else json.dumps(name, ensure_ascii=False) + ": "
    if not into.parts:
        lines = _lines(value, step, depth + 1, line_end)
        body = f"{line_end}{step * (depth + 1)}{label}{lines}{line_end}{step * depth}"
        return text[: into.start] + opening + body + text[into.end - 1 :]
    last = into.parts[-1][2]
    if "\n" not in text[into.start : into.end]:
        return f"{text[: last.end]}, {label}{json.dumps(value, ensure_ascii=False)}{text[last.end :]}"
    lines = _lines(value, step, depth + 1, line_end)
    return f"{text[: last.end]},{line_end}{_indent(text, into) or step * (depth + 1)}{label}{lines}{text[last.end :]}"


def _lines(value: Any, step: str, depth: int, line_end: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=step).split("\n")
    return (line_end + step * depth).join(lines)


def _step(text: str) -> str:
    """By how much the file indents."""
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip():
            return blank
    return "  "


def _indent(text: str, into: JsonPart) -> str:
    """What stands before the last part, if it begins a line."""
    begins = into.parts[-1][1]
    line = text[text.rfind("\n", 0, begins) + 1 : begins]
    return "" if line.strip() else line


def remove(text: str, path: tuple[str | int, ...]) -> str:
    """Without a member or an item, and the comma that goes with it."""
    inner = read(text)
    outer, place = inner, 0
    for key in path:
        outer = inner
        places = [at for at, (name, _, _) in enumerate(outer.parts) if at == key or (name == key and name != "")]
        place = places[0]
        inner = outer.parts[place][2]
    _, begins, part = outer.parts[place]
    if place + 1 < len(outer.parts):
        return text[:begins] + text[outer.parts[place + 1][1] :]
    if place:
        return text[: outer.parts[place - 1][2].end] + text[part.end :]
    return text[: outer.start + 1] + text[outer.end - 1 :]
