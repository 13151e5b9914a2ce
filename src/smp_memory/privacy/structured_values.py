"""Names of values in structured data: name/value pairs, values nested under a name, lists of command-line arguments.

    value_name({"name": "DB_PASSWORD", "value": "x"}, "")     # 'DB_PASSWORD': the name that applies to `value`
    item_name("passwords")                                    # 'password': the name of each item of that list
    is_arguments(["mysql", "-u", "root"])                     # True: read as one command line

Guarantees: pure; `key_value_rules` decides which values are secrets.
"""

from __future__ import annotations

from smp_memory.privacy import key_value_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VALUE_KEYS = frozenset(["value", "values", "val", "v", "default", "current", "plain", "plaintext", "raw"])
_NAME_KEYS = ("name", "key", "variable", "setting", "option", "parameter", "field")
_NUMBER_DIGITS = 256  # a longer number is not a password, and slow to convert


def value_name(data: dict[str, Any], outer: str) -> str:
    """The name that applies to the `VALUE_KEYS` of a dictionary: the name of the pair, else that of the dictionary itself."""
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


def is_secret_name(name: str) -> bool:
    """Whether a value with this name, or the items of a list with it, can be a secret."""
    return key_value_rules.strength_of(item_name(name)) is not None


def as_text(value: Any) -> str | None:
    """A text or an integer as text, for checks by name; None for other values."""
    if type(value) is str:
        return value
    return str(abs(value)) if type(value) is int and value.bit_length() < 3 * _NUMBER_DIGITS else None


def is_option(item: Any) -> bool:
    return type(item) is str and item[:1] == "-" and item[1:2] not in ("", " ")


def is_arguments(items: list[Any]) -> bool:
    """Whether a list looks like command-line arguments: strings, one of which is an option."""
    return any(map(is_option, items)) and all(type(item) is str for item in items)


def replace_spans(items: list[str], spans: list[tuple[int, int, str]]) -> list[str]:
    """Replace spans of `" ".join(items)` in the items; each span has its replacement."""
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
    """The name, with a number if the dictionary already has it."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free
