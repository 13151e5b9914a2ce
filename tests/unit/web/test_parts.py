"""Parts of pages that several pages show."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from smp_memory.integrations.web.html import visible
from smp_memory.integrations.web.parts import difference

WORDS = st.lists(st.sampled_from(["a", "b", " ", "\n", "word", "<b>", "&", ".", "  "]), max_size=60).map("".join)


def without(kind: str, shown: str) -> str:
    """The text of a difference without what was added or removed."""
    return unescape(re.sub(r"</?(?:ins|del)>", "", re.sub(rf"<{kind}>.*?</{kind}>", "", shown, flags=re.DOTALL)))


@given(WORDS | st.text(), WORDS | st.text())
def test_difference_holds_both_texts(before: str, after: str) -> None:
    shown = difference(before, after)
    assert without("ins", shown) == visible(before)
    assert without("del", shown) == visible(after)


def test_difference_shows_the_changed_words_only() -> None:
    assert (
        difference("Use OAuth for sign-in", "Use SAML for sign-in") == "Use <del>OAuth</del><ins>SAML</ins> for sign-in"
    )
    assert difference("same", "same") == "same"


def test_difference_of_long_repetitive_texts_is_shown_as_a_whole() -> None:
    shown = difference("a " * 3000 + "x", "b " * 3000 + "y")
    assert shown.count("<del>") == shown.count("<ins>") == 1
