"""Turns that repeat a written memory: a labelled sample (`echo_pairs.txt`), and the rules one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from smp_memory.text.echoes import Statement, is_beside

ECHO = "="


def pairs() -> list[tuple[str, str, str]]:
    """Memory, label and turn."""
    found, memory = [], ""
    for line in (Path(__file__).parent / "echo_pairs.txt").read_text(encoding="utf-8").splitlines():
        label, _, text = line.partition(" ")
        if label == "memory":
            memory = text
        elif label and label != "#":
            found.append((memory, label, text))
    return found


def test_labelled_pairs_are_told_apart() -> None:
    found = [label for memory, label, turn in pairs() if Statement(memory).score(turn)]
    right = found.count(ECHO)
    assert right / len(found) >= 0.95, "precision"
    assert right / [label for _, label, _ in pairs()].count(ECHO) >= 0.6, "recall"


def test_no_turn_repeats_the_memory_of_another_subject() -> None:
    turns = pairs()
    memories = {memory: Statement(memory) for memory, _, _ in turns}
    assert [
        (text, turn)
        for text, memory in memories.items()
        for other, _, turn in turns
        if other != text and memory.score(turn)
    ] == []


def test_a_turn_beside_a_memory_repeats_it_in_fewer_words() -> None:
    memory = Statement("Idempotency keys live in the table request_keys and are purged after 7 days.")
    turn = "pg then. unique idx on (merchant, key). keep the keys 7 days in the table, then purge"
    assert memory.score(turn, beside=True)
    assert not memory.score(turn)
    assert not memory.score("keep the keys 30 days in the table, then purge", beside=True)
    assert not memory.score("nice, thanks", beside=True)


@pytest.mark.parametrize(
    ("turn", "expected"), [(1, False), (2, False), (3, True), (4, True), (6, True), (7, False)]
)  # fmt: skip
def test_positions_beside_a_memory(turn: int, expected: bool) -> None:
    assert is_beside(5, turn) is expected


@pytest.mark.parametrize("text", ["", "ok", "Use it.", "Why do we use Redis?", "?" * 100, "x" * 100_000])
def test_texts_that_state_too_little_have_no_echoes(text: str) -> None:
    assert not Statement(text).score(text)
    assert not Statement("The HTTP timeout of the payment client is 30 seconds.").score(text)
