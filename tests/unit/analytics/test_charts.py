"""Charts: well-formed, escaped, accessible, and laid out without overlaps; the decay curve behind one of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest

import smp_memory
from smp_memory.analytics.charts import (
    MAX_NEIGHBOURS,
    Neighbour,
    bar_list,
    boxes,
    decay_chart,
    draw_decay,
    line_chart,
    neighbours,
    relation_graph,
    sparkline,
)
from smp_memory.analytics.facts import DAY
from smp_memory.analytics.forecast import KnownUse, decay_points, known_uses, sentence
from smp_memory.analytics.svg import shortened, width_of
from smp_memory.errors import InvalidQuery, SMPError
from smp_memory.model.decay import POLICIES, policy_of
from smp_memory.model.times import to_microseconds
from smp_memory.testing import FrozenClock

HOSTILE = '<script>alert(1)</script> " onload="x \x00\x1b\ud800 ]]> &amp; \u202e'
NAMES = list(POLICIES)


def parsed(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    title = root[0]
    assert root.tag.endswith("svg")
    assert title.tag.endswith("title")
    assert title.text
    assert root.get("aria-label") == title.text
    assert root.get("role") in ("img", "group")
    assert (root.get("role") == "group") == ("<a " in svg)  # what is in an image cannot be reached by keyboard
    for element in root.iter():
        assert "style" not in element.attrib  # a strict content security policy refuses it
        assert not element.tag.endswith(("script", "style", "foreignObject"))
        assert not [name for name in element.attrib if name.startswith("on")]
    return root


def words(svg: str) -> list[str]:
    return [each.text or "" for each in parsed(svg).iter() if each.tag.endswith("text")]


# -- simple charts


@pytest.mark.parametrize("values", [[], [0], [5], [0, 0, 0], [1, float("nan"), float("inf"), -3, 1e300]])
def test_charts_of_odd_values_are_well_formed(values: list[float]) -> None:
    parsed(sparkline(values, HOSTILE))
    parsed(line_chart({HOSTILE: values}, [HOSTILE] * len(values), HOSTILE))
    parsed(bar_list([(HOSTILE, value) for value in values], HOSTILE))


def test_text_of_charts_is_escaped() -> None:
    made = bar_list([(HOSTILE, 3)], "Uses", href=lambda name: f'javascript:"{name}')
    assert "<script" not in made
    assert "\u202e" not in "".join(words(made))
    (link,) = [each for each in parsed(made).iter() if each.tag.endswith("}a")]
    assert set(link.attrib) == {"href", "aria-label"}


def test_bars_are_as_long_as_their_numbers() -> None:
    made = parsed(bar_list([("a", 10), ("b", 5), ("c", 0)], "Uses"))
    lengths = [float(each.attrib["width"]) for each in made.iter() if each.tag.endswith("rect")][1::2]
    assert lengths[0] == pytest.approx(2 * lengths[1], rel=0.01)
    assert lengths[2] == 0


def test_line_chart_names_its_series_and_says_what_it_leaves_out() -> None:
    made = line_chart({f"topic {n}": [n, 1] for n in range(7)}, ["one", "two"], "Mentions")
    assert "(2 more are not drawn)" in (parsed(made)[0].text or "")
    assert {"topic 0", "topic 4"} <= set(words(made))
    assert "topic 5" not in words(made)


def test_same_values_give_the_same_bytes() -> None:
    assert sparkline([1, 2], "a") == sparkline([1, 2], "a")


def test_shortened_text_fits() -> None:
    for text in (
        "short",
        "a very long name of a session that does not fit",
        "日本語のとても長い名前です" * 3,
        "",
        "W" * 90,
    ):
        assert width_of(shortened(text, 100, 12), 12) <= 100


# -- the decay curve


@pytest.fixture
def store() -> Any:
    clock = FrozenClock()
    memory = smp_memory.open(":memory:", clock=clock)
    session = memory.create_session("s")
    session.add_turn("user", "How do customers log in?")
    session.add_decision("Use OAuth 2.0")
    memory.clock = clock
    return memory


@pytest.mark.parametrize("name", NAMES)
def test_curve_never_rises_in_the_future_and_meets_today(store: Any, name: str) -> None:
    policy = policy_of({"policy": name})
    record = store.session("s").get("TURN-0001")
    now = store.clock.advance(days=5)
    curve = decay_points(record, policy, now, days_ahead=100, uses=[KnownUse(to_microseconds(now) - DAY, 2)])
    values = [value for _, value in curve.future]
    assert values == sorted(values, reverse=True)
    assert curve.past[-1] == curve.future[0] == curve.today
    assert curve.past[0][0] == to_microseconds(record.created)
    assert curve.future[-1][0] == to_microseconds(now) + 100 * DAY


def test_use_raises_the_past_curve_at_its_time(store: Any) -> None:
    record = store.session("s").get("TURN-0001")
    now = store.clock.advance(days=20)
    used = to_microseconds(now) - 5 * DAY
    curve = decay_points(record, policy_of(), now, uses=[KnownUse(used, 3)])
    before = dict(curve.past)[used - 1]
    assert curve.uses == [(used, pytest.approx(dict(curve.past)[used]))]
    assert curve.uses[0][1] > before + 0.2


def test_past_curve_follows_the_fields_of_each_time(store: Any) -> None:
    session = store.session("s")
    store.clock.advance(days=10)
    session.update("DEC-0001", pinned=True)
    store.clock.advance(days=10)
    history = store.store.session("s").history(["DEC-0001"]).histories["DEC-0001"]
    curve = decay_points(history.record("s"), policy_of(), store.now(), history=history)
    assert curve.today[1] == 1.0
    assert curve.past[30][1] < 0.9  # before it was pinned
    assert curve.below is None
    assert sentence(curve) == "Priority 1.00 now; it does not fall below 0.3."


def test_curve_of_the_store_ends_at_its_priority(store: Any) -> None:
    for _ in range(3):
        store.clock.advance(days=2)
        store.get("s/TURN-0001")
    store.maintain()
    store.clock.advance(days=2)
    store.get("s/TURN-0001")
    store.clock.advance(days=1)
    curve = store.decay_curve("s/TURN-0001", days_ahead=60)
    assert curve.today[1] == store.priority("s/TURN-0001")
    assert [round((time - curve.past[0][0]) / DAY) for time, _ in curve.uses] == [
        6,
        8,
    ]  # of three counted at once, the last
    assert curve.below is not None
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=curve.below)
    assert store.priority("s/TURN-0001", at=when) < 0.3 <= store.priority("s/TURN-0001", at=when - timedelta(minutes=2))


def test_known_uses_ignore_what_cannot_be_read(store: Any) -> None:
    history = store.store.session("s").history(["TURN-0001"]).histories["TURN-0001"]
    for access in (
        None,
        7,
        {"count": "many", "last": "x"},
        {"count": -1, "last": "2026-01-01T00:00:00Z"},
        {"count": 2},
    ):
        entry = type("E", (), {"data": {"access": access}})()
        history.entries.append(entry)
    assert known_uses(history) == []


@pytest.mark.parametrize("age", [0, 0.001, 3, 4000])
def test_decay_chart_is_well_formed_at_any_age(store: Any, age: float) -> None:
    record = store.session("s").get("TURN-0001")
    now = store.clock.advance(days=age)
    made = decay_chart(record, policy_of(), now, threshold=0.3, days_ahead=60)
    parsed(made)
    assert "faded below 0.3" in words(made)
    assert "today" in words(made)


def test_decay_chart_of_a_memory_from_the_future_is_well_formed(store: Any) -> None:
    record = store.session("s").get("TURN-0001")
    parsed(decay_chart(record, policy_of(), record.created - timedelta(days=30), threshold=0.3, days_ahead=60))


def test_future_is_dotted_and_past_is_not(store: Any) -> None:
    store.clock.advance(days=9)
    made = parsed(draw_decay(store.decay_curve("s/TURN-0001")))
    lines = [each for each in made.iter() if each.tag.endswith("path") and each.get("fill") == "none"]
    assert [each.get("stroke-dasharray") is not None for each in lines] == [False, True]


@pytest.mark.parametrize("id", ["s/NOPE-0001", "nowhere/DEC-0001", "DEC-0001", "", 5, None])
def test_curve_of_an_unknown_memory_is_an_error(store: Any, id: Any) -> None:
    with pytest.raises(SMPError):
        store.decay_curve(id)


@pytest.mark.parametrize("days", [0, -1, float("nan"), "x", True, 1e9])
def test_wrong_days_ahead_is_an_error_that_names_it(store: Any, days: Any) -> None:
    with pytest.raises(InvalidQuery, match="days_ahead"):
        store.decay_curve("s/DEC-0001", days_ahead=days)


# -- the graph of relations


@pytest.mark.parametrize("incoming", range(8))
@pytest.mark.parametrize("outgoing", [0, 1, 7, 14])
def test_boxes_never_overlap(incoming: int, outgoing: int) -> None:
    center, left, right = boxes(incoming, outgoing)
    for one, other in combinations([center, *left, *right], 2):
        assert not one.overlaps(other)


def test_graph_shows_direction_kind_and_links(store: Any) -> None:
    session = store.session("s")
    finding = session.add_finding("Login has no rate limit " * 9)
    session.relate("DEC-0001", finding, "resolves")
    session.add_learning("Tokens expire", references=["DEC-0001"])
    center = session.get("DEC-0001")
    found = store.find_related("s/DEC-0001")
    sides = {each.ref: (each.kind, each.is_outgoing) for each in neighbours(center, found)}
    assert sides == {"s/FIND-0001": ("resolves", True), "s/LEARN-0001": ("references", False)}
    made = relation_graph(center, found, lambda ref: f"/memory?ref={ref}&x=1")
    links = [each.get("href") for each in parsed(made).iter() if each.tag.endswith("}a")]
    assert links == ["/memory?ref=s/LEARN-0001&x=1", "/memory?ref=s/FIND-0001&x=1"]
    assert {"resolves", "references", "DEC-0001"} <= set(words(made))
    assert "it resolves FIND-0001" in (parsed(made)[0].text or "")


def test_graph_of_many_neighbours_shows_both_directions_and_counts_the_rest(store: Any) -> None:
    center = store.session("s").get("DEC-0001")
    many = [Neighbour(f"s/F-{n}", f"F-{n}", HOSTILE, HOSTILE, n >= 30) for n in range(33)]
    made = relation_graph(center, many, lambda ref: ref)
    nodes = [each for each in parsed(made).iter() if each.tag.endswith("}a")]
    assert len(nodes) == MAX_NEIGHBOURS
    assert [each.get("href") for each in nodes][-3:] == ["s/F-30", "s/F-31", "s/F-32"]
    assert f"and {33 - MAX_NEIGHBOURS} more" in words(made)
    assert "<script" not in made


def test_graph_without_relations_says_so(store: Any) -> None:
    made = relation_graph(store.session("s").get("DEC-0001"), [], lambda ref: ref)
    assert "DEC-0001 has no relations" in made


def test_relations_of_any_type_do_not_break_the_graph(store: Any) -> None:
    record = store.session("s").get("DEC-0001")
    record._data = {**record.given, "relations": [7, {"kind": 3, "target": None}], "references": "x", "turn_ref": [1], "supersedes": 4}  # fmt: skip
    assert re.match("<svg", relation_graph(record, store.find_related("s/DEC-0001"), lambda ref: ref))
