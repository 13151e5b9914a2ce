"""Read, compare and aggregate values of a record's fields, for filters and aggregations. Pure.

A field is looked up by its own name first, then by the names of the designs. A path that leads through a list of
objects gives one value for each. A comparison puts both sides on one scale: numbers, times, levels from info to
critical, or text; values that share no scale are neither less nor greater.
Guarantees: reading, comparing and aggregating never raise, whatever a memory holds.
"""

from __future__ import annotations

from datetime import date, datetime

from smp_memory.model.times import to_microseconds, to_moment, to_text
from smp_memory.model.types import COMMON_ALIASES, CONFIDENCE_WORDS, KINDS, SEVERITY_LEVELS
from smp_memory.search.calendar import DAY, days, to_datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    Computed = tuple[float, int, int | None]  # priority, access count, last access in microseconds
    Read = Callable[[Mapping[str, Any]], list[Any]]
    Scale = tuple[
        Callable[[Any], Any], Any, Any
    ]  # how to read a value; the lowest and highest value that equal the one of the query

_STATUS = ("status", "resolution.status")
_DESIGN_NAMES = {
    "decay.priority": "priority",
    "decay.access_count": "access.count",
    "decay.last_accessed": "access.last",
    "access_count": "access.count",
    "last_accessed": "access.last",
    "session_id": "session",
    "updated_at": "updated",
}
COMPUTED = frozenset(("priority", "decay", "access", "access_count", "last_accessed"))  # what `with_computed` adds


# -- reading


def reader_of(path: str) -> Read:
    """A function that returns the values at a path of a record: an empty list if the field is missing."""
    if path in _STATUS:
        return _read_status if path == "status" else _read_resolution_status
    parts = path.split(".")

    def read(record: Mapping[str, Any]) -> list[Any]:
        if path in record:
            return [record[path]]
        if parts[0] in record:
            return _walk(record, parts)
        return _walk(record, _own_name(record, path).split("."))

    return read


def with_computed(record: dict[str, Any], computed: Computed) -> dict[str, Any]:
    """A record with its computed values: priority, access count and last access, which files may have outdated."""
    priority, count, last = computed
    used = None if last is None else to_text(to_datetime(last))
    stored = record.get("decay")
    decay = {**(stored if isinstance(stored, dict) else {}), "priority": priority, "access_count": count}
    if used is not None:
        decay["last_accessed"] = used
    return {"priority": priority, **record, "decay": decay, "access": {"count": count, "last": used}}


def _own_name(record: Mapping[str, Any], path: str) -> str:
    """A path in SMP's field names: `made_by` is the author, `issue` the text of a finding."""
    if path in _DESIGN_NAMES:
        return _DESIGN_NAMES[path]
    head, dot, rest = path.partition(".")
    kind = KINDS.get(record.get("type", ""))
    aliases = kind.aliases if kind else COMMON_ALIASES
    return aliases.get(head, head) + dot + rest


def _walk(value: Any, parts: list[str]) -> list[Any]:
    found = [value]
    for part in parts:
        found = [inner for each in found for inner in _step(each, part)]
    return found


def _step(value: Any, part: str) -> Iterator[Any]:
    for each in value if isinstance(value, list) else (value,):
        if isinstance(each, dict) and part in each:
            yield each[part]


def _read_status(record: Mapping[str, Any]) -> list[Any]:
    return _first_status(record, (["status"], ["resolution", "status"]))


def _read_resolution_status(record: Mapping[str, Any]) -> list[Any]:
    return _first_status(record, (["resolution", "status"], ["status"]))


def _first_status(record: Mapping[str, Any], paths: tuple[list[str], list[str]]) -> list[Any]:
    """The status at the first of the designs' paths that has one, or the type's default."""
    for parts in paths:
        stored = [each for each in _walk(record, parts) if each]
        if stored:
            return stored
    kind = KINDS.get(record.get("type", ""))
    return [kind.default_status] if kind and kind.default_status else []


# -- comparing


def each_inside(values: list[Any]) -> Iterator[Any]:
    """The values, and the elements of those that are lists."""
    for value in values:
        yield value
        if isinstance(value, list):
            yield from value


