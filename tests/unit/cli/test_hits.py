"""How answers look: words are marked where they stand, texts are short, and why a memory came is drawn."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import smp_memory
from smp_memory.cli.hit_output import Highlighter, all_parts, arrival, explanation, hit_lines, tree
from smp_memory.cli.render import Screen, bars, width_of
from smp_memory.model.hits import Hit, Related

_MARKS = {chr(code) for code in range(0xFDD0, 0xFDF0)}


def plain(lines: Any) -> str:
    stream = io.StringIO()
    for line in lines:
        Screen(stream).line(line)
    return stream.getvalue()


def marked(question: str, text: str) -> list[str]:
    return [text[start:end] for start, end in Highlighter(question).spans(text)]


def test_what_a_pattern_means_is_marked() -> None:
    assert marked("*service", "a (microservice) and services") == ["microservice"]
    assert marked("왜 数", "왜 数据库 데이터") == ["왜", "数"]


@pytest.fixture
def session() -> smp_memory.SessionMemory:
    return smp_memory.open(":memory:").create_session("shop")


def hit(record: Any, relevance: float = 0.5, **explain: Any) -> Hit:
    return Hit(record, relevance, 0.9, lambda: explain)


# -- words


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("which database did we choose", "The DATABASE: databases, data", ["DATABASE", "databases"]),
        ("login", "Login, (login) log-in", ["Login", "login"]),
        ("auth*", "authors and Authentication", ["authors", "Authentication"]),
        ('"rate limit"', "The rate has a limit", ["rate", "limit"]),
        ("login -draft", "a draft of the login", ["login"]),
        ("auth_service.py", "see src/auth_service.py.", ["auth", "service", "py"]),
        ("auth_service.py", "see auth_service.py.", ["auth_service.py"]),
        ("service", "see auth_service.py.", ["service"]),
        ("接続", "データベースの接続は十個まで", ["接続"]),
        ("データベース", "データベースの接続は十個まで", ["データベース"]),
        ("grüße", "Viele Grüße!", ["Grüße"]),
        ("", "anything", []),
        ("the of", "nothing else", []),
    ],
)
def test_words_are_found_where_they_stand(question: str, text: str, expected: list[str]) -> None:
    assert marked(question, text) == expected


@given(st.text(), st.text())
def test_marking_changes_no_letter(question: str, text: str) -> None:
    spans = Highlighter(question).spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    bare = "".join(letter for letter in text if letter not in _MARKS)
    assert "".join(letter for letter in Highlighter(question).mark(bare) if letter not in _MARKS) == bare


@given(st.text(alphabet="ab 茶\n", max_size=300), st.integers(30, 60), st.integers(1, 3))
def test_an_excerpt_fits(text: str, columns: int, lines: int) -> None:
    shown = Highlighter("bab 茶茶").excerpt(text, columns, lines)
    assert 1 <= len(shown) <= lines
    assert all(width_of(line) <= columns for line in shown)


def test_an_excerpt_starts_where_the_words_stand() -> None:
    (line,) = Highlighter("needle").excerpt("hay " * 100 + "the needle " + "hay " * 100, 40, 1)
    assert plain([line]).startswith("… hay")
    assert "needle" in line
    assert plain([line]).endswith("…\n")


def test_a_short_text_is_whole_and_on_one_line() -> None:
    assert Highlighter("").excerpt("two\n\nlines", 40, 2) == ["two lines"]


# -- hits


def test_hits_stand_in_columns_and_fit(session: smp_memory.SessionMemory) -> None:
    hits = [
        hit(session.add_decision("Use PostgreSQL " * 30, author="architect"), 0.75),
        hit(session.add_finding("Login\nhas no rate limit", severity="critical", author="茶"), 0.5),
    ]
    lines = list(hit_lines(hits, "limit", 80, bare=False))
    assert all(width_of(line) <= 80 for line in lines)
    assert all(width_of(line) <= 45 for line in hit_lines(hits, "limit", 45, bare=False))
    text = plain(lines).splitlines()
    assert text[0].startswith("██████░░ 0.75  shop/DEC-0001   ")
    assert text[0].endswith("decision  architect")
    assert text[-2].endswith("critical, open")
    assert text[-1].strip() == "Login has no rate limit"
    assert plain(hit_lines(hits, "", None, bare=True)).count("\n") == 4
    assert not any(line.endswith(" ") for line in plain(hit_lines(hits, "", None, bare=True)).splitlines())


def test_the_field_that_has_the_words_is_shown(session: smp_memory.SessionMemory) -> None:
    record = session.add_decision(
        "Use PostgreSQL", rationale="SQLite has one writer", alternatives_considered=["Mongo"]
    )
    assert plain(hit_lines([hit(record)], "writer", None, bare=True)).splitlines()[2].strip() == (
        "rationale: SQLite has one writer"
    )
    assert "alternatives_considered:" in plain(hit_lines([hit(record)], "mongo", None, bare=True))
    assert len(plain(hit_lines([hit(record)], "architect", None, bare=True)).splitlines()) == 2


def test_a_text_cannot_steer_nor_forge(session: smp_memory.SessionMemory) -> None:
    record = session.add_decision("a\x1b[2J\u202e\nforged", author="x\nforged", tags=["t"], odd="\x1b[1m needle")
    near = [Related(session.add_finding("b\nforged"), 1, "re\nforged", "shop/NONE-1")]
    for lines in (
        hit_lines([hit(record, text=0.5)], "needle", 60, bare=False, explain=all_parts),
        tree(record, near, 60, bare=False),
        [arrival(hit(record), Highlighter("needle"), 60, bare=True)],
    ):
        out = plain(lines)
        assert "\x1b" not in out
        assert not any(line.startswith("forged") for line in out.splitlines())


# -- why


def test_parts_are_bars_and_parts_of_parts_a_line() -> None:
    parts = {"text": 0.4, "author": 0.0, "worth": 0.5, "strength": 1.0, "new": 0.3, "priority": {"base": 0.95, "why": "its type", "rest": None}}  # fmt: skip
    lines = plain(explanation(parts, 100)).splitlines()
    assert [line.split()[0] for line in lines] == ["text", "worth", "new", "priority"]
    assert " 0.40  its own words" in lines[0]
    assert "×0.50" in lines[1]
    assert lines[2].endswith(" 0.30")
    assert lines[3].endswith("base=0.95 why=its_type")
    assert all(width_of(line) <= 50 for line in explanation(parts, 50))
    assert "×" not in plain(explanation(parts, 100, meanings=False))


def test_bars_of_nothing() -> None:
    assert list(bars({}, str)) == []
    assert len(list(bars({"a": 0, "b": 3}, str))) == 2


# -- what is connected


def test_a_tree_says_which_way_a_relation_points(session: smp_memory.SessionMemory) -> None:
    finding = session.add_finding("bad")
    decision = session.add_decision("good", relations=[{"kind": "resolves", "target": finding.id}])
    turn = session.add_turn("user", "see there", references=[decision.ref])
    other = session.add_learning("from that", turn_ref=turn.id)
    near = [
        Related(decision, 1, "resolves", finding.ref),
        Related(turn, 2, "references", decision.ref),
        Related(other, 3, "turn", turn.ref),
    ]
    assert plain(tree(finding, near, None, bare=True)) == (
        "FIND-0001  bad\n"
        "└─ ← resolves  DEC-0001  good\n"
        "   └─ ← references  TURN-0001  user  see there\n"
        "      └─ ← turn  LEARN-0001  from that\n"
    )
    assert "→ resolves  shop/FIND-0001" in plain(
        tree(decision, [Related(finding, 1, "resolves", decision.ref)], None, bare=False)
    )


def test_what_was_reached_through_a_deleted_memory_is_still_drawn(session: smp_memory.SessionMemory) -> None:
    one, two = session.add_finding("one"), session.add_finding("two")
    assert "two" in plain(tree(one, [Related(two, 2, "resolves", "shop/GONE-0001")], None, bare=True))
