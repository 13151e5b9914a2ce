"""Hooks of mkdocs: the documents beside `docs/` become pages of the site, and links to them lead there.

Links to other files of the repository (sources, tests, the plugin) have no page; they become plain text.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Any

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = {  # a file of the repository -> its page
    "README.md": "about.md",
    "SECURITY.md": "SECURITY.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    for name, page in PAGES.items():
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            files.append(File.generated(config, page, content=file.read()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Each link below the repository's root, seen from the page's place in the site."""
    place = page.file.src_uri
    source = next((name for name, here in PAGES.items() if here == place), posixpath.join("docs", place))

    def moved(found: re.Match[str]) -> str:
        mark, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        if not target or "://" in target:
            return found[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        page_there = PAGES.get(file, file.removeprefix("docs/") if file.startswith("docs/") else None)
        if page_there is None:
            return text
        return f"{mark}[{text}]({posixpath.relpath(page_there, posixpath.dirname(place) or '.')}{anchor})"

    return _LINK.sub(moved, markdown)
