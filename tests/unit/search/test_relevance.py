"""The relevance of hits: the probability that a memory answers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import smp_memory
from smp_memory.search.relevance import term_weight
from smp_memory.text.names import common_share

MEMORIES = [
    ("decision", "Redis holds the session tokens, nothing else."),
    ("decision", "We lint with ruff and mypy in strict mode."),
    ("decision", "Warehouse scanners must work with gloves."),
    ("finding", "The export to SAP drops leading zeros of article numbers."),
    ("learning", "The staging database is reset every Sunday at 03:00."),
    ("conversation", {"role": "user", "content": "Mandates of Northwind Bank expire after 36 months."}),
    ("conversation", {"role": "user", "content": "When does the quarterly audit begin?"}),
    ("preference", {"key": "tests", "value": "Never mock the database in tests."}),
    ("artifact", {"name": "rollout.md", "content": "Rollout of the loyalty programme: Lisbon first, then Porto."}),
]


@pytest.fixture
def memory() -> Any:
    with smp_memory.open(":memory:") as memory:
        memory.create_session("s1").add_many(MEMORIES)
        yield memory


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What are we using Redis for?", "Redis"),
        ("Which article numbers does the export to SAP get wrong?", "SAP"),
        ("When is the staging database reset?", "staging"),
        ("How long do mandates of Northwind Bank last?", "Northwind"),
        ("How long do mandates of Nortwhind Bank last?", "Northwind"),
        ("In which city does the rollout of the loyalty programme begin?", "Lisbon"),
    ],
)
def test_memory_that_answers_is_confident(memory: Any, question: str, answer: str) -> None:
    hits = memory.query(question)
    assert [hit.record.text for hit in hits.confident][:1] == [hits[0].record.text]
    assert answer in str(hits.confident[0].record.to_dict())


@pytest.mark.parametrize(
    "question",
    [
        "How does photosynthesis work?",
        "Write a poem about the sea at night.",
        "Thanks, that worked!",
        "How long does it take to boil an egg?",
        "What is the capital of Australia?",
        "Which gloves are good for cycling in winter?",
    ],
)
def test_question_that_no_memory_answers_has_no_confident_hit(memory: Any, question: str) -> None:
    assert memory.query(question).confident == []


def test_memories_beside_the_answer_do_not_inherit_its_relevance(memory: Any) -> None:
    hits = memory.query("What are we using Redis for?")
    assert hits[0].relevance > 0.6
    assert all(hit.relevance < 0.2 for hit in hits[1:])


def test_turn_that_only_asks_is_not_relevant(memory: Any) -> None:
    [hit] = [hit for hit in memory.query("When does the quarterly audit begin?") if "audit" in hit.record.text]
    assert hit.relevance < 0.6


def test_floor_means_the_same_in_a_large_store() -> None:
    with smp_memory.open(":memory:") as memory:
        memory.create_session("s1").add_many(MEMORIES)
        noise = [("decision", f"Item {number}: colour {number % 7}, shelf {number % 90}") for number in range(3000)]
        memory.create_session("s2").add_many(noise)
        assert memory.query("What are we using Redis for?").confident
        assert memory.query("How does photosynthesis work?").confident == []


def test_min_relevance_of_a_query_leaves_out_what_is_less_relevant(memory: Any) -> None:
    everything = memory.query("When is the staging database reset?", limit=20)
    assert len(everything) > 1
    chosen = memory.query("When is the staging database reset?", limit=20, min_relevance=0.6)
    assert chosen.ids == [hit.id for hit in everything if hit.relevance >= 0.6]


def test_min_relevance_setting_decides_what_is_confident(memory: Any) -> None:
    with smp_memory.open(":memory:", config={"recall.min_relevance": 0.0}) as careless:
        careless.create_session("s1").add_many(MEMORIES)
        hits = careless.query("Which gloves are good for cycling in winter?")
        assert hits.confident == list(hits) != []


def test_relevance_is_explained_and_pickled(memory: Any) -> None:
    hits = memory.query("What are we using Redis for?")
    assert set(hits[0].explain["relevance"]) >= {"answers", "words", "meaning", "about", "nearness"}
    again = pickle.loads(pickle.dumps(hits[0]))
    assert (again.score, again.relevance, again.explain) == (hits[0].score, hits[0].relevance, hits[0].explain)


def test_query_without_words_has_its_score_as_relevance(memory: Any) -> None:
    for hit in memory.query(sort="newest"):
        assert hit.relevance == hit.score


def test_rare_words_weigh_more_than_common_ones() -> None:
    assert common_share("time") > common_share("glove") > common_share("idempot") == 0.0
    assert term_weight("idempot", 1, 60) > term_weight("glove", 1, 60) > term_weight("page", 1, 60)
    assert term_weight("many", 0, 60) > 0


@pytest.mark.parametrize(
    "question",
    ["what day is it today?", "what's new in the world today?", "3 plus 80", "option 4 sounds good, do 2 and 3 later"],
)
def test_the_present_day_and_short_numbers_recall_nothing(question: str) -> None:
    with smp_memory.open(":memory:") as memory:
        memory.create_session("s1").add_many(
            [
                ("finding", "The cellar was wet again today"),
                ("decision", "Joint 4 gets a new bearing in week 2"),
                ("learning", "Grandma turns 80 on the 3rd"),
            ]
        )
        assert memory.query(question).confident == []


def test_a_word_of_a_deleted_private_memory_cannot_be_told_from_an_unknown_one() -> None:
    with smp_memory.open(":memory:", config={"search.semantic": "off"}) as memory:
        session = memory.create_session("s1")
        session.add_decision("The vault keeper is Ada", author="dev")
        secret = session.agent("dev").add_learning("vault code delprivxyz", visibility="private")
        session.delete(secret.id)
        viewer = session.agent("other")
        known, unknown = (viewer.query(f"who is the vault keeper {word}?")[0] for word in ("delprivxyz", "nothingxyz"))
        assert known.explain["relevance"] == unknown.explain["relevance"]
        assert known.explain["strength"] == unknown.explain["strength"]


def test_query_with_hundreds_of_identifiers_is_answered() -> None:
    with smp_memory.open(":memory:") as memory:
        memory.create_session("s1").add_decision("Orders use PostgreSQL in the shop")
        pasted = " ".join(f"id_{number}x{number}" for number in range(900))
        [hit] = memory.query(f"orders shop {pasted}")
        assert 0 <= hit.relevance < 0.1


def test_superseded_versions_do_not_make_their_successor_less_relevant() -> None:
    with smp_memory.open(":memory:") as memory:
        session = memory.create_session("s1")
        before = None
        for release in ("amber", "birch", "cedar", "dogwood", "elder", "fir", "ginkgo", "hazel"):
            relations = [{"kind": "supersedes", "target": before}] if before else []
            before = session.add_decision(f"The deploy freeze lifts after {release}", relations=relations).id
        first = memory.query("When does the deploy freeze lift?").confident[0]
        assert first.record.id == before
