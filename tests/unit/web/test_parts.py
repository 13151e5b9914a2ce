"""Values as pages show them: invisible characters, addresses, differences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from smp_memory.integrations.web.parts import TextPiece, difference, memory_url, sentence, table_of, url, visible

WORDS = st.lists(st.sampled_from(["a", "b", " ", "\n", "word", "<b>", "&", ".", "  "]), max_size=60).map("".join)


@given(st.text())
def test_no_text_keeps_control_characters_or_marks_of_direction(text: str) -> None:
    shown = visible(text)
    assert not any(ord(each) < 32 and each not in "\n\t" for each in shown)
    assert not set(shown) & set("\x7f\x9b\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
    shown.encode()  # no lone surrogate


def test_escape_sequences_are_spelled_out() -> None:
    assert visible("\x1b[31m") == "\\x1b[31m"


def test_parts_of_an_address_cannot_leave_their_place() -> None:
    assert url("/memory/{}/{}", "../../x", "a?b#c/d") == "/memory/..%2F..%2Fx/a%3Fb%23c%2Fd"
    assert url("/search", q="a b&c", tag=["x", "y"], sort="") == "/search?q=a+b%26c&tag=x&tag=y"
    assert memory_url("review/../x", full=1) == "/memory/review/..%2Fx?full=1"


def _without(element: str, shown: list[TextPiece]) -> str:
    """The text of a difference without what was added or removed."""
    return "".join(piece.text for piece in shown if piece.element != element)


@given(WORDS | st.text(), WORDS | st.text())
def test_difference_holds_both_texts(before: str, after: str) -> None:
    shown = difference(before, after)
    assert _without("ins", shown) == before
    assert _without("del", shown) == after


def test_difference_shows_the_changed_words_only() -> None:
    changed = [
        TextPiece("", "Use "),
        TextPiece("del", "OAuth"),
        TextPiece("ins", "SAML"),
        TextPiece("", " for sign-in"),
    ]
    assert difference("Use OAuth for sign-in", "Use SAML for sign-in") == changed
    assert difference("same", "same") == [TextPiece("", "same")]


def test_difference_of_long_repetitive_texts_is_shown_as_a_whole() -> None:
    shown = difference("a " * 3000 + "x", "b " * 3000 + "y")
    assert [piece.element for piece in shown] == ["del", "ins"]


def test_table_says_once_what_all_rows_have_in_common_but_keeps_the_first_column() -> None:
    rows = [("a", "active", "1"), ("a", "active", "2")]
    table = table_of(lambda row, at: row[at], rows, ("Name", "State", "Uses"))
    assert table.titles == ["Name", "Uses"]
    assert table.rows == [["a", "1"], ["a", "2"]]
    assert table.common == [("State", "active")]
    assert table_of(lambda row, at: row[at], rows[:1], ("Name", "State", "Uses")).common == []


def test_sentence_begins_with_a_capital_letter_but_a_name_of_a_file_or_session_stays() -> None:
    assert sentence("an unresolved merge conflict") == "An unresolved merge conflict"
    assert sentence("decisions.jsonl (0644) is open to others") == "decisions.jsonl (0644) is open to others"
    assert sentence("claude-code-2026-11-18-eb34ceee ended") == "claude-code-2026-11-18-eb34ceee ended"
    assert sentence("") == ""
