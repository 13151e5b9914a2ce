"""Aggregate a field over all memories that match a question: count, sum, avg, min, max. Pure."""

from __future__ import annotations

from smp.query.field_values import reader_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def aggregated(wanted: list[tuple[str, str]], records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By field and operation. `count` gives how many memories have each value; the others are over numbers, None if there are none."""
    found: dict[str, dict[str, Any]] = {}
    for field, operation in wanted:
        read = reader_of(field)
        values = [each for record in records for value in read(record) for each in _each(value)]
        found.setdefault(field, {})[operation] = (
            _counted(values) if operation == "count" else _reduced(values, operation)
        )
    return found


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _counted(values: list[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        if value is not None and not isinstance(value, (dict, list)):
            name = value if isinstance(value, str) else str(value)
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _reduced(values: list[Any], operation: str) -> float | None:
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    if not numbers:
        return None
    if operation == "avg":
        return sum(numbers) / len(numbers)
    if operation == "sum":
        return float(sum(numbers))
    return float(min(numbers) if operation == "min" else max(numbers))
