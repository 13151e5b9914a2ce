"""Do these values fit? One field, one operator, one value, and how they compare.

- Numbers as numbers, true and false only with each other, text by its letters. Texts that are both times are compared
  as times, and a date means its whole day: `created > 2026-01-05` begins on the 6th. The words info, low, medium, high
  and critical have that order. Text with a number only by less and greater, if the text is one.
- A list equals a value if one of its elements does; so does a path that leads through a list of objects.
- `contains`, `startswith`, `endswith`, `matches` ignore case; `equals` and `in` do not. `contains` on tags means the tag
  or one below it (`security` has `security.login`); on other lists an element or a part of one.
- A missing field is like null: it equals null, `exists` is false, it is less and greater than nothing; the operators
  that begin with `not` hold exactly when their opposite does not. Empty text, lists and objects do not `exist`.
- In the written form `version=3` finds the number 3 and the text "3".

Guarantees: `matches` never raises, whatever a memory holds. What a condition may look like was checked before, by
`smp.query.where`.
"""

from __future__ import annotations

from smp.query.field_values import (
    confidence_twins,
    each_inside,
    equal,
    has_part,
    has_tag,
    reader_of,
    scales_of,
    texts_in,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Test = Callable[[list[Any]], bool]

WITHOUT_VALUE = ("exists", "not_exists")
WORDS_OF_JSON = {"true": True, "false": False, "null": None}
_OPPOSITES = {
    "not_equals": "equals",
    "not_contains": "contains",
    "not_in": "in",
    "not_exists": "exists",
}


class Condition:
    """One field, one operator, one value. `value` is a tuple for `in`, and None for `exists`."""

    __slots__ = ("_read", "_test", "field", "operator", "value", "written")

    def __init__(self, field: str, operator: str, value: Any, written: bool = False) -> None:
        self.field = field
        self.operator = operator
        self.value = value
        self.written = written  # it came as text, so `3` may mean the number or the text
        self._read = reader_of(field)
        self._test = _test_of(self)

    def matches(self, record: Mapping[str, Any]) -> bool:
        return self._test(self._read(record))

    def __repr__(self) -> str:
        return f"{self.field} {self.operator}" + ("" if self.operator in WITHOUT_VALUE else f" {self.value!r}")


def _test_of(condition: Condition) -> Test:
    """The function that says whether the values of a field fit."""
    operator = _OPPOSITES.get(condition.operator, condition.operator)
    test = _TESTS[operator](condition)
    if operator == condition.operator:
        return test
    return lambda values: not test(values)


def _equals(condition: Condition) -> Test:
    return _one_of(_meanings(condition, condition.value))


def _in(condition: Condition) -> Test:
    return _one_of([each for value in condition.value for each in _meanings(condition, value)])


def _one_of(meanings: list[Any]) -> Test:
    finds_missing = any(meaning is None for meaning in meanings)

    def test(values: list[Any]) -> bool:
        if finds_missing and all(value is None for value in values):
            return True
        return any(equal(value, meaning) for value in each_inside(values) for meaning in meanings)

    return test


def _meanings(condition: Condition, value: Any) -> list[Any]:
    """What a value may mean: a text from the command line may be a number or a word of JSON."""
    if condition.field == "confidence":
        return confidence_twins(value)
    if not condition.written:
        return [list(value) if isinstance(value, tuple) else value]
    if value in WORDS_OF_JSON:
        return [value, WORDS_OF_JSON[value]]
    numbers = [low for _, low, _ in scales_of(value, "") if isinstance(low, float)]
    return [value, *numbers]


def _contains(condition: Condition) -> Test:
    part = str(condition.value).casefold()
    search = has_tag if condition.field.rpartition(".")[2] == "tags" else has_part
    return lambda values: search(values, part)


def _ordered(condition: Condition) -> Test:
    scales = scales_of(condition.value, condition.field)
    holds = _ORDERS[condition.operator]

    def test(values: list[Any]) -> bool:
        return any(_holds_on_first_scale(value, scales, holds) for value in each_inside(values))

    return test


def _holds_on_first_scale(value: Any, scales: list[Any], holds: Callable[[Any, Any, Any], bool]) -> bool:
    for read, low, high in scales:
        place = read(value)
        if place is not None:
            return holds(place, low, high)
    return False


def _exists(condition: Condition) -> Test:
    return lambda values: any(value not in (None, "", [], {}) for value in values)


def _startswith(condition: Condition) -> Test:
    start = str(condition.value).casefold()
    return lambda values: any(text.startswith(start) for text in texts_in(values))


def _endswith(condition: Condition) -> Test:
    end = str(condition.value).casefold()
    return lambda values: any(text.endswith(end) for text in texts_in(values))


def _matches(condition: Condition) -> Test:
    import fnmatch  # rare, and it loads re
    import re

    pattern = re.compile(fnmatch.translate(str(condition.value).casefold()))
    return lambda values: any(pattern.match(text) for text in texts_in(values))


_TESTS: dict[str, Callable[[Condition], Test]] = {
    "equals": _equals,
    "in": _in,
    "contains": _contains,
    "exists": _exists,
    "startswith": _startswith,
    "endswith": _endswith,
    "matches": _matches,
    "less": _ordered,
    "less_or_equal": _ordered,
    "greater": _ordered,
    "greater_or_equal": _ordered,
}
_ORDERS: dict[str, Callable[[Any, Any, Any], bool]] = {
    "less": lambda place, low, high: place < low,
    "less_or_equal": lambda place, low, high: place <= high,
    "greater": lambda place, low, high: place > high,
    "greater_or_equal": lambda place, low, high: place >= low,
}
