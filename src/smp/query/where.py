"""Does this memory fit? Conditions on its fields, nested ones included.

Shapes that `compile_filter` reads; several conditions must all hold:

    {"severity": "critical"}                        equals
    {"severity": ["high", "critical"]}              in
    {"impact.score": {"greater": 3, "less": 9}}     any operators
    {"field": "tags", "operator": "contains", "value": "auth"}      design 003 §4, also as a list of these
    [("severity", "equals", "critical"), ("evidence", "exists")]
    "severity=critical"  "impact.score>3"  "tags~auth"  "status!=open"  "evidence?"  "!evidence"  "path matches src/*"

The names of the designs are understood as on input (`timestamp`, `made_by`, `issue`, `decay.priority`), and `status` and
`resolution.status` are one thing, open for a finding and active for a decision where nothing is said. `priority` and
`access` are what they are at the time of asking, not what a file says; a memory's own field `priority` comes first.

How values compare is in `smp.query.condition`.

Guarantees: a wrong shape, field or operator is an `InvalidQuery` when compiled; `matches` never raises.
"""

from __future__ import annotations

from smp.errors import InvalidQuery, UserError
from smp.model.types import KINDS, kind_of
from smp.query.condition import WITHOUT_VALUE, WORDS_OF_JSON, Condition
from smp.query.field_values import COMPUTED, comparable, with_computed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    from smp.model.record import Record
    from smp.query.ranking import Judged

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
    """One spelling for `lessThan`, `less_than`, `less-than` and `$lessThan`."""
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


class Filter:
    """Conditions that must all hold."""

    __slots__ = ("conditions",)

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self.conditions = tuple(conditions)

    def matches(self, record: Mapping[str, Any]) -> bool:
        """Whether a memory, as `Record.to_dict` gives it, fits."""
        return all(condition.matches(record) for condition in self.conditions)

    def admits(self, record: Record, judged: Judged) -> bool:
        """Whether a memory fits that a query has judged."""
        data = record.to_dict()
        if self._asks_for_computed:
            data = with_computed(data, judged.priority, judged.facts.access_count, judged.facts.last_access)
        return self.matches(data)

    @property
    def _asks_for_computed(self) -> bool:
        return any(condition.field.partition(".")[0] in COMPUTED for condition in self.conditions)

    @property
    def refuses_many(self) -> bool:
        """Whether much of what was found may not meet it."""
        return bool(self.conditions)

    @property
    def fields(self) -> frozenset[str]:
        return frozenset(condition.field for condition in self.conditions)

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def __repr__(self) -> str:
        return f"Filter({' and '.join(map(repr, self.conditions))})"


def compile_filter(where: Any) -> Filter:
    """The filter that `where` means, in any of the shapes above; nothing at all fits everything."""
    if isinstance(where, Filter):
        return where
    return Filter(_conditions(where))


# -- shapes


def _conditions(where: Any) -> list[Condition]:
    if where is None:
        return []
    if isinstance(where, Filter | Condition):
        return list(where.conditions) if isinstance(where, Filter) else [where]
    if isinstance(where, str):
        return [_written(where)]
    if hasattr(where, "items"):
        return _of_mapping(where)
    if isinstance(where, list | tuple):
        if _is_condition(where):
            return [_condition(where[0], where[1], where[2] if len(where) == 3 else True)]
        return [condition for each in where for condition in _conditions(each)]
    raise InvalidQuery(f"where: cannot read {_shown(where)}. Give {_SHAPES}.", field="where")


def _is_condition(where: Sequence[Any]) -> bool:
    """`("severity", "equals", "high")`, and not three written conditions."""
    if len(where) not in (2, 3) or not all(isinstance(each, str) for each in where[:2]):
        return False
    if len(where) == 2:
        return _BY_NAME.get(_plain(where[1])) in WITHOUT_VALUE
    return _plain(where[1]) in _BY_NAME or not (_looks_written(where[0]) or _looks_written(where[1]))


