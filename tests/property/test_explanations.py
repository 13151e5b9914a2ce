"""An explanation agrees with the query: found at the same rank, or not found with a reason."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

import smp_memory
from smp_memory.testing import FrozenClock
from tests.crash.scenarios import depth
from tests.property.test_queries import NAMES, WHERE, counted, do, questions, steps

FLOORS = st.fixed_dictionaries(
    {},
    optional={
        "min_relevance": st.sampled_from([0.0, 0.3, 0.8]),
        "min_priority": st.sampled_from([0.3, 0.97]),
        "include_decayed": st.booleans(),
        "include_expired": st.booleans(),
        "limit": st.sampled_from([0, 1, 3, 10_000]),
        "offset": st.sampled_from([0, 2]),
        "viewer": st.sampled_from(["ada", "nobody"]),
    },
)
PRIVATE = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["ada", "bob"]), st.booleans()), max_size=3)


def filled(written: list[tuple[Any, ...]], private: list[tuple[int, str, bool]]) -> smp_memory.Memory:
    memory = smp_memory.open(":memory:", clock=FrozenClock(), config={"track_access": False})
    for name in NAMES:
        memory.create_session(name)
    for step in written:
        do(memory, step)
    for number, author, is_over in private:
        until = {"valid_until": "2020-01-01"} if is_over else {}
        memory.session(NAMES[number]).add_finding("alpha beta of gamma", author=author, visibility="private", **until)
    supersede(memory)
    return memory


def supersede(memory: smp_memory.Memory) -> None:
    """Let the last decision of the first session supersede the first one."""
    decisions = memory.session(NAMES[0]).records("decision")
    if len(decisions) > 1:
        memory.session(NAMES[0]).relate(decisions[-1].id, decisions[0].id, "supersedes")


@settings(max_examples=depth(60, 600), deadline=None)
@given(
    st.lists(steps, min_size=1, max_size=14), PRIVATE, st.lists(st.tuples(questions, FLOORS), min_size=1, max_size=3)
)
def test_explanation_agrees_with_the_query(written: Any, private: Any, asked: list[tuple[dict[str, Any], Any]]) -> None:
    memory = filled(written, private)
    for question, floors in asked:
        options = {**question, **floors}
        if "where" in options:
            options["where"] = WHERE[options["where"]][0]
        if options.get("since", "") > options.get("until", "9"):
            continue
        check(memory, options)


def check(memory: smp_memory.Memory, options: dict[str, Any]) -> None:
    viewer = options.pop("viewer", None)
    query = {**options, "track_access": False}
    asking = memory if viewer is None else memory.agent(viewer, NAMES[0])
    if viewer is not None:
        query.setdefault("sessions", "all")
    ranks = ranks_by_page(asking, query)
    page = [hit.record.ref for hit in asking.query(**query)]
    for session in memory.sessions():
        for record in session.records(include_deleted=True):
            found = memory.explain(record, viewer=viewer, **options)
            assert found.found is (record.ref in ranks), (record.ref, options, found)
            assert found.rank == ranks.get(record.ref), (record.ref, options, found)
            assert found.is_on_page is (record.ref in page), (record.ref, options, found)
            assert found.is_on_page is not bool(found.reasons), (record.ref, options, found)
            assert found.score is not None
            assert 0 <= found.score <= 1
            assert str(found.to_dict())


@settings(max_examples=depth(30, 600), deadline=None)
@given(st.lists(steps, min_size=1, max_size=14), PRIVATE, st.lists(questions, min_size=1, max_size=3), FLOORS)
def test_counts_are_those_of_all_hits(written: Any, private: Any, asked: list[dict[str, Any]], floors: Any) -> None:
    memory = filled(written, private)
    viewer = floors.get("viewer")
    asking: Any = memory if viewer is None else memory.agent(viewer, NAMES[0])
    given = {name: value for name, value in floors.items() if name not in ("viewer", "limit", "offset")}
    for question in asked:
        options = {"sessions": "all", **question, **given, "track_access": False}
        if "where" in options:
            options["where"] = WHERE[options["where"]][0]
        if options.get("since", "") <= options.get("until", "9"):
            hits = asking.query(**options, limit=10_000)
            few = asking.query(**options, limit=1, count_by=[*counted([]), "month"])
            months = Counter(f"{hit.record.created:%Y-%m}" for hit in hits)
            assert few.counts == {**counted(hits.records), "month": months}


def ranks_by_page(asking: Any, query: dict[str, Any]) -> dict[str, int]:
    """The place of each hit, as pages of this size show it; those before the first page are in one page."""
    offset, limit = query.get("offset", 0), query.get("limit", 20) or 10_000
    refs = [hit.record.ref for hit in asking.query(**{**query, "offset": 0, "limit": offset})] if offset else []
    while True:
        page = asking.query(**{**query, "offset": len(refs), "limit": limit})
        refs += [hit.record.ref for hit in page]
        if not page.more:
            return {ref: place for place, ref in enumerate(refs, 1)}
