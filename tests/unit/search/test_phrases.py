"""Phrases: the index matches their words, the text decides their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import smp_memory
import smp_memory.index.text

if TYPE_CHECKING:
    from smp_memory.session import SessionMemory

TEXTS = (
    "The login is slow, very slow indeed",
    "Slow is the login, and the cache is not",
    "Login slow since Tuesday",
    "Nothing of the kind: 数据库连接池",
)


@pytest.fixture(params=[2, 1000], ids=["merged", "in the tail"])
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SessionMemory:
    monkeypatch.setattr(smp_memory.index.text, "TAIL_LIMIT", request.param)
    session = smp_memory.open(":memory:").create_session("phrases")
    session.add_many([("learning", text) for text in TEXTS])
    return session


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ('"login is slow"', [1]),
        ('"slow very"', [1]),
        ('"slow indeed slow"', []),
        ('"is slow" "very slow"', [1]),
        ('"login slow"', [3]),
        ('"logins SLOW"', [3]),
        ('"数据库连接"', [4]),
        ('"库连"', [4]),
        ('"数据池"', []),
        ('slow -"very slow"', [2, 3]),
        ('login -"login slow"', [1, 2]),
        ('-"login slow"', [1, 2, 4]),
        ('"the login" -tuesday', [1, 2]),
        ("login -since_tuesday", [1, 2]),
    ],
)
def test_phrases(session: SessionMemory, question: str, expected: list[int]) -> None:
    hits = session.query(question, sort="oldest")
    assert [int(hit.id[-4:]) for hit in hits] == expected


def test_words_beside_a_phrase_are_optional(session: SessionMemory) -> None:
    assert session.query('"the login" indeed').ids == ["LEARN-0001", "LEARN-0002"]


def test_counts_include_only_matches_of_the_phrase(session: SessionMemory) -> None:
    hits = session.query('"login slow"', count_by="type", limit=0)
    assert hits.counts == {"type": {"learning": 1}}


@pytest.mark.parametrize(
    "question",
    [
        'why did they say that "login since Tuesday" is slow?',
        'what about the "slow cache login"',
        "what about the „slow cache login“",
    ],
)
def test_quoted_title_inside_a_sentence_is_no_filter(session: SessionMemory, question: str) -> None:
    assert set(session.query(question).ids) == {"LEARN-0001", "LEARN-0002", "LEARN-0003"}


def test_words_of_a_quoted_title_count(session: SessionMemory) -> None:
    assert session.query('what do we know about the "Tuesday"?').ids == ["LEARN-0003"]
    assert session.query('what do we know about "数据库连接" here?').ids == ["LEARN-0004"]


@pytest.mark.parametrize(
    "question",
    [
        '"login slow" cache indeed',  # keywords
        'what is "login slow"',  # two words outside of the quotes
        'what is the "login slow" -indeed',  # other syntax
        'what is the "login slow" tues*',
    ],
)
def test_phrase_among_keywords_or_other_syntax_stays_a_filter(session: SessionMemory, question: str) -> None:
    assert session.query(question).ids == ["LEARN-0003"]
