"""Names of values in structured data: name/value pairs, values nested under a name, lists of command-line arguments.

    value_name({"name": "DB_PASSWORD", "value": "x"}, "")     # 'DB_PASSWORD': the name of what stands under `value`
    item_name("passwords")                                    # 'password': the name of each item of that list
    is_arguments(["mysql", "-u", "root"])                     # True: read as one command line

Guarantees: pure; what a value must look like to be a secret is decided by `assignments`.
"""

from __future__ import annotations

from smp_memory.privacy import key_value_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VALUE_KEYS = frozenset(["value", "values", "val", "v", "default", "current", "plain", "plaintext", "raw"])
_NAME_KEYS = ("name", "key", "variable", "setting", "option", "parameter", "field")
_NUMBER_DIGITS = 256  # a longer number is no password, and slow to write out


def value_name(data: dict[str, Any], outer: str) -> str:
    """The name that the `VALUE_KEYS` of a dictionary go by: that of a pair, or else that of the dictionary itself."""
    for key in _NAME_KEYS:
        name = data.get(key)
        if type(name) is str and key_value_rules.strength_of(name) is not None:
            return name
    return outer


def item_name(name: str) -> str:
    """The name of each item of a list: the list's own, or its singular if that names a password or a secret."""
    if name[-1:] in "sS" and key_value_rules.strength_of(name) is None:
        singular = name[:-1]
        if key_value_rules.strength_of(singular) in (key_value_rules.PASSWORD, key_value_rules.SECRET):
            return singular
    return name


def is_telling(name: str) -> bool:
    """Whether the name can make a secret of a value, or of the items of a list."""
    return key_value_rules.strength_of(item_name(name)) is not None


def as_text(value: Any) -> str | None:
    """A value as it is judged by its name: text, or a whole number."""
    if type(value) is str:
        return value
    return str(abs(value)) if type(value) is int and value.bit_length() < 3 * _NUMBER_DIGITS else None


def is_option(item: Any) -> bool:
    return type(item) is str and item[:1] == "-" and item[1:2] not in ("", " ")


def is_arguments(items: list[Any]) -> bool:
    """Whether a list is a command line in parts: texts, one of which is an option."""
    return any(map(is_option, items)) and all(type(item) is str for item in items)


def cut(items: list[str], spans: list[tuple[int, int, str]]) -> list[str]:
    """The items without what lies in the spans of `" ".join(items)`; each span has the text that takes its place."""
    cleaned, at, first = [], 0, 0
    for item in items:
        end = at + len(item)
        while first < len(spans) and spans[first][1] <= at:
            first += 1
        pieces, done, place = [], at, first
        while place < len(spans) and spans[place][0] < end:
            start = max(spans[place][0], done)
            pieces += [item[done - at : start - at], spans[place][2]]
            done = min(spans[place][1], end)
            place += 1
        cleaned.append("".join([*pieces, item[done - at :]]))
        at = end + 1
    return cleaned


def free_key(name: str, taken: dict[str, Any]) -> str:
    """The name, with a number if the dictionary has it already."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free
