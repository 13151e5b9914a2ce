"""How does something long fit on a line? Texts without line breaks, cut with an ellipsis; values as they are if small."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST_LINE = 200
_LONGEST_VALUE = 400
_DEEPEST_VALUE = 8


def brief(text: str, longest: int = _LONGEST_LINE) -> str:
    """A text on one line, cut if it is long."""
    line = " ".join(text[: longest * 4].split())
    return line if len(line) <= longest and len(text) <= longest * 4 else line[: longest - 1] + "…"


def small(value: Any) -> Any:
    """A value as it is if it is small, else the beginning of its JSON text."""
    if not _is_flat(value, _DEEPEST_VALUE):
        return "…"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST_VALUE else brief(text, _LONGEST_VALUE)


def _is_flat(value: Any, levels: int) -> bool:
    """Whether a value is nested no deeper than so many levels."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_flat(each, levels - 1) for each in inner)