def is_comparable(value: Any) -> bool:
    return isinstance(value, str | int | float | date) and not isinstance(value, bool)


def equal(stored: Any, expected: Any) -> bool:
    """The same value; 1 and 1.0 are, 1 and true are not; a time equals the date that it lies in."""
    if isinstance(stored, bool) or isinstance(expected, bool):
        return stored is expected
    if isinstance(expected, str | date):
        if stored == expected:
            return True
        span = _span(expected)
        moment = _moment(stored) if span else None
        return moment is not None and span is not None and span[0] <= moment <= span[1]
    return bool(stored == expected)


def confidence_twins(value: Any) -> list[Any]:
    """A confidence as a number and as words: `high` equals 0.9."""
    number = _confidence(value)
    return (
        [value] if number is None else [number, *(word for word, worth in CONFIDENCE_WORDS.items() if worth == number)]
    )


def scales_of(expected: Any, field: str) -> list[Scale]:
    """The scales on which a value can be compared, the most specific first."""
    scales: list[Scale] = []
    number = _confidence(expected) if field == "confidence" else _number(expected)
    if number is not None:
        scales.append((_confidence if field == "confidence" else _number, number, number))
    span = _span(expected)
    if span:
        scales.append((_moment, *span))
    level = level_of(expected)
    if level is not None:
        scales.append((level_of, level, level))
    if isinstance(expected, str):
        scales.append((_text, expected, expected))
    return scales


def _number(value: Any) -> float | int | None:
    if isinstance(value, int | float):
        return None if isinstance(value, bool) else value
    if isinstance(value, str) and value[:1] in "+-.0123456789" and value.isascii() and "_" not in value:
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _confidence(value: Any) -> float | int | None:
    return CONFIDENCE_WORDS[value] if isinstance(value, str) and value in CONFIDENCE_WORDS else _number(value)


def level_of(value: Any) -> int | None:
    return SEVERITY_LEVELS.get(value.lower()) if isinstance(value, str) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _moment(value: Any) -> int | None:
    span = _span(value)
    return span[0] if span else None


def _span(value: Any) -> tuple[int, int] | None:
    """The first and last microsecond of a time, or of a date's day."""
    try:
        if isinstance(value, str):
            return _span_of_text(value)
        if isinstance(value, datetime):
            moment = to_microseconds(value)
            return moment, moment
        if isinstance(value, date):
            begin, end = days(value.toordinal())
            return begin, end - 1
    except (ValueError, OverflowError):
        pass
    return None


def _span_of_text(text: str) -> tuple[int, int] | None:
    if len(text) < 10 or text[4] != "-" or text[7] != "-" or not text[:4].isdigit():
        return None
    moment = to_microseconds(to_moment(text))
    return moment, moment + (DAY - 1 if len(text) == 10 else 0)


# -- text


def texts_in(values: list[Any]) -> Iterator[str]:
    """Texts, elements of lists of texts, and numbers as text, all case-folded."""
    for value in each_inside(values):
        if isinstance(value, str):
            yield value.casefold()
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)


def has_tag(values: list[Any], tag: str) -> bool:
    return any(text == tag or text.startswith(tag + ".") for text in texts_in(values))


def has_part(values: list[Any], part: str) -> bool:
    """Whether a text contains `part`, at any depth of lists and objects, or an object has a field of this name."""
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if any(str(key).casefold() == part for key in value):
                return True
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif any(part in text for text in texts_in([value])):
            return True
    return False


# -- aggregating


def aggregate(requested: list[tuple[str, str]], records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Aggregations by field and operation.

    `count` gives the number of memories with each value; sum, avg, min and max are over numbers, None if there are none.
    """
    results: dict[str, dict[str, Any]] = {}
    for field, operation in requested:
        read = reader_of(field)
        values = [each for record in records for value in read(record) for each in _as_list(value)]
        result = _value_counts(values) if operation == "count" else _reduced(values, operation)
        results.setdefault(field, {})[operation] = result
    return results


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _value_counts(values: list[Any]) -> dict[str, int]:
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
