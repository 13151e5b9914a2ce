"""Filters on the fields of memories: the shapes of `where`, the operators, and how values compare.

Shapes that `compile_filter` reads; several conditions must all hold:

    {"severity": "critical"}                        equals
    {"severity": ["high", "critical"]}              in
    {"impact.score": {"greater": 3, "less": 9}}     any operators
    {"field": "tags", "operator": "contains", "value": "auth"}      as in design 003, also as a list of these
    [("severity", "equals", "critical"), ("evidence", "exists")]
    "severity=critical"  "impact.score>3"  "tags~auth"  "status!=open"  "evidence?"  "!evidence"  "path matches src/*"

The designs' field names are understood as on input (`timestamp`, `made_by`, `issue`, `decay.priority`). `status` and
`resolution.status` are the same field; without a value it is open for a finding and active for a decision. `priority`
and `access` are computed at query time, not read from a file; a memory's own field `priority` comes first.

How values compare:
- Numbers as numbers, true and false only with each other, text by its letters. Texts that are both times are compared
  as times, and a date means its whole day: `created > 2026-01-05` begins on the 6th. The words info, low, medium, high
  and critical have that order. Text with a number only by less and greater, if the text is one.
- A list equals a value if one of its elements does; so does a path that leads through a list of objects.
- `contains`, `startswith`, `endswith`, `matches` ignore case; `equals` and `in` do not. `contains` on tags means the
  tag or one below it (`security` has `security.login`); on other lists an element or a part of one.
- A missing field is like null: it equals null, `exists` is false, it is less and greater than nothing; the operators
  that begin with `not` hold exactly when their opposite does not. Empty text, lists and objects do not `exist`.
- In the written form `version=3` finds the number 3 and the text "3".

Guarantees: a wrong shape, field or operator is an `InvalidQuery` when compiled; `matches` never raises, whatever a
memory holds.
"""

from __future__ import annotations

