"""A long memory is cut to the passage that has most of the task's words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import smp_memory
from smp_memory.context.budget import QuestionWords, excerpt

FILLER = "We talked about the weather and the traffic for a while. " * 20


def test_passage_with_the_words_is_kept() -> None:
    text = f"{FILLER}The database password is rotated every Monday. {FILLER}"
    found = excerpt(text, 120, QuestionWords("when is the password of the database rotated"))
    assert "The database password is rotated every Monday." in found
    assert found.startswith("…")
    assert found.endswith("…")


def test_other_forms_of_a_word_are_found() -> None:
    assert "deploying" in excerpt(f"{FILLER}Nobody likes deploying late. {FILLER}", 80, QuestionWords("deployment"))
    assert "Größe" in excerpt(f"{FILLER}Die Größe zählt. {FILLER}", 80, QuestionWords("größe"))
    assert "配置文件" in excerpt(
        "天气很好。" * 100 + "配置文件在这里。" + "天气很好。" * 100, 40, QuestionWords("配置文件在哪里")
    )


def test_word_inside_another_word_does_not_count() -> None:
    assert "a cat" in excerpt(f"{'concatenate ' * 40}and a cat {'concatenate ' * 40}", 60, QuestionWords("cat"))


def test_text_without_the_words_is_cut_at_its_end() -> None:
    found = excerpt(FILLER, 100, QuestionWords("zebra"))
    assert FILLER.startswith(found.rstrip("…"))


@given(st.text(max_size=400), st.integers(2, 200), st.text(max_size=40))
def test_excerpt_never_exceeds_its_length(text: str, characters: int, question: str) -> None:
    found = excerpt(text, characters, QuestionWords(question))
    assert len(found) <= max(characters, 0)
    assert found == text or found.strip("…").strip() in text


def test_context_shows_the_passage_that_answers_the_task() -> None:
    session = smp_memory.open(":memory:").create_session("s")
    session.add_turn("assistant", f"{FILLER}The staging server is called heron. {FILLER}")
    session.add_turn("user", "Thanks!")
    for tokens in (150, 300, 800):
        assert "heron" in session.context(task="what is the staging server called", max_tokens=tokens).text
