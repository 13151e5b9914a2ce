"""Filters on fields: shapes, operators and comparisons."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.errors import InvalidQuery
from smp_memory.search.filters import OPERATORS, Condition, FieldFilter, compile_filter

FINDING: dict[str, Any] = {
    "id": "FIND-0001",
    "session": "s-1",
    "type": "finding",
    "created": "2026-01-05T10:00:00.500000Z",
    "updated": "2026-01-06T10:00:00Z",
    "author": "veritas",
    "finding": "No MFA for administrators",
    "severity": "critical",
    "confidence": "high",
    "importance": 0.7,
    "tags": ["auth", "security.login"],
    "pinned": False,
    "impact": {"score": 4, "note": "Admin Accounts", "areas": ["login", "cart"]},
    "evidence": ["see auth_service.py:3", 17],
    "location": [{"file": "a.py", "line": 3}, {"file": "b.py", "line": 50}],
    "version": "3",
    "due": "2026-02-01",
    "empty": "",
    "nothing": None,
    "a.b": "dotted",
    "access": {"count": 5, "last": "2026-01-07T00:00:00Z"},
    "priority": 0.2,
}
DECISION: dict[str, Any] = {"id": "DEC-0001", "type": "decision", "decision": "Use OAuth", "tags": []}


def fits(where: Any, record: dict[str, Any] = FINDING) -> bool:
    return compile_filter(where).matches(record)


# -- shapes


@pytest.mark.parametrize(
    "where",
    [
        None,
        {},
        [],
        (),
        {"severity": "critical"},
        {"severity": ["high", "critical"]},
        {"severity": ("high", "critical")},
        pytest.param({"severity": {"high", "critical"}}, id="a set"),
        {"severity": {"equals": "critical"}},
        {"impact.score": {"greater": 3}},
        {"impact.score": {"greater": 3, "less": 5}},
        {"severity": "critical", "impact.score": 4},
        [("severity", "equals", "critical"), ("impact.score", ">", 3)],
        ("severity", "equals", "critical"),
        ["severity", "equals", "critical"],
        [["severity", "equals", "critical"], ["evidence", "exists"]],
        ("evidence", "exists"),
        ("severity=critical", "impact.score>3", "tags~auth"),
        ["severity=critical", {"impact.score": 4}, ("evidence", "exists")],
        {"field": "severity", "operator": "equals", "value": "critical"},
        {"field": "severity", "op": "eq", "value": "critical"},
        {"field": "evidence", "operator": "exists"},
    ],
    ids=str,
)
def test_shapes_that_are_understood(where: Any) -> None:
    assert fits(where)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("severity=critical", True),
        ("severity==critical", True),
        ("severity = critical", True),
        ("severity!=critical", False),
        ("severity<>critical", False),
        ("severity equals critical", True),
        ("severity not high", True),
        ("severity in high, critical", True),
        ("severity not_in high,critical", False),
        ("impact.score>3", True),
        ("impact.score>=4", True),
        ("impact.score<4", False),
        ("impact.score<=4.0", True),
        ("impact.score=4", True),
        ("tags~auth", True),
        ("tags!~auth", False),
        ("finding^=no mfa", True),
        ("finding$=administrators", True),
        ("finding*=no*admin*", True),
        ("finding matches no*admin*", True),
        ("finding matches admin*", False),
        ("evidence?", True),
        ("evidence exists", True),
        ("evidence exists false", False),
        ("!evidence", False),
        ("!nowhere", True),
        ("nowhere?", False),
        ("pinned=false", True),
        ("pinned=true", False),
        ("nowhere=null", True),
        ("version=3", True),
        ("version>2", True),
        ("finding=a=b", False),
        ("impact.note=Admin Accounts", True),
    ],
)
def test_written_conditions(where: str, expected: bool) -> None:
    assert fits(where) is expected


def test_seed_001_tags_and_types() -> None:
    assert fits({"types": ["decisions"], "type": ["decisions", "findings"]} | {"types": None})
    assert fits({"tags": ["database", "auth"]})
    assert not fits({"tags": ["database", "architecture"]})


def test_seed_003_find_past_decisions_on_topic() -> None:
    where = [
        {"field": "type", "operator": "equals", "value": "decision"},
        {"field": "tags", "operator": "contains", "value": "authentication"},
    ]
    assert fits(where, {"type": "decision", "tags": ["authentication"]})
    assert not fits(where, {"type": "finding", "tags": ["authentication"]})
    assert not fits(where, {"type": "decision", "tags": ["author"]})


@pytest.mark.parametrize("name", ["conversation_turn", "turn", "conversation", "messages"])
def test_seed_003_get_conversation_context(name: str) -> None:
    assert fits([{"field": "type", "operator": "equals", "value": name}], {"type": "conversation"})


def test_seed_003_decayed_memories() -> None:
    assert fits([{"field": "decay.priority", "operator": "lessThan", "value": 0.3}])
    assert not fits([{"field": "decay.priority", "operator": "greaterThan", "value": 0.5}])


def test_seed_003_open_findings() -> None:
    where = [
        {"field": "type", "operator": "equals", "value": "finding"},
        {"field": "resolution.status", "operator": "equals", "value": "open"},
    ]
    assert fits(where)
    assert fits(where, {**FINDING, "status": "open"})
    assert fits(where, {**FINDING, "resolution": {"status": "open"}})
    assert not fits(where, {**FINDING, "status": "resolved"})
    assert not fits(where, {**FINDING, "resolution": {"status": "resolved"}})


def test_seed_004_tags_to_include_and_exclude() -> None:
    assert fits({"tags": {"include": ["auth"], "exclude": ["deprecated"]}})
    assert not fits({"tags": {"include": ["auth"], "exclude": ["security.login"]}})


# -- fields


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("made_by", "veritas"),
        ("discovered_by", "veritas"),
        ("agent_id", "veritas"),
        ("issue", "No MFA for administrators"),
        ("timestamp", "2026-01-05T10:00:00.5Z"),
        ("session_id", "s-1"),
        ("decay.access_count", 5),
        ("a.b", "dotted"),
        ("location.file", "b.py"),
        ("impact.areas", "cart"),
        ("status", "open"),
        ("resolution.status", "open"),
    ],
)
def test_fields_by_any_of_their_names(field: str, value: Any) -> None:
    assert fits({field: value})
    assert not fits({field: "something else"})


def test_default_status_of_a_decision_is_active() -> None:
    assert fits({"status": "active"}, DECISION)
    assert not fits({"status": {"exists": True}}, {"type": "conversation"})


def test_own_field_comes_before_a_designs_name() -> None:
    assert fits({"by": "me"}, {"type": "decision", "by": "me", "author": "you"})


# -- comparing


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"importance": {"greater": 0.5}}, True),
        ({"importance": 0.7}, True),
        ({"impact.score": 4.0}, True),
        ({"impact.score": True}, False),
        ({"impact.score": "4"}, False),
        ({"impact.score": {"greater": "3"}}, True),
        ({"version": 3}, False),
        ({"version": {"greater": 2}}, True),
        ({"version": {"less": "10"}}, True),
        ({"pinned": False}, True),
        ({"pinned": 0}, False),
        ({"pinned": {"less": 1}}, False),
        ({"severity": "Critical"}, False),
        ({"severity": {"greater": "medium"}}, True),
        ({"severity": {"less": "HIGH"}}, False),
        ({"author": {"greater": "architect"}}, True),
        ({"author": {"less": 5}}, False),
        ({"confidence": {"greater": 0.8}}, True),
        ({"confidence": {"greater": "medium"}}, True),
        ({"confidence": "high"}, True),
        ({"confidence": 0.9}, True),
        ({"confidence": ["low", "medium"]}, False),
        ({"impact": {"equals": FINDING["impact"]}}, True),
        ({"tags": {"equals": ["auth", "security.login"]}}, True),
        ({"tags": {"equals": ["auth"]}}, False),
    ],
    ids=str,
)
def test_values_are_compared_by_type(where: Any, expected: bool) -> None:
    assert fits(where) is expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("created=2026-01-05", True),
        ("created>2026-01-05", False),
        ("created>=2026-01-05", True),
        ("created<2026-01-05", False),
        ("created<=2026-01-05", True),
        ("created<2026-01-06", True),
        ("created>2026-01-05T10:00:00Z", True),
        ("created<2026-01-05T11:00:00.6+01:00", True),
        ("due=2026-02-01", True),
        ("due>2026-01-31T00:00:00Z", True),
        ({"created": {"greater": datetime(2026, 1, 5, 10, tzinfo=UTC)}}, True),
        ({"created": date(2026, 1, 5)}, True),
        ({"created": {"less": date(2026, 1, 5)}}, False),
        ({"created": {"less": "not a time"}}, True),
        ({"finding": {"less": date(2026, 1, 5)}}, False),
        ({"created": {"greater": 5}}, False),
    ],
    ids=str,
)
def test_times_are_compared_as_times(where: Any, expected: bool) -> None:
    assert fits(where) is expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"tags": "auth"}, True),
        ({"tags": {"contains": "security"}}, True),
        ({"tags": {"contains": "sec"}}, False),
        ({"tags": {"contains": "AUTH"}}, True),
        ({"evidence": {"contains": "auth_service"}}, True),
        ({"evidence": 17}, True),
        ({"evidence": {"contains": 17}}, True),
        ({"evidence": {"startswith": "SEE"}}, True),
        ({"impact": {"contains": "accounts"}}, True),
        ({"impact": {"contains": "note"}}, True),
        ({"impact": {"contains": "cart"}}, True),
        ({"impact": {"contains": "nothing"}}, False),
        ({"finding": {"contains": "mfa"}}, True),
        ({"location.line": {"greater": 40}}, True),
        ({"location.line": {"greater": 60}}, False),
        ({"location": {"contains": "B.PY"}}, True),
        ({"finding": {"matches": "no [m]fa*"}}, True),
        ({"finding": {"matches": "mfa"}}, False),
    ],
    ids=str,
)
def test_lists_objects_and_parts_of_text(where: Any, expected: bool) -> None:
    assert fits(where) is expected


@pytest.mark.parametrize("field", ["nowhere", "nothing", "impact.nowhere", "severity.inside", "nothing.inside"])
def test_missing_fields(field: str) -> None:
    assert fits({field: None})
    assert fits({field: ["x", None]})
    assert fits({field: {"not_equals": "x"}})
    assert fits({field: {"not_in": ["x"]}})
    assert fits({field: {"not_contains": "x"}})
    assert fits({field: {"exists": False}})
    assert fits({field: {"not_exists": True}})
    assert not fits({field: {"not_equals": None}})
    for operator in ("less", "less_or_equal", "greater", "greater_or_equal", "contains", "startswith", "matches"):
        assert not fits({field: {operator: "x"}}), operator


@pytest.mark.parametrize(("field", "there"), [("empty", False), ("tags", True), ("pinned", True), ("nothing", False)])
def test_exists_is_false_for_missing_and_empty_fields(field: str, there: bool) -> None:
    assert fits({field: {"exists": True}}) is there


def test_an_empty_list_does_not_exist() -> None:
    assert not fits("tags?", DECISION)


# -- what is refused


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"severity": {"bigger": 3}}, "severity has no operator 'bigger'. Operators: equals, not_equals,"),
        ({"severity": {5: 3}}, "severity has no operator 5"),
        (("severity", "bigger", 3), "severity has no operator 'bigger'"),
        (("severity", "bigger", "x"), "severity has no operator 'bigger'"),
        ({"field": "a", "operator": "zz", "value": 1}, "a has no operator 'zz'"),
        ({"field": "a", "operator": None, "value": 1}, "a has no operator None"),
        ({"field": "a", "operator": "=", "wert": 1}, "not 'wert'"),
        ({"severity": {}}, "severity needs an operator"),
        ({"severity": {"in": "high"}}, "severity needs a list for in, not 'high'"),
        ({"severity": {"in": 5}}, "severity needs a list for in, not 5"),
        ({"severity": {"less": None}}, "severity needs a number, a text or a time for less"),
        ({"severity": {"less": True}}, "severity needs a number"),
        ({"severity": {"greater": [1]}}, "severity needs a number"),
        ({"severity": {"contains": None}}, "severity needs text for contains"),
        ({"severity": {"matches": ["a"]}}, "severity needs text for matches"),
        ({"severity": {"exists": "perhaps"}}, "severity needs true or false for exists"),
        ({"type": "fnord"}, "type: 'fnord' is not a type of memory. Use one of: conversation,"),
        ({"type": ["decision", "fnord"]}, "'fnord' is not a type"),
        ({"type": None}, "is not a type"),
        ({"": 1}, "'' is not the name of a field"),
        ({"a..b": 1}, "'a..b' is not the name of a field"),
        ({5: 1}, "5 is not the name of a field"),
        ("fnord", "cannot read 'fnord' as a condition. Write for example severity=critical"),
        ("", "cannot read ''"),
        ("=3", "cannot read '=3'"),
        ("?", "'' is not the name of a field"),
        (5, "cannot read 5. Give "),
        ([5], "cannot read 5. Give "),
    ],
    ids=str,
)
def test_wrong_conditions_name_the_field(where: Any, message: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        compile_filter(where)
    assert message in str(caught.value)


# -- the filter itself


def test_a_filter_shows_its_conditions() -> None:
    found = compile_filter([{"severity": "critical"}, "evidence?", ("impact.score", "$gte", 3)])
    assert [(each.field, each.operator, each.value) for each in found.conditions] == [
        ("severity", "equals", "critical"),
        ("evidence", "exists", None),
        ("impact.score", "greater_or_equal", 3),
    ]
    assert found.fields == {"severity", "evidence", "impact.score"}
    assert repr(found) == "Filter(severity equals 'critical' and evidence exists and impact.score greater_or_equal 3)"
    assert found
    assert not compile_filter(None)
    assert compile_filter(found) is found
    assert compile_filter([found, found.conditions[0]]).conditions[-1] is found.conditions[0]


json = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=True) | some.text(max_size=12),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(
    some.dictionaries(some.sampled_from(["status", "resolution", "tags", "x"]), json),
    json,
    some.sampled_from(OPERATORS),
)
def test_matching_never_raises(record: dict[str, Any], value: Any, operator: str) -> None:
    record["type"] = "finding"
    for field in ("x", "x.y", "tags", "status", "made_by"):
        try:
            found = compile_filter([(field, operator, value)])
        except InvalidQuery:
            continue
        assert found.matches(record) in (True, False)


@given(some.dictionaries(some.just("x"), json), json)
def test_negated_operators_are_the_opposite(record: dict[str, Any], value: Any) -> None:
    for operator in ("equals", "in", "contains"):
        try:
            found, opposite = (FieldFilter([*compile_filter({"x": {name: value}}).conditions]) for name in (operator, "not_" + operator))  # fmt: skip
        except InvalidQuery:
            continue
        assert found.matches(record) is not opposite.matches(record)


@given(some.text(max_size=30))
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    try:
        found = compile_filter(text)
    except InvalidQuery:
        return
    assert isinstance(found.conditions[0], Condition)
    assert found.matches(FINDING) in (True, False)