def _looks_written(text: str) -> bool:
    return text.endswith("?") or text.startswith("!") or any(sign in text for sign in _SIGNS)


def _of_mapping(where: Mapping[str, Any]) -> list[Condition]:
    if "field" in where and ("operator" in where or "op" in where):
        extra = sorted(set(where) - {"field", "operator", "op", "value"})
        if extra:
            raise InvalidQuery(f"where: a condition has field, operator and value, not {extra[0]!r}.", field="where")
        return [_condition(where["field"], where.get("operator", where.get("op")), where.get("value", True))]
    return [condition for field, asked in where.items() for condition in _of_field(field, asked)]


def _of_field(field: Any, asked: Any) -> list[Condition]:
    if hasattr(asked, "items"):
        if not asked:
            _refuse(field, "needs an operator, not an empty object")
        return [_condition(field, operator, value) for operator, value in asked.items()]
    if isinstance(asked, list | tuple | set | frozenset):
        return [_condition(field, "in", asked)]
    return [_condition(field, "equals", asked)]


def _written(text: str) -> Condition:
    """`field=value`, `field?`, `!field`, `field operator value`."""
    stripped = text.strip()
    field, _, rest = stripped.partition(" ")
    word, _, value = rest.strip().partition(" ")
    if word.replace("_", "").isalpha() and _plain(word) in _BY_NAME and not _looks_written(field):
        return _condition(field, word, value.strip() or "true", written=True)
    place, sign = _first_sign(stripped)
    if sign:
        return _condition(stripped[:place], sign, stripped[place + len(sign) :].strip(), written=True)
    if stripped.endswith("?"):
        return _condition(stripped[:-1], "exists", True)
    if stripped.startswith("!"):
        return _condition(stripped[1:], "not_exists", True)
    raise InvalidQuery(
        f"where: cannot read {_shown(text)} as a condition. Write for example severity=critical, impact.score>3, "
        "tags~auth, status!=open or evidence?",
        field="where",
    )


def _first_sign(text: str) -> tuple[int, str]:
    """Where the first sign stands, and the longest that stands there: `>=` rather than `>`."""
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
        _refuse(path, f"has no operator {_shown(operator)}")
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
            f"where: {_shown(field)} is not the name of a field. Give a name such as severity, or "
            "resolution.status for a field inside another.",
            field="where",
        )
    return path


def _existence(path: str, name: str, value: Any) -> Condition:
    if isinstance(value, str):
        value = WORDS_OF_JSON.get(value, value)
    if not (value is None or isinstance(value, bool)):
        _refuse(path, f"needs true or false for {name}, not {_shown(value)}")
    wanted = (value is not False) == (name == "exists")
    return Condition(path, "exists" if wanted else "not_exists", None)


def _several(path: str, name: str, value: Any, written: bool) -> tuple[Any, ...]:
    if written:
        return tuple(part.strip() for part in str(value).split(","))
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(value)
    _refuse(path, f"needs a list for {name}, not {_shown(value)}")


def _need_scalar(path: str, name: str, value: Any) -> None:
    if value is None or isinstance(value, bool | list | tuple | dict | set):
        _refuse(path, f"needs text for {name}, not {_shown(value)}")


def _need_order(path: str, name: str, value: Any) -> None:
    if not comparable(value):
        _refuse(path, f"needs a number, a text or a time for {name}, not {_shown(value)}")


def _types(value: Any) -> Any:
    """The types by their own names, whichever the caller used."""
    if isinstance(value, tuple):
        return tuple(_types(each) for each in value)
    try:
        return kind_of(value).name
    except UserError:
        raise InvalidQuery(
            f"type: {_shown(value)} is not a type of memory. Use one of: {', '.join(KINDS)}.", field="type"
        ) from None


def _refuse(field: Any, why: str) -> NoReturn:
    raise InvalidQuery(f"where: {field} {why}. Operators: {', '.join(OPERATORS)}.", field=str(field))


def _shown(value: Any) -> str:
    return repr(value)[:80]
