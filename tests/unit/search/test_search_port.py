"""Everything above the search port works on any index: brute force over histories gives the answers of the real index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import smp_memory
from smp_memory import AgentMemory, Memory
from smp_memory.model.candidates import NEWER, Candidate, CandidateRequest
from smp_memory.model.times import to_microseconds
from smp_memory.search.ranking import Ranking
from smp_memory.testing import FrozenClock
from tests.backends.naive_index import NaiveIndex

WORDS = ["login", "payment", "database", "queue", "retry", "token"]


@pytest.fixture
def memory() -> Iterator[Memory]:
    clock = FrozenClock()
    with smp_memory.open(":memory:", clock=clock, config={"search.semantic": "off", "track_access": False}) as memory:
        for number in range(3):
            session = memory.create_session(f"s{number}")
            for place, word in enumerate(WORDS):
                clock.advance(420)
                session.add_turn("user", f"What about the {word} and the {WORDS[place - 1]}?", author="ada")
                session.add_turn("assistant", f"We keep the {word} small, said number {number}.")
                hidden = {"visibility": "private"} if place == number else {}
                session.add_decision(
                    f"Use one {word} for {WORDS[number]}", author="bob", tags=[word], topic="Plan", **hidden
                )
            session.add_decision("Use two queues", supersedes="DEC-0004", references=["DEC-0001"], author="ada")
            session.add_finding(
                "The token leaks", severity="critical", relations=[{"kind": "resolves", "target": "DEC-0002"}]
            )
            session.add_preference("style", "Always answer in English", valid_until="2020-01-01")
            session.delete("TURN-0003")
        yield memory


ANSWERS: dict[str, Callable[[Memory], Any]] = {
    "query": lambda memory: {hit.record.ref for hit in memory.query("login queue", limit=100)},
    "newest": lambda memory: [hit.record.ref for hit in memory.query(limit=7)],
    "pages": lambda memory: [hit.record.ref for hit in memory.query(sort="oldest", limit=5, offset=5)],
    "superseded": lambda memory: {hit.id: hit.superseded_by for hit in memory.query(types="decision", limit=100)},
    "agent": lambda memory: {hit.record.ref for hit in AgentMemory(memory.session("s1"), "bob").query("payment", limit=90)},
    "other agent": lambda memory: {hit.record.ref for hit in AgentMemory(memory.session("s1"), "eve").query("payment")},
    "counts": lambda memory: memory.query("token", count_by=["type", "tag", "agent", "session", "topic"]).counts,
    "conditions": lambda memory: {hit.record.ref for hit in memory.query("login", tags="login", types="decision")},
    "related": lambda memory: [(each.record.ref, each.kind) for each in memory.find_related("s0/DEC-0001", depth=2)],
    "related to": lambda memory: {hit.record.ref for hit in memory.query(related_to="s1/DEC-0001", limit=50)},
    "similar": lambda memory: {hit.record.ref for hit in memory.find_similar("s0/DEC-0001", limit=100)},
    "context": lambda memory: sorted(memory.context("eve", task="login and database", max_tokens=20_000).ids),
    "digest": lambda memory: sorted(memory.context(max_tokens=20_000).ids),
    "explanation": lambda memory: memory.explain("s0/DEC-0001", "token", types="finding").reasons,
    "priority": lambda memory: memory.priority("s0/DEC-0001"),
    "usage": lambda memory: memory.analytics().usage.to_dict()["memories"],
    "impact": lambda memory: memory.analytics().impact.to_dict()["decisions"],
    "prompts": lambda memory: {name: each.prompt for name, each in memory.store.indexer.activity().items()},
    "changed": lambda memory: [
        sorted(each.ref for each in memory.store.indexer.candidates(CandidateRequest(changed_since=since, include_deleted=True)).matches)
        for since in (0, to_microseconds(memory.session("s1").find("TURN-0005").created), 2**62)
    ],
    "mistyped": lambda memory: memory.query("databse").corrected,
    "expired": lambda memory: memory.query("English").not_valid,
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_answer_is_the_same_on_a_naive_index(memory: Memory, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ANSWERS[name](memory)
    naive = NaiveIndex(memory.store)
    monkeypatch.setattr(type(memory.store), "indexer", property(lambda store: naive))
    assert ANSWERS[name](memory) == expected
    assert expected not in (None, [], set(), {})


def test_query_makes_few_calls_of_the_port(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    index = memory.store.indexer
    for name in ("candidates", "records", "facets", "related", "vocabulary", "activity"):
        asked = getattr(index, name)
        monkeypatch.setattr(index, name, lambda *given, n=name, f=asked, **more: calls.append(n) or f(*given, **more))
    for options in ({}, {"limit": 3}, {"types": "decision"}, {"sort": "newest"}, {"count_by": ["type"]}, {"include_related": True}):  # fmt: skip
        calls.clear()
        assert memory.query("login queue token", **options)
        assert len(calls) <= 5, (options, calls)
    calls.clear()
    assert memory.query(limit=5)
    assert len(calls) <= 5


def test_hidden_memory_is_no_candidate_and_takes_no_place(memory: Memory) -> None:
    from smp_memory.privacy.visibility import Viewer

    every = memory.store.indexer.candidates(CandidateRequest(types=["decision"])).matches
    seen = memory.store.indexer.candidates(CandidateRequest(types=["decision"], viewer=Viewer("eve"))).matches
    hidden = {each.ref for each in every} - {each.ref for each in seen}
    assert len(hidden) == 3
    first = memory.store.indexer.candidates(
        CandidateRequest(types=["decision"], viewer=Viewer("eve"), limit=5, offset=2)
    )
    assert [each.ref for each in first.matches] == [each.ref for each in seen[2:7]]


def test_ranking_is_a_function_of_candidates(memory: Memory) -> None:
    """A ranking needs no store: the candidates of one can be ranked anywhere."""
    from smp_memory.search.path import request_of
    from smp_memory.search.query import Query

    query, policy = Query({"text": "login"}, memory.now()), memory.scope.policy()
    found = NaiveIndex(memory.store).candidates(request_of(query, policy).with_changes(limit=100, fetch=[NEWER]))
    ranked = Ranking(query, policy).rank(found, 100)
    assert all(isinstance(each.candidate, Candidate) and 0 <= each.score <= 1 for each in ranked)
    assert {each.ref for each in ranked} >= {each.ref for each in found.matches}
