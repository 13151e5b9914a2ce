"""The tail and tantivy return the same memories with the same scores, for the same terms and filters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from smp_memory.index import text as text_module
from smp_memory.index.rows import IndexUnusable, Rows
from smp_memory.index.text import TextIndex, TextMatch, TextQuery
from smp_memory.text.tokenizer import joined_terms, parse
from tests.crash.scenarios import depth

DOCUMENTS = {
    1: "Use OAuth2 for the login, see auth_service.py",
    2: "The login is slow - very slow indeed",
    3: "Logins are slow in src/auth/auth_service.py and slow elsewhere",
    4: "数据库连接池的大小",
    5: "データベースの接続",
    6: "데이터베이스를 연결합니다",
    7: "การเชื่อมต่อฐานข้อมูล",
    8: "FIND-001 is about getUserName() and C++",
    9: "",
    10: "long " * 60 + "login",
    11: "Zürich café naïve — login; slow",
}
LABELS = {doc: f"s{doc % 2} t{doc % 3} " + ("x" if doc == 3 else f"ga ga.{doc}") for doc in DOCUMENTS}


def rows_of(documents: dict[int, str]) -> list[tuple[int, str, str, int, int]]:
    return [(doc, joined_terms(text), LABELS.get(doc, ""), doc * 100, doc) for doc, text in documents.items()]


class Both:
    """One text index that never merges, one that has merged everything, one in between."""

    def __init__(self, documents: dict[int, str], patch: pytest.MonkeyPatch, folder: Path | None = None) -> None:
        rows = rows_of(documents)
        self.all: list[TextIndex] = []
        for limit, parts in ((10**9, [rows]), (-1, [rows]), (-1, [rows[:3], rows[3:]]), (len(rows) // 2, [rows[: len(rows) // 2 + 1], rows[len(rows) // 2 + 1 :]])):  # fmt: skip
            patch.setattr(text_module, "TAIL_LIMIT", limit)
            index = TextIndex(Rows(":memory:"), None)
            for part in parts:
                index.add(part, [])
                index.refresh()
            self.all.append(index)
        assert len(self.all[0]._tail) == len(rows)
        assert len(self.all[1]._tail) == 0
        if len(rows) > 3:
            assert 0 < len(self.all[3]._tail) < len(rows)

    def search(self, wanted: TextQuery, limit: int = 1000) -> list[TextMatch]:
        answers = [index.search(wanted, limit) for index in self.all]
        first = {found.doc: found for found in answers[0]}
        for number, answer in enumerate(answers):
            assert {found.doc for found in answer} == first.keys()
            for found in answer:
                if (
                    number < 3 and len(wanted.patterns) + bool(wanted.phrases) < 2
                ):  # where some are here and some are there, the mean length is that of those in tantivy
                    assert found.match == pytest.approx(first[found.doc].match, rel=1e-3, abs=1e-4)
                assert (found.created, found.facts) == (first[found.doc].created, first[found.doc].facts)
        return answers[0]

    def docs(self, wanted: TextQuery) -> list[int]:
        return sorted(found.doc for found in self.search(wanted))

    def ask(self, text: str, **more: Any) -> list[int]:
        return self.docs(wanted_for(text, **more))

    def close(self) -> None:
        for index in self.all:
            index._rows.close()


def wanted_for(text: str, **more: Any) -> TextQuery:
    asked = parse(text)
    return TextQuery(
        asked.words,
        asked.phrases,
        asked.patterns,
        asked.excluded,
        asked.excluded_patterns,
        characters=asked.characters,
        **more,
    )


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with pytest.MonkeyPatch.context() as patch:
        both = Both(DOCUMENTS, patch)
        yield both
        both.close()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("login", [1, 2, 3, 10, 11]),
        ("LOGINS", [1, 2, 3, 10, 11]),
        ("login slow", [1, 2, 3, 10, 11]),
        ("zurich", [11]),
        ("CAFE naive", [11]),
        ("nothing", []),
        # identifiers whole and in parts
        ("auth_service.py", [1, 3]),
        ("service", [1, 3]),
        ("src/auth/auth_service.py", [1, 3]),
        ('"src/auth/auth_service.py"', [3]),
        ("OAuth2", [1]),
        ("oauth", [1]),
        ("FIND-001", [8]),
        ("getUserName", [8]),
        ("username", []),
        ("user", [8]),
        ("C++", [8]),
        # parts of a run without spaces
        ("数据库", [4]),
        ("库连", [4]),
        ("连接池", [4]),
        ("池", [4]),
        ("接", [4, 5]),
        ("ベース", [5]),
        ("데이터", [6]),
        ("연결", [6]),
        ("ฐานข้อมูล", [7]),
        ("ข้อมูล", [7]),
        # the words of phrases; whether they follow each other is seen when the text is read
        ('"login is slow"', [2]),
        ('"is slow" "very slow"', [2]),
        ('"数据库连接"', [4]),
        # prefixes and patterns
        ("log*", [1, 2, 3, 10, 11]),
        ("o*2", [1]),
        ("auth_*", [1, 3]),
        ("*service.py", [1, 3]),
        ("zzz*", []),
        ("log* slo*", [2, 3, 11]),
        # without
        ("login -slow", [1, 10]),
        ("-login", [4, 5, 6, 7, 8, 9]),
        ("login -slo*", [1, 10]),
        ("-数据", [1, 2, 3, 5, 6, 7, 8, 9, 10, 11]),
    ],
)
def test_tail_and_tantivy_find_the_same_terms(both: Both, question: str, expected: list[int]) -> None:
    assert both.ask(question) == expected


def test_tail_and_tantivy_filter_labels_alike(both: Both) -> None:
    assert both.ask("login", labels=[["s1"]]) == [1, 3, 11]
    assert both.ask("login", labels=[["s1"], ["t0", "t1"]]) == [1, 3]
    assert both.ask("login", without=["x"]) == [1, 2, 10, 11]
    assert both.ask("login", labels=[["ga"]], without=["ga.2"]) == [1, 10, 11]
    assert both.ask("login", labels=[["nothing"]]) == []
    assert both.docs(TextQuery(labels=[["x"]])) == [3]
    assert both.docs(TextQuery()) == sorted(DOCUMENTS)


def test_tail_and_tantivy_filter_times_alike(both: Both) -> None:
    """Half-open, and open at either end."""
    assert both.ask("login", since=200) == [2, 3, 10, 11]
    assert both.ask("login", since=201, until=1001) == [3, 10]
    assert both.ask("login", until=300) == [1, 2]
    assert both.ask("login", since=-(2**60), until=2**60) == [1, 2, 3, 10, 11]
    assert both.ask("login", since=300, until=300) == []
    assert both.docs(TextQuery(since=1000)) == [10, 11]


def test_limit_keeps_the_best_matches(both: Both) -> None:
    best = both.all[0].search(wanted_for("login slow"), 1000)
    assert [found.doc for found in best][:2] != []
    for index in both.all[:3]:
        for limit in (1, 2, 3):
            found = index.search(wanted_for("login slow"), limit)
            assert len(found) == limit
            assert found[0].match == pytest.approx(best[0].match, rel=1e-3)


def test_score_is_the_same_in_tail_and_tantivy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "TAIL_LIMIT", 20)
    index = TextIndex(Rows(":memory:"), None)
    texts = ["login", "login slow " + "and more " * 30, "slow slow slow", "another thing", "login again and again"]
    for start in (0, 100):
        index.add([(start + n, joined_terms(text), "", 0, 0) for n, text in enumerate(texts * 3)], [])
        index.refresh()
    assert len(index._tail) == 0
    index.add([(1000 + n, joined_terms(text), "", 0, 0) for n, text in enumerate(texts)], [])
    index.refresh()
    assert len(index._tail) == 5
    scores = {found.doc: found.match for found in index.search(wanted_for("login slow"), 1000)}
    for number in (0, 1, 2, 4):
        assert scores[1000 + number] == pytest.approx(scores[number], rel=1e-3)
    index._rows.close()


def test_match_of_all_words_scores_higher_than_of_one(both: Both) -> None:
    scores = {found.doc: found.match for found in both.search(wanted_for("login slow"))}
    assert scores[2] > scores[1]
    assert scores[11] > scores[10]


def test_pattern_matches_all_of_very_many_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Both({number: f"word{number:03}x common" for number in range(150)} | {900: "other common"}, monkeypatch)
    assert len(both.ask("wor*")) == 150
    assert both.ask("common -wor*") == [900]
    assert both.ask("wor* -word1*") == list(range(100))
    both.close()


def test_word_of_one_character_is_optional_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {number: f"数{chr(0x4E00 + number)} common" for number in range(150)} | {900: "login", 901: "other"}
    both = Both(texts, monkeypatch)
    assert both.ask("数") == list(range(150))
    assert both.ask("数 login") == [*range(150), 900]
    assert both.ask("왜 login") == [900]
    assert both.ask("왜") == []
    assert both.ask('数 "login"') == [900]
    both.close()


words = st.sampled_from(
    [
        "login",
        "slow",
        "auth_service.py",
        "数据库",
        "OAuth2",
        "the",
        "café",
        "-",
        "run",
        "running",
        "data",
        "base",
        "getUser",
        "x",
    ]
)
bodies = st.lists(words, max_size=50).map(" ".join)
asked = st.lists(
    st.one_of(words, st.lists(words, min_size=1, max_size=3).map(lambda some: f'"{" ".join(some)}"'), words.map(lambda word: f"-{word}"), words.map(lambda word: f"{word[:2]}*")),
    min_size=1, max_size=3,
).map(" ".join)  # fmt: skip


@settings(max_examples=depth(12, 300), deadline=None)
@given(st.lists(bodies, min_size=1, max_size=12), st.lists(asked, min_size=1, max_size=6))
def test_tail_and_tantivy_agree_on_any_texts_and_queries(documents: list[str], questions: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        both = Both(dict(enumerate(documents, 1)), patch)
        for question in questions:
            both.ask(question)
        both.close()


# -- changing


@pytest.mark.parametrize("limit", [-1, 2, 10**9])
def test_changed_memory_is_not_found_by_its_old_terms(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """tantivy-py 0.27 deletes nothing by a term that is a number: the old state stayed and was found for ever."""
    monkeypatch.setattr(text_module, "TAIL_LIMIT", limit)
    index = TextIndex(Rows(":memory:"), None)

    def put(doc: int, text: str) -> None:
        index.add([(doc, joined_terms(text), "t1", 0, 0)], [doc])
        index.refresh()

    def ask(text: str) -> list[int]:
        return [found.doc for found in index.search(wanted_for(text), 100)]

    for doc in range(1 << 24, (1 << 24) + 5):
        put(doc, "alpha")
    for turn in range(4):
        for doc in range(1 << 24, (1 << 24) + 5):
            put(doc, f"beta turn{turn}x")
        assert sorted(ask("beta")) == list(range(1 << 24, (1 << 24) + 5))
        assert ask("alpha") == []
        assert ask(f'"turn{turn - 1}x"') == []
        assert index.documents >= 5
    index.add([], [1 << 24, (1 << 24) + 1])
    index.refresh()
    assert sorted(ask("beta")) == list(range((1 << 24) + 2, (1 << 24) + 5))
    index._rows.close()


def test_merge_is_visible_to_another_object(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(text_module, "TAIL_LIMIT", 2)
    one, other = (TextIndex(Rows(str(tmp_path / "rows.sqlite")), str(tmp_path)) for _ in range(2))
    for number in range(1, 9):
        writer, reader = (one, other) if number % 2 else (other, one)
        writer._rows.begin()
        writer.add([(number, joined_terms(f"alpha w{number}w"), "", 0, 0)], [])
        writer._rows.commit()
        for each in (reader, writer):
            each.refresh()
            assert sorted(found.doc for found in each.search(wanted_for("alpha"), 100)) == list(range(1, number + 1))
            assert [found.doc for found in each.search(wanted_for(f"w{number}w"), 100)] == [number]
    one._rows.close()
    other._rows.close()


def test_merge_that_died_before_the_rows_commit_is_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Otherwise a memory that was changed, and changed back by hand, would be found by words that it never kept."""
    monkeypatch.setattr(text_module, "TAIL_LIMIT", 0)
    index = TextIndex(Rows(str(tmp_path / "rows.sqlite")), str(tmp_path))
    index._rows.begin()
    index.add([(1, joined_terms("alpha"), "", 0, 0)], [])
    index._rows.commit()
    index._rows.begin()
    index.add([(1, joined_terms("beta"), "", 0, 0)], [1])
    index._rows.close()  # as if killed: tantivy has committed, SQLite has not
    again = TextIndex(Rows(str(tmp_path / "rows.sqlite")), str(tmp_path))
    again.refresh()
    again._rows.begin()
    with pytest.raises(IndexUnusable):
        again.add([(2, joined_terms("gamma"), "", 0, 0)], [])
    again._rows.close()


