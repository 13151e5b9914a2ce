"""Output of search results: highlighted words, excerpts, explanations, trees of relations."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import smp_memory
from smp_memory.cli.hit_output import Highlighter, explanation_lines, hit_lines, relation_tree, score_parts, watch_line
from smp_memory.cli.render import Screen, bars, width_of
from smp_memory.model.candidates import Hit, Related

_MARKS = {chr(code) for code in range(0xFDD0, 0xFDF0)}


def plain(lines: Any) -> str:
    stream = io.StringIO()
    for line in lines:
        Screen(stream).line(line)
    return stream.getvalue()


def marked(question: str, text: str) -> list[str]:
    return [text[start:end] for start, end in Highlighter(question).spans(text)]


def test_pattern_matches_are_highlighted() -> None:
    assert marked("*service", "a (microservice) and services") == ["microservice"]
    assert marked("왜 数", "왜 数据库 데이터") == ["왜", "数"]


@pytest.fixture
def session() -> smp_memory.SessionMemory:
    return smp_memory.open(":memory:").create_session("shop")


def hit(record: Any, relevance: float = 0.5, **explain: Any) -> Hit:
    return Hit(record, relevance, 0.9, lambda record: explain, lambda record: relevance)


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
def test_spans_of_query_words(question: str, text: str, expected: list[str]) -> None:
    assert marked(question, text) == expected


@given(st.text(), st.text())
@example("Q:ÐQ", "\x08ðq")  # the last letter of a run of bigrams is a term, too
def test_highlighting_does_not_change_the_text(question: str, text: str) -> None:
    spans = Highlighter(question).spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    short_ids = "".join(letter for letter in text if letter not in _MARKS)
    assert "".join(letter for letter in Highlighter(question).mark(short_ids) if letter not in _MARKS) == short_ids


@given(st.text(alphabet="ab 茶\n", max_size=300), st.integers(30, 60), st.integers(1, 3))
def test_excerpt_fits_the_columns(text: str, columns: int, lines: int) -> None:
    shown = Highlighter("bab 茶茶").excerpt(text, columns, lines)
    assert 1 <= len(shown) <= lines
    assert all(width_of(line) <= columns for line in shown)


def test_excerpt_starts_near_the_first_match() -> None:
    (line,) = Highlighter("needle").excerpt("hay " * 100 + "the needle " + "hay " * 100, 40, 1)
    assert plain([line]).startswith("… hay")
    assert "needle" in line
    assert plain([line]).endswith("…\n")


def test_short_text_is_printed_completely_on_one_line() -> None:
    assert Highlighter("").excerpt("two\n\nlines", 40, 2) == ["two lines"]


# -- hits


def test_hits_are_aligned_and_fit_the_terminal(session: smp_memory.SessionMemory) -> None:
    hits = [
        hit(session.add_decision("Use PostgreSQL " * 30, author="architect"), 0.75),
        hit(session.add_finding("Login\nhas no rate limit", severity="critical", author="茶"), 0.5),
    ]
    lines = list(hit_lines(hits, "limit", 80, short_ids=False))
    assert all(width_of(line) <= 80 for line in lines)
    assert all(width_of(line) <= 45 for line in hit_lines(hits, "limit", 45, short_ids=False))
    text = plain(lines).splitlines()
    assert text[0].startswith("██████░░ 0.75  shop/DEC-0001   ")
    assert text[0].endswith("decision  architect")
    assert text[-2].endswith("critical, open")
    assert text[-1].strip() == "Login has no rate limit"
    assert plain(hit_lines(hits, "", None, short_ids=True)).count("\n") == 4
    assert not any(line.endswith(" ") for line in plain(hit_lines(hits, "", None, short_ids=True)).splitlines())


def test_field_with_the_match_is_shown(session: smp_memory.SessionMemory) -> None:
    record = session.add_decision(
        "Use PostgreSQL", rationale="SQLite has one writer", alternatives_considered=["Mongo"]
    )
    assert plain(hit_lines([hit(record)], "writer", None, short_ids=True)).splitlines()[2].strip() == (
        "rationale: SQLite has one writer"
    )
    assert "alternatives_considered:" in plain(hit_lines([hit(record)], "mongo", None, short_ids=True))
    assert len(plain(hit_lines([hit(record)], "architect", None, short_ids=True)).splitlines()) == 2


def test_hit_text_cannot_control_the_terminal_or_forge_lines(session: smp_memory.SessionMemory) -> None:
    record = session.add_decision("a\x1b[2J\u202e\nforged", author="x\nforged", tags=["t"], odd="\x1b[1m needle")
    near = [Related(session.add_finding("b\nforged"), 1, "re\nforged", "shop/NONE-1")]
    for lines in (
        hit_lines([hit(record, text=0.5)], "needle", 60, short_ids=False, explain=score_parts),
        relation_tree(record, near, 60, short_ids=False),
        [watch_line(hit(record), Highlighter("needle"), 60, short_ids=True)],
    ):
        out = plain(lines)
        assert "\x1b" not in out
        assert not any(line.startswith("forged") for line in out.splitlines())


# -- why


def test_score_parts_are_bars_and_nested_parts_one_line() -> None:
    parts = {"text": 0.4, "author": 0.0, "worth": 0.5, "strength": 1.0, "new": 0.3, "priority": {"base": 0.95, "why": "its type", "rest": None}}  # fmt: skip
    lines = plain(explanation_lines(parts, 100)).splitlines()
    assert [line.split()[0] for line in lines] == ["text", "worth", "new", "priority"]
    assert " 0.40  words in the memory" in lines[0]
    assert "×0.50" in lines[1]
    assert lines[2].endswith(" 0.30")
    assert lines[3].endswith("base=0.95 why=its_type")
    assert all(width_of(line) <= 50 for line in explanation_lines(parts, 50))
    assert "×" not in plain(explanation_lines(parts, 100, has_labels=False))


def test_bars_without_values_are_empty() -> None:
    assert list(bars({}, str)) == []
    assert len(list(bars({"a": 0, "b": 3}, str))) == 2


# -- what is connected


def test_tree_shows_the_direction_of_relations(session: smp_memory.SessionMemory) -> None:
    finding = session.add_finding("bad")
    decision = session.add_decision("good", relations=[{"kind": "resolves", "target": finding.id}])
    turn = session.add_turn("user", "see there", references=[decision.ref])
    other = session.add_learning("from that", turn_ref=turn.id)
    near = [
        Related(decision, 1, "resolves", finding.ref),
        Related(turn, 2, "references", decision.ref),
        Related(other, 3, "turn", turn.ref),
    ]
    assert plain(relation_tree(finding, near, None, short_ids=True)) == (
        "FIND-0001  bad\n"
        "└─ ← resolves  DEC-0001  good\n"
        "   └─ ← references  TURN-0001  user  see there\n"
        "      └─ ← turn  LEARN-0001  from that\n"
    )
    assert "→ resolves  shop/FIND-0001" in plain(
        relation_tree(decision, [Related(finding, 1, "resolves", decision.ref)], None, short_ids=False)
    )


def test_tree_includes_memories_reached_through_a_deleted_one(session: smp_memory.SessionMemory) -> None:
    one, two = session.add_finding("one"), session.add_finding("two")
    assert "two" in plain(relation_tree(one, [Related(two, 2, "resolves", "shop/GONE-0001")], None, short_ids=True))
