"""Text for terminals: nothing steers, everything fits."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smp_memory.cli.render import (
    Screen,
    bar,
    cut,
    fields,
    one_line,
    paint,
    plural,
    safe,
    size_text,
    table,
    width_of,
    wrapped,
)

_FORBIDDEN = {
    *map(chr, range(32)),
    *map(chr, range(127, 160)),
    *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029",
}


def printed(text: str, *, encoding: str = "utf-8") -> str:
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding=encoding)
    Screen(stream).line(text)
    stream.flush()
    return data.getvalue().decode(encoding)


@given(st.text())
def test_no_text_can_steer_the_terminal(text: str) -> None:
    line = printed(text)
    assert line.endswith("\n")
    assert not _FORBIDDEN & set(line[:-1])


@given(st.text())
def test_json_is_exact_and_harmless(text: str) -> None:
    stream = io.StringIO()
    Screen(stream).json({"text": text})
    assert json.loads(stream.getvalue()) == {"text": text}
    assert not _FORBIDDEN & set(stream.getvalue().replace("\n", ""))


def test_json_escapes_beyond_the_first_plane() -> None:
    stream = io.StringIO()
    Screen(stream).json("\U000e0041\ud800")
    assert stream.getvalue() == '"\\udb40\\udc41\\ud800"\n'


def test_ordinary_text_stays_as_it_is() -> None:
    for text in ("plain", "Grüße", "茶 と 御飯", "नमस्ते", "👩‍🚀", "a\u00a0b", "می‌خواهم"):
        assert safe(text) == text


def test_escapes_are_shown() -> None:
    assert printed("\x1b[31m\u202e\U000e0041") == "\\x1b[31m\\u202e\\U000e0041\n"


def test_styles_vanish_where_there_is_no_colour() -> None:
    assert printed(paint("red", "x") + "y") == "xy\n"


def test_ascii_only() -> None:
    assert printed("a → b … ü", encoding="ascii") == "a -> b ... \\xfc\n"


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("茶", 2), ("e\u0301", 1), (paint("red", "ab"), 2), ("", 0)])
def test_width(text: str, columns: int) -> None:
    assert width_of(text) == columns


@given(st.text(alphabet="ab 茶é\u0301"), st.integers(1, 20))
def test_cut_fits(text: str, columns: int) -> None:
    assert width_of(cut(text, columns)) <= columns
    if width_of(text) <= columns:
        assert cut(text, columns) == text


def test_cut_closes_styles() -> None:
    assert cut(paint("red", "abcdef"), 4) == cut(paint("red", "abc") + "x" * 9, 4).replace("\ufdef…", "…")


@given(st.text(alphabet="ab 茶\u0301"), st.integers(2, 12))
def test_wrapping_loses_nothing_but_spaces(text: str, columns: int) -> None:
    lines = wrapped(text, columns)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(width_of(line) <= columns for line in lines)


def test_table_aligns_and_keeps_to_the_width() -> None:
    rows = [("a", "1", "first\nline"), ("茶茶", "22", "x" * 50)]
    assert list(table(("id", ">n", "text"), rows, None))[1:] == ["a      1  first line", f"茶茶  22  {'x' * 50}"]
    assert all(width_of(line) <= 20 for line in table(("id", ">n", "text"), rows, 20))


def test_a_narrow_table_shortens_times_and_leaves_columns_out_before_it_cuts() -> None:
    """Times ended in the middle of a day: `2026-01-3…`."""
    heads = ("id", "project", ">size", "created (UTC)", "state", "text")
    rows = [
        ("DEC-0001", "", "748 B", "2026-01-31 14:30:05", "active", "Use OAuth 2.0"),
        ("FIND-0001", "", "", "", "high, open", "Login has no rate limit, says veritas"),
    ]

    def lines(columns: int) -> list[str]:
        return [printed(line).rstrip("\n") for line in table(heads, rows, columns, spare=("size",))]

    assert lines(110)[0] == "id         project   size  created (UTC)        state       text"
    assert lines(82)[:2] == [
        "id          size  created (UTC)     state       text",
        "DEC-0001   748 B  2026-01-31 14:30  active      Use OAuth 2.0",
    ]
    assert lines(68)[0] == "id          size  created     state       text"
    assert lines(60)[:2] == [
        "id         created     state       text",
        "DEC-0001   2026-01-31  active      Use OAuth 2.0",
    ]
    assert lines(60)[2] == "FIND-0001              high, open  Login has no rate limit,…"
    assert all(width_of(line) <= columns for columns in range(50, 120) for line in lines(columns))


def test_fields_stand_in_a_column() -> None:
    lines = list(fields([("a", "one\ntwo"), ("long", "x")], None))
    assert [printed(line) for line in lines] == ["a     one\n", "      two\n", "long  x\n"]


def test_words() -> None:
    assert [plural(1, "memory"), plural(2, "memory"), plural(1200, "session")] == [
        "1 memory",
        "2 memories",
        "1,200 sessions",
    ]
    assert [size_text(5), size_text(2048), size_text(3 << 20)] == ["5 B", "2.0 KiB", "3.0 MiB"]
    assert one_line(" a\n\t b ") == "a b"
    assert [width_of(bar(share, 10)) for share in (0, 0.001, 0.5, 1, 7)] == [10] * 5
