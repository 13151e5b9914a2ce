"""HTML elements that escape their text.

    el("a", "Tom & Jerry", href="/x?a=1&b=2", class_="id")  →  <a href="/x?a=1&amp;b=2" class="id">Tom &amp; Jerry</a>

Guarantees: a `str` becomes text, whatever it contains; only `Html`, which this package makes, stands as it is. Control characters and marks
that change the direction of text are shown as `\\x1b`, so that no memory can disguise what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape as _escape
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

_VOID = frozenset(("br", "hr", "img", "input", "link", "meta", "wbr"))
_MISLEADING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Iterable[Child] | None"


def visible(text: str) -> str:
    """The text with control characters and marks of direction spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return _MISLEADING.sub(_spelled, text.replace("\r\n", "\n"))


def _spelled(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def spelled_marks(text: str) -> dict[str, str]:
    """The characters of a text that `visible` spells out, by their spelling."""
    return {_spelled(found): found[0] for found in _MISLEADING.finditer(text.replace("\r\n", "\n"))}


def escape(text: str) -> Html:
    return text if isinstance(text, Html) else Html(_escape(visible(text)))


def join(*children: Child) -> Html:
    """Elements and texts one after the other."""
    return Html("".join(_pieces(children)))


def _pieces(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            yield escape(child)
        elif isinstance(child, (int, float)):
            yield str(child)
        else:
            yield from _pieces(child)


def el(tag: str, *children: Child, **attributes: Any) -> Html:
    """An element. Names of attributes: `class_` is `class`, `data_live` is `data-live`; False and None leave an attribute out."""
    head = "".join(
        _attribute(name, value) for name, value in attributes.items() if value is not None and value is not False
    )
    if tag in _VOID:
        return Html(f"<{tag}{head}>")
    return Html(f"<{tag}{head}>{join(*children)}</{tag}>")


def _attribute(name: str, value: Any) -> str:
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def url(path: str, *parts: str, **query: Any) -> str:
    """A path with quoted parts and a query; empty values are left out: `url("/memory/{}/{}", session, id)`."""
    filled = path.format(*(quote(part, safe="") for part in parts))
    given = [(name, value) for name, values in query.items() for value in _values(values)]
    return f"{filled}?{urlencode(given)}" if given else filled


def _values(values: Any) -> list[str]:
    each = values if isinstance(values, (list, tuple)) else [values]
    return [str(value) for value in each if value not in (None, "", False)]
