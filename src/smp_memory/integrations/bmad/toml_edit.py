"""Add items to lists of a TOML file that belongs to a person, and remove them. Edits of its text. Pure.

    [agent]
    activation_steps_append = [
      "Read our standards.",          # stays, with its comment
      "Memory (smp): …",              # added
    ]

Guarantees: nothing of the person's changes: not a comment, a blank or a key. Items of ours are recognised by how they
begin; removing them leaves the text as it was, apart from a line end that a file without one got. Each result is parsed with
`tomllib` and compared with the intended value. A text that cannot be changed in this way is refused (`NotMergeable`).

The scanner (`parts`) finds every header and every key with its value and position in a text that is TOML, and is not confused by
strings or comments. It does not check that a text is TOML: `tomllib` does that.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_BLANK, _QUOTES = " \t\r\n", ("'''", '"""', "'", '"')


class TomlPart:
    """A header, or a key with its value."""

    def __init__(self, header: str, key: str, start: int, end: int) -> None:
        self.header = header  # the table it belongs to, or that it begins; as written
        self.key = key  # empty for a header
        self.start = start
        self.end = end
        self.items: list[tuple[int, int]] | None = None  # of a list: start and end of each item
        self.close = -1  # of a list: position of its closing bracket


def parts(text: str) -> list[TomlPart]:
    found: list[TomlPart] = []
    header, at = "", 0
    while (at := _skip(text, at)) < len(text):
        end = _line_end(text, at)
        if text[at] == "[":
            header = text[at:end].partition("#")[0].strip()
            found.append(TomlPart(header, "", at, end))
            at = end
            continue
        equals = _find_outside_strings(text, at, "=")
        part = TomlPart(header, text[at:equals].strip(), at, end)
        value = _skip(text, equals + 1)
        if text[value : value + 1] == "[":
            part.items = []
            part.close = part.end = _end_of_list(text, value, part.items)
            part.close -= 1
        else:
            part.end = _end_of_value(text, value)
        found.append(part)
        at = max(part.end, at + 1)
    return found


def _skip(text: str, at: int) -> int:
    """The position after blanks and comments."""
    while at < len(text):
        if text[at] == "#":
            at = _line_end(text, at)
        elif text[at] in _BLANK or text[at] == "\ufeff":
            at += 1
        else:
            break
    return at


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _find_outside_strings(text: str, at: int, mark: str) -> int:
    """The position of the next such character outside of strings."""
    while at < len(text) and text[at] != mark:
        at = _end_of_string(text, at) if text[at] in "'\"" else at + 1
    return at


def _end_of_string(text: str, at: int) -> int:
    """The position after the string that begins here."""
    quote = next(quote for quote in _QUOTES if text.startswith(quote, at))
    end = at + len(quote)
    while end < len(text):
        if text[end] == "\\" and quote[0] == '"':
            end += 2
        elif text.startswith(quote, end):
            end += len(quote)
            while len(quote) == 3 and end < len(text) and text[end] == quote[0]:  # quotes before the last three
                end += 1
            return end
        else:
            end += 1
    return len(text)


def _end_of_value(text: str, at: int) -> int:
    """The position after the value that begins here."""
    if text[at : at + 1] in ("'", '"'):
        return _end_of_string(text, at)
    if text[at : at + 1] == "[":
        return _end_of_list(text, at, [])
    if text[at : at + 1] == "{":
        at += 1
        while at < len(text) and text[at] != "}":
            at = (
                _end_of_string(text, at)
                if text[at] in "'\""
                else _end_of_value(text, at)
                if text[at] in "[{"
                else at + 1
            )
        return at + 1
    while at < len(text) and text[at] not in ",]}\n#":
        at += 1
    return at


def _end_of_list(text: str, at: int, items: list[tuple[int, int]]) -> int:
    """The position after the list that begins here; its items are added to `items`."""
    at = _skip(text, at + 1)
    while at < len(text) and text[at] != "]":
        if text[at] == ",":
            at = _skip(text, at + 1)
            continue
        end = _end_of_value(text, at)
        items.append((at, at + len(text[at:end].rstrip())))
        at = _skip(text, max(end, at + 1))
    return at + 1


BEGIN = "# >>> smp: put in by `smp install bmad`; `smp install bmad --undo` takes it out"
END = "# <<< smp"


class NotMergeable(ValueError):
    """The text cannot be changed without touching something else; the message says why."""


def add_items(text: str, table: str, lists: dict[str, list[str]], ours: str) -> str:
    """Add items at the end of lists of a table, after removing those that were added before."""
    rest = remove_items(text, ours)
    expected = parse(rest)
    inner = expected.setdefault(table, {})
    if not isinstance(inner, dict) or not all(isinstance(inner.get(name, []), list) for name in lists):
        raise NotMergeable(f"[{table}] is not a table with lists")
    header = next(
        (part for part in parts(rest) if not part.key and _normalised_header(part.header) == f"[{table}]"), None
    )
    after, missing = rest, dict(lists)
    if header is not None:
        for name, items in lists.items():
            known = [
                part for part in parts(after) if _normalised_header(part.header) == f"[{table}]" and part.key == name
            ]
            if known:
                after = _append_to_list(after, known[0], items)
                missing.pop(name)
    if missing:
        after = _with_block(after, table, missing, has_table=header is not None)
    for name, items in lists.items():
        inner[name] = [*inner.get(name, []), *items]
    try:
        result = parse(after)
    except NotMergeable:
        result = {}
    if result != expected:
        raise NotMergeable(f"[{table}] is written in a way that cannot be added to")
    return text if after == text else after


