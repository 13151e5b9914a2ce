"""Scores of candidates: signals, their weights and their bounds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smp_memory.index import text_candidates
from smp_memory.model import candidates as model
from smp_memory.model.candidates import ASKS, NAMES_TIME, ROLES, traits_number
from smp_memory.search import scoring
from smp_memory.search.scoring import CandidateScore
from smp_memory.text.memory_text import questions_in
from smp_memory.text.tokenizer import inverse_frequency

AUTHORS = [None, "joe", "ann", "eve"]
SHIFT = 24  # of a place: number of the session << 24 | position in it


@dataclass(frozen=True)
class Candidate:
    """A candidate in words."""

    doc: int
    match: float
    created: int
    author: str | None = None
    role: str | None = None
    words: int = 255
    meaning: float = 0.0
    asking: int = 0
    marks: int = 0

    @property
    def found(self) -> model.Candidate:
        traits = traits_number(ROLES[self.role] if self.role else 0, self.words, False, self.asking, self.marks)
        session, position = f"{self.doc >> SHIFT:05}", self.doc & (1 << SHIFT) - 1
        values = (
            session,
            "X",
            position,
            "note",
            self.created,
            traits,
            self.author or "",
            self.match,
            self.meaning,
            True,
        )
        return model.Candidate(*values, *(None,) * 12)  # type: ignore[arg-type]


def turn(place: int, match: float, created: int = 0, author: str | None = None, **more: Any) -> Candidate:
    """A turn of a user."""
    return Candidate(place, match, created, author, "user", **more)


def signals_of(full_match: float = 0.0, authors: Iterable[str] = (), *others: Any, **more: Any) -> scoring.QuerySignals:
    return scoring.QuerySignals(full_match, authors, *others, **more)


def doc(session: int, position: int) -> int:
    return session << SHIFT | position


def scored(candidates: list[Candidate], asked: scoring.QuerySignals) -> list[CandidateScore]:
    return list(scoring.CandidateScores([each.found for each in candidates], asked))


def place(score: CandidateScore) -> int:
    return int(score.candidate.session) << SHIFT | score.candidate.position


def neighbours(candidates: list[Candidate]) -> list[int]:
    meanings = {each.doc: each.meaning for each in candidates}
    return text_candidates.neighbours([(each.doc, each.match) for each in candidates], meanings.keys(), meanings)


def order(candidates: list[Candidate], asked: scoring.QuerySignals | None = None) -> list[int]:
    return [place(each) for each in scored(candidates, asked or signals_of())]


def by_doc(candidates: list[Candidate], asked: scoring.QuerySignals | None = None) -> dict[int, CandidateScore]:
    return {place(each): each for each in scored(candidates, asked or signals_of())}


def test_no_candidates() -> None:
    assert scored([], signals_of()) == []
    assert text_candidates.neighbours([], [], {}) == []


def test_a_full_match_alone_in_its_session_has_almost_all_there_is() -> None:
    (found,) = scored([Candidate(doc(1, 0), 8.0, 0)], signals_of(8.0))
    assert found.strength == found.worth == 1.0
    assert found.parts[1] == found.parts[3] == found.parts[4] == 0.0
    assert found.relevance == pytest.approx(
        (scoring.TEXT + scoring.SESSION) / (scoring.TEXT + scoring.CONTEXT + scoring.SESSION)
    )


def test_a_better_text_comes_first() -> None:
    assert order([Candidate(doc(1, 0), 2.0, 0), Candidate(doc(2, 0), 3.0, 0)]) == [doc(2, 0), doc(1, 0)]


def test_equals_are_ordered_by_time_and_then_by_place() -> None:
    same = [Candidate(doc(1, 0), 2.0, 5), Candidate(doc(2, 0), 2.0, 9), Candidate(doc(3, 0), 2.0, 9)]
    assert order(same) == [doc(3, 0), doc(2, 0), doc(1, 0)]


def test_a_weak_best_answer_is_less_relevant_than_a_strong_one() -> None:
    found = Candidate(doc(1, 0), 2.0, 0)
    weak, strong = scored([found], signals_of(8.0))[0], scored([found], signals_of(2.0))[0]
    assert weak.strength == 0.25
    assert weak.relevance < strong.relevance
    assert scored([found], signals_of())[0].strength == 1.0


def test_neighbours_help_a_short_turn_more_than_a_long_one() -> None:
    def with_words(words: int) -> CandidateScore:
        return by_doc([turn(doc(1, 4), 9.0), turn(doc(1, 5), 1.0, words=words)])[doc(1, 5)]

    assert with_words(15).parts[1] > with_words(60).parts[1] > with_words(250).parts[1] > 0


def test_turns_before_count_more_than_turns_after() -> None:
    found = by_doc([turn(doc(1, at), match, words=20) for at, match in ((3, 1.0), (4, 9.0), (5, 1.0))])
    assert found[doc(1, 5)].parts[1] > found[doc(1, 3)].parts[1] > 0


def test_neighbours_are_of_the_same_session() -> None:
    last, first = doc(1, (1 << SHIFT) - 9), doc(2, 0)
    found = by_doc([turn(last, 9.0, words=5), turn(first, 1.0, words=5)])
    assert found[first].parts[1] == 0.0


def test_good_match_raises_other_turns_of_its_session() -> None:
    far = [turn(doc(1, 0), 9.0), turn(doc(1, 50), 2.0), turn(doc(2, 0), 3.0)]
    assert order(far) == [doc(1, 0), doc(1, 50), doc(2, 0)]


def test_less_of_the_best_match_of_a_session_reaches_a_turn_that_is_farther_away() -> None:
    places = (0, 10, 60, 254, 255, 100_000)
    found = by_doc([turn(doc(1, place), 9.0 if not place else 1.0, words=9) for place in places])
    shares = [found[doc(1, place)].parts[2] for place in places]
    assert shares[:4] == sorted(set(shares[:4]), reverse=True)
    assert shares[-1] == pytest.approx(shares[0] / 2, rel=0.02)


def test_of_equal_turns_of_a_session_the_first_one_counts_as_the_best() -> None:
    turns = [turn(doc(1, 0), 5.0), turn(doc(1, 90), 5.0), turn(doc(1, 10), 1.0)]
    shares = [[each.parts[2] for each in by_doc(some).values()] for some in (turns, [turns[1], turns[0], turns[2]])]
    assert sorted(shares[0]) == sorted(shares[1])
    assert by_doc(turns)[doc(1, 10)].parts[2] > by_doc(turns)[doc(1, 90)].parts[2]


def test_memory_that_was_written_down_gets_nothing_from_its_session_or_neighbours() -> None:
    for other in (Candidate(doc(1, 4), 9.0, 0, meaning=0.6), turn(doc(1, 4), 9.0, meaning=0.6)):
        beside = by_doc([other, Candidate(doc(1, 5), 1.0, 0, words=9, meaning=0.1)])[doc(1, 5)]
        apart = by_doc([other, Candidate(doc(2, 5), 1.0, 0, words=9, meaning=0.1)])[doc(2, 5)]
        assert beside.parts == apart.parts
        assert beside.relevance == apart.relevance


def test_written_memory_gives_nothing_to_turns_of_its_session() -> None:
    alone, beside = (by_doc([Candidate(doc(1, 4), 9.0, 0), turn(doc(session, 5), 1.0)]) for session in (2, 1))
    assert alone[doc(2, 5)].parts == beside[doc(1, 5)].parts


def test_answer_to_a_question_gets_more_of_its_match_than_another_turn() -> None:
    asked, said = (
        by_doc([turn(doc(1, 4), 9.0, words=9, marks=marks), turn(doc(1, 5), 0.0, words=9)])[doc(1, 5)].parts[1]
        for marks in (ASKS, 0)
    )
    assert asked == scoring.ANSWERED * said > 0


def test_turn_that_only_asks_is_worth_less_than_one_that_answers() -> None:
    worths = [scored([turn(doc(1, 0), 3.0, words=12, asking=asking)], signals_of())[0].worth for asking in (12, 6, 0)]
    assert worths == sorted(set(worths))
    assert scored([turn(doc(1, 0), 3.0, words=300, asking=20)], signals_of())[0].worth == 1.0


def test_turn_that_names_no_time_counts_less_if_a_time_is_asked_for() -> None:
    two = [turn(doc(1, 0), 3.0, marks=NAMES_TIME), turn(doc(2, 0), 3.3)]
    assert order(two) == [doc(2, 0), doc(1, 0)]
    assert order(two, signals_of(asks_for_time=True)) == [doc(1, 0), doc(2, 0)]
    written = [Candidate(doc(1, 0), 3.0, 0)]
    assert scored(written, signals_of(asks_for_time=True))[0].worth == 1.0


DAY = 86_400_000_000


def test_named_author_counts() -> None:
    two = [Candidate(doc(1, 0), 3.0, 10, "joe"), Candidate(doc(2, 0), 3.0, 20, "ann")]
    assert order(two, signals_of(authors=["joe"])) == [doc(1, 0), doc(2, 0)]
    assert order(two, signals_of(authors=["eve"])) == [doc(2, 0), doc(1, 0)]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (10, 11, 1.0),
        (None, 11, 1.0),
        (9, None, 1.0),
        (9, 10, 0.5),
        (11, 12, 0.5),
        (12, 13, 0.5),
        (13, 14, 0.0),
        (6, 8, 0.0),
    ],
)
def test_named_time_counts(start: int | None, end: int | None, expected: float) -> None:
    """In days. A day or two beside it counts half."""
    asked = signals_of(ranges=[(start and start * DAY, end and end * DAY), (1000 * DAY, None)])
    (found,) = scored([Candidate(doc(1, 0), 3.0, 10 * DAY)], asked)
    whole = scoring.TEXT + scoring.CONTEXT + scoring.SESSION + scoring.TIME
    assert found.parts[4] == pytest.approx(scoring.TIME / whole * expected)


def test_named_time_is_not_a_filter() -> None:
    exact, poor = Candidate(doc(1, 0), 9.0, 10 * DAY), Candidate(doc(2, 0), 0.5, 20 * DAY)
    assert order([exact, poor], signals_of(ranges=[(15 * DAY, 25 * DAY)])) == [doc(1, 0), doc(2, 0)]


def test_turn_of_a_machine_counts_less_unless_addressed() -> None:
    two = [Candidate(doc(1, 0), 3.0, 0, role="user"), Candidate(doc(2, 0), 3.3, 0, role="assistant")]
    assert order(two) == [doc(1, 0), doc(2, 0)]
    assert order(two, signals_of(addresses_assistant=True)) == [doc(2, 0), doc(1, 0)]
    assert by_doc(two)[doc(2, 0)].worth == scoring.BY_MACHINE


def test_a_turn_of_a_few_words_is_worth_less() -> None:
    turns = [Candidate(doc(1, 0), 3.0, 0, role="user", words=words) for words in (0, 4, 8, 16, 99, 100)]
    worths = [scored([turn], signals_of())[0].worth for turn in turns]
    assert worths == sorted(worths)
    assert worths[0] == 0.0
    assert worths[-1] == 1.0


def test_a_short_decision_is_worth_more_than_a_short_turn() -> None:
    worths = [
        scored([Candidate(doc(1, 0), 3.0, 0, role=role, words=6)], signals_of())[0].worth for role in (None, "user")
    ]
    assert worths[0] > 0.8 > worths[1]


def test_neighbours_of_the_best_that_are_not_known() -> None:
    found = [Candidate(doc(1, 5), 9.0, 0), Candidate(doc(1, 6), 8.0, 0), Candidate(doc(2, 0), 7.0, 0)]
    assert neighbours(found) == [doc(1, 3), doc(1, 4), doc(1, 7), doc(1, 8), doc(2, 1), doc(2, 2)]
    last = doc(1, (1 << SHIFT) - 1)
    assert neighbours([Candidate(last, 9.0, 0)]) == [last - 2, last - 1]
    many = [Candidate(doc(number, 5), 100.0 - number, 0) for number in range(1, 60)]
    assert len(neighbours(many)) == 4 * text_candidates.EXPANDED


def test_a_neighbour_without_any_word_can_be_the_answer() -> None:
    found = [
        turn(doc(1, 4), 9.0, 0, "ann", words=12, asking=12, marks=ASKS),  # What genre is your screenplay?
        turn(doc(1, 5), 0.0, 0, "joe", words=14),  # A mix of drama and romance!
        turn(doc(2, 0), 4.0, 0, "joe", words=14),
    ]
    assert order(found, signals_of(authors=["joe"])) == [doc(1, 5), doc(1, 4), doc(2, 0)]


def test_candidates_without_any_match() -> None:
    assert {each.relevance for each in scored([Candidate(1, 0.0, 0), Candidate(2, 0.0, 0)], signals_of(5.0))} == {0.0}


def test_decay_lowers_relevance_but_never_to_zero() -> None:
    assert scoring.faded(0.8, 1.0) == 0.8
    assert scoring.faded(0.8, 0.0) == pytest.approx(0.8 * (1 - scoring.FADING))
    assert scoring.faded(0.8, -1.0) == scoring.faded(0.8, 0.0)
    assert scoring.faded(0.8, 7.0) == 0.8


def test_an_explanation_adds_up() -> None:
    found = by_doc(
        [
            turn(doc(1, 4), 9.0, words=12, marks=ASKS),
            turn(doc(1, 5), 3.0, 0, "joe", words=9),
            Candidate(doc(1, 6), 4.0, 0),
        ],
        signals_of(20.0, ["joe"]),
    )
    for each in found.values():
        parts = each.explain()
        factors = parts.pop("strength") * parts.pop("worth")
        assert (*parts, "meaning") == scoring.PARTS
        assert sum(parts.values()) * factors == pytest.approx(each.relevance)


def test_an_explanation_with_meaning_adds_up() -> None:
    near = [Candidate(doc(1, 3), 2.0, 0, meaning=0.2), turn(doc(1, 4), 9.0, meaning=0.3, marks=ASKS)]
    near.append(turn(doc(1, 5), 0.0, words=9, meaning=0.6))
    for each in scored(near, signals_of(20.0)):
        parts = each.explain()
        factors = parts.pop("strength") * parts.pop("worth")
        assert tuple(parts) == scoring.PARTS
        assert sum(parts.values()) * factors == pytest.approx(each.relevance)


def test_similar_meaning_ranks_higher() -> None:
    assert order([Candidate(doc(1, 0), 0.0, 0, meaning=0.3), Candidate(doc(2, 0), 0.0, 0, meaning=0.6)]) == [
        doc(2, 0),
        doc(1, 0),
    ]
    assert order([Candidate(doc(1, 0), 5.0, 9), Candidate(doc(2, 0), 5.0, 0, meaning=0.6)])[0] == doc(2, 0)


def test_words_count_for_more_than_meaning() -> None:
    assert order([Candidate(doc(1, 0), 5.0, 0), Candidate(doc(2, 0), 0.0, 9, meaning=1.0)])[0] == doc(1, 0)


def test_meaning_of_neighbours_and_session_counts_as_their_text_does() -> None:
    alone, beside = turn(doc(1, 0), 1.0, words=9), turn(doc(2, 0), 1.0, words=9)
    found = by_doc([alone, beside, turn(doc(2, 1), 0.0, words=9, meaning=0.5)])
    assert found[doc(2, 0)].parts[5] > found[doc(1, 0)].parts[5] == 0.0


def test_an_answer_by_meaning_alone_is_as_strong_as_it_is_near() -> None:
    far, near = (scored([Candidate(doc(1, 0), 0.0, 0, meaning=value)], signals_of(8.0))[0] for value in (0.25, 0.75))
    assert (far.strength, near.strength) == (0.25, 0.75)


def test_neighbours_of_the_nearest_are_candidates() -> None:
    many = [Candidate(doc(session, 5), 9.0, 0) for session in range(text_candidates.EXPANDED)]
    near = Candidate(doc(900, 5), 0.0, 0, meaning=0.4)
    assert doc(900, 6) in neighbours([*many, near])
    assert doc(900, 6) not in neighbours([*many, Candidate(doc(900, 5), 0.0, 0)])


candidates = st.lists(
    st.builds(
        Candidate,
        st.integers(0, 3).flatmap(lambda session: st.integers(0, 12).map(lambda place: doc(session, place))),
        st.floats(0, 30),
        st.integers(0, 100),
        st.sampled_from(["joe", "ann", None]),
        st.sampled_from(["user", "assistant", "tool", None]),
        st.integers(0, 400),
        st.floats(0, 1),
        st.integers(0, 400),
        st.sampled_from([0, ASKS, NAMES_TIME, ASKS | NAMES_TIME]),
    ),
    unique_by=lambda each: each.doc,
    max_size=30,
)
questions = st.builds(
    signals_of,
    st.floats(0, 50),
    st.sets(st.sampled_from(["joe", "eve"])),
    st.lists(st.tuples(st.none() | st.integers(0, 50), st.none() | st.integers(50, 100)), max_size=2),
    st.booleans(),
    st.booleans(),
)


@given(candidates, questions, st.randoms())
def test_bounded_and_independent_of_the_order(
    found: list[Candidate], asked: scoring.QuerySignals, shuffle: random.Random
) -> None:
    judged = scored(found, asked)
    assert len(judged) == len(found)
    assert all(0.0 <= each.relevance <= 1.0 for each in judged)
    assert [each.relevance for each in judged] == sorted((each.relevance for each in judged), reverse=True)
    again = list(found)
    shuffle.shuffle(again)
    assert [(each.relevance, each.candidate, each.explain()) for each in scored(again, asked)] == [
        (each.relevance, each.candidate, each.explain()) for each in judged
    ]


@given(candidates.filter(len), questions)
def test_a_better_text_never_lowers_a_memory(found: list[Candidate], asked: scoring.QuerySignals) -> None:
    first = found[0]
    before = by_doc(found, asked)[first.doc].relevance
    better = replace(first, match=first.match + 5.0)
    after = by_doc([better, *found[1:]], asked)[first.doc].relevance
    is_apart = all(each.doc >> SHIFT != first.doc >> SHIFT for each in found[1:])
    if is_apart and not first.marks & ASKS:  # the place of a question depends on what may answer it
        assert after >= before - 1e-9


def test_rare_words_count_for_more() -> None:
    rare, common = inverse_frequency(10_000, 3), inverse_frequency(10_000, 4_000)
    assert rare == pytest.approx(math.log(1 + 9997.5 / 3.5))
    assert scoring.boost(rare) > scoring.boost(common)
    assert scoring.full_match([rare, common]) == pytest.approx(rare**1.3 + common**1.3)
    assert scoring.full_match([]) == 0.0
    assert inverse_frequency(5, 9) > 0


def test_the_match_of_a_text() -> None:
    assert scoring.text_match(2.0, 8.0) == 0.25
    assert scoring.text_match(9.0, 8.0) == 1.0
    assert scoring.text_match(9.0, 0.0) == 0.0


def test_authors_are_named_by_their_first_name() -> None:
    assert scoring.is_named(["carolin"], {"carolin", "support"})
    assert scoring.is_named(["mary", "ann", "smith"], ("mary", "dog"))
    assert not scoring.is_named(["mary", "smith"], {"smith"})
    assert not scoring.is_named([], {"smith"})


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which restaurant did you recommend?", True),
        ("What was your advice?", True),
        ("Was it you?", True),
        ("What have we decided about the login?", True),
        ("Where do I keep my old sneakers?", False),
        ("What did Caroline research?", False),
        ("youth hostels", False),
        ("Can you suggest a hotel for my trip?", False),
        ("could you tell me where I keep my sneakers", False),
        ("Can you remind me of the hotel that you suggested?", True),
        ("Would you say that our login is slow?", True),
        ("", False),
    ],
)
def test_questions_about_words_of_the_assistant_are_recognised(question: str, expected: bool) -> None:
    assert scoring.addresses_assistant(question) is expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When did Caroline go to the support group?", True),
        ("Since when do we use Redis?", True),
        ("How long ago did we release 2.0?", True),
        ("How many days before the meeting was the workshop?", True),
        ("What year did she move?", True),
        ("In which month was the audit?", True),
        ("How many servers do we have?", False),
        ("What does the cache do when it is full?", False),
        ("how", False),
        ("", False),
    ],
)
def test_questions_for_a_time_are_recognised(question: str, expected: bool) -> None:
    assert scoring.asks_for_time(question) is expected


@pytest.mark.parametrize(
    ("text", "words", "asks_last"),
    [
        ("", 0, False),
        ("I went there.", 0, False),
        ("How are you?", 3, True),
        ("I am well! And how are you?", 4, True),
        ("How are you? I am well.", 3, False),
        ('She said: "How are you?"', 5, True),
        ("好吗？", 1, True),
        ("کیف حالك؟", 2, True),
        ("?", 0, True),
        ("What?! Really", 1, False),
        ("\0?\0", 0, False),
    ],
)
def test_words_of_questions_are_counted(text: str, words: int, asks_last: bool) -> None:
    assert questions_in(text) == (words, asks_last)


def test_the_weighted_mode_of_001() -> None:
    new = scoring.weighted(1.0, 0.0, 1.0, 0.0)
    assert new == {"text": 0.4, "time": 0.3, "importance": 0.2, "access": 0.1}
    old = scoring.weighted(0.5, 10.0, 0.5, None)
    assert old == pytest.approx({"text": 0.2, "time": 0.3 * math.exp(-1), "importance": 0.1, "access": 0.05})
    assert scoring.weighted(0, 0, 0, 20.0)["access"] == pytest.approx(0.1 * math.exp(-1))
    assert scoring.weighted(0, -5, 0, -5) == scoring.weighted(0, 0, 0, 0)


def test_the_product_mode_of_004() -> None:
    assert scoring.product(0.5, 0.8, 0.9, 30.0) == {"importance": 0.9, "decay": 0.8, "recency": 1.0, "text": 0.5}
    assert scoring.product(0.5, 0.8, 0.9, 23.0)["recency"] == 1.5
    assert scoring.product(0.5, 0.01, 0.9, 23.0)["decay"] == 0.1


def test_a_turn_that_only_asks_is_behind_what_may_answer_it() -> None:
    asks = turn(doc(1, 0), 8.0, words=9, asking=8, marks=ASKS)
    written = [Candidate(doc(2, 0), 5.0, 0, words=12), Candidate(doc(3, 0), 4.0, 0, words=12)]
    turns = [turn(doc(4, 0), 5.0, words=20), turn(doc(5, 0), 4.0, words=20)]
    weak = Candidate(doc(6, 0), 1.0, 0, words=12)
    found = order([asks, *written, *turns, weak], signals_of(8.0))
    assert found.index(asks.doc) > max(found.index(each.doc) for each in (*written, turns[0]))
    assert found.index(asks.doc) < found.index(weak.doc)
    assert order([asks, weak], signals_of(8.0)) == [asks.doc, weak.doc]
    tells = replace(asks, asking=0, marks=0)
    assert order([tells, *written, weak], signals_of(8.0))[0] == tells.doc
