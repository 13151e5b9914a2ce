"""What did agents write down for themselves? BMAD's sidecars, sanctums, decision logs and debug logs: Markdown, item by item.

What an item is follows from the headings above it, else from the file: below "Preferences" a preference, below "Decisions" a
decision, below "Open questions" an open finding, else what that kind of file usually holds. Instructions and personas are
not memories but things that were made: each such file becomes one artifact.
"""

from __future__ import annotations

import posixpath

from smp.importers.found import Found, Source
from smp.importers.markdown_items import Item, date_in, items

_WHOLE = ("instructions", "access-boundaries", "index", "persona", "creed", "capabilities", "readme")
_OF_THE_USER = ("bond", "preferences")
_BY_HEADING = (
    (("decision", "decided"), "decision"),
    (("preference",), "preference"),
    (
        ("question", "open item", "todo", "to do", "next step", "follow-up", "blocker", "issue", "risk", "bug"),
        "finding",
    ),
    (("lesson", "learn", "pattern", "insight"), "learning"),
)


def read_sidecar(source: Source) -> list[Found]:
    """`<agent>-sidecar/…`: what an agent of 6.0 to 6.8 remembers."""
    folders = source.name.split("/")
    agent = next((part.removesuffix("-sidecar") for part in folders if part.endswith("-sidecar")), None)
    return _of_agent(source, agent, "sidecar")


def read_sanctum(source: Source) -> list[Found]:
    """`_bmad/memory/<agent>/…`: what an agent made with BMAD's builder remembers; each session there is a summary."""
    parts = source.name.split("/")
    agent = parts[2] if len(parts) > 3 else None
    if "sessions" in parts:
        when = date_in(posixpath.basename(source.name))
        return _whole(source, "summary", "summary", agent, "sanctum", when)
    return _of_agent(source, agent, "sanctum")


def read_decision_log(source: Source) -> list[Found]:
    return noted(source, "decision", "decision-log")


def read_debug_log(source: Source) -> list[Found]:
    return noted(source, "finding", "debug-log", "dev")


def _of_agent(source: Source, agent: str | None, tag: str) -> list[Found]:
    stem = posixpath.basename(source.name).partition(".")[0].lower()
    if stem in _WHOLE:
        return _whole(source, "artifact", "content", agent, tag)
    return noted(source, "preference" if stem in _OF_THE_USER else "learning", tag, agent)


def noted(source: Source, usual: str, tag: str, author: str | None = None) -> list[Found]:
    """Every item as a memory of the type that its headings, or else the file, speak of."""
    found = []
    for item in items(source.text):
        type = next((type for words, type in _BY_HEADING if item.is_below(*words)), usual)
        found.append(as_memory(item, type, tag, author))
    if source.lines and not found and source.text.strip():
        source.cannot_read(1, "nothing in it that could be remembered")
    return found


def as_memory(item: Item, type: str, tag: str, author: str | None = None) -> Found:
    fields = {"author": author, "topic": item.heading or None, "tags": ["bmad", f"bmad.{tag}"]}
    if type == "finding":
        fields |= {"finding": item.text, "category": tag, "status": "resolved" if item.checked else "open"}
    elif type == "learning":
        fields |= {"learning": item.text, "category": tag}
    else:
        fields[type] = item.text  # a decision's decision, a preference's preference
    when = date_in(item.text[:24]) or date_in(" ".join(reversed(item.headings)))
    return Found(type, fields, item.line, f"{type} {item.text}", when, "status" if type == "finding" else "")


def _whole(source: Source, type: str, field: str, agent: str | None, tag: str, when: str | None = None) -> list[Found]:
    if not source.text.strip():
        return []
    name = posixpath.basename(source.name)
    fields = {"author": agent, "tags": ["bmad", f"bmad.{tag}"], field: source.text}
    if type == "artifact":
        fields |= {"name": f"{agent}: {name}" if agent else name, "path": source.name, "format": "markdown"}
    return [Found(type, fields, 1, f"whole {name}", when, field if type == "artifact" else "")]