def remove_items(text: str, ours: str) -> str:
    """Remove our items and our block."""
    before = parse(text)
    after = text
    while (item := _find_ours(after, ours)) is not None:
        after = _without_item(after, *item)
    after = _without_block(after)
    if _without_ours(parse(after), ours) != _without_ours(before, ours):
        raise NotMergeable("the added items cannot be separated from the rest")
    return after


def parse(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotMergeable(f"not TOML ({error})") from None


# -- adding


def _with_block(text: str, table: str, lists: dict[str, list[str]], *, has_table: bool) -> str:
    ends = _newline(text)
    lines = [BEGIN] if has_table else [BEGIN, f"[{table}]"]
    for name, items in lists.items():
        lines += [f"{name} = [", *(f"  {_quoted(item)}," for item in items), "]"]
    block = "".join(line + ends for line in [*lines, END])
    if has_table:
        header = next(part for part in parts(text) if not part.key and _normalised_header(part.header) == f"[{table}]")
        if header.end == len(text):
            return text + ends + block
        return text[: header.end + 1] + block + text[header.end + 1 :]
    if not text:
        return block
    return text + ("" if text.endswith("\n") else ends) + ends + block


def _append_to_list(text: str, known: TomlPart, items: list[str]) -> str:
    assert known.items is not None
    line = text.rfind("\n", 0, known.close) + 1
    last = known.items[-1][1] if known.items else -1
    follows = last < 0 or "," in _without_comments(text[last : known.close])
    if text[line : known.close].strip() or "\n" not in text[known.start : known.close]:  # on the line of an item
        if last >= 0 and follows:
            return text[: known.close] + "".join(f"{_quoted(item)}," for item in items) + text[known.close :]
        position = known.close if last < 0 else last
        return text[:position] + ("" if last < 0 else ", ") + ", ".join(map(_quoted, items)) + text[position:]
    first = known.items[0][0] if known.items else -1
    blank = text[text.rfind("\n", 0, first) + 1 : first] if known.items else "  "
    indent, ends = blank if not blank.strip() else "  ", _newline(text)
    lines = "".join(
        f"{indent}{_quoted(item)},{ends}" if follows else f"{indent}, {_quoted(item)}{ends}" for item in items
    )
    return text[:line] + lines + text[line:]


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)  # a TOML string, too, for text without controls


# -- removing


def _find_ours(text: str, ours: str) -> tuple[int, int] | None:
    for part in parts(text):
        for start, end in part.items or ():
            if ours in text[start:end]:
                value = parse(f"x = {text[start:end]}")["x"]
                if isinstance(value, str) and value.startswith(ours):
                    return start, end
    return None


def _without_item(text: str, start: int, end: int) -> str:
    line, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    if line_end >= 0 and text[line:start].strip() in ("", ",") and text[end:line_end].strip() in ("", ","):
        return text[:line] + text[line_end + 1 :]
    rest = text[end:].lstrip(" \t")
    if rest.startswith(","):
        return text[:start] + rest[1:].lstrip(" \t")
    before = text[:start].rstrip(" \t")
    return before[:-1] + text[end:] if before.endswith(",") else text[:start] + text[end:]


def _without_block(text: str) -> str:
    """Remove the marks, and the lines between them that nobody has changed."""
    lines = text.splitlines(keepends=True)
    plain = [line.rstrip("\r\n") for line in lines]
    if BEGIN not in plain or END not in plain[plain.index(BEGIN) :]:
        return text
    first = plain.index(BEGIN)
    last = plain.index(END, first)
    start = sum(map(len, lines[:first]))
    inside = "".join(lines[first + 1 : last])
    rest = "".join(lines[last + 1 :])
    kept = _without_empty_lists(inside)
    header = next((part.header for part in parts(kept) if not part.key), "") if kept.strip() else ""
    if header and kept.strip() == header and not any(part.key for part in _until_header(rest)):
        kept = ""
    before = text[:start]
    if not kept and not rest and header and before.endswith(("\n\n", "\n\r\n")):
        before = before[: -1 - before.endswith("\r\n")]  # the blank line that came with the block
    return before + kept + rest


def _without_empty_lists(text: str) -> str:
    """Remove lists that have become empty."""
    for part in reversed(parts(text)):
        if part.items == [] and not text[text.find("[", part.start) + 1 : part.close].strip():
            line, end = text.rfind("\n", 0, part.start) + 1, text.find("\n", part.end)
            text = text[:line] + (text[end + 1 :] if end >= 0 else "")
    return text


def _until_header(text: str) -> list[TomlPart]:
    found = []
    for part in parts(text):
        if not part.key:
            break
        found.append(part)
    return found


# -- comparing


def _without_ours(value: Any, ours: str) -> Any:
    """The value without our items, and without empty lists and tables."""
    if isinstance(value, dict):
        inner = {name: _without_ours(item, ours) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item not in ({}, [])}
    if isinstance(value, list):
        return [_without_ours(item, ours) for item in value if not (isinstance(item, str) and item.startswith(ours))]
    return value


def _normalised_header(header: str) -> str:
    """`[ agent ]` and `["agent"]` are `[agent]`."""
    return header.replace(" ", "").replace("\t", "").replace('"', "").replace("'", "")


def _without_comments(text: str) -> str:
    """The text without comments; there are no strings after the last item of a list."""
    return "\n".join(line.partition("#")[0] for line in text.split("\n"))


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
