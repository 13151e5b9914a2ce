"""HTML elements escape their text, whatever it contains."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from smp_memory.integrations.web.html import Html, el, join, url, visible


def test_text_and_attributes_are_escaped() -> None:
    assert el("a", "<b>&", href='/x?a=1&b="2"') == '<a href="/x?a=1&amp;b=&quot;2&quot;">&lt;b&gt;&amp;</a>'


def test_elements_inside_elements_stand_as_they_are() -> None:
    assert el("p", el("b", "x"), " and ", [el("i", "y"), None]) == "<p><b>x</b> and <i>y</i></p>"


def test_void_elements_have_no_end_tag() -> None:
    assert (
        el("input", type="checkbox", checked=True, disabled=False, data_live=None) == '<input type="checkbox" checked>'
    )


@given(st.text())
def test_no_text_becomes_markup(text: str) -> None:
    made = el("p", text, title=text)
    inside = made.removeprefix("<p").removesuffix("</p>")
    assert inside.count("<") == 0
    assert inside.count(">") == 1
    assert inside.count('"') == 2


@given(st.text())
def test_no_text_keeps_control_characters_or_marks_of_direction(text: str) -> None:
    shown = visible(text)
    assert not any(ord(each) < 32 and each not in "\n\t" for each in shown)
    assert not set(shown) & set("\x7f\x9b\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
    shown.encode()  # no lone surrogate


def test_escape_sequences_are_spelled_out() -> None:
    assert join("\x1b[31m") == "\\x1b[31m"


def test_parts_of_an_address_cannot_leave_their_place() -> None:
    assert url("/memory/{}/{}", "../../x", "a?b#c/d") == "/memory/..%2F..%2Fx/a%3Fb%23c%2Fd"
    assert url("/search", q="a b&c", tag=["x", "y"], sort="") == "/search?q=a+b%26c&tag=x&tag=y"


def test_html_is_not_escaped_twice() -> None:
    assert join(Html("<hr>"), join("<")) == "<hr>&lt;"
