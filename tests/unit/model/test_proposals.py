"""Rules propose memories from turns; questions, guesses, quotations and code propose nothing."""

from __future__ import annotations

import time

import pytest

from smp_memory.model.proposals import proposals_in
from smp_memory.model.standing_instructions import instructions_in
from tests.proposal_set import (
    DEVELOPMENT,
    HELD_OUT,
    IMPORTED_DEVELOPMENT,
    IMPORTED_HELD_OUT,
    Quality,
    turns,
    wishes,
)


def quality_of_proposals(part: str) -> Quality:
    right, wrong, missed = 0, [], []
    for turn in turns(part):
        expected = list(turn.types)
        for type, _ in proposals_in(turn.text, turn.role):
            fitting = next((types for types in expected if type in types), None)
            if fitting is None:
                wrong.append(f"{type}: {turn.text}")
            else:
                expected.remove(fitting)
                right += 1
        missed += [f"{types}: {turn.text}" for types in expected]
    return Quality.of(right, wrong, missed)


def quality_of_wishes(part: str) -> Quality:
    found = [(sentence, instructions_in(sentence.text) != "") for sentence in wishes(part)]
    wrong = [each.text for each, is_found in found if is_found and not each.is_wish]
    missed = [each.text for each, is_found in found if each.is_wish and not is_found]
    return Quality.of(sum(each.is_wish and is_found for each, is_found in found), wrong, missed)


@pytest.mark.parametrize(
    ("part", "precision", "recall"),
    [
        (DEVELOPMENT, 0.97, 0.93),
        (HELD_OUT, 0.97, 0.51),
        (IMPORTED_DEVELOPMENT, 0.93, 0.7),
        (IMPORTED_HELD_OUT, 0.85, 0.48),
    ],
)
def test_proposals_are_precise_and_few_are_missed(part: str, precision: float, recall: float) -> None:
    quality = quality_of_proposals(part)
    assert quality.precision >= precision, quality.wrong
    assert quality.recall >= recall, quality.missed


@pytest.mark.parametrize(("part", "precision", "recall"), [(DEVELOPMENT, 0.98, 0.96), (HELD_OUT, 0.94, 0.67)])
def test_standing_wishes_are_precise_and_few_are_missed(part: str, precision: float, recall: float) -> None:
    quality = quality_of_wishes(part)
    assert quality.precision >= precision, quality.wrong
    assert quality.recall >= recall, quality.missed


@pytest.mark.parametrize("part", [DEVELOPMENT, HELD_OUT, IMPORTED_DEVELOPMENT, IMPORTED_HELD_OUT])
def test_at_least_half_of_the_labelled_turns_propose_nothing(part: str) -> None:
    labelled = turns(part)
    assert len(labelled) >= 100
    assert sum(not turn.types for turn in labelled) * 2 >= len(labelled)


def test_proposal_has_the_sentences_as_they_stand_in_the_turn() -> None:
    text = "Thanks. Let's go with Redis. Can you add it? Please never push to main. We'll keep Postgres for orders."
    assert proposals_in(text, "user") == [
        ("decision", "Let's go with Redis. We'll keep Postgres for orders."),
        ("preference", "Please never push to main."),
    ]


def test_heading_announces_the_next_line() -> None:
    assert proposals_in("## Root cause\n\nThe pool is made before the fork.", "assistant") == [
        ("finding", "## Root cause: The pool is made before the fork.")
    ]


@pytest.mark.parametrize("role", ["system", "tool", "architect", ""])
def test_other_roles_propose_nothing(role: str) -> None:
    assert proposals_in("Decision: weekly releases only.", role) == []


def test_items_of_a_list_of_guesses_propose_nothing() -> None:
    items = "\n\n1. The worker crashed because it ran out of memory.\n2. We keep the queue as it is."
    assert proposals_in(f"I have two hypotheses:{items}", "assistant") == []
    assert [type for type, _ in proposals_in(f"This is what I know:{items}", "assistant")] == ["finding", "decision"]


def test_orders_of_a_task_are_no_preferences_unless_they_last() -> None:
    assert proposals_in("Write unit tests for it. Never use mocks.", "user") == []
    assert proposals_in("Write unit tests for it. From now on never use mocks.", "user") == [
        ("preference", "From now on never use mocks.")
    ]


@pytest.mark.parametrize("text", ["Caveat: The messages below say: decided: weekly releases.", "API Error: it failed because the server is busy."])  # fmt: skip
def test_text_of_a_host_proposes_nothing(text: str) -> None:
    assert proposals_in(text, "user") == proposals_in(text, "assistant") == []


def test_pasted_text_of_a_user_proposes_nothing() -> None:
    assert proposals_in("Is this mail right?\n\nWe decided to drop all accounts.", "user") == []


def test_odd_input_is_harmless_and_fast() -> None:
    started = time.process_time()
    for text in (
        "",
        " ",
        "?",
        "decided:",
        "cause of " * 3000,
        "a, " * 30_000,
        "error from the " * 5000,
        "\ud800 decided: x y z",
    ):
        for role in ("user", "assistant"):
            assert isinstance(proposals_in(text, role), list)
    assert time.process_time() - started < 5  # not quadratic, which takes minutes
