"""Add items to lists of a TOML file that belongs to a person, and remove them. Pure.

    [agent]
    activation_steps_append = [
      "Read our standards.",          # stays, with its comment
      "Memory (smp): …",              # added
    ]

Guarantees: `tomlkit` keeps the person's keys, values, comments and their order; a list may get or lose the comma after its last item.
Items of ours are recognised by how they begin; removing them also removes lists and tables that were added with them, which carry a
comment that says so. Each result is parsed with `tomllib` and compared with the intended value. A text that cannot be changed in
this way and back is refused (`NotMergeable`), for example a table that another one interrupts.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ADDED = "added by `smp install bmad`"


class NotMergeable(ValueError):
    """The text cannot be changed without touching something else; the message says why."""


def add_items(text: str, table: str, lists: dict[str, list[str]], ours: str) -> str:
    """Add items at the end of lists of a table, after removing those that were added before."""
    rest = remove_items(text, ours)
    expected = _parse(rest)
    inner = expected.setdefault(table, {})
    if not isinstance(inner, dict) or not all(isinstance(inner.get(name, []), list) for name in lists):
        raise NotMergeable(f"[{table}] is not a table with lists")
    for name, items in lists.items():
        inner[name] = [*inner.get(name, []), *items]
    if _parse(text) == expected:
        return text
    after = _edited(rest, lambda document: _add(document, table, lists))
    if after is None or _parsed(after) != expected:
        raise NotMergeable(f"[{table}] is written in a way that cannot be added to")
    remove_items(after, ours)  # nothing is added that could not be removed
    return after


def remove_items(text: str, ours: str) -> str:
    """Remove our items, and the lists and tables that were added for them and are empty now."""
    before = _parse(text)
    if ours not in text and ADDED not in text:
        return text
    after = _edited(text, lambda document: _remove(document, ours))
    if after is None or _without_ours(_parsed(after), ours) != _without_ours(before, ours):
        raise NotMergeable("the added items cannot be separated from the rest")
    return after


def _add(document: Any, table: str, lists: dict[str, list[str]]) -> None:
    import tomlkit
    from tomlkit.items import InlineTable

    if table not in document:
        document[table] = tomlkit.table().comment(ADDED)
    if isinstance(document[table], InlineTable):
        raise ValueError("an inline table has no room for comments")
    for name, items in lists.items():
        if name not in document[table]:
            document[table][name] = tomlkit.array().multiline(True).comment(ADDED)
        for item in items:
            document[table][name].append(item)


def _remove(container: Any, ours: str) -> None:
    for name, value in list(container.items()):
        if isinstance(value, dict):
            _remove(value, ours)
        elif isinstance(value, list):
            for number in reversed(range(len(value))):
                if isinstance(value[number], dict):
                    _remove(value[number], ours)
                elif isinstance(value[number], str) and value[number].startswith(ours):
                    del value[number]
        if value in ([], {}) and ADDED in value.trivia.comment:
            container.remove(name)


def _edited(text: str, edit: Callable[[Any], None]) -> str | None:
    """The text after a change of its document, with its line ends; None if the library cannot do it."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    is_windows = "\r\n" in text and text.count("\r\n") == text.count("\n")
    try:
        document = tomlkit.parse(text.replace("\r\n", "\n") if is_windows else text)
        edit(document)
        after = tomlkit.dumps(document)
    except (TOMLKitError, ValueError, TypeError, LookupError, AttributeError):
        return None
    return after.replace("\n", "\r\n") if is_windows else after


def _parse(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise NotMergeable(f"not TOML ({error})") from None


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return _parse(text)
    except NotMergeable:
        return None


def _without_ours(value: Any, ours: str) -> Any:
    """The value without our items, and without empty lists and tables."""
    if isinstance(value, dict):
        inner = {name: _without_ours(item, ours) for name, item in value.items()}
        return {name: item for name, item in inner.items() if item not in ({}, [])}
    if isinstance(value, list):
        return [_without_ours(item, ours) for item in value if not (isinstance(item, str) and item.startswith(ours))]
    return value
