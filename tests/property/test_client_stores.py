"""A client of a shared server gets the answers of a store that has its sessions alone, whatever the other sessions hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import smp_memory
from smp_memory import Memory, SessionMemory
from smp_memory.clients.client_store import ClientStore
from smp_memory.errors import SMPError
from smp_memory.memory import seen_through
from smp_memory.model.candidates import LATEST, NEWER, REPEATED, CandidateRequest
from smp_memory.privacy.client_tokens import ClientToken
from smp_memory.testing import FrozenClock

WORDS = [
    "login",
    "queue",
    "token",
    "payment",
    "database",
    "retry",
    "cache",
    "style",
    "budget",
    "zebra",
    "zanzibar",
    "audit",
    "kafka",
    "postgres",
    "oauth",
]
OWN, OTHER = ("s0", "s1", "s2"), ("b0", "b1", "b2")
STEPS = 70
STORES = 6


def built(seed: int, *, with_other: bool) -> Memory:
    """A store of random memories; those of the own sessions are the same with and without the others."""
    chance, clock = random.Random(seed), FrozenClock()
    memory = smp_memory.open(":memory:", clock=clock, config={"search.semantic": "off", "track_access": False})
    names = [*OWN, *OTHER]
    chance.shuffle(names)
    sessions = {
        name: memory.create_session(name, project="shop" if name in OWN else "bank")
        for name in names
        if with_other or name in OWN
    }
    for _ in range(STEPS):
        name, kind = chance.choice(names), chance.choice(["turn", "turn", *WRITES])
        fields = _random_fields(chance, names)
        clock.advance(300)
        if name in sessions:
            try:
                WRITES.get(kind, _add_turn)(sessions[name], fields)
            except SMPError:
                pass  # the memory to change does not exist, in both stores
    return memory


def _random_fields(chance: random.Random, names: list[str]) -> dict[str, Any]:
    target = f"{chance.choice(names)}/{chance.choice(['DEC', 'FIND', 'LEARN'])}-000{chance.randint(1, 4)}"
    options = {
        "references": [target],
        "supersedes": target,
        "relations": [{"kind": "resolves", "target": target}],
        "visibility": "private",
    }
    return {
        "text": " ".join(chance.choices(WORDS, k=chance.randint(2, 7))),
        "author": chance.choice(["bob", "eve"]),
        "word": chance.choice(WORDS),
        "id": f"DEC-000{chance.randint(1, 4)}",
        "more": {name: value for name, value in options.items() if chance.random() < 0.25},
    }


def _add_turn(session: SessionMemory, given: dict[str, Any]) -> None:
    session.add_turn("user", given["text"], author=given["author"])


WRITES: dict[str, Callable[[SessionMemory, dict[str, Any]], Any]] = {
    "decision": lambda s, g: s.add_decision(g["text"], tags=[g["word"]], topic=g["word"], author=g["author"], **g["more"]),
    "finding": lambda s, g: s.add_finding(g["text"], severity="high", author=g["author"], **g["more"]),
    "learning": lambda s, g: s.add_learning(g["text"], author=g["author"], **g["more"]),
    "preference": lambda s, g: s.add_preference(g["word"], g["text"], author=g["author"]),
    "delete": lambda s, g: s.delete(g["id"]),
    "change": lambda s, g: s.update(g["id"], rationale=g["text"]),
}  # fmt: skip

ANSWERS: dict[str, Callable[[Memory, str], Any]] = {
    "query": lambda m, text: sorted(
        (hit.record.ref, hit.superseded_by, hit.outdated_by, hit.repeats, hit.repeats_state, hit.settled, sorted(hit.echoes))
        for hit in m.query(text, limit=100)
    ),
    "counts": lambda m, text: m.query(text, count_by=["type", "tag", "agent", "session", "topic"]).counts,
    "corrected": lambda m, text: m.query(text).corrected,
    "context": lambda m, text: sorted(m.context("bob", task=text, max_tokens=20_000).ids),
    "agent": lambda m, text: sorted(hit.record.ref for hit in m.agent("eve", "s0").query(text, limit=50)),
    "vocabulary": lambda m, text: m.store.indexer.vocabulary(text.split()),
    "with related": lambda m, text: sorted(
        (hit.record.ref, sorted(each.ref for each in hit.related)) for hit in m.query(text, limit=50, include_related=True, depth=2)
    ),
    "related": lambda m, _: [
        sorted((each.record.ref, each.kind, each.steps) for each in m.find_related(f"{name}/DEC-0001", depth=3)) for name in OWN if m.session(name).find("DEC-0001")
    ],
    "candidates": lambda m, _: [
        (each.ref, each.latest, each.repeats)
        for each in m.store.indexer.candidates(CandidateRequest(include_deleted=True, fetch=[LATEST, REPEATED, NEWER])).matches
    ],
    "impact": lambda m, _: m.analytics().impact.to_dict(),
    "usage": lambda m, _: m.analytics().usage.to_dict(),
    "topics": lambda m, _: [(each.name, each.mentions) for each in m.topics()],
    "agents": lambda m, _: [(each.name, each.memories) for each in m.agents()],
}  # fmt: skip


@pytest.mark.parametrize("number", range(STORES))
def test_other_sessions_change_no_answer(number: int) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    texts = [" ".join(chance.sample(WORDS, 2)), "zanzibra kafak", f'"{chance.choice(WORDS)} token"', f"{chance.choice(WORDS)[:3]}*"]  # fmt: skip
    with built(seed, with_other=True) as both, built(seed, with_other=False) as alone:
        client = seen_through(both, ClientStore(both.store, ClientToken("t-1", "ci", "", projects=["shop"])))
        for name, answer in ANSWERS.items():
            for text in texts:
                assert answer(client, text) == answer(alone, text), (seed, name, text)
