"""Change a JSON text in one place and leave all other bytes as they are. Pure.

Comments (`//`, `/* */`) and a comma after the last item are read, because settings of editors have them.
Guarantees: order, indent, line ends, spacing and comments of everything else stay byte for byte. What is added is formatted like its
neighbours; removing what was added last gives the bytes from before. A text that is not such JSON, or has a name twice, is refused.
The result is parsed and compared with the intended value.
"""

from __future__ import annotations

import json
from json.decoder import scanstring  # type: ignore[attr-defined]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BLANK = " \t\r\n"
_CLOSING = {"{": "}", "[": "]"}


class NotPlainJson(ValueError):
    """The text is not JSON that can be changed in place; the message says why."""


class JsonPart:
    """A value in the text: its position and, for an object or a list, its parts."""

    def __init__(self, value: Any, start: int, end: int) -> None:
        self.value = value
        self.start = start
        self.end = end
        self.comma = -1  # where the comma after it stands, if there is one
        self.parts: list[tuple[str, int, JsonPart]] = []  # name (in a list: empty), start of the member, value

    def part(self, name: str) -> JsonPart | None:
        return next((part for key, _, part in self.parts if key == name), None)


def read(text: str) -> JsonPart:
    """The whole text as parts. Raises NotPlainJson."""
    try:
        whole = _part(text, _skip(text, 1 if text.startswith("\ufeff") else 0))
        end = _skip(text, whole.end)
    except (ValueError, RecursionError) as error:
        raise NotPlainJson(f"not JSON ({error})") from None
    if end != len(text):
        raise NotPlainJson("not JSON (there is text after its end)")
    if not isinstance(whole.value, dict):
        raise NotPlainJson("not a JSON object")
    return whole


def _part(text: str, start: int) -> JsonPart:
    closing = _CLOSING.get(text[start : start + 1])
    if closing is None:
        value, end = json.JSONDecoder().raw_decode(text, start)
        return JsonPart(value, start, end)
    whole = JsonPart({} if closing == "}" else [], start, start)
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        begins, name = at, ""
        if closing == "}":
            name, at = _name(text, at)
        inner = _part(text, at)
        whole.parts.append((name, begins, inner))
        at = _skip(text, inner.end)
        if text[at : at + 1] == ",":
            inner.comma = at
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise ValueError(f"a comma or {closing} is missing at character {at + 1}")
    whole.end = at + 1
    names = [name for name, _, _ in whole.parts]
    if closing == "}" and len(set(names)) != len(names):
        raise ValueError("an object has a name twice")
    values = [inner.value for _, _, inner in whole.parts]
    whole.value = dict(zip(names, values, strict=True)) if closing == "}" else values
    return whole


def _name(text: str, at: int) -> tuple[str, int]:
    """The name of a member, and where its value begins."""
    if text[at : at + 1] != '"':
        raise ValueError(f"a name in quotes is missing at character {at + 1}")
    name, at = scanstring(text, at + 1, True)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise ValueError(f"a colon is missing at character {at + 1}")
    return name, _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    """The position after blanks and comments."""
    while True:
        while at < len(text) and text[at] in _BLANK:
            at += 1
        if text.startswith("//", at):
            end = text.find("\n", at)
            at = end if end >= 0 else len(text)
        elif text.startswith("/*", at):
            at = text.index("*/", at + 2) + 2
        else:
            return at


def _after_comments_on_line(text: str, at: int) -> int:
    """The position after comments that stand behind a value on its line."""
    end = at
    while True:
        while text[at : at + 1] in (" ", "\t"):
            at += 1
        if text.startswith("//", at):
            return at + len(text[at:].partition("\n")[0].rstrip("\r"))
        close = text.find("*/", at + 2) + 2 if text.startswith("/*", at) else 0
        if not close or "\n" in text[at:close]:
            return end
        end = at = close


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
        comments = text[into.start + 1 : into.end - 1].rstrip(_BLANK)
        body = f"{comments}{line_end}{step * (depth + 1)}{label}{lines}{line_end}{step * depth}"
        if comments:  # the blanks before the closing bracket stay
            return f"{text[: into.start]}{opening}{body.rstrip(_BLANK)}{text[into.start + 1 + len(comments) :]}"
        return text[: into.start] + opening + body + text[into.end - 1 :]
    last = into.parts[-1][2]
    before, after = (",", "") if last.comma < 0 else ("", ",")
    place = _after_comments_on_line(text, last.end if last.comma < 0 else last.comma + 1)
    if "\n" not in text[into.start : into.end]:
        new = f" {label}{json.dumps(value, ensure_ascii=False)}"
    else:
        lines = _lines(value, step, depth + 1, line_end)
        new = f"{line_end}{_indent(text, into) or step * (depth + 1)}{label}{lines}"
    return f"{text[: last.end]}{before}{text[last.end : place]}{new}{after}{text[place:]}"


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
    whole = inner = read(text)
    outer, index = inner, 0
    for key in path:
        outer = inner
        index = next(at for at, (name, _, _) in enumerate(outer.parts) if at == key or (name == key and name != ""))
        inner = outer.parts[index][2]
    after = _cut(text, outer, index)
    value = outer.value
    value.pop(index if isinstance(value, list) else outer.parts[index][0])
    if read(after).value != whole.value:
        raise NotPlainJson("written in a way that cannot be changed in place")
    return after


def _cut(text: str, outer: JsonPart, index: int) -> str:
    _, begins, part = outer.parts[index]
    end = part.end if part.comma < 0 else part.comma + 1
    if index + 1 < len(outer.parts):
        return text[:begins] + text[end:].lstrip(_BLANK)
    start = len(text[:begins].rstrip(_BLANK))
    if index:
        comma = outer.parts[index - 1][2].comma
        kept = text[:start] if part.comma >= 0 else text[:comma] + text[comma + 1 : start]
        return kept + text[end:]
    has_comments = text[outer.start + 1 : start].strip() or text[end : outer.end - 1].strip()
    return text[:start] + text[end:] if has_comments else text[: outer.start + 1] + text[outer.end - 1 :]