from smp_memory.errors import InvalidQuery, UserError
from smp_memory.model.types import KINDS, kind_of
from smp_memory.search.field_values import (
    COMPUTED,
    confidence_twins,
    each_inside,
    equal,
    has_part,
    has_tag,
    is_comparable,
    reader_of,
    scales_of,
    texts_in,
    with_computed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    from smp_memory.model.record import Record
    from smp_memory.search.field_values import Computed

    Test = Callable[[list[Any]], bool]

WITHOUT_VALUE = ("exists", "not_exists")
JSON_CONSTANTS = {"true": True, "false": False, "null": None}
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
        self.written = written  # given as text, so `3` may be the number or the text
        self._read = reader_of(field)
        self._test = _test_of(self)

    def matches(self, record: Mapping[str, Any]) -> bool:
        return self._test(self._read(record))

    def values_in(self, record: Mapping[str, Any]) -> list[Any]:
        """The values of the field in a memory; None for a missing one."""
        return self._read(record)

    def __repr__(self) -> str:
        return f"{self.field} {self.operator}" + ("" if self.operator in WITHOUT_VALUE else f" {self.value!r}")


def _test_of(condition: Condition) -> Test:
    """The function that tests the values of a field."""
    operator = _OPPOSITES.get(condition.operator, condition.operator)
    test = _TESTS[operator](condition)
    if operator == condition.operator:
        return test
    return lambda values: not test(values)


def _equals(condition: Condition) -> Test:
    return _one_of(_readings(condition, condition.value))


def _in(condition: Condition) -> Test:
    return _one_of([each for value in condition.value for each in _readings(condition, value)])


def _one_of(readings: list[Any]) -> Test:
    matches_missing = any(reading is None for reading in readings)

    def test(values: list[Any]) -> bool:
        if matches_missing and all(value is None for value in values):
            return True
        return any(equal(value, reading) for value in each_inside(values) for reading in readings)

    return test


def _readings(condition: Condition, value: Any) -> list[Any]:
    """The values that a value may stand for: text from the command line may be a number, true, false or null."""
    if condition.field == "confidence":
        return confidence_twins(value)
    if not condition.written:
        return [list(value) if isinstance(value, tuple) else value]
    if value in JSON_CONSTANTS:
        return [value, JSON_CONSTANTS[value]]
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


OPERATORS = (
    "equals",
    "not_equals",
    "contains",
    "not_contains",
    "less",
    "less_or_equal",
    "greater",
    "greater_or_equal",
    "in",
    "not_in",
    "exists",
    "not_exists",
    "startswith",
    "endswith",
    "matches",
)
_OTHER_NAMES = {
    "equals": "= == eq equal is",
    "not_equals": "!= <> ne notequal not isnot",
    "contains": "~ has includes like",
    "not_contains": "!~",
    "less": "< lt lessthan below",
    "less_or_equal": "<= lte lessthanorequal lessorequals atmost",
    "greater": "> gt greaterthan more above",
    "greater_or_equal": ">= gte greaterthanorequal greaterorequals atleast",
    "in": "include oneof anyof",
    "not_in": "exclude nin noneof",
    "exists": "?",
    "not_exists": "missing",
    "startswith": "^= prefix",
    "endswith": "$= suffix",
    "matches": "*= glob",
}


def _plain(name: str) -> str:
    """One spelling of `lessThan`, `less_than`, `less-than` and `$lessThan`."""
    plain = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    return plain[1:] if plain[:1] == "$" and plain[1:].isalpha() else plain


_BY_NAME = {_plain(name): name for name in OPERATORS} | {
    other: name for name, others in _OTHER_NAMES.items() for other in others.split()
}
_SIGNS = ("!=", "!~", "<=", ">=", "==", "<>", "^=", "$=", "*=", "=", "~", "<", ">")  # the longer ones first
_SHAPES = (
    '{"severity": "critical"}, {"impact.score": {"greater": 3}}, [("severity", "in", ["high", "critical"])] '
    'or "severity=critical"'
)


class FieldFilter:
    """Conditions on fields that must all hold."""

    __slots__ = ("conditions",)

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self.conditions = tuple(conditions)

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Whether a memory, as `Record.to_dict` returns it, meets all conditions."""
        return all(condition.matches(record) for condition in self.conditions)

    def admits(self, record: Record, computed: Computed) -> bool:
        """Whether a record meets all conditions, those on computed values included."""
        data = record.to_dict()
        if self._uses_computed:
            data = with_computed(data, computed)
        return self.matches(data)

    @property
    def _uses_computed(self) -> bool:
        return any(condition.field.partition(".")[0] in COMPUTED for condition in self.conditions)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(condition.field for condition in self.conditions)

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def __repr__(self) -> str:
        return f"Filter({' and '.join(map(repr, self.conditions))})"


def compile_filter(where: Any) -> FieldFilter:
    """The filter for `where` in any of the shapes above; an empty one matches everything."""
    if isinstance(where, FieldFilter):
        return where
    return FieldFilter(_conditions(where))


# -- shapes


def _conditions(where: Any) -> list[Condition]:
    if where is None:
        return []
    if isinstance(where, FieldFilter | Condition):
        return list(where.conditions) if isinstance(where, FieldFilter) else [where]
    if isinstance(where, str):
        return [_written(where)]
    if hasattr(where, "items"):
        return _from_mapping(where)
    if isinstance(where, list | tuple):
        if _is_condition(where):
            return [_condition(where[0], where[1], where[2] if len(where) == 3 else True)]
        return [condition for each in where for condition in _conditions(each)]
    raise InvalidQuery(f"where: cannot read {_quoted(where)}. Give {_SHAPES}.", field="where")


def _is_condition(where: Sequence[Any]) -> bool:
    """Whether this is one condition such as `("severity", "equals", "high")`, and not several written ones."""
    if len(where) not in (2, 3) or not all(isinstance(each, str) for each in where[:2]):
        return False
    if len(where) == 2:
        return _BY_NAME.get(_plain(where[1])) in WITHOUT_VALUE
    return _plain(where[1]) in _BY_NAME or not (_looks_written(where[0]) or _looks_written(where[1]))


def _looks_written(text: str) -> bool:
    return text.endswith("?") or text.startswith("!") or any(sign in text for sign in _SIGNS)


def _from_mapping(where: Mapping[str, Any]) -> list[Condition]:
    if "field" in where and ("operator" in where or "op" in where):
        extra = sorted(set(where) - {"field", "operator", "op", "value"})
        if extra:
            raise InvalidQuery(f"where: a condition has field, operator and value, not {extra[0]!r}.", field="where")
        return [_condition(where["field"], where.get("operator", where.get("op")), where.get("value", True))]
    return [condition for field, test in where.items() for condition in _from_field(field, test)]


def _from_field(field: Any, test: Any) -> list[Condition]:
    if hasattr(test, "items"):
        if not test:
            _reject(field, "needs an operator, not an empty object")
        return [_condition(field, operator, value) for operator, value in test.items()]
    if isinstance(test, list | tuple | set | frozenset):
        return [_condition(field, "in", test)]
    return [_condition(field, "equals", test)]


def _written(text: str) -> Condition:
    """`field=value`, `field?`, `!field`, `field operator value`."""
    stripped = text.strip()
    field, _, rest = stripped.partition(" ")
    word, _, value = rest.strip().partition(" ")
    if word.replace("_", "").isalpha() and _plain(word) in _BY_NAME and not _looks_written(field):
        return _condition(field, word, value.strip() or "true", written=True)
    place, sign = _first_operator_sign(stripped)
    if sign:
        return _condition(stripped[:place], sign, stripped[place + len(sign) :].strip(), written=True)
    if stripped.endswith("?"):
        return _condition(stripped[:-1], "exists", True)
    if stripped.startswith("!"):
        return _condition(stripped[1:], "not_exists", True)
    raise InvalidQuery(
        f"where: cannot read {_quoted(text)} as a condition. Write for example severity=critical, impact.score>3, "
        "tags~auth, status!=open or evidence?",
        field="where",
    )


def _first_operator_sign(text: str) -> tuple[int, str]:
    """The position of the first operator sign, and the longest one there: `>=` rather than `>`."""
    for place in range(1, len(text)):
        for sign in _SIGNS:
            if text.startswith(sign, place):
                return place, sign
    return 0, ""


# -- one condition, checked


def _condition(field: Any, operator: Any, value: Any, written: bool = False) -> Condition:
    path = _checked_field(field)
    name = _BY_NAME.get(_plain(operator)) if isinstance(operator, str) else None
    if name is None:
        _reject(path, f"has no operator {_quoted(operator)}")
    if name in WITHOUT_VALUE:
        return _existence(path, name, value)
    if name in ("in", "not_in"):
        value = _several(path, name, value, written)
    elif name in ("contains", "not_contains", "startswith", "endswith", "matches"):
        _need_scalar(path, name, value)
    elif name not in ("equals", "not_equals"):
        _need_order(path, name, value)
    if path == "type" and name in ("equals", "not_equals", "in", "not_in"):
        value = _types(value)
    return Condition(path, name, value, written)


def _checked_field(field: Any) -> str:
    path = field.strip() if isinstance(field, str) else ""
    if not path or not all(path.split(".")):
        raise InvalidQuery(
            f"where: {_quoted(field)} is not the name of a field. Give a name such as severity, or "
            "resolution.status for a field inside another.",
            field="where",
        )
    return path


def _existence(path: str, name: str, value: Any) -> Condition:
    if isinstance(value, str):
        value = JSON_CONSTANTS.get(value, value)
    if not (value is None or isinstance(value, bool)):
        _reject(path, f"needs true or false for {name}, not {_quoted(value)}")
    must_exist = (value is not False) == (name == "exists")
    return Condition(path, "exists" if must_exist else "not_exists", None)


def _several(path: str, name: str, value: Any, written: bool) -> tuple[Any, ...]:
    if written:
        return tuple(part.strip() for part in str(value).split(","))
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(value)
    _reject(path, f"needs a list for {name}, not {_quoted(value)}")


def _need_scalar(path: str, name: str, value: Any) -> None:
    if value is None or isinstance(value, bool | list | tuple | dict | set):
        _reject(path, f"needs text for {name}, not {_quoted(value)}")


def _need_order(path: str, name: str, value: Any) -> None:
    if not is_comparable(value):
        _reject(path, f"needs a number, a text or a time for {name}, not {_quoted(value)}")


def _types(value: Any) -> Any:
    """The names of types, given by name or alias."""
    if isinstance(value, tuple):
        return tuple(_types(each) for each in value)
    try:
        return kind_of(value).name
    except UserError:
        raise InvalidQuery(
            f"type: {_quoted(value)} is not a type of memory. Use one of: {', '.join(KINDS)}.", field="type"
        ) from None


def _reject(field: Any, why: str) -> NoReturn:
    raise InvalidQuery(f"where: {field} {why}. Operators: {', '.join(OPERATORS)}.", field=str(field))


def _quoted(value: Any) -> str:
    return repr(value)[:80]
