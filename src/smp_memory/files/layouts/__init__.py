"""Four ways to arrange the same memories in files. Each layout is imported only when a store uses it."""

from __future__ import annotations

import os

from smp_memory.errors import InvalidConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.layouts.layout import Layout

NAMES = ("jsonl", "markdown", "single", "log")
JOURNAL = os.path.join(".smp", "journal.json")  # plan of a conversion to another layout


def layout_named(name: str) -> Layout:
    if name == "markdown":
        from smp_memory.files.layouts.markdown import MarkdownLayout  # with the codecs of Markdown and YAML

        return MarkdownLayout()
    from smp_memory.files.layouts.layout import JsonlLayout, LogLayout, SingleLayout

    for layout in (JsonlLayout, LogLayout, SingleLayout):
        if layout.name == name:
            return layout()
    raise InvalidConfig(f"layout: {name!r} is not a layout. Use one of: {', '.join(NAMES)}.", field="layout")
