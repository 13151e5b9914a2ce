"""Change a JSON text in one place and leave all other bytes as they are. Pure.

Guarantees: order, indent, line ends and spacing of everything else stay byte for byte. What is added is formatted like its
neighbours. A text that is not plain JSON (comments, trailing commas, a duplicate name) is refused, because a rewrite would lose
something. The result is parsed and compared with the intended value.
"""

from __future__ import annotations

import json
from json.decoder import scanstring  # type: ignore[attr-defined]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BLANK = " \t\r\n"


class NotPlainJson(ValueError):
    """The text is not JSON that can be changed in place; the message says why."""


class JsonPart:
    """A value in the text: its position and, for an object or a list, its parts."""

    def __init__(self, value: Any, start: int, end: int) -> None:
        self.value = value
        self.start = start
        self.end = end
        self.parts: list[tuple[str, int, JsonPart]] = []  # name (in a list: empty), start of the member, value

    def part(self, name: str) -> JsonPart | None:
        return next((part for key, _, part in self.parts if key == name), None)


def read(text: str) -> JsonPart:
    """The whole text as parts. Raises NotPlain."""
    start = _skip(text, 1 if text.startswith("\ufeff") else 0)
    try:
        whole = _part(text, start)
    except (ValueError, RecursionError) as error:
        raise NotPlainJson(f"not plain JSON ({error})") from None
    if _skip(text, whole.end) != len(text):
        raise NotPlainJson("not plain JSON (there is text after its end)")
    if not isinstance(whole.value, dict):
        raise NotPlainJson("not a JSON object")
    return whole


def _part(text: str, start: int) -> JsonPart:
    value, end = json.JSONDecoder(object_pairs_hook=_unique_names).raw_decode(text, start)
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


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("an object has a name twice")
    return names


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


# -- changes


def add(text: str, path: tuple[str, ...], name: str | None, value: Any) -> str:
    """Add a member or, with `name` None, an item at the end of a list; missing objects on the path are created."""
    whole = read(text)
    inner = whole
    for depth, key in enumerate(path):
        if not isinstance(inner.value, dict):
            raise NotPlainJson(f'"{path[depth - 1]}" is not an object')
        found = inner.part(key)
        if found is None:
            made: Any = [value] if name is None else {name: value}
            for outer in reversed(path[depth + 1 :]):
                made = {outer: made}
            return _verify(text, _insert(text, inner, depth, key, made), (*path[:depth], key), made)
        inner = found
    if not isinstance(inner.value, list if name is None else dict):
        raise NotPlainJson(f'"{path[-1]}" is not {"a list" if name is None else "an object"}')
    before: Any = inner.value
    changed = [*before, value] if name is None else {**before, name: value}
    return _verify(text, _insert(text, inner, len(path), name, value), path, changed)


def _verify(before: str, after: str, path: tuple[str, ...], value: Any) -> str:
    """Return the new text if it has the intended value and nothing else has changed; raise NotPlainJson if not."""
    expected = inner = read(before).value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    if read(after).value != expected:
        raise NotPlainJson("written in a way that cannot be changed in place")
    return after


def _insert(text: str, into: JsonPart, depth: int, name: str | None, value: Any) -> str:
    line_end = "\r\n" if "\r\n" in text else "\n"
    step = _indent_step(text)
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


def _indent_step(text: str) -> str:
    """One step of the file's indentation."""
    for line in text.splitlines():
        blank = line[: len(line) - len(line.lstrip(" \t"))]
        if blank and line.strip():
            return blank
    return "  "


def _indent(text: str, into: JsonPart) -> str:
    """The indentation of the last part, if it begins a line."""
    begins = into.parts[-1][1]
    line = text[text.rfind("\n", 0, begins) + 1 : begins]
    return "" if line.strip() else line


def remove(text: str, path: tuple[str | int, ...]) -> str:
    """Remove a member or an item, and its comma."""
    inner = read(text)
    outer, index = inner, 0
    for key in path:
        outer = inner
        index = next(at for at, (name, _, _) in enumerate(outer.parts) if at == key or (name == key and name != ""))
        inner = outer.parts[index][2]
    _, begins, part = outer.parts[index]
    if index + 1 < len(outer.parts):
        return text[:begins] + text[outer.parts[index + 1][1] :]
    if index:
        return text[: outer.parts[index - 1][2].end] + text[part.end :]
    return text[: outer.start + 1] + text[outer.end - 1 :]
