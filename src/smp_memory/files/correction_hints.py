"""Hints for correcting a damaged entry: common mistakes in JSON and YAML, with line and column.

A hint names lines, columns and fields; it quotes no value.
"""

from __future__ import annotations

import json
import re

_FIELD = re.compile(r"( *)(?:- +)?([\w-]+):(?: (.*))?$")
_LINE_IN_ENTRY = re.compile(r"in line (\d+) of the entry")
_LIMIT_BYTES = 1 << 16  # longer entries get no hint


def with_hint(text: bytes, line: int, reason: str) -> str:
    """The reason why an entry is damaged, with a hint if the mistake is a common one; `line` is where the entry starts."""
    if len(text) > _LIMIT_BYTES:
        return reason
    try:
        entry = text.decode()
    except UnicodeDecodeError:
        return reason
    hint = _json_hint(entry.strip()) if entry.lstrip().startswith("{") else _yaml_hint(entry, line, reason)
    found = _LINE_IN_ENTRY.search(reason)
    if found:
        reason = reason.replace(found[0], f"in line {line + int(found[1]) - 1}")
    return f"{reason}: {hint}" if hint else reason


def _json_hint(text: str) -> str:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        at, message = error.pos, error.msg
    except (ValueError, RecursionError):
        return ""
    else:
        return ""
    before, rest = text[:at].rstrip(), text[at:]
    if message.startswith("Extra data"):
        return (
            "remove the comma at the end of the line"
            if rest.strip() == ","
            else f"one entry on each line; begin a new line at column {at + 1}"
        )
    if message.startswith("Illegal trailing comma") or (before.endswith(",") and rest[:1] in ("}", "]")):
        return "remove the comma before the closing bracket"
    if message.startswith("Expecting ','"):
        return f"write a comma before column {at + 1}" if rest.strip() else "close the entry with }"
    if message.startswith("Expecting property name"):
        return "write names and texts in double quotes" if rest.strip() else "close the entry with }"
    if message.startswith("Expecting ':'"):
        return f"write a colon before column {at + 1}"
    if message.startswith("Unterminated string"):
        return f'close the text that begins at column {at + 1} with "'
    return f"write a value at column {at + 1}; put texts in double quotes"


def _yaml_hint(text: str, line: int, reason: str) -> str:
    lines = text.splitlines()
    first = re.match(r" *- *", lines[0]) if lines else None
    if first is None:
        return "begin an entry with `  - ` and indent its other fields by 4 spaces" if "stray" in reason else ""
    column = first.end() if lines[0].strip() != "-" else len(first[0]) + 1
    above = ""
    for number, each in enumerate(lines):
        field = _FIELD.match(each)
        if field is None:
            if each.strip() and not above and ":" not in each:
                return "write each field as `name: value`, with a colon and a space"
            continue
        indent, name, value = column if number == 0 else len(field[1]), field[2], field[3] or ""
        nested = indent > column and above.endswith((":", "|", ">", "|-", ">-"))
        if indent != column and not nested and number and not _is_inside(lines, number, column):
            return f"indent {name!r} in line {line + number} by {column} spaces, like the fields above it"
        hint = _value_hint(name, value, line + number)
        if hint:
            return hint
        if indent == column:
            above = each.rstrip()
    return ""


def _is_inside(lines: list[str], number: int, column: int) -> bool:
    """Whether a deeper line belongs to a field above that has no value of its own on its line."""
    for each in reversed(lines[:number]):
        found = _FIELD.match(each)
        if found and (len(found[1]) <= column or each is lines[0]):
            return (found[3] or "").strip() in ("", "|", ">", "|-", ">-")
    return False


def _value_hint(name: str, value: str, line: int) -> str:
    value = value.strip()
    sign = value[:1]
    if sign in ("'", '"'):
        closed = len(value) > 1 and value.endswith(sign)
        return "" if closed else f"close the quote in line {line}: {name}: {sign}…{sign}"
    if sign in ("[", "{"):
        end = "]" if sign == "[" else "}"
        return "" if value.endswith(end) else f"close the bracket in line {line}: {name}: {sign}…{end}"
    if ": " in value or value.endswith(":") or (sign and sign in "&*!%@`"):
        return f'put the text in line {line} in quotes: {name}: "…"'
    return ""
