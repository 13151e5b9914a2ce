"""Extractive summaries: any script, any input, the same each time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smp_memory.lifecycle.summaries import MAX_SENTENCE, archive_summary, quotes, sentences, shortened, summarise
from smp_memory.model.session_info import SessionInfo
from tests.unit.lifecycle.records import record

TALK = [
    "Hi! How are you?",
    "We must choose a database for the session store. PostgreSQL is what the team knows best.",
    "Sounds great!",
    "PostgreSQL needs a server, and the session store must work offline. SQLite works offline without a server.",
    "Wow, thanks!",
    "Then the session store uses SQLite, and the database of the web shop stays PostgreSQL.",
    "Great!",
]


def test_the_central_sentences_are_chosen_and_small_talk_is_not() -> None:
    text = summarise(TALK, max_sentences=2)
    assert "session store" in text
    assert not any(word in text for word in ("great", "Wow", "Hi!"))


def test_sentences_keep_their_order() -> None:
    found = quotes(TALK, max_sentences=3)
    assert [quote.source for quote in found] == sorted(quote.source for quote in found)
    assert max(quote.weight for quote in found) == 1.0


def test_every_sentence_is_in_a_text() -> None:
    said = [line for text in TALK for line in sentences(text)]
    assert all(quote.text in said and quote.text in TALK[quote.source] for quote in quotes(TALK))


def test_summary_has_no_repetitions() -> None:
    text = summarise(
        ["The login page is slow on phones today."] * 50
        + ["The login page is slow on phones today!", "A cache helps the search."]
    )
    assert text.count("login page") == 1
    assert "cache" in text


@pytest.mark.parametrize("most", [1, 2, 10, 50, 100, 1000])
def test_a_summary_keeps_within_its_characters(most: int) -> None:
    text = summarise(TALK * 3, max_characters=most)
    assert 0 < len(text) <= most


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_summary_keeps_within_its_sentences(most: int) -> None:
    assert len(quotes(TALK, max_sentences=most)) == most


@pytest.mark.parametrize(
    "texts",
    [
        ["数据库使用PostgreSQL。会话存储必须离线工作！数据库的备份每天做一次。天气很好。"],
        ["データベースを選んだ。セッションはオフラインで動く。バックアップは毎日だ。"],
        ["قاعدة البيانات بطيئة. هل نغيرها؟ نعم، نغير قاعدة البيانات غدا."],
        ["डेटाबेस धीमा है। हम इसे बदलेंगे। डेटाबेस का बैकअप रोज़ होता है।"],
        ["База данных медленная. Мы её заменим. Резервная копия базы данных делается каждый день."],
        ["ฐานข้อมูลช้ามาก\nเราจะเปลี่ยนฐานข้อมูล\nสำรองข้อมูลทุกวัน"],
    ],
    ids=["Chinese", "Japanese", "Arabic", "Hindi", "Russian", "Thai"],
)
def test_every_script_works(texts: list[str]) -> None:
    assert len(list(sentences(texts[0]))) >= 3
    assert summarise(texts, max_sentences=1) in [line for text in texts for line in sentences(text)]


@pytest.mark.parametrize(
    "texts", [[], [""], ["   \n\t"], ["---", "```", "***"], [None], [7, b"x", {}], ["\0\x1b[31m"], ["\ud800"]], ids=repr
)
def test_texts_without_sentences_give_an_empty_summary(texts: Any) -> None:
    assert summarise(texts) in ("", "[31m")
    assert summarise(["x y z."], max_sentences=0) == ""
    assert summarise(["x y z."], max_characters=0) == ""


@given(some.lists(some.text(some.characters(), max_size=200), max_size=30))
def test_any_text_gives_a_summary_that_can_be_stored(texts: list[str]) -> None:
    text = summarise(texts, max_characters=300)
    assert len(text.encode()) <= 1200
    assert len(text) <= 300
    assert "\n" not in text
    assert text == summarise(list(texts), max_characters=300)


def test_large_input_is_summarised() -> None:
    texts = [
        f"Request {number} of service {number % 13} failed with code {number * 7919 % 1000}. It was retried."
        for number in range(30_000)
    ]
    assert summarise(texts)
    assert summarise(["word " * 500_000, "x" * 2_000_000, "no end " * 100_000])


def test_sentences_end_where_they_should() -> None:
    assert list(sentences("See a.py and v2.1 first. Then go! Why? (Because.) Done")) == [
        "See a.py and v2.1 first.", "Then go!", "Why?", "(Because.", "Done",
    ]  # fmt: skip
    assert list(sentences("- a point\n# A title\n3. third\n```python\n=====\n> quoted")) == [
        "a point",
        "A title",
        "third",
        "quoted",
    ]


def test_long_lines_are_cut_between_words() -> None:
    line = next(sentences("word " * 500))
    assert len(line) <= MAX_SENTENCE
    assert line.endswith("word…")
    assert shortened("x" * 500, 10) == "xxxxxxxxx…"


# -- the summary beside an archive


def test_the_summary_of_a_session() -> None:
    records = [
        *(record("conversation", number, 50, content=text, author="ann") for number, text in enumerate(TALK, 1)),
        record("decision", 20, 40, decision="Use SQLite for the session store", author="ann"),
        record("finding", 21, 40, finding="The server is slow", severity="high"),
        record("finding", 22, 40, finding="Settled long ago", status="resolved"),
        record("preference", 23, 40, preference="Short answers"),
        record("decision", 24, 40, decision="Forget this", deleted_days=3),
    ]
    summary = archive_summary(
        records,
        SessionInfo("s", "2026-04-01T00:00:00Z"),
        archived="2026-06-01T12:00:00Z",
        reason="idle",
        figures={"original_size_bytes": 5},
    )
    shown = json.dumps(summary, ensure_ascii=False)
    assert summary["session"] == "s"
    assert summary["original_size_bytes"] == 5
    assert [decision["decision"] for decision in summary["key_decisions"]] == ["Use SQLite for the session store"]
    assert [finding["finding"] for finding in summary["open_findings"]["high"]] == ["The server is slow"]
    assert summary["preferences"][0]["preference"] == "Short answers"
    assert "Forget this" not in shown
    assert {"id", "author", "created", "text"} == set(summary["key_turns"][0])
    assert all(turn["text"] in summary["conversation"] for turn in summary["key_turns"])


def test_the_summary_of_an_empty_session() -> None:
    assert archive_summary([])["key_turns"] == []
    assert archive_summary([])["session"] is None


def test_the_summary_of_a_large_session_is_small() -> None:
    records = [
        record("conversation", number, 50, content=f"Message {number}: " + "word " * 300) for number in range(500)
    ]
    records += [record("decision", number, 50, decision="d" * 50_000) for number in range(600, 700)]
    assert len(json.dumps(archive_summary(records))) < 60_000
