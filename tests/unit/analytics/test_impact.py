"""The impact of decisions, from relations and mentions alone."""

from __future__ import annotations

import pytest

from smp_memory.analytics.facts import DAY, MemoryFacts
from smp_memory.analytics.impact import DecisionImpact, Impact, impact, mentions_in


def memory(ref: str, day: int, uses: int = 0) -> MemoryFacts:
    session, _, id = ref.rpartition("/")
    type = {"DEC": "decision", "FIND": "finding", "TURN": "conversation"}[id.partition("-")[0]]
    return MemoryFacts(hash(ref), session, id, type, "", day * DAY, False, uses, day * DAY if uses else None)


def impact_of(*edges: tuple[str, str, str], limit: int = 10, **days: int) -> Impact:
    """The impact of the decisions among these memories; `D1=5` is the decision D1 of day 5."""
    names = {"D": "DEC", "F": "FIND", "T": "TURN"}
    refs = {short: f"s/{names[short[0]]}-{int(short[1:]):04d}" for short in days}
    every = {refs[short]: memory(refs[short], day) for short, day in days.items()}
    decisions = [each for each in every.values() if each.type == "decision"]
    return impact(decisions, every, [(refs.get(a, a), kind, refs.get(b, b)) for a, kind, b in edges], limit)


def of(made: Impact, id: str) -> DecisionImpact:
    return next(each for each in made if each.ref == f"s/{id}")


@pytest.mark.parametrize("kind", ["led_to", "influenced", "causes", "resolves"])
def test_targets_of_a_decision_followed_from_it(kind: str) -> None:
    made = of(impact_of(("D1", kind, "F1"), D1=1, F1=2), "DEC-0001")
    assert [(link.ref, link.kind, link.direction) for link in made.followed] == [("s/FIND-0001", kind, "out")]
    assert made.based_on == []


@pytest.mark.parametrize("kind", ["derived_from", "references", "implements", "depends_on", "resolved_by"])
def test_memories_that_rest_on_a_decision_followed_from_it(kind: str) -> None:
    made = impact_of(("F1", kind, "D1"), ("D1", kind, "T1"), D1=2, F1=3, T1=1)
    assert [link.ref for link in of(made, "DEC-0001").followed] == ["s/FIND-0001"]
    assert [link.ref for link in of(made, "DEC-0001").based_on] == ["s/TURN-0001"]


@pytest.mark.parametrize("kind", ["relates_to", "mentions", "hängt_ab_von"])
def test_relations_without_an_order_go_by_time(kind: str) -> None:
    made = impact_of(("F1", kind, "D1"), ("F2", kind, "D1"), D1=5, F1=3, F2=7)
    assert [link.ref for link in of(made, "DEC-0001").followed] == ["s/FIND-0002"]
    assert [link.ref for link in of(made, "DEC-0001").based_on] == ["s/FIND-0001"]


@pytest.mark.parametrize("edge", [("D2", "supersedes", "D1"), ("D1", "superseded_by", "D2")])
def test_successor_is_listed_with_the_time_until_then(edge: tuple[str, str, str]) -> None:
    made = impact_of(edge, D1=1, D2=8)
    first, second = of(made, "DEC-0001"), of(made, "DEC-0002")
    assert (first.days_until_superseded, second.days_until_superseded) == (7.0, None)
    assert [link.ref for link in second.supersedes] == ["s/DEC-0001"]
    assert made.superseded == 1
    assert first.followed == []


def test_resolved_findings_are_counted_once_whoever_says_it() -> None:
    made = impact_of(("D1", "resolves", "F1"), ("F1", "resolved_by", "D1"), D1=1, F1=2)
    assert of(made, "DEC-0001").resolved_findings == ["s/FIND-0001"]
    assert of(made, "DEC-0001").followed_count == 1


def test_rank_counts_different_memories_then_uses() -> None:
    twice = [("F1", "references", "D1"), ("F1", "derived_from", "D1")]
    made = impact_of(*twice, ("F2", "references", "D2"), ("F3", "references", "D2"), D1=1, D2=1, D3=1, F1=2, F2=2, F3=2)
    assert [each.ref for each in made] == ["s/DEC-0002", "s/DEC-0001", "s/DEC-0003"]
    assert made.with_effect == 2


def test_edges_to_unknown_memories_and_to_itself_do_not_count() -> None:
    made = impact_of(("D1", "led_to", "s/FIND-9999"), ("D1", "led_to", "D1"), ("gone/F-1", "references", "D1"), D1=1)
    assert of(made, "DEC-0001").links() == []


def test_page_is_limited_and_says_so() -> None:
    made = impact_of(limit=2, D1=1, D2=2, D3=3)
    assert (len(made.decisions), made.total) == (2, 3)
    assert made.notes == ["The first 2 of 3 decisions are listed."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("as DEC-0001 says", "a/DEC-0001"),
        ("(dec-0001).", "a/DEC-0001"),
        ("see b/DEC-0001, please", "b/DEC-0001"),
        ("DEC-0001's rationale", "a/DEC-0001"),
        ("DEC-00012 or XDEC-0001 or DEC-0001-b", None),
        ("path/to/DEC-0001.md", None),
        ("nothing", None),
    ],
)
def test_mentions_are_whole_ids(text: str, expected: str | None) -> None:
    found = mentions_in([("a", "FIND-0001", text)], ["DEC-0001"])
    assert [target for _, _, target in found] == ([] if expected is None else [expected])
