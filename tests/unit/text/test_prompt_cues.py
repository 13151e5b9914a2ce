"""Cues in the wording of prompts: asking for memory, speaking of us, referring to something known, asking in general."""

from __future__ import annotations

import pytest

from smp_memory.text.prompt_cues import cues_in, is_frame


@pytest.mark.parametrize(
    "prompt",
    [
        "What did we decide about retries?",
        "why do we pin numpy",
        "Remind me: which port was it?",
        "As agreed, use the small model",
        "Was haben wir zum Caching entschieden?",
        "Wie besprochen, bitte mit Tests",
        "Qu’est-ce qu’on avait dit pour le cache ?",
        "¿Qué decidimos sobre la base de datos?",
        "Напомни, что мы решили",
        "前回どの方法に決めた？",
    ],
)
def test_prompt_that_asks_for_memory(prompt: str) -> None:
    assert cues_in(prompt).asks_for_memory


@pytest.mark.parametrize(
    "prompt",
    [
        "pytest: run only the tests that failed last time",
        "Write a regex",
        "Memory leak in the worker",
        "thanks",
        "",
        "…",
    ],
)
def test_prompt_that_does_not_ask_for_memory(prompt: str) -> None:
    assert not cues_in(prompt).asks_for_memory


@pytest.mark.parametrize(
    "prompt", ["How do I undo a commit?", "explain the GIL", "Wie lese ich eine Datei?", "C'est quoi un mutex ?"]
)
def test_prompt_that_asks_in_general(prompt: str) -> None:
    assert cues_in(prompt).is_general


def test_words_for_us_and_for_something_known() -> None:
    assert cues_in("Where is our staging?").speaks_of_us
    assert cues_in("Split the parser").refers
    assert not cues_in("Write a parser").refers
    assert not cues_in("Bus timetable").speaks_of_us


def test_frame_words_say_nothing_about_the_subject() -> None:
    assert all(map(is_frame, ("thank", "decid", "the", "7", "42")))
    assert not any(map(is_frame, ("webhook", "2026", "postgresql")))
