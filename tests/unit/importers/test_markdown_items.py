"""Markdown, item by item, with lines and headings; any text is read."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from smp_memory.importers.markdown_items import date_in, front_matter, items

TEXT = """---
title: "A: b"
---
# One

A paragraph
over two lines.

## Two

Intro:
- first
  goes on
  - inner
- [x] done
- [ ] not done
1. numbered

<!-- hidden -->
<!--
- hidden, too
-->

| When | What |
|------|------|
| now  | tea  |
|      | cake |

```sh
# not a heading
- not an item
```

### Three ###

* n/a
* {{placeholder}}
* _(nothing yet)_
* last
"""


def test_items_with_their_lines_and_headings() -> None:
    found = [(item.text, item.line, item.headings[-1], item.checked) for item in items(TEXT)]
    assert found == [
        ("A paragraph\nover two lines.", 6, "One", None),
        ("first\ngoes on\n- inner", 12, "Two", None),
        ("done", 15, "Two", True),
        ("not done", 16, "Two", False),
        ("numbered", 17, "Two", None),
        ("When: now; What: tea", 26, "Two", None),
        ("What: cake", 27, "Two", None),
        ("```sh\n# not a heading\n- not an item\n```", 29, "Two", None),
        ("last", 39, "Three", None),
    ]
    assert items(TEXT)[-1].headings == ("One", "Two", "Three")


def test_front_matter_and_dates() -> None:
    assert front_matter(TEXT) == ({"title": "A: b"}, 3)
    assert front_matter("---\nnever: closed\n") == ({}, 0)
    assert date_in("on 2026-01-31 14:05, in short") == "2026-01-31T14:05"
    assert date_in("retro-2026-03-02.md") == "2026-03-02"
    assert date_in("120260-01-311") is None


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from(" -*#|`~[]x1.)<>!:\n\t\r\x0cab{}()é"), max_size=80))
def test_any_text_is_read_and_lines_fit(text: str) -> None:
    lines = text.splitlines()
    for item in items(text):
        assert 1 <= item.line <= len(lines)
        assert item.text.strip()
