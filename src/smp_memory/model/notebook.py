"""HTML tables of records and hits for notebooks. Every value is escaped."""

from __future__ import annotations

from html import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

_MAX_CHARACTERS = 300
_MAX_ROWS = 100


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """An HTML table; rows beyond the first 100 are counted in a last row."""
    listed = list(rows)
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in listed[:_MAX_ROWS])
    if len(listed) > _MAX_ROWS:
        body += f'<tr><td colspan="{len(columns)}">… and {len(listed) - _MAX_ROWS:,} more</td></tr>'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else str(value)
    return escape(text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…")
