"""What did the developer and the reviewer note in a story? "Dev Agent Record" and "QA Results", of all versions of BMAD.

Completion notes are learnings of the developer, what QA found are findings; which model was used and which files were
touched is left out, as is the rest of the story, which is a plan and not a memory. What was found in a story that is done
counts as resolved, unless its box is empty.
"""

from __future__ import annotations

import posixpath

from smp.importers.found import Found, Source
from smp.importers.markdown_items import Item, front_matter, items

SECTIONS = ("dev agent record", "qa results", "senior developer review")
_LEFT_OUT = ("agent model", "file list", "change log", "context reference")


def read_story(source: Source) -> list[Found]:
    title = front_matter(source.text)[0].get("title") or _title(source)
    done = _status(source) in ("done", "completed", "accepted")
    found = []
    for item in items(source.text):
        section = next((name for name in SECTIONS if item.is_below(name)), None)
        if section is not None and not item.is_below(*_LEFT_OUT):
            found.append(_as_found(item, section, title, done))
    return found


def _as_found(item: Item, section: str, title: str, done: bool) -> Found:
    by_dev = section == "dev agent record"
    fields = {
        "author": "dev" if by_dev else "qa",
        "topic": title,
        "tags": ["bmad", "bmad.story"],
        "section": item.heading,
    }
    if by_dev and not item.is_below("debug"):
        return Found("learning", {**fields, "learning": item.text, "category": "completion note"}, item.line, item.text)
    status = "resolved" if item.checked or (done and item.checked is None) else "open"
    known = {**fields, "finding": item.text, "category": "debug" if by_dev else "qa", "status": status}
    return Found("finding", known, item.line, item.text, None, "status")


def _title(source: Source) -> str:
    first = next((line.strip("# ") for line in source.lines if line.startswith("# ")), "")
    return first or posixpath.basename(source.name).removesuffix(".md")


def _status(source: Source) -> str:
    """Of the story: in its front matter, as `Status: done`, or below a heading."""
    said = front_matter(source.text)[0].get("status", "")
    for number, line in enumerate(source.lines):
        name, colon, value = line.strip("#*- ").partition(":")
        if said or name.strip().lower() != "status":
            continue
        below = next((each for each in source.lines[number + 1 : number + 4] if each.strip()), "")
        said = value if colon and value.strip() else below if line.startswith("#") else ""
    return said.strip("*_` ").lower()
