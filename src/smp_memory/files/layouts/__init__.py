"""Four ways to arrange the same memories in files. Each layout is imported only when a store uses it."""

from __future__ import annotations

from smp_memory.errors import InvalidConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from smp_memory.files.layouts.layout import Layout

NAMES = ("jsonl", "markdown", "single", "log")


def layout_named(name: str) -> Layout:
    if name == "jsonl":
        from smp_memory.files.layouts.json_layouts import JsonlLayout

        return JsonlLayout()
    if name == "markdown":
        from smp_memory.files.layouts.markdown import MarkdownLayout

        return MarkdownLayout()
    if name == "single":
        from smp_memory.files.layouts.json_layouts import SingleLayout

        return SingleLayout()
    if name == "log":
        from smp_memory.files.layouts.json_layouts import LogLayout

        return LogLayout()
    raise InvalidConfig(f"layout: {name!r} is not a layout. Use one of: {', '.join(NAMES)}.", field="layout")
