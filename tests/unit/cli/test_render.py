"""Terminal output: text cannot control the terminal, and everything fits its width."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smp_memory.cli.render import (
    Screen,
    bar,
    fields,
    one_line,
    paint,
    plural,
    safe,
    size_text,
    table,
    truncate,
    width_of,
    wrap,
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
def test_text_cannot_control_the_terminal(text: str) -> None:
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


def test_control_characters_are_shown_as_escapes() -> None:
    assert printed("\x1b[31m\u202e\U000e0041") == "\\x1b[31m\\u202e\\U000e0041\n"


def test_styles_are_removed_without_colour() -> None:
    assert printed(paint("red", "x") + "y") == "xy\n"


def test_output_on_an_ascii_terminal() -> None:
    assert printed("a → b … ü", encoding="ascii") == "a -> b ... \\xfc\n"


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("茶", 2), ("e\u0301", 1), (paint("red", "ab"), 2), ("", 0)])
def test_width_of_text(text: str, columns: int) -> None:
    assert width_of(text) == columns


@given(st.text(alphabet="ab 茶é\u0301"), st.integers(1, 20))
def test_truncate_fits_the_columns(text: str, columns: int) -> None:
    assert width_of(truncate(text, columns)) <= columns
    if width_of(text) <= columns:
        assert truncate(text, columns) == text


def test_truncate_closes_styles() -> None:
    assert truncate(paint("red", "abcdef"), 4) == truncate(paint("red", "abc") + "x" * 9, 4).replace("\ufdef…", "…")


@given(st.text(alphabet="ab 茶\u0301"), st.integers(2, 12))
def test_wrap_drops_only_spaces(text: str, columns: int) -> None:
    lines = wrap(text, columns)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(width_of(line) <= columns for line in lines)


def test_table_is_aligned_and_fits_the_width() -> None:
    rows = [("a", "1", "first\nline"), ("茶茶", "22", "x" * 50)]
    assert list(table(("id", ">n", "text"), rows, None))[1:] == ["a      1  first line", f"茶茶  22  {'x' * 50}"]
    assert all(width_of(line) <= 20 for line in table(("id", ">n", "text"), rows, 20))


def test_narrow_table_shortens_times_and_drops_columns_before_truncating() -> None:
    """Times ended in the middle of a day: `2026-01-3…`."""
    heads = ("id", "project", ">size", "created (UTC)", "state", "text")
    rows = [
        ("DEC-0001", "", "748 B", "2026-01-31 14:30:05", "active", "Use OAuth 2.0"),
        ("FIND-0001", "", "", "", "high, open", "Login has no rate limit, says veritas"),
    ]

    def lines(columns: int) -> list[str]:
        return [printed(line).rstrip("\n") for line in table(heads, rows, columns, optional=("size",))]

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


def test_fields_are_aligned() -> None:
    lines = list(fields([("a", "one\ntwo"), ("long", "x")], None))
    assert [printed(line) for line in lines] == ["a     one\n", "      two\n", "long  x\n"]


def test_one_line_plural_sizes_and_bars() -> None:
    assert [plural(1, "memory"), plural(2, "memory"), plural(1200, "session")] == [
        "1 memory",
        "2 memories",
        "1,200 sessions",
    ]
    assert [size_text(5), size_text(2048), size_text(3 << 20)] == ["5 B", "2.0 KiB", "3.0 MiB"]
    assert one_line(" a\n\t b ") == "a b"
    assert [width_of(bar(share, 10)) for share in (0, 0.001, 0.5, 1, 7)] == [10] * 5