def test_rolled_back_merge_has_no_effect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """tantivy has committed, SQLite has not; the next attempt begins anew."""
    monkeypatch.setattr(text_module, "TAIL_LIMIT", 1)
    index = TextIndex(Rows(str(tmp_path / "rows.sqlite")), str(tmp_path))
    for attempt in range(2):
        index._rows.begin()
        index.add([(1, joined_terms("alpha"), "", 0, 0), (2, joined_terms("beta"), "", 0, 0)], [])
        if attempt == 1:
            index._rows.commit()
        else:
            index._rows.roll_back()
            index.forget()
        index.refresh()
    assert [found.doc for found in index.search(wanted_for("alpha"), 100)] == [1]
    index._rows.close()


def found_by(text: TextIndex, *words: str) -> dict[str, list[int]]:
    return {word: sorted(found.doc for found in text.search(wanted_for(word), 100)) for word in words}


@pytest.mark.parametrize("folder", [False, True])
def test_documents_fed_in_parts_apply_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: bool) -> None:
    monkeypatch.setattr(text_module, "TAIL_LIMIT", 5)
    rows = Rows(":memory:")
    text = TextIndex(rows, str(tmp_path) if folder else None)
    text.add(rows_of({number: f"first n{number}x" for number in range(8)}), [])  # in tantivy
    text.add(rows_of({number: f"tail n{number}x" for number in range(8, 11)}), [])  # in the tail
    text.add(rows_of({3: "changed in the tail"}), [3])
    assert not text.exceeds_tail(5)
    text.feed(rows_of({3: "changed again", 9: "changed too"}), [3, 9])
    assert text.exceeds_tail(1)
    text.feed(rows_of({number: f"more n{number}x" for number in range(20, 25)}), [0, 10])
    text.feed(rows_of({20: "changed at once"}), [20])
    text.add(rows_of({30: "last"}), [1])
    text.refresh()
    assert found_by(text, "first", "tail", "changed", "again", "more", "last") == {
        "first": [2, 4, 5, 6, 7],
        "tail": [8],
        "changed": [3, 9, 20],
        "again": [3],
        "more": [21, 22, 23, 24],
        "last": [30],
    }
    assert (text.documents, rows.meta("token_docs"), len(text._tail)) == (14, 8 + 4 + 2 + 5 + 1 + 1, 0)


def test_fed_documents_are_dropped_by_a_rollback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(text_module, "TAIL_LIMIT", 2)
    rows = Rows(str(tmp_path / "rows"))
    text = TextIndex(rows, str(tmp_path))
    rows.begin()
    text.add(rows_of({number: f"first n{number}x" for number in range(4)}), [])
    rows.commit()
    for _ in range(2):
        rows.begin()
        text.feed(rows_of({9: "never"}), [0, 1])
        rows.roll_back()
        text.forget()
    text.refresh()
    assert found_by(text, "first", "never") == {"first": [0, 1, 2, 3], "never": []}
    rows.begin()
    text.add(rows_of(dict.fromkeys(range(5, 9), "then")), [0])
    rows.commit()
    text.refresh()
    assert found_by(text, "first", "never", "then") == {"first": [1, 2, 3], "never": [], "then": [5, 6, 7, 8]}
